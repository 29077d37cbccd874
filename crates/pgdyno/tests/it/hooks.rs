//! The user's own commands around cases and runs: their order, what is recorded of them, and what a failure does.

use model::experiment::plan::RunState;
use testbed::Pg;

use crate::tool::Place;

const RUN: &str = "-c 1 --repeats 1 -w scripts --set workload.data=none --set workload.transactions=5 -o out \
                   --set prepare.settle=false --set experiment.order=sequential";

#[test]
fn hooks_surround_cases_and_runs_and_a_failing_one_is_the_reason() {
    let (pg, place) = (Pg::shared(), Place::new());
    let log = place.path("log").display().to_string();
    let say = format!("echo $PGDYNO_HOOK $PGDYNO_CASE $PGDYNO_FACTOR_KERNEL >> {log}; echo said $PGDYNO_RUN");
    let hook = |name: &str, command: &str| format!("{name} = [\"sh\", \"-c\", {command:?}]\n");
    let head = "[experiment]\nname = \"hooks\"\n[factors]\nkernel = [\"a\", \"b\"]\n[hooks]\n";
    let all = ["before_case", "after_case", "before_run", "after_run"].map(|name| hook(name, &say)).concat();
    let url = pg.admin_target(&pg.database());
    let run = |text: &str| {
        let file = place.write("hooks.toml", text).display().to_string();
        let script = place.write("one.sql", "select 1;\n").display().to_string();
        let fixed = ["run", file.as_str(), "--server", &url, "-f", &script];
        place.run(&fixed.into_iter().chain(RUN.split_whitespace()).collect::<Vec<_>>())
    };
    // Five transactions are too few for a number.
    run(&format!("{head}{all}")).expect(1);
    let written = std::fs::read_to_string(&log).unwrap();
    let around = |case: u32, kernel: &str| {
        ["before_case", "before_run", "after_run", "after_case"].map(|hook| format!("{hook} {case} {kernel}"))
    };
    assert_eq!(written.lines().collect::<Vec<_>>(), [around(1, "a"), around(2, "b")].concat());
    let data = place.results("out");
    assert_eq!(data.plan.factors, ["factors.kernel"]);
    for run in &data.runs {
        let hooks = &run.record.hooks;
        assert_eq!(hooks.len(), 4, "{hooks:?}");
        let said = format!("said {}", run.record.spec.run);
        assert!(hooks.iter().all(|called| called.exit_code == Some(0) && called.output == said), "{hooks:?}");
    }
    std::fs::remove_dir_all(place.path("out")).unwrap();
    // The second case cannot be set up; the run before it counts, and what comes after is called, and reported.
    let fails = "test $PGDYNO_CASE = 1 || { echo no such kernel; exit 7; }";
    let after = ["after_run", "after_case"].map(|name| hook(name, "echo still mounted; exit 8")).concat();
    let ended = run(&format!("{head}{}{after}", hook("before_case", fails)));
    for name in ["after_run", "after_case"] {
        assert!(ended.stderr.contains(&format!("hook {name} (")), "{}", ended.stderr);
    }
    let data = place.results("out");
    let second = &data.runs[1].record;
    assert_eq!((data.runs[0].record.state, second.state), (RunState::Completed, RunState::Failed));
    let reason = &second.reason;
    assert!(reason.starts_with("hook before_case") && reason.ends_with("no such kernel"), "{reason}");
    assert_eq!(second.hooks[0].exit_code, Some(7));
    place.expect_clean();
}

#[test]
fn a_level_with_a_secrets_name_is_neither_in_what_hooks_say_nor_does_hiding_it_break_the_file() {
    let (pg, place) = (Pg::shared(), Place::new());
    place.write("one.sql", "select 1;\n");
    let url = pg.admin_target(&pg.database());
    place.write(
        "secret.toml",
        "[experiment]\nname = \"secret\"\n[factors]\ndb_pass = [\"Canary1\", \"Canary2\"]\n\
         [hooks]\nbefore_run = [\"sh\", \"-c\", \"echo it is $PGDYNO_FACTOR_DB_PASS\"]\n",
    );
    let fixed = ["run", "secret.toml", "--server", &url, "-f", "one.sql"];
    place.run(&fixed.into_iter().chain(RUN.split_whitespace()).collect::<Vec<_>>()).expect(1);
    for run in &place.results("out").runs {
        let output = &run.record.hooks[0].output;
        assert!(output.starts_with("it is (hidden") && !output.contains("Canary"), "{output}");
    }
    let stored = std::fs::read_to_string(place.path("out/experiment.toml")).unwrap();
    assert!(!stored.contains("Canary"), "{stored}");
    stored.parse::<toml::Table>().unwrap_or_else(|error| panic!("{error}: {stored}"));
    place.expect_clean();
}
