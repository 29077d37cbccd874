//! Figures are possible: over random experiments no mean exceeds its maximum, no share is above 100 %, every interval
//! contains its point and lies within what was offered, and verdicts follow from intervals.

use analysis::case::answer::{self, LevelStanding};
use analysis::comparison::{CaseComparison, ComparedSide, ComparisonVerdict, MARGIN};
use analysis::explain::compare;
use analysis::finding::{Finding, Grade};
use analysis::study;
use analysis::summary::{CaseSummary, LatencySummary, RunSummary, Study};
use model::load::interval::Counts;
use model::run::ExperimentData;

use crate::chance::Chance;

/// Experiments that are drawn; about 14 runs each on average.
const EXPERIMENTS: u64 = 30;
/// What floating point may be off.
const EPSILON: f64 = 1e-9;

/// What is impossible in one experiment, in words.
#[derive(Default)]
struct Impossible {
    words: Vec<String>,
    /// Ratios with a verdict that were looked at.
    n_ratios: usize,
}

impl Impossible {
    fn unless(&mut self, is_possible: bool, words: impl FnOnce() -> String) {
        if !is_possible {
            self.words.push(words());
        }
    }

    fn at_most(&mut self, what: &str, small: f64, large: f64) {
        let is_possible = small <= large + EPSILON * large.abs().max(1.0);
        self.unless(is_possible, || format!("{what}: {small} is above {large}"));
    }

    fn share(&mut self, what: &str, share: Option<f64>) {
        if let Some(share) = share {
            self.unless((0.0..=1.0 + EPSILON).contains(&share), || format!("{what}: a share of {share}"));
        }
    }

    fn interval(&mut self, what: &str, low: f64, point: f64, high: f64) {
        self.unless(low.is_finite() && high.is_finite(), || format!("{what}: ends {low} and {high}"));
        self.at_most(&format!("{what}, lower end"), low, point);
        self.at_most(&format!("{what}, upper end"), point, high);
    }

    fn sums_to_one(&mut self, what: &str, shares: &[f64]) {
        let sum: f64 = shares.iter().sum();
        shares.iter().for_each(|share| self.share(what, Some(*share)));
        self.unless(shares.is_empty() || (sum - 1.0).abs() < 1e-6, || {
            format!("{what}: sum {sum} of {shares:?}")
        });
    }

    fn latency(&mut self, what: &str, latency: Option<LatencySummary>) {
        let Some(l) = latency else { return };
        let rising = [l.p50_ns, l.p90_ns, l.p95_ns, l.p99_ns, l.p999_ns, l.max_ns];
        self.unless(l.n > 0 && rising.is_sorted(), || format!("{what}: percentiles {l:?}"));
        self.at_most(&format!("{what}, mean"), l.mean_ns, l.max_ns as f64);
    }

    fn counts(&mut self, what: &str, counts: Counts) {
        self.at_most(&format!("{what}, ended"), counts.ended() as f64, counts.started as f64);
        self.at_most(&format!("{what}, failed"), counts.failed as f64, counts.started as f64);
        self.at_most(&format!("{what}, late"), counts.late as f64, counts.committed as f64);
        self.at_most(&format!("{what}, due"), (counts.started + counts.skipped) as f64, counts.due as f64);
    }

    fn grade(&mut self, what: &str, grade: Grade, findings: &[Finding]) {
        self.at_most(
            &format!("{what}, grade"),
            Grade::from_findings(findings) as u8 as f64,
            grade as u8 as f64,
        );
    }

    /// `used 12 % … on average, at worst 26 % …`: the worst is not better than the mean.
    fn words(&mut self, finding: &Finding) {
        let text = &finding.evidence;
        let number = |before: &str| {
            let words = before.trim_end().strip_suffix('%')?.trim_end();
            words.rsplit(' ').next()?.replace(',', "").parse::<f64>().ok()
        };
        // A difference, unlike a part, may exceed the whole.
        for (at, _) in text.match_indices("% of ").filter(|_| finding.id != "spread") {
            let percent = number(&text[..=at]).unwrap_or(0.0);
            self.unless((0.0..=100.0).contains(&percent), || format!("{}: {text}", finding.id));
        }
        if let Some((mean, worst)) = text.split_once(" on average, at worst ") {
            let mean = mean.split_once('%').and_then(|(before, _)| number(&format!("{before}%")));
            let worst = worst.split_once('%').and_then(|(before, _)| number(&format!("{before}%")));
            let is_possible = mean.zip(worst).is_some_and(|(mean, worst)| mean <= worst);
            self.unless(is_possible, || format!("{}: {text}", finding.id));
        }
    }

    fn run(&mut self, run: &RunSummary) {
        let what = format!("run {}", run.run);
        self.counts(&what, run.counts);
        self.counts(&format!("{what}, in total"), run.total);
        for latency in [run.latency, run.service, run.lag] {
            self.latency(&what, latency);
        }
        let measured: Vec<f64> =
            run.seconds.iter().filter(|second| second.measured).map(|second| second.tps).collect();
        if let (Some(tps), None) = (run.tps, &run.capacity) {
            let best = measured.iter().copied().fold(0.0, f64::max);
            let worst = measured.iter().copied().fold(f64::INFINITY, f64::min);
            self.interval(&format!("{what}, seconds around the throughput"), worst, tps, best);
        }
        for second in &run.seconds {
            let rising = [second.p50_ns, second.p95_ns, second.p99_ns, second.max_ns];
            self.unless(rising.is_sorted(), || format!("{what}, second {}: {rising:?}", second.t));
        }
        let used = &run.resources;
        for share in
            [used.host_busy, used.busiest_cpu, used.steal, used.cache_hit, used.disk_busy, run.fairness]
        {
            self.share(&format!("{what}, resources {used:?}"), share);
        }
        if let (Some(mean), Some(busiest)) = (used.host_busy, used.busiest_cpu) {
            self.at_most(&format!("{what}, host use"), mean, busiest);
        }
        let n_cpus = used.n_cpus.map_or(f64::INFINITY, f64::from);
        for cpu in [used.foreign_cpu, used.server_cpu, used.driver_cpu].into_iter().flatten() {
            self.interval(&format!("{what}, processors"), 0.0, cpu, 1.02 * n_cpus);
        }
        self.sums_to_one(&what, &run.scripts.iter().filter_map(|script| script.share).collect::<Vec<f64>>());
        if let Some(capacity) = &run.capacity {
            let offered =
                capacity.probes.iter().map(|probe| probe.rate_per_s).fold(capacity.ceiling_per_s, f64::max);
            if let Some(rate) = capacity.rate {
                self.interval(&format!("{what}, rate"), rate.low, rate.point, rate.high);
                self.at_most(&format!("{what}, rate and what was offered"), rate.high, offered);
                self.at_most(&format!("{what}, rate"), 0.0, rate.low);
            }
            self.unless(run.tps == capacity.rate.map(|rate| rate.point), || format!("{what}: {:?}", run.tps));
        }
        self.grade(&what, run.grade, &run.findings);
        run.findings.iter().for_each(|finding| self.words(finding));
    }

    fn case(&mut self, case: &CaseSummary, study: &Study) {
        let what = format!("case {}", case.case.id);
        self.at_most(&format!("{what}, runs"), case.n_runs as f64, case.n_started as f64);
        self.latency(&what, case.latency);
        self.latency(&what, case.service);
        case.statements.iter().for_each(|statement| self.latency(&what, Some(statement.service)));
        self.sums_to_one(&what, &case.scripts.iter().filter_map(|script| script.share).collect::<Vec<f64>>());
        if let Some(median) = case.tps_median.filter(|_| case.capacity.is_none()) {
            let least = case.tps.iter().copied().fold(f64::INFINITY, f64::min);
            self.interval(&what, least, median, case.tps.iter().copied().fold(0.0, f64::max));
        }
        for spread in [case.variation.tps, case.variation.per_cpu_s_spread].into_iter().flatten() {
            if let Some([low, high]) = spread.interval {
                self.interval(&format!("{what}, spread"), low, spread.cv, high);
            }
        }
        if let Some(origin) = case.variation.origin {
            let parts = [origin.restarts.unwrap_or(0.0), origin.runs, origin.within];
            self.sums_to_one(&format!("{what}, origin of the variance"), &parts);
        }
        if let Some(capacity) = &case.capacity {
            self.interval(
                &format!("{what}, rate"),
                capacity.rate.low,
                capacity.rate.point,
                capacity.rate.high,
            );
            let of_case = study.runs.iter().filter(|run| run.case == case.case.id && run.n_offered() > 0.0);
            let offered = of_case.map(Offered::n_offered).fold(0.0, f64::max);
            self.at_most(&format!("{what}, rate and what was offered"), capacity.rate.high, offered);
            let n = capacity.n_unreachable + capacity.n_not_limiting;
            self.at_most(&format!("{what}, runs by outcome"), n as f64, capacity.n_runs as f64);
        }
        self.grade(&what, case.grade, &case.findings);
        case.findings.iter().for_each(|finding| self.words(finding));
    }

    fn answer(&mut self, study: &Study) {
        let Some(answer) = answer::factor_answer(study) else { return };
        for level in answer.groups.iter().flat_map(|group| &group.levels) {
            let what = format!("level {}", level.level);
            if let Some((low, high)) = level.interval {
                self.interval(&what, low, level.median, high);
            }
            let Some(against) = level.against_best else { continue };
            self.interval(&format!("{what}, ratio"), against.low, against.ratio, against.high);
            self.share(&what, Some(against.p_adjusted));
            self.at_most(&what, against.n_better as f64, against.n_blocks as f64);
            let excludes_one = against.low > 1.0 || against.high < 1.0;
            let is_within =
                against.low >= 1.0 / (1.0 + MARGIN) - EPSILON && against.high <= 1.0 + MARGIN + EPSILON;
            self.unless(
                match against.standing {
                    LevelStanding::Worse | LevelStanding::ProvisionallyWorse => {
                        excludes_one && against.p_adjusted <= 0.05
                    }
                    LevelStanding::Same => is_within,
                    LevelStanding::Open => true,
                },
                || format!("{what}: {against:?}"),
            );
        }
    }

    fn comparison(&mut self, compared: &CaseComparison, n_blocks: u32) {
        let what = format!("{} against {}", compared.b, compared.a);
        self.at_most(&what, compared.n_pairs as f64, f64::from(n_blocks));
        self.grade(&what, compared.grade, &compared.findings);
        for figure in &compared.figures {
            let Some(ratio) = &figure.result else { continue };
            self.n_ratios += 1;
            let what = format!("{what}, {}", figure.figure.as_str());
            self.interval(&what, ratio.low, ratio.ratio, ratio.high);
            self.share(&what, Some(ratio.p));
            self.share(&what, Some(ratio.p_adjusted));
            self.at_most(&what, ratio.p, ratio.p_adjusted);
            self.unless(ratio.detectable.is_none_or(|share| share > 0.0), || format!("{what}: {ratio:?}"));
            let excludes_one = ratio.low > 1.0 || ratio.high < 1.0;
            let is_within =
                ratio.low >= 1.0 / (1.0 + MARGIN) - EPSILON && ratio.high <= 1.0 + MARGIN + EPSILON;
            self.unless(
                match ratio.verdict {
                    ComparisonVerdict::Faster | ComparisonVerdict::Slower => {
                        excludes_one && ratio.more_pairs.is_none()
                    }
                    ComparisonVerdict::Same => is_within,
                    ComparisonVerdict::Unsure => !is_within && !excludes_one,
                },
                || format!("{what}: {ratio:?}"),
            );
        }
    }
}

/// The highest rate that a search's run was offered.
trait Offered {
    fn n_offered(&self) -> f64;
}

impl Offered for RunSummary {
    fn n_offered(&self) -> f64 {
        let rates = |capacity: &analysis::summary::capacity::Capacity| {
            capacity.probes.iter().map(|probe| probe.rate_per_s).fold(capacity.ceiling_per_s, f64::max)
        };
        self.capacity.as_ref().map_or(0.0, rates)
    }
}

/// Everything that is impossible in an experiment.
fn impossible(data: &ExperimentData) -> Impossible {
    let study = study(data);
    let mut found = Impossible::default();
    study.runs.iter().for_each(|run| found.run(run));
    study.cases.iter().for_each(|case| found.case(case, &study));
    study.findings.iter().for_each(|finding| found.words(finding));
    found.answer(&study);
    if study.cases.len() > 1 {
        let side = |case| ComparedSide { data, study: &study, case };
        let sides: Vec<(ComparedSide, ComparedSide)> =
            (2..=study.cases.len() as u32).map(|b| (side(1), side(b))).collect();
        compare(&sides, MARGIN).iter().for_each(|compared| found.comparison(compared, data.plan.repeats));
    }
    found
}

#[test]
fn the_figures_of_random_experiments_are_possible() {
    let (mut n_runs, mut n_ratios) = (0, 0);
    let mut all = Vec::new();
    for seed in 0..EXPERIMENTS {
        let data = Chance::new(seed).experiment();
        n_runs += data.runs.len();
        let found = impossible(&data);
        n_ratios += found.n_ratios;
        all.extend(found.words.iter().map(|words| format!("seed {seed}: {words}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(n_runs as u64 > 4 * EXPERIMENTS && n_ratios > 20, "only {n_runs} runs, {n_ratios} ratios");
}
