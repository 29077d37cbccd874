//! Whether the SQL of a workload directory does more than define tables, keys and B-tree indexes, so that settings decide what it makes.

use std::collections::BTreeMap;

/// The files of a directory whose statements make its data, but for the rows that pgdyno generates.
const FILES: [&str; 2] = ["schema.sql", "after.sql"];

/// How statements begin whose effect no setting changes. A sequence is set to what the rows say.
const PLAIN: [&str; 8] = [
    "create table ",
    "create unlogged table ",
    "create index ",
    "create unique index ",
    "alter table ",
    "analyze",
    "vacuum",
    "select setval(pg_get_serial_sequence(",
];

/// What makes such a statement more than that: rows in an order of the planner's, values from texts, expressions and functions of the
/// user's, and indexes whose shape follows from memory.
const NOT_PLAIN: [&str; 6] = [" as ", "using", "default", "generated", "check", "$"];

/// Whether the statements of these texts can make other data under other settings; unknown texts can.
pub(super) fn decide_data(texts: &BTreeMap<String, String>) -> bool {
    let known: Vec<&String> = FILES.iter().filter_map(|name| texts.get(*name)).collect();
    known.is_empty() || known.into_iter().any(|text| !is_plain(text))
}

fn is_plain(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    let bare = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_lowercase();
    let mut statements = bare.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.all(|statement| {
        PLAIN.iter().any(|begin| statement.starts_with(begin))
            && !NOT_PLAIN.iter().any(|word| statement.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_of_tables_and_btree_indexes_are_plain() {
        let decides = |schema: &str, after: &str| {
            let of = |(name, text): (&str, &str)| (name.to_string(), text.to_string());
            decide_data(&BTreeMap::from([("schema.sql", schema), ("after.sql", after)].map(of)))
        };
        let table =
            "-- Its default is none.\nCREATE TABLE t (\n  id int not null, d date -- using nothing\n);\n";
        let serial = "select setval(pg_get_serial_sequence('t', 'id'), (select max(id) from t));";
        assert!(!decides(table, ""));
        assert!(!decides(
            table,
            &format!("alter table t add primary key (id); create index t_d on t (d);\n{serial}")
        ));

        for after in [
            "update t set d = current_setting('DateStyle')",
            "create index on t using gin (x)",
            "create table u as select * from t order by random()",
            "insert into t select 1",
            "create function f() returns int language sql as 'select 1'",
            "alter table t alter d set default '1/2/2020'",
            "alter table t add check (d > '1/2/2020')",
            "do $$ begin end $$",
            "select do_it()",
        ] {
            assert!(decides(table, after), "{after}");
        }
        assert!(decide_data(&BTreeMap::new()), "nothing is known");
    }
}
