//! What every form of the report holds, tried with made-up studies: whole, troubled, empty and hostile.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod attempts;
mod comparisons;
mod headlines;
mod limits;
mod outages;
mod over_time;
mod rates;
mod scripts;
mod synthetic;
mod used;

use std::collections::{BTreeMap, BTreeSet};

use analysis::comparison::{CaseComparison, ComparedSide, ComparisonVerdict, MARGIN, Ratio};
use analysis::explain::compare;
use analysis::summary::Study;
use analysis::summary::capacity::{Capacity, RateEstimate, SearchOutcome};
use analysis::summary::cost::CaseCost;
use model::experiment::origin::MergedFrom;
use model::experiment::target::TargetSpec;
use model::load::Pace;
use model::run::ExperimentData;
use model::run::eyes::HostObserverRecord;
use model::run::server::Setting;
use report::{ComparisonInput, Input, Measured};
use synthetic::Shape;

const HOSTILE: &str =
    "</script><script>alert(1)</script>\" onload='x' | `a`, @all \u{1b}[31m\u{202e}\r\n<img src=x>";

fn hostile() -> (Study, ExperimentData) {
    synthetic::make(&Shape { troubled: true, title: HOSTILE.to_string(), ..Shape::default() })
}

fn page(made: &(Study, ExperimentData)) -> String {
    let commands = [format!("pgdyno run --set title={}", made.0.plan.title)];
    report::html(&Input { study: &made.0, data: &made.1, commands: &commands, tool_version: "0.1.0" })
}

fn data_block(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The charts of run 1; those of all runs on one time line may come before.
fn first_run(block: &serde_json::Value) -> &serde_json::Value {
    block["runs"].as_array().unwrap().iter().find(|run| run["run"] == 1).unwrap()
}

/// The page without its chart library, style and script, which have tests of their own.
fn own_markup(page: &str) -> String {
    let mut text = page.to_string();
    for source in [
        include_str!("../assets/page.js"),
        include_str!("../assets/cases.js"),
        include_str!("../assets/factors.js"),
        include_str!("../assets/capacity.js"),
        include_str!("../assets/time.js"),
        include_str!("../assets/page.css"),
        include_str!("../assets/echarts/echarts.min.js"),
    ] {
        text = text.replace(source, "");
    }
    text
}

#[test]
fn no_label_becomes_markup() {
    let page = page(&hostile());
    let markup = own_markup(&page);
    assert_eq!(markup.matches("<script").count(), 3, "the page's script, the data, the chart library");
    for forbidden in ["<img", "<b>\"", "alert(1)</script>", " onload='", "\u{1b}", "\u{202e}"] {
        assert!(!markup.contains(forbidden), "{forbidden:?}");
    }
    assert!(markup.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "the title is shown as it was written");
    let title = first_run(&data_block(&page))["title"].as_str().unwrap().to_string();
    assert!(title.starts_with("Run 1"), "{title}");
}

#[test]
fn the_page_asks_nothing_of_a_network() {
    let markup = own_markup(&page(&synthetic::make(&Shape::default())));
    for outside in [" src=", "href=\"http", "href=\"//", "url(", "@import", "<link", "<iframe", "<form"] {
        assert!(!markup.contains(outside), "{outside}");
    }
    for attribute in [" onclick", " onload", " onerror", " style="] {
        assert!(!markup.contains(attribute), "{attribute}");
    }
    let policy =
        markup.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert_eq!(policy.matches("'sha256-").count(), 3);
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn the_page_says_everything_that_weighs() {
    let page = own_markup(&page(&synthetic::make(&Shape { troubled: true, ..Shape::default() })));
    let order = [
        "<h1>",
        "<strong>Partial.</strong>",
        "id=\"limits\"",
        "medium confidence",
        "<b>97 %</b> of instants",
        "Limiter by clients",
        "Only lifting a limit proves it",
        "id=\"cases\"",
        "id=\"throughput\"",
        "id=\"findings\"",
        "The server restarted during the load",
        "[server-restarted]",
        "<summary>2 notes</summary>",
        "[checkpoint-in-window]",
        "id=\"latency\"",
        "id=\"time\"",
        "id=\"statements\"",
        "id=\"runs\"",
        "id=\"disclosure\"",
        "AMD EPYC",
        "shared_buffers",
        "pgbench_accounts",
        "epoll",
        "reflink copy",
        "pgdyno run --set",
        "[experiment]",
        "pressure stall information",
    ];
    let mut from = 0;
    for part in order {
        let at = page[from..].find(part).unwrap_or_else(|| panic!("{part} is not in its place"));
        from += at;
    }
    assert!(page.contains("interrupted by SIGINT"));
    assert!(page.contains("hollow: does not count"));
    assert!(
        !page.contains("passfile") && !page.contains("/secret/"),
        "what points to a password is left out"
    );
}

#[test]
fn each_host_that_eyes_looked_at_is_named_with_its_runs() {
    let shape = Shape { clients: vec![1], repeats: 3, ..Shape::default() };
    let (study, mut data) = synthetic::make(&shape);
    let names = ["db1", "db2", "db1"];
    for (run, name) in data.runs.iter_mut().zip(names) {
        run.record.eyes =
            Some(HostObserverRecord { name: name.to_string(), ..HostObserverRecord::default() });
    }
    let page = page(&(study, data));
    for expected in
        ["The host of runs 1, 3 is the server's", "</code> on db1.", "of run 2 is", "</code> on db2."]
    {
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
fn a_merged_study_has_one_column_for_the_origin() {
    let (mut study, _) = synthetic::make(&Shape::default());
    let origin = MergedFrom {
        name: "a".to_string(),
        first: 0,
        last: 99,
        tool_version: "0.1.0".to_string(),
        seed: 1,
        made_unix_ns: 1,
    };
    study.plan.origins = vec![origin];
    for factors in [&[][..], &["origin"]] {
        study.plan.factors.extend(factors.iter().map(|factor| factor.to_string()));
        let csv = report::runs_csv(&study);
        let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        assert_eq!(heads.iter().filter(|head| **head == "origin").count(), 1, "{heads:?}");
    }
}

#[test]
fn throughput_by_clients_is_drawn_once_with_its_law() {
    let versions = || ["15", "18"].map(str::to_string).to_vec();
    for (versions, clients, n_laws) in [
        (vec!["18".to_string()], vec![1, 8, 64], 0),
        (vec!["18".to_string()], vec![1, 2, 4, 8, 16, 32, 64], 1),
        (versions(), vec![1, 2, 4, 8, 16, 32, 64], 2),
    ] {
        let page = page(&synthetic::make(&Shape { versions, clients, ..Shape::default() }));
        let own = own_markup(&page);
        assert_eq!(own.matches("<strong>Throughput by clients").count(), 1);
        assert_eq!(own.contains("dashed: the fitted law"), n_laws > 0);
        let laws = data_block(&page)["scalability"].as_array().unwrap().clone();
        let groups: Vec<u64> = laws.iter().map(|law| law["group"].as_u64().unwrap()).collect();
        assert_eq!(groups, (0..n_laws).collect::<Vec<u64>>());
    }
}

#[test]
fn a_single_run_has_no_chart_of_a_single_dot() {
    for (repeats, is_drawn) in [(1, false), (3, true)] {
        let shape = Shape { clients: vec![8], repeats, ..Shape::default() };
        let page = own_markup(&page(&synthetic::make(&shape)));
        assert_eq!(page.contains("data-chart=\"throughput\""), is_drawn);
    }
}

#[test]
fn notes_are_printed_in_full_only_when_asked() {
    let (study, _) = synthetic::make(&Shape { troubled: true, ..Shape::default() });
    let short = report::terminal_table(&study, 100, false);
    let full = report::terminal_table_in_full(&study, 100, false);
    let [note, doubt] = ["A checkpoint ran during the measurement", "Something else used the processors"];
    assert!(!short.contains(note) && short.contains("2 notes: checkpoint-in-window, closed-loop"), "{short}");
    assert!(full.contains(&format!("{note} [checkpoint-in-window]")), "{full}");
    for text in [short, full] {
        let places: Vec<usize> =
            ["mostly from", doubt, "scalability"].iter().map(|part| text.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "the figures, what spoiled them, the rest: {text}");
    }
}

#[test]
fn long_series_are_thinned_for_the_page_only() {
    let made = synthetic::make(&Shape { clients: vec![8], window: (60, 7200), ..Shape::default() });
    let block = data_block(&page(&made));
    for panel in first_run(&block)["panels"].as_array().unwrap() {
        for line in panel["lines"].as_array().unwrap() {
            let n = line["points"].as_array().unwrap().len();
            let bounds = if panel["palette"] == "heat" { 100..=240 } else { 500..=2000 };
            assert!(bounds.contains(&n), "{} has {n} points", line["name"]);
        }
    }
    let seconds =
        &serde_json::from_str::<serde_json::Value>(&report::json(&made.0)).unwrap()["runs"][0]["seconds"];
    assert_eq!(seconds.as_array().unwrap().len(), 7261);
}

#[test]
fn stacked_lines_share_their_times() {
    let block = data_block(&page(&synthetic::make(&Shape {
        clients: vec![8],
        window: (60, 7200),
        ..Shape::default()
    })));
    let panels = first_run(&block)["panels"].as_array().unwrap();
    let stacked = panels.iter().find(|panel| panel["palette"] == "share").unwrap();
    let times: BTreeSet<String> = stacked["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["points"].as_array().unwrap().iter().map(|point| point[0].to_string()).collect())
        .collect();
    assert_eq!(times.len(), 1);
}

#[test]
fn no_two_cases_look_alike() {
    let (mut study, data) = synthetic::make(&Shape::default());
    let long = |n: usize| format!("version 18, data checksums off, pace closed, {n} clients");
    for (n, case) in study.cases.iter_mut().enumerate() {
        case.label = long(n);
    }
    let table = report::terminal_table(&study, 100, false);
    let input = Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };
    let markdown = report::markdown(&input);
    for n in 0..study.cases.len() {
        assert!(table.contains(&format!("\n  closed, {n} clients  ")), "{table}");
        assert!(markdown.contains(&format!("\n| {} |", long(n))), "{markdown}");
    }
    assert!(!table.contains('…') && !markdown.contains('…'));
}

/// Reads RFC 4180 back.
fn fields(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = csv.chars().peekable();
    while let Some(c) = letters.next() {
        match (c, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => field.push(letters.next().unwrap()),
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut field)),
            ('\r', false) if letters.peek() == Some(&'\n') => {
                letters.next();
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => field.push(c),
        }
    }
    assert!(row.is_empty() && field.is_empty(), "the last line ends");
    rows
}

#[test]
fn no_form_but_json_has_a_character_that_steers_a_terminal_or_reorders_text() {
    let (mut study, data) = hostile();
    study.cases[0].label = HOSTILE.to_string();
    let input = Input { study: &study, data: &data, commands: &[], tool_version: "1.0" };
    let forms = [
        ("terminal", report::terminal_table(&study, 100, false)),
        ("Markdown", report::markdown(&input)),
        ("CSV", report::runs_csv(&study).replace("\r\n", "\n")),
        ("HTML", report::html(&input)),
    ];
    for (name, text) in forms {
        let hidden = text.chars().find(|c| model::text::visible::is_hidden(*c));
        assert_eq!(hidden, None, "{name}");
    }
    let exact: serde_json::Value = serde_json::from_str(&report::json(&study)).unwrap();
    assert!(exact.to_string().contains('\u{202e}'), "JSON is exact");
}

#[test]
fn rows_of_the_table_of_runs_are_whole_and_unrounded() {
    let (mut study, _) = synthetic::make(&Shape { troubled: true, ..Shape::default() });
    study.cases[0].label = HOSTILE.to_string();
    let rows = fields(&report::runs_csv(&study));
    assert_eq!(rows.len(), study.runs.len() + 1);
    let names: BTreeSet<&String> = rows[0].iter().collect();
    assert_eq!(names.len(), rows[0].len(), "no column is there twice");
    for row in &rows {
        assert_eq!(row.len(), rows[0].len());
    }
    let column = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
    for (row, run) in rows[1..].iter().zip(&study.runs) {
        assert_eq!(row[column("tps")].parse::<f64>().ok(), run.tps);
        assert_eq!(row[column("latency_p99_ns")], run.latency.unwrap().p99_ns.to_string());
        let case = study.cases.iter().find(|case| case.case.id == run.case).unwrap();
        let shown =
            case.label.replace("\r\n", "\n").replace('\u{1b}', "\\u{1b}").replace('\u{202e}', "\\u{202e}");
        assert_eq!(row[column("label")], shown);
        assert_eq!(row[column("workload.clients")], case.case.levels["workload.clients"]);
    }
}

#[test]
fn the_terminal_gets_plain_lines_that_fit() {
    let (mut study, _) = hostile();
    study.cases[1].label = HOSTILE.to_string();
    let plain = report::terminal_table(&study, 120, false);
    assert!(!plain.contains('\u{1b}') && !plain.contains('\r') && !plain.contains('\u{202e}'), "{plain}");
    for line in plain.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    assert!(report::terminal_table(&study, 100, true).contains("\u{1b}[33mdoubtful: "));
}

#[test]
fn the_terminal_says_each_finding_once_and_why_runs_are_left_out() {
    let (study, _) = synthetic::make(&Shape { troubled: true, ..Shape::default() });
    let text = report::terminal_table_in_full(&study, 110, false);
    for part in [
        "Peak: 9,880 tps with 32 clients (median of 3 runs, good to ±5 %)",
        "partial: ",
        "doubtful: foreign CPU (1 of 3 runs)",
        "run 11 left out (void: server restarted)",
        "in 7 of 21 runs (2, 5, 8, 11, 14, 17, 20)",
        "in all 21 runs",
        "run 21 left out (partial: interrupted",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(text.matches("Stop what else runs on the host").count(), 1, "{text}");
    for line in report::terminal_table_in_full(&study, 80, false).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn rows_of_the_markdown_table_are_whole() {
    let (study, data) = hostile();
    let text = report::markdown(&Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), study.cases.len() + 2);
    for row in rows {
        assert_eq!(bars(row), 10, "{row}");
    }
    assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    assert!(text.contains("**Partial:**") && text.contains("AMD EPYC"), "{text}");
}

#[test]
fn costs_stand_below_their_heads_in_the_markdown() {
    let (mut study, data) = synthetic::make(&Shape::default());
    for case in &mut study.cases {
        case.costs = vec![CaseCost { id: "wal", median: 512.0, range: None, n_runs: 3 }];
    }
    let text = report::markdown(&Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
    let table = text.split("### What a transaction costs").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows[0], "| case | WAL |");
    assert!(rows[2].ends_with(" | 512 B |"), "{}", rows[2]);
}

#[test]
fn a_baseline_and_prices_are_in_the_markdown() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![1, 8], ..Shape::default() });
    let text =
        |study: &Study| report::markdown(&Input { study, data: &data, commands: &[], tool_version: "0.1.0" });
    let plain = text(&study);
    assert!(!plain.contains("baseline") && !plain.contains("money"), "{plain}");
    study.plan.baseline = 1;
    let medians = [1000.0, 1500.0];
    for (case, tps) in study.cases.iter_mut().zip(medians) {
        case.tps_median = Some(tps);
        case.case.server.target = Some(TargetSpec {
            name: "small".to_string(),
            labels: BTreeMap::from([("disk".to_string(), "nvme".to_string())]),
            price_per_hour: Some(0.5),
            currency: Some("EUR".to_string()),
            ..TargetSpec::default()
        });
    }
    let told = text(&study);
    for line in [
        "| 1 client | 1,000 | 100.0 % | baseline |",
        "| 8 clients | 1,500 | 150.0 % | +50.0 % |",
        "| 8 clients | 0.5 EUR | 365 EUR | 1,500 | 10,800,000 | 0.09259 EUR | efficient; disk nvme |",
    ] {
        assert!(told.contains(line), "{line} in\n{told}");
    }
}

#[test]
fn every_server_of_an_experiment_is_in_the_markdown() {
    let (study, mut data) = synthetic::make(&Shape::default());
    let [first, .., last] = &mut data.runs[..] else { panic!("a shape has several runs") };
    for (run, version, jit) in [(first, "PostgreSQL 17.6", "on"), (last, "PostgreSQL 18.6", "off")] {
        let server = run.record.server.as_mut().unwrap();
        server.version = version.to_string();
        let setting = Setting { value: jit.to_string(), source: "configuration file".to_string() };
        server.settings.insert("jit".to_string(), setting);
    }
    let text = report::markdown(&Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
    for line in [
        "- Server: PostgreSQL 17.6 (fetched build, -O2)\n",
        "- Server: PostgreSQL 18.6 (fetched build, -O2)\n",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line} in\n{text}");
    }
    assert!(text.contains("jit = on or off"), "{text}");
    assert_eq!(text.matches("- Host: ").count(), 1, "{text}");
}

#[test]
fn an_experiment_without_a_run_is_said_to_have_none() {
    let (mut study, mut data) = synthetic::make(&Shape { clients: vec![1, 2], ..Shape::default() });
    study.runs.clear();
    data.runs.clear();
    for case in &mut study.cases {
        (case.n_runs, case.tps_median, case.tps_cv) = (0, None, None);
        (case.latency, case.service, case.grade) = (None, None, analysis::finding::Grade::Void);
        case.tps.clear();
        case.statements.clear();
    }
    let sentence = "No number: no run was started";
    let input = Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };
    for text in [report::html(&input), report::markdown(&input), report::terminal_table(&study, 80, false)] {
        assert!(text.contains(sentence), "{sentence} is missing");
    }
    assert_eq!(fields(&report::runs_csv(&study)).len(), 1);
    assert!(report::json(&study).ends_with("}\n"));
}

/// The search of a run, with a rate or without one.
fn search(rate: Option<f64>) -> Capacity {
    Capacity {
        target: "max with p99 <= 10ms".parse::<Pace>().unwrap().target().unwrap(),
        outcome: if rate.is_some() { SearchOutcome::Found } else { SearchOutcome::Unreachable },
        rate: rate.map(|point| RateEstimate { point, low: 0.9 * point, high: 1.1 * point }),
        ceiling_per_s: 5000.0,
        probes: Vec::new(),
    }
}

#[test]
fn searches_that_disagree_are_reported_the_same_everywhere() {
    let check = |rates: [Option<f64>; 3], expected: &str| {
        let (mut study, data) = synthetic::make(&Shape { clients: vec![8], ..Shape::default() });
        for (run, rate) in study.runs.iter_mut().zip(rates) {
            (run.tps, run.capacity) = (rate, Some(search(rate)));
        }
        let case = &mut study.cases[0];
        (case.tps_median, case.latency, case.capacity) = (None, None, None);
        let input = Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };
        let terminal = report::terminal_table(&study, 200, false);
        let markdown = report::markdown(&input).replace('\\', "").replace("&lt;", "<");
        for text in [terminal.clone(), markdown] {
            assert_eq!(text.matches(expected).count(), 1, "the headline only: {text}");
        }
        assert!(terminal.contains("No number: ") && !terminal.contains("none of"), "{terminal}");
    };
    check([None; 3], "no rate met p99 <= 10ms");
    check([None, Some(1208.0), None], "in 2 of 3 runs no rate met p99 <= 10ms; the other found 1,208/s");
}

#[test]
fn comparisons_name_both_sides_and_what_repeats_them() {
    let versions = ["15", "18"].map(str::to_string).to_vec();
    let shape = Shape { versions, clients: vec![8], repeats: 12, window: (5, 20), ..Shape::default() };
    let (study, data) = synthetic::make(&shape);
    for (name, page) in synthetic::comparisons(&study, &data) {
        for expected in ["<dt class=\"c0\">A</dt><dd>version 15", "pgdyno compare --a server.version=15"] {
            assert!(page.contains(expected), "{name}: {expected}");
        }
        assert!(!page.contains("<monday>") && !page.contains("pgdyno run"), "{name}");
        assert_eq!(page.contains("Noise floor of bench1"), name != "duet", "{name}");
        assert_eq!(page.contains("results/&lt;monday&gt;"), name == "apart", "{name}");
    }
}

#[test]
fn without_a_baseline_versions_are_compared_at_the_same_number_of_clients() {
    let versions = vec!["15".to_string(), "18".to_string()];
    let (study, data) = synthetic::make(&Shape { versions, clients: vec![2, 8], ..Shape::default() });
    let page = page(&(study, data));
    let section = page.split("Against a baseline").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(
        section.contains(
            "In per cent of the case with PostgreSQL version 15 and otherwise the same levels, because the experiment names no baseline."
        ),
        "{section}"
    );
    assert_eq!(section.matches(">baseline<").count(), 2, "one for each number of clients: {section}");
}

#[test]
fn a_change_against_the_medians_is_explained_in_every_form() {
    let (study, data) = synthetic::make(&Shape { clients: vec![8, 16], ..Shape::default() });
    let side = |case| ComparedSide { data: &data, study: &study, case };
    let mut cases = compare(&[(side(1), side(2))], MARGIN);
    let one = [Measured { name: "x", study: &study, data: &data, commands: &[] }];
    let forms = |cases: &[CaseComparison]| {
        let input =
            ComparisonInput { cases, floor: None, experiments: &one, commands: &[], tool_version: "0.1.0" };
        [
            report::comparison_text(&cases[0], None, 100, false),
            report::comparison_markdown(&input),
            report::comparison_html(&input),
        ]
    };
    let why = "so it can disagree with the two medians";
    assert!(forms(&cases).iter().all(|text| !text.contains(why)));
    let figure = &mut cases[0].figures[0];
    figure.result = Some(Ratio {
        ratio: 1.028,
        low: 1.01,
        high: 1.05,
        level: 0.95,
        verdict: ComparisonVerdict::Faster,
        p: 0.01,
        p_adjusted: 0.01,
        detectable: None,
        more_pairs: None,
    });
    (figure.a_median, figure.b_median) = (Some(2470.0), Some(2389.0));
    for text in forms(&cases) {
        assert!(text.contains(why), "{text}");
    }
}
