//! Everything that a database contains except for the rows of its tables, to be compared with its earlier contents.
//!
//! Every catalog of the database is read completely, whichever ones the server's release has; a copy of a database has
//! the same rows with the same OIDs. Columns that the server changes by itself are left out: sizes, statistics,
//! horizons.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use wire::{Session, quote_ident, quote_literal};

use crate::database::digest::ServerDigest;

/// The first OID of an object that initdb did not make (`FirstNormalObjectId`).
pub(crate) const FIRST_OID: u32 = 16384;

/// Catalogs of statistics, of the bytes of large objects (see [`super::strangers`]), and one that only superusers read.
const LEFT_OUT: [&str; 4] = ["pg_statistic", "pg_statistic_ext_data", "pg_largeobject", "pg_user_mapping"];

/// Columns that the server changes by itself, or by commands that replace only rows (`TRUNCATE`).
const VOLATILE: [(&str, &[&str]); 3] = [
    (
        "pg_class",
        &[
            "relfilenode",
            "relpages",
            "reltuples",
            "relallvisible",
            "relallfrozen",
            "relfrozenxid",
            "relminmxid",
            "relhasindex",
            "relhasrules",
            "relhastriggers",
            "relhassubclass",
            "relhaspkey",
        ],
    ),
    ("pg_index", &["indcheckxmin"]),
    // In 10 and 11 the results of ANALYZE are in the definition's row.
    ("pg_statistic_ext", &["stxndistinct", "stxdependencies"]),
];

/// Catalogs without an OID of their own whose rows belong to a relation: the column that names it.
const OF_RELATIONS: [(&str, &str); 6] = [
    ("pg_attribute", "attrelid"),
    ("pg_index", "indexrelid"),
    ("pg_sequence", "seqrelid"),
    ("pg_foreign_table", "ftrelid"),
    ("pg_inherits", "inhrelid"),
    ("pg_partitioned_table", "partrelid"),
];

/// Catalogs whose objects `pg_describe_object` knows, in the order in which differences are named.
const DESCRIBED: [&str; 33] = [
    "pg_extension",
    "pg_class",
    "pg_proc",
    "pg_namespace",
    "pg_event_trigger",
    "pg_publication",
    "pg_publication_rel",
    "pg_publication_namespace",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_user_mapping",
    "pg_language",
    "pg_cast",
    "pg_operator",
    "pg_opclass",
    "pg_opfamily",
    "pg_am",
    "pg_collation",
    "pg_conversion",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_transform",
    "pg_trigger",
    "pg_policy",
    "pg_constraint",
    "pg_attrdef",
    "pg_statistic_ext",
    "pg_default_acl",
    "pg_largeobject_metadata",
    "pg_type",
    "pg_rewrite",
];

/// The contents of a database at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    entries: BTreeMap<Key, Entry>,
}

/// Sorts in the order in which differences are named: objects that a user would name before what belongs to them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rank: usize,
    catalog: String,
    /// OID, or OIDs; empty where all rows are one entry.
    object: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    digest: String,
    label: String,
}

impl Inventory {
    /// Reads the contents of the session's database. The session must not be used for anything else: the search
    /// path decides how names are written.
    ///
    /// # Errors
    /// When the server fails, or something cannot be seen.
    pub(crate) fn take(session: &mut Session) -> Result<Inventory> {
        session.execute("set search_path = pg_catalog; set max_parallel_workers_per_gather = 0")?;
        let rows = session.query(HIDDEN)?;
        if let Some(server) = rows.scalar() {
            bail!("only a superuser can see the options of the user mappings of server `{server}`");
        }
        let sql = inventory_sql(session)?;
        let rows = session.query(&sql).context("read the database's catalogs")?;
        let entry = |row: Vec<Option<String>>| {
            let mut columns = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || columns.next().unwrap_or_default();
            let (catalog, object, digest, label) = (next(), next(), next(), next());
            let rank = DESCRIBED.iter().position(|name| *name == catalog).unwrap_or(DESCRIBED.len());
            (Key { rank, catalog, object }, Entry { digest, label })
        };
        Ok(Inventory { entries: rows.rows.into_iter().map(entry).collect() })
    }

    /// How `now` differs, for messages; `None` if it does not.
    pub(crate) fn difference(&self, now: &Inventory) -> Option<String> {
        let keys: std::collections::BTreeSet<&Key> = self.entries.keys().chain(now.entries.keys()).collect();
        let mut differing = keys.into_iter().filter_map(|key| {
            let (label, what) = match (self.entries.get(key), now.entries.get(key)) {
                (None, Some(entry)) => (&entry.label, "is new"),
                (Some(entry), None) => (&entry.label, "is gone"),
                (Some(before), Some(entry)) if before.digest != entry.digest => (&entry.label, "has changed"),
                _ => return None,
            };
            let is_named = !label.is_empty();
            Some(if is_named { format!("{label} {what}") } else { format!("{} has changed", key.catalog) })
        });
        let first = differing.next()?;
        Some(match differing.count() {
            0 => first,
            n => format!("{first}, and {n} more {}", if n == 1 { "difference" } else { "differences" }),
        })
    }

    /// A digest, the same for the same contents.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (key, entry) in &self.entries {
            hash.update(format!("{} {} {}\n", key.catalog, key.object, entry.digest));
        }
        format!("{:x}", hash.finalize())
    }
}

/// A foreign server with a user mapping whose options are hidden from the user: their change would go unnoticed.
const HIDDEN: &str = "select srvname from pg_user_mappings where umoptions is null and not \
     (select rolsuper from pg_roles where rolname = current_user) limit 1";

/// One statement over all catalogs of the session's database.
fn inventory_sql(session: &mut Session) -> Result<String> {
    let sql = format!(
        "select c.relname, a.attname, pg_catalog.has_table_privilege(c.oid, 'select') \
           from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid \
          where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r' and not c.relisshared \
            and c.oid < {FIRST_OID} and (a.attnum > 0 or a.attname = 'oid') and not a.attisdropped \
          order by c.relname, a.attnum"
    );
    let rows = session.query(&sql).context("list the catalogs")?;
    let mut columns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows.rows {
        let [Some(catalog), Some(column), Some(may_read)] = row.as_slice() else { continue };
        if LEFT_OUT.contains(&catalog.as_str()) {
            continue;
        }
        if may_read != "t" {
            bail!("the user cannot read `{catalog}`, so that something could be lost unnoticed");
        }
        columns.entry(catalog).or_default().push(column);
    }
    let digest = ServerDigest::read(session);
    let parts = columns.iter().map(|(catalog, columns)| part_sql(catalog, columns, digest));
    Ok(parts.chain([user_mappings_sql(digest), database_sql(digest)]).collect::<Vec<_>>().join(" union all "))
}

/// Columns of `pg_database` that differ between a database and its copy, that the server changes by itself, or that
/// `obstacle_sql` looks for.
const OF_EACH_DATABASE: [&str; 9] = [
    "oid",
    "datname",
    "datacl",
    "datallowconn",
    "datconnlimit",
    "datlastsysoid",
    "datfrozenxid",
    "datminmxid",
    "dathasloginevt",
];

/// The row of the database itself: owner, tablespace, encoding, locale and whatever later releases add.
fn database_sql(digest: ServerDigest) -> String {
    let left_out: String =
        OF_EACH_DATABASE.iter().map(|column| format!(" - {}", quote_literal(column))).collect();
    let of_row = digest.sql(&format!("(to_jsonb(d){left_out})::text"));
    format!(
        "select 'pg_database', null, {of_row}, 'the owner or another property of the database' \
           from pg_catalog.pg_database d where d.datname = current_database()"
    )
}

fn user_mappings_sql(digest: ServerDigest) -> String {
    format!(
        "select 'pg_user_mapping', umid::text, {}, pg_describe_object('pg_user_mapping'::regclass, umid, 0) from pg_user_mappings",
        digest.sql("row(srvid, umuser, umoptions)::text")
    )
}

/// Rows of one catalog: those of each object that initdb did not create are one entry, and all others together one
/// more.
fn part_sql(catalog: &str, columns: &[&str], digest: ServerDigest) -> String {
    let volatile = VOLATILE.iter().find(|(name, _)| *name == catalog).map_or(&[][..], |(_, names)| names);
    let kept = columns.iter().filter(|column| !volatile.contains(column));
    let row = kept.map(|column| format!("t.{}", quote_ident(column))).collect::<Vec<_>>().join(", ");
    let class = |name: &str| format!("{}::regclass", quote_literal(name));
    let of_relation = OF_RELATIONS.iter().find(|(name, _)| *name == catalog);
    // The object's OID, its class, and the name of the entry.
    let (oid, class, label) = if let Some((_, column)) = of_relation {
        (format!("t.{column}"), class("pg_class"), "'definition of ' || ")
    } else if columns.contains(&"classoid") {
        let label = match catalog {
            "pg_description" => "'comment on ' || ",
            "pg_seclabel" => "'security label of ' || ",
            _ => "'privileges of ' || ",
        };
        ("t.objoid".to_string(), "t.classoid".to_string(), label)
    } else if catalog == "pg_largeobject_metadata" {
        ("t.oid".to_string(), class("pg_largeobject"), "")
    } else if DESCRIBED.contains(&catalog) {
        ("t.oid".to_string(), class(catalog), "")
    } else {
        ("0".to_string(), "0".to_string(), "")
    };
    // Users know the schema `public`, which initdb created, and choose the OIDs of large objects.
    let first = match catalog {
        "pg_namespace" | "pg_largeobject_metadata" => 0,
        _ => FIRST_OID,
    };
    let (name, table) = (quote_literal(catalog), quote_ident(catalog));
    // Most of these are between objects that initdb created, whose dependencies never change.
    let only = match catalog {
        "pg_depend" => format!(" where t.objid >= {FIRST_OID} or t.refobjid >= {FIRST_OID}"),
        _ => String::new(),
    };
    let (of_object, of_row) =
        (digest.sql("string_agg(m, '' order by m)"), digest.sql(&format!("row({row})::text")));
    format!(
        "select {name}, case when c <> 0 then c::text || '/' || o::text end, {of_object}, \
                case when c <> 0 then {label}pg_describe_object(c, o, 0) end \
           from (select case when i >= {first} then k else 0 end c, case when i >= {first} then i else 0 end o, m \
                   from (select ({class})::oid k, ({oid})::oid i, {of_row} m \
                           from pg_catalog.{table} t{only}) r) s group by c, o"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(entries: &[(&str, &str, &str, &str)]) -> Inventory {
        let entry = |&(catalog, object, digest, label): &(&str, &str, &str, &str)| {
            let rank = DESCRIBED.iter().position(|name| *name == catalog).unwrap_or(DESCRIBED.len());
            let key = Key { rank, catalog: catalog.to_string(), object: object.to_string() };
            (key, Entry { digest: digest.to_string(), label: label.to_string() })
        };
        Inventory { entries: entries.iter().map(entry).collect() }
    }

    #[test]
    fn a_difference_is_named_by_the_object_that_a_user_would_name() {
        let before = [("pg_class", "1/20000", "a", "table t"), ("pg_depend", "", "x", "")];
        let check = |now: &[(&str, &str, &str, &str)], expected: Option<&str>| {
            let (before, now) = (inventory(&before), inventory(now));
            assert_eq!(before.difference(&now).as_deref(), expected);
            assert_eq!(before.digest() == now.digest(), expected.is_none());
        };
        check(&before, None);
        check(&[("pg_class", "1/20000", "b", "table t"), before[1]], Some("table t has changed"));
        check(&[before[0], ("pg_depend", "", "y", "")], Some("pg_depend has changed"));
        check(&before[1..], Some("table t is gone"));
        check(
            &[before[0], ("pg_type", "2/1", "c", "type n"), ("pg_class", "1/1", "c", "view n"), before[1]],
            Some("view n is new, and 1 more difference"),
        );
    }

    #[test]
    fn what_the_server_changes_by_itself_is_left_out() {
        let sql = part_sql("pg_class", &["oid", "relname", "relpages", "relacl"], ServerDigest::Md5);
        assert!(sql.contains(r#"row(t."oid", t."relname", t."relacl")"#), "{sql}");
        let sql = part_sql("pg_enum", &["oid", "enumlabel"], ServerDigest::Md5);
        assert!(!sql.contains("t.oid"), "nothing describes a value of an enum: {sql}");
    }
}
