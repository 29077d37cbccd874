//! Rows of a directory's tables: those that are tried before all are loaded, and all of them, made in a thread ahead of the session that
//! sends them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use generator::TableRows;

use crate::streams::{CopyRows, PIECE_BYTES};

/// Values that could not be made, in words.
pub(super) type Faults = Arc<Mutex<Vec<String>>>;

/// Pieces of COPY data that wait to be sent.
const PIECES_MAX: usize = 2;

/// Rows that a thread makes, which begins with the first call; adds them to `count`. A fault ends them.
pub(super) fn ahead(rows: TableRows, count: Arc<AtomicU64>, faults: Faults) -> CopyRows {
    let mut waiting = Some(rows);
    let mut made: Option<Receiver<(Vec<u8>, usize)>> = None;
    let told = faults.clone();
    Box::new(move |out, _| {
        if let Some(rows) = waiting.take() {
            made = Some(make(rows, faults.clone()));
        }
        match made.as_ref().map(Receiver::recv) {
            Some(Ok((piece, n_rows))) => {
                out.extend_from_slice(&piece);
                count.fetch_add(n_rows as u64, Ordering::Relaxed);
                n_rows
            }
            // The last piece has no rows: after it nobody asks.
            Some(Err(_)) | None => {
                let why = "the thread that makes rows ended before the last one".to_string();
                told.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                0
            }
        }
    })
}

fn make(mut rows: TableRows, faults: Faults) -> Receiver<(Vec<u8>, usize)> {
    let (send, made) = sync_channel(PIECES_MAX);
    thread::spawn(move || {
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let n_rows = rows.fill(&mut piece, PIECE_BYTES);
            if let Some(fault) = rows.fault() {
                faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault.to_string());
            }
            // Nobody takes it if the session was lost.
            if send.send((piece, n_rows)).is_err() || n_rows == 0 {
                return;
            }
        }
    });
    made
}

/// How many of each.
const EACH: u64 = 333;

/// Ranges of row numbers in order, about a thousand rows together, none twice.
pub(super) fn samples(n_rows: u64) -> Vec<Range<u64>> {
    let mut chosen: BTreeSet<u64> = (0..n_rows.min(EACH + 1)).collect();
    chosen.extend(n_rows.saturating_sub(EACH)..n_rows);
    if n_rows > 0 {
        // Any even spread will do, and the same each time: multiples of the golden ratio (Knuth, volume 3, 6.4).
        let drawn = (1..=EACH).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        chosen.extend(drawn.map(|word| ((u128::from(word) * u128::from(n_rows)) >> 64) as u64));
    }
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for row in chosen {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_last_and_drawn_rows_are_tried_once() {
        for n_rows in [0, 1, 5, 334, 700, 1_000, 1_000_000, u64::MAX] {
            let ranges = samples(n_rows);
            let n: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert!(n <= n_rows.min(1_000) && n >= n_rows.min(660), "{n_rows}: {n}");
            assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{n_rows}");
            assert_eq!(ranges.first().map_or(0, |range| range.start), 0);
            assert_eq!(ranges.last().map_or(0, |range| range.end), n_rows);
        }
    }
}
