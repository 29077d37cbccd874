//! What pgdyno does not do on somebody else's server: destroy data without consent, disturb another pgdyno, wait for
//! ever.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::Pg;

use crate::tool::{PACE, Place, expect_sound, wait_until};

const RUN: &str = "run -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";

fn args<'a>(text: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let pace = text.starts_with("run").then_some(PACE);
    text.split_whitespace().chain(pace).chain(more.iter().copied()).collect()
}

#[test]
fn data_of_another_scale_or_layout_is_replaced_only_on_request() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    place.run(&["init", "--server", &server, "-s", "2"]).expect(0);
    let oid = || pg.ask(&database, "select 'pgbench_accounts'::regclass::oid");
    let before = oid();

    let refused = place.run(&args(RUN, &["--server", &server, "-o", "refused", "-s", "1"])).expect(1);
    assert!(refused.stderr.contains("has scale 2; give --scale 2, or --replace"), "{}", refused.stderr);
    assert!(!place.path("refused").exists());
    assert_eq!(oid(), before);

    place.run(&args(RUN, &["--server", &server, "-o", "fit"])).expect(0);
    let run = place.first_run("fit");
    expect_sound(&run);
    assert_eq!(run.record.case.workload.scale, 2, "what is there fits");

    let cut = ["--set", "workload.partitions=2", "--set", "workload.partition_method=hash"];
    let other = [&["--server", &server, "-o", "cut"][..], &cut].concat();
    let refused = place.run(&args(RUN, &other)).expect(1);
    let expected = "asks for data of scale 2 in 2 partitions by hash, but the data that was loaded before is one table; \
                    give --set workload.partitions=0, or --replace";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    place.run(&args(RUN, &[&other[..], &["--replace"]].concat())).expect(0);
    let refused = place.run(&args(RUN, &["--server", &server, "-o", "plain"])).expect(1);
    let expected =
        "is 2 partitions by hash; give --set workload.partitions=2 --set workload.partition_method=hash, or";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);

    place.run(&args(RUN, &["--server", &server, "-o", "asked", "-s", "1", "--replace"])).expect(0);
    assert_eq!(place.first_run("asked").record.case.workload.scale, 1);
    place.expect_clean();
}

#[test]
fn two_pgdynos_are_kept_apart_on_one_database() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    place.run(&["init", "--server", &server, "-s", "1"]).expect(0);
    let first = place.start(place.command(&args(
        "run -c 1 --measure 60s --ramp-up 0s --repeats 1 --set prepare.settle=false -s 1 -o first",
        &["--server", &server],
    )));
    place.wait_for_load("first", 1);
    // Other tests use other databases of this server at the same time.
    let holder = pg.ask(
        &database,
        "select pid from pg_locks where locktype = 'advisory' and classid = 1885824121 \
         and database = (select oid from pg_database where datname = current_database())",
    );
    for refused in [
        args(RUN, &["--server", &server, "-o", "second", "-s", "1"]),
        args("init -s 1", &["--server", &server]),
    ] {
        let refused = place.run(&refused).expect(1);
        let expected =
            format!("another pgdyno uses this database: server process {holder}, application_name `pgdyno`");
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    }
    let checked = place.run(&["check", "--server", &server]).expect(0);
    assert!(checked.stderr.contains("note: another pgdyno"), "{}", checked.stderr);
    first.signal(Signal::SIGINT);
    first.wait().expect(2);
    place.run(&["init", "--server", &server, "-s", "1"]).expect(0);
    place.expect_clean();
}

#[test]
fn locks_of_others_are_named_and_a_wait_for_them_can_be_stopped() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    place.run(&["init", "--server", &server, "-s", "1"]).expect(0);
    let mut locker = pg.admin(&database);
    locker
        .execute("set application_name = 'somebody'; begin; select count(*) from pgbench_branches")
        .unwrap();

    let hasty = format!("{server} options='-c lock_timeout=300ms'");
    let refused = place.run(&["init", "--server", &hasty, "-s", "1"]).expect(1);
    let expected = format!("locked by server process {} (application_name `somebody`", locker.backend_pid());
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);

    let waiting = place.start(place.command(&["init", "--server", &server, "-s", "1"]));
    let is_waiting = "select count(*) from pg_locks where not granted and database = (select oid from pg_database \
                      where datname = current_database())";
    wait_until("a wait for the lock", || pg.ask(&database, is_waiting) == "1");
    let began = Instant::now();
    waiting.signal(Signal::SIGINT);
    let stopped = waiting.wait().expect(1);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(stopped.stderr.contains("stopped while loading"), "{}", stopped.stderr);
    wait_until("the end of the wait", || pg.ask(&database, is_waiting) == "0");
    locker.execute("commit").unwrap();
    let checked = place.run(&["check", "--server", &server]).expect(0);
    assert!(checked.stdout.contains("scale 1"), "nothing was touched: {}", checked.stdout);
    place.expect_clean();
}

#[test]
fn problems_of_a_target_are_reported_before_its_data_is_touched() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let missing = place.run(&args(RUN, &["--server", &pg.admin_target("missing"), "-s", "1"])).expect(1);
    assert!(missing.stderr.contains("`missing` does not exist"), "{}", missing.stderr);
    assert!(
        missing.stderr.contains("existing databases: ") && missing.stderr.contains("postgres"),
        "{}",
        missing.stderr
    );
    let crowd = place.run(&["run", "-c", "50", "-s", "1", "--server", &server, "-o", "crowd"]).expect(1);
    assert!(crowd.stderr.contains("50 clients need"), "{}", crowd.stderr);
    assert_eq!(pg.ask(&database, "select count(*) from pg_class where relname like 'pgbench%'"), "0");
    assert!(!place.path("crowd").exists());
    place.expect_clean();
}

#[test]
fn two_names_of_one_release_share_a_cluster() {
    let place = Place::with_binaries(&["18"]);
    let release = place.run(&["plan", "--version", "18"]).expect(0);
    assert!(release.stdout.contains("PostgreSQL 18"), "{}", release.stdout);
    let exact = exact_release(&place, "18");
    let versions = format!("18,{exact}");
    place.run(&args(RUN, &["--version", &versions, "-s", "1", "-o", "out"])).expect(0);
    let results = place.results("out");
    assert_eq!(results.runs.len(), 2);
    results.runs.iter().for_each(expect_sound);
    place.expect_clean();
}

/// The release of a series that is in the cache.
fn exact_release(place: &Place, series: &str) -> String {
    let names = std::fs::read_dir(place.path("cache/postgres")).unwrap().flatten();
    let releases = names.filter_map(|entry| Some(entry.file_name().to_str()?.split('-').next()?.to_string()));
    releases.filter(|release| release.starts_with(&format!("{series}."))).max().unwrap()
}
