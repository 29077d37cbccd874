//! Which attempt at a run counts, and how the others are shown.

use analysis::explain::{RepeatJudge, disturbance, explain_run, study};
use analysis::finding::{Finding, Grade, Severity};
use analysis::summary::Study;
use model::experiment::plan::{RunSpec, RunState};
use model::experiment::repeat::Repeat;
use model::run::{ExperimentData, RunData};

use crate::capacity::find_no_rate;
use crate::disturbances::{fail_each_second, route};
use crate::quiet::{self, set_committed, set_metric};

/// A run of block 1 that is an attempt at run `of`; something else used this many processors meanwhile.
fn attempt(spec: RunSpec, repeat: Option<Repeat>, foreign: f64) -> RunData {
    let mut data = quiet::run_of(spec);
    data.record.repeat = repeat;
    // Four processors, each half busy with the server and the driver.
    set_metric(&mut data, "host.cpu.user", -3.0, 40.0, 0.30 + foreign / 4.0);
    data
}

fn spec(run: u32, case: u32) -> RunSpec {
    RunSpec { run, block: 1, case, seed: 42 }
}

fn repeats(of: u32, attempt: u32) -> Option<Repeat> {
    Some(Repeat { of, attempt })
}

fn counting(study: &Study) -> Vec<u32> {
    study.runs.iter().filter(|run| run.replaced_by.is_none()).map(|run| run.run).collect()
}

/// One planned run, and repeats of it whose foreign CPU is given.
fn one(foreign: &[f64]) -> ExperimentData {
    let of = |n: usize| (n > 0).then_some(Repeat { of: 1, attempt: n as u32 });
    let runs = foreign.iter().enumerate().map(|(n, foreign)| attempt(spec(n as u32 + 1, 1), of(n), *foreign));
    quiet::experiment(1, runs.collect())
}

/// How much a run was disturbed, and the evidence that makes it worth a repeat.
fn judge(data: &RunData) -> (f64, Option<String>) {
    let run = explain_run(data, None, false).into_summary();
    let (score, found) = disturbance::judge(&run);
    (score, found.map(|found| found.evidence.clone()))
}

#[test]
fn a_run_is_judged_by_its_findings_on_the_machine() {
    assert_eq!(judge(&attempt(spec(1, 1), None, 0.0)), (0.0, None));
    let (score, evidence) = judge(&attempt(spec(1, 1), None, 0.8));
    // A tenth of one processor is allowed on average, which is more than 2 % of four; 0.8 are ten times that.
    assert!((7.0..13.0).contains(&score), "{score}");
    assert!(evidence.unwrap().contains("other processes used"));
    let mut void = attempt(spec(1, 1), None, 0.8);
    set_committed(&mut void, 0..35, |_| 1);
    assert_eq!(judge(&void).0, f64::INFINITY, "it cannot count");
    let mut failing = attempt(spec(1, 1), None, 0.8);
    fail_each_second(&mut failing, 900);
    let error = |data: &mut RunData, sqlstate: &str| {
        data.record.done.as_mut().unwrap().errors = [(sqlstate.to_string(), 30_000)].into();
    };
    error(&mut failing, "42P01");
    assert_eq!(judge(&failing), (f64::INFINITY, None), "a repeat would fail, too");
    error(&mut failing, "57014");
    let (score, evidence) = judge(&failing);
    assert!(score.is_infinite() && evidence.is_some(), "a time-out may follow from the disturbance");
    let mut no_rate = attempt(spec(1, 1), None, 0.0);
    find_no_rate(&mut no_rate);
    assert_eq!(judge(&no_rate).0, 0.0, "that no rate held is a result, and chooses no attempt");
}

/// Another run of the case, on processors that have nothing to spare.
fn crowded(number: u32, foreign: f64) -> RunData {
    let mut data = attempt(RunSpec { block: number, ..spec(number, 1) }, None, foreign);
    set_metric(&mut data, "host.cpu.idle", -3.0, 40.0, 0.5 - foreign / 4.0);
    data
}

#[test]
fn a_run_is_worth_a_repeat_if_that_is_expected_to_help_more_than_another_run() {
    let mut plan = one(&[0.0]).plan;
    plan.runs = (1..=6).map(|run| RunSpec { block: run, ..spec(run, 1) }).collect();
    let mut judge = RepeatJudge::default();
    let found = judge.judge(&plan, &crowded(1, 1.9));
    let words = found.repeat.unwrap();
    assert!(words.starts_with("expected to narrow the range from ±") && words.contains(" to ±"), "{words}");
    assert!(words.contains("(other processes used"), "{words}");
    let [low, high] = found.range.unwrap();
    assert!(low <= 1.0 && high > 1.5, "half of the processors' time was taken: {low} {high}");
    let quiet = judge.judge(&plan, &crowded(2, 0.0));
    assert!(quiet.repeat.is_none() && quiet.range.unwrap()[1] < high, "{quiet:?}");
    // The first is known to have it: a repeat of the second would have it, too.
    let mut judge = RepeatJudge::default();
    judge.judge(&plan, &crowded(1, 1.9));
    assert_eq!(judge.judge(&plan, &crowded(2, 1.9)).repeat, None);
    // More than the rule allows, and less than chance does.
    let little = RepeatJudge::default().judge(&plan, &attempt(spec(1, 1), None, 0.13));
    assert!((1.0..2.0).contains(&little.score) && little.repeat.is_none(), "{little:?}");
}

#[test]
fn what_a_pooler_uses_is_no_reason_to_repeat() {
    let mut data = attempt(spec(1, 1), None, 0.8);
    route(&mut data, "a:1", Some("transaction"));
    assert_eq!(judge(&data), (0.0, None), "a repeat would have the pooler, too");
    let study = study(&quiet::experiment(1, vec![data]));
    let found = study.runs[0].findings.iter().find(|finding| finding.id == "foreign-cpu").unwrap();
    assert!(
        found.evidence.ends_with("; a pooler in transaction mode may be among them"),
        "{}",
        found.evidence
    );
}

#[test]
fn the_first_undisturbed_attempt_counts_whatever_it_measured() {
    let mut data = one(&[0.8, 0.0, 0.0]);
    // The disturbed one is the fastest, the last one the slowest.
    set_committed(&mut data.runs[0], 0..35, |_| 9_000);
    set_committed(&mut data.runs[2], 0..35, |_| 500);
    let study = study(&data);
    assert_eq!(counting(&study), [2]);
    assert_eq!(study.runs.iter().map(|run| run.replaced_by).collect::<Vec<_>>(), [Some(2), None, Some(2)]);
    assert_eq!((study.cases[0].n_runs, study.cases[0].tps.len(), study.runs.len()), (1, 1, 3));
    assert_eq!(study.partial, None);
    let finding = study.cases[0].findings.iter().find(|finding| finding.id == "runs-repeated").unwrap();
    assert!(finding.evidence.contains("run 1 (foreign-cpu), for which run 2 counts"), "{}", finding.evidence);
    assert!(!study.cases[0].findings.iter().any(|finding| finding.id == "runs-excluded"));
}

#[test]
fn the_least_disturbed_attempt_counts_with_what_disturbed_it() {
    let study = study(&one(&[0.8, 0.5, 0.6]));
    assert_eq!(counting(&study), [2]);
    let found = study.runs[1].findings.iter().find(|finding| finding.id == "foreign-cpu").unwrap();
    let known = &study.cases[0].uncertainty.as_ref().unwrap().throughput;
    let row = known.budget.iter().find(|row| row.id == "foreign-cpu").unwrap();
    assert_eq!(found.effect.map(|effect| effect.high), Some(row.high), "{known:?}");
    let finding = study.cases[0].findings.iter().find(|finding| finding.id == "runs-repeated").unwrap();
    assert!(finding.evidence.contains("no attempt at run 1 was undisturbed"), "{}", finding.evidence);
}

#[test]
fn an_attempt_that_does_not_count_is_reported_as_such() {
    let mut data = one(&[0.0, 0.0]);
    set_committed(&mut data.runs[0], 0..35, |_| 1);
    let study = study(&data);
    assert_eq!(counting(&study), [2]);
    let finding = study.cases[0].findings.iter().find(|finding| finding.id == "runs-repeated").unwrap();
    assert!(
        finding.evidence.contains("run 1 (it does not count), for which run 2 counts"),
        "{}",
        finding.evidence
    );
}

#[test]
fn a_repeat_that_was_cut_short_voids_nothing_and_is_no_run_of_the_plan() {
    let mut data = one(&[0.8, 0.0]);
    data.runs[1].record.state = RunState::Partial;
    let whole = study(&data);
    assert_eq!((counting(&whole), whole.partial.as_deref()), (vec![1], None));
    assert_eq!(whole.runs[1].grade, Grade::Void);
    assert!(!whole.is_void() && whole.has_result());
    data.plan.runs.extend([spec(3, 1), spec(4, 1)]);
    assert_eq!(study(&data).partial.as_deref(), Some("2 of 3 runs are missing (2 not started)"));
}

#[test]
fn a_void_finding_of_a_counting_run_or_the_experiment_voids_the_study() {
    let mut cut = one(&[0.0]);
    cut.runs[0].record.state = RunState::Partial;
    let cut = study(&cut);
    assert!(cut.is_void() && !cut.has_result());
    let mut whole = study(&one(&[0.0]));
    assert!(!whole.is_void() && whole.has_result());
    let advice = String::new();
    let severity = Severity::Void;
    whole.findings.push(Finding {
        id: "data-differs",
        severity,
        evidence: String::new(),
        advice,
        effect: None,
    });
    assert!(whole.is_void());
    let mut no_rate = one(&[0.0]);
    find_no_rate(&mut no_rate.runs[0]);
    assert!(study(&no_rate).has_result(), "that no rate held is a result");
}

#[test]
fn a_run_that_was_not_repeated_stands_alone() {
    for data in [one(&[0.0]), one(&[0.8])] {
        let study = study(&data);
        assert_eq!(counting(&study), [1]);
        assert!(!study.cases[0].findings.iter().any(|finding| finding.id == "runs-repeated"));
    }
}

#[test]
fn no_repeat_is_reported_if_the_repeated_run_is_not_among_the_records() {
    let mut data = one(&[0.0, 0.0]);
    data.runs.remove(0);
    let study = study(&data);
    let finding = study.cases[0].findings.iter().find(|finding| finding.id == "runs-repeated").unwrap();
    assert_eq!(finding.evidence, "1 run repeated");
}

#[test]
fn a_pair_counts_as_a_whole_and_a_half_of_one_not_at_all() {
    let pair = |with_last: bool| {
        let mut data = one(&[]);
        data.plan.is_comparison = true;
        data.plan.cases.push(quiet::case(2));
        data.plan.runs = vec![spec(1, 1), spec(2, 2)];
        data.runs = vec![
            attempt(spec(1, 1), None, 0.0),
            attempt(spec(2, 2), None, 0.8),
            attempt(spec(3, 1), repeats(1, 1), 0.0),
        ];
        data.runs.extend(with_last.then(|| attempt(spec(4, 2), repeats(2, 1), 0.0)));
        study(&data)
    };
    assert_eq!(counting(&pair(true)), [3, 4]);
    assert_eq!(counting(&pair(false)), [1, 2], "the repeat of its partner was cut off");
}
