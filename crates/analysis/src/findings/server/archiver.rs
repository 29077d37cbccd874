//! The finding about WAL that could not be archived.

use model::text::prose::plural;

use crate::finding::{Finding, Severity};
use crate::findings::{Rule, RuleCheck, RunContext};

pub(in crate::findings) const ARCHIVING_FAILED: Rule = Rule {
    id: "archiving-failed",
    title: "WAL could not be archived",
    severity: "Doubt when an attempt to archive a segment failed during the measurement",
    source: "PostgreSQL documentation, continuous archiving: segments stay in pg_wal until archive_command or archive_library succeeds, \
             and the server stops when their disk is full",
    advice: "Run archive_command by hand as the server's user, mend it and repeat; pg_stat_archiver has the last segment that failed.",
    evidence: "pg_stat_archiver before and after each second: archived_count and failed_count.",
    why: "Where archiving fails, its reads and its copies are missing from the load, and WAL fills the disk instead.",
    tested: "On a server that pgdyno runs, /bin/false as what archives, with transactions that switch segments of WAL.",
    check: RuleCheck::Run(archiving_failed),
};

fn archiving_failed(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let sum =
        |metric: &str| Some((context.usage.rate(metric, from_s, to_s)? * (to_s - from_s)).round() as u64);
    let failed = sum("server.archive_failures").filter(|failed| *failed > 0)?;
    let archived = sum("server.archived").unwrap_or(0);
    let evidence = format!(
        "{} to archive a segment of WAL, and {} archived meanwhile",
        plural(failed, "failed attempt"),
        plural(archived, "segment")
    );
    Some(ARCHIVING_FAILED.finds(Severity::Doubt, evidence))
}
