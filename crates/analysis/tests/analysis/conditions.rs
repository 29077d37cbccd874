//! Conditions of a study: no doubt where runs have them, one where they do not.

use analysis::finding::{Finding, Severity};
use analysis::study;
use model::run::server::Setting;

use crate::quiet;

/// Findings of a run whose study states `conditions`, and whose server has these settings.
fn findings_of(conditions: &[&str], settings: &[(&str, &str)]) -> Vec<Finding> {
    let mut data = quiet::run(1);
    data.record.case.conditions = conditions.iter().map(|text| text.parse().unwrap()).collect();
    let server = data.record.server.as_mut().unwrap();
    for (name, value) in settings {
        let known = server.settings.values().next().unwrap().clone();
        server.settings.insert(name.to_string(), Setting { value: value.to_string(), ..known });
    }
    study(&quiet::experiment(1, vec![data])).runs.remove(0).findings
}

#[test]
fn what_a_study_states_is_a_note_and_what_runs_lack_of_it_is_a_doubt() {
    for (conditions, settings, id, severity, words) in [
        (
            &["fsync=off"][..],
            &[("fsync", "off")][..],
            "not-durable",
            Severity::Note,
            "fsync = off, a condition of the study",
        ),
        (
            &["fsync=off"],
            &[("fsync", "off"), ("full_page_writes", "off")],
            "not-durable",
            Severity::Doubt,
            "full_page_writes = off, fsync = off, a condition",
        ),
        (&[], &[("fsync", "off")], "not-durable", Severity::Doubt, "NOT DURABLE: fsync = off: a crash"),
        (
            &["log_statement=all"],
            &[("log_statement", "all")],
            "statements-logged",
            Severity::Note,
            "log_statement = all",
        ),
        (
            &["fsync=off", "disks by LUKS"],
            &[("fsync", "on")],
            "condition-unmet",
            Severity::Doubt,
            "fsync is on, not off",
        ),
        (&["io_method=worker"], &[], "condition-unmet", Severity::Doubt, "the server reports no io_method"),
    ] {
        let findings = findings_of(conditions, settings);
        let found =
            findings.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {findings:#?}"));
        assert_eq!(found.severity, severity, "{}", found.evidence);
        assert!(found.evidence.contains(words), "{}", found.evidence);
    }
    let met = findings_of(&["fsync=off", "disks by LUKS"], &[("fsync", "off")]);
    assert!(met.iter().all(|finding| finding.severity == Severity::Note), "{met:#?}");
}

#[test]
fn a_condition_is_met_by_the_same_words_in_the_settings_of_the_experiment() {
    let is_doubted = |given: &str, shown: &str, source: &str| {
        let mut data = quiet::run(1);
        data.record.case.conditions = vec!["Work_Mem=65536".parse().unwrap()];
        data.record.case.server.settings.insert("work_mem".to_string(), given.to_string());
        let setting = Setting { value: shown.to_string(), source: source.to_string() };
        data.record.server.as_mut().unwrap().settings.insert("work_mem".to_string(), setting);
        let findings = study(&quiet::experiment(1, vec![data])).runs.remove(0).findings;
        findings.iter().any(|finding| finding.id == "condition-unmet")
    };
    assert!(!is_doubted("65536", "64MB", "configuration file"));
    assert!(is_doubted("65536", "32MB", "database"), "something else decides");
    assert!(is_doubted("32MB", "32MB", "configuration file"));
}
