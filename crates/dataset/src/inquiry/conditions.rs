//! The conditions of a plan, as the server writes them: which parameter is compared with which column, and how.
//!
//! Pure. PostgreSQL writes each operator with its operands in parentheses of its own, and, with VERBOSE, each column with its table's alias.

use super::ColumnUse;
use super::texts::{SqlToken, SqlTokenKind, group_end, is_bare, items, tokens};

/// A parameter that is compared with a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) parameter: usize,
    pub(super) alias: String,
    pub(super) column: String,
    pub(super) reads: ColumnUse,
    pub(super) is_bare: bool,
}

/// The comparisons of a condition.
pub(super) fn compared(condition: &str) -> Vec<Compared> {
    let mut found = Vec::new();
    visit(&tokens(condition), &mut found);
    found
}

/// Looks at one level of parentheses, and at those within it.
fn visit(tokens: &[SqlToken], found: &mut Vec<Compared>) {
    if let Some(at) = operator(tokens) {
        let (left, right) = (&tokens[..at], &tokens[at + 1..]);
        let is_all = right.first().is_some_and(|token| token.is_word("all"));
        let reads = match &tokens[at].kind {
            SqlTokenKind::Operator(operator) if !is_all => used(operator),
            _ => ColumnUse::None,
        };
        compare_rows(left, right, reads, found);
    }
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is_symbol('(') || tokens[at].is_symbol('[') {
            let end = group_end(tokens, at);
            visit(&tokens[at + 1..end], found);
            at = end;
        }
        at += 1;
    }
}

fn used(operator: &str) -> ColumnUse {
    match operator {
        "=" => ColumnUse::Equality,
        "<" | "<=" | ">" | ">=" => ColumnUse::Range,
        _ => ColumnUse::None,
    }
}

/// The operator of this level, if there is one.
fn operator(tokens: &[SqlToken]) -> Option<usize> {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at].kind {
            SqlTokenKind::Operator(operator) if operator != "::" => return (at > 0).then_some(at),
            SqlTokenKind::Symbol('(' | '[') => at = group_end(tokens, at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Compares `ROW(a, b)` with `ROW($1, $2)` member by member, anything else as it is.
fn compare_rows(left: &[SqlToken], right: &[SqlToken], reads: ColumnUse, found: &mut Vec<Compared>) {
    match (members(left), members(right)) {
        (Some(left), Some(right)) if left.len() == right.len() => {
            for (left, right) in left.into_iter().zip(right) {
                compare(left, right, reads, found);
                compare(right, left, reads, found);
            }
        }
        _ => {
            compare(left, right, reads, found);
            compare(right, left, reads, found);
        }
    }
}

fn members(side: &[SqlToken]) -> Option<Vec<&[SqlToken]>> {
    let [row, open, inner @ .., _close] = side else { return None };
    (row.is_word("row") && open.is_symbol('(')).then(|| items(inner))
}

/// Adds the parameters of one side if the other one is about one column.
fn compare(side: &[SqlToken], other: &[SqlToken], reads: ColumnUse, found: &mut Vec<Compared>) {
    let Some((alias, column, is_plain)) = column(side) else { return };
    let is_bare = is_plain && is_bare(other);
    let numbers = other.iter().filter_map(SqlToken::parameter);
    found.extend(numbers.map(|parameter| Compared {
        parameter,
        alias: alias.to_string(),
        column: column.to_string(),
        reads,
        is_bare,
    }));
}

/// The only column of an expression, and whether it is nothing else but that column, with casts.
fn column(side: &[SqlToken]) -> Option<(&str, &str, bool)> {
    let mut found = None;
    let mut plain: Vec<SqlToken> = Vec::new();
    let mut at = 0;
    while at < side.len() {
        let is_after_cast = at > 0 && side[at - 1].is_operator("::");
        match &side[at..] {
            [
                SqlToken { kind: SqlTokenKind::Word(alias), start },
                dot,
                SqlToken { kind: SqlTokenKind::Word(column), .. },
                after @ ..,
            ] if dot.is_symbol('.')
                && !is_after_cast
                && !after.first().is_some_and(|next| next.is_symbol('(') || next.is_symbol('.')) =>
            {
                if found.is_some_and(|found| found != (alias.as_str(), column.as_str())) {
                    return None;
                }
                found = Some((alias.as_str(), column.as_str()));
                plain.push(SqlToken { kind: SqlTokenKind::Literal, start: *start });
                at += 3;
            }
            _ => {
                plain.push(side[at].clone());
                at += 1;
            }
        }
    }
    found.map(|(alias, column)| (alias, column, is_bare(&plain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ColumnUse::{Equality, None, Range};

    #[test]
    fn parameters_are_compared_with_columns() {
        let check = |condition: &str, expected: &[(usize, &str, ColumnUse, bool)]| {
            let found = compared(condition);
            let names: Vec<String> =
                found.iter().map(|one| format!("{}.{}", one.alias, one.column)).collect();
            let found: Vec<_> = found
                .iter()
                .zip(&names)
                .map(|(one, name)| (one.parameter, name.as_str(), one.reads, one.is_bare))
                .collect();
            assert_eq!(found, expected, "{condition}");
        };
        check("(t.id = $1)", &[(1, "t.id", Equality, true)]);
        check("($1 = t.id)", &[(1, "t.id", Equality, true)]);
        check("((t.a >= $3) AND (t.a <= $4))", &[(3, "t.a", Range, true), (4, "t.a", Range, true)]);
        check("(t.id = ANY ($1))", &[(1, "t.id", Equality, true)]);
        check("(t.id = ANY (ARRAY[$5, $6]))", &[(5, "t.id", Equality, true), (6, "t.id", Equality, true)]);
        check("(t.id <> ALL ($1))", &[(1, "t.id", None, false)]);
        check("((t.name)::text ~~ $2)", &[(2, "t.name", None, true)]);
        check("(lower((t.name)::text) = lower($7))", &[(7, "t.name", Equality, false)]);
        check("(t.ts > (now() - $3))", &[(3, "t.ts", Range, false)]);
        check("(ROW(t.id, t.a) > ROW($6, $7))", &[(6, "t.id", Range, true), (7, "t.a", Range, true)]);
        check("(\"Odd t\".\"I d\" = ($1)::bigint)", &[(1, "Odd t.I d", Equality, true)]);
        check("(t.a = (u.b + $1))", &[(1, "t.a", Equality, false), (1, "u.b", None, true)]);
        check("(t.mood = ($1)::app.mood)", &[(1, "t.mood", Equality, true)]);
        check("(app.f(t.a) = $1)", &[(1, "t.a", Equality, false)]);
        check("(t.d < ($1)::timestamp without time zone)", &[(1, "t.d", Range, true)]);
        check("((t.a + t.b) = $1)", &[]);
        check("(NOT (t.a = $1))", &[(1, "t.a", Equality, true)]);
        check("$1", &[]);
        check("", &[]);
        check("(((", &[]);
    }
}
