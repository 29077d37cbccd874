//! Command lines: what they request, and the messages of those that are rejected.

use std::collections::BTreeMap;

use model::load::{OnDisconnect, Protocol};
use workload::tpcb::Partitioning;

use crate::command_line::options::{BenchPlan, ConnectionOptions, InitPlan, Length, Request};
use crate::command_line::parse::{Reader, find_compat};
use crate::compat::Compat;
use crate::messages::MessageLog;

/// The request of a command line, and the messages.
fn read(line: &str, compat: Compat, environment: &[(&str, &str)]) -> (Option<Request>, String) {
    let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    let environment: BTreeMap<String, String> =
        environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut log = MessageLog::to_text();
    let reader =
        Reader { compat, called: "pgbench", environment: &environment, os_user: Some("me"), log: &mut log };
    let request = reader.read(&args);
    if let Err(complaint) = &request {
        log.complain(complaint);
    }
    (request.ok(), log.text().to_string())
}

fn bench(line: &str) -> BenchPlan {
    match read(line, Compat::V18, &[]) {
        (Some(Request::Bench(_, plan)), _) => *plan,
        other => panic!("{line}: {other:?}"),
    }
}

fn init(line: &str) -> InitPlan {
    match read(line, Compat::V18, &[]) {
        (Some(Request::Init(_, plan)), _) => plan,
        other => panic!("{line}: {other:?}"),
    }
}

fn target(line: &str, compat: Compat, environment: &[(&str, &str)]) -> ConnectionOptions {
    match read(line, compat, environment).0 {
        Some(Request::Bench(target, _) | Request::Init(target, _)) => target,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn without_options_the_load_is_ten_transactions_of_the_first_builtin() {
    let plan = bench("");
    assert_eq!(plan.scripts[0].name, "<builtin: TPC-B (sort of)>");
    assert!(plan.uses_builtin && plan.vacuums && !plan.vacuums_accounts && plan.log.is_none());
    assert_eq!((plan.length, plan.n_clients, plan.n_threads), (Length::Transactions(10), 1, 1));
    assert_eq!((plan.protocol, plan.max_tries, plan.rate_per_s), (Protocol::Simple, 1, None));
}

#[test]
fn options_are_taken_in_every_spelling() {
    let plan = bench("-c8 -j 20 -T5 -Mprepared -nrv -P2 --progress-t -R 1e3x --latency=2.5ms");
    assert_eq!((plan.n_clients, plan.n_threads, plan.length), (8, 8, Length::Seconds(5)));
    assert!(plan.per_command && plan.vacuums_accounts && plan.progress_timestamp && !plan.vacuums);
    assert_eq!((plan.rate_per_s, plan.latency_limit_us), (Some(1000.0), Some(2500)));
    let plan = bench("-S -N -b tpcb@3 -Da=1 -D a=2 --max-tries=0 -T 1 --exit --fail --verb");
    let weights: Vec<u32> = plan.scripts.iter().map(|script| script.weight).collect();
    assert_eq!(weights, [1, 1, 3]);
    assert_eq!(plan.defines, [("a".into(), "1".into()), ("a".into(), "2".into())]);
    assert!(plan.exit_on_abort && plan.failures_detailed && plan.verbose_errors);
    assert!(bench("--continue-on-error").added.continue_on_error && !plan.added.continue_on_error);
    let log = bench("-l --log-prefix x --sampling-rate=0.25").log.expect("-l is given");
    assert_eq!((log.prefix.as_str(), log.sampling_rate, log.aggregate_interval_s), ("x", 0.25, 0));
    let added =
        bench("--percentiles --json - --on-disconnect=reconnect --ramp-up=2 -T 9 --grace 3 --stall-w=4 --busy-poll=50")
            .added;
    assert_eq!((added.percentiles, added.json.as_deref(), added.ramp_up_s), (true, Some("-"), 2));
    assert_eq!((added.on_disconnect, added.grace_s), (OnDisconnect::Reconnect, Some(3)));
    assert_eq!((added.stall_warning_s, added.busy_poll_us), (Some(4), 50));
}

#[test]
fn tables_are_asked_for_in_every_variant() {
    let check = |line, steps| assert_eq!(init(line).steps, steps, "{line}");
    check("-i", "dtgvp");
    check("-i -n", "dtg p");
    check("-iI dtpfgvvv --no-vacuum --foreign-keys", "dtpfg   ");
    check("-i --foreign-keys", "dtgvpf");
    check("-i --init-steps=G --init-s g", "g");
    let partitioning = |line| init(line).partitioning;
    assert_eq!(partitioning("-i --partitions=0"), None);
    assert_eq!(partitioning("-i --partitions=3"), Some(Partitioning::Range(3)));
    assert_eq!(partitioning("-i --partitions=3 --partition-method=HaSh"), Some(Partitioning::Hash(3)));
    let plan = init("-i -qs 7 -F 50 --unlogged --tablespace a --index=b");
    assert!(plan.is_quiet && plan.unlogged);
    assert_eq!((plan.scale, plan.fillfactor), (7, 50));
    assert_eq!((plan.tablespace.as_deref(), plan.index_tablespace.as_deref()), (Some("a"), Some("b")));
}

#[test]
fn the_database_is_found_as_pgbench_finds_it() {
    let check = |line, compat, environment: &[(&str, &str)], expected: &str| {
        assert_eq!(target(line, compat, environment).dbname, expected, "{line}");
    };
    check("x", Compat::V18, &[("PGDATABASE", "d")], "x");
    check("-d x", Compat::V18, &[], "x");
    check("x -i", Compat::V15, &[], "x");
    check("", Compat::V18, &[("PGDATABASE", "d"), ("PGUSER", "u")], "d");
    check("-U v", Compat::V18, &[("PGDATABASE", ""), ("PGUSER", "u")], "u");
    check("-U v", Compat::V18, &[], "me");
    // Debugging in 15.
    check("-d x", Compat::V15, &[("PGDATABASE", "d")], "x");
    check("-d", Compat::V15, &[("PGDATABASE", "d")], "d");
}

#[test]
fn mistakes_are_reported_in_pgbenchs_words() {
    let check = |line: &str, expected: &str| {
        let (request, text) = read(line, Compat::V18, &[]);
        assert!(request.is_none(), "{line}: {request:?}");
        assert_eq!(text, expected, "{line}");
    };
    let hint = "pgbench: hint: Try \"pgbench --help\" for more information.\n";
    check("--nosuch", &format!("pgbench: unrecognized option '--nosuch'\n{hint}"));
    check("-d a b c", &format!("pgbench: error: too many command-line arguments (first is \"b\")\n{hint}"));
    check("-V", &format!("pgbench: invalid option -- 'V'\n{hint}"));
    for (line, message) in [
        ("-c 0", "-c/--clients must be in range 1..2147483647"),
        ("-M x", "invalid query mode (-M): \"x\""),
        ("-t 1 -T 1", "specify either a number of transactions (-t) or a duration (-T), not both"),
        ("-i -S", "some of the specified options cannot be used in initialization (-i) mode"),
        ("-i --json=x", "some of the specified options cannot be used in initialization (-i) mode"),
        ("-F 20", "some of the specified options cannot be used in benchmarking mode"),
        ("-D a=", "invalid variable definition: \"a=\""),
        ("-D 1a=2", "option: invalid variable name: \"1a\""),
        ("-b se@0", "total script weight must not be zero"),
        ("--ramp-up 3", "--ramp-up is allowed only with a duration (-T)"),
        ("--progress-last", "--progress-last is allowed only under --progress"),
        ("-l -T 10 --agg=3", "duration (10) must be a multiple of aggregation interval (3)"),
    ] {
        check(line, &format!("pgbench: error: {message}\n"));
    }
}

#[test]
fn ambiguous_names_are_listed_in_the_order_of_the_release() {
    let (_, text) = read("--de", Compat::V15, &[]);
    let expected = "pgbench: option '--de' is ambiguous; possibilities: '--debug' '--define'\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn seeds_are_reported_when_they_are_given() {
    let check = |line, environment: &[(&str, &str)], expected: &str| {
        assert_eq!(read(line, Compat::V18, environment).1, expected, "{line}");
    };
    check("", &[], "");
    check("--random-seed=-1", &[], "pgbench: setting random seed to 18446744073709551615\n");
    let both = "pgbench: setting random seed to 5\npgbench: setting random seed to 6\n";
    check("--random-seed=6", &[("PGBENCH_RANDOM_SEED", "5")], both);
    let refused = "pgbench: error: unrecognized random seed option \"x\"\n\
                   pgbench: detail: Expecting an unsigned integer, \"time\" or \"rand\".\n\
                   pgbench: error: error while setting random seed from PGBENCH_RANDOM_SEED environment variable\n";
    check("", &[("PGBENCH_RANDOM_SEED", "x")], refused);
}

#[test]
fn the_release_comes_from_the_option_or_the_environment() {
    let check = |args: &[&str], environment, expected| {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        assert_eq!(find_compat(&args, environment).ok(), expected, "{args:?}");
    };
    check(&[], None, Some(Compat::V18));
    check(&[], Some("15"), Some(Compat::V15));
    check(&["-S", "--compat", "17"], Some("15"), Some(Compat::V17));
    check(&["--compat=16"], None, Some(Compat::V15));
    check(&["--", "--compat=15"], None, Some(Compat::V18));
    check(&["--compat=9"], None, None);
    check(&["--compat=17"], Some("9"), Some(Compat::V17));
    check(&[], Some("9"), None);
    // As any other name, it may be abbreviated.
    check(&["--comp=15"], None, Some(Compat::V15));
    check(&["-c8", "--comp", "15", "--compa=17", "db"], None, Some(Compat::V17));
    check(&["-f", "--compat=15"], None, Some(Compat::V18));
    // `-d` takes a value since 17.
    check(&["-d", "--compat=15"], None, Some(Compat::V15));
    check(&["--exit-on-abort", "--compat=17"], Some("15"), Some(Compat::V17));
}
