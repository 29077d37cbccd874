//! The thread that asks the console of each process of our own pooler for its queue: one tick of source `Pooler` per second.

use std::time::Duration;

use anyhow::Result;
use model::experiment::topology::pooler::CONSOLE;
use model::telemetry::reading::TickSource;
use wire::Conninfo;
use wire::session::{Rows, Session};

use crate::gather::{Backwards, Gather};
use crate::poll;
use crate::schedule::ObserverControl;
use crate::sink::Out;

/// Beginning of all that it reads.
const SOURCE: &str = "pooler.";
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

pub(crate) struct PoolerWatch {
    consoles: Vec<Console>,
    gather: Gather,
    out: Out,
}

struct Console {
    conninfo: Conninfo,
    session: Option<Session>,
}

/// What consoles say, summed over pools and processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Queue {
    clients_active: f64,
    clients_waiting: f64,
    servers_active: f64,
    servers_idle: f64,
    max_wait_s: f64,
    wait_s: f64,
    transactions: f64,
}

impl PoolerWatch {
    /// Will ask the consoles at these places.
    pub(crate) fn new(consoles: Vec<Conninfo>, out: Out) -> PoolerWatch {
        let consoles = consoles.into_iter().map(|conninfo| Console { conninfo, session: None }).collect();
        PoolerWatch { consoles, gather: Gather::new(Backwards::Reset), out }
    }

    /// Asks in each tick until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        let out = self.out.clone();
        poll::run(TickSource::Pooler, control, tick_ns, &out, || self.read().then(|| self.gather.take().0));
    }

    /// Asks once. What cannot be read is reported once; the next tick is longer.
    fn read(&mut self) -> bool {
        let mut queue = Queue::default();
        for console in &mut self.consoles {
            if let Err(error) = console.add_to(&mut queue) {
                console.session = None;
                self.out.unavailable(SOURCE, format!("the pooler's console does not answer: {error:#}"));
                return false;
            }
        }
        self.gather.put("pooler.clients", "active", queue.clients_active);
        self.gather.put("pooler.clients", "waiting", queue.clients_waiting);
        self.gather.put("pooler.servers", "active", queue.servers_active);
        self.gather.put("pooler.servers", "idle", queue.servers_idle);
        self.gather.put("pooler.max_wait", "", queue.max_wait_s);
        self.gather.put("pooler.wait", "", queue.wait_s);
        self.gather.put("pooler.transactions", "", queue.transactions);
        true
    }
}

impl Console {
    fn add_to(&mut self, queue: &mut Queue) -> Result<()> {
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let mut session = Session::connect(&self.conninfo)?;
                session.set_timeout(Some(ANSWER_LIMIT));
                none.insert(session)
            }
        };
        queue.add_pools(&session.query("show pools")?);
        queue.add_statistics(&session.query("show stats")?);
        Ok(())
    }
}

impl Queue {
    fn add_pools(&mut self, pools: &Rows) {
        for row in rows_of_load(pools) {
            let n = |name: &str| -> f64 { pools.parse(row, name).unwrap_or_default() };
            self.clients_active += n("cl_active");
            self.clients_waiting += n("cl_waiting");
            self.servers_active += n("sv_active");
            // Those that were used a moment ago, or are checked, serve nobody either.
            self.servers_idle += n("sv_idle") + n("sv_used") + n("sv_tested");
            self.max_wait_s = self.max_wait_s.max(n("maxwait") + n("maxwait_us") / 1e6);
        }
    }

    fn add_statistics(&mut self, statistics: &Rows) {
        for row in rows_of_load(statistics) {
            let n = |name: &str| -> f64 { statistics.parse(row, name).unwrap_or_default() };
            self.wait_s += n("total_wait_time") / 1e6;
            self.transactions += n("total_xact_count");
        }
    }
}

fn rows_of_load(rows: &Rows) -> impl Iterator<Item = usize> + '_ {
    (0..rows.len()).filter(|row| rows.get(*row, "database") != Some(CONSOLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], rows: &[&[&str]]) -> Rows {
        Rows {
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.iter().map(|row| row.iter().map(|cell| Some((*cell).to_string())).collect()).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn pools_are_summed_without_that_of_the_console() {
        let mut queue = Queue::default();
        let columns = [
            "database",
            "cl_active",
            "cl_waiting",
            "sv_active",
            "sv_idle",
            "sv_used",
            "maxwait",
            "maxwait_us",
        ];
        queue.add_pools(&rows(
            &columns,
            &[
                &["pgbouncer", "9", "9", "9", "9", "9", "9", "9"],
                &["a", "5", "40", "5", "1", "2", "1", "500000"],
                &["b", "1", "2", "1", "0", "0", "0", "100000"],
            ],
        ));
        queue.add_statistics(&rows(
            &["database", "total_xact_count", "total_wait_time"],
            &[&["a", "100", "2500000"], &["pgbouncer", "7", "7"]],
        ));
        let expected = Queue {
            clients_active: 6.0,
            clients_waiting: 42.0,
            servers_active: 6.0,
            servers_idle: 3.0,
            max_wait_s: 1.5,
            wait_s: 2.5,
            transactions: 100.0,
        };
        assert_eq!(queue, expected);
    }
}
