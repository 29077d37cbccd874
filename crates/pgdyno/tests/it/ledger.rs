//! `workload.ledger`: each transaction writes a token of its client and its number, and nothing else of it changes.

use testbed::{ClusterOptions, TestServer};

use crate::settings::args;
use crate::tool::{Place, expect_identity};

const COMMON: &str = "-c 2 --ramp-up 0s --measure 2s --repeats 1 --set prepare.settle=false -o out";

#[test]
fn tokens_of_tpcb_are_the_fillers_of_its_history_in_each_protocol() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("bench");
    place.run(&["init", "--server", &target, "--create-database", "--scale", "1"]).expect(0);
    for (workload, protocol) in [("tpcb", "prepared"), ("tpcb-simple", "simple"), ("tpcb", "extended")] {
        let more = ["-w", workload, "-s", "1", "-M", protocol, "--set", "workload.ledger=true"];
        server.execute("bench", "truncate pgbench_history");
        server.execute("bench", "update pgbench_accounts set abalance = 0; update pgbench_tellers set tbalance = 0; update pgbench_branches set bbalance = 0");
        place.run(&args(("run", COMMON), &target, &more)).expect(0);
        let run = place.first_run("out");
        expect_identity(&run);
        let committed = run.record.done.as_ref().unwrap().counts.committed;
        let load = run.record.load.as_ref().unwrap();
        assert!(load.ledger && !load.each_execution && load.reply_timeout_ms.is_none(), "there is no outage");
        // The numbers of each client are consecutive: nothing was left out, nothing is there twice.
        let sql = "select count(*) || ' ' || count(distinct filler) || ' ' || \
                   sum(split_part(filler, '.', 2)::bigint) || ' ' || \
                   (select sum(n * (n + 1) / 2) from (select count(*) as n from pgbench_history group by split_part(filler, '.', 1)) of) \
                   from pgbench_history where filler ~ '^[01]\\.[1-9][0-9]*\\s*$'";
        let found = server.ask("bench", sql);
        let words: Vec<&str> = found.split(' ').collect();
        assert_eq!(
            (words[0], words[1]),
            (committed.to_string().as_str(), words[0]),
            "{workload} {protocol}: {found}"
        );
        assert_eq!(words[2], words[3], "{workload} {protocol}: {found}");
        std::fs::remove_dir_all(place.path("out")).unwrap();
    }
    place.expect_clean();
}

#[test]
fn tokens_of_scripts_are_in_a_table_of_their_own() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("postgres");
    server.execute("postgres", "create table t (n bigint); insert into t values (0)");
    place.write("add.sql", "BEGIN;\nUPDATE t SET n = n + 1;\nCOMMIT;\n");
    place.write("look.sql", "SELECT n FROM t;\n");
    place.write("bare.sql", "UPDATE t SET n = n + 1;\n");
    let scripts = |file: &'static str| {
        ["-f", file, "-f", "look.sql", "--set", "workload.data=none", "--set", "workload.ledger=true"]
    };
    place.run(&args(("run", COMMON), &target, &scripts("add.sql"))).expect(0);
    let n = server.ask("postgres", "select n from t");
    let sql = "select count(*) || ' ' || count(distinct (client, number)) from pgdyno_ledger where client in (0, 1)";
    assert_eq!(server.ask("postgres", sql), format!("{n} {n}"));
    assert!(n.parse::<u64>().unwrap() > 10);
    let run = place.first_run("out");
    let source = &run.record.load.as_ref().unwrap().scripts[0].source;
    assert!(
        source.ends_with("INSERT INTO pgdyno_ledger VALUES (:client_id, :pgdyno_number);\nCOMMIT;\n"),
        "{source}"
    );

    let refused = place.run(&args(("plan", ""), &target, &scripts("bare.sql"))).expect(1).stderr;
    let expected = "script `bare.sql` has no place for a token: it is no transaction block; put all of its statements between one BEGIN";
    assert!(refused.contains(expected) && refused.contains("workload.ledger = false"), "{refused}");
    for (workload, why) in [("tpcc", "write no tokens"), ("tpcb-select", "only reads")] {
        let refused = place
            .run(&args(("plan", "--set workload.ledger=true -w"), &target, &[workload]))
            .expect(1)
            .stderr;
        assert!(refused.contains("workload.ledger: ") && refused.contains(why), "{refused}");
    }
    place.expect_clean();
}
