//! Dumps of applications as `pg_dump` and `pg_dumpall` write them, with more in them than the rows of one database: what is left out, what is
//! said about it, and what runs only with consent.

use std::fs;

use model::run::phase::Phase;
use testbed::{Pg, TestServer};

use crate::archives::{BUY, EXPERIMENT, Shop, TRUSTED};
use crate::tool::{PACE, expect_found, expect_sound};

const ITEMS: &str = "create table items (id int primary key); insert into items select generate_series(1, 5000); \
                     create table orders (item int references items, n int);";

/// The experiment with these files as its data.
fn with_files(shop: &Shop, files: &[&str]) {
    let data = format!("data = {{files = {files:?}}}");
    shop.place.write("shop.toml", &EXPERIMENT.replace("restore_from = \"shop.dump\"", &data));
}

fn database_with(pg: &TestServer, sql: &str) -> String {
    let database = pg.database_of("postgres");
    pg.execute(&database, sql);
    database
}

/// What a run says about its data.
fn unlike_source(shop: &Shop, name: &str) -> Vec<Option<String>> {
    let results = shop.place.results(name);
    let said = |run: &model::run::RunData| {
        expect_sound(run);
        run.record.phase(Phase::Restore).unwrap().detail.get("unlike_source").cloned()
    };
    results.runs.iter().map(said).collect()
}

#[test]
fn a_dump_of_the_schema_public_alone_is_restored_into_the_one_that_is_there() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let origin = database_with(&pg, ITEMS);
    shop.dump(&pg, &origin, "shop.dump", &["-Fc", "--schema=public"]);
    shop.dump(&pg, &origin, "plain.sql", &["--schema=public"]);

    let expected = "left out: the schema public, which exists";
    let ended = shop.run(&["-o", "archive", "--repeats", "2"]).expect(0);
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    assert_eq!(unlike_source(&shop, "archive"), vec![Some(expected.to_string()); 2]);
    expect_found(&shop.place, "archive", &["unlike-source"]);
    // Another experiment on the same data says it, too.
    let ended = shop.run(&["-o", "again", "--repeats", "1"]).expect(0);
    assert!(ended.stderr.contains(&format!("loaded before ({expected})")), "{}", ended.stderr);
    assert_eq!(unlike_source(&shop, "again"), [Some(expected.to_string())]);
    let page = fs::read_to_string(shop.place.path("again/report.html")).unwrap();
    assert!(page.contains("the schema public, which exists"));

    let target = pg.database_of("postgres");
    let url = pg.admin_target(&target);
    let by_url =
        ["run", "shop.toml", PACE, TRUSTED, "--server", &url, "--replace-database", &target, "-o", "url"];
    shop.place.run(&by_url).expect(0);
    assert_eq!(unlike_source(&shop, "url"), vec![Some(expected.to_string()); 2]);
    let owner = "select nspowner::regrole from pg_namespace where nspname = 'public'";
    assert_eq!(pg.ask(&target, owner), pg.ask("postgres", owner));

    with_files(&shop, &["plain.sql"]);
    shop.run(&["-o", "file", "--repeats", "1"]).expect(0);
    assert_eq!(unlike_source(&shop, "file"), [Some(expected.to_string())]);
    shop.place.expect_clean();
}

#[test]
fn what_pg_dump_makes_its_database_with_is_left_out_and_psqls_simple_commands_work() {
    let (pg, shop) = (Pg::start(), Shop::new());
    pg.execute("postgres", "create database \"My shop\"");
    pg.execute("postgres", "alter database \"My shop\" set work_mem = '5MB'");
    pg.execute("My shop", ITEMS);
    let dump = shop.dump(&pg, "My shop", "shop.sql", &["--create", "--clean", "--if-exists"]);
    let text = fs::read_to_string(&dump).unwrap();
    assert!(text.contains("\\connect"), "{text}");
    let more = "\\set first 5001\n\\set note 'new'\ninsert into public.items values (:first);\n\
                \\copy public.items from stdin\n5002\n5003\n\\.\ncreate table public.notes as select :'note' as what;\n";
    shop.place.write("more.sql", more);
    // Fails unless all of that happened, here.
    let check = "SELECT 1 / ((SELECT count(*) = 5003 FROM items) AND (SELECT what = 'new' FROM notes) AND current_database() = 'pgdyno' \
                 AND current_setting('work_mem') <> '5MB')::int;\n";
    shop.place.write("buy.sql", check);
    with_files(&shop, &["shop.sql", "more.sql"]);
    let ended = shop.run(&["-o", "out", "--repeats", "1"]).expect(0);
    let left_out = "left out: ALTER DATABASE My shop, ALTER DATABASE My shop SET work_mem, CREATE DATABASE My shop, DROP DATABASE My shop, \
                    \\connect My shop";
    assert!(ended.stderr.contains(left_out), "{}", ended.stderr);
    assert_eq!(unlike_source(&shop, "out"), [Some(left_out.to_string())]);

    shop.place.write("two.sql", &format!("{text}\n\\connect other\nselect 1;\n"));
    with_files(&shop, &["two.sql"]);
    let refused = shop.run(&["-o", "two"]).expect(1);
    assert!(refused.stderr.contains("goes to a second database after `My shop`"), "{}", refused.stderr);
    shop.place.expect_clean();
}

#[test]
fn roles_of_pg_dumpall_neither_log_in_nor_rule_the_server_of_a_run() {
    let (pg, shop) = (Pg::start(), Shop::new());
    pg.execute(
        "postgres",
        "create role app login superuser password 'S3cret'; create role readers; grant readers to app; \
         alter role app set work_mem = '5MB'",
    );
    let origin = database_with(
        &pg,
        &format!("{ITEMS} alter table items owner to app; grant select on orders to readers;"),
    );
    let globals = shop.dump_by("pg_dumpall", &pg, "postgres", "globals.sql", &["--globals-only"]);
    let text = fs::read_to_string(&globals).unwrap();
    assert!(text.contains("CREATE ROLE postgres") && text.contains("PASSWORD"), "{text}");
    shop.dump(&pg, &origin, "plain.sql", &[]);
    let check = "SELECT 1 / (SELECT count(*) FROM pg_authid WHERE rolname = 'app' AND NOT rolcanlogin AND NOT rolsuper AND rolpassword IS NULL \
                 AND pg_has_role('app', 'readers', 'MEMBER'));\nSELECT 1 / (SELECT count(*) FROM pg_roles WHERE rolname = 'postgres' AND rolsuper);\n";
    shop.place.write("buy.sql", check);
    with_files(&shop, &["globals.sql", "plain.sql"]);
    shop.run(&["-o", "out", "--repeats", "1"]).expect(0);
    let said = unlike_source(&shop, "out").remove(0).unwrap();
    for part in [
        "CREATE ROLE postgres, which exists",
        "ALTER ROLE postgres, which stays as it is",
        "LOGIN of app",
        "PASSWORD of app",
        "SUPERUSER of app",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let recorded = fs::read_to_string(shop.place.path("out/report.html")).unwrap();
    assert!(!recorded.contains("S3cret"));
    shop.place.expect_clean();
}

#[test]
fn a_program_that_a_file_of_data_names_runs_only_with_consent() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let trace = pg.path("reached");
    let program = format!("COPY (SELECT 1) TO PROGRAM 'cat > {}';\n", trace.display());
    shop.place.write("data.sql", &format!("{ITEMS}\n{program}"));
    shop.place.write("buy.sql", BUY);
    with_files(&shop, &["data.sql"]);
    let target = pg.database_of("postgres");
    let url = pg.admin_target(&target);
    for server in [["--bin-dir", &shop.bin_dir], ["--server", &url]] {
        for command in ["plan", "run"] {
            let refused = shop.place.run(&[&[command, "shop.toml"], &server[..]].concat()).expect(1);
            let words = format!("{}{}", refused.stdout, refused.stderr);
            let expected = "data.sql:2:1: this statement executes a program (`COPY … PROGRAM`)";
            assert!(words.contains(expected) && words.contains(TRUSTED), "{words}");
        }
    }
    assert!(!trace.exists());
    assert_eq!(pg.ask(&target, "select count(*) from pg_class where relname = 'items'"), "0");
    shop.run(&["-o", "out", "--repeats", "1"]).expect(0);
    assert!(trace.exists());
    shop.place.expect_clean();
}

#[test]
fn a_dump_in_another_encoding_is_not_read_as_utf8() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let origin = database_with(&pg, "create table names (name text); insert into names values ('Jürgen')");
    let dump = shop.dump(&pg, &origin, "plain.sql", &["--encoding=LATIN1"]);
    with_files(&shop, &["plain.sql"]);
    let refused = |expected: &[&str]| {
        let ended = shop.place.run(&["plan", "shop.toml", "--bin-dir", &shop.bin_dir]).expect(1);
        for part in expected {
            assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
        }
    };
    refused(&[
        "plain.sql` is not UTF-8 text, but LATIN1 by its own words; dump again with pg_dump --encoding=UTF8",
    ]);
    let latin1 = fs::read(&dump).unwrap();
    let converted: String = latin1.into_iter().map(char::from).collect();
    fs::remove_file(&dump).unwrap();
    shop.place.write("plain.sql", &converted);
    refused(&[
        "plain.sql:",
        "the file is UTF-8 with other letters",
        "as LATIN1 from here on; write UTF8 instead",
    ]);
    shop.place
        .write("plain.sql", &converted.replace("client_encoding = 'LATIN1'", "client_encoding = 'UTF8'"));
    shop.place.write("buy.sql", "SELECT 1 / (SELECT count(*) FROM names WHERE name = U&'J\\00FCrgen');\n");
    shop.run(&["-o", "out", "--repeats", "1"]).expect(0);
    shop.place.expect_clean();
}
