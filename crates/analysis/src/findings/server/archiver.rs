//! The findings about WAL that could not be archived, or not fast enough.

use model::text::prose::{duration, plural};
use model::text::units::size_bytes;

use crate::finding::{Finding, Severity};
use crate::findings::{Rule, RuleCheck, RunContext};

/// Segments that may wait at the end: one that was just filled, and one at work.
const READY_MAX: f64 = 2.0;
/// Size of a segment where the server does not say it (PostgreSQL's default).
const SEGMENT_BYTES: u64 = 16 << 20;

pub(in crate::findings) const ARCHIVING_FAILED: Rule = Rule {
    id: "archiving-failed",
    title: "WAL could not be archived",
    severity: "Doubt when archiving a segment failed during the measurement",
    source: "PostgreSQL documentation, continuous archiving",
    advice: "Run archive_command by hand as the server's user, mend it and repeat; pg_stat_archiver names \
             the segment.",
    evidence: "pg_stat_archiver before and after each second: archived_count and failed_count.",
    why: "The reads and copies of archiving are missing from the load, and WAL fills the disk instead.",
    tested: "/bin/false as what archives, on a server that pgdyno runs.",
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

pub(in crate::findings) const ARCHIVER_BEHIND: Rule = Rule {
    id: "archiver-behind",
    title: "WAL is written faster than it is archived",
    severity: "Doubt when more than 2 segments wait at the end of the measurement, and more than in its \
               middle and at its beginning",
    source: "PostgreSQL documentation, continuous archiving; 2 is our convention: one that was just filled, one at work",
    advice: "Archive faster (several segments at a time, asynchronously), write less WAL (wal_compression, \
             fewer checkpoints), or offer a lower rate: the server sustains the rate of archiving.",
    evidence: "Files `.ready` in archive_status each second (pg_ls_archive_statusdir), and free space of the device with WAL.",
    why: "Such a server goes on until the disk with its WAL is full.",
    tested: "On a server that pgdyno runs with archive.command = \"false\".",
    check: RuleCheck::Run(archiver_behind),
};

fn archiver_behind(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let within = context.usage.within("archive.ready", from_s, to_s);
    let ready: Vec<(f64, f64)> = within.map(|(placed, n)| (placed.to_s, n)).collect();
    let ((first_s, first), (_, middle), (last_s, last)) =
        (*ready.first()?, *ready.get(ready.len() / 2)?, *ready.last()?);
    if last <= READY_MAX || last <= first || last <= middle {
        return None;
    }
    let archived = context.usage.rate("server.archived", from_s, to_s).map(|per_s| per_s * (to_s - from_s));
    let archived = match archived {
        None => "how many were archived meanwhile is unknown".to_string(),
        Some(n) if n.round() == 1.0 => "1 was archived meanwhile".to_string(),
        Some(n) => format!("{n:.0} were archived meanwhile"),
    };
    let per_s = (last - first) / (last_s - first_s);
    let full = until_full_s(context, per_s);
    let evidence = format!(
        "{} waited to be archived at the end, {first:.0} at the beginning, and {archived}{}",
        plural(format!("{last:.0}"), "segment"),
        full.map_or(String::new(), |s| format!(
            "; at this rate the disk with WAL is full in {}",
            duration(s)
        ))
    );
    Some(ARCHIVER_BEHIND.finds(Severity::Doubt, evidence))
}

/// When the disk with WAL is full if so many segments more are kept each second.
fn until_full_s(context: &RunContext, segments_per_s: f64) -> Option<f64> {
    let free = |key: &str| context.usage.with_key(key).last().map(|(_, bytes)| bytes);
    let free_bytes = free("disk.free_bytes[wal]").or_else(|| free("disk.free_bytes[data]"))?;
    let server = context.data.record.server.as_ref();
    let size = server.and_then(|server| server.setting("wal_segment_size"));
    let segment_bytes = size.and_then(|size| size_bytes(size, 1)).unwrap_or(SEGMENT_BYTES);
    (segments_per_s > 0.0).then(|| free_bytes / (segments_per_s * segment_bytes as f64))
}
