//! Durations of the parts of a load, and which of them are determined while it runs.

use model::experiment::RunSection;
use model::experiment::case::WorkloadSpec;
use model::experiment::keys;
use model::load::Window;
use model::load::course::{Adapt, RampUp};
use model::text::units::Span;

use crate::plan::design::choice::LevelChoice;
use crate::plan::problems::Problems;

/// Window of a case, with the maximum of an automatic ramp-up.
pub(crate) fn window(choice: &LevelChoice, run: &RunSection) -> Window {
    let (ramp_up, measure) = (choice.get(keys::run::RAMP_UP), choice.get(keys::run::MEASURE));
    Window {
        ramp_up_s: seconds(run.ramp_up_longest(ramp_up, measure)),
        measure_s: seconds(measure),
        grace_s: seconds(choice.get(keys::run::GRACE)),
    }
}

/// Seconds of a duration that was read as a whole number of them.
pub(crate) fn seconds(span: Span) -> u32 {
    span.whole_s().expect("rows of durations allow whole seconds alone")
}

/// Which parts of the window are determined while the load runs.
pub(crate) fn adapt(
    choice: &LevelChoice,
    run: &RunSection,
    workload: &WorkloadSpec,
    problems: &mut Problems,
) -> Adapt {
    if run.ramp_up_max.is_some() && !run.ramp_up.all().contains(&RampUp::Auto) {
        problems.say("run.ramp_up_max is for run.ramp_up = \"auto\"; remove one of the two".to_string());
    }
    let extend_s = seconds(run.extend);
    let adapt = Adapt { ramp_up: choice.get(keys::run::RAMP_UP) == RampUp::Auto, extend_s };
    if adapt.is_none() {
        return adapt;
    }
    if workload.transactions.is_some() {
        problems.say(
            "workload.transactions ends the load by number: run.ramp_up = \"auto\" and run.extend are for a load that ends \
             by time"
                .to_string(),
        );
    }
    if workload.pace.target().is_some() {
        problems.say(format!(
            "workload.pace = \"{}\" divides the measurement into probes before it begins: give run.ramp_up a duration, and leave \
             run.extend out",
            workload.pace
        ));
    }
    let wal = choice.get(keys::run::WAL);
    if extend_s > 0 && !wal.is_as_is() {
        problems
            .say(format!("run.wal = \"{wal}\" sizes the WAL by the length of the run; remove run.extend"));
    }
    adapt
}

#[cfg(test)]
mod tests {
    use crate::plan::expand::{self, PlanResources};
    use crate::plan::sample;

    #[test]
    fn a_ramp_up_that_is_found_has_a_bound() {
        let check = |text: &str, (ramp_up_s, measure_s, extend_s): (u32, u32, u32)| {
            let case = sample::case(text);
            assert!(case.adapt.ramp_up, "{text}");
            assert_eq!((case.window.ramp_up_s, case.window.measure_s), (ramp_up_s, measure_s), "{text}");
            let longest = case.adapt.longest(case.window);
            assert_eq!(longest.load_s(), ramp_up_s + measure_s + extend_s, "{text}");
        };
        check("[run]\nramp_up = \"auto\"", (120, 60, 0));
        check("[run]\nramp_up = \"auto\"\nmeasure = \"30min\"", (1800, 1800, 0));
        check("[run]\nramp_up = \"auto\"\nramp_up_max = \"40s\"\nextend = \"30s\"", (40, 60, 30));
        assert!(sample::case("").adapt.is_none());
    }

    #[test]
    fn windows_that_cannot_be_found_are_refused() {
        let check = |text: &str, expected: &str| {
            let text = format!("[experiment]\nname = \"x\"\nseed = 1\n{text}");
            let experiment = crate::plan::file::parse("x.toml", &text, &[]);
            let site = PlanResources { memory_bytes: Some(24 << 30), n_cpus: 2, ..PlanResources::default() };
            let result = experiment.map_err(|e| e.to_string()).and_then(|e| expand::plan(&e, &site));
            let message = result.unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        check("[run]\nramp_up = \"automatic\"", "or \"auto\"");
        check("[run]\nramp_up_max = \"1min\"", "run.ramp_up_max is for run.ramp_up = \"auto\"");
        check("[run]\nramp_up = \"auto\"\nramp_up_max = \"10s\"", "give at least 20s");
        check("[run]\nrepeat_disturbed = 11", "run.repeat_disturbed: 11 is not in 0..10");
        check("[run]\nphase_timeout = \"0s\"", "run.phase_timeout: 0s is too short; give at least 1s");
        check("[run]\nphase_timeout = \"500ms\"", "run.phase_timeout: 500ms is not");
        check("[run]\nextend = \"500ms\"", "run.extend: 500ms is not a whole number");
        check("[run]\nextend = \"10s\"\n[workload]\ntransactions = 5", "ends the load by number");
        check("[run]\nextend = \"10s\"\n[workload]\npace = \"max with p99 <= 9ms\"", "leave run.extend out");
        check("[run]\nextend = \"10s\"\nwal = \"two-checkpoints\"", "remove run.extend");
    }
}
