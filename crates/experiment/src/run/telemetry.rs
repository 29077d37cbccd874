//! Passes samples of the observer to the files of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use model::run::RunRecord;
use observe::Sample;
use store::RunWriter;

use crate::site::wal::Meter;

/// Data left behind by the observer's threads.
#[derive(Default, Clone)]
pub(crate) struct Telemetry {
    unavailable: Arc<Mutex<BTreeMap<String, String>>>,
    failure: Arc<Mutex<Option<String>>>,
    pub(crate) wal: Arc<Mutex<Meter>>,
}

impl Telemetry {
    /// A sink that writes the samples to the run's files.
    pub(crate) fn sink(&self, writer: RunWriter) -> Box<dyn FnMut(Sample) + Send> {
        let Telemetry { unavailable, failure, wal } = self.clone();
        Box::new(move |sample| {
            let written = match sample {
                Sample::Tick(tick) => {
                    lock(&wal).take(&tick);
                    writer.tick(&tick)
                }
                Sample::Event(event) => writer.event(&event),
                Sample::Scrape { end_unix_ns, text } => writer.scrape(end_unix_ns, &text),
                Sample::Unavailable { what, reason } => {
                    lock(&unavailable).insert(what, reason);
                    Ok(())
                }
            };
            if let Err(error) = written {
                lock(&failure).get_or_insert(format!("{error:#}"));
            }
        })
    }

    /// Missing telemetry makes the run fail: otherwise its record would look complete without being so.
    pub(crate) fn into_record(self, record: &mut RunRecord) -> Result<()> {
        record.telemetry_unavailable.append(&mut lock(&self.unavailable));
        match lock(&self.failure).take() {
            Some(failure) => anyhow::bail!("cannot write telemetry: {failure}"),
            None => Ok(()),
        }
    }
}

/// A thread that panicked cannot leave these values half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
