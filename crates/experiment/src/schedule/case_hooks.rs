//! The user's commands between runs of different cases: the old case's `after_case`, then the new one's `before_case`.

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::hooks::Hook;
use model::run::RunRecord;
use model::run::hooks::HookRecord;

use crate::run::hooks::{self, Occasion};
use crate::schedule::conduct::Order;
use crate::site::progress::{Progress, Watch};

/// The case of the last run, whose `after_case` is still due.
pub(crate) struct CaseHooks<'a> {
    order: Order<'a>,
    case: Option<&'a Case>,
    last: Option<RunRecord>,
}

impl<'a> CaseHooks<'a> {
    pub(crate) fn of(order: &Order<'a>) -> CaseHooks<'a> {
        CaseHooks { order: *order, case: None, last: None }
    }

    /// Calls the commands that are due before a run of `case`; returns those of this case.
    ///
    /// # Errors
    /// When the record of the last run cannot be written.
    pub(crate) fn enter(&mut self, case: &'a Case, run: u32, watch: &mut Watch) -> Result<Vec<HookRecord>> {
        if self.case.is_some_and(|open| open.id == case.id) {
            return Ok(Vec::new());
        }
        self.leave(watch)?;
        self.case = Some(case);
        Ok(self.occasion(case, run).call(Hook::BeforeCase).into_iter().collect())
    }

    /// Keeps the record of a run of this case: what is called after it is added there.
    pub(crate) fn made(&mut self, record: &RunRecord) {
        self.last = Some(record.clone());
    }

    /// Calls what is due after the last case, if there was one.
    ///
    /// # Errors
    /// As [`CaseHooks::enter`].
    pub(crate) fn leave(&mut self, watch: &mut Watch) -> Result<()> {
        let (Some(case), Some(mut last)) = (self.case.take(), self.last.take()) else { return Ok(()) };
        let Some(called) = self.occasion(case, last.spec.run).call(Hook::AfterCase) else { return Ok(()) };
        if let Some(reason) = hooks::failure(std::slice::from_ref(&called)) {
            watch(Progress::Note(reason));
        }
        last.hooks.push(called);
        self.order.dir.amend_record(&last)
    }

    fn occasion(&self, case: &'a Case, run: u32) -> Occasion<'a> {
        Occasion { case, run, results_dir: self.order.dir.path(), stop: self.order.site.stop }
    }
}
