//! What limited a run.

use serde::{Deserialize, Serialize};

use super::proof::Proof;

/// Defines them: each with its name in tables and in JSON, its meaning in words, and what to change to see whether it is so.
macro_rules! limiters {
    ($(#[$doc:meta] $variant:ident = $name:literal: $words:literal, $advice:literal;)+) => {
        /// What a load could not get more of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Bottleneck {
            $(#[$doc] #[serde(rename = $name)] $variant,)+
        }

        impl Bottleneck {
            /// All of them.
            pub const ALL: [Bottleneck; [$($name),+].len()] = [$(Bottleneck::$variant),+];

            /// The name in tables and in JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Bottleneck::$variant => $name,)+
                }
            }

            /// The meaning of the name, in words.
            pub fn words(self) -> &'static str {
                match self {
                    $(Bottleneck::$variant => $words,)+
                }
            }

            /// What to change to see whether it is so.
            pub fn advice(self) -> &'static str {
                match self {
                    $(Bottleneck::$variant => $advice,)+
                }
            }
        }
    };
}

limiters! {
    /// A quota of the server's control group.
    Quota = "quota":
        "a quota of the server's control group",
        "Raise the quota of the server's control group.";
    /// The hypervisor gave processors to others.
    Steal = "steal":
        "processors that the hypervisor gave to others",
        "Measure on a machine whose processors nobody else uses.";
    /// Other processes on the server's machine.
    ForeignCpu = "foreign-cpu":
        "other processes on the server's machine",
        "Measure when nothing else works on the machine.";
    /// A thread of the driver.
    Driver = "driver":
        "a thread of the driver",
        "Give the driver more threads, processors of its own, or another machine.";
    /// Waiting until WAL is durable.
    WalSync = "wal-sync":
        "waiting until WAL is durable",
        "Try synchronous_commit=off, which lifts it; a faster disk for WAL, or more clients that commit together.";
    /// Creating segments of WAL, or the bytes per second that its device gives.
    WalVolume = "wal-volume":
        "the amount of WAL",
        "Try a larger min_wal_size, so that segments are reused, or wal_compression.";
    /// Waiting until a synchronous standby has a commit.
    Standby = "standby":
        "waiting until a standby has the commit",
        "Try synchronous_commit=local, which lifts it; a faster standby, or a shorter way to it.";
    /// Reading pages of data.
    DataRead = "data-read":
        "reading pages of data",
        "Try a smaller scale or larger shared_buffers, which lift it; a faster disk for data.";
    /// Sessions that write pages of data themselves.
    DataWrite = "data-write":
        "sessions that write pages of data themselves",
        "Try larger shared_buffers and a more active background writer.";
    /// Temporary files.
    Memory = "memory":
        "temporary files",
        "Try a larger work_mem.";
    /// Processors of the server's machine.
    ServerCpu = "server-cpu":
        "processors of the server's machine",
        "Try more or faster processors, and a driver on another machine.";
    /// Many times more sessions that could run than processors.
    Scheduling = "scheduling":
        "many times more sessions that could run than processors",
        "Try fewer clients, or a connection pooler in front of the server.";
    /// Checkpoints that follow each other, and the full pages in WAL after each.
    Checkpoint = "checkpoint":
        "checkpoints that follow each other, and the full pages in WAL after each",
        "Try a larger max_wal_size and a longer checkpoint_timeout.";
    /// Automatic vacuums that use what sessions wait for.
    Autovacuum = "autovacuum":
        "automatic vacuums that use what sessions wait for",
        "Try a larger autovacuum_vacuum_cost_delay, or measure when tables have been vacuumed.";
    /// Locks of rows and of tables whose holder is at work.
    RowLock = "row-lock":
        "locks whose holder is at work",
        "Try a larger scale, which spreads the rows, or fewer clients.";
    /// Locks whose holder waits for its client.
    ClientHeldLock = "client-held-lock":
        "locks whose holder waits for its client",
        "Shorten the time that the client takes within a transaction: fewer round trips, no pauses.";
    /// One lightweight lock.
    Lwlock = "lwlock":
        "one lightweight lock",
        "Try fewer clients; the name of the lock says which structure is contended.";
    /// The way between driver and server, statement by statement.
    Network = "network":
        "the way between driver and server",
        "Try more clients, fewer statements per transaction, or a shorter way to the server.";
    /// A process of the pooler that pgdyno runs, which has no processor time left.
    PoolerCpu = "pooler-cpu":
        "the processor time of the pooler",
        "Try more pooler.processes, or processors of their own for them.";
    /// The connections of that pooler to the server, all of which are in use.
    PoolerSize = "pooler-size":
        "the connections of the pooler to the server",
        "Raise pooler.size.";
    /// Nothing of the server: few clients, think time, or the rate that was asked for.
    OfferedLoad = "offered-load":
        "few clients, think time, or the rate that was asked for",
        "Try more clients, a higher rate, or no think time.";
    /// One thing at first, and another one later.
    Mixed = "mixed":
        "not the same all the time",
        "Look at the time line, and measure the parts apart.";
    /// Nothing stands out.
    Unknown = "unknown":
        "nothing stands out",
        "Measure longer, or as a role with pg_read_all_stats.";
}

/// How sure a [`Limiter`] is. Only lifting it proves a limit, so no run alone is sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Two are about as likely.
    Low,
    /// One is at its limit, and nothing else near.
    Medium,
    /// Lifting it raised throughput, or lowering it cost throughput, as predicted.
    High,
}

impl Confidence {
    /// The word in tables and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// What limited a run or a case, and why that is believed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limiter {
    /// The limiting resource or stage.
    pub name: Bottleneck,
    /// How sure that is.
    pub confidence: Confidence,
    /// The rows that more clients share than there are of them, with the clients that waited for locks: it comes before whatever limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// The figures behind it, in words.
    pub evidence: String,
    /// The same as shares: of what limits, of what was second, and of processors, clients and driver in any case.
    pub figures: Vec<LimiterFigure>,
    /// The first figure of each stage, whether it limits or not: what a lift is to lower.
    #[serde(skip)]
    pub firsts: Vec<LimiterFigure>,
    /// The part of the clients' time that it held up, 0 to 1: lifting it gives at most 1 / (1 - charged) of the throughput (Amdahl
    /// 1967). `None` for what no session waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged: Option<f64>,
    /// Whose session held the locks for which most sessions waited, if any did, and if that is known.
    #[serde(skip)]
    pub holder: Option<LockOwner>,
    /// The part of the wait for a standby that takes most of it, if a standby limits and its stages are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<StandbyPart>,
    /// What was second, and its figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<(Bottleneck, String)>,
    /// What to change to see whether it is so.
    pub next: &'static str,
    /// What measured changes proved or refuted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
}

impl Limiter {
    /// A judgement in words alone, without figures, a second limiter or proofs.
    pub fn new(name: Bottleneck, confidence: Confidence, evidence: impl Into<String>) -> Limiter {
        Limiter {
            name,
            confidence,
            shared: None,
            evidence: evidence.into(),
            figures: Vec::new(),
            firsts: Vec::new(),
            charged: None,
            holder: None,
            part: None,
            runner_up: None,
            next: name.advice(),
            proofs: Vec::new(),
        }
    }
}

/// Whose the session is that holds the lock for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOwner {
    /// One of the load's.
    Load,
    /// Somebody else's.
    Other,
    /// An automatic vacuum.
    Autovacuum,
    /// Nobody's: a prepared transaction.
    Prepared,
}

/// A part of the wait for a standby, in the order in which a commit passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandbyPart {
    /// Until the standby has written the WAL, and has said so.
    Way,
    /// From there on until it is durable.
    Disk,
    /// From there on until it is replayed.
    Replay,
}

impl StandbyPart {
    /// The part in words.
    pub fn words(self) -> &'static str {
        match self {
            StandbyPart::Way => "the way to it",
            StandbyPart::Disk => "its disk",
            StandbyPart::Replay => "its replay",
        }
    }

    /// A change that would show whether it is so.
    pub fn advice(self) -> &'static str {
        match self {
            StandbyPart::Way => {
                "Try synchronous_commit=local, which lifts it; a shorter way to the standby, or more clients that commit together."
            }
            StandbyPart::Disk => {
                "Try synchronous_commit=remote_write, which does not wait for the standby's disk; a faster disk for its WAL."
            }
            StandbyPart::Replay => {
                "Try synchronous_commit=on, which does not wait for replay; a faster processor for the one process that replays, or no \
                 queries on the standby that stop it (hot_standby_feedback)."
            }
        }
    }
}

/// A share that a judgement rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimiterFigure {
    /// The part that is counted: `somebody writing or syncing WAL`.
    pub label: String,
    /// The part's size, 0 to 1.
    pub share: f64,
    /// The whole: `instants`, `sessions at work`, `waits for locks`, `the wait for a standby`, `clients`, `processors`, `time`, `the ceiling`.
    pub of: &'static str,
    /// The limiter whose figure it is; none for one that only completes the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaks_for: Option<Bottleneck>,
}
