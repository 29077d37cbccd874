//! The order of a run's steps, and the consequences when one of them fails, with a fake that does nothing.

use anyhow::bail;
use model::experiment::plan::RunSpec;
use model::load::drive::Done;

use super::*;
use crate::plan::sample::case;

/// Every step that a case can ask for, in order.
const ALL: [&str; 10] =
    ["write", "restore", "connect", "describe", "vacuum", "prewarm", "checkpoint", "settle", "write", "load"];
/// Steps after the load.
const AFTER: [&str; 2] = ["count", "keep log"];

/// Records each step; one of them may fail, or be the moment when the user stops.
struct Fake<'a> {
    taken: Vec<&'static str>,
    fails_at: &'static str,
    stops_at: &'static str,
    stop: &'a AtomicBool,
    unanswered: u32,
}

impl Fake<'_> {
    fn take(&mut self, step: &'static str) -> Result<PhaseDetail> {
        self.taken.push(step);
        if step == self.stops_at {
            self.stop.store(true, Ordering::Relaxed);
        }
        if step == self.fails_at {
            bail!("out of order");
        }
        Ok(PhaseDetail::from([("step".to_string(), step.to_string())]))
    }
}

impl Ground for Fake<'_> {
    fn restore(&mut self, _: &mut Watch) -> Result<PhaseDetail> {
        self.take("restore")
    }

    fn connect(&mut self) -> Result<Duration> {
        self.take("connect").map(|_| Duration::from_secs(60))
    }

    fn describe(&mut self, _: &mut RunRecord) -> Result<()> {
        self.take("describe").map(drop)
    }

    fn apply(&mut self, _: &mut RunRecord) -> Result<PhaseDetail> {
        self.take("apply")
    }

    fn vacuum(&mut self, _: &RunRecord) -> Result<PhaseDetail> {
        self.take("vacuum")
    }

    fn prewarm(&mut self, _: &mut RunRecord) -> Result<PhaseDetail> {
        self.take("prewarm")
    }

    fn checkpoint(&mut self) -> Result<PhaseDetail> {
        self.take("checkpoint")
    }

    fn settle(&mut self) -> Result<PhaseDetail> {
        self.take("settle")
    }

    fn load(&mut self, record: &mut RunRecord, _: &mut Watch) -> Result<()> {
        self.take("load")?;
        record.state = RunState::Completed;
        record.done = Some(Done { unanswered: self.unanswered, ..Done::default() });
        Ok(())
    }

    fn explain(&mut self, _: &mut RunRecord) {}

    fn count(&mut self, _: &RunRecord) -> Result<StateAfterLoad> {
        self.take("count")?;
        Ok(StateAfterLoad {
            rows: [("history".to_string(), 7)].into(),
            violations: BTreeMap::new(),
            unfinished: BTreeMap::new(),
        })
    }

    fn import(&mut self, _: &mut RunRecord) -> Result<()> {
        Ok(())
    }

    fn keep_log(&mut self) -> Result<()> {
        self.take("keep log").map(drop)
    }

    fn write(&mut self, _: &RunRecord) -> Result<()> {
        self.take("write").map(drop)
    }
}

/// Takes a run; returns the steps taken and the record.
fn run(
    text: &str,
    fails_at: &'static str,
    stops_at: &'static str,
    unanswered: u32,
) -> (Vec<&'static str>, RunRecord) {
    let (case, stop) = (case(text), AtomicBool::new(false));
    let spec = RunSpec { run: 1, block: 1, case: 1, seed: 1 };
    let record = RunRecord::new(spec, case.clone(), "0");
    let mut fake = Fake { taken: Vec::new(), fails_at, stops_at, stop: &stop, unanswered };
    let record = conduct(&mut fake, &case, record, &stop, &mut |_| {});
    (fake.taken, record)
}

/// The steps up to the named one, and the log, which is always stored.
fn up_to(step: &str) -> Vec<&'static str> {
    let end = ALL.iter().position(|taken| *taken == step).map_or(ALL.len(), |at| at + 1);
    ALL[..end].iter().copied().chain(["keep log"]).collect()
}

#[test]
fn phases_run_in_order_and_are_recorded_with_their_facts() {
    let (taken, record) = run("", "", "", 0);
    assert_eq!(taken, [&ALL[..], &AFTER[..]].concat());
    assert_eq!(record.state, RunState::Completed);
    let phases: Vec<&str> = record.phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(phases, ["restore", "vacuum", "prewarm", "checkpoint", "settle"]);
    for phase in &record.phases {
        assert_eq!(phase.detail["step"], phase.phase.as_str());
        assert!(phase.start_unix_ns <= phase.end_unix_ns);
    }
    assert_eq!(record.rows_after["history"], 7);
}

#[test]
fn a_step_that_the_case_does_not_ask_for_is_skipped() {
    let check = |text: &str, left_out: &str| {
        let (taken, _) = run(&format!("[prepare]\n{text}"), "", "", 0);
        let expected: Vec<&str> =
            ALL.into_iter().chain(AFTER).filter(|step| !left_out.contains(*step)).collect();
        assert_eq!(taken, expected, "{text}");
    };
    check("vacuum = false\nanalyze = false", "vacuum");
    check("vacuum = false", "none");
    check("prewarm = false", "prewarm");
    check("checkpoint = false\nsettle = false", "checkpoint settle");
}

#[test]
fn a_step_that_fails_fails_the_run_and_is_the_last_one() {
    for step in ["restore", "connect", "describe", "vacuum", "prewarm", "checkpoint", "settle", "load"] {
        let (taken, record) = run("", step, "", 0);
        assert_eq!(taken, up_to(step));
        assert_eq!(record.state, RunState::Failed, "{step}");
        assert!(record.reason.contains("out of order"), "{}", record.reason);
        assert!(record.phases.iter().all(|phase| phase.phase.as_str() != step), "{step} is not over");
    }
    let (_, record) = run("", "vacuum", "", 0);
    assert_eq!(record.reason, "phase `vacuum`: out of order");
}

#[test]
fn after_a_stop_by_the_user_there_are_results_so_far_and_no_further_step() {
    for step in ["restore", "vacuum", "prewarm", "checkpoint", "settle"] {
        let (taken, record) = run("", "", step, 0);
        assert_eq!(taken, up_to(step));
        assert_eq!((record.state, record.reason.as_str()), (RunState::Partial, STOPPED), "{step}");
        assert_eq!(
            record.phases.last().unwrap().phase.as_str(),
            step,
            "the phase that was taken is recorded"
        );
    }
    // Whatever the cancelled step reports.
    let (_, record) = run("", "load", "load", 0);
    assert_eq!((record.state, record.reason.as_str()), (RunState::Partial, STOPPED));
}

#[test]
fn a_failure_after_the_load_loses_no_measurement() {
    let (_, record) = run("", "count", "", 0);
    assert_eq!(record.state, RunState::Partial);
    assert_eq!(record.reason, "rows could not be counted after the load: out of order");
    assert!(record.telemetry_unavailable.contains_key("rows_after") && record.done.is_some());
    let (taken, record) = run("", "", "", 3);
    assert_eq!(taken.last(), Some(&"keep log"));
    assert!(!taken.contains(&"count"), "a server that does not answer is not asked");
    assert_eq!(record.state, RunState::Completed);
    let (_, record) = run("", "keep log", "", 0);
    assert_eq!(record.state, RunState::Completed);
    assert_eq!(record.telemetry_unavailable["server.log"], "out of order");
}

#[test]
fn what_a_case_applies_comes_after_the_description_and_before_statistics_are_made() {
    let (taken, record) = run("[workload]\napply = \"create index on t (a)\"", "", "", 0);
    let at = |step: &str| taken.iter().position(|taken| *taken == step);
    assert!(at("describe") < at("apply") && at("apply") < at("vacuum"), "{taken:?}");
    assert_eq!(record.phases[1].phase, Phase::Apply);
}
