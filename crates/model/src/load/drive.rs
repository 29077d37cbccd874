//! The protocol between a driver process and its parent, one JSON value per line.
//!
//! Parent to driver: a [`DriveOrder`], then `{"go": unix_ns}`, optionally `{"rate": …}`, `{"window": …}` or `"stop"`.
//! A driver on another machine is greeted before (see [`crate::load::hello`]), and is sent a `{"ping": …}` at least
//! every second.
//! Driver to parent: [`DriverLine`]s.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::load::execution::ExecutionLine;
use crate::load::hands::AgentAnswer;
use crate::load::hello::{Hello, Pong};
use crate::load::interval::{Counts, HistogramLine, Interval};
use crate::load::pages::PagesLine;
use crate::load::replayed::ReplayedTrace;
use crate::load::sessions::SessionSettings;
use crate::load::{LoadSpec, Window};
use crate::telemetry::event::Event;
use crate::telemetry::reading::Tick;
use crate::telemetry::watch::{Watched, Watching};

/// The first line to a driver: the load, and the password, which is stored nowhere else.
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DriveOrder {
    pub load: LoadSpec,
    /// The target's password, if one is needed and the same for all of its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The password of each of the target's hosts, if a password file has one for each: none of them is another's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_passwords: Vec<Option<String>>,
    /// The password of the client's private key, if it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_password: Option<String>,
    /// The only root certificates to trust, in PEM format, if the server was given a certificate for this load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_certificates: Option<String>,
    /// Where the cloud of a driver's machine says that it will take the machine away, if that is to be asked from `go` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_notice: Option<String>,
    #[serde(default)]
    pub part: DriverPart,
    /// The captured rows of the load's workload directory, in base64: they may be personal, and are stored nowhere else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<String>,
}

impl DriveOrder {
    /// An order for the only driver of a load.
    pub fn new(load: LoadSpec, password: Option<String>) -> DriveOrder {
        let draws = load.directory.as_ref().map_or_else(Vec::new, |directory| directory.draws.encoded());
        DriveOrder {
            load,
            password,
            host_passwords: Vec::new(),
            key_password: None,
            root_certificates: None,
            spot_notice: None,
            part: DriverPart::WHOLE,
            draws,
        }
    }

    /// All passwords in it.
    pub fn passwords(&self) -> impl Iterator<Item = &str> {
        self.host_passwords.iter().chain([&self.password, &self.key_password]).flatten().map(String::as_str)
    }
}

/// The part of a load that one of several drivers offers. Each has [`LoadSpec::n_threads`] threads; all threads of all
/// drivers share the load's clients and its rate as the threads of a single driver would, so that the same number of
/// threads offers the same load, however they are spread over drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverPart {
    /// Number of the driver, from 0.
    pub index: u32,
    /// Number of drivers.
    pub of: u32,
}

impl DriverPart {
    /// The whole load.
    pub const WHOLE: DriverPart = DriverPart { index: 0, of: 1 };
}

impl Default for DriverPart {
    fn default() -> DriverPart {
        DriverPart::WHOLE
    }
}

impl fmt::Debug for DriveOrder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let password = self.passwords().next().map(|_| "***");
        f.debug_struct("DriveOrder")
            .field("load", &self.load)
            .field("password", &password)
            .field("part", &self.part)
            .finish()
    }
}

/// A later line to a driver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveCommand {
    /// Begin the load at this time, nanoseconds since the Unix epoch.
    Go(u64),
    /// From now on, offer this many transactions per second with exponential gaps, and skip slots that are waiting.
    /// Only with the pace [`crate::load::Pace::Highest`].
    Rate(f64),
    /// Use this window from now on. Ends that have passed cannot be moved: such a change is not made.
    Window(Window),
    /// Begin no more transactions, finish those in flight (or cancel them: [`LoadSpec::cancel_on_stop`]), report, end.
    Stop,
    /// Answer at once with a [`Pong`] of this number.
    Ping(u64),
}

/// A line from a driver, or from the eyes on a server's host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverLine {
    /// Who the driver is; only if it was greeted.
    Hello(Box<Hello>),
    /// The answer to a ping.
    Pong(Pong),
    /// Every client is connected and the server has accepted every statement.
    Ready(Ready),
    /// One second of one script.
    #[allow(missing_docs, reason = "the names say it")]
    Interval { interval: Interval, histograms: Vec<HistogramLine> },
    /// One execution of a transaction, with [`LoadSpec::each_execution`].
    Execution(Box<ExecutionLine>),
    /// What the driver itself used in one second.
    Tick(Tick),
    /// Something that happened to the driver or its connections.
    Event(Event),
    /// The window has been changed to this one, as the parent asked.
    Window(Window),
    /// The load is over; nothing follows.
    Done(Box<Done>),
    /// The eyes on a server's host (`pgdyno watch`) have found what they will observe.
    Watching(Box<Watching>),
    /// The eyes cannot observe something.
    #[allow(missing_docs, reason = "the names say it")]
    Missing { what: String, reason: String },
    /// The hands on a server's host (`pgdyno host`) answer.
    Hands(AgentAnswer),
    /// Whoever answers for a directory there (`pgdyno pages`) says something.
    Pages(PagesLine),
    /// The eyes have ended; nothing follows.
    Watched(Watched),
    /// The load could not begin; nothing follows.
    Failed {
        /// What was wrong, and what to do about it.
        message: String,
    },
}

/// The driver is ready to begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Process id of the driver.
    pub pid: u32,
    /// Time taken to connect and prepare all clients, nanoseconds.
    pub connect_ns: u64,
    /// Part of this time in which the server parsed the statements of all connections, nanoseconds; of the slowest
    /// thread.
    #[serde(default)]
    pub prepare_ns: u64,
    /// The poller in use: `epoll` or `io_uring`.
    pub poller: String,
    /// The profile that cargo compiled the driver with: `dist` (packages), `release`, `dev`; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build_profile: String,
    /// The optimization level of the driver's code: `0` to `3`, `s` or `z`; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opt_level: String,
    /// Whether threads rehearse the transactions of the load while they are awake without events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearses: bool,
    /// TLS in use on the connections, as protocol and cipher, and after a comma what was verified of the server, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// Labels of each script's statements, for reports.
    pub statements: Vec<Vec<String>>,
    /// Process ids of the clients' backends, as the server reported them (BackendKeyData); none if each transaction
    /// connects again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_pids: Vec<i32>,
}

impl Ready {
    /// What encrypts the connections: protocol and cipher, or `none`. What was verified of the server changes no number, and records of
    /// earlier versions do not say it.
    pub fn encryption(&self) -> &str {
        self.tls.as_deref().map_or("none", |tls| tls.split(',').next().unwrap_or(tls))
    }
}

/// Why a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum LoadEnding {
    /// The window ended.
    #[default]
    Completed,
    /// The parent asked to stop, or went away.
    Stopped,
    /// Every client had ended by an error or by losing its connection.
    ConnectionsLost,
}

/// Totals of the whole load, including ramp-up and drain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Done {
    /// Why the load ended.
    pub ending: LoadEnding,
    /// When the last transaction ended, nanoseconds since the Unix epoch.
    pub end_unix_ns: u64,
    /// Sums over all intervals; the identity holds with nothing in flight.
    pub counts: Counts,
    /// Skipped slots that were due before the load ended and for which no client was free. They belong to no script
    /// yet, and count for the first.
    #[serde(default)]
    pub backlog: u64,
    /// Failed and unknown transactions by SQLSTATE (`lost`: the connection ended without one).
    pub errors: BTreeMap<String, u64>,
    /// One example message for each SQLSTATE of `errors`.
    pub messages: BTreeMap<String, String>,
    /// Transactions that each client committed within the measurement window (fairness).
    pub measured_by_client: Vec<u64>,
    /// Clients that ended before the load did, by an error or by losing their connection.
    pub clients_lost: u32,
    /// Clients whose last statement was never answered, although it was cancelled.
    #[serde(default)]
    pub unanswered: u32,
    /// The longest wait of such a client, nanoseconds.
    #[serde(default)]
    pub unanswered_ns: u64,
    /// Time spent opening and closing connections while the load ran, summed over all clients, nanoseconds.
    #[serde(default)]
    pub connect_ns_total: f64,
    /// Connections opened while the load ran.
    #[serde(default)]
    pub n_connects: u64,
    /// Connections that were lost while the load ran. Earlier versions did not count them.
    #[serde(default)]
    pub n_lost: u64,
    /// Time without a connection after its loss, summed over all clients, nanoseconds.
    #[serde(default)]
    pub outage_ns_total: f64,
    /// How late the last of the driver's threads began, after `go`, nanoseconds.
    #[serde(default)]
    pub late_ns: u64,
    /// Lines that were left out because the parent did not read them; those of a load that counts are complete.
    #[serde(default)]
    pub lines_dropped: u64,
    /// With turns: transactions committed in each of its own slices, after the guard; 0 in the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub committed_by_slice: Vec<u64>,
    /// With [`LoadSpec::ask_settings`]: what sessions reported of their settings after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionSettings>,
    /// How the replay of a trace went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<ReplayedTrace>,
}

/// SQLSTATEs, or their prefixes, that end a session: connection exceptions, the server's shutdown or crash, session
/// timeouts (PostgreSQL's errcodes.txt), and the driver's own words for a connection that ended and for one that is silent.
const SESSION_IS_OVER: [&str; 6] = ["08", "57P", "25P03", "25P04", "lost", "silent"];

/// Whether an error with this SQLSTATE, or the driver's word in its place, says that a session has ended.
pub fn ends_session(state: &str) -> bool {
    SESSION_IS_OVER.iter().any(|prefix| state.starts_with(prefix))
}

impl Done {
    /// Whether clients that ended early may have lost their connections. If not, a script caused their abort: an error
    /// of the server that is not retried, or an end inside a transaction.
    pub fn may_have_lost_connections(&self) -> bool {
        let mut states = self.errors.keys().chain(self.messages.keys()).peekable();
        states.peek().is_none() || states.any(|state| ends_session(state))
    }
}
