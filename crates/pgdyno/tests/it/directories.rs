//! Workload directories: read once, planned with their tables, loaded, run by the weights of a variant, and refused with places.

use std::collections::BTreeMap;

use model::experiment::script::CaseData;
use testbed::bin_dir;

use crate::tool::{Place, expect_sound};

const MANIFEST: &str = "\
format = 1
name = \"shop\"
title = \"Shop\"
about = \"Items are looked at, and taken.\"
source = \"own\"
licence = \"MIT\"
notice = \"Nothing is sold here.\"
scale = \"1,000 items\"
needs = {server = \"9.6\"}

[options]
most = {default = 3, least = 1, most = 10, about = \"how many are taken at most\"}

[[table]]
name = \"item\"
rows = \"1000 * scale\"
[table.columns]
id = \"row + 1\"
name = \"letters(5, 20)\"
stock = \"uniform(100000, 999999)\"

[[table]]
name = \"taken\"
rows = \"0\"

[[transaction]]
name = \"look\"
params = {id = \"uniform(1, rows(item))\"}

[[transaction]]
name = \"take\"
params = {id = \"uniform(1, rows(item))\", n = \"uniform(1, most)\"}

[variants]
calm = {weights = {look = 9, take = 1}}
busy = {weights = {look = 1, take = 3}}
";

const FILES: [(&str, &str); 4] = [
    ("workload.toml", MANIFEST),
    (
        "schema.sql",
        "create table item (id int primary key, name varchar(20) not null, stock bigint not null);\n\
         create table taken (id bigserial primary key, item int not null, n int not null);\n",
    ),
    ("transactions/look.sql", "SELECT name, stock FROM item WHERE id = :id;\n"),
    (
        "transactions/take.sql",
        "BEGIN;\nUPDATE item SET stock = stock - :n WHERE id = :id;\n\
         INSERT INTO taken (item, n) VALUES (:id, :n);\nEND;\n",
    ),
];

/// So many transactions that chance does not change a share by 5 %.
const QUICK: [&str; 10] = [
    "-c",
    "4",
    "--repeats",
    "1",
    "--measure",
    "3s",
    "--ramp-up",
    "0s",
    "--pace=600/s",
    "--set=prepare.settle=false",
];

fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("shop.workload/transactions")).unwrap();
    for (name, text) in FILES {
        place.write(&format!("shop.workload/{name}"), text);
    }
    place
}

#[test]
fn a_directory_is_planned_and_run() {
    let place = place();
    let bin_dir = bin_dir();
    let own =
        [&["--bin-dir", bin_dir.to_str().unwrap(), "-w", "./shop.workload:busy", "-s", "2"], &QUICK[..]]
            .concat();
    let plan = place.run(&[&["plan"], &own[..]].concat()).expect(0);
    for part in [
        "Shop (busy) on the server in",
        "load    shop:busy: Shop, of the user, identity ",
        "script  take  weight 3 (75.0 %), 4 statements",
        "data    made by workload directory shop at scale 2, identity ",
        "table   item   2,000 rows, about ",
        "table   taken  0 rows",
        "note    Shop: Nothing is sold here.",
    ] {
        assert!(plan.stdout.contains(part), "{part}\n{}", plan.stdout);
    }

    place.run(&[&["run", "-o", "out"], &own[..]].concat()).expect(0);
    let run = place.first_run("out");
    expect_sound(&run);
    let record = &run.record;
    let workload = &record.case.workload;
    assert_eq!((&workload.data, workload.name()), (&CaseData::Directory, "shop:busy".to_string()));
    let of_load = record.load.as_ref().unwrap().directory.as_deref().unwrap();
    assert_eq!(Some(&of_load.identity), workload.directory.as_ref().map(|directory| &directory.identity));
    assert!(of_load.texts.is_empty(), "the case has them");
    let mut committed = BTreeMap::new();
    for interval in &run.intervals {
        *committed.entry(interval.script).or_insert(0) += interval.counts.committed;
    }
    let grown = record.rows_after["public.taken"] - record.rows_before["public.taken"];
    assert_eq!((record.rows_before["public.item"], grown), (2000, committed[&1]));
    let share = committed[&1] as f64 / (committed[&0] + committed[&1]) as f64;
    assert!((0.7..0.8).contains(&share), "{committed:?}");
}

#[test]
fn mistakes_in_a_directory_are_reported_with_their_places_at_once() {
    let place = place();
    place.write(
        "shop.workload/workload.toml",
        &MANIFEST.replace("letters(5, 20)", "leters(5, 20)").replace("rows(item))\", n", "rows(items))\", n"),
    );
    let refused =
        place.run(&["plan", "-w", "./shop.workload", "--bin-dir", bin_dir().to_str().unwrap()]).expect(1);
    for part in
        ["./shop.workload/workload.toml:19:", "leters", "./shop.workload/workload.toml:32:", "items", "^"]
    {
        assert!(refused.stderr.contains(part), "{part}\n{}", refused.stderr);
    }
    let refused = place.run(&["plan", "-w", "ycbs"]);
    assert!(refused.stderr.contains("`ycbs` is no workload; did you mean `ycsb`?"), "{}", refused.stderr);
    let refused = place.run(&["plan", "-w", "shop.workload"]);
    assert!(refused.stderr.contains("`./shop.workload`"), "{}", refused.stderr);
}

#[test]
fn time_series_by_day_drop_whole_days_and_have_them_again_in_the_next_run() {
    let place = Place::new();
    let bin_dir = bin_dir();
    let pg = testbed::Pg::shared();
    let url = pg.admin_target(&pg.database());
    for (out, server) in [("own", ["--bin-dir", bin_dir.to_str().unwrap()]), ("url", ["--server", &url])] {
        // Seven days of 14,400 readings each, from the first of January on.
        let set = ["interval_s=600", "partitions=day", "days_ahead=3", "keep_days=2"];
        let set: Vec<String> = set.iter().map(|set| format!("--set=workload.options.{set}")).collect();
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        // The same lengths, twice.
        let quick = QUICK.map(|word| if word == "1" { "2" } else { word });
        let args = ["run", "-o", out, "-w", "timeseries:retention-days", "-s", "1"];
        let args = [&args[..], &server[..], &set, &quick].concat();
        place.run(&args).expect(0);
        let data = place.results(out);
        assert_eq!(data.runs.len(), 2);
        for run in &data.runs {
            expect_sound(run);
            let (before, after) =
                (run.record.rows_before["public.reading"], run.record.rows_after["public.reading"]);
            let ingests = run.intervals.iter().filter(|interval| interval.script == 0);
            let inserted = 10 * ingests.map(|interval| interval.counts.committed).sum::<u64>();
            assert_eq!(before, 100_000, "the days that were dropped are there again");
            let dropped = before + inserted - after;
            assert_eq!(dropped % 14_400, 0, "{dropped} of {inserted} and {before}");
            assert!((4..=7).contains(&(dropped / 14_400)), "two days are kept: {dropped}");
        }
    }
    place.expect_clean();
}
