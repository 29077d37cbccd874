//! Measures briefly how fast a machine is: durations observed on one machine are no estimate for another.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Speed of a machine relative to the one on which the durations of the estimates were observed: 2 virtual processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Speed of one processor.
    pub processor: f64,
    /// Speed of writing to the device where clusters are stored.
    pub device: f64,
}

/// Steps of [`chain`] per second on that machine when idle.
const REFERENCE_STEPS_PER_S: f64 = 700e6;
/// Bytes per second that it writes to its device.
const REFERENCE_BYTES_PER_S: f64 = 400e6;
/// Lower limit for a short measurement: no stall lasts for all runs. With two processors that ten others wanted, the steps around a run
/// took as long as usual, and loading 1.6 times; with twenty others 2.4 times. Part of that time is waiting, so that the square root of the
/// speed comes closer to it than the speed.
const SLOWEST: f64 = 0.4;
const TRIALS: usize = 5;
const TRIAL: Duration = Duration::from_millis(10);
/// Bytes written in each trial of the device.
const PROBE_BYTES: usize = 8 << 20;

impl Default for Speed {
    fn default() -> Speed {
        Speed { processor: 1.0, device: 1.0 }
    }
}

impl Speed {
    /// Measures this machine for less than a second; if `dir` is not writable, assumes the usual speed of the device.
    pub fn measure(dir: &Path) -> Speed {
        let device = bytes_per_s(dir).map_or(1.0, |speed| speed / REFERENCE_BYTES_PER_S);
        Speed { processor: steps_per_s() / REFERENCE_STEPS_PER_S, device }
    }

    /// The slower of the two: loading, restoring and starting need both. At most 1, because a short measurement may be
    /// lucky.
    pub(super) fn whole(self) -> f64 {
        self.processor.min(self.device).sqrt().clamp(SLOWEST, 1.0)
    }
}

/// Best of a few short trials, because one may have been interrupted.
fn steps_per_s() -> f64 {
    let trials: Vec<f64> = (0..TRIALS).map(|_| trial()).collect();
    stats::median(&trials).unwrap_or(REFERENCE_STEPS_PER_S)
}

fn trial() -> f64 {
    const STEPS: u64 = 100_000;
    let began = Instant::now();
    let mut n_steps = 0;
    while began.elapsed() < TRIAL {
        black_box(chain(black_box(n_steps), STEPS));
        n_steps += STEPS;
    }
    n_steps as f64 / began.elapsed().as_secs_f64()
}

/// Multiplications that depend on each other, so that compilers and vector units change little.
fn chain(mut x: u64, n_steps: u64) -> u64 {
    for _ in 0..n_steps {
        x = (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    x
}

fn bytes_per_s(dir: &Path) -> Option<f64> {
    let dir = dir.ancestors().find(|dir| dir.is_dir())?;
    let path = dir.join(format!("probe-{}", std::process::id()));
    let mut file = File::create_new(&path).ok()?;
    // Without a name, nothing is left of it, however this process ends.
    fs::remove_file(&path).ok()?;
    let block = vec![0xA5; PROBE_BYTES];
    let mut trial = || {
        let began = Instant::now();
        file.write_all(&block).ok()?;
        file.sync_data().ok()?;
        Some(PROBE_BYTES as f64 / began.elapsed().as_secs_f64())
    };
    let trials: Option<Vec<f64>> = (0..TRIALS).map(|_| trial()).collect();
    stats::median(&trials?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_measured_in_a_moment_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let speed = Speed::measure(&dir.path().join("not/there"));
        assert!(speed.processor > 0.01 && speed.device > 0.001, "{speed:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_slower_part_counts_within_bounds() {
        let whole = |processor, device| Speed { processor, device }.whole();
        assert_eq!((whole(0.25, 2.0), whole(3.0, 2.0), whole(1.0, 0.01)), (0.5, 1.0, SLOWEST));
    }
}
