//! Findings of cases and of experiments: each rule sees what it is for.

use analysis::finding::{Finding, Grade, Severity};
use analysis::study;
use analysis::summary::Study;
use model::experiment::case::{Case, ServerSource};
use model::experiment::origin::MergedFrom;
use model::experiment::plan::{RunOrder, RunState, StateLine};
use model::experiment::target::TargetSpec;
use model::load::Pace;
use model::run::ExperimentData;
use model::run::fingerprint::{Fingerprint, RelationPrint};
use model::telemetry::event::EventKind;

use crate::capacity::{find_a_rate, find_no_rate};
use crate::disturbances::{restore_says, setting};
use crate::quiet::{self, event, set_committed, tps};
use crate::tpcc;

pub(crate) fn quiet_experiment() -> ExperimentData {
    quiet::experiment(3, (1..=3).map(quiet::run).collect())
}

/// Rule, weight, words of the evidence, change; of cases and experiments.
type Change = fn(&mut ExperimentData);
pub(crate) const STUDY_TABLE: &[(&str, Severity, &str, Change)] = &[
    ("nothing-counts", Severity::Void, "none of its 3 runs counts", |data| {
        data.runs.iter_mut().for_each(|run| run.record.state = RunState::Partial);
    }),
    ("runs-excluded", Severity::Note, "run 2 (connection-lost)", |data| {
        data.runs[1].events.push(event(12.0, EventKind::ConnectionLost, "57P01"));
    }),
    ("spread", Severity::Note, "of 3 runs is 5.", |data| {
        set_committed(&mut data.runs[1], 5..35, |t| tps(t) + 100);
    }),
    ("spread-origin", Severity::Note, "of the variance lies between runs", |data| {
        set_committed(&mut data.runs[1], 5..35, |t| tps(t) + 100);
    }),
    ("outlier-run", Severity::Note, "far from the median of 6 runs: run 4 (+30 %)", |data| {
        *data = quiet::experiment(6, (1..=6).map(quiet::run).collect());
        for (i, run) in data.runs.iter_mut().enumerate() {
            let more = if i == 3 { 302 } else { i as u64 };
            set_committed(run, 5..35, |t| tps(t) + more);
        }
    }),
    ("spread-unknown", Severity::Note, "2 runs only", |data| data.runs.truncate(2)),
    ("cache-fit", Severity::Note, "the data (1.46 GiB) fits in memory, not in shared buffers", |_| {}),
    ("cache-fit", Severity::Note, "fits in shared buffers", |data| {
        setting(&mut data.runs[0], "shared_buffers", "2GB");
    }),
    ("cache-fit", Severity::Note, "is larger than memory", |data| {
        data.runs[0].record.server.as_mut().unwrap().database_bytes = 40 << 30;
    }),
    ("cache-fit", Severity::Note, "is larger than shared buffers", |data| {
        data.runs[0].record.server_is_local = false
    }),
    ("no-checkpoint", Severity::Note, "no checkpoint in 90 measured seconds", |_| {}),
    (
        "row-contention",
        Severity::Note,
        "8 clients share 1 branch (and ten times as many tellers; each transaction updates one)",
        |data| {
            data.plan.cases[0].workload.scale = 1;
        },
    ),
    ("searches-disagree", Severity::Void, "in 2 of 3 runs no rate met p99 <= 10ms; found were 3,", |data| {
        data.runs.iter_mut().take(2).for_each(find_no_rate);
        find_a_rate(&mut data.runs[2]);
    }),
    ("tpcc-like", Severity::Note, "not met: terminals neither key nor think", |data| {
        *data = tpcc::experiment(vec![tpcc::run(1)]);
    }),
    ("incomplete", Severity::Doubt, "1 of 3 runs is missing (1 not started)", |data| data.runs.truncate(2)),
    ("resumed", Severity::Note, "resumed 1 time; run 2 was made again", |data| taken_up_again(data)),
    ("merged", Severity::Note, "2 runs of a (pgdyno 0.1.0, seed 7), 1 run of b (pgdyno", |data| merged(data)),
    (
        "machine-changed",
        Severity::Doubt,
        "1 of 3 completed runs differs from run 1 (run 3: processors `",
        |data| {
            data.runs[2].record.host.as_mut().unwrap().n_cpus += 1;
        },
    ),
    ("machine-changed", Severity::Doubt, "pgdyno `0.1.0`, then `9.9.9`", |data| {
        data.runs.iter_mut().for_each(|run| run.record.tool_version = "0.1.0".to_string());
        data.runs[1].record.tool_version = "9.9.9".to_string();
    }),
    (
        "machine-changed",
        Severity::Doubt,
        "1 of 3 completed runs differs from run 1 (run 3: server binaries `aaaaaaaa`, then `bbbbbbbb`)",
        |data| built_as(data, ["a", "a", "b"]),
    ),
    (
        "server-replaced",
        Severity::Doubt,
        "another server in 1 completed run: run 3 (system identifier 7, then 8)",
        |data| by_url(data, ["7", "7", "8"]),
    ),
    ("sequential-order", Severity::Doubt, "2 cases in sequence", |data| {
        data.plan.order = RunOrder::Sequential;
        data.plan.cases.push(quiet::case(2));
    }),
    ("servers-in-turn", Severity::Doubt, "the runs of each server are adjacent in time", |data| {
        data.plan.servers_at_a_time = Some(1);
        data.plan.runs[2].block = 1;
    }),
    ("servers-in-turn", Severity::Doubt, "the runs of each server are adjacent in time", |data| {
        data.plan.order = RunOrder::ByServer;
        let mut other = quiet::case(2);
        other.server.source = model::experiment::case::ServerSource::BinDir("/other".into());
        data.plan.cases.push(other);
    }),
    ("closed-loop", Severity::Note, "1 of 1 case uses a closed loop: ", |_| {}),
    ("data-differs", Severity::Void, "run 1 began with 100 rows in `t`, run 3 with 101", |data| {
        begin_with(data, &[100, 100, 101], &[8192, 8192, 8192]);
    }),
    ("data-differs", Severity::Doubt, "`t` had 8.00 KiB when run 1 began, 16.0 KiB when run 2 did", |data| {
        begin_with(data, &[100, 100, 100], &[8192, 16384, 8192]);
    }),
    ("data-differs", Severity::Note, "run 1 began with 100 rows", |data| {
        begin_with(data, &[100, 101, 102], &[8192, 8192, 8192]);
        data.runs.iter_mut().for_each(|run| run.record.case.prepare.restore = false);
    }),
    (
        "own-data",
        Severity::Note,
        "data made under default_toast_compression = lz4 (case 2), default_toast_compression = pglz (case 1)",
        |data| compress(data, true),
    ),
    (
        "own-data",
        Severity::Doubt,
        "nothing records that the data of case 1 was made under its `default_toast_compression = pglz`",
        |data| compress(data, false),
    ),
    ("builds-differ", Severity::Doubt, "18.1: gcc (GCC) 12.2.0 -O2", |data| {
        for (run, (compiler, flags)) in
            data.runs.iter_mut().zip([("12.2.0", "-O2 -g"), ("7.5.0", "-Os"), ("12.2.0", "-O2")])
        {
            let server = run.record.server.as_mut().unwrap();
            server.version = format!("PostgreSQL 18.6 on x86_64, compiled by gcc (GCC) {compiler}, 64-bit");
            server.build.insert("CFLAGS".to_string(), flags.to_string());
        }
    }),
];

/// Two cases differ in what compresses long values; restores say so if `is_recorded`.
fn compress(data: &mut ExperimentData, is_recorded: bool) {
    for (n, run) in data.runs.iter_mut().enumerate() {
        let (id, word) = if n == 0 { (1, "pglz") } else { (2, "lz4") };
        run.record.case.id = id;
        setting_of_case(&mut run.record.case, "default_toast_compression", word);
        if is_recorded {
            restore_says(run, "made_under", &format!("default_toast_compression = {word}"));
        } else {
            restore_says(run, "method", "copy");
        }
    }
    data.plan.cases.push(quiet::case(2));
    for (case, word) in data.plan.cases.iter_mut().zip(["pglz", "lz4"]) {
        setting_of_case(case, "default_toast_compression", word);
    }
}

fn setting_of_case(case: &mut Case, name: &str, value: &str) {
    case.server.settings.insert(name.to_string(), value.to_string());
}

/// The runs' servers have executables of these hashes, each a letter over and over.
pub(crate) fn built_as(data: &mut ExperimentData, letters: [&str; 3]) {
    for (run, letter) in data.runs.iter_mut().zip(letters) {
        run.record.server.as_mut().unwrap().executable_sha256 = Some(letter.repeat(64));
    }
}

/// The runs are those of a server by URL with these system identifiers.
fn by_url(data: &mut ExperimentData, identifiers: [&str; 3]) {
    for (run, identifier) in data.runs.iter_mut().zip(identifiers) {
        run.record.case.server.source = ServerSource::Url(Default::default());
        run.record.server.as_mut().unwrap().system_identifier = Some(identifier.to_string());
    }
}

#[test]
fn machines_of_targets_may_differ_but_not_those_of_one_target() {
    let found = |targets: [&str; 3]| {
        let mut data = quiet_experiment();
        by_url(&mut data, ["7", "8", "9"]);
        for (run, target) in data.runs.iter_mut().zip(targets) {
            run.record.case.server.target =
                Some(TargetSpec { name: target.to_string(), ..TargetSpec::default() });
            run.record.host.as_mut().unwrap().hostname = format!("host of {target}");
        }
        data.runs[2].record.host.as_mut().unwrap().hostname = "another".to_string();
        let ids: Vec<&str> = study(&data).findings.iter().map(|finding| finding.id).collect();
        ["machine-changed", "server-replaced"].map(|id| ids.contains(&id))
    };
    assert_eq!(found(["a", "b", "c"]), [false, false]);
    assert_eq!(found(["a", "b", "b"]), [true, true]);
}

#[test]
fn flags_that_a_release_cannot_tell_are_no_difference_of_builds() {
    let found = |flags: [Option<&str>; 3]| -> Option<String> {
        let mut data = quiet_experiment();
        for (run, flags) in data.runs.iter_mut().zip(flags) {
            let server = run.record.server.as_mut().unwrap();
            server.version = "PostgreSQL 9.5.21 on x86_64, compiled by cc 12.2.0, 64-bit".to_string();
            server.build = flags.map(|flags| ("CFLAGS".to_string(), flags.to_string())).into_iter().collect();
        }
        let findings = study(&data).findings;
        findings.into_iter().find(|one| one.id == "builds-differ").map(|one| one.evidence)
    };
    // Before 9.6 there is no view of them.
    assert_eq!(found([None, Some("-O2"), Some("-O2")]), None);
    assert_eq!(found([None, None, None]), None);
    let differing = found([None, Some("-O2"), Some("-O0")]).unwrap();
    assert!(differing.contains("12.2.0 -O2") && differing.contains("12.2.0 -O0"), "{differing}");
}

#[test]
fn two_servers_by_url_that_are_compared_are_not_taken_for_one_that_was_replaced() {
    let mut data = quiet_experiment();
    by_url(&mut data, ["7", "8", "8"]);
    for (run, host) in data.runs.iter_mut().zip(["a", "b", "b"]) {
        let keywords = [("host".to_string(), host.to_string())];
        run.record.case.server.source = ServerSource::Url(keywords.into());
    }
    let is_found = |data: &ExperimentData| study(data).findings.iter().any(|one| one.id == "server-replaced");
    assert!(!is_found(&data));
    data.runs[2].record.server.as_mut().unwrap().system_identifier = Some("9".to_string());
    assert!(is_found(&data));
}

/// Runs 1 and 2 come from `a`, and run 3 from `b`, another machine.
fn merged(data: &mut ExperimentData) {
    let origin = |name: &str, first, last| MergedFrom {
        name: name.to_string(),
        first,
        last,
        tool_version: "0.1.0".to_string(),
        seed: 7,
        made_unix_ns: 1,
    };
    data.plan.origins = vec![origin("a", 0, 2), origin("b", 2, 3)];
    data.runs[2].record.host.as_mut().unwrap().hostname = "elsewhere".to_string();
}

#[test]
fn machines_of_origins_may_differ_if_the_origin_is_a_factor() {
    let has_changed =
        |data: &ExperimentData| study(data).findings.iter().any(|finding| finding.id == "machine-changed");
    let mut data = quiet_experiment();
    merged(&mut data);
    assert!(has_changed(&data));
    let advises_by_origin = |data: &ExperimentData| {
        let findings = study(data).findings;
        findings.iter().any(|finding| finding.id == "merged" && finding.advice.contains("--by-origin"))
    };
    assert!(advises_by_origin(&data));
    data.plan.factors.push("origin".to_string());
    assert!(!has_changed(&data) && !advises_by_origin(&data));
}

/// Run 2 was cut off, and made again when the experiment was resumed.
fn taken_up_again(data: &mut ExperimentData) {
    use RunState::{Completed, Partial, Started};
    let line = |(run, state)| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
    let lines = [
        (1, Started),
        (1, Completed),
        (2, Started),
        (2, Partial),
        (0, Started),
        (2, Started),
        (2, Completed),
        (3, Started),
        (3, Completed),
        (0, Completed),
    ];
    data.state = lines.map(line).into();
}

/// Each run begins with so many rows in a table of so many bytes.
pub(crate) fn begin_with(data: &mut ExperimentData, rows: &[u64], bytes: &[u64]) {
    for (run, (rows, bytes)) in data.runs.iter_mut().zip(rows.iter().zip(bytes)) {
        run.record.rows_before = [("t".to_string(), *rows)].into();
        let relation = RelationPrint { bytes: *bytes, index: String::new() };
        let relations = [("t".to_string(), relation)].into();
        run.record.fingerprint = Some(Fingerprint { relations, ..Fingerprint::default() });
    }
}

fn case_and_study_findings(study: Study) -> Vec<Finding> {
    study.cases.into_iter().flat_map(|case| case.findings).chain(study.findings).collect()
}

#[test]
fn each_rule_of_cases_and_experiments_finds_what_it_is_for() {
    for (id, severity, words, change) in STUDY_TABLE {
        let mut data = quiet_experiment();
        change(&mut data);
        let findings = case_and_study_findings(study(&data));
        let found = findings.iter().find(|finding| finding.id == *id);
        let found = found.unwrap_or_else(|| panic!("{id} is not among {findings:#?}"));
        assert_eq!(found.severity, *severity, "{id}: {}", found.evidence);
        assert!(found.evidence.contains(words), "{id}: `{}` lacks `{words}`", found.evidence);
    }
}

#[test]
fn the_quiet_experiment_is_valid_and_has_notes_only() {
    let study = study(&quiet_experiment());
    assert_eq!(study.cases[0].grade, Grade::Valid);
    let ids: Vec<&str> = case_and_study_findings(study).iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["cache-fit", "no-checkpoint", "closed-loop"]);
}

#[test]
fn the_notes_that_are_usual_are_silent_where_they_do_not_apply() {
    let mut data = quiet_experiment();
    data.plan.cases[0].workload.kind = model::experiment::case::WorkloadKind::TpcbSelect;
    data.plan.cases[0].workload.pace = Pace::Poisson { rate_per_s: 1000.0 };
    data.runs.iter_mut().for_each(|run| run.record.server = None);
    assert_eq!(case_and_study_findings(study(&data)), []);
}
