//! What limited a run.

use serde::{Deserialize, Serialize};

use super::proof::Proof;

/// What a load could not get more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// A quota of the server's control group.
    Quota,
    /// The hypervisor gave processors to others.
    Steal,
    /// Other processes on the server's machine.
    ForeignCpu,
    /// A thread of the driver.
    Driver,
    /// Waiting until WAL is durable.
    WalSync,
    /// Creating segments of WAL, or the bytes per second that its device gives.
    WalVolume,
    /// Waiting until a synchronous standby has a commit.
    Standby,
    /// Reading pages of data.
    DataRead,
    /// Sessions that write pages of data themselves.
    DataWrite,
    /// Temporary files.
    Memory,
    /// Processors of the server's machine.
    ServerCpu,
    /// Many times more sessions that could run than processors.
    Scheduling,
    /// Checkpoints that follow each other, and the full pages in WAL after each.
    Checkpoint,
    /// Automatic vacuums that use what sessions wait for.
    Autovacuum,
    /// Locks of rows and of tables whose holder is at work.
    RowLock,
    /// Locks whose holder waits for its client.
    ClientHeldLock,
    /// One lightweight lock.
    Lwlock,
    /// The way between driver and server, statement by statement.
    Network,
    /// A process of the pooler that pgdyno runs, which has no processor time left.
    PoolerCpu,
    /// The connections of that pooler to the server, all of which are in use.
    PoolerSize,
    /// Nothing of the server: few clients, think time, or the rate that was asked for.
    OfferedLoad,
    /// One thing at first, and another one later.
    Mixed,
    /// Nothing stands out.
    Unknown,
}

impl Bottleneck {
    /// All of them.
    pub const ALL: [Bottleneck; 23] = [
        Bottleneck::Quota,
        Bottleneck::Steal,
        Bottleneck::ForeignCpu,
        Bottleneck::Driver,
        Bottleneck::WalSync,
        Bottleneck::WalVolume,
        Bottleneck::Standby,
        Bottleneck::DataRead,
        Bottleneck::DataWrite,
        Bottleneck::Memory,
        Bottleneck::ServerCpu,
        Bottleneck::Scheduling,
        Bottleneck::Checkpoint,
        Bottleneck::Autovacuum,
        Bottleneck::RowLock,
        Bottleneck::ClientHeldLock,
        Bottleneck::Lwlock,
        Bottleneck::Network,
        Bottleneck::PoolerCpu,
        Bottleneck::PoolerSize,
        Bottleneck::OfferedLoad,
        Bottleneck::Mixed,
        Bottleneck::Unknown,
    ];

    /// The name in tables and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Bottleneck::Quota => "quota",
            Bottleneck::Steal => "steal",
            Bottleneck::ForeignCpu => "foreign-cpu",
            Bottleneck::Driver => "driver",
            Bottleneck::WalSync => "wal-sync",
            Bottleneck::WalVolume => "wal-volume",
            Bottleneck::Standby => "standby",
            Bottleneck::DataRead => "data-read",
            Bottleneck::DataWrite => "data-write",
            Bottleneck::Memory => "memory",
            Bottleneck::ServerCpu => "server-cpu",
            Bottleneck::Scheduling => "scheduling",
            Bottleneck::Checkpoint => "checkpoint",
            Bottleneck::Autovacuum => "autovacuum",
            Bottleneck::RowLock => "row-lock",
            Bottleneck::ClientHeldLock => "client-held-lock",
            Bottleneck::Lwlock => "lwlock",
            Bottleneck::Network => "network",
            Bottleneck::PoolerCpu => "pooler-cpu",
            Bottleneck::PoolerSize => "pooler-size",
            Bottleneck::OfferedLoad => "offered-load",
            Bottleneck::Mixed => "mixed",
            Bottleneck::Unknown => "unknown",
        }
    }

    /// The meaning of the name, in words.
    pub fn words(self) -> &'static str {
        match self {
            Bottleneck::Quota => "a quota of the server's control group",
            Bottleneck::Steal => "processors that the hypervisor gave to others",
            Bottleneck::ForeignCpu => "other processes on the server's machine",
            Bottleneck::Driver => "a thread of the driver",
            Bottleneck::WalSync => "waiting until WAL is durable",
            Bottleneck::WalVolume => "the amount of WAL",
            Bottleneck::Standby => "waiting until a standby has the commit",
            Bottleneck::DataRead => "reading pages of data",
            Bottleneck::DataWrite => "sessions that write pages of data themselves",
            Bottleneck::Memory => "temporary files",
            Bottleneck::ServerCpu => "processors of the server's machine",
            Bottleneck::Scheduling => "many times more sessions that could run than processors",
            Bottleneck::Checkpoint => {
                "checkpoints that follow each other, and the full pages in WAL after each"
            }
            Bottleneck::Autovacuum => "automatic vacuums that use what sessions wait for",
            Bottleneck::RowLock => "locks whose holder is at work",
            Bottleneck::ClientHeldLock => "locks whose holder waits for its client",
            Bottleneck::Lwlock => "one lightweight lock",
            Bottleneck::Network => "the way between driver and server",
            Bottleneck::PoolerCpu => "the processor time of the pooler",
            Bottleneck::PoolerSize => "the connections of the pooler to the server",
            Bottleneck::OfferedLoad => "few clients, think time, or the rate that was asked for",
            Bottleneck::Mixed => "not the same all the time",
            Bottleneck::Unknown => "nothing stands out",
        }
    }

    /// What to change to see whether it is so.
    pub fn advice(self) -> &'static str {
        match self {
            Bottleneck::Quota => "Raise the quota of the server's control group.",
            Bottleneck::Steal => "Measure on a machine whose processors nobody else uses.",
            Bottleneck::ForeignCpu => "Measure when nothing else works on the machine.",
            Bottleneck::Driver => "Give the driver more threads, processors of its own, or another machine.",
            Bottleneck::WalSync => {
                "Try synchronous_commit=off, which lifts it; a faster disk for WAL, or more clients that commit together."
            }
            Bottleneck::WalVolume => {
                "Try a larger min_wal_size, so that segments are reused, or wal_compression."
            }
            Bottleneck::Standby => {
                "Try synchronous_commit=local, which lifts it; a faster standby, or a shorter way to it."
            }
            Bottleneck::DataRead => {
                "Try a smaller scale or larger shared_buffers, which lift it; a faster disk for data."
            }
            Bottleneck::DataWrite => "Try larger shared_buffers and a more active background writer.",
            Bottleneck::Memory => "Try a larger work_mem.",
            Bottleneck::ServerCpu => "Try more or faster processors, and a driver on another machine.",
            Bottleneck::Scheduling => "Try fewer clients, or a connection pooler in front of the server.",
            Bottleneck::Checkpoint => "Try a larger max_wal_size and a longer checkpoint_timeout.",
            Bottleneck::Autovacuum => {
                "Try a larger autovacuum_vacuum_cost_delay, or measure when tables have been vacuumed."
            }
            Bottleneck::RowLock => "Try a larger scale, which spreads the rows, or fewer clients.",
            Bottleneck::ClientHeldLock => {
                "Shorten the time that the client takes within a transaction: fewer round trips, no pauses."
            }
            Bottleneck::Lwlock => {
                "Try fewer clients; the name of the lock says which structure is contended."
            }
            Bottleneck::Network => {
                "Try more clients, fewer statements per transaction, or a shorter way to the server."
            }
            Bottleneck::PoolerCpu => "Try more pooler.processes, or processors of their own for them.",
            Bottleneck::PoolerSize => "Raise pooler.size.",
            Bottleneck::OfferedLoad => "Try more clients, a higher rate, or no think time.",
            Bottleneck::Mixed => "Look at the time line, and measure the parts apart.",
            Bottleneck::Unknown => "Measure longer, or as a role with pg_read_all_stats.",
        }
    }
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
