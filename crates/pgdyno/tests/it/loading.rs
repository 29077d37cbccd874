//! Loading over several streams: the same tables, rows and pages as pgbench's, whatever the number of streams; and
//! the state of the tables when one of them is lost.

use std::time::Duration;

use model::text::prose::bytes;
use nix::sys::signal::Signal;
use testbed::{Pg, run};

use crate::tool::{PACE, Place, Running, wait_until};

/// Where each row lies, what the catalogs say of each relation, and how large its files are. What differs between
/// releases of pgbench is left out: which pages are frozen.
const FACTS: [&str; 4] = [
    "select string_agg(f, chr(10) order by f) from (select concat_ws(' ', relname, relkind, relpersistence, reltablespace, \
     reloptions, relpages, reltuples, relallvisible, relhasindex, relispartition, \
     case when relkind in ('r', 'i') then concat_ws(' ', pg_relation_size(c.oid, 'main'), \
     pg_relation_size(c.oid, 'fsm'), pg_relation_size(c.oid, 'vm')) end) as f \
     from pg_class c where relname ~ '^pgbench') t",
    "select string_agg(f, chr(10) order by f) from (select concat_ws(' ', conname, contype, conislocal, coninhcount, \
     conparentid <> 0, pg_get_constraintdef(oid)) as f from pg_constraint where conname ~ '^pgbench') t",
    "select md5(string_agg(concat_ws(' ', tableoid::regclass, ctid, a.*::text), chr(10) \
     order by tableoid::regclass::text, ctid)) from pgbench_accounts a",
    "select md5(string_agg(f, chr(10))) from (select concat_ws(' ', ctid, t.*::text) as f from pgbench_tellers t \
     union all select concat_ws(' ', ctid, b.*::text) from pgbench_branches b \
     union all select count(*)::text from pgbench_history) t",
];

/// What is in the server, rather than what was sent.
const STORED: &str = "select sum(pg_relation_size(oid, fork)) from pg_class, unnest('{main,fsm,vm,init}'::text[]) fork \
                      where relname ~ '^pgbench' and relkind in ('r', 'i')";

fn facts(pg: &Pg, database: &str) -> Vec<String> {
    FACTS.iter().map(|sql| pg.ask(database, sql)).collect()
}

/// The schema as pg_dump writes it, without the random word that some releases put in.
fn schema(pg: &Pg, database: &str) -> String {
    let text = run(pg.client("pg_dump", database).args(["--schema-only", "--no-comments"]));
    text.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
}

/// A server that writes nothing by itself: VACUUM does not mark a page as visible to all that another process is
/// writing.
fn quiet_server() -> Pg {
    let pg = Pg::start();
    let mut admin = pg.admin("postgres");
    for setting in
        ["autovacuum = off", "bgwriter_lru_maxpages = 0", "checkpoint_timeout = '1h'", "max_wal_size = '8GB'"]
    {
        admin.execute(&format!("alter system set {setting}")).unwrap();
    }
    admin.execute("select pg_reload_conf()").unwrap();
    pg
}

#[test]
fn tables_are_pgbenchs_with_any_number_of_streams() {
    let (place, pg) = (Place::new(), quiet_server());
    let theirs = pg.database();
    let ours = pg.database();
    let target = pg.admin_target(&ours);
    for (layout, n_streams) in [
        ("", &["1", "2", "4"][..]),
        ("--partitions=3", &["1", "2", "4"]),
        ("--partitions=3 --partition-method=hash", &["2"]),
        ("--partitions=33 --partition-method=hash", &["1", "4"]),
    ] {
        let layout: Vec<&str> = layout.split_whitespace().collect();
        run(pg.client("pgbench", &theirs).args(["-i", "-q", "-s", "2"]).args(&layout));
        let expected = facts(&pg, &theirs);
        assert!(expected[0].contains("pgbench_accounts_pkey"), "{expected:?}");
        let expected_schema = schema(&pg, &theirs);
        for streams in n_streams {
            let args = ["init", "--server", &target, "--scale", "2", "--streams", streams];
            let ended = place.run(&[&args[..], &layout[..]].concat()).expect(0);
            let n_bytes: f64 = pg.ask(&ours, STORED).parse().unwrap();
            let loaded = format!("loaded scale 2: 200,022 rows, {} with indexes, in ", bytes(n_bytes));
            assert!(ended.stdout.contains(&loaded), "{}", ended.stdout);
            for (expected, found) in expected.iter().zip(facts(&pg, &ours)) {
                assert!(found == *expected, "{layout:?}, {streams} streams\n{expected}\nours:\n{found}");
            }
            assert_eq!(schema(&pg, &ours), expected_schema, "{layout:?}, {streams} streams");
        }
        place.run(&["check", "--server", &target]).expect(0);
    }
    place.expect_clean();
}

/// Loading with two streams, in progress.
fn loading(place: &Place, pg: &Pg, database: &str) -> Running {
    let target = pg.admin_target(database);
    let args = ["init", "--server", &target, "--scale", "40", "--partitions", "2", "--streams", "2"];
    let running = place.start(place.command(&args));
    let copying = "select count(*) from pg_stat_activity where query like 'copy %pgbench_accounts_%' and state = 'active' \
                   and datname = current_database()";
    wait_until("two streams", || pg.ask(database, copying) == "2");
    running
}

fn expect_half(place: &Place, pg: &Pg, database: &str) {
    let sessions = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    wait_until("the end of all sessions", || pg.ask(database, sessions) == "0");
    let target = pg.admin_target(database);
    let checked = place.run(&["check", "--server", &target]).expect(1);
    assert!(checked.stderr.contains("began to load scale 40"), "{}", checked.stderr);
    let args = "run --scale 40 --measure 2s --repeats 1 --set prepare.restore=false -o out --server";
    let args: Vec<&str> = args.split_whitespace().chain([target.as_str()]).collect();
    let refused = place.run(&args);
    assert!(refused.stderr.contains("the data is not complete"), "{}", refused.stderr);
    place.expect_clean();
}

#[test]
fn a_stream_that_is_lost_ends_the_load_and_leaves_it_marked() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let running = loading(&place, &pg, &database);
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'copy %pgbench_accounts_%' \
               and datname = current_database() limit 1";
    assert_eq!(pg.ask(&database, sql), "t");
    let ended = running.wait_for_end(Duration::from_secs(10)).expect(1);
    for part in [
        "the data is not complete, and marked as such; load it again",
        "loading `pgbench_accounts_",
        "terminating",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    expect_half(&place, &pg, &database);
}

#[test]
fn ctrl_c_ends_all_streams() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let running = loading(&place, &pg, &database);
    running.signal(Signal::SIGINT);
    let ended = running.wait_for_end(Duration::from_secs(10)).expect(1);
    assert!(ended.stderr.contains("stopped while loading"), "{}", ended.stderr);
    expect_half(&place, &pg, &database);
}

#[test]
fn streams_that_the_server_has_no_connections_for_are_refused_before_anything_is_dropped() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let target = pg.admin_target(&database);
    place.run(&["init", "--server", &target, "--scale", "1"]).expect(0);
    let args = ["init", "--server", &target, "--scale", "1", "--partitions", "100", "--streams", "100"];
    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("of 100; take fewer"), "{}", refused.stderr);
    place.run(&["check", "--server", &target]).expect(0);
}

#[test]
fn a_second_load_of_an_embedded_server_is_a_copy_of_its_snapshot() {
    let place = Place::with_binaries(&["18"]);
    let init = ["init", "--scale", "2", "--partitions", "2"];
    let first = place.run(&init).expect(0);
    assert!(first.stderr.contains("loading scale 2 in 2 partitions by range"), "{}", first.stderr);
    let args = "run --scale 2 -c 1 --measure 2s --ramp-up 0s --repeats 1 -o out --set workload.partitions=2";
    let used = place.run(&args.split_whitespace().chain([PACE]).collect::<Vec<_>>()).expect(0);
    assert!(used.stderr.contains("using the data of scale 2 in 2 partitions"), "{}", used.stderr);
    let second = place.run(&init).expect(0);
    assert!(second.stderr.contains("restored from its snapshot"), "{}", second.stderr);
    assert!(!second.stderr.contains("loading"), "{}", second.stderr);
    let checked = place.run(&["check", "--json"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&report["sound"], &report["history_rows"]), (&true.into(), &0.into()), "{report}");
    // Another layout is another cluster.
    let other = place.run(&["init", "--scale", "2"]).expect(0);
    assert!(other.stderr.contains("loading scale 2"), "{}", other.stderr);
    let list = place.run(&["server", "list"]).expect(0);
    assert!(list.stdout.lines().count() == 2 && list.stdout.contains(", 2 partitions"), "{}", list.stdout);

    let cut = std::fs::read_dir(place.path("cache/clusters")).unwrap().flatten();
    let cut =
        cut.map(|entry| entry.path().join("snapshots/loaded/data/PG_VERSION")).filter(|path| path.exists());
    cut.for_each(|path| std::fs::write(path, "1").unwrap());
    let damaged = place.run(&init).expect(1);
    assert!(damaged.stderr.contains("is damaged"), "{}", damaged.stderr);
    place.expect_clean();
}
