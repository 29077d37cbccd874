//! Ratios that are shown with the verdict and never decide it: throughput without the variation that neighbours
//! explain, and throughput per CPU second of the server.

use serde::Serialize;
use stats::Design;

use super::{ComparedFigure, Ratio, ratio};
use crate::summary::{ResourceUsage, RunSummary};

/// Ratios that are shown with the verdict.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Supplement {
    /// Throughput with foreign CPU as a control variate, if that honestly narrows its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_foreign_cpu: Option<AdjustedRatio>,
    /// Transactions per CPU second of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cpu_s: Option<Ratio>,
}

/// B over A, if the covariate were equal on both sides.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AdjustedRatio {
    /// B over A.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Share of the variance between pairs that the covariate explains.
    pub explained: f64,
}

/// Computes both for runs that are paired by their index in both lists.
pub(crate) fn supplement(a: &[&RunSummary], b: &[&RunSummary], margin: f64, design: Design) -> Supplement {
    Supplement {
        without_foreign_cpu: without_foreign_cpu(a, b, design),
        per_cpu_s: per_cpu_s(a, b, margin, design),
    }
}

fn without_foreign_cpu(a: &[&RunSummary], b: &[&RunSummary], design: Design) -> Option<AdjustedRatio> {
    let logs = differences(a, b, |run| run.tps.filter(|tps| *tps > 0.0).map(f64::ln))?;
    let foreign = differences(a, b, |run| run.resources.foreign_cpu)?;
    if logs.len() < stats::PAIRS_MIN {
        return None;
    }
    let found = stats::narrowed(&logs, &foreign, design.level())?;
    let of = found.estimate.map(f64::exp);
    Some(AdjustedRatio { ratio: of.point, low: of.low, high: of.high, explained: found.explained })
}

fn per_cpu_s(a: &[&RunSummary], b: &[&RunSummary], margin: f64, design: Design) -> Option<Ratio> {
    let us = |resources: &ResourceUsage| resources.server_cpu_us_per_transaction.filter(|us| *us > 0.0);
    let logs = differences(a, b, |run| us(&run.resources).map(|us| -us.ln()))?;
    let comparison = stats::compare_pairs(&logs, margin, design)?;
    Some(ratio(ComparedFigure::Throughput, comparison, stats::signed_rank_p(&logs)?))
}

/// B minus A of each pair; `None` if one run lacks it, since pairs chosen by what was observed are no sample.
fn differences(
    a: &[&RunSummary],
    b: &[&RunSummary],
    of: impl Fn(&RunSummary) -> Option<f64>,
) -> Option<Vec<f64>> {
    a.iter().zip(b).map(|(a, b)| Some(of(b)? - of(a)?)).collect()
}
