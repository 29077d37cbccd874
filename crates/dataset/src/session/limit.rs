//! Time limits of phases. Waiting in sessions obeys the thread's [`Limit`]; if something hangs that no limit reaches (a
//! device or a name server), this process is ended.

use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use model::experiment::keys;
use wire::Limit;
use wire::session::Session;

/// Minimum limit of a phase: recovery, index builds and full vacuums of data larger than memory took less.
const BASE: Duration = Duration::from_secs(3600);
/// Addition per GiB of data: 17 MB/s, where slow network disks deliver 30.
const PER_GIB: Duration = Duration::from_secs(60);
/// Limit for the queries before a plan or a run.
pub const QUESTIONS: Duration = Duration::from_secs(300);
/// A phase may end this much later than its limit.
const SLACK: Duration = Duration::from_secs(30);

static ON_STUCK: OnceLock<fn(&str)> = OnceLock::new();

/// Limit of a phase that works on this much data.
pub fn for_bytes(data_bytes: u64) -> Duration {
    BASE + PER_GIB * u32::try_from(data_bytes >> 30).unwrap_or(u32::MAX >> 6)
}

/// Size of the database of `session`; 0 if the server does not say.
///
/// # Errors
/// When the server is lost.
pub fn database_bytes(session: &mut Session) -> Result<u64> {
    match session.query("select pg_catalog.pg_database_size(current_database())") {
        Ok(rows) => Ok(rows.scalar().and_then(|bytes| bytes.parse().ok()).unwrap_or_default()),
        Err(wire::SessionError::Server(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Runs a step within this limit, and reports if it took longer.
///
/// # Errors
/// Those of the step.
pub fn within<T>(what: &str, longest: Duration, step: impl FnOnce() -> Result<T>) -> Result<T> {
    within_option(what, longest, keys::run::PHASE_TIMEOUT.name, step)
}

/// As [`within`], for a limit that `option` sets.
///
/// # Errors
/// Those of the step.
pub fn within_option<T>(
    what: &str,
    longest: Duration,
    option: &str,
    step: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let limit = Limit::new(longest);
    let _entered = limit.enter();
    let _watched = watch(what, longest.saturating_add(SLACK));
    let result = step();
    if limit.is_over() {
        result.with_context(|| format!("`{what}` has not ended after {} s ({option})", longest.as_secs()))
    } else {
        result
    }
}

/// Sets the function that ends this process when a step has not ended long after its limit; it gets the step's name.
pub fn on_stuck(end: fn(&str)) {
    // Keeps the first function; there is only one.
    ON_STUCK.set(end).ok();
}

/// Ends the process after this time, unless the returned value is dropped first.
fn watch(what: &str, patience: Duration) -> Sender<()> {
    let (alive, watched) = mpsc::channel();
    if let Some(end) = ON_STUCK.get() {
        let what = what.to_string();
        thread::spawn(move || {
            if watched.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                end(&what);
            }
        });
    }
    alive
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_step_that_cannot_be_interrupted_is_ended_from_outside() {
        static ENDED: AtomicBool = AtomicBool::new(false);
        on_stuck(|what| ENDED.store(what == "restore", Ordering::Relaxed));
        drop(watch("restore", Duration::from_millis(20)));
        thread::sleep(Duration::from_millis(100));
        assert!(!ENDED.load(Ordering::Relaxed), "a step that has ended is no longer watched");
        let _stuck = watch("restore", Duration::from_millis(20));
        let began = Instant::now();
        while !ENDED.load(Ordering::Relaxed) {
            assert!(began.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn only_a_step_that_took_too_long_is_reported_as_such() {
        let failed = |longest: Duration| {
            let step = || -> Result<()> {
                let end = Instant::now() + Duration::from_millis(20);
                while Instant::now() < end {
                    thread::yield_now();
                }
                Err(anyhow!("it failed"))
            };
            format!("{:#}", within("vacuum", longest, step).unwrap_err())
        };
        assert_eq!(failed(Duration::from_secs(60)), "it failed");
        let expected = "`vacuum` has not ended after 0 s (run.phase_timeout): it failed";
        assert_eq!(failed(Duration::from_millis(10)), expected);
    }
}
