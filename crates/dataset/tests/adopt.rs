//! Tables that other programs made, and a workload that is to run on them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use dataset::own::adopt::{TableCriteria, adopt};
use dataset::state::{self, DataState, WorkloadTables};
use model::workload::Dataset;
use testbed::Pg;
use workload::Schema;

#[test]
fn tables_of_pgbench_are_adopted_if_they_are_complete_consistent_and_of_the_scale() {
    let pg = Pg::start();
    let database = pg.database_of("postgres");
    let mut session = pg.admin(&database);
    let schema = Schema::named("public");
    let home = WorkloadTables { dataset: Dataset::Tpcb, schema: schema.clone() };
    let wanted =
        |scale| TableCriteria { scale, layout: Default::default(), at: "2026-11-24T19:00:00Z".to_string() };
    let mut refused = |home: &WorkloadTables, scale: u32, expected: &str| {
        let message = format!("{:#}", adopt(&mut session, home, &wanted(scale)).unwrap_err());
        assert!(message.contains(expected), "{expected}\n{message}");
    };
    refused(&home, 1, "has no TPC-B-like tables");
    testbed::run(pg.client("pgbench", &database).args(["-i", "-q", "-s", "2", "--partitions=2"]));
    refused(&home, 2, "table `pgbench_accounts` has partitions that pgdyno did not make");
    testbed::run(pg.client("pgbench", &database).args(["-i", "-q", "-s", "2"]));
    testbed::run(pg.client("pgbench", &database).args(["-n", "-t", "20", "-N"]));
    refused(&home, 3, "the archive holds scale 2, not 3; give --scale 2");
    refused(&WorkloadTables { dataset: Dataset::Tpcc, schema: schema.clone() }, 2, "has no TPC-C tables");
    pg.execute(&database, "update pgbench_accounts set abalance = 5 where aid = 77");
    refused(&home, 2, "are not consistent TPC-B-like data: violated: the sum of account balances");
    pg.execute(&database, "alter table pgbench_tellers rename to others");
    refused(&home, 2, "has only public.pgbench_accounts, public.pgbench_branches, public.pgbench_history");
    pg.execute(&database, "alter table others rename to pgbench_tellers");
    pg.execute(
        &database,
        "update pgbench_accounts set abalance = (select coalesce(sum(delta), 0) from pgbench_history h \
                           where h.aid = 77) where aid = 77",
    );

    // Balances of pgbench -N: tellers and branches were never changed.
    adopt(&mut session, &home, &wanted(2)).unwrap();
    let state = state::inspect(&mut session, Dataset::Tpcb, &schema).unwrap();
    let DataState::Whole(marker) = state else { panic!("{state:?}") };
    assert_eq!((marker.scale, marker.workload.as_str()), (2, "tpcb"));
    let oid = pg.ask(&database, "select 'pgbench_branches'::regclass::oid");
    assert_eq!(marker.oid.map(|oid| oid.to_string()), Some(oid));
    adopt(&mut session, &home, &wanted(2)).unwrap();
}
