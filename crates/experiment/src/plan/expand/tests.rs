//! Which plans result from experiments, and which experiments are refused.

use std::collections::BTreeSet;

use model::directory::{TraceReplay, WorkloadDirectory};
use model::experiment::os::WalPolicy;

use super::*;

fn site() -> PlanResources {
    PlanResources {
        memory_bytes: Some(24 << 30),
        data_scale: BTreeMap::new(),
        n_cpus: 2,
        url_keywords: None,
        now_unix_ns: 1,
        fresh_seed: 42,
        ..PlanResources::default()
    }
}

fn plan_of(text: &str) -> Result<Plan, String> {
    plan_at(text, &site())
}

fn plan_at(text: &str, site: &PlanResources) -> Result<Plan, String> {
    let text = format!("[experiment]\nname = \"x\"\n{text}");
    let experiment = crate::plan::file::parse("x.toml", &text, &[]).map_err(|error| error.to_string())?;
    plan(&experiment, site)
}

#[test]
fn lists_make_a_grid_in_randomized_blocks() {
    let text = "repeats = 4\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nclients = [1, 8, 32]\n";
    let plan = plan_of(text).unwrap();
    assert_eq!(plan.cases.len(), 6);
    assert_eq!(plan.factors, ["server.version", "workload.clients"]);
    assert_eq!(plan.cases[1].label(), "version 12, 8 clients");
    assert_eq!(plan.runs.len(), 24);
    let orders: Vec<Vec<u32>> = plan.runs.chunks(6).map(|b| b.iter().map(|run| run.case).collect()).collect();
    for (n, (order, runs)) in orders.iter().zip(plan.runs.chunks(6)).enumerate() {
        assert!(runs.iter().all(|run| run.block == n as u32 + 1));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5, 6], "each case once per block");
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "blocks have orders of their own");
    assert_eq!(plan_of(text).unwrap().runs, plan.runs, "the same seed gives the same order");
}

#[test]
fn an_empty_level_is_named_as_sql_writes_it() {
    let plan = plan_of("[server]\nsettings.search_path = [\"\", \"x\"]\n").unwrap();
    let labels: Vec<String> = plan.cases.iter().map(|case| case.label()).collect();
    assert_eq!(labels, ["search_path ''", "search_path x"]);
}

#[test]
fn threads_are_a_factor_unless_they_follow_the_clients() {
    let together = "zip = [[\"workload.clients\", \"workload.threads\"]]\n[server]\nversion = [\"12\", \"18\"]\n\
                    [workload]\nclients = [1, 4, 8]\nthreads = [1, 4, 4]\n";
    let plan = plan_of(together).unwrap();
    assert_eq!(plan.factors, ["server.version", "workload.clients"]);
    assert_eq!(plan.cases[2].label(), "version 12, 8 clients");
    assert_eq!(plan.cases.iter().map(|case| case.workload.n_threads).collect::<BTreeSet<_>>().len(), 2);
    let apart = plan_of("[workload]\nclients = [4, 8]\nthreads = [1, 2]\n").unwrap();
    assert_eq!(apart.factors, ["workload.clients", "workload.threads"]);
    assert_eq!(plan_of("[workload]\nclients = 4\nthreads = [1, 2]\n").unwrap().factors, ["workload.threads"]);
}

#[test]
fn threads_without_clients_are_refused_and_not_left_out() {
    let load = "[workload]\nclients = [1, 4]\nthreads = [1, 4]\n";
    let message = plan_of(load).unwrap_err();
    assert!(message.starts_with("workload.threads: 4 threads for 1 client; give at most one"), "{message}");
    let plan = plan_of(&format!("exclude = [{{clients = 1, threads = 4}}]\n{load}")).unwrap();
    let threads = plan.cases.iter().map(|case| (case.workload.n_clients, case.workload.n_threads));
    assert_eq!(threads.collect::<Vec<_>>(), [(1, 1), (4, 1), (4, 4)]);
    let shared = "[workload]\nclients = 4\nthreads = 3\n[[driver]]\nvia = [\"ssh\", \"a\"]\n[[driver]]\nvia = [\"ssh\", \"b\"]\n";
    let message = plan_of(shared).unwrap_err();
    assert!(message.contains("3 threads for 2 clients of each driver"), "{message}");
    let mistaken = plan_of(&format!("exclude = [{{clients = 9}}]\n{load}")).unwrap_err();
    assert!(!mistaken.contains("workload.threads"), "the combinations are not those asked for: {mistaken}");
}

#[test]
fn scales_are_resolved_against_the_machine() {
    let check = |text: &str, expected: u32| {
        assert_eq!(plan_of(text).unwrap().cases[0].workload.scale, expected, "{text}");
    };
    check("[workload]\nclients = [1, 16]", 32);
    check("[workload]\nscale = 7", 7);
    check("[workload]\nclients = 1", 20);
    assert!(plan_of("[workload]\nscale = \"3x RAM\"").unwrap().cases[0].workload.scale > 3000);
}

#[test]
fn a_remote_machine_has_no_memory_to_scale_by() {
    let scale = |text: &str, data_scale: Option<u32>| {
        let data_scale = data_scale.map(|scale| (Dataset::Tpcb, scale)).into_iter().collect();
        let away = PlanResources { memory_bytes: None, data_scale, ..site() };
        plan_at(text, &away).map(|plan| plan.cases[0].workload.scale)
    };
    assert_eq!(scale("[workload]\nclients = 5000", None), Ok(10_000));
    assert_eq!(scale("[workload]\nclients = 5000", Some(3)), Ok(3), "the data that is there fits");
    assert_eq!(scale("[workload]\nscale = 7", Some(3)), Ok(7));
    let message = scale("[workload]\nscale = \"3x RAM\"", Some(3)).unwrap_err();
    assert!(message.contains("`3x RAM` needs the memory of the server's machine"), "{message}");
}

#[test]
fn data_that_is_measured_as_it_is_decides_its_scale() {
    let (foreign, kept) = ([(Dataset::Tpcb, 3)].into(), [(Dataset::Tpcb, 5), (Dataset::Tpcc, 4)].into());
    let here = PlanResources { kept_scale: kept, ..site() };
    let url_keywords = Some([("host".to_string(), "h".to_string())].into());
    let by_url = PlanResources { foreign_scale: foreign, url_keywords, ..site() };
    let check = |text: &str, site: &PlanResources, expected: u32| {
        let server = if site.url_keywords.is_some() { "[server]\nurl = \"host=h\"\n" } else { "" };
        let plan = plan_at(&format!("{server}{text}"), site).unwrap();
        assert_eq!(plan.cases[0].workload.scale, expected, "{text}");
    };
    let as_it_is = "[prepare]\nrestore = false\n";
    check(as_it_is, &by_url, 3);
    check(as_it_is, &here, 5);
    check(&format!("{as_it_is}[workload]\nkind = \"tpcc\"\n"), &here, 4);
    check(&format!("{as_it_is}[workload]\nscale = 7\n"), &here, 7);
    // Data of a workload directory, by its name.
    let loaded = PlanResources { directory_scale: [("ycsb".to_string(), 2)].into(), ..by_url.clone() };
    check(&format!("{as_it_is}[workload]\nkind = \"ycsb\"\n"), &loaded, 2);
    check(&format!("{as_it_is}[workload]\nkind = \"oltp\"\n"), &loaded, 1);
    check("[workload]\nkind = \"ycsb\"\n", &loaded, 1);
    check("", &here, 20);
    check("", &by_url, 20);
}

#[test]
fn values_of_the_system_and_of_the_wal_are_factors_like_others() {
    let text = "[server]\nsource = \"/pg\"\nrevision = [\"REL_12_1\", \"abc123\"]\n[run]\nwal = [\"as-is\", \
                \"no-checkpoint\"]\n[os]\nhuge_pages = [\"off\", \"on\"]\nswappiness = 10\n";
    let plan = plan_of(text).unwrap();
    assert_eq!(plan.factors, ["server.revision", "run.wal", "os.huge_pages"]);
    assert_eq!(plan.cases.len(), 8);
    let last = &plan.cases[7];
    assert_eq!((last.os["huge_pages"].as_str(), last.os["swappiness"].as_str()), ("on", "10"));
    assert_eq!(last.wal, WalPolicy::NoCheckpoint);
    let revision = Some("abc123".to_string());
    assert_eq!(last.server.source, ServerSource::Source { tree: "/pg".to_string(), revision });
}

#[test]
fn releases_are_built_from_the_source_that_is_given_and_old_ones_from_that_of_postgresql() {
    let sources = |text: &str| -> Vec<String> {
        let plan = plan_of(&format!("[server]\n{text}")).unwrap();
        plan.cases.iter().map(|case| case.server.source.to_string()).collect()
    };
    let theirs = "built from `https://git.postgresql.org/git/postgresql.git` at";
    let of_old = [format!("{theirs} REL9_5_21"), format!("{theirs} REL9_4_26"), "PostgreSQL 9.6".to_string()];
    assert_eq!(sources("version = [\"9.5.21\", \"9.4\", \"9.6\"]"), of_old);
    let of_own = ["built from `/pg` at REL9_5_21", "built from `/pg` at REL_12_1"];
    assert_eq!(sources("source = \"/pg\"\nversion = [\"9.5.21\", \"12.1\"]"), of_own);
    let plan = plan_of("[server]\nsource = \"/pg\"\nversion = [\"9.5.21\", \"12.1\"]").unwrap();
    assert_eq!(
        (plan.factors, plan.cases[1].label()),
        (vec!["server.version".to_string()], "version 12.1".to_string())
    );
}

#[test]
fn contradictions_are_refused() {
    let check = |text: &str, expected: &str| {
        let message = plan_of(text).unwrap_err();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    };
    check("repeats = 0", "repeats");
    check("[server]\nversion = \"12\"\nbin_dir = \"/x\"", "one of version, bin_dir, source and url");
    check("[server]\nversion = \"12\"\nsource = \"/x\"", "`12` with server.source names a series");
    check("[server]\nversion = \"12.1\"\nrevision = \"REL_12_1\"\nsource = \"/x\"", "give one of them");
    check("[server]\nbin_dir = \"/x\"\nsource = \"/x\"", "version with source names releases");
    check("[server]\nrevision = \"REL_12_1\"", "server.revision needs server.source");
    check("[server]\nsource = [\"/x\", \"https://token@h/x\"]", "use a git credential helper or ssh");
    check("[run]\nramp_up = \"0s\"\nwal = \"no-checkpoint\"", "give run.ramp_up at least 5s");
    check("[workload]\nclients = 0", "clients: 0");
    check("[run]\nmeasure = \"1500ms\"", "whole number of seconds");
    check("[run]\nmeasure = \"1s\"", "too short");
    check("[workload]\nthreads = 0", "threads: 0");
    check("[workload]\ntransactions = 5\n[run]\nramp_up = [\"0s\", \"9s\"]", "run.ramp_up cannot vary");
    check("[workload]\ntransactions = 5\n[run]\nwal = \"two-checkpoints\"", "remove run.wal or");
    check(
        "[workload]\npace = \"max with p99 <= 1ms\"\n[run]\nmeasure = \"10s\"",
        "run.measure of 26s or more",
    );
    check(
        "[workload]\npace = \"max with p99 <= 1ms\"\ntransactions = 9",
        "transactions is not for workload.pace",
    );
    check("[workload]\npartitions = 100000", "partitions: 100000 is not in 0..10000");
    check("[workload]\nmax_message_mib = 0", "max_message_mib: 0 is not in 1..1024");
    check("[workload]\nload_streams = 0", "load_streams: 0 is not in 1..256");
    check("[workload]\nclients = [1, 2, 1]", "workload.clients: level 1 is given twice");
    let many = (1..=1001).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let grid =
        format!("[workload]\nclients = [{many}]\nscale = [{many}]\n[server]\nsettings.work_mem = [{many}]");
    check(&grid, "the levels have more than 1000000 combinations");
    check("[server]\nversion = [\"18\", \"18\"]", "server.version: level 18 is given twice");
    check("[server]\nsettings.work_mem = [\"4MB\", \"4MB\"]", "work_mem: level 4MB is given twice");
}

#[test]
fn levels_are_selected_however_they_are_written() {
    let measure = "[run]\nmeasure = [\"30s\", \"60s\", \"5min\"]\n";
    let plan = plan_of(&format!("exclude = [{{measure = [\"30s\", \"60s\"]}}]\n{measure}")).unwrap();
    assert_eq!(plan.cases.iter().map(|case| case.window.measure_s).collect::<Vec<_>>(), [300]);
    assert_eq!(plan_of(&format!("baseline = {{measure = \"60s\"}}\n{measure}")).unwrap().baseline, 2);
    let message = plan_of(&format!("exclude = [{{measure = [\"30s\", \"61s\"]}}]\n{measure}")).unwrap_err();
    assert_eq!(message, "experiment.exclude: no case has measure 61s; correct or remove it");
}

#[test]
fn lengths_and_steps_before_a_run_are_factors_like_others() {
    let text = "[run]\nmeasure = [\"10s\", \"30s\"]\n[prepare]\nprewarm = [true, false]\n";
    let plan = plan_of(text).unwrap();
    assert_eq!(plan.factors, ["run.measure", "prepare.prewarm"]);
    let of = |case: &Case| (case.window.measure_s, case.prepare.prewarm, case.prepare.vacuum);
    let cases: Vec<_> = plan.cases.iter().map(of).collect();
    assert_eq!(cases, [(10, true, true), (10, false, true), (30, true, true), (30, false, true)]);
    assert_eq!(plan.cases[3].label(), "prewarm false, measure 30s");
    let unobserved = plan_of("[run]\ntelemetry = [true, false]\n").unwrap();
    assert_eq!(unobserved.cases.iter().map(|case| case.is_unobserved).collect::<Vec<_>>(), [false, true]);
    let baseline = format!("baseline = {{prewarm = false, measure = \"30s\"}}\n{text}");
    assert_eq!(plan_of(&baseline).unwrap().baseline, 4);
    let message = plan_of("[run]\nmeasure = [\"10s\", \"1500ms\"]").unwrap_err();
    assert!(message.contains("run.measure: 1500ms is not a whole number of seconds"), "{message}");
}

#[test]
fn conditions_are_those_that_runs_get() {
    let check = |settings: &str, expected: Option<&str>| {
        let text = format!("conditions = [\"fsync=off\", \"disks by LUKS\"]\n[server]\n{settings}");
        match (plan_of(&text), expected) {
            (Ok(plan), None) => assert_eq!(plan.cases[0].conditions.len(), 2),
            (Err(message), Some(expected)) => assert!(message.contains(expected), "{message}"),
            (found, _) => panic!("{settings}: {found:?}"),
        }
    };
    check("settings.fsync = \"off\"", None);
    check("settings.FSync = false", None);
    check("", Some("`fsync=off` sets nothing; set server.settings.fsync = \"off\" too"));
    check("settings.fsync = [\"on\", \"off\"]", Some("server.settings.fsync is on"));
    let text = "conditions = [\"fsync=off\"]\n[server]\nurl = \"host=h\"";
    let by_url = PlanResources { url_keywords: Some(BTreeMap::new()), ..site() };
    assert!(plan_at(text, &by_url).is_ok(), "its runs are held against it");
    let share = plan_at(&text.replace("fsync=off", "shared_buffers=25%"), &by_url).unwrap_err();
    assert!(share.contains("no server shows a share of memory"), "{share}");
}

#[test]
fn servers_in_turn_are_an_order() {
    let load = "order = \"by-server\"\nrepeats = 2\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nscale = 1\nclients = [1, 2]\n";
    let plan = plan_of(load).unwrap();
    assert_eq!((plan.order, plan.servers_at_a_time), (RunOrder::ByServer, Some(1)));
    let in_turn = plan_of(
        &load
            .replace("by-server", "randomized")
            .replace("[server]", "[run]\nservers_at_a_time = 1\n[server]"),
    );
    assert_eq!(in_turn.unwrap().runs, plan.runs);
}

#[test]
fn one_server_at_a_time_puts_the_runs_of_each_together_in_blocks() {
    let load = "repeats = 3\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nscale = 1\nclients = [1, 2]\n";
    let plan = plan_of(&format!("{load}[run]\nservers_at_a_time = 1\n")).unwrap();
    let server =
        |run: &model::experiment::plan::RunSpec| plan.case(run.case).unwrap().server.source.to_string();
    let (first, second) = plan.runs.split_at(6);
    for half in [first, second] {
        assert!(half.iter().all(|run| server(run) == server(&half[0])), "{:?}", plan.runs);
        assert_eq!(half.iter().map(|run| run.block).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3]);
    }
    assert_eq!(plan.runs.iter().map(|run| run.run).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let usual = plan_of(load).unwrap();
    assert_eq!((usual.servers_at_a_time, plan.servers_at_a_time), (None, Some(1)));
    let seeds = |plan: &Plan| plan.runs.iter().map(|run| (run.seed, run.case)).collect::<BTreeSet<_>>();
    assert_eq!(seeds(&usual), seeds(&plan), "the runs are the same");
    let message = plan_of("[run]\nservers_at_a_time = 2").unwrap_err();
    assert!(message.contains("run.servers_at_a_time: 2 is not supported"), "{message}");
}

#[test]
fn all_problems_of_an_experiment_are_reported_at_once() {
    let text = "[workload]\nclients = [1, 1]\nthreads = 2\npace = \"max with p99 <= 1ms\"\ntransactions = 9\n\
                partition_method = \"hash\"\nschema = \"\"\n[run]\nramp_up = \"0s\"\nmeasure = \"10s\"\nramp_up_max = \"1min\"\n\
                telemetry = false\ncounters = true\n[prepare]\nwal_headroom = \"much\"\n";
    let message = plan_of(text).unwrap_err();
    for expected in [
        "workload.clients: level 1 is given twice",
        "workload.schema: ``",
        "run.ramp_up_max is for",
        "run.counters is part of",
        "prepare.wal_headroom: `much`",
    ] {
        assert_eq!(
            message.lines().filter(|line| line.contains(expected)).count(),
            1,
            "{expected}\n{message}"
        );
    }
    let message = plan_of(&text.replace("[1, 1]", "1")).unwrap_err();
    for expected in
        ["run.ramp_up of 2s or more", "run.measure of 26s or more", "transactions is not for workload.pace"]
    {
        assert!(message.contains(expected), "{expected}\n{message}");
    }
    assert!(check(&crate::plan::file::parse("x.toml", "[experiment]\nname = \"x\"\n", &[]).unwrap()).is_ok());
}

#[test]
fn a_trace_is_made_again_only_on_data_that_is_restored() {
    let case = |is_trace: bool, restore: bool| {
        let mut case = crate::plan::sample::case("[workload]\nscale = 1\n");
        case.prepare.restore = restore;
        let replay = is_trace.then(TraceReplay::default);
        case.workload.directory =
            Some(Box::new(WorkloadDirectory { replay, ..WorkloadDirectory::default() }));
        case
    };
    assert!(can_repeat(&[case(true, true), case(false, false)]));
    assert!(!can_repeat(&[case(true, true), case(true, false)]));
}
