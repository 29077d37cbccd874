//! Dumps of applications as `pg_dump` and `pg_dumpall` write them, with more in them than the rows of one database: what is left out, what is
//! said about it, and what runs only with consent.

use std::fs;

use model::run::phase::Phase;
use testbed::{Pg, TestServer};

use crate::archives::{Shop, TRUSTED};
use crate::tool::{PACE, expect_found, expect_sound};

const ITEMS: &str = "create table items (id int primary key); insert into items select generate_series(1, 5000); \
                     create table orders (item int references items, n int);";

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

    shop.place.expect_clean();
}
