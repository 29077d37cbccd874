//! Processors, memory and clock of this machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use model::run::ceilings::Calibration;

use crate::blocks::splitmix64;
use crate::rounds::{CeilingRound, median};
use crate::{Effort, Found, MACHINE};

/// Steps of the generator between two looks at the clock.
const N_STEPS: u64 = 1 << 16;
/// Elements of each of the three arrays, all threads together: 64 MiB each, four times the caches of most processors
/// (McCalpin's rule for STREAM).
const N_ELEMENTS: usize = 8 << 20;
/// Bytes of memory that the arrays take, with as much again for others.
const MEMORY_BYTES_MIN: u64 = 6 * 8 * N_ELEMENTS as u64;
/// Bytes that the triad moves for an element: two reads and a write.
const TRIAD_BYTES: f64 = 24.0;
const N_CLOCK: u64 = 1000;
/// Batches of so many readings, about 50 us each.
const N_BATCHES: u32 = 100;

/// Measures this machine.
///
/// # Errors
/// When the user wants to stop.
pub fn machine(effort: &Effort) -> Result<Calibration> {
    let mut found = Found::default();
    let n_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let one = median(effort, |length| at_once(1, length, effort, |_| generate()))?;
    found.put("core_rate", None, one.rate * N_STEPS as f64);
    let all = median(effort, |length| at_once(n_cpus, length, effort, |_| generate()))?;
    found.put("cores_rate", None, all.rate * N_STEPS as f64);
    match available_bytes() {
        Some(bytes) if bytes < MEMORY_BYTES_MIN => {
            found.lack(
                "memory_throughput",
                format!("{} MiB of memory are available, {} are needed", bytes >> 20, MEMORY_BYTES_MIN >> 20),
            );
        }
        _ => {
            let n = N_ELEMENTS / n_cpus;
            let mut arrays: Vec<[Vec<f64>; 3]> =
                (0..n_cpus).map(|_| [vec![0.0; n], vec![1.0; n], vec![2.0; n]]).collect();
            let pace = median(effort, |length| triads(&mut arrays, length, effort))?;
            found.put("memory_throughput", None, pace.rate * n as f64 * TRIAD_BYTES);
        }
    }
    let clock = median(effort, |length| {
        CeilingRound::take(length.min(Duration::from_millis(100)), effort, |_| {
            read_clock();
            Ok(())
        })
    })?;
    found.put("clock_time", None, 1.0 / (clock.rate * N_CLOCK as f64));
    Ok(found.of_place(MACHINE.to_string(), effort))
}

/// Time of reading the clock on a machine that may be busy, seconds: of the fastest of many batches, which others have not
/// interrupted. Takes some milliseconds.
pub fn clock_s() -> f64 {
    let batch = |_| {
        let begun = Instant::now();
        read_clock();
        begun.elapsed().as_secs_f64() / N_CLOCK as f64
    };
    (0..N_BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

fn read_clock() {
    (0..N_CLOCK).for_each(|_| {
        black_box(Instant::now());
    });
}

fn generate() {
    let mut state = black_box(1_u64);
    let sum = (0..N_STEPS).fold(0_u64, |sum, _| sum ^ splitmix64(&mut state));
    black_box(sum);
}

/// One round of `work` on several threads at once: their steps together.
fn at_once(n: usize, length: Duration, effort: &Effort, work: impl Fn(usize) + Sync) -> Result<CeilingRound> {
    let take = |thread: usize| {
        let work = &work;
        CeilingRound::take(length, effort, move |_| {
            work(thread);
            Ok(())
        })
    };
    let rounds: Vec<Result<CeilingRound>> = std::thread::scope(|scope| {
        let take = &take;
        let threads: Vec<_> = (0..n).map(|thread| scope.spawn(move || take(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect()
    });
    sum(rounds)
}

/// One round of STREAM's triad, each thread on arrays of its own.
fn triads(arrays: &mut [[Vec<f64>; 3]], length: Duration, effort: &Effort) -> Result<CeilingRound> {
    let rounds: Vec<Result<CeilingRound>> = std::thread::scope(|scope| {
        let threads: Vec<_> = arrays
            .iter_mut()
            .map(|[a, b, c]| {
                scope.spawn(move || {
                    CeilingRound::take(length, effort, |_| {
                        let scalar = black_box(3.0);
                        a.iter_mut().zip(b.iter().zip(c.iter())).for_each(|(a, (b, c))| *a = b + scalar * c);
                        black_box(a.as_mut_slice());
                        Ok(())
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect()
    });
    sum(rounds)
}

/// The steps of threads that worked at once. Each has its own time, since a step is not interrupted.
fn sum(rounds: Vec<Result<CeilingRound>>) -> Result<CeilingRound> {
    let mut all = CeilingRound { seconds: 1e-3, ..CeilingRound::default() };
    let mut rate = 0.0;
    for made in rounds {
        let made = made?;
        rate += made.n as f64 / made.seconds.max(1e-9);
        all.seconds = all.seconds.max(made.seconds);
        all.times_ns.extend(made.times_ns);
    }
    all.n = (rate * all.seconds).round() as u64;
    Ok(all)
}

fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb << 10)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_machine_has_its_speeds() {
        let effort = Effort { part: Duration::from_millis(30), stop: &GO_ON };
        let made = machine(&effort).unwrap();
        let value = |key: &str| made.value(key).unwrap_or_else(|| panic!("{key}: {made:?}"));
        assert!(value("core_rate") > 1e5, "{made:?}");
        assert!(value("clock_time") < 1e-4, "{made:?}");
        assert!((1e-9..1e-4).contains(&clock_s()));
        assert!(value("cores_rate") > 0.0, "{made:?}");
        assert!(
            made.value("memory_throughput").is_some() != made.unavailable.contains_key("memory_throughput")
        );
        assert_eq!((made.place.as_str(), made.part_ms), (MACHINE, 30));
    }

    #[test]
    fn steps_of_threads_add_up_by_their_rates() {
        let round = |n, seconds| Ok(CeilingRound { n, seconds, times_ns: vec![n] });
        let all = sum(vec![round(100, 1.0), round(100, 2.0)]).unwrap();
        assert_eq!((all.n, all.seconds, all.times_ns.len()), (300, 2.0, 2));
        assert!(sum(vec![round(1, 1.0), Err(anyhow!("no"))]).is_err());
    }
}
