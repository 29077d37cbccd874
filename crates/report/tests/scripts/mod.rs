//! Transactions of several scripts, in every form of the report and of a comparison.

use analysis::comparison::{ComparedSide, MARGIN};
use analysis::explain::compare;
use analysis::summary::{LimitSummary, MeasureSummary, ScriptSummary};
use model::experiment::script::CaseScript;
use model::load::interval::Counts;
use report::{ComparisonInput, Input, Measured};

use crate::synthetic::{self, Shape};
use crate::{HOSTILE, fields, hostile, own_markup};

#[test]
fn several_scripts_have_a_table_of_their_own_in_every_form() {
    let (mut study, mut data) = hostile();
    let script = |name: &str, committed| ScriptSummary {
        name: name.to_string(),
        weight: 3,
        share_planned: Some(0.75),
        share: Some(0.037),
        share_differs: true,
        counts: Counts { committed, failed: 5, expected: 7, ..Counts::default() },
        tps: Some(123.4),
        latency: study.cases[0].latency,
        service: study.cases[0].latency,
        facts: [(HOSTILE.to_string(), 1800)].into(),
        measures: vec![MeasureSummary::new("recall", HOSTILE, 9, 10)],
        limit: Some(LimitSummary {
            percentile: 99.0,
            limit_ns: 1_000_000,
            found_ns: 2_500_000,
            is_met: false,
        }),
    };
    let scripts = vec![script("a.sql", 900), script(HOSTILE, 300)];
    for case in &mut study.cases {
        case.scripts.clone_from(&scripts);
        case.measures = vec![MeasureSummary::new("recall", HOSTILE, 9, 10)];
    }
    let source = "\\set n 1\nSELECT '<img>';\n".to_string();
    let own = CaseScript { name: HOSTILE.into(), weight: 3, sha256: "ab12".into(), source, to: None };
    data.runs.iter_mut().for_each(|run| run.record.case.workload.scripts = vec![own.clone()]);
    let input = Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };

    let page = own_markup(&report::html(&input));
    assert_eq!(page.matches("3.7 %").count(), 2 * study.cases.len(), "each case has its table");
    assert!(page.contains("id=\"scripts\"") && page.contains("ab12") && page.contains("&lt;img&gt;"));
    assert!(!page.contains("<img"), "no script's name or text becomes markup");
    let text = report::markdown(&input);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("3.7 %")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 12), "{text}");
    for width in [80, 120] {
        let terminal = report::terminal_table(&study, width, false);
        assert_eq!(terminal.lines().filter(|line| line.contains("3.7 %")).count(), 2, "{terminal}");
        assert!(terminal.lines().all(|line| line.chars().count() <= width), "{terminal}");
        assert_eq!(terminal.contains("expected"), width == 120, "{terminal}");
        assert!(terminal.contains("a.sql: p99 <= 1.00 ms MISSED: 2.50 ms"), "{terminal}");
        assert!(terminal.contains("differs from the planned share by more than chance allows"), "{terminal}");
    }
    let csv = fields(&report::scripts_csv(&study).unwrap());
    let at = |name: &str| csv[0].iter().position(|head| head == name).unwrap();
    assert_eq!(csv.len(), 1 + 2 * study.cases.len());
    assert_eq!((csv[1][at("script")].as_str(), csv[1][at("expected")].as_str()), ("a.sql", "7"));
    assert_eq!((csv[1][at("measure_recall")].as_str(), csv[1][at("limit_met")].as_str()), ("0.9", "0"));
    let cases = fields(&report::cases_csv(&study));
    assert!(cases[0].iter().any(|head| head == "measure_recall"), "{:?}", cases[0]);
}

#[test]
fn comparisons_name_the_transaction_that_differs_first() {
    let versions = ["15", "18"].map(str::to_string).to_vec();
    let shape = Shape { versions, clients: vec![8], repeats: 12, window: (5, 20), ..Shape::default() };
    let (mut study, data) = synthetic::make(&shape);
    synthetic::add_scripts(&mut study);
    let side = |case| ComparedSide { data: &data, study: &study, case };
    let cases = compare(&[(side(1), side(2))], MARGIN);
    let one = [Measured { name: "x", study: &study, data: &data, commands: &[] }];
    let input = ComparisonInput {
        cases: &cases,
        floor: None,
        experiments: &one,
        commands: &[],
        tool_version: "0.1.0",
    };

    let terminal = report::comparison_text(&cases[0], None, 80, false);
    let markdown = report::comparison_markdown(&input);
    let page = own_markup(&report::comparison_html(&input));
    for text in [&terminal, &markdown, &page] {
        let lower = text.to_lowercase().replace('\n', " ");
        assert!(lower.contains("of 6 scripts, with b: take takes "), "{text}");
        let [take, put] = ["1.91 ms", "0.803 ms"].map(|median| text.find(median).unwrap());
        assert!(take < put, "the one that differs comes first: {text}");
        assert!(text.contains("slower"), "{text}");
    }
    assert!(terminal.contains("\ntake\n"), "one line each is too long here: {terminal}");
    let figures = terminal.split("mean service time").nth(1).unwrap();
    let of_scripts: Vec<&str> = figures.lines().take(14).collect();
    assert!(of_scripts.iter().all(|line| line.chars().count() <= 80), "{terminal}");

    let csv = fields(&report::comparison_csv(&cases));
    let at = |name: &str| csv[0].iter().position(|head| head == name).unwrap();
    let of_kind = |kind: &str| csv.iter().filter(|row| row[at("kind")] == kind).collect::<Vec<_>>();
    assert_eq!((of_kind("figure").len(), of_kind("script").len()), (4, 6));
    let first = of_kind("script")[0];
    assert_eq!((first[at("name")].as_str(), first[at("verdict")].as_str()), ("take", "more"));
    let ratio: f64 = first[at("ratio")].parse().unwrap();
    assert!((1.15..1.25).contains(&ratio), "{ratio}");
    let json = serde_json::to_value(&cases[0]).unwrap();
    assert_eq!(
        (&json["scripts"][0]["name"], &json["scripts"][0]["verdict"]),
        (&"take".into(), &"more".into())
    );
}
