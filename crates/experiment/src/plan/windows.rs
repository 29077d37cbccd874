//! Durations of the parts of a load, and which of them are determined while it runs.

use model::experiment::RunSection;
use model::experiment::case::WorkloadSpec;
use model::experiment::keys;
use model::load::Window;
use model::load::course::{Adapt, RampUp};
use model::text::units::Span;

use crate::plan::design::choice::Choice;
use crate::plan::problems::Problems;

/// Window of a case, with the maximum of an automatic ramp-up.
pub(crate) fn window(choice: &Choice, run: &RunSection, problems: &mut Problems) -> Option<Window> {
    let (ramp_up, measure) = (choice.get(keys::run::RAMP_UP), choice.get(keys::run::MEASURE));
    let grace_s = problems.take(whole(keys::run::GRACE.name, choice.get(keys::run::GRACE)));
    let measure_s = problems.take(whole(keys::run::MEASURE.name, measure));
    if let Some(0 | 1) = measure_s {
        problems.say(format!("{}: {measure} is too short; measure at least 2s", keys::run::MEASURE));
    }
    let longest = run.ramp_up_longest(ramp_up, measure);
    let ramp_up_s = problems.take(whole(keys::run::RAMP_UP.name, longest));
    Some(Window { ramp_up_s: ramp_up_s?, measure_s: measure_s?, grace_s: grace_s? })
}

fn whole(key: &str, span: Span) -> Result<u32, String> {
    span.whole_s().ok_or_else(|| format!("{key}: {span} is not a whole number of seconds"))
}

/// Fewest seconds in which [`stats::is_warm`] can detect a steady load.
pub(crate) const RAMP_UP_AUTO_S_MIN: u32 = 20;

/// Limit for each phase except the load, if one is given.
pub(crate) fn phase_timeout_s(run: &RunSection) -> Result<Option<u32>, String> {
    let Some(span) = run.phase_timeout else { return Ok(None) };
    match span.whole_s() {
        Some(seconds) if seconds > 0 => Ok(Some(seconds)),
        _ => Err(format!("run.phase_timeout: {span} is not a whole number of seconds, at least 1s")),
    }
}

/// More repeats of one run only prove that the machine is unsuitable.
const REPEAT_DISTURBED_MAX: u32 = 10;

/// How often a disturbed run is repeated.
pub(crate) fn repeat_disturbed(run: &RunSection) -> Result<u32, String> {
    match run.repeat_disturbed {
        n if n <= REPEAT_DISTURBED_MAX => Ok(n),
        n => Err(format!("run.repeat_disturbed: {n} is not in 0..{REPEAT_DISTURBED_MAX}")),
    }
}

/// Which parts of the window are determined while the load runs.
pub(crate) fn adapt(
    choice: &Choice,
    run: &RunSection,
    window: Window,
    workload: &WorkloadSpec,
    problems: &mut Problems,
) -> Option<Adapt> {
    if run.ramp_up_max.is_some() && !run.ramp_up.all().contains(&RampUp::Auto) {
        problems.say("run.ramp_up_max is for run.ramp_up = \"auto\"; remove one of the two".to_string());
    }
    let extend_s = problems.take(whole(keys::run::EXTEND.name, run.extend))?;
    let adapt = Adapt { ramp_up: choice.get(keys::run::RAMP_UP) == RampUp::Auto, extend_s };
    if adapt.is_none() {
        return Some(adapt);
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
    if adapt.ramp_up && window.ramp_up_s < RAMP_UP_AUTO_S_MIN {
        let given = window.ramp_up_s;
        problems.say(format!(
            "run.ramp_up_max: {given}s is too short to find a steady load in; give at least {RAMP_UP_AUTO_S_MIN}s"
        ));
    }
    let wal = choice.get(keys::run::WAL);
    if extend_s > 0 && !wal.is_as_is() {
        problems
            .say(format!("run.wal = \"{wal}\" sizes the WAL by the length of the run; remove run.extend"));
    }
    Some(adapt)
}

#[cfg(test)]
mod tests {
    use crate::plan::expand::{self, Resources};
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
            let site = Resources { memory_bytes: Some(24 << 30), n_cpus: 2, ..Resources::default() };
            let result = experiment.map_err(|e| e.to_string()).and_then(|e| expand::plan(&e, &site));
            let message = result.unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        check("[run]\nramp_up = \"automatic\"", "or \"auto\"");
        check("[run]\nramp_up_max = \"1min\"", "run.ramp_up_max is for run.ramp_up = \"auto\"");
        check("[run]\nramp_up = \"auto\"\nramp_up_max = \"10s\"", "give at least 20s");
        check("[run]\nrepeat_disturbed = 11", "run.repeat_disturbed: 11 is not in 0..10");
        check("[run]\nphase_timeout = \"0s\"", "run.phase_timeout: 0s is not a whole number of seconds");
        check("[run]\nphase_timeout = \"500ms\"", "run.phase_timeout: 500ms is not");
        check("[run]\nextend = \"500ms\"", "run.extend: 500ms is not a whole number");
        check("[run]\nextend = \"10s\"\n[workload]\ntransactions = 5", "ends the load by number");
        check("[run]\nextend = \"10s\"\n[workload]\npace = \"max with p99 <= 9ms\"", "leave run.extend out");
        check("[run]\nextend = \"10s\"\nwal = \"two-checkpoints\"", "remove run.extend");
    }
}
