//! What happened in some seconds of a run and not in others: interruptions, and a level that changes.

use model::load::course::RampUpEnd;

use super::{BudgetRow, RowBound, RowBounds};
use crate::findings::RunContext;
use crate::findings::format::percent;
use crate::run::marks;
use crate::summary::Second;

/// Seconds without a mark that a level is computed from, at least, and their share of all.
const UNMARKED_MIN: usize = 5;
const UNMARKED_SHARE: f64 = 0.25;
/// Below this share of the median, a second belongs to a stall.
const STALLED: f64 = 0.1;
/// Seconds from which on a level that changes is looked for.
const SECONDS_MIN: usize = 8;

pub(super) const INTERRUPTED: BudgetRow = BudgetRow {
    id: "interrupted",
    title: "interruptions",
    formula: "0 to the logarithm of the mean of the seconds without a checkpoint, autovacuum or stall over the mean of all, in either direction; \
              unbounded if fewer than five seconds, or a quarter of all, are without",
    source: "the run itself: what the level is where nothing interrupts",
    remedy: "a measurement without them, or one that contains several",
    findings: &["checkpoint-in-window", "autovacuum-in-window", "stall"],
    bound: RowBound::Run(interrupted),
};

/// Mean throughput, and mean logarithms of percentiles, of some seconds.
struct SecondsLevel {
    throughput: f64,
    p50: f64,
    p99: f64,
}

impl SecondsLevel {
    fn of_seconds(seconds: &[&Second]) -> Option<SecondsLevel> {
        let mean = |values: Vec<f64>| stats::mean(&values);
        let latency = |of: fn(&Second) -> Option<u64>| {
            mean(seconds.iter().filter_map(|second| of(second)).map(|ns| ns.max(1) as f64).collect())
        };
        Some(SecondsLevel {
            throughput: mean(seconds.iter().map(|second| second.tps).collect())?,
            p50: latency(|second| second.p50_ns)?,
            p99: latency(|second| second.p99_ns)?,
        })
    }

    /// Bounds between the level of all seconds and this one.
    fn against(&self, all: &SecondsLevel, evidence: String) -> RowBounds {
        let bound = |own: f64, of_all: f64| {
            let ratio = (own / of_all).ln();
            if ratio.is_finite() { [ratio.min(0.0), ratio.max(0.0)] } else { [0.0, 0.0] }
        };
        RowBounds {
            throughput: bound(self.throughput, all.throughput),
            p50: bound(self.p50, all.p50),
            p99: bound(self.p99, all.p99),
            evidence,
        }
    }
}

fn measured<'a>(context: &'a RunContext) -> Vec<&'a Second> {
    context.summary.seconds.iter().filter(|second| second.measured).collect()
}

fn interrupted(context: &RunContext) -> Option<RowBounds> {
    // Half of the seconds of a side of a duet are the other's.
    if context.data.record.took_turns() {
        return None;
    }
    let all = measured(context);
    let median = stats::median(&all.iter().map(|second| second.tps).collect::<Vec<f64>>())?;
    let is_marked = |second: &&Second| {
        let span = (f64::from(second.t), f64::from(second.t) + 1.0);
        let mut marks = context.summary.marks.iter();
        let interrupts = |kind: &str| kind == marks::CHECKPOINT || kind == marks::AUTOVACUUM;
        second.tps < STALLED * median
            || marks.any(|mark| {
                interrupts(&mark.kind) && !marks::is_analyze_of_catalog(mark) && marks::touches(mark, span)
            })
    };
    let unmarked: Vec<&Second> = all.iter().copied().filter(|second| !is_marked(second)).collect();
    if unmarked.len() == all.len() {
        return None;
    }
    if unmarked.len() < UNMARKED_MIN.max((UNMARKED_SHARE * all.len() as f64).ceil() as usize) {
        return None;
    }
    let evidence = format!(
        "a checkpoint, autovacuum or a stall in {} of {} measured seconds",
        all.len() - unmarked.len(),
        all.len()
    );
    Some(SecondsLevel::of_seconds(&unmarked)?.against(&SecondsLevel::of_seconds(&all)?, evidence))
}

pub(super) const UNSTEADY: BudgetRow = BudgetRow {
    id: "unsteady",
    title: "an unsteady level",
    formula: "0 to the logarithm of the mean of the last third of the measurement over the mean of all, if a trend or a step is significant \
              (not-steady) or the ramp-up ended at its bound",
    source: "the end of a run is nearest to its steady state",
    remedy: "a longer ramp-up",
    findings: &["not-steady", "ramp-up-not-steady"],
    bound: RowBound::Run(unsteady),
};

fn unsteady(context: &RunContext) -> Option<RowBounds> {
    let all = measured(context);
    if all.len() < SECONDS_MIN || context.data.record.took_turns() {
        return None;
    }
    let tps: Vec<f64> = all.iter().map(|second| second.tps).collect();
    let is_steady = stats::steadiness(&tps).is_none_or(|result| result.steady);
    let ramp_up_end = context.summary.course.and_then(|course| course.ramp_up_end);
    let is_warm = ramp_up_end != Some(RampUpEnd::Bound);
    if is_steady && is_warm {
        return None;
    }
    let last = &all[all.len() - all.len() / 3..];
    let (last, all) = (SecondsLevel::of_seconds(last)?, SecondsLevel::of_seconds(&all)?);
    let evidence =
        format!("the last third is at {} of the mean of all", percent(last.throughput / all.throughput));
    Some(last.against(&all, evidence))
}
