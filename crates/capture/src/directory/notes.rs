//! What people should know about a captured directory.

use std::collections::BTreeSet;

use crate::directory::summary::Summary;
use crate::reader::ReadLog;
use crate::role::ValueRole;
use crate::role::variables::{Variable, Variables};
use crate::template::scaling::Scaled;

/// A correction of a rate that is shown as a warning.
const CORRECTION_MAX: f64 = 2.0;
/// A difference between rates and exact counts that is said.
const DEVIATION_MAX: f64 = 0.05;
/// Captured keys without which their frequencies say nothing.
const KEYS_MIN: usize = 20;
/// A share of keys that the sample cannot have seen, and that is said.
const UNSEEN_MAX: f64 = 0.1;
/// Databases that are named.
const NAMES_MAX: usize = 5;

/// About the rates.
pub(super) fn of_rates(summary: &Summary, scaled: &Scaled, is_counted: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for one in &summary.templates {
        if let Some(factor) = one.correction
            && !(1.0 / CORRECTION_MAX..=CORRECTION_MAX).contains(&factor)
        {
            notes.push(format!("exact counts changed the rate of `{}` by a factor of {factor:.2}", one.name));
        }
    }
    if is_counted {
        notes.push(format!(
            "the log has about {:.2} % of the executions that the statistics count",
            100.0 / scaled.factor
        ));
    } else {
        notes.push(
            "rates are those of the log; if it is a sample of the transactions, --stats gives the source's"
                .to_string(),
        );
    }
    if is_counted && scaled.deviation > DEVIATION_MAX {
        notes.push(format!(
            "rates miss the exact counts by up to {:.0} %: they contradict each other",
            100.0 * scaled.deviation
        ));
    }
    if !scaled.unseen.is_empty() {
        notes.push(format!(
            "{} statements of the statistics are in no transaction of the log",
            scaled.unseen.len()
        ));
    }
    notes
}

/// About a directory of counters alone.
pub(super) fn of_counted() -> Vec<String> {
    [
        "each statement is a transaction of its own, as often as it was called: which ones belonged together, their order and their locks \
         were not counted",
        "values are drawn as pg_stats describes each column: values that belong together, and those that are hot for other reasons than \
         being common, are lost",
        "statements arrive independently of each other; the sessions and the protocol of the source are not known",
    ]
    .map(str::to_string)
    .to_vec()
}

/// About the values.
pub(super) fn of_values<'a>(all: impl Iterator<Item = &'a Variables> + Clone) -> Vec<String> {
    let mut notes = Vec::new();
    let repeats_keys = |one: &&Variable| {
        let is_missed = matches!(one.role, ValueRole::Key { unseen } if unseen > UNSEEN_MAX);
        let is_near = one.expression.as_ref().is_some_and(|text| text.contains("near("));
        is_missed && one.distinct.1 >= KEYS_MIN && one.expression.is_some() && !is_near
    };
    let n_repeated = all.clone().flat_map(|variables| &variables.all).filter(repeats_keys).count();
    if n_repeated > 0 {
        notes.push(format!(
            "{n_repeated} of the keys repeat those that were captured, though many others exist: the cache is warmer than the source's. \
             `--server` lets pgdyno draw others"
        ));
    }
    if all.clone().any(|variables| variables.deals_once) {
        notes.push(
            "some rows are dealt once; when they run out, they begin again, which the run reports"
                .to_string(),
        );
    }
    notes
}

/// About what was read, and what was not.
pub(super) fn of_log(read: &ReadLog) -> Vec<String> {
    let mut notes = Vec::new();
    if !read.has_durations {
        notes.push(
            "the log has no durations (log_min_duration_statement): shares are of executions".to_string(),
        );
    }
    let databases: BTreeSet<&str> =
        read.sessions.values().filter_map(|session| session.database.as_deref()).collect();
    if databases.len() > 1 {
        let names: Vec<&str> = databases.into_iter().take(NAMES_MAX).collect();
        notes.push(format!(
            "statements are of several databases ({}), and a run has one: choose with --database",
            names.join(", ")
        ));
    }
    if read.n_unwanted > 0 {
        notes.push(format!(
            "{} statements of other sessions or of pgdyno are no part of this",
            read.n_unwanted
        ));
    }
    if read.n_fetches > 0 {
        notes.push(format!(
            "{} fetches of parts of a result are left out; their statements are read whole",
            read.n_fetches
        ));
    }
    notes
}
