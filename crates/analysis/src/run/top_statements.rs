//! Which statements a load spent its time in, and what sessions in them waited for.

use std::collections::BTreeMap;

use model::telemetry::reading::split_key;

use crate::run::series::{KINDS, kind};
use crate::run::timeline::Placed;
use crate::run::usage::Usage;
use crate::summary::TopStatement;

/// Statements that are named; the others are one.
const NAMED_MAX: usize = 10;
/// The part of a measurement that readings of the extension must cover.
const COVERAGE_MIN: f64 = 0.5;
const OTHERS: &str = "all others";
/// What the observer's own statements are called, and how they begin.
const OWN: &str = "telemetry of pgdyno";
const OWN_BEGIN: [&str; 3] = ["with a as (select pid, datname,", "prepare pgdyno_", "execute pgdyno_"];

/// Sums over a measurement.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// Sessions by kind, summed over samples.
    by: [f64; KINDS.len()],
    counters: BTreeMap<&'static str, f64>,
}

/// The texts of statements, by identifier.
type Texts = BTreeMap<String, String>;

/// The statements of a run over a span, those with the most sessions first.
pub(crate) fn of_run(
    usage: &Usage,
    span: (f64, f64),
    texts: &Texts,
    unavailable: &BTreeMap<String, String>,
) -> Vec<TopStatement> {
    let mut all: BTreeMap<&str, Sums> = BTreeMap::new();
    let within = |placed: &&Placed| placed.share_within(span.0, span.1) > 0.5;
    let mut n_samples = 0.0;
    for placed in usage.with_metric("statements.samples").filter(within) {
        n_samples += placed.tick.values.get("statements.samples").unwrap_or(0.0);
        for (instance, n) in of_metric(placed, "statements.sessions") {
            let Some((id, what)) = instance.split_once('/') else { continue };
            let at = kind(what).and_then(|kind| KINDS.iter().position(|one| *one == kind));
            if let Some(at) = at {
                all.entry(text(texts, id)).or_default().by[at] += n;
            }
        }
    }
    let mut covered_s = 0.0;
    for placed in usage.with_metric("statements.span") {
        // A reading covers the time since the one before, which may be many ticks.
        let length_s = placed.tick.values.get("statements.span").unwrap_or(0.0);
        let share = Placed { from_s: placed.to_s - length_s, ..*placed }.share_within(span.0, span.1);
        covered_s += share * length_s;
        for metric in COUNTERS {
            for (id, n) in of_metric(placed, metric) {
                let sums = all.entry(text(texts, id)).or_default();
                *sums.counters.entry(metric).or_default() += share * n;
            }
        }
    }
    let is_counted = covered_s >= COVERAGE_MIN * (span.1 - span.0) && covered_s > 0.0;
    let is_known = |metric: &str| !unavailable.keys().any(|what| what.split(", ").any(|one| one == metric));
    let rate = |sums: &Sums, metric: &str| {
        // What the server does not count is unknown where nobody has counted it all the same.
        let sum = sums.counters.get(metric).copied().or_else(|| is_known(metric).then_some(0.0));
        sum.filter(|_| is_counted).map(|sum| sum / covered_s)
    };
    let of = |(text, sums): (&str, Sums)| TopStatement {
        text: text.to_string(),
        sessions: (n_samples > 0.0).then(|| sums.by.iter().sum::<f64>() / n_samples),
        by: KINDS
            .into_iter()
            .zip(sums.by)
            .filter(|(_, n)| *n > 0.0)
            .map(|(k, n)| (k, n / n_samples))
            .collect(),
        calls_per_s: rate(&sums, "statements.calls"),
        time: rate(&sums, "statements.time"),
        plan_time: rate(&sums, "statements.plan_time"),
        rows_per_s: rate(&sums, "statements.rows"),
        blocks_read_per_s: rate(&sums, "statements.blocks_read"),
        temp_blocks_per_s: rate(&sums, "statements.temp_blocks"),
        io_time: rate(&sums, "statements.io_time"),
        wal_bytes_per_s: rate(&sums, "statements.wal_bytes"),
    };
    named(all.into_iter().map(of).collect())
}

/// The statements of a case: the mean over its runs that count.
pub(crate) fn of_case(runs: &[&[TopStatement]]) -> Vec<TopStatement> {
    let n_runs = runs.len().max(1) as f64;
    let mut all: BTreeMap<&str, TopStatement> = BTreeMap::new();
    for statement in runs.iter().copied().flatten() {
        let sum = all
            .entry(&statement.text)
            .or_insert_with(|| TopStatement { text: statement.text.clone(), ..TopStatement::default() });
        add(sum, statement, 1.0 / n_runs);
    }
    named(all.into_values().collect())
}

const COUNTERS: [&str; 8] = [
    "statements.calls",
    "statements.time",
    "statements.plan_time",
    "statements.rows",
    "statements.blocks_read",
    "statements.temp_blocks",
    "statements.io_time",
    "statements.wal_bytes",
];

/// The instances of a metric in a tick, with their values.
fn of_metric<'a>(placed: &Placed<'a>, metric: &str) -> impl Iterator<Item = (&'a str, f64)> {
    let values = placed.tick.values.starting_with(&format!("{metric}["));
    values.iter().filter_map(|(key, n)| Some((split_key(key).1?, *n)))
}

/// What a statement is called in reports.
fn text<'a>(texts: &'a Texts, id: &'a str) -> &'a str {
    match texts.get(id).map(String::as_str) {
        Some(text) if OWN_BEGIN.iter().any(|begin| text.starts_with(begin)) => OWN,
        Some("") => OTHERS,
        Some(text) => text,
        None if id == "other" => OTHERS,
        None => id,
    }
}

/// The first ones, and the sum of all others.
fn named(mut all: Vec<TopStatement>) -> Vec<TopStatement> {
    all.retain(|statement| statement.weight() > 0.0 || statement.calls_per_s.is_some_and(|n| n > 0.0));
    all.sort_by(|a, b| {
        let is_rest = |statement: &TopStatement| statement.text == OTHERS;
        is_rest(a).cmp(&is_rest(b)).then(b.weight().total_cmp(&a.weight()))
    });
    let rest = all.split_off(all.len().min(NAMED_MAX));
    let mut others = TopStatement { text: OTHERS.to_string(), ..TopStatement::default() };
    rest.iter().for_each(|statement| add(&mut others, statement, 1.0));
    if !rest.is_empty() {
        all.push(others);
    }
    all
}

/// Adds a part of the figures of a statement.
fn add(sum: &mut TopStatement, more: &TopStatement, part: f64) {
    let plus = |sum: &mut Option<f64>, more: Option<f64>| {
        if let Some(more) = more {
            *sum.get_or_insert(0.0) += part * more;
        }
    };
    plus(&mut sum.sessions, more.sessions);
    plus(&mut sum.calls_per_s, more.calls_per_s);
    plus(&mut sum.time, more.time);
    plus(&mut sum.plan_time, more.plan_time);
    plus(&mut sum.rows_per_s, more.rows_per_s);
    plus(&mut sum.blocks_read_per_s, more.blocks_read_per_s);
    plus(&mut sum.temp_blocks_per_s, more.temp_blocks_per_s);
    plus(&mut sum.io_time, more.io_time);
    plus(&mut sum.wal_bytes_per_s, more.wal_bytes_per_s);
    for (kind, n) in &more.by {
        match sum.by.iter_mut().find(|(one, _)| one == kind) {
            Some((_, sum)) => *sum += part * n,
            None => sum.by.push((kind, part * n)),
        }
    }
    sum.by.sort_by_key(|(kind, _)| KINDS.iter().position(|one| one == kind));
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::{Tick, TickSource, Values};

    use super::*;
    use crate::run::usage::Parties;

    fn texts() -> BTreeMap<String, String> {
        [("7", "select ?"), ("text-8", "select ?"), ("9", "execute pgdyno_often")]
            .map(|(id, text)| (id.to_string(), text.to_string()))
            .into()
    }

    fn ticks(values: &[(&str, f64)], n: u64) -> Vec<Tick> {
        let values: Values = values.iter().copied().collect();
        let tick = |t| Tick {
            source: TickSource::Server,
            end_unix_ns: t * 1_000_000_000,
            length_ns: 1_000_000_000,
            values: values.clone(),
        };
        (1..=n).map(tick).collect()
    }

    fn of(ticks: &[Tick], span: (f64, f64)) -> Vec<TopStatement> {
        let placed = ticks.iter().map(|tick| {
            let to_s = tick.end_unix_ns as f64 / 1e9;
            Placed { from_s: to_s - 1.0, to_s, tick }
        });
        let usage = Usage::new(placed.collect(), Parties { server: true, driver: true, pgdyno: true });
        of_run(&usage, span, &texts(), &BTreeMap::new())
    }

    #[test]
    fn statements_of_one_text_are_one_and_what_is_ours_is_named() {
        let values = [
            ("statements.samples", 2.0),
            ("statements.sessions[7/CPU]", 2.0),
            ("statements.sessions[text-8/IO:WalSync]", 6.0),
            ("statements.sessions[other/Lock:tuple]", 1.0),
            ("statements.span", 1.0),
            ("statements.calls[7]", 100.0),
            ("statements.time[7]", 0.5),
            ("statements.calls[9]", 1.0),
        ];
        let found = of(&ticks(&values, 4), (1.0, 4.0));
        let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["select ?", OWN, OTHERS]);
        assert_eq!(found[0].by, [("CPU", 1.0), ("WAL", 3.0)]);
        assert_eq!((found[0].sessions, found[0].calls_per_s), (Some(4.0), Some(100.0)));
        assert_eq!(found[0].mean_s(), Some(0.005));
        assert_eq!(found[2].sessions, Some(0.5));
    }

    #[test]
    fn what_the_server_does_not_count_is_unknown() {
        let values =
            [("statements.span", 1.0), ("statements.calls[7]", 9.0), ("statements.wal_bytes[7]", 8.0)];
        let ticks = ticks(&values, 4);
        let placed = ticks.iter().map(|tick| Placed { from_s: 0.0, to_s: 4.0, tick });
        let usage = Usage::new(placed.collect(), Parties { server: true, driver: true, pgdyno: true });
        let off = ["statements.io_time, database.read_time", "statements.plan_time, statements.wal_bytes"];
        let unavailable = off.map(|what| (what.to_string(), "off".to_string())).into();
        let found = &of_run(&usage, (0.0, 4.0), &texts(), &unavailable)[0];
        assert_eq!((found.io_time, found.plan_time, found.temp_blocks_per_s), (None, None, Some(0.0)));
        assert!(found.wal_bytes_per_s.is_some_and(|n| n > 0.0), "somebody has counted it all the same");
    }

    #[test]
    fn a_reading_counts_for_the_time_that_it_covers() {
        let mut all = ticks(&[("server.wal_bytes", 1.0)], 12);
        all[11].values = [("statements.span", 10.0), ("statements.calls[7]", 1000.0)]
            .map(|(k, n)| (k.to_string(), n))
            .into();
        let found = of(&all, (4.0, 12.0));
        assert_eq!((found[0].calls_per_s, found[0].sessions), (Some(100.0), None));
        assert_eq!(of(&all, (0.0, 30.0)), [], "too little of the measurement is covered");
    }

    #[test]
    fn a_case_has_the_mean_of_its_runs_and_few_rows() {
        let one = |text: &str, sessions| TopStatement {
            text: text.to_string(),
            sessions: Some(sessions),
            by: vec![("CPU", sessions)],
            ..TopStatement::default()
        };
        let first: Vec<TopStatement> =
            (0..12).map(|i| one(&format!("s{i:02}"), 12.0 - f64::from(i))).collect();
        let second = [one("s00", 2.0), one(OTHERS, 50.0)];
        let found = of_case(&[&first, &second]);
        assert_eq!(found.len(), NAMED_MAX + 1);
        assert_eq!((found[0].text.as_str(), found[0].sessions), ("s00", Some(7.0)));
        assert_eq!((found[10].text.as_str(), found[10].sessions), (OTHERS, Some(26.5)));
    }
}
