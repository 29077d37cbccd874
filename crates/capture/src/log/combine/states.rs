//! The sessions that are open, within bounds.

use std::collections::HashMap;

use crate::log::combine::output::Output;
use crate::log::combine::session::SessionState;
use crate::log::format::record::SessionKey;

/// After so much silence a process id is that of another session, if the log has nothing better.
const SILENCE_US: i64 = 600_000_000;

/// Sessions whose state is kept: those that do not disconnect in the log would become more and more.
const SESSIONS_MAX: usize = 100_000;

/// Bytes of texts that all sessions may hold.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Process ids whose latest session is known.
const PROCESSES_MAX: usize = 1 << 20;

/// Open sessions.
#[derive(Debug, Default)]
pub(super) struct States {
    sessions: HashMap<SessionKey, Box<SessionState>>,
    latest: HashMap<u32, SessionKey>,
    held_bytes: usize,
}

impl States {
    /// The state of a session, which may be new; the process id if a later session of its process has begun before.
    pub(super) fn of(
        &mut self,
        key: SessionKey,
        now_us: i64,
        is_received: bool,
        output: &mut Output,
    ) -> Result<&mut SessionState, u32> {
        if let SessionKey::Process(_) = key {
            let is_other = |state: &SessionState| is_received || now_us - state.last_us > SILENCE_US;
            if self.sessions.get(&key).is_some_and(|state| is_other(state)) {
                self.end(key, output);
            }
        }
        if !self.sessions.contains_key(&key) {
            self.bound(output);
            self.supersede(key)?;
            if matches!(key, SessionKey::Process(_)) {
                output.reading.guessed_sessions += 1;
            }
        }
        let state = self.sessions.entry(key).or_default();
        if state.is_superseded {
            return Err(key.pid().unwrap_or(0));
        }
        state.last_us = now_us;
        Ok(state)
    }

    /// A new session makes the one before of its process a past one.
    fn supersede(&mut self, key: SessionKey) -> Result<(), u32> {
        let (began, pid) = match key {
            SessionKey::Id(began, pid) => (i128::from(began), pid),
            SessionKey::Started(pid, began) => (i128::from(began), pid),
            SessionKey::Process(_) | SessionKey::Unknown => return Ok(()),
        };
        if self.latest.len() > PROCESSES_MAX {
            self.latest.clear();
        }
        let earlier = self.latest.insert(pid, key);
        match earlier {
            Some(SessionKey::Id(other, _)) if i128::from(other) > began => return Err(pid),
            Some(SessionKey::Started(_, other)) if i128::from(other) > began => return Err(pid),
            Some(earlier) => {
                if let Some(state) = self.sessions.get_mut(&earlier) {
                    state.is_superseded = true;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// After a record: what the session holds now, and whether it has ended.
    pub(super) fn settle(
        &mut self,
        key: SessionKey,
        held: usize,
        held_now: usize,
        is_ended: bool,
        output: &mut Output,
    ) {
        self.held_bytes = self.held_bytes.saturating_sub(held) + held_now;
        if is_ended {
            self.end(key, output);
        }
        if self.held_bytes > HELD_BYTES_MAX {
            output.reading.forgotten_sessions += self.sessions.len() as u32;
            for state in self.sessions.values_mut() {
                output.close(state);
            }
            self.held_bytes = 0;
        }
    }

    /// The end of a session.
    fn end(&mut self, key: SessionKey, output: &mut Output) {
        if let Some(mut state) = self.sessions.remove(&key) {
            self.held_bytes = self.held_bytes.saturating_sub(state.held_bytes());
            output.end(&mut state);
        }
    }

    /// Ends the half of the sessions that was silent for the longest time, if there are too many.
    fn bound(&mut self, output: &mut Output) {
        if self.sessions.len() < SESSIONS_MAX {
            return;
        }
        let mut times: Vec<(i64, SessionKey)> =
            self.sessions.iter().map(|(key, state)| (state.last_us, *key)).collect();
        times.sort_unstable_by_key(|(time, _)| *time);
        for (_, key) in times.into_iter().take(SESSIONS_MAX / 2) {
            output.reading.forgotten_sessions += 1;
            self.end(key, output);
        }
    }

    /// The end of the log.
    pub(super) fn end_all(&mut self, output: &mut Output) {
        let mut all: Vec<Box<SessionState>> = self.sessions.drain().map(|(_, state)| state).collect();
        all.sort_by_key(|state| (state.last_us, state.id));
        all.iter_mut().for_each(|state| output.end(state));
    }
}
