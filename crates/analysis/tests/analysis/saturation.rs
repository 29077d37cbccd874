//! When a driver's thread is at its limit.

use model::load::Pace;

use crate::disturbances::pace;
use crate::findings::findings_of;
use crate::quiet::{self, set_metric};

#[test]
fn a_lagging_open_loop_driver_is_saturated_earlier() {
    let mut data = quiet::run(1);
    pace(&mut data, Pace::Constant { rate_per_s: 1006.0 });
    set_metric(&mut data, "driver.thread_cpu", -10.0, 50.0, 0.82);
    assert_eq!(findings_of(data.clone()), []);
    for t in 0..36 {
        let line = quiet::histogram("tpcb.lag", &quiet::latencies_ns(t));
        data.histograms.push(model::run::StampedHistogram { t, line });
    }
    assert_eq!(findings_of(data)[0].id, "driver-saturated");
}

#[test]
fn a_driver_that_stays_awake_on_purpose_is_not_saturated() {
    let mut data = quiet::run(1);
    set_metric(&mut data, "driver.thread_cpu", -10.0, 50.0, 0.97);
    for tick in data.ticks.iter_mut().filter(|tick| tick.values.contains_key("driver.thread_cpu[0]")) {
        tick.values.insert("driver.thread_polling[0]", 0.5);
    }
    assert_eq!(findings_of(data.clone()), []);
    set_metric(&mut data, "driver.thread_polling", -10.0, 50.0, 0.02);
    assert_eq!(findings_of(data)[0].id, "driver-saturated");
}
