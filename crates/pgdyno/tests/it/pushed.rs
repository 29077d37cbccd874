//! Results in a PostgreSQL schema, and back from there: the same page, no row twice, and views for other tools.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::load::histogram::HistogramSum;
use model::load::interval::HistogramLine;
use testbed::{PASSWORD, Pg};
use wire::Session;
use wire::session::Rows;

use crate::tool::{PACE, Place};

const RUN: &str = "run -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 2 --name kept --set prepare.prewarm=false \
                   --set prepare.settle=false -o results/out --server";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn number(session: &mut Session, sql: &str) -> i64 {
    session.query(sql).unwrap().scalar().unwrap().parse().unwrap()
}

/// Measures a result of two runs, and a database to keep it in.
fn measured() -> (Place, std::sync::Arc<Pg>, String) {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    place.run(&RUN.split_whitespace().chain([server.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    let database = pg.database();
    (place, pg, database)
}

const COSTS_OF_CASES: &str = "select count(distinct cost) from costs where run is null and cost in ('cpu', 'wal', 'blocks') and value > 0";

/// Transactions in the histograms of column `latency`.
fn n_in_histograms(rows: &Rows) -> u64 {
    let mut sum = HistogramSum::new();
    for row in 0..rows.len() {
        let data = rows.get(row, "latency").expect("a histogram").to_string();
        let read = HistogramSum::read(&HistogramLine { tag: "all".into(), max_ns: 0, data });
        sum.add(&read.expect("a histogram"));
    }
    sum.n()
}

#[test]
fn a_result_that_is_pushed_is_read_back_as_the_same_page() {
    let (place, pg, database) = measured();
    // Whoever may create schemas in a database can keep results there.
    pg.admin(&database).execute(&format!("grant create on database {database} to bench")).unwrap();
    let store = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
    let push = |expected: &str| {
        let pushed = place.run(&["push", &store, "results/out"]).expect(0);
        assert!(pushed.stderr.contains(expected) && !pushed.stderr.contains(PASSWORD), "{}", pushed.stderr);
    };
    push("schema `pgdyno`: applied migration 5\nresults/out: stored as #1\n");
    push("results/out: is there already, as #1\n");
    // What `why` proves afterwards belongs to the result.
    let proofs = "{\"format\": 1, \"cases\": []}";
    fs::write(place.path("results/out/why.json"), proofs).unwrap();
    push("results/out: replaced #1\n");
    let mut session = pg.admin(&database);
    session.execute("set search_path = pgdyno").unwrap();
    let counts = "select count(*) from runs r join cases c using (experiment_id, case_id) join experiment e using (experiment_id)";
    assert_eq!(number(&mut session, counts), 2);
    // At this rate, blocks are no cost, and whether a load that reads writes WAL is chance.
    assert!(number(&mut session, COSTS_OF_CASES) >= 1);

    // Histograms of seconds add up to one of all.
    let data = place.results("results/out");
    let committed: u64 = data.runs.iter().flat_map(|run| &run.intervals).map(|i| i.counts.committed).sum();
    assert_eq!(number(&mut session, "select sum(committed) from intervals"), committed as i64);
    // Of most seconds, what was started has ended, in one of five ways.
    let ended =
        "select count(*) from intervals where started = committed + failed + expected + unknown + aborted";
    assert!(number(&mut session, ended) > 0 && number(&mut session, "select sum(expected) from runs") == 0);
    let rows = session.query("select latency from intervals where latency is not null").unwrap();
    assert_eq!(n_in_histograms(&rows), committed);
    let values: usize = data.runs.iter().flat_map(|run| &run.ticks).map(|tick| tick.values.len()).sum();
    assert_eq!(number(&mut session, "select count(*) from readings"), values as i64);

    // The same page on another machine, where the result has the same place.
    let other = Place::new();
    let read = |place: &Place, name: &str| fs::read_to_string(place.path("results/out").join(name)).unwrap();
    place.run(&["report", "results/out"]).expect(0);
    let reported = other.run(&["report", "--store", &store, "kept"]).expect(0);
    assert!(reported.stderr.contains("fetched `results/out`"), "{}", reported.stderr);
    for name in ["report.html", "report.md", "runs.csv", "cases.csv", "why.json"] {
        assert!(read(&place, name) == read(&other, name), "{name}");
    }
    other.run(&["report", "--store", &store, "out"]).expect(0);
    let compared = other.run(&["compare", "--store", &store, "out:1", "#1:1"]).expect(0);
    assert!(compared.stdout.contains("no verdict"), "{}", compared.stdout);
    let history = other.run(&["history", "--store", &store, "kept"]).expect(0);
    assert!(history.stdout.contains("2 runs"), "{}", history.stdout);
    let unknown = other.run(&["report", "--store", &store, "nothing"]).expect(1);
    assert!(
        unknown.stderr.contains("the store has no result `nothing`; the newest are out"),
        "{}",
        unknown.stderr
    );

    // Of an experiment that has changed, the newer version is kept, under its number.
    let text = read(&place, "experiment.toml");
    fs::write(place.path("results/out/experiment.toml"), text + "# more\n").unwrap();
    push("results/out: replaced #1\n");
    assert_eq!(number(&mut session, counts), 2);
    // What the database says is not believed.
    session.execute("update file_part set data = data || '\\x00' where place = 0 and part = 0").unwrap();
    fs::remove_dir_all(other.path("results")).unwrap();
    let damaged = other.run(&["report", "--store", &store, "out"]).expect(1);
    assert!(damaged.stderr.contains("has another size than the list says"), "{}", damaged.stderr);
    session.execute("update file set path = '../../evil' where place = 0").unwrap();
    let evil = other.run(&["report", "--store", &store, "out"]).expect(1);
    assert!(
        evil.stderr.contains("which no experiment has") && !other.path("results").exists(),
        "{}",
        evil.stderr
    );
    session.execute("insert into migration (version, tool_version) values (99, '9')").unwrap();
    for args in [&["push", &store, "results/out"][..], &["report", "--store", &store, "out"]] {
        assert!(place.run(args).expect(1).stderr.contains("has version 99, and this pgdyno knows up to 5"));
    }
    let foreign = pg.database();
    pg.admin(&foreign).execute("create schema pgdyno").unwrap();
    let refused = place.run(&["push", &pg.admin_target(&foreign), "results/out"]).expect(1);
    assert!(refused.stderr.contains("that pgdyno did not create"), "{}", refused.stderr);
}

#[test]
fn results_of_equal_names_lie_side_by_side_and_older_states_are_refused() {
    let (place, pg, database) = measured();
    pg.admin(&database).execute(&format!("grant create on database {database} to bench")).unwrap();
    let store = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
    place.run(&["push", &store, "results/out"]).expect(0);
    let other = Place::new();
    let args: Vec<&str> = RUN.split_whitespace().collect();
    let target = pg.admin_target(&pg.database());
    other.run(&args.iter().copied().chain([target.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    for words in ["fetched `results/out-1`", "report:"] {
        let reported = other.run(&["report", "--store", &store, "out"]).expect(0);
        assert!(reported.stderr.contains(words), "{}", reported.stderr);
    }

    let file = place.path("results/out/experiment.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + "# more\n").unwrap();
    place.run(&["push", &store, "results/out"]).expect(0);
    let older = other.run(&["report", "--store", &store, "out"]).expect(1);
    let words = "`results/out-1` and #1 of the store are different states of one result";
    assert!(older.stderr.contains(words), "{}", older.stderr);

    // Triggers and views of its owner would have the rights of a superuser.
    let by_another = pg.admin_target(&database);
    for args in [&["push", &by_another, "results/out"][..], &["report", "--store", &by_another, "out"]] {
        let refused = place.run(args).expect(1);
        assert!(refused.stderr.contains("belongs to the role `bench`"), "{}", refused.stderr);
    }
}

#[test]
fn a_store_loses_no_run_and_no_series_mixes_servers() {
    let (place, pg, database) = measured();
    let store = pg.admin_target(&database);
    place.run(&["push", &store, "results/out"]).expect(0);
    // A copy that lacks a completed run replaces nothing.
    let (run, aside) = (place.path("results/out/runs/0002"), place.path("aside"));
    fs::rename(&run, &aside).unwrap();
    let poorer = place.run(&["push", &store, "results/out"]).expect(1);
    let words = "#1 of the store has completed runs that are missing, damaged or altered here: 2; push the copy that was measured";
    assert!(poorer.stderr.contains(words), "{}", poorer.stderr);
    place.run(&["push", &store, "results/out", "--replace"]).expect(0);
    fs::rename(&aside, &run).unwrap();
    place.run(&["push", &store, "results/out"]).expect(0);

    // Of a directory with damaged results, the others are pushed.
    fs::create_dir(place.path("results/damaged")).unwrap();
    place.write("results/damaged/plan.json", "{");
    let partly = place.run(&["push", &store]).expect(2);
    assert!(
        partly.stderr.contains("skipped damaged results") && partly.stderr.contains("as #1"),
        "{}",
        partly.stderr
    );
    fs::remove_dir_all(place.path("results/damaged")).unwrap();

    // Another server has a series of its own, and a merged study has no run twice.
    let other = Place::new();
    let target = pg.admin_target(&pg.database());
    other.run(&RUN.split_whitespace().chain([target.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    other.run(&["push", &store, "results/out"]).expect(0);
    let there = format!("there={}", other.path("results/out").display());
    place.run(&["merge", &there, "here=results/out", "--by-origin", "-o", "results/both"]).expect(0);
    let merged = place.run(&["push", &store, "results/both"]).expect(0);
    assert!(merged.stderr.contains("stored as #3"), "{}", merged.stderr);
    let mut session = pg.admin(&database);
    session.execute("update pgdyno.runs set counts = true, took_turns = false").unwrap();
    let mut series =
        || number(&mut session, "select count(*) * 10 + count(distinct series) from pgdyno.change_points");
    assert_eq!(series(), 42, "four runs in two series");
    pg.admin(&database).execute("update pgdyno.runs set took_turns = true where experiment_id <> 2").unwrap();
    assert_eq!(series(), 21, "sides of a duet are in none");
}

/// The statements of a dashboard, with its variables put in.
fn statements(dashboard: &serde_json::Value, found: &mut Vec<String>) {
    match dashboard {
        serde_json::Value::Object(keys) => {
            for (key, value) in keys {
                match (key.as_str(), value.as_str()) {
                    ("rawSql", Some(sql)) => found.push(sql.to_string()),
                    ("query", Some(sql)) if sql.starts_with("SELECT") => found.push(sql.to_string()),
                    _ => statements(value, found),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| statements(value, found)),
        _ => {}
    }
}

#[test]
fn dashboards_and_a_tool_for_change_points_read_the_views() {
    let (place, pg, database) = measured();
    let store = pg.admin_target(&database);
    place.run(&["push", &store]).expect(0);
    let mut session = pg.admin(&database);
    session.execute(TWIN).unwrap();
    for name in ["pgdyno-result", "pgdyno-history"] {
        let file = repository().join(format!("deploy/grafana/dashboards/{name}.json"));
        let mut found = Vec::new();
        statements(&serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap(), &mut found);
        assert!(found.len() >= 4, "{found:?}");
        for sql in found {
            let mut put_in =
                sql.replace("$experiment", "1").replace("$run", "1, 2").replace("'$name'", "'kept'");
            for column in ["time", "start_at", "end_at"] {
                put_in = put_in.replace(&format!("$__timeFilter({column})"), "true");
            }
            let rows = session.query(&put_in).unwrap_or_else(|error| panic!("{put_in}: {error}"));
            // This experiment may have no findings.
            assert!(!rows.is_empty() || sql.contains("pgdyno.findings"), "{put_in}");
            if sql.contains(" AS __text") {
                // Of choices with the same text, Grafana offers one.
                let texts: BTreeSet<_> = rows.rows.iter().map(|row| &row[0]).collect();
                assert_eq!(texts.len(), rows.rows.len(), "{put_in}");
            }
        }
    }

    let otava = std::env::var("PGDYNO_OTAVA").unwrap_or_else(|_| "otava".to_string());
    if Command::new(&otava).arg("--help").output().is_err() {
        return crate::tool::tell("skipped: Otava (pip install apache-otava)");
    }
    // Twenty earlier results, the last ten of them slower.
    session.execute(EARLIER).unwrap();
    let page = fs::read_to_string(repository().join("docs/store.md")).unwrap();
    let config = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let file = place.write("otava.yaml", config);
    let analyzed = Command::new(&otava)
        .args(["analyze", "--config-file", file.to_str().unwrap(), "--branch", "kept"])
        .args(["pgdyno", "--metrics", "tps", "--output", "json"])
        .env("POSTGRES_HOSTNAME", "127.0.0.1")
        .env("POSTGRES_PORT", pg.port.to_string())
        .env("POSTGRES_USERNAME", "bench")
        .env("POSTGRES_PASSWORD", PASSWORD)
        .env("POSTGRES_DATABASE", &database)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&analyzed.stdout);
    let found: serde_json::Value = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said} {}", String::from_utf8_lossy(&analyzed.stderr)));
    let text = found.to_string();
    assert!(text.contains("earlier 11") && !text.contains("earlier 5"), "{text}");
}

/// A result of another machine in a directory of the same name.
const TWIN: &str = "
insert into pgdyno.experiment (name, seed, made_unix_ns, directory, title, description, made_at, tool_version, pushed_by, contents, plan)
    select name, seed, 0, directory, title, description, made_at, tool_version, pushed_by, contents, plan
      from pgdyno.experiment where experiment_id = 1";

/// Copies of the result, one a day; what counts of them is when, and how fast.
const EARLIER: &str = "
do $$ declare id bigint; begin for n in 1..20 loop
    insert into pgdyno.experiment (name, seed, made_unix_ns, directory, title, description, made_at, tool_version, pushed_by, contents, plan)
        select name, seed, n, 'earlier ' || n, title, description, made_at - (21 - n) * interval '1 day', tool_version, pushed_by, contents, plan
          from pgdyno.experiment where experiment_id = 1 returning experiment_id into id;
    create temp table one as select * from pgdyno.cases where experiment_id = 1;
    update one set experiment_id = id;
    insert into pgdyno.cases select * from one;
    drop table one;
    create temp table one as select * from pgdyno.runs where experiment_id = 1 and run = 1;
    update one set experiment_id = id, counts = true, go_at = go_at - (21 - n) * interval '1 day',
        tps = case when n > 10 then 900 else 1000 end + n % 3;
    insert into pgdyno.runs select * from one;
    drop table one;
end loop; end $$;
delete from pgdyno.runs where experiment_id = 1;
grant usage on schema pgdyno to bench;
grant select on all tables in schema pgdyno to bench";

/// Reads a dashboard with Grafana's own definitions, writes it again, and names what was lost on the way.
const SCHEMA: &str = "
import json, sys
from grafana_foundation_sdk.cog import encoder
from grafana_foundation_sdk.models.dashboard import Dashboard
given = json.load(open(sys.argv[1]))
known = json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(given)))
def lost(a, b, path):
    if isinstance(a, dict):
        return [x for k, v in a.items() for x in (lost(v, b[k], path + '.' + k) if isinstance(b, dict) and k in b else [path + '.' + k])]
    if isinstance(a, list):
        return [x for i, v in enumerate(a) for x in (lost(v, b[i], path) if isinstance(b, list) and i < len(b) else [path])]
    return [] if a == b else [path]
print('\\n'.join(lost(given, known, '')))
";

#[test]
fn dashboards_are_what_grafana_defines() {
    let python = std::env::var("PGDYNO_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let has = Command::new(&python).args(["-c", "import grafana_foundation_sdk"]).output();
    let is_there = has.is_ok_and(|output| output.status.success());
    for name in ["pgdyno-result", "pgdyno-history", "pgdyno-live"] {
        let file = repository().join(format!("deploy/grafana/dashboards/{name}.json"));
        let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(dashboard["uid"], name);
        let ids: Vec<i64> =
            dashboard["panels"].as_array().unwrap().iter().map(|p| p["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
        if !is_there {
            continue;
        }
        let output = Command::new(&python).args(["-c", SCHEMA]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // What an annotation asks a data source is that source's own.
        let lost: Vec<&str> =
            said.lines().filter(|line| !line.is_empty() && !line.starts_with(".annotations.list.")).collect();
        assert!(lost.is_empty(), "{name}: {lost:?}");
    }
    if !is_there {
        crate::tool::tell("skipped: Grafana's definitions (pip install grafana-foundation-sdk)");
    }
}
