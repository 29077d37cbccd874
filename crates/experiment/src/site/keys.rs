//! Keys that distinguish the servers and the data of cases, and the location of their clusters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use dataset::layout;
use model::experiment::case::setting;
use model::experiment::case::{Case, ServerSource, WorkloadSpec};
use model::experiment::script::CaseData;
use model::experiment::topology::pooler::PoolerSpec;
use model::workload::Dataset;
use server::cluster::workspace::ClusterKey;
use server::{Binaries, Cache};

use crate::site::wal;

/// The part of a case that determines its stage, as requested.
#[derive(Debug, Clone, PartialEq)]
pub struct StageKey {
    source: ServerSource,
    wal_directory: Option<PathBuf>,
    data_checksums: Option<bool>,
    directory: Option<PathBuf>,
    data: BTreeMap<String, String>,
}

impl StageKey {
    /// The stage key of a case.
    pub fn new(case: &Case) -> StageKey {
        StageKey {
            source: case.server.source.clone(),
            wal_directory: case.server.wal_directory.clone(),
            data_checksums: case.server.data_checksums,
            directory: directory(case).map(Path::to_path_buf),
            data: data_key(case),
        }
    }
}

/// Whether a server of our own has to be restarted for `next` after `case`: to restore files, or because it is another
/// server.
pub fn needs_restart(case: &Case, next: &Case) -> bool {
    next.server.source.is_embedded() && (next.prepare.restore || !is_same_server(case, next))
}

/// Whether both cases can share a server without a restart: same data, same settings, and the same of all that only
/// hooks know. What they set may be below the server: its file system, its kernel, its libraries.
pub(crate) fn is_same_server(case: &Case, next: &Case) -> bool {
    // Operating system settings are set before the server starts; a WAL policy changes its settings.
    let wal = |case: &Case| (case.wal, wal::settings(case.wal, case.window));
    StageKey::new(case) == StageKey::new(next)
        && case.server.settings == next.server.settings
        && case.server.listen == next.server.listen
        && case.server.tls == next.server.tls
        && case.os == next.os
        && case.factors == next.factors
        && case.carried.are_same(&next.carried, "topology.")
        && case.carried.are_same(&next.carried, "archive.")
        && case.carried.are_same(&next.carried, "pooler.")
        && has_same_pool(case, next)
        && wal(case) == wal(next)
}

/// Whether both cases can share a pooler, which is started for a number of clients and for how their sessions begin.
fn has_same_pool(case: &Case, next: &Case) -> bool {
    let needs = |case: &Case| {
        let WorkloadSpec { n_clients, session_settings, tpcc, schema, only_reads, .. } =
            case.workload.clone();
        (n_clients, session_settings, tpcc, schema, only_reads)
    };
    PoolerSpec::from_case(case).is_none() || needs(case) == needs(next)
}

/// Directory of that workspace, which need not exist yet.
pub(crate) fn clusters_dir(case: &Case, cache: &Cache) -> PathBuf {
    directory(case).map_or_else(|| cache.clusters_dir(), |directory| directory.join("clusters"))
}

/// Location of the case's cluster, if it is not the cache.
pub(crate) fn directory(case: &Case) -> Option<&Path> {
    case.server.target.as_ref()?.directory.as_deref()
}

/// Key of a cluster; the same request finds the same cluster again.
pub(crate) fn cluster_key(binaries: &Binaries, case: &Case) -> Result<ClusterKey> {
    let mut parts = data_key(case);
    if let Some(wal) = &case.server.wal_directory {
        parts.insert("wal_directory".to_string(), wal.display().to_string());
    }
    if let Some(snapshots) = &case.space.snapshot_directory {
        parts.insert("snapshot_directory".to_string(), snapshots.display().to_string());
    }
    if let Some(checksums) = case.server.data_checksums {
        parts.insert("data_checksums".to_string(), checksums.to_string());
    }
    if let Some(directory) = directory(case) {
        parts.insert("directory".to_string(), directory.display().to_string());
    }
    ClusterKey::new(binaries, parts)
}

/// Key of the second of two clusters that would be the same one: a duet needs both at once.
pub(crate) fn key_of_twin(mut key: ClusterKey) -> ClusterKey {
    key.parts.insert("duet".to_string(), "b".to_string());
    key
}

/// Key that distinguishes the data of one case from that of another: what it is, and the settings that it is made under.
pub(crate) fn data_key(case: &Case) -> BTreeMap<String, String> {
    let mut key = contents_key(&case.workload);
    let made_under = setting::made_under(case).into_iter();
    key.extend(made_under.map(|(name, value)| (format!("setting {name}"), value)));
    key
}

/// Key that distinguishes what data is of one workload from that of another.
fn contents_key(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    let scale = ("scale", format!("s{}", workload.scale));
    let source = &workload.data;
    let parts = match source {
        CaseData::Loaded(dataset) => vec![("workload", dataset.name().to_string()), scale],
        CaseData::None => vec![("workload", "none".to_string())],
        CaseData::Files(files) => {
            let hashes: Vec<&str> = files.iter().map(|file| file.sha256.as_str()).collect();
            // The directory's name hashes the whole key; the first letters are for people.
            vec![("workload", format!("sql-{}", &hashes.concat())), scale]
        }
        // Its identity has the scale.
        CaseData::Directory => {
            let directory = workload.directory.as_ref();
            let identity = directory.map_or("", |directory| directory.data_identity.as_str());
            let schema = workload.schema.iter().map(|schema| ("schema", schema.clone()));
            // The marks in it have the name.
            let name = directory.map_or_else(String::new, |directory| directory.name.clone());
            let own = [("workload", format!("directory-{identity}")), ("directory", name)];
            own.into_iter().chain(schema).collect()
        }
        CaseData::Archive(archive) => {
            let mut parts = vec![("workload", format!("archive-{}", archive.identity))];
            // Rows of the user's own tables do not depend on the scale.
            if let Some(dataset) = Dataset::from_case_data(&workload.data) {
                parts.extend([("tables", dataset.name().to_string()), scale]);
            }
            parts
        }
    };
    let mut key: BTreeMap<String, String> =
        parts.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    if let Some(dataset) = Dataset::from_case_data(&workload.data) {
        // The plain layout adds nothing to the key, so that clusters from before there were layouts are found again.
        key.extend(layout::layout_facts(layout::of_dataset(dataset, workload.layout)));
        key.extend(workload.schema.iter().map(|schema| ("schema".to_string(), schema.clone())));
        key.extend(layout::tablespace_fact(workload.tablespace.as_deref()));
    }
    key
}

/// Description of the data of a case, with the settings that it is made under.
pub fn data_words(case: &Case) -> String {
    let contents = contents_words(&case.workload);
    match setting::made_under_words(case) {
        words if words.is_empty() => contents,
        words => format!("{contents} with {words}"),
    }
}

/// Description of the data.
pub fn contents_words(workload: &WorkloadSpec) -> String {
    match &workload.data {
        CaseData::Loaded(_) => layout::describe(workload),
        CaseData::None => "the database as it is".to_string(),
        CaseData::Files(files) => files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", "),
        CaseData::Archive(archive) => archive.name.clone(),
        CaseData::Directory => match &workload.directory {
            Some(directory) => directory.data_words(workload.scale),
            None => format!("made by a workload directory at scale {}", workload.scale),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_share_a_server_that_differ_in_nothing_below_it() {
        let head = "[prepare]\nrestore = false\n[hooks]\nbefore_case = [\"true\"]\n";
        let check = |text: &str, expected: bool| {
            let plan = crate::plan::sample::plan(&format!("repeats = 1\n{text}\n{head}"));
            let [case, next] = &plan.cases[..] else { panic!("{}", plan.cases.len()) };
            assert_eq!(is_same_server(case, next), expected, "{text}");
            assert_eq!(needs_restart(case, next), !expected, "{text}");
        };
        check("[workload]\nclients = [1, 2]", true);
        check("[factors]\nfilesystem = [\"ext4\", \"xfs\"]", false);
        check("[server]\nsettings.jit = [\"on\", \"off\"]", false);
    }
}
