//! Edits of configuration files that nobody has loaded yet: a reload for our settings would load them too.

use std::path::Path;

use anyhow::{Context, Result};
use wire::{Session, quote_literal};

use super::state;
use super::value::Kind;

/// The last entry of each setting that the server would take, next to what is in effect. What only a restart changes is among the
/// settings that wait for one, and what a database, a role or the session decides is not comparable.
const SQL: &str = "with f as (select * from pg_catalog.pg_file_settings), \
     last as (select distinct on (pg_catalog.lower(name)) pg_catalog.lower(name) as name, setting, sourcefile, sourceline from f \
       where applied order by pg_catalog.lower(name), seqno desc) \
     select s.name, s.setting as is, pg_catalog.current_setting(s.name) as shown, s.context, s.vartype, s.unit, \
       pg_catalog.array_to_string(s.enumvals, ',') as words, s.boot_val as boot, last.setting as entry, \
       coalesce(last.sourcefile, s.sourcefile) as file, coalesce(last.sourceline, s.sourceline)::text as line \
     from pg_catalog.pg_settings s left join last on last.name = pg_catalog.lower(s.name) \
     where s.source in ('default', 'configuration file') and s.context not in ('internal', 'postmaster') \
       and (last.name is not null or s.source = 'configuration file' \
         and not exists (select from f where pg_catalog.lower(f.name) = pg_catalog.lower(s.name))) \
     order by 1";

/// Why nothing may be loaded now, as long as there are such edits; those of the settings that `is_ours` accepts do not count.
/// The values are not said: one may be a password. Ask in a new session.
pub(super) fn problem(session: &mut Session, is_ours: impl Fn(&str) -> bool) -> Result<Option<String>> {
    let rows = session.query(SQL).context("cannot compare the configuration files with what is in effect")?;
    let mut edits = Vec::new();
    for row in 0..rows.len() {
        let text = |column: &str| rows.get(row, column).unwrap_or_default();
        let name = text("name");
        if is_ours(name) {
            continue;
        }
        let kind = Kind {
            vartype: text("vartype").to_string(),
            words: state::words(text("words")),
            unit: rows.get(row, "unit").map(str::to_string),
            ..Kind::default()
        };
        let is_loaded = match rows.get(row, "entry") {
            Some(entry) if is_same(name, &kind, entry, text("is")) => true,
            Some(entry) => {
                let tried = may_be_tried(text("context")).then(|| tried(session, name, entry)).flatten();
                // Without the right to try, a word may stand for another one.
                tried.map_or(kind.vartype == "enum" && kind.is_same(entry, text("is")), |tried| {
                    tried == text("shown")
                })
            }
            None => text("boot") == text("is"),
        };
        if !is_loaded {
            let what = if rows.get(row, "entry").is_some() { "" } else { ", removed from" };
            edits.push(format!("`{name}`{what} `{}`, line {}", text("file"), text("line")));
        }
    }
    Ok((!edits.is_empty()).then(|| {
        format!(
            "somebody's edits of configuration files have not been loaded ({}): reload the server, or take them back, before others \
             are changed",
            edits.join("; ")
        )
    }))
}

/// Whether the entry of a file is what is in effect. In a string, case and blanks at its ends count, unless the server itself writes
/// such a value in another way.
fn is_same(name: &str, kind: &Kind, entry: &str, is: &str) -> bool {
    match (kind.vartype.as_str(), name) {
        ("enum", _) | ("string", "log_timezone") => entry.eq_ignore_ascii_case(is),
        // Shown in its place while `archive_mode` is off, which only a restart changes.
        ("string", "archive_command") if is == "(disabled)" => true,
        ("string", "krb_server_keyfile" | "log_directory" | "stats_temp_directory") => {
            Path::new(entry).components().eq(Path::new(is).components())
        }
        ("string", _) => entry == is,
        _ => kind.is_same(entry, is),
    }
}

/// Whether a session may set it for itself.
fn may_be_tried(context: &str) -> bool {
    matches!(context, "user" | "superuser")
}

/// How the server writes a value itself: `english` may be `pg_catalog.english`. In effect for this one statement only.
fn tried(session: &mut Session, name: &str, value: &str) -> Option<String> {
    let sql =
        format!("select pg_catalog.set_config({}, {}, true)", quote_literal(name), quote_literal(value));
    session.query(&sql).ok()?.scalar().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_another_unit_or_case_is_no_edit() {
        let check_of = |name: &str, vartype: &str, entry: &str, is: &str, expected: bool| {
            let unit = (vartype == "integer").then(|| "kB".to_string());
            let kind = Kind { vartype: vartype.to_string(), unit, ..Kind::default() };
            assert_eq!(is_same(name, &kind, entry, is), expected, "{name}: {entry} {is}");
        };
        let check = |vartype: &str, entry: &str, is: &str, expected: bool| {
            check_of("x", vartype, entry, is, expected);
        };
        check("integer", "8MB", "8192", true);
        check("integer", "9MB", "8192", false);
        check("bool", "yes", "on", true);
        check("bool", "off", "on", false);
        check("enum", "DEBUG1", "debug1", true);
        check("string", "%m [%p] ", "%m [%p] ", true);
        check("string", "%m [%p]", "%m [%p] ", false);
        check("string", "cp /backup/%f %p", "cp /Backup/%f %p", false);
        check_of("log_timezone", "string", "utc", "UTC", true);
        check_of("archive_command", "string", "cp %p /x", "(disabled)", true);
        check_of("archive_command", "string", "cp %p /x", "cp %p /y", false);
        check_of("log_directory", "string", "log/", "log", true);
        check_of("log_directory", "string", "logs", "log", false);
    }
}
