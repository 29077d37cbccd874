//! Why a connection could not be made, and what to do about it. Never contains a password.

use std::io;
use std::time::Duration;

use crate::conninfo::{ConninfoError, PasswordSource, ProtocolVersion, SslNegotiation};
use crate::reply::ServerError;
use crate::scan::ProtocolError;
use crate::tls;

const WHERE_TO_PUT_IT: &str = "set `PGPASSWORD`, or add a line HOST:PORT:DATABASE:USER:PASSWORD with exactly these names to `~/.pgpass` (mode 0600)";

/// Why a connection could not be made. `place` is `host:port` or the path of a unix socket.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ConnectError {
    /// The settings are invalid.
    #[error(transparent)]
    Conninfo(#[from] ConninfoError),
    /// The host name has no address.
    #[error("cannot resolve host `{host}`: {reason}; check its spelling, or set `hostaddr`")]
    NoSuchHost {
        /// Name looked up.
        host: String,
        /// The resolver's message.
        reason: String,
    },
    /// No server listens there.
    #[error("{}", refused_text(place, *unix, error))]
    Refused {
        place: String,
        /// Whether it is a unix socket.
        unix: bool,
        /// The system's error; part of the text, so not a source.
        error: io::Error,
    },
    /// No answer in time.
    #[error(
        "no answer from `{place}` within {after:?}; is the address right, and is there a firewall in between? (`connect_timeout` sets the limit)"
    )]
    Timeout {
        place: String,
        /// The limit.
        after: Duration,
    },
    /// Something else listens there.
    #[error("`{place}` does not speak PostgreSQL's protocol (its answer starts with {}); {hint}", byte_text(*first_byte))]
    NotPostgres {
        place: String,
        /// First byte of the answer.
        first_byte: u8,
        /// A guess at what it is.
        hint: &'static str,
    },
    /// `sslmode` requires TLS and the server has none.
    #[error(
        "server `{place}` does not offer TLS, which `sslmode` requires; turn on `ssl` there, or use sslmode=prefer"
    )]
    TlsNotOffered { place: String },
    /// The server's rules reject this connection without TLS, but may accept it with TLS.
    #[error(
        "server `{place}` refused user `{user}` ({}): {}; if the server offers TLS, its pg_hba.conf may require \
         sslmode=require; otherwise it has no line that lets this user in",
        error.sqlstate, error.message
    )]
    TlsRequired {
        place: String,
        /// Role.
        user: String,
        /// The server's message.
        error: Box<ServerError>,
    },
    /// The server's rules reject this user from here, and TLS would not help.
    #[error(
        "server `{place}` refused user `{user}` ({}): {}; its pg_hba.conf needs a line that lets this user in from \
         here, and a reload",
        error.sqlstate, error.message
    )]
    NoRule {
        place: String,
        /// Role.
        user: String,
        /// The server's message.
        error: Box<ServerError>,
    },
    /// The TLS handshake, a certificate or a key failed.
    #[error("cannot set up TLS with `{place}`: {reason}")]
    Tls {
        place: String,
        /// The failed step and its cause.
        reason: String,
    },
    /// The server requires a password and none was given.
    #[error(
        "server `{place}` requires a password for user `{user}`, but none was given: {}",
        ignored.as_ref().map_or(WHERE_TO_PUT_IT.to_owned(), |why| format!("the {why}"))
    )]
    NoPassword {
        place: String,
        /// Role.
        user: String,
        /// Why the password file was not used, if there is one.
        ignored: Option<String>,
    },
    /// The server rejects the user or the password.
    #[error("server `{place}` refused user `{user}` ({}): {}; {password_source}", error.sqlstate, error.message)]
    Auth {
        place: String,
        /// Role.
        user: String,
        /// The server's message (class 28).
        error: Box<ServerError>,
        /// Source of the rejected password.
        password_source: PasswordSource,
    },
    /// The server requires an authentication method that this crate lacks or the settings exclude.
    #[error("cannot authenticate with `{place}`: {reason}")]
    AuthMethod {
        place: String,
        /// The method or option that is missing.
        reason: String,
        /// libpq's message, if it has one.
        libpq_reason: Option<String>,
    },
    /// The server does not support the protocol version that `min_protocol_version` requires.
    #[error(
        "server `{place}` supports protocol {} at most, but `min_protocol_version` requires {}; connect to PostgreSQL 18 or later, or remove the keyword",
        offered.as_str(), oldest.as_str()
    )]
    ProtocolTooOld {
        place: String,
        /// The newest version that the server supports.
        offered: ProtocolVersion,
        /// Value of `min_protocol_version`.
        oldest: ProtocolVersion,
    },
    /// The database does not exist.
    #[error("database `{dbname}` does not exist on `{place}`")]
    NoSuchDatabase {
        place: String,
        /// Database.
        dbname: String,
    },
    /// The server is not of the kind that `target_session_attrs` requires.
    #[error("server `{place}` is not `{wanted}`, as `target_session_attrs` requires")]
    WrongRole {
        place: String,
        /// Value of `target_session_attrs`.
        wanted: &'static str,
    },
    /// Any other refusal of the server, such as too many connections.
    #[error("server refused the connection: {0}")]
    Server(ServerError),
    /// The connection was closed during startup.
    #[error(
        "`{place}` closed the connection without a message; is it a PostgreSQL server, and does its log say more?"
    )]
    Closed { place: String },
    /// Bytes that are not the protocol.
    #[error("`{place}`: {error}")]
    Protocol {
        place: String,
        /// The violation.
        error: ProtocolError,
    },
    /// Any other system error.
    #[error("cannot connect to `{place}`: {error}")]
    Io {
        place: String,
        /// The system's error; part of the text, so not a source.
        error: io::Error,
    },
    /// Several hosts were tried, and each failed in its own way.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConnectError>),
}

impl ConnectError {
    /// Whether the server may be reachable later with the same settings: it is starting, stopping or full.
    pub fn is_temporary(&self) -> bool {
        match self {
            ConnectError::Refused { .. } | ConnectError::Timeout { .. } | ConnectError::Closed { .. } => true,
            ConnectError::Server(error) => error.is_class("57") || error.is_class("53"),
            ConnectError::Several(errors) => errors.iter().any(ConnectError::is_temporary),
            _ => false,
        }
    }

    /// The server's error, if the server refused.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            ConnectError::Server(error) => Some(error),
            ConnectError::Auth { error, .. }
            | ConnectError::TlsRequired { error, .. }
            | ConnectError::NoRule { error, .. } => Some(error),
            _ => None,
        }
    }

    /// From a system error while connecting or communicating.
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

    /// From a failed TLS handshake that began in this way.
    pub(super) fn from_handshake(place: &str, begun: SslNegotiation, error: io::Error) -> ConnectError {
        let place = place.to_owned();
        match error.kind() {
            // rustls' own errors travel inside an `InvalidData`.
            io::ErrorKind::InvalidData => ConnectError::Tls { place, reason: tls::reason(&error) },
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                let hint = match begun {
                    SslNegotiation::Postgres => "",
                    SslNegotiation::Direct => "; PostgreSQL before 17 needs sslnegotiation=postgres",
                };
                let reason = format!("the server closed the connection during the handshake{hint}");
                ConnectError::Tls { place, reason }
            }
            _ => ConnectError::Io { place, error },
        }
    }

    /// From a first byte that no PostgreSQL server sends.
    pub(super) fn not_postgres(place: &str, first_byte: u8) -> ConnectError {
        let hint = match first_byte {
            b'H' => "is this an HTTP port?",
            0x15 | 0x16 => "is this a TLS port that needs sslnegotiation=direct?",
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
