//! Tables with their partitions and children, as a part of catalog queries.

use wire::quote_literal;

use crate::database::tend::quote_name;

/// What happens if a table does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The query fails.
    Fails,
    /// The query leaves it out.
    IsLeftOut,
}

/// `with recursive t(oid) as (...)`: the tables (`table` or `schema.table`) and all their partitions and children, both
/// of which are in `pg_inherits`. A partitioned table itself has no pages.
pub(crate) fn with_parts(tables: &[&str], missing: Missing) -> String {
    format!("{}, t(oid) as (select distinct oid from parts)", with_parts_of_each(tables, missing))
}

/// [`with_parts`], and `heaps(oid) as (...)`: the same tables with their TOAST tables, where values of more than about 2 kB are.
pub(crate) fn with_heaps(tables: &[&str], missing: Missing) -> String {
    format!(
        "{}, heaps(oid) as (
             select oid from t union select c.reltoastrelid from t join pg_catalog.pg_class c on c.oid = t.oid where c.reltoastrelid <> 0
         )",
        with_parts(tables, missing)
    )
}

/// `with recursive parts(n, oid) as (...)`: the same as [`with_parts`], with the number of the table in the list, from 1. What is part of
/// two tables is there twice.
pub(crate) fn with_parts_of_each(tables: &[&str], missing: Missing) -> String {
    let oid = |table: &&str| {
        let name = quote_literal(&quote_name(table));
        match missing {
            Missing::Fails => format!("{name}::regclass::oid"),
            Missing::IsLeftOut => format!("to_regclass({name})::oid"),
        }
    };
    let oids: Vec<String> = tables.iter().map(oid).collect();
    let oids = if oids.is_empty() { "null::oid".to_string() } else { oids.join(", ") };
    format!(
        "with recursive parts(n, oid) as (
             select n, oid from unnest(array[{oids}]) with ordinality as named(oid, n)
             union select p.n, i.inhrelid from pg_catalog.pg_inherits i join parts p on i.inhparent = p.oid
         )"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_quoted_and_an_empty_list_is_no_error() {
        let check = |tables: &[&str], missing, expected: &str| {
            let sql = with_parts(tables, missing);
            assert!(sql.contains(expected), "{sql}");
        };
        check(&["a.B", "c"], Missing::Fails, r#"array['"a"."B"'::regclass::oid, '"c"'::regclass::oid]"#);
        check(&["c"], Missing::IsLeftOut, r#"array[to_regclass('"c"')::oid]"#);
        check(&[], Missing::Fails, "array[null::oid]");
    }
}
