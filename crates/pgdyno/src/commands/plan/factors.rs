//! Tests: cases that differ in one key differ in what the plan, the terminal and the spreadsheet call them.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::keys::row::{KeyKind, KeyRow};
use model::experiment::plan::Plan;
use model::run::ExperimentData;

/// What the experiment of a key needs besides two of its levels, which are given where its kind does not say any.
const NEEDS: &[(&str, &str, &str)] = &[
    (
        keys::TARGET,
        "",
        "[[target]]\nname = \"a\"\nurl = \"postgresql://h/a\"\n[[target]]\nname = \"b\"\nurl = \"postgresql://h/b\"",
    ),
    (keys::server::VERSION.name, r#"["14", "15"]"#, ""),
    (keys::server::BIN_DIR.name, r#"["/a/bin", "/b/bin"]"#, ""),
    (keys::server::SOURCE.name, r#"["/a/src", "/b/src"]"#, ""),
    (keys::server::REVISION.name, "", "server.source = \"/a/src\""),
    (keys::server::TLS.name, "", "server.listen = \"127.0.0.1\""),
    (keys::server::WAL_DIRECTORY.name, r#"["/a/wal", "/b/wal"]"#, ""),
    ("server.settings.NAME", r#"["on", "off"]"#, ""),
    (
        keys::workload::READS.name,
        r#"["primary", "standbys"]"#,
        "topology.standbys = 1\nworkload.kind = \"tpcb-select\"",
    ),
    (keys::topology::SYNCHRONOUS.name, r#"["none", "any 1"]"#, "topology.standbys = 2"),
    ("topology.standby_settings.NAME", r#"["on", "off"]"#, "topology.standbys = 1"),
    ("topology.from.NAME", r#"["primary", "s1"]"#, "topology.standbys = 2"),
    (keys::topology::SLOTS.name, "", "topology.standbys = 1"),
    (keys::topology::DELAY.name, r#"["0ms", "10ms"]"#, "topology.standbys = 1"),
    (keys::topology::RATE.name, r#"["1MB/s", "10MB/s"]"#, "topology.standbys = 1"),
    (keys::topology::archive::KIND.name, r#"["none", "copy"]"#, ""),
    (keys::pooler::MODE.name, "", "pooler.kind = \"pgbouncer\"\nworkload.kind = \"tpcb-select\""),
    (keys::pooler::SIZE.name, "", "pooler.kind = \"pgbouncer\""),
    (keys::pooler::PROCESSES.name, "", "pooler.kind = \"pgbouncer\""),
    ("pooler.settings.NAME", r#"["1", "2"]"#, "pooler.kind = \"pgbouncer\""),
    (keys::pooler::PROGRAM.name, r#"["/a/pgbouncer", "/b/pgbouncer"]"#, "pooler.kind = \"pgbouncer\""),
    (keys::OUTAGE, r#"["kill-primary", "stop-primary"]"#, "workload.pace = \"100/s\""),
    (keys::workload::THREADS.name, "", "workload.clients = 8"),
    (
        keys::workload::DRIVERS.name,
        "",
        "server.listen = \"127.0.0.1\"\nworkload.clients = 8\n[[driver]]\nname = \"a\"\nvia = [\"ssh\", \"a\"]\n\
         [[driver]]\nname = \"b\"\nvia = [\"ssh\", \"b\"]",
    ),
    (keys::workload::PACE.name, r#"["closed", "100/s"]"#, ""),
    (keys::workload::PARTITION_METHOD.name, "", "workload.partitions = 2"),
    (keys::workload::TABLESPACE.name, "", "server.url = \"postgresql://h/a\""),
    (
        "workload.defines.NAME",
        "",
        "workload.kind = \"scripts\"\nworkload.data = \"none\"\n[[workload.scripts]]\nname = \"s\"\ntext = \"select :NAME\"",
    ),
    (keys::workload::VARIANT.name, "", DIRECTORY),
    ("workload.options.NAME", "", DIRECTORY),
    (keys::workload::CALLS.name, "", "workload.kind = \"tpcc\""),
    (keys::workload::THINK.name, "", "workload.kind = \"tpcc\""),
    (keys::workload::ISOLATION.name, "", "workload.kind = \"tpcc\""),
    (keys::workload::ALL_WAREHOUSES.name, "", "workload.kind = \"tproc-c\""),
    (keys::prepare::RESTORE_BY.name, r#"["auto", "load"]"#, "server.url = \"postgresql://h/a\""),
    ("factors.NAME", "", "hooks.before_case = [\"true\"]"),
];

/// A workload directory with two variants and a text as an option.
const DIRECTORY: &str = r#"workload.kind = "./d"
workload.directories."./d" = {"workload.toml" = '''
format = 1
name = "d"
title = "D"
about = "Nothing."
source = "own"
licence = "MIT"
scale = "one row"

[options]
NAME = {default = "a", about = "a text"}

[[table]]
name = "t"
rows = "scale"
[table.columns]
id = "row"

[[transaction]]
name = "s"

[[transaction]]
name = "u"

[variants]
a = {weights = {s = 1}}
b = {weights = {u = 1}}
''', "schema.sql" = "create table t (id int);", "transactions/s.sql" = "select :NAME;", "transactions/u.sql" = "select 1;"}"#;

/// Two levels of a key by its kind, as TOML.
fn levels(row: &KeyRow) -> String {
    let of_kind = |kind: &KeyKind| match kind {
        KeyKind::Flag => Some("[true, false]".to_string()),
        KeyKind::Words([first, second, ..]) => Some(format!("[\"{first}\", \"{second}\"]")),
        KeyKind::Whole(least, _) => Some(format!("[{least}, {}]", least + 1)),
        KeyKind::Positive | KeyKind::Number => Some("[1, 1.5]".to_string()),
        KeyKind::Seconds(least) => Some(format!("[\"{}s\", \"{}s\"]", least + 1, least + 2)),
        KeyKind::Text => Some(r#"["a", "b"]"#.to_string()),
        _ => None,
    };
    row.kinds().iter().find_map(of_kind).unwrap_or_else(|| panic!("{}: {:?}", row.name, row.kind))
}

fn plan_of(text: &str) -> Result<Plan, String> {
    let experiment = experiment::plan::file::parse("x", text, &[]).map_err(|error| error.to_string())?;
    experiment::plan::expand::plan_unseen(&experiment)
}

/// The lines of the cases of a plan without their numbers, each with the lines below it.
fn of_cases(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("case "));
    lines.map(|line| line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).to_string()).collect()
}

/// Whether all are different, and as many as expected.
fn are_distinct(all: &[String], n: usize) -> bool {
    all.len() == n && all.iter().collect::<BTreeSet<_>>().len() == n
}

#[test]
fn every_factor_is_in_the_plan_its_file_the_terminal_and_csv() {
    let may_vary = |key: &str| keys::all().any(|row| row.may_vary && row.name == key);
    assert!(NEEDS.iter().all(|(key, ..)| may_vary(key)), "each is a key that may be a list");
    let mut hidden = Vec::new();
    for row in keys::all().filter(|row| row.may_vary) {
        let key = row.name;
        let needs = NEEDS.iter().find(|(known, ..)| *known == key);
        let (_, given, rest) = needs.copied().unwrap_or_default();
        let named = key.replace("NAME", if key.starts_with("server") { "jit" } else { "NAME" });
        let named = if key.starts_with("topology.from") { "topology.from.s2".to_string() } else { named };
        let named = if key.starts_with("factors") { "factors.name".to_string() } else { named };
        let factor = match given {
            _ if key == keys::TARGET => String::new(),
            "" => format!("{named} = {}\n", levels(row)),
            given => format!("{named} = {given}\n"),
        };
        let plan =
            match plan_of(&format!("experiment.name = \"x\"\nexperiment.repeats = 1\n{factor}{rest}\n")) {
                Ok(plan) => plan,
                Err(error) => {
                    hidden.push(format!("{key}: {error}"));
                    continue;
                }
            };

        let mut find =
            |place: &str, is_shown: bool| (!is_shown).then(|| hidden.push(format!("{key}: {place}")));
        find(
            "plan",
            are_distinct(
                &of_cases(&super::text(&plan, &super::outlook(&plan), None).unwrap()),
                plan.cases.len(),
            ),
        );
        find("two cases", plan.cases.len() == 2);
        let file = serde_json::to_string(&plan).unwrap();
        find("plan.json", serde_json::from_str::<Plan>(&file).unwrap() == plan);
        let [a, b] = [&plan.cases[0], &plan.cases[1]];
        let plain = |case: &Case| Case { id: 0, levels: BTreeMap::new(), ..case.clone() };
        find("what cases measure", plain(a) != plain(b));
        find("what cases carry", row.carried.is_none() || a.carried != b.carried);

        let data = ExperimentData {
            plan,
            experiment_toml: String::new(),
            state: Vec::new(),
            runs: Vec::new(),
            profiles: Vec::new(),
        };
        let study = analysis::study(&data);
        let table = report::terminal_table(&study, 200, false);
        let rows: Vec<String> = study.cases.iter().map(|case| case.label.clone()).collect();
        let is_in_table = rows.iter().all(|label| table.lines().any(|line| line.starts_with(label.as_str())));
        find("terminal", are_distinct(&rows, 2) && is_in_table);
        let csv = report::cases_csv(&study);
        let column = csv.lines().next().unwrap_or_default().split(',').any(|head| head == named);
        find("csv", column && rows.iter().all(|label| csv.contains(label.as_str())));
    }
    assert!(hidden.is_empty(), "levels that do not show: {hidden:#?}");
}

#[test]
fn two_keys_with_one_last_word_are_named_whole() {
    let plan = plan_of(
        "experiment.name = \"x\"\n[workload]\nscale = [1, 2]\nkind = \"scripts\"\ndata = \"tpcb\"\ndefines.scale = [3, 4]\n\
         [[workload.scripts]]\nname = \"s\"\ntext = \"select :scale\"\n",
    )
    .unwrap();
    assert_eq!(plan.cases[0].label(), "workload.defines.scale 3, workload.scale 1");
}

#[test]
fn the_sum_is_the_same_in_text_and_json() {
    let plan = plan_of("experiment.name = \"x\"\nworkload.clients = [4, 8]\n").unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&super::sum::json(&plan, &super::outlook(&plan), None).unwrap()).unwrap();
    let sum = &json["sum"];
    assert_eq!((&sum["cases"], &sum["runs"]), (&2.into(), &plan.runs.len().into()));
    assert!(sum["disk_bytes"].is_null(), "what nobody looked at is unknown: {sum}");
    let time = crate::job::preview::duration(sum["time_s"].as_f64().unwrap());
    let most = crate::job::preview::duration(sum["time_s_max"].as_f64().unwrap());
    let memory = model::text::prose::bytes(sum["memory_bytes"].as_f64().unwrap());
    let expected = format!("sum     about {time} of time, at most {most} with repeats; {memory} of memory\n");
    let text = super::text(&plan, &super::outlook(&plan), None).unwrap();
    assert!(text.contains(&expected), "{expected} is not in\n{text}");
    assert_eq!(json["cases"].as_array().unwrap().len(), 2, "the plan itself is there, too");
}
