//! Durations of runs: a ladder of lengths, from the shortest that says anything to those that were asked for.

use model::experiment::keys::levels::Levels;
use model::experiment::keys::run::RAMP_UP_AUTO_S_MIN;
use model::experiment::{Experiment, RunSection};
use model::load::capacity::Probing;
use model::load::course::RampUp;
use model::text::units::Span;

use super::replace;
use crate::plan::expand::outage;
use crate::site::wal;

/// Minimum for the shorter ones of several durations: the shortest that a plan accepts.
const MEASURE_LEVEL_S_MIN: u64 = 2;
/// The most seconds of ramp-up and measurement, shortest first.
pub(super) const LENGTHS: [(u32, u32); 6] = [(1, 5), (2, 10), (3, 15), (5, 30), (10, 60), (30, 120)];

/// Shortens what is longer; a load that ends by its number of transactions has no length.
pub(super) fn limit(experiment: &mut Experiment, ramp_up_s: u32, measure_s: u32) {
    if experiment.workload.transactions.is_some() {
        return;
    }
    let (least_ramp_up_s, least_measure_s) = least_s(experiment);
    let run = &mut experiment.run;
    shorten_ramp_up(run, ramp_up_s.max(least_ramp_up_s));
    shorten(&mut run.measure, measure_s.max(least_measure_s), MEASURE_LEVEL_S_MIN);
    run.extend = run.extend.min(Span::from_s(measure_s.into()));
}

/// Seconds of ramp-up and measurement that a rate search, a WAL policy and outages need, if there are any.
fn least_s(experiment: &Experiment) -> (u32, u32) {
    let targets = experiment.workload.pace.all().iter().filter_map(|pace| pace.target());
    let has_policy = experiment.run.wal.all().iter().any(|policy| !policy.is_as_is());
    let of_wal = if has_policy { wal::RAMP_UP_S_MIN } else { 0 };
    let of_outages = experiment.outage.0.iter().map(|outage| (0, outage::least_measure_s(outage)));
    let all = targets.map(Probing::shortest).chain(of_outages);
    all.fold((of_wal, 0), |least, each| (least.0.max(each.0), least.1.max(each.1)))
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
