//! `compare` of results that are there, and of servers that it measures itself.

use serde_json::Value;

use crate::tool::Place;

/// The shortest runs on the smallest data.
const SHORT: [&str; 8] = ["--scale", "1", "--measure", "2s", "--ramp-up", "0s", "-c", "2"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn two_settings_are_measured_in_pairs_and_compared_again_later() {
    let place = Place::with_binaries(&["18"]);
    let mut args = vec!["compare", "--b", "server.settings.jit=off", "--pairs", "6", "-o", "out", "--json"];
    args.extend(SHORT);
    let ended = place.run(&args).expect(0);
    let case = &json(&ended.stdout)["comparisons"][0];
    assert_eq!((&case["pairing"], &case["n_pairs"]), (&"blocks".into(), &6.into()), "{case}");
    assert_eq!(case["declared"][0]["what"], "setting jit", "{case}");
    assert_eq!(case["undeclared"], Value::Array(Vec::new()), "{case}");
    let ratio = &case["figures"][0]["result"];
    let end = |name: &str| ratio[name].as_f64().unwrap();
    assert!(end("low") <= end("ratio") && end("ratio") <= end("high") && end("detectable") > 0.0, "{ratio}");

    let data = place.results("out");
    assert_eq!(data.runs.len(), 12);
    for pair in data.runs.chunks(2) {
        let [a, b] = pair else { panic!("runs come in pairs") };
        assert_eq!((a.record.spec.block, a.record.spec.seed), (b.record.spec.block, b.record.spec.seed));
        assert_eq!(a.record.spec.case + b.record.spec.case, 3);
    }
    let jit =
        |run: &model::run::RunData| run.record.server.as_ref().unwrap().setting("jit").map(str::to_string);
    for run in &data.runs {
        assert_eq!(jit(run).as_deref(), Some(if run.record.spec.case == 1 { "on" } else { "off" }));
    }
    place.expect_clean();

    let again = place.run(&["compare", "out", "--json"]).expect(0);
    assert_eq!(json(&again.stdout)["comparisons"][0], *case, "the same numbers from the directory");
    let text = place.run(&["compare", "out:1", "out:2"]).expect(0).stdout;
    assert!(text.contains("B: jit off") && text.contains("smallest difference"), "{text}");
    // The other way round, the other end of the interval.
    let back = json(&place.run(&["compare", "out:2", "out:1", "--json"]).expect(0).stdout);
    let inverse = back["comparisons"][0]["figures"][0]["result"]["low"].as_f64().unwrap();
    assert!((inverse * end("high") - 1.0).abs() < 1e-9);
}

#[test]
fn a_slower_server_fails_the_comparison_and_a_noise_floor_is_kept() {
    let place = Place::with_binaries(&["18"]);
    let slow = place.write("slow.sql", "SELECT pg_sleep(:delay / 1000.0);\n");
    let slow = slow.display().to_string();
    let args = [
        &[
            "compare",
            "-f",
            &slow,
            "--set",
            "workload.data=\"none\"",
            "--a",
            "workload.defines.delay=2",
            "--b",
        ][..],
        &["workload.defines.delay=8", "--pairs", "6", "-o", "slow", "--fail-on", "slower"],
        &["--measure", "2s", "--ramp-up", "0s", "-c", "2"],
    ]
    .concat();
    let ended = place.run(&args).expect(4);
    assert!(ended.stdout.contains("% slower (95 % interval -"), "{}", ended.stdout);
    place.run(&["compare", "slow:2", "slow:1", "--fail-on", "slower"]).expect(0);
    place.run(&["compare", "slow:2", "slow:1", "--fail-on", "different"]).expect(4);

    let floor =
        [&["compare", "--aa", "--time", "30min", "--precision", "90%", "-o", "aa"][..], &SHORT].concat();
    let ended = place.run(&floor).expect(0);
    let data = place.results("aa");
    assert!(data.plan.runs.len() > data.runs.len(), "it stopped on width: {}", ended.stderr);
    assert!(
        ended.stdout.contains("A: side A") && ended.stdout.contains("noise floor of"),
        "{}",
        ended.stdout
    );
    let later = place.run(&["compare", "slow"]).expect(0).stdout;
    assert!(later.contains("A/A pairs (tpcb, 2 clients)"), "{later}");
    let report = std::fs::read_to_string(place.path("aa/report.md")).unwrap();
    assert!(!report.contains("runs are missing"), "{report}");
    place.expect_clean();
}

#[test]
fn two_servers_take_turns_in_a_duet() {
    let place = Place::with_binaries(&["18"]);
    let slow = place.write("slow.sql", "SELECT pg_sleep(:delay / 1000.0);\n");
    let slow = slow.display().to_string();
    let args = [
        &["compare", "--duet", "-f", &slow, "--set", "workload.data=\"none\"", "-c", "4", "-o", "out"][..],
        &["--a", "workload.defines.delay=3", "--b", "workload.defines.delay=6", "--fail-on", "slower"],
        &["--measure", "8s", "--ramp-up", "1s", "--slice", "250", "--guard", "20", "--json"],
    ]
    .concat();
    let case = &json(&place.run(&args).expect(4).stdout)["comparisons"][0];
    // The first two of 18 pairs lie in the ramp-up.
    assert_eq!((&case["pairing"], &case["n_pairs"]), (&"slices".into(), &16.into()), "{case}");
    let ratio = case["figures"][0]["result"]["ratio"].as_f64().unwrap();
    assert!((0.4..0.75).contains(&ratio), "{case}");
    // What each side committed was in its own slices, and those of the two do not overlap.
    let data = place.results("out");
    let slices = |run: usize| data.runs[run].record.load.as_ref().unwrap().turns.clone().unwrap().slices;
    assert!(slices(0).bytes().zip(slices(1).bytes()).all(|(a, b)| a != b));
    assert_eq!(data.runs[0].record.go_unix_ns, data.runs[1].record.go_unix_ns);
    place.expect_clean();
    let again = place.run(&["compare", "out", "--json"]).expect(0);
    assert_eq!(json(&again.stdout)["comparisons"][0], *case, "the same numbers from the directory");
}

#[test]
fn what_cannot_be_compared_is_told() {
    let place = Place::new();
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
}
