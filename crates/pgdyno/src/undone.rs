//! Reports whether values of the operating system were restored.

use host::Undone;

use crate::say;

/// Reports each value of the operating system that was, or was not, restored.
pub(crate) fn report_undone(undone: &[Undone]) {
    for value in undone {
        match experiment::stage::os::problem(value) {
            Some(problem) => say(&format!("not put back: {problem}")),
            None => say(&format!("put back `{}` to {}", value.path, value.now)),
        }
    }
}
