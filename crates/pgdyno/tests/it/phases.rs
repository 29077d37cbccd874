//! A signal in each phase of an experiment, one after the other. Phases are distinguished by what pgdyno and its server
//! write, and by the processes that there are: no moment is left to chance.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harm::named;
use crate::resume::{completed, expect_exactly_the_plan, plan_of};
use crate::tool::{Place, Running, tell};

/// Longest wait for a phase to begin.
const PATIENCE: Duration = Duration::from_secs(60);

const EXPERIMENT: &str = "[experiment]\nname = \"phases\"\nrepeats = 2\n[server]\nversion = \"18\"\n[workload]\nscale = 1\n\
                          clients = 2\n[run]\nramp_up = \"1s\"\nmeasure = \"2s\"\ngrace = \"1s\"\n\
                          [prepare]\nsettle = false\nprewarm = false\n";
/// Seconds of a run's load.
const LOAD_S: usize = 3;

/// A running pgdyno, and its directories.
struct Scene<'a> {
    place: &'a Place,
    running: &'a Running,
    /// The directory that an earlier pgdyno left of the first run.
    left: Option<u64>,
}

/// Whether the phase is under way.
type Seen = fn(&Scene) -> bool;

/// Phases in their order, each with how it is recognized.
const PHASES: [(&str, Seen); 12] = [
    ("initdb", |scene| scene.runs("initdb")),
    ("load", |scene| scene.running.has_said("loading scale 1")),
    ("snapshot", |scene| scene.in_cluster("snapshots/.loaded.partial").exists()),
    ("restore", |scene| scene.reads("pgdyno-cluster.json", "\"restoring\"")),
    ("start", |scene| scene.runs("postgres") && scene.reads("data/postmaster.pid", "starting")),
    ("vacuum and checkpoint", |scene| {
        scene.has_begun() && scene.reads("data/postmaster.pid", "ready") && !scene.runs("pgdyno")
    }),
    ("connect", |scene| scene.runs("pgdyno")),
    ("ramp-up", |scene| scene.n_seconds() == 1),
    ("measure", |scene| scene.n_seconds() == 2),
    ("stop", |scene| scene.n_seconds() >= LOAD_S && !scene.runs("pgdyno")),
    ("record of a run", |scene| completed(scene.place).len() == 1),
    ("report", |scene| completed(scene.place).len() == 2),
];

impl Scene<'_> {
    /// Whether pgdyno has a process of this name below it.
    fn runs(&self, name: &str) -> bool {
        !named(self.running, name).is_empty()
    }

    /// A path in the only cluster.
    fn in_cluster(&self, name: &str) -> PathBuf {
        let entries = fs::read_dir(self.place.path("cache/clusters")).into_iter().flatten().flatten();
        let cluster = entries.map(|entry| entry.path()).find(|path| path.is_dir());
        cluster.unwrap_or_default().join(name)
    }

    /// Whether a file of the cluster has these words.
    fn reads(&self, name: &str, words: &str) -> bool {
        fs::read_to_string(self.in_cluster(name)).is_ok_and(|text| text.contains(words))
    }

    /// Whether the first run was begun by this pgdyno.
    fn has_begun(&self) -> bool {
        let dir = first_run(self.place);
        dir.is_some() && dir != self.left
    }

    /// Seconds of the first run's load that this pgdyno has written.
    fn n_seconds(&self) -> usize {
        let text = fs::read_to_string(self.place.path("out/runs/0001/intervals.jsonl"));
        text.map_or(0, |text| if self.has_begun() { text.lines().count() } else { 0 })
    }
}

/// The identity of the first run's directory.
fn first_run(place: &Place) -> Option<u64> {
    fs::metadata(place.path("out/runs/0001")).ok().map(|facts| facts.ino())
}

/// Begins or resumes the experiment, until it is in a phase.
fn go_on_until(place: &Place, phase: &str, is_there: fn(&Scene) -> bool) -> Running {
    let args: &[&str] = match plan_of(place) {
        Some(_) => &["run", "--resume", "out"],
        None => &["run", "phases.toml", "-o", "out"],
    };
    let left = first_run(place);
    let running = place.start(place.command(args));
    let begun = Instant::now();
    while !is_there(&Scene { place, running: &running, left }) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {phase}");
        std::thread::sleep(Duration::from_millis(1));
    }
    running
}

/// Signals pgdyno in each phase, and resumes the experiment each time.
fn signal_in_each_phase(signal: Signal) {
    let place = Place::with_binaries(&["18"]);
    place.write("phases.toml", EXPERIMENT);
    let mut kept = BTreeMap::new();
    let mut plan = None;
    for (n, (phase, is_there)) in PHASES.into_iter().enumerate() {
        let running = go_on_until(&place, phase, is_there);
        running.signal(signal);
        let ended = running.wait();
        let now = completed(&place);
        tell(&format!("{signal} in {phase}: {}, {} runs are done", ended.status, now.len()));
        if signal != Signal::SIGKILL {
            // The last second of an experiment may be too late to stop it.
            assert!(matches!(ended.code(), Some(0 | 2)), "{phase}: {ended:?}");
        }
        assert!(
            kept.iter().all(|(run, bytes)| now.get(run) == Some(bytes)),
            "{phase}: a finished run was touched"
        );
        kept = now;
        plan = plan.or_else(|| plan_of(&place));
        // Either this command or the next run removes what a kill leaves; they take turns.
        if signal != Signal::SIGKILL {
            place.expect_clean();
        } else if n % 2 == 0 {
            place.run(&["clean"]).expect(0);
            place.expect_clean();
        }
        place.run(&["server", "list"]).expect(0);
    }
    place.run(&["run", "--resume", "out"]).expect(0);
    expect_exactly_the_plan(&place, plan.as_ref());
    place.expect_clean();
    let clusters: Vec<_> = fs::read_dir(place.path("cache/clusters")).unwrap().flatten().collect();
    assert_eq!(clusters.len(), 2, "one cluster and its lock: {clusters:?}");
}

#[test]
fn killed_in_each_phase_it_leaves_nothing_and_resumes_to_exactly_the_planned_runs() {
    signal_in_each_phase(Signal::SIGKILL);
}

#[test]
fn stopped_in_each_phase_it_leaves_nothing_and_resumes_to_exactly_the_planned_runs() {
    signal_in_each_phase(Signal::SIGTERM);
}
