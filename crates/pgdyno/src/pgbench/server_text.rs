//! Messages of servers and of failed connections in libpq's form, which scripts and eyes look for.

use wire::conninfo::PasswordSource;
use wire::{ConnectError, Conninfo, ServerError, SessionError};

use super::log::{Complaint, Kind};

/// A server's message as psql and pgbench show it: severity and text, the place in the statement, then what else there
/// is, each on a line of its own.
pub(super) fn server_error(error: &ServerError, sql: Option<&str>) -> String {
    let mut text = format!("{}:  {}\n", error.severity, error.message);
    let about = error.about.as_deref();
    let query = about.and_then(|about| about.internal_query.as_deref());
    // A place in the client's statement, or else in one that a function ran.
    let inner = || Some((about?.internal_position?, query?));
    if let Some((position, sql)) = error.position.map_or_else(inner, |position| Some((position, sql?))) {
        text += &place(sql, position as usize);
    }
    // Of a notice, libpq does not tell where it was raised.
    let context = about.filter(|_| error.is_error()).and_then(|about| about.context.as_deref());
    let more = [
        ("DETAIL", error.detail.as_deref()),
        ("HINT", error.hint.as_deref()),
        ("QUERY", query),
        ("CONTEXT", context),
    ];
    for (label, value) in more {
        if let Some(value) = value {
            text += &format!("{label}:  {value}\n");
        }
    }
    text
}

/// The line of `sql` that has the character `position` (from 1), and a caret below it.
fn place(sql: &str, position: usize) -> String {
    /// Most columns of a line that are shown, as in libpq.
    const COLUMNS_MAX: usize = 60;
    /// Columns kept to the right of the place.
    const RIGHT_MIN: usize = 10;
    let before: Vec<char> = sql.chars().take(position.saturating_sub(1)).collect();
    let start = before.iter().rposition(|&c| c == '\n').map_or(0, |at| at + 1);
    let number = 1 + before.iter().filter(|&&c| c == '\n').count();
    let line: Vec<char> = sql.chars().skip(start).take_while(|&c| c != '\n' && c != '\r').collect();
    let column = before.len() - start;
    let (mut from, mut to) = (0, line.len());
    if line.len() > COLUMNS_MAX {
        if column + RIGHT_MIN < COLUMNS_MAX {
            to = COLUMNS_MAX;
        } else {
            to = (column + RIGHT_MIN).min(line.len());
            from = to.saturating_sub(COLUMNS_MAX);
        }
    }
    let (left, right) = (if from > 0 { "..." } else { "" }, if to < line.len() { "..." } else { "" });
    let label = format!("LINE {number}: {left}");
    let shown: String = line[from..to].iter().map(|&c| if c == '\t' { ' ' } else { c }).collect();
    format!("{label}{shown}{right}\n{:>width$}\n", '^', width = label.chars().count() + column - from + 1)
}

/// A failed statement in libpq's form.
pub(super) fn session_error(error: &SessionError, sql: &str) -> String {
    match error {
        SessionError::Server(error) => server_error(error, Some(sql)),
        other => format!("{other}\n"),
    }
}

/// A failed connection in libpq's form.
pub(super) fn connect_error(error: &ConnectError, conninfo: &Conninfo) -> String {
    if let ConnectError::Several(errors) = error {
        return errors.iter().map(|error| connect_error(error, conninfo)).collect::<Vec<_>>().join("");
    }
    let tcp_hint = "\tIs the server running on that host and accepting TCP/IP connections?";
    let unix_hint = "\tIs the server running locally and accepting connections on that socket?";
    let fatal = |message: &str| format!("FATAL:  {message}");
    let (place, reason) = match error {
        ConnectError::NoSuchHost { host, reason } => {
            // Rust's library puts its own words before the resolver's.
            let reason = reason.trim_start_matches("failed to lookup address information: ");
            return format!("could not translate host name \"{host}\" to address: {reason}\n");
        }
        ConnectError::NoSuchDatabase { place, dbname } => {
            (place, fatal(&format!("database \"{dbname}\" does not exist")))
        }
        ConnectError::Auth { place, error, password_source: PasswordSource::Passfile(file), .. }
            if error.sqlstate == "28P01" =>
        {
            let source = format!("password retrieved from file \"{}\"", file.display());
            (place, format!("{}:  {}\n{source}", error.severity, error.message))
        }
        ConnectError::Auth { place, error, .. } | ConnectError::TlsRequired { place, error } => {
            (place, format!("{}:  {}", error.severity, error.message))
        }
        ConnectError::NoPassword { place, .. } => (place, "fe_sendauth: no password supplied".to_string()),
        ConnectError::Refused { place, unix, error } => {
            let hint = if *unix { unix_hint } else { tcp_hint };
            (place, format!("{}\n{hint}", super::scripts::system_text(error)))
        }
        ConnectError::Timeout { place, .. } => (place, "timeout expired".to_string()),
        ConnectError::Server(error) => {
            let place = first_place(conninfo).unwrap_or_default();
            return format!("{}{}", introduction(&place), server_error(error, None));
        }
        other => return format!("{other}\n"),
    };
    format!("{}{reason}\n", introduction(place))
}

/// Why a driver could not begin. If it is a client's connection, told in two lines as pgbench does.
pub(super) fn driver_error(message: &str, conninfo: &Conninfo) -> Complaint {
    let client = message.strip_prefix("client ").and_then(|rest| rest.split_once(": "));
    let Some((client, reason)) = client.filter(|(client, _)| client.parse::<u32>().is_ok()) else {
        return Complaint::new(message);
    };
    let refused = reason.strip_prefix("server refused the connection: FATAL ").and_then(|rest| rest.get(7..));
    let reason = match (refused, first_place(conninfo)) {
        (Some(text), Some(place)) => format!("{}FATAL:  {text}", introduction(&place)),
        _ => reason.to_string(),
    };
    Complaint::new(reason).and(Kind::Error, format!("could not create connection for client {client}"))
}

fn first_place(conninfo: &Conninfo) -> Option<String> {
    let host = conninfo.hosts.first()?;
    Some(host.socket_path().map_or_else(|| host.to_string(), |path| path.display().to_string()))
}

/// What libpq puts in front of the reason.
fn introduction(place: &str) -> String {
    if place.starts_with('/') {
        return format!("connection to server on socket \"{place}\" failed: ");
    }
    let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    format!("connection to server at \"{host}\", port {port} failed: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(position: u32) -> ServerError {
        ServerError {
            severity: "ERROR".into(),
            message: "nope".into(),
            hint: Some("try".into()),
            position: Some(position),
            ..ServerError::default()
        }
    }

    #[test]
    fn the_place_of_an_error_is_shown_as_libpq_shows_it() {
        let check = |sql: &str, position, expected: &str| {
            let text = server_error(&error(position), Some(sql));
            assert_eq!(text, format!("ERROR:  nope\n{expected}HINT:  try\n"));
        };
        check("SELECT 1 + ;", 12, "LINE 1: SELECT 1 + ;\n                   ^\n");
        check("SELECT\n  x\n", 10, "LINE 2:   x\n          ^\n");
        let long = format!("SELECT {} nosuch", "1,".repeat(40));
        let line = format!("LINE 1: ...{} nosuch\n", ",1".repeat(26) + ",");
        check(&long, 89, &format!("{line}{:>66}\n", '^'));
    }

    #[test]
    fn a_statement_that_a_function_ran_is_shown() {
        let about = wire::reply::ErrorAbout {
            severity_untranslated: Some("ERROR".into()),
            internal_query: Some("SELECT nosuch".into()),
            internal_position: Some(8),
            context: Some("line 1".into()),
            ..Default::default()
        };
        let error = ServerError {
            severity: "FEHLER".into(),
            position: None,
            about: Some(Box::new(about)),
            ..error(0)
        };
        let expected = "FEHLER:  nope\nLINE 1: SELECT nosuch\n               ^\nHINT:  try\nQUERY:  SELECT nosuch\n\
                        CONTEXT:  line 1\n";
        assert_eq!(server_error(&error, Some("CALL f()")), expected);
    }

    #[test]
    fn connections_fail_in_libpqs_words() {
        let conninfo = Conninfo::new("/tmp", 5432, "me", "db");
        let check = |error, expected| assert_eq!(connect_error(&error, &conninfo), expected);
        check(
            ConnectError::NoSuchDatabase { place: "/tmp/.s.PGSQL.5432".into(), dbname: "x".into() },
            "connection to server on socket \"/tmp/.s.PGSQL.5432\" failed: FATAL:  database \"x\" does not exist\n",
        );
        check(
            ConnectError::Refused {
                place: "localhost:5433".into(),
                unix: false,
                error: std::io::Error::from_raw_os_error(111),
            },
            "connection to server at \"localhost\", port 5433 failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?\n",
        );
    }
}
