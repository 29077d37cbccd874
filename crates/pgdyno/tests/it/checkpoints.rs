//! Checkpoints as an experiment asks for them, and the end of a run before the WAL's device is full.

use std::fs;
use std::process::Command;

use model::experiment::plan::RunState;
use model::run::phase::Phase;
use model::telemetry::event::EventKind;

use crate::tool::{Place, SMALL, tell, wait_until};

const RUN: &str =
    "run --bin-dir /usr/lib/postgresql/15/bin -c 4 --scale 2 --repeats 1 --set prepare.settle=false";

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args: Vec<&str> = RUN.split_whitespace().chain(["--set", SMALL]).collect();
    args.extend(more);
    args
}

#[test]
fn the_wal_of_the_ramp_up_decides_its_size_and_two_checkpoints_lie_in_the_measure() {
    let place = Place::new();
    // The same amount of WAL each second on any machine, and no full-page images after a checkpoint.
    place.write("fill.sql", "SELECT pg_logical_emit_message(true, 'fill', repeat('x', 100000));\n");
    let load = ["-f", "fill.sql", "--set", "workload.data=\"none\"", "--set", "workload.pace=constant 90/s"];
    let policy = ["--set", "run.wal=[\"two-checkpoints\", \"no-checkpoint\"]"];
    let run = args(&[&load[..], &policy, &["--ramp-up", "5s", "--measure", "12s", "-o", "out"]].concat());
    place.run(&run).expect(0);
    let data = store::load_experiment(&place.path("out")).unwrap();
    for run in &data.runs {
        let detail = &run.record.phase(Phase::RampUp).unwrap().detail;
        let rate: f64 = detail["wal_mb_per_s"].parse().unwrap();
        assert!((4.5..18.0).contains(&rate), "{detail:?}");
        assert!(detail["max_wal_size_for_no_checkpoint"].ends_with("MB"), "{detail:?}");
        let measure = run.record.phase(Phase::Measure).unwrap();
        let within = measure.start_unix_ns..measure.end_unix_ns;
        let count = |kind: EventKind| {
            run.events.iter().filter(|event| event.kind == kind && within.contains(&event.t_unix_ns)).count()
        };
        let timeout = run.record.server.as_ref().unwrap().setting("checkpoint_timeout").unwrap();
        if run.record.case.wal == model::experiment::os::WalPolicy::TwoCheckpoints {
            assert!(detail["changed"].starts_with("max_wal_size = "), "{detail:?}");
            assert!(count(EventKind::CheckpointStart) >= 2, "{:?}", run.events);
        } else {
            assert_eq!((count(EventKind::CheckpointStart), timeout), (0, "5min"), "{:?}", run.events);
        }
    }
    place.expect_clean();
}

/// A small file system mounted on a directory, unmounted when dropped.
struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn small_file_system(place: &Place, megabytes: u64) -> Option<Mount> {
    let (image, dir) = (place.path("image"), place.path("wal"));
    fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
    fs::create_dir(&dir).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).status();
    let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir).status();
    let is_there =
        |done: std::io::Result<std::process::ExitStatus>| done.is_ok_and(|status| status.success());
    (is_there(made) && is_there(mounted)).then_some(Mount(dir))
}

#[test]
fn a_run_ends_cleanly_before_the_device_of_its_wal_is_full() {
    let place = Place::new();
    let Some(mount) = small_file_system(&place, 900) else {
        return tell("skipped: file systems in files cannot be mounted here");
    };
    let wal = format!("server.wal_directory={}", mount.0.display());
    place.write("fill.sql", "SELECT pg_logical_emit_message(true, 'fill', repeat('x', 1000000));\n");
    let more = ["--set", "server.settings.max_wal_size=256MB", "--set", &wal];
    let load = ["-f", "fill.sql", "--set", "workload.data=\"none\"", "--set", "workload.pace=constant 50/s"];
    let run = args(&[&more[..], &load, &["--ramp-up", "0s", "--measure", "60s", "-o", "out"]].concat());
    let running = place.start(place.command(&run));
    let intervals = place.path("out/runs/0001/intervals.jsonl");
    wait_until("the load", || intervals.metadata().is_ok_and(|facts| facts.len() > 0));
    // Another program uses up the space.
    let left_bytes = server::cluster::space::free_bytes(&mount.0).unwrap() - (180 << 20);
    let length = format!("{left_bytes}");
    let filled = Command::new("fallocate").args(["-l", &length]).arg(mount.0.join("somebody")).status();
    assert!(filled.unwrap().success());
    running.wait().expect(1);
    let data = store::load_experiment(&place.path("out")).unwrap();
    let record = &data.runs[0].record;
    assert_eq!(record.state, RunState::Partial);
    assert!(record.reason.starts_with("stopped before the device of the WAL is full: "), "{}", record.reason);
    assert!(record.done.is_some(), "the driver told the whole story");
    assert!(!data.runs[0].events.iter().any(|event| event.kind == EventKind::ServerTrouble));
    place.expect_clean();
}
