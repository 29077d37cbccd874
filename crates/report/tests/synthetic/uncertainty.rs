//! How far off the figures of made-up cases can be.

use analysis::summary::uncertainty::{CaseUncertainty, Contribution, Uncertainty};

/// That of runs that vary, on a machine of which a little was stolen.
pub(super) fn of_runs(cv: f64) -> CaseUncertainty {
    let row = |id, low, high, evidence: &str, remedy: &str| {
        let (evidence, remedy) = (evidence.to_string(), remedy.to_string());
        Contribution { id, low, high, evidence, remedy }
    };
    let of_figure = |times: f64| Uncertainty {
        low: 1.0 - 1.6 * times * cv,
        high: 1.01 + 1.7 * times * cv,
        budget: vec![
            row(
                "runs-differ",
                1.0 - 1.5 * times * cv,
                1.0 + 1.5 * times * cv,
                "3 runs vary",
                "3 more runs: ±2 %",
            ),
            row("steal", 1.0, 1.01, "1.0 % of the processors' time was stolen", "dedicated processors: ±2 %"),
        ],
    };
    CaseUncertainty { throughput: of_figure(1.0), p50: Some(of_figure(1.0)), p99: Some(of_figure(2.0)) }
}
