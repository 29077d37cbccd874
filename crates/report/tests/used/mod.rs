//! What each run used, in the table of runs.

use analysis::summary::{RemoteResources, ResourceUsage, Study, UnknownFigure};

use crate::page;
use crate::synthetic::{self, Shape};

#[test]
fn what_each_run_used_most_stands_next_to_its_result() {
    let (mut study, data) = synthetic::make(&Shape::default());
    let heads = |study: &Study| {
        let html = page(&(study.clone(), data.clone()));
        let (_, table) = html.split_once("class=\"runs\"").unwrap();
        let (heads, rows) = table.split_once("</thead>").unwrap();
        (heads.to_string(), rows.split("</tr>").next().unwrap().to_string())
    };
    for (n, run) in study.runs.iter_mut().enumerate() {
        // One run was not observed.
        run.resources.disk_reads_per_s = (n > 0).then_some(290.0);
        run.resources.disk_writes_per_s = Some(1_000.0);
    }
    let (of_all, first) = heads(&study);
    let columns = ["Host busy", "Server CPUs", "IOPS", "WAL/s"];
    assert!(columns.iter().all(|column| of_all.contains(column)), "{of_all}");
    assert!(!first.contains("1,290"), "{first}");
    let (_, second) = heads(&{
        study.runs.rotate_left(1);
        study.clone()
    });
    assert!(second.contains("1,290"), "{second}");
    // As an exporter on the server's machine saw it; nothing else was observed.
    for run in &mut study.runs {
        let remote = RemoteResources { busy: Some(0.5), ..RemoteResources::default() };
        run.resources = ResourceUsage { remote: Some(remote), ..ResourceUsage::default() };
    }
    let (of_remote, first) = heads(&study);
    assert!(of_remote.contains("Host busy") && first.contains("50 %"), "{of_remote} {first}");
    assert!(columns[1..].iter().all(|column| !of_remote.contains(column)), "{of_remote}");
}

#[test]
fn what_nobody_knows_is_named_below_the_table_with_its_reason() {
    let (mut study, data) = synthetic::make(&Shape::default());
    assert!(!page(&(study.clone(), data.clone())).contains("Unknown: "), "what is known needs no line");
    for run in study.runs.iter_mut().take(2) {
        let reason = "the server counts them since PostgreSQL 14 <pg_stat_wal>".to_string();
        run.resources.unknown = vec![UnknownFigure { name: "full-page images", reason }];
    }
    let html = page(&(study.clone(), data));
    let expected = "Unknown: full-page images of runs 1, 2: the server counts them since PostgreSQL 14 &lt;pg_stat_wal&gt;.";
    assert!(html.contains(expected), "{}", html.split_once("Unknown").map_or("", |(_, rest)| &rest[..200]));
}
