//! Whether the rows that scripts change lie all over their tables or in a corner of them.

use model::run::RunRecord;
use model::run::phase::Phase;

use crate::finding::{Finding, Severity};
use crate::findings::format::{list, percent};
use crate::findings::{Rule, RuleCheck, RunContext};
use crate::run::usage::sum_of;

/// Part of the pages that evenly spread changes would reach, below which they are in a corner.
const SHARE_MIN: f64 = 0.25;
/// Fewer pages, 8 MB, are in memory and in the WAL soon, wherever they are.
const PAGES_MIN: f64 = 1000.0;
/// Backends report their WAL up to a second late: a tenth of such a load.
const LOAD_S_MIN: f64 = 10.0;
/// Functions of scripts that prefer some rows on purpose.
const SKEWED: [&str; 3] = ["random_zipfian", "random_exponential", "random_gaussian"];

pub(in crate::findings) const FEW_PAGES: Rule = Rule {
    id: "few-pages",
    title: "Scripts change a corner of the data",
    severity: "Doubt when scripts that draw evenly (random()) update and delete rows on fewer than a quarter \
               of the pages on which evenly spread rows would lie, of 1000 or more; Note when they draw with \
               a preference, or not at all",
    source: "PostgreSQL documentation, full_page_writes and pg_stat_wal; occupancy of n balls in P bins, P(1 - exp(-n/P)); a quarter is \
             our convention",
    advice: "Check the ranges of random keys against the data (-D scale, workload.scale), or state the \
             preference with the number.",
    evidence: "Rows updated and deleted by table (pg_stat_get_tuples_updated(), \
               pg_stat_get_tuples_deleted()), sizes of the tables, and full-page images of the server since \
               the checkpoint before the load: at least as many as pages changed. Needs 14 or later or \
               pg_waldump of a server that pgdyno runs, that checkpoint, full_page_writes, logged tables, \
               and a load of 10 s or more.",
    why: "Pages that change again and again stay in memory and are logged whole once: the number is that of \
          a much smaller database.",
    tested: "By hand: an UPDATE of the first hundredth of pgbench_accounts, and of all of it, by URL.",
    check: RuleCheck::Run(few_pages),
};

fn few_pages(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let server = record.server.as_ref().filter(|server| server.setting("full_page_writes") == Some("on"))?;
    let load = record.load.as_ref().filter(|load| load.profiles.is_none() && !record.took_turns())?;
    if server.in_recovery || context.line.end_s < LOAD_S_MIN || !begins_at_a_checkpoint(record) {
        return None;
    }
    const METRIC: &str = "server.wal_full_page_images";
    let images =
        context.usage.with_metric(METRIC).map(|tick| sum_of(tick, METRIC)).reduce(|sum, n| sum + n)?;
    let tables = written_tables(record)?;
    let [rows, pages, reached] = tables.iter().fold([0.0; 3], |[rows, pages, reached], table| {
        [rows + table.rows, pages + table.pages, reached + table.reached()]
    });
    if reached < PAGES_MIN || images >= SHARE_MIN * reached {
        return None;
    }
    let scripts = load.scripts.iter().filter(|script| script.weight > 0);
    let text: String = scripts.map(|script| script.source.to_lowercase()).collect();
    let is_even = text.contains("random(") && !SKEWED.iter().any(|name| text.contains(name));
    let names: Vec<String> = tables.iter().map(|table| format!("`{}`", table.name)).collect();
    let evidence = format!(
        "{rows:.0} rows of {} were updated or deleted on at most {images:.0} of {pages:.0} pages ({}); spread evenly, they \
         would lie on {reached:.0}",
        list(&names, 4),
        percent(images / pages),
    );
    Some(FEW_PAGES.finds(if is_even { Severity::Doubt } else { Severity::Note }, evidence))
}

/// Whether each page's first change in the load wrote its image.
fn begins_at_a_checkpoint(record: &RunRecord) -> bool {
    let mut phases = record.phases.iter().filter(|phase| phase.phase == Phase::Checkpoint);
    phases.any(|phase| !phase.detail.contains_key("skipped"))
}

/// A table of which a load updated or deleted rows.
struct Written<'a> {
    name: &'a str,
    rows: f64,
    pages: f64,
}

impl Written<'_> {
    /// Pages that this many rows, each on a random page, are expected to lie on.
    fn reached(&self) -> f64 {
        self.pages * -(-self.rows / self.pages.max(1.0)).exp_m1()
    }
}

/// `None` if one of them must not be logged.
fn written_tables(record: &RunRecord) -> Option<Vec<Written<'_>>> {
    let definitions = &record.fingerprint.as_ref()?.definitions;
    let tables = record.touched.iter().map(|(name, touched)| Written {
        name,
        rows: touched.rows_changed.saturating_sub(touched.rows_inserted) as f64,
        pages: touched.pages as f64,
    });
    let tables: Vec<Written> = tables.filter(|table| table.rows > 0.0).collect();
    let is_logged = |table: &Written| {
        let definition = definitions.get(table.name).and_then(|objects| objects.get("table"));
        definition.is_some_and(|text| text.starts_with("logged"))
    };
    tables.iter().all(is_logged).then_some(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reach_as_many_pages_as_chance_lets_them() {
        let check = |rows, pages, expected: f64| {
            let reached = Written { name: "t", rows, pages }.reached();
            assert!((reached - expected).abs() < 0.5, "{rows} rows on {pages} pages: {reached}");
        };
        check(0.0, 1000.0, 0.0);
        check(1.0, 1000.0, 1.0);
        check(1000.0, 1000.0, 632.0);
        check(1e6, 1000.0, 1000.0);
        check(5.0, 0.0, 0.0);
    }
}
