//! The thread that scrapes an exporter on the database's machine: the verbatim text, and a tick of source `Remote`.

use std::time::Instant;

use anyhow::{Result, ensure};
use model::telemetry::reading::{Tick, TickSource};

use crate::Sample;
use crate::gather::{Backwards, Gather};
use crate::http::Address;
use crate::remote::exposition;
use crate::schedule::{Control, unix_ns};
use crate::sink::Out;

/// Reported as missing if the exporter does not answer.
const SOURCE: &str = "remote";
/// More than node_exporter and postgres_exporter return for a large machine.
const SCRAPE_BYTES_MAX: u64 = 8 << 20;

pub(crate) struct RemoteWatch {
    address: Address,
    gather: Gather,
    out: Out,
}

impl RemoteWatch {
    pub(crate) fn new(address: Address, out: Out) -> RemoteWatch {
        RemoteWatch { address, gather: Gather::new(Backwards::Reset), out }
    }

    /// Scrapes in each tick until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &Control, tick_ns: u64) {
        // When the counters were last read: the next increments count from there.
        let mut last = self.read().then(Instant::now);
        self.gather.take();
        loop {
            let (_, stop) = control.sleep_tick(tick_ns);
            if self.read() {
                let now = Instant::now();
                let (values, _) = self.gather.take();
                if let Some(last) = last {
                    let length_ns = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
                    self.out.tick(Tick {
                        source: TickSource::Remote,
                        end_unix_ns: unix_ns(),
                        length_ns,
                        values,
                    });
                }
                last = Some(now);
            }
            if stop {
                return;
            }
        }
    }

    /// Scrapes once. A missing source is reported once; the next tick is longer.
    fn read(&mut self) -> bool {
        match self.scrape() {
            Ok(()) => true,
            Err(error) => {
                self.out.unavailable(SOURCE, format!("{}: {error:#}", self.address));
                false
            }
        }
    }

    fn scrape(&mut self) -> Result<()> {
        let answer =
            self.address.request("GET", &self.address.path, "Accept: text/plain\r\n", SCRAPE_BYTES_MAX)?;
        ensure!(answer.status == 200, "the answer has status {}", answer.status);
        // A line cut off by the end of the connection would yield a wrong number.
        ensure!(answer.body.ends_with('\n'), "the answer ended within a line");
        for reading in exposition::readings(&answer.body) {
            self.gather.put_said(reading.metric, &reading.instance, reading.value);
        }
        self.out.send(Sample::Scrape { end_unix_ns: unix_ns(), text: answer.body });
        Ok(())
    }
}
