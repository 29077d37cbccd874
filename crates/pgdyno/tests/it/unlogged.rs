//! `workload.unlogged`: tables that write no WAL, as a level, as what `init` loads, and as one side of a comparison.

use testbed::{Pg, bin_dir};

use crate::judge::{expect, json, words};
use crate::tool::{PACE, Place};

const SHORT: &str = "-c 2 -s 1 --measure 2s --ramp-up 0s --set prepare.settle=false --json";

fn args<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    parts.iter().flat_map(|part| part.split(' ')).collect()
}

#[test]
fn unlogged_tables_are_a_level_with_data_of_its_own() {
    let place = Place::on_disk();
    let bin_dir = bin_dir().display().to_string();
    let set = ["--set", "workload.unlogged=[false,true]", "--bin-dir", &bin_dir];
    let plan = place.run(&[&args(&["plan -c 2 -s 1"])[..], &set].concat()).expect(0).stdout;
    assert!(plan.contains("scale 1 in UNLOGGED tables"), "{plan}");
    for workload in ["tpcb", "tpcc"] {
        let run = args(&["run -w", workload, SHORT, "--repeats 1 -o", workload, PACE]);
        place.run(&[&run[..], &set].concat()).expect(0);
        let data = place.results(workload);
        assert_eq!(data.plan.factors, ["workload.unlogged"]);
        for run in &data.runs {
            let is_asked = run.record.case.workload.layout.unlogged;
            let definitions = &run.record.fingerprint.as_ref().unwrap().definitions;
            for (table, objects) in definitions {
                assert_eq!(objects["table"].starts_with("UNLOGGED"), is_asked, "{table}: {objects:?}");
            }
        }
        let study = analysis::study(&data);
        let altered =
            study.runs.iter().flat_map(|run| &run.findings).find(|found| found.id == "tables-altered");
        assert_eq!(altered, None);
        let of_runs = study.runs.iter().map(|run| {
            let found = run.findings.iter().find(|finding| finding.id == "not-durable")?;
            Some((
                found.severity,
                found.evidence.contains("UNLOGGED tables, which write no WAL, as workload.unlogged asks"),
            ))
        });
        let found: Vec<_> = of_runs.flatten().collect();
        assert_eq!(found, [(analysis::finding::Severity::Note, true)], "{workload}");
    }
    place.expect_clean();
}

#[test]
fn unlogged_tables_that_init_loaded_are_used_where_they_are_asked_for() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let init = args(&["init -s 1 --unlogged --partitions 2 --server"]);
    place.run(&[&init[..], &[&server]].concat()).expect(0);
    let kinds = "select string_agg(concat(relkind, relpersistence), ' ' order by relname) from pg_class where relname like 'pgbench%' and relkind <> 'i' and relkind <> 'I'";
    assert_eq!(pg.ask(&database, kinds), "pp ru ru ru ru ru");
    let run = |more: &[&str]| {
        let run = args(&["run", SHORT, "--repeats 1", PACE]);
        place.run(&[&run[..], &["--server", &server], more].concat())
    };
    let cut = ["--set", "workload.partitions=2"];
    let refused = run(&[&cut[..], &["-o", "logged"]].concat()).expect(1).stderr;
    let said = "is UNLOGGED tables, 2 partitions by range; give --set workload.unlogged=true, or --replace";
    assert!(refused.contains(said), "{refused}");
    run(&[&cut[..], &["--set", "workload.unlogged=true", "-o", "unlogged"]].concat()).expect(0);
    // What a user changed about that is named, and what the load made is not.
    pg.admin(&database).execute("alter table pgbench_tellers set logged").unwrap();
    let refused = place.run(&[&init[..], &[&server]].concat()).expect(1).stderr;
    assert!(refused.contains("LOGGED of `public.pgbench_tellers`"), "{refused}");
    pg.admin(&database).execute("alter table pgbench_tellers set unlogged").unwrap();
    place.run(&[&init[..], &[&server]].concat()).expect(0);
    let own = place.write("own.sql", "select 1;\n").display().to_string();
    let refused = run(&["-f", &own, "--set", "workload.unlogged=true", "-o", "own"]).expect(1).stderr;
    assert!(refused.contains("workload.unlogged is for tables that pgdyno loads"), "{refused}");
    place.expect_clean();
}

/// The public question: are my inserts faster into an UNLOGGED table?
#[test]
fn a_comparison_that_asks_for_unlogged_tables_on_one_side_counts() {
    let place = Place::on_disk();
    let bin_dir = bin_dir().display().to_string();
    let script = place.write("insert.sql", "insert into t values (1);\n").display().to_string();
    let [a, b] = [("logged", ""), ("unlogged", "unlogged ")].map(|(name, word)| {
        let file = place.write(&format!("{name}.sql"), &format!("create {word}table t (n int);\n"));
        format!("workload.data={{files=[\"{}\"]}}", file.display())
    });
    let compare =
        args(&["compare --time 1s -c 2 --measure 2s --ramp-up 0s --set prepare.settle=false --json -o out"]);
    let sides = ["--bin-dir", &bin_dir, "-f", &script, "--a", &a, "--b", &b];
    let ended = place.run(&[&compare[..], &sides].concat());
    let result = json(&ended);
    let found = words(&result["comparisons"][0]["findings"]);
    expect(&found, "one-sided note", "not-durable in 0 of 1 runs of A and 1 of 1 of B");
    expect(&found, "one-sided note", "a crash of the server empties UNLOGGED tables");
    assert_ne!(result["comparisons"][0]["grade"], "void", "{found:#?}");
    assert!(!ended.stderr.contains("cannot be compared"), "{}", ended.stderr);
    place.expect_clean();
}
