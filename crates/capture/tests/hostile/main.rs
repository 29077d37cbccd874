//! Random bytes and mutated logs: they are read or refused, never panic, and take no more memory than the bounds.
//!
//! One test alone, because it counts the memory of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use capture::log::{
    ExecutedStatement, LogFile, LoggedSession, ReadOptions, SessionId, SkipReason, StatementSink,
};

/// Memory in use, and the most that there was.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts and drops.
#[derive(Default)]
struct Dropped(u64);

impl StatementSink for Dropped {
    fn session_began(&mut self, _: SessionId, _: &LoggedSession) {}
    fn session_ended(&mut self, _: SessionId, _: &LoggedSession) {}
    fn executed(&mut self, _: ExecutedStatement) {
        self.0 += 1;
    }
}

/// Numbers for mutations (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

const SEEDS: &[&str] = &[
    "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"BIND\",2026-11-29 19:34:40 UTC,3/4,77,LOG,00000,\
     \"duration: 0.250 ms  execute S_1: select \"\"a\"\", $1\",\"Parameters: $1 = 'it''s', $2 = NULL\",,,,,,,,\"app\",\"client backend\",,-5\n",
    "{\"timestamp\":\"2026-11-29 19:34:40.613 UTC\",\"pid\":7,\"session_id\":\"6b0c7e50.7\",\"error_severity\":\"LOG\",\
     \"message\":\"duration: 1.500 ms  statement: select 1; select '\\u00e9'\"}\n",
    "{\"textPayload\":\"[7]: [1-1] db=shop,user=shop LOG:  duration: 1.500 ms  statement: select 1,\\n\\t2\",\"timestamp\":\"2026-11-29T19:34:40.613Z\"}\n",
    "[\n{\n\"message\": \"2026-11-29 19:34:40 UTC:10.0.0.1(4):a@b:[7]:LOG:  duration: 1.5 ms  statement: a\"\n}\n]\n",
    "2026-11-29 20:34:40.613 CET [7] shop@shop LOG:  statement: execute p(1, 'a')\n2026-11-29 20:34:40.613 CET [7] shop@shop DETAIL:  prepare: prepare p as select $1\n\
     2026-11-29 20:34:40.613 CET [7] shop@shop ERROR:  division by zero\n2026-11-29 20:34:40.613 CET [7] shop@shop STATEMENT:  execute p(1, 'a')\n",
    "Nov 29 19:34:40 db1 postgres[7]: [3-1] user=shop,db=shop LOG:  duration: 1.500 ms  statement: select 1,\nNov 29 19:34:40 db1 postgres[7]: [3-2] #0112\n",
    "2020-06-21 22:37:10 UTC-5eefe116.22f4-LOG:  duration: 0.1 ms  parse <unnamed>: a\n\tb\n",
];

const PIECES: &[&[u8]] = &[
    b"\"",
    b"\n",
    b"'",
    b"\\",
    b"{",
    b"}",
    b",",
    b"\t",
    b"\0",
    b"\xff\xfe",
    b"$1 = ",
    b"NULL",
    b"LOG:  ",
    b"STATEMENT:  ",
    b"duration: 99999999999999999999.999 ms",
    b"duration: 0.001 ms",
    b"9223372036854775807",
    b"-1",
    b"$$",
    b"/*",
    b";",
    b"begin atomic",
    b"9999-12-31 23:59:60 UTC",
    b"0000-01-01 00:00:00 +99",
    b"%",
    b"[",
    b"]",
    b"\r\n",
    b"ffffffffffffffff.ffffffff",
    b"4294967296/18446744073709551616",
];

fn mutated(random: &mut Random) -> Vec<u8> {
    let mut log = Vec::new();
    for _ in 0..=random.below(6) {
        log.extend_from_slice(SEEDS[random.below(SEEDS.len())].as_bytes());
    }
    if random.below(3) > 0 {
        let one = SEEDS[random.below(SEEDS.len())].as_bytes();
        log = one.repeat(1 + random.below(4));
    }
    for _ in 0..random.below(12) {
        let at = random.below(log.len());
        match random.below(4) {
            0 => log[at] = random.below(256) as u8,
            1 => drop(log.drain(at..(at + random.below(40)).min(log.len()))),
            2 => {
                let piece = PIECES[random.below(PIECES.len())];
                log.splice(at..at, piece.iter().copied());
            }
            _ => {
                let end = (at + random.below(200)).min(log.len());
                let copied = log[at..end].to_vec();
                log.extend_from_slice(&copied);
            }
        }
        if log.is_empty() {
            log.push(b'x');
        }
    }
    log
}

/// Reads a log; whatever it is, the counts add up.
fn read(
    bytes: Box<dyn Read>,
    options: &ReadOptions,
) -> Result<(u64, capture::log::LogReading), anyhow::Error> {
    let mut dropped = Dropped::default();
    let file = LogFile { name: "a".to_string(), bytes };
    let reading = capture::log::read([file], options, &mut dropped)?;
    assert_eq!(reading.records, reading.counts.sum() + reading.records_skipped(), "{reading:?}");
    Ok((dropped.0, reading))
}

/// The same bytes again and again, without holding them.
struct Endless {
    piece: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, place: &mut [u8]) -> std::io::Result<usize> {
        let n = place.len().min(self.left).min(self.piece.len() - self.at);
        place[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at = (self.at + n) % self.piece.len();
        self.left -= n;
        Ok(n)
    }
}

/// A log whose sessions are all new and stay open.
struct ManySessions {
    next: u64,
    line: Cursor<Vec<u8>>,
    filling: usize,
}

impl Read for ManySessions {
    fn read(&mut self, place: &mut [u8]) -> std::io::Result<usize> {
        let n = self.line.read(place)?;
        if n > 0 || self.next == 0 {
            return Ok(n);
        }
        self.next -= 1;
        let id = 0x7000_0000 - self.next;
        let text = "x".repeat(self.filling);
        let line = format!(
            "2026-11-29 19:34:40.613 UTC|a|b|{id:x}.{:x}|LOG:  statement: select '{text}'\n",
            self.next % 30_000 + 1
        );
        self.line = Cursor::new(line.into_bytes());
        self.line.read(place)
    }
}

#[track_caller]
fn most_of(what: &str, mib_max: usize, step: impl FnOnce()) {
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    step();
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most <= mib_max << 20, "{what}: {} MiB", most >> 20);
}

#[test]
fn hostile_logs_are_read_or_refused_within_bounds() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut n_read = 0;
    most_of("mutated logs", 16, || {
        for n in 0..3000 {
            let log = if n % 10 == 0 {
                (0..random.below(3000)).map(|_| random.below(256) as u8).collect()
            } else {
                mutated(&mut random)
            };
            n_read += u64::from(read(Box::new(Cursor::new(log)), &ReadOptions::default()).is_ok());
        }
    });
    assert!(n_read > 500, "only {n_read} were logs");

    let prefix = b"2026-11-29 20:34:40.613 CET [7] shop@shop LOG:  duration: 0.010 ms  statement: ";
    most_of("a line of 200 MB", 80, || {
        let head = [prefix.as_slice(), b"select 1\n", prefix].concat();
        let long = Endless { piece: vec![b'y'; 1 << 16], at: 0, left: 200 << 20 };
        let tail = [b"\n", prefix.as_slice(), b"select 2\n"].concat();
        let log = Cursor::new(head).chain(long).chain(Cursor::new(tail));
        let (n, reading) = read(Box::new(log), &ReadOptions::default()).unwrap();
        assert_eq!((n, reading.skipped(SkipReason::TooLong)), (2, 1));
    });
    most_of("a message of 200 MB in short lines", 80, || {
        let head = [prefix.as_slice(), b"select 1\n", prefix, b"a\n"].concat();
        let long =
            Endless { piece: [&b"\t"[..], &[b'y'; 1000], b"\n"].concat(), at: 0, left: 200_400 * 1002 };
        let tail = [prefix.as_slice(), b"select 2\n"].concat();
        let log = Cursor::new(head).chain(long).chain(Cursor::new(tail));
        let (n, reading) = read(Box::new(log), &ReadOptions::default()).unwrap();
        assert_eq!((n, reading.skipped(SkipReason::TooLong)), (2, 1));
    });
    most_of("a csvlog whose quote is never closed", 80, || {
        let record = SEEDS[0].as_bytes();
        let open = &record[..record.len() - 60];
        let log = Cursor::new([record, open].concat()).chain(Endless {
            piece: b"and more text without quotes\n".to_vec(),
            at: 0,
            left: 100 << 20,
        });
        let (n, _) = read(Box::new(log), &ReadOptions::default()).unwrap();
        assert_eq!(n, 1);
    });
    most_of("a million sessions that stay open", 200, || {
        let log = ManySessions { next: 1_000_000, line: Cursor::default(), filling: 1 };
        let (n, reading) = read(Box::new(log), &ReadOptions::default()).unwrap();
        assert_eq!((n, reading.forgotten_sessions > 0), (1_000_000, true));
    });
    most_of("sessions that hold long texts", 700, || {
        let log = ManySessions { next: 4000, line: Cursor::default(), filling: 1 << 18 };
        let (n, reading) = read(Box::new(log), &ReadOptions::default()).unwrap();
        assert_eq!((n, reading.forgotten_sessions > 0), (4000, true));
    });
}
