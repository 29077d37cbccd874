//! The built-in scripts, their tables and their rows.

use model::workload::Dataset;

use super::{defines, emulator};
use crate::catalogue;
use crate::tpcb::{
    self, Partitioning, TABLES, TpcbOptions, TpcbRows, TpcbScript, TpcbTable, create_tables, row_count,
};
use crate::{Action, BoundParameter, Bundle, Schema, random};

/// Text of all parameters of the first transactions, one per line.
fn parameters(builtin: TpcbScript, seed: u64, n_transactions: usize) -> Vec<u8> {
    let source = (builtin.description(), builtin.source(), 1);
    let bundle = Bundle::compile(&[source], &defines(&[])).expect("built-in scripts compile");
    let program = &bundle.programs[0];
    let mut emulator = emulator(&bundle, seed, &defines(&[("scale", "10")]));
    let mut bytes = Vec::new();
    for _ in 0..n_transactions {
        emulator.begin(program);
        while let Action::Send { statement } = emulator.step(program).expect("built-in scripts run") {
            for variable in &program.statements[statement].parameters {
                assert_eq!(emulator.parameter(*variable, &mut bytes), BoundParameter::Text);
                bytes.push(b'\n');
            }
        }
    }
    bytes
}

fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash, byte| random::hash_fnv1a(i64::from(*byte), hash)) as u64
}

/// If this fails, the same seed no longer means the same load: results would not compare with older ones.
#[test]
fn scripts_name_the_schema_of_each_table_and_pgbenchs_own_name_none() {
    for builtin in TpcbScript::ALL {
        assert_eq!(builtin.source_in(&Schema::searched()), builtin.source());
        let schema = Schema::named("a pgbench_tellers b:scale");
        let source = builtin.source_in(&schema);
        let prefix = schema.fill("@.");
        assert_eq!(source.matches(&prefix).count(), builtin.source().matches("pgbench_").count(), "{source}");
        let bundle = Bundle::compile(&[("in a schema", &source, 1)], &defines(&[])).expect("it compiles");
        let plain = Bundle::compile(&[("plain", builtin.source(), 1)], &defines(&[])).expect("it compiles");
        let names = |bundle: &Bundle| {
            bundle.programs[0].statements.iter().map(|s| s.parameters.len()).collect::<Vec<_>>()
        };
        assert_eq!(names(&bundle), names(&plain), "the schema's name has no variable");
    }
}

#[test]
fn the_load_of_a_seed_never_changes() {
    let check = |builtin: TpcbScript, wanted: u64| {
        let found = fingerprint(&parameters(builtin, 1, 1000));
        assert_eq!(found, wanted, "{}: {found:#018x}", builtin.name());
    };
    check(TpcbScript::Tpcb, 0xd9cd_c9e5_87c4_2c11);
    check(TpcbScript::TpcbSimple, 0xe680_41e4_1721_e750);
    check(TpcbScript::TpcbSelect, 0x440e_d0df_478f_317d);
}

#[test]
fn scripts_are_found_by_either_name() {
    for builtin in TpcbScript::ALL {
        assert_eq!(TpcbScript::parse(builtin.name()), Ok(builtin));
        assert_eq!(TpcbScript::parse(builtin.pgbench_name()), Ok(builtin));
    }
    let error = TpcbScript::parse("tpcc").expect_err("another workload");
    assert_eq!(
        error.to_string(),
        "no built-in script is named `tpcc`; take tpcb, tpcb-simple or tpcb-select"
    );
    let check = |prefix: &str, wanted: Result<TpcbScript, &str>| {
        assert_eq!(TpcbScript::parse_pgbench_prefix(prefix), wanted.map_err(str::to_owned));
    };
    check("t", Ok(TpcbScript::Tpcb));
    check("select-only", Ok(TpcbScript::TpcbSelect));
    check("s", Err("ambiguous builtin name: 2 builtin scripts found for prefix \"s\""));
    check("x", Err("no builtin script found for name \"x\""));
}

#[test]
fn tables_are_made_as_pgbench_makes_them() {
    let options = TpcbOptions {
        fillfactor: 90,
        unlogged: true,
        tablespace: Some("a\"b".into()),
        ..TpcbOptions::default()
    };
    let wanted = [
        "create unlogged table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22)) \
         tablespace \"a\"\"b\"",
        "create unlogged table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) \
         with (fillfactor=90) tablespace \"a\"\"b\"",
        "create unlogged table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) \
         with (fillfactor=90) tablespace \"a\"\"b\"",
        "create unlogged table pgbench_branches(bid int not null,bbalance int,filler char(88)) \
         with (fillfactor=90) tablespace \"a\"\"b\"",
    ];
    assert_eq!(create_tables(19_999, &options), wanted);
    let wide = create_tables(20_000, &TpcbOptions::default());
    assert_eq!(
        wide[2],
        "create table pgbench_accounts(aid bigint not null,bid int,abalance int,filler char(84)) with (fillfactor=100)"
    );
    assert!(wide[0].contains("aid bigint,delta"));
}

#[test]
fn partitions_cover_all_accounts() {
    let check = |partitioning: Partitioning, wanted: &[&str]| {
        let options = TpcbOptions { partitioning: Some(partitioning), ..TpcbOptions::default() };
        let made = create_tables(1, &options);
        assert!(made[2].ends_with(" (aid)"), "{}", made[2]);
        let values: Vec<&str> =
            made[4..].iter().map(|sql| sql.split("for values ").nth(1).expect("partition")).collect();
        assert_eq!(values, wanted);
    };
    check(
        Partitioning::Range(3),
        &[
            "from (minvalue) to (33335) with (fillfactor=100)",
            "from (33335) to (66669) with (fillfactor=100)",
            "from (66669) to (maxvalue) with (fillfactor=100)",
        ],
    );
    check(Partitioning::Range(1), &["from (minvalue) to (maxvalue) with (fillfactor=100)"]);
    check(
        Partitioning::Hash(2),
        &[
            "with (modulus 2, remainder 0) with (fillfactor=100)",
            "with (modulus 2, remainder 1) with (fillfactor=100)",
        ],
    );
}

#[test]
fn rows_are_those_of_pgbench() {
    let check = |table: TpcbTable, scale: u32, from: u64, wanted: &str| {
        let mut out = Vec::new();
        TpcbRows::new(table, scale, from..from + 2).fill(&mut out, 1000);
        assert_eq!(String::from_utf8(out).expect("text"), wanted);
    };
    check(TpcbTable::Branches, 3, 0, "1\t0\t\\N\n2\t0\t\\N\n");
    check(TpcbTable::Branches, 3, 2, "3\t0\t\\N\n");
    check(TpcbTable::Tellers, 3, 9, "10\t1\t0\t\\N\n11\t2\t0\t\\N\n");
    check(TpcbTable::Accounts, 2, 99_999, "100000\t1\t0\t\n100001\t2\t0\t\n");
    check(TpcbTable::Accounts, 30_000, 2_999_999_998, "2999999999\t30000\t0\t\n3000000000\t30000\t0\t\n");
    check(TpcbTable::History, 3, 0, "");
    check(TpcbTable::Accounts, 1, 200_000, "");
}

#[test]
fn short_rows_lack_only_what_all_accounts_have_in_common() {
    let text = |mut rows: TpcbRows| {
        let mut out = Vec::new();
        while rows.fill(&mut out, 4096) > 0 {}
        String::from_utf8(out).expect("text")
    };
    for range in [0..1000, 99_990..100_010, 199_999..200_000] {
        let whole = text(TpcbRows::new(TpcbTable::Accounts, 2, range.clone()));
        let short = text(TpcbRows::new(TpcbTable::Accounts, 2, range).short());
        assert_eq!(short.replace('\n', "\t0\t\n"), whole);
    }
    for partition in tpcb::partitions(1, Partitioning::Hash(3)) {
        let [whole, short] =
            [TpcbRows::of_partition(1, &partition), TpcbRows::of_partition(1, &partition).short()];
        assert_eq!(text(short).replace('\n', "\t0\t\n"), text(whole), "{}", partition.name);
    }
    let tellers = || TpcbRows::new(TpcbTable::Tellers, 2, 0..20);
    assert_eq!(text(tellers().short()), text(tellers()));
}

#[test]
fn rows_do_not_depend_on_how_they_are_cut() {
    for table in TABLES {
        let n_rows = row_count(table, 2);
        let mut whole = Vec::new();
        let mut rows = TpcbRows::new(table, 2, 0..n_rows);
        while rows.fill(&mut whole, 1 << 20) > 0 {}
        assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count() as u64, n_rows);
        for (n_parts, max_bytes) in [(1, 1), (3, 100), (7, 4096), (16, 65_536)] {
            let mut parts = Vec::new();
            let mut n_counted = 0;
            for part in 0..n_parts {
                let mut rows =
                    TpcbRows::new(table, 2, n_rows * part / n_parts..n_rows * (part + 1) / n_parts);
                let mut chunk = Vec::new();
                loop {
                    chunk.clear();
                    let n_filled = rows.fill(&mut chunk, max_bytes);
                    if n_filled == 0 {
                        break;
                    }
                    assert!(chunk.len() <= max_bytes || n_filled == 1);
                    n_counted += n_filled as u64;
                    parts.extend_from_slice(&chunk);
                }
                assert_eq!(rows.n_left(), 0);
            }
            assert!(parts == whole, "{} in {n_parts} parts", table.name());
            assert_eq!(n_counted, n_rows);
        }
    }
}

/// The numbers by hash are those of PostgreSQL 15, which refuses a row in a partition that is not its own.
#[test]
fn each_row_is_in_one_partition_and_in_order() {
    let ids_of = |partitioning| -> Vec<Vec<u64>> {
        let ids = |partition| {
            let (mut rows, mut out) = (TpcbRows::of_partition(1, &partition), Vec::new());
            while rows.fill(&mut out, 4096) > 0 {}
            let text = String::from_utf8(out).expect("text");
            text.lines()
                .map(|row| row.split('\t').next().expect("an id").parse().expect("a number"))
                .collect()
        };
        tpcb::partitions(1, partitioning).into_iter().map(ids).collect()
    };
    let check = |partitioning: Partitioning, first: &[u64], n_rows: &[usize]| {
        let parts = ids_of(partitioning);
        assert_eq!(parts.iter().map(|ids| ids[0]).collect::<Vec<_>>(), first, "{partitioning:?}");
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), n_rows, "{partitioning:?}");
        assert!(parts.iter().all(|ids| ids.is_sorted()));
        let mut all = parts.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=100_000), "{partitioning:?}");
    };
    check(Partitioning::Range(3), &[1, 33_335, 66_669], &[33_334, 33_334, 33_332]);
    check(Partitioning::Hash(3), &[2, 3, 1], &[33_585, 33_494, 32_921]);
}

#[test]
fn only_laws_that_hold_are_checked() {
    let ids = |builtin: TpcbScript| -> Vec<&str> {
        catalogue::checks(builtin.kind()).iter().map(|check| check.id).collect()
    };
    assert_eq!(ids(TpcbScript::TpcbSelect), ["row-counts", "foreign-ids"]);
    assert_eq!(ids(TpcbScript::TpcbSimple), ["row-counts", "foreign-ids", "accounts-sum", "accounts"]);
    assert_eq!(ids(TpcbScript::Tpcb).len(), 8);
    assert_eq!(Dataset::Tpcb.row().history_table, Some("pgbench_history"));
}
