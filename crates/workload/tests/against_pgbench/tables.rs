//! The built-in workload: tables, rows, scripts, checks, marker.

use crate::cluster::Cluster;
use crate::language::{our_statements, sent};
use model::workload::Dataset;
use std::collections::BTreeMap;
use workload::catalogue;
use workload::tpcb::{self, Partitioning, TABLES, TpcbOptions, TpcbRows, TpcbScript, TpcbTable};
use workload::{Marker, MarkerState, Schema};

pub(crate) fn schemas_are_equal(cluster: &Cluster) {
    let plain = TpcbOptions::default();
    let check = |name: &str, scale: u32, options: &TpcbOptions, steps: &[&str], has_foreign_keys: bool| {
        let (ours, theirs) = (format!("{name}_ours"), format!("{name}_theirs"));
        cluster.run("createdb", &[&ours]);
        cluster.run("createdb", &[&theirs]);
        let mut statements = tpcb::create_tables(scale, options);
        statements.extend(tpcb::primary_keys());
        if has_foreign_keys {
            statements.extend(tpcb::foreign_keys());
        }
        cluster.script(&ours, (statements.join(";\n") + ";").as_bytes());
        let scale = format!("--scale={scale}");
        let mut arguments = vec!["-i", "-q", scale.as_str()];
        arguments.extend(steps);
        arguments.push(&theirs);
        cluster.pgbench(&arguments);
        assert_eq!(dump(cluster, &ours), dump(cluster, &theirs), "{name}");
        cluster.script(&ours, (tpcb::truncate_tables() + ";" + &tpcb::drop_tables()).as_bytes());
        assert_eq!(
            cluster.query(&ours, "select count(*) from pg_class where relname ~ 'pgbench'").trim(),
            "0"
        );
    };
    check("plain", 1, &plain, &["-I", "tp"], false);
    check("wide", 20_000, &plain, &["-I", "tpf"], true);
    check("fill", 1, &TpcbOptions { fillfactor: 70, ..plain.clone() }, &["-I", "tp", "-F", "70"], false);
    check(
        "unlogged",
        1,
        &TpcbOptions { unlogged: true, ..plain.clone() },
        &["-I", "tp", "--unlogged-tables"],
        false,
    );
    let range = TpcbOptions { partitioning: Some(Partitioning::Range(3)), ..plain.clone() };
    check("range", 2, &range, &["-I", "tpf", "--partitions=3"], true);
    let hash = TpcbOptions { partitioning: Some(Partitioning::Hash(4)), ..plain };
    check("hash", 2, &hash, &["-I", "tp", "--partitions=4", "--partition-method=hash"], false);
}

/// The schema as pg_dump writes it, without the random word that some versions put in.
fn dump(cluster: &Cluster, database: &str) -> String {
    let text = cluster.run("pg_dump", &["--schema-only", database]);
    text.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
}

/// Loads `ours` with our statements and `theirs` with pgbench, and compares.
pub(crate) fn rows_are_equal(cluster: &Cluster) {
    cluster.run("createdb", &["ours"]);
    cluster.run("createdb", &["theirs"]);
    cluster.pgbench(&["-i", "-q", "-s", "2", "theirs"]);
    cluster.script("ours", (tpcb::create_tables(2, &TpcbOptions::default()).join(";\n") + ";").as_bytes());
    let mut load = format!("begin;\n{};\n", tpcb::truncate_tables()).into_bytes();
    for table in TABLES {
        load.extend_from_slice(format!("{};\n", tpcb::copy_statement(table.name(), true)).as_bytes());
        let mut rows = TpcbRows::new(table, 2, 0..tpcb::row_count(table, 2));
        while rows.fill(&mut load, 1 << 16) > 0 {}
        load.extend_from_slice(b"\\.\n");
    }
    load.extend_from_slice(b"commit;\n");
    load.extend_from_slice((tpcb::primary_keys().join(";\n") + ";").as_bytes());
    cluster.script("ours", &load);
    for (table, id) in
        [(TpcbTable::Branches, "bid"), (TpcbTable::Tellers, "tid"), (TpcbTable::Accounts, "aid")]
    {
        let sql = format!("copy (select * from {} order by {id}) to stdout", table.name());
        let (ours, theirs) = (cluster.query("ours", &sql), cluster.query("theirs", &sql));
        assert!(ours == theirs, "{} differs", table.name());
        assert_eq!(ours.lines().count() as u64, tpcb::row_count(table, 2));
    }
    let size = "select sum(pg_total_relation_size(oid)) from pg_class where relname ~ '^pgbench_.*s$'";
    let bytes: f64 = cluster.query("ours", size).trim().parse().expect("a number");
    let ratio = Dataset::Tpcb.estimated_bytes(2) as f64 / bytes;
    assert!((0.97..1.03).contains(&ratio), "estimated / real size is {ratio}");
}

pub(crate) fn builtin_scripts_send_the_same(cluster: &Cluster) {
    for builtin in TpcbScript::ALL {
        let name = format!("--builtin={}", builtin.pgbench_name());
        let said = cluster.pgbench(&["--debug", "-n", "-t", "50", "--random-seed=5", &name, "theirs"]);
        let defines = BTreeMap::from([("scale".to_owned(), "2".to_owned())]);
        assert_eq!(sent(&said), our_statements(builtin.source(), defines, 50), "{}", builtin.name());
    }
}

/// The identifiers of the checks that find something.
fn violated(cluster: &Cluster, builtin: TpcbScript, scale: u32) -> Vec<&'static str> {
    let mut checks = catalogue::checks(builtin.kind());
    checks.retain(|check| !cluster.query("ours", &check.query(&Schema::searched(), scale)).trim().is_empty());
    checks.iter().map(|check| check.id).collect()
}

pub(crate) fn checks_pass_after_a_run_and_find_what_is_broken(cluster: &Cluster) {
    let nothing: [&str; 0] = [];
    assert_eq!(violated(cluster, TpcbScript::Tpcb, 2), nothing);
    cluster.pgbench(&["-n", "-c", "4", "-t", "100", "ours"]);
    assert_eq!(cluster.query("ours", "select count(*) from pgbench_history").trim(), "400");
    assert_eq!(violated(cluster, TpcbScript::Tpcb, 2), nothing);
    let check = |change: &str, builtin: TpcbScript, wanted: &[&str]| {
        // A copy of the database, changed and dropped again, keeps the cases apart.
        cluster.run("dropdb", &["--if-exists", "kept"]);
        cluster.run("createdb", &["-T", "ours", "kept"]);
        cluster.query("ours", change);
        assert_eq!(violated(cluster, builtin, 2), wanted, "{change}");
        cluster.run("dropdb", &["ours"]);
        cluster.run("createdb", &["-T", "kept", "ours"]);
    };
    let tpcb = TpcbScript::Tpcb;
    check(
        "update pgbench_accounts set abalance = abalance + 1 where aid = 7",
        tpcb,
        &["accounts-sum", "accounts"],
    );
    check(
        "update pgbench_accounts set abalance = abalance + case aid when 7 then 1 else -1 end where aid in (7, 8)",
        tpcb,
        &["accounts"],
    );
    check(
        "update pgbench_accounts set abalance = null where aid = (select min(aid) from pgbench_accounts where abalance = 0)",
        tpcb,
        &["accounts"],
    );
    check(
        "update pgbench_tellers set tbalance = tbalance - 1 where tid = 3",
        tpcb,
        &["tellers-sum", "tellers"],
    );
    check("update pgbench_branches set bbalance = 0", TpcbScript::TpcbSimple, &nothing);
    check("update pgbench_branches set bbalance = bbalance + (2 * bid - 3)", tpcb, &["branches"]);
    check("delete from pgbench_accounts where aid = 9 and abalance = 0", tpcb, &["row-counts"]);
    check(
        "insert into pgbench_history (tid, bid, aid, delta) values (1, 1, null, 0)",
        tpcb,
        &["foreign-ids", "accounts"],
    );
    check(
        "insert into pgbench_history (tid, bid, aid, delta) values (1, 3, 1, 0)",
        tpcb,
        &["foreign-ids", "branches"],
    );
    check(
        "delete from pgbench_history where ctid = (select ctid from pgbench_history where delta <> 0 limit 1)",
        tpcb,
        &["accounts-sum", "accounts", "tellers-sum", "branches-sum", "tellers", "branches"],
    );
    assert_eq!(violated(cluster, tpcb, 3), ["row-counts"]);
    cluster.pgbench(&["-n", "-N", "-t", "10", "ours"]);
    assert_eq!(violated(cluster, TpcbScript::TpcbSimple, 2), nothing);
    assert_eq!(violated(cluster, TpcbScript::TpcbSelect, 2), nothing);
}

pub(crate) fn a_marker_is_read_back(cluster: &Cluster) {
    let sql = "select obj_description(to_regclass('pgbench_branches'), 'pg_class')";
    let read = || cluster.query("ours", sql);
    assert_eq!(cluster.query("postgres", sql).trim(), "");
    assert_eq!(read().trim(), "");
    let mut written = Marker {
        workload: "it's \\ a=b".to_owned(),
        scale: 2,
        tool_version: "0.1.0".to_owned(),
        state: MarkerState::Loading,
        oid: None,
        extra: BTreeMap::new(),
    };
    cluster.query("ours", &written.comment_sql_on("pgbench_branches"));
    assert_eq!(Marker::parse(read().trim()), Ok(Some(written.clone())));
    written.state = MarkerState::Finished { at: "2026-11-20 12:00:00 UTC".to_owned() };
    cluster.query("ours", &written.comment_sql_on("pgbench_branches"));
    assert_eq!(Marker::parse(read().trim()), Ok(Some(written)));
}
