//! A stored experiment is executed as it is only by the installation that made it; of any other, everything foreign is shown first, on
//! every road that leads from files to commands.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use nix::sys::signal::Signal;
use testbed::{Pg, bin_dir};

use crate::serve::address_after;
use crate::tool::{Ended, PACE, Place, Running, wait_until};

const NOTHING: &str = "Nothing was executed";

/// An experiment whose hook and whose script leave a line in a file, on a server by URL. Its transactions are too few for a number.
struct Called {
    log: std::path::PathBuf,
}

impl Called {
    /// Measures it in a place twice, as `out` and `second`.
    fn measured(place: &Place, server: &str) -> Called {
        let called = Called { log: place.path("log") };
        let log = called.log.display();
        let text = format!(
            "[experiment]\nname = \"own\"\nrepeats = 1\n[hooks]\nbefore_run = [\"sh\", \"-c\", \"echo hooked >> {log}\"]\n\
             [workload]\nkind = \"scripts\"\ndata = \"none\"\ntransactions = 3\n\
             scripts = [{{name = \"one\", text = \"select 1;\"}}]\n[prepare]\nsettle = false\n"
        );
        place.write("own.toml", &text);
        for out in ["out", "second"] {
            place.run(&["run", "own.toml", "-c", "1", "-o", out, "--server", server]).expect(1);
        }
        assert!(called.take(), "its maker's hook is called");
        called
    }

    /// Whether the hook was called since this was asked last.
    fn take(&self) -> bool {
        let was_called = self.log.exists();
        if was_called {
            fs::remove_file(&self.log).unwrap();
        }
        was_called
    }
}

/// Copies a directory as `cp -r` does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// Makes the only run unfinished.
fn forget(dir: &Path) {
    fs::write(dir.join("runs/0001/intervals.jsonl"), "").unwrap();
}

/// Fails unless nothing was executed, and all of it was shown, for this reason.
#[track_caller]
fn expect_shown(ended: Ended, called: &Called, reason: &str) {
    let said = ended.expect(1).stderr;
    for part in
        [reason, "hooks: before_run: sh -c 'echo hooked", "workload.scripts: one\n", "server.url: ", NOTHING]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!called.take(), "{said}");
}

#[test]
fn results_of_a_stranger_are_resumed_and_explained_only_after_all_they_would_execute_was_shown() {
    let (theirs, ours, pg) = (Place::new(), Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    let called = Called::measured(&theirs, &server);
    forget(&theirs.path("out"));
    theirs.run(&["pack", "out", "-o", "a.tar.gz"]).expect(0);
    let file = theirs.path("a.tar.gz").display().to_string();
    ours.run(&["unpack", &file, "-o", "unpacked"]).expect(0);
    copy(&theirs.path("out"), &ours.path("copied"));
    copy(&theirs.path("second"), &ours.path("second"));
    ours.run(&["merge", "one=unpacked", "two=second", "-o", "merged"]).expect(0);
    for (dir, reason) in
        [("unpacked", "they have no `seal.json`"), ("copied", "their `seal.json` does not fit")]
    {
        expect_shown(ours.run(&["run", "--resume", dir]), &called, reason);
        expect_shown(ours.run(&["run", "--resume", dir, "--yes", "--replace"]), &called, reason);
        expect_shown(ours.run(&["why", dir, "--yes"]), &called, reason);
    }
    expect_shown(ours.run(&["why", "merged", "--yes"]), &called, "merged from such results");
    // The command that a report gives.
    for command in
        [&["run", "unpacked/experiment.toml", "-o", "new"][..], &["plan", "copied/experiment.toml"]]
    {
        let reason =
            if command[0] == "run" { "they have no `seal.json`" } else { "their `seal.json` does not fit" };
        expect_shown(ours.run(command), &called, reason);
    }
    std::os::unix::fs::symlink("unpacked/experiment.toml", ours.path("latest.toml")).unwrap();
    expect_shown(ours.run(&["run", "latest.toml", "-o", "new"]), &called, "they have no `seal.json`");
    assert!(!ours.path("new").exists());
    let repeat = ["repeat", "merged", "--origin", "two", "--server", &server, "-o", "again"];
    let refused = ours.run(&repeat).expect(1).stderr;
    assert!(
        refused.contains("hooks: before_run") && refused.contains(NOTHING) && !called.take(),
        "{refused}"
    );

    // Exactly the list that was shown is allowed.
    let refused = ours.run(&["run", "--resume", "copied"]).expect(1).stderr;
    let number = refused.split("--allow-commands=").nth(1).unwrap().split(' ').next().unwrap();
    let exactly = format!("--allow-commands={number}");
    let plan = fs::read_to_string(ours.path("copied/plan.json")).unwrap();
    fs::write(ours.path("copied/plan.json"), plan.replace("echo hooked", "echo hooked twice")).unwrap();
    let changed = ours.run(&["run", "--resume", "copied", &exactly]).expect(1).stderr;
    assert!(changed.contains("is not this one") && changed.contains("echo hooked twice"), "{changed}");
    assert!(!called.take(), "{changed}");
    fs::write(ours.path("copied/plan.json"), plan).unwrap();
    // Three transactions are too few for a number, also the second time.
    let resumed = ours.run(&["run", "--resume", "copied", &exactly]).expect(1).stderr;
    let shown = resumed.find("hooks: before_run: sh -c").unwrap();
    assert!(shown < resumed.find("resuming copied").unwrap() && called.take(), "{resumed}");
    ours.run(&["run", "--resume", "unpacked", "--allow-commands"]).expect(1);
    assert!(called.take());
}

#[test]
fn results_that_were_fetched_from_a_store_are_a_strangers_and_those_merged_of_ones_own_are_not() {
    let (place, other, pg) = (Place::new(), Place::new(), Pg::shared());
    let called = Called::measured(&place, &pg.admin_target(&pg.database()));
    let store = pg.admin_target(&pg.database());
    place.run(&["push", &store, "out"]).expect(0);
    other.run(&["report", "--store", &store, "out"]).expect(0);
    expect_shown(other.run(&["run", "--resume", "results/out"]), &called, "fetched from a store");
    expect_shown(other.run(&["why", "results/out"]), &called, "fetched from a store");

    place.run(&["merge", "out", "second", "-o", "merged"]).expect(0);
    // Nothing limits three transactions.
    let said = place.run(&["why", "merged"]).expect(1).stderr;
    assert!(said.contains("no limiter is known") && !said.contains("somebody else"), "{said}");
}

/// What a repetition did not show, it must not make its user's own.
#[test]
fn what_a_strangers_file_excludes_is_still_a_strangers_after_a_repetition() {
    let (theirs, ours, pg) = (Place::new(), Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    let log = ours.path("log");
    let text = format!(
        "[experiment]\nname = \"own\"\nrepeats = 1\nexclude = [{{workload.kind = \"scripts\", workload.clients = [1]}}]\n\
         [workload]\nkind = [\"tpcb-select\", \"scripts\"]\nclients = [1]\nscale = 1\n\
         scripts = [{{name = \"x.sql\", text = \"\\\\shell sh -c 'echo executed >> {}'\\nselect 1;\"}}]\n\
         [run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\nprewarm = false\n",
        log.display()
    );
    theirs.write("own.toml", &text);
    theirs.run(&["run", "own.toml", "-o", "out", PACE, "--server", &server]).expect(0);
    let packed = theirs.run(&["pack", "out", "-o", "a.tar.gz"]).expect(0).stderr;
    assert!(packed.contains("experiment.toml, workload.scripts.text: \\shell sh -c"), "{packed}");

    let file = theirs.path("a.tar.gz").display().to_string();
    ours.run(&["repeat", &file, "-o", "again", "--server", &server]).expect(0);
    for command in [&["run", "again/experiment.toml", "-c", "1,2", "-o", "new"][..], &["why", "again"]] {
        let said = ours.run(command).stderr;
        assert!(!log.exists() && said.contains("the experiment file of somebody else"), "{said}");
    }
    let refused = ours.run(&["run", "again/experiment.toml", "-c", "1,2", "-o", "new"]).expect(1).stderr;
    assert!(refused.contains("\\shell sh -c 'echo executed") && refused.contains(NOTHING), "{refused}");
}

#[test]
fn results_of_ones_own_are_resumed_without_a_question_and_no_copy_or_change_of_them() {
    let (place, pg) = (Place::new(), Pg::shared());
    let called = Called::measured(&place, &pg.admin_target(&pg.database()));
    let resume = || {
        forget(&place.path("out"));
        place.run(&["run", "--resume", "out"])
    };
    let said = resume().expect(1).stderr;
    assert!(called.take() && !said.contains("somebody else"), "{said}");
    place.run(&["run", "out/experiment.toml", "-o", "new"]).expect(1);
    assert!(called.take(), "the file of your own results");
    fs::rename(place.path("out"), place.path("moved")).unwrap();
    fs::rename(place.path("moved"), place.path("out")).unwrap();
    resume().expect(1);
    assert!(called.take());

    // Whoever has another key did not make them.
    let mut elsewhere = place.command(&["run", "--resume", "out"]);
    fs::create_dir(place.path("cache-2")).unwrap();
    elsewhere.env("PGDYNO_CACHE", place.path("cache-2"));
    let broken = "their `seal.json` does not fit";
    expect_shown(place.start(elsewhere).wait(), &called, broken);
    // A genuine seal next to another plan, or another text.
    for (name, from, to) in [
        ("plan.json", "echo hooked", "echo  hooked"),
        ("experiment.toml", "transactions = 3", "transactions = 4"),
    ] {
        let path = place.path("out").join(name);
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept.contains(from), "{kept}");
        fs::write(&path, kept.replace(from, to)).unwrap();
        let said = resume().expect(1).stderr;
        assert!(said.contains(broken) && said.contains(NOTHING) && !called.take(), "{name}: {said}");
        fs::write(&path, kept).unwrap();
    }
    // Of an earlier release.
    let seal = place.path("out/seal.json");
    let kept = fs::read(&seal).unwrap();
    fs::remove_file(&seal).unwrap();
    expect_shown(resume(), &called, "measured by a pgdyno that wrote none");
    fs::write(&seal, kept).unwrap();
    resume().expect(1);
    assert!(called.take());
}

/// A packed result of a server that pgdyno ran, with a hook that writes to a file of this name.
fn packed(log: &Path) -> (Place, String) {
    let place = Place::new();
    let (log, programs) = (log.display(), bin_dir().display().to_string());
    let text = format!(
        "[experiment]\nname = \"own\"\nrepeats = 1\n[server]\nbin_dir = {programs:?}\n[server.settings]\nshared_buffers = \"64MB\"\n\
         [hooks]\nbefore_run = [\"sh\", \"-c\", \"echo hooked >> {log}\"]\n[workload]\nkind = \"tpcb-select\"\nscale = 1\n\
         [run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\nprewarm = false\n"
    );
    place.write("own.toml", &text);
    place.run(&["run", "own.toml", "-o", "out"]).expect(0);
    place.run(&["pack", "out", "-o", "a.tar.gz"]).expect(0);
    let file = place.path("a.tar.gz").display().to_string();
    (place, file)
}

/// A server over `results`, and what is asked of it.
struct Pages {
    serving: Running,
    host: String,
    token: String,
}

impl Pages {
    fn over(place: &Place) -> Pages {
        let serving =
            place.start(place.command(&["serve", "results", "--control", "--listen", "127.0.0.1:0"]));
        let address = address_after(&serving, "serving `results` at ");
        let (host, token) = address.split_once("/login#").unwrap();
        Pages { serving, host: host.to_string(), token: token.to_string() }
    }

    fn post(&self, path: &str) -> String {
        let Pages { host, token, .. } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nOrigin: http://{host}\r\n"
        );
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn end(self) {
        self.serving.signal(Signal::SIGINT);
        self.serving.wait().expect(0);
    }

    /// The address at which a page is answered with yes.
    #[track_caller]
    fn yes(page: &str) -> &str {
        let form =
            page.split("action=\"").find(|part| part.starts_with("/again/") && part.contains("accept="));
        form.unwrap_or_else(|| panic!("no question: {page}")).split('"').next().unwrap()
    }
}

/// A stranger's results below `results`, and the file that their hook writes.
fn of_a_stranger() -> (Place, std::path::PathBuf) {
    let ours = Place::new();
    let log = ours.path("log");
    let (_theirs, file) = packed(&log);
    fs::remove_file(&log).unwrap();
    ours.run(&["unpack", &file, "-o", "results/theirs"]).expect(0);
    (ours, log)
}

#[test]
fn a_page_asks_for_exactly_what_it_shows_and_asks_again_if_that_has_changed() {
    let (ours, log) = of_a_stranger();
    let pages = Pages::over(&ours);
    let asked = pages.post("/again/theirs");
    assert!(asked.contains("May it do this?") && asked.contains("echo hooked"), "{asked}");
    assert!(asked.contains("server.bin_dir"), "{asked}");
    let yes = Pages::yes(&asked).to_string();

    let path = ours.path("results/theirs/plan.json");
    let plan = fs::read_to_string(&path).unwrap();
    fs::write(&path, plan.replace("echo hooked", "echo changed; echo hooked")).unwrap();
    let again = pages.post(&yes);
    assert!(again.contains("May it do this?") && again.contains("echo changed"), "{again}");
    assert!(again.contains("is not this one") && !log.exists(), "{again}");
    assert_ne!(Pages::yes(&again), yes);
    assert!(!format!("{asked}{again}").contains("--allow"), "a page has a button, and no option");
    fs::write(&path, plan).unwrap();

    let begun = pages.post(&yes);
    assert!(begun.starts_with("HTTP/1.1 303") || begun.contains("It is being prepared"), "{begun}");
    wait_until("the hook", || log.exists());
    wait_until("its end", || ours.pids_of("repeat").is_empty());
    pages.end();
    ours.expect_clean();
}

#[test]
fn a_text_that_is_not_accepted_is_refused_for_good_and_no_consent_is_asked_for() {
    let (ours, log) = of_a_stranger();
    let text = ours.path("results/theirs/experiment.toml");
    let kept = fs::read_to_string(&text).unwrap();
    assert!(kept.contains("clients = 1\n"), "{kept}");
    let pages = Pages::over(&ours);
    for changed in
        [kept.replace("clients = 1\n", "clients = 0\n"), kept.clone() + "[evil]\n", kept + "no TOML"]
    {
        fs::write(&text, changed).unwrap();
        let refused = pages.post("/again/theirs");
        assert!(!refused.contains("May it do this?") && !refused.contains("accept="), "{refused}");
        for command in [
            &["repeat", "results/theirs", "-o", "again"][..],
            &["repeat", "results/theirs", "-o", "again", "--allow-commands"],
            &["run", "--resume", "results/theirs"],
            &["run", "--resume", "results/theirs", "--allow-commands"],
            &["why", "results/theirs"],
        ] {
            let said = ours.run(command).expect(1).stderr;
            let is_named = said.contains("does not accept it") || said.contains("experiment.toml:");
            assert!(is_named && !said.contains("--allow-commands"), "{command:?}: {said}");
            assert!(!log.exists() && !ours.path("again").exists(), "{said}");
        }
    }
    pages.end();
    ours.expect_clean();
}

#[test]
fn programs_that_the_command_line_names_need_no_consent_and_ones_own_results_none() {
    let ours = Place::new();
    let log = ours.path("log");
    let (theirs, file) = packed(&log);
    fs::remove_file(&log).unwrap();
    let programs = bin_dir().display().to_string();
    let repeat = |more: &[&str]| ours.run(&[&["repeat", &file, "-o", "again", "--force"][..], more].concat());
    let refused = repeat(&[]).expect(1).stderr;
    assert!(refused.contains("server.bin_dir: ") && refused.contains("hooks: "), "{refused}");
    let refused = repeat(&["--bin-dir", &programs]).expect(1).stderr;
    assert!(!refused.contains("server.bin_dir") && refused.contains("hooks: "), "{refused}");
    // The hook alone is left out: nothing foreign remains.
    repeat(&["--bin-dir", &programs, "--here"]).expect(0);
    assert!(!log.exists());

    theirs.run(&["repeat", "out", "-o", "own", "--force"]).expect(0);
    assert!(log.exists(), "what was made there is executed there");
    for place in [ours, theirs] {
        place.expect_clean();
    }
}
