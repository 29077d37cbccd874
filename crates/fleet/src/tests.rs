//! Tests with shell scripts that speak a driver's lines.

mod logins;
mod losses;
mod pods;
pub(crate) mod stand_in;
mod uploads;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use model::load::drive::{Done, DriveOrder, DriverLine, LoadEnding};
use model::load::{LoadSpec, Pace, Protocol, ScriptSpec, Window};

use crate::conduct::{DriverWait, conduct_with};
use crate::{Fleet, StderrTo, conduct};

const READY: &str = r#"{"ready":{"pid":1,"connect_ns":5,"poller":"epoll","statements":[["a"]]}}"#;
const COUNTS: &str =
    r#"{"due":1,"skipped":0,"started":1,"committed":1,"failed":0,"unknown":0,"aborted":0,"retried":0}"#;
const TICK: &str = r#"{"tick":{"source":"driver","end_unix_ns":1,"length_ns":1,"values":{}}}"#;
const EVENT: &str = r#"{"event":{"t_unix_ns":1,"kind":"driver_paused","text":"x"}}"#;
const FAILED: &str = r#"{"failed":{"message":"cannot connect to `x`: refused"}}"#;
const WINDOW: Window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 0 };
const HASTY: DriverWait =
    DriverWait { silence: Duration::from_millis(1500), overdue: Duration::from_millis(2500) };
const TIMEOUT: Duration = Duration::from_secs(20);
/// A password that JSON has to escape.
const PASSWORD: &str = "se\"cr\\et";

fn interval(t: u32) -> String {
    format!(
        r#"{{"interval":{{"interval":{{"t":{t},"script":0,"start_unix_ns":1,"length_ns":1,"counts":{COUNTS}}},"histograms":[]}}}}"#
    )
}

fn done(ending: &str) -> String {
    format!(
        r#"{{"done":{{"ending":"{ending}","end_unix_ns":9,"counts":{COUNTS},"errors":{{}},"messages":{{}},"measured_by_client":[1],"clients_lost":0}}}}"#
    )
}

fn order(source: &str) -> DriveOrder {
    let script = ScriptSpec { name: "a".into(), tag: "a".into(), weight: 1, source: source.into() };
    let load = LoadSpec {
        format: model::FORMAT,
        target: Default::default(),
        scripts: vec![script],
        defines: Default::default(),
        protocol: Protocol::Prepared,
        n_clients: 1,
        n_threads: 1,
        pace: Pace::Closed,
        window: WINDOW,
        seed: 1,
        ..LoadSpec::default()
    };
    DriveOrder::new(load, Some(PASSWORD.into()))
}

/// A driver that is a shell script. `say LINE` in it writes a line.
fn driver(script: &str) -> Fleet {
    let script = format!("say() {{ printf '%s\\n' \"$1\"; }}\n{script}");
    shell(&script, "select 1")
}

/// A driver that is a shell script, with a script for its load.
fn shell(script: &str, source: &str) -> Fleet {
    Fleet::local(Path::new("/bin/sh"), ["-c", script], &order(source), StderrTo::Messages).unwrap()
}

fn wait_ready(driver: &mut Fleet) -> Result<model::load::drive::Ready> {
    driver.wait_ready(TIMEOUT, &AtomicBool::new(false))
}

/// Conducts a script from `go` on, and returns the names of the lines passed to `on_line`.
fn conducted(script: &str, stop: &AtomicBool) -> (Vec<String>, Result<Done>) {
    let mut driver = driver(&format!("read order; say '{READY}'; read go\n{script}"));
    wait_ready(&mut driver).unwrap();
    let mut heard = Vec::new();
    let mut on_line = |line: &DriverLine| {
        heard.push(match line {
            DriverLine::Interval { interval, .. } => format!("interval {}", interval.t),
            DriverLine::Tick(_) => "tick".into(),
            DriverLine::Event(_) => "event".into(),
            other => format!("{other:?}"),
        });
        Ok(())
    };
    let result = conduct_with(&mut driver, 7, WINDOW, &mut on_line, stop, HASTY);
    assert!(!Path::new(&format!("/proc/{}", driver.pids_here()[0])).exists(), "the driver has exited");
    (heard, result)
}

fn conducted_error(script: &str) -> String {
    format!("{:#}", conducted(script, &AtomicBool::new(false)).1.unwrap_err())
}

#[test]
fn lines_come_in_their_order_and_done_ends_them() {
    let script = format!(
        "[ \"$go\" = '{{\"go\":7}}' ] || exit 9\nsay '{}'; say '{TICK}'; say '{EVENT}'; say '{}'; say '{}'",
        interval(0),
        interval(1),
        done("completed")
    );
    let (heard, result) = conducted(&script, &AtomicBool::new(false));
    assert_eq!(result.unwrap().ending, LoadEnding::Completed);
    assert_eq!(heard, ["interval 0", "tick", "event", "interval 1"]);
}

#[test]
fn lines_that_a_driver_writes_before_it_is_ready_are_not_lost() {
    let mut driver = driver(&format!("say '{EVENT}'; say '{TICK}'; say '{READY}'; say '{}'", interval(0)));
    let ready = wait_ready(&mut driver).unwrap();
    assert_eq!((ready.pid, ready.poller.as_str()), (1, "epoll"));
    let mut next = || driver.next(TIMEOUT).unwrap().unwrap().1;
    assert!(matches!(next(), DriverLine::Event(_)));
    assert!(matches!(next(), DriverLine::Tick(_)));
    assert!(matches!(next(), DriverLine::Interval { .. }));
}

#[test]
fn the_order_is_the_first_line_and_may_be_longer_than_a_pipe() {
    let source = "select 1;\n".repeat(100_000);
    let script = format!(
        "read -r order; [ ${{#order}} -gt 1000000 ] && case $order in '{{\"load\":'*) printf '%s\\n' '{READY}';; esac"
    );
    let mut driver = shell(&script, &source);
    wait_ready(&mut driver).unwrap();
}

#[test]
fn a_driver_that_never_reads_does_not_block_its_parent() {
    let begun = Instant::now();
    let source = "select 1;\n".repeat(100_000);
    let driver = shell("sleep 100", &source);
    drop(driver);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn errors_before_the_load_say_what_happened() {
    for (script, expected) in [
        (format!("say '{FAILED}'"), "cannot connect to `x`: refused"),
        ("exit 3".into(), "the driver ended before the load did (exit status: 3)"),
        ("echo oops >&2; echo why >&2; exit 3".into(), "(exit status: 3); it said: oops\nwhy"),
        ("kill -9 $$".into(), "the driver was killed (signal: 9 (SIGKILL)); was memory exhausted?"),
        ("echo hello".into(), "cannot parse a line of the driver: `hello` ("),
        ("printf '{\"ready\":{'".into(), "the driver ended before the load did (exit status: 0)"),
        (format!("say '{}'", interval(0)), "reported a load before it was ready"),
        (format!("say '{}'", done("completed")), "reported a load before it was ready"),
    ] {
        let error = format!("{:#}", wait_ready(&mut driver(&script)).unwrap_err());
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[test]
fn a_driver_that_is_never_ready_is_given_up_after_the_timeout() {
    let mut driver = driver("echo connecting >&2; sleep 100");
    let error = driver.wait_ready(Duration::from_millis(500), &AtomicBool::new(false)).unwrap_err();
    assert_eq!(error.to_string(), "the driver was not ready after 0.5 s; it said: connecting");
    let error = driver.wait_ready(TIMEOUT, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(error.to_string(), "stopped before the load began");
}

#[test]
fn a_missing_program_is_named() {
    let result = Fleet::local(Path::new("/nonexistent/pgdyno"), ["drive"], &order(""), StderrTo::Messages);
    let error = format!("{:#}", result.unwrap_err());
    assert!(error.starts_with("cannot start `/nonexistent/pgdyno` for the driver: No such"), "{error}");
}

#[test]
fn errors_during_the_load_say_what_happened() {
    for (script, expected) in [
        (format!("say '{FAILED}'"), "cannot connect to `x`: refused"),
        (format!("say '{TICK}'; echo oops >&2; exit 3"), "(exit status: 3); it said: oops"),
        ("kill -9 $$".into(), "signal: 9"),
        (format!("say '{TICK}'; say '[]'"), "cannot parse a line of the driver: `[]` ("),
        ("echo busy >&2; sleep 100".into(), "the driver has been silent for 1.5 s; it said: busy"),
        ("exec >&-; sleep 100".into(), "closed its output but kept running; it was killed"),
        (format!("say '{READY}'"), "the driver reported `ready` twice"),
        (
            format!("while :; do say '{TICK}'; sleep 0.1; done"),
            "the driver has not ended 2.5 s after it should have",
        ),
    ] {
        let error = conducted_error(&script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[test]
fn stop_reaches_the_driver_once() {
    let stop = AtomicBool::new(true);
    let script = format!(
        "read word; [ \"$word\" = '\"stop\"' ] || exit 9; say '{}'; say '{}'",
        interval(0),
        done("stopped")
    );
    let (heard, result) = conducted(&script, &stop);
    assert_eq!(result.unwrap().ending, LoadEnding::Stopped);
    assert_eq!(heard, ["interval 0"]);
}

#[test]
fn a_driver_elsewhere_that_gave_us_up_is_not_taken_for_one_that_was_asked_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let then =
        format!("read -r order; echo '{READY}'; read -r go; echo '{}'; cat >/dev/null", done("stopped"));
    let own = stand_in::speaker(dir.path(), "own", &then);
    let spec = stand_in::spec("a", &["sh", "-c"].map(str::to_string), &own);
    for (stop, expected) in [(false, "driver `a` stopped by itself, because nothing of pgdyno"), (true, "")] {
        let mut driver = stand_in::greeted(std::slice::from_ref(&spec), &own).unwrap();
        wait_ready(&mut driver).unwrap();
        let stop = AtomicBool::new(stop);
        let result = conduct_with(&mut driver, 7, WINDOW, &mut |_| Ok(()), &stop, HASTY);
        let error = result.map_or_else(|error| format!("{error:#}"), |_| String::new());
        assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{error}");
    }
}

#[test]
fn silence_counts_from_go_on() {
    let script = format!("read order; say '{READY}'; read go; sleep 1.2; say '{}'", done("completed"));
    let mut driver = driver(&script);
    wait_ready(&mut driver).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let go_unix_ns = u64::try_from(now.as_nanos()).unwrap() + 1_100_000_000;
    let stop = AtomicBool::new(false);
    conduct_with(&mut driver, go_unix_ns, WINDOW, &mut |_| Ok(()), &stop, HASTY).unwrap();
}

#[test]
fn an_error_of_the_callback_ends_the_driver() {
    let mut driver = driver(&format!("read order; say '{READY}'; while :; do say '{TICK}'; sleep 0.1; done"));
    wait_ready(&mut driver).unwrap();
    let pid = driver.pids_here()[0];
    let result =
        conduct(&mut driver, 7, WINDOW, &mut |_| anyhow::bail!("disk full"), &AtomicBool::new(false));
    assert_eq!(result.unwrap_err().to_string(), "disk full");
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn long_lines_and_many_lines_come_through() {
    let long = "A".repeat(100_000);
    let line = interval(3).replace(
        r#""histograms":[]"#,
        &format!(r#""histograms":[{{"tag":"a","max_ns":1,"data":"{long}"}}]"#),
    );
    let script = format!(
        "read order\nsay '{READY}'\nfor i in 1 2 3 4 5; do\ncat <<'END'\n{line}\nEND\ndone\n\
         i=0; while [ $i -lt 3000 ]; do say '{TICK}'; i=$((i+1)); done; say '{}'",
        done("completed")
    );
    let file = tempfile_with(&script);
    let script = format!("say() {{ printf '%s\\n' \"$1\"; }}; . {}", file.display());
    let mut driver = shell(&script, "");
    wait_ready(&mut driver).unwrap();
    let (n_long, n_lines) = (Mutex::new(0), Mutex::new(0));
    let mut on_line = |heard: &DriverLine| {
        *n_lines.lock().unwrap() += 1;
        if let DriverLine::Interval { histograms, .. } = heard {
            assert_eq!(histograms[0].data, long);
            *n_long.lock().unwrap() += 1;
        }
        Ok(())
    };
    conduct(&mut driver, 7, WINDOW, &mut on_line, &AtomicBool::new(false)).unwrap();
    std::fs::remove_file(file).unwrap();
    assert_eq!((n_long.into_inner().unwrap(), n_lines.into_inner().unwrap()), (5, 3005));
}

/// A file with this text, which may be longer than an argument of a process can be.
fn tempfile_with(text: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("pgdyno-fleet-test-{}.sh", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_dropped_driver_leaves_no_process_behind() {
    // The shell's own child is in its group and ends with it.
    let ready = READY.replace("\"pid\":1", "\"pid\":'$!'");
    let mut driver = driver(&format!("sleep 1000 & say '{ready}'; wait"));
    let pids = [driver.pids_here()[0], wait_ready(&mut driver).unwrap().pid];
    assert!(pids[1] > 1 && is_alive(pids[1]));
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(driver.pids_here()[0] as i32))).unwrap();
    assert_eq!(group.as_raw() as u32, driver.pids_here()[0], "a group of its own");
    drop(driver);
    for pid in pids {
        let deadline = Instant::now() + Duration::from_secs(5);
        // An orphan is reaped by others, soon.
        while is_alive(pid) {
            assert!(Instant::now() < deadline, "process {pid} is still running");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether a process is running, that is, exists and is not a zombie of another parent.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_driver_ends_with_the_thread_that_started_it() {
    let mut driver = std::thread::spawn(|| driver("exec sleep 1000")).join().unwrap();
    let error = wait_ready(&mut driver).unwrap_err().to_string();
    assert!(error.contains("signal: 9"), "{error}");
}

#[test]
fn a_password_that_a_driver_repeats_is_not_shown() {
    let in_json = serde_json::to_string(PASSWORD).unwrap();
    for script in ["cat", "head -n 1 >&2; exit 1", "read -r x; printf '%s\\n' 'x se\"cr\\et' >&2; exit 1"] {
        let mut driver = driver(script);
        let error = format!("{:#} {driver:?}", wait_ready(&mut driver).unwrap_err());
        assert!(!error.contains(PASSWORD) && !error.contains(in_json.trim_matches('"')), "{error}");
    }
}

#[test]
fn killing_twice_is_harmless() {
    let mut driver = driver("sleep 1000");
    driver.kill();
    driver.kill();
    assert!(driver.next(TIMEOUT).is_err());
    driver.stop().unwrap();
    let stop = AtomicBool::new(false);
    stop.store(true, Ordering::Relaxed);
    assert!(driver.wait_ready(TIMEOUT, &stop).is_err());
}
