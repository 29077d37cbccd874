//! Outages, B against A: how long writes were out, and how much service was lost.

use serde::Serialize;
use stats::Design;

use super::family::{self, FamilyRatio, FamilyVerdict};
use super::{Pairing, Samples};
use crate::summary::{OutageLength, OutageSummary};

/// The share up to which a difference of outages does not matter. Our convention: they vary by tens of per cent with the WAL that recovery
/// has to read.
const MARGIN: f64 = 0.1;
/// The shortest length that is taken for a figure, seconds: an outage of none has no ratio. Our convention.
const LEAST_S: f64 = 0.01;

/// A compared figure of outages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutageFigureName {
    /// How long writes were out.
    WriteOutage,
    /// Seconds of service that were lost.
    LostService,
}

impl OutageFigureName {
    /// All, in the order of tables.
    pub const ALL: [OutageFigureName; 2] = [OutageFigureName::WriteOutage, OutageFigureName::LostService];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            OutageFigureName::WriteOutage => "write_outage",
            OutageFigureName::LostService => "lost_service",
        }
    }

    /// The words for people.
    pub fn title(self) -> &'static str {
        match self {
            OutageFigureName::WriteOutage => "write outage",
            OutageFigureName::LostService => "lost service",
        }
    }

    fn of(self, outage: &OutageSummary) -> OutageLength {
        match self {
            OutageFigureName::WriteOutage => outage.write_outage,
            OutageFigureName::LostService => outage.lost_service(),
        }
    }
}

/// B over A for one figure of their outages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutageComparison {
    /// The figure.
    pub figure: OutageFigureName,
    /// Median of A's outages, seconds.
    pub a_median_s: f64,
    /// Median of B's outages, seconds.
    pub b_median_s: f64,
    /// Pairs, or runs of the side with fewer, that have it.
    pub n_pairs: usize,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// Whether an outage outlasted its load, so that its length is a lower bound and there is no ratio.
    pub has_bounds: bool,
    /// The ratio; `None` with too few pairs.
    pub result: Option<FamilyRatio>,
    /// The verdict; `None` without a ratio.
    pub verdict: Option<FamilyVerdict>,
}

/// The figures of the outages that both sides have, without verdicts, which [`judge`] gives.
pub(crate) fn compare(samples: &Samples, pairing: Pairing, design: Design) -> Vec<OutageComparison> {
    let of = |figure: &OutageFigureName| of_figure(*figure, samples, pairing, design);
    OutageFigureName::ALL.iter().filter_map(of).collect()
}

fn of_figure(
    figure: OutageFigureName,
    samples: &Samples,
    pairing: Pairing,
    design: Design,
) -> Option<OutageComparison> {
    let (a, b) = samples.values(pairing, |run| run.outage.as_deref().map(|outage| figure.of(outage).s));
    let (a_median_s, b_median_s) = (stats::median(&a)?, stats::median(&b)?);
    let outages = || samples.a.iter().chain(&samples.b).filter_map(|run| run.outage.as_deref());
    let has_bounds = outages().any(|outage| figure.of(outage).is_at_least);
    let logs = |values: &[f64]| values.iter().map(|value| value.max(LEAST_S).ln()).collect::<Vec<f64>>();

    // Of lower bounds, or where there was no outage, a ratio means nothing.
    let has_ratio = !has_bounds && a_median_s.max(b_median_s) > LEAST_S;
    let ratio = || FamilyRatio::new(&logs(&a), &logs(&b), pairing, design, MARGIN);
    Some(OutageComparison {
        figure,
        a_median_s,
        b_median_s,
        n_pairs: a.len().min(b.len()),
        margin: MARGIN,
        has_bounds,
        result: if has_ratio { ratio() } else { None },
        verdict: None,
    })
}

/// Gives all figures of all outages their verdicts, after Holm's correction: they are one family of tests.
pub(crate) fn judge<'a>(outages: impl Iterator<Item = &'a mut OutageComparison>) {
    let mut outages: Vec<&mut OutageComparison> = outages.collect();
    family::adjust(outages.iter_mut().filter_map(|one| one.result.as_mut()));
    for one in outages {
        one.verdict = one.result.map(|result| result.verdict_at(one.margin));
    }
}
