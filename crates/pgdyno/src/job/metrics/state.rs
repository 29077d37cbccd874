//! What is known of the running experiment: taken from its progress, kept small.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use experiment::site::progress::ProgressEvent;
use model::experiment::plan::{Plan, RunState};
use model::load::histogram::HistogramSum;
use model::run::phase::Phase;

/// Upper ends of the buckets of latency, seconds: 1, 2.5, 5 in each decade.
pub(super) const BUCKETS_S: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    25.0, 60.0,
];

/// The experiment and its lanes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) n_planned: usize,
    /// Ended runs by their state.
    pub(super) ended: BTreeMap<&'static str, u64>,
    /// Runs that were repeated because they were disturbed.
    pub(super) n_repeated: u64,
    /// By number of the lane, from 0; one if nothing is measured side by side. Those of a duet are A and B.
    pub(super) lanes: BTreeMap<usize, LaneState>,
}

/// What one sequence of runs does now, and has done.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Number and label of the run.
    pub(super) run: Option<(u32, String)>,
    /// The phase, and when it began, seconds since the Unix epoch.
    pub(super) phase: Option<(Phase, f64)>,
    pub(super) second: u32,
    pub(super) n_seconds: u32,
    pub(super) committed: u64,
    pub(super) committed_measured: u64,
    /// Transactions in or below each bucket, without the last one, which has no end.
    pub(super) buckets: [u64; BUCKETS_S.len()],
    pub(super) latency_n: u64,
    pub(super) latency_sum_s: f64,
    /// Transactions per second of the last run that ended.
    pub(super) last_tps: Option<f64>,
    /// The range in which that would lie undisturbed, as ratios to it.
    pub(super) last_range: Option<[f64; 2]>,
    /// What a committed transaction cost in that run.
    pub(super) last_costs: Vec<(&'static str, f64)>,
    pub(super) left_s: Option<f64>,
}

impl State {
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.name.clone_from(&plan.name);
        self.n_planned = plan.runs.len();
    }

    pub(super) fn see(&mut self, progress: &ProgressEvent) {
        self.see_of(0, progress);
    }

    fn see_of(&mut self, lane: usize, progress: &ProgressEvent) {
        match progress {
            ProgressEvent::OfLane { lane, progress } | ProgressEvent::OfSide { side: lane, progress } => {
                self.see_of(*lane, progress);
            }
            ProgressEvent::RunBegins { run, label, .. } => {
                let lane = self.lane(lane);
                lane.run = Some((*run, label.clone()));
                (lane.second, lane.n_seconds) = (0, 0);
            }
            ProgressEvent::PhaseBegins(phase) => self.lane(lane).phase = Some((*phase, now_s())),
            ProgressEvent::Second { t, n, committed, histograms, is_measured } => {
                let lane = self.lane(lane);
                (lane.second, lane.n_seconds) = (*t, *n);
                lane.committed += committed;
                lane.committed_measured += if *is_measured { *committed } else { 0 };
                // Tags with a point are of other times.
                for line in histograms.iter().filter(|line| !line.tag.contains('.')) {
                    if let Ok(sum) = HistogramSum::read(line) {
                        lane.add(&sum);
                    }
                }
            }
            ProgressEvent::RunRepeats(repeated) => self.n_repeated += repeated.again.len() as u64,
            ProgressEvent::RunEnds { state, tps, figures, left_s, .. } => {
                *self.ended.entry(word(*state)).or_default() += 1;
                let lane = self.lane(lane);
                (lane.run, lane.phase) = (None, None);
                (lane.second, lane.n_seconds) = (0, 0);
                (lane.last_tps, lane.last_range, lane.left_s) = (*tps, figures.range, Some(*left_s));
                lane.last_costs.clone_from(&figures.costs);
            }
            ProgressEvent::Fetch(_)
            | ProgressEvent::Step(_)
            | ProgressEvent::Load(_)
            | ProgressEvent::Note(_) => {}
        }
    }

    fn lane(&mut self, lane: usize) -> &mut LaneState {
        self.lanes.entry(lane).or_default()
    }
}

impl LaneState {
    fn add(&mut self, sum: &HistogramSum) {
        for (n, end_s) in self.buckets.iter_mut().zip(BUCKETS_S) {
            *n += sum.n_at_most((end_s * 1e9) as u64);
        }
        self.latency_n += sum.n();
        self.latency_sum_s += sum.mean_ns() * sum.n() as f64 / 1e9;
    }
}

/// The word of a state, as in `state.jsonl`.
pub(super) fn word(state: RunState) -> &'static str {
    match state {
        RunState::Started => "started",
        RunState::Completed => "completed",
        RunState::Partial => "partial",
        RunState::Failed => "failed",
    }
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
