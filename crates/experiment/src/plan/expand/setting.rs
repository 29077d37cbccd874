//! Settings that no server takes, and those of libraries that nothing loads: a server does not start with the ones, and the others change
//! nothing, so that their levels would all measure the same.

use std::collections::BTreeMap;

use model::experiment::case::Case;
use model::experiment::case::setting::{library, never_taken};

use crate::plan::problems::Problems;

/// Says which settings of `cases` would be refused, or would have no effect.
pub(super) fn check(cases: &[Case], problems: &mut Problems) {
    let names = cases.iter().flat_map(|case| case.server.settings.keys());
    let of_none: BTreeMap<&str, String> =
        names.filter_map(|name| Some((name.as_str(), never_taken(name)?.to_string()))).collect();

    for (name, problem) in of_none.into_iter().chain(of_libraries(cases)) {
        problems.say(format!("server.settings.{name}: {problem}"));
    }
}

/// Settings that have no effect in any case: in some the library may be left out on purpose. What a server by URL has loaded is its own
/// affair.
fn of_libraries(cases: &[Case]) -> BTreeMap<&str, String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.server.source.is_embedded()) {
        found.extend(library::without_library(case));
    }

    let acts = |name: &str| {
        let has = |case: &&Case| case.server.settings.contains_key(name);
        cases
            .iter()
            .filter(has)
            .any(|case| library::without_library(case).iter().all(|(without, _)| *without != name))
    };
    found.retain(|name, _| !acts(name));
    let advice = "so the setting has no effect; load it with server.settings.shared_preload_libraries, or leave the setting out";
    found.into_iter().map(|(name, why)| (name, format!("{why}, {advice}"))).collect()
}

#[cfg(test)]
mod tests {
    use crate::plan::expand::{PlanResources, plan};
    use crate::plan::file;

    #[test]
    fn a_setting_that_no_server_takes_or_that_changes_nothing_is_refused() {
        let check = |place: &str, settings: &str, expected: Option<&str>| {
            let text =
                format!("[experiment]\nname = \"x\"\n[server]\n{place}\n{settings}\n[workload]\nscale = 1\n");
            let experiment = file::parse("x.toml", &text, &[]).unwrap();
            let url_keywords =
                place.starts_with("url").then(|| [("host".to_string(), "h".to_string())].into());
            let site = PlanResources {
                memory_bytes: Some(1 << 30),
                n_cpus: 1,
                url_keywords,
                ..PlanResources::default()
            };
            let found = plan(&experiment, &site).err();
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                _ => panic!("{text}: {found:?}"),
            }
        };
        let (own, by_url) = ("version = \"18\"", "url = \"host=h\"");
        let segments = "settings.wal_segment_size = [\"16MB\", \"64MB\"]";
        check(own, segments, Some("server.settings.wal_segment_size: initdb decides it"));
        check(by_url, segments, Some("a cluster that initdb made so, by URL"));
        check(own, "settings.data_checksums = \"on\"", Some("choose it with server.data_checksums"));
        check(
            own,
            "settings.Transaction_Isolation = \"serializable\"",
            Some("choose default_transaction_isolation"),
        );
        check(own, "settings.default_transaction_isolation = \"serializable\"", None);

        let counted = "settings.\"pg_stat_statements.track\" = [\"top\", \"none\"]";
        let unloaded =
            "it is a setting of pg_stat_statements, which is not loaded, so the setting has no effect";
        check(own, counted, Some(unloaded));
        check(by_url, counted, None);
        let loaded = "settings.shared_preload_libraries = \"pg_stat_statements\"";
        check(own, &format!("{loaded}\n{counted}"), None);
        // What the library costs: one level is without it.
        let factor = "settings.shared_preload_libraries = [\"\", \"pg_stat_statements\"]";
        check(own, &format!("{factor}\n{counted}"), None);
    }
}
