//! A seeded fuzzer of stored results: real results are changed in hundreds of ways, and everything that reads results must answer
//! each with a page, a table or an error, in bounded time and memory.
//!
//! `PGDYNO_MUTATIONS` says how many changes are tried, `PGDYNO_MUTATION_SEED` from which number on: whatever fails prints the number
//! with which it is tried again alone (`PGDYNO_MUTATION_SEED=N PGDYNO_MUTATIONS=1`).

mod change;
mod drive;
mod heap;
mod regressions;
mod samples;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::change::Random;
use self::drive::Pages;
use self::samples::Sample;

/// Changes that `./check` tries.
const N: u64 = 500;
/// As many threads as a small machine has processors.
const N_WORKERS: u64 = 2;
/// What one change may take: a hundred times what it usually takes, on a machine that does other things too.
const TIME_MAX: Duration = Duration::from_secs(60);
/// More than the results, their reports and what they are packed into take.
const ROOM_BYTES: u64 = 512 << 20;
/// What the process may use: the workers, and the other tests that run at the same time.
const HEAP_BYTES_MAX: usize = 1 << 30;

/// What a worker tries now, and since when.
#[derive(Default)]
struct Doing {
    now: Mutex<Option<(u64, String, Instant)>>,
}

impl Doing {
    fn words(&self) -> Option<(String, Duration)> {
        let now = self.now.lock().unwrap();
        let (seed, what, since) = now.as_ref()?;
        Some((replay(*seed, what), since.elapsed()))
    }
}

fn replay(seed: u64, what: &str) -> String {
    format!("{what} (again: PGDYNO_MUTATION_SEED={seed} PGDYNO_MUTATIONS=1)")
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_stored_results_contain_is_shown_or_refused() {
    let (first, n) = (asked("PGDYNO_MUTATION_SEED").unwrap_or(1), asked("PGDYNO_MUTATIONS").unwrap_or(N));
    let place = in_memory();
    let doing: [Doing; N_WORKERS as usize] = Default::default();
    let (tried, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&doing, &is_over));
        let workers: Vec<_> = (0..N_WORKERS)
            .map(|worker| {
                let (dir, doing) = (place.path().join(worker.to_string()), &doing[worker as usize]);
                let (tried, failures) = (&tried, &failures);
                scope.spawn(move || {
                    let seeds = (first..first + n).filter(|seed| seed % N_WORKERS == worker);
                    work(&dir, seeds, doing, tried, failures);
                })
            })
            .collect();
        let ended: Vec<bool> = workers.into_iter().map(|worker| worker.join().is_ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        watch.join().unwrap();
        assert!(ended.iter().all(|is_well| *is_well), "a worker ended by itself");
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {n} changes failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(tried.into_inner(), n);
}

/// Where files are written: in memory, if there is room, where a change need not wait until a disk has it.
fn in_memory() -> tempfile::TempDir {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_memory = mounts.lines().any(|line| line.contains(" /dev/shm tmpfs "));
    let room = server::cluster::space::free_bytes(Path::new("/dev/shm")).unwrap_or(0);
    let made = (is_memory && room > ROOM_BYTES).then(|| tempfile::tempdir_in("/dev/shm").ok()).flatten();
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// Tries each change in a directory of its own.
fn work(
    dir: &Path,
    seeds: impl Iterator<Item = u64>,
    doing: &Doing,
    tried: &AtomicU64,
    failures: &Mutex<Vec<String>>,
) {
    let samples = Sample::unpack_all(dir);
    let mut pages = Pages::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let sample = &samples[random.below(samples.len())];
        let what = sample.change(&mut random);
        *doing.now.lock().unwrap() = Some((seed, what.clone(), Instant::now()));
        let driven = catch_unwind(AssertUnwindSafe(|| drive::all(sample, &mut pages, &mut random)));
        *doing.now.lock().unwrap() = None;
        let reason = match driven {
            Ok(Ok(())) => None,
            Ok(Err(reason)) => Some(reason),
            Err(panic) => Some(format!("panicked: {}", words_of(&*panic))),
        };
        if let Some(reason) = reason {
            failures.lock().unwrap().push(format!("{}: {reason}", replay(seed, &what)));
        }
        sample.restore();
        tried.fetch_add(1, Ordering::Relaxed);
    }
}

fn words_of(panic: &dyn std::any::Any) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// Ends the process, with the changes that are being tried, when one takes too long or too much memory: neither would end by itself.
fn watch(doing: &[Doing], is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
        let now: Vec<(String, Duration)> = doing.iter().filter_map(Doing::words).collect();
        let is_slow = now.iter().any(|(_, since)| *since > TIME_MAX);
        let bytes = heap::used();
        if is_slow || bytes > HEAP_BYTES_MAX {
            let tried: Vec<String> =
                now.iter().map(|(what, since)| format!("{what}, for {since:?}")).collect();
            let words = format!("too slow, or too much memory ({} MiB): {}\n", bytes >> 20, tried.join("; "));
            // The test's own output is lost with the process.
            std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).ok();
            std::process::abort();
        }
    }
}
