//! Clusters of the cache that their user has used without pgdyno.

use std::path::{Path, PathBuf};

use testbed::ByHand;

use crate::tool::{PACE, Place};

#[test]
fn a_cluster_in_which_the_user_has_a_database_is_left_until_it_is_named_and_forced() {
    let place = Place::new();
    let bin = testbed::bin_dir().display().to_string();
    let run = |scale: &'static str, budget: &str| {
        let mut command = place.command(&["run", "--bin-dir", &bin, "--scale", scale, "-c", "1", PACE]);
        command.args(["--measure", "2s", "--ramp-up", "0s", "--repeats", "1", "-y", "-o", scale]);
        place.start({
            command.env("PGDYNO_CACHE_SIZE", budget);
            command
        })
    };
    run("1", "50%").wait().expect(0);
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let (name, root) = (entry["name"].as_str().unwrap(), PathBuf::from(entry["path"].as_str().unwrap()));
    assert!(entry["used_by_others"].is_null(), "{entry}");

    ByHand::start(&root.join("data")).ask("create database mine");
    let why = "its server was started without this pgdyno";
    let advice = format!("`pgdyno server remove --force {name}` removes it");
    let expect_said = |said: &str| assert!(said.contains(why) && said.contains(&advice), "{said}");
    let list = place.run(&["server", "list"]).expect(0).stdout;
    assert!(list.contains(why), "{list}");
    expect_said(&place.run(&["server", "remove", "--all"]).expect(0).stderr);
    expect_said(&place.run(&["server", "remove", name]).expect(1).stderr);
    // Beyond the budget, and where the next run would restore its data.
    expect_said(&run("2", "0").wait().expect(0).stderr);
    std::fs::remove_dir_all(place.path("1")).unwrap();
    expect_said(&run("1", "50%").wait().expect(1).stderr);
    expect_has_database(&root);

    place.run(&["server", "remove", "--force", name]).expect(0);
    assert!(!root.exists());
    run("1", "50%").wait().expect(0);
    place.expect_clean();
}

fn expect_has_database(root: &Path) {
    let own = ByHand::start(&root.join("data"));
    assert_eq!(own.ask("select count(*) from pg_database where datname = 'mine'"), "1");
}
