//! Comparisons of synthetic experiments: pairs, verdicts, differences, and the findings that follow.

use analysis::comparison::ComparisonVerdict::{self, Faster, Same, Slower, Unsure};
use analysis::comparison::{CaseComparison, ComparedFigure, ComparedSide, Difference, MARGIN, Pairing};
use analysis::explain::{compare, compare_duet};
use analysis::finding::{Finding, Grade, Severity};
use analysis::study;
use model::experiment::case::{Case, ServerSource};
use model::experiment::os::WalPolicy;
use model::experiment::plan::{RunSpec, RunState, StateLine};
use model::load::duet::{Duet, DuetRound, SlicePair, Slicing};
use model::load::{Pace, Turns};
use model::run::server::Setting;
use model::run::{ExperimentData, RunData};
use model::telemetry::event::EventKind;

use crate::capacity::{find_a_rate, find_no_rate};
use crate::disturbances::{in_sessions, mount, packaged};
use crate::quiet::{self, event, set_committed};

/// Two cases in so many blocks; runs of case 2 commit `effect` times as much.
pub(crate) fn pairs(n: u32, effect: f64) -> ExperimentData {
    let mut data = quiet::experiment(n, Vec::new());
    let other = |name: &str, id: u32| Case {
        levels: [("server.settings.wal_compression".to_string(), name.to_string())].into(),
        ..quiet::case(id)
    };
    data.plan.cases = vec![other("off", 1), other("on", 2)];
    data.plan.runs.clear();
    for block in 1..=n {
        // Both disturbed alike within a block, and a little by themselves.
        let level = 1000.0 + 100.0 * f64::from(block % 4);
        for case in [1, 2] {
            let spec = RunSpec { run: 2 * block + case - 2, block, case, seed: 1 };
            let mut run = quiet::run_of(spec.clone());
            let own = f64::from((block * 7 + case * 3) % 5);
            let factor = if case == 2 { effect } else { 1.0 };
            set_committed(&mut run, 0..35, |_| (level * factor + own).round() as u64);
            // Enough for percentiles, and quicker than all.
            run.histograms.retain(|stamped| stamped.t == 10);
            run.record.case = data.plan.cases[case as usize - 1].clone();
            data.plan.runs.push(spec);
            data.runs.push(run);
        }
    }
    data
}

pub(crate) fn compare_cases(data: &ExperimentData) -> CaseComparison {
    let study = study(data);
    let side = |case| ComparedSide { data, study: &study, case };
    compare(&[(side(1), side(2))], MARGIN).remove(0)
}

/// A duet of so many pairs; B commits `effect` times as much, and the second slice `carried` times.
fn duet(n: usize, effect: f64, carried: f64) -> Duet {
    let pair = |i: usize| {
        let level = 1000.0 + 37.0 * ((i * 5) % 11) as f64;
        let is_a_first = (i * 3 + i / 5).is_multiple_of(2);
        let (a, b) = if is_a_first { (level, level * carried) } else { (level * carried, level) };
        let (a, b) = (a as u64 + (i % 5) as u64, (b * effect) as u64 + (i % 7) as u64);
        SlicePair { round: 1, is_a_first, a, b }
    };
    let pairs = (0..n).map(pair).collect();
    Duet { format: model::FORMAT, slicing: Slicing::default(), rounds: Vec::new(), pairs }
}

/// A duet of rounds of 12 pairs; in each, B commits another multiple of what A does, as the start of its server
/// decided.
pub(crate) fn duet_of_rounds(effects: &[f64]) -> Duet {
    let mut whole = duet(0, 1.0, 1.0);
    for (round, effect) in (1..).zip(effects) {
        whole.rounds.push(DuetRound { round, is_swapped: round % 2 == 0 });
        whole.pairs.extend(duet(12, *effect, 1.0).pairs.into_iter().map(|pair| SlicePair { round, ..pair }));
    }
    whole
}

fn compare_the_duet(duet: &Duet) -> CaseComparison {
    let mut data = pairs(duet.rounds.len().max(1) as u32, 1.0);
    take_turns(&mut data);
    compare_duet_with(&data, duet)
}

fn take_turns(data: &mut ExperimentData) {
    let turns = Turns { slice_ns: quiet::S / 2, guard_ns: quiet::S / 20, slices: "01".repeat(30) };
    data.runs.iter_mut().for_each(|run| run.record.load.as_mut().unwrap().turns = Some(turns.clone()));
}

/// With the runs of its sides, a block for each round.
fn compare_duet_with(data: &ExperimentData, duet: &Duet) -> CaseComparison {
    let study = study(data);
    let side = |case| ComparedSide { data, study: &study, case };
    compare_duet(side(1), side(2), duet, MARGIN)
}

fn compare_duet_of(n: usize, effect: f64, carried: f64) -> CaseComparison {
    compare_the_duet(&duet(n, effect, carried))
}

#[test]
fn the_unit_of_a_duet_in_rounds_is_the_round() {
    // One start of the servers favoured B, the next one A: by slices nothing seems to be left of that.
    let starts = [1.05, 0.95, 1.04, 0.97, 1.05, 0.94, 1.03, 0.96];
    let by_rounds = compare_the_duet(&duet_of_rounds(&starts));
    assert_eq!(
        (by_rounds.verdict(), by_rounds.pairing, by_rounds.n_pairs),
        (Some(Unsure), Pairing::Rounds, 8)
    );
    let width = |case: &CaseComparison| case.leading().map(|ratio| ratio.high - ratio.low).unwrap();
    let mut by_slices = duet_of_rounds(&starts);
    by_slices.pairs.iter_mut().for_each(|pair| pair.round = 1);
    assert!(width(&by_rounds) > 2.0 * width(&compare_the_duet(&by_slices)), "{by_rounds:?}");
    let slower = compare_the_duet(&duet_of_rounds(&[0.95, 0.951, 0.949, 0.95, 0.952, 0.948, 0.95, 0.95]));
    assert_eq!((slower.verdict(), slower.n_pairs), (Some(Slower), 8));
    assert!((slower.leading().unwrap().ratio - 0.95).abs() < 0.003, "{:?}", slower.leading());
    assert!(found(&slower).iter().all(|(id, _)| *id == "turns-weigh"), "{:?}", slower.findings);
    // That each side had half of the time is no doubt about them both.
    assert_eq!(slower.grade, Grade::Valid, "{:?}", slower.findings);
    // Too few rounds to be a sample of starts.
    let few = compare_the_duet(&duet_of_rounds(&[1.0; 5]));
    assert_eq!((few.pairing, few.n_pairs), (Pairing::Slices, 60));
    assert!(found(&few).contains(&("too-few-rounds", Severity::Doubt)), "{:?}", few.findings);
}

#[test]
fn the_other_side_of_a_duet_is_no_foreign_load() {
    let mut data = pairs(1, 1.0);
    data.runs.iter_mut().for_each(|run| quiet::set_metric(run, "host.cpu.user", -10.0, 60.0, 0.9));
    let alone = study(&data).runs.remove(0).resources;
    take_turns(&mut data);
    let foreign = |data: &ExperimentData| study(data).runs.remove(0).resources.foreign_cpu;
    let less = alone.foreign_cpu.unwrap() - foreign(&data).unwrap();
    let partner = alone.server_cpu.unwrap() + alone.driver_cpu.unwrap();
    assert!(partner > 0.1 && (less - partner).abs() < 1e-9, "{less} {partner}");
    // Without the other side nobody knows.
    data.runs.truncate(1);
    assert_eq!(foreign(&data), None);
}

#[test]
fn a_round_of_which_a_side_does_not_count_is_left_out_as_a_whole() {
    // The third round would be far off.
    let duet = duet_of_rounds(&[1.0, 1.001, 0.5, 0.999, 1.0, 1.001, 0.999, 1.0]);
    let mut data = pairs(8, 1.0);
    let is_third = |run: &&mut RunData| run.record.spec.block == 3 && run.record.spec.case == 2;
    data.runs.iter_mut().find(is_third).unwrap().record.state = RunState::Partial;
    let comparison = compare_duet_with(&data, &duet);
    assert_eq!(
        (comparison.verdict(), comparison.pairing, comparison.n_pairs),
        (Some(Same), Pairing::Rounds, 7)
    );
    let throughput = &comparison.figures[0];
    assert_eq!(throughput.sample.pairs, [1, 2, 4, 5, 6, 7, 8]);
    // Medians and ratio are of the same values.
    assert_eq!(throughput.a_median, stats::median(&throughput.sample.a));
    assert_eq!(throughput.b_median, stats::median(&throughput.sample.b));
    assert!(found(&comparison).contains(&("pairs-excluded", Severity::Note)), "{:?}", comparison.findings);
    // Of six rounds, too few are left.
    let few = compare_duet_with(&data, &duet_of_rounds(&[1.0; 6]));
    assert_eq!((few.pairing, few.n_pairs), (Pairing::Slices, 60));
    assert!(found(&few).contains(&("pairs-excluded", Severity::Void)), "{:?}", few.findings);
}

#[test]
fn a_duet_is_compared_by_its_slices() {
    let slower = compare_duet_of(100, 0.97, 1.0);
    assert_eq!((slower.verdict(), slower.pairing, slower.n_pairs), (Some(Slower), Pairing::Slices, 100));
    assert!((slower.leading().unwrap().ratio - 0.97).abs() < 0.002);
    assert_eq!(compare_duet_of(100, 1.0, 1.0).verdict(), Some(Same));
    // 1000 in 450 ms.
    assert!((2200.0..2700.0).contains(&slower.figures[0].a_median.unwrap()), "{:?}", slower.figures);
}

fn found(comparison: &CaseComparison) -> Vec<(&str, Severity)> {
    comparison.findings.iter().map(|finding| (finding.id, finding.severity)).collect()
}

#[test]
fn a_turn_that_weighs_on_the_next_is_reported() {
    let severity = |carried: f64| {
        let comparison = compare_duet_of(100, 1.0, carried);
        comparison.findings.iter().find(|finding| finding.id == "turns-weigh").map(|finding| finding.severity)
    };
    assert_eq!(severity(1.0), None);
    assert_eq!(severity(0.99), Some(Severity::Note));
    assert_eq!(severity(0.9), Some(Severity::Doubt));
    let compared = compare_duet_of(100, 1.0, 0.9);
    let ratio = compared.carry_over.unwrap();
    assert!((ratio.ratio - 0.9).abs() < 0.002, "{ratio:?}");
    let evidence = &compared.findings.iter().find(|finding| finding.id == "turns-weigh").unwrap().evidence;
    assert!(evidence.contains(" % less than the first (95 % interval -"), "{evidence}");
}

fn of_figure(comparison: &CaseComparison, figure: ComparedFigure) -> Option<ComparisonVerdict> {
    comparison.figures.iter().find(|f| f.figure == figure).unwrap().result.map(|ratio| ratio.verdict)
}

#[test]
fn pairs_see_through_what_disturbs_both_runs_of_a_block() {
    let check = |effect: f64, expected: ComparisonVerdict| {
        let result = compare_cases(&pairs(10, effect));
        assert_eq!((result.verdict(), result.pairing, result.n_pairs), (Some(expected), Pairing::Blocks, 10));
        let ratio = result.leading().unwrap();
        assert!((ratio.ratio / effect - 1.0).abs() < 0.005, "{ratio:?}");
        assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high && ratio.detectable.unwrap() < 0.02);
        result
    };
    assert_eq!(check(1.05, Faster).grade, Grade::Valid);
    check(0.95, Slower);
    let same = check(1.0, Same);
    assert_eq!(of_figure(&same, ComparedFigure::P99), Some(Same));
    assert_eq!((same.a.as_str(), same.b.as_str()), ("wal_compression off", "wal_compression on"));
}

#[test]
fn more_latency_is_slower_and_leads_where_the_rate_is_given() {
    let mut data = pairs(8, 1.0);
    for run in data.runs.iter_mut().filter(|run| run.record.spec.case == 2) {
        for stamped in &mut run.histograms {
            let slow: Vec<u64> = quiet::latencies_ns(stamped.t).iter().map(|ns| ns * 11 / 10).collect();
            stamped.line = quiet::histogram(&stamped.line.tag, &slow);
        }
    }
    let closed = compare_cases(&data);
    assert_eq!((closed.lead, closed.verdict()), (ComparedFigure::Throughput, Some(Same)));
    assert_eq!(of_figure(&closed, ComparedFigure::P50), Some(Slower));
    data.plan.cases.iter_mut().for_each(|case| case.workload.pace = Pace::Poisson { rate_per_s: 1000.0 });
    let open = compare_cases(&data);
    assert_eq!((open.lead, open.verdict()), (ComparedFigure::P99, Some(Slower)));
}

#[test]
fn a_comparison_that_stopped_early_has_a_wider_interval_and_is_whole() {
    let fixed = pairs(10, 1.03);
    let mut early = fixed.clone();
    early.plan.precision = Some(0.01);
    early.plan.runs.extend((21..=30).map(|run| RunSpec { run, block: 99, case: 1, seed: 1 }));
    assert!(study(&early).partial.is_some());
    let done = StateLine { t_unix_ns: 1, run: 0, state: RunState::Completed, reason: String::new() };
    early.state.push(done);
    assert_eq!(study(&early).partial, None);
    let width = |data: &ExperimentData| {
        let ratio = *compare_cases(data).leading().unwrap();
        ratio.high - ratio.low
    };
    assert!(width(&early) > width(&fixed));
}

#[test]
fn among_several_cases_a_difference_must_pass_holms_correction() {
    let one = pairs(6, 1.05);
    let explained = study(&one);
    let side = |case| ComparedSide { data: &one, study: &explained, case };
    assert_eq!(compare(&[(side(1), side(2))], MARGIN)[0].verdict(), Some(Faster));
    let both = compare(&[(side(1), side(2)), (side(1), side(2))], MARGIN);
    assert_eq!(both[0].verdict(), Some(Unsure), "p = 2/64 twice");
    assert!((both[0].leading().unwrap().p_adjusted - 0.0625).abs() < 1e-12);
}

/// Finding, weight, words, and what must be disturbed in ten pairs for it.
pub(crate) type Disturb = fn(&mut ExperimentData);
pub(crate) const TABLE: &[(&str, Severity, &str, Disturb)] = &[
    ("undeclared-difference", Severity::Void, "data checksums (off and on", |data| {
        each_b(data, |run| run.record.server.as_mut().unwrap().data_checksums = true);
    }),
    ("undeclared-difference", Severity::Void, "setting fsync (on and off", |data| {
        each_b(data, |run| setting(run, "fsync", "off"));
    }),
    ("undeclared-difference", Severity::Void, "assertions (off and on", |data| {
        each_b(data, |run| setting(run, "debug_assertions", "on"));
    }),
    ("undeclared-difference", Severity::Void, "host (bench1 and bench2", |data| {
        data.runs
            .iter_mut()
            .for_each(|run| run.record.host.as_mut().unwrap().hostname = "bench1".to_string());
        each_b(data, |run| run.record.host.as_mut().unwrap().hostname = "bench2".to_string());
    }),
    ("undeclared-difference", Severity::Doubt, "setting shared_buffers (128MB and 1GB", |data| {
        each_b(data, |run| setting(run, "shared_buffers", "1GB"));
    }),
    ("undeclared-difference", Severity::Doubt, "driver (release and dist", |data| each_b(data, packaged)),
    ("undeclared-difference", Severity::Doubt, "build, CFLAGS (-O2 and -O3", |data| {
        let flags = |run: &mut RunData, text: &str| {
            run.record.server.as_mut().unwrap().build.insert("CFLAGS".to_string(), text.to_string());
        };
        data.runs.iter_mut().for_each(|run| flags(run, "-O2"));
        data.runs.iter_mut().filter(|run| run.record.spec.case == 2).for_each(|run| flags(run, "-O3"));
    }),
    ("undeclared-difference", Severity::Doubt, "size of the database", |data| {
        each_b(data, |run| run.record.server.as_mut().unwrap().database_bytes *= 2);
    }),
    ("undeclared-difference", Severity::Note, "size of the database", |data| {
        data.plan.cases[1].server.source = version("17");
        each_b(data, |run| run.record.server.as_mut().unwrap().database_bytes *= 2);
    }),
    ("undeclared-difference", Severity::Doubt, "setting log_statement (none and all", |data| {
        data.runs.iter_mut().for_each(|run| setting(run, "log_statement", "none"));
        each_b(data, |run| setting(run, "log_statement", "all"));
    }),
    (
        "undeclared-difference",
        Severity::Doubt,
        "setting session_preload_libraries ('' and auto_explain",
        |data| {
            data.runs.iter_mut().for_each(|run| setting(run, "session_preload_libraries", ""));
            each_b(data, |run| setting(run, "session_preload_libraries", "auto_explain"));
        },
    ),
    ("undeclared-difference", Severity::Void, "setting synchronous_commit in sessions (on and off", |data| {
        data.runs.iter_mut().for_each(|run| in_sessions(run, "synchronous_commit", "on", "session"));
        each_b(data, |run| in_sessions(run, "synchronous_commit", "off", "session"));
    }),
    ("undeclared-difference", Severity::Doubt, "setting jit in sessions (not set and off", |data| {
        data.runs.iter_mut().for_each(|run| in_sessions(run, "jit", "off", "session"));
        data.runs[0].record.done.as_mut().unwrap().sessions.as_mut().unwrap().settings.clear();
    }),
    ("undeclared-difference", Severity::Void, "table t (logged and UNLOGGED", |data| {
        data.runs.iter_mut().for_each(|run| define(run, "table", "logged"));
        each_b(data, |run| define(run, "table", "UNLOGGED"));
    }),
    ("undeclared-difference", Severity::Doubt, "index more of t (none and CREATE INDEX", |data| {
        data.runs.iter_mut().for_each(|run| define(run, "table", "logged"));
        each_b(data, |run| define(run, "index more", "CREATE INDEX"));
    }),
    ("undeclared-difference", Severity::Doubt, "receivers of WAL (none and 1 async", |data| {
        each_b(data, |run| run.record.server.as_mut().unwrap().receivers = vec!["async".to_string()]);
    }),
    ("same-server", Severity::Void, "A and B are both database `d` of one cluster", |data| {
        for (case, host) in data.plan.cases.iter_mut().zip(["one", "two"]) {
            let keywords = [("host", host), ("dbname", "d")].map(|(k, v)| (k.to_string(), v.to_string()));
            case.server.source = model::experiment::case::ServerSource::Url(keywords.into());
        }
        data.runs.iter_mut().for_each(|run| {
            let load = run.record.load.as_mut().unwrap();
            load.target.insert("dbname".to_string(), "d".to_string());
            run.record.server.as_mut().unwrap().postmaster_start = "today".to_string();
        });
    }),
    ("one-sided", Severity::Void, "not-durable in 0 of 10 runs of A and 10 of 10 of B", |data| {
        each_b(data, |run| setting(run, "synchronous_commit", "off"));
    }),
    ("one-sided", Severity::Void, "data at `/ram` is tmpfs, which is memory", |data| {
        each_b(data, |run| mount(run, "data", "tmpfs", ""))
    }),
    ("doubtful-runs", Severity::Doubt, "not-durable in 10 of 10 runs of A and 10 of 10 of B", |data| {
        data.runs.iter_mut().for_each(|run| setting(run, "fsync", "off"));
    }),
    ("doubtful-runs", Severity::Note, "not-durable in 1 of 10 runs of A and 0 of 10 of B", |data| {
        setting(&mut data.runs[0], "fsync", "off");
    }),
    ("too-few-pairs", Severity::Doubt, "only 5 of 6 pairs", |data| data.runs.truncate(10)),
    ("pairs-excluded", Severity::Note, "run 2 of B does not count (connection-lost: ", |data| {
        data.runs[1].events.push(event(12.0, EventKind::ConnectionLost, "57P01"));
    }),
    ("pairs-excluded", Severity::Void, "no run of B counts (connection-lost: ", |data| {
        each_b(data, |run| run.events.push(event(12.0, EventKind::ConnectionLost, "57P01")));
    }),
    (
        "pairs-excluded",
        Severity::Doubt,
        "run 4 counts but has no throughput or no latency, and is left out of that figure",
        |data| {
            data.runs[3].histograms.clear();
        },
    ),
];

pub(crate) fn each_b(data: &mut ExperimentData, change: fn(&mut RunData)) {
    data.runs.iter_mut().filter(|run| run.record.spec.case == 2).for_each(change);
}

/// An object of table `t`.
fn define(run: &mut RunData, object: &str, text: &str) {
    let print = run.record.fingerprint.get_or_insert_default();
    print.definitions.entry("t".to_string()).or_default().insert(object.to_string(), text.to_string());
}

/// The server has this setting.
pub(crate) fn setting(run: &mut RunData, name: &str, value: &str) {
    let setting = Setting { value: value.to_string(), source: "default".to_string() };
    run.record.server.as_mut().unwrap().settings.insert(name.to_string(), setting);
}

fn version(name: &str) -> ServerSource {
    ServerSource::Version(name.parse().unwrap())
}

#[test]
fn defaults_that_a_version_brings_are_part_of_it() {
    let brought = |change: fn(&mut ExperimentData)| {
        let mut data = pairs(10, 1.0);
        data.plan.cases[0].server.source = version("13");
        data.plan.cases[1].server.source = version("18");
        data.runs.iter_mut().for_each(|run| setting(run, "effective_io_concurrency", "1"));
        each_b(&mut data, |run| {
            run.record.server.as_mut().unwrap().data_checksums = true;
            setting(run, "effective_io_concurrency", "16");
        });
        change(&mut data);
        let compared = compare_cases(&data);
        let names =
            |list: &[Difference]| list.iter().map(|d| d.what.clone()).collect::<Vec<String>>().join(", ");
        (names(&compared.defaults), names(&compared.undeclared), compared.grade)
    };
    let [checksums, concurrency] = ["data checksums", "setting effective_io_concurrency"].map(str::to_string);
    let nothing = String::new;
    assert_eq!(brought(|_| {}), (format!("{checksums}, {concurrency}"), nothing(), Grade::Valid));
    let by_hand = brought(|data| {
        each_b(data, |run| {
            let settings = &mut run.record.server.as_mut().unwrap().settings;
            settings.get_mut("effective_io_concurrency").unwrap().source = "configuration file".to_string();
        });
    });
    assert_eq!(by_hand, (checksums.clone(), concurrency.clone(), Grade::Doubtful), "somebody set it");
    let by_url = brought(|data| data.plan.cases[1].server.source = ServerSource::Url(Default::default()));
    assert_eq!(by_url, (concurrency, checksums, Grade::Doubtful), "who ran initdb there is not known");
    let (_, undeclared, grade) = brought(|data| each_b(data, |run| setting(run, "fsync", "off")));
    assert_eq!((undeclared.as_str(), grade), ("setting fsync", Grade::Void), "what a commit promises");
    let (_, undeclared, _) = brought(|data| {
        each_b(data, |run| {
            let server = run.record.server.as_mut().unwrap();
            server.database_bytes += server.database_bytes / 10;
        });
    });
    assert_eq!(undeclared, "", "releases store the same rows in other sizes");
}

#[test]
fn doubts_about_a_comparison_are_found() {
    assert_eq!(compare_cases(&pairs(10, 1.0)).findings, []);
    for (id, severity, words, disturb) in TABLE {
        let mut data = pairs(10, 1.0);
        disturb(&mut data);
        let findings = compare_cases(&data).findings;
        let fits = |f: &&Finding| f.id == *id && f.severity == *severity && f.evidence.contains(words);
        assert!(findings.iter().any(|finding| fits(&finding)), "{id} {words}: {findings:#?}");
    }
}

#[test]
fn builds_differ_only_in_options_that_change_code() {
    let build = |data: &mut ExperimentData, case: u32, what: &str, text: &str| {
        for run in data.runs.iter_mut().filter(|run| run.record.spec.case == case) {
            run.record.server.as_mut().unwrap().build.insert(what.to_string(), text.to_string());
        }
    };
    let mut data = pairs(10, 1.0);
    build(&mut data, 1, "CFLAGS", "-Wall -Wendif-labels -fno-strict-aliasing -fwrapv -g -O2");
    build(&mut data, 2, "CFLAGS", "-Wall -Wshadow=compatible-local -fno-strict-aliasing -fwrapv -g -O2");
    build(&mut data, 1, "CONFIGURE", "'--prefix=/opt/15' 'CFLAGS=-Wall -O2'");
    build(&mut data, 2, "CONFIGURE", "'--prefix=/opt/18' 'CFLAGS=-Wshadow=local -O2'");
    let alike = compare_cases(&data);
    assert_eq!((alike.undeclared.as_slice(), alike.grade), (&[][..], Grade::Valid));
    let many = "--enable-something ".repeat(30);
    build(&mut data, 1, "CONFIGURE", &many);
    build(&mut data, 2, "CONFIGURE", &format!("{many} --with-llvm"));
    let evidence = &compare_cases(&data).findings[0].evidence;
    assert_eq!(evidence, "A and B differ in build, CONFIGURE (nothing and --with-llvm)");
}

#[test]
fn requested_differences_are_declared() {
    let mut data = pairs(6, 1.0);
    data.plan.cases[1].server.settings.insert("fsync".to_string(), "off".to_string());
    each_b(&mut data, |run| setting(run, "fsync", "off"));
    data.plan.cases[1].workload.n_clients = 16;
    // Where a server lives and when it was started is no difference.
    each_b(&mut data, |run| {
        setting(run, "port", "5433");
        setting(run, "log_min_messages", "error");
        run.record.host.as_mut().unwrap().facts.insert("boot_id".to_string(), "x".to_string());
    });
    let result = compare_cases(&data);
    assert_eq!((result.undeclared.as_slice(), result.grade), (&[][..], Grade::Valid));
    let declared: Vec<&str> = result.declared.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(declared, ["setting fsync", "clients"]);
}

#[test]
fn a_run_without_a_figure_costs_its_pair_and_not_the_verdict() {
    let mut data = pairs(10, 1.0);
    data.runs[3].histograms.clear();
    let closed = compare_cases(&data);
    assert_eq!((closed.verdict(), closed.n_pairs), (Some(Same), 10), "throughput has all pairs");
    assert_eq!(of_figure(&closed, ComparedFigure::P99), Some(Same));
    data.plan.cases.iter_mut().for_each(|case| case.workload.pace = Pace::Poisson { rate_per_s: 1000.0 });
    let open = compare_cases(&data);
    assert_eq!((open.lead, open.verdict(), open.n_pairs), (ComparedFigure::P99, Some(Same), 9));
    data.runs.truncate(12);
    let few = compare_cases(&data);
    assert_eq!((few.verdict(), few.n_pairs), (None, 5));
    assert!(few.findings.iter().any(|found| found.id == "too-few-pairs"), "{:?}", few.findings);
}

#[test]
fn searches_that_found_no_rate_are_not_compared() {
    let mut data = pairs(8, 1.0);
    data.runs.iter_mut().for_each(find_a_rate);
    let pace = data.runs[0].record.case.workload.pace;
    data.plan.cases.iter_mut().for_each(|case| case.workload.pace = pace);
    let excluded = |data: &ExperimentData| {
        let comparison = compare_cases(data);
        comparison.findings.into_iter().find(|finding| finding.id == "pairs-excluded")
    };
    // These runs have no histograms of the seconds that confirm.
    assert_eq!(excluded(&data).map(|finding| finding.severity), Some(Severity::Doubt));
    find_no_rate(&mut data.runs[3]);
    let finding = excluded(&data).unwrap();
    assert_eq!(finding.severity, Severity::Void);
    assert!(finding.evidence.contains("run 4 of "), "{}", finding.evidence);
    assert!(finding.evidence.contains("no rate met the target"), "{}", finding.evidence);
    assert_eq!(compare_cases(&data).grade, Grade::Void);
}

fn fact(run: &mut RunData, name: &str, value: &str) {
    let host = run.record.host.as_mut().unwrap();
    let of_device = &mut host.mounts.get_mut("data").unwrap().facts;
    let facts = if name.starts_with("read_ahead") { of_device } else { &mut host.facts };
    facts.insert(name.to_string(), value.to_string());
}

/// B asks for values of the operating system and for runs without checkpoints, and both show what follows from that.
fn with_system(data: &mut ExperimentData) {
    data.plan.cases[1].wal = WalPolicy::NoCheckpoint;
    let asked = [("huge_pages", "on"), ("read_ahead_kb", "8"), ("swappiness", "1")];
    data.plan.cases[1].os = asked.map(|(key, value)| (key.to_string(), value.to_string())).into();
    for run in &mut data.runs {
        let (huge, kb, swappiness, timeout) =
            if run.record.spec.case == 2 { ("on", "8", "1", "1h") } else { ("try", "128", "60", "5min") };
        fact(run, "swappiness", swappiness);
        for name in ["read_ahead_kb", "read_ahead_kb[vda]"] {
            fact(run, name, kb);
        }
        setting(run, "huge_pages", huge);
        fact(run, "huge_pages_total", if huge == "on" { "3091" } else { "0" });
        for name in ["checkpoint_timeout", "max_wal_size", "min_wal_size"] {
            setting(run, name, timeout);
        }
    }
}

#[test]
fn consequences_of_requested_system_and_wal_values_are_declared() {
    let whats = |list: &[Difference]| list.iter().map(|d| d.what.clone()).collect::<Vec<String>>();
    let mut data = pairs(6, 1.0);
    with_system(&mut data);
    let result = compare_cases(&data);
    assert_eq!(whats(&result.undeclared), [""; 0]);
    assert_eq!(whats(&result.declared), ["os.huge_pages", "os.read_ahead_kb", "os.swappiness", "run.wal"]);
    // The same facts are reported if nobody asked for them.
    data.plan.cases[1].os.clear();
    data.plan.cases[1].wal = WalPolicy::AsIs;
    let undeclared = whats(&compare_cases(&data).undeclared);
    for what in [
        "swappiness",
        "device of data, read_ahead_kb[vda]",
        "huge_pages_total",
        "setting huge_pages",
        "setting max_wal_size",
    ] {
        assert!(undeclared.contains(&what.to_string()), "{what}: {undeclared:?}");
    }
}

#[test]
fn every_part_of_a_load_is_compared_between_two_experiments() {
    let (a, mut b) = (pairs(6, 1.0), pairs(6, 1.0));
    let case = &mut b.plan.cases[0];
    case.workload.procedures = true;
    case.workload.transactions = Some(1000);
    case.workload.busy_poll_us = 50;
    case.wal = WalPolicy::TwoCheckpoints;
    case.os.insert("numa".to_string(), "remote".to_string());
    let (of_a, of_b) = (study(&a), study(&b));
    let [a, b] = [(&a, &of_a), (&b, &of_b)].map(|(data, study)| ComparedSide { data, study, case: 1 });
    let result = compare(&[(a, b)], MARGIN).remove(0);
    let told = |list: &[Difference]| {
        list.iter().map(|d| format!("{}: {}, {}", d.what, d.a, d.b)).collect::<Vec<String>>()
    };
    let undeclared = [
        "calls of TPROC-C: functions, procedures",
        "transactions of a client: until time is up, 1000",
        "busy polling, microseconds: 0, 50",
    ];
    assert_eq!(told(&result.undeclared), undeclared);
    assert_eq!(told(&result.declared), ["os.numa: as it is, remote", "run.wal: as-is, two-checkpoints"]);
    assert_eq!(result.grade, Grade::Void);
}
