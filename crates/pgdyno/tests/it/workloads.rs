//! Workloads that are directories, as somebody meets them who has none yet: listed, shown, written, checked and run.

use std::fs;
use std::path::Path;

use testbed::{Pg, bin_dir};

use crate::tool::{Ended, PACE, Place, expect_sound};

/// A place with the workload that `workload new` writes, in `shop`.
fn shop() -> Place {
    let place = Place::new();
    place.run(&["workload", "new", "shop"]).expect(0);
    place
}

/// Replaces the only occurrence of a text in a file.
#[track_caller]
fn change(place: &Place, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
    fs::write(place.path(file), text.replace(from, to)).unwrap();
}

fn lines_of_json(ended: &Ended) -> Vec<serde_json::Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn workloads_are_listed_and_shown() {
    let place = Place::new();
    let list = place.run(&["workload", "list"]).expect(0);
    for name in ["tpcb", "tpcb-select", "tpcc", "tproc-c"] {
        assert!(list.stdout.lines().any(|line| line.starts_with(&format!("{name} "))), "{}", list.stdout);
    }
    let listed = lines_of_json(&place.run(&["workload", "list", "--json"]).expect(0));
    assert!(listed.iter().any(|entry| entry["name"] == "tpcc" && entry["directory"] == false), "{listed:?}");
    for entry in &listed {
        let name = entry["name"].as_str().unwrap();
        let shown = place.run(&["workload", "show", name]).expect(0);
        assert!(shown.stdout.starts_with(&format!("{name}: ")), "{}", shown.stdout);
        let json = place.run(&["workload", "show", name, "-s", "3", "--json"]).expect(0);
        let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((json["name"].as_str(), json["scale"].as_u64()), (Some(name), Some(3)));
        assert!(!json["tables"].as_array().unwrap().is_empty(), "{name}");
    }
    let shown = place.run(&["workload", "show", "tpcb-select"]).expect(0);
    assert!(shown.stdout.contains("SELECT abalance FROM pgbench_accounts"), "{}", shown.stdout);
    place.expect_clean();
}

#[test]
fn a_built_in_directory_is_copied_to_be_changed() {
    let place = Place::new();
    let listed = lines_of_json(&place.run(&["workload", "list", "--json"]).expect(0));
    for entry in listed.iter().filter(|entry| entry["directory"] == true) {
        let name = entry["name"].as_str().unwrap();
        let copied = place.run(&["workload", "show", name, "--to", name]).expect(0);
        assert!(copied.stdout.contains(&format!("pgdyno run -w ./{name}")), "{}", copied.stdout);
        let identity = |workload: &str| {
            let json = place.run(&["workload", "show", workload, "--json"]).expect(0).stdout;
            serde_json::from_str::<serde_json::Value>(&json).unwrap()["identity"].to_string()
        };
        assert_eq!(identity(name), identity(&format!("./{name}")));
        place.run(&["workload", "check", &format!("./{name}"), "--offline"]).expect(0);
    }
}

#[test]
fn a_new_workload_is_sound_and_shows_its_rows() {
    let place = shop();
    let checked = place.run(&["workload", "check", "./shop", "--offline"]).expect(0);
    assert!(checked.stdout.contains("sound at scale 1: 3 tables, 2 transactions, 2 checks"), "{checked:?}");
    assert!(!checked.stdout.contains("warning"), "{}", checked.stdout);
    let shown = place.run(&["workload", "show", "./shop:buying", "-s", "2"]).expect(0);
    for part in
        ["shop: A small shop", "variant   buying: everybody buys", "browse ", "skew ", "0.1 to 5", "20,000"]
    {
        assert!(shown.stdout.contains(part), "{part}\n{}", shown.stdout);
    }
    let rows = place.run(&["workload", "rows", "./shop", "purchase", "--limit", "2"]).expect(0);
    let lines: Vec<&str> = rows.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", rows.stdout);
    assert!(lines[0].contains("customer") && lines[2].contains("2026-01-01 00:01:00"), "{}", rows.stdout);
    assert_eq!(rows.stderr, "2 of 10,000 rows of `purchase`\n");
    // Any row alone is the one that it is among others, and another seed makes others.
    let csv = |args: &[&str]| {
        let line = [&["workload", "rows", "./shop", "product", "--csv"], args].concat();
        place.run(&line).expect(0).stdout
    };
    let all = csv(&["--limit", "1000"]);
    assert_eq!(all.lines().count(), 1001);
    assert_eq!(csv(&["--from", "700", "--limit", "1"]).lines().nth(1), all.lines().nth(701));
    assert_ne!(csv(&["--data-seed", "2", "--limit", "1000"]), all);
    let lines =
        lines_of_json(&place.run(&["workload", "rows", "./shop", "purchase_line", "--json"]).expect(0));
    assert!(lines.len() >= 5 && lines[0]["purchase_id"] == "1", "{lines:?}");
    place.expect_clean();
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let place = shop();
    for line in [["workload", "new", "shop", ""], ["workload", "new", "shop/workload.toml", ""]] {
        let words: Vec<&str> = line.into_iter().filter(|word| !word.is_empty()).collect();
        let refused = place.run(&words).expect(1);
        assert!(
            refused.stderr.contains("is not empty; choose another")
                || refused.stderr.contains("is no directory")
        );
    }
    fs::create_dir(place.path("empty")).unwrap();
    place.run(&["workload", "new", "empty"]).expect(0);
    let name = fs::read_to_string(place.path("empty/workload.toml")).unwrap();
    assert!(name.contains("name = \"empty\"") && name.contains("./empty"), "{name}");
    assert!(name.contains("transactions/NAME.sql are what"), "{name}");
}

#[test]
fn what_is_wrong_with_the_arguments_is_said() {
    let place = shop();
    let check = |line: &str, expected: &[&str]| {
        let words: Vec<&str> = line.split(' ').collect();
        let refused = place.run(&words).expect(1);
        assert_eq!(refused.stdout, "", "{line}");
        for part in expected {
            assert!(refused.stderr.contains(part), "{line}\nexpected: {part}\n{}", refused.stderr);
        }
    };
    check("workload show nosuch", &["`nosuch` is no workload", "`./nosuch`"]);
    check(
        "workload show shop",
        &["`shop` is no workload that pgdyno has; did you mean the directory `./shop`?"],
    );
    check(
        "run -w shop:buying",
        &["`shop` is no workload that pgdyno has; did you mean the directory `./shop:buying`?"],
    );
    check(
        "init -w shop",
        &["--workload: `shop` is no workload that pgdyno has; did you mean the directory `./shop`?"],
    );
    check("init -w ycbs", &["`ycbs` is no workload; did you mean `ycsb`? There are tpcb, "]);
    check("check -w ycbs", &["`ycbs` is no workload; did you mean `ycsb`? There are tpcb, "]);
    check("workload show ./nosuch", &["./nosuch", "No such file"]);
    check("workload rows tpcb pgbench_accounts", &["workload `tpcb` is no directory"]);
    check("workload show tpcb --to there", &["workload `tpcb` is no directory"]);
    check("workload rows ./shop purchas", &["has no table `purchas`; did you mean `purchase`?"]);
    check("workload show ./shop:selling", &["there is no variant `selling`; known: mixed, buying"]);
    check("workload show ./shop:buyng", &["there is no variant `buyng`; did you mean `buying`?"]);
    check("workload show ./shop --option skew", &["--option skew: expected NAME=VALUE"]);
    check("workload show ./shop --option skew=9", &["9", "5"]);
    check("workload show ./shop --option skw=1", &["skw", "skew"]);
    check("workload show ./shop -s 0", &["0 is not in 1..=1000000"]);
    check("workload", &["Usage: pgdyno workload <COMMAND>"]);
    assert!(!place.path("there").exists());
}

#[test]
fn what_is_wrong_with_a_directory_is_found_at_once_with_its_place() {
    let check = |changes: &[(&str, &str, &str)], expected: &[&str]| {
        let place = shop();
        for (file, from, to) in changes {
            change(&place, &format!("shop/{file}"), from, to);
        }
        let ended = place.run(&["workload", "check", "./shop", "--offline"]).expect(1);
        for part in expected {
            assert!(ended.stdout.contains(part), "expected: {part}\n{}", ended.stdout);
        }
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    };
    let toml = "workload.toml";
    check(
        &[(toml, "rows = \"1000 * scale\"", "rows = \"1000 * scael\"")],
        &["./shop/workload.toml:", "rows = \"1000 * scael\"", "^", "1 problem ("],
    );
    // Several at once, each with its place.
    check(
        &[
            (toml, "customer = \"someone\"\nbought_at", "customer = \"somebody\"\nbought_at"),
            (toml, "price = \"decimal(uniform(100, 19999), 2)\"", "price = \"decimal(uniform(100), 2)\""),
        ],
        &["somebody", "uniform", "2 problems ("],
    );
    check(&[(toml, "[table.hidden]", "[table.hiden]")], &["hiden", "hidden"]);
    check(&[(toml, "words('lists/words.txt', 2, 4)", "words('lists/wrods.txt', 2, 4)")], &["wrods.txt"]);
    check(
        &[(toml, "someone = \"uniform(1, customers)\"", "someone = \"someone + 1\"")],
        &["someone = \"someone + 1\""],
    );
    check(&[(toml, "name = \"browse\"", "name = \"look\"")], &["transactions/look.sql"]);
    check(&[(toml, "weights = {buy = 1}", "weights = {bye = 1}")], &["bye", "buy"]);
    check(&[(toml, "name = \"totals\"", "name = \"sums\"")], &["checks/sums.sql"]);
    check(
        &[("transactions/browse.sql", "where id = :product", "where id = :prodcut")],
        &["transactions/browse.sql:2:54: ", "; did you mean `:product`?", "where id = :prodcut;", "^^^^^^^^"],
    );
    check(&[(toml, "format = 1", "format = 1.5")], &["format"]);
    check(
        &[(toml, "title = \"A small", "titel = \"A small")],
        &["has no key `titel`; did you mean `title`?", "1 problem ("],
    );
    check(
        &[("checks/purchases.sql", ", :rows_purchase", ", :rows_purchases")],
        &["checks/purchases.sql:", "nothing sets `:rows_purchases`; did you mean `rows_purchase`?"],
    );
}

#[test]
fn json_of_a_check_has_every_problem() {
    let place = shop();
    let check = |code: i32| {
        let ended = place.run(&["workload", "check", "./shop", "--offline", "--json"]).expect(code);
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()
    };
    assert_eq!(check(0)["is_sound"], true);
    change(&place, "shop/workload.toml", "[table.hidden]", "[table.hiden]");
    let found = check(1);
    let problem = &found["problems"][0];
    assert_eq!((found["is_sound"].as_bool(), problem["file"].as_str()), (Some(false), Some("workload.toml")));
    assert!(problem["line"].as_u64().unwrap() > 1, "{found}");
}

/// What only a server knows of `shop`, whose columns are changed so that rows do not fit.
fn expect_unfit(place: &Place, server: &[&str]) {
    let sizes = [("name varchar(80)", "name varchar(8)"), ("in_stock bigint", "in_stock smallint")];
    for (from, to) in sizes {
        change(place, "shop/schema.sql", from, to);
    }
    let ended = place.run(&[&["workload", "check", "./shop"], server].concat()).expect(1);
    for part in [
        "./shop/workload.toml:33:8: name: up to 27 characters; the column has 8",
        "./shop/workload.toml:35:12: in_stock reaches 100,000 at scale 1; the column is smallint",
        "2 problems (asked: ",
    ] {
        assert!(ended.stdout.contains(part), "expected: {part}\n{}", ended.stdout);
    }
    for (to, from) in sizes {
        change(place, "shop/schema.sql", from, to);
    }
}

#[test]
fn a_new_workload_is_proved_and_runs() {
    let (place, bin_dir) = (shop(), bin_dir());
    let own = ["--bin-dir", bin_dir.to_str().unwrap()];
    expect_unfit(&place, &own);
    place.run(&[&["workload", "check", "./shop"], &own[..]].concat()).expect(0);
    // A server that exists for a proof is none that `check` or a run would find.
    let clusters = place.run(&["server", "list"]).expect(0);
    assert_eq!(clusters.stdout, "", "{}", clusters.stderr);
    let short =
        "-w ./shop:buying -c 2 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -o out";
    let words: Vec<&str> = short.split(' ').collect();
    place.run(&[&["run", PACE], &own[..], &words[..]].concat()).expect(0);
    let run = place.first_run("out");
    expect_sound(&run);
    let committed: u64 = run.intervals.iter().map(|interval| interval.counts.committed).sum();
    let record = &run.record;
    let grown = record.rows_after["public.purchase"] - record.rows_before["public.purchase"];
    assert_eq!((record.rows_before["public.purchase"], grown), (10_000, committed));
    place.expect_clean();
}

#[test]
fn a_server_by_url_is_asked_and_keeps_nothing() {
    let (place, pg) = (shop(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let asked = ["--server", server.as_str()];
    let refused = place.run(&[&["workload", "check", "./shop"], &asked[..]].concat()).expect(1);
    // The hash is that of the texts: whoever changes one asks for trust again.
    let hash = |refused: &Ended| {
        let (_, rest) =
            refused.stdout.split_once("pass --trust-workload ").unwrap_or_else(|| panic!("{refused:?}"));
        rest.split(' ').next().unwrap().to_string()
    };
    let first = hash(&refused);
    let check = |hash: &str| {
        place.run(&[&["workload", "check", "./shop"], &asked[..], &["--trust-workload", hash]].concat())
    };
    check(&first).expect(0);
    change(&place, "shop/schema.sql", "name varchar(80)", "name varchar(8)");
    change(&place, "shop/transactions/browse.sql", "where id = :product", "where idd = :product");
    change(&place, "shop/checks/totals.sql", "from", "form");
    let refused = check(&first).expect(1);
    assert_ne!(hash(&refused), first);
    // All at once, each with its place.
    let found = check(&hash(&refused)).expect(1);
    for part in [
        "./shop/workload.toml:33:8: name: up to 27 characters; the column has 8",
        "./shop/transactions/browse.sql:2:49: column \"idd\" does not exist (42703)",
        "./shop/checks/totals.sql:",
        "3 problems (asked: ",
    ] {
        assert!(found.stdout.contains(part), "expected: {part}\n{}", found.stdout);
    }
    let left = pg
        .admin(&database)
        .query("select count(*) from pg_class where relnamespace = 'public'::regnamespace");
    assert_eq!(left.unwrap().scalar(), Some("0"));
    place.expect_clean();
}

/// The files that a page shows in full, by name.
fn files_of(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("<!-- file ").skip(1);
    let file = |block: &str| {
        let (name, rest) = block.split_once(" -->\n").unwrap();
        let (_, text) = rest.split_once('\n').unwrap();
        let (text, _) = text.split_once("```\n").unwrap();
        (name.to_string(), text.to_string())
    };
    blocks.map(file).collect()
}

/// The commands in the `sh` blocks of a page.
fn commands_of(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(|block| block.lines().map(str::to_string).collect::<Vec<String>>()).collect()
}

#[test]
fn the_workload_of_the_page_is_written_as_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workloads.md");
    let page = fs::read_to_string(path).unwrap();
    let (place, bin_dir) = (Place::new(), bin_dir());
    let mut commands = commands_of(&page);
    assert!(commands.len() > 8, "{commands:?}");
    let mut ran = 0;
    for command in &mut commands {
        // What is measured is short here, on a server that is installed.
        let short = command.replace("--measure 20s", "--measure 2s --ramp-up 0s --repeats 1");
        let is_measured = command.starts_with("pgdyno run") || command.starts_with("pgdyno plan");
        let asks_server =
            is_measured || (command.starts_with("pgdyno workload check") && !command.contains("--offline"));
        let short = if asks_server { format!("{short} --bin-dir {}", bin_dir.display()) } else { short };
        if short.contains("./library") {
            // By then the reader has written the files.
            for (name, text) in files_of(&page) {
                place.write(&name, &text);
            }
        }
        let mut shell = place.command_of(Path::new("sh"), &["-c", &short]);
        let program = Path::new(env!("CARGO_BIN_EXE_pgdyno"));
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        let ended = place.start(shell).wait();
        let code = ended.code();
        assert_eq!(code, Some(0), "{short}\n{}\n{}", ended.stdout, ended.stderr);
        ran += usize::from(is_measured);
    }
    assert_eq!(ran, 2, "{commands:?}");
    assert_eq!(files_of(&page).len(), 8);
    place.expect_clean();
}
