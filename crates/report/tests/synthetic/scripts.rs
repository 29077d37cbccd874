//! A queue of six transactions, as a workload directory has them: facts, a measure, limits, one that fails at times.

use analysis::summary::{LimitSummary, MeasureSummary, RunSummary, ScriptSummary, Study};
use model::experiment::case::directory::WorkloadDirectory;
use model::load::interval::Counts;

use super::{Random, latency};

/// Name, weight, and mean service time in milliseconds.
const SCRIPTS: [(&str, u32, f64); 6] = [
    ("put", 40, 0.8),
    ("take", 38, 1.9),
    ("finish", 12, 0.9),
    ("look-at-the-oldest-of-all-jobs", 6, 0.4),
    ("count-jobs-by-state", 3, 41.0),
    ("sweep", 1, 260.0),
];

/// Gives all runs and cases these transactions; those of case 2 take 1.2 times as long where they are `take`.
pub(crate) fn add_scripts(study: &mut Study) {
    let mut random = Random(11);
    for run in &mut study.runs {
        run.scripts = of_run(run, &mut random);
        run.measures = vec![missed(&run.scripts)];
    }
    for case in &mut study.cases {
        let of_case = study.runs.iter().find(|run| run.case == case.case.id);
        case.scripts = of_case.map_or(Vec::new(), |run| run.scripts.clone());
        case.measures = vec![missed(&case.scripts)];
        let name = "queue".to_string();
        case.case.workload.directory =
            Some(Box::new(WorkloadDirectory { name, ..WorkloadDirectory::default() }));
    }
}

fn missed(scripts: &[ScriptSummary]) -> MeasureSummary {
    let sum = |fact: &str| scripts.iter().filter_map(|script| script.facts.get(fact)).sum();
    MeasureSummary::new("missed", "missed takes", sum("missed"), sum("asked"))
}

fn of_run(run: &RunSummary, random: &mut Random) -> Vec<ScriptSummary> {
    let script = |(n, (name, weight, mean_ms)): (usize, &(&str, u32, f64))| {
        let slow = if *name == "take" && run.case == 2 { 1.2 } else { 1.0 };
        let mean_ns = 1e6 * mean_ms * slow * random.around(1.0, 0.015);
        let share = if n == 5 { 0.004 } else { f64::from(*weight) / 100.0 };
        let committed = (share * run.counts.committed as f64) as u64;
        let (expected, retried) = if *name == "take" { (committed / 50, committed / 200) } else { (0, 0) };
        let times = latency(mean_ns, committed, random);
        let limit = |limit_ns| LimitSummary {
            percentile: 99.0,
            limit_ns,
            found_ns: times.p99_ns,
            is_met: times.p99_ns <= limit_ns,
        };
        let facts = if *name == "take" {
            [("asked".to_string(), committed), ("missed".to_string(), committed / 40)].into()
        } else {
            Default::default()
        };
        ScriptSummary {
            name: name.to_string(),
            weight: *weight,
            share_planned: Some(f64::from(*weight) / 100.0),
            share: Some(share),
            share_differs: n == 5,
            counts: Counts {
                committed,
                started: committed + expected,
                expected,
                retried,
                ..Counts::default()
            },
            tps: Some(committed as f64 / run.measured_s),
            latency: Some(times),
            service: Some(times),
            measures: Vec::new(),
            facts,
            limit: match *name {
                "take" => Some(limit(10_000_000)),
                "sweep" => Some(limit(500_000_000)),
                _ => None,
            },
        }
    };
    SCRIPTS.iter().enumerate().map(script).collect()
}
