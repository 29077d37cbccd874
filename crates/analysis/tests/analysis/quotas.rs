//! CPU quotas of control groups, those that a case asks for and others.

use model::telemetry::reading::TickSource;

use crate::findings::findings_of;
use crate::quiet;

#[test]
fn the_quota_that_a_case_asks_for_hides_no_other_one() {
    let found = |throttled: &[(&str, f64)], asks: bool| {
        let mut data = quiet::run(1);
        if asks {
            data.record.case.os.insert("cpu_quota".to_string(), "0.5".to_string());
        }
        for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Host) {
            for (group, throttled) in throttled {
                for (name, value) in [
                    ("quota", 0.5),
                    ("periods", 10.0),
                    ("throttled_periods", *throttled),
                    ("throttled_time", 0.3),
                ] {
                    tick.values.insert(&format!("cgroup.{name}[server:{group}]"), value);
                }
            }
        }
        let finding = findings_of(data).into_iter().find(|finding| finding.id == "cpu-quota").unwrap();
        (finding.effect.is_some(), finding.evidence.contains("/box "))
    };
    let ours = ("/box/pgdyno-1", 5.0);
    assert_eq!(found(&[ours], true), (false, false));
    assert_eq!(found(&[ours], false), (true, false));
    assert_eq!(found(&[ours, ("/box", 1.0)], true), (true, true));
    assert_eq!(found(&[ours, ("/box", 0.0)], true), (false, false));
}
