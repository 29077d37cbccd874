//! Descriptions of what is compared: texts that differ exactly if the values do.

use std::path::Path;

use model::experiment::Prepare;
use model::experiment::case::{ServerSource, WorkloadSpec};
use model::experiment::script::CaseData;
use model::load::Window;
use model::load::sessions::SessionSetting;
use model::run::RunRecord;
use model::run::server::ServerRecord;
use model::text::prose::brief_hash;

/// `on` or `off`.
pub(crate) fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_string()
}

/// Sources of the servers. Two with the same name are distinguished by their connection settings.
pub(super) fn servers(a: &ServerSource, b: &ServerSource) -> [String; 2] {
    let is_alike = a.to_string() == b.to_string() && a != b;
    [a, b].map(|source| match source {
        ServerSource::Url(keywords) if is_alike => {
            let pairs: Vec<String> = keywords.iter().map(|(key, value)| format!("{key}={value}")).collect();
            pairs.join(" ")
        }
        _ => source.to_string(),
    })
}

/// The separate directory of the WAL, if there is one.
pub(super) fn wal_directory(directory: Option<&Path>) -> String {
    directory.map_or("with the data".to_string(), |path| path.display().to_string())
}

/// The request to initdb for checksums.
pub(super) fn data_checksums(asked: Option<bool>) -> String {
    asked.map_or("the server's default".to_string(), switch)
}

/// The scripts with their weights.
pub(super) fn scripts(workload: &WorkloadSpec) -> String {
    let scripts = workload
        .scripts
        .iter()
        .map(|script| format!("{} (weight {}, {})", script.name, script.weight, brief_hash(&script.sha256)));
    or_none(scripts.collect())
}

/// The values that sessions of a load have of one setting.
pub(crate) fn values(values: &[&SessionSetting]) -> String {
    let values: Vec<&str> = values.iter().map(|setting| setting.value.as_str()).collect();
    values.join(" or ")
}

/// The value of a setting that no session has changed. What pgdyno sets for its own session says nothing about others.
pub(super) fn unchanged(record: &RunRecord, name: &str) -> String {
    let setting = record.server.as_ref().and_then(|server| server.settings.get(name));
    let of_others = setting.filter(|setting| setting.source != "session");
    of_others.map_or("not set".to_string(), |setting| setting.value.clone())
}

/// The variables given to scripts.
pub(super) fn variables(workload: &WorkloadSpec) -> String {
    or_none(workload.defines.iter().map(|(name, value)| format!("{name} = {value}")).collect())
}

/// The data that the workload runs on.
pub(super) fn data(workload: &WorkloadSpec) -> String {
    match &workload.data {
        CaseData::Loaded(dataset) => dataset.row().words.to_string(),
        CaseData::None => "the database as it is".to_string(),
        CaseData::Files(files) => or_none(
            files.iter().map(|file| format!("{} ({})", file.name, brief_hash(&file.sha256))).collect(),
        ),
        CaseData::Archive(archive) => {
            format!("{}, identity {}", archive.words(), brief_hash(&archive.identity))
        }
        CaseData::Directory => match &workload.directory {
            Some(directory) => {
                format!(
                    "{}, identity {}",
                    directory.data_words(workload.scale),
                    brief_hash(&directory.data_identity)
                )
            }
            None => "made by a workload directory".to_string(),
        },
    }
}

/// The options of TPC-C.
pub(super) fn tpcc(workload: &WorkloadSpec) -> String {
    let warehouses = if workload.all_warehouses { "all warehouses" } else { "own warehouses" };
    match &workload.tpcc {
        None => warehouses.to_string(),
        Some(spec) => format!(
            "calls by {}, think time {}, {}, {warehouses}",
            spec.calls.as_str(),
            spec.think.as_str(),
            spec.isolation.as_str()
        ),
    }
}

/// The durations of a run's phases.
pub(super) fn window(window: Window) -> String {
    let measure = match window.measure_s {
        0 => "measured to the last transaction".to_string(),
        s => format!("{s} s measured"),
    };
    format!("{} s ramp-up, {measure}, {} s grace", window.ramp_up_s, window.grace_s)
}

/// The steps before a load.
pub(super) fn preparation(prepare: &Prepare) -> String {
    let restore = if prepare.restore_by.is_auto() {
        "restore".to_string()
    } else {
        format!("restore by {}", prepare.restore_by.as_str())
    };
    let steps = [
        (prepare.restore, restore.as_str()),
        (prepare.checksums, "checksums"),
        (prepare.vacuum, "vacuum"),
        (prepare.analyze, "analyze"),
        (prepare.prewarm, "prewarm"),
        (prepare.checkpoint, "checkpoint"),
        (prepare.settle, "settle"),
    ];
    or_none(steps.iter().filter(|(done, _)| *done).map(|(_, name)| name.to_string()).collect())
}

/// How the driver waited for its connections.
pub(super) fn poller(record: &RunRecord) -> String {
    record.ready.as_ref().map_or("not known".to_string(), |ready| ready.poller.clone())
}

/// The profile that the driver was built with, if the record says it.
pub(crate) fn build_profile(record: &RunRecord) -> Option<&str> {
    record.ready.as_ref().map(|ready| ready.build_profile.as_str()).filter(|profile| !profile.is_empty())
}

fn or_none(parts: Vec<String>) -> String {
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}

/// Receivers of WAL by kind: `2 async, 1 sync`.
pub(crate) fn receivers(kinds: &[String]) -> String {
    let distinct: std::collections::BTreeSet<&String> = kinds.iter().collect();
    let count = |kind: &String| kinds.iter().filter(|other| *other == kind).count();
    or_none(distinct.into_iter().map(|kind| format!("{} {kind}", count(kind))).collect())
}

/// Whether the receivers of two servers are not known to differ: a server did not answer, or our role may see of some only that
/// they are there, and there are as many.
pub(super) fn may_be_the_same_receivers(a: &ServerRecord, b: &ServerRecord) -> bool {
    let is_unknown = |server: &ServerRecord| server.unavailable.contains_key("receivers");
    let is_hidden = |server: &ServerRecord| server.receivers.iter().any(|kind| kind == "hidden");
    is_unknown(a) || is_unknown(b) || (is_hidden(a) || is_hidden(b)) && a.receivers.len() == b.receivers.len()
}

#[cfg(test)]
mod tests {
    use model::experiment::case::WorkloadKind;

    use super::*;

    #[test]
    fn a_source_is_named_by_what_the_user_wrote() {
        let source = |revision: Option<&str>| ServerSource::Source {
            tree: "/src/postgresql".to_string(),
            revision: revision.map(str::to_string),
        };
        assert_eq!(
            servers(&source(Some("master")), &source(None)),
            ["built from `/src/postgresql` at master", "built from `/src/postgresql`"]
        );
        let url = |mode: &str| {
            let keywords =
                [("user", "u"), ("host", "h"), ("port", "5432"), ("dbname", "d"), ("sslmode", mode)];
            ServerSource::Url(keywords.map(|(key, value)| (key.to_string(), value.to_string())).into())
        };
        assert_eq!(servers(&url("disable"), &url("disable")), ["u@h:5432/d", "u@h:5432/d"]);
        let [a, b] = servers(&url("disable"), &url("require"));
        assert!(a.contains("sslmode=disable") && b.contains("sslmode=require"), "{a} | {b}");
    }

    #[test]
    fn values_that_differ_have_words_that_differ() {
        let plain = WorkloadSpec::new(WorkloadKind::Tpcc, 1);
        let mut other = plain.clone();
        other.all_warehouses = true;
        other.data = CaseData::None;
        other.defines.insert("delay".to_string(), "3".to_string());
        for words in [tpcc, data, variables] {
            assert_ne!(words(&plain), words(&other));
        }
        assert_eq!(variables(&other), "delay = 3");
        let all = Prepare::default();
        assert_eq!(preparation(&all), "restore, vacuum, analyze, prewarm, checkpoint, settle");
        assert_eq!(
            preparation(&Prepare { settle: false, checksums: true, ..all }),
            "restore, checksums, vacuum, analyze, prewarm, checkpoint"
        );
    }
}
