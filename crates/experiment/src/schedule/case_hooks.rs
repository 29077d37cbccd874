//! The user's commands between runs of different cases: the old case's `after_case`, then the new one's `before_case`.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::hooks::Hook;
use model::run::RunRecord;
use model::run::hooks::HookRecord;
use store::ExperimentDir;

use crate::run::hooks::{self, Occasion};
use crate::site::pending_undo::PendingUndo;
use crate::site::progress::Watch;

/// Calls the commands around cases, and knows what is still due.
pub(crate) struct CaseHooks<'a> {
    dir: &'a ExperimentDir,
    stop: &'a AtomicBool,
    pending_undo: &'a PendingUndo,
    open: Option<Open<'a>>,
}

/// A case whose `before_case` was called, and whose `after_case` is still due.
struct Open<'a> {
    case: &'a Case,
    /// Number of its last run, which may have no record yet.
    run: u32,
    /// `before_case` has succeeded, if there is one.
    is_set: bool,
    last: Option<RunRecord>,
}

impl<'a> CaseHooks<'a> {
    pub(crate) fn new(
        dir: &'a ExperimentDir,
        stop: &'a AtomicBool,
        pending_undo: &'a PendingUndo,
    ) -> CaseHooks<'a> {
        CaseHooks { dir, stop, pending_undo, open: None }
    }

    /// Calls the commands that are due before a run of `case`; returns those of this case. A `before_case` that failed
    /// before the last run is called again: no run is measured before it has succeeded.
    ///
    /// # Errors
    /// When the record of the last run cannot be written.
    pub(crate) fn enter(&mut self, case: &'a Case, run: u32, watch: &mut Watch) -> Result<Vec<HookRecord>> {
        if let Some(open) = self.open.as_mut().filter(|open| open.is_set && open.case.id == case.id) {
            open.run = run;
            return Ok(Vec::new());
        }
        self.leave(watch)?;
        let called: Vec<HookRecord> = self.occasion(case, run).call(Hook::BeforeCase).into_iter().collect();
        let is_set = hooks::failure(&called).is_none();
        self.open = Some(Open { case, run, is_set, last: None });
        Ok(called)
    }

    /// Keeps the record of a run of this case: what is called after it is added there.
    pub(crate) fn made(&mut self, record: &RunRecord) {
        if let Some(open) = &mut self.open {
            open.last = Some(record.clone());
        }
    }

    /// Calls what is due after the last case, if there was one, whether or not a run of it could be recorded.
    ///
    /// # Errors
    /// As [`CaseHooks::enter`].
    pub(crate) fn leave(&mut self, watch: &mut Watch) -> Result<()> {
        let Some(Open { case, run, last, .. }) = self.open.take() else { return Ok(()) };
        let called = self.occasion(case, run).put_back(Hook::AfterCase, watch);
        let (Some(called), Some(mut last)) = (called, last) else { return Ok(()) };
        last.hooks.push(called);
        self.dir.amend_record(&last)
    }

    fn occasion(&self, case: &'a Case, run: u32) -> Occasion<'a> {
        Occasion { case, run, results_dir: self.dir.path(), stop: self.stop, pending_undo: self.pending_undo }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;
    use crate::site::pending_undo::Owed;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_case_is_not_measured_before_its_hook_has_succeeded() {
        let place = tempfile::tempdir().unwrap();
        // Fails at the first call only.
        let (tried, put_back) = (place.path().join("tried"), place.path().join("put_back"));
        let before = format!("test -e {0} || {{ touch {0}; exit 3; }}", tried.display());
        let after = format!("echo $PGDYNO_RUN >> {}", put_back.display());
        let plan = sample::plan(&format!(
            "repeats = 3\n[hooks]\nbefore_case = [\"sh\", \"-c\", {before:?}]\nafter_case = [\"sh\", \"-c\", {after:?}]"
        ));
        let dir = ExperimentDir::create(&place.path().join("out"), &plan, "").unwrap();
        let pending_undo = PendingUndo::new();
        let mut hooks = CaseHooks::new(&dir, &GO_ON, &pending_undo);
        let codes: Vec<Vec<Option<i32>>> = plan
            .runs
            .iter()
            .map(|spec| {
                let called = hooks.enter(&plan.cases[0], spec.run, &mut |_| {}).unwrap();
                let record = RunRecord::new(spec.clone(), plan.cases[0].clone(), "0");
                let writer = dir.begin_run(spec.run).unwrap();
                writer.write_record(&record).unwrap();
                hooks.made(&record);
                called.iter().map(|called| called.exit_code).collect()
            })
            .collect();
        assert_eq!(pending_undo.all(), [Owed::Hook(Hook::AfterCase)]);
        hooks.leave(&mut |_| {}).unwrap();
        assert!(pending_undo.all().is_empty());
        assert_eq!(codes, [vec![Some(3)], vec![Some(0)], vec![]]);
        assert_eq!(std::fs::read_to_string(&put_back).unwrap(), "1\n3\n", "also after the one that failed");
    }
}
