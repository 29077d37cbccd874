//! When transactions began: their rate, how unevenly they came, and how many sessions were at work at once.

use std::collections::{BTreeMap, BTreeSet};

/// Most seconds that are counted one by one: about four days.
const SECONDS_MAX: usize = 350_000;

/// Counts of beginnings.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    by_second: BTreeMap<i64, SecondCounts>,
    busy_us: u64,
}

#[derive(Clone, Debug, Default)]
struct SecondCounts {
    n: u32,
    sessions: BTreeSet<u32>,
}

impl Arrivals {
    /// Counts a transaction.
    pub fn add(&mut self, session: u32, began_us: i64, ended_us: i64) {
        self.busy_us = self.busy_us.saturating_add(ended_us.saturating_sub(began_us).max(0).unsigned_abs());
        let second = began_us.div_euclid(1_000_000);
        if self.by_second.len() < SECONDS_MAX || self.by_second.contains_key(&second) {
            let counts = self.by_second.entry(second).or_default();
            counts.n += 1;
            // A server has no more connections than this at once.
            if counts.sessions.len() < 10_000 {
                counts.sessions.insert(session);
            }
        }
    }

    /// Most sessions that began transactions in one second.
    pub fn sessions_max(&self) -> usize {
        self.by_second.values().map(|counts| counts.sessions.len()).max().unwrap_or(0)
    }

    /// Sessions that had a transaction open, on average.
    pub fn active(&self, length_s: f64) -> f64 {
        if length_s > 0.0 { self.busy_us as f64 / 1e6 / length_s } else { 0.0 }
    }

    /// Variance by mean of the counts of whole seconds: 1 if transactions come independently of each other (Fano 1947). `None` for
    /// fewer than ten seconds.
    pub fn dispersion(&self) -> Option<f64> {
        let first = *self.by_second.keys().next()?;
        let last = *self.by_second.keys().next_back()?;
        // The first and the last second are not whole.
        let n = last - first - 1;
        if !(10..=SECONDS_MAX as i64).contains(&n) {
            return None;
        }
        let counts =
            (first + 1..last).map(|second| self.by_second.get(&second).map_or(0.0, |one| f64::from(one.n)));
        let (sum, squares) = counts.fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        let n = n as f64;
        let mean = sum / n;
        let variance = (squares - n * mean * mean) / (n - 1.0);
        if mean > 0.0 { Some(variance / mean) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::reservoir::Mixer;

    #[test]
    fn independent_arrivals_have_a_dispersion_of_one() {
        let mut mixer = Mixer::new(5);
        let mut arrivals = Arrivals::default();
        for _ in 0..20_000 {
            let at = i64::try_from(mixer.below(200_000_000)).unwrap();
            arrivals.add((at % 7) as u32, at, at + 1000);
        }
        let found = arrivals.dispersion().unwrap();
        // 198 seconds: the standard error of the ratio is sqrt(2 / 198).
        assert!((found - 1.0).abs() < 0.4, "{found}");
        assert_eq!(arrivals.sessions_max(), 7);
        assert!((arrivals.active(200.0) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn even_and_short_arrivals() {
        let mut arrivals = Arrivals::default();
        for n in 0..1000 {
            arrivals.add(0, n * 100_000, n * 100_000);
        }
        assert!(arrivals.dispersion().unwrap() < 0.01);
        let mut short = Arrivals::default();
        short.add(0, 0, 0);
        assert_eq!(short.dispersion(), None);
    }
}
