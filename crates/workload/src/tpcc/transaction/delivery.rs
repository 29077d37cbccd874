//! The Delivery transaction (clause 2.7): one business transaction that delivers the oldest order of each of the
//! ten districts, in one database transaction.

use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::DISTRICTS;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::strings::{cents, decimal};
use crate::tpcc::transaction::{HomeTerminal, Row, Transaction, number};

/// Statements, by their numbers in `statements::DELIVERY`; also the step that was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
enum Step {
    /// BEGIN.
    Begin = 0,
    /// The district's oldest row of NEW-ORDER; without one, the district is skipped.
    Oldest,
    /// Deletes that row; if another terminal has taken it meanwhile, the next oldest is looked up.
    Take,
    /// O_CARRIER_ID; the customer.
    Order,
    /// OL_DELIVERY_D of all lines; their amounts.
    Lines,
    /// The sum is added to the customer's balance.
    Customer,
    /// COMMIT.
    Commit,
    /// Nothing has been sent yet, or everything has.
    #[default]
    Rest,
}

/// A Delivery transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryTransaction {
    carrier_id: u32,
    // State of the current try.
    step: Step,
    d_id: u32,
    o_id: u32,
    c_id: u32,
    /// The amount in cents.
    amount: i64,
    n_delivered: u32,
}

impl DeliveryTransaction {
    /// A delivery by this carrier.
    pub(crate) fn given(carrier_id: u32) -> DeliveryTransaction {
        DeliveryTransaction { carrier_id, ..DeliveryTransaction::default() }
    }

    /// Goes to the next district.
    fn next_district(&mut self) -> Step {
        self.d_id += 1;
        if u64::from(self.d_id) <= DISTRICTS { Step::Oldest } else { Step::Commit }
    }
}

impl Transaction for DeliveryTransaction {
    fn draw(&mut self, prng: &mut Prng, _home: &HomeTerminal) {
        self.carrier_id = prng.uint64_range(1, 10) as u32; // 2.7.1.2
    }

    fn begin(&mut self) {
        self.step = Step::Rest;
        self.d_id = 0;
        self.n_delivered = 0;
    }

    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str> {
        self.step = match self.step {
            Step::Rest => Step::Begin,
            Step::Begin => self.next_district(),
            Step::Oldest if n_rows == 1 => Step::Take,
            Step::Oldest => self.next_district(),
            Step::Take if n_rows == 1 => Step::Order,
            Step::Take => Step::Oldest,
            Step::Order if n_rows == 1 => {
                self.amount = 0;
                Step::Lines
            }
            Step::Order => return Err("the order that is delivered"),
            Step::Lines if n_rows > 0 => Step::Customer,
            Step::Lines => return Err("the lines of the order that is delivered"),
            Step::Customer => {
                self.n_delivered += 1;
                self.next_district()
            }
            Step::Commit => return Ok(None),
        };
        Ok(Some(self.step as usize))
    }

    fn take_row(&mut self, mut row: Row) -> Option<()> {
        match self.step {
            Step::Oldest => self.o_id = number(&mut row)?,
            Step::Order => self.c_id = number(&mut row)?,
            Step::Lines => self.amount += cents(row.next()??)?,
            // A function or procedure.
            Step::Rest => self.n_delivered = number(&mut row)?,
            _ => {}
        }
        Some(())
    }

    fn parameter(&self, home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        let value = match parameter {
            TerminalParameter::WId => home.w_id,
            TerminalParameter::DId => self.d_id,
            TerminalParameter::OId => self.o_id,
            TerminalParameter::CId => self.c_id,
            TerminalParameter::Carrier => self.carrier_id,
            TerminalParameter::Amount => {
                decimal(out, self.amount.unsigned_abs(), 2);
                return true;
            }
            _ => return false,
        };
        write_uint(out, value.into());
        true
    }

    fn add_facts(&self, facts: &mut [u64]) {
        facts[0] += u64::from(self.n_delivered);
        facts[1] += DISTRICTS - u64::from(self.n_delivered);
    }
}
