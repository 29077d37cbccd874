//! Decides after each pair of a comparison whether another one is needed, and whether there is time for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use experiment::schedule::conduct::measured_tps;
use experiment::site::referee::{Referee, RunJudgement};
use model::experiment::plan::{Plan, RunState};
use model::run::RunRecord;
use model::text::prose::plural;
use stats::Precision;

use crate::front::cli::CompareArgs;
use crate::job::preview::duration;
use crate::job::referee::ByBudget;

/// Decides after each pair whether another one is needed and whether there is time for it.
pub(super) struct Gauge {
    precision: Option<Precision>,
    time: Duration,
    made: Mutex<Made>,
    referee: ByBudget,
}

/// Progress so far.
#[derive(Default)]
struct Made {
    /// When the first run ended: the time before it included loading data.
    first_end: Option<Instant>,
    /// Runs since then.
    n_since: u32,
    /// When the last run ended.
    last_end: Option<Instant>,
    /// Runs that repeated disturbed ones, and the time that they took.
    n_repeats: u32,
    repeating: Duration,
    /// Disturbed pairs that were not repeated, because the time was needed for others.
    n_left_disturbed: u32,
    /// Runs that cannot count.
    void: BTreeSet<u32>,
    /// Throughput of A and B by block, of the attempts that count; 0 if a run has none that does.
    tps: BTreeMap<u32, [Option<f64>; 2]>,
}

impl Made {
    /// Time since the first run.
    fn spent(&self) -> Duration {
        self.first_end.map_or(Duration::ZERO, |end| end.elapsed())
    }

    /// Time of a pair.
    fn of_pair(&self) -> Duration {
        2 * self.spent() / self.n_since.max(1)
    }

    /// Time since the first run at which another pair will have ended, if it takes as long as the others.
    fn after_next_pair(&self) -> Duration {
        self.spent() + self.of_pair()
    }

    /// Complete pairs.
    fn n_pairs(&self) -> usize {
        let has_number = |side: &Option<f64>| side.is_some_and(|tps| tps > 0.0);
        self.tps.values().filter(|sides| sides.iter().all(has_number)).count()
    }
}

impl Referee for Gauge {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        let mut made = self.made();
        match made.first_end {
            None => made.first_end = Some(Instant::now()),
            Some(_) => made.n_since += 1,
        }
        let before = made.last_end.replace(Instant::now());
        if record.repeat.is_some() {
            made.n_repeats += 1;
            made.repeating += before.map_or(Duration::ZERO, |end| end.elapsed());
        }
        drop(made);
        self.recall(experiment, record)
    }

    fn recall(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        let judged = self.referee.judge(experiment, record)?;
        if judged.score.is_infinite() {
            self.made().void.insert(record.spec.run);
        }
        Ok(judged)
    }

    fn has_time(&self, _needed_s: f64) -> bool {
        let mut made = self.made();
        // The disturbed pair counts if it is not repeated: the pairs of a verdict come first.
        let has_time = self.precision.is_none()
            || leaves_time(made.spent(), made.of_pair(), made.n_pairs() + 1, self.time);
        made.n_left_disturbed += u32::from(!has_time);
        has_time
    }
}

/// Whether a pair can be measured again within the time. The pairs that a verdict needs are secured first, whatever the time seems to
/// leave: a disturbed pair is worth more than none, and the next ones may take longer.
fn leaves_time(spent: Duration, of_pair: Duration, n_pairs: usize, time: Duration) -> bool {
    n_pairs >= stats::PAIRS_MIN && spent + of_pair <= time
}

/// How much of the time the pairs that a verdict needs may take. Our convention.
const STRETCHED: f64 = 1.5;

/// The time after which no pair begins: the one asked for, or more where that ends with a verdict and would otherwise end without one.
fn longest(spent: Duration, of_pair: Duration, n_pairs: usize, time: Duration) -> Duration {
    let stretched = time.mul_f64(STRETCHED);
    let n_missing = stats::PAIRS_MIN.saturating_sub(n_pairs) as u32;
    if n_missing > 0 && spent + n_missing * of_pair <= stretched { stretched } else { time }
}

/// The pairs of a comparison that have ended when no further one begins, if each takes `of_pair_s` seconds and none is precise enough
/// before; at most `n_max`.
pub(super) fn n_reached(of_pair_s: f64, time_s: f64, n_max: usize) -> usize {
    let of_pair = Duration::from_secs_f64(of_pair_s);
    let time = Duration::from_secs_f64(time_s);
    // The time runs from the end of the first run.
    let spent = |n: &usize| of_pair.mul_f64(*n as f64 - 0.5);
    let is_last = |n: &usize| spent(n) + of_pair > longest(spent(n), of_pair, *n, time);
    (1..n_max).find(is_last).unwrap_or(n_max)
}

impl Gauge {
    pub(super) fn new(args: &CompareArgs, plan: &Plan) -> Gauge {
        // With a given rate throughput says nothing: only the time ends the comparison.
        let is_open = plan.cases.iter().any(|case| case.workload.pace.is_open());
        let half_width = if is_open { 0.0 } else { args.precision };
        Gauge {
            precision: plan.precision.map(|_| Precision { half_width }),
            time: Duration::from_millis(args.time.ms),
            made: Mutex::default(),
            referee: ByBudget::default(),
        }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a run that was measured before, which takes no time now.
    pub(super) fn know(&self, record: &RunRecord) {
        let mut made = self.made();
        let tps = measured_tps(record).unwrap_or(0.0);
        made.tps.entry(record.spec.block).or_default()[usize::from(record.spec.case != 1)] = Some(tps);
    }

    /// Pairs of which both sides were measured.
    pub(super) fn n_blocks(&self) -> usize {
        self.made().tps.values().filter(|sides| sides.iter().all(Option::is_some)).count()
    }

    /// What became of disturbed pairs, if there were any.
    pub(super) fn of_disturbed(&self) -> Option<String> {
        let made = self.made();
        let time = self.precision.map(|_| self.time);
        of_disturbed(made.n_repeats.div_ceil(2), made.repeating, made.n_left_disturbed, time)
    }

    /// Called for each run that counts; answers once its pair is complete.
    pub(super) fn is_enough(&self, record: &RunRecord) -> bool {
        let Some(precision) = self.precision else { return false };
        let mut made = self.made();
        let counts = record.state == RunState::Completed && !made.void.contains(&record.spec.run);
        let of_run = if counts { measured_tps(record) } else { None };
        let sides = made.tps.entry(record.spec.block).or_default();
        sides[usize::from(record.spec.case != 1)] = Some(of_run.unwrap_or(0.0));
        if sides.iter().any(Option::is_none) {
            return false;
        }
        let log = |sides: &[Option<f64>; 2]| Some((sides[1]? / sides[0]?).ln()).filter(|log| log.is_finite());
        let logs: Vec<f64> = made.tps.values().filter_map(log).collect();
        let longest = longest(made.spent(), made.of_pair(), made.n_pairs(), self.time);
        precision.is_reached(&logs) || made.after_next_pair() > longest
    }
}

/// Disturbed pairs in words: how many were measured again, how long that took, and how many were not.
fn of_disturbed(n_again: u32, took: Duration, n_not: u32, time: Option<Duration>) -> Option<String> {
    let again = || {
        let of = time.map_or(String::new(), |time| format!(" of the {}", duration(time.as_secs_f64())));
        let pairs = plural(n_again as usize, "disturbed pair");
        let verb = if n_again == 1 { "was" } else { "were" };
        format!("{pairs} {verb} measured again, which took {}{of}", duration(took.as_secs_f64()))
    };
    let not = || {
        let verb = if n_not == 1 { "was" } else { "were" };
        format!(
            "{} {verb} not measured again, to leave time for others",
            plural(n_not as usize, "disturbed pair")
        )
    };
    match (n_again, n_not) {
        (0, 0) => None,
        (_, 0) => Some(again()),
        (0, _) => Some(not()),
        _ => Some(format!("{}; {}", again(), not())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_secs(60);

    #[test]
    fn pairs_of_a_verdict_come_before_repeats_of_disturbed_ones() {
        for (spent_min, n_pairs, time_min, expected) in [
            // Six are secured first, however much time there seems to be.
            (3, 3, 7, false),
            (3, 3, 60, false),
            (5, 5, 60, false),
            (6, 6, 7, true),
            (6, 6, 6, false),
            (20, 20, 30, true),
        ] {
            let found = leaves_time(spent_min * MIN, MIN, n_pairs, time_min * MIN);
            assert_eq!(found, expected, "{n_pairs} pairs after {spent_min} of {time_min} min");
        }
    }

    #[test]
    fn the_pairs_of_a_verdict_may_take_half_as_long_again() {
        for (spent_min, n_pairs, time_min, expected_s) in [
            // Pairs of a minute each: six fit.
            (5, 5, 5, 450),
            (3, 3, 4, 360),
            // They would not, so that more time is of no use.
            (2, 2, 3, 180),
            // There are six.
            (6, 6, 5, 300),
        ] {
            let found = longest(spent_min * MIN, MIN, n_pairs, time_min * MIN);
            assert_eq!(found.as_secs(), expected_s, "{n_pairs} pairs after {spent_min} of {time_min} min");
        }
    }

    #[test]
    fn the_pairs_that_the_time_reaches_are_those_that_are_announced() {
        for (of_pair_s, time_s, n_max, expected) in [
            // Six in half as long again, as the pairs of a verdict may take.
            (26.5, 120.0, 6, 6),
            (11.7, 20.0, 6, 2),
            (26.5, 600.0, 25, 23),
            (26.5, 600.0, 20, 20),
            (100.0, 10.0, 6, 1),
        ] {
            let found = n_reached(of_pair_s, time_s, n_max);
            assert_eq!(found, expected, "pairs of {of_pair_s} s in {time_s} s");
        }
    }

    #[test]
    fn what_repeats_took_is_said() {
        let check = |n_again, n_not, time: Option<Duration>, expected: Option<&str>| {
            assert_eq!(of_disturbed(n_again, 80 * MIN / 60, n_not, time).as_deref(), expected);
        };
        check(0, 0, None, None);
        check(1, 0, None, Some("1 disturbed pair was measured again, which took 80 s"));
        check(
            2,
            1,
            Some(10 * MIN),
            Some(
                "2 disturbed pairs were measured again, which took 80 s of the 10 min 00 s; 1 disturbed pair was not measured \
                 again, to leave time for others",
            ),
        );
        check(
            0,
            3,
            Some(10 * MIN),
            Some("3 disturbed pairs were not measured again, to leave time for others"),
        );
    }
}
