//! What loading data drops: tables, partitions and routines of its workload in one schema, each only with its own mark.
//!
//! Nothing is dropped because of its name alone. The tables are locked first, so that nobody can replace them; then
//! each mark is read; and if the dropped objects are not the ones that were examined, everything is rolled back. Never
//! CASCADE.

mod additions;
mod altered;
mod attached;
mod design;
pub mod loaded;
pub mod published;
mod rights;
mod rows;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use model::workload::Dataset;
use wire::quote_literal;
use wire::session::{Rows, Session, SessionError};
use workload::objects::marker::{MarkedObject, Marker, comment_literal, is_part_mark, part_mark};
use workload::{Schema, Signature};

use crate::clearance::altered::Owners;
use crate::kind;
use crate::layout;
use crate::session::LIMIT_LOCK_WAITS;
use crate::state::untouched::short_digest;

/// "dependent objects still exist".
const DEPENDENT_OBJECTS: &str = "2BP01";

/// Limit of problems that are reported at once.
const PROBLEMS_MAX: usize = 20;

/// What the user allows loading to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadConsent {
    /// Drop tables and routines with the same names in the schema that pgdyno did not create.
    pub replace: bool,
    /// Create tables that a publication publishes although nobody has named them.
    pub published: bool,
}

/// Objects that loading creates, and what it may replace.
pub(crate) struct Clearance<'a> {
    pub(crate) dataset: Dataset,
    pub(crate) schema: &'a Schema,
    /// Names of all tables and partitions that loading will create.
    pub(crate) tables: &'a [String],
    pub(crate) consent: LoadConsent,
}

/// A relation with one of these names, or one that would be dropped with such a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    oid: u32,
    schema: String,
    name: String,
    /// As in `pg_class.relkind`.
    kind: char,
    /// The partitioned table that it belongs to, for messages.
    parent: Option<String>,
    comment: Option<String>,
}

/// A function or procedure with a signature of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Routine {
    oid: u32,
    signature: Signature,
    /// The server has an aggregate where the workload has a function.
    is_aggregate: bool,
    /// A digest of its body.
    body: String,
    /// The workload that its mark names.
    marked_by: Option<Dataset>,
}

/// Whether a routine is one that a load has made: its mark names its signature and its body as they are now.
pub fn is_loaded_routine(signature: &Signature, body: &str, comment: &str) -> bool {
    let (text, body) = (signature.text(), short_digest([body]));
    let is_marked_by =
        |dataset: &Dataset| is_part_mark(comment, dataset.name(), &text, MarkedObject::Body(&body));
    Dataset::ALL.iter().any(is_marked_by)
}

impl Clearance<'_> {
    /// Fails, before anything is changed, if something would keep the load from replacing its objects.
    ///
    /// # Errors
    /// Names all of [`Clearance::problems`].
    pub(crate) fn check(&self, session: &mut Session) -> Result<()> {
        expect_none(self.found(session)?)
    }

    /// What would keep the load from replacing its objects, one sentence each.
    ///
    /// # Errors
    /// When the server fails.
    pub(crate) fn problems(&self, session: &mut Session) -> Result<Vec<String>> {
        Ok(bounded(self.found(session)?))
    }

    fn found(&self, session: &mut Session) -> Result<Vec<String>> {
        let relations = self.relations(session)?;
        let routines = self.routines(session)?;
        let tables = oids(&relations);
        let of_routines = routines.iter().map(|routine| routine.oid).collect();
        // Whoever cannot replace them has no use for what else is in the way.
        if let Some(problem) = rights::of_others(session, &tables, &of_routines)? {
            return Ok(
                [vec![problem], Vec::from_iter(rights::dependents(session, self.schema, &tables)?)].concat()
            );
        }

        let mut found = self.judged(&relations, &routines);
        let mut take = |judged: Result<()>| found.extend(judged.err().map(|error| format!("{error:#}")));
        take(attached::expect_none(session, self.schema, &tables));
        if !self.consent.replace {
            take(self.expect_no_additions(session, &relations, &routines));
        }
        found.extend(rights::dependents(session, self.schema, &tables)?);
        // Only then are the tables what pgdyno may read.
        if !self.consent.replace && found.is_empty() && !relations.is_empty() {
            let rows = rows::added(session, self.dataset, self.schema)?;
            found.extend(additions::refuse(rows, self.schema).err().map(|error| format!("{error:#}")));
        }
        if !self.consent.published {
            found.extend(published::problem(session, Some(self.schema), published::Creator::Load)?);
        }
        Ok(found)
    }

    /// What others made or changed, and would be lost with these tables or keep them from being dropped, whoever drops them. Rows are
    /// looked at only for who may drop the tables: who cannot drop them might lack the right to read them.
    ///
    /// # Errors
    /// When the server fails.
    pub(crate) fn belongings(&self, session: &mut Session, is_droppable: bool) -> Result<Vec<String>> {
        let relations = self.relations(session)?;
        let (own, others): (Vec<Relation>, Vec<Relation>) =
            relations.into_iter().partition(|relation| relation.is_marked(self.dataset));
        let mut found: Vec<String> =
            others.iter().map(|relation| format!("table `{}`", relation.plain_name())).collect();
        let tables = oids(&own);
        found.extend(attached::to(session, &tables)?);
        found.extend(self.additions(session, &own, Owners::Anybody)?);
        found.extend(rights::dependent(session, &tables)?);
        // Only then are the tables what pgdyno may read.
        if found.is_empty() && !own.is_empty() && is_droppable {
            let rows = rows::added(session, self.dataset, self.schema);
            found.extend(rows.unwrap_or_else(|error| vec![format!("rows, perhaps ({error:#})")]));
        }
        Ok(found)
    }

    /// Fails if objects that others created would be dropped with these tables.
    fn expect_nothing_else(&self, session: &mut Session, relations: &[Relation]) -> Result<()> {
        let oids = oids(relations);
        attached::expect_none(session, self.schema, &oids)?;
        if self.consent.replace { Ok(()) } else { self.expect_no_additions(session, relations, &[]) }
    }

    /// Fails if somebody added something to these tables, or changed something about them or about marked ones of these routines.
    fn expect_no_additions(
        &self,
        session: &mut Session,
        relations: &[Relation],
        routines: &[Routine],
    ) -> Result<()> {
        let mut found = self.additions(session, relations, Owners::Session)?;
        let marked = routines.iter().filter_map(|routine| Some((routine.oid, self.statement_of(routine)?)));
        found.extend(altered::routines(session, &marked.collect())?);
        additions::refuse(found, self.schema)
    }

    /// What somebody added to these tables, or changed about them.
    fn additions(
        &self,
        session: &mut Session,
        relations: &[Relation],
        owners: Owners,
    ) -> Result<Vec<String>> {
        if relations.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = design::additions(session, self.dataset, relations)?;
        found.extend(additions::additions(session, &oids(relations))?);
        let loaded = relations.iter().filter(|relation| relation.table_of(self.dataset).is_some());
        let loaded = loaded.map(|relation| relation.oid).collect();
        found.extend(altered::tables(session, &loaded, owners, self.are_unlogged(relations))?);
        Ok(found)
    }

    /// Whether the load that has made these tables made them UNLOGGED, as their marker says.
    fn are_unlogged(&self, relations: &[Relation]) -> bool {
        let marked = relations.iter().find(|relation| relation.name == self.dataset.marked_table());
        let marker = marked.and_then(|marked| Marker::parse(marked.comment.as_deref()?).ok()?);
        marker.is_some_and(|marker| layout::layout_of(&marker).unlogged)
    }

    /// Drops the objects that are in the way, runs `statements`, and marks what they have made: everything or nothing.
    ///
    /// # Errors
    /// As [`Clearance::check`]; when other objects depend on the tables; when the server fails.
    pub(crate) fn replace_by(
        &self,
        session: &mut Session,
        statements: &[String],
        loading: &Marker,
    ) -> Result<()> {
        session.execute("begin")?;
        let done =
            self.replace_in_transaction(session, statements).and_then(|()| self.mark(session, loading));
        let ended = session.execute(if done.is_ok() { "commit" } else { "rollback" });
        // The reason for the rollback comes first.
        done.and_then(|()| Ok(ended?))
    }

    fn replace_in_transaction(&self, session: &mut Session, statements: &[String]) -> Result<()> {
        let held = self.hold(session)?;
        let routines = self.routines(session)?;
        expect_none(self.judged(&[], &routines))?;
        if !self.consent.replace {
            self.expect_no_additions(session, &[], &routines)?;
        }
        self.drop_held(session, &held)?;
        for routine in &routines {
            self.drop(session, &format!("drop {}", routine.sql(self.schema)))?;
        }
        self.expect_gone(session, "pg_proc", &routines.iter().map(|routine| routine.oid).collect())?;
        statements.iter().try_for_each(|statement| Ok(session.execute(statement)?))
    }

    /// Marks the tables and routines that this transaction has made: each by its name, and a table by its OID, a
    /// routine by its body.
    fn mark(&self, session: &mut Session, loading: &Marker) -> Result<()> {
        let workload = self.dataset.name();
        let comment = |what: String, part: &str, identity: MarkedObject| {
            let mark = part_mark(workload, part, Some(identity));
            format!("comment on {what} is {}", comment_literal(&mark))
        };
        for Relation { oid, name, .. } in self.relations(session)? {
            let table = self.schema.sql_name(&name);
            session.execute(&if name == self.dataset.marked_table() {
                loading.clone().on(oid).comment_sql_on(&table)
            } else {
                comment(format!("table {table}"), &name, MarkedObject::Oid(oid))
            })?;
        }
        for Routine { signature, body, .. } in self.routines(session)? {
            let what = signature.sql(self.schema);
            session.execute(&comment(what, &signature.text(), MarkedObject::Body(&body)))?;
        }
        Ok(())
    }

    /// Locks the tables until the end of the transaction, so that nobody can replace them, and then judges them.
    ///
    /// # Errors
    /// As [`Clearance::check`].
    pub(crate) fn hold(&self, session: &mut Session) -> Result<Vec<Relation>> {
        session.execute(LIMIT_LOCK_WAITS)?;
        let seen = self.relations(session)?;
        expect_none(self.judged(&seen, &[]))?;
        if seen.is_empty() {
            return Ok(seen);
        }
        session.execute(&format!("lock table {} in access exclusive mode", self.sql_names(&seen)))?;
        let found = self.relations(session)?;
        expect_none(self.judged(&found, &[]))?;
        ensure!(
            oids(&found) == oids(&seen),
            "the tables in schema `{}` changed while pgdyno waited for their locks; nothing was dropped: try again",
            self.schema.name()
        );
        self.expect_nothing_else(session, &found)?;
        Ok(found)
    }

    /// Fails unless each table has its own mark, and the marked table's says `loading`: only then may they be marked as
    /// complete. Nobody can replace the marked table, whose OID is returned, before the transaction ends.
    ///
    /// # Errors
    /// Names the tables that somebody else put there, or when the server fails.
    pub(crate) fn expect_own(&self, session: &mut Session, loading: &Marker) -> Result<u32> {
        session.execute(LIMIT_LOCK_WAITS)?;
        let marked = self.dataset.marked_table();
        let sql = format!("lock table {} in share update exclusive mode", self.schema.sql_name(marked));
        session.execute(&sql)?;
        let found = self.relations(session)?;
        let is_loading =
            |relation: &Relation| relation.comment.as_ref() == Some(&loading.clone().on(relation.oid).text());
        let own = |table: &str| {
            found.iter().find(|relation| {
                relation.name == table
                    && relation.schema == self.schema.name()
                    && relation.is_marked(self.dataset)
                    && (table != marked || is_loading(relation))
            })
        };
        let replaced = self.tables.iter().filter(|table| own(table).is_none());
        let replaced: Vec<String> =
            replaced.map(|table| format!("`{}`", self.schema.plain_name(table))).collect();
        ensure!(
            replaced.is_empty(),
            "somebody replaced, renamed or dropped {} during loading; what is there now is left as it is, and the data \
             is not complete",
            replaced.join(", ")
        );
        own(marked).map(|relation| relation.oid).context("the marked table is one of the tables")
    }

    /// Drops the relations that [`Clearance::hold`] returned.
    ///
    /// # Errors
    /// When other objects depend on them, or the server fails; the transaction then has to be rolled back.
    pub(crate) fn drop_held(&self, session: &mut Session, held: &[Relation]) -> Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        self.drop(session, &format!("drop table {}", self.sql_names(held)))?;
        self.expect_gone(session, "pg_class", &oids(held))
    }

    /// Names of the relations to drop; partitions are dropped with their tables.
    fn sql_names(&self, relations: &[Relation]) -> String {
        let named = relations.iter().filter(|relation| relation.parent.is_none());
        named.map(|relation| self.schema.sql_name(&relation.name)).collect::<Vec<_>>().join(", ")
    }

    /// Relations with the names of the workload, and the partitions that would be dropped with them.
    fn relations(&self, session: &mut Session) -> Result<Vec<Relation>> {
        let names: Vec<String> = self.tables.iter().map(|name| quote_literal(name)).collect();
        // Before 10 there are no partitions, nor the column that distinguishes them from other children, which DROP
        // refuses.
        let sql = format!(
            "with recursive found(oid, parent) as ( \
               select c.oid, null::oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                where n.nspname = {} and c.relname = any (array[{}]::name[]) \
             union \
               select i.inhrelid, i.inhparent from pg_catalog.pg_inherits i join found f on f.oid = i.inhparent \
                 join pg_catalog.pg_class c on c.oid = i.inhrelid \
                where pg_catalog.to_jsonb(c) ->> 'relispartition' = 'true') \
             select c.oid, n.nspname, c.relname, c.relkind, p.relname as parent, \
               pg_catalog.obj_description(c.oid, 'pg_class') as comment \
             from found f join pg_catalog.pg_class c on c.oid = f.oid \
             join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             left join pg_catalog.pg_class p on p.oid = f.parent \
             order by n.nspname, c.relname, f.parent nulls first",
            quote_literal(self.schema.name()),
            names.join(", ")
        );
        let rows = session.query(&sql).context("look for tables of the workload")?;
        let relation = |row: usize| {
            let text = |column: &str| rows.get(row, column).map(str::to_string);
            Some(Relation {
                oid: rows.parse(row, "oid")?,
                schema: text("nspname")?,
                name: text("relname")?,
                kind: text("relkind")?.chars().next()?,
                parent: text("parent"),
                comment: text("comment"),
            })
        };
        let mut found: Vec<Relation> = (0..rows.len()).filter_map(relation).collect();
        // A partition with a name of the workload is found twice.
        found.dedup_by_key(|relation| relation.oid);
        Ok(found)
    }

    /// Routines of the schema that have a signature of this workload, or that of another workload and its mark.
    fn routines(&self, session: &mut Session) -> Result<Vec<Routine>> {
        let signatures = |dataset: Dataset| {
            kind::routines(dataset, self.schema, u32::MAX)
                .into_iter()
                .map(move |(signature, _)| (dataset, signature))
        };
        let known: Vec<(Dataset, Signature)> = Dataset::ALL.into_iter().flat_map(signatures).collect();
        if known.iter().all(|(dataset, _)| *dataset != self.dataset) {
            return Ok(Vec::new());
        }
        let names: BTreeSet<String> =
            known.iter().map(|(_, signature)| quote_literal(&signature.name)).collect();
        let sql = format!(
            "select p.oid, p.proname, pg_catalog.oidvectortypes(p.proargtypes) as types, \
               pg_catalog.to_jsonb(p) ->> 'prokind' as kind, p.prosrc as body, \
               pg_catalog.obj_description(p.oid, 'pg_proc') as comment \
             from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace \
             where n.nspname = {} and p.proname in ({}) order by 2, 3",
            quote_literal(self.schema.name()),
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
        let rows = session.query(&sql).context("look for routines of the workload")?;
        let found = (0..rows.len()).filter_map(|row| self.routine(&rows, row, &known));
        Ok(found.collect())
    }

    /// The statement by which a load makes a marked routine.
    fn statement_of(&self, routine: &Routine) -> Option<String> {
        let made = kind::routines(routine.marked_by?, self.schema, u32::MAX).into_iter();
        made.filter(|(signature, _)| signature.text() == routine.signature.text()).map(|(_, sql)| sql).next()
    }

    fn routine(&self, rows: &Rows, row: usize, known: &[(Dataset, Signature)]) -> Option<Routine> {
        let kind = rows.get(row, "kind");
        let signature = Signature {
            is_procedure: kind == Some("p"),
            name: rows.get(row, "proname")?.to_string(),
            types: rows.get(row, "types")?.to_string(),
        };
        let comment = rows.get(row, "comment").unwrap_or_default();
        let text = signature.text();
        let mut of = known.iter().filter(|(_, known)| known.text() == text).map(|(dataset, _)| *dataset);
        // The server may refuse to digest it: MD5 is not there under FIPS, and SHA-256 not before 11.
        let body = short_digest([rows.get(row, "body")?]);
        let identity = MarkedObject::Body(&body);
        let marked_by = of.clone().find(|dataset| is_part_mark(comment, dataset.name(), &text, identity));
        (marked_by.is_some() || of.any(|dataset| dataset == self.dataset)).then_some(Routine {
            oid: rows.parse(row, "oid")?,
            body,
            signature,
            is_aggregate: kind == Some("a"),
            marked_by,
        })
    }

    /// The objects that must not be dropped, and why, one sentence each.
    fn judged(&self, relations: &[Relation], routines: &[Routine]) -> Vec<String> {
        let (mut problems, mut foreign) = (Vec::new(), Vec::new());
        for relation in relations {
            let name = relation.plain_name();
            let is_ours = relation.is_marked(self.dataset);
            if !matches!(relation.kind, 'r' | 'p') {
                problems.push(format!(
                    "`{name}` is {}, which pgdyno does not drop; drop it yourself, or name another schema with --schema",
                    relation.kind_words()
                ));
                continue;
            }
            match &relation.parent {
                Some(_) if is_ours && relation.schema == self.schema.name() => {}
                // Partitions as pgbench names them, of one of its tables.
                Some(parent)
                    if self.consent.replace
                        && relation.schema == self.schema.name()
                        && relation.has_partition_name(parent) => {}
                Some(parent) => problems.push(format!(
                    "`{name}` is a partition of `{}` that pgdyno did not create, and would be dropped with it; detach it first",
                    self.schema.plain_name(parent)
                )),
                None if is_ours || self.consent.replace => {}
                None => foreign.push(format!("table `{name}`")),
            }
        }
        let unmarked = routines.iter().filter(|routine| routine.marked_by.is_none() && !self.consent.replace);
        foreign.extend(unmarked.map(|routine| {
            let kind = if routine.signature.is_procedure { "procedure" } else { "function" };
            format!("{kind} `{}`", self.schema.plain_name(&routine.signature.text()))
        }));
        if !foreign.is_empty() {
            problems.push(format!(
                "the database has objects with the workload's names that pgdyno did not create, or that somebody changed: {}; add \
                 --no-restore to a run, which measures the data as it is, name another schema with --schema, use another database, or pass \
                 --replace to drop them",
                foreign.join(", ")
            ));
        }
        problems
    }

    fn drop(&self, session: &mut Session, sql: &str) -> Result<()> {
        session.execute(sql).map_err(|error| match error {
            SessionError::Server(error) if error.sqlstate == DEPENDENT_OBJECTS => {
                let detail = error.detail.as_deref().unwrap_or(&error.message).replace('\n', "; ");
                anyhow::anyhow!(
                    "nothing was dropped, because other objects depend on those in schema `{}`: {detail}; drop these \
                     yourself, or name another schema with --schema",
                    self.schema.name()
                )
            }
            error => error.into(),
        })
    }

    /// A name may refer to another object by the time of the drop: the transaction then ends.
    fn expect_gone(&self, session: &mut Session, catalog: &str, oids: &BTreeSet<u32>) -> Result<()> {
        if oids.is_empty() {
            return Ok(());
        }
        let oids: Vec<String> = oids.iter().map(u32::to_string).collect();
        let sql = format!("select count(*) from pg_catalog.{catalog} where oid in ({})", oids.join(", "));
        ensure!(
            session.query(&sql)?.scalar() == Some("0"),
            "schema `{}` was renamed or its objects were replaced meanwhile; nothing was dropped: try again",
            self.schema.name()
        );
        Ok(())
    }
}

impl Relation {
    fn plain_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Whether it has its own mark of the workload.
    fn is_marked(&self, dataset: Dataset) -> bool {
        let comment = self.comment.as_deref().unwrap_or_default();
        kind::is_mark(dataset, comment, &self.name, self.oid)
    }

    /// Whether pgbench names a partition of this table so.
    fn has_partition_name(&self, table: &str) -> bool {
        let number = self.name.strip_prefix(table).and_then(|rest| rest.strip_prefix('_'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    }

    /// The table of the dataset that it is, or is a partition of; none for those in which tests set rows aside.
    fn table_of(&self, dataset: Dataset) -> Option<&'static str> {
        let is_of = |table: &&str| {
            self.parent.as_deref().unwrap_or(&self.name) == *table || self.has_partition_name(table)
        };
        dataset.tables().into_iter().find(is_of)
    }

    fn kind_words(&self) -> &'static str {
        match self.kind {
            'v' => "a view",
            'm' => "a materialized view",
            'f' => "a foreign table",
            'S' => "a sequence",
            'i' | 'I' => "an index",
            'c' => "a composite type",
            _ => "not a table",
        }
    }
}

impl Routine {
    fn sql(&self, schema: &Schema) -> String {
        if self.is_aggregate {
            format!("aggregate {}", schema.sql_name(&self.signature.text()))
        } else {
            self.signature.sql(schema)
        }
    }
}

/// Fails with all of the problems at once.
fn expect_none(problems: Vec<String>) -> Result<()> {
    ensure!(problems.is_empty(), "{}", bounded(problems).join("; "));
    Ok(())
}

/// No more problems than somebody reads, and how many there are.
fn bounded(mut problems: Vec<String>) -> Vec<String> {
    let n_more = problems.len().saturating_sub(PROBLEMS_MAX);
    if n_more > 0 {
        problems.truncate(PROBLEMS_MAX);
        problems.push(format!("{n_more} more problems"));
    }
    problems
}

fn oids(relations: &[Relation]) -> BTreeSet<u32> {
    relations.iter().map(|relation| relation.oid).collect()
}

/// Tables of the workload without their own mark: there is no proof that pgdyno created them.
///
/// # Errors
/// When the server fails.
pub(crate) fn unmarked(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<Vec<String>> {
    let tables: Vec<String> = dataset.tables().into_iter().map(str::to_string).collect();
    let clearance = Clearance { dataset, schema, tables: &tables, consent: LoadConsent::default() };
    let relations = clearance.relations(session)?.into_iter();
    Ok(relations
        .filter(|relation| !relation.is_marked(dataset))
        .map(|relation| relation.plain_name())
        .collect())
}
