//! Tests of tables: all formats hold the same rows, and Parquet is read back by its own library.

use std::collections::BTreeMap;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::RunSpec;
use model::load::Window;
use model::load::interval::Counts;
use model::run::{RunRecord, StampedHistogram};
use model::telemetry::reading::{Tick, TickSource};

use super::*;

const GO: u64 = 1_700_000_000_000_000_000;

fn plan() -> Plan {
    Plan { factors: vec!["workload.clients".to_string()], ..Plan::default() }
}

fn run(number: u32) -> RunData {
    let case = Case {
        levels: BTreeMap::from([("workload.clients".to_string(), "8, \"eight\"".to_string())]),
        ..Case::new(
            ServerSpec::new(ServerSource::Version("18".parse().unwrap())),
            WorkloadSpec::new(WorkloadKind::Tpcb, 1),
            Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 },
        )
    };
    let spec = RunSpec { run: number, block: number, case: 1, seed: 4 };
    let interval = |t: u32| model::load::interval::Interval {
        t,
        start_unix_ns: GO + u64::from(t) * 1_000_000_000,
        length_ns: 1_000_000_000,
        counts: Counts { committed: 10 + u64::from(t), ..Counts::default() },
        errors: BTreeMap::from([("40001".to_string(), 3)]),
        ..Default::default()
    };
    let values = [("host.cpu.user[cpu0]", 0.25), ("driver.in_flight", f64::NAN), ("of.tomorrow", 1.0)];
    let tick = Tick {
        source: TickSource::Host,
        end_unix_ns: GO + 1_500_000_000,
        length_ns: 1_000_000_000,
        values: values.map(|(key, value)| (key.to_string(), value)).into(),
    };
    RunData {
        record: RunRecord { go_unix_ns: Some(GO), ..RunRecord::new(spec, case, "0.1.0") },
        intervals: [0, 1, 2, 3].map(interval).into(),
        histograms: Vec::<StampedHistogram>::new(),
        ticks: vec![tick],
        events: Vec::new(),
        imports: Vec::new(),
        executions: Vec::new(),
        plans: Vec::new(),
        damage: Vec::new(),
    }
}

fn written(table: ExportTable, format: ExportFormat) -> Vec<u8> {
    let mut export = Export::begin(table, format, &plan(), Vec::new()).unwrap();
    [1, 2].iter().for_each(|number| export.run(&run(*number)).unwrap());
    export.end().unwrap()
}

#[test]
fn intervals_have_a_row_for_each_second_with_its_levels() {
    let csv = String::from_utf8(written(ExportTable::Intervals, ExportFormat::Csv)).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("run,block,case,workload.clients,second,measured,script,start_unix_ns,"));
    assert_eq!(lines.len(), 9);
    assert!(
        lines[2].starts_with("1,1,1,\"8, \"\"eight\"\"\",1,1,,1700000001000000000,1000000000,0,0,0,11,"),
        "{}",
        lines[2]
    );
    assert!(lines[2].contains(",40001:3,"));
    // A level holds a comma.
    let measured: String = lines[1..5].iter().map(|line| line.split(',').nth(6).unwrap()).collect();
    assert_eq!(measured, "0110", "the ramp-up and what comes after the window");
}

#[test]
fn readings_have_a_row_for_each_value_and_numbers_that_are_none_are_missing() {
    let json = String::from_utf8(written(ExportTable::Readings, ExportFormat::Json)).unwrap();
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6);
    let of = |metric: &str| rows.iter().find(|row| row["metric"] == metric).unwrap();
    let user = of("host.cpu.user");
    assert_eq!(
        (&user["instance"], &user["value"], &user["second"]),
        (&"cpu0".into(), &0.25.into(), &1.5.into())
    );
    assert_eq!(
        (&user["kind"], &user["unit"], &user["source"]),
        (&"counter".into(), &"s".into(), &"host".into())
    );
    assert!(of("driver.in_flight")["value"].is_null());
    assert!(of("of.tomorrow")["kind"].is_null(), "a metric of a newer version");
}

#[test]
fn parquet_holds_the_same_rows_as_json() {
    for table in [ExportTable::Intervals, ExportTable::Readings] {
        let json = String::from_utf8(written(table, ExportFormat::Json)).unwrap();
        let reader =
            SerializedFileReader::new(bytes::Bytes::from(written(table, ExportFormat::Parquet))).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), json.lines().count());
        for (row, line) in rows.iter().zip(json.lines()) {
            let expected: serde_json::Value = serde_json::from_str(line).unwrap();
            for (name, field) in row.get_column_iter() {
                let value = match field {
                    Field::Null => serde_json::Value::Null,
                    Field::Long(number) => (*number).into(),
                    Field::Double(number) => (*number).into(),
                    Field::Str(text) => text.as_str().into(),
                    other => panic!("{name}: {other:?}"),
                };
                assert_eq!(value, expected[name], "{name}");
            }
        }
    }
}

#[test]
fn many_rows_are_written_in_groups() {
    let mut export =
        Export::begin(ExportTable::Intervals, ExportFormat::Parquet, &plan(), Vec::new()).unwrap();
    let mut long = run(1);
    long.intervals = vec![long.intervals[0].clone(); ROWS_MAX + 1];
    export.run(&long).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(export.end().unwrap())).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [ROWS_MAX as i64, 1]);
}
