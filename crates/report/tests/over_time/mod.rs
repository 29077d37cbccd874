//! What the page draws over time: all runs on one time line, and of many runs those that say most.

use analysis::finding::{Finding, Severity};
use serde_json::Value;

use crate::synthetic::{self, Shape};
use crate::{data_block, own_markup, page};

fn runs(shape: &Shape, gap_s: u64) -> (String, Vec<Value>) {
    let (mut study, data) = synthetic::make(shape);
    for (run, nth) in study.runs.iter_mut().zip(0..) {
        run.go_unix_ns = Some(1_750_000_000_000_000_000 + nth * gap_s * 1_000_000_000);
    }
    let html = page(&(study, data));
    let runs = data_block(&html)["runs"].as_array().unwrap().clone();
    (html, runs)
}

fn number(run: &Value) -> u64 {
    run["run"].as_u64().unwrap()
}

#[test]
fn runs_back_to_back_have_a_common_time_line() {
    let shape = Shape { clients: vec![8], window: (5, 20), repeats: 3, ..Shape::default() };
    let (html, found) = runs(&shape, 60);
    assert!(html.contains("data-run=\"0\""));
    let all = &found[0];
    assert_eq!((number(all), found.len()), (0, 4));
    // Each load has 26 seconds, of which the sixth to the twenty-fifth are measured.
    let shaded = serde_json::json!([[0, 5], [25, 65], [85, 125], [145, 146]]);
    assert_eq!((&all["shaded"], &all["window"][2]), (&shaded, &serde_json::json!(146)));
    let points = all["panels"][0]["lines"][0]["points"].as_array().unwrap();
    let gaps: Vec<f64> =
        points.iter().filter(|point| point[1].is_null()).map(|point| point[0].as_f64().unwrap()).collect();
    assert_eq!(gaps, [26.0, 86.0, 146.0]);
    let stacked = all["panels"].as_array().unwrap().iter().filter(|panel| panel["palette"] == "share");
    for panel in stacked {
        let lines = panel["lines"].as_array().unwrap();
        let times = |line: &Value| -> Vec<Value> {
            line["points"].as_array().unwrap().iter().map(|point| point[0].clone()).collect()
        };
        assert!(lines.iter().all(|line| times(line) == times(&lines[0])), "{}", panel["title"]);
    }
}

#[test]
fn runs_far_apart_and_single_runs_have_none() {
    for (repeats, gap_s) in [(3, 86_400), (1, 60)] {
        let shape = Shape { clients: vec![8], window: (5, 20), repeats, ..Shape::default() };
        let (html, found) = runs(&shape, gap_s);
        assert!(!html.contains("data-run=\"0\"") && number(&found[0]) == 1, "{repeats} runs");
    }
}

#[test]
fn runs_side_by_side_have_none_and_the_page_says_why() {
    let shape = Shape { clients: vec![8], window: (5, 20), repeats: 3, ..Shape::default() };
    // Each load has 26 seconds.
    for (gap_s, is_one) in [(0, false), (20, false), (26, true)] {
        let (html, found) = runs(&shape, gap_s);
        assert_eq!((html.contains("data-run=\"0\""), number(&found[0]) == 0), (is_one, is_one), "{gap_s} s");
        assert_eq!(html.contains("Runs took place side by side"), !is_one, "{gap_s} s");
    }
}

#[test]
fn of_many_runs_some_are_drawn_in_full_and_of_the_others_the_throughput() {
    let shape = Shape { clients: vec![1, 8, 64], window: (5, 20), repeats: 30, ..Shape::default() };
    let (html, found) = runs(&shape, 60);
    assert!(!html.contains("data-run=\"0\""));
    let (whole, brief): (Vec<&Value>, Vec<&Value>) = found.iter().partition(|run| run["is_whole"] == true);
    assert_eq!((whole.len(), brief.len()), (report::N_DRAWN_MAX, 90 - report::N_DRAWN_MAX));
    assert!(whole.iter().all(|run| run["panels"].as_array().unwrap().len() > 3));
    assert!(brief.iter().all(|run| run["panels"].as_array().unwrap().len() == 1));
    // The run that is shown first is drawn in full.
    let first = data_block(&html)["first"].as_u64().unwrap();
    assert!(whole.iter().any(|run| number(run) == first));
}

#[test]
fn of_a_finding_of_many_runs_some_places_are_listed_and_the_others_counted() {
    let shape = Shape { clients: vec![8], window: (5, 20), repeats: 90, ..Shape::default() };
    let (mut study, data) = synthetic::make(&shape);
    for run in &mut study.runs {
        let evidence = format!("evidence {} of 90", run.run);
        let advice = String::new();
        run.findings =
            vec![Finding { id: "foreign-cpu", severity: Severity::Doubt, evidence, advice, effect: None }];
    }
    let html = own_markup(&page(&(study, data)));
    assert!(html.contains("and 30 more, which <code>pgdyno report DIR --json</code> prints"));
    assert_eq!(html.matches(" of 90</li>").count(), 60);
}

#[test]
fn the_scale_of_small_pictures_is_that_of_what_is_drawn() {
    let (mut study, data) = synthetic::make(&Shape::default());
    for run in &mut study.runs {
        let mut after = run.seconds.last().unwrap().clone();
        (after.t, after.measured, after.tps) = (after.t + 1, false, 7_654_321.0);
        run.seconds.push(after);
    }
    assert!(!own_markup(&page(&(study, data))).contains("0 to 7,654,321 tps"));
}
