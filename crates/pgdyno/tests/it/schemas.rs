//! Workloads in a given schema: whatever its name, and whether or not it is on the search path.

use std::sync::Arc;

use testbed::{Pg, bin_dir};

use crate::tool::{Ended, PACE, Place, expect_sound};

/// A name that has to be quoted.
const QUOTED: &str = "a\"b C";
/// A name whose characters mean something to pgbench's scripts, to a routine's body or to a string.
const HOSTILE: &str = "x:scale $body$;'\\y.z@.";

/// Also reads every row of every table, by its name: once for each kind of tables.
const CHECKSUMS: &str = "--set prepare.checksums=true";
/// Without what the first run of a kind of tables has shown, and what takes longest.
const LIKE_BEFORE: &str = "--set prepare.analyze=false";

/// A database with a schema that is on no search path.
struct OtherSchema {
    place: Place,
    pg: Arc<Pg>,
    database: String,
    schema: &'static str,
}

impl OtherSchema {
    fn with(schema: &'static str) -> OtherSchema {
        let pg = Pg::shared();
        let database = pg.database();
        let quoted = format!("\"{}\"", schema.replace('"', "\"\""));
        pg.admin(&database).execute(&format!("create schema {quoted}")).unwrap();
        OtherSchema { place: Place::new(), pg, database, schema }
    }

    fn pgdyno(&self, args: &str) -> Ended {
        let server = self.pg.admin_target(&self.database);
        let args = args.split_whitespace().chain(["--server", &server, "--schema", self.schema]);
        self.place.run(&args.collect::<Vec<_>>())
    }

    /// Runs a workload for two seconds, and checks the tables afterwards.
    #[track_caller]
    fn run(&self, workload: &str, more: &str) {
        let out = format!("{workload}{more}").replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let args = "run -s 1 -c 2 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";
        self.pgdyno(&format!("{args} {PACE} -w {workload} {more} -o {out}")).expect(0);
        let run = self.place.first_run(&out);
        expect_sound(&run);
        assert_eq!(run.record.telemetry_unavailable.get("rows_after"), None, "{workload}");
        self.pgdyno(&format!("check -w {workload}")).expect(0);
    }

    /// Checks that no other schema has a table.
    #[track_caller]
    fn expect_alone(&self) {
        let elsewhere = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                         where nspname in ('public', 'postgres')";
        assert_eq!(self.pg.ask(&self.database, elsewhere), "0");
        self.place.expect_clean();
    }
}

#[test]
fn tpcb_runs_in_a_schema_that_is_on_no_search_path() {
    let other = OtherSchema::with(QUOTED);
    other.run("tpcb", CHECKSUMS);
    other.run("tpcb-simple", "");
    other.run("tpcb-select", "");
    other.run("tpcb", "-M simple");
    other.pgdyno("init -s 1 --partitions 3 --streams 2").expect(0);
    other.run("tpcb", "--set workload.partitions=3 --set prepare.restore=false");
    let scripts = "run -f builtin:tpcb-like --set workload.data=\"tpcb\" -s 1 -c 2 --measure 2s --ramp-up 0s --repeats 1 \
                   --set prepare.settle=false --replace -o scripts";
    other.pgdyno(&format!("{scripts} {PACE}")).expect(0);
    expect_sound(&other.place.first_run("scripts"));
    other.expect_alone();
}

#[test]
fn tpcc_runs_in_a_schema_that_is_on_no_search_path() {
    let other = OtherSchema::with(QUOTED);
    other.pgdyno("init -s 1 -w tpcc").expect(0);
    for (calls, more) in [("statements", CHECKSUMS), ("functions", LIKE_BEFORE), ("procedures", LIKE_BEFORE)]
    {
        other.run("tpcc", &format!("--set prepare.restore=false --set workload.calls={calls} {more}"));
    }
    other.pgdyno("check --acid -w tpcc --acid-load 1s").expect(0);
    other.expect_alone();
}

#[test]
fn tproc_c_runs_in_a_schema_that_is_on_no_search_path() {
    let other = OtherSchema::with(QUOTED);
    other.pgdyno("init -s 1 -w tproc-c").expect(0);
    for (calls, more) in [("functions", CHECKSUMS), ("procedures", LIKE_BEFORE)] {
        other.run("tproc-c", &format!("--set prepare.restore=false --set workload.calls={calls} {more}"));
    }
    other.expect_alone();
}

#[test]
fn a_schema_may_have_any_name() {
    let other = OtherSchema::with(HOSTILE);
    other.run("tpcb", "-M simple");
    other.run("tpcb", CHECKSUMS);
    other.pgdyno("init -s 1 -w tpcc").expect(0);
    other.run("tpcc", &format!("--set prepare.restore=false --set workload.calls=functions {LIKE_BEFORE}"));
    other.expect_alone();
}

#[test]
fn a_schema_that_cannot_be_used_is_named() {
    let other = OtherSchema::with(QUOTED);
    let server = other.pg.admin_target(&other.database);
    let check = |schema: &str, expected: &str| {
        for command in [&["init"][..], &["run", "-s", "1", "-o", "out"], &["check"]] {
            let args = [command, &["--server", &server, "--schema", schema]].concat();
            let refused = other.place.run(&args).expect(1);
            assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
        }
    };
    check("b\"C", "has no schema `b\"C`; create it first: create schema \"b\"\"C\"");
    check("pg_catalog", "is a system schema");
    check(&"x".repeat(64), "names have 1 to 63 bytes");
    let scripts = other.pgdyno("run -f builtin:select-only -o out").expect(1);
    assert!(scripts.stderr.contains("workload.schema is for tables that pgdyno loads"), "{}", scripts.stderr);
    other.pgdyno("init -s 1").expect(0);
    let elsewhere = other.place.run(&["check", "--server", &server]).expect(1);
    assert!(elsewhere.stderr.contains("but schema `a\"b C` has: pass --schema"), "{}", elsewhere.stderr);
}

#[test]
fn on_an_embedded_server_the_schema_is_created() {
    let place = Place::new();
    let bin = bin_dir().display().to_string();
    let args = "run -w tpcb -s 1 -c 2 --measure 2s --ramp-up 0s --repeats 1 -o out";
    let more = [PACE, "--bin-dir", &bin, "--schema", QUOTED];
    place.run(&args.split_whitespace().chain(more).collect::<Vec<_>>()).expect(0);
    expect_sound(&place.first_run("out"));
    // The cluster's labels name its schema.
    place.run(&["check"]).expect(0);
    place.expect_clean();
}

#[test]
fn data_of_an_older_version_is_measured_and_replaced_only_on_request() {
    let pg = Pg::shared();
    let (place, database) = (Place::new(), pg.database());
    let server = pg.admin_target(&database);
    place.run(&["init", "-s", "1", "--server", &server]).expect(0);
    // An older version marked only one table.
    let unmark = "comment on table pgbench_accounts is null; comment on table pgbench_tellers is null; \
                  comment on table pgbench_history is null";
    pg.admin(&database).execute(unmark).unwrap();
    let run = |more: &[&str]| {
        let args = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";
        let args = args.split_whitespace().chain([PACE, "--server", &server]).chain(more.iter().copied());
        place.run(&args.collect::<Vec<_>>())
    };
    run(&["--set", "prepare.restore=false", "-o", "measured"]).expect(0);
    place.run(&["check", "--server", &server]).expect(0);
    let refused = run(&["-o", "refused"]).expect(1);
    assert!(refused.stderr.contains("table `public.pgbench_tellers`"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--replace"), "{}", refused.stderr);
    assert_ne!(pg.ask(&database, "select count(*) from pgbench_history"), "0", "it is as the run left it");
    run(&["--replace", "-o", "replaced"]).expect(0);
    run(&["-o", "ours"]).expect(0);
    place.expect_clean();
}
