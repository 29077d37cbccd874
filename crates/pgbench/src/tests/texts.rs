//! Results and progress as text, for made-up counts. The texts of 15 are also compared with the installed program's;
//! these show how releases differ.

use std::collections::BTreeMap;

use model::load::drive::DriverLine;
use model::load::interval::{CommandTally, Connects, Counts, Interval, Moments};
use workload::tpcb::TpcbScript;

use crate::command_line::options::{Added, BenchPlan, Length, LogPlan};
use crate::compat::Compat;
use crate::follow::Follower;
use crate::messages::MessageLog;
use crate::output::progress::Stretch;
use crate::output::results::{Results, decimal};
use crate::output::totals::Totals;
use crate::prepare::StandardTables;
use crate::scripts;

/// One client, one built-in script, ten transactions, no option.
fn plain() -> BenchPlan {
    let mut list = Vec::new();
    let builtin = TpcbScript::TpcbSelect;
    scripts::add(&mut list, builtin.description(), builtin.source(), 1, Compat::V18)
        .expect("a built-in script compiles");
    BenchPlan {
        scripts: list,
        uses_builtin: true,
        scale: None,
        defines: Vec::new(),
        protocol: model::load::Protocol::Simple,
        n_clients: 1,
        n_threads: 1,
        length: Length::Transactions(10),
        connect_each: false,
        rate_per_s: None,
        latency_limit_us: None,
        max_tries: 1,
        vacuums: true,
        vacuums_accounts: false,
        progress_s: 0,
        progress_timestamp: false,
        per_command: false,
        failures_detailed: false,
        verbose_errors: false,
        exit_on_abort: false,
        log: None::<LogPlan>,
        seed: 1,
        added: Added::default(),
    }
}

/// Ten transactions of 1 ms and 3 ms in turn, two of which failed after one retry each, and four that lost their
/// connection.
fn interval(script: u32) -> Interval {
    let mut latency = Moments::default();
    for n in 0..8 {
        latency.record(if n % 2 == 0 { 1_000_000 } else { 3_000_000 });
    }
    let mut lag = Moments::default();
    lag.record(500_000);
    Interval {
        script,
        length_ns: 1_000_000_000,
        counts: Counts {
            due: 15,
            skipped: 1,
            started: 14,
            committed: 8,
            failed: 5,
            unknown: 1,
            retried: 2,
            retries: 4,
            late: 3,
            ..Counts::default()
        },
        errors: BTreeMap::from(
            [("40001", 1), ("40P01", 1), ("lost", 4)].map(|(state, n)| (state.to_string(), n)),
        ),
        connects: Connects { opened: 10, sum_ns: 4e6, lost: 2, failed: 3, outage_ns: 1.5e9 },
        latency,
        lag,
        commands: vec![
            CommandTally { n: 10, sum_ns: 20_000.0, failed: 0, retries: 0 },
            CommandTally { n: 8, sum_ns: 16_000_000.0, failed: 2, retries: 4 },
        ],
        ..Interval::default()
    }
}

fn text(plan: &BenchPlan, compat: Compat, intervals: &[Interval]) -> String {
    let mut totals = Totals::new(plan.scripts.len());
    intervals.iter().for_each(|interval| totals.add(interval, plan.added.continue_on_error));
    text_of(plan, compat, &totals)
}

fn text_of(plan: &BenchPlan, compat: Compat, totals: &Totals) -> String {
    let tables = StandardTables { scale: 5, partition_method: Some("hash"), n_partitions: 2 };
    let (duration_ns, first_connects_ns) = (2_000_000_000, 4_000_000);
    Results { compat, plan, tables, totals, duration_ns, first_connects_ns }.text()
}

const HEAD: &str = "transaction type: <builtin: select only>
scaling factor: 5
partition method: hash
partitions: 2
query mode: simple
number of clients: 1
number of threads: 1
";

#[test]
fn plain_results_are_the_same_in_all_releases() {
    let expected = HEAD.to_string()
        + "maximum number of tries: 1
number of transactions per client: 10
number of transactions actually processed: 8/10
number of failed transactions: 2 (18.182%)
latency average = 181.818 ms (including failures)
initial connection time = 4.000 ms
tps = 4.000000 (without initial connection time)
";
    for compat in [Compat::V15, Compat::V17, Compat::V18] {
        assert_eq!(text(&plain(), compat, &[interval(0)]), expected);
    }
}

#[test]
fn results_with_every_option_tell_everything() {
    let plan = BenchPlan {
        length: Length::Seconds(2),
        rate_per_s: Some(5.0),
        latency_limit_us: Some(2000),
        max_tries: 0,
        failures_detailed: true,
        connect_each: true,
        per_command: true,
        ..plain()
    };
    let expected = |gap| {
        HEAD.to_string()
            + &format!(
                "duration: 2 s
number of transactions actually processed: 8
number of failed transactions: 2 (18.182%)
number of serialization failures: 1 (9.091%)
number of deadlock failures: 1 (9.091%)
number of transactions retried: 2 (18.182%)
total number of retries: 4
number of transactions skipped: 1 (9.091%)
number of transactions above the 2.0 ms latency limit: 3/8 (37.500%)
latency average = 2.000 ms
latency stddev = 1.000 ms
rate limit schedule lag: avg 0.062 (max 0.500) ms
average connection time = 0.400 ms
tps = 4.000000 (including reconnection times)
statement latencies in milliseconds, failures and retries:
         0.002           0{gap}         0{gap}\\set aid random(1, 100000 * :scale)
         2.000           2{gap}         4{gap}SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"
            )
    };
    assert_eq!(text(&plan, Compat::V18, &[interval(0)]), expected(" "));
    assert_eq!(text(&plan, Compat::V15, &[interval(0)]), expected("  "));
}

#[test]
fn scripts_are_reported_one_by_one() {
    let mut plan = BenchPlan { per_command: true, ..plain() };
    scripts::add(&mut plan.scripts, "x.sql", "SELECT 1;\n", 3, Compat::V18).expect("a script");
    let tail = |text: String| text.split_once("time)\n").expect("the end of the common part").1.to_string();
    let since_18 = "SQL script 1: <builtin: select only>
 - weight: 1 (targets 25.0% of total)
 - 11 transactions (100.0% of total)
 - number of transactions actually processed: 8 (tps = 4.000000)
 - number of failed transactions: 2 (18.182%)
 - latency average = 2.000 ms
 - latency stddev = 1.000 ms
 - statement latencies in milliseconds and failures:
         0.002           0 \\set aid random(1, 100000 * :scale)
         2.000           2 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SQL script 2: x.sql
 - weight: 3 (targets 75.0% of total)
 - 0 transactions (0.0% of total)
 - statement latencies in milliseconds and failures:
         0.000           0 SELECT 1;
";
    assert_eq!(tail(text(&plan, Compat::V18, &[interval(0)])), since_18);
    let until_17 = "SQL script 1: <builtin: select only>
 - weight: 1 (targets 25.0% of total)
 - 8 transactions (100.0% of total, tps = 4.000000)
 - number of failed transactions: 2 (18.182%)
 - latency average = 2.000 ms
 - latency stddev = 1.000 ms
 - statement latencies in milliseconds and failures:
         0.002           0  \\set aid random(1, 100000 * :scale)
         2.000           2  SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SQL script 2: x.sql
 - weight: 3 (targets 75.0% of total)
 - 0 transactions (0.0% of total, tps = 0.000000)
 - number of failed transactions: 0 (NaN%)
 - statement latencies in milliseconds and failures:
         0.000           0  SELECT 1;
";
    assert_eq!(tail(text(&plan, Compat::V17, &[interval(0)])), until_17);
}

#[test]
fn a_load_without_a_transaction_ends_early() {
    let head = HEAD.to_string()
        + "maximum number of tries: 1\nnumber of transactions per client: 10\n\
           number of transactions actually processed: 0/10\n";
    assert_eq!(text(&plain(), Compat::V18, &[]), head);
    assert_eq!(text(&plain(), Compat::V15, &[]), head + "number of failed transactions: 0 (NaN%)\n");
}

#[test]
fn our_additions_are_reported_only_on_request() {
    let added = Added {
        percentiles: true,
        on_disconnect: model::load::OnDisconnect::Reconnect,
        grace_s: Some(1),
        ..Added::default()
    };
    let with = text(&BenchPlan { added, ..plain() }, Compat::V18, &[interval(0)]);
    let without = text(&plain(), Compat::V18, &[interval(0)]);
    let more: Vec<&str> = with.lines().filter(|line| !without.contains(line)).collect();
    assert_eq!(
        more,
        [
            "number of transactions cancelled after the end: 0",
            "latency average = 2.000 ms",
            "latency stddev = 1.000 ms",
            "number of connections lost: 2",
            "time without connection, all clients = 1.500 s",
            "number of transactions failed with their connection: 3",
            "number of transactions of unknown outcome: 1",
            "statement percentiles (50, 90, 95, 99, 99.9, 100) in milliseconds:",
            "         0.000       0.000       0.000       0.000       0.000       0.000  SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
        ]
    );
}

#[test]
fn a_ramp_up_is_part_of_no_figure() {
    let added = Added { on_disconnect: model::load::OnDisconnect::Reconnect, ..Added::default() };
    let plan = BenchPlan { added, connect_each: true, length: Length::Seconds(1), ..plain() };
    let mut log = MessageLog::to_text();
    let mut follower = Follower::new(&plan, &mut log, |_| Ok(()), 1, 0);
    for t in [0, 1] {
        let line = DriverLine::Interval { interval: Interval { t, ..interval(0) }, histograms: Vec::new() };
        follower.take(&line).expect("an interval");
    }
    follower.finish();
    let followed = follower.close();
    assert_eq!(text_of(&plan, Compat::V18, &followed.totals), text(&plan, Compat::V18, &[interval(0)]));
}

#[test]
fn progress_is_reported_as_pgbench_reports_it() {
    let mut totals = Totals::new(1);
    totals.add(&interval(0), false);
    let check = |plan: &BenchPlan, expected: &str| {
        let stretch = Stretch {
            sums: &totals.all,
            length_ns: 2_000_000_000,
            since_begin_ns: 4_000_000_000,
            end_unix_ns: 1_700_000_000_123_000_000,
        };
        assert_eq!(stretch.line(plan), format!("progress: {expected}\n"));
    };
    check(&plain(), "4.0 s, 4.0 tps, lat 2.000 ms stddev 1.000, 2 failed");
    let stamped = BenchPlan { progress_timestamp: true, rate_per_s: Some(1.0), ..plain() };
    check(&stamped, "1700000000.123 s, 4.0 tps, lat 2.000 ms stddev 1.000, 2 failed, lag 0.500 ms");
    let all = BenchPlan { rate_per_s: Some(1.0), latency_limit_us: Some(1), max_tries: 2, ..plain() };
    check(
        &all,
        "4.0 s, 4.0 tps, lat 2.000 ms stddev 1.000, 2 failed, lag 0.500 ms, 1 skipped, 2 retried, 4 retries",
    );
}

#[test]
fn numbers_are_written_as_postgresql_writes_them() {
    for (value, expected) in
        [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity"), (1.0005, "1.000")]
    {
        assert_eq!(decimal(value, 3), expected);
    }
}

#[test]
fn errors_that_end_no_client_are_failures_of_their_own_kind() {
    let added = Added { continue_on_error: true, ..Added::default() };
    let plan = BenchPlan { added, failures_detailed: true, ..plain() };
    let mut failing = interval(0);
    failing.counts.failed = 3;
    failing.errors = [("22012".to_string(), 2), ("40001".to_string(), 1)].into();
    let text = text(&plan, Compat::V18, &[failing]);
    for line in [
        "number of failed transactions: 3 (",
        "number of serialization failures: 1 (",
        "number of other failures: 2 (",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
