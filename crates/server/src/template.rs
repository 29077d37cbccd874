//! First states of a database on a server that somebody else runs, kept there as databases from which it is copied.
//!
//! Only the database that was named is ever replaced, and in one step: it and its template change their names in one
//! transaction, what was there before is dropped, and what was the template is copied, to be the next one. Templates
//! are dropped at the end; those that a killed pgdyno left behind are found by their names at the next start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use wire::{Session, quote_ident, quote_literal};

use crate::facts::version_num;
use crate::relations::{Missing, with_parts};
use crate::tend::{Detail, seconds};

/// The database from which the others are seen.
pub const MAINTENANCE: &str = "postgres";

/// Key of the advisory lock: `pgdz` in ASCII; the other half is a hash of the database's name.
const LOCK: &str = "1885824122";

/// How long the end of an experiment waits for a database to be dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(60);

/// The templates of one database.
#[derive(Debug)]
pub struct Templates {
    /// In the maintenance database, for as long as there are templates.
    session: Session,
    version_num: u32,
    database: String,
    owner: String,
    /// Their names, by what is in them.
    made: BTreeMap<String, String>,
    /// Whether something was copied, or begun to be.
    has_copied: bool,
}

/// A database that is in its first state again.
#[derive(Debug)]
pub struct Restored {
    /// How, and how long it took.
    pub detail: Detail,
    /// Whether what was there before is dropped and there is a template for the next time; if not, why.
    pub kept: Result<()>,
}

/// Why a database cannot be restored from a template; `None` if nothing is in the way. `session` is in the database.
///
/// # Errors
/// When the server fails.
pub fn obstacle(session: &mut Session) -> Result<Option<String>> {
    let sql = obstacle_sql(version_num(session)?);
    let rows = session.query(&sql).context("look at the database's properties")?;
    Ok(rows.scalar().map(str::to_string))
}

/// What belongs to the database itself is not copied with it.
fn obstacle_sql(version_num: u32) -> String {
    // 9.6 has no subscriptions. Of the others everybody may read which database they belong to.
    let subscribed = match version_num >= 100_000 {
        true => "exists (select 1 from pg_catalog.pg_subscription s where s.subdbid = d.oid)",
        false => "false",
    };
    format!(
        "select case \
          when d.datname = 'postgres' or d.datistemplate then 'the database is one that the server itself needs' \
          when not (r.rolsuper or r.rolcreatedb) then 'the user may not create databases (needs CREATEDB)' \
          when not pg_has_role(d.datdba, 'member') then 'the user does not own the database' \
          when d.datacl is not null then 'privileges on the database would be lost' \
          when d.datconnlimit <> -1 then 'the database has a connection limit, which would be lost' \
          when exists (select 1 from pg_db_role_setting s where s.setdatabase = d.oid) \
               then 'settings of the database would be lost' \
          when shobj_description(d.oid, 'pg_database') is not null then 'the database has a comment, which would be lost' \
          when exists (select 1 from pg_catalog.pg_shseclabel l \
                        where l.classoid = 'pg_catalog.pg_database'::regclass and l.objoid = d.oid) \
               then 'the database has a security label, which would be lost' \
          when {subscribed} then 'a subscription belongs to the database' \
          when exists (select 1 from pg_replication_slots s where s.database = d.datname) \
               then 'a replication slot uses the database' end \
        from pg_catalog.pg_database d, pg_catalog.pg_roles r \
       where d.datname = current_database() and r.rolname = current_user"
    )
}

/// A table in the session's database that is neither one of `tables` nor a part of one nor an extension's.
///
/// # Errors
/// When the server fails.
pub fn foreign_table(session: &mut Session, tables: &[&str]) -> Result<Option<String>> {
    let ours = with_parts(tables, Missing::IsLeftOut);
    let sql = format!(
        "{ours}
         select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where c.relkind in ('r', 'p', 'm', 'f') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
            and not exists (select 1 from t where t.oid = c.oid)
            and not exists (select 1 from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
                               and d.deptype = 'e')
          order by 1 limit 1"
    );
    Ok(session.query(&sql).context("list the database's tables")?.scalar().map(str::to_string))
}

impl Templates {
    /// Prepares to keep templates of the database that `here` is in; `maintenance` is in [`MAINTENANCE`]. Drops
    /// what a killed pgdyno left behind.
    ///
    /// # Errors
    /// When another pgdyno does the same, or the server fails.
    pub fn open(mut maintenance: Session, here: &mut Session) -> Result<Templates> {
        let sql = "select d.datname, pg_get_userbyid(d.datdba) from pg_database d where d.datname = current_database()";
        let rows = here.query(sql)?;
        let Some([Some(database), Some(owner)]) = rows.rows.first().map(Vec::as_slice) else {
            bail!("the server does not say which database this is");
        };
        let (database, owner) = (database.clone(), owner.clone());
        let sql = format!("select pg_try_advisory_lock({LOCK}, hashtext({}))", quote_literal(&database));
        if maintenance.query(&sql)?.scalar() != Some("t") {
            bail!("another pgdyno keeps templates of database `{database}`; wait for its end");
        }
        let version_num = version_num(&mut maintenance)?;
        let mut templates = Templates {
            session: maintenance,
            version_num,
            database,
            owner,
            made: BTreeMap::new(),
            has_copied: false,
        };
        templates.sweep()?;
        Ok(templates)
    }

    /// Whether there is a template for `key`.
    pub fn has(&self, key: &str) -> bool {
        self.made.contains_key(key)
    }

    /// Keeps the database as it is now as the template for `key`. Nobody may be connected to the database.
    ///
    /// # Errors
    /// When the server refuses: a right is missing, someone is connected, the disk is full.
    pub fn make(&mut self, key: &str) -> Result<Detail> {
        let began = Instant::now();
        self.keep(key)?;
        Ok(self.detail(began))
    }

    /// Puts the database to the state of the template for `key`. Nobody may be connected to the database.
    ///
    /// The template becomes the database, which so exists at any moment and is whole. The copy that the next restore
    /// needs is made last: what the run changed in memory is forgotten with the dropped database in place of being
    /// written by the checkpoint that a copy begins with, and the copy finds the space that the drop made free.
    ///
    /// # Errors
    /// When there is no such template, or the names cannot be changed: the database is then as it was.
    pub fn restore(&mut self, key: &str) -> Result<Restored> {
        let began = Instant::now();
        let template =
            self.made.get(key).with_context(|| format!("there is no template for `{key}`"))?.clone();
        let old = self.name_of("old");
        self.swap(&template, &old)?;
        self.made.remove(key);
        let kept = self.drop_database(&old).and_then(|()| self.keep(key));
        Ok(Restored { detail: self.detail(began), kept })
    }

    /// Which statement copies.
    pub fn method(&self) -> &'static str {
        if self.has_strategy() {
            "create database from a template, strategy file_copy"
        } else {
            "create database from a template"
        }
    }

    fn has_strategy(&self) -> bool {
        self.version_num >= 150_000
    }

    fn detail(&self, began: Instant) -> Detail {
        Detail::from([
            ("method".to_string(), self.method().to_string()),
            ("seconds".to_string(), seconds(began)),
        ])
    }

    /// Told apart by database and content, and shorter than the 63 bytes that a name may have.
    fn name_of(&self, content: &str) -> String {
        let hash = format!("{:x}", Sha256::digest(content));
        format!("{}{}", self.prefix(), &hash[..12])
    }

    /// Only templates and copies of this database have names that begin so.
    fn prefix(&self) -> String {
        let hash = format!("{:x}", Sha256::digest(&self.database));
        format!("pgdyno_{}_", &hash[..16])
    }

    /// Copies the database to be the template for `key`.
    fn keep(&mut self, key: &str) -> Result<()> {
        let name = self.name_of(key);
        let (template, database) = (quote_ident(&name), quote_ident(&self.database));
        // From here on there may be something to drop.
        self.has_copied = true;
        let owner = quote_ident(&self.owner);
        let mut sql = format!("create database {template} template {database} owner {owner}");
        if self.has_strategy() {
            // Writing every page to the WAL, the default, takes two to four times as long.
            sql.push_str(" strategy file_copy");
        }
        self.session.execute(&sql).with_context(|| format!("copy database {database}"))?;
        self.made.insert(key.to_string(), name);
        // For people who list databases.
        let mark =
            format!("pgdyno: first state of database {}; may be dropped when no pgdyno runs", self.database);
        self.session.execute(&format!("comment on database {template} is {}", quote_literal(&mark)))?;
        Ok(())
    }

    fn swap(&mut self, new: &str, old: &str) -> Result<()> {
        let (new, old, database) = (quote_ident(new), quote_ident(old), quote_ident(&self.database));
        self.session.execute("begin")?;
        let renamed = [
            format!("alter database {database} rename to {old}"),
            format!("alter database {new} rename to {database}"),
            // It is no template any more.
            format!("comment on database {database} is null"),
        ]
        .iter()
        .try_for_each(|sql| self.session.execute(sql));
        let ended = self.session.execute(if renamed.is_ok() { "commit" } else { "rollback" });
        // Why it was rolled back comes first.
        renamed.and(ended).with_context(|| format!("replace database {database}"))
    }

    fn drop_database(&mut self, name: &str) -> Result<()> {
        let sql = format!("drop database if exists {}", quote_ident(name));
        self.session.execute(&sql).with_context(|| format!("drop database `{name}`"))
    }

    /// Drops all that has a name of ours: templates, what a restore did not drop, what a killed pgdyno left behind.
    fn sweep(&mut self) -> Result<()> {
        let prefix = quote_literal(&self.prefix());
        let sql = format!("select datname from pg_database where left(datname, length({prefix})) = {prefix}");
        let rows = self.session.query(&sql)?;
        let names = rows.rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        names.collect::<Vec<_>>().iter().try_for_each(|name| self.drop_database(name))
    }

    /// Drops all templates.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn close(mut self) -> Result<()> {
        self.drop_all()
    }

    fn drop_all(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.has_copied) {
            return Ok(());
        }
        // The server may hang; each drop waits for a checkpoint. What is left is found by its name.
        self.session.set_timeout(Some(DROP_TIMEOUT));
        self.sweep()
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        // An error has no one to go to; what is left is found by its name.
        self.drop_all().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_looked_for_where_there_are_any() {
        let check = |version_num: u32, expected: bool| {
            let sql = obstacle_sql(version_num);
            assert_eq!(sql.contains("pg_subscription"), expected, "{sql}");
            assert!(sql.contains("pg_shseclabel"), "{sql}");
        };
        check(90_624, false);
        check(100_000, true);
        check(180_001, true);
    }
}
