//! Facts: expressions over a script's variables, evaluated when its transaction was committed.
//!
//! They are written as the expressions of `workload.toml`, in which names have no colon and `==` compares, and are computed as
//! those of scripts.

use crate::script::expr::{self, Expr};
use crate::script::lexer::Lexer;
use crate::script::value::Value;
use crate::script::variables::{VariableTable, is_name_byte, is_name_start};

/// Words of the language that are no variables.
const KEYWORDS: [&str; 14] = [
    "and", "or", "not", "is", "null", "true", "false", "case", "when", "then", "else", "end", "isnull",
    "notnull",
];
/// Largest fact of a transaction. More than any count of a transaction, or its time in nanoseconds.
pub(crate) const FACT_MAX: i64 = 1_000_000_000_000;

/// Parses a fact.
///
/// # Errors
/// The reason why it is no fact.
pub(crate) fn parse(text: &str, variables: &mut VariableTable) -> Result<Expr, String> {
    let source = in_script(text);
    let mut lexer = Lexer::new(&source, 0);
    expr::parse(&mut lexer, variables).map_err(|error| {
        let detail = error.detail.map_or(String::new(), |detail| format!(" ({detail})"));
        format!("{}{detail} in `{text}`", error.message)
    })
}

/// What a fact's value counts: what is negative or NULL counts 0, and what holds counts 1.
pub(crate) fn counted(value: Value) -> u64 {
    let number = match value {
        Value::Null => 0,
        Value::Bool(holds) => i64::from(holds),
        Value::Int(number) => number,
        // Rust's conversion stops at the ends of the range.
        Value::Double(number) => number.round() as i64,
    };
    number.clamp(0, FACT_MAX).unsigned_abs()
}

/// The expression as a script would have it, on one line.
fn in_script(text: &str) -> String {
    let mut script = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if first.is_whitespace() => {
                script.push(' ');
                first.len_utf8()
            }
            '=' if rest.starts_with("==") => {
                script.push('=');
                2
            }
            _ if first == ':' || u8::try_from(first).map_or(true, is_name_start) => name(rest, &mut script),
            // The digits of a number, and a letter of its exponent.
            _ if first.is_ascii_digit() => {
                let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
                let len = rest.bytes().take_while(is_digit).count();
                script.push_str(&rest[..len]);
                len
            }
            _ => {
                script.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    script
}

/// Writes the name that a text begins with, and returns how much that was.
fn name(text: &str, script: &mut String) -> usize {
    let start = usize::from(text.starts_with(':'));
    let len = text[start..].bytes().take_while(|byte| is_name_byte(*byte)).count();
    let name = &text[start..start + len];
    let after = &text[start + len..];
    let called = after.trim_start().strip_prefix('(');
    if name == "choose"
        && let Some(inner) = called
        && let Some(([condition, yes, no], inner_len)) = arguments(inner)
    {
        let branches = [condition, yes, no].map(in_script);
        let [condition, yes, no] = branches.each_ref().map(String::as_str);
        script.push_str(&format!("(case when {condition} then {yes} else {no} end)"));
        return text.len() - inner.len() + inner_len;
    }
    let is_keyword = KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word));
    if start > 0 || !(called.is_some() || is_keyword) {
        script.push(':');
    }
    script.push_str(name);
    start + len
}

/// The three arguments of a call, whose parenthesis is open, and the length of all up to its end.
fn arguments(inner: &str) -> Option<([&str; 3], usize)> {
    let (mut depth, mut start) = (0usize, 0);
    let mut found = Vec::new();
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ',' | ')' if depth == 0 => {
                found.push(&inner[start..at]);
                start = at + 1;
                if c == ')' {
                    return Some((found.try_into().ok()?, at + 1));
                }
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_expressions_without_colons() {
        for (text, expected) in [
            ("job_id == 0", ":job_id = 0"),
            ("age_ms", ":age_ms"),
            (":age_ms", ":age_ms"),
            ("hits * 100 / wanted", ":hits * 100 / :wanted"),
            ("a == 1 and not b != 2 or c is null", ":a = 1 and not :b != 2 or :c is null"),
            ("greatest (a, 0) +\n1e3", "greatest (:a, 0) + 1e3"),
            ("case when a<1 then 1 else 0 end", "case when :a<1 then 1 else 0 end"),
            ("choose(a == 1 and b < 2, 1, 0) + c", "(case when :a = 1 and :b < 2 then  1 else  0 end) + :c"),
            (
                "choose(a, choose(b, (1 + 1), abs(2)), 3)",
                "(case when :a then  (case when :b then  (1 + 1) else  abs(2) end) else  3 end)",
            ),
        ] {
            assert_eq!(in_script(text), expected);
            assert!(parse(text, &mut VariableTable::default()).is_ok(), "{text}");
        }
        for text in ["", "a ==", "a b", "'x'", "nothing(1)", "choose(1, 2)", "choose(1, 2, 3", "(1"] {
            assert!(parse(text, &mut VariableTable::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_counts_nothing() {
        for (value, expected) in [
            (Value::Null, 0),
            (Value::Bool(true), 1),
            (Value::Bool(false), 0),
            (Value::Int(7), 7),
            (Value::Int(-7), 0),
            (Value::Int(i64::MAX), FACT_MAX as u64),
            (Value::Double(2.6), 3),
            (Value::Double(f64::NAN), 0),
        ] {
            assert_eq!(counted(value), expected, "{value}");
        }
    }
}
