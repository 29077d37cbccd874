//! The three pipes of a driver process, each with its own thread, so that nothing a driver does or fails to do with
//! them can block the parent. The threads end when the process does.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::load::drive::DriverLine;

/// Lines that may wait for the parent to take them, and how many more for each driver: a driver writes a handful each
/// second. Room for all of them is taken at once.
const LINES_WAITING: usize = 1024;
const LINES_WAITING_EACH: usize = 16;
/// Longest text of a remote shell before the driver's first line.
const NOISE_BYTES_MAX: u64 = 1 << 20;
/// How much of it is kept for a message, in lines.
const NOISE_LINES_KEPT: usize = 10;
/// Longest line of a driver. One second of a large script is some hundred kilobytes of histograms.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// How much of a driver's stderr is kept, in bytes.
pub(crate) const STDERR_BYTES_KEPT: usize = 64 << 10;

/// Where the lines of all drivers arrive.
pub(crate) struct Inbox {
    pub(crate) sender: SyncSender<DriverOutput>,
    pub(crate) receiver: Receiver<DriverOutput>,
}

impl Inbox {
    pub(crate) fn for_drivers(n: usize) -> Inbox {
        let (sender, receiver) = mpsc::sync_channel(LINES_WAITING + LINES_WAITING_EACH * n);
        Inbox { sender, receiver }
    }
}

/// Something that arrived from a driver.
pub(crate) struct DriverOutput {
    /// Number of the driver.
    pub(crate) from: usize,
    /// When, nanoseconds since the Unix epoch.
    pub(crate) at_unix_ns: u64,
    pub(crate) what: OutputEvent,
}

pub(crate) enum OutputEvent {
    Line(Box<DriverLine>),
    Garbage(Garbage),
    /// Its output has ended; before its hello, a remote shell may have written these lines.
    End(Vec<String>),
}

/// Time since the Unix epoch.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

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

/// Reads the lines of driver number `from` in a thread, up to the end of its output or to garbage. With a `nonce`, all
/// before the hello that repeats it is noise of a remote shell.
pub(crate) fn hear(
    stdout: ChildStdout,
    from: usize,
    nonce: Option<String>,
    sender: SyncSender<DriverOutput>,
) -> io::Result<()> {
    thread::Builder::new().name("driver-stdout".into()).spawn(move || {
        let tell = |what: OutputEvent| {
            let at_unix_ns = u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX);
            // The receiver may be gone: nobody needs the lines any more.
            sender.send(DriverOutput { from, at_unix_ns, what }).is_ok()
        };
        let mut stdout = BufReader::new(stdout);
        let noise = nonce.map_or(Ok(Vec::new()), |nonce| skip_noise(&mut stdout, &nonce, &tell));
        if noise.is_ok() {
            read_lines(stdout, &tell);
        }
        tell(OutputEvent::End(noise.err().unwrap_or_default()));
    })?;
    Ok(())
}

/// Skips lines up to the hello.
///
/// # Errors
/// The last lines, if the output ends or goes on for too long without a hello.
fn skip_noise(
    stdout: &mut impl BufRead,
    nonce: &str,
    tell: &impl Fn(OutputEvent) -> bool,
) -> Result<Vec<String>, Vec<String>> {
    let mut noise = VecDeque::new();
    let mut limited = stdout.take(NOISE_BYTES_MAX);
    let mut line = Vec::new();
    while let Ok(1..) = limited.read_until(b'\n', &mut line) {
        match serde_json::from_slice(&line) {
            Ok(DriverLine::Hello(hello)) if hello.nonce == nonce => {
                return if tell(OutputEvent::Line(Box::new(DriverLine::Hello(hello)))) {
                    Ok(Vec::new())
                } else {
                    Err(Vec::new())
                };
            }
            _ => {
                noise.push_back(String::from_utf8_lossy(&line[..line.len().min(1000)]).trim().to_string());
                if noise.len() > NOISE_LINES_KEPT {
                    noise.pop_front();
                }
            }
        }
        line.clear();
    }
    Err(noise.into())
}

fn read_lines(mut stdout: impl BufRead, tell: &impl Fn(OutputEvent) -> bool) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdout.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            // A last line without a newline was cut off when the driver died.
            Ok(_) if line.last() != Some(&b'\n') && (line.len() as u64) < LINE_BYTES_MAX => return,
            Ok(_) => {}
            Err(_) => return,
        }
        let read = serde_json::from_slice(&line).map(Box::new).map_err(|error| Garbage {
            line: String::from_utf8_lossy(&line[..line.len().min(1000)]).trim().to_string(),
            reason: error.to_string(),
        });
        let is_garbage = read.is_err();
        if !tell(read.map_or_else(OutputEvent::Garbage, OutputEvent::Line)) || is_garbage {
            return;
        }
    }
}

/// The end of what a process wrote, read by a thread so that the process never waits for us.
#[derive(Debug)]
pub struct OutputTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Closes when the output does.
    ended: Receiver<()>,
}

impl OutputTail {
    /// Starts a thread that keeps the last `bytes_max` bytes of an output.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn keep(mut output: impl Read + Send + 'static, bytes_max: usize) -> io::Result<OutputTail> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (ending, ended) = mpsc::channel();
        let writer = Arc::clone(&kept);
        thread::Builder::new().name("output".into()).spawn(move || {
            let _closes_at_the_end: Sender<()> = ending;
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                let mut kept = writer.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..n]);
                let surplus = kept.len().saturating_sub(bytes_max);
                kept.drain(..surplus);
            }
        })?;
        Ok(OutputTail { kept, ended })
    }

    /// Waits until everything is read, but no longer than `timeout`: what the process has started may keep its output
    /// open.
    pub fn wait(&self, timeout: Duration) {
        match self.ended.recv_timeout(timeout) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
    }

    /// The text that was kept so far; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}
