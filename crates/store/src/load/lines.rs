//! Reads files of lines, compressed or not, up to their bounds, and notes what cannot be read.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest lines that are written are histograms and ticks of some 10 kB; telemetry of a day is below the whole. A short
/// line takes many times its length in memory, so lines are counted too: a day of 40 scripts has 3.5 million.
pub(crate) const LINES: LineBounds =
    LineBounds { line_bytes_max: 16 << 20, file_bytes_max: 2 << 30, n_lines_max: 4_000_000 };

/// Limits for reading a file of lines, after decompression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineBounds {
    pub(crate) line_bytes_max: u64,
    pub(crate) file_bytes_max: u64,
    pub(crate) n_lines_max: u64,
}

/// Bytes of text to which a byte of a file may decode; real telemetry decodes to ten.
const DECODED_PER_BYTE: u64 = 100;
/// Bytes that a whole result may decode to besides: small files repeat themselves more.
const DECODED_BYTES_FREE: u64 = 32 << 20;
const TOO_MUCH: &str = "decodes to more than a hundred times its size";

/// Bytes that one file, which somebody has sent, may decode to.
pub fn decoded_bytes_max(path: &Path) -> u64 {
    let n_bytes = fs::metadata(path).map_or(0, |facts| facts.len());
    DECODED_BYTES_FREE.saturating_add(Allowance::of_bytes(n_bytes))
}

/// What the files of a result may still decode to, in bytes: reading one that somebody has sent takes no more memory and time than one of
/// that size would.
#[derive(Debug)]
pub(super) struct Allowance {
    left: AtomicU64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: AtomicU64::new(DECODED_BYTES_FREE) }
    }
}

impl Allowance {
    /// What a file of this size may decode to.
    fn of_bytes(n_bytes: u64) -> u64 {
        n_bytes.saturating_mul(DECODED_PER_BYTE)
    }

    /// Allows for a file that is read now.
    fn add_file(&self, path: &Path) {
        let n_bytes = fs::symlink_metadata(path).map_or(0, |facts| facts.len());
        let add = |left: u64| Some(left.saturating_add(Allowance::of_bytes(n_bytes)));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok();
    }

    /// Takes from what is left; false if that is too little.
    fn take(&self, n_bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(n_bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Reads one line, passed without its line end, and whether it had one.
type ReadLine<'a> = &'a mut dyn FnMut(&[u8], bool) -> Result<(), String>;

/// Passes each line of a file to `read`. An unterminated last line may be unreadable unless the file was complete; all
/// other unreadable lines are damage.
pub(super) fn read_lines(path: &Path, damage: &mut Damage, read: ReadLine) {
    read_lines_within(LINES, path, damage, read);
}

pub(super) fn read_lines_within(bounds: LineBounds, path: &Path, damage: &mut Damage, read: ReadLine) {
    let LineBounds { line_bytes_max, file_bytes_max, n_lines_max } = bounds;
    let mut reader = match open(path) {
        Ok(reader) => reader,
        Err(error) => return damage.note(path, error),
    };
    let mut line = Vec::new();
    let mut left = file_bytes_max;
    damage.allowance.add_file(path);
    for number in 1_u64.. {
        line.clear();
        match (&mut reader).take(line_bytes_max).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(n_bytes) => match left.checked_sub(n_bytes as u64) {
                Some(_) if !damage.allowance.take(n_bytes as u64) => return damage.note(path, TOO_MUCH),
                Some(rest) => left = rest,
                None => return damage.note(path, format!("has more than {file_bytes_max} bytes")),
            },
            Err(error) => return damage.note(path, format!("ends early, in line {number}: {error}")),
        }
        if number > n_lines_max {
            return damage.note(path, format!("has more than {n_lines_max} lines"));
        }
        if line.len() as u64 == line_bytes_max {
            return damage.note(path, format!("line {number} has more than {line_bytes_max} bytes"));
        }
        let is_whole = line.pop_if(|last| *last == b'\n').is_some();
        if let Err(reason) = read(&line, is_whole)
            && (is_whole || damage.is_whole)
        {
            damage.note(path, format!("line {number}: {reason}"));
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = BufReader::new(files::open(path)?);
    if path.extension().is_some_and(|extension| extension == "zst") {
        Ok(Box::new(BufReader::new(zstd::Decoder::with_buffer(file)?)))
    } else {
        Ok(Box::new(file))
    }
}

/// Notes on unreadable parts, few per file.
#[derive(Default)]
pub(super) struct Damage {
    /// The files were complete once: no line may be torn.
    pub(super) is_whole: bool,
    pub(super) found: Vec<String>,
    allowance: Arc<Allowance>,
    last_file: String,
    n_in_last_file: u32,
}

/// Notes per file; a file with more is damaged throughout.
const NOTES_PER_FILE: u32 = 5;

impl Damage {
    /// Of a part of a result, all parts of which share what they may decode to.
    pub(super) fn within(allowance: &Arc<Allowance>) -> Damage {
        Damage { allowance: allowance.clone(), ..Damage::default() }
    }

    pub(super) fn note(&mut self, path: &Path, reason: impl Display) {
        let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if file != self.last_file {
            (self.last_file, self.n_in_last_file) = (file, 0);
        }
        self.n_in_last_file += 1;
        match self.n_in_last_file {
            ..=NOTES_PER_FILE => self.found.push(format!("`{}`: {reason}", self.last_file)),
            n if n == NOTES_PER_FILE + 1 => self.found.push(format!("`{}`: and more damage", self.last_file)),
            _ => {}
        }
    }
}
