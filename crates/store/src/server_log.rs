//! The copy of the server's log in a run's directory, with secrets masked. The server logs statements verbatim.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use model::secret::hide_text;

/// Continuation lines of an entry begin with a tab. A longer entry is examined in pieces.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Limit for the copy of one log: a server can produce a log of any apparent length, even one that uses no space.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// Copies `log` to `to` entry by entry, and adds a note if it was too long.
pub(crate) fn copy(log: impl Read, to: File) -> io::Result<File> {
    copy_up_to(LOG_BYTES_MAX, log, to)
}

fn copy_up_to(bytes_max: u64, mut log: impl Read, to: File) -> io::Result<File> {
    let mut to = BufWriter::new(to);
    copy_entries(log.by_ref().take(bytes_max), &mut to)?;
    if log.read(&mut [0])? > 0 {
        write!(to, "\npgdyno: the log was longer than {bytes_max} bytes; the rest was dropped\n")?;
    }
    to.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Copies a log entry by entry, and returns whether one had a secret.
pub(crate) fn copy_entries(log: impl Read, to: &mut dyn Write) -> io::Result<bool> {
    let mut lines = BufReader::new(log);
    let (mut entry, mut line, mut is_hidden) = (Vec::new(), Vec::new(), false);
    loop {
        line.clear();
        let n_bytes = lines.by_ref().take(ENTRY_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        let is_more = line.first() == Some(&b'\t') && entry.len() < ENTRY_BYTES_MAX;
        if !is_more {
            is_hidden |= write_entry(to, &entry)?;
            entry.clear();
        }
        if n_bytes == 0 {
            return Ok(write_entry(to, &entry)? || is_hidden);
        }
        entry.append(&mut line);
    }
}

/// Returns whether the entry has a secret. Invalid UTF-8 is copied as it is, unless it has.
fn write_entry(to: &mut dyn Write, entry: &[u8]) -> io::Result<bool> {
    let text = String::from_utf8_lossy(entry);
    let hidden = hide_text(&text);
    let is_hidden = hidden != text;
    to.write_all(if is_hidden { hidden.as_bytes() } else { entry })?;
    Ok(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_log_is_kept_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let kept = |bytes_max| {
            copy_up_to(bytes_max, &b"LOG:  one\nLOG:  two\n"[..], File::create(&path).unwrap()).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        assert_eq!(kept(20), "LOG:  one\nLOG:  two\n");
        let said = "pgdyno: the log was longer than 13 bytes; the rest was dropped\n";
        assert_eq!(kept(13), format!("LOG:  one\nLOG\n{said}"));
        copy_up_to(9, io::repeat(b'x'), File::create(&path).unwrap()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("xxxxxxxxx\npgdyno"));
    }

    #[test]
    fn a_log_is_kept_without_its_passwords() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log =
            b"LOG:  a \xff byte\nSTATEMENT:  ALTER ROLE u PASSWORD\n\t'S3cret'\nLOG:  ready\n\tno line end";
        copy(&log[..], File::create(&path).unwrap()).unwrap();
        let kept = std::fs::read(&path).unwrap();
        let expected =
            b"LOG:  a \xff byte\nSTATEMENT:  ALTER ROLE u PASSWORD\n\t'(hidden)'\nLOG:  ready\n\tno line end";
        assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(expected));
        assert!(kept.contains(&0xff));
    }
}
