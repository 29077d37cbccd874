//! A ratio that is shown with the verdict and never decides it: throughput without the variation that neighbours explain.

use serde::Serialize;
use stats::Design;

use crate::summary::RunSummary;

/// What is shown with the verdict.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Supplement {
    /// Throughput with foreign CPU as a control variate, if that honestly narrows its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_foreign_cpu: Option<AdjustedRatio>,
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

/// Computes it for runs that are paired by their index in both lists.
pub(crate) fn supplement(a: &[&RunSummary], b: &[&RunSummary], design: Design) -> Supplement {
    Supplement { without_foreign_cpu: without_foreign_cpu(a, b, design) }
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

/// B minus A of each pair; `None` if one run lacks it, since pairs chosen by what was observed are no sample.
fn differences(
    a: &[&RunSummary],
    b: &[&RunSummary],
    of: impl Fn(&RunSummary) -> Option<f64>,
) -> Option<Vec<f64>> {
    a.iter().zip(b).map(|(a, b)| Some(of(b)? - of(a)?)).collect()
}
