//! Outages of servers that pgdyno runs: done, proved, followed and undone, however pgdyno ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use model::run::RunData;
use model::run::server::outage::{OutageRecord, OutageStep, PAUSE, UNDO};
use nix::sys::signal::Signal;
use server::pooler::program::Pgbouncer;
use testbed::{ClusterOptions, TestServer};

use crate::harm::named;
use crate::poolers::SKIPPED;
use crate::tool::{PACE, Place, SMALL, tell, wait_until};

/// A load of 9 s whose outage begins after 2 s.
const SHORT: [&str; 16] = [
    "run",
    "-c",
    "2",
    "--scale",
    "1",
    "--ramp-up",
    "0s",
    "--measure",
    "9s",
    "--repeats",
    "1",
    "--set",
    SMALL,
    "--set",
    "run.repeat_disturbed=0",
    PACE,
];

fn file(place: &Place, outage: &str) -> String {
    let text = format!(
        "[experiment]\nname = \"x\"\nrepeats = 1\n[workload]\nclients = 2\nscale = 1\npace = \"100/s\"\n[run]\nramp_up = \"0s\"\n\
         measure = \"9s\"\nrepeat_disturbed = 0\n{outage}"
    );
    place.write("x.toml", &text).display().to_string()
}

fn outage(run: &RunData) -> &OutageRecord {
    run.record.outage.as_deref().expect("the run has an outage")
}

/// The step after the load in which the lost primary is started once more.
const AGAIN: &str = "restart primary, to read its commits";

fn steps(record: &OutageRecord) -> Vec<&str> {
    record.steps.iter().map(|step| step.what.as_str()).collect()
}

/// The run whose record is complete, with the outage proved and without a problem.
fn run_of(place: &Place, more: &[&str]) -> RunData {
    let all = [&SHORT[..], more, &["-o", "out"]].concat();
    let ended = place.run(&all);
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);
    let run = place.first_run("out");
    let record = outage(&run);
    assert_eq!(record.problem, None, "{record:?}");
    assert!(record.proof.is_some() && record.began_unix_ns.is_some(), "{record:?}");
    run
}

#[test]
fn a_primary_that_is_killed_is_followed_by_its_standby() {
    let place = Place::new();
    let run = run_of(&place, &["--standbys", "1", "--outage", "kill-primary"]);
    let record = outage(&run);
    assert_eq!(record.survivor.as_deref(), Some("s1"));
    assert_eq!(steps(record), ["promote s1", AGAIN]);
    let (began, ready) = (record.began_unix_ns.unwrap(), record.ready_unix_ns.unwrap());
    // A manager takes a second to notice.
    assert!(ready - began >= 1_000_000_000, "{record:?}");
    // The rows that are counted after the load are those of the new primary.
    let done = run.record.done.as_ref().unwrap();
    assert!(run.record.rows_after.contains_key("pgbench_history"), "{:?}", run.record.rows_after);
    assert!(done.counts.committed > 300, "the load went on: {:?}", done.counts);
    place.expect_clean();
}

#[test]
fn a_primary_without_a_standby_is_started_again_where_its_clients_know_it() {
    let place = Place::new();
    let run =
        run_of(&place, &["--outage", "kill-primary", "--set", "server.settings.synchronous_commit=off"]);
    let record = outage(&run);
    assert_eq!(record.survivor.as_deref(), Some("primary"));
    assert_eq!(record.steps[0].what, "restart primary");
    assert!(run.record.done.as_ref().unwrap().counts.committed > 300);
    place.expect_clean();
}

#[test]
fn a_switchover_loses_nothing() {
    let place = Place::new();
    let run = run_of(&place, &["--standbys", "1", "--outage", "switchover"]);
    let record = outage(&run);
    assert_eq!(steps(record), ["s1 replays all", "promote s1", AGAIN]);
    let survivor = &record.ledgers[0];
    assert_eq!((survivor.node.as_str(), survivor.n_lost, survivor.n_foreign), ("s1", 0, 0), "{survivor:?}");
    let counts = run.record.done.as_ref().unwrap().counts;
    let history = run.record.rows_after["pgbench_history"] - run.record.rows_before["pgbench_history"];
    assert!(
        (counts.committed..=counts.committed + counts.unknown).contains(&history),
        "{history} {counts:?}"
    );
    place.expect_clean();
}

/// The step at which the load's transactions go on.
fn step<'a>(record: &'a OutageRecord, what: &str) -> &'a OutageStep {
    record.steps.iter().find(|step| step.what == what).unwrap_or_else(|| panic!("{what}: {record:?}"))
}

#[test]
fn clients_of_a_pooler_only_wait_for_a_switchover() {
    if Pgbouncer::find(None).is_err() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    // The pause is longer than a client waits for an answer without one.
    let outage_of_6_s = "[topology]\nstandbys = 1\n[pooler]\nkind = \"pgbouncer\"\n[[outage]]\ndo = \"switchover\"\nat = \"2s\"\nfor = \"6s\"\n";
    let file = file(&place, outage_of_6_s);
    let ended = place.run(&["run", &file, "--set", "run.measure=14s", "-o", "out"]);
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);
    let data = place.results("out");
    let record = outage(&data.runs[0]);
    assert_eq!(record.problem, None, "{record:?}");
    let expected =
        [PAUSE, "s1 replays all", "promote s1", "lead the pooler to s1", "resume the pooler", AGAIN];
    assert_eq!(steps(record), expected);
    let counts = data.runs[0].record.done.as_ref().unwrap().counts;
    assert_eq!((counts.failed, counts.unknown), (0, 0), "{counts:?}");
    assert_eq!(crate::tool::history_growth(&data.runs[0]), counts.committed);
    let survivor = &record.ledgers[0];
    assert_eq!((survivor.node.as_str(), survivor.n_lost, survivor.n_ghosts), ("s1", 0, 0), "{survivor:?}");

    // The gap is the pause: it began when the transactions that ran had ended, and ends with the first that is answered.
    let [pause, resume] = [PAUSE, "resume the pooler"].map(|what| step(record, what));
    let paused_s = resume.began_unix_ns.abs_diff(pause.ended_unix_ns) as f64 / 1e9;
    let study = analysis::study(&data);
    let summary = study.runs[0].outage.as_ref().unwrap();
    assert!(paused_s > 5.2, "{record:?}");
    assert!((paused_s - 0.2..paused_s + 1.0).contains(&summary.gap.s), "{paused_s} {:?}", summary.gap);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    place.expect_clean();
}

#[test]
fn a_process_that_is_frozen_goes_on_at_its_time() {
    let place = Place::new();
    let file = file(
        &place,
        "[topology]\nstandbys = 1\n[[outage]]\ndo = \"freeze startup@s1\"\nat = \"2s\"\nfor = \"1s\"\n",
    );
    let ended = place.run(&["run", &file, "-o", "out"]);
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);
    let run = place.first_run("out");
    let record = outage(&run);
    assert!(
        record.proof.as_ref().unwrap().starts_with("1 of the processes of `s1` are stopped"),
        "{record:?}"
    );
    let [undo] = record.steps.as_slice() else { panic!("{record:?}") };
    let frozen_ns = undo.began_unix_ns - record.began_unix_ns.unwrap();
    assert!((1_000_000_000..2_500_000_000).contains(&frozen_ns), "{record:?}");
    place.expect_clean();
}

#[test]
fn a_way_is_slow_or_narrow_for_its_time() {
    let place = Place::new();
    let file = file(
        &place,
        "[topology]\nstandbys = 1\nsynchronous = \"all\"\n[[outage]]\ndo = [\"slow s1 100ms\", \"throttle s1 64kB/s\", \"throttle s1 1TB/s\"]\nat = \"2s\"\nfor = \"1s\"\n",
    );
    // A limit of its own: what was usual before is more than the delay where others keep the machine busy.
    place.run(&["run", &file, "--pace", "100/s with p99 <= 90ms", "-o", "out"]);
    let data = place.results("out");
    let of = |fault: &str| data.runs.iter().find(|run| outage(run).fault == fault).unwrap();
    for (fault, expected) in [
        ("slow s1 100ms", "the way takes 50.0 ms each way"),
        ("throttle s1 64kB/s", "no more than 65536 pass"),
    ] {
        let record = outage(of(fault));
        assert!(record.problem.is_none(), "{record:?}");
        assert!(record.proof.as_ref().unwrap().contains(expected), "{record:?}");
        assert_eq!(steps(record), [UNDO]);
        let lasted_ns = step(record, UNDO).began_unix_ns - record.began_unix_ns.unwrap();
        assert!((1_000_000_000..3_000_000_000).contains(&lasted_ns), "{record:?}");
    }

    // A rate that nothing can reach has limited nothing, and its run does not count.
    let record = outage(of("throttle s1 1TB/s"));
    let problem = record.problem.as_deref().unwrap_or_default();
    assert!(record.proof.is_none() && problem.starts_with("it limited nothing"), "{record:?}");
    assert_eq!(steps(record), [UNDO]);

    // A commit that waits for the standby takes a round trip more, and half of what was due in that second was late.
    let study = analysis::study(&data);
    let slow = study.runs.iter().find(|run| run.outage.as_ref().unwrap().fault == "slow s1 100ms").unwrap();
    let summary = slow.outage.as_ref().unwrap();
    assert!(summary.n_not_served > 10, "{summary:?}");
    place.expect_clean();
}

#[test]
fn sql_that_gets_in_the_way_of_replay_is_cancelled_and_its_conflict_is_counted() {
    let place = Place::new();
    place.write(
        "report.sql",
        "begin isolation level repeatable read;\nselect count(*) from pgbench_branches;\nselect pg_sleep(60);\n",
    );
    place.write("sleep.sql", "select 1;\nselect pg_sleep(60);\nselect 2;\n");
    place.write("wrong.sql", "select pg_sleep(1);\nselect 1 / 0;\n");
    let file = file(
        &place,
        "[topology]\nstandbys = 1\nstandby_settings.max_standby_streaming_delay = \"500ms\"\n[[outage]]\n\
         do = [\"load s1 report.sql\", \"load primary sleep.sql\", \"load primary wrong.sql\"]\nat = \"1s\"\nfor = \"3s\"\n",
    );
    let ended = place.run(&["run", &file, "-o", "out"]);
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);
    let data = place.results("out");
    let proof = |fault: &str| {
        let record = outage(data.runs.iter().find(|run| outage(run).fault == fault).unwrap());
        assert!(record.problem.is_none(), "{record:?}");
        assert_eq!(steps(record), [UNDO]);
        record.proof.clone().unwrap()
    };
    let of_standby = proof("load s1 report.sql");
    assert!(of_standby.contains("runs `report.sql` (state"), "{of_standby}");
    assert!(of_standby.contains("conflict with recovery"), "{of_standby}");
    assert!(of_standby.contains("conflicts counted: snapshot 1"), "{of_standby}");
    let of_primary = proof("load primary sleep.sql");
    // It was to last 3 s, and began a little after the fault did.
    let lasted =
        of_primary.split("`sleep.sql` was cancelled after ").nth(1).and_then(|rest| rest.split(' ').next());
    let lasted_s: f64 = lasted.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{of_primary}"));
    assert!((2.5..10.0).contains(&lasted_s), "{of_primary}");

    let wrong = outage(data.runs.iter().find(|run| outage(run).fault == "load primary wrong.sql").unwrap());
    let problem = wrong.problem.as_deref().unwrap_or_default();
    assert!(problem.starts_with("undo: `wrong.sql` has failed after"), "{wrong:?}");
    assert!(problem.contains("division by zero"), "{wrong:?}");
    assert!(wrong.proof.is_some(), "it ran until then: {wrong:?}");
    place.expect_clean();
}

#[test]
fn nothing_stays_frozen_if_pgdyno_is_killed() {
    let place = Place::new();
    let file = file(&place, "[topology]\nstandbys = 1\n[[outage]]\ndo = \"freeze s1\"\nat = \"1s\"\n");
    let running = place.start(place.command(&["run", &file, "-o", "out"]));
    let is_stopped = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    };
    wait_until("a stopped postmaster", || named(&running, "postgres").iter().any(is_stopped));
    running.signal(Signal::SIGKILL);
    running.wait();
    wait_until("the end of all servers", || place.processes().is_empty());
}

#[test]
fn an_outage_that_nothing_shows_is_a_problem_of_the_run() {
    let place = Place::new();
    let undone = place.path("undone");
    let file = file(
        &place,
        &format!(
            "[[outage]]\ndo = \"hook\"\nat = \"1s\"\nrun = [\"true\"]\ncheck = [\"sh\", \"-c\", \"echo nothing happened; exit 1\"]\n\
             undo = [\"touch\", {:?}]\n",
            undone.display().to_string()
        ),
    );
    place.run(&["run", &file, "-o", "out"]);
    let run = place.first_run("out");
    let record = outage(&run);
    assert_eq!(record.proof, None);
    let problem = record.problem.as_deref().unwrap();
    assert!(
        problem.contains("nothing shows that it happened") && problem.contains("nothing happened"),
        "{problem}"
    );
    assert!(undone.exists(), "it may have happened all the same");
    place.expect_clean();
}

#[test]
fn what_a_case_cannot_have_is_refused_when_it_is_planned() {
    let place = Place::new();
    let refused = |outage: &str, expected: &str| {
        let ended = place.run(&["plan", &file(&place, outage)]).expect(1);
        assert!(ended.stderr.contains(expected), "{outage}: {}", ended.stderr);
    };
    refused("[[outage]]\ndo = \"freeze s1\"\n", "the case has no node `s1`; raise topology.standbys");
    refused("[[outage]]\ndo = \"switchover\"\n", "the case has no node `s1`");
    refused("[[outage]]\ndo = \"slow primary 20ms\"\n", "it is for a standby");
    refused("[[outage]]\ndo = \"load primary absent.sql\"\n", "cannot read");
    refused("[[outage]]\ndo = \"fill primary\"\n", "holds nothing of others");
    refused("[[outage]]\ndo = \"throttle s1 1MB\"\n", "is not a rate in bytes per second");
    refused(
        "[topology]\nstandbys = 1\nrate = \"1MB/s\"\n[[outage]]\ndo = \"throttle s1 1MB/s\"\n",
        "topology.rate = \"1MB/s\" lets no more pass anyway",
    );
    let pooled = |pooler: &str, fault: &str| {
        format!("[topology]\nstandbys = 1\n[pooler]\n{pooler}\n[[outage]]\ndo = \"{fault}\"\n")
    };
    let command = "kind = \"command\"\ncommand = [\"odyssey\"]";
    refused(&pooled(command, "kill-primary"), "pgdyno leads only pgbouncer to the standby that takes over");
    let session = "kind = \"pgbouncer\"\nmode = \"session\"";
    refused(&pooled(session, "switchover"), "waits for clients to leave, which they do not");
    let unasked = "kind = \"pgbouncer\"\nadmin = \"none\"";
    refused(&pooled(unasked, "switchover"), "to the standby that takes over by its console");
    let listening =
        "[topology]\nstandbys = 1\n[[outage]]\ndo = \"kill-primary\"\n[server]\nlisten = \"127.0.0.1\"\n";
    refused(listening, "server.listen leads to the former primary");
    refused(
        "[[outage]]\ndo = \"kill-primary\"\nat = \"2s\"\nthen = \"restart after 1h\"\n",
        "to see what follows",
    );
    refused(
        "[topology]\nstandbys = 1\n[[outage]]\ndo = \"freeze s1\"\nat = \"1s\"\nfor = \"9s\"\n",
        "for = 9 s, which may begin 1 s after the load, outlasts the load of 9 s",
    );
    refused("[[outage]]\ndo = \"kill-primary\"\nat = \"8s\"\n", "leave at least 5 s to see its end");
    refused(
        "[[outage]]\ndo = \"kill-primary\"\nrun = [\"true\"]\n",
        "are commands of yours, which are for do = \"hook\"",
    );
    refused("[[outage]]\ndo = \"hook\"\n", "run is missing");
    refused("[[outage]]\ndo = \"unplug\"\n", "`unplug` is no fault: kill-primary");
    let closed = place.run(&["plan", "--outage", "kill-primary"]).expect(1);
    assert!(closed.stderr.contains("give a rate, such as --pace 500/s"), "{}", closed.stderr);
    let absent = place.run(&["plan", "--outage", "hook:./absent.sh", "--pace", "100/s", "--json"]);
    let said = format!("{}{}", absent.stdout, absent.stderr);
    assert!(said.contains("there is no program `./absent.sh` that can be executed"), "{said}");
}

#[test]
fn a_server_by_url_is_harmed_only_by_commands_and_with_consent_by_its_name() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("postgres");
    let script = place.write("hurt.sh", "#!/bin/sh\necho \"$1\" >> \"$(dirname \"$0\")/calls\"\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let hook = format!("hook:{}", script.display());
    let run = |outage: &str, more: &[&str]| {
        let of_own = ["--set", SMALL];
        let short: Vec<&str> = SHORT.into_iter().filter(|word| !of_own.contains(word)).collect();
        let set = ["--set", "run.repeat_disturbed=0", "--server", &target, "--outage", outage, "-o", "out"];
        let short = short.into_iter().filter(|word| !set.contains(word));
        let all: Vec<&str> = short.chain(set).chain(more.iter().copied()).collect();
        place.run(&all)
    };
    let refused = run("kill-primary", &[]).expect(1).stderr;
    assert!(refused.contains("pgdyno harms only servers that it runs itself"), "{refused}");
    let refused = run(&hook, &["--yes"]).expect(1).stderr;
    let (_, name) = refused.split_once("--allow-outages ").expect("the option is named");
    let name = name.split_whitespace().next().unwrap();
    assert!(!place.path("calls").exists());

    let ended = run(&hook, &["--allow-outages", name]);
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);
    let calls = fs::read_to_string(place.path("calls")).unwrap_or_default();
    assert_eq!(calls, "do\ncheck\nundo\n", "{}", ended.stderr);
    let first = place.first_run("out");
    assert_eq!(outage(&first).problem, None);
    fs::remove_file(place.path("calls")).unwrap();

    // The load's own clients are known whatever they call themselves.
    place.write("named.sql", "set application_name = 'app';\nselect 1;\n");
    let words = "run -f named.sql -c 2 --set workload.data=none --set workload.ledger=false --ramp-up 0s --measure 8s --repeats 1 --set run.repeat_disturbed=0 -o named";
    let args = words.split_whitespace().chain([PACE, "--outage", &hook, "--server", &target]);
    place.run(&args.chain(["--allow-outages", name]).collect::<Vec<_>>());
    assert_eq!(outage(&place.first_run("named")).problem, None);
    fs::remove_file(place.path("calls")).unwrap();

    // Somebody who comes when the load has begun is not harmed either.
    let words =
        "run -c 1 --scale 1 --ramp-up 0s --measure 8s --repeats 1 --set run.repeat_disturbed=0 -o busy";
    let args = words.split_whitespace().chain([PACE, "--outage", &hook, "--server", &target]);
    let load = place.start(place.command(&args.chain(["--allow-outages", name]).collect::<Vec<_>>()));
    place.wait_for_load("busy", 1);
    let somebody = server.admin("postgres");
    load.wait();
    drop(somebody);
    let busy = place.first_run("busy");
    let problem = outage(&busy).problem.clone().unwrap_or_default();
    assert!(problem.starts_with("1 session of others would be hit"), "{problem}");
    assert!(!place.path("calls").exists(), "{problem}");
}

/// Commits that are lost where the way to the standby is cut half a second before the primary is killed, at 100 per second.
fn lost_by_cut(settings: &str) -> (u64, u64) {
    let place = Place::new();
    let file = file(
        &place,
        &format!(
            "[topology]\nstandbys = 1\n{settings}\n[[outage]]\ndo = \"cut-and-kill s1 500ms\"\nat = \"2s\"\n"
        ),
    );
    let ended = place.run(&["run", &file, "-o", "out"]);
    let run = place.first_run("out");
    let record = outage(&run);
    assert!(record.proof.is_some() && record.problem.is_none(), "{record:?}\n{}", ended.stderr);
    place.expect_clean();
    (record.ledgers[0].n_acknowledged, record.ledgers[0].n_lost)
}

#[test]
fn what_was_committed_while_the_way_was_cut_is_lost_unless_commits_waited() {
    let (n, lost) = lost_by_cut("");
    // 50 are due in half a second; a cut on a busy machine lasts longer.
    assert!(n > 300 && (30..250).contains(&lost), "{lost} of {n}");
    let (n, lost) = lost_by_cut("synchronous = \"all\"");
    assert!(n > 200 && lost == 0, "{lost} of {n}");
    let local = "synchronous = \"all\"\n[server]\nsettings.synchronous_commit = \"local\"";
    let (n, lost) = lost_by_cut(local);
    assert!(n > 300 && lost >= 30, "{lost} of {n}");
}
