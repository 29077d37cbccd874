//! Two transactions that meet: one goes on by itself while the other is open, and waits for it or does not.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use wire::session::{Limit, Session};

use super::STATEMENT_SECONDS_MAX;
use super::actor::Actor;

/// Pause between two looks at who waits for whom.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The one must end or wait within this time.
const LOOK_MAX: Duration = Duration::from_secs(STATEMENT_SECONDS_MAX);

/// How two transactions met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meeting {
    /// The second waited for a lock of the first until that ended.
    pub(crate) waited: bool,
    /// How often the second began again.
    pub(crate) n_retries: usize,
}

impl Meeting {
    pub(crate) fn text(&self) -> &'static str {
        match (self.waited, self.n_retries) {
            (true, 0) => "T2 waited for T1",
            (true, _) => "T2 waited for T1, was undone and began again",
            (false, 0) => "T2 did not wait",
            (false, _) => "T2 did not wait, was undone and began again",
        }
    }
}

/// Runs `second` to its end while `first` is open. As soon as it has ended, or waits for `first`, `meanwhile` takes
/// `first` on; it must end it if the second waits.
pub(crate) fn meet<'a>(
    observer: &mut Session,
    first: &mut Actor<'a>,
    second: &mut Actor<'a>,
    meanwhile: impl FnOnce(&mut Actor<'a>) -> Result<()>,
) -> Result<Meeting> {
    let (blocker, waiter) = (first.backend_pid(), second.backend_pid());
    let limit = Limit::current();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            let _entered = limit.enter();
            second.finish_with_retries()
        });
        let begun = Instant::now();
        let mut waited = false;
        while !waited && !running.is_finished() {
            ensure!(begun.elapsed() < LOOK_MAX, "T2 neither ends nor waits for T1");
            waited = is_blocked(observer, waiter, blocker)?;
            thread::sleep(LOOK_PAUSE);
        }
        meanwhile(first)?;
        let n_retries = running.join().map_err(|_| anyhow!("the thread of T2 has panicked"))??;
        Ok(Meeting { waited, n_retries })
    })
}

/// Whether the backend `waiter` waits for a lock of `blocker`, by the server's own account.
fn is_blocked(observer: &mut Session, waiter: i32, blocker: i32) -> Result<bool> {
    let sql = format!("select {blocker} = any (pg_catalog.pg_blocking_pids({waiter}))");
    Ok(observer.query(&sql)?.scalar() == Some("t"))
}
