//! Counters of known statements, and what becomes of them.

use std::collections::BTreeMap;

use model::run::fidelity::StatementFigures;

use super::*;
use crate::privacy::Privacy;
use crate::role::{SlotColumn, SlotFacts};
use crate::statement::places::SlotUse;

/// Texts, calls and rows over 100 s; each call took 50 µs.
fn statistics(statements: &[(&str, u64, u64)]) -> SourceStatistics {
    let mut found =
        SourceStatistics { span_us: Some((1_000_000, 101_000_000)), ..SourceStatistics::default() };
    for (n, (text, calls, rows)) in statements.iter().enumerate() {
        let figures = StatementFigures {
            calls: *calls,
            time_us: 50.0 * *calls as f64,
            rows: Some(*rows),
            ..StatementFigures::default()
        };
        found.statements.insert(n.to_string(), figures);
        found.texts.insert(n.to_string(), (*text).to_string());
    }
    found
}

fn facts(type_name: &str, usage: SlotUse, is_unique: bool) -> SlotFacts {
    let column = SlotColumn {
        table: "item".to_string(),
        column: "id".to_string(),
        usage,
        is_unique,
        is_indexed: true,
        has_default: false,
        least: Some(1),
        most: Some(5000),
    };
    SlotFacts { type_name: type_name.to_string(), column: Some(column) }
}

fn values() -> ColumnValues {
    ColumnValues {
        common: vec![("7".to_string(), 0.25)],
        bounds: (0..=100).map(|n| (n * 50 + 1).to_string()).collect(),
        n_rows: 5000.0,
        ..ColumnValues::default()
    }
}

/// The directory of these statements, of which all values meet the same column.
fn made(statements: &[(&str, u64, u64)], answer: impl Fn(&str) -> Option<CountedAnswer>) -> MadeDirectory {
    let counted = CountedStatements::new(&statistics(statements)).unwrap();
    let answers: BTreeMap<u32, CountedAnswer> = (0u32..)
        .zip(&counted.forms().all)
        .filter_map(|(number, known)| Some((number, answer(&known.form.numbered())?)))
        .collect();
    let making = Making {
        name: "shop",
        privacy: Privacy::Values,
        key: [1; 32],
        facts: &BTreeMap::new(),
        statistics: None,
        server: Some("15.4"),
        system_identifier: None,
        log: "pg_stat_statements",
        n_clients: None,
    };
    counted.directory(&answers, &making).unwrap()
}

fn text(made: &MadeDirectory, name: &str) -> String {
    String::from_utf8(made.files[name].clone()).unwrap()
}

fn rows(made: &MadeDirectory, name: &str) -> Vec<Vec<i64>> {
    let text = String::from_utf8(zstd::decode_all(&made.files[name][..]).unwrap()).unwrap();
    text.lines().skip(2).map(|line| line.split('\t').map(|one| one.parse().unwrap()).collect()).collect()
}

#[test]
fn statements_are_transactions_as_often_as_they_were_called_with_values_of_their_columns() {
    let statements = [
        ("select a from item where id = $1", 60_000, 60_000),
        ("select a from item where id between $1 and $2", 30_000, 30_000 * 100),
        ("insert into item (id) values ($1)", 10_000, 10_000),
        ("BEGIN", 90_000, 0),
        ("select b from missing where id = $1", 1_000, 0),
        ("/* pgdyno */ select $1", 5_000, 5_000),
    ];
    let made = made(&statements, |text| {
        let usage = match text {
            text if text.contains("missing") => return None,
            text if text.contains("between") => SlotUse::Range,
            text if text.starts_with("insert") => SlotUse::Inserted,
            _ => SlotUse::Equality,
        };
        let slots = vec![facts("integer", usage, true); text.matches('$').count()];
        let columns = (0..slots.len()).map(|slot| (slot, values())).collect();
        Some(CountedAnswer { facts: FormFacts { slots }, columns, ..CountedAnswer::default() })
    });
    let rates: Vec<(&str, f64)> =
        made.summary.templates.iter().map(|one| (one.name.as_str(), one.rate.round())).collect();
    assert_eq!(rates, [("select-item", 600.0), ("select-item-2", 300.0), ("insert-item", 100.0)]);
    let left_out: Vec<(OmissionReason, u64)> =
        made.summary.balance.left_out.iter().map(|(reason, share)| (*reason, share.calls)).collect();
    assert_eq!(left_out, [(OmissionReason::Frame, 90_000), (OmissionReason::Unexplained, 1_000)]);
    assert_eq!(made.summary.balance.difference(), (0, 0));

    let keys = rows(&made, "draws/select-item.zst");
    let n_common = keys.iter().filter(|row| row[0] == 7).count();
    assert!((200..=300).contains(&n_common), "{n_common} of {}", keys.len());
    // A hundred of 5,000 rows are as many ids.
    let ranges = rows(&made, "draws/select-item-2.zst");
    assert!(ranges.iter().all(|row| (99..=101).contains(&(row[1] - row[0])) && row[1] <= 5001), "{ranges:?}");
    let manifest = text(&made, "workload.toml");
    assert!(manifest.contains("uniform(7001, 2147483647), draw.id)\"  # fresh"), "{manifest}");
    assert!(manifest.contains("grade = \"approximate at best\""), "{manifest}");
    assert!(text(&made, "README.md").contains("This is no capture of transactions"));
    let source = crate::statistics::source::parse(&text(&made, "source.json")).unwrap();
    assert_eq!(source.total().calls, 101_000, "frames are no part of it");
    assert!(source.unknown.contains_key(UNKNOWN_TRANSACTIONS));
}

#[test]
fn values_without_a_type_have_it_named_and_unknown_types_are_left_out() {
    let made =
        made(&[("select $1", 100, 100), ("select $1 + now()", 100, 100), ("select f($1)", 100, 0)], |text| {
            let type_name = if text.contains("f(") { "app.mood" } else { "interval" };
            let facts =
                FormFacts { slots: vec![SlotFacts { type_name: type_name.to_string(), column: None }] };
            let guessed =
                if text == "select $1" { [(0, "text".to_string())].into() } else { BTreeMap::new() };
            Some(CountedAnswer { facts, guessed, ..CountedAnswer::default() })
        });
    let scripts: Vec<String> =
        made.files.keys().filter(|name| name.ends_with(".sql")).map(|name| text(&made, name)).collect();
    assert_eq!(scripts.len(), 2);
    assert!(
        scripts.iter().any(|script| script.starts_with("select :") && script.contains("::text;")),
        "{scripts:?}"
    );
    assert_eq!(made.summary.balance.left_out[&OmissionReason::Unexplained].calls, 100);
}

#[test]
fn each_call_at_the_source_is_counted_once() {
    use model::run::fidelity::{STATEMENTS_MAX, TEXT_READ_MAX};

    // More statements than are kept one by one, one that was cut off, and one without a text.
    let texts: Vec<String> = (0..STATEMENTS_MAX + 5).map(|n| format!("select a from t{n}")).collect();
    let cut_off = format!("select '{}", "x".repeat(TEXT_READ_MAX));
    let few = texts.iter().map(|text| (text.as_str(), 2, 2));
    let mut all: Vec<(&str, u64, u64)> = few.collect();
    all.push((&cut_off, 70, 70));
    all.push(("begin", 9, 0));
    let mut statistics = statistics(&all);
    let nameless = StatementFigures { calls: 800, rows: Some(800), ..StatementFigures::default() };
    statistics.statements.insert("nameless".to_string(), nameless);

    let source = CountedStatements::new(&statistics).unwrap().source();
    let n = texts.len() as u64;
    assert_eq!(source.total().calls, 2 * n + 70 + 800);
    assert_eq!((source.statements.len(), source.others.calls), (STATEMENTS_MAX, 2 * 5 + 70 + 800));
}
