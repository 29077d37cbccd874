//! Slices of time in which a load begins transactions, while another load has the others.

use model::load::{LoadSpec, Turns};

use crate::clock::Nanos;

/// Whose turn it is, and what was committed in each of our slices.
#[derive(Debug, Clone)]
pub(crate) struct TurnClock {
    go: Nanos,
    slice_ns: Nanos,
    guard_ns: Nanos,
    is_ours: Vec<bool>,
    committed: Vec<u64>,
}

impl TurnClock {
    /// The turns of a load that begins at `go`.
    ///
    /// # Errors
    /// When the turns are invalid.
    pub(crate) fn new(load: &LoadSpec, go: Nanos) -> Result<Option<TurnClock>, String> {
        let Some(Turns { slice_ns, guard_ns, slices }) = &load.turns else { return Ok(None) };
        if load.pace.is_open() {
            return Err(
                "turns are for a closed loop: in an open one, transactions are due in all slices".into()
            );
        }
        if *slice_ns == 0 || guard_ns >= slice_ns {
            return Err(format!(
                "turns: a guard of {guard_ns} ns leaves nothing of a slice of {slice_ns} ns"
            ));
        }
        if let Some(other) = slices.chars().find(|c| !matches!(c, '0' | '1')) {
            return Err(format!("turns: a slice is 0 or 1, not `{other}`"));
        }
        let is_ours: Vec<bool> = slices.bytes().map(|c| c == b'1').collect();
        let committed = vec![0; is_ours.len()];
        Ok(Some(TurnClock { go, slice_ns: *slice_ns, guard_ns: *guard_ns, is_ours, committed }))
    }

    /// When our next slice begins; `None` if it is our turn. Without another one, never.
    #[inline]
    pub(crate) fn waits_until(&self, now: Nanos) -> Option<Nanos> {
        let slice = self.slice_at(now);
        if self.is_ours.get(slice) == Some(&true) {
            return None;
        }
        let next = self.is_ours.iter().skip(slice).position(|is_ours| *is_ours);
        Some(next.map_or(Nanos::MAX, |n| self.go + (slice + n) as u64 * self.slice_ns))
    }

    /// Counts a transaction that was committed now.
    #[inline]
    pub(crate) fn count(&mut self, now: Nanos) {
        let slice = self.slice_at(now);
        if self.is_ours.get(slice) == Some(&true) && (now - self.go) % self.slice_ns >= self.guard_ns {
            self.committed[slice] += 1;
        }
    }

    /// Committed transactions by slice.
    pub(crate) fn into_committed(self) -> Vec<u64> {
        self.committed
    }

    fn slice_at(&self, now: Nanos) -> usize {
        (now.saturating_sub(self.go) / self.slice_ns) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(slices: &str) -> LoadSpec {
        let turns = Turns { slice_ns: 100, guard_ns: 10, slices: slices.into() };
        LoadSpec { turns: Some(turns), ..LoadSpec::default() }
    }

    #[test]
    fn turns_come_on_time_and_end() {
        let clock = TurnClock::new(&load("0110"), 1000).unwrap().unwrap();
        for (now, expected) in [
            (1000, Some(1100)),
            (1099, Some(1100)),
            (1100, None),
            (1299, None),
            (1300, Some(Nanos::MAX)),
            (9999, Some(Nanos::MAX)),
        ] {
            assert_eq!(clock.waits_until(now), expected, "{now}");
        }
    }

    #[test]
    fn commits_in_a_guard_or_in_the_other_load_s_turn_do_not_count() {
        let mut clock = TurnClock::new(&load("0101"), 1000).unwrap().unwrap();
        for now in [1050, 1105, 1110, 1199, 1200, 1250, 1310, 1400] {
            clock.count(now);
        }
        assert_eq!(clock.into_committed(), [0, 2, 0, 1]);
    }

    #[test]
    fn invalid_turns_are_refused() {
        let with = |change: fn(&mut LoadSpec)| {
            let mut load = load("01");
            change(&mut load);
            TurnClock::new(&load, 0).unwrap_err()
        };
        assert!(with(|load| load.pace = "100/s".parse().unwrap()).contains("closed loop"));
        assert!(with(|load| load.turns.as_mut().unwrap().guard_ns = 100).contains("leaves nothing"));
        assert!(with(|load| load.turns.as_mut().unwrap().slices = "0x".into()).contains("`x`"));
        assert!(TurnClock::new(&LoadSpec::default(), 0).unwrap().is_none());
    }
}
