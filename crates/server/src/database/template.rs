//! Initial states of a database on a server that somebody else runs, kept there as template databases.
//!
//! Only the database that was named is ever replaced: it and its template swap names in one transaction, the former
//! database is dropped, and the new one is copied as the next template. Before that, the database's contents are
//! compared with those at the time its template was made, and once more when it has another name and nobody can connect
//! to it any more: if somebody else has created something in it, nothing is dropped, and the names are changed back.

mod door;
mod inventory;
mod leftovers;
mod mark;
mod strangers;

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use model::release::{Release, catalogs};
use sha2::{Digest, Sha256};
use wire::{Session, quote_ident, quote_literal};

use self::door::closed_inventory;
pub use self::door::{Doors, MAINTENANCE};
use self::inventory::Inventory;
use self::leftovers::{BIRTHMARK, drop_database};
pub use self::leftovers::{LeftoverOutcome, clean};
use self::mark::{DatabaseMark, DatabaseRole};
pub use self::mark::{copies, create_database};
pub use self::strangers::{LoadedObjects, Others, RoutineFacts, holders, others, stranger};
use crate::database::facts::version_num;
use crate::database::tend::{StepDetail, seconds};

/// Key of the advisory lock: `pgdz` in ASCII; the other half is a hash of the database's name.
const LOCK: &str = "1885824122";

/// The templates of one database.
#[derive(Debug)]
pub struct Templates {
    doors: Doors,
    /// A session in the maintenance database, for as long as there are templates.
    session: Session,
    version_num: u32,
    database: String,
    owner: String,
    /// Whether pgdyno made the database, which its mark says.
    is_made: bool,
    /// The templates by their key.
    made: BTreeMap<String, Template>,
    /// The database's contents when it was last loaded or restored.
    stock: Option<Inventory>,
    /// Whether a copy was begun.
    has_copied: bool,
}

#[derive(Debug)]
struct Template {
    name: String,
    oid: u32,
    inventory: Inventory,
}

/// A database that is in its initial state again.
#[derive(Debug)]
pub struct Restored {
    /// The method, and how long it took.
    pub detail: StepDetail,
    /// Why the former database was not dropped, or there is no template for the next time, if so.
    pub kept: Result<()>,
}

/// The database contains something that pgdyno did not load: it is left as it is.
#[derive(Debug, thiserror::Error)]
#[error("database `{database}` has changed since pgdyno loaded it: {difference}")]
pub struct Changed {
    database: String,
    /// The first difference: what is new, gone or changed.
    pub difference: String,
}

/// The database has a name that pgdyno gave it, and its copy has its name: the user has to decide what happens to them.
#[derive(Debug, thiserror::Error)]
#[error(
    "database `{database}` is now a copy, and the former one is database `{old}`, which contains something that pgdyno did not make: \
     {reason}; rename them, or move what is needed, then drop `{old}`"
)]
pub struct Displaced {
    database: String,
    old: String,
    reason: String,
}

/// Why a database cannot be restored from a template; `None` if it can. `session` is in the database.
///
/// # Errors
/// When the server fails.
pub fn obstacle(session: &mut Session) -> Result<Option<String>> {
    let (name, oid, _) = here(session)?;
    let mark = mark::is_made(session, &name, oid)?.then(|| made_mark(&name, oid));
    obstacle_to_losing(session, &name, mark.as_ref())
}

/// Whether pgdyno made the database that `session` is in, so that it may be replaced by a copy without being named.
///
/// # Errors
/// When the server fails.
pub fn is_made(session: &mut Session) -> Result<bool> {
    let (name, oid, _) = here(session)?;
    mark::is_made(session, &name, oid)
}

/// The server process of a pgdyno that keeps templates of the database that `session` is in.
///
/// # Errors
/// When the server fails.
pub fn keeper(session: &mut Session) -> Result<Option<String>> {
    // Advisory locks belong to the database of their session, and this one to that of the maintenance session. An OID
    // has no sign.
    let sql = format!(
        "select pid from pg_catalog.pg_locks where locktype = 'advisory' and granted and objsubid = 2 and classid = {LOCK} \
         and objid = (hashtext(current_database())::bigint & 4294967295)::oid limit 1"
    );
    let rows = session.query(&sql).context("look for a pgdyno that keeps templates")?;
    Ok(rows.scalar().map(str::to_string))
}

/// What would be lost with the database `name`, or why it cannot be dropped. A comment that equals `mark` is pgdyno's.
fn obstacle_to_losing(
    session: &mut Session,
    name: &str,
    mark: Option<&DatabaseMark>,
) -> Result<Option<String>> {
    let sql = obstacle_sql(version_num(session)?, name, &mark.map(DatabaseMark::text).unwrap_or_default());
    let rows = session.query(&sql).context("look at the database's properties")?;
    Ok(rows.scalar().map(str::to_string))
}

/// The query for it: properties of the database itself are not copied with it.
fn obstacle_sql(version_num: u32, name: &str, own_comment: &str) -> String {
    // 9.6 has no subscriptions. In later versions every user may read which database they belong to.
    let subscribed = if Release::new(version_num).has(catalogs::SUBSCRIPTIONS) {
        "exists (select 1 from pg_catalog.pg_subscription s where s.subdbid = d.oid)"
    } else {
        "false"
    };
    let (name, own_comment) = (quote_literal(name), quote_literal(own_comment));
    format!(
        "select case \
          when d.datname = 'postgres' or d.datistemplate then 'the database is one that the server itself needs' \
          when not (r.rolsuper or r.rolcreatedb) then 'the user cannot create databases (needs CREATEDB)' \
          when not pg_has_role(d.datdba, 'member') then 'the user does not own the database' \
          when d.datacl is not null then 'privileges on the database would be lost' \
          when d.datconnlimit <> -1 then 'the database has a connection limit, which would be lost' \
          when exists (select 1 from pg_db_role_setting s where s.setdatabase = d.oid) \
               then 'settings of the database would be lost' \
          when coalesce(shobj_description(d.oid, 'pg_database'), {own_comment}) <> {own_comment} \
               then 'the database has a comment, which would be lost' \
          when exists (select 1 from pg_catalog.pg_shseclabel l \
                        where l.classoid = 'pg_catalog.pg_database'::regclass and l.objoid = d.oid) \
               then 'the database has a security label, which would be lost' \
          when {subscribed} then 'a subscription belongs to the database' \
          when exists (select 1 from pg_replication_slots s where s.database = d.datname) \
               then 'a replication slot uses the database' end \
        from pg_catalog.pg_database d, pg_catalog.pg_roles r \
       where d.datname = {name} and r.rolname = current_user"
    )
}

/// Name, OID and owner of the database that `session` is in.
fn here(session: &mut Session) -> Result<(String, u32, String)> {
    let sql = "select d.datname, d.oid, pg_get_userbyid(d.datdba) from pg_catalog.pg_database d \
               where d.datname = current_database()";
    let rows = session.query(sql)?;
    let Some([Some(name), Some(oid), Some(owner)]) = rows.rows.first().map(Vec::as_slice) else {
        bail!("the server does not report the name of this database");
    };
    Ok((name.clone(), oid.parse().context("an OID is a number")?, owner.clone()))
}

/// A session in the maintenance database, which keeps others away from the templates of `database`.
fn maintenance(doors: &Doors, database: &str) -> Result<Session> {
    let mut maintenance = doors.open(MAINTENANCE)?;
    let sql = format!("select pg_try_advisory_lock({LOCK}, hashtext({}))", quote_literal(database));
    if maintenance.query(&sql)?.scalar() != Some("t") {
        bail!("another pgdyno keeps templates of database `{database}`; wait for its end");
    }
    Ok(maintenance)
}

fn made_mark(database: &str, oid: u32) -> DatabaseMark {
    DatabaseMark { kind: DatabaseRole::Made, of: database.to_string(), oid, inventory: None }
}

impl Templates {
    /// Prepares to keep templates of the database that `session` is in. Removes what a killed pgdyno left behind, and
    /// returns what it could not remove, with the reason.
    ///
    /// # Errors
    /// When another pgdyno does the same, or the server fails.
    pub fn open(doors: Doors, session: &mut Session) -> Result<(Templates, Vec<(String, String)>)> {
        let (database, oid, owner) = here(session)?;
        let is_made = mark::is_made(session, &database, oid)?;
        let mut maintenance = maintenance(&doors, &database)?;
        let version_num = version_num(&mut maintenance)?;
        let mut templates = Templates {
            doors,
            session: maintenance,
            version_num,
            database,
            owner,
            is_made,
            made: BTreeMap::new(),
            stock: None,
            has_copied: false,
        };
        let left = templates.sweep()?;
        Ok((templates, left))
    }

    /// Takes the lock on the templates again if its session has ended.
    ///
    /// # Errors
    /// As [`Templates::open`].
    pub fn hold(&mut self) -> Result<()> {
        if self.session.query("select 1").is_err() {
            self.session = maintenance(&self.doors, &self.database)?;
        }
        Ok(())
    }

    /// Whether there is a template for `key`.
    pub fn has(&self, key: &str) -> bool {
        self.made.contains_key(key)
    }

    /// Records the contents of the database, which was just loaded.
    ///
    /// # Errors
    /// When the server fails, or the user cannot see something.
    pub fn take_stock(&mut self) -> Result<()> {
        self.stock = Some(self.inventory()?);
        Ok(())
    }

    /// Fails with [`Changed`] if the contents of the database differ from when it was last loaded or restored, or
    /// properties of the database itself would be lost.
    ///
    /// # Errors
    /// That, or when the server fails.
    pub fn expect_unchanged(&mut self) -> Result<()> {
        if self.stock.is_none() {
            return Ok(());
        }
        let now = self.inventory()?;
        let oid = self.oid()?;
        let mark = self.is_made.then(|| made_mark(&self.database, oid));
        let obstacle = obstacle_to_losing(&mut self.session, &self.database, mark.as_ref())?;
        match self.stock.as_ref().and_then(|stock| stock.difference(&now)).or(obstacle) {
            Some(difference) => Err(self.changed(difference).into()),
            None => Ok(()),
        }
    }

    /// Keeps the database as the template for `key`, as it was at [`Templates::take_stock`]: what somebody creates from
    /// then on is a difference, whether or not it is in the copy. Nobody may be connected to the database.
    ///
    /// # Errors
    /// When the server refuses: a privilege is missing, somebody is connected, the disk is full.
    pub fn make(&mut self, key: &str) -> Result<StepDetail> {
        let began = Instant::now();
        self.keep(key)?;
        Ok(self.detail(began))
    }

    /// Restores the database to the state of the template for `key`. Nobody may be connected to the database.
    ///
    /// The template becomes the database, which therefore exists and is complete at any moment. The copy that the next
    /// restore needs is made last: pages that the run changed in memory are discarded with the dropped database instead
    /// of being written by the checkpoint that a copy begins with, and the copy can use the space that the drop freed.
    ///
    /// # Errors
    /// [`Changed`] if something in the database would be lost, or another error when there is no such template or the
    /// names cannot be changed: the database is then as it was. [`Displaced`] if the names could not be changed back.
    pub fn restore(&mut self, key: &str) -> Result<Restored> {
        let began = Instant::now();
        if !self.has(key) {
            bail!("there is no template for `{key}`");
        }
        self.expect_unchanged()?;
        let stock = self.stock.take().context("the contents of the database at its loading are not known")?;
        let template = self.made.remove(key).context("the template is gone")?;
        let old = Template { name: self.fresh_name("old"), oid: self.oid()?, inventory: stock };
        if let Err(error) = self.swap(&template, &old) {
            self.made.insert(key.to_string(), template);
            self.stock = Some(old.inventory);
            return Err(error);
        }
        if let Err(error) = self.expect_same(&old) {
            let left = self.swap_back(&template, &old, &error)?;
            self.stock = Some(old.inventory);
            return Err(match left {
                Some(left) => error.context(left),
                None => error,
            });
        }
        self.stock = Some(template.inventory);
        let kept = drop_database(&mut self.session, &old.name).and_then(|()| self.keep(key));
        Ok(Restored { detail: self.detail(began), kept })
    }

    /// The statement that copies, for the record.
    pub fn method(&self) -> &'static str {
        if self.has_strategy() {
            "create database from a template, strategy file_copy"
        } else {
            "create database from a template"
        }
    }

    fn has_strategy(&self) -> bool {
        Release::new(self.version_num).has(catalogs::DATABASE_STRATEGIES)
    }

    fn detail(&self, began: Instant) -> StepDetail {
        StepDetail::from([
            ("method".to_string(), self.method().to_string()),
            ("seconds".to_string(), seconds(began)),
        ])
    }

    fn changed(&self, difference: String) -> Changed {
        Changed { database: self.database.clone(), difference }
    }

    fn oid(&mut self) -> Result<u32> {
        let oid = mark::oid_of(&mut self.session, &self.database)?;
        oid.with_context(|| format!("database `{}` is gone", self.database))
    }

    fn inventory(&self) -> Result<Inventory> {
        Inventory::take(&mut self.doors.open(&self.database)?)
    }

    /// An unused name of a database, shorter than the 63 bytes that a name may have.
    fn fresh_name(&self, content: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let hash = format!("{:x}", Sha256::digest(format!("{content} {now} {}", std::process::id())));
        format!("{}{}", leftovers::prefix(&self.database), &hash[..12])
    }

    fn mark(&self, kind: DatabaseRole, of: &Template) -> DatabaseMark {
        DatabaseMark { kind, of: self.database.clone(), oid: of.oid, inventory: Some(of.inventory.digest()) }
    }

    /// Copies the database as the template for `key`.
    fn keep(&mut self, key: &str) -> Result<()> {
        let inventory =
            self.stock.clone().context("the contents of the database at its loading are not known")?;
        let name = self.fresh_name(key);
        let (template, database) = (quote_ident(&name), quote_ident(&self.database));
        // From here on there may be a database to drop.
        self.has_copied = true;
        let owner = quote_ident(&self.owner);
        // Closed from the first moment, and recognizable even if pgdyno is killed before the comment is written.
        let mut sql = format!(
            "create database {template} template {database} owner {owner} allow_connections false \
             connection limit {BIRTHMARK}"
        );
        if self.has_strategy() {
            // Writing every page to the WAL, the default, takes two to four times as long.
            sql.push_str(" strategy file_copy");
        }
        self.session.execute(&sql).with_context(|| format!("copy database {database}"))?;
        let oid = mark::oid_of(&mut self.session, &name)?.with_context(|| format!("`{name}` is gone"))?;
        let kept = Template { name, oid, inventory };
        let sql = self.mark(DatabaseRole::Template, &kept).comment_sql(&kept.name);
        self.made.insert(key.to_string(), kept);
        self.session.execute(&sql).context("mark the template")?;
        Ok(())
    }

    /// Gives the template the database's name, and the database the name of `old`.
    fn swap(&mut self, template: &Template, old: &Template) -> Result<()> {
        let [new, former, database] =
            [&template.name, &old.name, &self.database].map(|name| quote_ident(name));
        let comment = if self.is_made {
            made_mark(&self.database, template.oid).comment_sql(&self.database)
        } else {
            format!("comment on database {database} is null")
        };
        self.at_once(&[
            format!("alter database {database} rename to {former}"),
            self.mark(DatabaseRole::Replaced, old).comment_sql(&old.name),
            format!("alter database {new} rename to {database}"),
            comment,
            format!("alter database {database} with allow_connections true connection limit -1"),
        ])
        .with_context(|| format!("replace database {database}"))
    }

    /// Fails if the contents of the former database have changed: somebody was quicker than the change of names.
    fn expect_same(&mut self, old: &Template) -> Result<()> {
        let mut inside = self.doors.open(&old.name)?;
        let now = closed_inventory(&mut self.session, &mut inside, &old.name, old.oid)?;
        let mark = self.mark(DatabaseRole::Replaced, old);
        let obstacle = obstacle_to_losing(&mut self.session, &old.name, Some(&mark))?;
        match old.inventory.difference(&now).or(obstacle) {
            Some(difference) => Err(self.changed(difference).into()),
            None => Ok(()),
        }
    }

    /// Changes the names back. The copy that had the database's name for a moment is inspected before it is dropped; if
    /// it is not dropped, the reason is returned.
    fn swap_back(
        &mut self,
        template: &Template,
        old: &Template,
        why: &anyhow::Error,
    ) -> Result<Option<String>> {
        let [new, former, database] =
            [&template.name, &old.name, &self.database].map(|name| quote_ident(name));
        let comment = if self.is_made {
            made_mark(&self.database, old.oid).comment_sql(&self.database)
        } else {
            format!("comment on database {database} is null")
        };
        let back = [
            format!("alter database {database} rename to {new}"),
            self.mark(DatabaseRole::Replaced, template).comment_sql(&template.name),
            format!("alter database {former} rename to {database}"),
            comment,
            format!("alter database {database} with allow_connections true"),
        ];
        // Even if the user wants to stop, or the session is lost, the names are changed back.
        let mut session = self.doors.open_afterwards(MAINTENANCE)?;
        at_once(&mut session, &back).map_err(|error| Displaced {
            database: self.database.clone(),
            old: old.name.clone(),
            reason: format!("{why:#} ({error:#})"),
        })?;
        let Some(found) = leftovers::find(&mut session, &template.name)? else { return Ok(None) };
        Ok(match leftovers::remove(&self.doors, &mut session, &found)? {
            LeftoverOutcome::Removed => None,
            LeftoverOutcome::Left(why) => Some(format!("database `{}` is left: {why}", template.name)),
        })
    }

    fn at_once(&mut self, statements: &[String]) -> Result<()> {
        at_once(&mut self.session, statements)
    }

    /// Removes the other databases that pgdyno made for this one: templates, what a restore did not drop, what a killed
    /// pgdyno left. Returns what is left, with the reason.
    fn sweep(&mut self) -> Result<Vec<(String, String)>> {
        sweep(&self.doors, &mut self.session, &self.database)
    }

    fn drop_all(&mut self) -> Result<Vec<(String, String)>> {
        if !std::mem::take(&mut self.has_copied) {
            return Ok(Vec::new());
        }
        // The user may have stopped the statement of the other session, which still has the lock.
        let mut session = self.doors.open_afterwards(MAINTENANCE)?;
        sweep(&self.doors, &mut session, &self.database)
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        // There is nobody to report an error to; what is left can be found by its mark.
        self.drop_all().ok();
    }
}

fn sweep(doors: &Doors, session: &mut Session, database: &str) -> Result<Vec<(String, String)>> {
    let mut left = Vec::new();
    for found in leftovers::list(session, Some(database))? {
        let fate = leftovers::remove(doors, session, &found);
        match fate.unwrap_or_else(|error| LeftoverOutcome::Left(format!("{error:#}"))) {
            LeftoverOutcome::Removed => {}
            LeftoverOutcome::Left(why) => left.push((found.name, why)),
        }
    }
    Ok(left)
}

/// Executes statements in one transaction.
fn at_once(session: &mut Session, statements: &[String]) -> Result<()> {
    session.execute("begin")?;
    let done = statements.iter().try_for_each(|sql| session.execute(sql));
    let ended = session.execute(if done.is_ok() { "commit" } else { "rollback" });
    // The reason for the rollback comes first.
    done.and(ended).map_err(|error| anyhow!(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_looked_for_in_versions_that_have_them() {
        let check = |version_num: u32, expected: bool| {
            let sql = obstacle_sql(version_num, "bench", "");
            assert_eq!(sql.contains("pg_subscription"), expected, "{sql}");
            assert!(sql.contains("pg_shseclabel"), "{sql}");
        };
        check(90_624, false);
        check(100_000, true);
        check(180_001, true);
    }
}
