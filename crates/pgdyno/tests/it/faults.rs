//! Servers that die, hang or hold locks in the middle of a run: the run ends, and says what it is worth.

use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use model::telemetry::event::EventKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::Pg;

use crate::tool::{Ended, Place, Running, expect_found, expect_identity, history_growth};

/// A run of `measure_s` seconds on the test's own server.
struct Faulty {
    place: Place,
    pg: Pg,
    database: String,
}

impl Faulty {
    fn new() -> Faulty {
        let (place, pg) = (Place::new(), Pg::start());
        let database = pg.database();
        Faulty { place, pg, database }
    }

    fn start(&self, options: &str) -> Running {
        self.start_as("out", options)
    }

    /// Results go to `name`.
    fn start_as(&self, name: &str, options: &str) -> Running {
        let args = "run --scale 1 -c 3 --ramp-up 0s --repeats 1 --set prepare.prewarm=false \
                    --set prepare.settle=false --set run.grace=2s";
        let server = self.pg.admin_target(&self.database);
        let mut args: Vec<&str> = args.split_whitespace().chain(options.split_whitespace()).collect();
        args.extend(["--server", &server, "-o", name]);
        let running = self.place.start(self.place.command(&args));
        self.place.wait_for_load(name, 1);
        running
    }

    /// The void or partial result that a fault must lead to.
    #[track_caller]
    fn expect_no_number(&self, ended: &Ended) {
        assert!(ended.stdout.contains("void") && ended.stdout.contains("partial"), "{}", ended.stdout);
        assert!(!ended.stdout.contains("valid\n"), "{}", ended.stdout);
        let strict = self.place.run(&["report", "--strict", "out"]);
        assert_eq!(strict.code(), Some(3), "{}", strict.stdout);
    }
}

#[test]
fn a_crash_of_the_server_voids_the_run() {
    let faulty = Faulty::new();
    let running = faulty.start("--measure 8s");
    let sql = "select pid from pg_stat_activity where backend_type = 'client backend' and query ilike '%pgbench%' \
               and pid <> pg_backend_pid() limit 1";
    let backend: i32 = faulty.pg.ask(&faulty.database, sql).parse().unwrap();
    kill(Pid::from_raw(backend), Signal::SIGKILL).unwrap();
    let ended = running.wait_for_end(Duration::from_secs(30)).expect(1);
    faulty.expect_no_number(&ended);
    let run = faulty.place.first_run("out");
    assert_eq!(run.record.state, RunState::Partial);
    // The message is lost with the connection if the client was sending.
    let words = ["crash of another server process", "every client lost its connection: Connection reset"];
    assert!(words.iter().any(|words| run.record.reason.contains(words)), "{}", run.record.reason);
    expect_identity(&run);
    let done = run.record.done.as_ref().unwrap();
    assert_eq!(done.clients_lost, 3);
    // All acknowledged transactions are there; some of the unknown ones may be.
    let growth = history_growth(&run);
    assert!(
        (done.counts.committed..=done.counts.committed + done.counts.unknown).contains(&growth),
        "{growth} {done:?}"
    );
    assert!(run.events.iter().any(|event| event.kind == EventKind::ConnectionLost), "{:?}", run.events);
    expect_found(&faulty.place, "out", &["connection-lost", "run-incomplete"]);
    faulty.place.expect_clean();
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_the_results_so_far() {
    let faulty = Faulty::new();
    let running = faulty.start("--measure 20s");
    let began = Instant::now();
    faulty.pg.signal(Signal::SIGQUIT);
    let ended = running.wait_for_end(Duration::from_secs(15)).expect(1);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    faulty.expect_no_number(&ended);
    let run = faulty.place.first_run("out");
    assert_eq!(run.record.state, RunState::Partial);
    assert!(run.record.reason.contains("every client lost its connection: "), "{}", run.record.reason);
    assert!(run.record.reason.contains("terminating connection"), "{}", run.record.reason);
    expect_identity(&run);
    let done = run.record.done.unwrap();
    assert_eq!(done.clients_lost, 3);
    assert!(
        done.errors.contains_key("57P01")
            || done.errors.contains_key("57P02")
            || done.errors.contains_key("lost")
    );
    faulty.place.expect_clean();
}

#[test]
fn a_server_that_hangs_for_good_does_not_hang_the_run() {
    let faulty = Faulty::new();
    let running = faulty.start("--measure 4s");
    let began = Instant::now();
    faulty.pg.signal_all(Signal::SIGSTOP);
    // 4 s of window, 2 s of grace, and time for cancelling and for giving up.
    let ended = running.wait_for_end(Duration::from_secs(4 + 2 + 15));
    let took = began.elapsed();
    faulty.pg.signal_all(Signal::SIGCONT);
    let ended = ended.expect(1);
    assert!(took > Duration::from_secs(4), "{took:?}");
    assert!(!ended.stdout.contains("valid\n"), "{}", ended.stdout);
    let run = faulty.place.first_run("out");
    assert_eq!(run.record.state, RunState::Partial);
    assert!(run.record.reason.contains("gave 3 clients no reply"), "{}", run.record.reason);
    expect_identity(&run);
    let counts = run.record.done.unwrap().counts;
    assert_eq!(counts.unknown + counts.aborted, 3, "{counts:?}");
    faulty.place.expect_clean();
}

#[test]
fn a_statement_blocked_by_a_lock_is_cancelled_at_the_end() {
    let faulty = Faulty::new();
    let running = faulty.start("--measure 3s");
    let mut locker = faulty.pg.admin(&faulty.database);
    locker.execute("begin; lock table pgbench_branches in access exclusive mode").unwrap();
    // Only the load is locked out: counting rows at the end would wait as well.
    let run_ended = std::thread::scope(|scope| {
        let release = scope.spawn(|| {
            faulty.place.wait_for_load("out", 6);
            locker.execute("commit").unwrap();
        });
        let ended = running.wait_for_end(Duration::from_secs(20));
        release.join().unwrap();
        ended
    });
    run_ended.expect(0);
    let run = faulty.place.first_run("out");
    assert_eq!(run.record.state, RunState::Completed);
    expect_identity(&run);
    let counts = run.record.done.as_ref().unwrap().counts;
    assert_eq!((counts.aborted, counts.failed, counts.unknown), (3, 0, 0), "{counts:?}");
    expect_found(&faulty.place, "out", &["cut-off-at-end"]);
    assert_eq!(history_growth(&run), counts.committed);
    faulty.place.expect_clean();
}

#[test]
fn an_embedded_server_that_hangs_is_ended_with_all_its_processes() {
    let place = Place::with_binaries(&["18"]);
    let args = "run --scale 1 -c 2 --measure 2s --ramp-up 0s --repeats 1 --set run.grace=1s -o out";
    let running = place.start(place.command(&args.split_whitespace().collect::<Vec<_>>()));
    place.wait_for_load("out", 1);
    for pid in running.descendants() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim() == "postgres" {
            kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        }
    }
    running.wait_for_end(Duration::from_secs(30)).expect(1);
    let run = place.first_run("out");
    assert!(run.record.reason.contains("gave 2 clients no reply"), "{}", run.record.reason);
    place.expect_clean();
}

#[test]
fn a_driver_that_does_not_run_is_reported() {
    let faulty = Faulty::new();
    let running = faulty.start("--measure 4s");
    let driver = running.descendants()[0];
    let signal = |signal| kill(Pid::from_raw(driver), signal).unwrap();
    signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1500));
    signal(Signal::SIGCONT);
    running.wait_for_end(Duration::from_secs(20)).expect(0);
    let run = faulty.place.first_run("out");
    expect_identity(&run);
    let pauses = run.events.iter().filter(|event| event.kind == EventKind::DriverPaused);
    let longest_s = pauses.filter_map(|event| event.number("pause_s")).fold(0.0, f64::max);
    assert!((1.2..4.0).contains(&longest_s), "{:?}", run.events);

    let running = faulty.start_as("killed", "--measure 20s");
    kill(Pid::from_raw(running.descendants()[0]), Signal::SIGKILL).unwrap();
    let ended = running.wait_for_end(Duration::from_secs(20)).expect(1);
    assert!(ended.stderr.contains("the driver was killed"), "{}", ended.stderr);
    let run = faulty.place.first_run("killed");
    assert_eq!(run.record.state, RunState::Failed);
    assert!(!run.intervals.is_empty(), "what it had reported is kept");
    faulty.place.run(&["report", "killed"]).expect(0);
    faulty.place.expect_clean();
}
