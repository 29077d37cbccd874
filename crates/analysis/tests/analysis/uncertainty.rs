//! How far off figures can be, with disturbances of which the effect is known.

use analysis::finding::{Grade, Severity};
use analysis::study;
use analysis::summary::uncertainty::{CaseUncertainty, Contribution};
use model::run::RunData;
use model::telemetry::event::EventKind;

use crate::quiet::{self, event, set_committed, set_metric, tps};

/// Doubts of which the budget of these runs bounds what they can have done: they are notes.
pub(crate) const BOUNDED: &[&str] = &[
    "autovacuum-in-window",
    "checkpoint-in-window",
    "cpu-quota",
    "driver-paused",
    "foreign-cpu",
    "foreign-sessions",
    "memory-pressure",
    "not-steady",
    "ramp-up-not-steady",
    "stall",
    "steal",
];

fn uncertainty(runs: Vec<RunData>) -> CaseUncertainty {
    let n = runs.len() as u32;
    study(&quiet::experiment(n, runs)).cases.remove(0).uncertainty.unwrap()
}

fn row<'a>(known: &'a CaseUncertainty, id: &str) -> &'a Contribution {
    known.throughput.budget.iter().find(|row| row.id == id).unwrap_or_else(|| panic!("no {id}: {known:#?}"))
}

/// Three runs whose second `t` commits `n(t)` transactions more.
fn three(n: impl Fn(usize, u32) -> u64) -> Vec<RunData> {
    let mut runs: Vec<RunData> = (1..=3).map(quiet::run).collect();
    for (i, run) in runs.iter_mut().enumerate() {
        set_committed(run, 5..35, |t| tps(t) + n(i, t));
    }
    runs
}

#[test]
fn stolen_time_of_busy_processors_is_missing_and_of_idle_ones_only_delays() {
    let stolen = |busy: f64| {
        let mut runs = three(|_, _| 0);
        for run in &mut runs {
            set_metric(run, "host.cpu.user", -10.0, 50.0, busy);
            set_metric(run, "host.cpu.system", -10.0, 50.0, 0.0);
            set_metric(run, "host.cpu.steal", -10.0, 50.0, 0.1);
            set_metric(run, "server.cpu.user", -10.0, 50.0, 0.1);
            set_metric(run, "server.cpu.system", -10.0, 50.0, 0.0);
        }
        row(&uncertainty(runs), "steal").high
    };
    // Nine tenths of each processor were busy, the rest was stolen: with that, a ninth more.
    assert!((stolen(0.9) - 1.0 / 0.9).abs() < 1e-3, "{}", stolen(0.9));
    let idle = stolen(0.5);
    assert!(1.0 < idle && idle < 1.02, "a share of a transaction's time: {idle}");
}

#[test]
fn a_quiet_machine_is_good_to_five_per_cent_after_three_runs() {
    let mut runs = three(|i, _| [0, 8, 15][i]);
    for run in &mut runs {
        run.record.host.as_mut().unwrap().facts.insert("hypervisor_flag".to_string(), "false".to_string());
    }
    let known = uncertainty(runs);
    assert!(known.throughput.good_to() < 0.05, "{known:#?}");
    assert_eq!(known.throughput.budget[0].id, "runs-differ");
}

#[test]
fn more_runs_that_vary_alike_are_better_and_the_budget_says_how_many() {
    let of = |n: u32| {
        let mut runs: Vec<RunData> = (1..=n).map(quiet::run).collect();
        for (i, run) in runs.iter_mut().enumerate() {
            set_committed(run, 5..35, |t| tps(t) + 60 * (i as u64 % 3));
        }
        uncertainty(runs)
    };
    let (three, six, twelve) = (of(3), of(6), of(12));
    let width = |known: &CaseUncertainty| known.throughput.high - known.throughput.low;
    assert!(width(&three) > width(&six) && width(&six) > width(&twelve), "{three:#?} {twelve:#?}");
    assert!(row(&three, "runs-differ").remedy.starts_with("3 more runs: ±"), "{three:#?}");
}

#[test]
fn a_checkpoint_is_bounded_by_the_seconds_without_it() {
    let mut runs = three(|_, _| 0);
    for run in &mut runs {
        set_committed(run, 10..16, |t| tps(t) / 2);
        run.events
            .push(event(10.0, EventKind::CheckpointStart, "checkpoint starting: time").with("cause", "time"));
        run.events.push(event(16.0, EventKind::CheckpointEnd, "checkpoint complete"));
    }
    let known = uncertainty(runs);
    // Six of 30 seconds at a half: a tenth is missing.
    let found = row(&known, "interrupted");
    assert!((found.high - 1.0 / 0.9).abs() < 0.01, "{found:?}");
}

#[test]
fn what_cannot_be_bounded_stays_a_doubt() {
    let mut run = quiet::run(1);
    for t in 0..36 {
        run.events.push(event(f64::from(t) + 0.5, EventKind::AutovacuumSeen, "1 worker"));
    }
    let study = study(&quiet::experiment(1, vec![run]));
    let found = study.runs[0].findings.iter().find(|finding| finding.id == "autovacuum-in-window").unwrap();
    assert_eq!((found.severity, found.effect), (Severity::Doubt, None), "no second is left to compare with");
    assert_eq!(study.cases[0].grade, Grade::Doubtful);
}
