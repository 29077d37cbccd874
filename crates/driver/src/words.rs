//! What is said of errors, in pgbench's words, so that a front in its form need only print them.

use wire::ServerError;

/// Where a client was in its script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) client: usize,
    pub(crate) script: usize,
    pub(crate) command: usize,
}

/// How far the tries of a transaction are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tries {
    pub(crate) n: u32,
    /// 0 is without limit.
    pub(crate) max: u32,
    /// Share of the latency limit that was used, if there is one.
    pub(crate) time_share: Option<f64>,
}

/// An error of the server ended the client.
pub(crate) fn aborted_by_server(place: Place, query: u32, message: &str) -> String {
    let Place { client, script, command } = place;
    format!("client {client} script {script} aborted in command {command} query {query}: {message}")
}

/// A command could not be carried out.
pub(crate) fn command_failed(place: Place, command_name: &str, message: &str) -> String {
    let Place { client, script, command } = place;
    format!("client {client} aborted in command {command} ({command_name}) of script {script}; {message}")
}

/// `\gset` did not get its one row.
pub(crate) fn row_count(place: Place, query: usize, n_rows: u64) -> String {
    let Place { client, script, command } = place;
    format!("client {client} script {script} command {command} query {query}: expected one row, got {n_rows}")
}

/// A column's name is no name for a variable.
pub(crate) fn bad_column(place: Place, query: usize, name: &str) -> String {
    let Place { client, script, command } = place;
    format!(
        "client {client} script {script} command {command} query {query}: error storing into variable {name}"
    )
}

/// An error that does not end the client.
pub(crate) fn got_error(place: Place, message: &str) -> String {
    let Place { client, script, command } = place;
    format!("client {client} got an error in command {command} (SQL) of script {script}; {message}")
}

/// What follows from it.
pub(crate) fn after_error(client: usize, is_retry: bool, tries: Tries) -> String {
    let what =
        if is_retry { "repeats the transaction after the error" } else { "ends the failed transaction" };
    let max = if tries.max > 0 { format!("/{}", tries.max) } else { String::new() };
    let share = tries.time_share.map_or(String::new(), |share| {
        format!(", {:.3}% of the maximum time of tries was used", 100.0 * share)
    });
    format!("client {client} {what} (try {}{max}{share})", tries.n)
}

/// An error of the server as libpq tells it, without the last newline. `query` is the text it may point into.
pub(crate) fn server_message(error: &ServerError, query: Option<&str>) -> String {
    let mut text = format!("{}:  {}", error.severity, error.message);
    let about = error.about.as_deref();
    let inner_query = about.and_then(|about| about.internal_query.as_deref());
    // A place in the client's statement, or else in one that a function ran.
    let inner = || Some((about?.internal_position?, inner_query?));
    if let Some((position, query)) = error.position.map_or_else(inner, |position| Some((position, query?))) {
        text.push_str(&pointer(query, position as usize));
    }
    if let Some(detail) = &error.detail {
        text.push_str(&format!("\nDETAIL:  {detail}"));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\nHINT:  {hint}"));
    }
    if let Some(query) = inner_query {
        text.push_str(&format!("\nQUERY:  {query}"));
    }
    // Of a notice, libpq does not tell where it was raised.
    let context = about.filter(|_| error.is_error()).and_then(|about| about.context.as_ref());
    if let Some(context) = context {
        text.push_str(&format!("\nCONTEXT:  {context}"));
    }
    text
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
    fn retries_are_told_as_pgbench_tells_them() {
        let check = |is_retry, tries, wanted: &str| assert_eq!(after_error(3, is_retry, tries), wanted);
        check(
            true,
            Tries { n: 1, max: 3, time_share: None },
            "client 3 repeats the transaction after the error (try 1/3)",
        );
        check(
            false,
            Tries { n: 2, max: 0, time_share: Some(0.12345) },
            "client 3 ends the failed transaction (try 2, 12.345% of the maximum time of tries was used)",
        );
    }

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
            assert_eq!(server_message(&error(position), Some(query)), wanted, "{query}");
        };
        check("select 1\n from x;", 16, "ERROR:  no\nLINE 2:  from x;\n              ^\nHINT:  try");
        let about = wire::reply::ErrorAbout {
            internal_query: Some("SELECT x".into()),
            internal_position: Some(8),
            ..Default::default()
        };
        let inner = ServerError { position: None, about: Some(Box::new(about)), ..error(0) };
        assert_eq!(
            server_message(&inner, Some("CALL f()")),
            "ERROR:  no\nLINE 1: SELECT x\n               ^\nHINT:  try\nQUERY:  SELECT x"
        );
        let long = format!("select {}x;", " ".repeat(80));
        let shown = " ".repeat(58);
        check(&long, 88, &format!("ERROR:  no\nLINE 1: ...{shown}x;\n{:>70}\nHINT:  try", '^'));
        assert_eq!(server_message(&error(5), None), "ERROR:  no\nHINT:  try");
    }
}
