//! What limited a run, judged from samples of a real server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testbed::Pg;

use crate::tool::Place;

#[test]
fn a_row_that_clients_hold_while_they_pause_is_named_as_the_limit() {
    let (pg, place) = (Pg::shared(), Place::new());
    let script =
        "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n\\sleep 8 ms\ncommit;\n";
    let script = place.write("hold.sql", script).display().to_string();
    let server = pg.admin_target(&pg.database());
    let args =
        ["run", "--server", &server, "-f", &script, "--set", "workload.data=tpcb", "-c", "8", "-o", "out"];
    let more = "--scale 1 --ramp-up 1s --measure 4s --repeats 1 --set prepare.settle=false --json";
    let args: Vec<&str> = args.into_iter().chain(more.split_whitespace()).collect();
    let study: serde_json::Value = serde_json::from_str(&place.run(&args).expect(0).stdout).unwrap();
    let limiter = &study["cases"][0]["limiter"];
    // Other tests may use all processors meanwhile, which is named as well.
    let names = [&limiter["name"], &limiter["runner_up"][0]].map(|name| name.as_str().unwrap_or_default());
    assert!(names.contains(&"client-held-lock") || names.contains(&"foreign-cpu"), "{limiter}");
    if names[0] == "client-held-lock" {
        assert!(
            limiter["evidence"].as_str().unwrap().contains("a holder that waited for its client"),
            "{limiter}"
        );
    }
    let run = place.first_run("out");
    let sum = |key: &str| run.ticks.iter().filter_map(|tick| tick.values.get(key)).sum::<f64>();
    assert!(sum("waits.stages[lock]") > 0.8 * sum("waits.samples"), "{:?}", run.ticks);
    assert!(sum("waits.roots[idle in transaction]") > 0.0);
    let table = std::fs::read_to_string(place.path("out/cases.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains("verdict,limiter,findings"), "{table}");
    place.expect_clean();
}

#[test]
fn a_lock_that_somebody_elses_session_holds_is_named_as_theirs() {
    let (pg, place) = (Pg::shared(), Place::new());
    let script = place.write("wait.sql", "begin;\nselect pg_advisory_xact_lock(7);\ncommit;\n");
    let (database, script) = (pg.database(), script.display().to_string());
    let server = pg.admin_target(&database);
    let (is_over, mut stranger) = (AtomicBool::new(false), pg.admin(&database));
    let study: serde_json::Value = std::thread::scope(|scope| {
        scope.spawn(|| {
            stranger.execute("set application_name = 'cron job'").unwrap();
            while !is_over.load(Ordering::Relaxed) {
                stranger.execute("select pg_advisory_lock(7)").unwrap();
                std::thread::sleep(Duration::from_millis(50));
                stranger.execute("select pg_advisory_unlock(7)").unwrap();
            }
        });
        let args = ["run", "--server", &server, "-f", &script, "-c", "4", "-o", "out"];
        let more = "--ramp-up 1s --measure 4s --repeats 1 --set prepare.settle=false --json";
        let args: Vec<&str> = args.into_iter().chain(more.split_whitespace()).collect();
        let ended = place.run(&args);
        is_over.store(true, Ordering::Relaxed);
        serde_json::from_str(&ended.expect(0).stdout).unwrap()
    });
    let limiter = &study["cases"][0]["limiter"];
    // Other tests may use all processors meanwhile, which is named as well.
    if limiter["name"] == "client-held-lock" {
        let evidence = limiter["evidence"].as_str().unwrap();
        let expected = "the holder was a session that is not the load's (it calls itself `cron job`)";
        assert!(evidence.contains("advisory locks") && evidence.contains(expected), "{limiter}");
        assert!(
            limiter["next"].as_str().unwrap().starts_with("End the session that holds the lock"),
            "{limiter}"
        );
    } else {
        assert_eq!(limiter["name"], "foreign-cpu", "{limiter}");
    }
    let run = place.first_run("out");
    let sum = |key: &str| run.ticks.iter().filter_map(|tick| tick.values.get(key)).sum::<f64>();
    assert!(sum("waits.holders[advisory/other:cron job]") > 0.0, "{:?}", run.ticks);
    assert!(sum("affinity.processors[server]") > 0.0 && sum("affinity.processors[driver]") > 0.0);
    place.expect_clean();
}
