//! The end of each second and of the load: the counts go to the control loop.

use model::load::execution::ExecutionEnd;
use workload::emulator::traced::{TracedClient, TracedFigures};

use super::Worker;
use crate::client::{Client, State};
use crate::clock::{self, Nanos, SECOND_NS};
use crate::tally::{IntervalTally, LOST};
use crate::thread::report::{Finished, Report, ThreadInterval};
use crate::thread::stop;
use crate::thread::turns::TurnClock;

impl Worker<'_> {
    /// Sends the intervals that are over by `now`.
    #[inline]
    pub(super) fn close_intervals(&mut self, now: Nanos) {
        while now >= self.interval.end {
            self.close_interval(self.interval.end);
            self.interval.end += SECOND_NS;
        }
    }

    fn close_interval(&mut self, end: Nanos) {
        self.count_backlog(end);
        // Clients that are down do not connect any more when the load has ended.
        if self.roster.n_connecting > 0 || end >= self.bounds.end {
            (0..self.setup.clients.len()).for_each(|index| self.count_outage(index, end));
        }
        self.report_dropped_notices(end);
        self.report_executions();
        self.flush_log();
        self.tally.count();
        let fresh = self.setup.spare.try_recv().unwrap_or_else(|_| IntervalTally::new(&self.setup.shape));
        let cpu = clock::thread_cpu();
        let clients = &self.setup.clients;
        let ended: u64 = clients.iter().map(|c| c.record.n_server_transactions).sum();
        let part = ThreadInterval {
            thread: self.setup.thread,
            t: self.interval.t,
            start: self.interval.start,
            end,
            tally: std::mem::replace(&mut self.tally, fresh),
            thread_cpu_ns: cpu - self.interval.thread_cpu_at_start,
            polled_ns: self.setup.poller.take_polled_ns(),
            loop_max_ns: self.interval.loop_max_ns,
            in_flight: clients.iter().filter(|c| c.in_flight()).count() as u64,
            connected: clients.iter().filter(|c| c.session.link.is_some()).count() as u64,
            backlog: self.slots.backlog,
            server_transactions: ended - self.interval.server_transactions_before,
        };
        self.interval.server_transactions_before = ended;
        self.interval.thread_cpu_at_start = cpu;
        self.interval.loop_max_ns = 0;
        self.interval.start = end;
        self.interval.t += 1;
        self.report(Report::Part(Box::new(part)));
    }

    /// Counts the part of the interval, up to `until`, in which a client has had no connection after a loss.
    pub(super) fn count_outage(&mut self, index: usize, until: Nanos) {
        let client = &self.setup.clients[index];
        let Some(since) = client.dial.down_since else { return };
        let begun = since.max(self.interval.start);
        let tally = &mut self.tally.scripts[client.transaction.script];
        tally.connects.outage_ns += until.saturating_sub(begun) as f64;
    }

    /// A log that cannot be written voids the load: it ends at once.
    fn flush_log(&mut self) {
        let Some(log) = &mut self.setup.log else { return };
        if let Err(message) = log.flush() {
            self.setup.log = None;
            self.setup.controls.stop.fetch_max(stop::AT_ONCE, std::sync::atomic::Ordering::Relaxed);
            self.report(Report::Failed(message));
        }
    }

    /// Updates the backlog: slots that were due by `until` and are not taken.
    pub(super) fn count_backlog(&mut self, until: Nanos) {
        let Some(counter) = &mut self.slots.due_counter else { return };
        // A load that is stopped early has no slots after its stop.
        while counter.take(until.min(self.bounds.end)).is_some() {
            self.slots.backlog += 1;
        }
        self.slots.backlog = self.slots.backlog.saturating_sub(std::mem::take(&mut self.slots.n_taken));
    }

    /// Accounts for what is still open, and reports the end.
    pub(super) fn finish(&mut self) {
        let now = clock::now();
        self.close_intervals(now);
        let (mut unanswered, mut unanswered_ns) = (0, 0);
        let resting = self.setup.clients.iter_mut().filter(|client| !client.in_flight());
        resting.for_each(Client::rest_on_target);
        let asked = self.to_be_asked();
        for index in (0..self.setup.clients.len()).filter(|index| asked != Some(*index)) {
            let client = &self.setup.clients[index];
            if client.awaits_server() && client.transaction.cancelled.is_some() {
                unanswered += 1;
                unanswered_ns = unanswered_ns.max(now - client.transaction.statement_sent);
            }
            self.leave(index, now);
        }
        let backlog = self.skip_backlog(now);
        if let Some(log) = &mut self.setup.log {
            log.finish(self.setup.wall.unix(now) / 1000);
        }
        self.close_interval(now);
        // All is counted and reported by now.
        let sessions = asked.map(|index| self.ask_settings(index));
        let finished = Finished {
            thread: self.setup.thread,
            late: self.record.late,
            end: now,
            measured: self.setup.clients.iter().map(|c| (c.id, c.record.n_measured)).collect(),
            committed_by_slice: self.setup.turns.take().map_or(Vec::new(), TurnClock::into_committed),
            backlog,
            clients_lost: self.record.clients_lost,
            unanswered,
            unanswered_ns,
            messages: std::mem::take(&mut self.record.messages),
            sessions,
            traced: self.setup.clients.iter_mut().filter_map(take_traced).collect(),
        };
        self.report(Report::Finished(Box::new(finished)));
    }

    /// Ends the transaction of a client that sleeps, which goes no further.
    pub(super) fn give_up(&mut self, index: usize, now: Nanos) {
        self.count_open(index, now);
        self.setup.clients[index].state = State::Idle;
        self.roster.n_sleeping -= 1;
    }

    /// Counts a transaction in flight that nothing more is heard of.
    fn count_open(&mut self, index: usize, now: Nanos) {
        let is_unknown = self.may_be_committed(index);
        let scripts = self.setup.scripts;
        let transaction = &mut self.setup.clients[index].transaction;
        let (script, is_cancelled) = (transaction.script, transaction.cancelled.is_some());
        let (end, state) = match transaction.failure {
            Some(state) if !is_cancelled && scripts.expects(script, state) => {
                (ExecutionEnd::Expected, Some(state))
            }
            Some(state) if !is_cancelled => (ExecutionEnd::Failed, Some(state)),
            None if is_unknown => (ExecutionEnd::Unknown, Some(LOST)),
            _ => (ExecutionEnd::Aborted, None),
        };
        transaction.ended_with = state;
        let tally = &mut self.tally.scripts[script];
        let count = match end {
            ExecutionEnd::Expected => &mut tally.counts.expected,
            ExecutionEnd::Failed => &mut tally.counts.failed,
            ExecutionEnd::Unknown => &mut tally.counts.unknown,
            _ => &mut tally.counts.aborted,
        };
        *count += 1;
        if let (ExecutionEnd::Failed | ExecutionEnd::Unknown, Some(state)) = (end, state) {
            tally.error(state, 1);
        }
        self.report_uncounted(index, end, now);
    }

    /// Ends a client, whatever it is doing.
    fn leave(&mut self, index: usize, now: Nanos) {
        self.count_outage(index, now);
        let client = &mut self.setup.clients[index];
        client.dial.down_since = None;
        if client.in_flight() {
            self.count_open(index, now);
            // Its socket closes when the process ends, with nothing said to the server.
            self.setup.clients[index].state = State::Gone;
        } else {
            client.disconnect();
        }
        self.let_resting_go(index);
    }

    /// Skips the slots for which no client was free before the load ended, and returns how many there were. Their scripts
    /// were never chosen: they count under the first one. When all clients have made their transactions before, the slots
    /// that remain are not part of the load; they are if a client was lost that could have taken them.
    fn skip_backlog(&mut self, now: Nanos) -> u64 {
        let end = now.min(self.bounds.end);
        self.count_backlog(end);
        self.slots.due_counter = None;
        let backlog = std::mem::take(&mut self.slots.backlog);
        if now < self.bounds.end && self.record.clients_lost == 0 {
            return 0;
        }
        if self.setup.load.each_execution {
            self.report_unserved(backlog, end, now);
        }
        let counts = &mut self.tally.scripts[0].counts;
        counts.due += backlog;
        counts.skipped += backlog;
        backlog
    }
}

/// What a client of a trace has seen.
fn take_traced(client: &mut Client) -> Option<TracedFigures> {
    client.emulator.traced().map(TracedClient::take_figures)
}
