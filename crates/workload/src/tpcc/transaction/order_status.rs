//! The Order-Status transaction (clause 2.6).

use super::customer::Sought;
use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::transaction::{HomeTerminal, Row, Transaction, number};

/// Statements, by their numbers in `statements::ORDER_STATUS`; also the step that was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
enum Step {
    /// BEGIN.
    Begin = 0,
    /// All customers with the last name, with the columns that are shown.
    ByName,
    /// The customer, by number.
    ById,
    /// The customer's last order.
    Order,
    /// Lines of the order.
    Lines,
    /// COMMIT.
    Commit,
    /// Nothing has been sent yet, or everything has.
    #[default]
    Rest,
}

/// An Order-Status transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderStatus {
    customer: Sought,
    // State of the current try.
    step: Step,
    o_id: u32,
}

impl OrderStatus {
    /// An Order-Status of the customer with this number.
    pub(crate) fn given(w_id: u32, d_id: u32, c_id: u32) -> OrderStatus {
        OrderStatus { customer: Sought::given(w_id, d_id, c_id), ..OrderStatus::default() }
    }
}

impl Transaction for OrderStatus {
    fn draw(&mut self, prng: &mut Prng, home: &HomeTerminal) {
        self.customer.w_id = home.w_id;
        self.customer.d_id = prng.uint64_range(1, 10) as u32; // 2.6.1.2
        self.customer.draw(prng, home);
    }

    fn begin(&mut self) {
        self.step = Step::Rest;
        self.customer.begin();
    }

    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str> {
        self.step = match self.step {
            Step::Rest => Step::Begin,
            Step::Begin if self.customer.by_name.is_some() => Step::ByName,
            Step::Begin => Step::ById,
            Step::ByName => {
                self.customer.choose()?;
                Step::Order
            }
            Step::ById if n_rows == 1 => Step::Order,
            Step::ById => return Err("the customer"),
            Step::Order if n_rows == 1 => Step::Lines,
            Step::Order => return Err("the customer's last order"),
            Step::Lines => Step::Commit,
            Step::Commit => return Ok(None),
        };
        Ok(Some(self.step as usize))
    }

    fn take_row(&mut self, mut row: Row) -> Option<()> {
        match self.step {
            Step::ByName => self.customer.take(&mut row)?,
            Step::Order => self.o_id = number(&mut row)?,
            _ => {}
        }
        Some(())
    }

    fn parameter(&self, _home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        match parameter {
            TerminalParameter::OId => write_uint(out, self.o_id.into()),
            other => return self.customer.parameter(other, out),
        }
        true
    }

    fn add_facts(&self, facts: &mut [u64]) {
        facts[0] += u64::from(self.customer.by_name.is_some());
    }
}
