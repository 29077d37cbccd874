//! `-i --streams`: the resulting tables are those of the genuine pgbench, whatever the options.

use crate::cluster::{Cluster, Who, database};

/// What the catalogs say of each relation, and how large its files are.
const RELATIONS: &str = "select relname, relkind, relpersistence, spcname, reloptions, relpages, reltuples, relallvisible, \
     relhasindex, relispartition, \
     case when relkind in ('r', 'i') then pg_relation_size(c.oid, 'main') end, \
     case when relkind in ('r', 'i') then pg_relation_size(c.oid, 'fsm') end, \
     case when relkind in ('r', 'i') then pg_relation_size(c.oid, 'vm') end, \
     case when relkind in ('r', 'i') then pg_relation_size(c.oid, 'init') end \
     from pg_class c left join pg_tablespace s on s.oid = reltablespace where relname ~ '^pgbench' order by 1";
const CONSTRAINTS: &str = "select conname, contype, conislocal, coninhcount, conparentid <> 0, pg_get_constraintdef(oid) \
     from pg_constraint where conname ~ '^pgbench' order by 1, conrelid::regclass::text";
/// Where each row lies.
const ROWS: &str = "select md5(string_agg(concat_ws(' ', tableoid::regclass, ctid, a.*::text), chr(10) \
     order by tableoid::regclass::text, ctid)) from pgbench_accounts a";
const COMMENT: &str = "select count(*) from pg_description where objoid = 'pgbench_branches'::regclass";

pub(crate) fn streams_leave_what_one_session_leaves(cluster: &Cluster) {
    for arguments in [
        "-i -s 2 --partitions=3",
        "-i -s 2 --partitions=3 --partition-method=hash -F 70",
        "-i --partitions=2 --unlogged-tables --tablespace=space --index-tablespace=space",
        "-i --partitions=2 --foreign-keys",
        // The tables have foreign keys already: one session does it.
        "-i -I gv --partitions=2",
        "-i -s 2 -F 90",
    ] {
        let genuine = cluster.run(Who::Genuine, arguments);
        let ours = cluster.run(Who::Ours, &format!("{arguments} --streams=2"));
        assert_eq!((genuine.code, ours.code), (Some(0), Some(0)), "{arguments}: {}", ours.stderr);
        for sql in [RELATIONS, CONSTRAINTS, ROWS, COMMENT] {
            let [expected, found] = [Who::Genuine, Who::Ours].map(|who| cluster.sql(database(who), sql));
            assert_eq!(found, expected, "{arguments}");
        }
    }
}

pub(crate) fn streams_are_sessions(cluster: &Cluster) {
    let (said, sessions) = cluster.statements(Who::Ours, "-i --partitions=2 --streams=2");
    assert_eq!((said.code, sessions.len()), (Some(0), 2), "{}", said.stderr);
    let copies =
        |session: &Vec<String>| session.iter().filter(|sql| sql.contains("copy pgbench_accounts_")).count();
    assert_eq!(sessions.iter().map(copies).sum::<usize>(), 2, "{sessions:?}");
    let (_, sessions) = cluster.statements(Who::Ours, "-i --streams=2");
    assert_eq!(sessions.len(), 1, "one table is one stream");
    let said = cluster.run(Who::Ours, "--streams=2 -t 1");
    assert_eq!(said.code, Some(1), "{}", said.stderr);
}
