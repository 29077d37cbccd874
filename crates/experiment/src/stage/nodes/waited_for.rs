//! Whether the standbys that commits wait for are there. Without them a load stands still at its first commit, and nothing says why.

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::topology::n_waited_for;
use server::database::facts::in_recovery;
use wire::{Session, quote_literal};

const NAMES: &str = "synchronous_standby_names";
const COMMIT: &str = "synchronous_commit";

/// Why commits on a server that is reached by URL would wait forever with the settings of `cases`; `None` where standbys are there, or the role
/// cannot see which.
///
/// # Errors
/// When the server fails.
pub(crate) fn problem(session: &mut Session, cases: &[&Case]) -> Result<Option<String>> {
    if in_recovery(session) {
        return Ok(None);
    }
    let mut of_server = |name: &str| -> Result<String> {
        let rows = session.query(&format!("select pg_catalog.current_setting({})", quote_literal(name)))?;
        Ok(rows.scalar().unwrap_or_default().to_string())
    };
    let (names, commit) = (of_server(NAMES)?, of_server(COMMIT)?);
    let mut asked: Vec<&String> = cases
        .iter()
        .map(|case| &case.server.settings)
        .filter(|settings| waits(settings.get(COMMIT).unwrap_or(&commit)))
        .map(|settings| settings.get(NAMES).unwrap_or(&names))
        .filter(|names| !names.trim().is_empty())
        .collect();
    asked.dedup();
    if asked.is_empty() {
        return Ok(None);
    }
    let rows = session.query("select application_name from pg_catalog.pg_stat_replication")?;
    let connected: Vec<Option<&str>> = rows.rows.iter().map(|row| row.first()?.as_deref()).collect();
    Ok(asked.iter().find_map(|names| lacking(names, &connected)))
}

/// The same for a server that pgdyno runs, which has no standbys.
pub(crate) fn problem_of_own(case: &Case) -> Option<String> {
    let settings = &case.server.settings;
    let names = settings.get(NAMES).filter(|names| !names.trim().is_empty())?;
    waits(settings.get(COMMIT).map_or("on", String::as_str)).then(|| {
        format!(
            "{NAMES} = {names}: the server has no such standby, so that each commit would wait forever; topology.standbys and \
             topology.synchronous make them, or measure a server with standbys by URL"
        )
    })
}

/// Whether commits wait for standbys.
fn waits(synchronous_commit: &str) -> bool {
    let never = ["off", "local", "false", "no", "0"];
    !never.iter().any(|word| word.eq_ignore_ascii_case(synchronous_commit))
}

/// Why these connections do not suffice; one without a name is of a standby that the role cannot see.
fn lacking(names: &str, connected: &[Option<&str>]) -> Option<String> {
    let (n_wanted, wanted) = wanted(names);
    let is_named =
        |name: &str| wanted.iter().any(|wanted| wanted == "*" || wanted.eq_ignore_ascii_case(name));
    let n_there = connected.iter().filter(|name| name.is_none_or(is_named)).count();
    if n_there >= n_wanted {
        return None;
    }
    let seen: Vec<String> = connected.iter().flatten().map(|name| format!("`{name}`")).collect();
    let seen = if seen.is_empty() { "no standby".to_string() } else { format!("only {}", seen.join(", ")) };
    Some(format!(
        "{NAMES} = {names}: {seen} is connected (pg_stat_replication), so that each commit would wait; start the standby with that \
         application_name in its primary_conninfo first"
    ))
}

/// How many standbys a commit waits for, and the names that count: `FIRST 2 (s1, s2, s3)`, `ANY 1 (*)`, `2 (a, b)`, `s1, s2`.
fn wanted(names: &str) -> (usize, Vec<String>) {
    let list = names.split_once('(').map_or(names, |(_, list)| list.trim_end().trim_end_matches(')'));
    let unquoted = |name: &str| name.trim().trim_matches('"').replace("\"\"", "\"");
    (n_waited_for(names), list.split(',').map(unquoted).filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_is_local_or_off_waits_for_nobody() {
        for (value, expected) in [
            ("on", true),
            ("remote_apply", true),
            ("off", false),
            ("OFF", false),
            ("local", false),
            ("No", false),
        ] {
            assert_eq!(waits(value), expected, "{value}");
        }
    }

    #[test]
    fn commits_need_as_many_standbys_as_the_setting_says() {
        let check = |names: &str, connected: &[Option<&str>], is_missing: bool| {
            assert_eq!(lacking(names, connected).is_some(), is_missing, "{names} {connected:?}");
        };
        let (s1, s2, hidden) = (Some("s1"), Some("s2"), None);
        check("s1", &[], true);
        check("s1", &[s2], true);
        check("s1", &[s1, s2], false);
        check("\"S1\"", &[s1], false);
        check("*", &[s2], false);
        check("s1, s2", &[s2], false);
        check("FIRST 2 (s1, s2)", &[s2], true);
        check("FIRST 2 (s1, s2)", &[s2, s1], false);
        check("ANY 1 (s1, s3)", &[s2], true);
        check("2 (*)", &[s1, s2], false);
        // What the role cannot see may be the one that is named.
        check("s1", &[hidden], false);
        assert!(lacking("s1", &[s2]).unwrap().contains("only `s2` is connected"));
    }
}
