//! What an expression reads: its own row, other rows, and the lines of a row.

use super::captured;
use super::compile::{Compiler, Role, literal};
use super::make::{ChildPlace, children_value, keep, n_lines};
use super::node::{Code, Facts, Node, Reach};
use super::parse::{ExpressionError, Form, Part};
use super::scope::{Constant, SourceForm};
use crate::value::kind::Type;

mod aggregates;

pub(super) use aggregates::{aggregate, line_count};

/// Most lines of a parent's row.
const LINES_MAX: i128 = 1000;

/// Fewest and most lines, if their number is one.
pub(super) fn line_bounds(node: &Node) -> Result<(u64, u64), String> {
    if node.kind != Type::Int {
        return Err(format!("a number of lines is an int, not {}", node.kind));
    }
    if node.facts.is_nullable {
        return Err("a number of lines is not null".to_string());
    }
    let (low, high) = node.facts.words();
    if low < 0 || high > LINES_MAX {
        return Err(format!("{low} to {high} lines; a row has from 0 to {LINES_MAX}"));
    }
    Ok((low as u64, high as u64))
}

fn last_row(n_rows: u64) -> i128 {
    i128::from(n_rows.max(1) - 1)
}

/// A name that always means the same.
pub(super) fn builtin(compiler: &mut Compiler<'_>, part: &Part, name: &str) -> Result<Node, ExpressionError> {
    let scope = compiler.scope;
    let site = compiler.site();
    let set = site.set;
    let role = site.role;
    let n_lists = site.n_lists;
    let unique = |n_rows: u64| Facts { is_unique: true, ..Facts::varying().with_reach(0, last_row(n_rows)) };
    match (name, role) {
        ("scale", _) => Ok(literal(&scope.scale)),
        ("item", _) if n_lists > 0 => {
            let facts = Facts::varying().with_reach(0, i128::from(u32::MAX));
            Ok(Node::word(Type::Int, facts, |_, f| Some(f.item)))
        }
        ("item", _) => Err(compiler.problem(part, "`item` has a meaning within `list(…)` alone".to_string())),
        ("row", Role::Column { n_rows }) => Ok(Node::word(Type::Int, unique(n_rows), |_, f| Some(f.row))),
        ("rows", Role::Column { n_rows }) => Ok(literal(&Constant::Int(n_rows as i64))),
        ("parent", Role::LineCount { n_parents }) => {
            Ok(Node::word(Type::Int, unique(n_parents), |_, f| Some(f.row)))
        }
        ("parent", Role::LineColumn { n_parents }) => {
            let facts = Facts::varying().with_reach(0, last_row(n_parents));
            Ok(Node::word(Type::Int, facts, |_, f| Some(f.row)))
        }
        ("line", Role::LineColumn { .. }) => {
            let (_, _, most) = compiler.line_facts(set)?;
            let facts = Facts::varying().with_reach(0, last_row(most));
            Ok(Node::word(Type::Int, facts, |_, f| Some(f.line.map_or(0, |line| line as i64))))
        }
        ("row" | "rows", Role::LineColumn { .. } | Role::LineCount { .. }) => {
            let message = format!("a table with `each` has no `{name}`; it has `parent` and `line`");
            Err(compiler.problem(part, message))
        }
        ("parent" | "line", _) => {
            Err(compiler.problem(part, format!("`{name}` has a meaning in a table with `each` alone")))
        }
        _ => Err(compiler.problem(part, format!("`{name}` has a meaning in columns of a table alone"))),
    }
}

/// Another value of the same row, or another parameter of the same execution.
pub(super) fn same_row(
    compiler: &mut Compiler<'_>,
    part: &Part,
    value: usize,
) -> Result<Node, ExpressionError> {
    let set = compiler.site().set;
    let made = compiler.read(part, set, value)?;
    let read =
        Facts { steps: 1, n_parts: 1, depth: made.node.facts.depth.saturating_add(1), ..made.node.facts };
    let kind = made.node.kind.clone();
    let node = match made.node.code {
        Code::Word(_) => Node::word(kind, read, move |g, f| {
            keep(g, f, value);
            f.word(value)
        }),
        Code::Float(_) => Node::float(read, move |g, f| {
            keep(g, f, value);
            f.float(value)
        }),
        Code::Text(_) => Node::text(kind, read, move |g, f, out| {
            keep(g, f, value);
            f.kept_text(value).map(|text| out.extend_from_slice(text)).is_some()
        }),
    };
    // A constant value is made without the row.
    let node = Node { facts: Facts { is_constant: false, ..node.facts }, ..node };
    compiler.note_use(value);
    Ok(node)
}

/// `table.column[row]`.
pub(super) fn member(
    compiler: &mut Compiler<'_>,
    part: &Part,
    table: &str,
    column: &str,
    row: Option<&Part>,
) -> Result<Node, ExpressionError> {
    let scope = compiler.scope;
    if table == captured::DRAW && scope.table_number(table).is_none() {
        return captured::member(compiler, part, column, row);
    }
    let (target, value) = column_of(compiler, part, table, column)?;
    let is_line = matches!(scope.tables[target].form, SourceForm::Lines { .. });
    if is_line {
        let message = format!("`{table}` has lines of a row; read them with `sum`, `count`, `min` or `max`");
        return Err(compiler.problem(part, message));
    }
    let Some(row) = row else {
        return Err(compiler.problem(part, format!("write `{table}.{column}[row]`: which row is meant?")));
    };
    let index = compiler.part(row)?;
    let n_rows = scope.n_rows(target) as i64;
    let Node { kind: Type::Int, code: Code::Word(index), facts: index_facts } = index else {
        return Err(compiler.problem(row, format!("a row is an int, not {}", index.kind)));
    };
    let (low, high) = index_facts.words();
    if !index_facts.is_new && (low >= i128::from(n_rows) || high < 0) {
        let reached = if low == high { format!("row {low}") } else { format!("rows {low} to {high}") };
        let message = format!("{reached} of `{table}`: it has {n_rows} rows, from 0");
        return Err(compiler.problem(row, message));
    }
    let made = compiler.read(part, target, value)?;
    let kind = made.node.kind.clone();
    let is_text = matches!(made.node.code, Code::Text(_));
    let mut facts = made.node.facts;
    facts.is_unique &= index_facts.is_unique;
    facts.is_constant = false;
    facts.is_nullable |= index_facts.is_nullable;
    facts.is_new = index_facts.is_new;
    if index_facts.is_new {
        // The interval of the column is that of the loaded rows.
        facts.reach = Reach::Unknown;
    }
    facts.n_parts = index_facts.n_parts.saturating_add(1);
    facts.depth = facts.depth.max(index_facts.depth).saturating_add(1);
    facts.steps = compiler.all_steps(target, value).saturating_add(index_facts.steps).saturating_add(2);
    let child = compiler.frame_of(target);
    let is_open = index_facts.is_new;
    let table = table.to_string();
    let place = move |g: &super::make::Generator, f: &mut super::make::Frame| {
        let row = index(g, f)?;
        if row < 0 || (row >= n_rows && !is_open) {
            f.fail(format!("row {row} of `{table}`: it has {n_rows} rows, from 0"));
            return None;
        }
        Some(ChildPlace { child, value, row, line: None })
    };
    if is_text {
        return Ok(Node::text(kind, facts, move |g, f, out| {
            let Some(place) = place(g, f) else { return false };
            let text = children_value(g, f, &place).kept_text(value);
            text.map(|text| out.extend_from_slice(text)).is_some()
        }));
    }
    if kind == Type::Float {
        return Ok(Node::float(facts, move |g, f| {
            let place = place(g, f)?;
            children_value(g, f, &place).float(value)
        }));
    }
    Ok(Node::word(kind, facts, move |g, f| {
        let place = place(g, f)?;
        children_value(g, f, &place).word(value)
    }))
}

/// The numbers of a table and of its value.
fn column_of(
    compiler: &Compiler<'_>,
    part: &Part,
    table: &str,
    column: &str,
) -> Result<(usize, usize), ExpressionError> {
    let scope = compiler.scope;
    let Some(target) = scope.table_number(table) else {
        let known = scope.tables.iter().map(|table| table.name.as_str());
        let meant = super::compile::did_you_mean(table, known);
        return Err(compiler.problem(part, format!("unknown table `{table}`{meant}")));
    };
    let Some(value) = scope.tables[target].value_number(column) else {
        let known = scope.tables[target].values.iter().map(|value| value.name.as_str());
        let meant = super::compile::did_you_mean(column, known);
        return Err(compiler.problem(part, format!("`{table}` has no column `{column}`{meant}")));
    };
    Ok((target, value))
}

/// The table that an argument names.
pub(super) fn table_argument(compiler: &Compiler<'_>, argument: &Part) -> Result<usize, ExpressionError> {
    let Form::Name(name) = &argument.form else {
        return Err(compiler.problem(argument, "this has to be the name of a table".to_string()));
    };
    compiler.scope.table_number(name).ok_or_else(|| {
        let known = compiler.scope.tables.iter().map(|table| table.name.as_str());
        let meant = super::compile::did_you_mean(name, known);
        compiler.problem(argument, format!("unknown table `{name}`{meant}"))
    })
}

/// `rows(table)`.
pub(super) fn row_number(compiler: &Compiler<'_>, argument: &Part) -> Result<Node, ExpressionError> {
    let table = table_argument(compiler, argument)?;
    let SourceForm::Rows(n) = compiler.scope.tables[table].form else {
        let message =
            "its number of lines differs from row to row; `rows` of its parent is known".to_string();
        return Err(compiler.problem(argument, message));
    };
    Ok(literal(&Constant::Int(n as i64)))
}
