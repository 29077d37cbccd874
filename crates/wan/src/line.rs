//! The delay line of one direction: what was received and is not yet due, in order. Times come in as arguments.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Most bytes that a line holds.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of a piece.
pub(crate) const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Least size of the largest piece: of a slow way, a piece takes longer than [`PIECE_TIME`].
const PIECE_BYTES_MIN: u64 = 512;
/// Time that the largest piece of a way with a rate takes, so that what follows it is not held up for long.
const PIECE_TIME: Duration = Duration::from_millis(5);
/// What a piece counts besides its bytes: a peer that sends them one by one does not take more memory.
const PIECE_OVERHEAD_BYTES: u64 = 64;

/// One direction between two servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OneWay {
    /// Time that each byte takes.
    pub delay: Duration,
    /// Bytes per second; `None`: as many as the machine copies.
    pub rate: Option<NonZeroU64>,
}

impl OneWay {
    /// Each direction of a way there and back that takes this long.
    pub fn from_round_trip(round_trip: Duration, rate: Option<NonZeroU64>) -> OneWay {
        OneWay { delay: round_trip / 2, rate }
    }

    /// Time that the way is taken by so many bytes.
    fn taken(self, bytes: u64) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate.get() as f64))
    }

    /// Bytes that pass in this time.
    fn passing(self, rate: NonZeroU64, time: Duration) -> u64 {
        (rate.get() as f64 * time.as_secs_f64()) as u64
    }

    fn piece_bytes_max(self) -> u64 {
        let bytes = self.rate.map_or(PIECE_BYTES_MAX, |rate| self.passing(rate, PIECE_TIME));
        bytes.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// What is on the way at its rate, a piece that is sent and one that follows; at most [`HELD_BYTES_MAX`].
    fn held_bytes_max(self) -> u64 {
        let piece = self.piece_bytes_max() + PIECE_OVERHEAD_BYTES;
        let full = |rate| self.passing(rate, self.delay).saturating_add(2 * piece);
        self.rate.map_or(HELD_BYTES_MAX, full).min(HELD_BYTES_MAX)
    }
}

/// What was received at once; without bytes, the end of all.
#[derive(Debug)]
pub(crate) struct HeldPiece {
    bytes: Vec<u8>,
    n_sent: usize,
    /// When it was received.
    pub(crate) received: Instant,
    /// When it arrives at the other end.
    pub(crate) due: Instant,
    /// How often the switch had been turned when it was received.
    pub(crate) n_turns: u64,
}

impl HeldPiece {
    /// Bytes that are not yet sent.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.n_sent..]
    }

    /// Whether it says that nothing follows.
    pub(crate) fn is_end(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A delay line.
#[derive(Debug)]
pub(crate) struct DelayLine {
    way: OneWay,
    pieces: VecDeque<HeldPiece>,
    /// Bytes of all pieces, and [`PIECE_OVERHEAD_BYTES`] for each.
    held_bytes: u64,
    /// When the last piece has left; the next one leaves after it.
    free_at: Option<Instant>,
    /// Since when one piece has followed another, each of which the rate held up behind the one before.
    busy_since: Option<Instant>,
}

impl DelayLine {
    pub(crate) fn new(way: OneWay) -> DelayLine {
        DelayLine { way, pieces: VecDeque::new(), held_bytes: 0, free_at: None, busy_since: None }
    }

    /// Changes the way of what follows.
    pub(crate) fn set_way(&mut self, way: OneWay) {
        if self.way.rate != way.rate {
            self.busy_since = None;
        }
        self.way = way;
    }

    /// How long the rate has made one piece wait for another without a pause, with the one that was pushed last.
    pub(crate) fn busy(&self) -> Duration {
        match (self.way.rate, self.free_at, self.busy_since) {
            (Some(_), Some(free_at), Some(since)) => free_at - since,
            _ => Duration::ZERO,
        }
    }

    /// Most bytes that the next piece may have; 0 while the line is full.
    pub(crate) fn room(&self) -> usize {
        let free = self.way.held_bytes_max().saturating_sub(self.held_bytes);
        free.saturating_sub(PIECE_OVERHEAD_BYTES).min(self.way.piece_bytes_max()) as usize
    }

    /// The piece that is due first.
    pub(crate) fn first(&self) -> Option<&HeldPiece> {
        self.pieces.front()
    }

    /// Takes what was received now; nothing stands for the end.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Instant, n_turns: u64) {
        let leaves = self.free_at.map_or(now, |free_at| free_at.max(now));
        let is_held_up = leaves > now;
        self.busy_since = if is_held_up { self.busy_since.or(Some(now)) } else { Some(now) };
        let free_at = leaves + self.way.taken(bytes.len() as u64);
        self.free_at = Some(free_at);
        self.held_bytes += bytes.len() as u64 + PIECE_OVERHEAD_BYTES;
        self.pieces.push_back(HeldPiece {
            bytes: bytes.to_vec(),
            n_sent: 0,
            received: now,
            due: free_at + self.way.delay,
            n_turns,
        });
    }

    /// So many bytes of the first piece are sent.
    pub(crate) fn sent(&mut self, n: usize) {
        let Some(piece) = self.pieces.front_mut() else { return };
        piece.n_sent += n;
        if piece.rest().is_empty() {
            self.held_bytes -= piece.bytes.len() as u64 + PIECE_OVERHEAD_BYTES;
            self.pieces.pop_front();
        }
    }

    /// Throws all away, and returns how many bytes were not yet sent.
    pub(crate) fn clear(&mut self) -> u64 {
        let bytes = self.pieces.iter().map(|piece| piece.rest().len() as u64).sum();
        self.pieces.clear();
        self.held_bytes = 0;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(delay_ms: u64, rate: u64) -> DelayLine {
        DelayLine::new(OneWay { delay: Duration::from_millis(delay_ms), rate: NonZeroU64::new(rate) })
    }

    #[test]
    fn each_piece_is_due_after_the_delay_and_after_those_before_it() {
        let begin = Instant::now();
        let ms = |ms| begin + Duration::from_millis(ms);
        let dues = |line: &DelayLine| line.pieces.iter().map(|piece| piece.due).collect::<Vec<_>>();

        let mut unlimited = line(5, 0);
        unlimited.push(&[0; 1000], begin, 0);
        unlimited.push(&[0; 1000], ms(1), 0);
        assert_eq!(dues(&unlimited), [ms(5), ms(6)]);

        // 1,000 bytes take 10 ms; a pause is not made up for.
        let mut limited = line(5, 100_000);
        limited.push(&[0; 1000], begin, 0);
        limited.push(&[0; 1000], ms(1), 0);
        limited.push(&[], ms(1), 0);
        limited.push(&[0; 100], ms(100), 0);
        assert_eq!(dues(&limited), [ms(15), ms(25), ms(25), ms(106)]);
    }

    #[test]
    fn a_way_is_busy_while_pieces_wait_for_those_before_them() {
        let begin = Instant::now();
        let ms = |ms| begin + Duration::from_millis(ms);
        // 1,000 bytes take 10 ms.
        let mut limited = line(5, 100_000);
        let mut busy = |bytes: usize, at: u64| {
            limited.push(&vec![0; bytes], ms(at), 0);
            limited.busy().as_millis()
        };
        assert_eq!([busy(1000, 0), busy(1000, 1), busy(500, 19)], [10, 20, 25]);
        assert_eq!([busy(1000, 25), busy(1000, 100)], [10, 10], "after a pause");

        let mut changed = line(0, 100_000);
        changed.push(&[0; 1000], begin, 0);
        changed.set_way(OneWay { delay: Duration::ZERO, rate: NonZeroU64::new(200_000) });
        changed.push(&[0; 1000], ms(1), 0);
        assert_eq!(changed.busy().as_millis(), 14, "with what was on the way of the former rate");
        changed.set_way(OneWay::default());
        changed.push(&[0; 1000], ms(2), 0);
        assert_eq!(changed.busy(), Duration::ZERO, "nothing is held up without a rate");
    }

    #[test]
    fn a_line_is_full_with_what_is_on_the_way() {
        let now = Instant::now();
        let filled = |mut line: DelayLine| {
            let mut bytes = 0;
            while line.room() > 0 {
                let piece = vec![0; line.room()];
                bytes += piece.len() as u64;
                line.push(&piece, now, 0);
            }
            bytes
        };
        // Two pieces of 5 ms, and what is on the way.
        assert!((10_000..=10_200).contains(&filled(line(0, 1_000_000))));
        assert!((108_000..=110_200).contains(&filled(line(100, 1_000_000))));
        let unlimited = filled(line(1000, 0));
        assert!((HELD_BYTES_MAX * 99 / 100..=HELD_BYTES_MAX).contains(&unlimited), "{unlimited}");
        assert_eq!(filled(line(1000, u64::MAX)), unlimited);
    }

    #[test]
    fn a_change_of_the_way_is_for_what_follows() {
        let begin = Instant::now();
        let mut line = line(5, 0);
        line.push(&[0; 1000], begin, 0);
        line.set_way(OneWay { delay: Duration::ZERO, rate: NonZeroU64::new(100_000) });
        line.push(&[0; 1000], begin, 0);
        let dues: Vec<Duration> = line.pieces.iter().map(|piece| piece.due - begin).collect();
        assert_eq!(dues, [Duration::from_millis(5), Duration::from_millis(10)]);
    }

    #[test]
    fn single_bytes_take_no_more_memory() {
        let (now, mut line) = (Instant::now(), line(10, 0));
        let mut n = 0;
        while line.room() > 0 {
            line.push(&[0], now, 0);
            n += 1;
        }
        assert!(n * (PIECE_OVERHEAD_BYTES + 1) <= HELD_BYTES_MAX);
        line.sent(1);
        assert!(line.room() > 0);
    }

    #[test]
    fn what_was_not_sent_is_counted_when_it_is_thrown_away() {
        let (now, mut line) = (Instant::now(), line(1, 0));
        line.push(b"hello", now, 0);
        line.push(b"world", now, 0);
        line.sent(2);
        assert_eq!(line.first().map(HeldPiece::rest), Some(&b"llo"[..]));
        assert_eq!((line.clear(), line.first().is_none()), (8, true));
    }
}
