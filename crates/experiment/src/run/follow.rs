//! Follows a running load: writes its records, and adjusts its WAL size and its window.

use std::collections::BTreeMap;
use std::sync::Mutex;

use anyhow::Result;
use dataset::directory::checks::Outcomes;
use fleet::Orders;
use model::experiment::case::Case;
use model::experiment::os::WalPolicy;
use model::experiment::script::CaseScript;
use model::load::Window;
use model::load::course::LoadCourse;
use model::load::drive::DriverLine;
use model::load::execution::Execution;
use model::load::interval::HistogramLine;
use model::run::phase::Phase;
use store::RunWriter;

use crate::run::adapt::Judge;
use crate::run::run_checks::queries::FirstPass;
use crate::run::telemetry::lock;
use crate::site::clock::unix_now;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::wal::{Meter, Sizing};
use crate::stage::Stage;

/// Sizes the WAL for the checkpoints that the case asks for, once the ramp-up has shown how much WAL the load writes.
pub(crate) struct KeepWal<'a> {
    case: &'a Case,
    /// `None` where somebody else has the servers while the load runs.
    stage: Option<&'a mut Stage>,
    meter: &'a Mutex<Meter>,
    go: u64,
    sizing: Option<Sizing>,
    is_seen_to: bool,
    /// Facts for the record.
    pub(crate) detail: BTreeMap<String, String>,
}

impl<'a> KeepWal<'a> {
    /// For a load that begins at `go`, nanoseconds since the Unix epoch.
    pub(crate) fn new(
        case: &'a Case,
        stage: Option<&'a mut Stage>,
        meter: &'a Mutex<Meter>,
        go: u64,
        sizing: Option<Sizing>,
    ) -> KeepWal<'a> {
        KeepWal { case, stage, meter, go, sizing, is_seen_to: false, detail: BTreeMap::new() }
    }

    /// Second `t` of the load has ended; `window` is the one in force.
    pub(crate) fn second(&mut self, t: u32, window: Window) -> Result<()> {
        let KeepWal { case, sizing, .. } = *self;
        let ramp_up_s = window.ramp_up_s;
        // The end of an automatic ramp-up may have passed already.
        if self.is_seen_to || t + 1 < ramp_up_s {
            return Ok(());
        }
        self.is_seen_to = true;
        let now = unix_now();
        // The beginning writes more full-page images than the rest; it is used only if too little else is measured.
        let late = self.go + u64::from(ramp_up_s) * 2 / 3 * 1_000_000_000;
        let from = if case.wal == WalPolicy::TwoCheckpoints { late } else { self.go };
        let (Some(sizing), Some(rate)) = (sizing, lock(self.meter).rate(from, now)) else { return Ok(()) };
        self.detail = sizing.told(window, rate);
        if let Some(bytes) = sizing.wanted_bytes(case.wal, window, rate)
            && let Some(stage) = self.stage.as_mut()
            && let Some(changed) = stage.resize_wal(bytes)?
        {
            self.detail.insert("changed".to_string(), changed);
        }
        Ok(())
    }
}

/// Writes the driver's lines, reports each second, and has the window moved if the case allows it.
pub(crate) struct Follow<'a, 'w> {
    writer: &'a RunWriter,
    watch: &'a mut Watch<'w>,
    pub(crate) judge: Judge,
    orders: Orders,
    /// The phase that was reported last; the ramp-up at first.
    phase: Phase,
    t: u32,
    committed: u64,
    /// Transactions so far by the number of their script.
    outcomes: BTreeMap<u32, Outcomes>,
    /// Histograms of the current second.
    histograms: Vec<HistogramLine>,
    first_pass: FirstPass,
    /// Transactions that have written a token.
    executions: Vec<Execution>,
}

/// What a load that has ended leaves.
pub(crate) struct LoadResult {
    pub(crate) course: Option<LoadCourse>,
    /// Transactions by the name of their script.
    pub(crate) outcomes: BTreeMap<String, Outcomes>,
    pub(crate) first_pass: FirstPass,
    /// Transactions that have written a token.
    pub(crate) executions: Vec<Execution>,
}

impl<'a, 'w> Follow<'a, 'w> {
    pub(crate) fn new(
        writer: &'a RunWriter,
        watch: &'a mut Watch<'w>,
        judge: Judge,
        orders: Orders,
    ) -> Follow<'a, 'w> {
        Follow {
            writer,
            watch,
            judge,
            orders,
            phase: Phase::RampUp,
            t: 0,
            committed: 0,
            outcomes: BTreeMap::new(),
            histograms: Vec::new(),
            first_pass: FirstPass::default(),
            executions: Vec::new(),
        }
    }

    /// The load begins.
    pub(crate) fn begin(&mut self) {
        (self.watch)(ProgressEvent::PhaseBegins(self.phase));
        self.tell_phase(0);
    }

    /// Returns the second that ends with this line.
    pub(crate) fn line(&mut self, line: &DriverLine) -> Result<Option<u32>> {
        match line {
            DriverLine::Interval { interval, histograms } => {
                self.writer.interval(interval)?;
                self.writer.histograms(interval.t, interval.start_unix_ns, interval.length_ns, histograms)?;
                self.t = interval.t;
                self.committed += interval.counts.committed;
                let outcomes = self.outcomes.entry(interval.script).or_default();
                outcomes.committed += interval.counts.committed;
                outcomes.unknown += interval.counts.unknown;
                self.histograms.extend_from_slice(histograms);
                self.judge.interval(interval);
            }
            DriverLine::Tick(tick) => {
                // The tick follows the intervals of its second.
                self.writer.tick(tick)?;
                self.tell_second();
                self.judge.second(self.t).map_or(Ok(()), |window| self.orders.window(window))?;
                return Ok(Some(self.t));
            }
            DriverLine::Event(event) => self.writer.event(event)?,
            DriverLine::Execution(line) => {
                self.writer.execution(&line.execution)?;
                self.first_pass.hear(line);
                if line.execution.number > 0 {
                    self.executions.push(line.execution.clone());
                }
            }
            DriverLine::Window(window) => self.judge.has(*window),
            DriverLine::Hello(_)
            | DriverLine::Pong(_)
            | DriverLine::Ready(_)
            | DriverLine::Watching(_)
            | DriverLine::Missing { .. }
            | DriverLine::Watched(_)
            | DriverLine::Hands(_)
            | DriverLine::Pages(_)
            | DriverLine::Done(_)
            | DriverLine::Failed { .. } => {}
        }
        Ok(None)
    }

    /// The load has ended.
    pub(crate) fn ended(self, scripts: &[CaseScript]) -> LoadResult {
        let named = self.outcomes.into_iter();
        let outcomes =
            named.filter_map(|(script, of)| Some((scripts.get(script as usize)?.name.clone(), of))).collect();
        LoadResult {
            course: self.judge.course(),
            outcomes,
            first_pass: self.first_pass,
            executions: self.executions,
        }
    }

    fn tell_second(&mut self) {
        let window = self.judge.window();
        self.tell_phase(self.t + 1);
        if self.t < window.load_s() {
            (self.watch)(ProgressEvent::Second {
                t: self.t + 1,
                n: window.load_s(),
                committed: self.committed,
                histograms: std::mem::take(&mut self.histograms),
                is_measured: window.measures(self.t),
            });
        }
        self.committed = 0;
        self.histograms.clear();
    }

    /// Reports the phase that begins with second `t` of the load, if one does.
    fn tell_phase(&mut self, t: u32) {
        let phase = phase_at(t, self.judge.window());
        if phase != self.phase {
            self.phase = phase;
            (self.watch)(ProgressEvent::PhaseBegins(phase));
        }
    }
}

/// The phase of second `t` of the load.
fn phase_at(t: u32, window: Window) -> Phase {
    match t {
        _ if t < window.ramp_up_s => Phase::RampUp,
        _ if window.measures(t) => Phase::Measure,
        _ => Phase::Drain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_phase_also_without_a_ramp_up_and_after_the_load() {
        let window = |ramp_up_s| Window { ramp_up_s, measure_s: 3, grace_s: 1 };
        let check = |ramp_up_s, t, expected| {
            assert_eq!(phase_at(t, window(ramp_up_s)), expected, "second {t} after {ramp_up_s} s");
        };
        check(2, 0, Phase::RampUp);
        check(2, 1, Phase::RampUp);
        check(2, 2, Phase::Measure);
        check(2, 4, Phase::Measure);
        check(2, 5, Phase::Drain);
        check(0, 0, Phase::Measure);
        check(0, 3, Phase::Drain);
    }
}
