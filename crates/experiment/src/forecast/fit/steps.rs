//! Steps that make an experiment shorter, in ascending order of what is lost.

use model::experiment::levels::Levels;
use model::experiment::{Experiment, RunSection, WorkloadSection};
use model::load::capacity::Probing;
use model::load::course::RampUp;
use model::text::units::Span;

use super::{keep, replace, system, thin, together};
use crate::plan::windows::RAMP_UP_AUTO_S_MIN;
use crate::site::wal;

/// Minimum for the seconds of load of a run with fixed duration.
const MEASURE_S_MIN: u32 = 5;
/// Minimum for the shorter ones of several durations: the shortest that a plan accepts.
const MEASURE_LEVEL_S_MIN: u64 = 2;

/// One way to make an experiment shorter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Do not repeat disturbed runs.
    DisturbedOnce,
    /// At most this many seconds of ramp-up and measurement.
    Length(u32, u32),
    /// At most this many versions.
    Versions(usize),
    /// At most this many targets.
    Targets(usize),
    /// At most this many levels of clients.
    Clients(usize),
    /// At most this many levels of a setting.
    Settings(usize),
    /// At most this many levels of any other factor.
    Others(usize),
    /// At most this many transactions per client.
    Transactions(u64),
    /// At most this many repeats.
    Repeats(u32),
}

/// In ascending order of what is lost.
pub(super) const STEPS: [Step; 26] = [
    Step::DisturbedOnce,
    Step::Length(30, 120),
    Step::Length(10, 60),
    Step::Versions(6),
    Step::Clients(6),
    Step::Length(5, 30),
    Step::Others(4),
    Step::Versions(4),
    Step::Targets(8),
    Step::Clients(4),
    Step::Length(3, 15),
    Step::Others(3),
    Step::Length(2, 10),
    Step::Length(1, MEASURE_S_MIN),
    Step::Settings(1),
    Step::Clients(3),
    Step::Targets(4),
    Step::Transactions(500),
    Step::Clients(2),
    Step::Others(2),
    Step::Repeats(3),
    Step::Transactions(100),
    Step::Versions(2),
    Step::Targets(2),
    Step::Repeats(2),
    Step::Others(1),
];

impl Step {
    /// Applies the step; anything short enough stays as it is.
    pub(super) fn take(self, experiment: &mut Experiment) {
        let workload = &mut experiment.workload;
        match self {
            Step::DisturbedOnce => experiment.run.repeat_disturbed = 0,
            Step::Length(ramp_up_s, measure_s) => {
                let run = &mut experiment.run;
                if workload.transactions.is_none() {
                    let (least_ramp_up_s, least_measure_s) = least_s(workload, run);
                    shorten_ramp_up(run, ramp_up_s.max(least_ramp_up_s));
                    shorten(&mut run.measure, measure_s.max(least_measure_s), MEASURE_LEVEL_S_MIN);
                    run.extend = run.extend.min(Span::from_s(measure_s.into()));
                }
            }
            Step::Versions(n) => {
                if let Some(levels) = &mut experiment.server.version {
                    thin(levels, n);
                }
            }
            Step::Clients(n) => together::thin_clients(experiment, n),
            Step::Targets(n) => together::thin_targets(experiment, n),
            Step::Settings(n) => {
                experiment.server.settings.values_mut().for_each(|levels| thin(levels, n));
            }
            Step::Others(n) => {
                thin(&mut workload.scale, n);
                thin(&mut workload.protocol, n);
                thin(&mut workload.pace, n);
                thin(&mut workload.partitions, n);
                system::thin(&mut experiment.os, n);
                experiment.prepare.steps_mut().into_iter().for_each(|levels| thin(levels, n));
                thin(&mut experiment.prepare.restore_by, n);
                thin(&mut experiment.run.ramp_up, n);
                thin(&mut experiment.run.measure, n);
                thin(&mut experiment.run.grace, n);
                thin(&mut experiment.run.wal, n);
                if let Some(levels) = &mut workload.transactions {
                    thin(levels, n);
                }
            }
            Step::Transactions(n) => {
                if let Some(levels) = &mut workload.transactions {
                    keep(levels, |transactions| *transactions <= n, n);
                }
            }
            Step::Repeats(n) => experiment.experiment.repeats = experiment.experiment.repeats.min(n),
        }
    }
}

/// Seconds of ramp-up and measurement that a rate search or a WAL policy needs, if there is one.
fn least_s(workload: &WorkloadSection, run: &RunSection) -> (u32, u32) {
    let targets = workload.pace.all().iter().filter_map(|pace| pace.target());
    let has_policy = run.wal.all().iter().any(|policy| !policy.is_as_is());
    let of_wal = if has_policy { wal::RAMP_UP_S_MIN } else { 0 };
    targets.map(Probing::shortest).fold((of_wal, 0), |least, each| (least.0.max(each.0), least.1.max(each.1)))
}

/// Limits a fixed ramp-up to `longest_s`, and an automatic one to that maximum.
fn shorten_ramp_up(run: &mut RunSection, longest_s: u32) {
    if run.ramp_up.all().contains(&RampUp::Auto) {
        let measure = run.measure.all().iter().max().copied().unwrap_or(Span::from_s(0));
        let bound = Span::from_s(longest_s.max(RAMP_UP_AUTO_S_MIN).into());
        run.ramp_up_max = Some(run.ramp_up_longest(RampUp::Auto, measure).min(bound));
    }
    let given = |ramp_up: &RampUp| match ramp_up {
        RampUp::For(span) => Some(*span),
        RampUp::Auto => None,
    };
    let spans: Vec<Span> = run.ramp_up.all().iter().filter_map(given).collect();
    let Some(shorter) = shortened(&spans, longest_s, 0) else { return };
    let others = run.ramp_up.all().iter().filter(|ramp_up| **ramp_up == RampUp::Auto).copied();
    let levels = shorter.into_iter().map(RampUp::For).chain(others).collect();
    replace(&mut run.ramp_up, levels);
}

fn shorten(levels: &mut Levels<Span>, longest_s: u32, least_s: u64) {
    if let Some(shorter) = shortened(levels.all(), longest_s, least_s) {
        replace(levels, shorter);
    }
}

/// Shortens spans to at most `longest_s`, all by the same factor, so that two durations stay two; whole seconds. `None`
/// if all are short enough.
fn shortened(spans: &[Span], longest_s: u32, least_s: u64) -> Option<Vec<Span>> {
    let longest = spans.iter().max().copied()?;
    let limit = Span::from_s(longest_s.into());
    if longest <= limit {
        return None;
    }
    let mut shorter: Vec<Span> = Vec::new();
    for span in spans {
        let scaled_s = (span.ms as f64 * limit.ms as f64 / longest.ms as f64 / 1000.0).floor() as u64;
        let scaled = Span::from_s(scaled_s.max(least_s)).min(*span);
        if !shorter.contains(&scaled) {
            shorter.push(scaled);
        }
    }
    Some(shorter)
}
