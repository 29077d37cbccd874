//! Which parts of the statement are slow, and how much time the increases of each part cover.
//!
//! Pure. The cost of some parts grows with what the server keeps. A slow one runs once a minute instead of each tick, so its counters
//! grow by a minute's worth in one tick.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::gather::Gather;

/// A part that takes the server longer than this is slow: 10 ms a second are 1 % of a processor.
const PART_LIMIT: Duration = Duration::from_millis(10);

/// Whether a part is slow whose answer `took` so long where the shortest answer takes `round_trip`.
pub(crate) fn is_slow(took: Duration, round_trip: Duration) -> bool {
    took.saturating_sub(round_trip) > PART_LIMIT
}

/// When each part was read last, by its name.
#[derive(Debug, Default)]
pub(crate) struct Spans(HashMap<&'static str, Read>);

#[derive(Debug, Clone, Copy)]
struct Read {
    at: Instant,
    /// Since the reading before; `None` for the first one.
    span: Option<Duration>,
}

impl Spans {
    /// Notes that these parts were read, and adds the spans of those that were not part of the tick before.
    pub(crate) fn put(
        &mut self,
        parts: &[&'static str],
        at: Instant,
        last_tick: Option<Instant>,
        gather: &mut Gather,
    ) {
        for &part in parts {
            let before = self.0.get(part).map(|read| read.at);
            let span = before.map(|before| at.saturating_duration_since(before));
            self.0.insert(part, Read { at, span });
            if let Some(span) = span
                && before < last_tick
            {
                gather.put("server.slow_span", part, span.as_secs_f64());
            }
        }
    }

    /// The seconds that the last increases of a part cover.
    pub(crate) fn span_s(&self, part: &str) -> Option<f64> {
        Some(self.0.get(part)?.span?.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn a_part_is_slow_by_what_the_server_does_and_not_by_the_way_to_it() {
        let ms = Duration::from_millis;
        for (took, round_trip, expected) in
            [(60, 55, false), (60, 1, true), (9, 0, false), (11, 0, true), (1, 2, false)]
        {
            assert_eq!(is_slow(ms(took), ms(round_trip)), expected, "{took} {round_trip}");
        }
    }

    #[test]
    fn a_part_that_was_not_in_the_tick_before_says_what_time_its_increases_cover() {
        let (mut spans, mut gather) = (Spans::default(), Gather::new(Backwards::Reset));
        let begin = Instant::now();
        let mut last = None;
        let mut read = |s: u64, parts: &[&'static str]| {
            let at = begin + Duration::from_secs(s);
            spans.put(parts, at, last.replace(at), &mut gather);
            (spans.span_s("database.autovacuums"), gather.take().0.into_iter().collect::<Vec<_>>())
        };
        let both = ["database.hot_updates", "database.autovacuums"];
        assert_eq!(read(0, &both), (None, vec![]));
        assert_eq!(read(1, &both), (Some(1.0), vec![]));
        assert_eq!(read(2, &both[..1]), (Some(1.0), vec![]));
        let slow = ("server.slow_span[database.autovacuums]".to_string(), 40.0);
        assert_eq!(read(41, &both), (Some(40.0), vec![slow]));
    }
}
