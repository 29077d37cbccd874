//! The three pipes of a driver process, each with its own thread, so that nothing a driver does or fails to do with
//! them can block the parent. The threads end when the process does.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use model::load::drive::DriverLine;

/// Lines that may wait for the parent to take them; a driver writes a handful each second.
const LINES_WAITING: usize = 1024;
/// Longest line of a driver. One second of a large script is some hundred kilobytes of histograms.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// How much of a driver's stderr is kept, in bytes.
const STDERR_BYTES_KEPT: usize = 64 << 10;

/// A line that is not a [`DriverLine`].
pub(crate) struct Garbage {
    pub(crate) line: String,
    /// Why it cannot be parsed.
    pub(crate) reason: String,
}

/// Writes lines to a driver from a thread. Lines for a driver that is gone are lost without an error; whoever reads its
/// lines reports that it is gone.
pub(crate) fn feed(mut stdin: ChildStdin) -> io::Result<Sender<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    thread::Builder::new().name("driver-stdin".into()).spawn(move || {
        for line in receiver {
            if stdin.write_all(&line).is_err() {
                return;
            }
        }
    })?;
    Ok(sender)
}

/// Reads a driver's lines in a thread. The channel closes at the end of its output, or after garbage.
pub(crate) fn hear(stdout: ChildStdout) -> io::Result<Receiver<Result<DriverLine, Garbage>>> {
    let (sender, receiver) = mpsc::sync_channel(LINES_WAITING);
    thread::Builder::new()
        .name("driver-stdout".into())
        .spawn(move || read_lines(BufReader::new(stdout), &sender))?;
    Ok(receiver)
}

fn read_lines(mut stdout: impl BufRead, sender: &SyncSender<Result<DriverLine, Garbage>>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdout.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            // A last line without a newline was cut off when the driver died.
            Ok(_) if line.last() != Some(&b'\n') && (line.len() as u64) < LINE_BYTES_MAX => return,
            Ok(_) => {}
            Err(_) => return,
        }
        let read = serde_json::from_slice(&line).map_err(|error| Garbage {
            line: String::from_utf8_lossy(&line[..line.len().min(1000)]).trim().to_string(),
            reason: error.to_string(),
        });
        let is_garbage = read.is_err();
        // The receiver is gone: nobody needs the lines any more.
        if sender.send(read).is_err() || is_garbage {
            return;
        }
    }
}

/// The end of what a driver wrote to stderr.
pub(crate) struct Stderr {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Closes when the driver's stderr does.
    ended: Receiver<()>,
}

impl Stderr {
    /// Starts a thread that keeps the end of stderr.
    pub(crate) fn keep(mut stderr: ChildStderr) -> io::Result<Stderr> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (ending, ended) = mpsc::channel();
        let writer = Arc::clone(&kept);
        thread::Builder::new().name("driver-stderr".into()).spawn(move || {
            let _closes_at_the_end: Sender<()> = ending;
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                let mut kept = writer.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..n]);
                let surplus = kept.len().saturating_sub(STDERR_BYTES_KEPT);
                kept.drain(..surplus);
            }
        })?;
        Ok(Stderr { kept, ended })
    }

    /// Waits until everything is read, but no longer than `timeout`: a process that the driver started may keep its
    /// stderr open.
    pub(crate) fn wait(&self, timeout: Duration) {
        match self.ended.recv_timeout(timeout) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}
