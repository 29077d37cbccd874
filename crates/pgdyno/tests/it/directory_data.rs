//! Data of workload directories in runs: restored before each, checked after each, and by URL only where it harms nobody.

use model::run::phase::Phase;
use testbed::{PASSWORD, Pg, bin_dir};

use crate::tool::{Ended, PACE, Place, SMALL, expect_sound};

const MANIFEST: &str = "\
format = 1
name = \"stock\"
title = \"Stock\"
about = \"Items are taken, and noted.\"
source = \"own\"
licence = \"MIT\"
scale = \"1,000 items\"

[[table]]
name = \"item\"
rows = \"1000 * scale\"
[table.columns]
id = \"row + 1\"
name = \"letters(5, 20)\"

[[table]]
name = \"taken\"
rows = \"0\"

[[transaction]]
name = \"take\"
params = {id = \"uniform(1, rows(item))\"}

[[transaction]]
name = \"lose\"
params = {id = \"uniform(1, rows(item))\"}

[variants]
careful = {weights = {take = 1}}
careless = {weights = {take = 9, lose = 1}}

[[check]]
name = \"items\"
title = \"no item is lost\"
when = \"load, run\"

[[check]]
name = \"noted\"
title = \"what is taken is noted\"
when = \"run\"
";

const FILES: [(&str, &str); 7] = [
    ("workload.toml", MANIFEST),
    (
        "schema.sql",
        "create table item (id int not null, name varchar(20) not null);\n\
         create table taken (item int not null, at timestamptz not null default now());\n",
    ),
    ("after.sql", "alter table item add primary key (id);\n"),
    ("transactions/take.sql", "INSERT INTO taken (item) VALUES (:id);\n"),
    ("transactions/lose.sql", "DELETE FROM item WHERE id = :id;\n"),
    (
        "checks/items.sql",
        "select count(*) as rows, :rows_item as expected from item having count(*) <> :rows_item;\n",
    ),
    (
        "checks/noted.sql",
        "select count(*) as noted, :committed_take as taken from taken\n\
         having count(*) not between :committed_take and :committed_take + :unknown_take;\n",
    ),
];

fn place() -> Place {
    let place = Place::new();
    for dir in ["transactions", "checks"] {
        std::fs::create_dir_all(place.path(&format!("stock.workload/{dir}"))).unwrap();
    }
    for (name, text) in FILES {
        place.write(&format!("stock.workload/{name}"), text);
    }
    place
}

fn run(place: &Place, variant: &str, more: &[&str]) -> Ended {
    let workload = format!("./stock.workload:{variant}");
    let quick = "-c 2 --measure 2s --ramp-up 0s --set prepare.settle=false -o";
    let mut args = vec!["run", "-w", &workload, PACE];
    args.extend(quick.split(' '));
    let mut command = place.command(&[&args[..], more].concat());
    command.env("PGPASSWORD", PASSWORD);
    place.start(command).wait()
}

/// Statements of the user make other data under other settings; definitions of tables and keys do not.
#[test]
fn what_a_directorys_own_statements_make_is_made_under_each_level() {
    let place = place();
    let bin_dir = bin_dir();
    let own = ["--bin-dir", bin_dir.to_str().unwrap(), "--set", SMALL, "--repeats", "1"];
    let levels = ["--set", "server.settings.DateStyle=[\"ISO\",\"German\"]"];
    let made_under = |out: &str| {
        run(&place, "careful", &[&[out], &own[..], &levels].concat()).expect(0);
        let mut runs = place.results(out).runs;
        runs.sort_by_key(|run| run.record.case.id);
        runs.iter().map(|run| run.record.phases[0].detail.get("made_under").cloned()).collect::<Vec<_>>()
    };
    let plain = "create table item (id int not null, name varchar(20) not null);\ncreate table taken (item int not null);\n";
    place.write("stock.workload/schema.sql", plain);
    assert_eq!(made_under("plain"), [None, None]);

    let after = "alter table item add primary key (id);\ncreate table style as select current_setting('DateStyle') as name;\n";
    place.write("stock.workload/after.sql", after);
    assert_eq!(made_under("asked"), ["ISO", "German"].map(|style| Some(format!("datestyle = {style}"))));
    place.expect_clean();
}

#[test]
fn each_run_begins_with_the_data_as_loaded_and_ends_with_its_checks() {
    let place = place();
    let bin_dir = bin_dir();
    let own = ["--bin-dir", bin_dir.to_str().unwrap(), "--set", SMALL];
    run(&place, "careful", &[&["careful", "--repeats", "2"], &own[..]].concat()).expect(0);
    let data = store::load_experiment(&place.path("careful")).unwrap();
    assert_eq!(data.runs.len(), 2);
    for run in &data.runs {
        expect_sound(run);
        let record = &run.record;
        assert_eq!((record.rows_before["public.taken"], &record.violations_after), (0, &Default::default()));
        assert!(record.rows_after["public.taken"] > 50);
        assert!(!record.telemetry_unavailable.keys().any(|key| key.starts_with("check ")));
    }

    run(&place, "careless", &[&["careless", "--repeats", "1"], &own[..]].concat());
    let record = place.first_run("careless").record;
    let broken = &record.violations_after;
    assert_eq!(broken.keys().collect::<Vec<_>>(), ["items"]);
    assert!(broken["items"].starts_with("no item is lost: rows=9"), "{broken:?}");
    let page = std::fs::read_to_string(place.path("careless/report.html")).unwrap();
    assert!(page.contains("consistency-broken"));

    // What another run did is no violation.
    let as_it_is = ["as-it-is", "--repeats", "1", "--no-restore"];
    run(&place, "careful", &[&as_it_is[..], &own[..]].concat());
    let record = place.first_run("as-it-is").record;
    assert_eq!(record.violations_after, Default::default());
    assert!(record.telemetry_unavailable["check of the workload"].contains("prepare.restore is off"));
    place.expect_clean();
}

#[test]
fn by_url_only_what_its_loads_made_is_replaced() {
    let (place, pg) = (place(), Pg::shared());
    let database = pg.database();
    let server = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    let by_url =
        |out: &str, more: &[&str]| run(&place, "careful", &[&[out, "--server", &server], more].concat());
    by_url("first", &["--repeats", "2"]).expect(0);
    let data = store::load_experiment(&place.path("first")).unwrap();
    for run in &data.runs {
        let detail = &run.record.phase(Phase::Restore).unwrap().detail;
        assert!(detail["method"].starts_with("loaded again, 1000 rows"), "{detail:?}");
        assert_eq!((run.record.rows_before["public.taken"], run.record.violations_after.len()), (0, 0));
    }
    let comment = "select obj_description('item'::regclass)";
    let mark = pg.ask(&database, comment);
    assert!(
        mark.starts_with("pgdyno workload=directory:stock scale=1 ") && mark.contains("state=finished"),
        "{mark}"
    );

    // What is wrong with a file is said of the file, as it is seen from here.
    let (lose, text) = FILES[4];
    place.write(&format!("stock.workload/{lose}"), "DELETE FROM itme WHERE id = :id;\n");
    let refused = by_url("misspelt", &["--repeats", "1"]).expect(1);
    let expected = "./stock.workload/transactions/lose.sql:1:13: relation \"itme\" does not exist (42P01)";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    place.write(&format!("stock.workload/{lose}"), text);

    // Complete data of another size is somebody's until they say otherwise.
    let refused = by_url("larger", &["--scale", "2"]).expect(1);
    assert!(
        refused.stderr.contains("has complete data of workload `stock` at scale 1"),
        "{}",
        refused.stderr
    );
    by_url("replaced", &["--scale", "2", "--replace", "--repeats", "1"]).expect(0);
    assert_eq!(pg.ask(&database, "select count(*) from item"), "2000");

    // Somebody else's table, whatever it is called.
    pg.execute(&database, "create table precious (a int); insert into precious values (1)");
    let refused = by_url("full", &["--scale", "2"]).expect(1);
    assert!(refused.stderr.contains("is run in an empty database"), "{}", refused.stderr);
    pg.execute(&database, "drop table precious; drop table item; create table item (id int)");
    let refused = by_url("taken", &["--scale", "2", "--replace"]).expect(1);
    assert!(refused.stderr.contains("item"), "{}", refused.stderr);
    pg.execute(&database, "drop table item, taken");
    let admin = pg.admin_target(&database);
    let refused = run(&place, "careful", &["admin", "--server", &admin]).expect(1);
    assert!(refused.stderr.contains("rights of a role that reaches beyond"), "{}", refused.stderr);
    place.expect_clean();
}

#[test]
fn a_schema_that_is_named_is_the_only_one_that_is_searched() {
    let (place, pg) = (place(), Pg::shared());
    let database = pg.database();
    pg.execute(&database, "create schema \"a b\" authorization bench");
    let server = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    run(&place, "careful", &["out", "--server", &server, "--schema", "a b", "--repeats", "1"]).expect(0);
    let record = place.first_run("out").record;
    assert_eq!(record.rows_before["a b.taken"], 0);
    // Its statements are compiled from the files of the directory, which what is recorded of the load does not have.
    assert_eq!(record.plans.len(), 2, "{:?}", record.telemetry_unavailable);
    assert_eq!(pg.ask(&database, "select count(*) from \"a b\".item"), "1000");
    assert_eq!(pg.ask(&database, "select count(*) > 50 from \"a b\".taken"), "t");
    place.expect_clean();
}
