//! Findings about the state in which runs began: the same data, the requested checkpoints.

pub(super) mod made_under;
pub(super) mod tables;
pub(super) mod unlike_source;

use model::experiment::case::Case;
use model::experiment::os::WalPolicy;
use model::experiment::script::CaseData;
use model::run::RunRecord;
use model::run::phase::Phase;
use model::telemetry::event::EventKind;

use super::format::{bytes, plural};
use super::{ON_RECORDS, Rule, RuleCheck, RunContext, StudyContext};
use crate::finding::{Finding, Severity};
use crate::run::marks;

pub(super) const DATA_DIFFERS: Rule = Rule {
    id: "data-differs",
    title: "Runs did not begin from the same data",
    severity: "Void when rows, indexes or checksums differ between runs restored to the same data; Doubt \
               when only other definitions of the tables or sizes do, on the same server; Note when \
               prepare.restore is off, or workload.data of a server by URL is none",
    source: "design: each run begins from the same state",
    advice: "Turn on prepare.restore, or repeat.",
    evidence: "Rows, sizes, definitions of tables and indexes, and checksums before vacuum and analyze, \
               against the first run on the same data.",
    why: "A run on a bloated or half-loaded table measures the table, and repeating it does not show that.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(data_differs),
};

fn data_differs(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let records: Vec<&RunRecord> =
        data.runs.iter().map(|run| &run.record).filter(|record| record.fingerprint.is_some()).collect();
    let mut worst: Option<(Severity, String, &Case)> = None;
    for (n, record) in records.iter().enumerate() {
        let before = || records[..n].iter().filter(|first| same_data(&first.case, &record.case));
        let of_contents = before().next().and_then(|first| contents_difference(first, record));
        let laid_out_alike = before().find(|first| is_laid_out_alike(first, record));
        let of_layout = || laid_out_alike.and_then(|first| layout_difference(first, record));
        let Some((severity, how)) = of_contents.or_else(of_layout) else { continue };
        let severity = if is_restored(&record.case) { severity } else { Severity::Note };
        if worst.as_ref().is_none_or(|(known, ..)| severity > *known) {
            worst = Some((severity, how, &record.case));
        }
    }
    worst.map(|(severity, how, case)| {
        if is_taken_as_it_is(case) {
            Finding { advice: RESET_BY_HAND.to_string(), ..DATA_DIFFERS.finds(severity, how) }
        } else {
            DATA_DIFFERS.finds(severity, how)
        }
    })
}

/// Advice if pgdyno knows of no initial state.
const RESET_BY_HAND: &str = "Name the data that the scripts run on in workload.data, so that each run begins from it, or treat \
                             each run as a continuation of the previous one: on a database as it is, pgdyno restores nothing.";

/// Whether each run of a case begins with restored data.
fn is_restored(case: &Case) -> bool {
    case.prepare.restore && !is_taken_as_it_is(case)
}

/// Whether the data is the user's: pgdyno restores its own servers as a whole, but one by URL only if the data is
/// named.
fn is_taken_as_it_is(case: &Case) -> bool {
    case.workload.data == CaseData::None && !case.server.source.is_embedded()
}

/// Whether two cases should begin with the same rows.
fn same_data(one: &Case, other: &Case) -> bool {
    let of = |case: &Case| {
        let directory = case.workload.data_directory().map(|directory| directory.data_identity.clone());
        (case.workload.data.clone(), directory, case.workload.scale, case.workload.layout)
    };
    one.prepare.restore == other.prepare.restore && of(one) == of(other)
}

/// Whether two runs should begin with the same files. Another server may lay out the same rows differently, and print definitions
/// differently; so may one that had other settings when the data was made.
fn is_laid_out_alike(first: &RunRecord, record: &RunRecord) -> bool {
    first.case.server.source == record.case.server.source
        && made_under::made_under(first) == made_under::made_under(record)
}

fn contents_difference(first: &RunRecord, record: &RunRecord) -> Option<(Severity, String)> {
    let (runs, print) = ((first.spec.run, record.spec.run), record.fingerprint.as_ref()?);
    let begun = first.fingerprint.as_ref()?;
    for (table, n) in &record.rows_before {
        if let Some(of_first) = first.rows_before.get(table).filter(|of_first| *of_first != n) {
            let how =
                format!("run {} began with {of_first} rows in `{table}`, run {} with {n}", runs.0, runs.1);
            return Some((Severity::Void, how));
        }
    }
    let what = begun.contents_differ(print)?;
    Some((Severity::Void, format!("runs {} and {} began with a difference in {what}", runs.0, runs.1)))
}

fn layout_difference(first: &RunRecord, record: &RunRecord) -> Option<(Severity, String)> {
    let (runs, print) = ((first.spec.run, record.spec.run), record.fingerprint.as_ref()?);
    let begun = first.fingerprint.as_ref()?;
    if let Some((what, ..)) = begun.definitions_differ(print).next() {
        let how = format!(
            "the definition of {what} differs between the beginnings of runs {} and {}",
            runs.0, runs.1
        );
        return Some((Severity::Doubt, how));
    }
    let (relation, of_first, n) = begun.sizes_differ(print)?;
    let how = format!(
        "`{relation}` had {} when run {} began, {} when run {} did",
        bytes(of_first),
        runs.0,
        bytes(n),
        runs.1
    );
    Some((Severity::Doubt, how))
}

pub(super) const DATABASE_CHANGED: Rule = Rule {
    id: "database-changed",
    title: "Somebody else changed the database between runs",
    severity: "Note when a database by URL has changes that no load explains: its tables were loaded again, \
               and no copy replaced it",
    source: "design: pgdyno drops only what it can prove that it made",
    advice: "Give the benchmark its own database (pgdyno init --create-database), or keep others out of this \
             one while it runs.",
    evidence: "The database's catalogs and properties, against those when the data was loaded.",
    why: "A copy would have dropped what others created; tables loaded again have another layout on disk.",
    tested: "Tables, views and functions that another session creates in a database by URL between two runs.",
    check: RuleCheck::Run(database_changed),
};

fn database_changed(context: &RunContext) -> Option<Finding> {
    let restore = context.data.record.phase(Phase::Restore)?;
    let difference = restore.detail.get("database_changed")?;
    Some(DATABASE_CHANGED.finds(Severity::Note, format!("{difference}; nothing was dropped because of it")))
}

pub(super) const PAGE_CACHE_LOST: Rule = Rule {
    id: "page-cache-lost",
    title: "The page cache shrank before the run",
    severity: "Doubt when reserving huge pages cost the page cache 1 MiB or more, and neither a second \
               restore nor prewarming read the data again",
    source: "our rule",
    advice: "Turn on prepare.prewarm, or prepare.restore with prepare.snapshot, or reserve huge pages at boot, while memory is whole.",
    evidence: "The page cache before and after huge pages were reserved, and what read the data after that.",
    why: "The run reads from disk what other runs of its case find in memory.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(page_cache_lost),
};

fn page_cache_lost(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let restore = record.phase(Phase::Restore)?;
    let lost: u64 = restore.detail.get("page_cache_lost_bytes")?.parse().ok()?;
    let is_read_again = record.case.prepare.prewarm || restore.detail.contains_key("restored_again_seconds");
    (!is_read_again).then(|| {
        let lost = bytes(lost);
        let evidence = format!("the page cache lost {lost} to huge pages, and nothing read the data again");
        PAGE_CACHE_LOST.finds(Severity::Doubt, evidence)
    })
}

pub(super) const WAL_POLICY: Rule = Rule {
    id: "wal-policy",
    title: "Checkpoints are not as requested",
    severity: "Doubt when a run with run.wal no-checkpoint had one in its measurement, or one with \
               two-checkpoints fewer than two whole ones; Note when WAL requested one in another run's \
               measurement",
    source: "PostgreSQL's xlog.c: WAL of max_wal_size / (1 + checkpoint_completion_target) requests a \
             checkpoint",
    advice: "Set max_wal_size or the measurement's length as the evidence says, or let run.wal do it on a \
             server that pgdyno runs.",
    evidence: "The rate of WAL in the ramp-up and the measurement's checkpoints, against what run.wal asks \
               for.",
    why: "A run with another number of checkpoints answers another question.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(wal_policy),
};

fn wal_policy(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let span = context.line.measured_span()?;
    let of_kind = |mark: &&crate::summary::TimelineMark| mark.kind == marks::CHECKPOINT;
    let touching =
        context.summary.marks.iter().filter(of_kind).filter(|mark| marks::touches(mark, span)).count();
    let whole = |mark: &&crate::summary::TimelineMark| mark.from_s >= span.0 && mark.to_s <= span.1;
    let whole = context.summary.marks.iter().filter(of_kind).filter(whole).count();
    let recorded = |name: &str| record.phase(Phase::RampUp).and_then(|phase| phase.detail.get(name));
    let or_unknown = |name: &str| recorded(name).map_or("unknown", String::as_str);
    let rate = recorded("wal_mb_per_s").and_then(|text| text.parse::<f64>().ok());
    let advice = format!(
        "at {} of WAL no checkpoint needs max_wal_size = {}, two need a measurement of {}",
        rate.map_or("an unknown rate".to_string(), |mb_per_s| format!(
            "{}/s",
            bytes((mb_per_s * 1e6) as u64)
        )),
        or_unknown("max_wal_size_for_no_checkpoint"),
        or_unknown("measure_for_two_checkpoints")
    );
    match record.case.wal {
        WalPolicy::NoCheckpoint if touching > 0 => Some(WAL_POLICY.finds(
            Severity::Doubt,
            format!("{} in a measurement that should have none; {advice}", plural(touching, "checkpoint")),
        )),
        WalPolicy::TwoCheckpoints if whole < 2 => Some(WAL_POLICY.finds(
            Severity::Doubt,
            format!(
                "{} in a measurement that should contain two; {advice}",
                plural(whole, "whole checkpoint")
            ),
        )),
        WalPolicy::AsIs if requested(context, span) => {
            Some(WAL_POLICY.finds(Severity::Note, format!("WAL requested a checkpoint; {advice}")))
        }
        _ => None,
    }
}

/// Whether a checkpoint during the measurement was requested because of the WAL written (`wal`, before 10 `xlog`).
fn requested(context: &RunContext, span: (f64, f64)) -> bool {
    let starts = context.data.events.iter().filter(|event| event.kind == EventKind::CheckpointStart);
    let mut within = starts.filter(|event| {
        context.line.place(event.t_unix_ns).is_some_and(|t_s| (span.0..span.1).contains(&t_s))
    });
    within.any(|event| {
        event
            .detail
            .get("cause")
            .is_some_and(|cause| cause.split(' ').any(|word| word == "wal" || word == "xlog"))
    })
}
