//! The commands of `docs/notebooks.md`, run as they are printed there. Programs that a machine lacks are named.

use std::fs;
use std::path::Path;
use std::process::Command;

use testbed::Pg;

use crate::tool::{PACE, Place};

/// The blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    page.split(&start).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_string()).collect()
}

fn python() -> String {
    std::env::var("PGDYNO_PYTHON").unwrap_or_else(|_| "python3".to_string())
}

fn has(module: &str) -> bool {
    let found = Command::new(python()).args(["-c", &format!("import {module}")]).output();
    found.is_ok_and(|output| output.status.success())
}

fn run_python(place: &Place, code: &str) -> String {
    let output = Command::new(python()).arg("-c").arg(code).current_dir(place.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{code}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_commands_of_the_page_on_notebooks_work() {
    let (place, pg) = (Place::new(), Pg::shared());
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notebooks.md")).unwrap();
    let server = pg.admin_target(&pg.database());
    let args = "run -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.prewarm=false \
                --set prepare.settle=false -o out --server";
    place.run(&args.split_whitespace().chain([server.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    let commands = blocks(&page, "sh").concat();
    let program = Path::new(env!("CARGO_BIN_EXE_pgdyno")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-ec", &commands]).current_dir(place.path("")).env("PATH", path);
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    // Without any other program: both texts have the same rows, and their sums are those of the records.
    let run = place.first_run("out");
    let committed: u64 = run.intervals.iter().map(|interval| interval.counts.committed).sum();
    let json = fs::read_to_string(place.path("intervals.json")).unwrap();
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.iter().map(|row| row["committed"].as_u64().unwrap()).sum::<u64>(), committed);
    assert!(rows.iter().all(|row| row["latency_p99_ns"].as_u64() >= row["latency_p50_ns"].as_u64()));
    let csv = fs::read_to_string(place.path("intervals.csv")).unwrap();
    assert!(csv.starts_with("run,block,case,second,measured,script,"), "{csv}");
    assert_eq!(csv.lines().count(), rows.len() + 1);
    assert!(place.run(&["export", "out", "--format", "json"]).expect(1).stderr.contains("--table intervals"));
    let twice = ["export", "out", "--table", "intervals", "--format", "parquet", "-o", "intervals.parquet"];
    assert!(place.run(&twice).expect(1).stderr.contains("it must not exist yet"));

    let measured_s = run.record.window().measure_s;
    let of_window: Vec<u64> =
        run.intervals.iter().filter(|i| i.t < measured_s).map(|i| i.counts.committed).collect();
    let tps = of_window.iter().sum::<u64>() as f64 / f64::from(measured_s);
    let shown = format!("{tps:.1}");
    if has("pandas") && has("pyarrow") {
        let said = run_python(&place, &blocks(&page, "python").join("\n"));
        assert!(said.contains(&shown), "{shown}: {said}");
    } else {
        eprintln!("skipped: the code for pandas, which is not installed (with pyarrow)");
    }
    if has("duckdb") {
        let code = |sql: &String| format!("print(duckdb.sql(\"\"\"{sql}\"\"\").fetchall())\n");
        let all: String = blocks(&page, "sql").iter().map(code).collect();
        let said = run_python(&place, &format!("import duckdb\n{all}"));
        assert!(said.contains(&format!("(1, 1, {tps:?}")), "{tps}: {said}");
    } else {
        eprintln!("skipped: the queries for DuckDB, which is not installed");
    }
}
