//! How much the runs of a case vary, why, and how to reduce it: text for all forms of the report.

pub(crate) mod costs;
pub(crate) mod uncertainty;

use analysis::summary::CaseSummary;
use analysis::summary::variation::{Spread, VarianceShares};

use crate::prose::{format, phrases};

/// `1.2 % (0.8 to 2.5 %)`.
pub(crate) fn spread(spread: &Spread) -> String {
    let cv = percent(spread.cv);
    match spread.interval {
        Some([low, high]) => {
            let low = percent(low);
            format!("{cv} ({} to {})", low.trim_end_matches(" %"), percent(high))
        }
        None => cv,
    }
}

/// A share with two digits below 1 %, so that low variations can be distinguished.
pub(crate) fn percent(share: f64) -> String {
    if share.abs() < 0.00995 { format!("{:.2} %", 100.0 * share) } else { format::percent(share) }
}

/// `81 % between restarts, 12 % between runs, 7.0 % within them`.
pub(crate) fn origin(origin: &VarianceShares) -> String {
    let restarts =
        origin.restarts.map_or(String::new(), |part| format!("{} between restarts, ", format::percent(part)));
    let each = if origin.is_each_restarted { " with their restarts" } else { "" };
    let [runs, within] = [origin.runs, origin.within].map(format::percent);
    format!("{restarts}{runs} between runs{each}, {within} within them")
}

/// One line per case whose variation is known.
pub(crate) fn lines(cases: &[CaseSummary]) -> Vec<String> {
    cases.iter().filter_map(line).collect()
}

fn line(case: &CaseSummary) -> Option<String> {
    let variation = &case.variation;
    let mut parts = vec![format!("CV {}", spread(variation.tps.as_ref()?))];
    if let Some(of) = &variation.origin {
        parts.push(format!("variance: {}; to lower it, {}", origin(of), of.advice()));
    }
    if let Some(per_cpu_s) = variation.per_cpu_s {
        let cv = variation.per_cpu_s_spread.as_ref().map_or(String::new(), |s| format!(", CV {}", spread(s)));
        parts.push(format!("{} transactions per CPU second of the server{cv}", format::tps(per_cpu_s)));
    }
    Some(format!("{}: {}", phrases::one_line(&case.label), parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_and_origins_read_as_they_should() {
        let of = |cv, interval| spread(&Spread { cv, interval });
        assert_eq!(of(0.012, Some([0.008, 0.025])), "1.2 % (0.80 to 2.5 %)");
        assert_eq!(of(0.41, None), "41 %");
        let shares = |restarts, is_each_restarted| {
            origin(&VarianceShares { restarts, runs: 0.12, within: 0.07, is_each_restarted })
        };
        assert_eq!(shares(Some(0.81), false), "81 % between restarts, 12 % between runs, 7.0 % within them");
        assert_eq!(shares(None, true), "12 % between runs with their restarts, 7.0 % within them");
    }
}
