//! Samples of the observer on their way to the files of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use model::run::RunRecord;
use observe::Sample;
use store::RunWriter;

use crate::site::wal::Meter;

/// What the observer's threads leave behind.
#[derive(Default, Clone)]
pub(crate) struct Telemetry {
    unavailable: Arc<Mutex<BTreeMap<String, String>>>,
    failure: Arc<Mutex<Option<String>>>,
    pub(crate) wal: Arc<Mutex<Meter>>,
}

impl Telemetry {
    /// Takes the samples, to the run's files.
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

    /// Telemetry that could not be written makes the run fail: its record would look whole and not be.
    pub(crate) fn into_record(self, record: &mut RunRecord) -> Result<()> {
        record.telemetry_unavailable.append(&mut lock(&self.unavailable));
        match lock(&self.failure).take() {
            Some(failure) => anyhow::bail!("telemetry could not be written: {failure}"),
            None => Ok(()),
        }
    }
}

/// A thread that panicked left nothing half done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
