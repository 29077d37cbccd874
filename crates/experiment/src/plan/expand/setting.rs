//! Settings that no server takes, and those of libraries that nothing loads: a server does not start with the ones, and the others change
//! nothing, so that their levels would all measure the same.

use std::collections::{BTreeMap, BTreeSet};

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
    let (mut without, mut acting) = (BTreeMap::new(), BTreeSet::new());
    for case in cases {
        let of_case = library::without_library(case);
        let names = case.server.settings.keys().map(String::as_str);
        acting.extend(names.filter(|name| !of_case.contains_key(name)));
        if case.server.source.is_embedded() {
            without.extend(of_case);
        }
    }

    without.retain(|name, _| !acting.contains(name));
    let advice = "so the setting has no effect; load it with server.settings.shared_preload_libraries, or leave the setting out";
    without.into_iter().map(|(name, why)| (name, format!("{why}, {advice}"))).collect()
}

#[cfg(test)]
mod tests {
    use crate::plan::sample;

    #[test]
    fn a_setting_that_no_server_takes_or_that_changes_nothing_is_refused() {
        let check = |place: &str, settings: &str, expected: Option<&str>| {
            let text = format!("[server]\n{place}\n{settings}\n[workload]\nscale = 1\n");
            sample::expect_refusal(&text, expected);
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
