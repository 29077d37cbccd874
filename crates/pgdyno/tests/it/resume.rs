//! Interrupted experiments are resumed: after SIGKILL at any moment, after Ctrl-C, and after a notice that the machine
//! will be taken away. Finished runs are never repeated, and the order and seeds stay the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::experiment::plan::{Plan, RunState};
use nix::sys::signal::Signal;

use crate::tool::{Ended, PACE, Place, SMALL, expect_sound, tell};

/// Short runs on little data: what is tested is what lies between them.
fn experiment(repeats: u32) -> String {
    format!(
        "[experiment]\nname = \"kills\"\nrepeats = {repeats}\n[server]\nversion = \"18\"\n[workload]\nscale = 1\n\
         clients = [1, 2]\n[run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\nprewarm = false\n"
    )
}

/// Seed of the moments of kills; printed, so that a failure can be reproduced.
struct Moments(u64);

impl Moments {
    fn seeded() -> Moments {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
        eprintln!("seed of the moments: {seed}");
        Moments(seed)
    }

    /// Xorshift (Marsaglia 2003).
    fn next(&mut self, from: Duration, to: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from + (to - from).mul_f64((self.0 % 10_000) as f64 / 10_000.0)
    }
}

/// The plan, once it is there.
pub(crate) fn plan_of(place: &Place) -> Option<Plan> {
    store::read_plan(&place.path("out")).ok()
}

/// Record and intervals of each completed run, which must stay the same byte for byte.
pub(crate) fn completed(place: &Place) -> BTreeMap<u32, (Vec<u8>, Vec<u8>)> {
    let records = store::read_records(&place.path("out")).unwrap_or_default();
    let done = records.into_iter().filter(|record| record.state == RunState::Completed);
    done.map(|record| {
        let dir = place.path(&format!("out/runs/{:04}", record.spec.run));
        let bytes = |name: &str| fs::read(dir.join(name)).unwrap();
        (record.spec.run, (bytes("run.json"), bytes("intervals.jsonl")))
    })
    .collect()
}

fn start_or_resume(place: &Place) -> crate::tool::Running {
    let args: &[&str] = match plan_of(place) {
        Some(_) => &["run", "--resume", "out"],
        None => &["run", "kills.toml", "--set", SMALL, PACE, "-o", "out"],
    };
    place.start(place.command(args))
}

/// Kills the experiment `n_kills` times at random moments, resumes it each time, and checks what there is at the end.
fn kill_and_resume(n_kills: u32, repeats: u32, longest_ms: u64) {
    let place = Place::with_binaries(&["18"]);
    place.write("kills.toml", &experiment(repeats));
    place.run(&["init", "--version", "18", "--scale", "1"]).expect(0);
    let mut moments = Moments::seeded();
    let (mut plan, mut kept) = (None, BTreeMap::new());
    for n in 1..=n_kills {
        let running = start_or_resume(&place);
        let moment = moments.next(Duration::from_millis(100), Duration::from_millis(longest_ms));
        std::thread::sleep(moment);
        running.signal(Signal::SIGKILL);
        running.wait();
        let now = completed(&place);
        tell(&format!("kill {n} after {moment:?}: {} runs are done", now.len()));
        assert!(kept.iter().all(|(run, bytes)| now.get(run) == Some(bytes)), "a finished run was touched");
        kept = now;
        plan = plan.or_else(|| plan_of(&place));
    }
    let n_done_before = kept.len();
    start_or_resume(&place).wait().expect(0);
    let now = completed(&place);
    assert!(kept.iter().all(|(run, bytes)| now.get(run) == Some(bytes)), "a finished run was touched");
    tell(&format!("{n_done_before} runs were done before the last resume"));
    expect_exactly_the_plan(&place, plan.as_ref());
    place.expect_clean();
}

/// The runs are those of the plan, each complete, each once; attempts that were cut off are stored next to them.
#[track_caller]
pub(crate) fn expect_exactly_the_plan(place: &Place, plan: Option<&Plan>) {
    let data = place.results("out");
    if let Some(plan) = plan {
        assert_eq!(&data.plan, plan, "the plan stays as it was made");
    }
    let specs: Vec<_> = data.runs.iter().map(|run| run.record.spec.clone()).collect();
    assert_eq!(specs, data.plan.runs);
    data.runs.iter().for_each(expect_sound);
    for spec in &data.plan.runs {
        let told =
            |state| data.state.iter().filter(|line| line.run == spec.run && line.state == state).count();
        assert_eq!(told(RunState::Completed), 1, "run {} completed once", spec.run);
    }
    for entry in fs::read_dir(place.path("out/runs")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((run, cut)) = name.split_once('.') else { continue };
        assert!(cut.starts_with("cut-"), "{name}");
        assert!(data.runs.iter().any(|known| format!("{:04}", known.record.spec.run) == run), "{name}");
        let record = fs::read_to_string(entry.path().join("run.json"));
        assert!(
            !record.is_ok_and(|text| text.contains("\"state\": \"started\"")),
            "{name} is kept as partial"
        );
    }
}

#[test]
fn killed_at_random_moments_it_resumes_to_exactly_the_planned_runs() {
    kill_and_resume(4, 2, 5500);
}

/// Takes some three minutes: `cargo test -p pgdyno --test it -- --ignored twenty_kills --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn twenty_kills_resume_to_exactly_the_planned_runs() {
    kill_and_resume(20, 8, 9000);
}

#[track_caller]
fn expect_resumable(ended: Ended) -> Ended {
    let ended = ended.expect(2);
    assert!(ended.stderr.contains("continue with: pgdyno run --resume out"), "{}", ended.stderr);
    ended
}

#[test]
fn a_notice_that_the_machine_goes_stops_the_run_which_resumes() {
    let place = Place::with_binaries(&["18"]);
    let text = experiment(1).replace("measure = \"2s\"", "measure = \"4s\"");
    place.write("kills.toml", &text);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/spot", listener.local_addr().unwrap());
    // The first query is too early for a notice, the second is not.
    let cloud = std::thread::spawn(move || {
        for answer in ["HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n{\"action\": \"stop\"}"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 512];
            let n = stream.read(&mut head).unwrap();
            assert!(head[..n].starts_with(b"GET /spot HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let began = Instant::now();
    let ended = expect_resumable(place.run(&[
        "run",
        "kills.toml",
        "--version=18",
        PACE,
        "-o",
        "out",
        "--spot-notice",
        &url,
    ]));
    assert!(began.elapsed() < Duration::from_secs(35), "{:?}", began.elapsed());
    assert!(ended.stderr.contains("will be taken away ({\"action\": \"stop\"})"), "{}", ended.stderr);
    cloud.join().unwrap();
    let ended = place.run(&["run", "--resume", "out"]).expect(0);
    assert!(ended.stderr.contains("resuming out"), "{}", ended.stderr);
    expect_exactly_the_plan(&place, None);
    // A complete experiment has nothing left to do, and shows its report.
    let again = place.run(&["run", "--resume", "out"]).expect(0);
    assert!(again.stderr.contains("all 2 runs are done"), "{}", again.stderr);
    place.expect_clean();
}

#[test]
fn only_an_experiment_can_be_resumed_and_only_unchanged() {
    let place = Place::new();
    let check = |args: &[&str], expected: &str| {
        let ended = place.run(args).expect(1);
        assert!(ended.stderr.contains(expected), "{}\nexpected: {expected}", ended.stderr);
    };
    check(&["run", "--resume", "nowhere"], "is not the directory of an experiment");
    check(&["run", "--resume", "out", "-c", "4"], "cannot be used with");
    check(&["run", "--resume", "out", "--version", "18"], "cannot be used with");
    check(&["run", "quick", "--resume", "out"], "is not the directory of an experiment");
    check(&["run", "--spot-notice", "https://h/"], "clouds give notices at http:// addresses");
}

#[test]
fn a_target_that_was_rebuilt_elsewhere_begins_its_block_again() {
    let (pg, place) = (testbed::Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let file = format!(
        "[experiment]\nname = \"moved\"\nrepeats = 1\norder = \"sequential\"\n[[target]]\nname = \"a\"\nurl = \"{server}\"\n\
         [workload]\nkind = \"tpcb-select\"\nscale = 1\nclients = [1, 2]\n[run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n\
         repeat_disturbed = 0\n[prepare]\nsettle = false\nprewarm = false\n"
    );
    place.write("moved.toml", &file);
    let running = place.start(place.command(&["run", "moved.toml", PACE, "-o", "out"]));
    crate::tool::wait_until("the second run", || place.path("out/runs/0002").exists());
    running.signal(Signal::SIGKILL);
    running.wait();
    let refused = place.run(&["run", "--resume", "out", "--target", "b=host=/nowhere"]).expect(1);
    assert!(refused.stderr.contains("--target b: the experiment's targets are `a`"), "{}", refused.stderr);
    // As if another cluster answered at the address.
    let record = place.path("out/runs/0001/run.json");
    let kept = std::fs::read_to_string(&record).unwrap();
    let identifier = store::read_records(&place.path("out")).unwrap()[0]
        .server
        .as_ref()
        .unwrap()
        .system_identifier
        .clone()
        .unwrap();
    let of_another = kept.replace(&identifier, "7");
    std::fs::write(&record, &of_another).unwrap();
    let state = std::fs::read_to_string(place.path("out/state.jsonl")).unwrap();
    let refused = place.run(&["run", "--resume", "out"]).expect(1).stderr;
    assert!(
        refused.contains("another cluster answers at host=") && refused.contains("--allow-another-server"),
        "{refused}"
    );
    std::fs::write(&record, of_another.replace("\"state\":\"completed\"", "\"state\":\"failed\"")).unwrap();
    let refused = place.run(&["run", "--resume", "out"]).expect(1).stderr;
    assert!(refused.contains("another cluster answers at host="), "a run that failed counts: {refused}");
    assert_eq!(std::fs::read_to_string(place.path("out/state.jsonl")).unwrap(), state, "nothing was begun");
    std::fs::write(&record, &of_another).unwrap();
    // Who names the server of the target has said so.
    let copied =
        std::process::Command::new("cp").arg("-a").args([place.path("out"), place.path("same")]).status();
    assert!(copied.unwrap().success());
    let same = place.run(&["run", "--resume", "same", "--target", &format!("a={server}")]).expect(0);
    assert!(same.stderr.contains("target `a` is not the server of its earlier runs"), "{}", same.stderr);
    std::fs::write(&record, kept).unwrap();

    let other = testbed::TestServer::start(&testbed::ClusterOptions { has_tcp: true, ..Default::default() });
    let target = format!("a=host=127.0.0.1 port={} user=postgres dbname=postgres", other.port);
    let ended = place.run(&["run", "--resume", "out", "--target", &target]).expect(0);
    let expected =
        ["target `a` is not the server of its earlier runs", "so that their block has one server: run 1"];
    assert!(expected.iter().all(|text| ended.stderr.contains(text)), "{}", ended.stderr);
    let records = store::read_records(&place.path("out")).unwrap();
    let systems: Vec<_> =
        records.iter().map(|run| run.server.as_ref().unwrap().system_identifier.clone().unwrap()).collect();
    assert!(records.len() == 2 && systems[0] == systems[1], "{systems:?}");
    assert!(place.path("out/runs/0001.cut-1/run.json").exists(), "the first attempt is kept");
    place.run(&["run", "--resume", "out"]).expect(0);
    crate::tool::expect_found(&place, "out", &["resumed"]);
    place.expect_clean();
}
