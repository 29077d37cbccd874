//! The Payment transaction (clause 2.5).

use super::customer::Sought;
use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::strings::decimal;
use crate::tpcc::transaction::{HomeTerminal, Row, Transaction, other_warehouse};

/// Statements, by their numbers in `statements::PAYMENT`; also the step that was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
enum Step {
    /// BEGIN.
    Begin = 0,
    /// W_YTD grows; name and address.
    Warehouse,
    /// D_YTD grows; name and address.
    District,
    /// All customers with the last name, if the lookup is by name.
    ByName,
    /// The customer pays; with bad credit, the payment goes into C_DATA too.
    Customer,
    /// The row of HISTORY.
    History,
    /// COMMIT.
    Commit,
    /// Nothing has been sent yet, or everything has.
    #[default]
    Rest,
}

/// A Payment transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payment {
    d_id: u32,
    customer: Sought,
    is_remote: bool,
    /// The amount in cents.
    amount: u64,
    // State of the current try.
    step: Step,
    /// H_DATA: the names of warehouse and district, four spaces between them.
    data: Vec<u8>,
}

impl Payment {
    /// A payment by customer number, at home.
    pub(crate) fn given(w_id: u32, d_id: u32, c_id: u32, cents: u64) -> Payment {
        Payment { d_id, customer: Sought::given(w_id, d_id, c_id), amount: cents, ..Payment::default() }
    }
}

impl Transaction for Payment {
    fn draw(&mut self, prng: &mut Prng, home: &HomeTerminal) {
        self.d_id = prng.uint64_range(1, 10) as u32; // 2.5.1.2
        // 2.5.1.2: 85 % of the customers are at home, the others in any district of another warehouse.
        let is_away = prng.uint64_range(1, 100) > 85;
        let other = if is_away { other_warehouse(prng, home) } else { None };
        self.is_remote = other.is_some();
        self.customer.w_id = other.unwrap_or(home.w_id);
        self.customer.d_id = if is_away { prng.uint64_range(1, 10) as u32 } else { self.d_id };
        self.customer.draw(prng, home);
        self.amount = prng.uint64_range(100, 500_000); // 2.5.1.3
    }

    fn begin(&mut self) {
        self.step = Step::Rest;
        self.customer.begin();
    }

    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str> {
        self.step = match self.step {
            Step::Rest => Step::Begin,
            Step::Begin => Step::Warehouse,
            Step::Warehouse if n_rows == 1 => Step::District,
            Step::Warehouse => return Err("the home warehouse"),
            Step::District if n_rows != 1 => return Err("the district"),
            Step::District if self.customer.by_name.is_some() => Step::ByName,
            Step::District => Step::Customer,
            Step::ByName => {
                self.customer.choose()?;
                Step::Customer
            }
            Step::Customer if n_rows == 1 => Step::History,
            Step::Customer => return Err("the customer"),
            Step::History => Step::Commit,
            Step::Commit => return Ok(None),
        };
        Ok(Some(self.step as usize))
    }

    fn take_row(&mut self, mut row: Row) -> Option<()> {
        match self.step {
            Step::Warehouse => {
                self.data.clear();
                self.data.extend_from_slice(row.next()??);
            }
            Step::District => {
                self.data.extend_from_slice(b"    ");
                self.data.extend_from_slice(row.next()??);
            }
            Step::ByName => self.customer.take(&mut row)?,
            _ => {}
        }
        Some(())
    }

    fn parameter(&self, home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        match parameter {
            TerminalParameter::WId => write_uint(out, home.w_id.into()),
            TerminalParameter::DId => write_uint(out, self.d_id.into()),
            TerminalParameter::HAmount => decimal(out, self.amount, 2),
            TerminalParameter::HData => out.extend_from_slice(&self.data),
            other => return self.customer.parameter(other, out),
        }
        true
    }

    fn add_facts(&self, facts: &mut [u64]) {
        facts[0] += u64::from(self.is_remote);
        facts[1] += u64::from(self.customer.by_name.is_some());
    }
}
