//! Eyes on the host of a server by URL, for one run: opened before its host is described, closed after its load.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fleet::{HostObservation, HostObserver};
use model::experiment::keys;
use model::run::RunRecord;
use model::telemetry::watch::WatchOrder;
use observe::Observer;
use server::database::target::{backend_of, data_directory, log_path};
use wire::session::Session;

use crate::run::live::OneRun;
use crate::run::place::LocalParts;
use crate::site::lanes;
use crate::spot::Spot;

/// Where everything that eyes see goes.
type Sink = Box<dyn FnMut(HostObservation) + Send>;

impl OneRun<'_> {
    /// Opens the eyes on the case's host, if it has one, and records what they find. `session` shows them the server: its
    /// process must still be there.
    ///
    /// # Errors
    /// When the host cannot be reached or has another build of pgdyno: what was asked for would be missing in every run.
    pub(crate) fn open_eyes(
        &self,
        session: &mut Session,
        record: &mut RunRecord,
    ) -> Result<Option<HostObserver>> {
        let Some(host) = &self.case.server.host else { return Ok(None) };
        let order = WatchOrder {
            format: model::FORMAT,
            data_directory: data_directory(session),
            log_path: log_path(session),
            backend: backend_of(session),
            counters: self.case.get(keys::run::COUNTERS),
            spot_notice: self.site.callbacks.spot.map(|spot| spot.url.clone()),
        };
        let eyes = HostObserver::open(host, order, self.program.to_path_buf(), self.site.environment.stop)
            .with_context(|| format!("cannot observe the server's host `{}`", host.name))?;
        let results = BTreeMap::from([("results".to_string(), self.results_dir.clone())]);
        let mut here = observe::host::facts::record(&results);
        let mut there = eyes.watching.host.clone();
        if eyes.record.is_here {
            there.mounts.append(&mut here.mounts);
        } else {
            record.driver_host = Some(here);
        }
        record.host = Some(there);
        record.server_is_local = true;
        record.eyes = Some(eyes.record.clone());
        record.telemetry_unavailable.extend(eyes.watching.missing.clone());
        Ok(Some(eyes))
    }

    /// Takes the machine of the server, as far as it is known, for this lane.
    ///
    /// # Errors
    /// When another lane uses it.
    pub(crate) fn take_server(&self, record: &RunRecord) -> Result<()> {
        let Some(seat) = self.site.environment.seat else { return Ok(()) };
        let what = format!("the server of target `{}`", lanes::target_of(self.case));
        match &record.eyes {
            Some(eyes) => seat.take_machine(&eyes.hello.boot_id, what),
            None if record.server_is_local => seat.take_this_machine(what),
            None => Ok(()),
        }
    }
}

/// Has the host observed from now on, and asks its cloud if `spot` says where; `observer` knows whose backends are whose.
pub(crate) fn go(eyes: &HostObserver, go: u64, spot: Option<&Spot>, mut sink: Sink, observer: &Observer) {
    let (spot, host) = (spot.cloned(), eyes.record.name.clone());
    let heard = move |seen| {
        if let (Some(spot), HostObservation::Event(event)) = (&spot, &seen) {
            spot.hear(&host, event);
        }
        sink(seen);
    };
    eyes.go(go, Box::new(heard), Box::new(observer.backends()));
}

/// Ends the eyes. That they failed is recorded: the number stands, but what they did not see is missing.
pub(crate) fn close(eyes: HostObserver, record: &mut RunRecord) {
    let (last, failure) = eyes.end();
    if let Some(reason) = failure {
        record.telemetry_unavailable.insert("host".to_string(), reason);
    } else if last.n_ticks_lost > 0 {
        let reason = format!("{} of its ticks did not arrive", last.n_ticks_lost);
        record.telemetry_unavailable.insert("host".to_string(), reason);
    }
    record.eyes = Some(last);
}

/// The parts of the server that pgdyno itself observes here while the eyes look at the rest.
pub(crate) fn without_host(place: &mut LocalParts) {
    place.postmaster_pid = None;
    place.dirs = BTreeMap::new();
    place.log_path = None;
}
