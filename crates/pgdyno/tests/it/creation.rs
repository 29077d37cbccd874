//! Settings that act where data is made, as factors: each level has data of its own, and no other setting costs a second load.

use std::collections::BTreeMap;
use std::fs;

use model::experiment::case::setting;
use model::run::RunData;
use testbed::{ClusterOptions, TestServer};

use crate::tool::{PACE, Place, SMALL, wait_until};

/// Long values that compress, so that `default_toast_compression` decides how many pages they take.
const DOCS: &str = "create table docs as select g as id, repeat(md5((g % 1000)::text), 100) as body \
                    from generate_series(1, 5000) g;\nanalyze docs;\n";

/// Runs of one statement on an embedded server, with the levels of a setting.
fn run(place: &Place, out: &str, more: &[&str]) -> crate::tool::Ended {
    let common = "-c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false --set prepare.prewarm=false \
                  --set experiment.seed=1 --set experiment.order=sequential -o";
    let bin_dir = testbed::bin_dir().display().to_string();
    let mut args = vec!["run", PACE, "--bin-dir", &bin_dir, "--set", SMALL];
    args.extend(common.split_whitespace());
    args.push(out);
    args.extend(more);
    place.run(&args)
}

/// What each case's run says of the settings that its data was made under.
fn made_under(runs: &[RunData]) -> Vec<Option<String>> {
    let mut runs: Vec<&RunData> = runs.iter().collect();
    runs.sort_by_key(|run| run.record.case.id);
    runs.iter().map(|run| run.record.phases[0].detail.get("made_under").cloned()).collect()
}

/// Bytes of a relation when the run of each case began.
fn sizes(runs: &[RunData], relation: &str) -> BTreeMap<u32, u64> {
    let size = |run: &RunData| {
        let print = run.record.fingerprint.as_ref().unwrap();
        let found = print.relations.iter().find(|(name, _)| name.rsplit('.').next() == Some(relation));
        (run.record.case.id, found.unwrap().1.bytes)
    };
    runs.iter().map(size).collect()
}

/// Clusters in the cache.
fn n_clusters(place: &Place) -> usize {
    let clusters = fs::read_dir(place.path("cache/clusters")).unwrap().flatten();
    clusters.filter(|entry| entry.path().is_dir()).count()
}

#[test]
fn compression_of_long_values_is_a_factor_whose_levels_have_data_of_their_own() {
    let place = Place::new();
    place.write("docs.sql", DOCS);
    place.write("one.sql", "select body from docs where id = 7;\n");
    let levels = ["-f", "one.sql", "--set", "workload.data.files=[\"docs.sql\"]"];
    let toast = ["--set", "server.settings.default_toast_compression=[\"pglz\",\"lz4\"]"];
    run(&place, "out", &[&levels[..], &toast].concat()).expect(0);
    let runs = place.results("out").runs;
    let of = |word: &str| Some(format!("default_toast_compression = {word}"));
    assert_eq!(made_under(&runs), [of("pglz"), of("lz4")]);
    let size = sizes(&runs, "docs");
    assert!(size[&2] < size[&1], "lz4 takes less than pglz: {size:?}");
    let report = fs::read_to_string(place.path("out/report.md")).unwrap().replace('\\', "");
    let said =
        "data made under default_toast_compression = lz4 (case 2), default_toast_compression = pglz (case 1)";
    assert!(report.contains("[own-data]") && report.contains(said), "{report}");
    assert!(!report.contains("Runs did not begin from the same data"), "{report}");

    // Another experiment finds the data of each level again, and gives it to no other.
    let again = run(&place, "again", &[&levels[..], &toast].concat()).expect(0);
    assert_eq!(sizes(&place.results("again").runs, "docs"), size);
    assert!(again.stderr.contains("lz4 loaded before"), "{}", again.stderr);
    run(&place, "plain", &levels).expect(0);
    assert_eq!(sizes(&place.results("plain").runs, "docs")[&1], size[&1], "the default is pglz");
    assert_eq!(n_clusters(&place), 3);
    place.expect_clean();
}

#[test]
fn levels_that_change_nothing_stored_share_one_snapshot() {
    let place = Place::new();
    let levels = [
        "--scale",
        "1",
        "--set",
        "server.settings.work_mem=[\"4MB\",\"8MB\"]",
        "--set",
        "server.settings.synchronous_commit=[\"on\",\"off\"]",
    ];
    run(&place, "out", &levels).expect(0);
    assert_eq!(n_clusters(&place), 1);
    assert_eq!(made_under(&place.results("out").runs), vec![None; 4]);
    let levels = ["--scale", "1", "--set", "server.settings.default_statistics_target=[10,1000]"];
    let bin_dir = testbed::bin_dir().display().to_string();
    let planned =
        place.run(&[&["plan", "-c", "1", "--bin-dir", &bin_dir], &levels[..]].concat()).expect(0).stdout;
    let said = "data    made 2 times, under default_statistics_target = 10; default_statistics_target = 1000";
    assert!(planned.contains(said), "{planned}");
    run(&place, "statistics", &levels).expect(0);
    assert_eq!(n_clusters(&place), 3);
    place.expect_clean();
}

#[test]
fn a_server_that_writes_little_wal_is_a_level() {
    let place = Place::new();
    run(&place, "out", &["--scale", "1", "--set", "server.settings.wal_level=[\"replica\",\"minimal\"]"])
        .expect(0);
    let runs = place.results("out").runs;
    let of = |word: &str| Some(format!("wal_level = {word}"));
    assert_eq!(made_under(&runs), [of("replica"), of("minimal")]);
    let of_server = |name: &str| -> Vec<String> {
        let server = |run: &RunData| run.record.server.as_ref().unwrap().setting(name).unwrap().to_string();
        runs.iter().map(server).collect()
    };
    assert_eq!(of_server("wal_level"), ["replica", "minimal"]);
    assert_eq!(of_server("max_wal_senders"), ["10", "0"]);
    let report = fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(!report.contains("max_wal_senders"), "it follows from the level: {report}");

    for (setting, words) in [
        ("wal_segment_size=64MB", "server.settings.wal_segment_size: initdb decides it"),
        ("pg_stat_statements.track=none", "it is a setting of pg_stat_statements, which is not loaded"),
    ] {
        let set = format!("server.settings.{setting}");
        let refused = run(&place, "refused", &["--scale", "1", "--set", &set]).expect(1);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    place.expect_clean();
}

#[test]
fn a_value_that_a_server_takes_without_a_look_is_refused_where_it_would_act() {
    let place = Place::new();
    for (name, words) in [
        ("default_table_access_method", "Table access method \"nosuch\" does not exist"),
        ("default_tablespace", "Tablespace \"nosuch\" does not exist"),
        ("temp_tablespaces", "tablespace \"nosuch\" does not exist"),
        ("default_text_search_config", "nosuch"),
    ] {
        // A level that is sound comes first: its data is there when the other is asked for.
        let levels = format!("server.settings.{name}=[\"{}\",\"nosuch\"]", sound(name));
        let ended = run(&place, name, &["--scale", "1", "--set", &levels]);
        // The first level may have a number that counts.
        assert!(matches!(ended.code(), Some(1 | 2)), "{ended:?}");
        let refused = ended.stderr;
        let said = format!("`{name} = nosuch` has no effect on this server");
        assert!(refused.contains(&said) && refused.contains(words), "{name}: {refused}");
    }
    let one = "server.settings.default_table_access_method=nosuch";
    run(&place, "one", &["--scale", "1", "--set", one]).expect(1);
    place.expect_clean();
}

#[test]
fn the_table_has_every_setting_of_a_server() {
    let server = TestServer::start(&ClusterOptions::default());
    let names = server.ask("postgres", "select string_agg(name, ' ') from pg_settings where name !~ '[.]'");
    let missing: Vec<&str> = names.split(' ').filter(|name| !setting::is_known(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(names.split(' ').count() > 250, "{names}");

    let fixed =
        server.ask("postgres", "select string_agg(name, ' ') from pg_settings where context = 'internal'");
    let taken: Vec<&str> = fixed.split(' ').filter(|name| setting::never_taken(name).is_none()).collect();
    assert_eq!(taken, Vec::<&str>::new(), "no server takes them from its configuration");
}

/// A value that every server has.
fn sound(name: &str) -> &'static str {
    match name {
        "default_table_access_method" => "heap",
        "default_text_search_config" => "pg_catalog.english",
        _ => "pg_default",
    }
}

#[test]
fn statistics_of_a_server_by_url_are_made_under_each_level_of_their_target() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("bench");
    place.run(&["init", "--server", &target, "--create-database", "--scale", "1"]).expect(0);
    let common = "run -c 1 --measure 2s --ramp-up 0s --repeats 2 --scale 1 --allow-changes --set prepare.settle=false \
                  --allow-setting default_statistics_target --set prepare.prewarm=false --set prepare.analyze=false \
                  --set prepare.vacuum=false --set server.settings.default_statistics_target=[10,1000] -o out --server";
    let mut args: Vec<&str> = common.split_whitespace().collect();
    args.extend([&target, PACE]);
    // The bounds that ANALYZE kept of one column.
    let count = "select coalesce(array_length(histogram_bounds, 1), 0) from pg_stats \
                 where tablename = 'pgbench_accounts' and attname = 'aid'";
    place.run(&args).expect(0);
    let runs = place.results("out").runs;
    assert_eq!(runs.len(), 4);
    for run in &runs {
        let target = &run.record.case.server.settings["default_statistics_target"];
        let detail = &run.record.phases[0].detail;
        assert_eq!(detail["made_under"], format!("default_statistics_target = {target}"));
        assert!(!detail["method"].contains("as it was loaded before"), "{detail:?}");
    }
    // What the last run leaves was made under its level.
    let last = runs.iter().max_by_key(|run| run.record.spec.run).unwrap();
    let n: usize = server.ask("bench", count).parse().unwrap();
    let wanted: usize = last.record.case.server.settings["default_statistics_target"].parse().unwrap();
    assert_eq!(n, wanted + 1, "bounds of a histogram");
    // The next experiment does not take data of another target for its own.
    wait_until("the server's own target", || server.ask("bench", "show default_statistics_target") == "100");
    let plain = "run -c 1 --measure 2s --ramp-up 0s --repeats 1 --scale 1 --set prepare.settle=false -o plain --server";
    let plain: Vec<&str> = plain.split_whitespace().chain([&*target, PACE]).collect();
    place.run(&plain).expect(0);
    let detail = &place.first_run("plain").record.phases[0].detail;
    assert!(detail["method"].starts_with("loaded again"), "{detail:?}");
    assert_eq!(server.ask("bench", count), "101");
    place.expect_clean();
}

#[test]
fn data_that_is_measured_as_it_is_decides_the_scale() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let target = server.admin_target("bench");
    let short = "-c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -w tpcb-select --no-restore -o";
    let by_url = |out: &str, more: &[&str]| {
        let mut args = vec!["run", PACE, "--server", &target];
        args.extend(short.split_whitespace());
        args.push(out);
        args.extend(more);
        place.run(&args)
    };
    // Tables of somebody else: pgdyno's mark is gone.
    place.run(&["init", "--server", &target, "--create-database", "--scale", "3"]).expect(0);
    server.execute("bench", "comment on table pgbench_branches is null");
    by_url("foreign", &[]).expect(0);
    assert_eq!(place.first_run("foreign").record.case.workload.scale, 3);
    let refused = by_url("other", &["--scale", "2"]).expect(1).stderr;
    assert!(refused.contains("asks for scale 2, but the data has scale 3"), "{refused}");

    // The cluster that an earlier experiment has kept.
    run(&place, "first", &["--scale", "2"]).expect(0);
    let kept = run(&place, "kept", &["--no-restore", "-w", "tpcb-select"]).expect(0);
    assert_eq!(place.first_run("kept").record.case.workload.scale, 2, "{}", kept.stderr);
    assert_eq!(n_clusters(&place), 1);

    // Newer data of another layout, under another setting and of another schema is not what the next run finds.
    let others: [&[&str]; 3] = [
        &["--scale", "4", "--set", "workload.partitions=2"],
        &["--scale", "5", "--set", "server.settings.default_toast_compression=lz4"],
        &["--scale", "6", "--set", "workload.schema=other"],
    ];
    for (other, out) in others.into_iter().zip(["layout", "setting", "schema"]) {
        run(&place, out, &[&["-w", "tpcb-select"], other].concat()).expect(0);
        let again = format!("again-{out}");
        let kept = run(&place, &again, &["--no-restore", "-w", "tpcb-select"]).expect(0);
        assert_eq!(place.first_run(&again).record.case.workload.scale, 2, "{out}: {}", kept.stderr);
    }
    assert_eq!(n_clusters(&place), 4);
    place.expect_clean();
}
