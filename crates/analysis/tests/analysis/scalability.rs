//! The scalability law through the medians of cases, and when there is none.

use analysis::case::scalability::of_cases;
use analysis::study;
use analysis::summary::CaseSummary;
use analysis::summary::scalability::Scalability;

use crate::quiet;

/// Cases with these numbers of clients and the throughput of their runs.
fn cases(levels: &[(u32, Vec<f64>)]) -> Vec<CaseSummary> {
    let base = study(&quiet::experiment(1, vec![quiet::run(1)])).cases.into_iter().next().unwrap();
    let case = |(n, tps): &(u32, Vec<f64>)| {
        let mut case = base.clone();
        case.case.workload.n_clients = *n;
        case.case.levels = [("workload.clients".to_string(), n.to_string())].into();
        (case.tps_median, case.tps) = (stats::median(tps), tps.clone());
        case
    };
    levels.iter().map(case).collect()
}

fn one(levels: &[(u32, Vec<f64>)]) -> Scalability {
    of_cases(&cases(levels)).into_iter().next().unwrap()
}

/// Three runs, 1 % apart, of a server with these parameters.
fn runs(n: u32, sigma: f64, kappa: f64) -> (u32, Vec<f64>) {
    let clients = f64::from(n);
    let tps = 1000.0 * clients / (1.0 + sigma * (clients - 1.0) + kappa * clients * (clients - 1.0));
    (n, vec![0.99 * tps, tps, 1.01 * tps])
}

#[test]
fn the_law_is_recovered_with_intervals_around_it() {
    let found = one(&[1, 4, 16, 64, 128].map(|n| runs(n, 0.05, 0.0004)));
    let fit = found.fit.unwrap();
    let near = |figure: analysis::summary::scalability::EstimatedFigure, truth: f64| {
        let (low, high) = figure.interval.unwrap();
        assert!((figure.point / truth - 1.0).abs() < 1e-6, "{figure:?} is not {truth}");
        assert!(low < truth && truth < high, "{figure:?} around {truth}");
    };
    near(fit.lambda, 1000.0);
    near(fit.sigma, 0.05);
    near(fit.kappa, 0.0004);
    near(fit.peak_clients.unwrap(), (0.95f64 / 0.0004).sqrt());
    assert!(
        fit.explained > 0.999 && fit.worst.1.abs() < 1e-6 && found.remarks.is_empty(),
        "{:?}",
        found.remarks
    );
    assert!(fit.curve[0].0 == 1.0 && (fit.curve.last().unwrap().0 - 128.0).abs() < 1e-9);
}

#[test]
fn the_limits_of_the_scalability_law_are_stated() {
    let remark = |levels: &[(u32, Vec<f64>)], expected: &str, fits: bool| {
        let found = one(levels);
        assert_eq!(found.fit.is_some(), fits, "{found:?}");
        assert!(
            found.remarks.iter().any(|remark| remark.contains(expected)),
            "{:?}: {expected}",
            found.remarks
        );
    };
    remark(&[1, 4, 16].map(|n| runs(n, 0.05, 0.0004)), "needs at least 4 client counts", false);
    remark(&[1, 4, 16, 64].map(|n| runs(n, 0.05, 0.0)), "kappa is at its bound of 0", true);
    remark(&[1, 2, 4, 8].map(|n| runs(n, 0.05, 0.0004)), "beyond the 8 clients", true);
    let falls = [(1, 100.0), (2, 80.0), (4, 60.0), (8, 40.0)].map(|(n, tps)| (n, vec![tps]));
    remark(&falls, "no peak: sigma is 1 or more, throughput drops from the first client on", true);
    let late = [(64, 1000.0), (128, 800.0), (256, 560.0), (512, 340.0)].map(|(n, tps)| (n, vec![tps]));
    remark(&late, "below the 64 clients", true);
    let single = [1, 4, 16, 64].map(|n| (n, vec![runs(n, 0.05, 0.0004).1[1]]));
    remark(&single, "no intervals: fewer than 8 runs in total beyond the first", true);
    let jagged =
        [(1, 1000.0), (4, 200.0), (16, 1500.0), (64, 150.0), (128, 1400.0)].map(|(n, tps)| (n, vec![tps]));
    remark(&jagged, "no law fitted: it would explain", false);
    let dented =
        [(1, 1000.0), (4, 3400.0), (16, 9000.0), (32, 6500.0), (64, 8600.0)].map(|(n, tps)| (n, vec![tps]));
    remark(&dented, "above the median of 32 clients", true);
}

#[test]
fn without_a_factor_of_clients_there_is_no_curve() {
    let study = study(&quiet::experiment(1, vec![quiet::run(1)]));
    assert!(study.scalability.is_empty());
}
