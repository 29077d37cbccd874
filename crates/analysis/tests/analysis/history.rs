//! Histories over synthetic experiments.

use analysis::history::{PastRun, histories, joined, packed, past_runs};
use analysis::study;
use analysis::summary::{RunSummary, Study};
use model::experiment::case::{Case, ServerSource};
use model::experiment::origin::MergedFrom;
use model::experiment::plan::RunSpec;
use model::load::Turns;
use model::run::ExperimentData;
use model::run::server::Setting;

use crate::comparison::{TABLE, compare_cases, pairs};
use crate::quiet::{self, S, set_committed, tps};

/// An experiment of three runs, so many days after the first one.
fn experiment(day: u64, level: u64, change: impl Fn(&mut ExperimentData)) -> (String, ExperimentData, Study) {
    let runs = (1..=3).map(|number| {
        let mut run = quiet::run(number);
        run.histograms.clear();
        set_committed(&mut run, 0..35, |t| level + tps(t) - 1000 + u64::from(number));
        run.record.server.as_mut().unwrap().version_num += day as u32 / 4;
        run
    });
    let mut data = quiet::experiment(3, runs.collect());
    change(&mut data);
    let explained = study(&data);
    // Moved after it was explained, with what belongs to it.
    data.runs.iter_mut().for_each(|run| {
        let go = run.record.go_unix_ns.unwrap();
        run.record.go_unix_ns = Some(go + day * 86_400 * S + u64::from(run.record.spec.run) * 60 * S);
    });
    (format!("day {day}"), data, explained)
}

#[test]
fn a_change_of_level_is_found_with_its_medians_and_revisions() {
    let level = |day| if day < 4 { 1000 } else { 900 };
    let mut experiments: Vec<_> = (0..8).map(|day| experiment(day, level(day), |_| {})).collect();
    // Listed in any order.
    experiments.reverse();
    let found = histories(&experiments);
    assert_eq!((found.len(), found[0].points.len()), (1, 24));
    assert!(found[0].points.is_sorted_by_key(|point| point.t_unix_ns));
    let [change] = found[0].changes.as_slice() else { panic!("{:?}", found[0].changes) };
    assert_eq!(
        (change.last_before.experiment.as_str(), change.first_after.experiment.as_str()),
        ("day 3", "day 4")
    );
    assert_eq!(
        (change.last_before.revision.as_str(), change.first_after.revision.as_str()),
        ("18.1", "18.2")
    );
    assert!((change.after / change.before - 0.9).abs() < 0.01 && change.p < 0.001, "{change:?}");
}

#[test]
fn a_change_that_is_smaller_than_the_ranges_of_the_runs_on_both_sides_is_within_them() {
    let of = |after: u64, change: fn(&mut ExperimentData)| {
        let level = |day| if day < 4 { 1000 } else { after };
        let experiments: Vec<_> = (0..8).map(|day| experiment(day, level(day), change)).collect();
        let found = histories(&experiments).remove(0);
        assert!(found.points.iter().all(|point| point.range.is_some()), "{found:?}");
        found.changes[0].within_words()
    };
    let stolen: fn(&mut ExperimentData) = |data| {
        for run in &mut data.runs {
            // All that is not stolen is busy: with it, there would be 10 parts in 7 of what there is.
            for (metric, value) in [("user", 0.7), ("system", 0.0), ("steal", 0.3)] {
                quiet::set_metric(run, &format!("host.cpu.{metric}"), -10.0, 50.0, value);
            }
        }
    };
    assert_eq!(of(600, |_| {}), None, "quiet runs are good to a few per cent");
    let words = of(900, stolen).unwrap();
    assert!(words.starts_with("one run alone can be off by more (±"), "{words}");
    assert_eq!(of(300, stolen), None, "too large for that");
}

#[test]
fn conditions_that_differ_around_a_change_are_named_and_those_of_single_runs_are_not() {
    fn later(data: &mut ExperimentData) {
        for run in &mut data.runs {
            let record = &mut run.record;
            record.tool_version = "0.2.0".to_string();
            record.ready.as_mut().unwrap().build_profile = "dev".to_string();
            record.host.as_mut().unwrap().kernel = "6.8".to_string();
            record.rows_before.insert("t".to_string(), 20);
            let server = record.server.as_mut().unwrap();
            server.database_bytes *= 2;
            let set = Setting { value: "1GB".to_string(), source: "configuration file".to_string() };
            server.settings.insert("work_mem".to_string(), set);
        }
    }
    fn earlier(data: &mut ExperimentData) {
        for run in &mut data.runs {
            let record = &mut run.record;
            record.ready.as_mut().unwrap().build_profile = "release".to_string();
            record.host.as_mut().unwrap().kernel = "6.1".to_string();
            record.rows_before.insert("t".to_string(), 10);
            let number = record.spec.run;
            let server = record.server.as_mut().unwrap();
            server.settings.insert("data_directory".to_string(), Setting::default());
            // One run had other settings, and each run another value of a fact.
            if number == 1 {
                let set = Setting { value: "9".to_string(), source: "configuration file".to_string() };
                server.settings.insert("random_page_cost".to_string(), set);
            }
            record.host.as_mut().unwrap().facts.insert("load".to_string(), number.to_string());
        }
    }
    let level = |day| if day < 4 { 1000 } else { 900 };
    let change =
        |day| if day < 4 { earlier } else { |data: &mut ExperimentData| (earlier(data), later(data)).1 };
    let experiments: Vec<_> = (0..8).map(|day| experiment(day, level(day), change(day))).collect();
    // Two runs on each side suggest a change.
    let of_few = |day: u64| {
        experiment(day, level(day), |data| {
            change(day)(data);
            data.runs.truncate(1);
        })
    };
    let few = histories(&(2..6).map(of_few).collect::<Vec<_>>()).remove(0).pending.unwrap();
    let of_few = (few.lead(), few.conditions.iter().map(|one| one.words()).collect::<Vec<String>>());
    let found = histories(&experiments);
    let [change] = found[0].changes.as_slice() else { panic!("{:?}", found[0].changes) };
    let words: Vec<String> = change.conditions.iter().map(|condition| condition.words()).collect();
    let expected = [
        "PostgreSQL: 18.1 before, 18.2 after",
        "build profile of the driver: release before, dev after",
        "kernel: 6.1 before, 6.8 after",
        "rows of t: 10 before, 20 after",
        "version of pgdyno: 0.1.0 before, 0.2.0 after",
        "setting work_mem: not set before, 1GB after",
        "size of the database: 1.46 GiB before, 2.93 GiB after",
    ];
    assert_eq!(words, expected);
    assert_eq!(of_few, ("no verdict", words));
    // They survive the way to the process that draws.
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Packed(#[serde(with = "packed")] Vec<PastRun>);
    let packed = |of: &[(String, ExperimentData, Study)]| {
        let runs = of.iter().flat_map(|(name, data, study)| past_runs(name, data, study)).collect();
        serde_json::to_string(&Packed(runs)).unwrap()
    };
    let alike = packed(&[experiment(0, 1000, |_| {}), experiment(1, 1000, |_| {})]);
    assert_eq!(alike.matches("\"version of pgdyno\"").count(), 2, "once for all runs of a result");
    let text = packed(&experiments);
    let Packed(read) = serde_json::from_str(&text).unwrap();
    assert_eq!(joined(read)[0].changes, found[0].changes);
}

#[test]
fn a_history_names_whatever_a_comparison_of_the_same_runs_names() {
    let mut n_seen = 0;
    for (finding, _, words, disturb) in TABLE.iter().filter(|row| row.0 == "undeclared-difference") {
        let mut data = pairs(10, 0.5);
        disturb(&mut data);
        let compared: Vec<String> =
            compare_cases(&data).undeclared.into_iter().map(|difference| difference.what).collect();
        // The same case, by the same server, on two days.
        let first = data.plan.cases[0].clone();
        let is_one_server = data.plan.cases[1].server.source == first.server.source;
        data.plan.cases[1] = Case { id: 2, ..first };
        let explained = study(&data);
        data.runs.iter_mut().for_each(|run| {
            let RunSpec { run: number, case, .. } = run.record.spec;
            let later_s = u64::from(number) * 60 + u64::from(case) * 86_400;
            run.record.go_unix_ns = run.record.go_unix_ns.map(|go| go + later_s * S);
        });
        let found = histories(&[("day".to_string(), data, explained)]);
        // Another load, and another machine, have another history; one run is not most of them.
        let is_of_one_run = words.contains("jit in sessions");
        let ([history], true, false) = (found.as_slice(), is_one_server, is_of_one_run) else { continue };
        let [change] = history.changes.as_slice() else { continue };
        let named: Vec<&str> = change.conditions.iter().map(|condition| condition.what.as_str()).collect();
        for what in compared.iter().filter(|what| !OF_COMPARISONS.contains(&what.as_str())) {
            assert!(named.contains(&what.as_str()), "{finding} {words}: {what} is not in {named:?}");
            n_seen += 1;
        }
    }
    assert!(n_seen > 8, "{n_seen}");
}

/// What a comparison calls otherwise, or what belongs to what a history is of.
const OF_COMPARISONS: [&str; 2] = ["release", "host"];

#[test]
fn settings_that_were_changed_between_experiments_are_named_also_for_a_role_without_rights() {
    fn set(data: &mut ExperimentData, change: fn(&mut std::collections::BTreeMap<String, Setting>)) {
        data.runs.iter_mut().for_each(|run| change(&mut run.record.server.as_mut().unwrap().settings));
    }
    fn setting(value: &str, source: &str) -> Setting {
        Setting { value: value.to_string(), source: source.to_string() }
    }
    // Without `data_directory`, which a role without rights does not see.
    fn before(data: &mut ExperimentData) {
        set(data, |settings| {
            settings.insert("commit_delay".to_string(), setting("0", "default"));
            settings.insert("synchronous_standby_names".to_string(), setting("", "default"));
            settings.insert("block_size".to_string(), setting("8192", "default"));
        });
    }
    fn after(data: &mut ExperimentData) {
        set(data, |settings| {
            settings.insert("commit_delay".to_string(), setting("100", "configuration file"));
            settings.insert("synchronous_standby_names".to_string(), setting("*", "configuration file"));
            settings.insert("block_size".to_string(), setting("16384", "default"));
            settings.insert("auto_explain.log_timing".to_string(), setting("on", "configuration file"));
        });
    }
    let of = |changed: fn(&mut ExperimentData)| {
        // Of one release: eight days of three runs, with so many days that the version stays.
        let day = |day: u64| {
            let change = if day < 4 { before } else { changed };
            let (name, mut data, explained) = experiment(day, if day < 4 { 1000 } else { 900 }, change);
            data.runs.iter_mut().for_each(|run| run.record.server.as_mut().unwrap().version_num = 180_001);
            (name, data, explained)
        };
        let experiments: Vec<_> = (0..8).map(day).collect();
        histories(&experiments)[0].changes[0].clone()
    };
    let words: Vec<String> = of(after).conditions.iter().map(|condition| condition.words()).collect();
    let expected = [
        "setting auto_explain.log_timing: not set before, on after",
        "setting block_size: 8192 before, 16384 after",
        "setting commit_delay: 0 before, 100 after",
        "setting synchronous_standby_names: '' before, * after",
    ];
    assert_eq!(words, expected);
    let same = of(before);
    assert_eq!(same.conditions, []);
    let said = same.no_condition();
    assert!(
        said.contains("not recorded: ") && said.contains("settings that pgdyno's role cannot see"),
        "{said}"
    );
}

#[test]
fn a_level_that_stays_has_no_change_and_other_loads_have_other_histories() {
    let steady: Vec<_> = (0..6).map(|day| experiment(day, 1000, |_| {})).collect();
    assert_eq!(histories(&steady)[0].changes, []);
    let mut mixed = steady;
    mixed.push(experiment(7, 500, |data| data.plan.cases[0].workload.scale = 7));
    mixed.push(experiment(8, 500, |data| {
        data.runs.iter_mut().for_each(|run| run.record.host.as_mut().unwrap().hostname = "other".to_string());
    }));
    let found = histories(&mixed);
    assert_eq!(found.iter().map(|history| history.points.len()).collect::<Vec<usize>>(), [18, 3, 3]);
    assert!(found.iter().all(|history| history.changes.is_empty()));
    // Those of one machine are distinguished by what was asked for.
    let labels: Vec<&str> = found.iter().map(|history| history.label.as_str()).collect();
    assert_eq!(labels, ["8 clients, scale 100", "8 clients, scale 7", "8 clients"]);
}

#[test]
fn a_server_by_url_has_its_own_history_and_our_builds_share_one() {
    fn by_url(data: &mut ExperimentData, port: &str) {
        let keywords = [("host", "db1"), ("port", port), ("dbname", "bench")];
        let keywords = keywords.map(|(key, value)| (key.to_string(), value.to_string()));
        data.plan.cases[0].server.source = ServerSource::Url(keywords.into());
    }
    fn from_source(data: &mut ExperimentData) {
        let (tree, revision) = ("/pg".to_string(), Some("master".to_string()));
        data.plan.cases[0].server.source = ServerSource::Source { tree, revision };
    }
    let experiments = [
        experiment(0, 1000, |_| {}),
        experiment(1, 1000, |data| data.plan.cases[0].server.source = ServerSource::BinDir("/pg/bin".into())),
        experiment(2, 1000, from_source),
        experiment(3, 1000, |data| by_url(data, "5432")),
        experiment(4, 500, |data| by_url(data, "5433")),
        experiment(5, 1000, |data| by_url(data, "5432")),
    ];
    let found: Vec<(String, usize)> =
        histories(&experiments).into_iter().map(|history| (history.label, history.points.len())).collect();
    let expected = [
        ("8 clients", 9),
        ("8 clients, host=db1 port=5432 dbname=bench", 6),
        ("8 clients, host=db1 port=5433 dbname=bench", 3),
    ];
    assert_eq!(found, expected.map(|(label, n)| (label.to_string(), n)));
}

#[test]
fn runs_of_a_merged_study_count_once() {
    let parts = [experiment(0, 1000, |_| {}), experiment(1, 940, |_| {})];
    let (_, mut data, mut explained) = parts[0].clone();
    let origin = |name: &str, first, last| MergedFrom {
        name: name.to_string(),
        first,
        last,
        tool_version: String::new(),
        seed: 1,
        made_unix_ns: 1,
    };
    data.plan.origins = vec![origin("a", 0, 3), origin("b", 3, 6)];
    for (run, summary) in parts[1].1.runs.iter().zip(&parts[1].2.runs) {
        let mut run = run.clone();
        run.record.spec.run += 3;
        data.runs.push(run);
        explained.runs.push(RunSummary { run: summary.run + 3, ..summary.clone() });
    }
    let merged = [("merged".to_string(), data, explained)];
    let found = histories(&[&merged[..], &parts[..]].concat());
    let of: Vec<&str> = found[0].points.iter().map(|point| point.experiment.as_str()).collect();
    assert_eq!((found.len(), of), (1, vec!["day 0", "day 0", "day 0", "day 1", "day 1", "day 1"]));
    assert_eq!(found[0].changes, [], "of three runs each");
    assert_eq!(histories(&merged)[0].points.len(), 6, "its parts may be elsewhere");
}

#[test]
fn runs_of_a_duet_are_no_part_of_a_history() {
    let turns = || Turns { slice_ns: S / 2, guard_ns: S / 20, slices: "01".repeat(35) };
    let mut experiments = vec![experiment(0, 1000, |_| {})];
    let (name, mut data, explained) = experiment(1, 500, |_| {});
    data.runs.iter_mut().for_each(|run| run.record.load.as_mut().unwrap().turns = Some(turns()));
    experiments.push((name, data, explained));
    let found = histories(&experiments);
    assert_eq!(found.iter().map(|history| history.points.len()).collect::<Vec<usize>>(), [3]);
}

/// Experiments of one run each with these levels.
fn of_levels(levels: &[u64]) -> analysis::history::History {
    let experiments: Vec<_> = levels
        .iter()
        .zip(0..)
        .map(|(level, day)| experiment(day, *level, |data| data.runs.truncate(1)))
        .collect();
    histories(&experiments).remove(0)
}

#[test]
fn what_few_runs_suggest_is_stated_with_the_number_that_decides() {
    // Their spread is too large for the t test: p is 0.005.
    let first = [1000, 1400, 800, 1300, 900];
    let last = [500, 700, 400, 600, 750];
    let few = of_levels(&[first, last].concat());
    assert_eq!(few.changes, []);
    let pending = few.pending.expect("they do not overlap");
    assert_eq!((pending.n_before, pending.n_after, pending.more_runs), (5, 5, Some(3)));
    assert_eq!(pending.words(), "the last 5 are 40 % below the first 5; 3 more runs would decide");
    assert!((pending.p - 2.0 / 252.0).abs() < 1e-12, "{}", pending.p);

    // With them, it is decided.
    for decided in
        [&[&first[..], &last, &[600, 600, 600]].concat()[..], &[1000, 1010, 990, 1005, 700, 705, 700, 705]]
    {
        let more = of_levels(decided);
        assert_eq!((more.changes.len(), more.pending), (1, None), "{decided:?}");
    }

    for (levels, expected) in [
        (
            &[1000, 1010, 990, 1005, 700, 705][..],
            Some("the last 2 are 30 % below the first 4; 2 more runs would decide"),
        ),
        (
            &[1000, 1010, 700, 705][..],
            Some(
                "the last 2 are 30 % below the first 2; a verdict takes four on each side, and only 2 came before",
            ),
        ),
        (&[1000, 1010, 990, 1005, 995, 1002, 998, 1003], None),
        (&[1000, 1010], None),
    ] {
        let words = of_levels(levels).pending.map(|pending| pending.words());
        assert_eq!(words.as_deref(), expected, "{levels:?}");
    }
}

/// Throughput of any level, and 100 blocks per transaction that become 104 at the sixth run.
#[test]
fn a_cost_changes_its_level_where_throughput_swings() {
    let levels = [1000, 700, 1300, 900, 1100, 800, 1200, 1000, 750, 1150];
    let of_day = |(level, day): (&u64, u64)| {
        let blocks = if day < 5 { 100.0 } else { 104.0 };
        experiment(day, *level, |data| {
            data.runs.truncate(1);
            for tick in data.runs.iter_mut().flat_map(|run| &mut run.ticks) {
                if tick.values.contains_key("database.blocks_hit") {
                    tick.values.insert("database.commits", *level as f64);
                    tick.values.insert("database.blocks_hit", blocks * *level as f64);
                    tick.values.insert("database.blocks_read", 0.0);
                }
            }
        })
    };
    let experiments: Vec<_> = levels.iter().zip(0..).map(of_day).collect();
    let found = histories(&experiments).remove(0);
    assert_eq!(found.changes, []);

    let changed: Vec<&str> = found.cost_changes.iter().map(|change| change.id).collect();
    assert_eq!(changed, ["blocks"]);
    let change = &found.cost_changes[0];
    assert!((change.after / change.before - 1.04).abs() < 0.002, "{change:?}");
    assert_eq!(change.first_after, found.points[5]);
}
