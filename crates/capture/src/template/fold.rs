//! Tandem repeats of a sequence as loops, the longest first.

/// Longest body of a loop.
pub const PERIOD_MAX: usize = 32;
/// Most loops of a sequence; what repeats beyond them is left as it is, which bounds the work.
const LOOPS_MAX: usize = 64;

/// A part of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First item.
    pub start: usize,
    /// Items of one round.
    pub len: usize,
    /// Rounds; 1 is no loop.
    pub rounds: usize,
}

/// A sequence as segments one after the other.
pub fn fold(sequence: &[u32]) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut n_loops = 0;
    fold_into(sequence, 0..sequence.len(), &mut n_loops, &mut found);
    found
}

fn fold_into(sequence: &[u32], range: std::ops::Range<usize>, n_loops: &mut usize, found: &mut Vec<Segment>) {
    if range.is_empty() {
        return;
    }
    let best = if *n_loops < LOOPS_MAX { longest(&sequence[range.clone()]) } else { None };
    let Some(best) = best else {
        found.push(Segment { start: range.start, len: range.len(), rounds: 1 });
        return;
    };
    *n_loops += 1;
    let start = range.start + best.start;
    let end = start + best.len * best.rounds;
    fold_into(sequence, range.start..start, n_loops, found);
    found.push(Segment { start, ..best });
    fold_into(sequence, end..range.end, n_loops, found);
}

/// The repeat that covers most; of several, the one with the shortest body, then the first.
fn longest(sequence: &[u32]) -> Option<Segment> {
    let mut best: Option<Segment> = None;
    for period in 1..=PERIOD_MAX.min(sequence.len() / 2) {
        let mut n_same = 0;
        for at in period..=sequence.len() {
            if at < sequence.len() && sequence[at] == sequence[at - period] {
                n_same += 1;
                continue;
            }
            let rounds = n_same / period + 1;
            let covered = rounds * period;
            if rounds > 1 && best.is_none_or(|best| covered > best.len * best.rounds) {
                best = Some(Segment { start: at - n_same - period, len: period, rounds });
            }
            n_same = 0;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let sequence: Vec<u32> = text.bytes().map(u32::from).collect();
        let found = fold(&sequence);
        let shown: String = found
            .iter()
            .map(|segment| {
                let body = &text[segment.start..segment.start + segment.len];
                if segment.rounds == 1 { body.to_string() } else { format!("({body}){}", segment.rounds) }
            })
            .collect();
        assert_eq!(shown, expected, "{text}");
        let covered: usize = found.iter().map(|segment| segment.len * segment.rounds).sum();
        assert_eq!(covered, text.len());
    }

    #[test]
    fn repeats_become_loops_the_longest_first() {
        check("", "");
        check("abc", "abc");
        check("aaaa", "(a)4");
        check("bxyxyxyc", "b(xy)3c");
        check("aabaab", "(aab)2");
        check("abcdabcdabcdxx", "(abcd)3(x)2");
        // What is left of a last round that is not whole stays behind.
        check("xyzxyzx", "(xyz)2x");
    }

    #[test]
    fn long_and_hostile_sequences_are_folded_in_time() {
        let same = vec![7; 100_000];
        assert_eq!(fold(&same), [Segment { start: 0, len: 1, rounds: 100_000 }]);
        let pairs: Vec<u32> = (0..20_000).flat_map(|n| [n, n]).collect();
        let found = fold(&pairs);
        assert_eq!(found.iter().map(|segment| segment.len * segment.rounds).sum::<usize>(), pairs.len());
        assert!(found.len() <= 2 * LOOPS_MAX + 1);
    }
}
