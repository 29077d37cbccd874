//! Clocks of other machines against ours: pings, of which the shortest round trip decides (Cristian 1989).

use model::load::hello::Pong;
use model::run::driver::ClockOffset;

/// Pings before the load: the shortest of 150 round trips is a hundredth of the longest.
pub(crate) const PINGS: u32 = 150;

/// The best answer so far to the pings of one driver.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pings {
    best: Option<(u64, i64)>,
    n: u32,
    wall_less_line_ns: Option<i64>,
}

impl Pings {
    /// Forgets how long the way was and how the clocks were; where the wall clock was last stays.
    pub(crate) fn begin_again(&mut self) {
        *self = Pings { wall_less_line_ns: self.wall_less_line_ns, ..Pings::default() };
    }

    /// Takes in an answer; the ping's number is the time at which it was sent, nanoseconds since the Unix epoch.
    pub(crate) fn add(&mut self, pong: Pong, arrived_unix_ns: u64) {
        // A clock that was set back between the two tells nothing.
        let Some(round_trip_ns) = arrived_unix_ns.checked_sub(pong.id) else { return };
        let middle = pong.id + round_trip_ns / 2;
        self.n += 1;
        self.wall_less_line_ns = Some(difference(pong.wall_unix_ns, pong.unix_ns));
        if self.best.is_none_or(|(best, _)| round_trip_ns < best) {
            self.best = Some((round_trip_ns, difference(pong.unix_ns, middle)));
        }
    }

    /// The offset of the driver's time line, if it has answered.
    pub(crate) fn offset(&self) -> Option<ClockOffset> {
        let (round_trip_ns, offset_ns) = self.best?;
        Some(ClockOffset { offset_ns, bound_ns: round_trip_ns.div_ceil(2), n_pings: self.n })
    }

    /// How far its wall clock has left its time line, nanoseconds.
    pub(crate) fn wall_less_line_ns(&self) -> i64 {
        self.wall_less_line_ns.unwrap_or(0)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    (i128::from(a) - i128::from(b)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// A time of our clock on the driver's time line, or the other way round with the negative offset.
pub(crate) fn shifted(unix_ns: u64, offset_ns: i64) -> u64 {
    (i128::from(unix_ns) + i128::from(offset_ns)).clamp(0, u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_decides() {
        let mut pings = Pings::default();
        assert_eq!(pings.offset(), None);
        let pong = |sent: u64, at: u64| Pong { id: sent, unix_ns: at, wall_unix_ns: at + 7 };
        pings.add(pong(1_000, 6_100), 1_900);
        pings.add(pong(2_000, 7_050), 2_100);
        pings.add(pong(3_000, 9_000), 3_500);
        // Its own clock was set back: no answer to learn from.
        pings.add(pong(9_000, 9_000), 8_000);
        let expected = ClockOffset { offset_ns: 5_000, bound_ns: 50, n_pings: 3 };
        assert_eq!((pings.offset(), pings.wall_less_line_ns()), (Some(expected), 7));
        assert_eq!((shifted(10, -20), shifted(10, 20)), (0, 30));
        pings.begin_again();
        assert_eq!((pings.offset(), pings.wall_less_line_ns()), (None, 7));
    }
}
