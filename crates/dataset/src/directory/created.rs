//! What SQL has made: the difference of the catalogues around it, seen by its own transaction. Whatever is not in the schema, and whatever
//! was there before, must be as it was.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use generator::ServerColumn;
use wire::quote_literal;
use wire::session::{Rows, Session};
use workload::Schema;

/// The first OID that is not the server's own (`FirstNormalObjectId`).
const FIRST_OID: u32 = 16384;
/// Most names in one message.
const NAMES_MAX: usize = 5;
/// Kinds of objects that belong to a schema, as `pg_identify_object` names them, and that a directory may make. What is not here reaches
/// further, or is nothing that a workload needs.
const IN_SCHEMA: [&str; 15] = [
    "table",
    "index",
    "sequence",
    "view",
    "materialized view",
    "toast table",
    "composite type",
    "type",
    "function",
    "procedure",
    "aggregate",
    "table constraint",
    "domain constraint",
    "statistics object",
    "statistics",
];
/// Kinds that belong to a table.
const OF_TABLE: [&str; 4] = ["default value", "trigger", "rule", "policy"];

/// An object: its catalogue and its OID.
type ObjectId = (String, u32);

/// All objects that are not the server's own, each with what changes when it is changed.
pub(super) struct Inventory(BTreeMap<ObjectId, String>);

/// An object that SQL has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CreatedObject {
    pub(super) catalog: String,
    pub(super) oid: u32,
    /// As `pg_identify_object` and `COMMENT ON` name it: `table`, `function`.
    pub(super) kind: String,
    pub(super) schema: String,
    /// For messages and for SQL: `public.job`, `public.next_job(integer)`.
    pub(super) identity: String,
    /// Whether it goes with another object: an index, the sequence of a column.
    pub(super) is_part: bool,
}

/// A table that SQL has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CreatedTable {
    pub(super) oid: u32,
    pub(super) is_partitioned: bool,
    /// Whether a foreign key of it or to it needs rows in order.
    pub(super) has_foreign_keys: bool,
    /// Whether its SQL has put rows into it.
    pub(super) has_rows: bool,
}

/// Objects that SQL has made.
pub(super) struct Created {
    pub(super) objects: Vec<CreatedObject>,
    /// Tables by name, without the schema.
    pub(super) tables: BTreeMap<String, CreatedTable>,
}

impl Inventory {
    /// Reads the catalogues. The transaction has to be REPEATABLE READ, so that what others make meanwhile is not seen.
    pub(super) fn take(session: &mut Session) -> Result<Inventory> {
        // Labels of an enumeration belong to their type.
        let catalogs = session.query(
            "select c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'oid' \
             where n.nspname = 'pg_catalog' and c.relkind = 'r' and c.relname <> 'pg_enum' \
             and pg_catalog.has_table_privilege(c.oid, 'select') order by 1",
        )?;
        let of_catalog = |name: String| {
            format!(
                "select '{name}' as catalog, oid::pg_catalog.text as oid, xmin::pg_catalog.text as version \
                 from pg_catalog.{name} where oid >= {FIRST_OID}"
            )
        };
        let all: Vec<String> = catalogs.into_first_column().into_iter().map(of_catalog).collect();
        let rows = session.query(&all.join(" union all ")).context("read the catalogues")?;
        let object = |row: usize| {
            let id = (rows.get(row, "catalog")?.to_string(), rows.parse(row, "oid")?);
            Some((id, rows.get(row, "version")?.to_string()))
        };
        Ok(Inventory((0..rows.len()).filter_map(object).collect()))
    }

    /// What the transaction has made since by the SQL of `file`, and what it must not have done, in words.
    pub(super) fn difference(
        &self,
        session: &mut Session,
        schema: &Schema,
        file: &str,
    ) -> Result<(Created, Vec<String>)> {
        let now = Inventory::take(session)?;
        let new: Vec<&ObjectId> = now.0.keys().filter(|id| !self.0.contains_key(*id)).collect();
        let mut problems = Vec::new();
        let gone: BTreeSet<&ObjectId> = self.0.keys().filter(|id| !now.0.contains_key(*id)).collect();
        if !gone.is_empty() {
            problems.push(format!(
                "{file} drops what it did not make ({} {})",
                gone.len(),
                if gone.len() == 1 { "object" } else { "objects" }
            ));
        }
        let is_changed =
            |id: &&ObjectId| self.0.get(*id).is_some_and(|before| now.0.get(*id) != Some(before));
        let changed: Vec<&ObjectId> =
            self.0.keys().filter(|id| now.0.contains_key(*id)).filter(is_changed).collect();
        let changed: Vec<String> =
            identify(session, &changed)?.into_iter().map(|object| object.words()).collect();
        problems.extend(listed(&changed).map(|list| format!("{file} changes what it did not make: {list}")));
        let objects = identify(session, &new)?;
        let strange: Vec<String> =
            objects.iter().filter(|object| !object.is_within(schema)).map(CreatedObject::words).collect();
        problems.extend(listed(&strange).map(|list| {
            format!(
                "{file} makes what does not belong to a workload's schema (`{}`): {list}; write names without a schema",
                schema.name()
            )
        }));
        let touched = touched(session, &new)?;
        problems
            .extend(listed(&touched).map(|list| format!("{file} uses tables that it did not make: {list}")));
        let tables = tables(session, &objects)?;
        Ok((Created { objects, tables }, problems))
    }
}

impl CreatedObject {
    /// For messages.
    fn words(&self) -> String {
        format!("{} {}", self.kind, self.identity)
    }

    /// The name without schema and arguments, as it is stored.
    pub(super) fn name(&self) -> String {
        let rest = match self.identity.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\".").map_or("", |(_, rest)| rest),
            None => self.identity.split_once('.').map_or("", |(_, rest)| rest),
        };
        let end = if rest.starts_with('"') {
            rest.rfind('"').map_or(rest.len(), |at| at + 1)
        } else {
            rest.find('(').unwrap_or(rest.len())
        };
        unquoted(&rest[..end])
    }

    pub(super) fn is_within(&self, schema: &Schema) -> bool {
        let kind = self.kind.as_str();
        match self.schema.as_str() {
            "" => OF_TABLE.contains(&kind),
            // The server makes these.
            "pg_toast" => ["toast table", "index", "table", "type"].contains(&kind),
            name => name == schema.name() && IN_SCHEMA.contains(&kind),
        }
    }
}

impl Created {
    /// The columns of a table as the server has them; `None` if it was not made.
    pub(super) fn columns(&self, session: &mut Session, table: &str) -> Result<Option<Vec<ServerColumn>>> {
        let Some(table) = self.tables.get(table) else { return Ok(None) };
        // Newer columns of the catalogue are null where there are none.
        let sql = format!(
            "with recursive base(attnum, oid, typmod) as (\
               select a.attnum, a.atttypid, a.atttypmod from pg_catalog.pg_attribute a \
                where a.attrelid = {0} and a.attnum > 0 and not a.attisdropped \
             union all select b.attnum, t.typbasetype, case when b.typmod = -1 then t.typtypmod else b.typmod end \
                from base b join pg_catalog.pg_type t on t.oid = b.oid where t.typtype = 'd') \
             select a.attname as name, pg_catalog.format_type(b.oid, null) as type, \
               case when t.typname in ('varchar', 'bpchar') and b.typmod > 4 then b.typmod - 4 end as length, \
               a.attnotnull as not_null, a.atthasdef as has_default, \
               pg_catalog.row_to_json(a) ->> 'attidentity' = 'a' as identity_always, \
               coalesce(pg_catalog.row_to_json(a) ->> 'attidentity', '') <> '' as is_identity, \
               coalesce(pg_catalog.row_to_json(a) ->> 'attgenerated', '') <> '' as is_generated \
             from pg_catalog.pg_attribute a join base b on b.attnum = a.attnum \
             join pg_catalog.pg_type t on t.oid = b.oid and t.typtype <> 'd' \
             where a.attrelid = {0} order by a.attnum",
            table.oid
        );
        let rows = session.query(&sql).context("read the columns of a table")?;
        Ok(Some((0..rows.len()).map(|row| column(&rows, row)).collect()))
    }
}

fn column(rows: &Rows, row: usize) -> ServerColumn {
    let is = |name: &str| rows.get(row, name) == Some("t");
    ServerColumn {
        name: rows.get(row, "name").unwrap_or_default().to_string(),
        type_name: rows.get(row, "type").unwrap_or_default().to_string(),
        type_length: rows.parse(row, "length"),
        not_null: is("not_null"),
        has_default: is("has_default") || is("is_identity"),
        identity_always: is("identity_always"),
        is_generated: is("is_generated"),
    }
}

/// Names and kinds of objects.
fn identify(session: &mut Session, ids: &[&ObjectId]) -> Result<Vec<CreatedObject>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let values: Vec<String> = ids.iter().map(|(catalog, oid)| format!("('{catalog}', {oid})")).collect();
    // A large object is known by the catalogue of its data.
    let sql = format!(
        "select o.catalog, o.oid, i.type, coalesce(i.schema, '') as schema, i.identity, \
           exists (select 1 from pg_catalog.pg_depend d where d.classid = o.class and d.objid = o.oid \
             and d.deptype in ('a', 'i')) as is_part \
         from (select v.catalog, v.oid::pg_catalog.oid as oid, \
             ('pg_catalog.' || replace(v.catalog, '_metadata', ''))::pg_catalog.regclass::pg_catalog.oid as class \
           from (values {}) as v(catalog, oid)) as o, \
         lateral pg_catalog.pg_identify_object(o.class, o.oid, 0) as i order by o.catalog, o.oid",
        values.join(", ")
    );
    let rows = session.query(&sql).context("see what schema.sql has made")?;
    let object = |row: usize| {
        Some(CreatedObject {
            catalog: rows.get(row, "catalog")?.to_string(),
            oid: rows.parse(row, "oid")?,
            kind: rows.get(row, "type")?.to_string(),
            schema: unquoted(rows.get(row, "schema").unwrap_or_default()),
            identity: rows.get(row, "identity").unwrap_or_default().to_string(),
            is_part: rows.get(row, "is_part") == Some("t"),
        })
    };
    Ok((0..rows.len()).filter_map(object).collect())
}

/// Tables that the transaction has locked for more than reading and did not make.
fn touched(session: &mut Session, new: &[&ObjectId]) -> Result<Vec<String>> {
    let new: Vec<String> = new
        .iter()
        .filter(|(catalog, _)| catalog == "pg_class")
        .map(|(_, oid)| oid.to_string())
        .chain(["0".to_string()])
        .collect();
    let sql = format!(
        "select distinct pg_catalog.format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_locks l \
         join pg_catalog.pg_class c on c.oid = l.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation' and l.mode <> 'AccessShareLock' \
         and c.oid >= {FIRST_OID} and c.oid not in ({}) and n.nspname <> 'pg_toast' order by 1",
        new.join(", ")
    );
    Ok(session.query(&sql)?.into_first_column())
}

/// Tables among the objects, by name.
fn tables(session: &mut Session, objects: &[CreatedObject]) -> Result<BTreeMap<String, CreatedTable>> {
    let oids: Vec<String> = objects
        .iter()
        .filter(|object| object.catalog == "pg_class" && object.kind == "table")
        .map(|object| object.oid.to_string())
        .collect();
    if oids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = format!(
        "select c.relname, c.oid, c.relkind = 'p' as is_partitioned, \
           exists (select 1 from pg_catalog.pg_constraint k where k.contype = 'f' and c.oid in (k.conrelid, k.confrelid)) \
             as has_foreign_keys, \
           pg_catalog.pg_relation_size(c.oid) > 0 as has_rows \
         from pg_catalog.pg_class c where c.oid in ({}) and c.relkind in ('r', 'p')",
        oids.join(", ")
    );
    let rows = session.query(&sql).context("see which tables schema.sql has made")?;
    let is = |row: usize, name: &str| rows.get(row, name) == Some("t");
    let table = |row: usize| {
        let table = CreatedTable {
            oid: rows.parse(row, "oid")?,
            is_partitioned: is(row, "is_partitioned"),
            has_foreign_keys: is(row, "has_foreign_keys"),
            has_rows: is(row, "has_rows"),
        };
        Some((rows.get(row, "relname")?.to_string(), table))
    };
    Ok((0..rows.len()).filter_map(table).collect())
}

fn listed(names: &[String]) -> Option<String> {
    let mut words: Vec<String> = names.iter().take(NAMES_MAX).cloned().collect();
    if names.len() > NAMES_MAX {
        words.push(format!("and {} more", names.len() - NAMES_MAX));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// A name as it is stored: `pg_identify_object` quotes those that need it.
pub(super) fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map_or_else(|| name.to_string(), |inner| inner.replace("\"\"", "\""))
}

/// Oid of a table by its name in a schema; 0 if there is none.
pub(super) fn oid_sql(schema: &Schema, table: &str) -> String {
    format!(
        "select coalesce((select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname = {}), 0)",
        quote_literal(schema.name()),
        quote_literal(table)
    )
}
