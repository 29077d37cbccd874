//! The loop of a thread that reads all of a source at the end of each tick.

use std::collections::BTreeMap;
use std::time::Instant;

use model::telemetry::reading::{Tick, TickSource};

use crate::schedule::{ObserverControl, unix_ns};
use crate::sink::Out;

/// Reads in each tick until it is stopped, and then once more. After a reading that fails, the next tick is longer.
pub(crate) fn run(
    source: TickSource,
    control: &ObserverControl,
    tick_ns: u64,
    out: &Out,
    mut read: impl FnMut() -> Option<BTreeMap<String, f64>>,
) {
    // When the counters were last read: the next increments count from there.
    let mut last = read().map(|_| Instant::now());
    loop {
        let (_, stop) = control.sleep_tick(tick_ns);
        if let Some(values) = read() {
            let now = Instant::now();
            if let Some(last) = last {
                let length_ns = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
                out.tick(Tick { source, end_unix_ns: unix_ns(), length_ns, values: values.into() });
            }
            last = Some(now);
        }
        if stop {
            return;
        }
    }
}
