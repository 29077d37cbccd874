//! A run that is written while a browser shows it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::experiment::plan::{RunState, StateLine};
use model::load::histogram::HistogramSum;
use model::load::interval::{Counts, Interval};
use model::run::RunRecord;
use model::telemetry::reading::{Tick, TickSource};
use serde_json::json;
use serve::{ConnectionBounds, Makers, ServeOptions};
use store::{ExperimentDir, RunWriter};
use testbed::browser::{Tab, WindowLook};

use crate::place::{MAKERS, Place, get, plan, status};

const NS_PER_S: u64 = 1_000_000_000;
/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run whose seconds are written by the test.
pub(crate) struct Run {
    dir: ExperimentDir,
    writer: RunWriter,
    go_unix_ns: u64,
    n_written: u32,
}

impl Run {
    pub(crate) fn begin(place: &Place, measure_s: u32) -> Run {
        Run::begin_in(place, "now", measure_s)
    }

    fn begin_in(place: &Place, name: &str, measure_s: u32) -> Run {
        let plan = plan("sample", 2, (2, measure_s));
        let dir = ExperimentDir::create(&place.path().join(name), &plan, "").unwrap();
        let now_unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let line =
            |run| StateLine { t_unix_ns: now_unix_ns, run, state: RunState::Started, reason: String::new() };
        dir.append_state(&line(0)).unwrap();
        dir.append_state(&line(1)).unwrap();
        let writer = dir.begin_run(1).unwrap();
        let mut record = RunRecord::new(plan.runs[0].clone(), plan.cases[0].clone(), "0");
        record.go_unix_ns = Some(now_unix_ns);
        writer.write_record(&record).unwrap();
        Run { dir, writer, go_unix_ns: now_unix_ns, n_written: 0 }
    }

    /// Writes the next second, with so many transactions.
    pub(crate) fn second(&mut self, committed: u64) {
        let t = self.n_written;
        self.n_written += 1;
        let start_unix_ns = self.go_unix_ns + u64::from(t) * NS_PER_S;
        let counts = Counts { due: committed, started: committed, committed, ..Counts::default() };
        let interval = Interval { t, start_unix_ns, length_ns: NS_PER_S, counts, ..Interval::default() };
        self.writer.interval(&interval).unwrap();
        let mut times = HistogramSum::new();
        (0..100).for_each(|i| times.record(1_000_000 + 10_000 * i));
        let lines = [times.line("tpcb-like"), times.line("tpcb-like.service")];
        self.writer.histograms(t, start_unix_ns, NS_PER_S, &lines).unwrap();
        let values =
            [("host.cpu.user[cpu0]", 0.5), ("host.cpu.user[cpu1]", 0.25), ("host.memory.available", 1e9)];
        let tick = Tick {
            source: TickSource::Host,
            end_unix_ns: start_unix_ns + NS_PER_S,
            length_ns: NS_PER_S,
            values: values.map(|(key, value)| (key.to_string(), value)).into(),
        };
        self.writer.tick(&tick).unwrap();
    }
}

const POINTS: &str = "Number(document.body.dataset.points ?? 0)";

#[test]
fn values_move_a_killed_server_resumes_and_the_end_leads_to_the_report() {
    let place = Place::new();
    let mut run = Run::begin(&place, 60);
    (0..5).for_each(|_| run.second(100));
    let serving = place.serve();
    let address = serving.address;
    let directory = tempfile::tempdir().unwrap();
    let mut tab = Tab::open(directory.path(), WindowLook { width: 1280, height: 900, is_dark: true });
    tab.go(&format!("http://{address}/live"));
    tab.wait_for(&format!("{POINTS} > 20"));
    assert_eq!(tab.eval("location.pathname"), json!("/live/now"));
    let tps = "document.querySelector('#now .tiles dd')?.firstChild.textContent";
    tab.wait_for(&format!("{tps} === '100'"));
    assert_eq!(
        tab.eval("document.querySelector('#run figure figcaption strong').textContent"),
        json!("Throughput")
    );
    assert!(tab.eval("document.querySelector('#now').textContent").as_str().unwrap().contains("Run 1 of 2"));
    let before = tab.eval(POINTS).as_f64().unwrap();
    run.second(777);
    tab.wait_for(&format!("{tps} === '777' && {POINTS} > {before}"));
    // Its readers know where they were; another process may have the same port again at once.
    drop(serving);
    tab.wait_for("document.getElementById('line').classList.contains('lost')");
    (0..3).for_each(|_| run.second(900));
    let serving = serve::start(ServeOptions { listen: address, ..place.options() }, MAKERS).unwrap();
    tab.wait_for(&format!("{tps} === '900' && !document.getElementById('line').classList.contains('lost')"));
    // No second is missing, and none is there twice.
    let times = "data.runs[0].panels[0].lines[0].points.map((point) => Math.floor(point[0])).join()";
    let expected: Vec<String> = (0..run.n_written).map(|t| t.to_string()).collect();
    tab.wait_for(&format!("{times} === '{}'", expected.join(",")));
    for look in [
        WindowLook { width: 390, height: 800, is_dark: false },
        WindowLook { width: 1280, height: 900, is_dark: true },
    ] {
        tab.resize(look);
        // Charts take their new width a moment later.
        tab.wait_for("document.documentElement.scrollWidth === document.documentElement.clientWidth");
    }
    let roles = tab.roles();
    for (role, name) in [
        ("progressbar", "Part of the experiment that is done"),
        ("region", "The run under way"),
        ("heading", "Findings so far"),
    ] {
        assert!(roles.iter().any(|(r, n)| r.to_lowercase() == role && n == name), "{role} {name}: {roles:?}");
    }
    let stops = tab.expect_usable();
    assert!(stops.iter().any(|stop| stop.name == "Table: Throughput"), "{stops:?}");
    // What has the focus is replaced when it loses it: all parts come again with a new stream.
    tab.eval("window.part = document.getElementById('findings'); part.tabIndex = -1; part.focus(); part.textContent = 'old'; 0");
    tab.eval("document.dispatchEvent(new Event('visibilitychange')); 0");
    run.second(800);
    tab.wait_for(&format!("{tps} === '800' && part.textContent === 'old'"));
    tab.eval("part.blur(); 0");
    run.second(810);
    tab.wait_for("part.textContent !== 'old'");
    assert_eq!(tab.eval("document.body.dataset.errors ?? ''"), json!(""));
    let line =
        StateLine { t_unix_ns: run.go_unix_ns, run: 0, state: RunState::Completed, reason: String::new() };
    run.dir.append_state(&line).unwrap();
    drop(run);
    tab.wait_for("document.querySelector('#ended a')?.textContent === 'Open the report'");
    assert_eq!(status(&get(serving.address, "/live", "")), "404", "nothing is measured any more");
}

/// A reader of a stream that is no browser.
struct Stream {
    lines: BufReader<TcpStream>,
}

impl Stream {
    fn open(address: SocketAddr, more: &str) -> Stream {
        Stream::of(address, "now/events", more)
    }

    /// Of an address below `/live`.
    fn of(address: SocketAddr, of: &str, more: &str) -> Stream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!("GET /live/{of} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Stream { lines: BufReader::new(stream) }
    }

    /// Waits until an event has this text.
    fn wait_for(&mut self, text: &str) {
        while !self.next("").0.to_string().contains(text) {}
    }

    /// The data and the id of the next event of this name, or of any if it is empty.
    fn next(&mut self, name: &str) -> (serde_json::Value, String) {
        let (mut event, mut id, mut data) = (String::new(), String::new(), String::new());
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "no event `{name}`");
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream has ended");
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("event: ") {
                event = text.to_string();
            } else if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_string();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = text.to_string();
            } else if line.is_empty() && !data.is_empty() {
                if name.is_empty() || event == name {
                    return (serde_json::from_str(&data).unwrap(), id);
                }
                data.clear();
            }
        }
    }
}

#[test]
fn several_readers_get_the_same_and_one_that_slept_gets_what_it_lacks() {
    let place = Place::new();
    let mut run = Run::begin(&place, 60);
    (0..4).for_each(|_| run.second(100));
    let serving = place.serve();
    let mut first = Stream::open(serving.address, "");
    let (whole, id) = first.next("whole");
    assert_eq!(whole["panels"][0]["title"], json!("Throughput"));
    let mut others: Vec<Stream> = (0..5).map(|_| Stream::open(serving.address, "")).collect();
    others.iter_mut().for_each(|other| drop(other.next("whole")));
    drop(first);
    (0..6).for_each(|n| run.second(200 + n));
    for other in &mut others {
        let (more, _) = other.next("more");
        assert!(!more["points"].as_array().unwrap().is_empty());
    }
    let mut slept = Stream::open(serving.address, &format!("Last-Event-ID: {id}\r\n"));
    let mut tps: Vec<f64> = Vec::new();
    while tps.last() != Some(&205.0) {
        let (more, _) = slept.next("more");
        let of_first = more["points"].as_array().unwrap().iter().filter(|point| point[0] == json!(0));
        tps.extend(of_first.filter_map(|point| point[3].as_f64()));
    }
    assert_eq!(tps[tps.len() - 6..], [200.0, 201.0, 202.0, 203.0, 204.0, 205.0]);
    let n_had = whole["panels"][0]["lines"][0]["points"].as_array().unwrap().len();
    assert_eq!(n_had + tps.len(), 10, "what it had does not come again");
    let mut other_process = Stream::open(serving.address, "Last-Event-ID: 1-1-1-1\r\n");
    assert!(other_process.next("whole").0["panels"].is_array());
}

#[test]
fn a_page_does_not_continue_with_the_points_of_another_follower() {
    let place = Place::new();
    let mut run = Run::begin(&place, 60);
    (0..4).for_each(|_| run.second(100));
    let patience = ConnectionBounds { linger: Duration::from_millis(50), ..ConnectionBounds::default() };
    let serving = serve::start(ServeOptions { patience, ..place.options() }, MAKERS).unwrap();
    let mut first = Stream::open(serving.address, "");
    let (_, id) = first.next("whole");
    drop(first);
    // By then nobody follows the run any more.
    std::thread::sleep(Duration::from_secs(2));
    (0..6).for_each(|_| run.second(200));
    let (whole, _) = Stream::open(serving.address, &format!("Last-Event-ID: {id}\r\n")).next("whole");
    let n_points = whole["panels"][0]["lines"][0]["points"].as_array().unwrap().len();
    assert!(n_points >= 9, "{n_points}");
}

#[test]
fn each_page_has_a_place_until_too_many_are_open_and_the_next_hears_so() {
    let place = Place::new();
    let _run = Run::begin(&place, 60);
    let serving = place.serve();
    let open = |host: usize| {
        let mut stream = Stream::of(serving.address, &format!("now/events?lane={host}"), "");
        let (data, _) = stream.next("");
        (stream, data)
    };
    // Those that are closed make room.
    (0..20).for_each(|host| assert_eq!(open(host).1["id"], json!("now"), "{host}"));
    let opened: Vec<(Stream, serde_json::Value)> = (100..116).map(open).collect();
    assert!(opened.iter().all(|(_, data)| data["id"] == json!("now")));
    let (_, refused) = open(200);
    assert!(refused["words"].as_str().unwrap().starts_with("Too many pages"), "{refused}");
}

#[test]
fn a_server_that_ends_with_a_run_sends_its_report_before_and_says_nothing_of_other_runs() {
    let place = Place::new();
    let (run, _other) = (Run::begin(&place, 60), Run::begin_in(&place, "other", 60));
    let makers = Makers {
        result: |dir, links| {
            std::thread::sleep(Duration::from_secs(3));
            (MAKERS.result)(dir, links)
        },
        ..MAKERS
    };
    let serving =
        serve::start(ServeOptions { companion: Some("now".to_string()), ..place.options() }, makers).unwrap();
    let address = serving.address;
    let (mut own, mut other) = (Stream::open(address, ""), Stream::of(address, "other/events", ""));
    own.next("part");
    other.next("part");
    let browser = std::thread::spawn(move || {
        let (ended, _) = own.next("ended");
        drop(own);
        get(address, ended["to"].as_str().unwrap(), "")
    });
    drop(run);
    // The page has heard that nobody measures any more, and the report is being drawn.
    std::thread::sleep(Duration::from_secs(2));
    serving.end_with_report(Duration::from_secs(10));
    let report = browser.join().unwrap();
    assert!(report.contains("report of now"), "{report}");
    let mut of_other = String::new();
    // The connection ends with the server.
    let _ = other.lines.read_to_string(&mut of_other);
    assert!(!of_other.contains("event: ended"), "{of_other}");
}

#[test]
fn an_hour_with_ten_pages_needs_no_more_memory_than_its_first_minutes() {
    // In a process of its own: other tests of this one need memory at the same time.
    let own = std::env::current_exe().unwrap();
    let output =
        std::process::Command::new(own).args(["--exact", "live::an_hour", "--ignored"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "another test runs it alone"]
fn an_hour() {
    let place = Place::new();
    let mut run = Run::begin(&place, 7200);
    (0..600).for_each(|_| run.second(100));
    let serving = place.serve();
    let mut stream = Stream::open(serving.address, "");
    stream.next("whole");
    for _ in 0..9 {
        let mut other = Stream::open(serving.address, "").lines;
        // Ends with the server.
        std::thread::spawn(move || std::io::copy(&mut other, &mut std::io::sink()));
    }
    let memory = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    (600..1800).for_each(|_| run.second(100));
    stream.wait_for("1799.5");
    let early = memory();
    (1800..5400).for_each(|_| run.second(100));
    stream.wait_for("5399.5");
    let late = memory();
    assert!(late < early + (24 << 20), "{early} bytes after 1,800 s, {late} after 5,400 s");
}
