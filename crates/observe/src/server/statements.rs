//! Statements of the database under load: which of them sampled sessions are in, and, where the extension pg_stat_statements is
//! there, how often each ran and for how long.
//!
//! Pure. Texts are kept without literals ([`statement_text`]), and of a bounded number of statements.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use wire::quote_literal;

use crate::gather::Gather;
use crate::server::statement_text::{self, LOOKED_AT};

/// A statement's row in the metric column: the instance is its identifier, the value are the numbers of [`Counts`].
pub(crate) const STATEMENT: &str = "event.statement";
/// The metrics of the extension, for messages.
pub(crate) const PART: &str = "statements.calls";
/// Pause between two samples that say which statements sessions are in.
pub(crate) const PAUSE: Duration = Duration::from_millis(450);

/// Statements of a tick by sampled sessions, and by time. All others of the tick count as one.
const SAMPLED_MAX: usize = 30;
const COUNTED_MAX: usize = 50;
const OTHER: &str = "other";
/// Statements of which texts are kept during a run.
const NAMES_MAX: usize = 500;
/// Statements of the extension that are looked at: its default is to keep 5,000.
const ROWS_MAX: usize = 10_000;

/// The extension: the schema of its functions, quoted, and its version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatExtension {
    pub(crate) schema: String,
    pub(crate) version: (u32, u32),
}

/// The extension's name.
pub(crate) const NAME: &str = "pg_stat_statements";

impl StatExtension {
    pub(crate) fn new(schema: &str, version: &str) -> Option<StatExtension> {
        let (major, minor) = version.split_once('.')?;
        Some(StatExtension {
            schema: schema.to_string(),
            version: (major.parse().ok()?, minor.parse().ok()?),
        })
    }

    /// SQL for a row per statement of a database. The columns follow the version of the extension, which may be older than
    /// that of the server: 1.8 came with 13, 1.9 with 14, 1.10 with 15, 1.11 with 17.
    pub(crate) fn sql(&self, database: &str) -> String {
        let since = |minor: u32, column: &'static str| if self.version >= (1, minor) { column } else { "0" };
        let executing = if self.version >= (1, 8) { "total_exec_time" } else { "total_time" };
        let mut io = if self.version >= (1, 11) {
            "shared_blk_read_time + shared_blk_write_time + local_blk_read_time + local_blk_write_time"
                .to_string()
        } else {
            "blk_read_time + blk_write_time".to_string()
        };
        if self.version >= (1, 10) {
            io.push_str(" + temp_blk_read_time + temp_blk_write_time");
        }
        let columns = [
            "calls",
            executing,
            since(8, "total_plan_time"),
            "rows",
            "shared_blks_read",
            "temp_blks_read + temp_blks_written",
            &io,
            since(8, "wal_bytes"),
        ]
        .map(|column| format!("sum({column})"))
        .join(", ");
        // Statements within functions are part of those that call them.
        let of_clients = if self.version >= (1, 9) { " and s.toplevel" } else { "" };
        format!(
            "select '{STATEMENT}', s.queryid::text, concat_ws(' ', {columns}) from {}.pg_stat_statements(false) s \
             where s.queryid is not null and s.dbid = (select oid from pg_database where datname = {}){of_clients} \
             group by s.queryid",
            self.schema,
            quote_literal(database)
        )
    }

    /// SQL for the texts of statements, which the extension keeps in a file.
    pub(crate) fn texts_sql(&self, identifiers: &[&str]) -> String {
        let list: Vec<String> = identifiers.iter().map(|id| quote_literal(id)).collect();
        format!(
            "select queryid::text, min(left(query, {LOOKED_AT})) from {}.pg_stat_statements(true) \
             where queryid::text in ({}) group by 1",
            self.schema,
            list.join(", ")
        )
    }
}

/// What a statement has used: calls, then seconds in the executor and in the planner, rows, blocks read, blocks of temporary
/// files, seconds of I/O, bytes of WAL.
type Counts = [f64; METRICS.len()];

/// The metrics of [`Counts`], each with the factor from the extension's unit.
const METRICS: [(&str, f64); 8] = [
    ("statements.calls", 1.0),
    ("statements.time", 1e-3),
    ("statements.plan_time", 1e-3),
    ("statements.rows", 1.0),
    ("statements.blocks_read", 1.0),
    ("statements.temp_blocks", 1.0),
    ("statements.io_time", 1e-3),
    ("statements.wal_bytes", 1.0),
];
/// Where the time in the executor is among them.
const TIME: usize = 1;

fn parse(numbers: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut words = numbers.split(' ');
    for (count, (_, unit)) in counts.iter_mut().zip(METRICS) {
        *count = words.next()?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)? * unit;
    }
    Some(counts)
}

/// The extension's counters between two readings.
#[derive(Debug, Default)]
pub(crate) struct StatementCounts {
    before: HashMap<String, Counts>,
    /// When they were read last.
    read: Option<Instant>,
}

impl StatementCounts {
    /// Takes the rows of a reading, and hands over what has been added since the last one. Returns the statements that a
    /// reader will want to know.
    pub(crate) fn put(&mut self, rows: &[(String, String)], at: Instant, gather: &mut Gather) -> Vec<String> {
        let mut increases: Vec<(String, Counts)> = Vec::new();
        let mut now = HashMap::with_capacity(rows.len());
        for (id, numbers) in rows.iter().take(ROWS_MAX) {
            let Some(counts) = parse(numbers) else { continue };
            let before = self.before.get(id).copied().unwrap_or_default();
            // Fewer calls than before: the extension dropped the statement, or all, and began again.
            let before = if counts[0] < before[0] { Counts::default() } else { before };
            let mut increase = counts;
            increase.iter_mut().zip(before).for_each(|(n, before)| *n = (*n - before).max(0.0));
            now.insert(id.clone(), counts);
            if increase[0] > 0.0 {
                increases.push((id.clone(), increase));
            }
        }
        self.before = now;
        let Some(last) = self.read.replace(at) else { return Vec::new() };
        gather.put("statements.span", "", at.saturating_duration_since(last).as_secs_f64());
        increases.sort_by(|a, b| b.1[TIME].total_cmp(&a.1[TIME]));
        let others = increases.split_off(increases.len().min(COUNTED_MAX));
        let names = increases.iter().map(|(id, _)| id.clone()).collect();
        let mut rest = Counts::default();
        others.iter().for_each(|(_, increase)| rest.iter_mut().zip(increase).for_each(|(sum, n)| *sum += n));
        increases.push((OTHER.to_string(), rest));
        for (id, increase) in &increases {
            for ((metric, _), n) in METRICS.iter().zip(increase).filter(|(_, n)| **n > 0.0) {
                gather.put_increase(metric, id, *n);
            }
        }
        names
    }
}

/// Whether a row of `a` is a session in a statement of this database.
fn is_in_statement(database: &str) -> String {
    format!("a.state = 'active' and a.kind = 'client backend' and a.datname = {}", quote_literal(database))
}

/// The identifier and the text of each session's statement, as a lateral `s` of `a`. Sessions whose statement has an identifier
/// (14 and later, if the server computes them) need no comparison of texts.
pub(crate) fn of_sessions(database: &str) -> String {
    let is_in = is_in_statement(database);
    format!(
        "lateral (select case when {is_in} then a.query_id end as id, \
         case when {is_in} then left(a.query, {LOOKED_AT}) end as text) s"
    )
}

/// The statements that sampled sessions of a tick were in, by what they waited for.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    n_samples: u32,
    sessions: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Sampled {
    pub(crate) fn count_sample(&mut self) {
        self.n_samples += 1;
    }

    pub(crate) fn add(&mut self, id: &str, what: &str, n: u32) {
        let by = self.sessions.entry(id.to_string()).or_default();
        *by.entry(what.to_string()).or_default() += f64::from(n);
    }

    pub(crate) fn put(self, gather: &mut Gather) {
        if self.n_samples == 0 {
            return;
        }
        gather.put("statements.samples", "", f64::from(self.n_samples));
        let mut all: Vec<(String, BTreeMap<String, f64>)> = self.sessions.into_iter().collect();
        let sum = |by: &BTreeMap<String, f64>| by.values().sum::<f64>();
        all.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
        let mut others: BTreeMap<String, f64> = BTreeMap::new();
        for (what, n) in all.split_off(all.len().min(SAMPLED_MAX)).into_iter().flat_map(|(_, by)| by) {
            *others.entry(what).or_default() += n;
        }
        all.push((OTHER.to_string(), others));
        for (id, by) in all {
            by.iter()
                .for_each(|(what, n)| gather.put_said("statements.sessions", &format!("{id}/{what}"), *n));
        }
    }
}

/// The statements of a run that have a text.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeMap<String, bool>,
    /// Not handed over yet.
    fresh: Vec<(String, String)>,
}

impl Names {
    /// The identifier of a statement that a session is in. `given` is the server's, or empty.
    pub(crate) fn of(&mut self, given: &str, text: &str) -> String {
        if !given.is_empty() {
            if !self.has(given) {
                self.learn(given, text);
            }
            return given.to_string();
        }
        let text = statement_text::normalized(text);
        let id = statement_text::identifier(&text);
        if !self.has(&id) && !self.keep(&id, text) {
            return OTHER.to_string();
        }
        id
    }

    /// Takes the text of a statement.
    pub(crate) fn learn(&mut self, id: &str, text: &str) {
        self.keep(id, statement_text::normalized(text));
    }

    /// Notes statements that matter, whose texts the extension has.
    pub(crate) fn want(&mut self, ids: Vec<String>) {
        for id in ids {
            if self.known.len() < NAMES_MAX {
                self.known.entry(id).or_insert(false);
            }
        }
    }

    /// Statements without a text so far.
    pub(crate) fn wanted(&self) -> Vec<&str> {
        self.known.iter().filter(|(_, has_text)| !**has_text).map(|(id, _)| id.as_str()).collect()
    }

    /// Hands over the texts that are new.
    pub(crate) fn take(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.fresh)
    }

    fn has(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|has_text| *has_text)
    }

    fn keep(&mut self, id: &str, text: String) -> bool {
        if self.known.len() >= NAMES_MAX && !self.known.contains_key(id) {
            return false;
        }
        if self.known.insert(id.to_string(), true) != Some(true) {
            self.fresh.push((id.to_string(), text));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn each_version_of_the_extension_is_asked_for_its_columns() {
        for (version, has, has_not) in [
            ("1.4", "sum(total_time), sum(0), sum(rows)", "toplevel"),
            ("1.7", "sum(blk_read_time + blk_write_time), sum(0)", "total_exec_time"),
            ("1.8", "sum(total_exec_time), sum(total_plan_time)", "toplevel"),
            ("1.9", "and s.toplevel", "temp_blk_read_time"),
            ("1.10", "blk_write_time + temp_blk_read_time", "shared_blk_read_time"),
            ("1.12", "sum(shared_blk_read_time", "sum(blk_read_time"),
        ] {
            let sql = StatExtension::new("public", version).unwrap().sql("it's");
            assert!(sql.contains(has) && !sql.contains(has_not), "{version}: {sql}");
            assert!(sql.contains("'it''s'"), "{sql}");
        }
        assert_eq!(StatExtension::new("public", "unpackaged"), None);
    }

    #[test]
    fn statements_count_from_the_first_reading_and_again_after_they_were_dropped() {
        let mut counted = StatementCounts::default();
        let mut gather = Gather::new(Backwards::Reset);
        let mut tick = |rows: &[(&str, &str)]| {
            let rows: Vec<(String, String)> =
                rows.iter().map(|(id, n)| (id.to_string(), n.to_string())).collect();
            let names = counted.put(&rows, Instant::now(), &mut gather);
            (names, gather.take().0)
        };
        let (names, values) = tick(&[("7", "10 100 0 10 1 0 0 500"), ("8", "5 1 0 5 0 0 0 0")]);
        assert!(names.is_empty() && values.is_empty(), "{values:?}");
        let rows = [
            ("7", "12 350.5 0 12 1 0 0 700"),
            ("8", "5 1 0 5 0 0 0 0"),
            ("9", "1 2 0 1 0 0 0 0"),
            ("x", "1 no"),
        ];
        let (names, values) = tick(&rows);
        assert_eq!(names, ["7", "9"]);
        assert_eq!(values["statements.calls[7]"], 2.0);
        assert!((values["statements.time[7]"] - 0.2505).abs() < 1e-9, "{values:?}");
        assert_eq!(values["statements.wal_bytes[7]"], 200.0);
        assert_eq!(values["statements.rows[9]"], 1.0);
        assert!(values.keys().all(|key| !key.contains("[8]") && !key.contains("blocks")), "{values:?}");
        let (_, values) = tick(&[("7", "3 30 0 3 0 0 0 0")]);
        assert_eq!(values["statements.calls[7]"], 3.0, "dropped and begun again");
    }

    #[test]
    fn statements_beyond_a_bound_are_one_and_texts_have_no_literals() {
        let mut names = Names::default();
        let mut sampled = Sampled::default();
        sampled.count_sample();
        for i in 0..100 {
            let id = names.of("", &format!("select 'geheim' from t{i}"));
            sampled.add(&id, "CPU", 1 + u32::from(i == 3));
        }
        assert_eq!(names.of("-5", "update t set a = 1"), "-5");
        let mut gather = Gather::new(Backwards::Reset);
        sampled.put(&mut gather);
        let (values, _) = gather.take();
        assert_eq!(values["statements.sessions[other/CPU]"], 70.0);
        assert_eq!(values.len(), SAMPLED_MAX + 2);
        names.want(vec!["-5".to_string(), "6".to_string()]);
        assert_eq!(names.wanted(), ["6"]);
        let fresh = names.take();
        assert_eq!(fresh.len(), 101);
        assert!(fresh.iter().all(|(_, text)| !text.contains("geheim")), "{fresh:?}");
        let third = fresh.iter().find(|(_, text)| text == "select ? from t3").unwrap();
        assert_eq!(values[&format!("statements.sessions[{}/CPU]", third.0)], 2.0);
        for i in 0..1000 {
            names.of("", &format!("select 1 from u{i}"));
        }
        assert_eq!(names.of("", "select 1 from elsewhere"), OTHER);
        assert!(names.take().len() <= NAMES_MAX);
    }
}
