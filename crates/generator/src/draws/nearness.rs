//! Keys that were not captured, for accesses that a sample of them cannot have seen.
//!
//! What a sample has not seen resembles what it has seen once (I. J. Good, "The population frequencies of species and the
//! estimation of population parameters", Biometrika 40, 1953). So a key that was captured once stays the neighbour of the new one,
//! and in place of one that was captured more often stands any that was captured once.

use crate::draws::DrawnColumn;
use crate::random::Draws;

/// The distinct values of a column, and the room between them.
pub(crate) struct Nearness {
    least: i64,
    most: i64,
    /// In ascending order.
    distinct: Vec<i64>,
    /// Of each row: the place of its value there.
    places: Vec<u32>,
    /// Places of values that stand in one row.
    once: Vec<u32>,
    is_once: Vec<bool>,
    /// Of each place: the nearest one with room next to it. Empty if there is no room at all.
    with_room: Vec<u32>,
}

impl Nearness {
    /// The room for ints from `least` to `most` between the values of a column.
    pub(crate) fn new(column: &DrawnColumn, n_rows: u32, least: i64, most: i64) -> Nearness {
        let mut distinct: Vec<i64> = column.words().map(|(_, word)| word).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut counts = vec![0u32; distinct.len()];
        let mut places = vec![0; n_rows as usize];
        for (row, word) in column.words() {
            let place = distinct.partition_point(|other| *other < word);
            counts[place] += 1;
            places[row as usize] = place as u32;
        }
        let once = (0u32..).zip(&counts).filter(|(_, count)| **count == 1).map(|(place, _)| place).collect();
        let is_once = counts.iter().map(|count| *count == 1).collect();
        let mut nearness = Nearness { least, most, distinct, places, once, is_once, with_room: Vec::new() };
        nearness.with_room = nearness.nearest_with_room();
        nearness
    }

    /// A value that is in no row, near that of a row; if there is none, another one that is.
    #[inline]
    pub(crate) fn draw(&self, row: u32, draws: &mut Draws) -> Option<i64> {
        let mut place = *self.places.get(row as usize)?;
        if !*self.is_once.get(place as usize)? && !self.once.is_empty() {
            place = self.once[draws.below(self.once.len() as u64) as usize];
        }
        let Some(place) = self.with_room.get(place as usize) else {
            // All values were captured, so that a new one cannot be.
            return self.distinct.get(draws.below(self.distinct.len() as u64) as usize).copied();
        };
        let (below, above) = self.room(*place as usize);
        let at = draws.below(below.1 + above.1);
        Some(if at < below.1 {
            below.0.wrapping_add_unsigned(at)
        } else {
            above.0.wrapping_add_unsigned(at - below.1)
        })
    }

    /// The free values before and after one: the first, and how many there are.
    fn room(&self, place: usize) -> ((i64, u64), (i64, u64)) {
        let value = self.distinct[place];
        let before = place.checked_sub(1).map(|before| self.distinct[before].saturating_add(1));
        let after = self.distinct.get(place + 1).map(|after| after.saturating_sub(1));
        let low = before.unwrap_or(i64::MIN).max(self.least);
        let high = after.unwrap_or(i64::MAX).min(self.most);
        let below_last = value.saturating_sub(1).min(self.most);
        let above_first = value.saturating_add(1).max(self.least);
        // The sum of both fits.
        let count = |first: i64, last: i64| {
            (i128::from(last) - i128::from(first) + 1).min(i128::from(u64::MAX / 2)).max(0) as u64
        };
        ((low, count(low, below_last)), (above_first, count(above_first, high)))
    }

    fn nearest_with_room(&self) -> Vec<u32> {
        let n = self.distinct.len();
        let has_room = |place: &usize| {
            let (below, above) = self.room(*place);
            below.1 + above.1 > 0
        };
        let roomy: Vec<usize> = (0..n).filter(has_room).collect();
        if roomy.is_empty() {
            return Vec::new();
        }
        let nearest = |place: usize| {
            let after = roomy.partition_point(|other| *other < place).min(roomy.len() - 1);
            let before = after.saturating_sub(1);
            let far = |at: usize| self.distinct[roomy[at]].abs_diff(self.distinct[place]);
            roomy[if far(before) < far(after) { before } else { after }] as u32
        };
        (0..n).map(nearest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::DrawnValues;
    use crate::value::kind::Type;

    fn nearness(words: &[i64], least: i64, most: i64) -> Nearness {
        let values = DrawnValues::Words(words.to_vec());
        let column = DrawnColumn { name: "k".to_string(), kind: Type::Int, values, nulls: Vec::new() };
        Nearness::new(&column, words.len() as u32, least, most)
    }

    fn drawn(nearness: &Nearness, row: u32) -> Vec<i64> {
        let mut draws = Draws { state: 7 };
        let mut found: Vec<i64> = (0..2000).filter_map(|_| nearness.draw(row, &mut draws)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn a_key_that_was_not_captured_lies_between_the_neighbours_of_one_that_was_captured_once() {
        let near = nearness(&[10, 14, 20, 14], 1, 22);
        assert_eq!(drawn(&near, 0), [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13]);
        assert_eq!(drawn(&near, 2), [15, 16, 17, 18, 19, 21, 22]);
        // 14 was captured twice.
        let of_both = [&drawn(&near, 0)[..], &drawn(&near, 2)[..]].concat();
        assert_eq!(drawn(&near, 1), of_both);
    }

    #[test]
    fn where_there_is_no_room_the_nearest_is_taken() {
        assert_eq!(drawn(&nearness(&[1, 2, 3, 9], 1, 9), 0), [4, 5, 6, 7, 8]);
        assert_eq!(drawn(&nearness(&[1, 2, 3], 1, 3), 1), [1, 2, 3]);
        let whole = nearness(&[0], i64::MIN, i64::MAX);
        assert!(drawn(&whole, 0).iter().all(|word| *word != 0));
    }
}
