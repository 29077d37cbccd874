//! Transaction logs, compared with those of genuine pgbench.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use model::load::{LoadSpec, TransactionLog, Window};

use crate::cluster::Cluster;
use crate::driven::{drive, load, try_drive};

/// Gives the load a log in a new directory.
pub(crate) fn logged(
    spec: &mut LoadSpec,
    aggregate_interval_s: u32,
    sampling_rate: f64,
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    spec.log = Some(TransactionLog {
        prefix: dir.path().join("log").display().to_string(),
        sampling_rate,
        aggregate_interval_s,
        failures_detailed: true,
        pid: Some(77),
    });
    dir
}

/// The lines of one of its files.
pub(crate) fn lines(dir: &tempfile::TempDir, name: &str) -> Vec<String> {
    fs::read_to_string(dir.path().join(name)).unwrap().lines().map(str::to_string).collect()
}

/// How many transactions each line of an aggregated log has.
fn transactions(log: &[String]) -> Vec<u64> {
    log.iter().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

/// A line with its times taken out.
fn shape(line: &str) -> String {
    let fields: Vec<&str> = line.split(' ').collect();
    let keep = |(i, field): (usize, &&str)| match i {
        2 if field.parse::<u64>().is_ok() => "TIME".to_string(),
        4 | 5 => format!("{}", field.parse::<u64>().is_ok()),
        _ => (*field).to_string(),
    };
    fields.iter().enumerate().map(keep).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_transaction_has_the_line_that_pgbench_writes() {
    let cluster = Cluster::shared();
    let source = "\\set x random(1, 3)\nSELECT :x;";
    let mut spec = load(&cluster.conninfo(), &[source, "SELECT 2;"], 6);
    (spec.n_clients, spec.n_threads) = (1, 1);
    let dir = logged(&mut spec, 0, 1.0);
    drive(spec.clone());
    let ours: Vec<String> = lines(&dir, "log.77").iter().map(|line| shape(line)).collect();
    let files = [cluster.file("l0", source), cluster.file("l1", "SELECT 2;")];
    let theirs = cluster_log(&cluster, &["-t", "6", "-f", &files[0], "-f", &files[1], "--random-seed=42"]);
    assert_eq!(ours, theirs.iter().map(|line| shape(line)).collect::<Vec<_>>());

    // Two threads, retries and lag.
    (spec.n_clients, spec.n_threads, spec.max_tries) = (2, 2, 3);
    spec.pace = "1000/s".parse().unwrap();
    let dir = logged(&mut spec, 0, 1.0);
    drive(spec);
    for (name, client) in [("log.77", "0"), ("log.77.1", "1")] {
        let lines = lines(&dir, name);
        assert_eq!(lines.len(), 6);
        for (i, line) in lines.iter().enumerate() {
            let fields: Vec<&str> = line.split(' ').collect();
            assert_eq!((fields.len(), fields[0], fields[1]), (8, client, &*(i + 1).to_string()), "{line}");
            let number = |i: usize| fields[i].parse::<u64>().unwrap();
            assert!(number(2) >= number(6) && number(7) == 0, "{line}");
        }
    }
}

/// Runs genuine pgbench with a log and gives its lines.
fn cluster_log(cluster: &Cluster, args: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let prefix = format!("--log-prefix={}/log", dir.path().display());
    let args: Vec<&str> = ["-n", "-l", &prefix].iter().chain(args).copied().collect();
    let (_, stderr) = cluster.pgbench(&args);
    let file = fs::read_dir(dir.path()).unwrap().next().unwrap_or_else(|| panic!("{stderr}")).unwrap();
    fs::read_to_string(file.path()).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn samples_take_the_transactions_that_pgbench_takes() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 200);
    let dir = logged(&mut spec, 0, 0.1);
    drive(spec);
    let file = cluster.file("sample", "SELECT 1;");
    let theirs =
        cluster_log(&cluster, &["-t", "200", "-f", &file, "--random-seed=42", "--sampling-rate=0.1"]);
    let numbers = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_string()).collect()
    };
    let ours = numbers(&lines(&dir, "log.77"));
    assert!((5..60).contains(&ours.len()));
    assert_eq!(ours, numbers(&theirs));
}

#[test]
fn failures_and_skipped_slots_have_their_lines() {
    let cluster = Cluster::shared();
    cluster
        .session()
        .execute(
            "create or replace function fail(state text) returns int language plpgsql as
             $$ begin if state <> '' then raise 'no' using errcode = state; end if; return 1; end $$",
        )
        .unwrap();
    let source = "\\set n :n + 1\n\\if :n = 1\nSELECT fail('40001');\n\\elif :n = 2\nSELECT fail('40P01');\n\\endif\n\\sleep 60 ms";
    let mut spec = load(&cluster.conninfo(), &[source], 12);
    spec.defines.insert("n".into(), "0".into());
    spec.pace = "constant 100/s".parse().unwrap();
    spec.latency_limit_ns = Some(50_000_000);
    let dir = logged(&mut spec, 0, 1.0);
    let counts = drive(spec.clone()).done.counts;
    let lines_ = lines(&dir, "log.77");
    let words: Vec<&str> = lines_.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(words[..2], ["serialization", "deadlock"]);
    assert_eq!(words.iter().filter(|word| **word == "skipped").count() as u64, counts.skipped);
    assert!(counts.skipped > 0 && lines_.len() == 12, "{lines_:?}");

    spec.log.as_mut().unwrap().failures_detailed = false;
    drive(spec);
    assert_eq!(lines(&dir, "log.77")[0].split(' ').nth(2), Some("failed"));
}

#[test]
fn the_ramp_up_is_not_logged() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["\\sleep 1 ms"], 1);
    spec.transactions_per_client = None;
    spec.pace = "constant 50/s".parse().unwrap();
    spec.window = Window { ramp_up_s: 1, measure_s: 1, grace_s: 1 };
    let dir = logged(&mut spec, 0, 1.0);
    let driven = drive(spec.clone());
    let measured: u64 =
        driven.intervals.iter().filter(|i| i.t >= 1).map(|interval| interval.counts.committed).sum();
    assert!((45..=55).contains(&measured), "{measured}");
    assert_eq!(lines(&dir, "log.77").len() as u64, measured);
    let dir = logged(&mut spec, 1, 1.0);
    drive(spec);
    let n = transactions(&lines(&dir, "log.77"));
    assert!(n.len() <= 2 && n.iter().sum::<u64>() <= 55, "{n:?}");
}

#[test]
fn aggregates_are_those_of_pgbench() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["\\sleep 10 ms"], 1);
    spec.transactions_per_client = None;
    spec.pace = "constant 50/s".parse().unwrap();
    spec.window = Window { ramp_up_s: 0, measure_s: 3, grace_s: 1 };
    let dir = logged(&mut spec, 1, 1.0);
    drive(spec);
    let file = cluster.file("aggregate", "\\sleep 10 ms");
    // pgbench draws its times and does not write the interval in which it ends: a second more, and the same numbers each time.
    let theirs = cluster_log(
        &cluster,
        &["-T", "4", "-R", "50", "-f", &file, "--aggregate-interval=1", "--random-seed=1"],
    );
    let ours = lines(&dir, "log.77");
    for log in [&ours, &theirs] {
        assert!((3..=5).contains(&log.len()), "{log:?}");
        let n = transactions(log);
        assert!((25..80).contains(&n[1]), "{log:?}");
        for line in log {
            assert_eq!(line.split(' ').count(), 15, "{line}");
        }
    }
    let fields: Vec<f64> = ours[1].split(' ').map(|field| field.parse().unwrap()).collect();
    let (n, sum, squares, min, max) = (fields[1], fields[2], fields[3], fields[4], fields[5]);
    assert!((48.0..=52.0).contains(&n), "{}", ours[1]);
    assert!(min >= 10_000.0 && min * n <= sum && sum <= max * n && squares >= sum * sum / n * 0.999);
}

/// A file system of 64 KiB in a directory, until this is dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    /// `None` where this user cannot mount, or nobody may, as in a container.
    fn mount(dir: &Path) -> Option<SmallDisk<'_>> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The driver may still have the log open.
        Command::new("umount").arg("--lazy").arg(self.0).status().ok();
    }
}

#[test]
fn a_full_disk_ends_the_load_with_an_error() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    spec.transactions_per_client = None;
    spec.window = Window { ramp_up_s: 0, measure_s: 30, grace_s: 1 };
    let dir = logged(&mut spec, 0, 1.0);
    let Some(_small) = SmallDisk::mount(dir.path()) else { return };
    let begun = std::time::Instant::now();
    let error = try_drive(spec).err().unwrap();
    assert!(error.starts_with("could not write to logfile \"") && error.contains("No space left"), "{error}");
    assert!(begun.elapsed().as_secs() < 10);
}
