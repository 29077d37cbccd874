//! Which change tests which limiter, and what the measured runs prove.

use analysis::finding::Grade;
use analysis::summary::Resources;
use analysis::summary::limiter::{Bottleneck, Confidence, Limiter};
use analysis::summary::proof::{Kind, Outcome};
use analysis::what_if::{Circumstances, WhatIf, confirm, judge, telling_run, what_ifs};
use model::experiment::case::{Case, ServerSource, WorkloadKind};
use model::experiment::plan::RunSpec;
use model::run::RunRecord;
use model::run::server::Setting;

use crate::quiet::{self, experiment, run_of, set_committed};

fn limiter(name: Bottleneck, charged: Option<f64>) -> Limiter {
    Limiter { charged, ..Limiter::of(name, Confidence::Medium, "seen") }
}

fn record(settings: &[(&str, &str)]) -> RunRecord {
    let mut record = quiet::run(1).record;
    let server = record.server.as_mut().unwrap();
    for (name, value) in settings {
        let setting = Setting { value: value.to_string(), source: "default".to_string() };
        server.settings.insert(name.to_string(), setting);
    }
    record.host.as_mut().unwrap().memory_bytes = 16 << 30;
    record
}

/// The change for a limiter of a load that used 3 of 4 processors for its server: all of them where they limit, else 40 %.
fn chosen(name: Bottleneck, case: &Case, settings: &[(&str, &str)]) -> Result<WhatIf, String> {
    let busy = if name == Bottleneck::ServerCpu { 0.98 } else { 0.4 };
    chosen_of(name, case, settings, busy)
}

fn chosen_of(name: Bottleneck, case: &Case, settings: &[(&str, &str)], busy: f64) -> Result<WhatIf, String> {
    let (limiter, record) = (limiter(name, Some(0.8)), record(settings));
    let resources =
        Resources { n_cpus: Some(4), host_busy: Some(busy), server_cpu: Some(3.0), ..Resources::default() };
    let (mut all, untested) = what_ifs(Circumstances {
        case,
        limiter: &limiter,
        record: &record,
        resources: &resources,
        allow_changes: false,
    });
    all.pop().ok_or_else(|| untested[0].1.clone())
}

#[test]
fn each_limiter_is_tested_by_a_change_of_its_own() {
    let case = quiet::case(1);
    let sizes = [("shared_buffers", "128MB"), ("work_mem", "4MB"), ("max_wal_size", "1GB")];
    for (name, kind, change) in [
        (Bottleneck::WalSync, Kind::Lift, "synchronous_commit=off"),
        (Bottleneck::WalVolume, Kind::Lift, "full_page_writes=off"),
        (Bottleneck::Checkpoint, Kind::Lift, "max_wal_size=8192MB checkpoint_timeout=1h"),
        (Bottleneck::DataRead, Kind::Lift, "shared_buffers=1875MB"),
        (Bottleneck::Memory, Kind::Lift, "work_mem=262144kB"),
        (Bottleneck::Autovacuum, Kind::Lift, "autovacuum=off"),
        (Bottleneck::RowLock, Kind::Lift, "scale=400"),
        (Bottleneck::ServerCpu, Kind::Brake, "processors=2"),
        (Bottleneck::Lwlock, Kind::FewerClients, "clients=4"),
        (Bottleneck::ClientHeldLock, Kind::FewerClients, "clients=4"),
        (Bottleneck::OfferedLoad, Kind::Lift, "clients=16"),
        (Bottleneck::Driver, Kind::Lift, "threads=2"),
    ] {
        let what_if = chosen(name, &case, &sizes).unwrap();
        assert_eq!((what_if.limiter, what_if.kind, what_if.change.as_str()), (name, kind, change));
        assert_ne!(what_if.case, case, "{change} changes the case");
    }
    // 80 % of the clients' time is charged to it; the processors have room for 2.5 times as much.
    assert_eq!(chosen(Bottleneck::WalSync, &case, &[]).unwrap().predicted, Some(2.5));
    assert_eq!(chosen(Bottleneck::ServerCpu, &case, &[]).unwrap().predicted, Some(2.0 / 3.0));
}

#[test]
fn a_void_run_says_nothing_of_what_limited_its_case() {
    let runs = (1..=3).map(quiet::run).collect();
    let mut study = analysis::study(&experiment(3, runs));
    for (run, grade) in study.runs.iter_mut().zip([Grade::Void, Grade::Doubtful, Grade::Valid]) {
        (run.grade, run.limiter) = (grade, Some(limiter(Bottleneck::WalSync, None)));
    }
    assert_eq!(telling_run(&study, 1).unwrap().run, 3);
    study.runs[2].limiter = None;
    assert_eq!(telling_run(&study, 1).unwrap().run, 2);
    study.runs[1].replaced_by = Some(3);
    assert!(telling_run(&study, 1).is_none(), "the void one is left");
}

#[test]
fn what_cannot_be_tested_is_named_with_the_reason() {
    let case = quiet::case(1);
    let check = |name, case: &Case, settings: &[(&str, &str)], expected: &str| {
        let reason = chosen(name, case, settings).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    };
    check(Bottleneck::ForeignCpu, &case, &[], "stop what else runs there");
    check(Bottleneck::WalSync, &case, &[("synchronous_commit", "off")], "is off already");
    check(Bottleneck::DataRead, &case, &[("shared_buffers", "6GB")], "most of the memory");
    let room = chosen_of(Bottleneck::ServerCpu, &case, &[], 0.72).unwrap_err();
    assert_eq!(room, "the processors had room");
    let mut by_url = case.clone();
    by_url.server.source = ServerSource::Url(Default::default());
    check(Bottleneck::WalSync, &by_url, &[], "changed on a copy only");
    check(Bottleneck::ServerCpu, &by_url, &[], "not its to take");
    // The clients are pgdyno's own.
    assert_eq!(chosen(Bottleneck::OfferedLoad, &by_url, &[]).unwrap().change, "clients=16");
    let mut scripts = case;
    scripts.workload.kind = WorkloadKind::Scripts;
    assert_eq!(chosen(Bottleneck::RowLock, &scripts, &[]).unwrap().change, "clients=4");
}

#[test]
fn pairs_of_a_block_decide_and_a_proof_raises_the_confidence() {
    // Case 1 as it was, case 2 with three times the throughput.
    let mut runs = Vec::new();
    for block in 1..=4 {
        for case in [1, 2] {
            let run = 2 * (block - 1) + case;
            let mut data = run_of(RunSpec { run, block, case, seed: 42 });
            let factor = if case == 2 { 3 } else { 1 };
            set_committed(&mut data, 0..35, |t| factor * (quiet::tps(t) + u64::from(block)));
            runs.push(data);
        }
    }
    let mut data = experiment(4, runs);
    data.plan.cases = vec![quiet::case(1), quiet::case(2)];
    let mut study = analysis::study(&data);
    let what_if = WhatIf {
        limiter: Bottleneck::WalSync,
        kind: Kind::Lift,
        change: "synchronous_commit=off".to_string(),
        predicted: Some(4.0),
        side_effect: "",
        case: quiet::case(2),
    };
    let proof = judge(&study, 1, 2, &what_if);
    assert_eq!((proof.n_pairs, proof.outcome), (4, Outcome::Proven), "{proof:?}");
    assert!((proof.ratio.unwrap() - 3.0).abs() < 0.01);
    let little = WhatIf { predicted: Some(9.0), ..what_if };
    assert_eq!(
        judge(&study, 1, 2, &little).outcome,
        Outcome::Refuted,
        "less than half of what was predicted"
    );
    study.cases[0].limiter = Some(limiter(Bottleneck::WalSync, None));
    confirm(&mut study, 1, std::slice::from_ref(&proof));
    let confirmed = study.cases[0].limiter.as_ref().unwrap();
    assert_eq!((confirmed.confidence, confirmed.proofs.len()), (Confidence::High, 1));
}
