//! Standbys that pgdyno runs, against their primary: how far each is behind in bytes and in time, whether its replay stands still, and
//! what its processes use.
//!
//! One thread notes the primary's position in WAL ten times a second. One thread for each standby compares what that has received and
//! replayed with these marks, so that a lag in time comes from one clock and goes on growing while nothing moves: the lags of
//! `pg_stat_replication` are those of the last reply. Of a standby that the load reads from, the highest transaction that has ended is compared in
//! the same way: how long ago the primary was there is how stale a read is. What a server does not say, or nobody answers, is absent.

mod marks;
pub(crate) mod primary;
mod stall;
pub(crate) mod watch;

use std::time::Duration;

use wire::{Conninfo, Session, SessionError};

use crate::server::statistics;

/// A standby to observe.
#[derive(Debug, Clone)]
pub struct ObservedStandby {
    /// The name that the primary knows it by: `s1`.
    pub name: String,
    /// How to connect to it.
    pub conninfo: Conninfo,
    /// Process id of its postmaster, which runs on this machine.
    pub pid: i32,
    /// Whether the load reads from it: then it is also asked which transactions it sees.
    pub is_read: bool,
}

/// Time between two looks at a position in WAL.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The transaction id after the highest one that has ended, as a server sees it: on a standby, as far as it has replayed ends (PostgreSQL
/// documentation, functions of transaction ids; the newer name is `pg_snapshot_xmax`).
const FIRST_UNSEEN: &str = "txid_snapshot_xmax(txid_current_snapshot())";
/// `statement_timeout` of a look.
const STATEMENT_LIMIT: Duration = Duration::from_secs(2);
/// The connection is closed after this time: a live server would have returned an error before.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Limit for one connection attempt, and the pause after one that failed.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A session that asks for positions, with the name of this process's observers.
fn connect(conninfo: &Conninfo, observer: &str) -> Result<Session, String> {
    let conninfo = Conninfo {
        application_name: Some(observer.to_string()),
        connect_timeout: CONNECT_LIMIT,
        ..conninfo.clone()
    };
    let mut session = Session::connect(&conninfo).map_err(|error| error.to_string())?;
    session.set_timeout(Some(ANSWER_LIMIT));
    let words = |error: SessionError| error.to_string();
    session.empty_search_path().map_err(words)?;
    let settings = statistics::session_settings(session.server_version_num(), STATEMENT_LIMIT.as_millis());
    session.execute(&settings).map_err(words)?;
    Ok(session)
}
