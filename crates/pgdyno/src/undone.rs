//! What became of values of the operating system that a run had set.

use host::Undone;

use crate::say;

/// Says what became of values of the operating system.
pub(crate) fn report_undone(undone: &[Undone]) {
    for value in undone {
        match experiment::stage::os::problem(value) {
            Some(problem) => say(&format!("not put back: {problem}")),
            None => say(&format!("put back `{}` to {}", value.path, value.now)),
        }
    }
}
