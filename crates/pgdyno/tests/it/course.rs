//! Windows whose ends are found while the load runs: a ramp-up until the load is steady, a measure that grows.

use model::load::course::{LoadCourse, RampUpEnd};
use testbed::bin_dir;

use crate::tool::Place;

/// Seconds that count in a run of `statement`, by its record, and those that were measured.
fn course_of(statement: &str, set: &[&str]) -> (LoadCourse, f64) {
    let place = Place::new();
    let bin_dir = bin_dir().display().to_string();
    place.write("statement.sql", statement);
    let fixed =
        "-f statement.sql -c 8 --repeats 1 -o out --set run.ramp_up=auto --set run.repeat_disturbed=0";
    let mut args = vec!["run", "--bin-dir", &bin_dir, "--set", "workload.data=\"none\""];
    args.extend(fixed.split(' '));
    args.extend(set.iter().flat_map(|change| ["--set", change]));
    place.run(&args).expect(0);
    let data = place.results("out");
    let study = analysis::study(&data);
    (data.runs[0].record.course.unwrap(), study.runs[0].measured_s)
}

#[test]
fn the_measure_begins_when_the_load_is_steady() {
    let (course, measured_s) =
        course_of("SELECT pg_sleep(0.02);\n", &["run.ramp_up_max=60s", "run.measure=3s"]);
    assert_eq!(course.ramp_up_end, Some(RampUpEnd::Steady));
    assert!((5..60).contains(&course.window.ramp_up_s), "{course:?}");
    assert_eq!((course.window.measure_s, course.extended_s), (3, 0));
    assert!((measured_s - 3.0).abs() < 0.1, "{measured_s}");
}

#[test]
fn a_load_that_becomes_slower_and_slower_is_measured_longer() {
    // Each second of the server's life makes it 5 ms slower.
    let statement =
        "SELECT pg_sleep(0.005 * extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()));\n";
    let (course, measured_s) =
        course_of(statement, &["run.ramp_up_max=20s", "run.measure=12s", "run.extend=4s"]);
    assert_eq!(course.ramp_up_end, Some(RampUpEnd::Bound));
    assert_eq!((course.window.ramp_up_s, course.window.measure_s, course.extended_s), (20, 16, 4));
    assert!((measured_s - 16.0).abs() < 0.3, "{measured_s}");
}
