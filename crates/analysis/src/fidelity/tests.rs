//! Replays of known fidelity.

use model::run::fidelity::{CountedStatement, StatementFigures, WorkloadFigures};

use super::*;

/// Calls, microseconds, rows, blocks and blocks read per call.
fn figures(calls: u64, mean_us: f64, rows: u64, blocks: u64, read_pct: u64) -> StatementFigures {
    StatementFigures {
        calls,
        time_us: mean_us * calls as f64,
        rows: Some(rows * calls),
        blocks: Some(blocks * calls),
        blocks_read: Some(blocks * calls * read_pct / 100),
        wal_records: Some(0),
        wal_bytes: Some(0),
    }
}

fn workload(statements: &[(&str, StatementFigures)]) -> WorkloadFigures {
    let mut workload = WorkloadFigures { length_s: 60.0, ..Default::default() };
    for (id, figures) in statements {
        let statement = CountedStatement { text: id.to_string(), is_reproduced: None, figures: *figures };
        workload.add(id.to_string(), statement);
    }
    workload
}

fn source() -> Vec<(&'static str, StatementFigures)> {
    vec![
        ("a", figures(10_000, 50.0, 1, 4, 10)),
        ("b", figures(5_000, 100.0, 20, 30, 10)),
        ("c", figures(1_000, 400.0, 0, 8, 10)),
        ("d", figures(100, 2_000.0, 100, 900, 10)),
    ]
}

const FINE: ReplayOutcome = ReplayOutcome { transactions: Some((10_000, 0)), dispersion: Some(1.1) };

fn judged(source: WorkloadFigures, replay: Option<WorkloadFigures>) -> Fidelity {
    judge(&ReplayRecord { source, replay, uncounted: "nobody counted".to_string() }, FINE)
}

/// The measures that are not faithful, with their grades.
fn lacking(fidelity: &Fidelity) -> Vec<(&'static str, FidelityGrade)> {
    let lacks = |one: &&FidelityMeasure| one.grade != FidelityGrade::Faithful;
    fidelity.measures.iter().filter(lacks).map(|one| (one.name, one.grade)).collect()
}

type Statements = Vec<(&'static str, StatementFigures)>;

#[test]
fn a_faster_machine_is_faithful_and_each_infidelity_has_its_measure() {
    use FidelityGrade::{Approximate, Faithful, NotYourWorkload, Unknown};
    let check = |change: &dyn Fn(&mut Statements), grade, expected: &[_]| {
        let mut replay = source();
        change(&mut replay);
        let source = WorkloadFigures { dispersion: Some(1.0), ..workload(&source()) };
        let fidelity = judged(source, Some(workload(&replay)));
        assert_eq!(
            (fidelity.grade, lacking(&fidelity)),
            (grade, expected.to_vec()),
            "{:#?}",
            fidelity.measures
        );
        fidelity
    };
    check(&|_| {}, Faithful, &[]);
    let faster = check(&|all| all.iter_mut().for_each(|(_, one)| one.time_us /= 3.0), Faithful, &[]);
    assert!((faster.time_factor.unwrap() - 1.0 / 3.0).abs() < 1e-9);
    // A statement is missing: its time, its share of the calls.
    check(
        &|all| {
            all.remove(1);
        },
        NotYourWorkload,
        &[("coverage", NotYourWorkload), ("mix", NotYourWorkload)],
    );
    // A reader removes what writers have left, more or less of it; a statement that writes, on one side alone, is another one.
    let all_write = |of: fn(u64) -> u64| {
        move |all: &mut Statements| all.iter_mut().for_each(|(_, one)| one.wal_records = Some(of(one.calls)))
    };
    check(&all_write(|calls| calls / 2), Faithful, &[]);
    check(&all_write(|calls| calls * 2), NotYourWorkload, &[("work", NotYourWorkload)]);
    // Others than the source's are no difference: the session of the run has its own.
    check(&|all| all.push(("own", figures(50_000, 1.0, 1, 1, 0))), Faithful, &[]);
    // Another mix.
    check(&|all| all[0].1 = figures(20_000, 50.0, 1, 4, 10), NotYourWorkload, &[("mix", NotYourWorkload)]);
    // Fewer rows in a statement with a third of the time.
    let fewer = check(&|all| all[1].1.rows = Some(10 * 5_000), NotYourWorkload, &[("rows", NotYourWorkload)]);
    assert_eq!(fewer.statements.iter().find(|one| one.id == "b").unwrap().fails, ["rows"]);
    check(&|all| all[3].1.blocks = Some(100 * 500), Approximate, &[("work", Approximate)]);
    // Everything is in memory.
    check(
        &|all| all.iter_mut().for_each(|(_, one)| one.blocks_read = Some(0)),
        NotYourWorkload,
        &[("cache", NotYourWorkload)],
    );
    // Each statement is slower or faster by a factor of its own.
    let apart = |all: &mut Vec<(&'static str, StatementFigures)>| {
        all.iter_mut().zip([0.2, 1.0, 3.0, 9.0]).for_each(|((_, one), factor)| one.time_us *= factor);
    };
    check(&apart, NotYourWorkload, &[("times", NotYourWorkload)]);
    check(&|all| all[0].1.rows = None, Faithful, &[]);
    check(&|all| all.iter_mut().for_each(|(_, one)| one.rows = None), Approximate, &[("rows", Unknown)]);
}

#[test]
fn rows_of_few_calls_may_differ_by_chance() {
    let of = |calls, rows| StatementFigures { rows: Some(rows), ..figures(calls, 10.0, 0, 1, 0) };
    let check = |source, replay, expected| {
        let fidelity = judged(workload(&[("a", source)]), Some(workload(&[("a", replay)])));
        assert_eq!(fidelity.measures[2].grade, expected, "{source:?} {replay:?}");
    };
    check(of(100, 10), of(100, 15), FidelityGrade::Faithful);
    check(of(100_000, 10_000), of(100_000, 15_000), FidelityGrade::NotYourWorkload);
    check(of(100, 0), of(100, 0), FidelityGrade::Faithful);
    check(of(100_000, 0), of(100_000, 50_000), FidelityGrade::NotYourWorkload);
}

#[test]
fn what_nobody_counted_is_unknown_and_no_good_grade() {
    let fidelity = judged(workload(&source()), None);
    assert_eq!(fidelity.grade, FidelityGrade::Unknown);
    assert!(fidelity.measures[0].text.contains("nobody counted"), "{:?}", fidelity.measures[0]);
    let nothing = judged(WorkloadFigures::default(), Some(workload(&source())));
    assert_eq!(nothing.grade, FidelityGrade::Unknown);
    // Counts and times of a log alone.
    let mut of_log = workload(&source());
    for statement in of_log.statements.values_mut() {
        let StatementFigures { calls, time_us, .. } = statement.figures;
        statement.figures = StatementFigures { calls, time_us, ..Default::default() };
    }
    let fidelity = judged(of_log, Some(workload(&source())));
    assert_eq!(fidelity.grade, FidelityGrade::Approximate);
    let unknown = |one: &&FidelityMeasure| one.grade == FidelityGrade::Unknown;
    let names: Vec<_> = fidelity.measures.iter().filter(unknown).map(|one| one.name).collect();
    assert_eq!(names, ["rows", "work", "cache", "arrivals"]);
    // What a directory says it replays counts only where nobody counted the replay.
    let mut said = workload(&source());
    said.statements.values_mut().for_each(|one| one.is_reproduced = Some(true));
    assert_eq!(judged(said, None).measures[0].value, Some(1.0));
}

#[test]
fn failures_and_arrivals_are_graded() {
    let record = |dispersion| ReplayRecord {
        source: WorkloadFigures { dispersion, ..workload(&source()) },
        replay: Some(workload(&source())),
        uncounted: String::new(),
    };
    let outcome = |failed, dispersion| ReplayOutcome { transactions: Some((10_000, failed)), dispersion };
    let check = |source, outcome, expected| {
        assert_eq!(judge(&record(source), outcome).grade, expected, "{outcome:?}")
    };
    check(Some(1.0), outcome(5, Some(1.1)), FidelityGrade::Faithful);
    check(Some(1.0), outcome(50, Some(1.1)), FidelityGrade::Approximate);
    check(Some(1.0), outcome(500, Some(1.1)), FidelityGrade::NotYourWorkload);
    check(Some(4.0), outcome(0, Some(1.0)), FidelityGrade::NotYourWorkload);
    check(None, outcome(0, Some(1.0)), FidelityGrade::Faithful);
    check(Some(1.0), ReplayOutcome::default(), FidelityGrade::Approximate);
}
