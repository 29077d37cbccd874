//! Two concurrent transactions: one runs by itself while the other is open, and waits for it or does not.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use wire::session::{Limit, Session};

use super::STATEMENT_SECONDS_MAX;
use super::actor::Actor;

/// Pause between two checks of who waits for whom.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Limit for the second transaction to end or wait.
const LOOK_MAX: Duration = Duration::from_secs(STATEMENT_SECONDS_MAX);

/// How two transactions interacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interaction {
    /// The second waited for a lock of the first until the first ended.
    pub(crate) waited: bool,
    /// How often the second started over.
    pub(crate) n_retries: usize,
}

impl Interaction {
    pub(crate) fn text(&self) -> &'static str {
        match (self.waited, self.n_retries) {
            (true, 0) => "T2 waited for T1",
            (true, _) => "T2 waited for T1, failed and was retried",
            (false, 0) => "T2 did not wait",
            (false, _) => "T2 did not wait, failed and was retried",
        }
    }
}

/// Runs `second` to its end while `first` is open. As soon as it has ended, or waits for `first`, `meanwhile` continues
/// `first`, and has to end it if the second waits.
pub(crate) fn meet<'a>(
    observer: &mut Session,
    first: &mut Actor<'a>,
    second: &mut Actor<'a>,
    meanwhile: impl FnOnce(&mut Actor<'a>) -> Result<()>,
) -> Result<Interaction> {
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
        Ok(Interaction { waited, n_retries })
    })
}

/// Whether the backend `waiter` waits for a lock of `blocker`, according to the server.
fn is_blocked(observer: &mut Session, waiter: i32, blocker: i32) -> Result<bool> {
    let sql = format!("select {blocker} = any (pg_catalog.pg_blocking_pids({waiter}))");
    Ok(observer.query(&sql)?.scalar() == Some("t"))
}
