//! What writes wait for: where two transactions wrote one key, the later one took effect after the earlier one had ended. The log shows it
//! for statements that name their row by equality; others have no gate.

mod written;

use std::collections::{BTreeMap, HashMap};

use model::directory::trace::TRACE_GATES_MAX;

use crate::directory::trace::gates::written::{Write, Written};
use crate::forms::Forms;
use crate::role::FormFacts;
use crate::transaction::CutTransaction;

/// How long after a write its predecessor's end may be logged: a session is awake before the other has written its line.
const LATE_US: i64 = 5_000;
/// Most writers of a key that are remembered: those that the last one did not wait for.
const WRITERS_MAX: usize = 8;

/// A writer of a key.
#[derive(Clone, Copy)]
struct Writer {
    transaction: u32,
    is_delete: bool,
}

/// The transactions that each statement of each transaction waits for.
pub(super) fn gates(
    transactions: &[CutTransaction],
    forms: &Forms,
    facts: &BTreeMap<u32, FormFacts>,
) -> Vec<Vec<Vec<u32>>> {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (number, one) in transactions.iter().enumerate() {
        order.extend(one.steps.iter().enumerate().map(|(at, step)| (step.number, number, at)));
    }
    order.sort_unstable();
    let mut known: HashMap<u32, Option<Written>> = HashMap::new();
    let mut writers: HashMap<u64, Vec<Writer>> = HashMap::new();
    let mut found: Vec<Vec<Vec<u32>>> =
        transactions.iter().map(|one| vec![Vec::new(); one.steps.len()]).collect();
    for (_, number, at) in order {
        let step = &transactions[number].steps[at];
        let written = known
            .entry(step.form)
            .or_insert_with(|| Written::from_form(forms.form(step.form), facts.get(&step.form)));
        let Some(written) = written else { continue };
        for key in written.keys(&step.values) {
            let all = writers.entry(key).or_default();
            all.retain(|before| {
                let of_step = Before { transactions, before, number, at };
                let waits = of_step.is_waited_for(written.write);
                let gates = &mut found[number][at];
                if waits && !gates.contains(&before.transaction) && gates.len() < TRACE_GATES_MAX {
                    gates.push(before.transaction);
                }
                // The next writer need not wait for whom this one has waited for. The others may still come before it.
                !(waits || of_step.is_of_session())
            });
            if all.len() == WRITERS_MAX {
                all.remove(0);
            }
            all.push(Writer { transaction: number as u32, is_delete: written.write == Write::Removes });
        }
    }
    found
}

/// A writer of a key, and the statement that writes it next.
struct Before<'a> {
    transactions: &'a [CutTransaction],
    before: &'a Writer,
    number: usize,
    at: usize,
}

impl Before<'_> {
    fn other(&self) -> &CutTransaction {
        &self.transactions[self.before.transaction as usize]
    }

    /// A session keeps its own order.
    fn is_of_session(&self) -> bool {
        self.other().session == self.transactions[self.number].session
    }

    fn is_waited_for(&self, write: Write) -> bool {
        if self.is_of_session() || write == Write::Adds && !self.before.is_delete {
            return false;
        }
        let (other, own) = (self.other(), &self.transactions[self.number]);
        let step = &own.steps[self.at];
        let end = |one: &CutTransaction| one.steps.last().map_or(0, |step| step.number);
        // Who ended later was no writer of the same row, whatever the statement says.
        end(other) < end(own)
            && other.ended_us() <= step.start_us.saturating_add_unsigned(step.time_us) + LATE_US
    }
}
