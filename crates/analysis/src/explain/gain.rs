//! Whether a repeat of a disturbed run is worth its time: by what it is expected to do to the uncertainty of its case.
//!
//! Which attempt at a run counts is decided by `disturbance`, by how much each was disturbed.

use model::experiment::plan::Plan;
use model::run::RunData;

use super::{disturbance, run};
use crate::budget::{self, CaseSoFar, DecidingFigure, RunSpread};
use crate::finding::{Finding, Grade, Severity};
use crate::summary::cost::CostFigure;
use crate::summary::uncertainty::DisturbanceBounds;
use crate::summary::{Disturbance, RunSummary};

/// What is known of a run after its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunVerdict {
    /// How much it was disturbed, as `model::experiment::repeat` requires.
    pub score: f64,
    /// What a repeat is expected to do and what disturbed the run, in words; `None` if a repeat is not worth its time.
    pub repeat: Option<String>,
    /// The range in which its throughput would lie undisturbed, as ratios to it; `None` if it is not valid.
    pub range: Option<[f64; 2]>,
    /// What a committed transaction cost.
    pub costs: Vec<CostFigure>,
}

/// Judges the runs of an experiment, one after the other. Of runs that were made before it, it knows nothing.
#[derive(Debug, Default)]
pub struct RepeatJudge {
    made: Vec<MadeRun>,
}

/// A run that has ended, and counts so far.
#[derive(Debug)]
struct MadeRun {
    /// Number of the planned run.
    planned: u32,
    case: u32,
    score: f64,
    tps: f64,
    p99_ns: Option<f64>,
    bounds: Vec<DisturbanceBounds>,
}

/// A run that has just ended.
struct EndedRun<'a> {
    summary: &'a RunSummary,
    /// Number of the planned run.
    planned: u32,
    /// The figure that a repeat is to make better.
    figure: DecidingFigure,
    /// What is known of how much its case's runs differ, without them.
    spread: RunSpread,
}

impl RepeatJudge {
    /// Judges a run that has just ended, and remembers it.
    pub fn judge(&mut self, plan: &Plan, data: &RunData) -> RunVerdict {
        let summary = &run::explain(data, None, false).summary;
        let (score, disturbance) = disturbance::judge(summary);
        let planned = data.record.repeat.map_or(data.record.spec.run, |repeat| repeat.of);
        let pace = data.record.case.workload.pace;
        let is_rate_given = pace.is_open() && pace.target().is_none();
        let figure = if is_rate_given { DecidingFigure::P99 } else { DecidingFigure::Throughput };
        let ended = EndedRun { summary, planned, figure, spread: self.spread(summary, planned, data) };
        let range = self.range(&ended);
        let repeat = disturbance.and_then(|found| self.worth(plan, ended, found));
        self.remember(summary, planned, score);
        RunVerdict { score, repeat, range, costs: summary.costs.clone() }
    }

    /// See [`RunVerdict::range`].
    fn range(&self, run: &EndedRun) -> Option<[f64; 2]> {
        let own = run.summary.tps.filter(|tps| *tps > 0.0 && run.summary.grade == Grade::Valid)?;
        let tps: Vec<f64> = self.others(run).map(|made| made.tps).chain([own]).collect();
        budget::range_of_run(&run.spread, &tps, &run.summary.bounds)
    }

    /// Why the run is worth a repeat, if it is.
    fn worth(&self, plan: &Plan, run: EndedRun, found: &Disturbance) -> Option<String> {
        let (evidence, summary) = (&found.evidence, run.summary);
        if !summary.counts() {
            return Some(format!("it does not count ({evidence})"));
        }
        let is_doubt = |finding: &Finding| finding.severity != Severity::Note;
        let is_unbounded =
            summary.findings.iter().any(|finding| is_doubt(finding) && found.rules.contains(&finding.id));
        let own = value(run.figure, summary.tps, p99_ns(summary));
        let (Some(own), false) = (own, is_unbounded) else {
            return Some(format!("nobody knows how far off it is ({evidence})"));
        };
        let of_others = self.others(&run).filter_map(|made| value(run.figure, Some(made.tps), made.p99_ns));
        let values: Vec<f64> = of_others.chain([own]).collect();
        let others: Vec<&[DisturbanceBounds]> =
            self.others(&run).map(|made| made.bounds.as_slice()).collect();
        let elsewhere = self.made.iter().filter(|made| made.planned != run.planned);
        let rows = found.rules.iter().filter_map(|id| budget::row_of_finding(id));
        // A comparison ends when it is precise enough, most often long before its last planned pair.
        let n_planned = match plan.precision {
            Some(_) => others.len() + 1,
            None => plan.runs.iter().filter(|spec| spec.case == summary.case).count(),
        };
        let outlook = budget::outlook(&CaseSoFar {
            figure: run.figure,
            values,
            spread: run.spread,
            run: &summary.bounds,
            others,
            elsewhere: elsewhere.map(|made| made.bounds.as_slice()).collect(),
            avoidable: rows.map(|row| row.id).collect(),
            n_planned,
        })?;
        // Nobody gains by a repeat after which nothing else can be said.
        let [now, then] = [outlook.now, outlook.repeated].map(budget::good_to);
        (outlook.is_worth_it() && now != then)
            .then(|| format!("expected to narrow the range from {now} to {then} ({evidence})"))
    }

    /// The other runs of the case.
    fn others<'a>(&'a self, run: &EndedRun) -> impl Iterator<Item = &'a MadeRun> + use<'a> {
        let (case, planned) = (run.summary.case, run.planned);
        self.made.iter().filter(move |made| made.case == case && made.planned != planned)
    }

    fn spread(&self, run: &RunSummary, planned: u32, data: &RunData) -> RunSpread {
        let mut by_case = std::collections::BTreeMap::<u32, Vec<f64>>::new();
        for made in self.made.iter().filter(|made| made.case != run.case && made.planned != planned) {
            by_case.entry(made.case).or_default().push(made.tps);
        }
        RunSpread::known(by_case.values().map(Vec::as_slice), None, &[data])
    }

    /// Keeps of several attempts at a run the one that counts so far.
    fn remember(&mut self, run: &RunSummary, planned: u32, score: f64) {
        let Some(tps) = run.tps.filter(|tps| *tps > 0.0 && score.is_finite()) else { return };
        let known = self.made.iter().position(|made| made.planned == planned);
        if known.is_some_and(|at| self.made[at].score <= score) {
            return;
        }
        let (p99_ns, bounds) = (p99_ns(run), run.bounds.clone());
        let made = MadeRun { planned, case: run.case, score, tps, p99_ns, bounds };
        match known {
            Some(at) => self.made[at] = made,
            None => self.made.push(made),
        }
    }
}

fn p99_ns(run: &RunSummary) -> Option<f64> {
    run.latency.map(|latency| latency.p99_ns as f64)
}

fn value(figure: DecidingFigure, tps: Option<f64>, p99_ns: Option<f64>) -> Option<f64> {
    match figure {
        DecidingFigure::Throughput => tps,
        DecidingFigure::P99 => p99_ns,
    }
    .filter(|value| *value > 0.0)
}
