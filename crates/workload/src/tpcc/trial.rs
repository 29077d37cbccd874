//! A transaction with chosen inputs, one statement at a time: the tests of clause 3 stop it where they need to.
//!
//! It is the same state machine and the same SQL that a [`Terminal`](super::Terminal) runs with `calls = statements`.
//! Sending, waiting and judging are the caller's.

use super::config::{Calls, Think, TpccConfig};
use super::parameter::{self, TerminalParameter};
use super::programs::{TransactionProfile, statements_of};
use super::transaction::{HomeTerminal, Transaction};
use super::{Constants, UNUSED_ITEM};
use crate::objects::schema::Schema;
use crate::random::Prng;
use crate::script::statement::Statement;
use crate::tpcc::transaction::delivery::DeliveryTransaction;
use crate::tpcc::transaction::new_order::NewOrder;
use crate::tpcc::transaction::order_status::OrderStatus;
use crate::tpcc::transaction::payment::Payment;

/// The inputs of a New-Order (clause 2.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderInputs {
    /// Home warehouse.
    pub w_id: u32,
    /// District.
    pub d_id: u32,
    /// Customer.
    pub c_id: u32,
    /// 5 to 15 lines. An unused item in the last one rolls the order back.
    pub lines: Vec<OrderedItem>,
}

/// One line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedItem {
    /// OL_I_ID.
    pub i_id: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: u32,
    /// OL_QUANTITY.
    pub quantity: u32,
}

impl NewOrderInputs {
    /// Draws an order of warehouse `w_id` as a terminal does.
    pub fn draw(prng: &mut Prng, warehouses: u32, w_id: u32, constants: Constants) -> NewOrderInputs {
        let home = HomeTerminal { w_id, ..home(warehouses, constants) };
        let mut new_order = NewOrder::default();
        new_order.draw(prng, &home);
        new_order.order(w_id)
    }

    /// Whether it will be rolled back (clause 2.4.1.4).
    pub fn is_undone(&self) -> bool {
        self.lines.last().is_some_and(|line| line.i_id == UNUSED_ITEM)
    }
}

/// A statement to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialStatement {
    /// Text with `$1`, `$2` and so on.
    pub sql: String,
    /// Values as text, `None` for NULL.
    pub params: Vec<Option<String>>,
}

impl TrialStatement {
    /// Whether it closes the transaction.
    pub fn is_end(&self) -> bool {
        matches!(self.sql.as_str(), "commit" | "rollback")
    }
}

/// A transaction that runs statement by statement.
pub struct Trial {
    schema: Schema,
    home: HomeTerminal,
    statements: Vec<Statement>,
    transaction: Box<dyn Transaction + Send>,
    /// Rows of the last statement's result.
    n_rows: u32,
}

impl Trial {
    /// A New-Order.
    pub fn new_order(schema: &Schema, order: &NewOrderInputs) -> Trial {
        Trial::new(schema, TransactionProfile::NewOrder, order.w_id, NewOrder::given(order))
    }

    /// A Payment of `cents` by the customer `c_id` of district `d_id` at home.
    pub fn payment(schema: &Schema, w_id: u32, d_id: u32, c_id: u32, cents: u64) -> Trial {
        Trial::new(schema, TransactionProfile::Payment, w_id, Payment::given(w_id, d_id, c_id, cents))
    }

    /// An Order-Status of a customer, by number.
    pub fn order_status(schema: &Schema, w_id: u32, d_id: u32, c_id: u32) -> Trial {
        Trial::new(schema, TransactionProfile::OrderStatus, w_id, OrderStatus::given(w_id, d_id, c_id))
    }

    /// A Delivery of a warehouse's oldest orders.
    pub fn delivery(schema: &Schema, w_id: u32, carrier_id: u32) -> Trial {
        Trial::new(schema, TransactionProfile::Delivery, w_id, DeliveryTransaction::given(carrier_id))
    }

    fn new(
        schema: &Schema,
        profile: TransactionProfile,
        w_id: u32,
        transaction: impl Transaction + Send + 'static,
    ) -> Trial {
        let home = HomeTerminal { w_id, ..home(w_id, Constants::for_load(0)) };
        let mut variables = parameter::table();
        let statements = statements_of(profile, &home.config, schema, &mut variables);
        Trial { schema: schema.clone(), home, statements, transaction: Box::new(transaction), n_rows: 0 }
    }

    /// The schema that its statements name.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Starts over with the same inputs.
    pub fn rewind(&mut self) {
        self.n_rows = 0;
        self.transaction.begin();
    }

    /// The next statement, `None` after the one that closes the transaction.
    ///
    /// # Errors
    /// The data that is missing from the database.
    pub fn statement(&mut self) -> Result<Option<TrialStatement>, &'static str> {
        let n_rows = std::mem::take(&mut self.n_rows);
        let Some(at) = self.transaction.next(n_rows)? else { return Ok(None) };
        let statement = &self.statements[at];
        let value = |id: &crate::VariableId| {
            let mut text = Vec::new();
            let is_there =
                self.transaction.parameter(&self.home, TerminalParameter::from_variable(*id), &mut text);
            is_there.then(|| String::from_utf8_lossy(&text).into_owned())
        };
        let params = statement.parameters.iter().map(value).collect();
        Ok(Some(TrialStatement { sql: statement.text.clone(), params }))
    }

    /// Takes in a row of the statement handed out last.
    ///
    /// # Errors
    /// When the row is not what the statement returns.
    pub fn take_row(&mut self, row: &[Option<String>]) -> Result<(), &'static str> {
        self.n_rows += 1;
        let mut values = row.iter().map(|value| value.as_deref().map(str::as_bytes));
        self.transaction.take_row(&mut values).ok_or("a row of the columns asked for")
    }
}

fn home(warehouses: u32, constants: Constants) -> HomeTerminal {
    let config = TpccConfig { warehouses, calls: Calls::Statements, think: Think::None, constants };
    HomeTerminal { config, w_id: 1, d_id: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_order_runs_with_its_inputs() {
        let mut prng = Prng::seed(3);
        let order = NewOrderInputs::draw(&mut prng, 4, 3, Constants::for_load(1));
        assert!((5..=15).contains(&order.lines.len()) && order.w_id == 3, "{order:?}");
        let mut trial = Trial::new_order(&Schema::searched(), &order);
        trial.rewind();
        assert_eq!(
            trial.statement().unwrap().unwrap(),
            TrialStatement { sql: "begin".to_owned(), params: vec![] }
        );
        let warehouse = trial.statement().unwrap().unwrap();
        assert_eq!(warehouse.params, [Some("3".to_owned())]);
        assert!(!warehouse.is_end());
        // It has not received the row of the warehouse.
        assert_eq!(trial.statement(), Err("the home warehouse"));
    }

    #[test]
    fn one_order_in_a_hundred_is_undone() {
        let mut prng = Prng::seed(5);
        let undone = (0..20_000).filter(|_| {
            let order = NewOrderInputs::draw(&mut prng, 1, 1, Constants::for_load(1));
            order.is_undone()
        });
        let n = undone.count();
        assert!((140..=260).contains(&n), "{n} of 20000");
    }
}
