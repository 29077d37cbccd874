//! Passes samples of the observer to the files of a run.

pub(crate) mod images;
pub(crate) mod import;
pub(crate) mod replayed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use fleet::HostObservation;
use model::run::RunRecord;
use model::run::eyes::HostObserverRecord;
use model::telemetry::reading::{Tick, TickSource, split_key};
use observe::Observation;
use store::RunWriter;

use crate::site::wal::Meter;

/// Data left behind by the observer's threads.
#[derive(Default, Clone)]
pub(crate) struct Telemetry {
    unavailable: Arc<Mutex<BTreeMap<String, String>>>,
    statements: Arc<Mutex<BTreeMap<String, String>>>,
    failure: Arc<Mutex<Option<String>>>,
    pub(crate) wal: Arc<Mutex<Meter>>,
}

impl Telemetry {
    /// A sink that writes the samples to the run's files. With eyes on the server's host, the machine that is observed here
    /// is that of the driver.
    pub(crate) fn sink(
        &self,
        writer: RunWriter,
        eyes: Option<&HostObserverRecord>,
    ) -> Box<dyn FnMut(Observation) + Send> {
        let Telemetry { unavailable, statements, failure, wal } = self.clone();
        let is_here = eyes.map(|eyes| eyes.is_here);
        Box::new(move |sample| {
            let written = match sample {
                Observation::Tick(mut tick) => {
                    lock(&wal).take(&tick);
                    if let Some(is_here) = is_here {
                        of_driver_host(&mut tick, is_here);
                    }
                    writer.tick(&tick)
                }
                Observation::Event(event) => writer.event(&event),
                Observation::Scrape { end_unix_ns, text } => writer.scrape(end_unix_ns, &text),
                Observation::Statement { id, text } => {
                    lock(&statements).insert(id, text);
                    Ok(())
                }
                Observation::Unavailable { what, reason } => {
                    lock(&unavailable).insert(what, reason);
                    Ok(())
                }
            };
            if let Err(error) = written {
                lock(&failure).get_or_insert(format!("{error:#}"));
            }
        })
    }

    /// A sink for what the eyes on the server's host see.
    pub(crate) fn eyes_sink(&self, writer: RunWriter) -> Box<dyn FnMut(HostObservation) + Send> {
        let mut sink = self.sink(writer, None);
        Box::new(move |seen| {
            sink(match seen {
                HostObservation::Tick(tick) => Observation::Tick(tick),
                HostObservation::Event(event) => Observation::Event(event),
                HostObservation::Missing { what, reason } => Observation::Unavailable { what, reason },
            });
        })
    }

    /// Missing telemetry makes the run fail: otherwise its record would look complete without being so.
    pub(crate) fn into_record(self, record: &mut RunRecord) -> Result<()> {
        record.telemetry_unavailable.append(&mut lock(&self.unavailable));
        record.statements = std::mem::take(&mut lock(&self.statements));
        match lock(&self.failure).take() {
            Some(failure) => anyhow::bail!("cannot write telemetry: {failure}"),
            None => Ok(()),
        }
    }
}

/// Makes a tick of this machine one of the driver's host. If the eyes look at the same machine, only what concerns
/// pgdyno and its driver is left of it.
fn of_driver_host(tick: &mut Tick, is_same: bool) {
    if tick.source != TickSource::Host {
        return;
    }
    tick.source = TickSource::DriverHost;
    if is_same {
        tick.values.retain(|key, _| is_of_driver(key));
    }
}

/// Whether a metric of the host concerns pgdyno and its driver: the quotas of their control groups do, and the processors that they
/// may use.
fn is_of_driver(key: &str) -> bool {
    let (name, instance) = split_key(key);
    let is_its = |instance: &str| instance == "driver" || instance.starts_with("driver:");
    let is_limit = ["cgroup.", "affinity."].iter().any(|what| name.starts_with(what));
    (is_limit && instance.is_some_and(is_its))
        || ["pgdyno.", "driver."].iter().any(|party| key.starts_with(party))
}

/// A thread that panicked cannot leave these values half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_machine_that_eyes_look_at_too_what_concerns_the_driver_is_kept() {
        let keys = |is_same| {
            let keys = [
                "affinity.processors[driver]",
                "affinity.processors[server]",
                "cgroup.periods[driver:/a]",
                "cgroup.periods[server:/b]",
                "driver.run_delay",
                "host.cpu.user[cpu0]",
                "pgdyno.cpu",
            ];
            let values = keys.map(|key| (key.to_string(), 1.0)).into();
            let mut tick = Tick { source: TickSource::Host, end_unix_ns: 1, length_ns: 1, values };
            of_driver_host(&mut tick, is_same);
            assert_eq!(tick.source, TickSource::DriverHost);
            tick.values.keys().map(String::from).collect::<Vec<String>>()
        };
        let kept =
            ["affinity.processors[driver]", "cgroup.periods[driver:/a]", "driver.run_delay", "pgdyno.cpu"];
        assert_eq!(keys(true), kept);
        assert_eq!(keys(false).len(), 7);
    }
}
