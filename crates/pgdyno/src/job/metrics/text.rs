//! The state as OpenMetrics 1.0.0 (IETF draft-richih-opsawg-openmetrics-00), without secrets.

use std::fmt::Write;

use model::experiment::plan::RunState;
use model::run::phase::Phase;
use model::secret::hide_text;

use super::state::{BUCKETS_S, LaneState, State, word};

/// The whole exposition.
pub(super) fn page(state: &State) -> String {
    let mut text = Text::default();
    let experiment = label("experiment", &state.name);
    text.family("pgdyno_build", "info", "the program");
    text.sample("pgdyno_build_info", &[label("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("pgdyno_experiment", "info", "the experiment");
    text.sample("pgdyno_experiment_info", &[experiment], 1.0);
    text.family("pgdyno_runs_planned", "gauge", "runs of the plan");
    text.sample("pgdyno_runs_planned", &[], state.n_planned as f64);
    text.family("pgdyno_runs_ended", "counter", "runs that have ended, by how");
    for how in [RunState::Completed, RunState::Partial, RunState::Failed].map(word) {
        let n = state.ended.get(how).copied().unwrap_or(0);
        text.sample("pgdyno_runs_ended_total", &[label("state", how)], n as f64);
    }
    text.family(
        "pgdyno_runs_repeated",
        "counter",
        "runs that were repeated because something disturbed them",
    );
    text.sample("pgdyno_runs_repeated_total", &[], state.n_repeated as f64);
    runs(&mut text, state);
    load(&mut text, state);
    text.end()
}

/// The run and the phase of each lane.
fn runs(text: &mut Text, state: &State) {
    text.family("pgdyno_run", "gauge", "number of the run in progress; absent between runs");
    for (lane, run, case) in current(state) {
        text.sample("pgdyno_run", &[lane, case], f64::from(run));
    }
    text.family("pgdyno_phase", "stateset", "the phase of the run in progress");
    for (number, lane) in &state.lanes {
        for phase in Phase::ALL {
            let is_now = lane.phase.is_some_and(|(now, _)| now == phase);
            let labels = [of_lane(*number), label("pgdyno_phase", phase.as_str())];
            text.sample("pgdyno_phase", &labels, f64::from(u8::from(is_now)));
        }
    }
    text.family(
        "pgdyno_phase_start_timestamp_seconds",
        "gauge",
        "when the phase began, since the Unix epoch",
    );
    for (number, lane) in &state.lanes {
        if let (Some((run, case)), Some((phase, start_s))) = (&lane.run, lane.phase) {
            let run = label("run", &run.to_string());
            let labels = [of_lane(*number), run, label("case", case), label("phase", phase.as_str())];
            text.sample("pgdyno_phase_start_timestamp_seconds", &labels, start_s);
        }
    }
    each(
        text,
        state,
        "pgdyno_last_run_transactions_per_second",
        "throughput of the last run that ended",
        |lane| lane.last_tps,
    );
    for (name, what, of) in [
        (
            "pgdyno_last_run_uncertainty_low",
            "lower end of the range of that throughput undisturbed, as a ratio to it",
            (|lane| Some(lane.last_range?[0])) as fn(&LaneState) -> Option<f64>,
        ),
        ("pgdyno_last_run_uncertainty_high", "upper end of that range", |lane| Some(lane.last_range?[1])),
    ] {
        each(text, state, name, what, of);
    }
    costs(text, state);
    each(
        text,
        state,
        "pgdyno_left_seconds",
        "what the remaining runs will take, as estimated after the last one",
        |lane| lane.left_s,
    );
}

/// What a committed transaction cost in the last run of each lane.
fn costs(text: &mut Text, state: &State) {
    let name = "pgdyno_last_run_transaction_cost";
    text.family(
        name,
        "gauge",
        "what a committed transaction of that run cost: microseconds, bytes, or a number",
    );
    for (number, lane) in &state.lanes {
        for (id, value) in &lane.last_costs {
            text.sample(name, &[of_lane(*number), label("cost", id)], *value);
        }
    }
}

/// The load of each lane.
fn load(text: &mut Text, state: &State) {
    each(text, state, "pgdyno_load_second", "seconds of load so far, in the run in progress", |lane| {
        (lane.n_seconds > 0).then(|| f64::from(lane.second))
    });
    each(
        text,
        state,
        "pgdyno_load_seconds_planned",
        "seconds of load in all, of the run in progress",
        |lane| (lane.n_seconds > 0).then(|| f64::from(lane.n_seconds)),
    );
    for (name, what, of) in [
        (
            "pgdyno_transactions",
            "committed transactions of all runs",
            (|lane| lane.committed) as fn(&LaneState) -> u64,
        ),
        ("pgdyno_measured_transactions", "those of them in measurement windows", |lane| {
            lane.committed_measured
        }),
    ] {
        text.family(name, "counter", what);
        for (number, lane) in &state.lanes {
            text.sample(&format!("{name}_total"), &[of_lane(*number)], of(lane) as f64);
        }
    }
    text.family(
        "pgdyno_transaction_latency_seconds",
        "histogram",
        "latency of the committed transactions, since each was due",
    );
    for (number, lane) in &state.lanes {
        let lane_label = of_lane(*number);
        for (n, end_s) in lane.buckets.iter().zip(BUCKETS_S) {
            let labels = [lane_label.clone(), label("le", &format!("{end_s:?}"))];
            text.sample("pgdyno_transaction_latency_seconds_bucket", &labels, *n as f64);
        }
        let labels = [lane_label.clone(), label("le", "+Inf")];
        text.sample("pgdyno_transaction_latency_seconds_bucket", &labels, lane.latency_n as f64);
        text.sample(
            "pgdyno_transaction_latency_seconds_count",
            std::slice::from_ref(&lane_label),
            lane.latency_n as f64,
        );
        text.sample("pgdyno_transaction_latency_seconds_sum", &[lane_label], lane.latency_sum_s);
    }
}

/// A gauge with one sample for each lane that has it.
fn each(text: &mut Text, state: &State, name: &str, what: &str, of: fn(&LaneState) -> Option<f64>) {
    text.family(name, "gauge", what);
    for (number, lane) in &state.lanes {
        if let Some(value) = of(lane) {
            text.sample(name, &[of_lane(*number)], value);
        }
    }
}

fn current(state: &State) -> impl Iterator<Item = (String, u32, String)> {
    state.lanes.iter().filter_map(|(number, lane)| {
        let (run, case) = lane.run.as_ref()?;
        Some((of_lane(*number), *run, label("case", case)))
    })
}

fn of_lane(number: usize) -> String {
    label("lane", &number.to_string())
}

/// Most characters of a label's value, which a user or a server may have chosen.
const LABEL_CHARS_MAX: usize = 200;

/// `name="value"`, escaped.
fn label(name: &str, value: &str) -> String {
    let hidden = hide_text(value);
    let value: String = hidden.chars().take(LABEL_CHARS_MAX).collect();
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, what: &str) {
        self.write(format_args!("# TYPE {name} {kind}\n# HELP {name} {what}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[String], value: f64) {
        match labels {
            [] => self.write(format_args!("{name} {value}\n")),
            labels => self.write(format_args!("{name}{{{}}} {value}\n", labels.join(","))),
        }
    }

    fn write(&mut self, what: std::fmt::Arguments) {
        self.0.write_fmt(what).expect("a string takes any text");
    }

    fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_the_last_throughput_stands_next_to_it() {
        let of = |last_range: Option<[f64; 2]>| {
            let mut state = State::default();
            state.lanes.insert(0, LaneState { last_tps: Some(8392.0), last_range, ..LaneState::default() });
            page(&state)
        };
        let text = of(Some([0.93, 1.11]));
        for line in [
            "# TYPE pgdyno_last_run_uncertainty_low gauge\n# HELP pgdyno_last_run_uncertainty_low lower end of",
            "\npgdyno_last_run_uncertainty_low{lane=\"0\"} 0.93\n",
            "\npgdyno_last_run_uncertainty_high{lane=\"0\"} 1.11\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!of(None).contains("pgdyno_last_run_uncertainty_low{"), "an unknown range has no sample");

        let mut state = State::default();
        let last_costs = vec![("wal", 412.5), ("blocks", 25.0)];
        state.lanes.insert(1, LaneState { last_costs, ..LaneState::default() });
        let page = page(&state);
        assert!(
            page.contains("\npgdyno_last_run_transaction_cost{lane=\"1\",cost=\"wal\"} 412.5\n"),
            "{page}"
        );
    }
}
