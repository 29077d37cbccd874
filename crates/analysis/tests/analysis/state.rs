//! Findings about the data that runs began with, where the table of `experiments.rs` has no room for a story.

use std::collections::BTreeMap;

use analysis::finding::Severity;
use analysis::study;
use model::experiment::case::ServerSource;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::script::CaseData;
use model::run::ExperimentData;

use crate::disturbances::restore_says;
use crate::experiments::{begin_with, quiet_experiment};
use crate::findings::findings_of;
use crate::quiet;

#[test]
fn where_nothing_can_be_restored_other_data_is_a_note_with_advice_that_helps() {
    let mut data = quiet_experiment();
    begin_with(&mut data, &[100, 101, 102], &[8192, 8192, 8192]);
    data.runs.iter_mut().for_each(|run| run.record.case.workload.data = CaseData::None);
    let of = |data: &ExperimentData| {
        study(data).findings.into_iter().find(|finding| finding.id == "data-differs").unwrap()
    };
    assert_eq!(of(&data).severity, Severity::Void, "a server that pgdyno runs is put back as a whole");
    data.runs.iter_mut().for_each(|run| run.record.case.server.source = ServerSource::Url(BTreeMap::new()));
    assert_eq!(of(&data).severity, Severity::Note);
    assert!(of(&data).advice.contains("workload.data"), "{}", of(&data).advice);
}

#[test]
fn runs_that_begin_alike_are_not_distinguished() {
    let mut data = quiet_experiment();
    begin_with(&mut data, &[100, 100, 100], &[8192, 8192, 8192]);
    let ids: Vec<&str> = study(&data).findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["closed-loop"]);
}

#[test]
fn a_lost_page_cache_is_forgiven_if_the_data_was_read_again() {
    let of = |prewarm: bool, restored_again: bool| {
        let mut data = quiet::run(1);
        data.record.case.prepare.prewarm = prewarm;
        restore_says(&mut data, "page_cache_lost_bytes", "242221056");
        if restored_again {
            restore_says(&mut data, "restored_again_seconds", "1.250");
        }
        findings_of(data).iter().filter(|finding| finding.id == "page-cache-lost").count()
    };
    assert_eq!([of(true, false), of(false, true), of(false, false)], [0, 0, 1]);
}

#[test]
fn data_that_is_made_under_other_settings_may_have_other_sizes_but_no_other_rows() {
    let of = |rows: [u64; 3], sizes: [u64; 3]| {
        let mut data = quiet_experiment();
        begin_with(&mut data, &rows, &sizes);
        for (run, word) in data.runs.iter_mut().zip(["pglz", "lz4", "lz4"]) {
            restore_says(run, "made_under", &format!("default_toast_compression = {word}"));
        }
        let findings = study(&data).findings;
        findings.into_iter().find(|finding| finding.id == "data-differs").map(|finding| finding.severity)
    };
    assert_eq!(of([100; 3], [8192, 16384, 16384]), None);
    assert_eq!(of([100; 3], [8192, 16384, 8192]), Some(Severity::Doubt), "within one data");
    assert_eq!(of([100, 101, 101], [8192; 3]), Some(Severity::Void));
}

#[test]
fn each_workload_directory_has_data_of_its_own() {
    let of = |identities: [&str; 3]| {
        let mut data = quiet_experiment();
        begin_with(&mut data, &[100, 200, 100], &[8192, 16384, 8192]);
        for (run, identity) in data.runs.iter_mut().zip(identities) {
            let directory =
                WorkloadDirectory { data_identity: identity.to_string(), ..WorkloadDirectory::default() };
            let workload = &mut run.record.case.workload;
            workload.data = CaseData::Directory;
            workload.directory = Some(Box::new(directory));
        }
        study(&data)
            .findings
            .into_iter()
            .find(|finding| finding.id == "data-differs")
            .map(|finding| finding.severity)
    };
    assert_eq!(of(["queue", "ycsb", "queue"]), None);
    assert_eq!(of(["queue", "queue", "queue"]), Some(Severity::Void));
}
