//! Tests: cases that differ in one key differ in what the plan, the terminal and the spreadsheet call them.

use std::collections::BTreeSet;

use model::experiment::keys;
use model::experiment::plan::Plan;
use model::run::ExperimentData;

/// Every key that may be a list, two of its levels, and what else its experiment needs.
const GRIDS: &[(&str, &str, &str)] = &[
    (
        "target",
        "",
        "[[target]]\nname = \"a\"\nurl = \"postgresql://h/a\"\n[[target]]\nname = \"b\"\nurl = \"postgresql://h/b\"",
    ),
    ("server.version", r#"["14", "15"]"#, ""),
    ("server.bin_dir", r#"["/a/bin", "/b/bin"]"#, ""),
    ("server.source", r#"["/a/src", "/b/src"]"#, ""),
    ("server.revision", r#"["REL_15_1", "REL_15_2"]"#, "server.source = \"/a/src\""),
    ("server.tls", r#"["off", "on"]"#, "server.listen = \"127.0.0.1\""),
    ("server.wal_directory", r#"["/a/wal", "/b/wal"]"#, ""),
    ("server.data_checksums", "[true, false]", ""),
    ("server.settings.NAME", r#"["on", "off"]"#, ""),
    ("workload.kind", r#"["tpcb", "tpcb-simple"]"#, ""),
    ("workload.scale", "[1, 2]", ""),
    ("workload.protocol", r#"["simple", "prepared"]"#, ""),
    ("workload.clients", "[4, 8]", ""),
    ("workload.threads", "[1, 2]", "workload.clients = 8"),
    (
        "workload.drivers",
        "[1, 2]",
        "server.listen = \"127.0.0.1\"\nworkload.clients = 8\n[[driver]]\nname = \"a\"\nvia = [\"ssh\", \"a\"]\n\
      [[driver]]\nname = \"b\"\nvia = [\"ssh\", \"b\"]",
    ),
    ("workload.poller", r#"["auto", "epoll"]"#, ""),
    ("workload.busy_poll_us", "[0, 50]", ""),
    ("workload.transactions", "[10, 20]", ""),
    ("workload.pace", r#"["closed", "100/s"]"#, ""),
    ("workload.partitions", "[0, 16]", ""),
    ("workload.partition_method", r#"["range", "hash"]"#, "workload.partitions = 2"),
    ("workload.tablespace", r#"["fast", "slow"]"#, "server.url = \"postgresql://h/a\""),
    ("workload.unlogged", "[true, false]", ""),
    (
        "workload.defines.NAME",
        "[1, 2]",
        "workload.kind = \"scripts\"\nworkload.data = \"none\"\n\
      [[workload.scripts]]\nname = \"s\"\ntext = \"select :NAME\"",
    ),
    ("workload.calls", r#"["statements", "functions"]"#, "workload.kind = \"tpcc\""),
    ("workload.think", r#"["none", "spec"]"#, "workload.kind = \"tpcc\""),
    ("workload.isolation", r#"["read committed", "serializable"]"#, "workload.kind = \"tpcc\""),
    ("workload.all_warehouses", "[true, false]", "workload.kind = \"tproc-c\""),
    ("run.ramp_up", r#"["1s", "2s"]"#, ""),
    ("run.measure", r#"["10s", "20s"]"#, ""),
    ("run.grace", r#"["1s", "2s"]"#, ""),
    ("run.wal", r#"["as-is", "no-checkpoint"]"#, ""),
    ("run.telemetry", "[true, false]", ""),
    ("run.counters", "[true, false]", ""),
    ("prepare.restore", "[true, false]", ""),
    ("prepare.restore_by", r#"["auto", "load"]"#, "server.url = \"postgresql://h/a\""),
    ("prepare.checksums", "[true, false]", ""),
    ("prepare.vacuum", "[true, false]", ""),
    ("prepare.analyze", "[true, false]", ""),
    ("prepare.prewarm", "[true, false]", ""),
    ("prepare.checkpoint", "[true, false]", ""),
    ("prepare.settle", "[true, false]", ""),
    ("os.huge_pages", r#"["on", "off"]"#, ""),
    ("os.transparent_huge_pages", r#"["always", "never"]"#, ""),
    ("os.transparent_huge_pages_defrag", r#"["always", "never"]"#, ""),
    ("os.shmmax", "[1000000, 2000000]", ""),
    ("os.shmall", "[1000, 2000]", ""),
    ("os.swappiness", "[1, 60]", ""),
    ("os.overcommit_memory", "[0, 2]", ""),
    ("os.read_ahead_kb", "[128, 4096]", ""),
    ("os.io_scheduler", r#"["none", "mq-deadline"]"#, ""),
    ("os.somaxconn", "[128, 4096]", ""),
    ("os.max_map_count", "[65530, 100000]", ""),
    ("os.cpu_governor", r#"["performance", "powersave"]"#, ""),
    ("os.numa", r#"["local", "interleave"]"#, ""),
    ("os.processors", "[1, 2]", ""),
    ("os.cpu_quota", "[1, 1.5]", ""),
    ("os.data_read_iops", "[100, 200]", ""),
    ("os.data_write_iops", "[100, 200]", ""),
    ("os.wal_write_iops", "[100, 200]", ""),
    ("os.data_read_mb_s", "[100, 200]", ""),
    ("os.data_write_mb_s", "[100, 200]", ""),
    ("os.wal_write_mb_s", "[100, 200]", ""),
    ("factors.NAME", r#"["a", "b"]"#, "hooks.before_case = [\"true\"]"),
];

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
fn every_factor_shows_in_the_plan_on_the_terminal_and_in_csv() {
    let covered: BTreeSet<&str> = GRIDS.iter().map(|(key, ..)| *key).collect();
    let known: BTreeSet<&str> = keys::all().filter(|row| row.may_vary).map(|row| row.name).collect();
    assert_eq!(covered, known, "every key that may be a list is tried");
    let mut hidden = Vec::new();
    for (key, levels, rest) in GRIDS {
        let named = key.replace("NAME", if key.starts_with("server") { "jit" } else { "NAME" });
        let named = if key.starts_with("factors") { "factors.name".to_string() } else { named };
        let factor = if levels.is_empty() { String::new() } else { format!("{named} = {levels}\n") };
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
        find("plan", are_distinct(&of_cases(&super::text(&plan, None).unwrap()), plan.cases.len()));
        find("two cases", plan.cases.len() == 2);

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
    let json: serde_json::Value = serde_json::from_str(&super::sum::json(&plan, None).unwrap()).unwrap();
    let sum = &json["sum"];
    assert_eq!((&sum["cases"], &sum["runs"]), (&2.into(), &plan.runs.len().into()));
    assert!(sum["disk_bytes"].is_null(), "what nobody looked at is unknown: {sum}");
    let time = crate::job::preview::duration(sum["time_s"].as_f64().unwrap());
    let most = crate::job::preview::duration(sum["time_s_max"].as_f64().unwrap());
    let memory = model::text::prose::bytes(sum["memory_bytes"].as_f64().unwrap());
    let expected = format!("sum     about {time} of time, at most {most} with repeats; {memory} of memory\n");
    let text = super::text(&plan, None).unwrap();
    assert!(text.contains(&expected), "{expected} is not in\n{text}");
    assert_eq!(json["cases"].as_array().unwrap().len(), 2, "the plan itself is there, too");
}
