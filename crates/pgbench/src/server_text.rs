//! Messages of servers and of failed connections in libpq's format, which scripts and people look for.

use wire::conninfo::PasswordSource;
use wire::{ConnectError, Conninfo, ServerError, SessionError, Units};

use crate::messages::{Complaint, MessageKind};

/// A server's message as psql and pgbench show it.
pub(crate) fn server_error(error: &ServerError, sql: Option<&str>) -> String {
    error.libpq_text(sql, Units::Characters) + "\n"
}

/// A failed statement in libpq's format.
pub(crate) fn session_error(error: &SessionError, sql: &str) -> String {
    match error {
        SessionError::Server(error) => server_error(error, Some(sql)),
        other => format!("{other}\n"),
    }
}

/// A failed connection in libpq's format.
pub(crate) fn connect_error(error: &ConnectError, conninfo: &Conninfo) -> String {
    if let ConnectError::Several(errors) = error {
        return errors.iter().map(|error| connect_error(error, conninfo)).collect::<Vec<_>>().join("");
    }
    let tcp_hint = "\tIs the server running on that host and accepting TCP/IP connections?";
    let unix_hint = "\tIs the server running locally and accepting connections on that socket?";
    let fatal = |message: &str| format!("FATAL:  {message}");
    let (place, reason) = match error {
        ConnectError::NoSuchHost { host, reason } => {
            // Rust's library puts its own text before the resolver's.
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
        ConnectError::Auth { place, error, .. }
        | ConnectError::TlsRequired { place, error, .. }
        | ConnectError::NoRule { place, error, .. } => {
            (place, format!("{}:  {}", error.severity, error.message))
        }
        ConnectError::NoPassword { place, .. } => (place, "fe_sendauth: no password supplied".to_string()),
        ConnectError::Refused { place, unix, error } => {
            let hint = if *unix { unix_hint } else { tcp_hint };
            (place, format!("{}\n{hint}", crate::messages::system_text(error)))
        }
        ConnectError::AuthMethod { place, libpq_reason: Some(reason), .. } => (place, reason.clone()),
        ConnectError::ProtocolTooOld { place, offered, oldest } => {
            let (offered, oldest) = (offered.as_str(), oldest.as_str());
            let reason = "server only supports protocol version";
            (place, format!("{reason} {offered}, but \"min_protocol_version\" was set to {oldest}"))
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

/// Why a driver could not begin. A failed connection of a client takes two lines, as in pgbench.
pub(crate) fn driver_error(message: &str, conninfo: &Conninfo) -> Complaint {
    let client = message.strip_prefix("client ").and_then(|rest| rest.split_once(": "));
    let Some((client, reason)) = client.filter(|(client, _)| client.parse::<u32>().is_ok()) else {
        return Complaint::new(message);
    };
    let refused = reason.strip_prefix("server refused the connection: FATAL ").and_then(|rest| rest.get(7..));
    let reason = match (refused, first_place(conninfo)) {
        (Some(text), Some(place)) => format!("{}FATAL:  {text}", introduction(&place)),
        _ => reason.to_string(),
    };
    Complaint::new(reason).and(MessageKind::Error, format!("could not create connection for client {client}"))
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
