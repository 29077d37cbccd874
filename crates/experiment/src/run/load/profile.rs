//! A profile of the server while the load of an extra run is measured.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use model::load::Window;
use model::run::profile::{ProfileRecord, Stack};
use observe::profile::{Recording, Subject};

use crate::run::place::LocalParts;
use crate::site::clock::unix_now;

/// How often a recorder that waits for the measurement looks whether the load has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The profile of one run.
#[derive(Debug, Default)]
pub(crate) struct Profiler {
    made: Mutex<Option<Result<Recording, String>>>,
}

impl Profiler {
    /// The profile, once the run has ended: how it was made, and its stacks or why there are none.
    pub(crate) fn into_profile(self) -> (ProfileRecord, Vec<Stack>) {
        let made = self.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        let made = made.unwrap_or_else(|| Err("the run ended before its measurement".to_string()));
        made.and_then(Recording::fold).unwrap_or_else(|reason| {
            let record = ProfileRecord { format: model::FORMAT, reason, ..ProfileRecord::default() };
            (record, Vec::new())
        })
    }

    fn record(&self, place: &LocalParts, go: u64, window: Window, dir: &Path, is_over: &AtomicBool) {
        let begin = go + u64::from(window.ramp_up_s) * 1_000_000_000;
        while unix_now() < begin && !is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        let made = match place.postmaster_pid {
            _ if is_over.load(Ordering::Relaxed) => return,
            None => Err("the server\'s processes are not on this machine".to_string()),
            Some(postmaster_pid) => {
                let (length_s, scratch) = (window.measure_s, dir.to_path_buf());
                Subject { postmaster_pid, length_s, scratch }.record(is_over)
            }
        };
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    }
}

/// Applies the load, and records the server meanwhile, if a profile is wanted.
pub(crate) fn during<T>(
    profiler: Option<&Profiler>,
    place: &LocalParts,
    go: u64,
    window: Window,
    dir: &Path,
    load: impl FnOnce() -> T,
) -> T {
    let Some(profiler) = profiler else { return load() };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| profiler.record(place, go, window, dir, &is_over));
        let done = load();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}
