//! Requirements of a case that older PostgreSQL versions do not meet, and a word on newer ones.

use model::experiment::case::{Calls, Case, ServerSource, WorkloadSpec};
use model::release::{Release, catalogs};

use dataset::layout::{lacks_partitions, release_name};
use workload::directories;

use crate::site::progress::{ProgressEvent, Watch};

/// `server_version_num` of a server that is known only by its version; for a series, its first version.
pub(crate) fn version_num(source: &ServerSource) -> Option<u32> {
    server::binaries::version_num(source.version()?.as_str())
}

/// What a server of this version lacks for a case, and what to do.
pub(crate) fn lacks(version_num: u32, case: &Case) -> Option<String> {
    let workload = &case.workload;
    let data = (workload.layout.partitions > 0).then(|| lacks_partitions(version_num)).flatten();
    let calls = (calls_procedures(workload) && !Release::new(version_num).has(catalogs::PROCEDURES)).then(|| {
        format!(
            "procedures need PostgreSQL 11; the server is version {}; choose workload.calls = \"functions\", or a later \
             version",
            release_name(version_num)
        )
    });
    data.or(calls).or_else(|| lacks_series(version_num, workload))
}

/// What a workload directory needs of a server.
pub(crate) fn lacks_series(version_num: u32, workload: &WorkloadSpec) -> Option<String> {
    let directory = workload.directory.as_deref()?;
    let needed = directories::manifest(directory)?.needs.server?;
    let first = server::binaries::version_num(&needed)?;
    let (first, found) = (Release::new(first), Release::new(version_num));
    first.is_of_newer_series(found).then(|| {
        format!(
            "workload directory `{}` needs PostgreSQL {needed}; the server is version {}; choose a later version",
            directory.name,
            release_name(version_num)
        )
    })
}

/// Says so if a server is newer than what this pgdyno knows: it is measured all the same.
pub(crate) fn note_if_newer(version_num: u32, watch: &mut Watch) {
    if let Some(note) = Release::new(version_num).note_if_newer() {
        watch(ProgressEvent::Note(note));
    }
}

fn calls_procedures(workload: &WorkloadSpec) -> bool {
    workload.procedures || workload.tpcc.as_ref().is_some_and(|tpcc| tpcc.calls == Calls::Procedures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::case;

    #[test]
    fn features_that_older_releases_lack_are_reported() {
        let check = |version: &str, text: &str, expected: Option<&str>| {
            let case = case(&format!("[server]\nversion = \"{version}\"\n[workload]\n{text}"));
            let version_num = version_num(&case.server.source).unwrap();
            let found = lacks(version_num, &case);
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) if found.contains(expected) => {}
                _ => panic!("{version} {text}: {found:?}"),
            }
        };
        let partitions = "partitions = 4\n";
        check(
            "10",
            partitions,
            Some("partitions with a primary key need PostgreSQL 11; the server is version 10"),
        );
        check("9.6.24", partitions, Some("is version 9.6"));
        check("11", partitions, None);
        let procedures = "kind = \"tpcc\"\ncalls = \"procedures\"\n";
        check("10", procedures, Some("procedures need PostgreSQL 11"));
        check("18", procedures, None);
        check("9.6", "kind = \"tpcc\"\ncalls = \"functions\"\n", None);
        check("9.6", "kind = \"tproc-c\"\ncalls = \"procedures\"\n", Some("procedures need PostgreSQL 11"));
    }
}
