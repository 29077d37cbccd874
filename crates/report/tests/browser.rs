//! Opens the page in a browser without a screen: every chart is drawn, nothing fails, the policy is never broken.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod figures;
mod synthetic;

use analysis::finding::Grade;
use analysis::summary::Study;
use analysis::summary::capacity::{
    Capacity, CaseCapacity, ProbeSummary, ProbeVerdict, RateEstimate, SearchOutcome,
};
use model::run::ExperimentData;
use model::run::profile::{ProfileRecord, StoredProfile, unfold};
use report::Input;
use synthetic::Shape;

#[test]
fn a_factor_with_trouble_and_hostile_labels_is_drawn() {
    let title = "</script><script>alert(1)</script>'\"<img src=x onerror=alert(2)>&amp;\u{202e}";
    check("hostile", &Shape { troubled: true, title: title.to_string(), ..Shape::default() });
}

#[test]
fn two_factors_are_drawn() {
    let versions = ["14", "16", "18"].map(str::to_string).to_vec();
    check(
        "versions",
        &Shape { versions, clients: vec![1, 8, 32], n_cpus: 32, repeats: 5, ..Shape::default() },
    );
}

#[test]
fn levels_that_are_not_numbers_are_drawn() {
    let versions = ["sixteen", "eighteen"].map(str::to_string).to_vec();
    check("words", &Shape { versions, clients: vec![8], ..Shape::default() });
}

#[test]
fn profiles_of_two_levels_are_drawn() {
    let versions = ["16", "18"].map(str::to_string).to_vec();
    let (study, mut data) = synthetic::make(&Shape { versions, clients: vec![8], ..Shape::default() });
    let profile = |case, stacks: &str| StoredProfile {
        record: ProfileRecord {
            case,
            event: "cycles".to_string(),
            n_samples: 1000,
            ..ProfileRecord::default()
        },
        stacks: unfold(stacks),
    };
    let name = "</title><script>alert(3)</script>";
    data.profiles = vec![
        profile(1, &format!("main;PostgresMain;XLogFlush 300\nmain;PostgresMain;{name} 700\n")),
        profile(2, "main;BackendMain;PostgresMain;XLogFlush 900\nmain;BackendMain;PostgresMain;f_[k] 100\n"),
    ];
    let page = draws("profiles", &study, &data);
    assert_eq!(
        page.matches("<svg class=\"flame\"").count(),
        4,
        "one of each, and both with their difference"
    );
    assert!(
        page.contains("<title>XLogFlush: 90.0 %, itself 90.0 %, +60.0 points</title><rect class=\"d-up3\"")
    );
    assert!(
        page.contains("<title>PostgresMain: 100.0 %, itself 0.0 %, 0.0 points</title><rect class=\"d-same\"")
    );
    assert!(page.contains("From version 16 to version 18") && !page.contains("<script>alert(3)"));
}

#[test]
fn a_single_second_has_a_mark_in_its_chart_and_in_the_picture_of_its_run() {
    let (study, data) = synthetic::make(&Shape { clients: vec![8], window: (0, 1), ..Shape::default() });
    let document = draws("second", &study, &data);
    let chart =
        document.split("data-chart=\"run-Throughput\"").nth(1).unwrap().split("</svg>").next().unwrap();
    assert_eq!(chart.matches("<path d=\"M1 0A1 1 0 1 1").count(), 1, "a circle: {chart}");
    let picture = document.split("data-run=\"1\"").nth(1).unwrap().split("</svg>").next().unwrap();
    let line = picture.split("<path d=\"M0 ").nth(1).unwrap();
    assert!(line.split('"').next().unwrap().ends_with("H200"), "a line from edge to edge: {picture}");
}

#[test]
fn outages_are_drawn_without_scripts() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![8], repeats: 3, ..Shape::default() });
    synthetic::add_outages(&mut study, true);
    let document = draws("outages", &study, &data);
    let section = document.split("id=\"outages\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(section.matches("<svg class=\"outage\"").count(), 3, "{section}");
    assert_eq!(section.matches(" open=\"\"><summary>").count(), 1, "the others are folded: {section}");
}

#[test]
fn transactions_of_a_workload_directory_are_drawn() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![8], ..Shape::default() });
    synthetic::add_scripts(&mut study);
    let document = draws("transactions", &study, &data);
    let section = document.split("id=\"scripts\"").nth(1).unwrap().split("</section>").next().unwrap();
    for expected in ["Missed takes 0.025", "p99 &lt;= 10.0 ms met", "p99 &lt;= 500 ms MISSED", "0.4 % *"] {
        assert!(section.contains(expected), "{expected}: {section}");
    }
}

#[test]
fn a_single_case_is_drawn() {
    check("single", &Shape { clients: vec![8], window: (5, 20), ..Shape::default() });
}

#[test]
fn a_study_in_which_nothing_counts_is_drawn() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![1, 2], ..Shape::default() });
    for run in &mut study.runs {
        run.grade = Grade::Void;
    }
    for case in &mut study.cases {
        (case.n_runs, case.tps_median, case.tps_cv, case.latency) = (0, None, None, None);
        case.tps.clear();
        case.statements.clear();
        case.grade = Grade::Void;
    }
    draws("void", &study, &data);
    study.runs.clear();
    draws("empty", &study, &data);
}

#[test]
fn a_search_is_drawn_and_described() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![8], ..Shape::default() });
    for (i, run) in study.runs.iter_mut().enumerate() {
        run.capacity = Some(search(if i == 1 { 0 } else { 5 }));
    }
    let rate = RateEstimate { point: 2340.0, low: 2250.0, high: 2410.0 };
    let target = "p99 <= 10ms".parse().unwrap();
    study.cases[0].capacity = Some(CaseCapacity {
        target,
        rate,
        n_runs: 3,
        n_unreachable: 0,
        n_not_limiting: 0,
        n_unconfirmed: 0,
        held_per_s: None,
    });
    draws("search", &study, &data);
    let words = "highest rate with p99 <= 10ms: 2,340/s (interval 2,250 to 2,410/s, 3 runs)";
    assert!(report::terminal_table(&study, 200, false).contains(words));
    let commands = [];
    let input = Input { study: &study, data: &data, commands: &commands, tool_version: "0.1.0" };
    assert!(report::markdown(&input).contains("2,340/s"));
    let csv = report::runs_csv(&study);
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "search").unwrap();
    let told: Vec<Vec<&str>> =
        csv.lines().skip(1).map(|line| line.split(',').skip(column).take(3).collect()).collect();
    let found = vec!["found", "2250", "2410"];
    assert_eq!(told, [found.clone(), vec!["unreachable", "", ""], found]);
    let page = report::html(&input);
    for words in ["misses: transactions pile up", "highest rate with p99 &lt;= 10ms", "p99 when confirmed"] {
        assert!(page.contains(words), "{words}");
    }
}

/// A search of so many probes.
fn search(n_probes: u32) -> Capacity {
    let probe = |i: u32| ProbeSummary {
        from_s: f64::from(3 * i),
        to_s: f64::from(3 * i + 2),
        rate_per_s: 2000.0 + 100.0 * f64::from(i),
        achieved_per_s: 2000.0,
        late: 0.01,
        latency_ns: Some(8_000_000 + 1_000_000 * u64::from(i)),
        latency_low_ns: (i != 2).then_some(7_000_000),
        latency_high_ns: (i != 2).then_some(19_000_000),
        verdict: [ProbeVerdict::Holds, ProbeVerdict::Undecided, ProbeVerdict::Misses][i as usize % 3],
        piles_up: i == 2,
        confirms: i + 1 == n_probes,
    };
    let found = n_probes > 0;
    Capacity {
        target: "p99 <= 10ms".parse().unwrap(),
        outcome: if found { SearchOutcome::Found } else { SearchOutcome::Unreachable },
        rate: found.then_some(RateEstimate { point: 2340.0, low: 2250.0, high: 2410.0 }),
        ceiling_per_s: 4000.0,
        probes: (0..n_probes).map(probe).collect(),
    }
}

#[test]
fn a_comparison_is_drawn() {
    let versions = ["15", "18"].map(str::to_string).to_vec();
    let shape = Shape { versions, clients: vec![8], repeats: 12, window: (5, 20), ..Shape::default() };
    let (study, data) = synthetic::make(&shape);
    let pages = synthetic::comparisons(&study, &data);
    for (name, page) in &pages {
        assert!(page.contains("<p class=\"verdict "), "{name}");
        drawn(name, page);
    }
    assert_eq!(pages.len(), 3);
}

fn check(name: &str, shape: &Shape) {
    let (study, data) = synthetic::make(shape);
    draws(name, &study, &data);
}

fn draws(name: &str, study: &Study, data: &ExperimentData) -> String {
    let commands = ["pgdyno run synthetic.toml".to_string()];
    drawn(name, &report::html(&Input { study, data, commands: &commands, tool_version: "0.1.0" }))
}

/// Every chart of a page is drawn, without an error; returns the document as the browser has it.
fn drawn(name: &str, page: &str) -> String {
    let expected = n_charts(page);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(format!("{name}.html"));
    std::fs::write(&file, page).unwrap();
    let document = testbed::browser::document(&file, directory.path(), &[]);
    let body = document.split("<body").nth(1).unwrap_or_else(|| panic!("{name}: no body in\n{document}"));
    let attributes = body.split('>').next().unwrap();
    assert!(!attributes.contains("data-errors"), "{name}: {attributes}");
    assert!(
        attributes.contains(&format!("data-rendered=\"{expected}\"")),
        "{name}: {expected} expected: {attributes}"
    );
    document
}

/// Charts that the page is to have: those with a place in the document, and those of the run shown first.
fn n_charts(page: &str) -> usize {
    let (markup, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let data: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let first = data["runs"].as_array().unwrap().iter().find(|run| run["run"] == data["first"]);
    let n_panels = first.map_or(0, |run| run["panels"].as_array().unwrap().len());
    markup.matches("<div class=\"chart ").count() + n_panels
}
