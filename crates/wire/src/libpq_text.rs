//! Errors and notices of the server in libpq's form, which scripts and eyes look for.

use crate::reply::ServerError;

impl ServerError {
    /// As libpq tells it, without the last newline: severity and text, the place in the statement, then what else there
    /// is, each on a line of its own. `query` is the text it may point into.
    pub fn libpq_text(&self, query: Option<&str>) -> String {
        let mut text = format!("{}:  {}", self.severity, self.message);
        let about = self.about.as_deref();
        let inner_query = about.and_then(|about| about.internal_query.as_deref());
        // A place in the client's statement, or else in one that a function ran.
        let inner = || Some((about?.internal_position?, inner_query?));
        if let Some((position, query)) = self.position.map_or_else(inner, |position| Some((position, query?)))
        {
            text.push_str(&pointer(query, position as usize));
        }
        if let Some(detail) = &self.detail {
            text.push_str(&format!("\nDETAIL:  {detail}"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nHINT:  {hint}"));
        }
        if let Some(query) = inner_query {
            text.push_str(&format!("\nQUERY:  {query}"));
        }
        // Of a notice, libpq does not tell where it was raised.
        let context = about.filter(|_| self.is_error()).and_then(|about| about.context.as_ref());
        if let Some(context) = context {
            text.push_str(&format!("\nCONTEXT:  {context}"));
        }
        text
    }
}

/// Characters of a query's line that are shown, and that are kept to the right of the error.
const SHOWN: usize = 60;
const SHOWN_RIGHT: usize = 10;

/// The line of `query` that character number `position` (from 1) is in, with a caret below.
fn pointer(query: &str, position: usize) -> String {
    let chars: Vec<char> = query.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let at = position.saturating_sub(1);
    if at > chars.len() {
        return String::new();
    }
    let is_end = |c: &char| matches!(c, '\n' | '\r');
    let mut start = chars[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let number = 1 + chars[..at].iter().filter(|c| **c == '\n').count();
    let mut end = at + chars[at..].iter().position(is_end).unwrap_or(chars.len() - at);
    let (mut before, mut after) = ("", "");
    if end - start > SHOWN {
        if start + SHOWN >= at + SHOWN_RIGHT {
            end = start + SHOWN;
            after = "...";
        } else {
            if at + SHOWN_RIGHT < end {
                end = at + SHOWN_RIGHT;
                after = "...";
            }
            if end - start > SHOWN {
                start = end - SHOWN;
                before = "...";
            }
        }
    }
    let head = format!("LINE {number}: {before}");
    let shown: String = chars[start..end].iter().collect();
    format!("\n{head}{shown}{after}\n{:>width$}", '^', width = head.chars().count() + at - start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_into_the_query_as_libpq_does() {
        let error = |position| ServerError {
            severity: "ERROR".into(),
            message: "no".to_owned(),
            position: Some(position),
            hint: Some("try".into()),
            ..ServerError::default()
        };
        let check = |query: &str, position, wanted: &str| {
            assert_eq!(error(position).libpq_text(Some(query)), wanted, "{query}");
        };
        check("select 1\n from x;", 16, "ERROR:  no\nLINE 2:  from x;\n              ^\nHINT:  try");
        let about = crate::reply::ErrorAbout {
            internal_query: Some("SELECT x".into()),
            internal_position: Some(8),
            ..Default::default()
        };
        let inner = ServerError { position: None, about: Some(Box::new(about)), ..error(0) };
        assert_eq!(
            inner.libpq_text(Some("CALL f()")),
            "ERROR:  no\nLINE 1: SELECT x\n               ^\nHINT:  try\nQUERY:  SELECT x"
        );
        let long = format!("select {}x;", " ".repeat(80));
        let shown = " ".repeat(58);
        check(&long, 88, &format!("ERROR:  no\nLINE 1: ...{shown}x;\n{:>70}\nHINT:  try", '^'));
        assert_eq!(error(5).libpq_text(None), "ERROR:  no\nHINT:  try");
    }
}
