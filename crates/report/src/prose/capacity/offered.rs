//! Whether a rate that was asked for was sustained, as text.

use analysis::case::offered::{self, LatencyLimit, OfferedRate};
use analysis::summary::{CaseSummary, Study};

use crate::prose::variation::uncertainty::plus_minus;
use crate::prose::{format, phrases};

/// `500/s was not sustained: 476/s; p99 2,401 ms and growing`; `None` for a case without a rate of its own.
pub(crate) fn words(study: &Study, case: &CaseSummary) -> Option<String> {
    offered::offered_rate(study, case).map(|offered| sentence(&offered))
}

/// A line for each case with a rate; none if there is one case, because the headline says it.
pub(crate) fn below_table(study: &Study) -> Vec<String> {
    let line =
        |case: &CaseSummary| Some(format!("{}: {}", phrases::one_line(&case.label), words(study, case)?));
    if study.cases.len() > 1 { study.cases.iter().filter_map(line).collect() } else { Vec::new() }
}

/// `; 500/s was not sustained in 1 of 2 cases`, after an answer that compares cases; empty if all were.
pub(crate) fn missed(study: &Study) -> String {
    let all: Vec<OfferedRate> =
        study.cases.iter().filter_map(|case| offered::offered_rate(study, case)).collect();
    let missed: Vec<&OfferedRate> = all.iter().filter(|one| one.n_missed > 0).collect();
    let Some(first) = missed.first() else { return String::new() };
    let rate = if missed.iter().all(|one| one.rate_per_s == first.rate_per_s) {
        format!("{}/s", format::tps(first.rate_per_s))
    } else {
        "the rate".to_string()
    };
    format!("; {rate} was not sustained in {} of {}", missed.len(), phrases::plural(all.len(), "case"))
}

fn sentence(offered: &OfferedRate) -> String {
    let rate = format!("{}/s", format::tps(offered.rate_per_s));
    let of = match offered.n_runs {
        1 => String::new(),
        n => format!(" (median of {n} runs)"),
    };
    let p99 = match &offered.kept {
        Some(of_pace) => kept(of_pace),
        None => offered.p99_ns.map_or(String::new(), |ns| format!("; p99 {} ms", format::ms(ns as f64))),
    };
    if offered.n_missed == 0 {
        let queued = offered.queued_ns.map_or(String::new(), |ns| {
            format!(
                ", but transactions queued: half of them waited {} ms or longer for a free client",
                format::ms(ns as f64)
            )
        });
        return format!("{rate} was sustained{of}{queued}{p99}");
    }
    let which = if offered.n_missed == offered.n_runs {
        String::new()
    } else {
        format!(" in {} of {} runs", offered.n_missed, offered.n_runs)
    };
    let growing = if offered.is_growing { " and growing" } else { "" };
    format!("{rate} was not sustained{which}: {}/s{of}{p99}{growing}", format::tps(offered.achieved_per_s))
}

/// `; p99 12.3 ms, within 20.0 ms`, or `; p99 31.2 ms, not within 20.0 ms`.
fn kept(kept: &LatencyLimit) -> String {
    let (measured, limit) = (format::ms(kept.measured_ns as f64), format::ms(kept.limit_ns as f64));
    let not = if kept.is_kept { "" } else { "not " };
    let stands = match kept.open {
        Some(good_to) => format!("good to {}: no verdict on {limit} ms", plus_minus(good_to)),
        None => format!("{not}within {limit} ms"),
    };
    let replaced = match kept.n_replaced_beyond {
        0 => String::new(),
        n => format!(", and beyond it in {}", phrases::plural(n, "replaced run")),
    };
    format!("; p{} {measured} ms, {stands}{replaced}", kept.percentile)
}
