//! The Stock-Level transaction (clause 2.8).

use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::transaction::{HomeTerminal, Row, Transaction, number};

/// Statements, by their numbers in `statements::STOCK_LEVEL`; also the step that was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
enum Step {
    /// BEGIN.
    Begin = 0,
    /// D_NEXT_O_ID.
    District,
    /// Items of the last 20 orders with a stock below the threshold.
    Count,
    /// COMMIT.
    Commit,
    /// Nothing has been sent yet, or everything has.
    #[default]
    Rest,
}

/// A Stock-Level transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct StockLevel {
    threshold: u32,
    // State of the current try.
    step: Step,
    next_o_id: u32,
}

impl Transaction for StockLevel {
    fn draw(&mut self, prng: &mut Prng, _home: &HomeTerminal) {
        self.threshold = prng.uint64_range(10, 20) as u32; // 2.8.1.2
    }

    fn begin(&mut self) {
        self.step = Step::Rest;
    }

    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str> {
        self.step = match self.step {
            Step::Rest => Step::Begin,
            Step::Begin => Step::District,
            Step::District if n_rows == 1 => Step::Count,
            Step::District => return Err("the district"),
            Step::Count => Step::Commit,
            Step::Commit => return Ok(None),
        };
        Ok(Some(self.step as usize))
    }

    fn take_row(&mut self, mut row: Row) -> Option<()> {
        if self.step == Step::District {
            self.next_o_id = number(&mut row)?;
        }
        Some(())
    }

    fn parameter(&self, home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        let value = match parameter {
            TerminalParameter::WId => home.w_id,
            TerminalParameter::DId => home.d_id,
            TerminalParameter::OId => self.next_o_id,
            TerminalParameter::Threshold => self.threshold,
            _ => return false,
        };
        write_uint(out, value.into());
        true
    }

    fn add_facts(&self, _facts: &mut [u64]) {}
}
