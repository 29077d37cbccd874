//! What a client carries from transaction to transaction: its draws, and the rows that it has inserted.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use crate::random::{Draws, Zipf, mix};

/// Draws of one client, and the rows that `fresh` and `latest` know of.
#[derive(Clone, Debug, Default)]
pub struct ClientStream {
    pub(in crate::expression) draws: Draws,
    client: u64,
    n_clients: u64,
    /// The rows of each table.
    own: Vec<OwnRows>,
    /// Executions of each transaction whose rows are dealt once.
    dealt: Vec<u64>,
    clock: Clock,
    /// What the clock said in this transaction; 0: it was not asked.
    now_us: i64,
}

/// Tells microseconds since 1970, UTC.
#[derive(Clone, Copy)]
pub struct Clock(pub fn() -> i64);

impl Default for Clock {
    /// A clock that stands still.
    fn default() -> Clock {
        Clock(|| 0)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Most runs of numbers that were named in vain; the oldest are forgotten, with the rows before them.
const GAPS_MAX: usize = 4096;

/// Rows of one table that this client inserts.
#[derive(Clone, Debug, Default)]
struct OwnRows {
    /// Numbers that were named, whatever became of them.
    n_named: u64,
    /// How many of them the transaction at hand has named.
    n_pending: u64,
    /// Numbers before this one are not looked for any more.
    first: u64,
    /// Since `first`, numbers that a transaction named in vain, in their order: a part of it may have been committed, so they are not
    /// named again, and the rows may be missing.
    gaps: VecDeque<Gap>,
    /// Numbers in these gaps.
    n_missing: u64,
    /// The distribution of the last `latest`.
    zipf: Option<Zipf>,
}

/// Numbers that were named in vain, one after the other.
#[derive(Clone, Debug)]
struct Gap {
    numbers: Range<u64>,
    /// Numbers in all gaps before it, also in those that are forgotten.
    n_before: u64,
}

impl Gap {
    /// Numbers in all gaps up to this one.
    fn n_through(&self) -> u64 {
        self.n_before + (self.numbers.end - self.numbers.start)
    }
}

impl OwnRows {
    /// Rows that exist, as far as they are looked for.
    fn n_existing(&self) -> u64 {
        self.n_named - self.n_pending - self.first - self.n_missing
    }

    /// The number of an existing row, of which `n` are older.
    fn existing(&self, n: u64) -> u64 {
        let n_forgotten = self.gaps.front().map_or(0, |gap| gap.n_before);
        let is_older = |gap: &Gap| gap.numbers.start - self.first - (gap.n_before - n_forgotten) <= n;
        let n_older = self.gaps.partition_point(is_older);
        let newest = n_older.checked_sub(1).and_then(|at| self.gaps.get(at));
        self.first + n + newest.map_or(0, |gap| gap.n_through() - n_forgotten)
    }

    fn fail(&mut self) {
        if self.n_pending == 0 {
            return;
        }
        let numbers = self.n_named - self.n_pending..self.n_named;
        self.n_missing += self.n_pending;
        self.n_pending = 0;
        match self.gaps.back_mut() {
            Some(last) if last.numbers.end == numbers.start => last.numbers.end = numbers.end,
            last => {
                let n_before = last.map_or(0, |last| last.n_through());
                self.gaps.push_back(Gap { numbers, n_before });
            }
        }
        if self.gaps.len() > GAPS_MAX
            && let Some(oldest) = self.gaps.pop_front()
        {
            self.first = oldest.numbers.end;
            self.n_missing -= oldest.numbers.end - oldest.numbers.start;
        }
    }
}

impl ClientStream {
    /// The stream of a client, by its number over all drivers, of `n_clients`.
    pub fn new(stream_seed: u64, client: u64, n_clients: u64) -> ClientStream {
        let state = mix(stream_seed ^ mix(client.wrapping_add(1)));
        let draws = Draws { state };
        ClientStream { draws, client, n_clients: n_clients.max(1), ..ClientStream::default() }
    }

    /// The same with a clock, which `now()` reads once in a transaction.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> ClientStream {
        ClientStream { clock, ..self }
    }

    /// A captured row of a transaction that has so many: any, each as likely.
    #[inline]
    pub(crate) fn any_row(&mut self, n_rows: u32) -> u32 {
        self.draws.below(n_rows.into()) as u32
    }

    /// The next row of those that are dealt to this client, and whether it was dealt before: the clients take turns.
    #[inline]
    pub(crate) fn deal(&mut self, transaction: usize, n_rows: u32) -> (u32, bool) {
        if self.dealt.len() <= transaction {
            self.dealt.resize(transaction + 1, 0);
        }
        let n_rows = u64::from(n_rows).max(1);
        let at = self.client.saturating_add(self.n_clients.saturating_mul(self.dealt[transaction]));
        self.dealt[transaction] += 1;
        ((at % n_rows) as u32, at >= n_rows)
    }

    #[inline]
    pub(in crate::expression) fn now_us(&mut self) -> i64 {
        if self.now_us == 0 {
            self.now_us = (self.clock.0)();
        }
        self.now_us
    }

    /// A transaction begins: what the last one named and did not commit is never named again.
    #[inline]
    pub fn begin(&mut self) {
        self.now_us = 0;
        self.own.iter_mut().for_each(OwnRows::fail);
    }

    /// Takes from a copy of this stream what drawing changes within a transaction: gaps and dealt rows change only where one begins.
    #[inline]
    pub(crate) fn copy_drawn(&mut self, other: &ClientStream) {
        (self.draws, self.now_us) = (other.draws, other.now_us);
        self.own.resize_with(other.own.len(), OwnRows::default);
        for (own, of_other) in self.own.iter_mut().zip(&other.own) {
            (own.n_named, own.n_pending, own.zipf) = (of_other.n_named, of_other.n_pending, of_other.zipf);
        }
    }

    /// The transaction has committed: the rows it named exist.
    pub fn committed(&mut self) {
        for own in &mut self.own {
            own.n_pending = 0;
        }
    }

    fn own(&mut self, table: usize) -> &mut OwnRows {
        if self.own.len() <= table {
            self.own.resize(table + 1, OwnRows::default());
        }
        &mut self.own[table]
    }

    /// The number of a row that nobody else names.
    pub(in crate::expression) fn fresh(&mut self, table: usize, n_rows: i64) -> i64 {
        let client = self.client as i64;
        let n_clients = self.n_clients as i64;
        let own = self.own(table);
        let k = own.n_named as i64;
        own.n_named += 1;
        own.n_pending += 1;
        n_rows.saturating_add(client).saturating_add(n_clients.saturating_mul(k))
    }

    /// A row that exists, the newest ones most often: by Zipf over the loaded rows, this client's, and as many of each
    /// other client, which are moved to this client's. None if there is no row.
    pub(in crate::expression) fn latest(
        &mut self,
        table: usize,
        n_rows: i64,
        exponent: f64,
        draws: &mut Draws,
    ) -> Option<i64> {
        let client = self.client as i64;
        let n_clients = self.n_clients as i64;
        let own = self.own(table);
        let n = n_rows.saturating_add(n_clients.saturating_mul(own.n_existing() as i64));
        if n <= 0 {
            return None;
        }
        let zipf = match own.zipf {
            Some(zipf) if zipf.is_of(n as u64, exponent) => zipf,
            _ => *own.zipf.insert(Zipf::new(n as u64, exponent)),
        };
        let row = n - 1 - zipf.draw(draws) as i64;
        if row < n_rows {
            return Some(row);
        }
        let number = own.existing(((row - n_rows) / n_clients) as u64) as i64;
        Some(n_rows + client + number * n_clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of an existing row by a walk over all gaps.
    fn walked(own: &OwnRows, n: u64) -> u64 {
        let mut number = own.first + n;
        for Gap { numbers, .. } in &own.gaps {
            if number < numbers.start {
                break;
            }
            number += numbers.end - numbers.start;
        }
        number
    }

    #[test]
    fn existing_rows_are_found_as_by_a_walk_over_the_gaps() {
        for seed in 0..4 {
            let mut draws = Draws { state: mix(seed) };
            let (mut own, mut committed) = (OwnRows::default(), Vec::new());
            for step in 0..8 * GAPS_MAX {
                let n = draws.below(4);
                own.n_named += n;
                own.n_pending += n;
                // Seeds differ in how many fail: many gaps, of which some are forgotten, or few long ones.
                if draws.below(seed + 2) > 0 {
                    own.fail();
                } else {
                    committed.extend(own.n_named - n..own.n_named);
                    own.n_pending = 0;
                }
                if step > 200 && draws.below(512) > 0 {
                    continue;
                }
                let found = &committed[committed.partition_point(|number| *number < own.first)..];
                assert_eq!(own.n_existing(), found.len() as u64, "seed {seed}");
                let some = (0..found.len()).step_by(1 + found.len() / 50).chain(found.len().checked_sub(1));
                for at in some {
                    let n = at as u64;
                    assert_eq!(own.existing(n), walked(&own, n), "seed {seed}, {n}");
                    assert_eq!(own.existing(n), found[at], "seed {seed}, {n}");
                }
            }
            assert_eq!(own.first > 0, seed < 3, "seed {seed} forgets gaps or not");
        }
    }
}
