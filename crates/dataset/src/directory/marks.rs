//! Marks on what a directory's SQL has made (decision 009): only what proves by its OID that a load of this workload made it is dropped
//! for the next one.

use std::collections::BTreeMap;

use anyhow::{Context, Error, Result, bail, ensure};
use generator::SqlPart;
use wire::quote_literal;
use wire::session::{Session, SessionError};
use workload::Schema;
use workload::objects::marker::{Marker, MarkerState, comment_literal, names_oid, workload_of};

use super::DirectoryData;
use super::created::{Created, CreatedObject, Inventory, oid_sql, unquoted};
use super::load::AFTER_SQL;
use crate::session::{LIMIT_LOCK_WAITS, undone_if_failed};

/// Before the name: no directory is taken for a workload that is built into pgdyno.
const KIND: &str = "directory:";
/// The pair of a mark with the first letters of the data's identity.
const DATA: &str = "data";
/// Before a table's name in a marker: how many rows the load wrote, where only the load knows.
const ROWS: &str = "rows.";
/// In this order objects are dropped: each before those that it may need.
const DROPPED_FIRST: [&str; 8] =
    ["materialized view", "view", "table", "sequence", "function", "procedure", "aggregate", "type"];

/// Those of them that are relations.
const RELATIONS: [&str; 4] = ["materialized view", "view", "table", "sequence"];

/// Whether a comment looks like the mark of a load of a workload directory: anybody can write one.
pub fn looks_marked(comment: &str) -> bool {
    workload_of(comment).is_some_and(|workload| workload.starts_with(KIND))
}

/// The scales of complete data of workload directories in a schema, by name, as the marks of their loads say.
///
/// # Errors
/// When the server fails.
pub fn scales(session: &mut Session, schema: &Schema) -> Result<BTreeMap<String, u32>> {
    let rows = session.query(&marks_sql(schema)).context("look for marks of loads")?;
    let markers = (0..rows.len()).filter_map(|row| {
        let marker = Marker::parse(rows.get(row, "description")?).ok()??;
        marker.is_on(rows.parse(row, "objoid")?).then_some(marker)
    });
    let whole = markers.filter(|marker| marker.state != MarkerState::Loading);
    Ok(whole
        .filter_map(|marker| Some((marker.workload.strip_prefix(KIND)?.to_string(), marker.scale)))
        .collect())
}

/// All marks of directories' loads in a schema, as [`Marked`] has them.
fn marks_sql(schema: &Schema) -> String {
    format!(
        "select i.type, i.identity, coalesce(i.name, '') as name, d.objoid, d.description \
         from pg_catalog.pg_description d, lateral pg_catalog.pg_identify_object(d.classoid, d.objoid, 0) i \
         where d.objsubid = 0 and d.description like {} and i.schema = pg_catalog.quote_ident({}) order by d.objoid",
        quote_literal(&format!("pgdyno workload={KIND}%")),
        quote_literal(schema.name())
    )
}

/// The state of a directory's data in a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryState {
    /// Nothing is marked.
    Absent,
    /// Complete; the mark says what it is.
    Whole(Marker),
    /// A load began and did not finish.
    Half(Marker),
}

/// What a mark proves that it is on.
struct Marked {
    kind: String,
    identity: String,
    name: String,
    oid: u32,
    comment: String,
}

/// Statements that drop what is marked, each of them alone, in an order that seldom needs another one.
fn drops(marked: &[Marked]) -> Vec<String> {
    let mut statements = Vec::new();
    for kind in DROPPED_FIRST {
        let of_kind = marked.iter().filter(|marked| marked.kind == kind);
        let names: Vec<&str> = of_kind.map(|marked| marked.identity.as_str()).collect();
        // All tables at once: they may refer to each other. Partitions go with their table, which may come first.
        if kind == "table" && !names.is_empty() {
            statements.push(format!("drop table if exists {}", names.join(", ")));
        } else {
            statements.extend(names.iter().map(|name| format!("drop {kind} if exists {name}")));
        }
    }
    statements
}

/// All that there is before `after.sql` runs.
pub(super) fn look(session: &mut Session) -> Result<Inventory> {
    session.execute("begin isolation level repeatable read read only")?;
    let found = Inventory::take(session);
    session.execute("rollback")?;
    found
}

impl DirectoryData<'_> {
    /// The name in marks.
    fn marked_name(&self) -> String {
        let name: String = self
            .name
            .chars()
            .map(|c| if c.is_ascii_graphic() && !"=%\\'".contains(c) { c } else { '-' })
            .collect();
        format!("{KIND}{name}")
    }

    /// The table whose comment is the marker of the load.
    fn marked_table(&self) -> Option<&str> {
        self.instance.tables().first().map(|table| table.name.as_str())
    }

    fn marker(&self, state: MarkerState) -> Marker {
        Marker {
            workload: self.marked_name(),
            scale: self.scale,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            state,
            oid: None,
            extra: BTreeMap::from([(DATA.to_string(), self.brief().to_string())]),
        }
    }

    /// Marks all that was made as being loaded.
    pub(super) fn mark(&self, session: &mut Session, created: &Created) -> Result<()> {
        for object in &created.objects {
            if let Some(sql) = self.comment_sql(object) {
                session.execute(&sql)?;
            }
        }
        if let Some((table, made)) = self.marked_table().and_then(|name| created.tables.get_key_value(name)) {
            let marker = self.marker(MarkerState::Loading).on(made.oid);
            session.execute(&marker.comment_sql_on(&self.table_sql(table)))?;
        }
        Ok(())
    }

    /// Marks what `after.sql` has made, which does not run in one transaction: what is new in the schema and what it names. What it has
    /// made by other names stays without a mark, and is not dropped.
    pub(super) fn mark_later(
        &self,
        session: &mut Session,
        before: &Inventory,
        after: &[SqlPart],
    ) -> Result<()> {
        session.execute("begin isolation level repeatable read")?;
        session.execute(LIMIT_LOCK_WAITS)?;
        let (created, _) = before.difference(session, self.schema, AFTER_SQL)?;
        let texts: Vec<String> = after.iter().map(|part| part.text.to_lowercase()).collect();
        let is_named = |object: &CreatedObject| {
            let name = object.name().to_lowercase();
            texts.iter().any(|text| text.contains(&name))
        };
        let own = created.objects.iter().filter(|object| object.is_within(self.schema) && is_named(object));
        for sql in own.filter_map(|object| self.comment_sql(object)) {
            session.execute(&sql)?;
        }
        Ok(session.execute("commit")?)
    }

    fn comment_sql(&self, object: &CreatedObject) -> Option<String> {
        let is_table = object.catalog == "pg_class" && object.kind == "table";
        if object.is_part && !is_table || !DROPPED_FIRST.contains(&object.kind.as_str()) {
            return None;
        }
        let CreatedObject { kind, identity, oid, .. } = object;
        let mark = format!("pgdyno workload={} {DATA}={} oid={oid}", self.marked_name(), self.brief());
        Some(format!("comment on {kind} {identity} is {}", comment_literal(&mark)))
    }

    /// Marks the data as complete, with the rows of tables that only the load could count, if the table is the one that was made.
    pub(super) fn mark_complete(
        &self,
        session: &mut Session,
        created: &Created,
        rows: &BTreeMap<String, u64>,
        at: String,
    ) -> Result<()> {
        let Some((table, made)) = self.marked_table().and_then(|name| created.tables.get_key_value(name))
        else {
            return Ok(());
        };
        session.execute("begin")?;
        session.execute(LIMIT_LOCK_WAITS)?;
        session
            .execute(&format!("lock table only {} in share update exclusive mode", self.table_sql(table)))?;
        let found = session.query(&oid_sql(self.schema, table))?;
        let is_same = found.scalar() == Some(&*made.oid.to_string());
        if !is_same {
            session.execute("rollback")?;
            bail!("somebody replaced table `{table}` during loading; the new one is left as it is");
        }
        let mut marker = self.marker(MarkerState::Finished { at }).on(made.oid);
        let drawn = self.instance.tables().iter().filter(|table| table.parent.is_some());
        let counted = drawn
            .filter_map(|table| Some((format!("{ROWS}{}", table.name), rows.get(&table.name)?.to_string())));
        marker.extra.extend(counted);
        session.execute(&marker.comment_sql_on(&self.table_sql(table)))?;
        Ok(session.execute("commit")?)
    }

    /// A table by its name in SQL, with the schema.
    pub(super) fn table_sql(&self, table: &str) -> String {
        self.schema.sql_name(&wire::session::quote_ident(table))
    }

    /// How far the last load of this workload got in the schema.
    ///
    /// # Errors
    /// When the server fails.
    pub fn state(&self, session: &mut Session) -> Result<DirectoryState> {
        let mut markers = self.marked(session)?.into_iter().filter_map(|marked| {
            Marker::parse(&marked.comment).ok().flatten().filter(|marker| marker.is_on(marked.oid))
        });
        Ok(match markers.next_back() {
            None => DirectoryState::Absent,
            Some(marker) if marker.state == MarkerState::Loading => DirectoryState::Half(marker),
            Some(marker) => DirectoryState::Whole(marker),
        })
    }

    /// Fails unless the schema has this data, complete.
    ///
    /// # Errors
    /// Says what is there instead.
    pub fn expect_whole(&self, session: &mut Session) -> Result<()> {
        let (name, schema, scale) = (self.name, self.schema.name(), self.scale);
        match self.state(session)? {
            DirectoryState::Whole(marker)
                if marker.extra.get(DATA).map(String::as_str) == Some(self.brief()) => {}
            DirectoryState::Whole(marker) if marker.scale != scale => bail!(
                "schema `{schema}` has data of workload `{name}` at scale {0}, not {scale}; -s {0} measures it",
                marker.scale
            ),
            DirectoryState::Whole(_) => bail!(
                "schema `{schema}` has data of workload `{name}` at scale {scale}, but other data than this directory makes"
            ),
            DirectoryState::Half(_) => {
                bail!("a load of workload `{name}` into schema `{schema}` was not finished")
            }
            DirectoryState::Absent => bail!("schema `{schema}` has no data of workload `{name}`"),
        }
        let names: Vec<String> =
            self.instance.tables().iter().map(|table| quote_literal(&table.name)).collect();
        let sql = format!(
            "select count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = {} and c.relkind in ('r', 'p') and c.relname in ({})",
            quote_literal(schema),
            names.join(", ")
        );
        let found = session.query(&sql)?;
        ensure!(
            found.scalar() == Some(&*names.len().to_string()),
            "schema `{schema}` has only {} of the {} tables of workload `{name}`",
            found.scalar().unwrap_or("0"),
            names.len()
        );
        Ok(())
    }

    /// Rows that the load has written into tables whose number of rows is drawn.
    ///
    /// # Errors
    /// When the server fails.
    pub fn loaded_rows(&self, session: &mut Session) -> Result<BTreeMap<String, u64>> {
        let DirectoryState::Whole(marker) = self.state(session)? else { return Ok(BTreeMap::new()) };
        let rows = |(key, value): (&String, &String)| {
            Some((key.strip_prefix(ROWS)?.to_string(), value.parse().ok()?))
        };
        Ok(marker.extra.iter().filter_map(rows).collect())
    }

    /// Why what a load would replace must not be dropped, if so: complete data that is not this one.
    ///
    /// # Errors
    /// When the server fails.
    pub fn refusal_to_replace(&self, session: &mut Session) -> Result<Option<String>> {
        let DirectoryState::Whole(marker) = self.state(session)? else { return Ok(None) };
        let is_same = marker.extra.get(DATA).map(String::as_str) == Some(self.brief());
        Ok((!is_same).then(|| {
            format!(
                "schema `{}` has complete data of workload `{}` at scale {}, which is not what this directory makes at scale {}; \
                 pass --replace to load it again (complete data is never dropped without that: it may be what somebody measures next)",
                self.schema.name(),
                self.name,
                marker.scale,
                self.scale
            )
        }))
    }

    /// Drops what earlier loads of this workload have made in the schema. Nothing that somebody else made goes with it.
    pub(super) fn drop_marked(&self, session: &mut Session) -> Result<()> {
        let marked = self.marked(session)?;
        if marked.is_empty() {
            return Ok(());
        }
        self.expect_no_attached(session, &marked)?;
        let mut left = drops(&marked);
        // Whatever another one needs goes after that one: with nothing left to drop, the last refusal says why.
        while !left.is_empty() {
            let (mut refused, mut why) = (Vec::new(), None);
            for sql in left.iter() {
                if let Err(error) = undone_if_failed(session, |session| session.execute(sql))? {
                    refused.push(sql.clone());
                    why.get_or_insert(SessionError::Server(error));
                }
            }
            if refused.len() == left.len()
                && let Some(error) = why
            {
                let what = format!("drop what an earlier load of workload `{}` has made", self.name);
                return Err(Error::new(error).context(what));
            }
            left = refused;
        }
        Ok(())
    }

    /// Fails if a table has children that no load made.
    fn expect_no_attached(&self, session: &mut Session, marked: &[Marked]) -> Result<()> {
        let oids: Vec<String> = marked.iter().map(|marked| marked.oid.to_string()).collect();
        let oids = oids.join(", ");
        let sql = format!(
            "select pg_catalog.pg_describe_object('pg_catalog.pg_class'::pg_catalog.regclass, i.inhrelid, 0) \
             from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid and c.relkind in ('r', 'p', 'f') \
             where i.inhparent in ({oids}) and i.inhrelid not in ({oids}) order by 1 limit 1"
        );
        match session.query(&sql)?.scalar() {
            Some(table) => bail!(
                "{table} belongs to a table of workload `{}` and was not made by its load; detach it, or name another schema with --schema",
                self.name
            ),
            None => Ok(()),
        }
    }

    /// All objects of the schema with a mark of this workload that names their own OID.
    fn marked(&self, session: &mut Session) -> Result<Vec<Marked>> {
        let rows = session.query(&marks_sql(self.schema)).context("look for marks of loads")?;
        let own = self.marked_name();
        let marked = |row: usize| {
            let text = |column: &str| rows.get(row, column).unwrap_or_default().to_string();
            let (oid, comment) = (rows.parse(row, "objoid")?, text("description"));
            let is_own = workload_of(&comment) == Some(&own) && names_oid(&comment, oid);
            is_own.then(|| Marked {
                kind: text("type"),
                identity: text("identity"),
                name: unquoted(&text("name")),
                oid,
                comment,
            })
        };
        Ok((0..rows.len()).filter_map(marked).collect())
    }

    /// Relations of the schema that loads of this workload have made, as `schema.table`.
    ///
    /// # Errors
    /// When the server fails.
    pub fn own_relations(&self, session: &mut Session) -> Result<Vec<String>> {
        let is_relation = |marked: &Marked| RELATIONS.contains(&marked.kind.as_str());
        let marked = self.marked(session)?.into_iter().filter(is_relation);
        Ok(marked.map(|marked| self.schema.plain_name(&marked.name)).collect())
    }

    /// Tables of the schema with the names of this workload's that no load of it made, in words; none if there are none.
    ///
    /// # Errors
    /// When the server fails.
    pub fn in_the_way(&self, session: &mut Session) -> Result<Option<String>> {
        let own = self.marked(session)?;
        let names: Vec<String> =
            self.instance.tables().iter().map(|table| quote_literal(&table.name)).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let sql = format!(
            "select c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = {} and c.relname in ({}) order by 1",
            quote_literal(self.schema.name()),
            names.join(", ")
        );
        let mut foreign = session.query(&sql)?.into_first_column();
        foreign.retain(|name| !own.iter().any(|marked| marked.name == *name && marked.kind == "table"));
        Ok((!foreign.is_empty()).then(|| {
            format!(
                "schema `{}` has {} that no load of workload `{}` made ({}); name another schema with --schema, or another database",
                self.schema.name(),
                if foreign.len() == 1 { "a table" } else { "tables" },
                self.name,
                foreign.join(", ")
            )
        }))
    }
}
