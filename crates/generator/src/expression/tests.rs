//! Expressions as their user sees them: a text in, values or an error with its place out.

mod bounds;
mod errors;
mod golden;
mod parameters;
mod places;
mod values;

use std::sync::Arc;

use super::*;

/// An expression that reads.
fn expression(text: &str) -> Expression {
    parse(text, 0).unwrap_or_else(|error| panic!("{text}: {}", error.message))
}

/// Columns by name and text; a name that begins with `_` is hidden.
fn values(columns: &[(&str, &str)]) -> Vec<ValueSource> {
    let value = |(at, (name, text)): (usize, &(&str, &str))| ValueSource {
        name: name.to_string(),
        expression: parse(text, at + 1).unwrap_or_else(|error| panic!("{text}: {}", error.message)),
        is_hidden: name.starts_with('_'),
    };
    columns.iter().enumerate().map(value).collect()
}

/// A scope at scale 1 with some options, `let`s and lists.
fn scope() -> Scope {
    let mut scope = Scope::new(1, Constant::Int(1));
    scope.set_option("tables", Constant::Int(4));
    scope.set_option("theta", Constant::Float(0.99));
    scope.set_option("kind", Constant::Text("plain".to_string()));
    scope.set_option("is_on", Constant::Bool(true));
    scope.set_let("half", expression("0.5"));
    scope.set_let("key", expression("uniform(1, 10)"));
    scope.set_let("a", expression("100"));
    scope.set_list("lists/words.txt", "one\ntwo\n\nthree\n");
    scope.set_list("lists/umlauts.txt", "äöü\nßß\n");
    scope
}

fn add(scope: &mut Scope, name: &str, rows: &str, columns: &[(&str, &str)]) -> usize {
    let table = TableSource {
        name: name.to_string(),
        rows: Some(expression(rows)),
        each: None,
        values: values(columns),
    };
    scope.add_table(table).expect("a table")
}

fn add_lines(scope: &mut Scope, name: &str, parent: &str, lines: &str, columns: &[(&str, &str)]) -> usize {
    let table = TableSource {
        name: name.to_string(),
        rows: None,
        each: Some((parent.to_string(), expression(lines))),
        values: values(columns),
    };
    scope.add_table(table).expect("a table")
}

fn compiled(scope: Scope) -> Arc<Generator> {
    scope.compile().unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A row as COPY gets it, without its line feed.
fn row(maker: &mut RowMaker, row: u64) -> String {
    let mut out = Vec::new();
    maker.write_row(row, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(out.pop(), Some(b'\n'));
    String::from_utf8(out).expect("UTF-8")
}

/// The value of a column `x` in a row of a table `t` of 1,000 rows.
fn cell(text: &str, at: u64) -> String {
    let mut scope = scope();
    let table = add(&mut scope, "t", "1000", &[("x", text)]);
    row(&mut compiled(scope).rows(table), at)
}

/// What is known of a column `x` of a table `t` of 1,000 rows.
fn facts(text: &str) -> ValueFacts {
    let mut scope = scope();
    let table = add(&mut scope, "t", "1000", &[("x", text)]);
    compiled(scope).table(table)[0].clone()
}
