//! Three rounds of a part, and their median; how long a single step takes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::Effort;

/// The median of three rounds is not moved by one that something disturbed.
const N_ROUNDS: usize = 3;
/// Times of steps that are kept of a round: the median of more is not better.
const TIMES_MAX: usize = 1 << 16;

/// One round: steps per second, and the time of each, nanoseconds, as far as they are kept.
#[derive(Debug, Default, Clone)]
pub(crate) struct CeilingRound {
    pub(crate) n: u64,
    pub(crate) seconds: f64,
    pub(crate) times_ns: Vec<u64>,
}

impl CeilingRound {
    /// Takes steps until the time is over, at least one. A single step is not interrupted.
    ///
    /// # Errors
    /// Those of a step.
    pub(crate) fn take(
        length: Duration,
        effort: &Effort,
        mut step: impl FnMut(u64) -> Result<()>,
    ) -> Result<CeilingRound> {
        let begun = Instant::now();
        let mut round = CeilingRound::default();
        let mut before = begun;
        loop {
            step(round.n)?;
            let now = Instant::now();
            round.n += 1;
            if round.times_ns.len() < TIMES_MAX {
                round.times_ns.push((now - before).as_nanos() as u64);
            }
            before = now;
            if now - begun >= length || effort.stop.load(Ordering::Relaxed) {
                round.seconds = (now - begun).as_secs_f64();
                return Ok(round);
            }
        }
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.n as f64 / self.seconds } else { 0.0 }
    }
}

/// A part: steps per second, and the median time of a step, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CeilingSpeed {
    pub(crate) rate: f64,
    pub(crate) time_s: f64,
}

/// The median of three rounds, each with a third of the part's time.
///
/// # Errors
/// Those of a round, and when the user wants to stop.
pub(crate) fn median(
    effort: &Effort,
    mut round: impl FnMut(Duration) -> Result<CeilingRound>,
) -> Result<CeilingSpeed> {
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        expect_wanted(effort)?;
        let made = round(effort.part / N_ROUNDS as u32)?;
        rates.push(made.rate());
        times.push(middle(made.times_ns.iter().map(|ns| *ns as f64 / 1e9).collect()));
    }
    expect_wanted(effort)?;
    Ok(CeilingSpeed { rate: middle(rates), time_s: middle(times) })
}

/// Fails when the user wants to stop: a part that was cut off has no value.
pub(crate) fn expect_wanted(effort: &Effort) -> Result<()> {
    if effort.stop.load(Ordering::Relaxed) {
        bail!("stopped on request");
    }
    Ok(())
}

/// The value in the middle; 0 of none.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);
    static STOPPED: AtomicBool = AtomicBool::new(true);

    #[test]
    fn the_middle_of_three_rounds_counts_and_a_stopped_part_has_no_value() {
        let effort = Effort { part: Duration::from_millis(3), stop: &GO_ON };
        let mut rounds = [(100, 1.0), (900, 1.0), (300, 2.0)].into_iter();
        let pace = median(&effort, |_| {
            let (n, seconds) = rounds.next().unwrap();
            Ok(CeilingRound { n, seconds, times_ns: vec![n, n, 1] })
        });
        assert_eq!(pace.unwrap(), CeilingSpeed { rate: 150.0, time_s: 300e-9 });
        let stopped = median(&Effort { stop: &STOPPED, ..effort }, |_| unreachable!());
        assert!(stopped.unwrap_err().to_string().contains("stopped"));
    }

    #[test]
    fn a_round_takes_at_least_one_step_and_ends() {
        let effort = Effort { part: Duration::ZERO, stop: &GO_ON };
        let round = CeilingRound::take(Duration::ZERO, &effort, |_| Ok(())).unwrap();
        assert_eq!((round.n, round.times_ns.len()), (1, 1));
        let round = CeilingRound::take(Duration::from_millis(2), &effort, |_| Ok(())).unwrap();
        assert!(round.n > 1 && round.seconds < 1.0, "{round:?}");
    }
}
