//! Which servers were builds that pgdyno fetched: compiled for size, they are not what anybody runs.

use std::collections::BTreeSet;

use model::experiment::case::ServerSource;
use model::run::{ExperimentData, RunRecord};

use crate::comparison::build;

/// `fetched build, -Os` if the run's server is one, and if the server says how it was compiled.
pub fn fetched_build(record: &RunRecord) -> Option<String> {
    let ServerSource::Version(_) = record.case.server.source else { return None };
    let server = record.server.as_ref()?;
    let level = server.build.get("CFLAGS").and_then(|flags| build::level(flags));
    Some(level.map_or("fetched build".to_string(), |level| format!("fetched build, {level}")))
}

/// The same for all runs, with the releases: `PostgreSQL 12.22, 18.6 (fetched build, -Os)`; `None` if no server was fetched.
pub fn fetched_servers(data: &ExperimentData) -> Option<String> {
    let records = data.runs.iter().map(|run| &run.record);
    let of_run = |record: &RunRecord| {
        let server = record.server.as_ref()?;
        Some((fetched_build(record)?, server.version_num, server.release()))
    };
    let found: BTreeSet<(String, u32, String)> = records.filter_map(of_run).collect();
    let builds: BTreeSet<&String> = found.iter().map(|(build, ..)| build).collect();
    let words = builds.into_iter().map(|build| {
        let releases = found.iter().filter(|(of, ..)| of == build).map(|(.., release)| release.as_str());
        format!("PostgreSQL {} ({build})", releases.collect::<Vec<_>>().join(", "))
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}
