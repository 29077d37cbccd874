//! Wait events of PostgreSQL 9.6 to 19 by one name each, and the serial stages that they are part of.
//!
//! Names are those of PostgreSQL 18's documentation. Before 13, lightweight locks were named by their variable or tranche, and
//! before 17, events of I/O had other capitals. In 19 the lock of a buffer's content is no lightweight lock any more, and the class
//! `BufferPin` is called `Buffer`.

/// A session that waits for nothing that PostgreSQL knows of: it runs, or waits for a processor. Where its process was not looked
/// at, it may also be in I/O that the server has no wait event for, before 10 in any. Where it was, its I/O is a wait of type `Kernel`.
pub const CPU: &str = "CPU";
/// A session between transactions.
pub const IDLE: &str = "idle";
/// A session within a transaction whose client has not sent the next statement.
pub const IDLE_IN_TRANSACTION: &str = "idle in transaction";
/// What a process does of which this role may see only that it is there.
pub const HIDDEN: &str = "hidden";

/// A session whose client has not taken all of its answer.
pub const CLIENT_WRITE: &str = "Client:ClientWrite";

/// A session whose commit waits before it flushes WAL for all (`commit_delay`). Versions without this event show nothing.
pub const COMMIT_DELAY: &str = "Timeout:CommitDelay";
/// A session that the kernel has in a pause, and the server in no wait: before `commit_delay` has its event, or between
/// two attempts at a spinlock.
pub const KERNEL_SLEEP: &str = "Kernel:Sleep";
/// A session that writes to the server's log, a pipe whose reader is slower than those who write.
pub const KERNEL_LOG_WRITE: &str = "Kernel:LogWrite";

/// The root of a queue for a lock that a prepared transaction holds, which has no session.
pub const PREPARED: &str = "prepared transaction";
/// The root of a queue whose sessions wait for each other: there is none, until the server ends one of them.
pub const CYCLE: &str = "cycle";
/// A root that had ended when it was looked up.
pub const GONE: &str = "gone";

/// Older names of lightweight locks, without the suffix `Lock`, and the current one.
const LWLOCKS: [(&str, &str); 14] = [
    ("CLogControl", "XactSLRU"),
    ("clog", "XactBuffer"),
    ("SubtransControl", "SubtransSLRU"),
    ("subtrans", "SubtransBuffer"),
    ("MultiXactOffsetControl", "MultiXactOffsetSLRU"),
    ("MultiXactMemberControl", "MultiXactMemberSLRU"),
    ("buffer_content", "BufferContent"),
    ("buffer_mapping", "BufferMapping"),
    ("lock_manager", "LockManager"),
    ("wal_insert", "WALInsert"),
    ("proc", "LockFastPath"),
    ("parallel_query_dsa", "ParallelQueryDSA"),
    ("tbm", "SharedTidBitmap"),
    ("buffer_io", "BufferIo"),
];

/// Events whose capitals changed in 17, as they are since.
const CAPITALS: [&str; 27] = [
    "WalSync",
    "WalWrite",
    "WalRead",
    "WalInitSync",
    "WalInitWrite",
    "WalCopyRead",
    "WalCopySync",
    "WalCopyWrite",
    "WalBootstrapSync",
    "WalBootstrapWrite",
    "WalSyncMethodAssign",
    "SlruRead",
    "SlruWrite",
    "SlruSync",
    "SlruFlushSync",
    "BuffileRead",
    "BuffileWrite",
    "BuffileTruncate",
    "BufferIo",
    "AioIoCompletion",
    "ProcarrayGroupUpdate",
    "XactGroupUpdate",
    "WalWriterMain",
    "WalReceiverMain",
    "WalSenderMain",
    "BgwriterMain",
    "BgwriterHibernate",
];

/// The name of a wait, `Type:Event`, whatever version reported it.
pub fn name(kind: &str, event: &str) -> String {
    let kind = if kind.starts_with("LWLock") { "LWLock" } else { kind };
    if kind == "Buffer" {
        return match event {
            "BufferExclusive" | "BufferShared" | "BufferShareExclusive" => "LWLock:BufferContent".to_string(),
            "BufferCleanup" => "BufferPin:BufferPin".to_string(),
            other => format!("BufferPin:{other}"),
        };
    }
    if kind != "LWLock" {
        let event = if event == "ClogGroupUpdate" { "XactGroupUpdate" } else { event };
        return format!("{kind}:{}", in_current_capitals(event));
    }
    let short = event.strip_suffix("Lock").filter(|short| !short.is_empty()).unwrap_or(event);
    let current = LWLOCKS.iter().find(|(old, _)| *old == short).map_or(short, |(_, current)| current);
    // From 14 on, it is no lightweight lock any more.
    if current.eq_ignore_ascii_case("BufferIo") {
        return "IPC:BufferIo".to_string();
    }
    format!("LWLock:{current}")
}

fn in_current_capitals(event: &str) -> &str {
    CAPITALS.iter().find(|known| known.eq_ignore_ascii_case(event)).copied().unwrap_or(event)
}

/// What only one process can do at a time, or what one device does for all: a load cannot be faster than it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitStage {
    /// Writing WAL and waiting until it is durable, by anyone. Who waits for the lock of WAL's buffers waits for
    /// somebody who does.
    WalFlush,
    /// Creating and zeroing segments of WAL.
    WalInit,
    /// Reading pages of tables and indexes.
    DataRead,
    /// Writing or extending tables and indexes within a session of the load.
    DataWrite,
    /// Reading and writing temporary files.
    Spill,
    /// Reading and writing the status of transactions.
    Slru,
    /// Waiting until a standby has received, written or applied a commit.
    Standby,
    /// A row, a table, a transaction, or another heavyweight lock.
    Lock,
}

impl WaitStage {
    /// All stages.
    pub const ALL: [WaitStage; 8] = [
        WaitStage::WalFlush,
        WaitStage::WalInit,
        WaitStage::DataRead,
        WaitStage::DataWrite,
        WaitStage::Spill,
        WaitStage::Slru,
        WaitStage::Standby,
        WaitStage::Lock,
    ];

    /// The name in keys of readings.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitStage::WalFlush => "wal-flush",
            WaitStage::WalInit => "wal-init",
            WaitStage::DataRead => "data-read",
            WaitStage::DataWrite => "data-write",
            WaitStage::Spill => "spill",
            WaitStage::Slru => "slru",
            WaitStage::Standby => "standby",
            WaitStage::Lock => "lock",
        }
    }

    /// The stage that a process with this wait is in. Background processes write data so that sessions need not.
    pub fn from_event(wait: &str, is_client: bool) -> Option<WaitStage> {
        let (kind, event) = wait.split_once(':')?;
        Some(match (kind, event) {
            ("IO", "WalSync" | "WalWrite") | ("LWLock", "WALWrite") | ("Timeout", "CommitDelay") => {
                WaitStage::WalFlush
            }
            ("IO", "WalInitSync" | "WalInitWrite") => WaitStage::WalInit,
            ("IO", "DataFileRead" | "DataFilePrefetch" | "AioIoCompletion") | ("IPC", "BufferIo") => {
                WaitStage::DataRead
            }
            ("IO", event) if event.starts_with("AioIoUring") => WaitStage::DataRead,
            ("IO", "DataFileWrite" | "DataFileExtend" | "DataFileFlush" | "DataFileSync") if is_client => {
                WaitStage::DataWrite
            }
            ("IO", event) if event.starts_with("Buffile") => WaitStage::Spill,
            ("IO", event) if event.starts_with("Slru") => WaitStage::Slru,
            ("Kernel", "WalFlush") => WaitStage::WalFlush,
            ("Kernel", "WalInit") => WaitStage::WalInit,
            ("Kernel", "DataRead") => WaitStage::DataRead,
            ("Kernel", "DataWrite") if is_client => WaitStage::DataWrite,
            ("Kernel", "TemporaryFile") => WaitStage::Spill,
            ("Kernel", "Slru") => WaitStage::Slru,
            ("IPC", "SyncRep") => WaitStage::Standby,
            ("Lock", _) => WaitStage::Lock,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_agree_on_names() {
        for (kind, event, expected) in [
            ("IO", "WALSync", "IO:WalSync"),
            ("IO", "WalSync", "IO:WalSync"),
            ("LWLockNamed", "WALWriteLock", "LWLock:WALWrite"),
            ("LWLock", "WALWrite", "LWLock:WALWrite"),
            ("LWLockTranche", "buffer_content", "LWLock:BufferContent"),
            ("Buffer", "BufferShareExclusive", "LWLock:BufferContent"),
            ("Buffer", "BufferCleanup", "BufferPin:BufferPin"),
            ("LWLock", "CLogControlLock", "LWLock:XactSLRU"),
            ("LWLock", "LockManager", "LWLock:LockManager"),
            ("LWLock", "lock_manager", "LWLock:LockManager"),
            ("LWLockTranche", "buffer_io", "IPC:BufferIo"),
            ("LWLock", "BufferIO", "IPC:BufferIo"),
            ("IPC", "BufferIO", "IPC:BufferIo"),
            ("IPC", "ClogGroupUpdate", "IPC:XactGroupUpdate"),
            ("Lock", "transactionid", "Lock:transactionid"),
            ("Client", "ClientRead", "Client:ClientRead"),
            ("Extension", "Lock", "Extension:Lock"),
        ] {
            assert_eq!(name(kind, event), expected);
        }
    }

    #[test]
    fn a_wait_is_in_at_most_one_stage() {
        for (wait, is_client, expected) in [
            ("IO:WalSync", false, Some(WaitStage::WalFlush)),
            ("LWLock:WALWrite", true, Some(WaitStage::WalFlush)),
            ("LWLock:WALInsert", true, None),
            ("IO:DataFileWrite", true, Some(WaitStage::DataWrite)),
            ("IO:DataFileWrite", false, None),
            ("IO:AioIoUringExecution", true, Some(WaitStage::DataRead)),
            ("IPC:SyncRep", true, Some(WaitStage::Standby)),
            ("Lock:tuple", true, Some(WaitStage::Lock)),
            (COMMIT_DELAY, true, Some(WaitStage::WalFlush)),
            ("Kernel:WalFlush", true, Some(WaitStage::WalFlush)),
            ("Kernel:DataWrite", false, None),
            ("Kernel:PageFault", true, None),
            ("CPU", true, None),
        ] {
            assert_eq!(WaitStage::from_event(wait, is_client), expected, "{wait}");
        }
    }
}
