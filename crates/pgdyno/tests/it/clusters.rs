//! The clusters that embedded servers leave for the next run: listed, removed, swept.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::tool::Place;

#[test]
fn clusters_are_listed_and_removed_by_name() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list"]).expect(0);
    let name = list.stdout.split_whitespace().next().unwrap().to_string();
    assert!(list.stdout.contains("PostgreSQL 18") && list.stdout.contains("scale 1"), "{list:?}");
    assert!(list.stderr.contains("1 cluster,") && list.stderr.contains("cache"), "{list:?}");
    let json = place.run(&["server", "list", "--json"]).expect(0);
    assert!(json.stdout.contains(&format!("\"name\":\"{name}\"")), "{json:?}");

    place.run(&["server", "remove", &name]).expect(0);
    assert_eq!(place.run(&["server", "list"]).expect(0).stdout, "");
    let again = place.run(&["server", "remove", &name]).expect(1);
    assert!(again.stderr.contains("there is no cluster"), "{again:?}");
    place.expect_clean();
}

#[test]
fn a_cluster_that_was_not_made_to_the_end_is_swept() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let marker = format!("{}/pgdyno-cluster.json", entry["path"].as_str().unwrap());
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, text.replace("\"is_complete\": true", "\"is_complete\": false")).unwrap();
    let list = place.run(&["server", "list"]).expect(0);
    assert!(list.stdout.contains("not made to the end"), "{list:?}");
    place.run(&["init", "--scale", "2"]).expect(0);
    let list = place.run(&["server", "list"]).expect(0);
    assert!(list.stdout.contains("scale 2") && list.stdout.lines().count() == 1, "{list:?}");
}

#[test]
fn check_looks_into_the_cluster_with_the_workloads_data() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "-w", "tpcc", "--scale", "1"]).expect(0);
    place.run(&["init", "--scale", "1"]).expect(0);
    let tpcc = place.run(&["check", "-w", "tpcc", "--scale", "1"]).expect(0).stdout;
    assert!(tpcc.contains("3.3.2.12"), "{tpcc}");
    let last = place.run(&["check", "--scale", "1"]).expect(0).stdout;
    assert!(!last.contains("3.3.2.12"), "the one used last is that of tpcb: {last}");
    let none = place.run(&["check", "-w", "tproc-c", "--scale", "1"]).expect(1).stderr;
    assert!(none.contains("no embedded server with such data (tproc-c, scale 1)"), "{none}");
    place.expect_clean();
}

#[test]
fn a_marker_that_the_servers_user_replaces_makes_root_run_nothing() {
    let account = server::Account::choose().unwrap();
    // Another user's marker is a danger to root only.
    if !account.is_switched {
        return;
    }
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let root = entry["path"].as_str().unwrap();
    let open = place.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let script = "for name in postgres initdb; do \
                    printf '#!/bin/sh\\nid -u >>%s/who\\necho postgres 18.6\\n' $PWD >$name; chmod 755 $name; done; \
                  sed \"s|\\\"labels\\\": {|&\\\"bin_dir\\\": \\\"$PWD\\\",|\" $0/pgdyno-cluster.json >marker";
    let prepared = Command::new("sh").args(["-c", script, root]).current_dir(&open).status().unwrap();
    assert!(prepared.success());
    let marker = std::fs::read_to_string(open.join("marker")).unwrap();
    serde_json::from_str::<serde_json::Value>(&marker).unwrap();
    assert!(marker.contains("bin_dir"), "{marker}");
    let planted = Command::new("sh")
        .args(["-c", "cp marker $0/new && mv -f $0/new $0/pgdyno-cluster.json", root])
        .current_dir(&open)
        .uid(account.uid)
        .gid(account.gid)
        .output()
        .unwrap();
    let checked = place.run(&["check", "--scale", "1"]);
    let who = std::fs::read_to_string(open.join("who")).unwrap_or_default();
    assert!(!who.lines().any(|user| user == "0"), "root ran what another user named: {who}");
    assert!(!planted.status.success(), "the server's user replaced the marker");
    checked.expect(0);
}
