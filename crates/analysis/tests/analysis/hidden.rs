//! What a server hides from the role of a run: nothing is concluded from it, and the advice is for the server that gets it.

use std::collections::BTreeMap;

use analysis::finding::Finding;
use analysis::study;
use model::experiment::case::ServerSource;
use model::run::RunData;
use model::run::server::{ServerRecord, Setting};
use model::telemetry::reading::TickSource;

use crate::comparison::{compare_cases, pairs};
use crate::quiet;

fn findings_of(change: impl Fn(&mut RunData)) -> Vec<Finding> {
    let mut data = quiet::run(1);
    change(&mut data);
    study(&quiet::experiment(1, vec![data])).runs.remove(0).findings
}

fn server(data: &mut RunData) -> &mut ServerRecord {
    data.record.server.as_mut().unwrap()
}

fn set(server: &mut ServerRecord, name: &str, value: &str) {
    let setting = Setting { value: value.to_string(), source: "configuration file".to_string() };
    server.settings.insert(name.to_string(), setting);
}

#[track_caller]
fn find<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {findings:#?}"))
}

#[test]
fn a_condition_that_is_hidden_is_not_said_to_be_absent() {
    let stated = |data: &mut RunData| {
        data.record.case.conditions = vec!["shared_preload_libraries=''".parse().unwrap()];
    };
    let found = findings_of(stated);
    let words = "shared_preload_libraries is hidden from pgdyno's role";
    assert!(find(&found, "condition-unmet").evidence.contains(words), "{found:#?}");
    let seen = findings_of(|data| {
        stated(data);
        set(server(data), "data_directory", "/d");
    });
    assert!(find(&seen, "condition-unmet").evidence.contains("the server reports no"), "{seen:#?}");
}

#[test]
fn libraries_whose_names_are_hidden_are_known_by_their_settings() {
    let found = findings_of(|data| set(server(data), "auto_explain.log_min_duration", "0"));
    let evidence = &find(&found, "statements-logged").evidence;
    assert!(evidence.contains("auto_explain (loaded by a setting that is hidden)"), "{evidence}");
}

#[test]
fn work_of_others_that_is_hidden_is_neither_there_nor_absent() {
    let sessions = |data: &mut RunData| {
        for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Server) {
            tick.values.insert("server.foreign_sessions", 3.0);
        }
    };
    let found = findings_of(sessions);
    assert!(found.iter().all(|finding| finding.id != "foreign-sessions"), "{found:#?}");
}

#[test]
fn receivers_that_are_hidden_are_no_difference_but_their_number_is() {
    let compare = |a: &[&str], b: &[&str], is_unknown: bool| {
        let mut data = pairs(6, 1.0);
        for run in &mut data.runs {
            let kinds = if run.record.spec.case == 1 { a } else { b };
            let server = run.record.server.as_mut().unwrap();
            server.receivers = kinds.iter().map(|kind| kind.to_string()).collect();
            if is_unknown {
                server.unavailable.insert("receivers".to_string(), "refused".to_string());
            }
        }
        let found = format!("{:?}", compare_cases(&data).findings);
        found.contains("receivers of WAL")
    };
    assert!(compare(&["async"], &["sync"], false));
    assert!(!compare(&["async"], &["hidden"], false), "one and one: it may be the same");
    assert!(compare(&[], &["hidden"], false));
    assert!(!compare(&["async"], &[], true), "a server that refuses has said nothing");
}

#[test]
fn a_size_that_the_server_did_not_tell_is_no_difference() {
    let mut data = pairs(6, 1.0);
    data.runs
        .iter_mut()
        .filter(|run| run.record.spec.case == 2)
        .for_each(|run| server(run).database_bytes = 0);
    let found = format!("{:?}", compare_cases(&data).findings);
    assert!(!found.contains("size of the database"), "{found}");
}

#[test]
fn who_is_to_see_more_gets_advice_for_the_own_server() {
    let advice = |is_by_url: bool, change: &dyn Fn(&mut ServerRecord)| {
        let found = findings_of(|data| {
            data.record.telemetry_unavailable.insert("server.wal".to_string(), "refused".to_string());
            if is_by_url {
                data.record.case.server.source = ServerSource::Url(BTreeMap::new());
            }
            data.record.server_is_local = true;
            change(server(data));
        });
        find(&found, "telemetry-missing").advice.clone()
    };
    let limited = |server: &mut ServerRecord| {
        server.unavailable.insert("all_stats".to_string(), "hidden".to_string());
    };
    let own = advice(false, &|_| {});
    assert!(!own.contains("grant") && !own.contains("--host"), "{own}");
    let plain = advice(true, &limited);
    assert!(plain.contains("grant pg_monitor to its role.") && !plain.contains("--host"), "{plain}");
    let standby = advice(true, &|server| {
        limited(server);
        server.in_recovery = true;
    });
    assert!(standby.contains("on the primary"), "{standby}");
    let old = advice(true, &|server| server.version_num = 90_624);
    assert!(old.contains("connect as a superuser") && !old.contains("pg_monitor"), "{old}");
}

/// A crash makes the server forget what it has counted.
#[test]
fn rows_that_nobody_counted_were_not_missed() {
    let is_found = |n_lost: u64| {
        let mut data = crate::quiet::run(1);
        crate::disturbances::touch(&mut data, 0, 0);
        data.record.done.as_mut().unwrap().n_lost = n_lost;
        crate::findings::findings_of(data).iter().any(|finding| finding.id == "rows-missed")
    };
    assert!(is_found(0) && !is_found(1));
}
