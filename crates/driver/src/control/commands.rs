//! Lines of the parent that wait for whoever carries them out, up to a bound.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::load::drive::DriveCommand;

/// Something that is heard of the parent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParentInput<C = DriveCommand> {
    /// A command other than a ping.
    Command(C),
    /// The parent has ended, or nothing of it reaches us any more.
    ParentIsGone {
        /// Whether it is on another machine.
        is_far: bool,
    },
    /// The parent sent more lines than may wait; none of those that waited is carried out.
    TooManyLines,
}

/// What the parent says after its order, in its order of arrival.
#[derive(Debug)]
pub struct Commands<C = DriveCommand>(Arc<Queue<C>>);

#[derive(Debug)]
struct Queue<C> {
    waiting: Mutex<Waiting<C>>,
    has_changed: Condvar,
}

#[derive(Debug)]
struct Waiting<C> {
    n_lines_max: usize,
    commands: VecDeque<C>,
    end: End<C>,
}

/// End of the commands.
#[derive(Debug)]
enum End<C> {
    NotYet,
    /// It is heard when no command waits any more.
    Comes(ParentInput<C>),
    Heard,
}

impl<C> Commands<C> {
    pub(super) fn with_room_for(n_lines: usize) -> Commands<C> {
        let waiting = Waiting { n_lines_max: n_lines, commands: VecDeque::new(), end: End::NotYet };
        Commands(Arc::new(Queue { waiting: Mutex::new(waiting), has_changed: Condvar::new() }))
    }

    /// The same commands, for the thread that reads them.
    pub(super) fn share(&self) -> Commands<C> {
        Commands(Arc::clone(&self.0))
    }

    /// Adds a command. Returns false if too many are waiting: then they are dropped, and it is over.
    pub(super) fn add(&self, command: C) -> bool {
        let mut waiting = self.lock();
        if waiting.commands.len() >= waiting.n_lines_max {
            drop(waiting);
            self.end_at_once(ParentInput::TooManyLines);
            return false;
        }
        waiting.commands.push_back(command);
        self.0.has_changed.notify_all();
        true
    }

    /// Ends the commands; those that wait are still heard.
    pub(super) fn end(&self, end: ParentInput<C>) {
        let mut waiting = self.lock();
        if matches!(waiting.end, End::NotYet) {
            waiting.end = End::Comes(end);
        }
        self.0.has_changed.notify_all();
    }

    /// Ends the commands, and drops those that wait.
    pub(super) fn end_at_once(&self, end: ParentInput<C>) {
        self.lock().commands.clear();
        self.end(end);
    }

    /// Waits for what is heard next; `None` after the end.
    pub fn recv(&self) -> Option<ParentInput<C>> {
        let mut waiting = self.lock();
        loop {
            if let Some(heard) = waiting.take() {
                return Some(heard);
            }
            if matches!(waiting.end, End::Heard) {
                return None;
            }
            waiting = self.0.has_changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Commands::recv`], for so long at most.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<ParentInput<C>> {
        let end = Instant::now() + timeout;
        let mut waiting = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match waiting.take() {
                None if !left.is_zero() => {}
                heard => return heard,
            }
            let woken = self.0.has_changed.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Next command or end, without waiting.
    pub(crate) fn try_recv(&self) -> Option<ParentInput<C>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Waiting<C> {
    fn take(&mut self) -> Option<ParentInput<C>> {
        if let Some(command) = self.commands.pop_front() {
            return Some(ParentInput::Command(command));
        }
        match std::mem::replace(&mut self.end, End::Heard) {
            End::Comes(end) => Some(end),
            other => {
                self.end = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: ParentInput<u32> = ParentInput::ParentIsGone { is_far: true };

    fn all(commands: &Commands<u32>) -> Vec<ParentInput<u32>> {
        std::iter::from_fn(|| commands.try_recv()).collect()
    }

    #[test]
    fn commands_are_heard_in_their_order_and_the_end_once() {
        let commands = Commands::with_room_for(2);
        assert!(commands.add(1) && commands.add(2));
        commands.end(GONE);
        assert_eq!(all(&commands), [ParentInput::Command(1), ParentInput::Command(2), GONE]);
        assert_eq!((commands.recv(), commands.recv_timeout(Duration::ZERO)), (None, None));
    }

    #[test]
    fn silence_is_heard_before_commands_that_wait() {
        let commands = Commands::with_room_for(2);
        commands.add(1);
        commands.end_at_once(GONE);
        assert_eq!(all(&commands), [GONE]);
    }

    #[test]
    fn more_lines_than_may_wait_are_the_end() {
        let commands = Commands::with_room_for(2);
        assert!(commands.add(1) && commands.add(2) && !commands.add(3));
        commands.end(GONE);
        assert_eq!(all(&commands), [ParentInput::TooManyLines]);
    }

    #[test]
    fn whoever_waits_is_woken() {
        let commands = Commands::<u32>::with_room_for(2);
        let shared = commands.share();
        let reader = std::thread::spawn(move || {
            shared.add(1);
            shared.end(GONE);
        });
        assert_eq!(commands.recv(), Some(ParentInput::Command(1)));
        assert_eq!(commands.recv_timeout(Duration::from_secs(60)), Some(GONE));
        reader.join().unwrap();
    }
}
