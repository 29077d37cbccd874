//! Servers whose WAL others read: what they would not survive is not changed, not even for the time of a run.

use testbed::{ClusterOptions, TestServer};

use crate::settings::{ONE, args, restarter};
use crate::tool::{Place, wait_until};

#[test]
fn what_a_standby_has_to_follow_is_not_raised_where_one_may_be() {
    let (place, primary) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let target = primary.admin_target("postgres");
    let standby = primary.standby();
    wait_until("the standby", || primary.ask("postgres", "select count(*) from pg_stat_replication") == "1");
    restarter(&primary, |command| {
        let restart = format!("server.restart={command}");
        let levels = ["--set", "server.settings.max_connections=[100,150]", "--set", &restart];
        let more = [&levels[..], &["--measure", "2s", "--allow-changes", "-o", "out"]].concat();
        let ended = place.run(&args(("run", ONE), &target, &more));
        primary.execute("postgres", "create table after_it ()");
        let state = || {
            let is_there = standby.ask("postgres", "select to_regclass('after_it') is not null");
            (is_there, standby.ask("postgres", "select pg_get_wal_replay_pause_state()"))
        };
        wait_until("the standby to follow or to pause", || state().0 == "t" || state().1 == "paused");
        assert_eq!(state(), ("t".to_string(), "not paused".to_string()));
        let expected = "max_connections is not raised: a standby, and whoever restores from this server's archive, stops at a \
                        value that is higher than its own; ";
        let refused = ended.expect(1).stderr;
        assert!(refused.contains(expected) && refused.contains("walreceiver"), "{refused}");
        let planned = place.run(&args(("plan", ONE), &target, &levels)).expect(1).stdout;
        assert!(planned.contains(expected), "{planned}");
        // What nobody has to follow is changed as before.
        let more =
            ["--set", "server.settings.work_mem=8MB", "--measure", "2s", "--allow-changes", "-o", "work_mem"];
        place.run(&args(("run", ONE), &target, &more)).expect(0);
    });
    place.expect_clean();
}

#[test]
fn what_changes_the_meaning_of_other_peoples_statements_is_changed_by_name_only() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let target = server.admin_target("postgres");
    // Large objects have no privileges for those who can log in.
    server.execute("postgres", "create role stranger login");
    let object = server.ask("postgres", "select lo_from_bytea(0, 'private')");
    let run = |name: &str, value: &str, more: &[&str]| {
        let set = format!("server.settings.{name}={value}");
        let all = [&["--set", &set, "--measure", "2s", "--allow-changes", "-o", "out"], more].concat();
        place.run(&args(("run", ONE), &target, &all))
    };
    for (name, value) in [
        ("lo_compat_privileges", "on"),
        ("standard_conforming_strings", "off"),
        ("TimeZone", "Asia/Tokyo"),
        ("default_transaction_read_only", "on"),
        ("log_statement", "all"),
        ("transform_null_equals", "on"),
        ("synchronous_commit", "off"),
        ("autovacuum_freeze_max_age", "100000"),
        ("track_counts", "off"),
    ] {
        let refused = run(name, value, &[]).expect(1).stderr;
        assert!(refused.contains(&format!("--allow-setting {name}")), "{name}: {refused}");
        assert!(!place.path("out").exists());
    }
    let planned = place
        .run(&args(("plan", ONE), &target, &["--set", "server.settings.lo_compat_privileges=on"]))
        .expect(0)
        .stdout;
    assert!(planned.contains("--allow-setting lo_compat_privileges"), "{planned}");
    // By name it is a factor like others; a name says nothing about another one, and nothing about what is refused for good.
    let named = ["--allow-setting", "LO_compat_privileges"];
    run("lo_compat_privileges", "on", &named).expect(0);
    let read = format!("set role stranger; select lo_get({object})");
    assert!(server.admin("postgres").execute(&read).is_err(), "it is as before");
    std::fs::remove_dir_all(place.path("out")).unwrap();
    let refused = run("log_statement", "all", &named).expect(1).stderr;
    assert!(refused.contains("--allow-setting log_statement"), "{refused}");
    let refused = run("work_mem", "8MB", &["--allow-setting", "log_statement"]).expect(1).stderr;
    assert!(refused.contains("--allow-setting log_statement: no case"), "{refused}");
    let refused = run("fsync", "off", &["--allow-setting", "fsync"]).expect(1).stderr;
    assert!(refused.contains("fsync is not changed on a server by URL"), "{refused}");
    place.expect_clean();
}

#[test]
fn tables_that_stay_on_a_standby_are_removed_on_the_primary() {
    let (place, primary) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let standby = primary.standby();
    place.run(&["init", "--scale", "1", "--server", &primary.admin_target("postgres")]).expect(0);
    let last = primary.ask("postgres", "select pg_current_wal_lsn()");
    let replayed = format!("select pg_last_wal_replay_lsn() >= '{last}'");
    wait_until("the standby", || standby.ask("postgres", &replayed) == "t");
    let said = place.run(&["clean", "--server", &standby.admin_target("postgres")]).expect(0).stderr;
    assert!(
        said.contains("stay; on the primary, this removes them: DROP TABLE public.pgbench_accounts"),
        "{said}"
    );
    place.expect_clean();
}

#[test]
fn commits_that_would_wait_for_a_standby_that_is_not_there_are_refused_before_the_load() {
    let (place, primary) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let target = primary.admin_target("postgres");
    let plan = |names: &str, more: &[&str]| {
        let names = format!("server.settings.synchronous_standby_names={names}");
        let allowed = ["--set", &names, "--allow-changes", "--allow-setting", "synchronous_standby_names"];
        place.run(&args(("plan", ONE), &target, &[&allowed[..], more].concat()))
    };
    let missing = plan("s1", &[]).expect(1).stdout;
    assert!(missing.contains("synchronous_standby_names = s1: no standby is connected"), "{missing}");
    let local =
        ["--set", "server.settings.synchronous_commit=local", "--allow-setting", "synchronous_commit"];
    plan("s1", &local).expect(0);
    let standby = primary.standby();
    wait_until("the standby's connection", || {
        primary.ask("postgres", "select count(*) from pg_stat_replication") == "1"
    });
    plan("*", &[]).expect(0);
    let other = plan("s1", &[]).expect(1).stdout;
    assert!(other.contains("is connected (pg_stat_replication)") && other.contains("only `"), "{other}");
    drop(standby);

    let own = ["plan", "--set", "server.settings.synchronous_standby_names=s1"];
    let own = place.run(&own).expect(1).stdout;
    assert!(own.contains("synchronous_standby_names = s1: the server has no such standby"), "{own}");
    place.expect_clean();
}
