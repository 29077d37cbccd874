//! What expressions of a transaction with captured rows read: the row of this execution, keys near a captured one, the clock.

use std::sync::Arc;

use super::compile::{Compiler, Role, did_you_mean};
use super::make::Frame;
use super::node::{Code, Facts, Node, Reach};
use super::parse::{ExpressionError, Form, Part};
use crate::draws::{DrawnColumn, DrawsTable, Nearness};
use crate::value::calendar::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use crate::value::kind::Type;
use crate::value::text::is_special;

/// The name of the row in expressions.
pub(super) const DRAW: &str = "draw";
/// The column that every transaction with `draws_order = "once"` has: 1 if its row was dealt before.
const REUSED: &str = "reused";
/// How far an int may be from one that no column has.
const NEAR: i64 = 1000;

/// The captured rows that a set of parameters draws from.
#[derive(Clone, Debug)]
pub(crate) struct SetDraws {
    /// Those of the set itself: of the transaction, or of the loop. None: the loop has none of its own.
    pub(crate) own: Option<Arc<DrawsTable>>,
    /// Of a loop: those of the transaction.
    pub(crate) outer: Option<Arc<DrawsTable>>,
    /// Whether each row is dealt once.
    pub(crate) is_once: bool,
}

/// The rows of this execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DrawnRow {
    /// That of the set itself.
    pub(crate) own: u32,
    /// In a loop: that of the transaction.
    pub(crate) outer: u32,
    /// Whether it was dealt before.
    pub(crate) is_reused: bool,
}

/// A column that an expression names.
struct NamedColumn {
    table: Arc<DrawsTable>,
    column: usize,
    is_outer: bool,
}

impl NamedColumn {
    fn get(&self) -> &DrawnColumn {
        &self.table.columns[self.column]
    }

    #[inline]
    fn row(&self, frame: &Frame) -> u32 {
        if self.is_outer { frame.drawn.outer } else { frame.drawn.own }
    }
}

/// `draw.COLUMN`.
pub(super) fn member(
    compiler: &mut Compiler<'_>,
    part: &Part,
    name: &str,
    row: Option<&Part>,
) -> Result<Node, ExpressionError> {
    if row.is_some() {
        let message = format!("`{DRAW}` is one row: write `{DRAW}.{name}`");
        return Err(compiler.problem(part, message));
    }
    let draws = draws(compiler, part)?;
    if name == REUSED && draws.is_once {
        let facts = Facts::varying().with_reach(0, 1);
        return Ok(Node::word(Type::Int, facts, |_, f| Some(f.drawn.is_reused.into())));
    }
    let found = column(compiler, part, &draws, name)?;
    let kind = found.get().kind.clone();
    let facts = facts(found.get());
    Ok(match kind {
        Type::Text | Type::Uuid | Type::Json | Type::Bytes => Node::text(kind, facts, move |_, f, out| {
            found.get().text(found.row(f)).map(|text| out.extend_from_slice(text)).is_some()
        }),
        Type::Float => Node::float(facts, move |_, f| found.get().float(found.row(f))),
        _ => Node::word(kind, facts, move |_, f| found.get().word(found.row(f))),
    })
}

/// `near(x, least, most)`: an int that was not captured.
pub(super) fn near(
    compiler: &mut Compiler<'_>,
    part: &Part,
    arguments: &[Part],
    [least, most]: [i64; 2],
) -> Result<Node, ExpressionError> {
    let draws = draws(compiler, part)?;
    if least > most {
        return Err(compiler.problem(part, format!("`near` has no int from {least} to {most}")));
    }
    let x = compiler.part(&arguments[0])?;
    let Node { kind: Type::Int, code: Code::Word(code), facts } = x else {
        return Err(compiler.problem(&arguments[0], format!("`near` takes an int here, not {}", x.kind)));
    };
    let facts = facts.drawn().with_reach(i128::from(least), i128::from(most));
    if let Form::Member { table, column: name, row: None } = &arguments[0].form
        && table == DRAW
        && let Ok(found) = column(compiler, part, &draws, name)
    {
        let nearness = Nearness::new(found.get(), found.table.n_rows, least, most);
        return Ok(Node::word(Type::Int, facts, move |_, f| {
            let row = found.row(f);
            if found.get().is_null(row) { None } else { nearness.draw(row, &mut f.draws) }
        }));
    }
    Ok(Node::word(Type::Int, facts, move |g, f| {
        let x = code(g, f)?.min(most).max(least);
        let (low, high) = (x.saturating_sub(NEAR).max(least), x.saturating_add(NEAR).min(most));
        if low == high {
            return Some(x);
        }
        let drawn = f.draws.between(low, high - 1);
        Some(if drawn >= x { drawn + 1 } else { drawn })
    }))
}

/// `now()`: when the row was drawn.
pub(super) fn current_time(compiler: &mut Compiler<'_>, part: &Part) -> Result<Node, ExpressionError> {
    draws(compiler, part)?;
    let facts = Facts::varying().with_reach(i128::from(TIMESTAMP_MIN) / 2, i128::from(TIMESTAMP_MAX) / 2);
    Ok(Node::word(Type::Timestamp, facts, |_, f| Some(f.stream.now_us())))
}

fn draws(compiler: &mut Compiler<'_>, part: &Part) -> Result<SetDraws, ExpressionError> {
    let site = compiler.site();
    let (set, role) = (site.set, site.role);
    let found = if role == Role::Parameter { compiler.scope.set(set).draws.clone() } else { None };
    found.ok_or_else(|| {
        let message =
            "`draw`, `near` and `now` have a meaning in parameters of a transaction with `draws` alone";
        compiler.problem(part, message.to_string())
    })
}

fn column(
    compiler: &Compiler<'_>,
    part: &Part,
    draws: &SetDraws,
    name: &str,
) -> Result<NamedColumn, ExpressionError> {
    let tables = [(&draws.own, false), (&draws.outer, true)];
    let tables = || tables.iter().filter_map(|(table, is_outer)| Some((table.as_ref()?, *is_outer)));
    for (table, is_outer) in tables() {
        if let Some(column) = table.column(name) {
            return Ok(NamedColumn { table: Arc::clone(table), column, is_outer });
        }
    }
    let known: Vec<&str> =
        tables().flat_map(|(table, _)| &table.columns).map(|column| column.name.as_str()).collect();
    let files: Vec<&str> = tables().map(|(table, _)| table.file.as_str()).collect();
    let meant = did_you_mean(name, known.iter().copied());
    Err(compiler.problem(part, format!("{} has no column `{name}`{meant}", files.join(" or "))))
}

/// What is known of a column's values.
fn facts(column: &DrawnColumn) -> Facts {
    let facts = Facts { is_nullable: column.is_nullable(), ..Facts::varying() };
    match &column.kind {
        Type::Text | Type::Uuid | Type::Json | Type::Bytes => {
            let characters = |text: &[u8]| text.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
            let longest = column.texts().map(characters).max().unwrap_or(0);
            let bytes = column.texts().map(<[u8]>::len).max().unwrap_or(0) as u64;
            let has_specials = column.texts().any(|text| text.iter().any(|byte| is_special(*byte)));
            Facts { has_specials, ..facts }.with_length(longest, bytes)
        }
        Type::Float => Facts { reach: Reach::Unknown, ..facts },
        _ => {
            let words = || column.words().map(|(_, word)| i128::from(word));
            facts.with_reach(words().min().unwrap_or(0), words().max().unwrap_or(0))
        }
    }
}
