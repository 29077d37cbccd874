//! The parent of many drivers, without anything else of pgdyno: what each driver costs it. `bench/drivers_scale.py` runs it.
//!
//!     cargo run --release -p fleet --example coordinator -- PGDYNO SOCKET_DIRECTORY DRIVERS CLIENTS SECONDS PACE
//!
//! Greets that many `PGDYNO drive` behind `sh -c`, all on this machine, and has them offer `SELECT 1` to the server on port
//! 5431 in that directory; CLIENTS and PACE are those of the whole load. Prints one line of JSON: seconds to greet and to be
//! ready, this process's processor seconds until then and during the load, its memory at most, threads and open files,
//! how late each driver began, and what was committed.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use fleet::{Fleet, conduct};
use model::experiment::driver::DriverSpec;
use model::load::drive::DriveOrder;
use model::load::{LoadSpec, Protocol, ScriptSpec, Window};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// How long all may take to be ready, and how long after that they begin.
const READY_TIMEOUT: Duration = Duration::from_secs(110);
const GO_DELAY: Duration = Duration::from_millis(500);

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, directory, n_drivers, n_clients, seconds, pace] = args.as_slice() else {
        bail!("usage: coordinator PGDYNO SOCKET_DIRECTORY DRIVERS CLIENTS SECONDS PACE");
    };
    let window = Window { ramp_up_s: 0, measure_s: seconds.parse()?, grace_s: 5 };
    let target = [("host", directory.as_str()), ("port", "5431"), ("user", "u"), ("dbname", "d")];
    let load = LoadSpec {
        format: model::FORMAT,
        target: target.map(|(key, value)| (key.to_string(), value.to_string())).into(),
        scripts: vec![ScriptSpec {
            name: "one".to_string(),
            tag: "one".to_string(),
            weight: 1,
            source: "SELECT 1;\n".to_string(),
        }],
        protocol: Protocol::Prepared,
        n_clients: n_clients.parse()?,
        n_threads: 1,
        pace: pace.parse().map_err(anyhow::Error::msg)?,
        window,
        seed: 1,
        ..LoadSpec::default()
    };
    let spec = |n: u32| DriverSpec {
        name: format!("d{n}"),
        via: vec!["sh".to_string(), "-c".to_string()],
        program: program.clone(),
        ..DriverSpec::default()
    };
    let specs: Vec<DriverSpec> = (0..n_drivers.parse()?).map(spec).collect();
    let (own, stop) = (PathBuf::from(program), AtomicBool::new(false));
    let begun = Instant::now();
    let mut fleet = Fleet::greeted(&specs, &DriveOrder::new(load, None), &own, &|_| Ok(()), &stop)?;
    let greeted_s = begun.elapsed().as_secs_f64();
    fleet.wait_ready(READY_TIMEOUT, &stop)?;
    let (ready_s, cpu_ready_s) = (begun.elapsed().as_secs_f64(), cpu_s()?);
    let (n_threads, n_files) = (entries("/proc/self/task")?, entries("/proc/self/fd")?);
    let go = SystemTime::now().duration_since(UNIX_EPOCH)? + GO_DELAY;
    let mut n_lines = 0_u64;
    let mut on_line = |_: &_| {
        n_lines += 1;
        Ok(())
    };
    let done = conduct(&mut fleet, go.as_nanos() as u64, window, &mut on_line, &stop)?;
    let late_ns: Vec<u64> = fleet.records().iter().map(|record| record.late_ns).collect();
    let line = serde_json::json!({
        "greeted_s": greeted_s,
        "ready_s": ready_s,
        "cpu_ready_s": cpu_ready_s,
        "cpu_load_s": cpu_s()? - cpu_ready_s,
        "rss_max_kib": getrusage(UsageWho::RUSAGE_SELF)?.max_rss(),
        "n_threads": n_threads,
        "n_files": n_files,
        "n_lines": n_lines,
        "late_ns": late_ns,
        "committed": done.counts.committed,
    });
    writeln!(std::io::stdout(), "{line}").context("cannot print")
}

/// Processor time of this process so far, seconds.
fn cpu_s() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Number of entries of a directory.
fn entries(path: &str) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(path)?.count())
}
