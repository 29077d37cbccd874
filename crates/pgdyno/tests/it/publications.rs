//! Publications of all tables: what is loaded would stop their subscribers, so nothing is created unless the user agrees.

use testbed::Pg;

use crate::tool::{Ended, PACE, Place};

const RUN: &str = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --yes --set prepare.settle=false --set run.repeat_disturbed=0";

struct Published {
    place: Place,
    pg: std::sync::Arc<Pg>,
    database: String,
}

impl Published {
    fn by(publication: &str) -> Published {
        let (place, pg) = (Place::new(), Pg::shared());
        let database = pg.database_of("postgres");
        pg.execute(&database, "create schema aside; create table mine (i int primary key)");
        pg.execute(&database, publication);
        Published { place, pg, database }
    }

    fn run(&self, args: &str) -> Ended {
        let server = self.pg.admin_target(&self.database);
        let pace = args.starts_with("run").then_some(PACE);
        let args: Vec<&str> = args.split_whitespace().chain(pace).chain(["--server", &server]).collect();
        self.place.run(&args)
    }

    #[track_caller]
    fn expect_refused(&self, args: &str, words: &str) {
        let ended = self.run(args).expect(1);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(
            said.contains(words) && said.contains("or pass --allow-published"),
            "{args}: {words}\n{said}"
        );
        let tables = "select string_agg(relname, ' ') from pg_class c where relkind in ('r', 'p') and relnamespace in \
                      ('public'::regnamespace, 'aside'::regnamespace)";
        assert_eq!(self.pg.ask(&self.database, tables), "mine", "{args}");
    }
}

#[test]
fn a_database_of_which_all_tables_are_published_gets_none_unless_the_user_agrees() {
    let published = Published::by("create publication everything for all tables");
    published.place.write("own.sql", "create table pgdyno_own (i int);\n");
    let files = format!("{RUN} -f own.sql --set workload.data={{files=[\"own.sql\"]}}");
    for args in ["plan -s 1", "init -s 1", "init -s 1 --schema aside", "init -w tpcc -s 1", RUN, &files] {
        published
            .expect_refused(args, "publication `everything` (FOR ALL TABLES) publishes what would be loaded");
    }
    published.run("init -s 1 --allow-published").expect(0);
    // What is loaded is no reason to load more.
    let again = published.run("init -s 1").expect(1);
    assert!(again.stderr.contains("publication `everything`"), "{}", again.stderr);
    published.run(&format!("{RUN} --no-restore -o as_it_is")).expect(0);
    published.run(&format!("{RUN} --allow-published -o again")).expect(0);
}

#[test]
fn a_schema_of_which_all_tables_are_published_gets_none_unless_the_user_agrees() {
    if Pg::shared().admin("postgres").server_version_num() < 150_000 {
        return crate::tool::tell("skipped: publications of schemas are there from PostgreSQL 15 on");
    }
    let published = Published::by("create publication pub for tables in schema public");
    let words = "publication `pub` (FOR TABLES IN SCHEMA public) publishes what would be loaded";
    for args in ["plan -s 1", "init -s 1", RUN] {
        published.expect_refused(args, words);
    }
    published.run("init -s 1 --schema aside").expect(0);
    published.run("init -s 1 --allow-published").expect(0);
}

#[test]
fn a_resumed_experiment_creates_nothing_that_is_published_since() {
    let published = Published::by("create view nothing as select 1 as one");
    let (place, pg) = (&published.place, &published.pg);
    place.write("own.sql", "drop table if exists pgdyno_own; create table pgdyno_own as select 1 as i;\n");
    place.write("read.sql", "select i from pgdyno_own;\n");
    let args = RUN.replace("--repeats 1", "--repeats 2");
    let args = format!("{args} -f read.sql -o out --set workload.data={{files=[\"own.sql\"]}}");
    published.run(&args).expect(0);
    // As if it had been killed before its second run.
    std::fs::remove_dir_all(place.path("out/runs/0002")).unwrap();
    pg.execute(&published.database, "drop table pgdyno_own; create publication everything for all tables");
    let resumed = place.run(&["run", "--resume", "out"]);
    let words = "publication `everything` (FOR ALL TABLES) publishes what would be loaded";
    assert!(resumed.stderr.contains(words) && resumed.code() != Some(0), "{resumed:?}");
    let there = "select to_regclass('pgdyno_own') is null";
    assert_eq!(pg.ask(&published.database, there), "t", "{resumed:?}");
    place.run(&["run", "--resume", "out", "--allow-published"]).expect(0);
    assert_eq!(pg.ask(&published.database, there), "f");
}

#[test]
fn tests_and_stores_create_no_published_tables_unless_the_user_agrees() {
    let published = Published::by("create publication everything for all tables");
    let (place, pg) = (&published.place, &published.pg);
    published.expect_refused(
        "check --acid -w tpcc",
        "publication `everything` (FOR ALL TABLES) publishes the tables that the tests create",
    );
    let agreed = published.run("check --acid -w tpcc --allow-published").expect(1);
    assert!(agreed.stderr.contains("pgdyno init -w tpcc"), "{}", agreed.stderr);
    let elsewhere = pg.admin_target(&pg.database());
    let run = RUN.split_whitespace().chain(["-o", "out", PACE, "--server", elsewhere.as_str()]);
    place.run(&run.collect::<Vec<_>>()).expect(0);
    let store = pg.admin_target(&published.database);
    let refused = place.run(&["push", &store, "out"]).expect(1);
    let words = "publication `everything` (FOR ALL TABLES) publishes the tables of the store";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    let there = "select to_regnamespace('pgdyno') is null";
    assert_eq!(pg.ask(&published.database, there), "t");
    place.run(&["push", &store, "out", "--allow-published"]).expect(0);
    assert_eq!(pg.ask(&published.database, there), "f");
}
