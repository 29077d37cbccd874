//! Outages in every form of the report.

use analysis::comparison::{ComparedSide, FamilyRatio, FamilyVerdict, OutageComparison, OutageFigureName};
use analysis::explain::compare;
use analysis::summary::Study;
use model::run::ExperimentData;

use crate::synthetic::{self, Shape};
use crate::{HOSTILE, own_markup, page};

fn made(loses: bool) -> (Study, ExperimentData) {
    let shape = Shape { clients: vec![8], repeats: 6, ..Shape::default() };
    let (mut study, data) = synthetic::make(&shape);
    synthetic::add_outages(&mut study, loses);
    (study, data)
}

#[test]
fn the_first_sentence_says_how_long_writes_were_out_and_what_was_lost() {
    let none = "No writes for 3.00 s (median of 6, 2.40 to 3.60 s); 2.90 s of service lost; no commit lost in 6 outages (so, with 95 % \
                confidence, at most 40 % of such outages lose any)";
    assert_eq!(report::headline(&made(false).0), none);
    let some = report::headline(&made(true).0);
    assert!(some.contains("; commits lost in 1 of 6 outages (37)"), "{some}");

    let (mut study, _) = made(false);
    for run in &mut study.runs {
        run.outage.as_mut().unwrap().commits = Default::default();
    }
    let outages = study.cases[0].outages.as_mut().unwrap();
    outages.loss = Default::default();
    (outages.write_outage.median.is_at_least, outages.write_outage.max.is_at_least) = (true, true);
    let unknown = report::headline(&study);
    assert!(
        unknown.starts_with("No writes for at least 3.00 s (median of 6, 2.40 to ≥ 3.60 s)"),
        "{unknown}"
    );
    assert!(unknown.contains("whether commits were lost is unknown"), "{unknown}");
    let csv = report::runs_csv(&study);
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "commits_lost").unwrap();
    assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(column), Some(""), "unknown is not 0");
}

#[test]
fn every_form_has_each_outage() {
    let (study, data) = made(true);
    let text = report::terminal_table(&study, 110, false);
    let one_line = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert_eq!(one_line.matches("of WAL after a checkpoint: no writes for").count(), 6, "{text}");
    assert!(
        one_line.contains("37 of 12,345 commits lost, 3 unknown and present, 5 unknown and absent"),
        "{text}"
    );
    let markdown =
        report::markdown(&report::Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
    assert!(
        markdown.contains("### Outages") && markdown.contains("| 37 of 12,345 | 0.410 to 0.00200 |"),
        "{markdown}"
    );
    let csv = report::runs_csv(&study);
    assert!(
        csv.lines()
            .next()
            .unwrap()
            .contains(",write_outage_s,outage_outlasts_load,outage_onset_s,lost_service_s,"),
        "{csv}"
    );
    assert!(report::cases_csv(&study).contains("loss_chance_below"));
    assert!(report::json(&study).contains("\"write_outage\":{\"s\":2.4,\"is_at_least\":false}"));

    let page = page(&(study, data));
    let own = own_markup(&page);
    assert!(own.contains("<section id=\"outages\"") && own.matches("<svg class=\"outage\"").count() == 6);
    assert!(
        own.contains("service back 2.40 s")
            && own.contains("All other sections are about the time before the fault")
    );
    assert!(!crate::page(&synthetic::make(&Shape::default())).contains("id=\"outages\""));
}

#[test]
fn one_outage_has_no_range_and_what_nobody_read_is_unknown() {
    let words = |repeats: u32, change: fn(&mut Study)| {
        let (mut study, data) = synthetic::make(&Shape { clients: vec![8], repeats, ..Shape::default() });
        synthetic::add_outages(&mut study, false);
        change(&mut study);
        let text = report::terminal_table(&study, 110, false);
        (text.split_whitespace().collect::<Vec<&str>>().join(" "), page(&(study, data)))
    };
    let (_, several) = words(6, |_| {});
    assert!(several.contains("between which the median of all such outages lies with 97 %."));
    let (text, one) = words(1, |study| {
        let outage = study.runs[0].outage.as_mut().unwrap();
        outage.onset_s = Some(8.2);
        outage.commits.counted.as_mut().unwrap().of_two_primaries = None;
    });
    assert!(one.contains("One outage has a value, and no range.") && !one.contains("of all such outages"));
    assert!(text.contains(" from 8.20 s after it on ("), "{text}");
    assert!(text.contains(", on a second primary alone unknown"), "{text}");
}

#[test]
fn names_of_steps_are_text() {
    let (mut study, data) = made(false);
    for run in &mut study.runs {
        let outage = run.outage.as_mut().unwrap();
        outage.fault = HOSTILE.to_string();
        outage.marks.iter_mut().for_each(|mark| mark.text = HOSTILE.to_string());
    }
    let page = page(&(study, data));
    assert!(!own_markup(&page).contains("<script>alert(1)") && !page.contains("<img src=x>"));
}

#[test]
fn outages_stand_in_comparisons_with_their_verdict() {
    let (study, data) = synthetic::make(&Shape {
        versions: vec!["15".to_string(), "18".to_string()],
        clients: vec![8],
        repeats: 8,
        ..Shape::default()
    });
    let side = |case| ComparedSide { data: &data, study: &study, case };
    let mut cases = compare(&[(side(1), side(2))], 0.02);
    let ratio =
        FamilyRatio { ratio: 0.7, low: 0.66, high: 0.74, p: 1e-4, p_adjusted: 2e-4, detectable: None };
    cases[0].outages = vec![OutageComparison {
        figure: OutageFigureName::WriteOutage,
        a_median_s: 3.0,
        b_median_s: 2.1,
        n_pairs: 8,
        margin: 0.1,
        has_bounds: false,
        result: Some(ratio),
        verdict: Some(FamilyVerdict::Less),
    }];
    let text = report::comparison_text(&cases[0], None, 100, false);
    assert!(text.contains("the write outage of B is 30 % (±4.0) shorter"), "{text}");
    assert!(text.contains("write outage") && text.contains("-30.0 % (-34.0 to -26.0 %)  shorter"), "{text}");
    let csv = report::comparison_csv(&cases);
    assert!(csv.contains(",outage,write_outage,s,3,2.1,8,0.7,"), "{csv}");
}
