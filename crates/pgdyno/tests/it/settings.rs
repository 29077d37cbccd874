//! Settings of a server by URL that an experiment changes: in effect during its runs, and as before afterwards, however it ends.

use std::fs;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::{ClusterOptions, TestServer};

use crate::tool::{PACE, Place, wait_until};

const RUN: &str =
    "-c 1 --ramp-up 0s --repeats 1 --scale 1 --set prepare.settle=false --set prepare.prewarm=false";
/// Runs of one statement on the database as it is.
pub(crate) const ONE: &str =
    "-f one.sql --set workload.data=none -c 1 --ramp-up 0s --repeats 1 --set prepare.settle=false";

/// The entries of `postgresql.auto.conf`, and what the server makes of two of them.
fn state(server: &TestServer) -> (Vec<String>, String) {
    let text = fs::read_to_string(server.path("data/postgresql.auto.conf")).unwrap();
    let mut entries: Vec<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect();
    entries.sort();
    let sql = "select string_agg(name || ' ' || setting || ' ' || source || ' ' || pending_restart, ', ' order by name) \
               from pg_settings where name in ('autovacuum_naptime', 'shared_buffers', 'work_mem')";
    (entries, server.ask("postgres", sql))
}

/// Restarts `server` whenever its file `restart` appears, and removes the file then; the command that it returns does that.
pub(crate) fn restarter<T>(server: &TestServer, test: impl FnOnce(&str) -> T) -> T {
    let (asked, over) = (server.path("restart"), server.path("over"));
    let command = format!(
        "[\"sh\", \"-c\", \"touch {0}; while test -e {0}; do sleep 0.05; done; echo restarted\"]",
        asked.display()
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.exists() {
                if asked.exists() {
                    server.stop(Signal::SIGINT);
                    server.start_again();
                    fs::remove_file(&asked).unwrap();
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        // Also if the test fails.
        let _over = OnDrop(|| fs::write(&over, "").unwrap());
        test(&command)
    })
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pub(crate) fn args<'a>(
    (first, common): (&'a str, &'a str),
    target: &'a str,
    more: &[&'a str],
) -> Vec<&'a str> {
    let mut args: Vec<&str> = vec![first, PACE, "--server", target];
    args.extend(common.split_whitespace());
    args.extend(more);
    args
}

#[test]
fn settings_of_a_server_by_url_are_a_factor_and_put_back_however_it_ends() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("bench");
    place.run(&["init", "--server", &target, "--create-database", "--scale", "1"]).expect(0);
    server.execute("postgres", "alter system set work_mem = '5MB'");
    server.execute("postgres", "select pg_reload_conf()");
    let sql = "select setting from pg_settings where name = 'work_mem'";
    wait_until("the server's own setting", || server.ask("postgres", sql) == "5120");
    let before = state(&server);
    let expect_as_before = || {
        assert_eq!(state(&server), before);
        assert_eq!(fs::read_dir(place.path("cache/settings")).unwrap().count(), 0, "no journal is left");
        place.expect_clean();
    };
    restarter(&server, |command| {
        let restart = format!("server.restart={command}");
        let levels = [
            "--set",
            "server.settings.work_mem=[\"8MB\",\"64MB\"]",
            "--set",
            "server.settings.shared_buffers=[\"32MB\",\"64MB\"]",
            "--set",
            "experiment.zip=[[\"server.settings.work_mem\",\"server.settings.shared_buffers\"]]",
        ];
        let plan = args(("plan", RUN), &target, &levels);
        let refused = place.run(&plan).expect(1).stdout;
        assert!(refused.contains("shared_buffers: it changes at a restart: name the command"), "{refused}");
        let plan = [&plan[..], &["--set", &restart]].concat();
        let planned = place.run(&plan).expect(0).stdout;
        assert!(planned.contains("work_mem to 8MB, 64MB (it is 5MB)"), "{planned}");

        let more = [&levels[..], &["--set", &restart, "--measure", "2s", "-o", "out"]].concat();
        let run = args(("run", RUN), &target, &more);
        let refused = place.run(&run).expect(1).stderr;
        assert!(refused.contains("put back at the end, only with --allow-changes"), "{refused}");
        assert!(!place.path("out").exists() && state(&server) == before);
        let ended = place.run(&[&run[..], &["--allow-changes"]].concat()).expect(0);
        assert!(ended.stderr.contains("put back setting `work_mem` to 5MB"), "{}", ended.stderr);
        let results = place.results("out");
        assert_eq!(results.runs.len(), 2);
        for run in &results.runs {
            let settings = &run.record.server.as_ref().unwrap().settings;
            for name in ["work_mem", "shared_buffers"] {
                assert_eq!(settings[name].value, run.record.case.server.settings[name], "{name}");
            }
            let detail = &run.record.phases[0].detail;
            assert!(detail.contains_key("restart_seconds"), "{detail:?}");
            assert!(!detail.contains_key("no_template"), "a restart costs no template: {detail:?}");
        }
        expect_as_before();
    });
}

#[test]
fn settings_are_put_back_after_ctrl_c_and_after_a_kill() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let target = server.admin_target("postgres");
    let before = state(&server);
    let start = |name: &str| {
        let more = [
            "--set",
            "server.settings.work_mem=64MB",
            "--set",
            "server.settings.autovacuum_naptime=7min",
            "--measure",
            "30s",
            "--allow-changes",
            "-o",
            name,
        ];
        let running = place.start(place.command(&args(("run", ONE), &target, &more)));
        place.wait_for_load(name, 1);
        assert!(state(&server).1.contains("work_mem 65536 configuration file"), "{:?}", state(&server));
        running
    };
    let running = start("stopped");
    let more =
        ["--set", "server.settings.work_mem=1MB", "--measure", "2s", "--allow-changes", "-o", "second"];
    let second = place.run(&args(("run", ONE), &target, &more)).expect(1).stderr;
    assert!(second.contains("another pgdyno changes settings of this server: server process"), "{second}");
    running.signal(Signal::SIGINT);
    let ended = running.wait().expect(2);
    assert!(ended.stderr.contains("put back setting `work_mem` to 4MB"), "{}", ended.stderr);
    assert_eq!(state(&server), before);

    let more =
        ["--set", "server.settings.work_mem=1MB", "--measure", "2s", "--allow-changes", "-o", "panicked"];
    let mut command = place.command(&args(("run", ONE), &target, &more));
    let panicked = place
        .start({
            command.env("PGDYNO_TEST_PANIC", "checkpoint");
            command
        })
        .wait();
    assert!(panicked.stderr.contains("put back setting `work_mem` to 4MB"), "{}", panicked.stderr);
    assert_eq!(state(&server), before);

    // One of the two is changed by somebody else before anybody puts them back.
    let kill = |name: &str| {
        let running = start(name);
        let pid = running.pid();
        running.signal(Signal::SIGKILL);
        running.wait();
        pid
    };
    let pid = kill("killed");
    server.execute("postgres", "alter system set autovacuum_naptime = '2min'");
    let cleaned = place.run(&["clean"]).expect(0).stderr;
    assert!(cleaned.contains("put back setting `work_mem` to 4MB"), "{cleaned}");
    let whose = format!(", left by pgdyno run (process {pid}, user ");
    assert!(cleaned.contains(&whose) && cleaned.contains("which ended without putting it back"), "{cleaned}");
    assert!(cleaned.contains("left setting `autovacuum_naptime` as it is"), "{cleaned}");
    assert_eq!(state(&server).0, ["autovacuum_naptime = '2min'"]);
    server.execute("postgres", "alter system reset autovacuum_naptime");
    server.execute("postgres", "select pg_reload_conf()");
    wait_until("the server's own setting", || state(&server) == before);
    assert!(place.run(&["clean"]).expect(0).stderr.contains("nothing was left behind"));
    let cleaned = place.run(&["clean", "--server", &target]).expect(0).stderr;
    assert!(cleaned.contains("no journal here names a setting that is changed on it"), "{cleaned}");

    // The next run does not take what it finds for the server's own settings.
    kill("again");
    let more = ["--measure", "2s", "-o", "next"];
    let next = place.run(&args(("run", ONE), &target, &more)).expect(0).stderr;
    assert!(next.contains("put back setting `work_mem` to 4MB"), "{next}");
    assert_eq!(place.first_run("next").record.server.unwrap().settings["work_mem"].value, "4MB");
    assert_eq!(state(&server), before);
    place.expect_clean();
}

/// A server ends the session that holds the lock when it restarts, or when somebody terminates it.
#[test]
fn settings_of_a_pgdyno_that_lives_are_left_alone_though_its_lock_is_gone() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let target = server.admin_target("postgres");
    let before = state(&server);
    let more = ["--set", "server.settings.work_mem=64MB", "--measure", "30s", "--allow-changes", "-o", "out"];
    let running = place.start(place.command(&args(("run", ONE), &target, &more)));
    place.wait_for_load("out", 1);
    let changed = state(&server);
    let end = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 2";
    server.execute("postgres", end);
    let is_gone = "select count(*) from pg_locks where locktype = 'advisory' and objid = 2";
    wait_until("the end of the lock", || server.ask("postgres", is_gone) == "0");
    for (args, code) in [
        (&["clean"][..], 0),
        (&["clean", "--server", &target], 1),
        (&args(("run", ONE), &target, &["--measure", "2s", "-o", "other"]), 1),
    ] {
        let said = place.run(args).expect(code).stderr;
        let whose = format!(
            "another pgdyno changes settings of this server: pgdyno run (process {}, ",
            running.pid()
        );
        assert!(said.contains(&whose) && said.contains("(work_mem"), "{args:?}: {said}");
        assert_eq!(state(&server), changed);
    }
    running.signal(Signal::SIGINT);
    let ended = running.wait().expect(2).stderr;
    assert!(ended.contains("put back setting `work_mem` to 4MB") && !ended.contains("left by"), "{ended}");
    assert_eq!(state(&server), before);
    place.expect_clean();
}
