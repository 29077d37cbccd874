//! Statements whose effect stays in a session, so that another client's transactions get it where clients share sessions.
//!
//! What a function does is not seen.

use model::experiment::script::CaseScript;
use workload::{Program, leading_words, sql_statements};

/// Words of a statement that are looked at.
const WORDS_MAX: usize = 10_000;

/// Locks of a session, in contrast to those of a transaction (`pg_advisory_xact_lock`).
const SESSION_LOCKS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];

/// The first statement of each script that leaves something in its session: where it is, and what it leaves.
pub(crate) fn all(scripts: &[CaseScript]) -> Vec<String> {
    scripts.iter().filter_map(of_script).collect()
}

fn of_script(script: &CaseScript) -> Option<String> {
    // What does not compile has been refused already.
    let program = Program::compile(&script.name, &script.source).ok()?;
    let found = program.statements.iter().find_map(|statement| {
        let left = sql_statements(&statement.text).into_iter().find_map(|sql| left_behind(&sql))?;
        Some((statement.line, left))
    });
    found.map(|(line, left)| format!("{}:{line}: {left}", script.name))
}

/// Whether scripts have transactions of several statements.
pub(crate) fn begins_transactions(scripts: &[CaseScript]) -> bool {
    let begins = |script: &CaseScript| {
        let Ok(program) = Program::compile(&script.name, &script.source) else { return false };
        let all = program.statements.iter().flat_map(|statement| sql_statements(&statement.text));
        all.into_iter()
            .any(|sql| matches!(leading_words(&sql, 1).first().map(String::as_str), Some("begin" | "start")))
    };
    scripts.iter().any(begins)
}

/// What a statement leaves in its session, and what to do instead.
fn left_behind(sql: &str) -> Option<&'static str> {
    const SET: &str = "SET lasts for the session: use SET LOCAL within a transaction";
    const PREPARE: &str = "SQL's PREPARE is of the session: leave it to workload.protocol";
    const LISTEN: &str = "LISTEN is of the session, and notifications reach whoever has it next";
    const TEMPORARY: &str =
        "a temporary table is of the session: create it with ON COMMIT DROP within a transaction";
    let words = leading_words(sql, WORDS_MAX);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |word: &str| words.contains(&word);
    let is_temporary = |word: &str| matches!(word, "temp" | "temporary");
    let has_pair = |first: &str, second: &dyn Fn(&str) -> bool| {
        words.windows(2).any(|pair| pair[0] == first && second(pair[1]))
    };
    let is_dropped = words.windows(3).any(|three| three == ["on", "commit", "drop"]);
    match words.as_slice() {
        ["set", "local" | "transaction" | "constraints", ..] => None,
        ["set" | "reset", ..] => Some(SET),
        ["listen" | "unlisten", ..] => Some(LISTEN),
        ["prepare", "transaction", ..] => None,
        ["prepare" | "deallocate" | "execute", ..] => Some(PREPARE),
        ["discard", ..] => Some("DISCARD ends what other clients have in the session"),
        ["create", rest @ ..] if rest.iter().take(4).any(|word| is_temporary(word)) && !is_dropped => {
            Some(TEMPORARY)
        }
        ["declare", ..] if has_pair("with", &|word| word == "hold") => {
            Some("a cursor WITH HOLD is of the session: fetch from it within its transaction")
        }
        _ if has_pair("into", &is_temporary) => Some(TEMPORARY),
        _ if SESSION_LOCKS.iter().any(|lock| has(lock)) => {
            Some("an advisory lock of the session stays with the connection: use pg_advisory_xact_lock")
        }
        _ if has("set_config") && has("false") => {
            Some("set_config(…, false) is SET: give true, which is SET LOCAL")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_in_a_session_is_found_and_what_ends_with_a_transaction_is_not() {
        for (sql, expected) in [
            ("SET work_mem = '1MB';", Some("SET LOCAL")),
            ("/* set */ set session work_mem = 1;", Some("SET LOCAL")),
            ("reset all;", Some("SET LOCAL")),
            ("set local work_mem = '1MB';", None),
            ("set transaction isolation level serializable;", None),
            ("update t set a = 1;", None),
            ("LISTEN job;", Some("LISTEN")),
            ("notify job;", None),
            ("create temp table t (a int);", Some("temporary")),
            ("create local temporary table t (a int) on commit drop;", None),
            ("create table temperature (a int);", None),
            ("select * into temp t from u;", Some("temporary")),
            ("select pg_advisory_lock(1);", Some("advisory")),
            ("select pg_advisory_xact_lock(1);", None),
            ("prepare p as select 1;", Some("PREPARE")),
            ("prepare transaction 'a';", None),
            ("declare c cursor with hold for select 1;", Some("WITH HOLD")),
            ("declare c cursor for select 1;", None),
            ("select set_config('work_mem', '1MB', false);", Some("SET LOCAL")),
            ("select set_config('work_mem', '1MB', true);", None),
            ("select 'listen';", None),
        ] {
            let script = CaseScript { name: "s".to_string(), source: sql.to_string(), ..sample() };
            let found = all(&[script]).pop();
            match expected {
                Some(words) => {
                    assert!(found.as_ref().is_some_and(|found| found.contains(words)), "{sql}: {found:?}")
                }
                None => assert_eq!(found, None, "{sql}"),
            }
        }
    }

    #[test]
    fn the_line_of_a_statement_is_said() {
        let source = "\\set a 1\nselect 1;\nselect 2 \\; set jit = off;\n".to_string();
        let found = all(&[CaseScript { name: "x.sql".to_string(), source, ..sample() }]);
        assert!(found[0].starts_with("x.sql:3: SET"), "{found:?}");
    }

    fn sample() -> CaseScript {
        let mut case = crate::plan::sample::case(
            "[workload]\nkind = \"scripts\"\ndata = \"none\"\n[[workload.scripts]]\nname = \"s\"\ntext = \"select 1\"",
        );
        case.workload.scripts.remove(0)
    }
}
