//! Transactions of a session: where one ends and the next begins.

pub mod cutter;
pub mod traced;

use crate::balance::{OmissionReason, TimeShare};
use crate::statement::SlotValue;

/// A statement of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutStep {
    /// Number of its form.
    pub form: u32,
    /// Values.
    pub values: Box<[SlotValue]>,
    /// When it began, microseconds since 1970 UTC.
    pub start_us: i64,
    /// Its time, that of parsing and binding included.
    pub time_us: u64,
    /// Its part of the balance; nothing if it was executed outside of the window.
    pub share: TimeShare,
    /// Whether it began within the window.
    pub is_inside: bool,
    /// SQLSTATE if it failed.
    pub error: Option<[u8; 5]>,
    /// Whether values are missing.
    pub lacks_values: bool,
    /// Its place among all statements of the log: a row's next writer is logged after the one before it.
    pub number: u64,
}

/// A transaction, whole or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTransaction {
    /// Number of its session.
    pub session: u32,
    /// Statements.
    pub steps: Vec<CutStep>,
    /// Whether it begins with `BEGIN`.
    pub is_block: bool,
}

impl CutTransaction {
    /// When it began.
    pub fn began_us(&self) -> i64 {
        self.steps.first().map_or(0, |step| step.start_us)
    }

    /// When its last statement ended.
    pub fn ended_us(&self) -> i64 {
        self.steps.last().map_or(0, |step| step.start_us.saturating_add_unsigned(step.time_us))
    }

    /// The first error that is not one of the transaction's being over.
    pub fn error(&self) -> Option<[u8; 5]> {
        self.steps.iter().find_map(|step| step.error)
    }
}

/// A transaction that is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is whole.
    Whole(CutTransaction),
    /// It is left out.
    LeftOut(OmissionReason, CutTransaction),
}
