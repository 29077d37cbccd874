//! The table as data.

use std::collections::BTreeSet;

use super::*;

#[test]
fn names_are_unique_and_units_are_few() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert!(["s", "bytes", "1", "Hz"].contains(&metric.unit), "{metric:?}");
        assert!(metric.name.contains('.') && !metric.name.contains('['), "{metric:?}");
        assert!(!metric.what.is_empty(), "{metric:?}");
        assert_eq!(find(metric.name).map(|found| found.name), Some(metric.name));
    }
}
