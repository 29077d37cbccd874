//! What makes a statement of one run that of another: its script, and its text.

use crate::summary::{RunSummary, StatementExecutions};

/// A statement: of scripts of one name, the nth; in it, of statements with the same first line, the nth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatementKey<'a> {
    pub(super) script: &'a str,
    nth_script: usize,
    pub(super) label: &'a str,
    nth_label: usize,
    /// Its index in the script of the run that it was found in first.
    pub(super) index: usize,
}

impl<'a> StatementKey<'a> {
    fn new(run: &'a RunSummary, of: &'a StatementExecutions) -> StatementKey<'a> {
        let is_before = |other: &&StatementExecutions| other.index < of.index && other.script == of.script;
        let before = run.executions.iter().filter(is_before);
        StatementKey {
            script: &of.script_name,
            nth_script: nth_script(run, of.script),
            label: &of.label,
            nth_label: before.filter(|other| other.label == of.label).count(),
            index: of.index,
        }
    }

    fn is_same(&self, other: &StatementKey) -> bool {
        (self.script, self.nth_script, self.label, self.nth_label)
            == (other.script, other.nth_script, other.label, other.nth_label)
    }

    /// The executions of the statement in a run.
    pub(super) fn find(&self, run: &'a RunSummary) -> Option<&'a StatementExecutions> {
        let named =
            run.executions.iter().filter(|of| of.script_name == self.script && of.label == self.label);
        let mut same_script = named.filter(|of| nth_script(run, of.script) == self.nth_script);
        same_script.nth(self.nth_label)
    }
}

/// How many scripts of the same name are before this one.
fn nth_script(run: &RunSummary, script: usize) -> usize {
    let Some(own) = run.scripts.get(script) else { return 0 };
    run.scripts.iter().take(script).filter(|other| other.name == own.name).count()
}

/// All statements that ran, in the order of the first run that has each.
pub(super) fn of_runs<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> Vec<StatementKey<'a>> {
    let mut keys: Vec<StatementKey> = Vec::new();
    for run in runs {
        for of in run.executions.iter().filter(|of| of.n > 0 || !of.errors.is_empty()) {
            let key = StatementKey::new(run, of);
            if !keys.iter().any(|known| known.is_same(&key)) {
                keys.push(key);
            }
        }
    }
    keys
}
