//! Analytical workload directories: streams that end, executions one by one, plans, answers, timeouts, and a query that pays.

use std::fs;

use analysis::summary::AnalyticalSummary;
use model::experiment::plan::RunState;
use model::load::execution::ExecutionEnd;
use model::run::RunData;
use testbed::bin_dir;

use crate::tool::{Place, expect_sound};

const MANIFEST: &str = "\
format = 1
name = \"sums\"
title = \"Sums\"
about = \"Rows are summed up.\"
source = \"own\"
licence = \"MIT\"
scale = \"10,000 rows\"

[options]
passes = {default = 2, least = 1, most = 9, about = \"passes\"}

[[table]]
name = \"item\"
rows = \"10000 * scale\"
[table.columns]
id = \"row + 1\"
kind = \"row % 100\"

[[transaction]]
name = \"total\"
check_answer = \"answers/total-{scale}.csv\"

[[transaction]]
name = \"one\"
params = {kind = \"uniform(0, 99)\"}

[[transaction]]
name = \"nap\"

[defaults]
kind = \"analytical\"
explain = true
protocol = \"simple\"
statement_timeout = \"STOP\"

[variants]
one = {clients = 1, passes = \"{passes}\", warm_passes = 1, order = [\"total\", \"one\", \"nap\"]}
several = {clients = 3, passes = \"{passes}\"}
";

fn place(stop: &str, nap: &str, total: &str) -> Place {
    let place = Place::new();
    for dir in ["transactions", "answers"] {
        fs::create_dir_all(place.path(&format!("sums/{dir}"))).unwrap();
    }
    place.write("sums/workload.toml", &MANIFEST.replace("STOP", stop));
    place.write("sums/schema.sql", "create table item (id int primary key, kind int not null);\n");
    place.write("sums/after.sql", "create index item_kind on item (kind);\n");
    place.write("sums/transactions/total.sql", "select count(*) as n, sum(id) / 7.0 as part from item;\n");
    place.write("sums/transactions/one.sql", "select sum(id) from item where kind = :kind;\n");
    place.write("sums/transactions/nap.sql", &format!("select pg_sleep({nap});\n"));
    place.write("sums/answers/total-1.csv", &format!("n,part\n10000,{total}\n"));
    place
}

fn run(place: &Place, what: &str, out: &str, more: &[&str]) -> String {
    let bin_dir = bin_dir();
    let args = ["run", "-o", out, "--bin-dir", bin_dir.to_str().unwrap(), "-w", what, "--repeats", "1"];
    let more = [&args[..], &["--set=prepare.settle=false"], more].concat();
    place.run(&more).stdout
}

fn figures(run: &RunData) -> AnalyticalSummary {
    analysis::explain::explain_run(run, None, false).into_summary().analytical.unwrap()
}

#[test]
fn each_execution_of_each_stream_is_recorded_and_the_run_ends_with_the_last() {
    let place = place("1min", "0.01", "7143571.4286");
    let said = run(&place, "./sums:one", "out", &[]);
    let data = place.first_run("out");
    expect_sound(&data);
    let executions: Vec<(u32, u32, ExecutionEnd)> =
        data.executions.iter().map(|one| (one.pass, one.script, one.end)).collect();
    let expected: Vec<(u32, u32, ExecutionEnd)> =
        (0..3).flat_map(|pass| (0..3).map(move |script| (pass, script, ExecutionEnd::Committed))).collect();
    assert_eq!(executions, expected, "one warm pass, and two that count");
    assert!(data.executions.windows(2).all(|two| two[0].start_ns + two[0].length_ns <= two[1].start_ns));
    let found = figures(&data);
    assert_eq!((found.n_streams, found.n_queries, found.n_passes), (1, 3, 2));
    let nap = found.query("nap").unwrap();
    assert!(nap.n == 2 && nap.seconds.is_some_and(|seconds| (0.01..1.0).contains(&seconds)), "{nap:?}");
    let product: f64 = found.queries.iter().map(|query| query.seconds.unwrap()).product();
    assert!((found.geomean_s.unwrap() / product.cbrt() - 1.0).abs() < 1e-9);
    assert!((found.power_per_h.unwrap() * found.geomean_s.unwrap() - 3600.0).abs() < 1e-6, "scale 1");
    assert_eq!(found.throughput_per_h, None);
    // Plans have the literal values of the first pass; the answer is the expected one.
    let plans: Vec<(&str, bool)> =
        data.plans.iter().map(|plan| (plan.transaction.as_str(), plan.is_analyzed)).collect();
    assert_eq!(plans, [("total", true), ("one", true), ("nap", true)]);
    assert!(data.plans[1].statement.contains("kind = "), "{:?}", data.plans[1]);
    assert!(!data.plans[1].statement.contains(':'), "{:?}", data.plans[1]);
    assert!(found.queries.iter().all(|query| query.plans.len() == 1), "{found:?}");
    let answers = &data.record.answers;
    assert!(
        answers.len() == 1 && answers[0].difference.is_none() && answers[0].unfinished.is_none(),
        "{answers:?}"
    );
    assert!(said.contains("geometric mean ") && said.contains("queries/s"), "{said}");
    for doubt in ["void", "doubtful", "too-few-transactions", "not-steady"] {
        assert!(!said.contains(doubt), "{doubt}: {said}");
    }
    // Parameters belong to the workload: the second run has those of the first.
    run(&place, "./sums:one", "again", &[]);
    let statements =
        |data: &RunData| data.plans.iter().map(|plan| plan.statement.clone()).collect::<Vec<_>>();
    assert_eq!(statements(&data), statements(&place.first_run("again")));
}

#[test]
fn several_streams_have_orders_of_their_own_and_a_throughput() {
    let place = place("1min", "0.01", "7143571.4286");
    run(&place, "./sums:several", "out", &["--set=workload.options.passes=3"]);
    let data = place.first_run("out");
    expect_sound(&data);
    assert_eq!(data.executions.len(), 27);
    let found = figures(&data);
    assert_eq!((found.n_streams, found.power_per_h), (3, None));
    let (first, last) = (
        data.executions.iter().map(|one| one.start_ns).min().unwrap(),
        data.executions.iter().map(|one| one.start_ns + one.length_ns).max().unwrap(),
    );
    let expected = 3600.0 * 27.0 / ((last - first) as f64 / 1e9);
    assert!((found.throughput_per_h.unwrap() / expected - 1.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_query_that_is_stopped_counts_as_its_longest_time() {
    let place = place("300ms", "30", "7143571.4286");
    let said = run(&place, "./sums:one", "out", &["--set=workload.options.passes=1"]);
    let data = place.first_run("out");
    assert_eq!(data.record.state, RunState::Completed, "{}", data.record.reason);
    let found = figures(&data);
    let nap = found.query("nap").unwrap();
    assert_eq!((nap.timeouts, nap.seconds), (1, Some(0.3)));
    assert!(found.is_at_least && said.contains("geometric mean at least "), "{said}");
    assert!(said.contains("query-stopped"), "{said}");
    let plan = data.plans.iter().find(|plan| plan.transaction == "nap").unwrap();
    assert!(!plan.is_analyzed && plan.plan.is_some(), "it is not executed again: {plan:?}");
}

#[test]
fn a_run_that_reaches_its_limit_is_incomplete_and_a_wrong_answer_voids_it() {
    let place = place("1min", "2", "7143571.5");
    let limits = ["--measure", "2s", "--set=run.grace=1s", "--set=workload.options.passes=9"];
    let said = run(&place, "./sums:one", "out", &limits);
    let data = place.first_run("out");
    assert_eq!(data.record.state, RunState::Partial, "{said}");
    assert!(data.record.reason.contains("raise run.measure"), "{}", data.record.reason);

    let said = run(&place, "./sums:one", "wrong", &["--set=workload.options.passes=1"]);
    assert!(said.contains("answer-wrong"), "{said}");
    let answer = place.first_run("wrong").record.answers[0].difference.clone().unwrap();
    assert!(
        answer.starts_with("row 1, part: `7143571.428571") && answer.ends_with("instead of `7143571.5`"),
        "{answer}"
    );
}

#[test]
fn the_query_that_pays_for_an_index_that_is_missing_is_named_with_its_plan() {
    let place = place("1min", "0.005", "7143571.4286");
    let copy = place.path("without");
    fs::create_dir_all(copy.join("transactions")).unwrap();
    fs::create_dir_all(copy.join("answers")).unwrap();
    for file in [
        "workload.toml",
        "schema.sql",
        "transactions/total.sql",
        "transactions/one.sql",
        "transactions/nap.sql",
        "answers/total-1.csv",
    ] {
        fs::copy(place.path("sums").join(file), copy.join(file)).unwrap();
    }
    let bin_dir = bin_dir();
    let args = [
        "compare",
        "-o",
        "out",
        "--bin-dir",
        bin_dir.to_str().unwrap(),
        "-s",
        "20",
        "--pairs",
        "6",
        "--set=prepare.settle=false",
    ];
    let sides = ["--a", "workload.kind=./sums:one", "--b", "workload.kind=./without:one"];
    let said = place.run(&[&args[..], &sides].concat()).expect(0).stdout;
    assert!(said.contains("with B: one takes ") && said.contains("more time with another plan"), "{said}");
    let json = place.run(&["compare", "out", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let scripts = json.pointer("/comparisons/0/scripts").and_then(|scripts| scripts.as_array()).unwrap();
    let plan =
        |name: &str| scripts.iter().find(|one| one["name"] == name).map(|one| one["plan"].clone()).unwrap();
    assert_eq!((plan("one"), plan("nap")), ("other".into(), "same".into()), "{json}");
}

#[test]
fn the_built_in_queries_run_at_the_smallest_scale_without_a_doubt() {
    let place = Place::new();
    let said = run(&place, "tpch-like:power", "out", &["-s", "1"]);
    let data = place.first_run("out");
    expect_sound(&data);
    let found = figures(&data);
    assert_eq!((found.n_queries, data.plans.len(), data.executions.len()), (22, 22, 22), "{said}");
    assert!(data.plans.iter().all(|plan| plan.error.is_none()), "{:?}", data.plans);
    assert!(!said.contains("QphH"), "{said}");
}
