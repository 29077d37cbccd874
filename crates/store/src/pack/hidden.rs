//! Copies a file of an experiment without secrets. Files are written without them; earlier versions knew fewer.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use model::secret::{hide_json, hide_text};

use crate::load::{LINES, decoded_bytes_max, read_whole};
use crate::names;
use crate::server_log::copy_entries;

/// Copies `path` and returns whether it held a secret.
///
/// # Errors
/// When the file is not a regular one, cannot be read, or has longer lines than pgdyno reads.
pub(super) fn copy(path: &Path, to: &mut dyn Write) -> io::Result<bool> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        names::EXPERIMENT => whole(path, to, hide_text),
        names::PLAN | names::RUN | names::COMPARISON | names::DUET | names::PROOFS | names::PROFILE => {
            whole(path, to, hide_json)
        }
        names::READINGS_ZST => compressed(path, to, hide_json, decoded_bytes_max(path)),
        names::LATENCY_ZST => compressed(path, to, hide_tag, decoded_bytes_max(path)),
        // No report reads these, which repeat themselves: an exporter's text hardly changes.
        names::STATEMENTS_ZST => compressed(path, to, hide_tag, n_kept_bytes_max(path)),
        names::REMOTE_ZST => compressed(path, to, hide_text, n_kept_bytes_max(path)),
        names::LATENCY => lines(files::open(path)?, to, hide_tag),
        // A statement with a secret may have several lines.
        names::SERVER_LOG | names::POOLER_LOG => copy_entries(files::open(path)?, to),
        names::REMOTE | names::STACKS => lines(files::open(path)?, to, hide_text),
        _ => lines(files::open(path)?, to, hide_json),
    }
}

type Hide = fn(&str) -> Cow<'_, str>;

/// Bytes that a file which is only kept may decode to: searching it takes time, and no memory.
fn n_kept_bytes_max(path: &Path) -> u64 {
    const TIMES: u64 = 100;
    decoded_bytes_max(path).saturating_mul(TIMES)
}

fn whole(path: &Path, to: &mut dyn Write, hide: Hide) -> io::Result<bool> {
    write_hidden(&read_whole(path)?, to, hide)
}

fn lines(from: impl Read, to: &mut dyn Write, hide: Hide) -> io::Result<bool> {
    let mut from = BufReader::new(from);
    let (mut line, mut is_hidden) = (Vec::new(), false);
    loop {
        line.clear();
        let n_bytes = from.by_ref().take(LINES.line_bytes_max + 1).read_until(b'\n', &mut line)?;
        if n_bytes == 0 {
            return Ok(is_hidden);
        }
        if n_bytes as u64 > LINES.line_bytes_max {
            return Err(io::Error::other(format!("a line has more than {} bytes", LINES.line_bytes_max)));
        }
        is_hidden |= write_hidden(&line, to, hide)?;
    }
}

/// A compressed file stays byte for byte as it is, unless it holds a secret.
fn compressed(path: &Path, to: &mut dyn Write, hide: Hide, n_max: u64) -> io::Result<bool> {
    let open = || {
        let from = zstd::Decoder::new(files::open(path)?)?;
        Ok::<_, io::Error>(Bounded { from, left: n_max, n_max })
    };
    if !lines(open()?, &mut io::sink(), hide)? {
        io::copy(&mut files::open(path)?, to)?;
        return Ok(false);
    }
    let mut encoder = zstd::Encoder::new(to, 0)?;
    encoder.include_checksum(true)?;
    lines(open()?, &mut encoder, hide)?;
    encoder.finish()?;
    Ok(true)
}

/// Fails where more than `n_max` bytes come.
struct Bounded<R> {
    from: R,
    left: u64,
    n_max: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n_read = self.from.read(bytes)?;
        let left = self.left.checked_sub(n_read as u64);
        let too_much =
            || format!("it decodes to more than the {} bytes that a file of its size may", self.n_max);
        self.left = left.ok_or_else(|| io::Error::other(too_much()))?;
        Ok(n_read)
    }
}

/// Text that is not UTF-8 is not ours, and is searched as far as it is.
fn write_hidden(bytes: &[u8], to: &mut dyn Write, hide: Hide) -> io::Result<bool> {
    let text = String::from_utf8_lossy(bytes);
    match hide(&text) {
        Cow::Borrowed(_) => to.write_all(bytes).map(|()| false),
        Cow::Owned(hidden) => to.write_all(hidden.as_bytes()).map(|()| true),
    }
}

/// Base64 may look like a key: only what stands before the histogram is searched.
fn hide_tag(line: &str) -> Cow<'_, str> {
    let Some((before, histogram)) = line.rsplit_once(',') else { return hide_text(line) };
    match hide_text(before) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(hidden) => Cow::Owned(format!("{hidden},{histogram}")),
    }
}
