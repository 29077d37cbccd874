//! Full-page images in the WAL of our own server, counted by the program that reads it, `pg_waldump` (`pg_xlogdump` before 10), for
//! releases that do not count them themselves. It reads files and asks the server nothing.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::release::{Release, programs};
use model::text::units::wal_position;
use nix::sys::signal::Signal;

use crate::binaries::Binaries;
use crate::cluster::Cluster;
use crate::process::command::{ending, server_command, wait_until};
use crate::process::spawn::spawn;

/// The longest line: a record that many tables' caches depend on has one of some kilobytes.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// How long the program may take to end when its output has ended.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How often the flag of a user who wants to stop is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What is kept of the program's complaints.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// The program that reads the WAL of these binaries.
///
/// # Errors
/// When it is not with them, or too old.
pub fn program(binaries: &Binaries) -> Result<PathBuf> {
    let release = Release::new(binaries.version_num);
    let name = release.name(programs::WAL_DUMP);
    ensure!(release.has(programs::WAL_DUMP_MARKS_IMAGES), "`{name}` shows them since PostgreSQL 9.5");
    let program = binaries.program(name);
    ensure!(program.is_file(), "`{name}` is not in `{}`", binaries.bin_dir.display());
    Ok(program)
}

/// Full-page images of the records that begin from the first position on and before the last, between each two positions (bytes from
/// the beginning of the WAL, ascending).
///
/// # Errors
/// When the WAL is not there any more, or cannot be read in `longest`, or the user wants to stop.
pub fn count(cluster: &Cluster, positions: &[u64], longest: Duration, stop: &AtomicBool) -> Result<Vec<u64>> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return Ok(Vec::new()) };
    let program = program(&cluster.binaries)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = server_command(&program, &cluster.account, Path::new("/"));
    command.arg("--path").arg(cluster.wal_dir());
    command
        .arg(format!("--start={}", text_of_position(*first)))
        .arg(format!("--end={}", text_of_position(*last)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + longest;
    let mut child = spawn(command, Signal::SIGKILL).with_context(|| format!("cannot start `{name}`"))?;
    let stdout = child.stdout.take().context("its output is a pipe")?;
    let stderr = child.stderr.take().context("its messages are a pipe")?;
    let bounds = positions.to_vec();
    let (reply, counted) = channel();
    // It ends with the program, which is ended here in any case.
    thread::spawn(move || reply.send(read(stdout, &bounds)).ok());
    let complaint = thread::spawn(move || {
        let mut text = String::new();
        stderr.take(COMPLAINT_BYTES_MAX).read_to_string(&mut text).ok();
        text.trim().to_string()
    });
    let counted = loop {
        match counted.recv_timeout(LOOK) {
            Ok(counted) => break Some(counted),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline && !stop.load(Ordering::Relaxed) => {}
            Err(RecvTimeoutError::Timeout) => break None,
        }
    };
    let ended = match &counted {
        Some(Ok(_)) => wait_until(&mut child, Instant::now() + END_PATIENCE)?,
        _ => None,
    };
    if ended.is_none() {
        child.kill().ok();
        child.wait().ok();
    }
    let Some(counted) = counted else {
        let wal = model::text::prose::bytes((last - first) as f64);
        bail!("`{name}` has not read {wal} of WAL within {} s", longest.as_secs());
    };
    let counted = counted?;
    let status = ended.with_context(|| format!("`{name}` does not end"))?;
    let complaint = complaint.join().unwrap_or_default();
    ensure!(status.success(), "`{name}`: {}: {complaint}", ending(status));
    Ok(counted)
}

/// Counts the images in what the program prints.
fn read(stdout: ChildStdout, positions: &[u64]) -> Result<Vec<u64>> {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut counts = vec![0; positions.len().saturating_sub(1)];
    loop {
        line.clear();
        let n = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).context("cannot read it")?;
        if n == 0 {
            return Ok(counts);
        }
        ensure!((n as u64) < LINE_BYTES_MAX, "a line is longer than {LINE_BYTES_MAX} bytes");
        let text = String::from_utf8_lossy(&line);
        let Some((position, n_images)) = images_of(&text).filter(|(_, n)| *n > 0) else { continue };
        // The first record may begin before the position asked for, which lies within it.
        let place = positions.partition_point(|bound| *bound <= position).saturating_sub(1);
        if let Some(count) = counts.get_mut(place) {
            *count += n_images;
        }
    }
}

/// The position of a record, and how many of its blocks have a full-page image; `None` for other lines.
fn images_of(line: &str) -> Option<(u64, u64)> {
    let (_, from_position) = line.split_once("lsn: ")?;
    let position = wal_position(from_position.split(',').next()?)?;
    let blocks = line.split("blkref #").skip(1);
    Some((position, blocks.filter(|block| block.contains(" FPW")).count() as u64))
}

/// The text of a position in the WAL, `1/10` for 0x100000010.
pub fn text_of_position(position: u64) -> String {
    format!("{:X}/{:X}", position >> 32, position & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_those_of_a_records_blocks() {
        let check =
            |line: &str, expected: Option<(u64, u64)>| assert_eq!(images_of(line), expected, "{line}");
        let head = "rmgr: Heap        len (rec/tot):     54/  8150, tx:        735, lsn: 1/0155C9A8, prev 1/0155C970, desc: ";
        let at = 0x1_0155_C9A8;
        check(
            &format!("{head}HOT_UPDATE off 1 xmax 735, blkref #0: rel 1663/13/1259 blk 0 FPW"),
            Some((at, 1)),
        );
        check(
            &format!(
                "{head}UPDATE off 1, blkref #0: rel 1663/13/1259 blk 0 FPW, blkref #1: rel 1663/13/1259 blk 7"
            ),
            Some((at, 1)),
        );
        check(
            &format!(
                "{head}SPLIT_R, blkref #0: rel 1/2/3 blk 0 FPW, blkref #1: rel 1/2/3 fork fsm blk 7 FPW"
            ),
            Some((at, 2)),
        );
        check(&format!("{head}INSERT off 1 FPW, blkref #0: rel 1663/13/1259 blk 0"), Some((at, 0)));
        check("first record is after 0/1000000, at 0/1000028, skipping over 40 bytes", None);
    }

    #[test]
    fn positions_are_read_as_the_server_writes_them() {
        for (text, position) in [("0/0", 0), ("0/1772DD8", 0x177_2DD8), ("16/B374D848", 0x16_B374_D848)] {
            assert_eq!((wal_position(text), text_of_position(position).as_str()), (Some(position), text));
        }
        assert_eq!(wal_position("1/100000000"), None);
        assert_eq!(wal_position("1"), None);
    }
}
