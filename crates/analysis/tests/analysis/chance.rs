//! Random experiments: records that a driver and an observer may have written, of good days and bad ones.

use model::experiment::case::Case;
use model::experiment::plan::{RunSpec, RunState};
use model::load::Pace;
use model::load::capacity::{Probe, SearchRecord};
use model::load::interval::{Counts, HistogramLine};
use model::run::{ExperimentData, RunData, StampedHistogram};
use stats::random::Random;

use crate::quiet::{self, N_CPUS, S};

/// Makes random experiments. Encoding histograms takes most of the time, so they are drawn from a few.
pub(crate) struct Chance {
    random: Random,
    histograms: Vec<HistogramLine>,
    run: RunData,
}

/// What the runs of an experiment have in common.
struct Course {
    pace: Pace,
    /// Committed transactions a second of each case.
    levels: Vec<f64>,
    /// Coefficient of variation between runs, and between the seconds of a run.
    spread: [f64; 2],
    /// The largest share of transactions that fail, and of those that are skipped.
    trouble: [f64; 2],
    /// The largest share of the processors that others use.
    foreign: f64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        let mut random = Random::new(seed);
        let histograms = (0..12).map(|_| histogram(&mut random)).collect();
        Chance { random, histograms, run: quiet::run(1) }
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.uniform()
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.random.index(n) == 0
    }

    /// An experiment of up to three cases in up to twelve blocks.
    pub(crate) fn experiment(&mut self) -> ExperimentData {
        let n_cases = 1 + self.random.index(3) as u32;
        let repeats = 1 + self.random.index(12) as u32;
        let course = self.course(n_cases);
        let mut data = quiet::experiment(repeats, Vec::new());
        let factor = if self.once_in(2) { "workload.clients" } else { "server.version" };
        data.plan.factors = vec![factor.to_string()];
        data.plan.cases = (1..=n_cases).map(|id| case(id, factor, course.pace)).collect();
        data.plan.runs.clear();
        for block in 1..=repeats {
            for case in 1..=n_cases {
                let spec = RunSpec { run: (block - 1) * n_cases + case, block, case, seed: 42 };
                data.plan.runs.push(spec.clone());
                // The last ones may never have been begun.
                if !(block == repeats && self.once_in(8)) {
                    data.runs.push(self.run_of(spec, &data.plan.cases[case as usize - 1], &course));
                }
            }
        }
        data
    }

    fn course(&mut self, n_cases: u32) -> Course {
        let base = 10f64.powf(self.between(0.5, 4.5));
        let differ = if self.once_in(3) { 0.0 } else { 0.5 };
        let pace = match self.random.index(4) {
            0 => "max with p99 <= 10ms".parse().unwrap(),
            1 => Pace::Poisson { rate_per_s: base },
            _ => Pace::Closed,
        };
        let part =
            |chance: &mut Chance, high: f64| if chance.once_in(2) { 0.0 } else { chance.between(0.0, high) };
        Course {
            pace,
            levels: (0..n_cases).map(|_| base * (1.0 + differ * self.random.uniform())).collect(),
            spread: [part(self, 0.3), part(self, 0.5)],
            // A tenth of failures voids a run; few experiments should be of such runs.
            trouble: [if self.once_in(5) { self.between(0.0, 1.0) } else { 0.0 }, part(self, 0.5)],
            foreign: part(self, 1.0),
        }
    }

    fn run_of(&mut self, spec: RunSpec, case: &Case, course: &Course) -> RunData {
        let mut data = self.run.clone();
        let level = course.levels[case.id as usize - 1] * (course.spread[0] * self.random.normal()).exp();
        (data.record.spec, data.record.case) = (spec, case.clone());
        data.record.load.as_mut().unwrap().pace = course.pace;
        for interval in &mut data.intervals {
            let rate = level * (course.spread[1] * self.random.normal()).exp();
            interval.counts = self.counts(rate * interval.length_ns as f64 / S as f64, course.trouble);
            interval.length_ns = (interval.length_ns as f64 * self.between(1.0, 1.01)) as u64;
        }
        if let Some(target) = course.pace.target() {
            data.record.search = Some(self.search(&mut data, target, level));
        }
        let shift = self.random.index(self.histograms.len());
        for (i, stamped) in data.histograms.iter_mut().enumerate() {
            let tag = stamped.line.tag.clone();
            stamped.line =
                HistogramLine { tag, ..self.histograms[(shift + i % 5) % self.histograms.len()].clone() };
        }
        if course.pace.is_open() {
            let lags: Vec<StampedHistogram> = data.histograms.iter().step_by(3).cloned().collect();
            let lag = |mut lag: StampedHistogram| {
                lag.line.tag = "tpcb.lag".to_string();
                lag
            };
            data.histograms.extend(lags.into_iter().map(lag));
        }
        self.machine(&mut data, course.foreign);
        quiet::finish(&mut data);
        data.record.done.as_mut().unwrap().measured_by_client =
            (0..quiet::N_CLIENTS).map(|_| self.random.index(1000) as u64).collect();
        match self.random.index(12) {
            0 => data.record.state = RunState::Failed,
            1 => {
                data.record.state = RunState::Partial;
                data.intervals.truncate(self.random.index(36));
            }
            _ => {}
        }
        data
    }

    /// About this many transactions in a second, some of which fail, and some of which are skipped.
    fn counts(&mut self, n: f64, trouble: [f64; 2]) -> Counts {
        let started = n.round() as u64;
        let mut part = |of: u64, high: f64| (of as f64 * high * self.random.uniform()) as u64;
        let failed = part(started, trouble[0]);
        let unknown = part(started - failed, 0.01 * trouble[0]);
        let committed = started - failed - unknown;
        let (skipped, late) = (part(started, trouble[1]), part(committed, trouble[1]));
        Counts {
            due: started + skipped,
            skipped,
            started,
            committed,
            failed,
            unknown,
            late,
            ..Counts::default()
        }
    }

    /// Turns the seconds of the measurement into probes of rates around a threshold, the last of which confirms.
    fn search(
        &mut self,
        data: &mut RunData,
        target: model::load::capacity::LatencyTarget,
        level: f64,
    ) -> SearchRecord {
        let ceiling_per_s = level.max(20.0) * self.between(0.5, 2.0);
        // Beyond the ceiling no rate is ever too high, and far below the lowest each is.
        let threshold = ceiling_per_s * 10f64.powf(self.between(-2.5, 0.5));
        let slope = self.between(1.0, 30.0);
        let mut probes = Vec::new();
        let mut from_t = quiet::WINDOW.ramp_up_s;
        let end_t = from_t + quiet::WINDOW.measure_s;
        while from_t < end_t {
            let confirms = end_t - from_t <= 9;
            let to_t = if confirms { end_t } else { from_t + 3 };
            let rate_per_s = ceiling_per_s * self.between(0.02, 1.25);
            let share = (target.late_share() * (slope * (rate_per_s / threshold - 1.0)).exp()).min(1.0);
            for interval in data.intervals.iter_mut().filter(|interval| (from_t..to_t).contains(&interval.t))
            {
                let n = rate_per_s.round() as u64;
                let late = (n as f64 * (share * self.between(0.5, 1.5)).min(1.0)) as u64;
                interval.counts = Counts { due: n, started: n, committed: n, late, ..Counts::default() };
            }
            probes.push(Probe { rate_per_s, from_t, to_t, confirms });
            from_t = to_t;
        }
        SearchRecord { target, ceiling_per_s, probe_s: 3, probes }
    }

    /// Draws who used the processors each second. The kernel counts processes and processors in steps of 10 ms, each by
    /// itself, so a second may have more of either than it has time.
    fn machine(&mut self, data: &mut RunData, foreign: f64) {
        let busy = self.random.uniform();
        for tick in &mut data.ticks {
            let mut used = 0.0;
            let scale = self.between(0.5, 1.5);
            for cpu in 0..N_CPUS {
                let share = (busy * scale).min(1.0) + 0.01 * self.random.index(3) as f64;
                let user = share * self.random.uniform();
                let mut put = |metric: &str, value: f64| {
                    let key = model::telemetry::reading::key(metric, &format!("cpu{cpu}"));
                    tick.values.get_mut(&key).into_iter().for_each(|old| *old = value);
                };
                put("host.cpu.user", user);
                put("host.cpu.system", share - user);
                put("host.cpu.steal", (1.01 - share).max(0.0) * foreign);
                put("host.cpu.idle", (1.0 - share).max(0.0));
                used += share;
            }
            let own = used * (1.0 - foreign * self.random.uniform());
            let server = own * self.random.uniform();
            for (metric, value) in [
                ("server.cpu.user", 0.6 * server),
                ("server.cpu.system", 0.4 * server),
                ("driver.cpu.user", 0.3 * (own - server)),
                ("driver.cpu.system", 0.7 * (own - server)),
                ("driver.thread_cpu[0]", (own - server).min(1.01)),
                ("database.blocks_hit", 1e4 * self.random.uniform()),
                ("database.blocks_read", 1e4 * self.random.uniform()),
                ("server.wal_bytes", 1e7 * self.random.uniform()),
                ("disk.busy_time[vda]", 1.02 * self.random.uniform()),
            ] {
                tick.values.get_mut(metric).into_iter().for_each(|old| *old = value);
            }
        }
    }
}

fn case(id: u32, factor: &str, pace: Pace) -> Case {
    let mut case = quiet::case(id);
    let level = if factor == "server.version" { (12 + id).to_string() } else { (4 * id).to_string() };
    case.levels = [(factor.to_string(), level)].into();
    case.workload.pace = pace;
    if factor == "workload.clients" {
        case.workload.n_clients = 4 * id;
    }
    case
}

/// Log-normal times around 1 to 10 ms, with an outlier now and then.
fn histogram(random: &mut Random) -> HistogramLine {
    let centre = 1e6 * 10f64.powf(random.uniform());
    let width = 1.5 * random.uniform();
    let n = 1 + random.index(400);
    let mut time = || {
        let outlier = if random.index(100) == 0 { 50.0 } else { 1.0 };
        (centre * (width * random.normal()).exp() * outlier).clamp(1.0, 3.6e12) as u64
    };
    let times: Vec<u64> = (0..n).map(|_| time()).collect();
    quiet::histogram("tpcb", &times)
}
