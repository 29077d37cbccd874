//! How something is mended on the server that was examined. ALTER SYSTEM writes a file, which the server's command line, and
//! what was set for a database or a role, override; a role may lack the right to it; a standby takes no SQL that changes a catalog, and
//! has to keep some settings as high as its primary; older releases have no roles to grant.

use model::release::privileges;
use model::run::server::ServerRecord;

use super::{Examined, FixNames};

/// How a new value of ALTER SYSTEM takes effect, in the words of rows.
const TAKES_EFFECT: [&str; 2] = ["select pg_reload_conf();", "and restart the server"];

/// Beginnings of advice that changes a catalog, which only a primary takes.
const OF_PRIMARY: [&str; 4] = ["grant ", "alter role ", "alter database ", "create extension "];
/// Settings that a superuser alone may set for a role or a database (`PGC_SUSET` in guc_tables.c), of those that rows name.
const OF_SUPERUSERS: [&str; 5] =
    ["wal_compression", "track_io_timing", "track_wal_io_timing", "log_lock_waits", "log_temp_files"];
const AS_SUPERUSER: &str = "as a superuser: ";
/// Settings that a standby must have as high as its primary (`CheckRequiredParameterValues` in xlogrecovery.c), of those that rows name.
const RAISED_ON_STANDBYS_FIRST: [&str; 1] = ["max_connections"];

/// What a row or a sight says on some servers instead of its words.
struct Here {
    id: &'static str,
    is_so: fn(&ServerRecord) -> bool,
    fix: &'static str,
}

const HERE: [Here; 8] = [
    Here {
        id: "all-stats",
        is_so: |server| !server.has(privileges::MONITORING_ROLES),
        fix: "be a superuser: before 10, nobody else sees what others' sessions do",
    },
    Here {
        id: "all-settings",
        is_so: |server| !server.has(privileges::MONITORING_ROLES),
        fix: "be a superuser: before 10, nobody else sees all settings",
    },
    Here {
        id: "checkpoint",
        is_so: |server| !server.has(privileges::CHECKPOINT_ROLE),
        fix: "be a superuser: before 15, nobody else may run CHECKPOINT",
    },
    Here {
        id: "superuser",
        is_so: |server| !server.has(privileges::MONITORING_ROLES),
        fix: "be a superuser on a server that is yours: before 10, there are no roles with a part of its rights",
    },
    Here {
        id: "superuser",
        is_so: |server| !server.has(privileges::CHECKPOINT_ROLE),
        fix: "usually not needed: pg_monitor is enough, except for CHECKPOINT before each run",
    },
    // Each server loads its own libraries; the catalog comes from the primary.
    Here {
        id: "statement-statistics",
        is_so: |server| server.in_recovery,
        fix: "add it to shared_preload_libraries of this standby and restart it, if it is not there; create extension pg_stat_statements \
              on the primary, in the database, as a superuser and in a schema of one",
    },
    Here { id: "create-tables", is_so: |server| server.in_recovery, fix: TABLES_OF_PRIMARY },
    Here {
        id: "create-databases",
        is_so: |server| server.in_recovery,
        fix: "name the primary: a standby takes no new databases",
    },
];

const TABLES_OF_PRIMARY: &str = "name the primary; its tables are then on the standby, too, and can be measured as they are (row writable)";

/// The words of a row or a sight, as they can be followed on the server that was examined.
pub(super) fn effective(id: &str, fix: String, e: &Examined) -> String {
    named(&of_server(id, fix, e.server), e.names)
}

/// The words with the names that are known instead of placeholders.
fn named(fix: &str, names: &FixNames) -> String {
    let word = |text: &str| {
        let name = match text {
            "ROLE" => names.role.as_deref(),
            "DATABASE" => names.database.as_deref(),
            "SCHEMA" => names.schema.as_deref(),
            _ => None,
        };
        name.unwrap_or(text).to_string()
    };
    // Word by word: a name is not looked at again.
    let is_end = |c: char| !c.is_ascii_alphanumeric();
    fix.split_inclusive(is_end)
        .map(|part| {
            let text = part.trim_end_matches(is_end);
            word(text) + &part[text.len()..]
        })
        .collect()
}

fn of_server(id: &str, fix: String, server: Option<&ServerRecord>) -> String {
    let Some(server) = server else { return fix };
    if let Some(here) = HERE.iter().find(|here| here.id == id && (here.is_so)(server)) {
        return here.fix.to_string();
    }
    let fix = instead(&fix, server).unwrap_or(fix);
    let is_for_primary = {
        let statement = fix.strip_prefix(AS_SUPERUSER).unwrap_or(&fix);
        OF_PRIMARY.iter().any(|words| statement.starts_with(words))
    };
    if is_for_primary && server.in_recovery {
        return format!("on the primary: {fix}");
    }
    by_whom(fix, server)
}

/// ALTER SYSTEM with what this role or this server needs for it.
fn by_whom(fix: String, server: &ServerRecord) -> String {
    let Some(rest) = fix.strip_prefix("alter system set ") else { return fix };
    let lacks = server.unavailable.get("alter_system").map(String::as_str);
    if lacks.is_some_and(|reason| reason.contains("allow_alter_system")) {
        return format!("allow_alter_system is off; in the server's configuration file, set {rest}");
    }
    let name = rest.split(' ').next().unwrap_or_default();
    let is_first_there = RAISED_ON_STANDBYS_FIRST.contains(&name) && !server.receivers.is_empty();
    let first =
        if is_first_there { "first on its standbys, which stop otherwise, and then here: " } else { "" };
    let whom = if lacks.is_some() { AS_SUPERUSER } else { "" };
    format!("{first}{whom}{fix}")
}

/// What has an effect instead, for the sources that override a file (`GucSource` in PostgreSQL's guc.h). An environment
/// variable does not: a file overrides it. What a client gave concerns its own session alone.
fn instead(fix: &str, server: &ServerRecord) -> Option<String> {
    let (name, rest) = fix.strip_prefix("alter system set ")?.split_once(" = ")?;
    let (value, how) = rest.split_once(';')?;
    let how = how.trim_start();
    // What is left is a condition: ` if the file system has room`.
    let condition = TAKES_EFFECT.iter().find_map(|words| how.strip_prefix(*words))?;
    // A pooler keeps the sessions that it has.
    let of_pooler = match server.pooler() {
        Some(_) => {
            ", those of the pooler once it connects again (RECONNECT at PgBouncer's console, or a restart of the pooler)"
        }
        None => "",
    };
    let set = format!("set {name} = {value}; new sessions have it{of_pooler}");
    let lacks = server.unavailable.contains_key("alter_system");
    let whom = if lacks && OF_SUPERUSERS.contains(&name) { AS_SUPERUSER } else { "" };
    let of_all = if lacks { AS_SUPERUSER } else { "" };
    let instead = match server.settings.get(name)?.source.as_str() {
        "command line" => format!(
            "the server's command line has it (postgres -c, in its service or container) and overrides ALTER SYSTEM: \
             give {name} = {value} there, and stop and start the server (pg_ctl restart would start it with the options that it had)"
        ),
        "global" => format!("{of_all}alter role all {set}"),
        "database" => format!("{whom}alter database DATABASE {set}"),
        "user" => format!("{whom}alter role ROLE {set}"),
        "database user" => format!("{whom}alter role ROLE in database DATABASE {set}"),
        _ => return None,
    };
    Some(instead + condition)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::run::server::{Route, Setting};

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
            assert_eq!(of_server("", fix.to_string(), Some(&server(name, source))), expected, "{source}");
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
                 give {what} there, and stop and start the server (pg_ctl restart would start it with the options that it had)"
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
        assert_eq!(of_server("jit", jit.to_string(), None), jit);
    }

    #[test]
    fn a_fix_can_be_followed_on_the_server_that_gets_it() {
        let here = |id: &str, server: &ServerRecord| {
            let fixes = ROWS
                .iter()
                .map(|row| (row.id, row.fix))
                .chain(SIGHTS.iter().map(|sight| (sight.id, sight.fix)));
            let (_, fix) = fixes.into_iter().find(|(one, _)| *one == id).unwrap();
            of_server(id, fix.to_string(), Some(server))
        };
        let of = |version_num| ServerRecord { version_num, ..ServerRecord::default() };
        let standby = ServerRecord { in_recovery: true, ..of(150_018) };
        for id in ["all-stats", "checkpoint", "all-settings", "prewarm"] {
            assert!(here(id, &standby).starts_with("on the primary: "), "{id}: {}", here(id, &standby));
        }
        let preload = here("statement-statistics", &standby);
        assert!(preload.starts_with("add it to shared_preload_libraries of this standby"), "{preload}");
        assert!(preload.contains("create extension pg_stat_statements on the primary"), "{preload}");
        for id in ["create-tables", "create-databases", "writable"] {
            assert!(here(id, &standby).starts_with("name the primary"), "{id}: {}", here(id, &standby));
        }
        // ALTER SYSTEM writes a file, which a standby has of its own.
        assert!(here("jit", &standby).starts_with("alter system set jit"), "{}", here("jit", &standby));
        for (id, version_num) in [("all-stats", 90_624), ("all-settings", 90_624), ("checkpoint", 140_010)] {
            assert!(here(id, &of(version_num)).starts_with("be a superuser"), "{id}");
            assert!(here(id, &of(150_018)).starts_with("grant "), "{id}");
        }
        assert!(!here("superuser", &of(140_010)).contains("pg_checkpoint"));
        let lacks = |reason: &str| ServerRecord {
            unavailable: BTreeMap::from([("alter_system".to_string(), reason.to_string())]),
            ..of(170_002)
        };
        assert!(here("jit", &lacks("needs a superuser")).starts_with("as a superuser: alter system set jit"));
        let off = here("jit", &lacks("allow_alter_system is off"));
        assert!(
            !off.contains("alter system set") && off.contains("configuration file, set jit = off"),
            "{off}"
        );
        let primary = ServerRecord { receivers: vec!["async".to_string()], ..of(150_018) };
        assert!(here("free-sessions", &primary).starts_with("first on its standbys"));
        assert!(here("jit", &primary).starts_with("alter system"));
    }

    #[test]
    fn what_a_role_or_a_database_has_is_set_by_who_may_for_sessions_that_have_it() {
        let of = |name: &str, source: &str, lacks: bool| {
            let mut server = server(name, source);
            if lacks {
                server.unavailable.insert("alter_system".to_string(), "needs a superuser".to_string());
            }
            server
        };
        let here = |name: &str, server: &ServerRecord| {
            of_server("", format!("alter system set {name} = on; select pg_reload_conf();"), Some(server))
        };
        let waits = of("log_lock_waits", "user", true);
        let expected = "alter role ROLE set log_lock_waits = on; new sessions have it";
        assert_eq!(here("log_lock_waits", &waits), format!("as a superuser: {expected}"));
        let of_standby = ServerRecord { in_recovery: true, ..waits };
        assert_eq!(
            here("log_lock_waits", &of_standby),
            format!("on the primary: as a superuser: {expected}")
        );
        assert_eq!(here("log_lock_waits", &of("log_lock_waits", "user", false)), expected);
        let fix = here("jit", &of("jit", "database", true));
        assert_eq!(fix, "alter database DATABASE set jit = on; new sessions have it");
        assert!(here("jit", &of("jit", "global", true)).starts_with("as a superuser: alter role all "));
        let route = Route { pooler: Some("transaction".to_string()), ..Route::default() };
        let pooled = ServerRecord { route: Some(route), ..of("jit", "user", true) };
        let fix = here("jit", &pooled);
        assert!(fix.contains("new sessions have it, those of the pooler once it connects again"), "{fix}");
    }

    #[test]
    fn names_that_are_known_stand_in_statements_and_are_not_looked_at_again() {
        let names = FixNames {
            role: Some("\"DATABASE of\"".to_string()),
            database: Some("shop".to_string()),
            schema: None,
        };
        for (fix, expected) in [
            (
                "alter role ROLE in database DATABASE set jit = off; new",
                "alter role \"DATABASE of\" in database shop set jit = off; new",
            ),
            ("grant pg_monitor to ROLE, as", "grant pg_monitor to \"DATABASE of\", as"),
            ("grant usage on schema SCHEMA to ROLE", "grant usage on schema SCHEMA to \"DATABASE of\""),
            ("mount without nobarrier", "mount without nobarrier"),
        ] {
            assert_eq!(named(fix, &names), expected);
        }
        let fix = "alter database DATABASE set jit = off";
        assert_eq!(named(fix, &FixNames::default()), fix);
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
