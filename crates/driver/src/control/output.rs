//! Lines to the parent, and how a load fails.
//!
//! A thread of its own writes them: a parent that does not read for a while delays neither the load nor the answers to
//! its pings.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use model::load::drive::DriverLine;

/// Bytes that may wait for the parent; a driver of a large script writes a megabyte each second.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Why a load did not take place, or could not be reported.
pub(crate) enum Failure {
    /// The parent does not listen any more.
    Output(io::Error),
    /// What was wrong and what to do about it.
    Load(String),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Output(e)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Load(message)
    }
}

/// Where all threads leave their lines for the parent.
#[derive(Clone, Debug)]
pub struct Outbox {
    /// `None` is the end.
    lines: Sender<Option<Vec<u8>>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting_bytes: AtomicUsize,
    n_dropped: AtomicU64,
    is_broken: AtomicBool,
}

impl Outbox {
    /// Leaves a line, which is dropped if too much is waiting already.
    ///
    /// # Errors
    /// When the parent does not listen any more.
    pub fn say(&self, line: &DriverLine) -> io::Result<()> {
        if self.state.waiting_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX {
            self.state.n_dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.say_last(line)
    }

    /// Leaves several lines, as [`Outbox::say`] does, to be written together.
    ///
    /// # Errors
    /// As [`Outbox::say`].
    pub(crate) fn say_all(&self, lines: impl ExactSizeIterator<Item = DriverLine>) -> io::Result<()> {
        if self.state.waiting_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX {
            self.state.n_dropped.fetch_add(lines.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        let mut text = Vec::new();
        for line in lines {
            add_line(&mut text, &line)?;
        }
        self.leave(text)
    }

    /// Whether so much waits for the parent that lines may soon be dropped.
    pub(crate) fn is_half_full(&self) -> bool {
        self.state.waiting_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX / 2
    }

    /// Lines that were dropped so far.
    pub(crate) fn n_dropped(&self) -> u64 {
        self.state.n_dropped.load(Ordering::Relaxed)
    }

    /// Leaves the last line, which is never dropped.
    ///
    /// # Errors
    /// As [`Outbox::say`].
    pub fn say_last(&self, line: &DriverLine) -> io::Result<()> {
        let mut text = Vec::new();
        add_line(&mut text, line)?;
        self.leave(text)
    }

    fn leave(&self, text: Vec<u8>) -> io::Result<()> {
        self.state.waiting_bytes.fetch_add(text.len(), Ordering::Relaxed);
        let is_left = self.lines.send(Some(text)).is_ok();
        if is_left && !self.state.is_broken.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
}

fn add_line(text: &mut Vec<u8>, line: &DriverLine) -> io::Result<()> {
    serde_json::to_writer(&mut *text, line).map_err(io::Error::other)?;
    text.push(b'\n');
    Ok(())
}

/// Calls `body` with an outbox, and returns when everything that it left is written to `output`.
///
/// # Errors
/// When not everything could be written.
pub fn with_outbox<T>(output: &mut (dyn Write + Send), body: impl FnOnce(&Outbox) -> T) -> io::Result<T> {
    let (sender, lines) = mpsc::channel();
    let outbox = Outbox { lines: sender, state: Arc::default() };
    std::thread::scope(|scope| {
        let state = Arc::clone(&outbox.state);
        let writer = scope.spawn(move || write_all(output, &lines, &state));
        let result = body(&outbox);
        // Other threads may hold an outbox for longer than there is something to say.
        outbox.lines.send(None).ok();
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread died"))).map(|()| result)
    })
}

fn write_all(output: &mut dyn Write, lines: &Receiver<Option<Vec<u8>>>, state: &State) -> io::Result<()> {
    while let Ok(Some(line)) = lines.recv() {
        let written = output.write_all(&line).and_then(|()| output.flush());
        state.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        if let Err(error) = written {
            state.is_broken.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use model::load::drive::Done;
    use model::telemetry::event::{Event, EventKind};

    use super::*;

    /// An output that takes nothing until it is let go, as a pipe that nobody reads.
    struct Stalled(Receiver<()>, Vec<u8>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(n_bytes: usize) -> DriverLine {
        DriverLine::Event(Event::new(0, EventKind::DriverPaused, "x".repeat(n_bytes)))
    }

    #[test]
    fn a_parent_that_does_not_read_delays_nobody_and_learns_what_it_missed() {
        let (go, wait) = channel();
        let mut output = Stalled(wait, Vec::new());
        with_outbox(&mut output, |outbox| {
            // One more than fits: the bound is looked at before a line.
            assert!(!outbox.is_half_full());
            for _ in 0..WAITING_BYTES_MAX / (1 << 20) + 3 {
                outbox.say(&event(1 << 20)).unwrap();
            }
            assert!(outbox.is_half_full());
            let done = Done { lines_dropped: outbox.n_dropped(), ..Done::default() };
            outbox.say_last(&DriverLine::Done(Box::new(done))).unwrap();
            drop(go);
        })
        .unwrap();
        let text = String::from_utf8(output.1).unwrap();
        let Ok(DriverLine::Done(done)) = serde_json::from_str(text.lines().last().unwrap()) else {
            panic!("`done` is not the last line");
        };
        assert!((2..=4).contains(&done.lines_dropped), "{}", done.lines_dropped);
    }

    #[test]
    fn an_output_that_cannot_be_written_is_an_error_of_a_later_line() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let result = with_outbox(&mut Closed, |outbox| {
            let begun = std::time::Instant::now();
            while outbox.say(&event(1)).is_ok() {
                assert!(begun.elapsed().as_secs() < 10);
            }
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
