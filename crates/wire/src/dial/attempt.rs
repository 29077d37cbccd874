//! One attempt: one address, one encryption method, from `connect` to ReadyForQuery. [`super`] decides which attempts
//! are made, in which order.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::auth::{Auth, Scram};
use super::error::ConnectError;
use super::negotiation;
use super::{CancelHandle, Goal};
use crate::conninfo::{Conninfo, Host, ProtocolVersion, SslNegotiation, TargetSessionAttrs};
use crate::link::{Link, Want};
use crate::message;
use crate::parameters;
use crate::protocol_error::ProtocolError;
use crate::reply::{ServerError, parse_error, row_values};
use crate::tls::{TlsSetup, server_end_point};

/// No message of a starting server is longer, and before authentication libpq accepts no longer one either, for an
/// authentication request and any other message (`PQconnectPoll` in fe-connect.c).
const STARTUP_MESSAGE_BYTES_MAX: u32 = 1 << 16;
const AUTH_MESSAGE_BYTES_MAX: u32 = 2000;
const EARLY_MESSAGE_BYTES_MAX: u32 = 30_000;
/// Limit for all messages up to ReadyForQuery together: there may be many notices and settings.
const STARTUP_BYTES_MAX: usize = 1 << 20;
/// Limit of authentication requests: SCRAM takes four.
const AUTH_REQUESTS_MAX: u32 = 8;
/// Limit of reads from a server after a cancel request, to which it has nothing to answer.
const CANCEL_READS_MAX: u32 = 16;
const ROLE_QUERY: &str =
    "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// Where to connect and how.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Index into `Conninfo::hosts`.
    pub(super) host: usize,
    pub(super) target: Endpoint,
    pub(super) encryption: Encryption,
    /// Whether this is a second method to reach the place of the previous route.
    pub(super) is_fallback: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Address(SocketAddr),
    Socket(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Without TLS.
    Plain,
    /// With TLS if the server offers it.
    IfOffered,
    /// Only with TLS.
    Tls,
}

/// What a server is to `target_session_attrs`.
#[derive(Clone, Copy, Default)]
struct ServerRole {
    in_recovery: bool,
    read_only: bool,
}

/// What the attempt is waiting for.
enum DialPhase {
    /// The kernel is making the connection.
    Connecting,
    /// SSLRequest is sent; one byte will be the answer.
    TlsAnswer,
    /// The TLS handshake is in progress.
    Handshake,
    /// The startup message is sent; authentication, settings and ReadyForQuery will follow.
    Startup,
    /// The server is ready and was asked whether it is a standby.
    Role {
        /// Once the row has arrived.
        answer: Option<ServerRole>,
    },
    /// CancelRequest is sent; the server will close the connection.
    CancelSent,
}

/// Result of a step.
pub(super) enum Step {
    /// Call again when this is possible.
    Wait(Want),
    /// Connected and ready for queries (or cancelled).
    Done,
}

/// One attempt; see the module documentation.
pub(super) struct Attempt {
    pub(super) link: Link,
    pub(super) deadline: Option<Instant>,
    pub(super) route: Route,
    place: String,
    phase: DialPhase,
    auth: Auth,
    is_authenticated: bool,
    n_auth_requests: u32,
    n_reads: u32,
    n_received: usize,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    pub(super) backend_pid: i32,
    pub(super) secret_key: Arc<[u8]>,
    /// The requested version, until the server answers with an older one.
    pub(super) protocol: ProtocolVersion,
    pub(super) parameters: BTreeMap<String, String>,
}

impl Attempt {
    pub(super) fn start(conninfo: &Conninfo, route: Route) -> Result<Attempt, ConnectError> {
        let limit = conninfo.connect_timeout;
        let place = place(conninfo, &route);
        let link = match &route.target {
            Endpoint::Address(address) => Link::start_tcp(*address, &conninfo.tcp),
            Endpoint::Socket(path) => Link::start_unix(path, limit),
        };
        let link = link.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => ConnectError::Timeout { place: place.clone(), after: limit },
            _ => ConnectError::from_io(&place, matches!(route.target, Endpoint::Socket(_)), error),
        })?;
        let auth = Auth {
            place: place.clone(),
            user: conninfo.user.clone(),
            password: conninfo.password_for(route.host).cloned(),
            ignored: conninfo.passfile_warning.clone(),
            channel_binding: conninfo.channel_binding,
            encrypted: false,
            end_point: None,
            scram: Scram::Unused,
            require_auth: conninfo.require_auth.clone(),
            is_complete: false,
            sslcertmode: conninfo.sslcertmode,
            certificate: None,
        };
        Ok(Attempt {
            link,
            deadline: (!limit.is_zero()).then(|| Instant::now() + limit),
            route,
            place,
            phase: DialPhase::Connecting,
            auth,
            is_authenticated: false,
            n_auth_requests: 0,
            n_reads: 0,
            n_received: 0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            backend_pid: 0,
            secret_key: Arc::new([]),
            protocol: conninfo.max_protocol_version,
            parameters: BTreeMap::new(),
        })
    }

    /// Bytes received after ReadyForQuery.
    pub(super) fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// Continues until it has to wait, or is done.
    pub(super) fn step(&mut self, conninfo: &Conninfo, goal: &Goal) -> Result<Step, ConnectError> {
        loop {
            if let Some(want) = self.send_outbox()? {
                return Ok(Step::Wait(want));
            }
            match self.phase {
                DialPhase::Connecting => match self.link.is_connected() {
                    Ok(false) => return Ok(Step::Wait(Want::Write)),
                    Ok(true) => self.on_connected(conninfo, goal)?,
                    Err(error) => return Err(self.io(error)),
                },
                DialPhase::TlsAnswer => {
                    // One byte and no more: cleartext bytes that follow must not be taken for part of the TLS stream.
                    let mut answer = [0];
                    match self.link.recv(&mut answer) {
                        Ok(0) => return Err(ConnectError::Closed { place: self.place.clone() }),
                        Ok(_) => self.on_tls_answer(answer[0], conninfo, goal)?,
                        Err(error) if would_block(&error) => return Ok(Step::Wait(Want::Read)),
                        Err(error) => return Err(self.io(error)),
                    }
                }
                DialPhase::Handshake => match self.link.handshake() {
                    Ok(Some(want)) => return Ok(Step::Wait(want)),
                    Ok(None) => self.on_encrypted(conninfo, goal)?,
                    Err(error) => {
                        let begun = conninfo.sslnegotiation;
                        return Err(ConnectError::from_handshake(&self.place, begun, error));
                    }
                },
                DialPhase::CancelSent => match self.link.recv(&mut [0; 64]) {
                    Ok(0) => return Ok(Step::Done),
                    Ok(_) if self.n_reads < CANCEL_READS_MAX => self.n_reads += 1,
                    Ok(_) => return Ok(Step::Done),
                    Err(error) if would_block(&error) => return Ok(Step::Wait(Want::Read)),
                    // Some servers reset instead of closing: they have read the request nevertheless.
                    Err(_) => return Ok(Step::Done),
                },
                DialPhase::Startup | DialPhase::Role { .. } => match self.take_message()? {
                    Some((tag, body)) => {
                        if self.on_message(tag, &body, conninfo)? {
                            return Ok(Step::Done);
                        }
                    }
                    None if self.receive()? => {}
                    None => return Ok(Step::Wait(Want::Read)),
                },
            }
        }
    }

    fn on_connected(&mut self, conninfo: &Conninfo, goal: &Goal) -> Result<(), ConnectError> {
        match self.route.encryption {
            Encryption::Plain => self.begin(conninfo, goal),
            _ if conninfo.sslnegotiation == SslNegotiation::Direct => self.begin_tls(conninfo)?,
            _ => {
                message::ssl_request(&mut self.outbox);
                self.phase = DialPhase::TlsAnswer;
            }
        }
        Ok(())
    }

    fn on_tls_answer(&mut self, answer: u8, conninfo: &Conninfo, goal: &Goal) -> Result<(), ConnectError> {
        match answer {
            b'S' => self.begin_tls(conninfo)?,
            b'N' if self.route.encryption == Encryption::IfOffered => self.begin(conninfo, goal),
            b'N' => return Err(ConnectError::TlsNotOffered { place: self.place.clone() }),
            // An error before any negotiation, for example too many connections.
            b'E' => {
                self.inbox.push(b'E');
                self.phase = DialPhase::Startup;
            }
            other => return Err(ConnectError::not_postgres(&self.place, other)),
        }
        Ok(())
    }

    fn begin_tls(&mut self, conninfo: &Conninfo) -> Result<(), ConnectError> {
        let failed = |reason| ConnectError::Tls { place: self.place.clone(), reason };
        let setup = TlsSetup::new(conninfo, &conninfo.hosts[self.route.host]).map_err(failed)?;
        self.auth.certificate = Some(Arc::clone(&setup.certificate));
        self.link.start_tls(setup).map_err(|error| failed(error.to_string()))?;
        self.phase = DialPhase::Handshake;
        Ok(())
    }

    fn on_encrypted(&mut self, conninfo: &Conninfo, goal: &Goal) -> Result<(), ConnectError> {
        if conninfo.sslnegotiation == SslNegotiation::Direct && !self.link.has_alpn() {
            let reason =
                "the server did not agree to PostgreSQL inside TLS (ALPN); use sslnegotiation=postgres";
            return Err(ConnectError::Tls { place: self.place.clone(), reason: reason.to_owned() });
        }
        if self.auth.certificate.as_ref().is_some_and(|certificate| certificate.cannot_sign()) {
            let reason = "the server takes no signature that the key in `sslkey` can make; an RSA-PSS key needs TLS 1.3 \
                          here; use another key, or sslcertmode=disable to show none";
            return Err(ConnectError::Tls { place: self.place.clone(), reason: reason.to_owned() });
        }
        self.auth.encrypted = true;
        self.auth.end_point = self.link.server_certificate().and_then(server_end_point);
        self.begin(conninfo, goal);
        Ok(())
    }

    /// The connection is made, encrypted if it is going to be: sends the first regular message.
    fn begin(&mut self, conninfo: &Conninfo, goal: &Goal) {
        match goal {
            Goal::Session => {
                message::startup(&mut self.outbox, self.protocol, startup_parameters(conninfo));
                self.phase = DialPhase::Startup;
            }
            Goal::Cancel(CancelHandle { backend_pid, secret_key, .. }) => {
                message::cancel_request(&mut self.outbox, *backend_pid, secret_key);
                self.phase = DialPhase::CancelSent;
            }
        }
    }

    /// Handles one message; `true` if the connection is ready.
    fn on_message(&mut self, tag: u8, body: &[u8], conninfo: &Conninfo) -> Result<bool, ConnectError> {
        match (tag, &mut self.phase) {
            (b'R', DialPhase::Startup) => {
                self.n_auth_requests += 1;
                if self.is_authenticated || self.n_auth_requests > AUTH_REQUESTS_MAX {
                    return Err(self.protocol_error(tag));
                }
                self.is_authenticated |= self.auth.on_request(body, &mut self.outbox)?;
            }
            (b'v', DialPhase::Startup) if !self.is_authenticated => {
                let oldest = conninfo.min_protocol_version;
                self.protocol = negotiation::answer(body, self.protocol)
                    .ok_or_else(|| self.protocol_error(tag))
                    .and_then(|offered| negotiation::check(offered, oldest, &self.place))?;
            }
            (b'K', DialPhase::Startup) => {
                let (pid, key) =
                    negotiation::cancel_key(body, self.protocol).ok_or_else(|| self.protocol_error(tag))?;
                (self.backend_pid, self.secret_key) = (pid, key.into());
            }
            (b'S', _) => {
                let mut parts = body.split(|&b| b == 0);
                if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                    parameters::keep(&mut self.parameters, name, value)
                        .map_err(|error| self.broken(error))?;
                }
            }
            (b'E', _) => return Err(self.refusal(parse_error(body), conninfo)),
            // A server that skips the authentication skips the proof that it is the one we meant.
            (b'Z', _) if !self.is_authenticated => return Err(self.protocol_error(tag)),
            (b'Z', DialPhase::Startup) if conninfo.target_session_attrs == TargetSessionAttrs::Any => {
                return Ok(true);
            }
            (b'Z', DialPhase::Startup) => match self.reported_role() {
                Some(answer) => return self.check_role(answer, conninfo.target_session_attrs),
                None => {
                    message::query(&mut self.outbox, ROLE_QUERY);
                    self.phase = DialPhase::Role { answer: None };
                }
            },
            (b'D', DialPhase::Role { answer }) => {
                let mut values = row_values(body).map(Option::unwrap_or_default);
                *answer = Some(ServerRole {
                    in_recovery: values.next() == Some(b"t"),
                    read_only: values.next() == Some(b"on"),
                });
            }
            (b'Z', DialPhase::Role { answer }) => {
                let answer = answer.unwrap_or_default();
                return self.check_role(answer, conninfo.target_session_attrs);
            }
            (b'v', _) => return Err(self.protocol_error(tag)),
            // Notices, and the messages around the row.
            _ => {}
        }
        Ok(false)
    }

    /// Servers report it since version 14; others (and poolers) must be asked.
    fn reported_role(&self) -> Option<ServerRole> {
        let is_on = |name: &str| self.parameters.get(name).map(|value| value == "on");
        Some(ServerRole {
            in_recovery: is_on("in_hot_standby")?,
            read_only: is_on("default_transaction_read_only")?,
        })
    }

    fn check_role(&self, role: ServerRole, wanted: TargetSessionAttrs) -> Result<bool, ConnectError> {
        let ServerRole { in_recovery, read_only } = role;
        let fits = match wanted {
            TargetSessionAttrs::Any => true,
            TargetSessionAttrs::ReadWrite => !in_recovery && !read_only,
            TargetSessionAttrs::ReadOnly => in_recovery || read_only,
            TargetSessionAttrs::Primary => !in_recovery,
            TargetSessionAttrs::Standby | TargetSessionAttrs::PreferStandby => in_recovery,
        };
        if fits {
            return Ok(true);
        }
        Err(ConnectError::WrongRole { place: self.place.clone(), wanted: wanted.as_str() })
    }

    /// Classifies a refusal of the server.
    fn refusal(&self, error: ServerError, conninfo: &Conninfo) -> ConnectError {
        let place = self.place.clone();
        let user = conninfo.user.clone();
        // The two messages of `ClientAuthentication` in auth.c, in the server's language: translated ones are reported
        // like any other refusal. They end with the encryption of the connection, whether or not a rule requires
        // another: "no encryption", and before version 14 "SSL off".
        let is_of_rules = ["no pg_hba.conf entry", "pg_hba.conf rejects"]
            .iter()
            .any(|beginning| error.message.starts_with(beginning));
        let is_plain = ["no encryption", "SSL off"].iter().any(|end| error.message.ends_with(end));
        match error.sqlstate.as_str() {
            "28000" if is_plain && self.may_encrypt() => {
                ConnectError::TlsRequired { place, user, error: Box::new(error) }
            }
            "28000" if is_of_rules => ConnectError::NoRule { place, user, error: Box::new(error) },
            "3D000" => ConnectError::NoSuchDatabase { place, dbname: conninfo.dbname.clone() },
            _ if error.is_class("28") => ConnectError::Auth {
                place,
                user,
                error: Box::new(error),
                password_source: match self.auth.password {
                    Some(_) => conninfo.password_source.clone(),
                    None => Default::default(),
                },
            },
            _ => ConnectError::Server(error),
        }
    }

    /// Whether TLS is another way to the same place, as far as this attempt knows: one that requested TLS and continues
    /// without it has learned that the server has none.
    fn may_encrypt(&self) -> bool {
        self.route.encryption == Encryption::Plain && matches!(self.route.target, Endpoint::Address(_))
    }

    /// The next complete message of the inbox.
    fn take_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, ConnectError> {
        let Some(&tag) = self.inbox.first() else { return Ok(None) };
        if !matches!(tag, b'R' | b'K' | b'S' | b'E' | b'N' | b'Z' | b'v' | b'T' | b'D' | b'C') {
            return Err(ConnectError::not_postgres(&self.place, tag));
        }
        let [_, l0, l1, l2, l3, ..] = self.inbox[..] else { return Ok(None) };
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let length_max = match tag {
            b'R' => AUTH_MESSAGE_BYTES_MAX,
            _ if !self.is_authenticated => EARLY_MESSAGE_BYTES_MAX,
            _ => STARTUP_MESSAGE_BYTES_MAX,
        };
        if !(4..=length_max).contains(&length) {
            if tag == b'E' {
                return Err(self.old_style_error());
            }
            return Err(ConnectError::not_postgres(&self.place, tag));
        }
        let end = 1 + length as usize;
        if self.inbox.len() < end {
            return Ok(None);
        }
        let body = self.inbox[5..end].to_vec();
        self.inbox.drain(..end);
        Ok(Some((tag, body)))
    }

    /// A server that cannot start a process for us reports it as `E` and a zero-terminated text.
    fn old_style_error(&self) -> ConnectError {
        let text = self.inbox[1..].split(|&b| b == 0).next().unwrap_or_default();
        let message = String::from_utf8_lossy(text).trim().to_owned();
        ConnectError::Server(ServerError {
            severity: "FATAL".into(),
            sqlstate: "58000".to_owned(),
            message,
            ..ServerError::default()
        })
    }

    /// Receives available bytes; `false` if there are none.
    fn receive(&mut self) -> Result<bool, ConnectError> {
        let mut buffer = [0; 4096];
        match self.link.recv(&mut buffer) {
            Ok(0) => Err(ConnectError::Closed { place: self.place.clone() }),
            Ok(n) => {
                self.n_received += n;
                if self.n_received > STARTUP_BYTES_MAX {
                    let what = "bytes before it was ready";
                    return Err(self.broken(ProtocolError::TooMuch { what, limit: "1 MiB" }));
                }
                self.inbox.extend_from_slice(&buffer[..n]);
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(self.io(error)),
        }
    }

    /// Sends the outbox; returns what to wait for if not everything was sent.
    fn send_outbox(&mut self) -> Result<Option<Want>, ConnectError> {
        while !self.outbox.is_empty() {
            match self.link.send(&self.outbox) {
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(error) if would_block(&error) => return Ok(Some(Want::Write)),
                Err(error) => return Err(self.io(error)),
            }
        }
        if matches!(self.phase, DialPhase::Handshake) {
            return Ok(None);
        }
        match self.link.flush_pending() {
            Ok(()) => Ok(None),
            Err(error) if would_block(&error) => Ok(Some(Want::Write)),
            Err(error) => Err(self.io(error)),
        }
    }

    fn io(&self, error: io::Error) -> ConnectError {
        ConnectError::from_io(&self.place, matches!(self.route.target, Endpoint::Socket(_)), error)
    }

    /// The error for a message of this type that is malformed or unexpected.
    fn protocol_error(&self, tag: u8) -> ConnectError {
        self.broken(ProtocolError::BadBody(tag))
    }

    fn broken(&self, error: ProtocolError) -> ConnectError {
        ConnectError::Protocol { place: self.place.clone(), error }
    }

    /// The error for an answer that did not arrive in time.
    pub(super) fn timed_out(&self, conninfo: &Conninfo) -> ConnectError {
        ConnectError::Timeout { place: self.place.clone(), after: conninfo.connect_timeout }
    }
}

/// The name of the place in messages.
fn place(conninfo: &Conninfo, route: &Route) -> String {
    let host: &Host = &conninfo.hosts[route.host];
    match &route.target {
        Endpoint::Socket(path) => path.display().to_string(),
        Endpoint::Address(_) => host.to_string(),
    }
}

fn startup_parameters(conninfo: &Conninfo) -> Vec<(&str, &str)> {
    let name = conninfo.application_name.as_deref().or(conninfo.fallback_application_name.as_deref());
    let mut parameters = vec![("user", &*conninfo.user), ("database", &*conninfo.dbname)];
    parameters.extend(conninfo.options.as_deref().map(|options| ("options", options)));
    parameters.extend(name.filter(|name| !name.is_empty()).map(|name| ("application_name", name)));
    parameters.extend(conninfo.session_settings.iter().map(|(name, value)| (&**name, &**value)));
    parameters
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
