//! What limited the cases, in every form of the report.

use model::run::profile::{ProfileRecord, StoredProfile, unfold};
use report::Input;

use crate::synthetic::{self, Shape};
use crate::{fields, page};

#[test]
fn tables_name_the_limiter_of_each_case_where_it_fits() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![1, 64], ..Shape::default() });
    study.cases[0].limiter = None;
    let table = |width| report::terminal_table(&study, width, false);
    let line =
        |text: &str, start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_string();
    let wide = table(100);
    assert!(line(&wide, "case ").ends_with("  p99 ms  good to  limiter   mostly from"), "{wide}");
    assert!(line(&wide, "1 client ").ends_with("  -"), "{wide}");
    assert!(line(&wide, "64 clients ").ends_with("  row-lock"), "{wide}");
    assert!(
        line(&table(130), "64 clients ").ends_with("  row-lock  runs differ (2 %), steal (1 %)"),
        "{wide}"
    );
    let narrow = table(70);
    assert!(line(&narrow, "case ").ends_with("  p99 ms  good to  mostly from"), "{narrow}");
    assert!(line(&narrow, "64 clients: ").contains("row-lock (medium confidence)"), "{narrow}");
    let text = report::markdown(&Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows[0].contains("| good to | limiter | mostly from |"), "{text}");
    assert!(rows[2].contains("| - | runs differ (1 %)"), "{text}");
    assert!(rows[3].ends_with("| row-lock | runs differ (2 %), steal (1 %) |"), "{text}");
    let rows = fields(&report::runs_csv(&study));
    let column = rows[0].iter().position(|name| name == "limiter").unwrap();
    let case = rows[0].iter().position(|name| name == "case").unwrap();
    for row in &rows[1..] {
        assert_eq!(row[column], ["offered-load", "row-lock"][usize::from(row[case] == "2")], "{row:?}");
    }
}

#[test]
fn the_strip_has_a_named_row_for_each_group() {
    let strip = |shape: &Shape| {
        let (study, data) = synthetic::make(shape);
        let page = report::html(&Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" });
        let (_, rest) = page.split_once("class=\"strips\">").unwrap();
        rest.split_once("</table>").unwrap().0.to_string()
    };
    let clients = vec![1, 8, 64];
    let one = strip(&Shape { clients: clients.clone(), ..Shape::default() });
    assert_eq!(
        (one.matches("<th scope=\"col\">").count(), one.matches("scope=\"row\"").count()),
        (3, 0),
        "{one}"
    );
    let versions = ["14", "18"].map(str::to_string).to_vec();
    let two = strip(&Shape { versions, clients, ..Shape::default() });
    for part in [
        "<th scope=\"col\">clients</th>",
        "<th scope=\"row\">PostgreSQL 14</th>",
        "<th scope=\"row\">PostgreSQL 18</th>",
    ] {
        assert!(two.contains(part), "{part} is not in {two}");
    }
    assert_eq!(two.matches(">wal-sync</span>").count(), 2, "{two}");
}

#[test]
fn the_change_by_subsystem_has_the_direction_of_the_graphs_and_says_which() {
    let versions = ["16", "18"].map(str::to_string).to_vec();
    let (mut study, mut data) = synthetic::make(&Shape { versions, clients: vec![8], ..Shape::default() });
    let profile = |case, stacks: &str| StoredProfile {
        record: ProfileRecord { case, n_samples: 1000, ..ProfileRecord::default() },
        stacks: unfold(stacks),
    };
    data.profiles = vec![profile(1, "XLogFlush 300\nf_[k] 700\n"), profile(2, "XLogFlush 900\nf_[k] 100\n")];
    for (baseline, head, change) in [
        (1, "Change from version 16 to version 18", "+60.0 points"),
        (2, "Change from version 18 to version 16", "\u{2212}60.0 points"),
    ] {
        study.plan.baseline = baseline;
        let html = page(&(study.clone(), data.clone()));
        let table = html.split(">Time itself<").nth(1).unwrap().split("</table>").next().unwrap();
        assert!(table.contains(head), "{table}");
        let wal = table.split("WAL").nth(1).unwrap().split("</tr>").next().unwrap();
        assert!(wal.contains(change), "{wal}");
    }
}
