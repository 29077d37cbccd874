//! Experiments with the user's own scripts: read once, checked by the server, run by weight, distinguished in reports.

use std::collections::BTreeMap;
use std::fs;

use model::experiment::script::CaseData;
use testbed::{Pg, bin_dir};

use crate::tool::{PACE, Place, expect_sound};

const SCHEMA: &str = "\
-- Orders, as pg_dump would write them.
create table items (id int primary key, stock bigint not null);
create table orders (id bigserial primary key, item int references items, n int);
create view sold as select item, n from orders;
COPY items (id, stock) FROM stdin;
1\t1000
2\t1000
3\t1000
\\.

insert into items select i, current_setting('pgdyno.scale')::int from generate_series(4, 100) i;
";

const BUY: &str = "\
\\set item random(1, 100)
\\set n random(1, :most)
BEGIN;
UPDATE items SET stock = stock - :n WHERE id = :item RETURNING stock \\gset
INSERT INTO orders (item, n) VALUES (:item, :n);
\\if :stock < -1000000
SELECT 1;
\\endif
END;
";

const LOOK: &str = "\\set item random(1, 100)\nSELECT sum(n) FROM sold WHERE item = :item;\n";

const EXPERIMENT: &str = "\
[experiment]
name = \"orders\"
repeats = 1
seed = 5

[workload]
kind = \"scripts\"
scripts = [\"buy.sql@3\", {file = \"look.sql\", name = \"look\"}]
defines = {most = 5}
data = {files = [\"schema.sql\"]}
clients = 4

[run]
ramp_up = \"0s\"
measure = \"3s\"

[prepare]
settle = false
";

fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("shop")).unwrap();
    for (name, text) in
        [("schema.sql", SCHEMA), ("buy.sql", BUY), ("look.sql", LOOK), ("orders.toml", EXPERIMENT)]
    {
        place.write(&format!("shop/{name}"), text);
    }
    place
}

#[test]
fn weighted_scripts_run_on_the_data_that_their_files_create() {
    let place = place();
    let bin_dir = bin_dir();
    let own = ["--bin-dir", bin_dir.to_str().unwrap()];
    let plan = place.run(&[&["plan", "shop/orders.toml"], &own[..]].concat()).expect(0);
    for part in
        ["script  buy.sql  weight 3 (75.0 %), 5 statements", "look     weight 1 (25.0 %)", "schema.sql"]
    {
        assert!(plan.stdout.contains(part), "{part}\n{}", plan.stdout);
    }
    let ended = place.run(&[&["run", "shop/orders.toml", "-o", "out"], &own[..]].concat()).expect(0);
    let row = |name: &str| ended.stdout.lines().find(|line| line.starts_with(name)).map(str::to_string);
    assert!(row("buy.sql").is_some() && row("look").is_some(), "{}", ended.stdout);

    let run = place.first_run("out");
    expect_sound(&run);
    let record = &run.record;
    let survey = record.survey.as_ref().unwrap();
    assert_eq!(
        survey.tables.iter().collect::<Vec<_>>(),
        ["public.items", "public.orders"],
        "also behind a view"
    );
    assert_eq!(survey.written.iter().collect::<Vec<_>>(), ["public.items", "public.orders"]);
    assert_eq!(survey.unchecked, Vec::<String>::new());
    let mut committed = BTreeMap::new();
    for interval in &run.intervals {
        *committed.entry(interval.script).or_insert(0) += interval.counts.committed;
    }
    let grown = record.rows_after["public.orders"] - record.rows_before["public.orders"];
    assert_eq!((record.rows_before["public.items"], grown), (100, committed[&0]));
    let share = committed[&0] as f64 / (committed[&0] + committed[&1]) as f64;
    assert!((0.7..0.8).contains(&share), "{committed:?}");
    let CaseData::Files(files) = &record.case.workload.data else { panic!("no files") };
    assert_eq!(files[0].text.as_deref(), Some(SCHEMA));
    assert_eq!(record.load.as_ref().unwrap().scripts[0].source, BUY);

    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    for part in ["id=\"scripts\"", "buy.sql", &record.case.workload.scripts[0].sha256, "UPDATE items SET"] {
        assert!(page.contains(part), "{part}");
    }
    expect_self_contained(&place, &own);
    let checked = place.run(&["check"]).expect(1);
    assert!(checked.stderr.contains("no invariants to check"), "{}", checked.stderr);
    place.expect_clean();
}

/// The results are enough to repeat the runs when the files are gone.
fn expect_self_contained(place: &Place, own: &[&str]) {
    let first = place.results("out").plan;
    fs::remove_dir_all(place.path("shop")).unwrap();
    let again = place.run(&[&["plan", "out/experiment.toml", "--json"], own].concat()).expect(0);
    let again: model::experiment::plan::Plan = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((again.runs, again.cases, again.seed), (first.runs, first.cases, first.seed));
}

#[test]
fn scripts_on_the_command_line_take_the_database_as_it_is() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    pg.admin(&database)
        .execute("create table t (id int primary key, n int); insert into t values (1, 0)")
        .unwrap();
    place.write("add.sql", "UPDATE t SET n = n + :step WHERE id = 1;\n");
    let server = pg.admin_target(&database);
    let short = "-c 2 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";
    let line = "run -f add.sql -f builtin:select-only@0 -D step=2 -M simple -o out --server";
    // The built-in script's table is not there; under the simple protocol its text is not known before.
    let mut args: Vec<&str> = line.split(' ').collect();
    args.extend([&server, PACE]);
    args.extend(short.split(' '));
    place.run(&args).expect(0);
    let run = place.first_run("out");
    expect_sound(&run);
    let n: u64 = pg.ask(&database, "select n from t").parse().unwrap();
    assert_eq!(n, 2 * run.record.done.as_ref().unwrap().counts.committed);
    assert_eq!(run.record.case.workload.data, CaseData::None);
    let vacuum = run.record.phase(model::run::phase::Phase::Vacuum).unwrap();
    assert!(vacuum.detail["skipped"].contains("left as they are"), "{vacuum:?}");
    assert_eq!(pg.ask(&database, "select vacuum_count from pg_stat_user_tables where relname = 't'"), "0");
    let survey = run.record.survey.as_ref().unwrap();
    assert!(survey.unchecked[0].starts_with("select-only:2:"), "{survey:?}");

    // Errors in scripts are reported before any load, with their position.
    let refused = |script: &str, message: &str| {
        place.write("typo.sql", script);
        let mut args = vec!["run", "-f", "typo.sql", "-D", "n=1", "-o", "no", "--server", server.as_str()];
        args.extend(short.split(' '));
        let ended = place.run(&args).expect(1);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert!(!place.path("no").exists());
        // A plan says so too, except of COPY, which the server examines only when it executes it.
        args[0] = "plan";
        args.drain(5..7);
        if !script.contains("COPY") {
            let planned = place.run(&args).expect(1);
            let first = message.lines().next().unwrap();
            assert!(planned.stdout.contains(first), "{planned:?}");
        }
    };
    refused("SELECT 1 FROM nosuch;\n", "typo.sql:1:15: relation \"nosuch\" does not exist (42P01)");
    refused(
        "SELECT n FROM t WHERE id = 1;\nSELECT :n, m\n  FROM t;\n",
        "typo.sql:2:12: column \"m\" does not exist (42703)\n  SELECT :n, m\n             ^",
    );
    // Only the load sends rows, but their table must exist.
    let rows = |table: &str| format!("SELECT 1;\nCOPY {table} FROM STDIN;\n\\copydata\n7\t:n\n\\.\n");
    refused(&rows("nowhere"), "typo.sql:2:1: relation \"nowhere\" does not exist (42P01)");
    refused(&rows("t (id, x)"), "typo.sql:2:1: column \"x\" of relation \"t\" does not exist (42703)");
    place.write("rows.sql", &rows("u"));
    pg.admin(&database).execute("create table u (id int, n int)").unwrap();
    let mut args =
        vec!["run", "-f", "rows.sql", "-D", "n=1", "-o", "rows", PACE, "--server", server.as_str()];
    args.extend(short.split(' '));
    place.run(&args).expect(0);
    let run = place.first_run("rows");
    let survey = run.record.survey.as_ref().unwrap();
    assert!(survey.unchecked.is_empty() && survey.written.contains("public.u"), "{survey:?}");
    let n: u64 = pg.ask(&database, "select count(*) from u").parse().unwrap();
    assert_eq!(n, run.record.done.as_ref().unwrap().counts.committed);
    place.expect_clean();
}

#[test]
fn mistakes_in_scripts_are_reported_with_their_position() {
    let place = place();
    place.write("shop/bad.sql", "SELECT 1;\n\\set x 1 +\n");
    let check = |line: &str, expected: &[&str]| {
        let ended = place.run(&line.split(' ').collect::<Vec<_>>()).expect(1);
        for part in expected {
            assert!(ended.stderr.contains(part), "{line}\nexpected: {part}\n{}", ended.stderr);
        }
    };
    let bad = EXPERIMENT.replace("\"buy.sql@3\"", "\"bad.sql@3\"");
    place.write("shop/bad.toml", &bad);
    check("plan shop/bad.toml", &["shop/bad.toml:8:12: bad.sql:2:11: syntax error", "^ error found here"]);
    place.write("shop/none.toml", &EXPERIMENT.replace("buy.sql@3", "nothing.sql"));
    check("plan shop/none.toml", &["shop/none.toml:8:12: cannot read `shop/nothing.sql`: No such file"]);
    check("plan -f shop/bad.sql", &["workload.scripts: shop/bad.sql:2:11: syntax error"]);
    check("plan -f shop/buy.sql@x", &["-f shop/buy.sql@x: `x` in `shop/buy.sql@x` is not a weight"]);
    check("plan -f shop/buy.sql -w tpcb", &["--script", "--workload", "cannot be used with"]);
    check("compare --aa -f shop/buy.sql -w tpcc", &["--workload tpcc cannot be used with --script"]);
    place.run(&["plan", "-w", "scripts", "-f", "builtin:select-only", "-s", "1", "-c", "1"]).expect(0);
    check("plan -D most", &["-D most: expected NAME=VALUE"]);
    check(
        "plan scripts",
        &["built-in experiment `scripts`: workload.scripts: no script is given", "-f a.sql@3"],
    );
    check("init -w scripts", &["workload.data of the experiment file says what they run on"]);
    check("check -w scripts", &["pgdyno has no invariants to check"]);
}
