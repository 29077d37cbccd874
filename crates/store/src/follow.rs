//! Follows the files of a run while another process writes them: what came since the last look, in the order of time.
//!
//! Lines are taken by their time on the run's time line, not by file, so that a reader that comes late needs no more memory than
//! one that was there from the start.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use model::load::interval::Interval;
use model::run::StampedHistogram;
use model::telemetry::event::Event;
use model::telemetry::reading::Tick;

use crate::{hlog, names, parse};

/// Longest line that is accepted; see `load.rs`.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Intervals that are parsed before they are asked for.
const AHEAD_MAX: usize = 10_000;
const NS_PER_S: i64 = 1_000_000_000;

/// The files of one run, and how far they were read.
#[derive(Debug)]
pub struct RunFollow {
    go_unix_ns: u64,
    intervals: Tail<Interval>,
    histograms: Tail<StampedHistogram>,
    ticks: Tail<Tick>,
    events: Tail<Event>,
}

/// Records that came since the last look.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Default)]
pub struct NewRecords {
    pub intervals: Vec<Interval>,
    pub histograms: Vec<StampedHistogram>,
    pub ticks: Vec<Tick>,
    pub events: Vec<Event>,
}

impl RunFollow {
    /// Follows run `run` of the experiment in `path`, whose load began at `go_unix_ns`.
    pub fn new(path: &Path, run: u32, go_unix_ns: u64) -> RunFollow {
        let dir = path.join(names::RUNS).join(names::run_dir(run));
        RunFollow {
            go_unix_ns,
            intervals: Tail::new(&dir, names::INTERVALS, |line| parse::interval(line).ok()),
            histograms: Tail::new(&dir, names::LATENCY, histogram),
            ticks: Tail::new(&dir, names::READINGS, |line| parse::tick(line).ok().map(|read| read.tick)),
            events: Tail::new(&dir, names::EVENTS, |line| parse::record(line).ok()),
        }
    }

    /// Takes what is about the time before second `until_s` of the load. Lines that cannot be read are skipped.
    pub fn take(&mut self, until_s: u32) -> NewRecords {
        let until_ns = i64::from(until_s) * NS_PER_S;
        let go = i128::from(self.go_unix_ns);
        let placed = |t_unix_ns: u64| i64::try_from(i128::from(t_unix_ns) - go).unwrap_or(i64::MAX);
        let second = |t: u32| (i64::from(t) + 1) * NS_PER_S;
        NewRecords {
            intervals: self.intervals.take(|interval| second(interval.t) <= until_ns),
            histograms: self.histograms.take(|one| second(one.t) <= until_ns),
            // A tick that ends with the second may have been read a moment after it.
            ticks: self.ticks.take(|tick| placed(tick.end_unix_ns) <= until_ns + NS_PER_S / 2),
            events: self.events.take(|event| placed(event.t_unix_ns) <= until_ns),
        }
    }

    /// The last second of which there is an interval, as far as intervals were read ahead; its other lines may follow.
    pub fn newest_second(&mut self) -> Option<u32> {
        self.intervals.read_ahead();
        self.intervals.waiting.back().map(|interval| interval.t)
    }
}

/// One file, read line by line up to its current end.
struct Tail<T> {
    path: PathBuf,
    /// Opened when it exists. A file that is compressed and removed can still be read to its end.
    file: Option<File>,
    parse: fn(&[u8]) -> Option<T>,
    /// Bytes that were read and not yet parsed, from `begin` on.
    bytes: Vec<u8>,
    begin: usize,
    /// Values that are parsed and lie after the time that was asked for.
    waiting: VecDeque<T>,
    is_given_up: bool,
}

impl<T> fmt::Debug for Tail<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Tail of {}", self.path.display())
    }
}

impl<T> Tail<T> {
    fn new(dir: &Path, name: &str, parse: fn(&[u8]) -> Option<T>) -> Tail<T> {
        Tail {
            path: dir.join(name),
            file: None,
            parse,
            bytes: Vec::new(),
            begin: 0,
            waiting: VecDeque::new(),
            is_given_up: false,
        }
    }

    fn take(&mut self, is_before: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        loop {
            if self.waiting.is_empty() {
                match self.next() {
                    Some(value) => self.waiting.push_back(value),
                    None => return taken,
                }
            }
            match self.waiting.pop_front_if(|value| is_before(value)) {
                Some(value) => taken.push(value),
                None => return taken,
            }
        }
    }

    fn read_ahead(&mut self) {
        while self.waiting.len() < AHEAD_MAX
            && let Some(value) = self.next()
        {
            self.waiting.push_back(value);
        }
    }

    /// The value of the next whole line that has one.
    fn next(&mut self) -> Option<T> {
        loop {
            let line = self.line()?;
            let value = (self.parse)(&self.bytes[line.clone()]);
            self.begin = line.end + 1;
            if value.is_some() {
                return value;
            }
        }
    }

    /// Where the next whole line stands, without its end.
    fn line(&mut self) -> Option<Range<usize>> {
        let mut searched = self.begin;
        loop {
            if let Some(n) = self.bytes[searched..].iter().position(|byte| *byte == b'\n') {
                return Some(self.begin..searched + n);
            }
            searched = self.bytes.len();
            let n_before = self.begin;
            if !self.read() {
                return None;
            }
            searched -= n_before;
        }
    }

    /// Reads on; what was parsed is dropped. Returns whether anything came.
    fn read(&mut self) -> bool {
        if self.is_given_up {
            return false;
        }
        if self.file.is_none() {
            self.file = files::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return false };
        self.bytes.drain(..self.begin);
        self.begin = 0;
        if self.bytes.len() > LINE_BYTES_MAX {
            self.is_given_up = true;
            return false;
        }
        let n_before = self.bytes.len();
        let is_read = file.take(CHUNK_BYTES as u64).read_to_end(&mut self.bytes).is_ok();
        is_read && self.bytes.len() > n_before
    }
}

fn histogram(line: &[u8]) -> Option<StampedHistogram> {
    hlog::parse_line(std::str::from_utf8(line).ok()?).ok()??.stamped().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;
    use crate::{ExperimentDir, sample};

    #[test]
    fn seconds_are_taken_as_they_are_written_and_none_twice() {
        let root = tempfile::tempdir().unwrap();
        let dir = ExperimentDir::create(&root.path().join("out"), &sample::plan(), "").unwrap();
        let mut follow = RunFollow::new(dir.path(), 1, sample::GO_UNIX_NS);
        assert_eq!(follow.newest_second(), None, "nothing was begun");
        let writer = dir.begin_run(1).unwrap();
        for t in 0..40 {
            let interval = sample::interval(t);
            writer.interval(&interval).unwrap();
            writer.histograms(t, interval.start_unix_ns, interval.length_ns, &sample::histograms()).unwrap();
            writer.tick(&sample::tick(u64::from(t + 1) * 1_000_000_000)).unwrap();
            if t == 20 {
                assert_eq!(follow.newest_second(), Some(20));
                let fresh = follow.take(10);
                assert_eq!(
                    fresh.intervals.iter().map(|one| one.t).collect::<Vec<_>>(),
                    Vec::from_iter(0..10)
                );
                assert_eq!((fresh.histograms.len(), fresh.ticks.len()), (20, 10));
            }
        }
        writer.finish(&sample::record(1)).unwrap();
        assert_eq!(follow.newest_second(), Some(39), "also of a run that has ended meanwhile");
        let fresh = follow.take(40);
        assert_eq!(fresh.intervals.iter().map(|one| one.t).collect::<Vec<_>>(), Vec::from_iter(10..40));
        assert_eq!(
            (fresh.histograms.len(), fresh.ticks.len()),
            (60, 30),
            "a removed file is read to its end"
        );
        assert!(follow.take(100).intervals.is_empty());
    }

    #[test]
    fn a_torn_line_is_taken_when_it_is_whole_and_a_damaged_one_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("runs").join("0001");
        std::fs::create_dir_all(&run).unwrap();
        let path = run.join(names::INTERVALS);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let line = serde_json::to_string(&sample::interval(3)).unwrap();
        let (head, tail) = line.split_at(20);
        file.write_all(format!("{{\n{head}").as_bytes()).unwrap();
        let mut follow = RunFollow::new(root.path(), 1, sample::GO_UNIX_NS);
        assert_eq!(follow.newest_second(), None);
        file.write_all(format!("{tail}\n").as_bytes()).unwrap();
        assert_eq!(follow.newest_second(), Some(3));
        assert_eq!(follow.take(4).intervals, [sample::interval(3)]);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("runs").join("0001");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join(names::READINGS), vec![b'x'; LINE_BYTES_MAX + 2 * CHUNK_BYTES]).unwrap();
        let mut follow = RunFollow::new(root.path(), 1, sample::GO_UNIX_NS);
        assert!(follow.take(100).ticks.is_empty());
        assert!(follow.ticks.is_given_up && follow.ticks.bytes.len() <= LINE_BYTES_MAX + CHUNK_BYTES);
    }
}
