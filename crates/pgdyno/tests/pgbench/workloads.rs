//! Scripts of the kinds that users write: they leave the same rows in the tables.

use crate::cluster::{Cluster, Who, database};
use crate::statements::check;

/// A script, and what to do with it besides choosing it.
const WORKLOADS: [(&str, &str, &[&str]); 3] = [
    ("zipfian", include_str!("scripts/zipfian.sql"), &["simple", "extended", "prepared"]),
    ("chain", include_str!("scripts/chain.sql"), &["simple", "extended", "prepared"]),
    ("pipeline", include_str!("scripts/pipeline.sql"), &["extended", "prepared"]),
];

/// Every row that scripts may have touched, but for the times, in the order in which it lies in the table.
const CONTENTS: [&str; 4] = [
    "select aid, bid, abalance from pgbench_accounts where abalance <> 0 order by aid",
    "select tid, bid, tbalance from pgbench_tellers order by tid",
    "select bid, bbalance from pgbench_branches order by bid",
    "select tid, bid, aid, delta from pgbench_history order by ctid",
];

pub(crate) fn scripts_leave_the_same(cluster: &Cluster) {
    for who in [Who::Genuine, Who::Ours] {
        assert_eq!(cluster.run(who, "-i -s 1 -q").code, Some(0));
    }
    for (seed, (name, text, protocols)) in WORKLOADS.iter().enumerate() {
        cluster.write(name, text);
        for protocol in *protocols {
            check(cluster, &format!("-f {name} -M {protocol} -t 100 -n --random-seed={seed}"));
            expect_same_tables(cluster, &format!("{name}, {protocol}"));
        }
    }
    let all = "-f zipfian@3 -f chain@2 -f pipeline@1 -M prepared -t 200 -n --random-seed=12";
    check(cluster, all);
    expect_same_tables(cluster, all);
}

fn expect_same_tables(cluster: &Cluster, about: &str) {
    for sql in CONTENTS {
        let expected = cluster.sql(database(Who::Genuine), sql);
        assert!(!expected.is_empty(), "{about}: {sql}");
        let got = cluster.sql(database(Who::Ours), sql);
        for (expected, got) in expected.lines().zip(got.lines()) {
            assert_eq!(got, expected, "{about}: {sql}");
        }
        assert_eq!(got.len(), expected.len(), "{about}: {sql}");
    }
}
