//! How a setting is mended by where its value comes from: ALTER SYSTEM writes a file, which the server's command line, and
//! what was set for a database or a role, override.

use model::run::server::ServerRecord;

/// How a new value of ALTER SYSTEM takes effect, in the words of rows.
const TAKES_EFFECT: [&str; 2] = ["select pg_reload_conf();", "and restart the server"];

/// The words of a row or a sight. If they are ALTER SYSTEM of a setting whose value on this server comes from where ALTER SYSTEM
/// has no effect, other words with the same value.
pub(super) fn effective(fix: String, server: Option<&ServerRecord>) -> String {
    server.and_then(|server| instead(&fix, server)).unwrap_or(fix)
}

/// What has an effect instead, for the sources that override a file (`GucSource` in PostgreSQL's guc.h). An environment
/// variable does not: a file overrides it. What a client gave concerns its own session alone.
fn instead(fix: &str, server: &ServerRecord) -> Option<String> {
    let (name, rest) = fix.strip_prefix("alter system set ")?.split_once(" = ")?;
    let (value, how) = rest.split_once(';')?;
    let how = how.trim_start();
    // What is left is a condition: ` if the file system has room`.
    let condition = TAKES_EFFECT.iter().find_map(|words| how.strip_prefix(*words))?;
    let set = format!("set {name} = {value}; new sessions have it");
    let instead = match server.settings.get(name)?.source.as_str() {
        "command line" => format!(
            "the server's command line has it (postgres -c, in its service or container) and overrides ALTER SYSTEM: \
             give {name} = {value} there, and restart the server"
        ),
        "global" => format!("alter role all {set}"),
        "database" => format!("alter database DATABASE {set}"),
        "user" => format!("alter role ROLE {set}"),
        "database user" => format!("alter role ROLE in database DATABASE {set}"),
        _ => return None,
    };
    Some(instead + condition)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::run::server::Setting;

    use super::*;
    use crate::doctor::ROWS;
    use crate::doctor::sight::SIGHTS;

    fn server(name: &str, source: &str) -> ServerRecord {
        let setting = Setting { value: "x".to_string(), source: source.to_string() };
        ServerRecord { settings: BTreeMap::from([(name.to_string(), setting)]), ..ServerRecord::default() }
    }

    #[test]
    fn a_fix_names_what_has_an_effect() {
        let check = |fix: &str, name: &str, source: &str, expected: &str| {
            assert_eq!(effective(fix.to_string(), Some(&server(name, source))), expected, "{source}");
        };
        let jit = "alter system set jit = off; select pg_reload_conf();";
        for source in ["default", "configuration file", "environment variable", "client", "unknown", ""] {
            check(jit, "jit", source, jit);
        }
        check(jit, "fsync", "command line", jit);
        check(jit, "jit", "global", "alter role all set jit = off; new sessions have it");
        check(jit, "jit", "database", "alter database DATABASE set jit = off; new sessions have it");
        check(jit, "jit", "user", "alter role ROLE set jit = off; new sessions have it");
        let of_both = "alter role ROLE in database DATABASE set jit = off; new sessions have it";
        check(jit, "jit", "database user", of_both);
        let given = |what: &str| {
            format!(
                "the server's command line has it (postgres -c, in its service or container) and overrides ALTER SYSTEM: \
                 give {what} there, and restart the server"
            )
        };
        check(jit, "jit", "command line", &given("jit = off"));
        let method = "alter system set io_method = 'worker'; and restart the server";
        check(method, "io_method", "command line", &given("io_method = 'worker'"));
        let wal =
            "alter system set max_wal_size = '8GB'; select pg_reload_conf(); if the file system has room";
        let expected = given("max_wal_size = '8GB'") + " if the file system has room";
        check(wal, "max_wal_size", "command line", &expected);
        check("mount without nobarrier", "jit", "command line", "mount without nobarrier");
        assert_eq!(effective(jit.to_string(), None), jit);
    }

    #[test]
    fn every_alter_system_of_rows_and_sights_is_known() {
        let fixes = ROWS.iter().map(|row| row.fix).chain(SIGHTS.iter().map(|sight| sight.fix));
        let mut n = 0;
        for fix in fixes.filter(|fix| fix.to_lowercase().contains("alter system")) {
            let name = fix.split(' ').nth(3).unwrap();
            assert!(instead(fix, &server(name, "command line")).is_some(), "{fix}");
            n += 1;
        }
        assert!(n > 20, "{n}");
    }
}
