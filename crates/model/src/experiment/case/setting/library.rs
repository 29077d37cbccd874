//! Settings of libraries. A server takes any name with a point, and keeps it as a placeholder without effect until a library that knows it
//! is loaded.

use std::collections::BTreeMap;

use crate::experiment::case::Case;
use crate::experiment::script::CaseData;

/// Settings that name libraries for every session.
pub const PRELOADS: [&str; 3] =
    ["shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"];

/// The libraries that the value of such a setting names, without quotes, directory and ending.
pub fn libraries_in(value: &str) -> impl Iterator<Item = &str> {
    let libraries = value.split(',').map(|path| {
        let file = path.trim().trim_matches(['"', '\'']).rsplit('/').next().unwrap_or_default();
        file.strip_suffix(".so").unwrap_or(file)
    });
    libraries.filter(|library| !library.is_empty())
}

/// Libraries that act only if the server or the session loads them at its start, by the first part of the names of their settings:
/// PostgreSQL's own (documentation, Additional Supplied Modules), and those that many use.
const LIBRARIES: [(&str, &str); 18] = [
    ("auth_delay", "auth_delay"),
    ("auto_explain", "auto_explain"),
    ("basic_archive", "basic_archive"),
    ("cron", "pg_cron"),
    ("pg_hint_plan", "pg_hint_plan"),
    ("pg_partman_bgw", "pg_partman_bgw"),
    ("pg_prewarm", "pg_prewarm"),
    ("pg_qualstats", "pg_qualstats"),
    ("pg_stat_kcache", "pg_stat_kcache"),
    ("pg_stat_monitor", "pg_stat_monitor"),
    ("pg_stat_statements", "pg_stat_statements"),
    ("pg_wait_sampling", "pg_wait_sampling"),
    ("pgaudit", "pgaudit"),
    ("sepgsql", "sepgsql"),
    ("set_user", "set_user"),
    ("squeeze", "pg_squeeze"),
    ("timescaledb", "timescaledb"),
    ("worker_spi", "worker_spi"),
];

/// Languages, which a function loads that is written in them.
const LANGUAGES: [&str; 4] = ["plpgsql", "plperl", "plpython", "pltcl"];

/// Why the settings of a case with a server that pgdyno runs have no effect, each with its name: nothing loads the library.
pub fn without_library(case: &Case) -> BTreeMap<&str, String> {
    let settings = &case.server.settings;
    let is_preload = |name: &&String| PRELOADS.iter().any(|preload| preload.eq_ignore_ascii_case(name));
    let preloads = settings.iter().filter(|(name, _)| is_preload(name));
    let loaded: Vec<&str> = preloads.flat_map(|(_, value)| libraries_in(value)).collect();

    let names = settings.keys().map(String::as_str);
    names.filter_map(|name| Some((name, why_none(name, &loaded, case)?))).collect()
}

/// Why nothing loads the library of the setting; `None` if something does, or may do so.
fn why_none(name: &str, loaded: &[&str], case: &Case) -> Option<String> {
    let (prefix, _) = name.split_once('.')?;
    let prefix = prefix.to_ascii_lowercase();
    if let Some((_, library)) = LIBRARIES.iter().find(|(known, _)| *known == prefix) {
        let is_loaded = loaded.contains(library);
        return (!is_loaded).then(|| format!("it is a setting of {library}, which is not loaded"));
    }

    let may_load = !loaded.is_empty() || LANGUAGES.contains(&prefix.as_str()) || has_own_statements(case);
    (!may_load).then(|| format!("it is a setting of a library (`{prefix}`), and none is loaded"))
}

/// Whether statements or hooks of the user run, which can load a library, and read any setting.
fn has_own_statements(case: &Case) -> bool {
    let workload = &case.workload;
    let has_own_data = matches!(workload.data, CaseData::Files(_) | CaseData::Archive(_));
    workload.kind.is_own() || has_own_data || !case.hooks.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::case::workload::WorkloadKind;
    use crate::experiment::case::{ServerSource, ServerSpec, WorkloadSpec};
    use crate::load::Window;

    #[test]
    fn settings_of_libraries_that_nothing_loads_are_found() {
        let check = |settings: &[(&str, &str)], expected: [&[&str]; 2]| {
            let server = ServerSpec::new(ServerSource::BinDir("/x".into()));
            let window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 };
            let workload = WorkloadSpec::new(WorkloadKind::default(), 1);
            let mut case = Case::new(server, workload, window);
            case.server.settings =
                settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            for (kind, expected) in [(WorkloadKind::default(), expected[0]), (WorkloadKind::OWN, expected[1])]
            {
                case.workload.kind = kind;
                let found: Vec<&str> = without_library(&case).into_keys().collect();
                assert_eq!(found, expected, "{kind}: {settings:?}");
            }
        };
        let both = |names: &'static [&'static str]| [names; 2];
        check(&[("work_mem", "1MB"), ("plpgsql.variable_conflict", "error")], both(&[]));
        check(&[("pg_stat_statements.max", "100")], both(&["pg_stat_statements.max"]));
        check(&[("Auto_Explain.log_min_duration", "0")], both(&["Auto_Explain.log_min_duration"]));
        let loaded = ("Shared_Preload_Libraries", "x, '$libdir/pg_stat_statements.so'");
        check(&[("pg_stat_statements.max", "100"), loaded], both(&[]));
        check(
            &[("auto_explain.log_nested_statements", "on"), loaded],
            both(&["auto_explain.log_nested_statements"]),
        );
        check(
            &[("auto_explain.log_analyze", "on"), ("session_preload_libraries", "auto_explain")],
            both(&[]),
        );
        // One that nobody knows acts if an own statement reads it, or loads its library.
        check(&[("app.tenant", "7")], [&["app.tenant"], &[]]);
        check(&[("app.tenant", "7"), loaded], both(&[]));
        check(&[("app.tenant", "7"), ("shared_preload_libraries", "")], [&["app.tenant"], &[]]);
    }
}
