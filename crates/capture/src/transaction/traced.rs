//! Whole transactions one by one, for a trace: all of them or none, within a bound of memory.

use crate::statement::SlotValue;
use crate::transaction::{CutStep, CutTransaction};

/// Bytes of all transactions in memory, about.
const BYTES_MAX: usize = 1 << 30;

/// The transactions of a window that can be replayed.
#[derive(Debug, Default)]
pub struct TracedTransactions {
    /// In the order in which they ended.
    pub all: Vec<CutTransaction>,
    /// Whether there were more than fit into memory; then there are none.
    pub is_too_long: bool,
    n_bytes: usize,
}

impl TracedTransactions {
    /// Adds a whole transaction.
    pub(crate) fn add(&mut self, transaction: &CutTransaction) {
        if self.is_too_long {
            return;
        }
        let bytes =
            |step: &CutStep| step.values.iter().map(SlotValue::n_bytes).sum::<usize>() + size_of::<CutStep>();
        self.n_bytes += transaction.steps.iter().map(bytes).sum::<usize>() + size_of::<CutTransaction>();
        if self.n_bytes > BYTES_MAX {
            self.is_too_long = true;
            self.all = Vec::new();
            return;
        }
        self.all.push(transaction.clone());
    }
}
