//! A signal in each phase of an experiment, one after the other: it ends, or stands still for a while. Phases are distinguished by what pgdyno and its server
//! write, and by the processes that there are: no moment is left to chance.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::harm::{Victim, expect_made, named};
use crate::resume::{completed, expect_exactly_the_plan, plan_of};
use crate::tool::{PACE, Place, Running, SMALL, expect_sound, history_growth, tell};

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
type Phase = (&'static str, Seen);

/// Phases in their order, each with how it is recognized.
const PHASES: [Phase; 12] = [
    ("initdb", |scene| scene.runs("initdb")),
    ("load", |scene| scene.running.has_said("loading scale 1")),
    ("snapshot", |scene| scene.in_cluster("snapshots/.loaded.partial").exists()),
    ("restore", |scene| scene.reads("pgdyno-cluster.json", "\"restoring\"")),
    // It lasts some hundredths of a second: the file is looked at first, because looking through processes takes as long.
    ("start", |scene| scene.reads("data/postmaster.pid", "starting") && scene.runs("postgres")),
    ("vacuum and checkpoint", |scene| {
        scene.has_begun() && scene.reads("data/postmaster.pid", "ready") && !scene.runs("pgdyno")
    }),
    ("connect", |scene| scene.has_begun() && scene.runs("pgdyno")),
    ("ramp-up", |scene| scene.n_seconds() == 1),
    ("measure", |scene| scene.n_seconds() >= 2 && scene.runs("pgdyno")),
    ("stop", |scene| scene.n_seconds() >= LOAD_S && !scene.runs("pgdyno")),
    // The run may have been recorded by the pgdyno before, whose next one is signalled once it is at work.
    ("record of a run", |scene| {
        n_recorded(scene.place) == 1 && (scene.has_begun() || scene.running.has_said("resuming"))
    }),
    ("report", |scene| n_recorded(scene.place) == 2),
];

/// Phases that end before the first run has a number; and those that end before it has a record.
const BEFORE_LOAD: [&str; 5] = ["restore", "start", "vacuum and checkpoint", "connect", "ramp-up"];
const BEFORE_RECORD: [&str; 2] = ["measure", "stop"];
/// The shortest phase is missed in about one of three experiments next to five other tests.
const N_ATTEMPTS: u32 = 6;

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

/// How many runs have a record that calls them completed. It is asked each millisecond, so nothing is parsed.
fn n_recorded(place: &Place) -> usize {
    let record = |run: &&str| fs::read_to_string(place.path(&format!("out/runs/{run}/run.json")));
    let is_completed = |run: &&str| record(run).is_ok_and(|text| text.contains("\"state\": \"completed\""));
    ["0001", "0002"].into_iter().filter(is_completed).count()
}

/// Whether a phase of the first run passed unseen.
fn is_missed(place: &Place, phase: &str) -> bool {
    BEFORE_LOAD.contains(&phase) && n_recorded(place) > 0
}

/// Begins or resumes the experiment, until it is in a phase; false if that passed unseen.
fn go_on_until(place: &Place, phase: &str, is_there: fn(&Scene) -> bool) -> (Running, bool) {
    let args: &[&str] = match plan_of(place) {
        Some(_) => &["run", "--resume", "out"],
        None => &["run", "phases.toml", "--set", SMALL, PACE, "-o", "out"],
    };
    let left = first_run(place);
    let running = place.start(place.command(args));
    let begun = Instant::now();
    while !is_there(&Scene { place, running: &running, left }) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {phase}");
        if is_missed(place, phase) || BEFORE_RECORD.contains(&phase) && n_recorded(place) > 0 {
            return (running, false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (running, true)
}

/// Signals pgdyno in each phase, and resumes the experiment each time. A short phase that passed unseen next to other work is
/// waited for in another experiment, with those after it.
fn signal_in_each_phase(signal: Signal) {
    let mut ahead = &PHASES[..];
    for _ in 0..N_ATTEMPTS {
        ahead = &ahead[signal_in_order(signal, ahead)..];
    }
    assert!(ahead.is_empty(), "{} passed unseen each time", ahead[0].0);
}

/// Signals one experiment in each of the phases; how many it was signalled in before one passed unseen.
fn signal_in_order(signal: Signal, phases: &[Phase]) -> usize {
    if phases.is_empty() {
        return 0;
    }
    let place = Place::with_binaries(&["18"]);
    place.write("phases.toml", EXPERIMENT);
    let mut kept = BTreeMap::new();
    let mut plan = None;
    for (n, &(phase, is_there)) in phases.iter().enumerate() {
        let (running, is_seen) = go_on_until(&place, phase, is_there);
        running.signal(signal);
        let ended = running.wait();
        let now = completed(&place);
        tell(&format!("{signal} in {phase}: {}, {} runs are done", ended.status, now.len()));
        if !is_seen || is_missed(&place, phase) {
            place.run(&["clean"]).expect(0);
            return n;
        }
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
    phases.len()
}

#[test]
fn killed_in_each_phase_it_leaves_nothing_and_resumes_to_exactly_the_planned_runs() {
    signal_in_each_phase(Signal::SIGKILL);
}

#[test]
fn stopped_in_each_phase_it_leaves_nothing_and_resumes_to_exactly_the_planned_runs() {
    signal_in_each_phase(Signal::SIGTERM);
}

/// Longer than a tick of telemetry, and shorter than the silence after which a driver is given up (`harm`).
const STANDSTILL: Duration = Duration::from_millis(1200);

/// Stops `victim` for a while in each phase in which there is one; findings of the first run.
fn stand_still_in_each_phase(victim: Victim, phases: &[&str]) -> Vec<&'static str> {
    let mut ahead: Vec<Phase> = PHASES.into_iter().filter(|(phase, _)| phases.contains(phase)).collect();
    let found = stand_still(victim, &mut ahead);
    // A phase of some hundredths of a second may pass unseen on a busy machine.
    for _ in 1..N_ATTEMPTS {
        if !ahead.is_empty() {
            stand_still(victim, &mut ahead);
        }
    }
    let ran_on: Vec<&str> = ahead.iter().map(|(phase, _)| *phase).collect();
    assert!(ran_on.is_empty(), "{victim:?} ran on in {ran_on:?}");
    found
}

/// Stops `victim` for a while in each phase that is `ahead`, as far as it is seen; findings of the run.
fn stand_still(victim: Victim, ahead: &mut Vec<Phase>) -> Vec<&'static str> {
    let place = Place::with_binaries(&["18"]);
    let longer = EXPERIMENT.replace("measure = \"2s\"", "measure = \"5s\"");
    place.write("phases.toml", &longer.replace("repeats = 2", "repeats = 1"));
    let running = place.start(place.command(&["run", "phases.toml", "--set", SMALL, PACE, "-o", "out"]));
    let begun = Instant::now();
    while !ahead.is_empty() && running.is_alive() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {}", ahead[0].0);
        let scene = Scene { place: &place, running: &running, left: None };
        let now = ahead.iter().position(|(_, is_there)| is_there(&scene));
        if let Some((n, pid)) = now.zip(victim.find(&running)) {
            tell(&format!("{:?}: {victim:?} stands still in {}", begun.elapsed(), ahead.remove(n).0));
            // One that was about to end is gone by now. One that pgdyno gives up fails the run.
            let _ = kill(pid, Signal::SIGSTOP);
            std::thread::sleep(STANDSTILL);
            let _ = kill(pid, Signal::SIGCONT);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    expect_made(running.wait());
    let data = place.results("out");
    let run = &data.runs[0];
    expect_sound(run);
    assert_eq!(history_growth(run), run.record.done.as_ref().unwrap().counts.committed, "{victim:?}");
    place.expect_clean();
    let study = analysis::study(&data);
    study.runs[0].findings.iter().map(|finding| finding.id).collect()
}

#[test]
fn each_process_may_stand_still_for_a_while_in_each_phase() {
    let with_server = ["load", "start", "vacuum and checkpoint", "connect", "ramp-up", "measure", "stop"];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The last phase of two runs is the one after the record of the first.
            let every: Vec<&str> =
                PHASES.iter().map(|(phase, _)| *phase).filter(|&p| p != "report").collect();
            let found = stand_still_in_each_phase(Victim::Pgdyno, &every);
            assert!(found.contains(&"telemetry-missing"), "seconds that it missed are named: {found:?}");
        });
        scope.spawn(|| {
            let found = stand_still_in_each_phase(Victim::Driver, &["connect", "ramp-up", "measure"]);
            assert!(found.contains(&"driver-paused"), "{found:?}");
        });
        scope.spawn(|| stand_still_in_each_phase(Victim::Postmaster, &with_server));
    });
}
