//! Many series, two numeric factors, and targets with labels and prices: drawn, distinguished, and placed without overlap.

use std::collections::BTreeSet;

use analysis::summary::Study;
use model::experiment::target::TargetSpec;
use model::run::ExperimentData;

use crate::synthetic::{self, Shape};
use crate::{drawn, draws};

/// Pixels from one name at the end of a line to the next.
const END_HEIGHT: f64 = 17.0;

fn made(groups: &[&str], clients: &[u32]) -> (Study, ExperimentData) {
    let versions = groups.iter().map(ToString::to_string).collect();
    synthetic::make(&Shape { versions, clients: clients.to_vec(), window: (2, 5), ..Shape::default() })
}

/// Makes the versions of a study levels of another factor.
fn renamed(study: &mut Study, key: &str) {
    let rename = |levels: &mut std::collections::BTreeMap<String, String>| {
        let level = levels.remove("server.version").unwrap();
        levels.insert(key.to_string(), level);
    };
    for case in &mut study.cases {
        rename(&mut case.case.levels);
        case.label = case.case.label();
    }
    study.plan.cases.iter_mut().for_each(|case| rename(&mut case.levels));
    study
        .plan
        .factors
        .iter_mut()
        .filter(|factor| *factor == "server.version")
        .for_each(|f| *f = key.to_string());
}

/// The number before `px` after `property`, of each element whose markup contains `class`.
fn pixels(document: &str, class: &str, property: &str) -> Vec<f64> {
    let elements = document.split('<').filter(|element| element.contains(class));
    elements
        .map(|element| {
            let value = element.split(&format!("{property}: ")).nth(1).unwrap().split("px").next().unwrap();
            value.parse().unwrap()
        })
        .collect()
}

#[test]
fn twelve_ordered_levels_have_names_at_their_lines_and_a_scale_of_colours() {
    let levels = ["9.5", "9.6", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"];
    let (study, data) = made(&levels, &[1, 8, 32, 64]);
    let document = draws("ordered", &study, &data);
    let mut tops = pixels(&document, "class=\"end\"", "top");
    assert_eq!(tops.len(), levels.len());
    tops.sort_by(f64::total_cmp);
    for pair in tops.windows(2) {
        assert!(pair[1] - pair[0] >= END_HEIGHT - 0.01, "names overlap: {tops:?}");
    }
    for step in 0..12 {
        assert!(document.contains(&format!("<i class=\"o{step}\"")), "step {step} is unused");
    }
}

#[test]
fn many_unordered_levels_have_panels_of_their_own_and_no_more_hues_than_readers_distinguish() {
    let names: Vec<String> = ('a'..='t').map(|c| format!("name-{c}")).collect();
    let (mut study, data) = made(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[1, 8, 32]);
    renamed(&mut study, "factors.build");
    let document = draws("unordered", &study, &data);
    assert_eq!(document.matches("data-chart=\"throughput-").count(), 20);
    let (_, rest) = document.split_once("id=\"data\">").unwrap();
    let page: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let groups = page["axis"]["groups"].as_array().unwrap();
    for panel in 0..20 {
        let hues: BTreeSet<&str> = groups
            .iter()
            .filter(|group| group["panel"] == panel)
            .map(|group| group["colour"].as_str().unwrap())
            .collect();
        assert!((1..=8).contains(&hues.len()), "panel {panel}: {hues:?}");
    }
}

#[test]
fn two_numeric_factors_are_a_matrix_bars_and_progressions() {
    let (mut study, data) = made(&["100", "200", "400", "800", "1600"], &[1, 2, 4, 8, 16, 32]);
    renamed(&mut study, "workload.transactions");
    let document = draws("pair", &study, &data);
    let section = document.split_once("<h3>Clients and transactions</h3>").unwrap().1;
    let matrix = section.split_once("class=\"matrix\">").unwrap().1.split_once("</table>").unwrap().0;
    assert_eq!(matrix.matches("<td class=\"h").count(), 30, "a figure in each cell");
    assert_eq!(matrix.matches(" most\"").count(), 1);
    assert_eq!(section.matches("data-chart=\"progress-").count(), 6);
    assert_eq!(section.matches("data-chart=\"pairbars-").count(), 1);
    assert!(section.contains("<strong>All runs</strong>"), "one target: a box of all runs");
    assert!(!section.contains("One panel for each level"), "the progressions say it");
    // Versions look like numbers and are none.
    let (study, data) = made(&["16", "17", "18"], &[1, 8, 32]);
    assert!(!draws("versions", &study, &data).contains("class=\"matrix\""));
}

#[test]
fn targets_are_grouped_by_their_labels_and_drawn_against_their_prices() {
    let names = ["a-s", "a-l", "b-s", "b-l"];
    let (mut study, data) = made(&names, &[1, 8]);
    renamed(&mut study, "target");
    let target_of = |name: &str| {
        let (provider, size) = name.split_once('-').unwrap();
        let labels = [
            ("provider", provider.to_string()),
            ("region", format!("{provider}-west")),
            ("size", if size == "s" { "small" } else { "large" }.to_string()),
        ];
        Some(TargetSpec {
            name: name.to_string(),
            labels: labels.map(|(key, value)| (key.to_string(), value)).into(),
            price_per_hour: Some(if size == "s" { 0.25 } else { 1.0 }),
            currency: Some("EUR".to_string()),
            ..TargetSpec::default()
        })
    };
    for case in &mut study.cases {
        case.case.server.target = target_of(&case.case.levels["target"]);
    }
    study.plan.cases = study.cases.iter().map(|case| case.case.clone()).collect();
    let document = draws("targets", &study, &data);
    let bars = document.split_once("Targets by provider, region, size").unwrap().1;
    for expected in
        ["Size small, clients 1", "Size large, clients 8", "<th colspan=\"3\" scope=\"rowgroup\">a</th>"]
    {
        assert!(bars.contains(expected), "{expected}");
    }
    assert!(document.contains("data-chart=\"prices\"") && bars.contains("efficient; "));
    let cases = report::cases_csv(&study);
    let head = cases.lines().next().unwrap();
    for column in ["target.provider,target.region,target.size,", ",price_per_hour,currency,cost_per_million,"]
    {
        assert!(head.contains(column), "{column} in {head}");
    }
    assert!(
        report::runs_csv(&study)
            .lines()
            .next()
            .unwrap()
            .contains("target.provider,target.region,target.size,")
    );
}

/// Places of names, as the page's script finds them: a table of its functions' results.
#[test]
fn names_are_placed_next_to_what_they_name_without_overlap() {
    let highest = "const highest = (xs) => xs.reduce((a, b) => Math.max(a, b), -Infinity);";
    let source = [include_str!("../../assets/lines.js"), include_str!("../../assets/pairs.js")].concat();
    let cases = [
        ("spread([10, 50, 90], 10, 0, 100)", "[10,50,90]"),
        ("spread([50, 50], 10, 0, 100)", "[45,55]"),
        ("spread([52, 50, 51], 10, 0, 100)", "[61,41,51]"),
        ("spread([0, 1], 10, 0, 100)", "[0,10]"),
        ("spread([100, 99, 98], 10, 0, 100)", "[100,90,80]"),
        ("spread([40, 49, 70], 10, 0, 100)", "[39.5,49.5,70]"),
        ("spread([1, 2, 3, 4], 10, 0, 20)", "null"),
        (
            "nextTo([{x: 50, y: 50, name: 'a'}], () => 20, 10, {x: 0, y: 0, width: 100, height: 100})",
            "[[57,36,77,46]]",
        ),
        // No room at the right: the left.
        (
            "nextTo([{x: 90, y: 50, name: 'a'}], () => 20, 10, {x: 0, y: 0, width: 100, height: 100})",
            "[[61,45,81,55]]",
        ),
        // A name that has no free place is left out.
        (
            "nextTo([{x: 50, y: 50, name: 'a'}], () => 200, 10, {x: 0, y: 0, width: 100, height: 100})",
            "[null]",
        ),
    ];
    let lines: String = cases.iter().map(|(call, _)| format!("out.push(JSON.stringify({call}));")).collect();
    let page = format!(
        "<!doctype html><body><script>{highest}{source}const out = [];{lines}\
         document.body.dataset.out = out.join('|');</script></body>"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("places.html");
    std::fs::write(&file, page).unwrap();
    let document = testbed::browser::document(&file, directory.path(), &[]);
    let found = document.split("data-out=\"").nth(1).unwrap().split('"').next().unwrap();
    let expected: Vec<&str> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(found.split('|').collect::<Vec<_>>(), expected);
}

/// The page that a reader of a small screen with a keyboard has.
#[test]
fn a_name_that_has_the_focus_lights_up_its_lines() {
    let (study, data) = made(&["9.6", "12", "15", "18"], &[1, 8, 32, 64]);
    let commands = [];
    let input = report::Input { study: &study, data: &data, commands: &commands, tool_version: "0.1.0" };
    let page = report::html(&input);
    let plain = drawn("plain", &page);
    assert!(!plain.contains("class=\"end dim\""));
    // The policy allows only the page's own scripts.
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let focus = "<script>addEventListener('load', () => document.querySelectorAll('.end')[1].focus());</script></body>";
    let focused = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", focus);
    let document = drawn("focused", &focused);
    assert_eq!(document.matches("class=\"end dim\"").count(), 3, "the other three step back");
    assert_eq!(
        document.matches("class=\"key dim\"").count(),
        3,
        "so do their names in the charts of latency"
    );
}
