//! Every built-in workload directory on old and new releases of PostgreSQL: proved, loaded, run for a moment, and checked.

use std::collections::BTreeSet;
use std::time::Duration;

use model::workload::directories::BUILTIN;
use testbed::{ClusterOptions, TestServer};

use crate::tool::{Place, bin_dir_of, expect_sound};

/// The oldest release that pgdyno knows, one before and one after many changes, and the newest.
const RELEASES: [&str; 4] = ["9.6", "13", "15", "18"];
/// It needs pgvector, which none of these builds has.
const WITH_EXTENSION: &str = "vector";
/// It has tables of the same names as `tpch-like`.
const ALONE: &str = "ch-like";
/// Two minutes where nothing else runs.
const LONGEST: Duration = Duration::from_secs(900);

/// An experiment of these directories on all servers: each run ends after so many transactions of each client.
fn experiment(servers: &[(&str, TestServer)], database: &str, kinds: &[&str]) -> String {
    let targets: String = servers
        .iter()
        .map(|(release, server)| {
            server.execute("postgres", &format!("create database {database}"));
            format!("[[target]]\nname = \"{release}\"\nurl = \"{}\"\n", server.admin_target(database))
        })
        .collect();
    format!(
        "[experiment]\nname = \"{database}\"\nrepeats = 1\n{targets}[workload]\nkind = {kinds:?}\nscale = 1\nclients = 2\n\
         transactions = 22\n[run]\nmeasure = \"60s\"\nramp_up = \"0s\"\nrepeat_disturbed = 0\n[prepare]\nsettle = false\n"
    )
}

/// Runs an experiment, and expects that each directory was run and checked on each release.
fn expect_all_run(place: &Place, text: &str, name: &str, n_kinds: usize) {
    place.write(&format!("{name}.toml"), text);
    let command = place.command(&["run", &format!("{name}.toml"), "-o", name]);
    let ended = place.start(command).wait_for_end(LONGEST);
    // So few transactions are no number to report.
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    let data = place.results(name);
    let mut seen = BTreeSet::new();
    for run in &data.runs {
        expect_sound(run);
        let record = &run.record;
        let workload = record.case.workload.name();
        assert_eq!(record.violations_after, Default::default(), "{workload}");
        let unavailable = record.telemetry_unavailable.keys().find(|key| key.starts_with("check "));
        assert_eq!(unavailable, None, "{workload}");
        if workload.starts_with("churn") {
            // Transactions of other variants write nothing, as far as findings know.
            let survey = record.survey.as_ref().unwrap();
            assert_eq!(survey.tables.iter().collect::<Vec<_>>(), ["public.account"]);
            assert!(survey.written.is_empty(), "{survey:?}");
        }
        seen.insert((workload, record.server.as_ref().unwrap().version_num / 100));
    }
    assert_eq!(seen.len(), n_kinds * RELEASES.len(), "{seen:?}\n{}\n{}", ended.stdout, ended.stderr);
    let study = analysis::study(&data);
    assert!(study.findings.iter().all(|finding| finding.id != "data-differs"), "{:?}", study.findings);
}

#[test]
fn every_built_in_directory_works_on_every_release() {
    let place = Place::new();
    let servers = RELEASES.map(|release| {
        let bin_dir = bin_dir_of(release);
        let settings = ["shared_buffers=32MB", "max_connections=40"];
        let options = ClusterOptions { settings: &settings, bin_dir: Some(&bin_dir), ..Default::default() };
        (release, TestServer::start(&options))
    });
    let shared: Vec<&str> =
        BUILTIN.into_iter().filter(|name| ![WITH_EXTENSION, ALONE].contains(name)).collect();
    expect_all_run(&place, &experiment(&servers, "shared", &shared), "shared", shared.len());
    expect_all_run(&place, &experiment(&servers, "alone", &[ALONE]), "alone", 1);
    for (release, server) in &servers {
        let target = server.admin_target("postgres");
        let checked = place.run(&["workload", "check", WITH_EXTENSION, "--server", &target]).expect(1);
        let lacks = "needs the extension `vector`, which this server's installation does not have";
        assert!(checked.stdout.contains(lacks), "{release}: {}", checked.stdout);
        assert_eq!(checked.stdout.contains("needs PostgreSQL 13"), *release == "9.6", "{}", checked.stdout);
    }
    place.expect_clean();
}
