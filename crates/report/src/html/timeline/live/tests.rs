//! What readers of a run under way get, and how much is kept.

use analysis::summary::{ResourceUsage, Second, TelemetrySeries};
use model::experiment::plan::RunState;
use model::load::interval::Counts;

use super::*;

/// The summary of seconds `from` to `to`, with these series of stacked sessions.
fn summary(from: u32, to: u32, sessions: &[&str]) -> RunSummary {
    let second = |t: u32| Second {
        t,
        measured: true,
        tps: 100.0 + f64::from(t),
        errors: 0,
        p50_ns: Some(1_000_000),
        p95_ns: Some(2_000_000),
        p99_ns: Some(3_000_000),
        max_ns: Some(4_000_000),
    };
    let series = |name: &&str| TelemetrySeries {
        panel: "sessions".to_string(),
        name: name.to_string(),
        unit: "sessions".to_string(),
        points: (from..to).map(|t| (f64::from(t) + 0.504, 1.0)).collect(),
    };
    RunSummary {
        run: 1,
        block: 1,
        case: 1,
        repeat: None,
        disturbance: None,
        replaced_by: None,
        state: RunState::Started,
        reason: String::new(),
        course: None,
        go_unix_ns: None,
        measured_s: 1.0,
        counts: Counts::default(),
        total: Counts::default(),
        errors: Vec::new(),
        tps: None,
        capacity: None,
        latency: None,
        service: None,
        lag: None,
        scripts: Vec::new(),
        measures: Vec::new(),
        statements: Vec::new(),
        executions: Vec::new(),
        analytical: None,
        tpcc: None,
        seconds: (from..to).map(second).collect(),
        resources: ResourceUsage::default(),
        costs: Vec::new(),
        outage: None,
        counters: None,
        work: Vec::new(),
        series: sessions.iter().map(series).collect(),
        imported: Vec::new(),
        marks: Vec::new(),
        phases: Vec::new(),
        fairness: None,
        limiter: None,
        top_statements: Vec::new(),
        fidelity: None,
        bounds: Vec::new(),
        findings: Vec::new(),
        grade: analysis::finding::Grade::Valid,
    }
}

fn charts() -> LiveCharts {
    LiveCharts::new(1, "Run 1: 8 clients", (5.0, 3600.0))
}

/// Chart, name and points.
type NamedLine = (String, String, Vec<SeriesPoint>);

/// The points of each line, by chart and name.
fn lines(whole: &str) -> Vec<NamedLine> {
    let run: serde_json::Value = serde_json::from_str(whole).unwrap();
    let panels = run["panels"].as_array().unwrap();
    let of = |panel: &serde_json::Value| {
        let title = panel["title"].as_str().unwrap().to_string();
        let lines = panel["lines"].as_array().unwrap().clone();
        lines.into_iter().map(move |line| {
            let points = serde_json::from_value(line["points"].clone()).unwrap();
            (title.clone(), line["name"].as_str().unwrap().to_string(), points)
        })
    };
    panels.iter().flat_map(of).collect()
}

fn whole(charts: &LiveCharts) -> String {
    match charts.lacking(None) {
        Lacking::Whole(data) => data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_that_appends_has_the_same_points_as_one_that_begins() {
    let mut charts = charts();
    charts.add(&summary(0, 5, &["CPU", "WAL"]), 8);
    let mut has = lines(&whole(&charts));
    let mut reached = charts.reached();
    assert!(matches!(charts.lacking(Some(reached)), Lacking::Nothing));
    for t in 5..60 {
        // Each look sees the last seconds again.
        charts.add(&summary(t - 4, t + 1, &["CPU", "WAL"]), 8);
        let Lacking::More(data) = charts.lacking(Some(reached)) else { panic!("second {t}") };
        let more: serde_json::Value = serde_json::from_str(&data).unwrap();
        for added in more["points"].as_array().unwrap() {
            let at = |i: usize| added[i].as_u64().unwrap() as usize;
            let before: usize = (0..at(0)).map(|panel| [1, 4, 2][panel]).sum();
            has[before + at(1)].2.push((added[2].as_f64().unwrap(), added[3].as_f64()));
        }
        reached = charts.reached();
    }
    assert_eq!(has, lines(&whole(&charts)));
    assert_eq!(has[0].2.len(), 60, "no point twice");
}

#[test]
fn a_line_that_comes_later_is_stacked_on_nothing_before_and_goes_on_at_nothing() {
    let mut charts = charts();
    charts.add(&summary(0, 3, &["CPU"]), 8);
    let before = charts.reached();
    charts.add(&summary(1, 5, &["CPU", "locks"]), 8);
    assert!(matches!(charts.lacking(Some(before)), Lacking::Whole(_)), "the chart has another line");
    charts.add(&summary(3, 7, &["CPU"]), 8);
    let all = lines(&whole(&charts));
    let locks: Vec<Option<f64>> =
        all.iter().find(|(_, name, _)| name == "locks").unwrap().2.iter().map(|(_, value)| *value).collect();
    assert_eq!(locks, [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0].map(Some));
}

#[test]
fn a_long_run_needs_no_more_than_a_short_one_and_a_reader_that_slept_gets_all() {
    let mut charts = charts();
    let mut most = 0;
    let early = charts.reached();
    for t in 0..8000_u32 {
        charts.add(&summary(t.saturating_sub(4), t + 1, &["CPU", "WAL"]), 8);
        let n: usize =
            charts.panels.iter().flat_map(|panel| &panel.lines).map(|line| line.points.len()).sum();
        most = most.max(n);
        assert!(charts.recent.len() <= STEPS_KEPT);
    }
    assert!(most <= 7 * (N_POINTS_MAX + 5), "{most}");
    assert!(matches!(charts.lacking(Some(early)), Lacking::Whole(_)));
    let data = whole(&charts);
    assert!(data.len() < 120_000, "{}", data.len());
    let tps = &lines(&data)[0].2;
    assert_eq!((tps[0].0, tps.last().unwrap().0), (0.5, 7999.5), "from the first second to the last");
}
