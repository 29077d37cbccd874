//! Connects without blocking: which host, which address, with or without TLS, in libpq's order, and what to try next if
//! an attempt fails. A single attempt is in `attempt`, authentication in `auth`.

mod attempt;
mod auth;
mod error;
mod negotiation;
mod search;
mod shuffle;

pub use error::ConnectError;

use crate::conninfo::{Conninfo, Host, ProtocolVersion, SslMode, TargetSessionAttrs};
use crate::link::{Link, Want};
use attempt::{Attempt, Endpoint, Step};
use search::{Search, targets};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that is being made.
///
/// Wait for what [`Dialing::advance`] asks (on [`Dialing::fd`], until [`Dialing::deadline`]) and call it again. The
/// descriptor changes when another host or method is tried, as [`Dialing::generation`] shows. Only resolving a host
/// name blocks; [`Conninfo::with_addresses`] does that beforehand.
pub struct Dialing {
    conninfo: Arc<Conninfo>,
    goal: Goal,
    /// `None` once the connection has been handed over.
    attempt: Option<Attempt>,
    generation: u32,
    search: Search,
    /// `target_session_attrs=prefer-standby`: no standby was found, so any server is acceptable.
    any_role: bool,
}

/// Progress of a connection attempt.
#[derive(Debug)]
pub enum DialProgress {
    /// Call again when the descriptor can be read.
    WantRead,
    /// Call again when the descriptor can be written.
    WantWrite,
    /// Connected and ready for queries.
    Done(Connection),
}

/// A connection that is ready for queries.
#[derive(Debug)]
pub struct Connection {
    /// The connection itself.
    pub link: Link,
    /// Process number of the backend.
    pub backend_pid: i32,
    /// Key for cancel requests: 4 bytes, up to 256 with protocol 3.2.
    pub secret_key: Arc<[u8]>,
    /// The negotiated protocol version.
    pub protocol: ProtocolVersion,
    /// Settings that the server reports (`server_version`, ...).
    pub parameters: BTreeMap<String, String>,
    /// TLS version and cipher, if TLS is used.
    pub tls: Option<String>,
    /// Bytes received after the first ReadyForQuery: scan them before anything from `link`.
    pub leftover: Vec<u8>,
    /// The one server that was reached; `hostaddr` is the address that answered.
    pub host: Host,
    cancel: CancelHandle,
}

/// Cancels whatever a session is doing, from anywhere: it may be cloned and sent to other threads. Small, because all
/// connections with the same settings share them.
#[derive(Clone)]
pub struct CancelHandle {
    conninfo: Arc<Conninfo>,
    /// The server of `conninfo` that was reached, and the address that answered.
    host: usize,
    address: Option<IpAddr>,
    is_encrypted: bool,
    backend_pid: i32,
    secret_key: Arc<[u8]>,
}

/// The purpose of a connection.
enum Goal {
    Session,
    Cancel(CancelHandle),
}

/// Connects; waits up to `connect_timeout` for each address.
///
/// # Errors
/// The error of the last host, or of each host if they differ.
pub fn connect(conninfo: &Conninfo) -> Result<Connection, ConnectError> {
    Dialing::start(conninfo)?.finish()
}

/// The address of this machine from which a connection to `server` would come: the kernel's routes decide, and nothing
/// is sent.
///
/// # Errors
/// When there is no route.
pub fn address_toward(server: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    Ok(socket.local_addr()?.ip())
}

impl Conninfo {
    /// The same settings with every host name resolved, so that many connections ask the resolver once.
    ///
    /// # Errors
    /// A name without an address.
    pub fn with_addresses(&self) -> Result<Conninfo, ConnectError> {
        let mut conninfo = self.clone();
        for host in &mut conninfo.hosts {
            let found = targets(host)?.into_iter().filter_map(|target| match target {
                Endpoint::Address(address) => Some(address),
                Endpoint::Socket(_) => None,
            });
            host.addresses = found.collect();
        }
        Ok(conninfo)
    }
}

impl fmt::Debug for Dialing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dialing {{ {}, fd: {} }}", self.conninfo, self.fd())
    }
}

impl Dialing {
    /// Begins with the first address of the first host that can be resolved.
    ///
    /// # Errors
    /// If no attempt could even begin.
    pub fn start(conninfo: &Conninfo) -> Result<Dialing, ConnectError> {
        Dialing::start_shared(Arc::new(conninfo.clone()))
    }

    /// [`Dialing::start`] for many connections that share their settings.
    ///
    /// # Errors
    /// See [`Dialing::start`].
    pub fn start_shared(conninfo: Arc<Conninfo>) -> Result<Dialing, ConnectError> {
        Dialing::begin(conninfo, Goal::Session)
    }

    /// Starts a cancel request. [`Dialing::advance`] ends with [`DialProgress::Done`] once the server has accepted the
    /// request; its connection is closed and unusable.
    ///
    /// # Errors
    /// See [`Dialing::start`].
    pub fn start_cancel(handle: &CancelHandle) -> Result<Dialing, ConnectError> {
        Dialing::begin(Arc::new(handle.settings()), Goal::Cancel(handle.clone()))
    }

    fn begin(conninfo: Arc<Conninfo>, goal: Goal) -> Result<Dialing, ConnectError> {
        let mut search = Search::new(&conninfo);
        let attempt = Some(search.next_attempt(&conninfo)?);
        Ok(Dialing { conninfo, goal, attempt, generation: 0, search, any_role: false })
    }

    /// Continues as far as possible without waiting.
    ///
    /// # Errors
    /// When there is nothing left to try.
    pub fn advance(&mut self) -> Result<DialProgress, ConnectError> {
        loop {
            let Some(attempt) = &mut self.attempt else {
                let error = io::Error::other("already connected");
                return Err(ConnectError::Io { place: self.conninfo.to_string(), error });
            };
            let is_late = attempt.deadline.is_some_and(|at| Instant::now() >= at);
            let error = match attempt.step(&self.conninfo, &self.goal) {
                Ok(Step::Done) => break,
                Ok(Step::Wait(_)) if is_late => attempt.timed_out(&self.conninfo),
                Ok(Step::Wait(Want::Read)) => return Ok(DialProgress::WantRead),
                Ok(Step::Wait(Want::Write)) => return Ok(DialProgress::WantWrite),
                Err(error) => error,
            };
            self.after_failure(error)?;
        }
        let attempt = self.attempt.take().expect("the loop ends only with an attempt that is done");
        Ok(DialProgress::Done(self.connection(attempt)))
    }

    /// The descriptor to wait on (-1 once connected). It changes with [`Dialing::generation`].
    pub fn fd(&self) -> RawFd {
        self.attempt.as_ref().map_or(-1, |attempt| attempt.link.fd())
    }

    /// The current connection, to be registered with an event loop; `None` once connected.
    pub fn link_mut(&mut self) -> Option<&mut Link> {
        self.attempt.as_mut().map(|attempt| &mut attempt.link)
    }

    /// Changes whenever another connection is tried, even if its descriptor has the same number.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// When to call [`Dialing::advance`] even if nothing has happened.
    pub fn deadline(&self) -> Option<Instant> {
        self.attempt.as_ref()?.deadline
    }

    /// The error for a connection given up after this time.
    pub(crate) fn timed_out(&self, after: Duration) -> ConnectError {
        ConnectError::Timeout { place: self.conninfo.to_string(), after }
    }

    /// Blocks until the connection is made (or the cancel request is accepted).
    ///
    /// # Errors
    /// See [`Dialing::advance`].
    pub fn finish(mut self) -> Result<Connection, ConnectError> {
        loop {
            let want = match self.advance()? {
                DialProgress::Done(connection) => return Ok(connection),
                DialProgress::WantRead => Want::Read,
                DialProgress::WantWrite => Want::Write,
            };
            let Some(attempt) = &self.attempt else { continue };
            if let Err(error) = attempt.link.wait(&[want], attempt.deadline) {
                return Err(ConnectError::Io { place: self.conninfo.to_string(), error });
            }
        }
    }

    fn after_failure(&mut self, error: ConnectError) -> Result<(), ConnectError> {
        let is_fallback = self.attempt.as_ref().is_some_and(|attempt| attempt.route.is_fallback);
        // Close the old connection before making the next one: a full server needs the slot.
        self.attempt = None;
        if !self.search.is_worth_another(error, is_fallback) {
            return Err(self.search.summary());
        }
        let mut next = self.search.next_attempt(&self.conninfo);
        let prefers_standby = self.conninfo.target_session_attrs == TargetSessionAttrs::PreferStandby;
        if next.is_err() && prefers_standby && !self.any_role {
            self.any_role = true;
            Arc::make_mut(&mut self.conninfo).target_session_attrs = TargetSessionAttrs::Any;
            self.search.restart();
            next = self.search.next_attempt(&self.conninfo);
        }
        self.attempt = Some(next?);
        self.generation += 1;
        Ok(())
    }

    fn connection(&self, mut attempt: Attempt) -> Connection {
        let cancel = CancelHandle {
            conninfo: Arc::clone(&self.conninfo),
            host: attempt.route.host,
            address: match &attempt.route.target {
                Endpoint::Address(address) => Some(address.ip()),
                Endpoint::Socket(_) => None,
            },
            is_encrypted: attempt.link.is_encrypted(),
            backend_pid: attempt.backend_pid,
            secret_key: Arc::clone(&attempt.secret_key),
        };
        Connection {
            leftover: attempt.take_inbox(),
            tls: attempt.link.tls_description(),
            link: attempt.link,
            backend_pid: cancel.backend_pid,
            secret_key: attempt.secret_key,
            protocol: attempt.protocol,
            parameters: attempt.parameters,
            host: cancel.host(),
            cancel,
        }
    }
}

impl Connection {
    /// A handle that cancels this connection's query.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The server's version as a number (150004 for 15.4), from the parameter `server_version`; 0 if it is missing.
    pub fn server_version_num(&self) -> u32 {
        self.parameters.get("server_version").map_or(0, |text| version_num(text))
    }
}

impl CancelHandle {
    /// The server that was reached.
    fn host(&self) -> Host {
        let mut host = self.conninfo.hosts[self.host].clone();
        if let Some(address) = self.address {
            host.hostaddr = Some(address.to_string());
            host.addresses.clear();
        }
        host
    }

    /// Settings to reach it again for a cancel request: without the password, which such a request does not need.
    fn settings(&self) -> Conninfo {
        let mut conninfo = Conninfo::clone(&self.conninfo);
        conninfo.hosts = vec![self.host()];
        conninfo.password = None;
        conninfo.host_passwords.clear();
        // A cancel request is encrypted if and only if the session is.
        conninfo.sslmode =
            if self.is_encrypted { conninfo.sslmode.max(SslMode::Require) } else { SslMode::Disable };
        conninfo
    }

    /// Settings for another session on the same server.
    pub(crate) fn again(&self) -> Conninfo {
        let mut conninfo = Conninfo::clone(&self.conninfo);
        conninfo.password = self.conninfo.password_for(self.host).cloned();
        conninfo.host_passwords.clear();
        conninfo.hosts = vec![self.host()];
        conninfo
    }

    /// Asks the server over a separate connection to cancel what the session is doing; blocks until the server has
    /// accepted the request. Only the session can tell whether anything was cancelled.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn cancel(&self) -> Result<(), ConnectError> {
        Dialing::start_cancel(self)?.finish().map(drop)
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Anyone with the key can cancel.
        write!(f, "CancelHandle {{ backend_pid: {}, .. }}", self.backend_pid)
    }
}

/// Largest version part that fits into `server_version_num`.
const VERSION_PART_MAX: u32 = 9_999;

/// `15.4 (Debian 15.4-1)`, `9.6.24`, `18beta1` as PostgreSQL's `server_version_num`.
fn version_num(text: &str) -> u32 {
    let mut numbers = text.split(['.', ' ']).map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0).min(VERSION_PART_MAX)
    });
    let mut next = || numbers.next().unwrap_or(0);
    let (major, minor) = (next(), next());
    if major >= 10 { major * 10_000 + minor } else { major * 10_000 + minor * 100 + next() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conninfo::{LoadBalanceHosts, PasswordSource};
    use std::net::TcpListener;

    #[test]
    fn versions_become_numbers() {
        for (text, expected) in [
            ("15.18 (Debian 15.18-0+deb12u1)", 150_018),
            ("9.6.24", 90_624),
            ("18beta1", 180_000),
            ("10", 100_000),
            ("", 0),
            // Any version text results in a number.
            ("9999999", 99_990_000),
            ("4294967296.4294967295", 999_900),
            ("9.4294967295.4294967295", 1_099_899),
        ] {
            assert_eq!(version_num(text), expected, "{text}");
        }
    }

    #[test]
    fn looking_up_names_keeps_the_password_of_each_host() {
        let mut conninfo = Conninfo::new("localhost", 1, "u", "d");
        conninfo.hosts.push(Host { host: "/tmp".to_owned(), port: 2, ..Host::default() });
        conninfo.host_passwords = vec![Some("a".into()), Some("b".into())];
        conninfo.password_source = PasswordSource::Passfile("f".into());
        let found = conninfo.with_addresses().unwrap();
        let [name, socket] = &found.hosts[..] else { panic!("{found:?}") };
        assert!(!name.addresses.is_empty() && name.addresses.iter().all(|address| address.port() == 1));
        assert!(socket.addresses.is_empty());
        assert_eq!(found.password_for(0), Some(&"a".into()));
        assert_eq!(found.password_for(1), Some(&"b".into()));
    }

    #[test]
    fn each_connection_has_its_own_order_of_addresses_if_it_is_to_be_random() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let mut conninfo = Conninfo::new("name.invalid", 1, "u", "d");
        conninfo.hosts[0].addresses = addresses.to_vec();
        let first = |conninfo: &Conninfo| {
            let dialing = Dialing::start(conninfo).unwrap();
            dialing.attempt.as_ref().unwrap().route.target.clone()
        };
        let n_first_is_first = |conninfo: &Conninfo| {
            (0..60).filter(|_| first(conninfo) == Endpoint::Address(addresses[0])).count()
        };
        assert_eq!(n_first_is_first(&conninfo), 60);
        conninfo.load_balance_hosts = LoadBalanceHosts::Random;
        // By chance, all are equal once in 2^59.
        assert!((1..60).contains(&n_first_is_first(&conninfo)));
    }
}
