//! Clients for sessions: sessions that follow each other share one, so that a replay needs no more connections than there were at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::transaction::CutTransaction;

/// The clients of transactions.
pub(super) struct Lanes {
    /// The client of each transaction.
    pub(super) of: Vec<u32>,
    pub(super) n: u32,
    pub(super) n_sessions: u32,
    /// Most transactions of a client.
    pub(super) n_each_max: u32,
}

/// The clients of transactions that are in the order of their beginnings.
pub(super) fn lanes(transactions: &[CutTransaction]) -> Lanes {
    let mut spans: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for one in transactions {
        let span = spans.entry(one.session).or_insert((one.began_us(), one.ended_us()));
        *span = (span.0.min(one.began_us()), span.1.max(one.ended_us()));
    }
    let mut order: Vec<(i64, i64, u32)> =
        spans.iter().map(|(session, (from, to))| (*from, *to, *session)).collect();
    order.sort_unstable();
    let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
    let (mut n, mut lane_of) = (0, BTreeMap::new());
    for (from, to, session) in order {
        let free = busy.peek().filter(|Reverse((end, _))| *end < from).map(|Reverse((_, lane))| *lane);
        let lane = match free {
            Some(lane) => {
                busy.pop();
                lane
            }
            None => {
                n += 1;
                n - 1
            }
        };
        busy.push(Reverse((to, lane)));
        lane_of.insert(session, lane);
    }
    let of: Vec<u32> = transactions.iter().map(|one| lane_of[&one.session]).collect();
    let mut counts = vec![0u32; n as usize];
    of.iter().for_each(|lane| counts[*lane as usize] += 1);
    Lanes { of, n, n_sessions: spans.len() as u32, n_each_max: counts.into_iter().max().unwrap_or(0) }
}
