//! Open and closed loop: the pace is kept, and a stall shows in the latency of the open loop only.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::Pg;

use crate::tool::{Place, expect_sound};

/// A run of 6 s whose backends are stopped for one second; p99 of its latency in seconds, and its rate. It only reads,
/// because how fast a shared disk takes the commits of that second does not matter here.
fn stalled(place: &Place, pg: &Pg, options: &[&str]) -> (f64, f64) {
    let database = pg.database();
    let server = pg.admin_target(&database);
    let name = format!("out-{database}");
    let args = "run --scale 1 -w tpcb-select -c 8 --measure 6s --ramp-up 0s --repeats 1 --json \
                --set prepare.prewarm=false --set prepare.settle=false";
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.extend(["--server", &server, "-o", &name]);
    args.extend(options);
    let running = place.start(place.command(&args));
    place.wait_for_load(&name, 2);
    let sql = "select string_agg(pid::text, ' ') from pg_stat_activity where backend_type = 'client backend' \
               and datname = current_database() and pid <> pg_backend_pid() and application_name not like '%observe%'";
    let backends = pg.ask(&database, sql);
    let signal = |signal| {
        for pid in backends.split(' ') {
            kill(Pid::from_raw(pid.parse().unwrap()), signal).unwrap();
        }
    };
    signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    signal(Signal::SIGCONT);
    let ended = running.wait().expect(0);
    expect_sound(&place.first_run(&name));
    let study: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let run = &study["runs"][0];
    let number = |path: &str| {
        run.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}: {run}"))
    };
    (number("/latency/p99_ns") / 1e9, number("/tps"))
}

#[test]
fn latency_counts_from_the_schedule() {
    let (place, pg) = (Place::new(), Pg::start());
    let (p99_s, tps) = stalled(&place, &pg, &["--pace", "200/s"]);
    assert!(p99_s >= 0.8, "open loop: p99 {p99_s} s");
    // Poisson: the number of transactions due in 6 s varies by 3 % (1 sigma); all that were due were executed.
    assert!((150.0..250.0).contains(&tps), "{tps}");
    let (p99_s, tps) = stalled(&place, &pg, &["--pace", "constant 200/s"]);
    assert!(p99_s >= 0.8, "open loop: p99 {p99_s} s");
    assert!((198.0..=202.0).contains(&tps), "{tps}");
    let (p99_s, _) = stalled(&place, &pg, &[]);
    assert!(p99_s < 0.5, "closed loop: p99 {p99_s} s");
    place.expect_clean();
}
