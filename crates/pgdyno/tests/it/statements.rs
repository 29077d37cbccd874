//! Which statements changed: regressions planted on a real server are found, named, and no other; and what `workload.apply` may do.

use std::time::Duration;

use serde_json::Value;
use testbed::Pg;

use crate::tool::{Place, SMALL};

const SCHEMA: &str = "\
create table items (id int primary key, category int not null, kind int not null, price int not null, note text);
insert into items select i, i % 1000, i * 7 % 1000, i % 97, repeat('x', 60) from generate_series(1, 20000) i;
create index items_category on items (category);
create index items_kind on items (kind);
create table counters (id int primary key, n bigint not null);
insert into counters select i, 0 from generate_series(1, 100) i;
create function slow(n int) returns int language plpgsql as $$ begin perform pg_sleep(n / 1000000.0); return n; end $$;
";

/// Seven statements, of which four become worse. They pause, so that a machine with other work to do runs each at once.
const SHOP: &str = "\
\\set id random(1, 20000)
\\set counter random(1, 100)
\\set group random(0, 999)
\\set r random(1, 100)
SELECT note FROM items WHERE id = :id;
\\sleep 1 ms
SELECT count(*) FROM items WHERE category = :group;
\\sleep 1 ms
SELECT sum(price) FROM items WHERE kind = :group;
\\sleep 1 ms
SELECT slow(:work);
\\sleep 1 ms
UPDATE counters SET n = n + 1 WHERE id = :counter;
\\sleep 1 ms
SELECT 1 / (:r / :least::int);
\\sleep 1 ms
SELECT n FROM counters WHERE id = :counter;
";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The statements of a comparison, each with a word of its text, whether it fails otherwise, and how many times as long it takes at least.
fn listed(case: &Value) -> Vec<(String, bool, f64)> {
    let all = case["statements"]["list"].as_array().unwrap();
    let low = |of: &Value| of["result"]["low"].as_f64().unwrap_or(1.0);
    let text = |of: &Value| of["statement"].as_str().unwrap().to_string();
    all.iter().map(|of| (text(of), of.get("new_errors").is_some(), low(of))).collect()
}

/// The sum of all parts of a table, and the whole.
fn sums(csv: &str) -> (f64, f64) {
    let rows: Vec<Vec<String>> = csv.lines().map(cells).collect();
    let column = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
    let (kind, part) = (column("kind"), column("part_ns"));
    let of = |row: &Vec<String>| row[part].parse::<f64>().unwrap();
    let is_whole = |row: &&Vec<String>| row[kind] == "transaction";
    let parts = rows[1..].iter().filter(|row| !is_whole(row)).map(of).sum();
    (parts, rows[1..].iter().find(is_whole).map(of).unwrap())
}

/// The cells of a line without line breaks in them.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().unwrap().push(letter),
        }
    }
    cells
}

#[test]
fn planted_regressions_are_found_and_named_and_no_other() {
    let place = Place::with_binaries(&["18"]);
    place.write("schema.sql", SCHEMA);
    place.write("shop.sql", SHOP);
    let args = "compare -f shop.sql --set server.version=18 --set workload.data={files=[\"schema.sql\"]} -c 8 --pace=45/s --measure 3s --ramp-up 0s \
                --pairs 10 --margin 20% --set run.telemetry=false --set prepare.settle=false --set prepare.prewarm=false --set prepare.checkpoint=false \
                --set server.settings.synchronous_commit=off --set run.max_failed=50% -o out -y -q \
                --a workload.defines.work=20000 --b workload.defines.work=30000 --a workload.defines.least=1 --b workload.defines.least=5 \
                --b server.settings.random_page_cost=100 --json --fail-on statement-slower=20%";
    let apply = "workload.apply=DROP INDEX items_category";
    let more = ["--set", SMALL, "--b", apply];
    let args: Vec<&str> = args.split_whitespace().chain(more).collect();
    // Twenty runs take 70 s on a machine with nothing else to do.
    let ended = place.start(place.command(&args)).wait_for_end(Duration::from_secs(240)).expect(4);
    for words in ["SELECT count(*) FROM items", "SELECT slow(:work);`: slower", "new: 22012"] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
    let case = &json(&ended.stdout)["comparisons"][0];
    let found = listed(case);
    // B's scans take processors from its other statements, which are truly a little slower, but by less than the margin.
    let is_bad = |of: &&(String, bool, f64)| of.1 || of.2 > 1.2;
    let mut bad: Vec<&str> = found.iter().filter(is_bad).map(|of| of.0.split(' ').nth(1).unwrap()).collect();
    assert_eq!(bad.remove(0), "1", "what fails comes first: {found:?}");
    bad.sort_unstable();
    assert_eq!(bad, ["count(*)", "slow(:work);", "sum(price)"], "{found:?}");
    let slow = &case["statements"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["statement"] == "SELECT slow(:work);")
        .unwrap();
    let ratio = slow["result"]["ratio"].as_f64().unwrap();
    assert!((1.2..3.0).contains(&ratio), "{slow}");
    let all = case["statements"]["list"].as_array().unwrap();
    let has_same_plan = |text: &str| {
        let plans = &all.iter().find(|of| of["statement"] == text).unwrap()["plans"];
        plans["a_hash"] == plans["b_hash"]
    };
    assert!(has_same_plan("SELECT slow(:work);") && has_same_plan("SELECT note FROM items WHERE id = :id;"));
    assert!(!has_same_plan("SELECT count(*) FROM items WHERE category = :group;"));
    // The sum adds up, in the table as well.
    let csv = std::fs::read_to_string(place.path("out/compared_statements.csv")).unwrap();
    let (parts, whole) = sums(&csv);
    assert!((parts - whole).abs() < 1.0 && whole > 0.0, "{parts} and {whole}\n{csv}");

    let data = place.results("out");
    for run in &data.runs {
        let applied = run.record.applied.as_ref();
        assert_eq!(applied.is_some(), run.record.spec.case == 2);
        let definitions = &run.record.fingerprint.as_ref().unwrap().definitions["public.items"];
        assert!(definitions.contains_key("index items_category"), "restored: {definitions:?}");
        if let Some(applied) = applied {
            let index = applied.relations.iter().find(|of| of.name == "public.items_category").unwrap();
            assert!(index.after_bytes.is_none() && index.growth() < 0.0, "{applied:?}");
        }
        let rows = run.intervals.iter().fold(0, |sum, interval| sum + interval.statement_rows[1]);
        let n = run.intervals.iter().fold(0, |sum, interval| sum + interval.statements[1]);
        assert_eq!(rows, n, "a count is a row");
    }
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("<figure class=\"waterfall\">") && page.contains("B applies"), "no waterfall");
    place.expect_clean();
}

#[test]
fn what_is_applied_to_tables_by_url_is_gone_in_the_next_run() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let target = pg.admin_target(&database);
    let args = "run -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 2 --set prepare.settle=false --set run.telemetry=false \
                --set prepare.restore_by=load -q -y -o out --server";
    let levels = "workload.apply=[\"create index extra on pgbench_accounts (bid)\", \"create statistics extra_stats on bid, abalance from pgbench_accounts\"]";
    let args: Vec<&str> = args.split_whitespace().chain([target.as_str(), "--set", levels]).collect();
    place.run(&args).expect(0);
    let data = place.results("out");
    assert_eq!(data.runs.len(), 4);
    for run in &data.runs {
        let definitions = &run.record.fingerprint.as_ref().unwrap().definitions["pgbench_accounts"];
        assert!(!definitions.contains_key("index extra"), "{definitions:?}");
        let applied = run.record.applied.as_ref().unwrap();
        let makes_index = applied.sql.starts_with("create index");
        assert_eq!(
            applied.relations.iter().any(|of| of.name.ends_with(".extra")),
            makes_index,
            "{applied:?}"
        );
        assert!(run.record.phase(model::run::phase::Phase::Apply).is_some());
    }
    let left = "select (select count(*) from pg_class where relname = 'extra') + (select count(*) from pg_statistic_ext)";
    assert_eq!(pg.ask(&database, left), "0", "dropped after the last run");
    // What a pgdyno that was killed has left is no stranger's.
    let killed = "create index extra on pgbench_accounts (bid); \
                  do $$ begin execute format('comment on index extra is %L', 'pgdyno applied oid=' || 'extra'::regclass::oid); end $$";
    pg.admin(&database).execute(killed).unwrap();
    let after = "run -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -q -y -o after --server";
    let args: Vec<&str> = after.split_whitespace().chain([target.as_str()]).collect();
    place.run(&args).expect(0);
    let after = place.results("after");
    let definitions = &after.runs[0].record.fingerprint.as_ref().unwrap().definitions["pgbench_accounts"];
    assert!(!definitions.contains_key("index extra"), "{definitions:?}");
    place.expect_clean();
}

#[test]
fn what_nothing_would_undo_is_refused_by_name() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    pg.admin(&database).execute("create table theirs (a int); insert into theirs values (1)").unwrap();
    let target = pg.admin_target(&database);
    let refused = |sql: &str, more: &str, expected: &str| {
        let apply = format!("workload.apply={sql}");
        let args = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 -q -y -o out --server";
        let args = args.split_whitespace().chain([target.as_str(), "--set", apply.as_str()]);
        let args: Vec<&str> = args.chain(more.split_whitespace()).collect();
        let ended = place.run(&args);
        assert_ne!(ended.code(), Some(0), "{sql}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(expected), "{sql}: {said}");
        std::fs::remove_dir_all(place.path("out")).ok();
    };
    refused(
        "ALTER SYSTEM SET work_mem = '1GB'",
        "-w tpcb-select",
        "nothing undoes `ALTER SYSTEM` on a server by URL",
    );
    refused(
        "create index on pgbench_accounts (bid)",
        "-w tpcb-select --no-restore",
        "only a restore undoes it",
    );
    place.write("own.sql", "select 1 from theirs;\n");
    refused("create index on theirs (a)", "-f own.sql", "and not for tables that are there already");
    refused(
        "create index stray on theirs (a)",
        "-w tpcb-select",
        "`public.theirs`, which is not among the tables that pgdyno loaded",
    );
    refused("alter table pgbench_accounts rename to gone", "-w tpcb-select", "nothing undoes `ALTER TABLE`");
    refused(" -- nothing", "-w tpcb-select", "there is no statement in it");
    let left = pg.ask(&database, "select count(*) from pg_class where relname in ('stray', 'gone')");
    assert_eq!(left, "0");
    place.expect_clean();
}
