//! What a repeat of a run is expected to do to the uncertainty of its case.

use stats::RepetitionSpread;

use super::combine::ratios;
use super::repetition::RunSpread;
use super::{BUDGET, RowBound};
use crate::summary::uncertainty::{DisturbanceBounds, larger_side};

/// The figure that a repeat is to make better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecidingFigure {
    /// Throughput.
    Throughput,
    /// The 99th percentile, where the rate is given: what kept it says nothing of a disturbance.
    P99,
}

impl DecidingFigure {
    fn bounds(self, of: &DisturbanceBounds) -> [f64; 2] {
        match self {
            DecidingFigure::Throughput => of.throughput,
            DecidingFigure::P99 => of.p99,
        }
    }
}

/// A case of which a run has just ended.
#[derive(Debug)]
pub(crate) struct CaseSoFar<'a> {
    /// The figure that decides.
    pub(crate) figure: DecidingFigure,
    /// Its values in the runs so far, with that of the run.
    pub(crate) values: Vec<f64>,
    /// What is known of the spread of its runs without them.
    pub(crate) spread: RunSpread,
    /// The run's bounds.
    pub(crate) run: &'a [DisturbanceBounds],
    /// Those of the case's other runs.
    pub(crate) others: Vec<&'a [DisturbanceBounds]>,
    /// Those of all other runs of the experiment: what a run is expected to have.
    pub(crate) elsewhere: Vec<&'a [DisturbanceBounds]>,
    /// Rows that a repeat need not have again.
    pub(crate) avoidable: Vec<&'static str>,
    /// Runs of the case in all.
    pub(crate) n_planned: usize,
}

/// What the throughput of a case is expected to be good to after all of its runs, as shares of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RepeatOutlook {
    /// As things are.
    pub(crate) now: f64,
    /// If the run is repeated, and the repeat is disturbed as the experiment's other runs are.
    pub(crate) repeated: f64,
    /// If one more such run is made instead.
    pub(crate) more: f64,
}

impl RepeatOutlook {
    /// Whether the repeat lowers it, and by more than another run.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.repeated < self.now.min(self.more)
    }
}

/// Sums of a row's bounds over the planned runs.
struct RowOutlook {
    /// As things are.
    sum: [f64; 2],
    /// Of the run itself.
    own: [f64; 2],
    /// Of a run to come.
    expected: [f64; 2],
}

/// What a repeat of the run is expected to do: its bounds are replaced by those of the experiment's median run, row by row; none are
/// expected where there is no other run. `None` if the spread cannot be computed.
pub(crate) fn outlook(case: &CaseSoFar) -> Option<RepeatOutlook> {
    let n = case.n_planned.max(case.others.len() + 1);
    let rows: Vec<RowOutlook> = rows(case, n);
    let spread = case.spread.error_of(&case.values, case.figure == DecidingFigure::P99);
    let to_come = n.saturating_sub(case.values.len());
    let good_to = |more: usize, of_row: &dyn Fn(&RowOutlook, usize) -> f64| {
        let spread = RepetitionSpread::new(spread.with_more(to_come + more))?;
        let mean = |row: &RowOutlook| [0, 1].map(|end| of_row(row, end) / (n + more) as f64);
        Some(larger_side(ratios(&spread, rows.iter().map(mean))?))
    };
    Some(RepeatOutlook {
        now: good_to(0, &|row, end| row.sum[end])?,
        repeated: good_to(0, &|row, end| row.sum[end] - row.own[end] + row.expected[end])?,
        more: good_to(1, &|row, end| row.sum[end] + row.expected[end])?,
    })
}

/// The range of a run's throughput undisturbed, as ratios to it.
pub(crate) fn range_of_run(
    spread: &RunSpread,
    tps: &[f64],
    bounds: &[DisturbanceBounds],
) -> Option<[f64; 2]> {
    let spread = RepetitionSpread::new(spread.error_of(tps, false).of_one())?;
    ratios(&spread, bounds.iter().map(|bound| bound.throughput))
}

fn rows(case: &CaseSoFar, n: usize) -> Vec<RowOutlook> {
    let of_run = |bounds: &[DisturbanceBounds], id: &str| {
        bounds.iter().find(|bound| bound.id == id).map_or([0.0, 0.0], |bound| case.figure.bounds(bound))
    };
    let median = |values: Vec<f64>| stats::median(&values).unwrap_or(0.0);
    let row = |id: &'static str| {
        let own = of_run(case.run, id);
        let elsewhere =
            [0, 1].map(|end| median(case.elsewhere.iter().map(|bounds| of_run(bounds, id)[end]).collect()));
        let expected = if case.avoidable.contains(&id) { elsewhere } else { own };
        let to_come = (n - 1 - case.others.len()) as f64;
        let sum = [0, 1].map(|end| {
            let others: f64 = case.others.iter().map(|bounds| of_run(bounds, id)[end]).sum();
            own[end] + others + to_come * expected[end]
        });
        RowOutlook { sum, own, expected }
    };
    BUDGET.iter().filter(|row| matches!(row.bound, RowBound::Run(_))).map(|one| row(one.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(id: &'static str, high: f64) -> Vec<DisturbanceBounds> {
        let throughput = [0.0, high];
        vec![DisturbanceBounds { id, throughput, p50: throughput, p99: throughput, evidence: String::new() }]
    }

    /// Ten runs that vary by 1 % are planned; the run has this much steal, and the four before it that much.
    fn of_steal(own: f64, before: f64, avoidable: bool) -> RepeatOutlook {
        let (run, other) = (bounds("steal", own), bounds("steal", before));
        let others = vec![other.as_slice(); 4];
        let case = CaseSoFar {
            figure: DecidingFigure::Throughput,
            values: vec![1000.0, 1010.0, 990.0, 1005.0, 995.0],
            spread: RunSpread::new(0.01, "vary"),
            run: &run,
            elsewhere: others.clone(),
            others,
            avoidable: if avoidable { vec!["steal"] } else { Vec::new() },
            n_planned: 10,
        };
        outlook(&case).unwrap()
    }

    #[test]
    fn a_run_is_worth_a_repeat_if_that_lowers_the_uncertainty_by_more_than_one_more_run() {
        let check = |own: f64, before: f64, avoidable: bool, expected: bool| {
            let found = of_steal(own, before, avoidable);
            assert_eq!(found.is_worth_it(), expected, "{own} {before}: {found:?}");
            assert!(found.repeated <= found.now + 1e-9, "{found:?}");
            found
        };
        let much = check(0.7, 0.0, true, true);
        assert!(much.now > 1.5 * much.repeated, "{much:?}");
        // What little it has is less than what chance does.
        check(0.002, 0.0, true, false);
        // All runs have it: another one would have it, too.
        check(0.3, 0.3, true, false);
        check(0.7, 0.0, false, false);
    }

    #[test]
    fn where_little_is_known_of_runs_another_one_is_worth_more() {
        let run = bounds("foreign-cpu", 0.05);
        let of = |high: f64| {
            let run = bounds("foreign-cpu", high);
            let spread = RunSpread::new(0.035, "are assumed");
            let case = CaseSoFar {
                figure: DecidingFigure::Throughput,
                values: vec![1000.0],
                spread,
                run: &run,
                others: Vec::new(),
                elsewhere: Vec::new(),
                avoidable: vec!["foreign-cpu"],
                n_planned: 1,
            };
            outlook(&case).unwrap()
        };
        assert!(!of(0.05).is_worth_it(), "{:?}", of(0.05));
        assert!(of(1.0).is_worth_it(), "{:?}", of(1.0));
        let [low, high] = range_of_run(&RunSpread::new(0.0, "never vary"), &[1000.0], &run).unwrap();
        assert!((low - 1.0).abs() < 0.01 && (1.04..1.055).contains(&high), "{low} {high}");
    }
}
