//! PREPARE and EXECUTE, statements that prepare and execute others.

use crate::log::combine::values::{quoted, undoubled};
use crate::log::executed::LoggedValue;

/// The name and the text of a `PREPARE name [(types)] AS text`.
pub(super) fn prepared(statement: &str) -> Option<(String, &str)> {
    let rest = keyword(statement.trim_start(), "prepare")?;
    let (name, rest) = identifier(rest)?;
    let mut rest = rest.trim_start();
    if rest.starts_with('(') {
        // Types: `numeric(10,2)` has parentheses too.
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    }
    let text = keyword(rest, "as")?.trim_end();
    Some((name, text.strip_suffix(';').unwrap_or(text).trim_end()))
}

/// The name in an `EXECUTE name [(values)]`, and its values if all are plain.
pub(super) fn executed(statement: &str) -> Option<(String, Option<Vec<LoggedValue>>)> {
    let rest = keyword(statement.trim_start(), "execute")?;
    let (name, rest) = identifier(rest)?;
    let rest = rest.trim();
    let rest = rest.strip_suffix(';').unwrap_or(rest).trim_end();
    if rest.is_empty() {
        return Some((name, Some(Vec::new())));
    }
    let inside = rest.strip_prefix('(')?.strip_suffix(')')?;
    Some((name, plain_values(inside)))
}

/// The rest after a keyword and blanks.
fn keyword<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let rest = &text[word.len()..];
    let is_word = head.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace);
    is_word.then(|| rest.trim_start())
}

/// A name as the server knows it, and the rest.
fn identifier(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some((quoted[..end].to_string(), &quoted[end + 1..]));
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_lowercase(), &text[end..]))
}

/// Numbers, texts, NULL, true and false, with casts left out.
fn plain_values(list: &str) -> Option<Vec<LoggedValue>> {
    let mut values = Vec::new();
    let mut rest = list.trim();
    loop {
        let (value, after) = plain_value(rest)?;
        values.push(value);
        rest = after.trim_start();
        if let Some(cast) = rest.strip_prefix("::") {
            let end = cast.find(',').unwrap_or(cast.len());
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ' ' | '.' | '"' | '[' | ']');
            if !cast[..end].chars().all(is_name) {
                return None;
            }
            rest = &cast[end..];
        }
        if rest.is_empty() {
            return Some(values);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn plain_value(text: &str) -> Option<(LoggedValue, &str)> {
    if text.starts_with('\'') {
        let (inside, has_quotes, after) = quoted(text.as_bytes())?;
        let inside = if has_quotes { undoubled(inside) } else { inside.to_vec() };
        let value = LoggedValue::Text(String::from_utf8(inside).ok()?);
        return Some((value, text.get(text.len() - after.len()..)?));
    }
    let end = text.find(|c: char| c == ',' || c == ':' || c.is_whitespace()).unwrap_or(text.len());
    let word = &text[..end];
    let value = match word.to_ascii_lowercase().as_str() {
        "null" => LoggedValue::Null,
        "true" | "false" => LoggedValue::Text(word.to_ascii_lowercase()),
        _ if word.parse::<f64>().is_ok_and(f64::is_finite) => LoggedValue::Text(word.to_string()),
        _ => return None,
    };
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepare_has_a_name_and_a_text() {
        let check = |statement: &str, expected: Option<(&str, &str)>| {
            let found = prepared(statement);
            assert_eq!(found.as_ref().map(|(name, text)| (name.as_str(), *text)), expected, "{statement}");
        };
        check("prepare p(int,text) as select $1;", Some(("p", "select $1")));
        check("PREPARE \"My P\" AS select 1", Some(("My P", "select 1")));
        check("Prepare Q (numeric(10,2)) As\n update t set a = $1", Some(("q", "update t set a = $1")));
        check("prepare transaction 'a'", None);
        check("prepared p as select 1", None);
        check("select 1", None);
    }

    #[test]
    fn execute_has_a_name_and_plain_values() {
        let text = |text: &str| LoggedValue::Text(text.to_string());
        let check = |statement: &str, name: &str, values: Option<Vec<LoggedValue>>| {
            assert_eq!(executed(statement), Some((name.to_string(), values)), "{statement}");
        };
        check("execute p(1,'x'';y');", "p", Some(vec![text("1"), text("x';y")]));
        check("EXECUTE p", "p", Some(vec![]));
        check(
            "execute p (-1.5e3, null, TRUE, 'a'::text, 7::numeric)",
            "p",
            Some(vec![text("-1.5e3"), LoggedValue::Null, text("true"), text("a"), text("7")]),
        );
        check("execute p(1+1, null)", "p", None);
        check("execute p(now())", "p", None);
        assert_eq!(executed("select 1"), None);
    }
}
