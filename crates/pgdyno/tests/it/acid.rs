//! `check --acid`: the tests of TPC-C's clause 3 on real servers, and what they must find.

use std::collections::BTreeSet;

use dataset::acid::{find_faults, read_ledger};
use serde_json::Value;
use testbed::{Pg, bin_dir};
use workload::Schema;

use crate::tool::Place;

/// The results of the tests of a clause, by their isolation levels.
fn verdicts(report: &Value, clause: &str) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let results = report["acid"].as_array().unwrap().iter().filter(|result| result["clause"] == clause);
    results.map(|result| (word(&result["isolation"]), word(&result["verdict"]))).collect()
}

#[test]
fn every_test_of_clause_3_holds_on_a_given_server_except_durability_which_is_skipped() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let acid = ["check", "--acid", "-w", "tpcc", "--json", "--server", &server];
    let absent = place.run(&acid).expect(1).stderr;
    assert!(absent.contains("no TPC-C tables; load them with pgdyno init -w tpcc"), "{absent}");
    let other = place.run(&["check", "--acid", "-w", "tpcb", "--server", &server]).expect(1).stderr;
    assert!(other.contains("add --workload tpcc"), "{other}");

    place.run(&["init", "-w", "tpcc", "-s", "1", "--server", &server]).expect(0);
    let ended = place.run(&acid).expect(0);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    for clause in ["3.2.2.1", "3.2.2.2", "3.3.3.1", "3.3.3.2"] {
        assert_eq!(verdicts(&report, clause), [(String::new(), "held".to_string())], "{report:#}");
    }
    for test in 1..=9 {
        // PostgreSQL's manual, Transaction Isolation: only read committed has phantoms.
        let first = if test < 8 { "held" } else { "allowed" };
        let expected = [("read committed", first), ("repeatable read", "held"), ("serializable", "held")];
        let expected = expected.map(|(level, verdict)| (level.to_string(), verdict.to_string()));
        assert_eq!(verdicts(&report, &format!("3.4.2.{test}")), expected, "test {test}: {report:#}");
    }
    assert_eq!(verdicts(&report, "3.5.3"), [(String::new(), "skipped".to_string())]);
    // Writers waited, readers did not.
    let seen = |clause: &str| {
        let found = report["acid"].as_array().unwrap().iter().find(|result| result["clause"] == clause);
        found.unwrap()["seen"].as_str().unwrap().to_string()
    };
    for (clause, what) in [("3.4.2.1", "T2 did not wait"), ("3.4.2.3", "T2 waited"), ("3.4.2.6", "T2 waited")]
    {
        assert!(seen(clause).contains(what), "{clause}: {}", seen(clause));
    }
    place.run(&["check", "-w", "tpcc", "--server", &server]).expect(0);

    // Tests 7 and 8 were interrupted: their rows are restored before anything is judged.
    let mut admin = pg.admin(&database);
    admin
        .execute(
            "create table pgdyno_acid_new_order as select *, 'new_order'::regclass::oid as of_table from new_order where no_d_id = 3; \
             comment on table pgdyno_acid_new_order is 'pgdyno workload=tpcc part=pgdyno_acid_new_order'; \
             delete from new_order where no_d_id = 3; \
             create table pgdyno_acid_item as \
               select i_id, i_price, case i_id when 1 then 7 else 0 end::numeric(5,2) as raised, 'item'::regclass::oid as of_table \
               from item where i_id < 5; \
             comment on table pgdyno_acid_item is 'pgdyno workload=tpcc part=pgdyno_acid_item'; \
             update item set i_price = 0 where i_id < 5",
        )
        .unwrap();
    let looked = place.run(&["check", "-w", "tpcc", "--server", &server]).expect(1);
    assert!(looked.stderr.contains("has left rows in `public.pgdyno_acid_new_order`"), "{}", looked.stderr);

    // A trigger that discards payments to the district, and a customer's balance that changes by half.
    admin
        .execute(
            "create function eat() returns trigger language plpgsql as 'begin new.d_ytd := old.d_ytd; return new; end'; \
             create trigger eat before update of d_ytd on district for each row execute procedure eat()",
        )
        .unwrap();
    let ended = place.run(&acid).expect(1);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(verdicts(&report, "3.2.2.1")[0].1, "violated", "{report:#}");
    assert_eq!(verdicts(&report, "3.2.2.2")[0].1, "held", "{report:#}");
    assert_eq!(verdicts(&report, "3.3.3.1")[0].1, "held", "{report:#}");
    assert_eq!(verdicts(&report, "3.3.3.2")[0].1, "violated", "{report:#}");
    // One price is not the one that the test had set: somebody else has.
    let left = admin.query("select string_agg(i_id::text, ' ') from item where i_price = 0").unwrap();
    assert_eq!(left.scalar(), Some("1"));
    let kept = admin.query("select count(*) from pg_class where relname like 'pgdyno\\_acid%'").unwrap();
    assert_eq!(kept.scalar(), Some("0"));
    place.expect_clean();
}

#[test]
fn acknowledged_orders_survive_a_kill_unless_commits_do_not_wait_for_the_wal() {
    let place = Place::new();
    let bin = bin_dir().display().to_string();
    place.run(&["init", "-w", "tpcc", "-s", "1", "--bin-dir", &bin]).expect(0);
    let acid = |more: &[&str], code: i32| -> Value {
        let mut args = vec!["check", "--acid", "--json", "--acid-load", "2s"];
        args.extend(more);
        serde_json::from_str(&place.run(&args).expect(code).stdout).unwrap()
    };
    let durable = acid(&["--ledger", "durable.csv"], 0);
    assert_eq!(verdicts(&durable, "3.5.3")[0].1, "held", "{durable:#}");
    let orders = read_ledger(&place.path("durable.csv")).unwrap();
    assert!(orders.len() > 50, "{}", orders.len());
    let again = place.run(&["check", "--acid", "--ledger", "durable.csv"]).expect(1);
    assert!(again.stderr.contains("name a file that does not exist yet"), "{}", again.stderr);

    // The WAL writer is too slow for all of these commits.
    let late = ["--setting", "synchronous_commit=off", "--setting", "wal_writer_delay=10s"];
    let late = [&late[..], &["--setting", "wal_writer_flush_after=1GB"]].concat();
    let args = [&["check", "--acid", "--json", "--acid-load", "2s"][..], &late].concat();
    let report = || -> Value { serde_json::from_str(&place.run(&args).stdout).unwrap() };
    // Occasionally a dirty page that is written flushes the WAL just before the kill, and nothing is lost.
    let is_lossy = |report: &Value| verdicts(report, "3.5.3")[0].1 == "violated";
    let lossy = (0..3).map(|_| report()).find(is_lossy).expect("nothing was lost three times");
    let result = lossy["acid"].as_array().unwrap().iter().find(|r| r["clause"] == "3.5.3").unwrap();
    let seen = result["seen"].as_str().unwrap();
    assert!(seen.contains("are lost") && seen.contains("synchronous_commit = off"), "{seen}");
    let faults: BTreeSet<&str> =
        result["faults"].as_array().unwrap().iter().map(|fault| fault.as_str().unwrap()).collect();
    assert!(faults.iter().any(|fault| fault.contains("of warehouse 1 is missing")), "{faults:?}");
    // The ledger names them, and is kept.
    let ledger = std::path::PathBuf::from(lossy["ledger"].as_str().unwrap());
    assert!(read_ledger(&ledger).unwrap().len() >= faults.len());
    std::fs::remove_file(&ledger).unwrap();
    assert_eq!(verdicts(&lossy, "3.3.3.2")[0].1, "held", "lost, and consistent: {lossy:#}");
    place.expect_clean();
}

#[test]
fn each_kind_of_damage_to_an_acknowledged_order_is_found_and_named() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    place.run(&["init", "-w", "tpcc", "-s", "1", "--server", &pg.admin_target(&database)]).expect(0);
    let mut session = pg.admin(&database);
    let rows = session
        .query("select o_id, o_c_id, o_ol_cnt from orders where o_w_id = 1 and o_d_id = 4 and o_id > 2990 order by 1")
        .unwrap();
    let mut text = "w_id,d_id,o_id,c_id,ol_cnt,acknowledged_unix_us\n".to_string();
    for row in &rows.rows {
        let value = |at: usize| row[at].clone().unwrap();
        text.push_str(&format!("1,4,{},{},{},1\n", value(0), value(1), value(2)));
    }
    let ledger = read_ledger(&place.write("ledger.csv", &text)).unwrap();
    assert_eq!(find_faults(&mut session, &Schema::named("public"), &ledger).unwrap(), Default::default());

    for (damage, o_id, expected) in [
        ("delete from orders where o_d_id = 4 and o_id = 2991", 2991, "is missing"),
        ("delete from order_line where ol_d_id = 4 and ol_o_id = 2992 and ol_number = 1", 2992, "lines"),
        (
            "update orders set o_c_id = o_c_id % 3000 + 1 where o_d_id = 4 and o_id = 2993",
            2993,
            "belongs to customer",
        ),
        ("delete from new_order where no_d_id = 4 and no_o_id = 2994", 2994, "has lost its row in NEW-ORDER"),
        ("update orders set o_carrier_id = 1 where o_d_id = 4 and o_id = 2995", 2995, "has lost its row"),
        ("update orders set o_ol_cnt = 3 where o_d_id = 4 and o_id = 2996", 2996, "O_OL_CNT 3"),
    ] {
        session.execute(&format!("begin; {damage}")).unwrap();
        let faults = find_faults(&mut session, &Schema::named("public"), &ledger).unwrap();
        session.execute("rollback").unwrap();
        let named: Vec<(u32, &str)> =
            faults.iter().map(|(entry, fault)| (entry.o_id, fault.as_str())).collect();
        assert_eq!(named.len(), 1, "{damage}: {named:?}");
        assert!(named[0].0 == o_id && named[0].1.contains(expected), "{damage}: {named:?}");
    }
    // An order that the database never had.
    let invented = text + "1,4,3001,5,7,2\n";
    let ledger = read_ledger(&place.write("invented.csv", &invented)).unwrap();
    let faults = find_faults(&mut session, &Schema::named("public"), &ledger).unwrap();
    let named: Vec<String> =
        faults.iter().map(|(entry, fault)| format!("{} {fault}", entry.name())).collect();
    assert_eq!(named, ["order 3001 of district 4 of warehouse 1 is missing"]);
}
