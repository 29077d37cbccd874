//! A target whose machine is watched by an exporter: here a small HTTP server with counters that grow by the clock.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use model::telemetry::reading::TickSource;
use testbed::Pg;

use crate::drivers::files_with;
use crate::tool::Place;

/// A secret, and the line of a request that has it.
const PASSWORD: &str = "ex-s3cret-porter";
const CREDENTIALS: &str = "\r\nAuthorization: Basic cHJvbTpleC1zM2NyZXQtcG9ydGVy\r\n";

/// Answers each request with text in node_exporter's format, until dropped.
struct Exporter {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    fn start() -> Exporter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let mut stream = stream.unwrap();
                let mut request = vec![0; 4096];
                let n = stream.read(&mut request).unwrap_or(0);
                let is_let_in = String::from_utf8_lossy(&request[..n]).contains(CREDENTIALS);
                let body = if is_let_in { text(began.elapsed().as_secs_f64()) } else { String::new() };
                let status = if is_let_in { "200 OK" } else { "401 Unauthorized" };
                let head = format!("HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Exporter { port, stop, thread: Some(thread) }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(std::net::TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two processors, half idle, a tenth of their time stolen; a disk that takes 10 MB/s, a network that sends 2 MB/s.
fn text(t: f64) -> String {
    let mut text = "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n".to_string();
    for cpu in 0..2 {
        for (mode, share) in [("idle", 0.5), ("user", 0.3), ("system", 0.1), ("steal", 0.1)] {
            text +=
                &format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {}\n", 1000.0 + share * t);
        }
    }
    text += &format!("node_disk_written_bytes_total{{device=\"nvme0n1\"}} {}\n", 5e9 + 10e6 * t);
    text += "rds_read_kiops{instance=\"nvme0n1\"} 0.1\nrds_read_kiops{instance=\"lost\"} nan\n";
    text += &format!("node_disk_writes_completed_total{{device=\"nvme0n1\"}} {}\n", 250.0 * t);
    text += &format!("node_network_receive_bytes_total{{device=\"eth0\"}} {}\n", 1e6 * t);
    text += &format!("node_network_transmit_bytes_total{{device=\"eth0\"}} {}\n", 2e6 * t);
    text += "pg_up 1\n";
    text
}

#[test]
fn the_machine_of_a_target_is_seen_through_its_exporter() {
    let (place, pg, exporter) = (Place::new(), Pg::shared(), Exporter::start());
    let url = pg.admin_target(&pg.database());
    let file = format!(
        "[experiment]\nname = \"x\"\nrepeats = 1\n[[target]]\nname = \"far\"\nurl = \"{url}\"\ntelemetry = \
         \"http://127.0.0.1:{}/metrics\"\n[target.exporter]\nuser = \"prom\"\npassword_env = \"EXPORTER_PASSWORD\"\n\
         [target.exporter.metrics]\n\"disk.reads\" = {{name = \"rds_read_kiops\", instance = \"instance\", scale = \
         1000, per_second = true}}\n[workload]\nscale = 1\nkind = \"tpcb-select\"\npace = \"100/s\"\n[run]\nramp_up = \"1s\"\n\
         measure = \"3s\"\n[prepare]\nprewarm = false\nsettle = false\n",
        exporter.port
    );
    let file = place.write("x.toml", &file);
    let args = ["run", file.to_str().unwrap(), "-o", "out", "--json"];
    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("no variable `EXPORTER_PASSWORD`"), "{}", refused.stderr);
    let mut command = place.command(&args);
    command.env("EXPORTER_PASSWORD", PASSWORD);
    let ended = place.start(command).wait().expect(0);
    let run = place.first_run("out");
    assert!(run.ticks.iter().filter(|tick| tick.source == TickSource::Remote).count() >= 3);
    assert!(
        !run.record.telemetry_unavailable.contains_key("remote"),
        "{:?}",
        run.record.telemetry_unavailable
    );
    let study: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let seen = |name: &str| study["runs"][0]["resources"]["remote"][name].as_f64().unwrap_or(f64::NAN);
    // The exporter's clock is read a little before ours.
    for (name, expected) in [
        ("n_cpus", 2.0),
        ("busy", 0.4),
        ("idle", 0.5),
        ("steal", 0.1),
        ("disk_write_bytes_per_s", 10e6),
        ("disk_reads_per_s", 100.0),
        ("disk_writes_per_s", 250.0),
        ("sent_bytes_per_s", 2e6),
    ] {
        assert!((seen(name) / expected - 1.0).abs() < 0.15, "{name}: {} is not {expected}", seen(name));
    }
    assert!(place.path("out/runs/0001/remote.prom.zst").metadata().unwrap().len() > 100);
    assert!(!place.path("out/runs/0001/remote.prom").exists());
    let series = study["runs"][0]["series"].as_array().unwrap();
    for (panel, name) in
        [("remote_disk", "nvme0n1 writes"), ("remote_net", "eth0 received"), ("remote_cpu", "steal")]
    {
        assert!(series.iter().any(|s| s["panel"] == panel && s["name"] == name), "{panel} {name} is drawn");
    }
    let csv = std::fs::read_to_string(place.path("out/runs.csv")).unwrap();
    let (head, row) = csv.trim_end().split_once("\r\n").unwrap();
    let column = head.split(',').position(|name| name == "remote_disk_writes_per_s").unwrap();
    // Fields before it have no commas of their own.
    let writes: f64 = row.split(',').nth(column).unwrap().parse().unwrap();
    assert!((writes / 250.0 - 1.0).abs() < 0.15, "{row}");
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("Remote steal"), "the report shows it as that of another machine");
    for secret in [PASSWORD, CREDENTIALS.trim()] {
        let mut found = Vec::new();
        files_with(&place.path("out"), secret, &mut found);
        assert!(found.is_empty() && !ended.stderr.contains(secret), "{found:?}");
    }
    place.expect_clean();
}
