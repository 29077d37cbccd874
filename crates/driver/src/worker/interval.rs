//! The end of each second, and of the load: what was counted goes to the control loop.

use super::{Finished, Part, Report, Worker};
use crate::client::State;
use crate::clock::{self, Nanos, SECOND_NS};
use crate::tally::{LOST, Tally};

impl Worker<'_> {
    /// Sends the intervals that are over by `now`.
    #[inline]
    pub(super) fn close_intervals(&mut self, now: Nanos) {
        while now >= self.boundary {
            self.close_interval(self.boundary);
            self.boundary += SECOND_NS;
        }
    }

    pub(super) fn close_interval(&mut self, end: Nanos) {
        self.count_backlog(end);
        let fresh = self.setup.spare.try_recv().unwrap_or_else(|_| {
            Tally::new(&self.setup.scripts.n_statements(), self.setup.schedule.is_some())
        });
        let cpu = clock::thread_cpu();
        let clients = &self.setup.clients;
        let part = Part {
            thread: self.setup.thread,
            t: self.t,
            start: self.interval_start,
            end,
            tally: std::mem::replace(&mut self.tally, fresh),
            thread_cpu_ns: cpu - self.thread_cpu_at_start,
            loop_max_ns: self.loop_max_ns,
            in_flight: clients.iter().filter(|c| c.in_flight()).count() as u64,
            connected: clients.iter().filter(|c| c.state != State::Gone).count() as u64,
            backlog: self.backlog,
        };
        self.thread_cpu_at_start = cpu;
        self.loop_max_ns = 0;
        self.interval_start = end;
        self.t += 1;
        self.report(Report::Part(Box::new(part)));
    }

    /// How many slots were due by `until` and are not taken.
    pub(super) fn count_backlog(&mut self, until: Nanos) {
        let Some(counter) = &mut self.due_counter else { return };
        while counter.take(until).is_some() {
            self.backlog += 1;
        }
        self.backlog -= std::mem::take(&mut self.n_taken);
    }

    /// Accounts for what is left, and reports the end.
    pub(super) fn finish(&mut self) {
        let now = clock::now();
        self.close_intervals(now);
        for client in self.setup.clients.iter_mut().filter(|c| c.in_flight()) {
            let tally = &mut self.tally.scripts[client.script];
            let waiting = client.state == State::Waiting;
            if waiting && self.setup.scripts.decides(client.script, client.statement, client.in_block()) {
                tally.counts.unknown += 1;
                tally.error(LOST, 1);
            } else {
                tally.counts.aborted += 1;
            }
            client.state = State::Gone;
        }
        self.skip_backlog(now);
        self.close_interval(now);
        let finished = Finished {
            thread: self.setup.thread,
            end: now,
            measured: self.setup.clients.iter().map(|c| (c.id, c.measured)).collect(),
            clients_lost: self.clients_lost,
            messages: std::mem::take(&mut self.messages),
        };
        self.report(Report::Finished(Box::new(finished)));
    }

    /// Slots that no client was free for before the load ended were never sent. Which script each would have
    /// run is not decided before it starts: the first one stands for them.
    pub(super) fn skip_backlog(&mut self, now: Nanos) {
        self.count_backlog(now.min(self.end));
        self.due_counter = None;
        let counts = &mut self.tally.scripts[0].counts;
        counts.due += self.backlog;
        counts.skipped += self.backlog;
        self.backlog = 0;
    }
}
