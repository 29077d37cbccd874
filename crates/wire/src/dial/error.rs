//! Why a connection could not be made, and what to do about it. Never contains a password.

use crate::conninfo::{ConninfoError, PasswordSource, ProtocolVersion, SslNegotiation};
use crate::reply::ServerError;
use crate::scan::ProtocolError;
use std::io;
use std::time::Duration;

/// Why a connection could not be made. `place` is `host:port` or the path of a unix socket.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings themselves.
    #[error(transparent)]
    Conninfo(#[from] ConninfoError),
    /// The name has no address.
    #[error("cannot resolve host `{host}`: {reason}; check its spelling, or set `hostaddr`")]
    NoSuchHost {
        /// Name looked up.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// Nobody listens.
    #[error("{}", refused_text(place, *unix, error))]
    Refused {
        /// Where.
        place: String,
        /// True for a unix socket.
        unix: bool,
        /// What the system said; part of the text, so not a source of its own.
        error: io::Error,
    },
    /// No answer in time.
    #[error(
        "no answer from `{place}` within {after:?}; is the address right, and no firewall between? (`connect_timeout` sets the limit)"
    )]
    Timeout {
        /// Where.
        place: String,
        /// The limit.
        after: Duration,
    },
    /// Somebody else listens.
    #[error("`{place}` does not speak PostgreSQL's protocol (its answer starts with {}); {hint}", byte_text(*first_byte))]
    NotPostgres {
        /// Where.
        place: String,
        /// First byte of the answer.
        first_byte: u8,
        /// A guess at what it is.
        hint: &'static str,
    },
    /// `sslmode` asks for TLS and the server has none.
    #[error(
        "server `{place}` does not offer TLS, which `sslmode` asks for; turn `ssl` on there, or use sslmode=prefer"
    )]
    TlsNotOffered {
        /// Where.
        place: String,
    },
    /// The rules of the server let nobody in this way without TLS, and perhaps with it.
    #[error(
        "server `{place}` refused user `{user}` ({}): {}; if the server offers TLS, sslmode=require may be what its \
         pg_hba.conf asks for; if not, that has no line that lets this user in",
        error.sqlstate, error.message
    )]
    TlsRequired {
        /// Where.
        place: String,
        /// Role.
        user: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// The rules of the server do not let this user in from here, and TLS would not help.
    #[error(
        "server `{place}` refused user `{user}` ({}): {}; its pg_hba.conf needs a line that lets this user in from \
         here, and a reload",
        error.sqlstate, error.message
    )]
    NoRule {
        /// Where.
        place: String,
        /// Role.
        user: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// The TLS handshake, a certificate or a key.
    #[error("cannot set up TLS with `{place}`: {reason}")]
    Tls {
        /// Where.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// The server asks for a password that nobody gave.
    #[error(
        "server `{place}` asks for the password of user `{user}`, and none was given: set `PGPASSWORD`, or add a line to `~/.pgpass` (mode 0600)"
    )]
    NoPassword {
        /// Where.
        place: String,
        /// Role.
        user: String,
    },
    /// The server refuses the user or the password.
    #[error("server `{place}` refused user `{user}` ({}): {}; {password_source}", error.sqlstate, error.message)]
    Auth {
        /// Where.
        place: String,
        /// Role.
        user: String,
        /// What the server said (class 28).
        error: Box<ServerError>,
        /// Where the password that was refused came from.
        password_source: PasswordSource,
    },
    /// The server wants an authentication this crate does not have, or one that the settings rule out.
    #[error("cannot authenticate with `{place}`: {reason}")]
    AuthMethod {
        /// Where.
        place: String,
        /// What is missing.
        reason: String,
        /// The same in the words of libpq, where it has any.
        libpq_reason: Option<String>,
    },
    /// The server does not speak the version of the protocol that `min_protocol_version` asks for.
    #[error(
        "server `{place}` speaks protocol {} at most, and `min_protocol_version` asks for {}; connect to PostgreSQL 18 or later, or remove the keyword",
        offered.as_str(), oldest.as_str()
    )]
    ProtocolTooOld {
        /// Where.
        place: String,
        /// The newest version of the server.
        offered: ProtocolVersion,
        /// Value of `min_protocol_version`.
        oldest: ProtocolVersion,
    },
    /// The database does not exist.
    #[error("database `{dbname}` does not exist on `{place}`")]
    NoSuchDatabase {
        /// Where.
        place: String,
        /// Database.
        dbname: String,
    },
    /// The server is not of the kind that `target_session_attrs` asks for.
    #[error("server `{place}` is not `{wanted}`, which `target_session_attrs` asks for")]
    WrongRole {
        /// Where.
        place: String,
        /// Value of `target_session_attrs`.
        wanted: &'static str,
    },
    /// Any other refusal of the server, such as too many connections.
    #[error("server refused the connection: {0}")]
    Server(ServerError),
    /// The connection was closed in the middle.
    #[error(
        "`{place}` closed the connection without a word; is it a PostgreSQL server, and does its log say more?"
    )]
    Closed {
        /// Where.
        place: String,
    },
    /// Bytes that are not the protocol.
    #[error("`{place}`: {error}")]
    Protocol {
        /// Where.
        place: String,
        /// What was wrong.
        error: ProtocolError,
    },
    /// Anything else the system said.
    #[error("cannot connect to `{place}`: {error}")]
    Io {
        /// Where.
        place: String,
        /// What the system said; part of the text, so not a source of its own.
        error: io::Error,
    },
    /// More than one host was tried, and each failed in its own way.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConnectError>),
}

impl ConnectError {
    /// True if the server may be reachable later without a change of settings: it is starting, stopping or full.
    pub fn is_temporary(&self) -> bool {
        match self {
            ConnectError::Refused { .. } | ConnectError::Timeout { .. } | ConnectError::Closed { .. } => true,
            ConnectError::Server(error) => error.is_class("57") || error.is_class("53"),
            ConnectError::Several(errors) => errors.iter().any(ConnectError::is_temporary),
            _ => false,
        }
    }

    /// What the server said, if it was the server that refused.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            ConnectError::Server(error) => Some(error),
            ConnectError::Auth { error, .. }
            | ConnectError::TlsRequired { error, .. }
            | ConnectError::NoRule { error, .. } => Some(error),
            _ => None,
        }
    }

    /// From a failure of the system while connecting or talking.
    pub(super) fn from_io(place: &str, unix: bool, error: io::Error) -> ConnectError {
        let place = place.to_owned();
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                ConnectError::Refused { place, unix, error }
            }
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                ConnectError::Closed { place }
            }
            _ => ConnectError::Io { place, error },
        }
    }

    /// From a failure of a TLS handshake that was begun in this way.
    pub(super) fn from_handshake(place: &str, begun: SslNegotiation, error: io::Error) -> ConnectError {
        let place = place.to_owned();
        match error.kind() {
            // rustls' own errors travel inside an `InvalidData`.
            io::ErrorKind::InvalidData => ConnectError::Tls { place, reason: error.to_string() },
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                let hint = match begun {
                    SslNegotiation::Postgres => "",
                    SslNegotiation::Direct => "; before PostgreSQL 17 it wants sslnegotiation=postgres",
                };
                let reason = format!("the server closed the connection during the handshake{hint}");
                ConnectError::Tls { place, reason }
            }
            _ => ConnectError::Io { place, error },
        }
    }

    /// From the first byte of an answer that no PostgreSQL server gives.
    pub(super) fn not_postgres(place: &str, first_byte: u8) -> ConnectError {
        let hint = match first_byte {
            b'H' => "is this an HTTP port?",
            0x15 | 0x16 => "is this a TLS port that wants sslnegotiation=direct?",
            _ => "is the port right?",
        };
        ConnectError::NotPostgres { place: place.to_owned(), first_byte, hint }
    }
}

fn refused_text(place: &str, unix: bool, error: &io::Error) -> String {
    if unix {
        format!("no server at unix socket `{place}`: {error}; is it running? name a host to connect over TCP")
    } else {
        format!("no server at `{place}`: {error}; is it running there, and is the port right?")
    }
}

fn byte_text(byte: u8) -> String {
    if byte.is_ascii_graphic() { format!("`{}`", char::from(byte)) } else { format!("byte 0x{byte:02x}") }
}
