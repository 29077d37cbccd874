//! How much runs vary, and where that comes from; and what is shown with the verdict of a comparison.

use analysis::comparison::ComparedFigure;
use analysis::study;
use analysis::summary::variation::{VarianceLevel, Variation};
use model::run::ExperimentData;

use crate::comparison::{compare_cases, pairs};
use crate::quiet::{self, set_committed, set_metric};

/// Runs with a level of throughput each, and the number of the start of their server.
fn runs(of: &[(u64, u32)]) -> ExperimentData {
    let run = |(number, (level, start)): (u32, &(u64, u32))| {
        let mut run = quiet::run(number);
        set_committed(&mut run, 5..35, |t| quiet::tps(t) + level);
        run.record.server.as_mut().unwrap().postmaster_start = format!("2026-11-20 10:0{start}:00+00");
        run
    };
    quiet::experiment(of.len() as u32, (1..).zip(of).map(run).collect())
}

fn variation(data: &ExperimentData) -> Variation {
    study(data).cases[0].variation.clone()
}

#[test]
fn variation_of_restarts_runs_and_seconds_is_distinguished() {
    let restarts = [(0, 1), (6, 1), (100, 2), (104, 2), (210, 3), (205, 3)];
    let data = runs(&restarts);
    let of = variation(&data);
    let origin = of.origin.unwrap();
    assert_eq!(origin.most(), VarianceLevel::Restart, "{origin:?}");
    assert!(origin.restarts.unwrap() > 0.95 && !origin.is_each_restarted);
    let sum = origin.restarts.unwrap() + origin.runs + origin.within;
    assert!((sum - 1.0).abs() < 1e-12, "{origin:?}");
    let tps = of.tps.unwrap();
    let [low, high] = tps.interval.unwrap();
    assert!(low < tps.cv && tps.cv < high && (0.05..0.12).contains(&tps.cv), "{tps:?}");
    let findings = &study(&data).cases[0].findings;
    let found = findings.iter().find(|finding| finding.id == "spread-origin").unwrap();
    assert!(found.evidence.contains("of the variance lies between restarts"), "{found:?}");

    let each = restarts.map(|(level, _)| level).into_iter().zip(1..).collect::<Vec<_>>();
    let origin = variation(&runs(&each)).origin.unwrap();
    assert_eq!((origin.most(), origin.restarts, origin.is_each_restarted), (VarianceLevel::Run, None, true));
    let origin = variation(&runs(&[(0, 1); 4])).origin.unwrap();
    assert_eq!((origin.most(), origin.runs, origin.is_each_restarted), (VarianceLevel::Second, 0.0, false));
}

#[test]
fn work_per_cpu_second_is_reported_where_it_was_measured() {
    let mut data = runs(&[(0, 1), (0, 2), (0, 3)]);
    let of = variation(&data);
    // About 1006 transactions a second by 1.5 processors.
    assert!((660.0..680.0).contains(&of.per_cpu_s.unwrap()), "{of:?}");
    assert!(of.per_cpu_s_spread.unwrap().cv < 1e-6, "{of:?}");
    set_metric(&mut data.runs[1], "server.cpu.user", -10.0, 60.0, 0.5);
    assert!(variation(&data).per_cpu_s_spread.unwrap().cv > 0.1);
    // What one run lacks is not said of the others.
    for tick in &mut data.runs[1].ticks {
        tick.values.retain(|name, _| !name.starts_with("server.cpu"));
    }
    assert_eq!(variation(&data).per_cpu_s, None);
    data.runs.truncate(2);
    assert_eq!(variation(&data), Variation::default());
}

#[test]
fn the_share_that_foreign_cpu_explains_is_reported_with_the_verdict() {
    let quiet = compare_cases(&pairs(12, 1.05));
    assert!(quiet.supplement.without_foreign_cpu.is_none(), "it did not differ: {:?}", quiet.supplement);
    let cpu = quiet.costs.iter().find(|cost| cost.id == "cpu").and_then(|cost| cost.result).unwrap();
    assert!((cpu.ratio - 1.0 / 1.05).abs() < 0.01, "{cpu:?}");

    let mut data = pairs(12, 1.05);
    for (n, run) in data.runs.iter_mut().enumerate() {
        // Neighbours that have nothing to do with the side.
        let taken = 0.05 * ((n * 7 + n / 4) % 5) as f64;
        let committed = run.intervals[10].counts.committed as f64;
        set_committed(run, 0..35, |_| (committed * (1.0 - taken)).round() as u64);
        set_metric(run, "host.cpu.user", -10.0, 60.0, 0.3 + taken);
    }
    let disturbed = compare_cases(&data);
    let plain = disturbed.leading().unwrap();
    let adjusted = disturbed.supplement.without_foreign_cpu.unwrap();
    assert!((adjusted.ratio - 1.05).abs() < 0.02 && adjusted.explained > 0.8, "{adjusted:?}");
    assert!(adjusted.high - adjusted.low < 0.5 * (plain.high - plain.low), "{adjusted:?} {plain:?}");
    // The verdict is that of the plain interval.
    assert_eq!(disturbed.verdict(), Some(plain.verdict));
    let sample = &disturbed.figures[0].sample;
    assert_eq!((disturbed.figures[0].figure, sample.pairs.len()), (ComparedFigure::Throughput, 12));
    assert!(sample.ratios.iter().zip(&sample.a).zip(&sample.b).all(|((r, a), b)| (r - b / a).abs() < 1e-12));
}
