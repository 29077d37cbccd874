//! `--metrics`: a real Prometheus scrapes the running experiment, and knows afterwards what the records say.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Pg, unused_port};

use crate::tool::{Place, tell, wait_until};

/// Where it may be; Debian's package is `prometheus`.
const PROGRAMS: [&str; 2] = ["/usr/bin/prometheus", "/usr/local/bin/prometheus"];

struct Prometheus {
    process: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Prometheus {
    /// Scrapes what listens at `target` twice a second. Returns once it answers.
    fn start(place: &Place, target: u16) -> Option<Prometheus> {
        let named = std::env::var_os("PGDYNO_PROMETHEUS").map(PathBuf::from);
        let program = named.into_iter().chain(PROGRAMS.map(PathBuf::from)).find(|path| path.exists())?;
        let config = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\n\
             scrape_configs: [{{job_name: pgdyno, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
        );
        let config = place.write("prometheus.yml", &config);
        let port = unused_port();
        let process = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", place.path("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.path("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { process, port };
        wait_until("Prometheus", || !prometheus.ask("vector(1)").is_empty());
        Some(prometheus)
    }

    /// The values of a query, with their labels; none while it cannot answer.
    fn ask(&self, query: &str) -> Vec<(Value, f64)> {
        let quoted: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let Some(body) = get(self.port, &format!("/api/v1/query?query={quoted}")) else { return Vec::new() };
        let Ok(answer) = serde_json::from_str::<Value>(&body) else { return Vec::new() };
        let results = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        let value = |one: &Value| one["value"][1].as_str().unwrap().parse().unwrap();
        results.iter().map(|one| (one["metric"].clone(), value(one))).collect()
    }

    /// The only value of a query.
    fn one(&self, query: &str) -> f64 {
        match self.ask(query).as_slice() {
            [(_, value)] => *value,
            other => panic!("{query}: {other:?}"),
        }
    }
}

/// The body of an answer of HTTP/1.0.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string())
}

#[test]
fn prometheus_sees_phases_transactions_and_latencies_of_the_running_experiment() {
    let (place, pg) = (Place::new(), Pg::shared());
    let port = unused_port();
    let Some(prometheus) = Prometheus::start(&place, port) else {
        return tell("skipped: no prometheus (Debian: prometheus)");
    };
    let server = pg.admin_target(&pg.database());
    let address = format!("127.0.0.1:{port}");
    let args = "run -w tpcb-select -s 1 -c 2 --pace=500/s --measure 8s --ramp-up 1s --repeats 1 --set prepare.settle=false -o out \
                --name seen";
    let args: Vec<&str> =
        args.split_whitespace().chain(["--metrics", &address, "--server", &server]).collect();
    let running = place.start(place.command(&args));
    wait_until("the measurement", || {
        !prometheus.ask("pgdyno_phase{pgdyno_phase=\"measure\"} == 1").is_empty()
    });
    let starts = prometheus.ask("pgdyno_phase_start_timestamp_seconds{phase=\"measure\"}");
    let [(labels, start_s)] = starts.as_slice() else { panic!("{starts:?}") };
    assert_eq!((&labels["run"], &labels["case"]), (&"1".into(), &"2 clients".into()));
    assert_eq!(prometheus.one("pgdyno_run"), 1.0);
    let text = get(port, "/metrics").unwrap();
    assert!(
        text.ends_with("# EOF\n") && text.contains("pgdyno_experiment_info{experiment=\"seen\"} 1"),
        "{text}"
    );
    let ended = running.wait().expect(0);
    assert!(ended.stderr.contains(&format!("metrics: http://{address}/metrics")), "{}", ended.stderr);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it ends with the experiment");

    let run = place.first_run("out");
    let measure = run.record.phases.iter().find(|phase| phase.phase.as_str() == "measure").unwrap();
    assert!((start_s - measure.start_unix_ns as f64 / 1e9).abs() < 0.5, "{start_s} {measure:?}");
    let committed: u64 = run.intervals.iter().map(|interval| interval.counts.committed).sum();
    let seen = prometheus.one("max_over_time(pgdyno_transactions_total[5m])");
    assert!(seen > 0.0 && seen <= committed as f64, "{seen} of {committed}");
    let counted = prometheus.one("max_over_time(pgdyno_transaction_latency_seconds_count[5m])");
    let all = prometheus.one("max_over_time(pgdyno_transaction_latency_seconds_bucket{le=\"+Inf\"}[5m])");
    assert!(counted == seen && all == seen, "{counted} {all} {seen}");
    let below = prometheus.one("max_over_time(pgdyno_transaction_latency_seconds_bucket{le=\"60.0\"}[5m])");
    assert_eq!(below, seen, "no transaction took a minute");
    assert!(prometheus.one("max_over_time(up[5m])") == 1.0);
}

#[test]
fn metrics_of_a_duet_have_both_sides_and_its_rounds_are_compared_when_it_is_stopped() {
    let (place, port) = (Place::with_binaries(&["18"]), unused_port());
    let address = format!("127.0.0.1:{port}");
    let args = "compare --duet --rounds 2 --slice 150 --guard 15 --measure 4s --ramp-up 0s -w tpcb-select -s 1 -c 2 \
                --set prepare.settle=false --a server.settings.jit=on --b server.settings.jit=off \
                -o out --quiet --metrics";
    let running = place.start(place.command(&args.split_whitespace().chain([&*address]).collect::<Vec<_>>()));
    let value = |name: &str| -> Option<f64> {
        let text = get(port, "/metrics")?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    wait_until("the end of the first round", || {
        value("pgdyno_runs_ended_total{state=\"completed\"}") == Some(2.0)
    });
    wait_until("the second round", || {
        let text = get(port, "/metrics").unwrap_or_default();
        ["0", "1"].iter().all(|lane| text.contains(&format!("pgdyno_run{{lane=\"{lane}\",case=")))
    });
    for side in ["0", "1"] {
        let committed = value(&format!("pgdyno_transactions_total{{lane=\"{side}\"}}"));
        assert!(committed.is_some_and(|n| n > 0.0), "{side}: {committed:?}");
    }
    assert!(value("pgdyno_last_run_transactions_per_second{lane=\"0\"}").is_none(), "it had its slices only");
    wait_until("the first round on disk", || place.path("out/duet.json").exists());
    running.signal(Signal::SIGINT);
    let ended = running.wait().expect(2);
    assert!(ended.stderr.contains("1 of 2 rounds were measured"), "{}", ended.stderr);
    assert!(ended.stdout.contains("jit off"), "{}", ended.stdout);
    assert_eq!(store::read_duet(&place.path("out")).unwrap().unwrap().rounds.len(), 1);
    assert!(place.path("out/report.html").exists());
    place.expect_clean();
}
