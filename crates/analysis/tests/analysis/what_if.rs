//! Which change tests which limiter, and what the measured runs prove.

use analysis::finding::Grade;
use analysis::summary::limiter::{Bottleneck, Confidence, Limiter, LimiterFigure};
use analysis::summary::proof::{Proof, ProofKind, ProofOutcome};
use analysis::summary::{ResourceUsage, Study};
use analysis::what_if::{Circumstances, GroupAbilities, WhatIf, confirm, judge, telling_run, what_ifs};
use model::experiment::case::{Case, ServerSource, WorkloadKind};
use model::experiment::plan::RunSpec;
use model::load::sessions::{SessionSetting, SessionSettings};
use model::run::server::{Route, Setting};
use model::run::{ExperimentData, RunData, RunRecord};

use crate::quiet::{self, experiment, run_of, set_committed};

pub(crate) fn limiter(name: Bottleneck, charged: Option<f64>) -> Limiter {
    Limiter { charged, ..Limiter::new(name, Confidence::Medium, "seen") }
}

pub(crate) fn record(settings: &[(&str, &str)]) -> RunRecord {
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
    chosen_where(name, case, (&record(settings), &[], false), busy)
}

/// With a record, what the role may set in its own sessions, and whether settings may be changed for everybody.
fn chosen_where(
    name: Bottleneck,
    case: &Case,
    (record, settable, allow_changes): (&RunRecord, &[&str], bool),
    busy: f64,
) -> Result<WhatIf, String> {
    let limiter = limiter(name, Some(0.8));
    let mut run = analysis::study(&experiment(1, vec![quiet::run(1)])).runs.remove(0);
    run.resources = ResourceUsage {
        n_cpus: Some(4),
        host_busy: Some(busy),
        server_cpu: Some(3.0),
        ..ResourceUsage::default()
    };
    let settable = settable.iter().map(|name| name.to_string()).collect();
    let groups = GroupAbilities { no_quota: Some("no quota here".to_string()), ..GroupAbilities::default() };
    let (mut all, untested) = what_ifs(Circumstances {
        case,
        limiter: &limiter,
        record,
        run: &run,
        allow_changes,
        settable: &settable,
        groups: &groups,
    });
    all.pop().ok_or_else(|| untested[0].1.clone())
}

/// The change for a limiter where control groups are to be had.
pub(crate) fn chosen_with_groups(
    limiter: &Limiter,
    case: &Case,
    resources: &ResourceUsage,
) -> Result<WhatIf, String> {
    chosen_on((limiter, &record(&[]), &GroupAbilities::default()), case, resources)
}

fn chosen_on(
    (limiter, record, groups): (&Limiter, &RunRecord, &GroupAbilities),
    case: &Case,
    resources: &ResourceUsage,
) -> Result<WhatIf, String> {
    let mut run = analysis::study(&experiment(1, vec![quiet::run(1)])).runs.remove(0);
    run.resources = resources.clone();
    let settable = Default::default();
    let of =
        Circumstances { case, limiter, record, run: &run, allow_changes: false, settable: &settable, groups };
    let (mut all, untested) = what_ifs(of);
    all.pop().ok_or_else(|| untested[0].1.clone())
}

#[test]
fn a_quota_takes_from_what_was_used_only_where_nothing_was_left() {
    let case = quiet::case(1);
    let with = |busy, used| ResourceUsage {
        n_cpus: Some(4),
        host_busy: Some(busy),
        server_cpu: Some(used),
        ..ResourceUsage::default()
    };
    let of_cpu = limiter(Bottleneck::ServerCpu, None);
    for (busy, used, quota, predicted, words) in [
        (0.98, 3.0, "2.400", 0.8, "20 % less than the server used"),
        // Of 3.5 processors that it could have used, it used 3.
        (0.875, 3.0, "3.000", 3.0 / 3.5, "14 % less than the server could use"),
        (0.5, 1.0, "2.400", 0.8, "20 % less than the server could use"),
    ] {
        let what_if = chosen_with_groups(&of_cpu, &case, &with(busy, used)).unwrap();
        assert_eq!(what_if.change, format!("cpu_quota={quota} ({words})"));
        assert_eq!(what_if.case.os["cpu_quota"], quota);
        assert!((what_if.predicted.unwrap() - predicted).abs() < 1e-9, "{what_if:?}");
    }
    let mut bound = case.clone();
    bound.os.insert("processors".to_string(), "2".to_string());
    let reason = chosen_with_groups(&of_cpu, &bound, &with(0.98, 2.0)).unwrap_err();
    assert!(reason.starts_with("os.processors says how much of the processors the server has"), "{reason}");
    // A queue for processors is tested by fewer clients first; what that has refuted, the quota tests.
    let queue = limiter(Bottleneck::Scheduling, None);
    let lift = chosen_with_groups(&queue, &case, &with(0.98, 3.0)).unwrap();
    assert_eq!(lift.change, "clients=2");
    let queue = Limiter { proofs: vec![refuted(Bottleneck::Scheduling, &lift.change)], ..queue };
    let next = chosen_with_groups(&queue, &case, &with(0.98, 3.0)).unwrap();
    assert_eq!(next.change, "cpu_quota=2.400 (20 % less than the server used)");
}

#[test]
fn each_limiter_is_tested_by_a_change_of_its_own() {
    let case = quiet::case(1);
    let sizes = [("shared_buffers", "128MB"), ("work_mem", "4MB"), ("max_wal_size", "1GB")];
    for (name, kind, change) in [
        (Bottleneck::WalSync, ProofKind::Lift, "synchronous_commit=off"),
        (Bottleneck::WalVolume, ProofKind::Lift, "full_page_writes=off"),
        (Bottleneck::Standby, ProofKind::Lift, "synchronous_commit=local"),
        (Bottleneck::Checkpoint, ProofKind::Lift, "max_wal_size=8192MB checkpoint_timeout=1h"),
        (Bottleneck::DataRead, ProofKind::Lift, "shared_buffers=1875MB"),
        (Bottleneck::Memory, ProofKind::Lift, "work_mem=262144kB"),
        (Bottleneck::Autovacuum, ProofKind::Lift, "autovacuum=off"),
        (Bottleneck::RowLock, ProofKind::Lift, "scale=400"),
        (Bottleneck::ServerCpu, ProofKind::Brake, "processors=2"),
        (Bottleneck::Lwlock, ProofKind::FewerClients, "clients=4"),
        (Bottleneck::ClientHeldLock, ProofKind::Brake, "each reply 0.249 ms later"),
        (Bottleneck::OfferedLoad, ProofKind::Lift, "clients=16"),
        (Bottleneck::Driver, ProofKind::Lift, "threads=2"),
    ] {
        let what_if = chosen(name, &case, &sizes).unwrap();
        assert_eq!((what_if.limiter, what_if.kind, what_if.change.as_str()), (name, kind, change));
        assert_ne!(what_if.case, case, "{change} changes the case");
        // What a setting changes is the load: the data is that of the unchanged case, which is loaded already.
        let made_under = model::experiment::case::setting::made_under;
        assert_eq!(made_under(&what_if.case), made_under(&case), "{change}");
    }
    // 80 % of the clients' time is charged to it; the processors have room for 2.5 times as much.
    assert_eq!(chosen(Bottleneck::WalSync, &case, &[]).unwrap().predicted, Some(2.5));
    assert_eq!(chosen(Bottleneck::ServerCpu, &case, &[]).unwrap().predicted, Some(2.0 / 3.0));
}

fn refuted(limiter: Bottleneck, change: &str) -> Proof {
    Proof {
        limiter,
        kind: ProofKind::Lift,
        change: change.to_string(),
        side_effect: String::new(),
        predicted: None,
        bound: None,
        ratio: None,
        elasticity: None,
        interval: None,
        server_cpu_us: None,
        n_pairs: 4,
        share: None,
        outcome: ProofOutcome::Refuted,
        overruled: None,
        next: None,
        measured_in: None,
    }
}

#[test]
fn a_device_is_braked_below_its_use_only_where_nothing_else_is_known_to_be_left() {
    let case = quiet::case(1);
    let resources = ResourceUsage {
        disk_read_bytes_per_s: Some(50e6),
        disk_write_bytes_per_s: Some(20e6),
        wal_device_writes_per_s: Some(400.0),
        wal_device_write_bytes_per_s: Some(8e6),
        ..ResourceUsage::default()
    };
    // No lift is left for any of them.
    let settings = [
        ("synchronous_commit", "off"),
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("wal_compression", "on"),
        ("shared_buffers", "6GB"),
    ];
    let record = record(&settings);
    let figure =
        |name, of, share| LimiterFigure { label: "seen".to_string(), share, of, speaks_for: Some(name) };
    let check = |name,
                 figures: &[LimiterFigure],
                 is_writeback_free,
                 expected: Result<(&str, f64, bool, bool), &str>| {
        let limiter = Limiter { figures: figures.to_vec(), ..limiter(name, None) };
        let groups = GroupAbilities { is_writeback_free, ..GroupAbilities::default() };
        match (chosen_on((&limiter, &record, &groups), &case, &resources), expected) {
            (Ok(what_if), Ok((change, predicted, is_partial, is_forced))) => {
                assert_eq!(what_if.change, change);
                let key = change.split('=').next().unwrap();
                assert!(change.contains(what_if.case.os[key].as_str()), "{what_if:?}");
                assert!((what_if.predicted.unwrap() - predicted).abs() < 1e-9, "{what_if:?}");
                assert_eq!((what_if.is_partial, what_if.is_forced), (is_partial, is_forced), "{change}");
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (found, _) => panic!("{found:?} instead of {expected:?}"),
        }
    };
    let sync = |share| figure(Bottleneck::WalSync, "instants", share);
    let used = "20 % less than the device used";
    let wal = format!("wal_write_iops=320.000 ({used})");
    check(Bottleneck::WalSync, &[sync(0.97)], true, Ok((&wal, 0.8, false, false)));
    let room = "wal_write_iops=640.000 (20 % less than the device could use)";
    check(Bottleneck::WalSync, &[sync(0.5)], true, Ok((room, 0.8, false, false)));
    // Somebody reads at every instant, on a device that could serve many at once.
    let reads = |of, share| figure(Bottleneck::DataRead, of, share);
    let read = format!("data_read_mb_s=40.000 ({used})");
    check(Bottleneck::DataRead, &[reads("instants", 0.99)], true, Ok((&read, 0.8, false, true)));
    let near = [reads("instants", 0.99), reads("the ceiling", 0.95)];
    check(Bottleneck::DataRead, &near, true, Ok((&read, 0.8, false, false)));
    let volume = format!("wal_write_mb_s=6.400 ({used})");
    check(Bottleneck::WalVolume, &[], false, Ok((&volume, 0.8, false, true)));
    let written = format!("data_write_mb_s=16.000 ({used})");
    let writes = [figure(Bottleneck::DataWrite, "the ceiling", 0.92)];
    check(Bottleneck::DataWrite, &writes, true, Ok((&written, 0.8, true, false)));
    check(Bottleneck::DataWrite, &[], false, Ok((&written, 0.8, false, true)));
    check(Bottleneck::DataWrite, &[], true, Err("what the kernel writes later is in no control group"));
    let groups = GroupAbilities { no_throttle: Some("only root".to_string()), ..GroupAbilities::default() };
    let of = limiter(Bottleneck::WalSync, None);
    let reason = chosen_on((&of, &record, &groups), &case, &resources).unwrap_err();
    assert_eq!(reason, "synchronous_commit is off already; fsync is off already; only root");
    // A brake that no ceiling justifies takes from any load.
    let sync_off = Limiter { proofs: vec![refuted(Bottleneck::WalSync, "synchronous_commit=off")], ..of };
    let on = quiet::run(1).record;
    let next = chosen_on((&sync_off, &on, &GroupAbilities::default()), &case, &resources).unwrap();
    assert_eq!(next.change, "fsync=off");
}

#[test]
fn a_driver_is_left_processors_of_its_own_where_there_are_enough() {
    let mut case = quiet::case(1);
    case.workload.n_threads = case.workload.n_clients;
    let with = |n_cpus, server, driver| ResourceUsage {
        n_cpus: Some(n_cpus),
        server_cpu: Some(server),
        driver_cpu: Some(driver),
        ..ResourceUsage::default()
    };
    let of_driver = limiter(Bottleneck::Driver, None);
    let lift = chosen_with_groups(&of_driver, &case, &with(8, 3.5, 1.2)).unwrap();
    assert_eq!(
        (lift.kind, lift.change.as_str()),
        (ProofKind::Lift, "processors=6 (the others are left to the driver)")
    );
    assert_eq!(lift.case.os["processors"], "6");
    let reason = chosen_with_groups(&of_driver, &case, &with(2, 1.3, 0.6)).unwrap_err();
    assert!(reason.contains("the server used 1.3 and the driver 0.6 of 2 processors"), "{reason}");
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
    let both = [("synchronous_commit", "off"), ("fsync", "off")];
    check(Bottleneck::WalSync, &case, &both, "synchronous_commit is off already; fsync is off already");
    check(Bottleneck::DataRead, &case, &[("shared_buffers", "6GB")], "most of the memory");
    let room = chosen_of(Bottleneck::ServerCpu, &case, &[], 0.72).unwrap_err();
    assert!(room.starts_with("no quota here; the processors had room; no huge pages are reserved"), "{room}");
    let mut by_url = case.clone();
    by_url.server.source = ServerSource::Url(Default::default());
    check(Bottleneck::WalSync, &by_url, &[], "synchronous_commit cannot be set in a session by this role");
    check(Bottleneck::WalSync, &by_url, &[], "fsync is changed on a copy only");
    check(Bottleneck::Autovacuum, &by_url, &[], "--allow-changes allows it");
    check(Bottleneck::ServerCpu, &by_url, &[], "not its to take");
    // The clients are pgdyno's own.
    assert_eq!(chosen(Bottleneck::OfferedLoad, &by_url, &[]).unwrap().change, "clients=16");
    let mut scripts = case;
    scripts.workload.kind = WorkloadKind::Scripts;
    assert_eq!(chosen(Bottleneck::RowLock, &scripts, &[]).unwrap().change, "clients=4");
}

#[test]
fn what_the_first_change_cannot_lift_the_next_one_does() {
    let case = quiet::case(1);
    let check = |name, settings: &[(&str, &str)], expected: &str, is_partial| {
        let what_if = chosen(name, &case, settings).unwrap();
        assert_eq!((what_if.change.as_str(), what_if.is_partial), (expected, is_partial));
    };
    check(Bottleneck::WalSync, &[("synchronous_commit", "off")], "fsync=off", false);
    check(Bottleneck::WalVolume, &[("full_page_writes", "off")], "wal_compression=on", true);
    let both = [("full_page_writes", "off"), ("wal_compression", "lz4")];
    let reason = chosen(Bottleneck::WalVolume, &case, &both).unwrap_err();
    let lifts = "full_page_writes is off already; wal_compression is on already; ";
    assert_eq!(reason, format!("{lifts}the wal directory's device had hardly anything to do"));
    let mut reserved = record(&[("shared_buffers", "128MB")]);
    let facts = &mut reserved.host.as_mut().unwrap().facts;
    facts.extend(
        [("huge_pages_total", "100"), ("huge_page_bytes", "2097152")].map(|(k, v)| (k.into(), v.into())),
    );
    let with_room =
        |record: &RunRecord| chosen_where(Bottleneck::ServerCpu, &case, (record, &[], false), 0.7);
    assert_eq!(with_room(&reserved).unwrap().change, "huge_pages=on");
    assert!(
        with_room(&record(&[("shared_buffers", "1GB")])).unwrap_err().contains("no huge pages are reserved")
    );
}

#[test]
fn on_a_server_by_url_only_the_loads_own_sessions_have_another_setting() {
    let mut case = quiet::case(1);
    case.server.source = ServerSource::Url(Default::default());
    let sizes = [("shared_buffers", "128MB"), ("work_mem", "4MB"), ("max_wal_size", "1GB")];
    let mut record = record(&sizes);
    let user = ["synchronous_commit", "work_mem"];
    for (name, setting) in
        [(Bottleneck::WalSync, "synchronous_commit=off"), (Bottleneck::Memory, "work_mem=262144kB")]
    {
        // The consent to change settings for everybody changes nothing about it.
        for allow_changes in [false, true] {
            let what_if = chosen_where(name, &case, (&record, &user, allow_changes), 0.4).unwrap();
            assert_eq!(what_if.change, format!("{setting} in the load's sessions"));
            assert_eq!(what_if.case.server, case.server);
            let settings = &what_if.case.workload.session_settings;
            assert_eq!(settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), [setting]);
        }
    }
    let check = |record: &RunRecord, name, allow_changes, expected: Result<&str, &str>| match (
        chosen_where(name, &case, (record, &user, allow_changes), 0.4),
        expected,
    ) {
        (Ok(what_if), Ok(change)) => assert_eq!(what_if.change, change),
        (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
        (found, _) => panic!("{found:?} instead of {expected:?}"),
    };
    check(
        &record,
        Bottleneck::WalVolume,
        false,
        Err("wal_compression cannot be set in a session by this role"),
    );
    check(&record, Bottleneck::WalVolume, true, Ok("wal_compression=on"));
    // How much room its disk has must be known before WAL may grow.
    check(&record, Bottleneck::Checkpoint, true, Err("max_wal_size"));
    record.server.as_mut().unwrap().route =
        Some(Route { pooler: Some("transaction".to_string()), ..Route::default() });
    let refused = "the pooler in transaction mode does not hand on";
    check(&record, Bottleneck::WalSync, false, Err(refused));
    check(&record, Bottleneck::WalSync, true, Err("for the load's own sessions alone"));
}

#[test]
fn a_longer_way_is_a_brake_whose_cost_is_predicted_from_the_replies_of_a_transaction() {
    let case = quiet::case(1);
    let run = analysis::study(&experiment(1, vec![quiet::run(1)])).runs.remove(0);
    let replies = run.statements.iter().map(|statement| statement.service.n).sum::<u64>() as f64;
    let replies = (replies / run.counts.committed as f64).max(1.0);
    let of_network = chosen(Bottleneck::Network, &case, &[]).unwrap();
    assert_eq!(of_network.kind, ProofKind::Brake);
    let delay_s = f64::from(of_network.case.workload.reply_delay_us) / 1e6;
    let time_s = 8.0 / run.tps.unwrap();
    let predicted = time_s / (time_s + replies * delay_s);
    assert!(
        (of_network.predicted.unwrap() - predicted).abs() < 1e-3 * predicted && predicted < 0.82,
        "{of_network:?}"
    );
    let of_lock = chosen(Bottleneck::ClientHeldLock, &case, &[]).unwrap();
    assert!(of_lock.predicted.is_none() && of_lock.case.workload.reply_delay_us >= 200, "{of_lock:?}");
    let mut open = case.clone();
    open.workload.pace = "100/s".parse().unwrap();
    assert_eq!(chosen(Bottleneck::ClientHeldLock, &open, &[]).unwrap().change, "clients=4");
    let mut tpcc = case;
    tpcc.workload.tpcc = Some(Default::default());
    assert_eq!(chosen(Bottleneck::Network, &tpcc, &[]).unwrap().change, "calls=functions");
}

/// Case 1 as it was, case 2 with three times the throughput, in four blocks.
fn three_times() -> (ExperimentData, Study) {
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
    let study = analysis::study(&data);
    (data, study)
}

#[test]
fn pairs_of_a_block_decide_and_a_proof_raises_the_confidence() {
    let (data, mut study) = three_times();
    let what_if = WhatIf {
        limiter: Bottleneck::WalSync,
        kind: ProofKind::Lift,
        change: "synchronous_commit=off".to_string(),
        predicted: Some(3.5),
        bound: None,
        is_partial: false,
        is_forced: false,
        side_effect: "",
        case: quiet::case(2),
    };
    let judge = |(without, with), what_if: &WhatIf| judge(&data, &study, without, with, what_if);
    let proof = judge((1, 2), &what_if);
    assert_eq!((proof.n_pairs, proof.outcome), (4, ProofOutcome::Proven), "{proof:?}");
    assert!((proof.ratio.unwrap() - 3.0).abs() < 0.01);
    let little = WhatIf { predicted: Some(9.0), ..what_if };
    assert_eq!(judge((1, 2), &little).outcome, ProofOutcome::Proven, "three times as much is proof enough");
    let refuted = judge((2, 1), &little);
    assert_eq!(refuted.outcome, ProofOutcome::Refuted, "a third is less than half of what was predicted");
    assert_eq!(
        judge((2, 1), &WhatIf { is_partial: true, ..little.clone() }).outcome,
        ProofOutcome::Undecided
    );
    let brake = WhatIf { kind: ProofKind::Brake, predicted: Some(0.5), ..little };
    assert!((judge((1, 2), &brake).elasticity.unwrap() + 3.0_f64.log2()).abs() < 0.01);
    // The other way round it is a third: less than was used costs that much whatever limits.
    let fell = |is_forced| judge((2, 1), &WhatIf { is_forced, ..brake.clone() }).outcome;
    assert_eq!((fell(false), fell(true)), (ProofOutcome::Proven, ProofOutcome::Undecided));
    let second = (Bottleneck::RowLock, "a queue".to_string());
    let claim = Limiter { runner_up: Some(second), ..limiter(Bottleneck::WalSync, Some(0.5)) };
    study.cases[0].limiter = Some(claim);
    let confirmed = |proofs: &[Proof]| {
        let mut study = study.clone();
        confirm(&mut study, 1, proofs);
        study.cases[0].limiter.clone().unwrap()
    };
    let proven = confirmed(std::slice::from_ref(&proof));
    let found = (proven.name, proven.confidence, proven.proofs.len());
    assert_eq!(found, (Bottleneck::WalSync, Confidence::High, 1));
    // A refuted claim leaves its place to what was second, with what is known of that.
    let moved = confirmed(std::slice::from_ref(&refuted));
    assert_eq!((moved.name, moved.confidence), (Bottleneck::RowLock, Confidence::Low));
    assert_eq!((moved.evidence.as_str(), moved.charged), ("a queue", None));
    let (name, why) = moved.runner_up.unwrap();
    assert_eq!((name, why.as_str()), (Bottleneck::WalSync, "refuted by a what-if, although seen"));
    let of_second = |outcome| Proof { limiter: Bottleneck::RowLock, outcome, ..proof.clone() };
    let both = confirmed(&[refuted.clone(), of_second(ProofOutcome::Proven)]);
    assert_eq!((both.name, both.confidence), (Bottleneck::RowLock, Confidence::High));
    let neither = confirmed(&[refuted.clone(), of_second(ProofOutcome::Refuted)]);
    assert_eq!((neither.name, neither.confidence), (Bottleneck::Unknown, Confidence::Low));
    assert_eq!(neither.evidence, "wal-sync was refuted by a what-if, although seen");
    // What is not as predicted is not understood, unless it is seen what came next.
    let far = Proof { predicted: Some(9.0), ..proof.clone() };
    let of_far = |next| confirmed(&[Proof { next, ..far.clone() }]).confidence;
    assert_eq!((of_far(None), of_far(Some(Bottleneck::ServerCpu))), (Confidence::Medium, Confidence::High));
    let expected = "wal-sync limits it; why it is not what was predicted is not known.";
    assert!(far.sentence().ends_with(expected), "{}", far.sentence());
    expect_rows_first(study, &proof);
}

/// Rows that are named first are what limits if that alone is proven, or gave more, and are not named any more if that is refuted.
fn expect_rows_first(mut study: Study, proof: &Proof) {
    let of_second = |outcome| Proof { limiter: Bottleneck::RowLock, outcome, ..proof.clone() };
    study.cases[0].limiter.as_mut().unwrap().shared = Some("64 clients share 10 branches".to_string());
    let with_rows = |proofs: &[Proof]| {
        let mut study = study.clone();
        confirm(&mut study, 1, proofs);
        study.cases[0].limiter.clone().unwrap()
    };
    let of_rows = |outcome| with_rows(&[of_second(outcome)]);
    let rows = of_rows(ProofOutcome::Proven);
    assert_eq!((rows.name, rows.confidence, rows.shared), (Bottleneck::RowLock, Confidence::High, None));
    assert_eq!(
        (rows.evidence.as_str(), rows.runner_up.unwrap().0),
        ("64 clients share 10 branches", Bottleneck::WalSync)
    );
    let other = of_rows(ProofOutcome::Refuted);
    assert_eq!((other.name, other.shared), (Bottleneck::WalSync, None));
    // Of two that are proven, the one that gave more.
    let gave = |ratio: f64| Proof { ratio: Some(ratio), ..of_second(ProofOutcome::Proven) };
    let first_of = |ratio: f64| with_rows(&[proof.clone(), gave(ratio)]).name;
    assert_eq!((first_of(2.0), first_of(4.0)), (Bottleneck::WalSync, Bottleneck::RowLock));
}

#[test]
fn a_setting_that_the_sessions_did_not_have_tests_nothing() {
    let mut runs: Vec<RunData> = (1..=4)
        .flat_map(|block| {
            [1, 2].map(|case| run_of(RunSpec { run: 2 * (block - 1) + case, block, case, seed: 42 }))
        })
        .collect();
    let answer = |source: &str, value: &str| SessionSettings {
        n_answered: 1,
        silent: None,
        settings: vec![SessionSetting {
            name: "synchronous_commit".to_string(),
            value: value.to_string(),
            source: source.to_string(),
            n: 1,
        }],
    };
    let mut case = quiet::case(2);
    case.workload.session_settings.insert("synchronous_commit".to_string(), "off".to_string());
    let what_if = WhatIf {
        limiter: Bottleneck::WalSync,
        kind: ProofKind::Lift,
        change: "synchronous_commit=off in the load's sessions".to_string(),
        predicted: None,
        bound: None,
        is_partial: false,
        is_forced: false,
        side_effect: "",
        case: case.clone(),
    };
    for (sessions, expected) in [
        (answer("client", "off"), None),
        (answer("session", "on"), Some("synchronous_commit was on by session in its sessions")),
        (
            SessionSettings { settings: Vec::new(), ..answer("", "") },
            Some("synchronous_commit was the server's in its sessions"),
        ),
    ] {
        for run in runs.iter_mut().filter(|run| run.record.spec.case == 2) {
            run.record.done.as_mut().unwrap().sessions = Some(sessions.clone());
        }
        let mut data = experiment(4, runs.clone());
        data.plan.cases = vec![quiet::case(1), case.clone()];
        let proof = judge(&data, &analysis::study(&data), 1, 2, &what_if);
        assert_eq!(proof.overruled.as_deref(), expected);
        let outcome = if expected.is_none() { ProofOutcome::Refuted } else { ProofOutcome::Undecided };
        assert_eq!(proof.outcome, outcome, "{}", proof.sentence());
        assert_eq!(proof.sentence().ends_with("so that this tests nothing."), expected.is_some());
    }
}
