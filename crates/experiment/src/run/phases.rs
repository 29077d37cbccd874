//! The phases of a run in their order: what is recorded about each, and the consequences when one fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dataset::session::STOPPED;
use dataset::session::limit;
use dataset::verify::count::StateAfterLoad;
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::plan::RunState;
use model::run::RunRecord;
use model::run::phase::{Phase, PhaseRecord};

use crate::site::clock::unix_now;
use crate::site::phase_limit;
use crate::site::progress::{ProgressEvent, Watch};
use crate::stage::pooler;

/// Facts of a phase by name.
pub(crate) type PhaseDetail = BTreeMap<String, String>;

/// Takes the steps of a run: the servers, driver and files of [`Live`](super::live::Live), or a fake in tests.
pub(crate) trait Ground {
    /// Restores the data to its initial state, and starts the server with the case's settings.
    fn restore(&mut self, watch: &mut Watch) -> Result<PhaseDetail>;
    /// Connects; returns the limit for a phase in the database that was found.
    fn connect(&mut self) -> Result<Duration>;
    /// Records server, host and data before the load.
    fn describe(&mut self, record: &mut RunRecord) -> Result<()>;
    /// Runs the statements that the case applies to its data.
    fn apply(&mut self, record: &mut RunRecord) -> Result<PhaseDetail>;
    /// Vacuums and analyzes as the case asks.
    fn vacuum(&mut self, record: &RunRecord) -> Result<PhaseDetail>;
    /// Reads the tables into memory.
    fn prewarm(&mut self, record: &mut RunRecord) -> Result<PhaseDetail>;
    /// Writes dirty pages to disk.
    fn checkpoint(&mut self) -> Result<PhaseDetail>;
    /// Waits until the server is quiet.
    fn settle(&mut self) -> Result<PhaseDetail>;
    /// Offers the load, from connecting its clients to the last answer, and records the outcome.
    fn load(&mut self, record: &mut RunRecord, watch: &mut Watch) -> Result<()>;
    /// Records the plans of the statements.
    fn explain(&mut self, record: &mut RunRecord);
    /// Counts rows after the load.
    fn count(&mut self, record: &RunRecord) -> Result<StateAfterLoad>;
    /// Takes in what others measured during the load.
    fn import(&mut self, record: &mut RunRecord) -> Result<()>;
    /// Stores the server's log with the run.
    fn keep_log(&mut self) -> Result<()>;
    /// Writes the current record.
    fn write(&mut self, record: &RunRecord) -> Result<()>;
}

/// Takes a run through all phases. Everything determined is in the record, even if a phase fails.
pub(crate) fn conduct(
    ground: &mut dyn Ground,
    case: &Case,
    mut record: RunRecord,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> RunRecord {
    match take_all(ground, case, &mut record, stop, watch) {
        Ok(()) => {}
        Err(_) if stop.load(Ordering::Relaxed) => {
            (record.state, record.reason) = (RunState::Partial, STOPPED.to_string());
        }
        Err(error) => {
            let reason = format!("{error:#}");
            let mode = record.server.as_ref().and_then(|server| server.pooler());
            let advice = pooler::advice(mode, &reason).map_or(String::new(), |advice| format!("; {advice}"));
            (record.state, record.reason) = (RunState::Failed, format!("{reason}{advice}"));
        }
    }
    if let Err(error) = ground.keep_log() {
        record.telemetry_unavailable.insert("server.log".to_string(), format!("{error:#}"));
    }
    record
}

fn take_all(
    ground: &mut dyn Ground,
    case: &Case,
    record: &mut RunRecord,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> Result<()> {
    ground.write(record)?;
    let mut phases = Phases { record, watch, stop, longest: phase_limit::for_case(case) };
    phases.take(Phase::Restore, |watch, _| ground.restore(watch))?;
    phases.longest = limit::within("connect", phases.longest, || ground.connect())?;
    // Before the server is prepared: these queries must not undo the prewarming, or disturb the quiet.
    limit::within("describe the server", phases.longest, || ground.describe(phases.record))?;
    tend(ground, case, &mut phases)?;
    ground.write(record)?;
    ground.load(record, watch)?;
    if record.state == RunState::Completed {
        ground.explain(record);
    }
    count_after(ground, record);
    ground.import(record)
}

/// Steps between restore and load, each only if the case asks for it.
fn tend(ground: &mut dyn Ground, case: &Case, phases: &mut Phases) -> Result<()> {
    let prepare = case.prepare;
    if case.get(keys::workload::APPLY).is_some() {
        phases.take(Phase::Apply, |_, record| ground.apply(record))?;
    }
    if prepare.vacuum || prepare.analyze {
        phases.take(Phase::Vacuum, |_, record| ground.vacuum(record))?;
    }
    if prepare.prewarm {
        phases.take(Phase::Prewarm, |_, record| ground.prewarm(record))?;
    }
    if prepare.checkpoint {
        phases.take(Phase::Checkpoint, |_, _| ground.checkpoint())?;
    }
    if prepare.settle {
        phases.take(Phase::Settle, |_, _| ground.settle())?;
    }
    phases.go_on()
}

/// Counts rows again. A failure is recorded, but does not invalidate the measurement.
fn count_after(ground: &mut dyn Ground, record: &mut RunRecord) {
    if record.done.as_ref().is_some_and(|done| done.unanswered > 0) {
        let reason = "the server did not answer at the end of the load".to_string();
        record.telemetry_unavailable.insert("rows_after".to_string(), reason);
        return;
    }
    match ground.count(record) {
        Ok(after) => {
            record.rows_after = after.rows;
            record.violations_after = after.violations;
            let of_check = |(name, why): (String, String)| (format!("check {name}"), why);
            record.telemetry_unavailable.extend(after.unfinished.into_iter().map(of_check));
        }
        Err(error) => {
            let reason = format!("rows could not be counted after the load: {error:#}");
            record.telemetry_unavailable.insert("rows_after".to_string(), reason.clone());
            if record.state == RunState::Completed {
                (record.state, record.reason) = (RunState::Partial, reason);
            }
        }
    }
}

/// Runs steps as phases, and records each with its duration and facts.
struct Phases<'a, 'w> {
    record: &'a mut RunRecord,
    watch: &'a mut Watch<'w>,
    stop: &'a AtomicBool,
    /// Limit for each phase.
    longest: Duration,
}

impl Phases<'_, '_> {
    /// Runs a phase, and fails after it if the user wants to stop.
    fn take(
        &mut self,
        phase: Phase,
        step: impl FnOnce(&mut Watch, &mut RunRecord) -> Result<PhaseDetail>,
    ) -> Result<()> {
        self.go_on()?;
        (self.watch)(ProgressEvent::PhaseBegins(phase));
        let start_unix_ns = unix_now();
        let detail = limit::within(phase.as_str(), self.longest, || step(self.watch, self.record))
            .with_context(|| format!("phase `{}`", phase.as_str()))?;
        self.record.phases.push(PhaseRecord { phase, start_unix_ns, end_unix_ns: unix_now(), detail });
        self.go_on()
    }

    fn go_on(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), STOPPED);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
