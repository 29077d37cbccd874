//! Follows the server's log file and yields events. One thread, a few reads per second.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use model::telemetry::event::{Event, EventKind};
use nix::fcntl::OFlag;

use crate::schedule::{ObserverControl, unix_ns};
use crate::server::log::Assembler;
use crate::server::log_events;
use crate::sink::Out;

/// Time between two checks of the file.
const POLL: Duration = Duration::from_millis(200);
/// Longest line that is kept in one piece.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// Bytes read per check; the rest waits for the next one.
const LOOK_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Limits for events from log lines in one second, ordinary ones and trouble. If every transaction of a load fails, each writes a
/// line; those must not hide why the server crashed.
const ORDINARY_PER_S_MAX: u32 = 50;
const TROUBLE_PER_S_MAX: u32 = 50;

#[derive(Debug)]
pub(crate) struct LogTail {
    path: PathBuf,
    offset: u64,
    file: Option<File>,
    inode: u64,
    partial: Vec<u8>,
    assembler: Assembler,
    limit: Limit,
}

impl LogTail {
    /// Will follow `path` from byte `offset` on. The file might not exist yet.
    pub(crate) fn new(path: PathBuf, offset: u64) -> LogTail {
        let partial = Vec::new();
        LogTail {
            path,
            offset,
            file: None,
            inode: 0,
            partial,
            assembler: Assembler::default(),
            limit: Limit::default(),
        }
    }

    /// Follows the log until it is stopped.
    pub(crate) fn run(mut self, control: &ObserverControl, out: &Out) {
        loop {
            let stop = control.sleep(POLL);
            match self.look(unix_ns(), stop) {
                Ok(events) => events.into_iter().for_each(|event| out.event(event)),
                Err(error) => out.unavailable("server.log", format!("{error:#}")),
            }
            if stop {
                return;
            }
        }
    }

    /// Reads new lines. An entry is complete when the next one begins or, because PostgreSQL writes each with one
    /// write, when a check finds nothing new; `last` completes it in any case.
    fn look(&mut self, now_ns: u64, last: bool) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let bytes = self.read()?;
        if bytes.is_empty() || last {
            self.lines(&bytes, now_ns, &mut events);
            let entry = self.assembler.flush();
            events.extend(entry.and_then(|entry| log_events::event(&entry, now_ns)));
        } else {
            self.lines(&bytes, now_ns, &mut events);
        }
        Ok(self.limit.pass(events, now_ns, last))
    }

    fn read(&mut self) -> Result<Vec<u8>> {
        let unreadable = || format!("cannot read server log `{}`", self.path.display());
        let meta = match std::fs::symlink_metadata(&self.path) {
            Ok(meta) => meta,
            // Not written yet, or just renamed by a rotation.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(unreadable),
        };
        if !meta.is_file() {
            return Err(io::Error::other("it is not a regular file")).with_context(unreadable);
        }
        let rotated = self.file.is_some() && meta.ino() != self.inode;
        if rotated || meta.len() < self.offset {
            (self.file, self.offset) = (None, 0);
            self.partial.clear();
        }
        if meta.len() == self.offset {
            return Ok(Vec::new());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                self.inode = meta.ino();
                none.insert(open(&self.path).with_context(unreadable)?)
            }
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.offset)).with_context(unreadable)?;
        file.take(LOOK_MAX_BYTES).read_to_end(&mut bytes).with_context(unreadable)?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    fn lines(&mut self, bytes: &[u8], now_ns: u64, events: &mut Vec<Event>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_MAX_BYTES.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.partial);
                let entry = self.assembler.push(line.trim_end_matches(['\n', '\r']), now_ns);
                events.extend(entry.and_then(|entry| log_events::event(&entry, now_ns)));
                self.partial.clear();
            }
        }
    }
}

/// Opens the log without following a link: the server's user owns its directory and could plant a link for root to
/// follow.
fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe would wait for a writer.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Passes [`ORDINARY_PER_S_MAX`] and [`TROUBLE_PER_S_MAX`] events of lines per second and counts the others.
#[derive(Debug, Default)]
struct Limit {
    second: u64,
    n_ordinary: u32,
    n_trouble: u32,
    n_dropped: u32,
}

impl Limit {
    fn pass(&mut self, events: Vec<Event>, now_ns: u64, last: bool) -> Vec<Event> {
        let mut passed = Vec::new();
        let second = now_ns / 1_000_000_000;
        if second != self.second || last {
            if self.n_dropped > 0 {
                let text = format!("{} further lines of the server log were dropped", self.n_dropped);
                let event = Event::new(now_ns, EventKind::ServerLog, text);
                passed.push(event.with("n_dropped", self.n_dropped));
            }
            *self = Limit { second, ..Limit::default() };
        }
        for event in events {
            if self.has_room(event.kind) {
                passed.push(event);
            } else {
                self.n_dropped += 1;
            }
        }
        passed
    }

    fn has_room(&mut self, kind: EventKind) -> bool {
        let (n, max) = match kind {
            EventKind::ServerLog => (&mut self.n_ordinary, ORDINARY_PER_S_MAX),
            EventKind::ServerTrouble => (&mut self.n_trouble, TROUBLE_PER_S_MAX),
            _ => return true,
        };
        *n += 1;
        *n <= max
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_log_is_followed_through_torn_lines_truncation_and_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let add = |text: &str| {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mut tail = LogTail::new(path.clone(), 4);
        let mut kinds = |last: bool| -> Vec<EventKind> {
            let mut events = tail.look(S, last).unwrap();
            events.extend(tail.look(S, last).unwrap());
            events.into_iter().map(|event| event.kind).collect()
        };
        assert_eq!(kinds(false), [], "no file yet");
        add("old\nLOG:  checkpoint start");
        assert_eq!(kinds(false), []);
        add("ing: time\nFATAL:  x\n");
        assert_eq!(kinds(false), [EventKind::CheckpointStart, EventKind::ServerTrouble]);
        fs::write(&path, "WARNING:  cut\n").unwrap();
        assert_eq!(kinds(false), [EventKind::ServerLog]);
        fs::rename(&path, directory.path().join("log.1")).unwrap();
        assert_eq!(kinds(false), []);
        add("LOG:  automatic analyze of table \"t\"\n");
        assert_eq!(kinds(true), [EventKind::AutoanalyzeEnd]);
    }

    #[test]
    fn a_planted_link_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (secret, log) = (directory.path().join("secret"), directory.path().join("log"));
        fs::write(&secret, "FATAL:  secret\n").unwrap();
        std::os::unix::fs::symlink(&secret, &log).unwrap();
        let mut tail = LogTail::new(log.clone(), 0);
        let error = format!("{:#}", tail.look(S, true).unwrap_err());
        assert!(error.contains("not a regular file"), "{error}");
        assert!(open(&log).is_err());
    }

    #[test]
    fn a_flood_of_lines_is_counted_and_hides_neither_checkpoints_nor_trouble() {
        let mut limit = Limit::default();
        let mut flood = vec![Event::new(S, EventKind::ServerLog, "x"); 1000];
        flood.push(Event::new(S, EventKind::CheckpointStart, "y"));
        flood.push(Event::new(S, EventKind::ServerTrouble, "z"));
        let passed = limit.pass(flood, S, false);
        assert_eq!(passed.len(), 52);
        assert_eq!(passed[51].kind, EventKind::ServerTrouble);
        let refused = vec![Event::new(S, EventKind::ServerTrouble, "too many clients"); 100];
        assert_eq!(limit.pass(refused, S, false).len(), 49);
        let passed = limit.pass(Vec::new(), 2 * S, false);
        assert_eq!(passed[0].number("n_dropped"), Some(1001.0));
        assert_eq!(limit.pass(Vec::new(), 3 * S, true), []);
    }
}
