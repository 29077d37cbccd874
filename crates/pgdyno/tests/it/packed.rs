//! Results that go to somebody else as one file, and are measured again there.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use testbed::{ClusterOptions, PASSWORD, Pg, TestServer, as_server_user, bin_dir};

use crate::formats;
use crate::tool::{Ended, PACE, Place, wait_until};

const RUN: &str = "-w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 \
                   --set prepare.prewarm=false --set prepare.settle=false -o out";

fn bench(pg: &Pg) -> String {
    format!("host=127.0.0.1 port={} user=bench password={PASSWORD} dbname={}", pg.port, pg.database())
}

/// pgdyno of the account that PostgreSQL runs as, if the test runs as root; else of the same one.
fn in_another_account(place: &Place, args: &[&str]) -> Ended {
    for name in ["", "home", "cache", "tmp"] {
        fs::set_permissions(place.path(name), Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = place.command(args);
    as_server_user(&mut command);
    place.start(command).wait()
}

#[test]
fn what_one_account_measured_another_one_measures_again() {
    let (theirs, ours, pg) = (Place::new(), Place::new(), Pg::shared());
    let server = bench(&pg);
    let args: Vec<&str> =
        ["run", PACE].into_iter().chain(RUN.split_whitespace()).chain(["--server", &server]).collect();
    theirs.run(&args).expect(0);
    let packed = theirs.run(&["pack", "out"]).expect(0);
    assert_eq!(packed.stdout, "out.tar.gz\n");
    assert!(packed.stderr.contains("; it names these servers, machines and files"), "{}", packed.stderr);
    assert!(packed.stderr.contains("bench@127.0.0.1"), "{}", packed.stderr);
    fs::copy(theirs.path("out.tar.gz"), ours.path("from.tar.gz")).unwrap();
    fs::set_permissions(ours.path("from.tar.gz"), Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(theirs.path("out/runs")).unwrap();

    let refused = in_another_account(&ours, &["repeat", "from.tar.gz", "-o", "again"]).expect(1);
    assert!(
        refused.stderr.contains("name the server to measure, the same or another: --server URL"),
        "{}",
        refused.stderr
    );
    assert!(!ours.path("again").exists());
    let own = bench(&pg);
    let args = ["repeat", "from.tar.gz", "-o", "again", "--server", &own, "--fail-on", "different"];
    // One run on each side is no verdict, and without one the comparison cannot pass.
    let ended = in_another_account(&ours, &args).expect(2);
    let said = "1 client: no verdict with 1 run on each side: ";
    assert!(ended.stdout.contains(said) && ended.stdout.contains(" there ("), "{}", ended.stdout);
    assert!(ended.stdout.contains("\ntheirs: 1 client\nhere: 1 client\n"), "{}", ended.stdout);
    assert!(!ended.stderr.contains(PASSWORD) && !ended.stdout.contains("undeclared"), "{}", ended.stdout);
    let plan = |dir: &Path| store::read_plan(dir).unwrap();
    let [original, again] = ["again/original", "again"].map(|name| plan(&ours.path(name)));
    assert_eq!((original.runs.as_slice(), original.seed), (again.runs.as_slice(), again.seed));
    assert!(again.description.contains("Repeats what pgdyno "), "{}", again.description);
    let page = fs::read_to_string(ours.path("again/repeat.html")).unwrap();
    assert!(page.contains("again/original") && !page.contains(PASSWORD));
    let nothing = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".unpacked");
    assert!(!fs::read_dir(ours.path("")).unwrap().any(|entry| nothing(entry.unwrap())));

    // As root, results go only where nobody else can write.
    fs::set_permissions(ours.path(""), Permissions::from_mode(0o755)).unwrap();
    let unpacked = ours.run(&["unpack", "from.tar.gz"]).expect(0);
    assert!(unpacked.stderr.contains("pgdyno report results/from"), "{}", unpacked.stderr);
    ours.run(&["report", "results/from"]).expect(0);
    let twice = ours.run(&["unpack", "from.tar.gz"]).expect(1);
    assert!(twice.stderr.contains("already contains an experiment"), "{}", twice.stderr);
}

/// Names of what was unpacked for a time in a directory.
fn unpacked_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".unpacked-")).collect()
}

#[test]
fn what_a_killed_repetition_has_unpacked_is_removed_and_nothing_else_of_that_name() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = bench(&pg);
    let args: Vec<&str> =
        ["run", PACE].into_iter().chain(RUN.split_whitespace()).chain(["--server", &server]).collect();
    place.run(&args).expect(0);
    place.run(&["pack", "out"]).expect(0);
    let deep = place.path("deep");
    let repeat = ["repeat", "out.tar.gz", "-o", "deep/again", "--server", &server];
    let killed = || {
        let running = place.start(place.command(&repeat));
        wait_until("the repetition measures", || deep.join("again/plan.json").exists());
        running.signal(Signal::SIGKILL);
        running.wait();
        fs::remove_dir_all(deep.join("again")).unwrap();
        assert_eq!(unpacked_in(&deep).len(), 1);
    };
    killed();
    fs::create_dir_all(deep.join(".unpacked-mine/photos")).unwrap();
    fs::create_dir_all(place.path("results/.unpacked-0123456789abcdef/photos")).unwrap();
    let cleaned = place.run(&["clean"]).expect(0);
    assert!(cleaned.stderr.contains("/deep/.unpacked-"), "{}", cleaned.stderr);
    assert_eq!(unpacked_in(&deep), [".unpacked-mine"]);
    assert_eq!(unpacked_in(&place.path("results")).len(), 1, "a name proves nothing");
    let again = place.run(&["clean"]).expect(0);
    assert!(again.stderr.contains("nothing was left behind"), "{}", again.stderr);
    // The next repetition there does it, too.
    fs::remove_dir_all(deep.join(".unpacked-mine")).unwrap();
    killed();
    place.run(&repeat).expect(0);
    assert_eq!(unpacked_in(&deep), Vec::<String>::new());
    place.expect_clean();
}

#[test]
fn what_a_pack_needs_is_asked_for_at_once_and_answered_at_once() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    place.write("own.sql", "select 1;\n");
    let line =
        "run -f own.sql -c 12 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -o first";
    let words: Vec<&str> = line.split_whitespace().chain([PACE, "--server", &server]).collect();
    place.run(&words).expect(0);
    place.run(&["pack", "first", "-o", "first.tar.gz"]).expect(0);

    let asked = place.run(&["repeat", "first.tar.gz"]).expect(1).stderr;
    assert!(
        asked.contains("name the server to measure, the same or another: --server URL; besides: "),
        "{asked}"
    );
    let number = asked.split("--allow-commands=").nth(1).expect(&asked).split_whitespace().next().unwrap();
    let allow = format!("--allow-commands={number}");
    place.run(&["repeat", "first.tar.gz", "--server", &server, &allow, "-o", "again"]).expect(0);

    // As many as the clients, who need one more: too few, whatever is in use, and enough for all that comes before them.
    let small =
        TestServer::start(&ClusterOptions { settings: &["max_connections=12"], ..ClusterOptions::default() });
    let server = small.admin_target("postgres");
    let refused =
        place.run(&["repeat", "first.tar.gz", "--server", &server, &allow, "-o", "no"]).expect(1).stderr;
    let way = "pgdyno unpack first.tar.gz -o DIR, then pgdyno run DIR/experiment.toml --set KEY=VALUE";
    assert!(refused.contains("max_connections 12") && refused.contains(way), "{refused}");
    place.expect_clean();
}

#[test]
fn commands_of_a_stranger_are_shown_and_not_executed() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = bench(&pg);
    let log = place.path("log").display().to_string();
    let experiment = format!(
        "[experiment]\nname = \"own\"\n[hooks]\nbefore_run = [\"sh\", \"-c\", \"echo called >> {log}\"]\n\
         [workload]\nkind = \"scripts\"\ndata = \"none\"\ntransactions = 3\n\
         scripts = [{{name = \"one\", text = \"\"\"\\\\shell echo shelled >> {log}\nselect 1;\n\"\"\"}}]\n"
    );
    place.write("own.toml", &experiment);
    let args = "run own.toml -c 1 --repeats 1 --set prepare.settle=false -o out --server";
    let args: Vec<&str> = args.split_whitespace().chain([server.as_str()]).collect();
    // Three transactions are too few for a number.
    place.run(&args).expect(1);
    let called = || fs::read_to_string(place.path("log")).unwrap_or_default();
    assert!(called().contains("called") && called().contains("shelled"));
    place.run(&["pack", "out", "-o", "a.tar.gz"]).expect(0);
    fs::remove_file(place.path("log")).unwrap();

    let repeat = |more: &[&str]| {
        let fixed = ["repeat", "a.tar.gz", "-o", "again", "--server", &server];
        place.run(&[&fixed[..], more].concat())
    };
    for (more, expected) in [
        (
            &[][..],
            &["hooks: before_run: sh -c 'echo called", "workload.scripts: one", "Nothing was executed"][..],
        ),
        (&["--here"], &["workload.scripts: one", "\\shell echo shelled"]),
    ] {
        let refused = repeat(more).expect(1);
        for part in expected {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
        assert!(!place.path("again").exists() && called().is_empty(), "{}", called());
    }
    // No run counts on either side, which voids a comparison.
    let ended = repeat(&["--allow-commands"]).expect(1);
    let shown = ended.stderr.find("hooks: before_run: sh -c").unwrap();
    assert!(shown < ended.stderr.find("repeats 1 case, 1 run").unwrap(), "{}", ended.stderr);
    assert!(ended.stdout.contains("no verdict: one of both has no run that counts"), "{}", ended.stdout);
    assert!(called().contains("called") && called().contains("shelled"));
    fs::remove_dir_all(place.path("again")).unwrap();
    fs::remove_file(place.path("log")).unwrap();
}

/// Measures a kept sample again with this server's programs; builds may differ from those of the sample.
fn repeat_sample(place: &Place, kind: &str, more: &[&str]) -> Ended {
    formats::unpack(place, &formats::newest(), kind);
    let (dir, programs) = (format!("results/{kind}"), bin_dir().display().to_string());
    let fixed = ["repeat", &dir, "-o", "again", "--bin-dir", &programs, "--force"];
    place.run(&[&fixed[..], more].concat())
}

#[test]
fn a_duet_is_played_again_and_its_ratios_are_compared() {
    let place = Place::new();
    // Its script is somebody else's.
    let ended = repeat_sample(&place, "duet", &["--allow-commands"]).expect(0);
    let said = ": no verdict with 2 rounds on each side: ratio ";
    assert!(ended.stdout.contains(said) && ended.stdout.contains(" of the original"), "{}", ended.stdout);
    assert!(ended.stdout.contains("only 2 of 4 rounds"), "{}", ended.stdout);
    let [there, here] = ["results/duet", "again"].map(|name| place.path(name));
    let [duet_there, duet_here] =
        [&there, &here].map(|dir| store::read_duet(dir).unwrap().expect("it is a duet"));
    assert_eq!(duet_here.slicing, duet_there.slicing);
    let order =
        |duet: &model::load::duet::Duet| duet.pairs.iter().map(|pair| pair.is_a_first).collect::<Vec<_>>();
    assert_eq!(order(&duet_here), order(&duet_there), "the same seeds give the same order");
    let [of_there, of_here] = [&there, &here].map(|dir| store::read_plan(dir).unwrap());
    assert_eq!((of_here.runs, of_here.seed), (of_there.runs, of_there.seed));
    let page = fs::read_to_string(here.join("repeat.html")).unwrap();
    assert!(
        page.contains("Ratio of each round") && page.contains(">theirs</dt>") && page.contains(">here</dt>")
    );
    // It is a duet like any other.
    let own = place.run(&["compare", "again"]).expect(0);
    assert!(own.stdout.contains("slices are compared"), "{}", own.stdout);
    place.expect_clean();
}

#[test]
fn a_merged_study_is_measured_again_one_origin_at_a_time() {
    let place = Place::new();
    let refused = repeat_sample(&place, "merged", &[]).expect(1).stderr;
    assert!(
        refused.contains("what 2 origins measured, and is repeated a part at a time: --origin run (20"),
        "{refused}"
    );
    let refused = place.run(&["repeat", "results/merged", "--origin", "nobody"]).expect(1).stderr;
    assert!(refused.contains("no origin is called `nobody`; there are `run`, `again`"), "{refused}");
    formats::unpack(&place, &formats::newest(), "run");
    let refused = place.run(&["repeat", "results/run", "--origin", "run"]).expect(1).stderr;
    assert!(refused.contains("`results/run` was not merged; leave --origin run out"), "{refused}");
    fs::remove_dir_all(place.path("results/merged")).unwrap();

    let ended = repeat_sample(&place, "merged", &["--origin", "again"]).expect(0);
    for case in ["1 client", "2 clients"] {
        let said = format!("{case}: no verdict with 1 run on each side: ");
        assert!(ended.stdout.contains(&said), "{}", ended.stdout);
    }
    let [study, plan] = ["results/merged", "again"].map(|name| store::read_plan(&place.path(name)).unwrap());
    let seeds =
        |runs: &[model::experiment::plan::RunSpec]| runs.iter().map(|spec| spec.seed).collect::<Vec<_>>();
    assert_eq!((plan.origins.len(), seeds(&plan.runs)), (0, seeds(&study.runs[2..])));
    assert_eq!(plan.runs.iter().map(|spec| (spec.run, spec.block)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    // What the other origin measured is in no figure of the comparison.
    let page = fs::read_to_string(place.path("again/repeat.md")).unwrap();
    assert!(page.contains("| throughput | 280 tps |") && page.contains("| throughput | 674 tps |"), "{page}");
    place.expect_clean();
}
