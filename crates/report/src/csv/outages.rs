//! Columns of outages.

use analysis::summary::{CaseOutages, CaseSummary, OutageLength, OutageSummary, RunSummary, Study};

use super::number;

/// Adds the columns of a run, if any run has an outage.
pub(super) fn of_run(study: &Study, row: &mut Vec<(String, String)>, run: &RunSummary) {
    if study.runs.iter().any(|run| run.outage.is_some()) {
        row.extend(columns(run.outage.as_deref()).into_iter().map(|(name, value)| (name.to_string(), value)));
    }
}

/// Adds the columns of a case, if any case has outages.
pub(super) fn of_case(study: &Study, row: &mut Vec<(String, String)>, case: &CaseSummary) {
    if study.cases.iter().any(|case| case.outages.is_some()) {
        let columns = case_columns(case.outages.as_ref());
        row.extend(columns.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
}

/// Columns of a run; what is unknown is empty.
fn columns(outage: Option<&OutageSummary>) -> Vec<(&'static str, String)> {
    let of = |value: fn(&OutageSummary) -> Option<f64>| number(outage.and_then(value));
    let counted = outage.and_then(|outage| outage.commits.counted.as_ref());
    let count = |value: fn(&analysis::summary::CommitCounts) -> u64| {
        counted.map(|counted| value(counted).to_string()).unwrap_or_default()
    };
    let lost_before =
        |index: usize| number(counted.and_then(|counted| counted.lost_before_s).map(|both| both[index]));
    let errors = outage.map(|outage| {
        let each = outage.errors.iter().map(|(state, n)| format!("{state}:{n}"));
        each.collect::<Vec<String>>().join(" ")
    });
    vec![
        ("outage_fault", outage.map(|outage| outage.fault.clone()).unwrap_or_default()),
        ("outage_at_s", of(|one| Some(one.at_s))),
        ("outage_proved", outage.map(|outage| outage.is_proved.to_string()).unwrap_or_default()),
        ("wal_since_checkpoint_bytes", of(|one| one.wal_since_checkpoint_bytes.map(|n| n as f64))),
        ("answer_limit_ns", of(|one| Some(one.limit_ns as f64))),
        ("write_outage_s", of(|one| Some(one.write_outage.s))),
        (
            "outage_outlasts_load",
            outage.map(|one| one.write_outage.is_at_least.to_string()).unwrap_or_default(),
        ),
        ("outage_onset_s", of(|one| one.onset_s)),
        ("lost_service_s", of(|one| Some(one.lost_service_s))),
        ("outage_due", of(|one| Some(one.n_due as f64))),
        ("outage_not_served", of(|one| Some(one.n_not_served as f64))),
        ("longest_gap_s", of(|one| Some(one.gap.s))),
        ("detection_s", of(|one| one.parts.detection_s)),
        ("recovery_s", of(|one| one.parts.recovery_s)),
        ("first_commit_s", of(|one| one.parts.first_commit_s)),
        ("clients_back_s", of(|one| one.parts.clients_s)),
        (
            "after_effects_s",
            of(|one| one.after_effects.filter(|length| !length.is_at_least).map(|length| length.s)),
        ),
        ("commits_acknowledged", count(|counted| counted.acknowledged)),
        ("commits_lost", count(|counted| counted.lost)),
        ("lost_first_before_s", lost_before(0)),
        ("lost_last_before_s", lost_before(1)),
        ("ghosts", count(|counted| counted.ghosts)),
        ("doubled", count(|counted| counted.doubled)),
        ("unknown_present", count(|counted| counted.unknown_present)),
        ("unknown_absent", count(|counted| counted.unknown_absent)),
        ("of_two_primaries", number(counted.and_then(|counted| counted.of_two_primaries).map(|n| n as f64))),
        ("outage_errors", errors.unwrap_or_default()),
    ]
}

/// Columns of a case.
fn case_columns(outages: Option<&CaseOutages>) -> Vec<(&'static str, String)> {
    let of = |value: fn(&CaseOutages) -> OutageLength| number(outages.map(|outages| value(outages).s));
    let is_open = outages.map(|outages| outages.write_outage.median.is_at_least.to_string());
    vec![
        ("outages", outages.map(|outages| outages.n.to_string()).unwrap_or_default()),
        ("write_outage_s", of(|one| one.write_outage.median)),
        ("write_outage_is_at_least", is_open.unwrap_or_default()),
        ("write_outage_min_s", of(|one| one.write_outage.min)),
        ("write_outage_max_s", of(|one| one.write_outage.max)),
        ("lost_service_s", of(|one| one.lost_service.median)),
        ("lost_service_min_s", of(|one| one.lost_service.min)),
        ("lost_service_max_s", of(|one| one.lost_service.max)),
        ("longest_gap_s", of(|one| one.gap.median)),
        (
            "outages_with_known_loss",
            outages.map(|outages| outages.loss.n_known.to_string()).unwrap_or_default(),
        ),
        ("outages_that_lost", of_loss(outages)),
        ("loss_chance_below", number(outages.and_then(|outages| outages.loss.chance_below))),
    ]
}

fn of_loss(outages: Option<&CaseOutages>) -> String {
    let known = outages.filter(|outages| outages.loss.n_known > 0);
    known.map(|outages| outages.loss.lost.len().to_string()).unwrap_or_default()
}
