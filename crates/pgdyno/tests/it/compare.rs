//! `compare` of existing results, and of servers that it measures itself.

use serde_json::Value;
use testbed::Pg;

use crate::tool::{Ended, Place, expect_found};

/// The shortest run.
const SHORT: [&str; 6] = ["--measure", "2s", "--ramp-up", "0s", "-c", "2"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn two_settings_of_our_own_server_are_measured_in_pairs() {
    let place = Place::with_binaries(&["18"]);
    let sides = ["compare", "--b", "server.settings.jit=off", "--scale", "1", "--time", "1s", "-o", "out"];
    let ended = place.run(&[&sides[..], &SHORT].concat()).expect(0);
    assert!(ended.stdout.contains("A: jit not set\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("B: jit off\n\nprovisional: B is "), "{}", ended.stdout);
    assert!(ended.stdout.contains("Too few pairs for a verdict [too-few-pairs]"), "{}", ended.stdout);
    let gate = place.run(&["compare", "out", "--fail-on", "slower"]).expect(2);
    assert!(
        gate.stderr.contains("--fail-on: provisional: B is ") && gate.stderr.contains(" in 1 of 1 pair; "),
        "{}",
        gate.stderr
    );
    let stored: Value = json(&place.run(&["compare", "out", "--json"]).expect(0).stdout);
    let ratio = stored.pointer("/comparisons/0/figures/0/provisional/ratio").and_then(Value::as_f64);
    assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{stored}");
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    let markdown = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    for text in [page, markdown] {
        assert!(text.contains("Provisional: B is ") && text.contains(" in 1 of 1 pair; "), "{text}");
    }
    assert!(ended.stdout.contains("declared: setting jit: not set and off"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("undeclared"), "{}", ended.stdout);
    let data = place.results("out");
    let [first, second] = data.runs.as_slice() else { panic!("the time ends after one pair") };
    let (first, second) = (&first.record, &second.record);
    assert_eq!((first.spec.block, first.spec.seed), (second.spec.block, second.spec.seed));
    for run in [first, second] {
        let jit = run.server.as_ref().and_then(|server| server.setting("jit"));
        assert_eq!(jit, Some(if run.spec.case == 1 { "on" } else { "off" }));
    }
    // It goes on in the same directory, as it says.
    let next =
        "no verdict: 5 pairs are missing; to go on in the same directory: pgdyno compare --resume out (";
    assert!(ended.stderr.contains(next), "{}", ended.stderr);
    let more = place.run(&["compare", "--resume", "out", "--time", "1s"]).expect(0);
    assert!(more.stderr.contains("going on in out: 1 of 6 pairs are done"), "{}", more.stderr);
    assert!(more.stderr.contains("no verdict: 4 pairs are missing; "), "{}", more.stderr);
    assert!(
        more.stdout.contains(" in 2 pairs; ") || more.stdout.contains(" in 2 of 2 pairs ("),
        "{}",
        more.stdout
    );
    let blocks: Vec<u32> = place.results("out").runs.iter().map(|run| run.record.spec.block).collect();
    assert_eq!(blocks, [1, 1, 2, 2]);
    let refused = place.run(&["compare", "--resume", "out", "--b", "server.settings.jit=off"]);
    refused.expect(1);
    let used = place.run(&["compare", "--b", "server.settings.jit=off", "-o", "out"]).expect(1).stderr;
    assert!(used.contains("`pgdyno compare --resume out`"), "{used}");
    place.expect_clean();
}

#[test]
fn settings_of_a_server_by_url_are_compared_with_consent() {
    let (place, pg) = (Place::new(), Pg::start());
    let server = pg.admin_target(&pg.database());
    let sides =
        "compare --b server.settings.work_mem=8MB -w tpcb-select -s 1 --time 1s --yes -q -o out --server";
    let args: Vec<&str> = sides.split(' ').chain([server.as_str()]).chain(SHORT).collect();
    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("put back at the end, only with --allow-changes"), "{}", refused.stderr);
    let args: Vec<&str> = args.into_iter().chain(["--allow-changes"]).collect();
    place.run(&args).expect(0);
    for run in place.results("out").runs {
        let had = run.record.server.as_ref().and_then(|server| server.setting("work_mem"));
        assert_eq!(had, Some(if run.record.spec.case == 1 { "4MB" } else { "8MB" }));
    }
    assert_eq!(pg.ask("postgres", "show work_mem"), "4MB");
    place.expect_clean();
}

#[test]
fn sides_that_cannot_be_measured_are_refused_and_leave_nothing() {
    let place = Place::with_binaries(&["18"]);
    let refused = |args: &str, expected: &str| {
        let ended = place.run(&args.split_whitespace().collect::<Vec<_>>()).expect(1);
        assert!(ended.stderr.contains(expected), "{args}\n{}", ended.stderr);
        assert!(!place.path("out").exists(), "{args}");
    };
    let same =
        "A and B do not differ in anything (with server.version=18 both are the same); did you mean --aa?";
    refused("compare --b server.version=18 -o out", same);
    refused("compare --duet --b server.version=18 -o out", same);
    refused("compare --b foo=1 -o out", "--b foo=1: unknown field `foo`");
    refused("compare --a workload.clinets=1 -o out", "--a workload.clinets=1: unknown field `clinets`");
    refused("compare --b foo -o out", "--b `foo` has no `=`; example: --b workload.scale=100");
    let short = "--b server.settings.jit=off --measure 3s --rounds 3 -s 1 -o out";
    let least = "3 pairs of slices fit into the measurement of a round (3 s), but a verdict needs at least 6: measure at \
                 least 6s";
    refused(&format!("compare --duet {short}"), least);
}

/// A comparison of two scripts that sleep, on an existing server.
fn sleepers(place: &Place, pg: &Pg, output: &str, more: &[&str]) -> Ended {
    let script = place.write("sleep.sql", "SELECT pg_sleep(:delay / 1000.0);\n").display().to_string();
    let target = format!("server.url={}", pg.admin_target(&pg.database()));
    let args = ["compare", "-f", &script, "--set", &target, "--set", "workload.data=\"none\"", "-o", output];
    let prepare = ["--set", "prepare.settle=false", "--set", "workload.defines.delay=3"];
    place.run(&[&args[..], &prepare, &SHORT, more].concat())
}

#[test]
fn a_slower_server_fails_the_comparison_now_and_later() {
    let (place, pg) = (Place::new(), Pg::shared());
    let sides = ["--b", "workload.defines.delay=12", "--pairs", "6", "--fail-on", "slower", "--json"];
    let ended = sleepers(&place, &pg, "out", &sides).expect(4);
    assert!(
        ended.stderr.contains("--fail-on: B is ") && ended.stderr.contains(" % slower"),
        "{}",
        ended.stderr
    );
    let case = &json(&ended.stdout)["comparisons"][0];
    assert_eq!((&case["pairing"], &case["n_pairs"]), (&"blocks".into(), &6.into()), "{case}");
    let ratio = &case["figures"][0]["result"];
    let end = |name: &str| ratio[name].as_f64().unwrap();
    assert_eq!(ratio["verdict"], "slower", "{case}");
    assert!(end("low") <= end("ratio") && end("ratio") <= end("high") && end("detectable") > 0.0, "{ratio}");

    let again = place.run(&["compare", "out", "--json"]).expect(0);
    assert_eq!(json(&again.stdout)["comparisons"][0], *case, "the same numbers from the directory");
    // The page has the verdict, and the command that measures both sides again.
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    let page = read("out/report.html");
    assert!(page.contains("<p class=\"verdict slower\">") && page.contains("Repeat this comparison"));
    let command = "--b workload.defines.delay=12 --pairs 6 --fail-on slower --json";
    for report in [&page, &read("out/report.md")] {
        assert!(report.contains(command) && report.contains("--set experiment.seed="), "{report:.4000}");
        assert!(!report.contains("pgdyno run "));
    }
    place.run(&["compare", "out:2", "out:1", "--report", "back.html"]).expect(0);
    assert!(read("back.html").contains("<p class=\"verdict faster\">"));
    let own = place.run(&["compare", "out", "--report", "out"]).expect(1);
    assert!(own.stderr.contains("has an experiment with its own report"), "{}", own.stderr);
    let text = place.run(&["compare", "out:1", "out:2"]).expect(0).stdout;
    assert!(text.contains("slower (95 % interval -") && text.contains("would probably be missed"), "{text}");
    // Of two experiments, the directories are named.
    let copied =
        std::process::Command::new("cp").arg("-r").args([place.path("out"), place.path("copy")]).status();
    assert!(copied.unwrap().success());
    let text = place.run(&["compare", "out:1", "copy:2"]).expect(1).stdout;
    assert!(
        text.contains(", in out\n") && text.contains(", in copy\n") && text.contains("[not-interleaved]"),
        "{text}"
    );
    // With the sides swapped, the other end of the interval decides.
    place.run(&["compare", "out:2", "out:1", "--fail-on", "slower"]).expect(0);
    let back = place.run(&["compare", "out:2", "out:1", "--fail-on", "different", "--json"]).expect(4);
    let inverse = json(&back.stdout)["comparisons"][0]["figures"][0]["result"]["low"].as_f64().unwrap();
    assert!((inverse * end("high") - 1.0).abs() < 1e-9);
}

/// Most of a transaction sleeps, so that a tenth more rows change no speed.
#[test]
fn transactions_that_cost_more_fail_a_comparison_whose_speed_does_not_differ() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    pg.admin(&database).execute("CREATE TABLE ledger (n int)").unwrap();
    let script =
        "BEGIN;\nINSERT INTO ledger SELECT generate_series(1, :rows);\nSELECT pg_sleep(0.004);\nEND;\n";
    let script = place.write("rows.sql", script).display().to_string();
    let target = format!("server.url={}", pg.admin_target(&database));
    let args = [
        "compare",
        "-f",
        &script,
        "--set",
        &target,
        "--set",
        "workload.data=\"none\"",
        "-o",
        "out",
        "--pairs",
        "6",
    ];
    let sides = ["--a", "workload.defines.rows=50", "--b", "workload.defines.rows=60"];
    let gate = ["--fail-on", "cost:blocks=1%", "--set", "prepare.settle=false"];
    // Of four seconds, the first is left out: new sessions read the catalogs then.
    let long = ["--measure", "4s", "--ramp-up", "0s", "-c", "2"];
    let ended = place.run(&[&args[..], &sides, &gate, &long].concat()).expect(4);
    assert!(ended.stderr.contains("cost blocks: B touches "), "{}", ended.stderr);
    assert!(ended.stdout.contains("per transaction, B "), "{}", ended.stdout);

    let again = place.run(&["compare", "out", "--json", "--fail-on", "cost:blocks=30%"]).expect(0);
    let case = &json(&again.stdout)["comparisons"][0];
    let blocks = case["costs"].as_array().unwrap().iter().find(|cost| cost["id"] == "blocks").unwrap();
    let ratio = blocks["result"]["ratio"].as_f64().unwrap();
    assert!((1.12..1.21).contains(&ratio) && blocks["verdict"] == "more", "{blocks}");
    let unknown = place.run(&["compare", "out", "--fail-on", "cost:instructions"]).expect(2);
    assert!(unknown.stderr.contains("cost instructions: no verdict on it"), "{}", unknown.stderr);
}

#[test]
fn a_case_compared_with_itself_stops_at_the_precision_and_gives_a_noise_floor() {
    let (place, pg) = (Place::new(), Pg::shared());
    let ended = sleepers(&place, &pg, "out", &["--aa", "--time", "30min", "--precision", "90%"]).expect(0);
    let data = place.results("out");
    assert!(data.plan.runs.len() > data.runs.len(), "it stopped on width: {}", ended.stderr);
    assert_eq!(data.runs.len(), 12);
    assert!(
        ended.stdout.contains("A: side A") && ended.stdout.contains("noise floor of"),
        "{}",
        ended.stdout
    );
    let later = place.run(&["compare", "out"]).expect(0).stdout;
    assert!(later.contains("A/A pairs (scripts, 2 clients)"), "{later}");
    let history = place.run(&["history", "compare", "--dir", "."]).expect(0).stdout;
    assert!(history.contains("side A, host=") && history.contains("6 runs"), "{history}");
    assert_eq!(place.run(&["history", "compare", "."]).expect(0).stdout, history);
    let list = place.run(&["list", "."]).expect(0).stdout;
    assert!(list.contains("  compare  "), "the name that history wants: {list}");
    let by_directory = place.run(&["history", "out"]).expect(0).stdout;
    assert_eq!(by_directory.lines().count(), history.lines().count(), "{by_directory}");
    let none = place.run(&["history", "other", "--dir", "."]).expect(1);
    assert!(none.stderr.contains("no experiment `other` in `.`; it has compare"), "{}", none.stderr);
    let report = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(!report.contains("runs are missing"), "{report}");
}

#[test]
fn two_servers_take_turns_in_a_duet() {
    let place = Place::with_binaries(&["18"]);
    let slow = place.write("slow.sql", "SELECT pg_sleep(:delay / 1000.0);\n");
    let slow = slow.display().to_string();
    let args = [
        &["compare", "--duet", "-f", &slow, "--set", "workload.data=\"none\"", "-c", "4", "-o", "out"][..],
        &["--a", "workload.defines.delay=4", "--b", "workload.defines.delay=16", "--fail-on", "slower"],
        &["--rounds", "2", "--measure", "4s", "--ramp-up", "1s", "--slice", "250", "--guard", "20", "--json"],
    ]
    .concat();
    let case = &json(&place.run(&args).expect(4).stdout)["comparisons"][0];
    // The first two of 10 pairs of each round lie in the ramp-up.
    assert_eq!((&case["pairing"], &case["n_pairs"]), (&"slices".into(), &16.into()), "{case}");
    let ratio = case["figures"][0]["result"]["ratio"].as_f64().unwrap();
    assert!((0.2..0.75).contains(&ratio), "{case}");
    assert!(case["findings"].to_string().contains("\"too-few-rounds\""), "{case}");
    expect_found(&place, "out", &["took-turns"]);
    // What each side committed was in its own slices, and those of the two do not overlap.
    let data = place.results("out");
    let slices = |run: usize| data.runs[run].record.load.as_ref().unwrap().turns.clone().unwrap().slices;
    assert!(slices(0).bytes().zip(slices(1).bytes()).all(|(a, b)| a != b));
    assert_eq!(data.runs[0].record.go_unix_ns, data.runs[1].record.go_unix_ns);
    // Servers were restarted for the second round, and one of the two rounds swapped their clusters.
    let directory = |run: usize| data.runs[run].record.server.as_ref().unwrap().data_directory.clone();
    let of_case = |round: u32, case: u32| {
        data.runs
            .iter()
            .position(|run| (run.record.spec.block, run.record.spec.case) == (round, case))
            .unwrap()
    };
    assert_eq!(directory(of_case(1, 1)), directory(of_case(2, 2)));
    assert_ne!(directory(of_case(1, 1)), directory(of_case(2, 1)));
    let duet = store::read_duet(&place.path("out")).unwrap().unwrap();
    assert_eq!(duet.rounds.iter().filter(|round| round.is_swapped).count(), 1);
    assert_eq!(duet.by_round().iter().map(|pairs| pairs.len()).collect::<Vec<_>>(), [8, 8]);
    place.expect_clean();
    let again = place.run(&["compare", "out", "--json"]).expect(0);
    assert_eq!(json(&again.stdout)["comparisons"][0], *case, "the same numbers from the directory");
}

#[test]
fn sides_that_are_not_comparable_are_reported() {
    let place = Place::with_binaries(&["18"]);
    let check = |args: &[&str], expected: &str| {
        let ended = place.run(&[&["compare"], args].concat()).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    };
    check(&[], "nothing to compare");
    check(&["nowhere"], "no results in `nowhere`");
    check(&["--aa", "--experiment", "scripts", "-f", "x.sql", "--margin", "0"], "is not a share");
    check(&["--duet", "--aa", "--slice", "100", "--guard", "100"], "a guard of 100 ms");
    check(&["--duet", "--aa", "--set", "workload.pace=100/s"], "needs a closed loop");
    check(&["--aa", "--slice", "100"], "--duet");
    check(&["--b", "workload.clients=[1, 2]"], "B has several cases (workload.clients)");
    check(&["--aa", "--b", "server.version=17"], "cannot be used with");
    check(&["--aa", "--report", "x.html"], "cannot be used with");
    // What would fail later is reported before anything begins.
    check(&["--b", "server.settings.no_such=1", "-o", "out"], "B: PostgreSQL 18");
    assert!(!place.path("out").exists());
}

#[test]
fn a_comparison_can_be_planned_without_measuring_anything() {
    let place = Place::new();
    let planned = |more: &str| {
        let all = ["compare", "--plan", "--scale", "1", "--bin-dir", "/usr/lib/postgresql/15/bin"];
        place.run(&[&all[..], &SHORT, &more.split(' ').collect::<Vec<_>>()].concat())
    };
    let ended = planned("--b server.settings.jit=off --pairs 7").expect(0);
    for words in ["2 cases, 14 runs", "\nrun   14 ", "\ntime    about ", "\nsum     about "] {
        assert!(ended.stdout.contains(words), "{words}\n{}", ended.stdout);
    }
    assert!(
        ended.stderr.contains("compares jit not set (A) with jit off (B) in 7 pairs, about "),
        "{ended:?}"
    );
    // One estimate, of the pairs that the time reaches.
    for time in ["4s", "20s", "10min"] {
        let ended = planned(&format!("--b server.settings.jit=off --time {time}")).expect(0);
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix("time    "));
        let about = line.and_then(|line| line.split(':').next()).unwrap();
        assert!(ended.stdout.contains(&format!("\nsum     {about} of time; ")), "{time}\n{}", ended.stdout);
        assert!(ended.stderr.contains(&format!(", {about}")), "{time}\n{}", ended.stderr);
        assert_eq!(ended.stderr.contains("the minimum for a verdict"), time != "10min", "{}", ended.stderr);
    }
    let duet = planned("--aa --duet --rounds 3 --slice 100 --guard 20").expect(0);
    assert!(duet.stderr.contains("compares the server with itself in 3 pairs"), "{duet:?}");
    let refused = planned("--b server.settings.jit=fast").expect(1);
    assert!(refused.stdout.contains("\nproblem B: "), "{refused:?}");
    assert!(planned("--yes").expect(1).stderr.contains("nothing to compare: "));
    assert!(!place.path("results").exists() && !place.path("cache/clusters").exists());
    place.expect_clean();
}
