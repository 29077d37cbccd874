//! Statements of the user's that change the data of one case, such as an index: run after the restore, and undone by the next one.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use model::release::{Release, catalogs};
use model::run::applied::{Applied, AppliedRelation};
use wire::session::{Session, SessionError};
use wire::{quote_ident, quote_literal};
use workload::leading_words;
use workload::script::sqlfile;

use crate::session::LIMIT_LOCK_WAITS;

/// Relations whose size is looked at.
const RELATIONS_MAX: usize = 20_000;
/// Beginnings of statements that make something of a table and change nothing else, so that a DROP undoes them.
const UNDONE_BY_DROP: [&[&str]; 3] =
    [&["create", "index"], &["create", "unique", "index"], &["create", "statistics"]];
/// The comment on what was made by URL, before its OID: the next restore drops it, even after a crash.
const MARK: &str = "pgdyno applied oid=";

/// A condition on an object of a catalog, by its alias and the catalog's name: that it was made by `workload.apply`.
pub(crate) fn is_applied_sql(alias: &str, catalog: &str) -> String {
    format!("coalesce(pg_catalog.obj_description({alias}.oid, '{catalog}'), '') = '{MARK}' || {alias}.oid")
}

/// Where statements may have an effect.
#[derive(Debug, Clone, Copy)]
pub enum ApplyScope<'a> {
    /// Anywhere: the server is ours, and its files are restored.
    OwnServer,
    /// On these tables alone, each as `schema.table`: pgdyno made them on a server by URL. [`undo`] drops what is made.
    Tables(&'a [String]),
}

/// The statements of a text.
///
/// # Errors
/// In words, for what is none, and for a COPY with rows.
pub fn statements(sql: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for step in sqlfile::steps(sql) {
        match step {
            Ok(step) if step.rows.is_some() => return Err("COPY FROM STDIN has no rows here".to_string()),
            Ok(step) => found.push(step.text),
            Err(error) => return Err(error.message),
        }
    }
    if found.is_empty() { Err("there is no statement in it".to_string()) } else { Ok(found) }
}

/// Reason why a statement must not run on a server by URL, if there is one: nothing would undo it.
pub fn refusal_by_url(statement: &str) -> Option<String> {
    let words = leading_words(statement, 4);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.contains(&"concurrently") {
        return Some(
            "CONCURRENTLY leaves a part behind where it fails; leave it out: nobody else uses these tables meanwhile"
                .to_string(),
        );
    }
    let is_undone = UNDONE_BY_DROP.iter().any(|beginning| words.starts_with(beginning));
    (!is_undone).then(|| {
        let begun: Vec<String> = words.iter().take(2).map(|word| word.to_uppercase()).collect();
        format!(
            "nothing undoes `{}` on a server by URL, where only CREATE INDEX and CREATE STATISTICS on tables that pgdyno loads are applied; \
             measure it on a server that pgdyno runs (--version)",
            begun.join(" ")
        )
    })
}

/// Runs the statements, and finds out what they changed. By URL in a transaction, which is rolled back if they lock anything but the tables.
///
/// # Errors
/// When a statement fails, or reaches beyond its scope.
pub fn apply(session: &mut Session, sql: &str, scope: ApplyScope) -> Result<Applied> {
    let all = statements(sql).map_err(anyhow::Error::msg)?;
    let before = relations(session)?;
    let begun = Instant::now();
    match scope {
        ApplyScope::OwnServer => run(session, &all)?,
        ApplyScope::Tables(tables) => run_within(session, &all, tables)?,
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = relations(session)?;
    Ok(Applied { sql: sql.to_string(), seconds, relations: changed(&before, &after) })
}

fn run(session: &mut Session, all: &[String]) -> Result<()> {
    all.iter().try_for_each(|statement| {
        session.query_params(statement, &[]).map(drop).with_context(|| format!("`{}`", shown(statement)))
    })
}

fn run_within(session: &mut Session, all: &[String], tables: &[String]) -> Result<()> {
    if let Some(why) = all.iter().find_map(|statement| refusal_by_url(statement)) {
        anyhow::bail!(why);
    }
    session.execute("begin")?;
    session.query(LIMIT_LOCK_WAITS)?;
    let done = made(session, tables).and_then(|before| {
        run(session, all)?;
        let foreign = locked_beyond(session, tables)?;
        ensure!(
            foreign.is_empty(),
            "it would change or lock {}, which is not among the tables that pgdyno loaded ({})",
            foreign.join(", "),
            tables.join(", ")
        );
        let new = made(session, tables)?;
        new.iter().filter(|one| !before.contains(one)).try_for_each(|one| mark(session, one))
    });
    match done {
        Ok(()) => Ok(session.execute("commit")?),
        Err(error) => {
            session.execute("rollback")?;
            Err(error.context("rolled back"))
        }
    }
}

/// An index or extended statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    oid: u32,
    /// `index` or `statistics`.
    kind: String,
    /// Schema and name, quoted.
    name: String,
}

fn mark(session: &mut Session, Made { oid, kind, name }: &Made) -> Result<()> {
    Ok(session.execute(&format!("comment on {kind} {name} is {}", quote_literal(&format!("{MARK}{oid}"))))?)
}

/// The indexes of these tables and of their partitions, and their extended statistics.
fn made(session: &mut Session, tables: &[String]) -> Result<Vec<Made>> {
    let own = own_sql(tables);
    let mut sql = format!(
        "with recursive {own} select c.oid, 'index' as kind, n.nspname, c.relname as name from pg_catalog.pg_index x \
           join own on own.oid = x.indrelid join pg_catalog.pg_class c on c.oid = x.indexrelid \
           join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
    );
    if has_statistics(session) {
        sql += " union all select s.oid, 'statistics', n.nspname, s.stxname from pg_catalog.pg_statistic_ext s \
                 join own on own.oid = s.stxrelid join pg_catalog.pg_namespace n on n.oid = s.stxnamespace";
    }
    of_rows(session, &sql)
}

fn of_rows(session: &mut Session, sql: &str) -> Result<Vec<Made>> {
    let rows = session.query(sql)?;
    let of = |row: usize| {
        let text = |column: &str| rows.get(row, column).map(quote_ident);
        let name = format!("{}.{}", text("nspname")?, text("name")?);
        Some(Made { oid: rows.parse(row, "oid")?, kind: rows.get(row, "kind")?.to_string(), name })
    };
    Ok((0..rows.len()).filter_map(of).collect())
}

fn has_statistics(session: &Session) -> bool {
    Release::new(session.server_version_num()).has(catalogs::PARTITIONS)
}

/// Drops what was made by URL, also by a pgdyno that was killed.
///
/// # Errors
/// When the server fails.
pub fn undo(session: &mut Session) -> Result<()> {
    // Indexes of partitions go with the index that they are a part of.
    let mut sql = format!(
        "select c.oid, 'index' as kind, n.nspname, c.relname as name from pg_catalog.pg_class c \
           join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_description d on d.objoid = c.oid \
          where c.relkind in ('i', 'I') and d.classoid = 1259 and d.objsubid = 0 and coalesce(pg_catalog.to_jsonb(c) ->> 'relispartition', 'false') = 'false' \
            and {}",
        is_applied_sql("c", "pg_class")
    );
    if has_statistics(session) {
        sql += &format!(
            " union all select s.oid, 'statistics', n.nspname, s.stxname from pg_catalog.pg_statistic_ext s \
               join pg_catalog.pg_namespace n on n.oid = s.stxnamespace where {}",
            is_applied_sql("s", "pg_statistic_ext")
        );
    }
    for Made { kind, name, .. } in of_rows(session, &sql)? {
        session
            .execute(&format!("drop {kind} {name}"))
            .with_context(|| format!("undo what was applied: {kind} {name}"))?;
    }
    Ok(())
}

/// The tables, and their partitions, as `own`.
fn own_sql(tables: &[String]) -> String {
    format!(
        "own as (select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
            where n.nspname || '.' || c.relname in ({}) \
           union select i.inhrelid from pg_catalog.pg_inherits i join own on own.oid = i.inhparent)",
        literals(tables)
    )
}

/// Relations that this transaction has locked for more than reading, apart from catalogs, these tables, their partitions, indexes and
/// TOAST tables.
fn locked_beyond(session: &mut Session, tables: &[String]) -> Result<Vec<String>> {
    let sql = format!(
        "with recursive {}, \
         toasts as (select c.reltoastrelid as oid from pg_catalog.pg_class c join own on own.oid = c.oid), \
         tables as (select oid from own union select oid from toasts), \
         allowed as (select oid from tables \
           union select x.indexrelid from pg_catalog.pg_index x join tables on tables.oid = x.indrelid) \
         select distinct n.nspname || '.' || c.relname as name from pg_catalog.pg_locks l \
           join pg_catalog.pg_class c on c.oid = l.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
          where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation' and l.mode <> 'AccessShareLock' \
            and n.nspname not in ('pg_catalog', 'information_schema') and c.oid not in (select oid from allowed) order by 1 limit 5",
        own_sql(tables)
    );
    let rows = session.query(&sql)?;
    Ok((0..rows.len()).filter_map(|row| rows.get(row, "name")).map(|name| format!("`{name}`")).collect())
}

fn literals(names: &[String]) -> String {
    if names.is_empty() {
        return "''".to_string();
    }
    names.iter().map(|name| quote_literal(name)).collect::<Vec<_>>().join(", ")
}

/// A relation by its number: name, kind and bytes.
type Relations = BTreeMap<String, (String, String, u64)>;

fn relations(session: &mut Session) -> Result<Relations, SessionError> {
    let sql = format!(
        "select c.oid, n.nspname || '.' || c.relname as name, pg_catalog.pg_relation_size(c.oid) as bytes, \
           case c.relkind when 'r' then 'table' when 'i' then 'index' when 'm' then 'materialized view' when 't' then 'toast' \
             else 'relation' end as kind \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'i', 'm', 't') and c.oid >= 16384 and c.relpersistence <> 't' order by c.oid limit {RELATIONS_MAX}"
    );
    let rows = session.query(&sql)?;
    let of = |row: usize| {
        let text = |column: &str| rows.get(row, column).map(str::to_string);
        Some((text("oid")?, (text("name")?, text("kind")?, rows.parse(row, "bytes")?)))
    };
    Ok((0..rows.len()).filter_map(of).collect())
}

fn changed(before: &Relations, after: &Relations) -> Vec<AppliedRelation> {
    let numbers: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let of = |number: &String| {
        let (was, is) = (before.get(number), after.get(number));
        let (name, kind, _) = is.or(was)?;
        let [before_bytes, after_bytes] = [was, is].map(|found| found.map(|(_, _, bytes)| *bytes));
        (before_bytes != after_bytes).then(|| AppliedRelation {
            name: name.clone(),
            kind: kind.clone(),
            before_bytes,
            after_bytes,
        })
    };
    let mut changed: Vec<AppliedRelation> = numbers.into_iter().filter_map(of).collect();
    changed.sort_by(|one, other| other.growth().abs().total_cmp(&one.growth().abs()));
    changed
}

/// The beginning of a statement, in one line.
fn shown(statement: &str) -> String {
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_with_the_tables_is_applied_by_url() {
        for sql in [
            "CREATE INDEX i ON t (a)",
            "create unique index on t (a)",
            "/* why */ CREATE STATISTICS s ON a, b FROM t",
        ] {
            assert_eq!(refusal_by_url(sql), None, "{sql}");
        }
        for (sql, word) in [
            ("ALTER SYSTEM SET work_mem = '1GB'", "ALTER SYSTEM"),
            ("create table x ()", "CREATE TABLE"),
            ("do $$ begin end $$", "DO"),
            ("drop table t", "DROP TABLE"),
            ("DROP INDEX i", "DROP INDEX"),
            ("ALTER TABLE t SET (fillfactor = 50)", "ALTER TABLE"),
            ("CREATE INDEX CONCURRENTLY i ON t (a)", "CONCURRENTLY"),
            ("commit", "COMMIT"),
            ("alter role x set work_mem = '1GB'", "ALTER ROLE"),
        ] {
            let why = refusal_by_url(sql).unwrap_or_else(|| panic!("{sql}"));
            assert!(why.contains(word), "{sql}: {why}");
        }
    }

    #[test]
    fn a_text_is_several_statements_or_none() {
        let text = "CREATE INDEX i ON t (a);\n-- and\nANALYZE t;";
        assert_eq!(statements(text).unwrap().len(), 2);
        for text in ["", " -- nothing", "\\gexec", "copy t from stdin;\n1\n\\.\n"] {
            assert!(statements(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_made_dropped_or_grew_is_listed() {
        let all = |rows: &[(&str, u64)]| -> Relations {
            rows.iter()
                .map(|(name, bytes)| (name.to_string(), (name.to_string(), "index".to_string(), *bytes)))
                .collect()
        };
        let found = changed(&all(&[("1", 10), ("2", 5), ("3", 7)]), &all(&[("1", 10), ("2", 6), ("4", 100)]));
        let names: Vec<(&str, f64)> = found.iter().map(|one| (one.name.as_str(), one.growth())).collect();
        assert_eq!(names, [("4", 100.0), ("3", -7.0), ("2", 1.0)]);
    }
}
