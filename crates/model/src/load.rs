//! The load specification: what a driver is asked to do, complete and without secrets.

pub mod capacity;
pub mod course;
pub mod drive;
pub mod duet;
pub mod execution;
pub mod hands;
pub mod hello;
pub mod histogram;
pub mod interval;
pub mod pages;
pub mod replayed;
pub mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::directory::WorkloadDirectory;
use crate::directory::drawn::DrawnFiles;
use crate::load::capacity::LatencyTarget;
use crate::text::units::serde_by_text;
use crate::text::word_enum::words;

/// Which load a driver offers to which server. Recorded verbatim in `run.json`; a password is only ever in
/// `DriveOrder`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The server as resolved libpq connection keywords, without the password.
    pub target: BTreeMap<String, String>,
    /// The second connection of each client, if some scripts read from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadTarget>,
    /// What to run, chosen by weight for each transaction.
    pub scripts: Vec<ScriptSpec>,
    /// The built-in transactions that `scripts` name, which then have no source; their parameters are in `defines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Profiles>,
    /// Variables given to every client (`scale`, `-D` definitions).
    pub defines: BTreeMap<String, String>,
    /// The workload directory that `scripts` are of, which gives them parameters; a script is found there by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<WorkloadDirectory>>,
    /// Whether a transaction that the server refuses to let write is left out: it is expected, and no failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_reads: bool,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Number of clients, each with one connection.
    pub n_clients: u32,
    /// Number of driver threads; clients are spread over them.
    pub n_threads: u32,
    /// When transactions are due.
    pub pace: Pace,
    /// Durations of the phases of the run.
    pub window: Window,
    /// Seed of every random stream.
    pub seed: u64,
    /// Transactions of each client; the load ends when all are done. `None`: the window decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_client: Option<u64>,
    /// Slots of an open loop that are later than this are skipped; transactions that take longer are counted as late,
    /// and are not retried. Nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ns: Option<u64>,
    /// Most tries of a transaction that fails with 40001 or 40P01; 0: no limit.
    #[serde(default = "one_try")]
    pub max_tries: u32,
    /// Use a new connection for every transaction.
    #[serde(default)]
    pub connect_each: bool,
    /// In a closed loop, such a transaction is due once it is connected, as in pgbench, instead of when its client was free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub due_when_connected: bool,
    /// What a client does after an error that is not retried.
    #[serde(default)]
    pub on_error: OnError,
    /// What a client does when its connection is lost.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// Measure each command of the scripts, including those that send nothing.
    #[serde(default)]
    pub time_commands: bool,
    /// A file with a line per transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<TransactionLog>,
    /// Report each error that is retried or fails a transaction, as events.
    #[serde(default)]
    pub verbose_errors: bool,
    /// Parse prepared statements when a client first runs them, as pgbench does, instead of before the load: a script
    /// may then create what its later statements need.
    #[serde(default)]
    pub lazy_parse: bool,
    /// Report every notice and warning of the server, instead of a limited number per second.
    #[serde(default)]
    pub all_notices: bool,
    /// Report each step of each client as events. Costs more than the load itself.
    #[serde(default)]
    pub trace: bool,
    /// How the driver waits for its connections.
    #[serde(default)]
    pub poller: PollerChoice,
    /// How long a driver thread polls before it sleeps, and how long before a due time it wakes up, microseconds. Keeps
    /// the kernel's wake-up out of latencies; costs a processor.
    #[serde(default)]
    pub busy_poll_us: u32,
    /// Begin transactions only in some slices of time; closed loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
    /// Take in each reply so much later than it came, nanoseconds: a what-if of a longer way to the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reply_delay_ns: u64,
    /// Allow COPY in scripts. Without it, as in pgbench, a COPY aborts its client.
    #[serde(default)]
    pub copy: bool,
    /// The longest message accepted from the server, and the most that is kept of one statement's rows, in bytes.
    #[serde(default = "message_bytes_max")]
    pub message_bytes_max: u32,
    /// Treat variables without a value as pgbench does: one that nothing has set is sent as NULL, in the simple protocol as
    /// its name, and NULL as a text. Without it, the former ends its client, and the latter is NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub values_as_pgbench: bool,
    /// When the load is over, ask a session of each thread for its settings, before it ends.
    #[serde(default)]
    pub ask_settings: bool,
    /// Report each execution of a transaction by itself, slots for which nobody was free included, and the statements of the first
    /// client's first pass through its order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_execution: bool,
    /// Scripts write a token of their client and the number of its transaction, and executions are reported with that number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ledger: bool,
    /// Give up a connection whose reply has not come to its end after so long, milliseconds: a server that is frozen says nothing for
    /// good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_timeout_ms: Option<u32>,
    /// Cancel what is in flight as soon as the load is stopped, instead of giving it the window's grace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_on_stop: bool,
}

impl LoadSpec {
    /// How many connections a client keeps: a second one where some scripts read from elsewhere.
    pub fn connections_each(&self) -> u32 {
        if self.reads.is_some() && !self.connect_each { 2 } else { 1 }
    }

    /// What the record of a run keeps of it: its case has the texts of a workload directory.
    pub fn recorded(&self) -> LoadSpec {
        let mut recorded = self.clone();
        recorded.directory.iter_mut().for_each(|directory| {
            directory.texts.clear();
            directory.draws = DrawnFiles::default();
        });
        recorded
    }
}

/// Where some transactions of a load read: each client has a connection of its own for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTarget {
    /// Connection keywords, in the form of [`LoadSpec::target`] and with its password.
    pub target: BTreeMap<String, String>,
    /// Names of the scripts whose transactions go there.
    pub scripts: BTreeSet<String>,
}

/// Default of [`LoadSpec::message_bytes_max`], unless a script needs longer rows.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;

fn message_bytes_max() -> u32 {
    MESSAGE_BYTES_MAX
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn one_try() -> u32 {
    1
}

impl Default for LoadSpec {
    /// One client in a closed loop, with neither script nor duration: the common part of all loads.
    fn default() -> LoadSpec {
        LoadSpec {
            format: crate::FORMAT,
            target: BTreeMap::new(),
            reads: None,
            scripts: Vec::new(),
            profiles: None,
            defines: BTreeMap::new(),
            directory: None,
            only_reads: false,
            protocol: Protocol::Prepared,
            n_clients: 1,
            n_threads: 1,
            pace: Pace::Closed,
            window: Window { ramp_up_s: 0, measure_s: 0, grace_s: 0 },
            seed: 0,
            transactions_per_client: None,
            latency_limit_ns: None,
            max_tries: 1,
            connect_each: false,
            due_when_connected: false,
            on_error: OnError::default(),
            on_disconnect: OnDisconnect::default(),
            time_commands: false,
            log: None,
            verbose_errors: false,
            lazy_parse: false,
            all_notices: false,
            trace: false,
            poller: PollerChoice::Auto,
            busy_poll_us: 0,
            turns: None,
            reply_delay_ns: 0,
            copy: false,
            message_bytes_max: MESSAGE_BYTES_MAX,
            values_as_pgbench: false,
            ask_settings: false,
            each_execution: false,
            ledger: false,
            reply_timeout_ms: None,
            cancel_on_stop: false,
        }
    }
}

words! {
    /// How the driver waits for its connections. Pollers differ in cost and batching, so the choice can change the
    /// result; `ready.poller` in a run's `run.json` says which one was used.
    PollerChoice, "a poller" {
        /// io_uring if the kernel permits it, else epoll.
        #[default]
        Auto = "auto",
        /// Readiness by epoll.
        Epoll = "epoll",
        /// Completions by io_uring, or an error.
        IoUring = "io_uring",
    }
}

/// The turns of a load that alternates with another one in slices of time (a duet).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// Length of each slice, from `go` on, nanoseconds.
    pub slice_ns: u64,
    /// A transaction that ends this soon after the beginning of a slice does not count, nanoseconds: the other load's
    /// last transactions end then.
    pub guard_ns: u64,
    /// A digit for each slice: `1` where transactions begin, else `0`. None begins after the last slice.
    pub slices: String,
}

/// A set of transactions that is built in because no script could express it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profiles {
    /// TPC-C-like: parameters `scale`, `calls`, `think`, and C-Run as `c_last`, `c_id`, `ol_i_id`.
    Tpcc,
    /// HammerDB's TPROC-C: parameters `scale`, `clients`, `calls`, `all_warehouses`.
    TprocC,
}

/// What a client does after an error of the server that is not retried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Counts the transaction as failed and continues with the next.
    #[default]
    Continue,
    /// Ends, while the others continue (pgbench; 40001 and 40P01 only fail the transaction even then).
    EndClient,
    /// Ends, and so does the load.
    EndLoad,
}

/// What a client does when its connection is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// Ends, while the others continue.
    #[default]
    EndClient,
    /// Reconnects, as often as necessary while the load lasts.
    Reconnect,
    /// Ends, and so does the load.
    EndLoad,
}

/// How long a client waits on average before it connects again, if the session that it lost had committed nothing; each wait
/// is drawn from half of it to one and a half. Constant, so that it adds the same to every outage.
pub const RECONNECT_WAIT_MS: u32 = 50;

/// Time limit of a connection's attempt in a load with an outage, unless the target has one, seconds. Our convention, and the least that
/// libpq takes.
pub const OUTAGE_CONNECT_TIMEOUT_S: u32 = 2;

/// [`LoadSpec::reply_timeout_ms`] of a load with an outage, besides the time for which a pooler is paused. Longer than most stalls, which then
/// end by themselves; our convention.
pub const OUTAGE_REPLY_TIMEOUT_MS: u32 = 5000;

/// A log in pgbench's format: `PREFIX.PID` of the first thread, `PREFIX.PID.N` of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionLog {
    /// Prefix of the files' names; may contain a directory.
    pub prefix: String,
    /// Share of transactions to log, above 0 and up to 1.
    pub sampling_rate: f64,
    /// Log sums over this many seconds instead of single transactions; 0: single transactions.
    pub aggregate_interval_s: u32,
    /// Log failed transactions by type of failure.
    pub failures_detailed: bool,
    /// The number in the files' names; the driver's process id if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// One script of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptSpec {
    /// Name for people: `tpcb`, or the file's name.
    pub name: String,
    /// Name in `latency.hlog` tags: letters, digits, `_` and `-` only, unique in the load.
    pub tag: String,
    /// Weight in the choice of the next script; 0 is never chosen.
    pub weight: u32,
    /// The script's text in pgbench's language; for built-in transactions, their SQL, for people.
    pub source: String,
}

words! {
    /// How statements are sent, in pgbench's words.
    Protocol, "a protocol" {
        /// One Query message with the values written into the text.
        Simple = "simple",
        /// Parse, Bind, Execute for every statement.
        Extended = "extended",
        /// Parse once per connection, then Bind and Execute.
        #[default]
        Prepared = "prepared",
    }
}

/// When transactions are due. Rates are for the whole load, in transactions per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Closed loop: each client's next transaction is due when its last one ended.
    Closed,
    /// Open loop, evenly spaced.
    Constant {
        /// Transactions per second offered by all clients together.
        rate_per_s: f64,
    },
    /// Open loop, exponential gaps (as independent users cause).
    Poisson {
        /// Mean transactions per second offered by all clients together.
        rate_per_s: f64,
    },
    /// As `Poisson`, with a latency target that the load is to keep. It changes nothing of the load, and is judged in the end.
    Kept {
        /// Mean transactions per second offered by all clients together.
        rate_per_s: f64,
        /// The target: of a percentile that reports have ([`Pace::PERCENTILES`]).
        target: LatencyTarget,
    },
    /// So many times the rate at which the workload was captured, with exponential gaps. Plans replace it by [`Pace::Poisson`].
    TimesCaptured {
        /// The multiple.
        times: f64,
    },
    /// The highest rate that meets a latency target: a closed loop in the ramp-up, then open loops with exponential
    /// gaps at the rates that the parent orders ([`crate::load::drive::DriveCommand::Rate`]).
    Highest {
        /// The target to meet.
        target: LatencyTarget,
    },
}

impl Pace {
    /// Percentiles of latency that reports have.
    pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

    /// Transactions per second that are due, if they are the same all the time.
    pub fn rate_per_s(self) -> Option<f64> {
        match self {
            Pace::Constant { rate_per_s } | Pace::Poisson { rate_per_s } | Pace::Kept { rate_per_s, .. } => {
                Some(rate_per_s)
            }
            Pace::Closed | Pace::Highest { .. } | Pace::TimesCaptured { .. } => None,
        }
    }

    /// Whether a schedule, not the server, decides when transactions are due.
    pub fn is_open(self) -> bool {
        self != Pace::Closed
    }

    /// The latency target of a search for the highest rate.
    pub fn target(self) -> Option<LatencyTarget> {
        match self {
            Pace::Highest { target } => Some(target),
            Pace::Closed
            | Pace::Constant { .. }
            | Pace::Poisson { .. }
            | Pace::TimesCaptured { .. }
            | Pace::Kept { .. } => None,
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let text = text.trim();
        if text == "closed" {
            return Ok(Pace::Closed);
        }
        let times = text.strip_prefix('x').and_then(|times| times.trim().parse::<f64>().ok());
        if let Some(times) = times {
            let is_sensible = times > 0.0 && times <= 1e6;
            return is_sensible
                .then_some(Pace::TimesCaptured { times })
                .ok_or_else(|| format!("pace `{text}` must be above x0 and at most x1000000"));
        }
        if let Some(rest) =
            text.strip_prefix("max").filter(|rest| rest.starts_with(char::is_whitespace) || rest.is_empty())
        {
            let target = rest
                .trim()
                .strip_prefix("with ")
                .ok_or_else(|| format!("`{text}` needs a latency target; example: max with p99 <= 10ms"))?;
            let target = target.parse().map_err(|error| format!("pace `{text}`: {error}"))?;
            return Ok(Pace::Highest { target });
        }
        if let Some((rate, target)) = text.split_once(" with ") {
            let target: LatencyTarget = target.parse().map_err(|error| format!("pace `{text}`: {error}"))?;
            if !Pace::PERCENTILES.contains(&target.percentile) {
                return Err(format!(
                    "pace `{text}`: a rate is judged by p50, p90, p95, p99 or p99.9, and not by p{}",
                    target.percentile
                ));
            }
            return match rate.parse()? {
                Pace::Poisson { rate_per_s } => Ok(Pace::Kept { rate_per_s, target }),
                _ => Err(format!(
                    "pace `{text}`: a latency is kept at a rate with random gaps; example: 500/s with p99 <= 20ms"
                )),
            };
        }
        let (constant, rest) = match text.strip_prefix("constant") {
            Some(rest) => (true, rest.trim()),
            None => (false, text.strip_prefix("poisson").unwrap_or(text).trim()),
        };
        let rate = rest
            .strip_suffix("/s")
            .map(str::trim)
            .and_then(|n| n.parse::<f64>().ok().or_else(|| crate::text::units::plain(n)));
        match rate {
            Some(rate_per_s) if rate_per_s > 0.0 && rate_per_s <= 1e8 => {
                Ok(if constant { Pace::Constant { rate_per_s } } else { Pace::Poisson { rate_per_s } })
            }
            Some(_) => Err(format!("the rate in pace `{text}` must be above 0 and at most 1e8")),
            None => Err(format!(
                "`{text}` is not a pace; examples: closed, 2000/s, constant 2000/s, 2000/s with p99 <= 10ms, max with p99 <= 10ms"
            )),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Pace::Closed => f.write_str("closed"),
            Pace::Constant { rate_per_s } => write!(f, "constant {rate_per_s}/s"),
            Pace::Poisson { rate_per_s } => write!(f, "{rate_per_s}/s"),
            Pace::TimesCaptured { times } => write!(f, "x{times}"),
            Pace::Kept { rate_per_s, target } => write!(f, "{rate_per_s}/s with {target}"),
            Pace::Highest { target } => write!(f, "max with {target}"),
        }
    }
}

serde_by_text!(
    Pace,
    "a pace such as \"closed\" or \"2000/s\"",
    |n| format!("{n}/s").parse(),
    |x| format!("{x}/s").parse(),
    |_| Err("expected a pace such as \"closed\" or \"2000/s\"".into())
);
use serde::de::{self, Visitor};

/// Durations of the phases that the driver sees, in whole seconds after `go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Seconds of load before the measurement window.
    pub ramp_up_s: u32,
    /// Seconds of the measurement window; 0: no limit, the load ends by its number of transactions.
    pub measure_s: u32,
    /// Seconds after the measurement window until transactions in flight are cancelled.
    pub grace_s: u32,
}

impl Window {
    /// Seconds from `go` to the end of the measurement window.
    pub fn load_s(self) -> u32 {
        self.ramp_up_s.saturating_add(self.measure_s)
    }

    /// Whether interval number `t` (seconds after `go`) belongs to the measurement window.
    pub fn measures(self, t: u32) -> bool {
        t >= self.ramp_up_s && (self.measure_s == 0 || t < self.load_s())
    }
}
