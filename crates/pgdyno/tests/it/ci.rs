//! `deploy/ci/compare.sh`, as a job calls it: from a package, on real servers, to each of its ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::bin_dir;

use crate::tool::{Ended, Place};

/// A second of load is ample for a table scan against an index.
const SHORT: &str = "-f read.sql -c 2 --duet --rounds 1 --slice 150 --guard 15 --measure 3s --ramp-up 0s \
                     --set prepare.settle=false --set prepare.prewarm=false --set prepare.snapshot=false --set prepare.restore=false";

/// The script with a job's environment. pgdyno is only in its package, as on a runner.
fn job(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> Ended {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/ci/compare.sh");
    let mut command = place.command_of(&script, args);
    command.envs(environment.iter().copied()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("GITHUB_STEP_SUMMARY", place.path("summary.md"));
    place.start(command).wait()
}

fn schemas(place: &Place, sides: [&str; 2], environment: &[(&str, &str)]) -> Ended {
    let server = format!("server.bin_dir={}", bin_dir().display());
    let options = SHORT.split(' ').filter(|word| !word.is_empty()).chain(["--set", &server]);
    let args: Vec<&str> = ["schemas", sides[0], sides[1], "--"].into_iter().chain(options).collect();
    job(place, &args, environment)
}

/// A package whose program is the one under test.
fn package(place: &Place) -> PathBuf {
    let program = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_pgdyno"));
    fs::create_dir_all(place.path("pgdyno-x/bin")).unwrap();
    let path = place.write("pgdyno-x/bin/pgdyno", &program);
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-czf", "pgdyno-x.tar.gz", "pgdyno-x"]).current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
    place.path("pgdyno-x.tar.gz")
}

#[test]
fn a_job_of_ci_passes_without_a_difference_and_fails_without_an_index() {
    let place = Place::new();
    let package = package(&place).display().to_string();
    let table = "CREATE TABLE orders (id int PRIMARY KEY, customer int, total int);\n\
                 INSERT INTO orders SELECT n, n % 5000, n % 97 FROM generate_series(1, 50000) n;\n";
    fs::create_dir(place.path("base")).unwrap();
    place.write("base/001-table.sql", table);
    place.write("base/002-index.sql", "CREATE INDEX ON orders (customer);\n");
    place.write("same.sql", &format!("{table}-- The same.\nCREATE INDEX ON orders (customer);\n"));
    place.write("without.sql", table);
    let read = "\\set customer random(0, 4999)\nSELECT sum(total) FROM orders WHERE customer = :customer;\n";
    place.write("read.sql", read);

    // By chance, one of forty such comparisons says slower; two in a row do not happen.
    let again = [("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_AGAIN", "1")];
    schemas(&place, ["base", "same.sql"], &again).expect(0);
    let results = fs::read_dir(place.path("comparison")).unwrap();
    let mut kept: Vec<_> = results.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    kept.retain(|name| !name.starts_with("again"));
    kept.sort();
    let expected =
        ["comparison-report.html", "comparison-report.md", "comparison-runs.csv", "comparison.tar.gz"];
    assert_eq!(kept, expected);

    let slower = [("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_RESULTS", "slower")];
    let ended = schemas(&place, ["base", "without.sql"], &slower).expect(4);
    assert!(ended.stdout.contains("B: data without.sql\n\nB is "), "{}", ended.stdout);
    assert!(!ended.stdout.contains("undeclared"), "another schema has another size: {}", ended.stdout);
    let summary = fs::read_to_string(place.path("summary.md")).unwrap();
    assert!(summary.contains("% slower (95 % interval") && summary.contains("| throughput |"), "{summary}");
    let unpacked = place.run(&["unpack", "slower/comparison.tar.gz", "-o", "unpacked"]).expect(0);
    assert!(unpacked.stderr.contains("pgdyno report unpacked"), "{}", unpacked.stderr);
    place.run(&["compare", "unpacked", "--fail-on", "slower"]).expect(4);
    place.expect_clean();
}

#[test]
fn a_job_of_ci_that_cannot_compare_says_why() {
    let place = Place::new();
    let package = package(&place).display().to_string();
    place.write("a.sql", "SELECT 1;\n");
    let refused = |args: &[&str], environment: &[(&str, &str)], expected: &str| {
        let ended = job(&place, args, environment).expect(1);
        assert!(ended.stderr.contains(expected), "{args:?} {}", ended.stderr);
        let summary = fs::read_to_string(place.path("summary.md")).unwrap();
        assert!(summary.trim_end().lines().last().unwrap().starts_with("**No comparison:** "), "{summary}");
        fs::remove_file(place.path("summary.md")).unwrap();
    };
    let ours = [("PGDYNO_PACKAGE", package.as_str())];
    refused(&["schemas", "a.sql"], &ours, "usage: compare.sh builds|schemas BASE HEAD");
    refused(&["schemas", "a.sql", "none.sql"], &ours, "there is no file `none.sql` with SQL");
    refused(&["builds", "18", "/nowhere"], &ours, "is neither a directory with the program postgres nor a");
    refused(&["schemas", "a.sql", "a.sql", "-c", "1"], &ours, "options of pgdyno come after --");
    if !Path::new("/usr/bin/pgdyno").exists() {
        refused(&["schemas", "a.sql", "a.sql"], &[], "there is no pgdyno; name its package");
    }
    refused(
        &["schemas", "a.sql", "a.sql"],
        &[("PGDYNO_PACKAGE", "none.deb")],
        "there is no package `none.deb`",
    );
    let address = [("PGDYNO_PACKAGE", "https://localhost:1/pgdyno.deb")];
    refused(&["schemas", "a.sql", "a.sql"], &address, "PGDYNO_SHA256 must hold the hash");
    let hash = [ours[0], ("PGDYNO_SHA256", "0000")];
    refused(&["schemas", "a.sql", "a.sql"], &hash, "is not what PGDYNO_SHA256 says");
    // Both sides are the same: pgdyno refuses, and the script says so.
    refused(&["builds", "18", "18"], &ours, "did you mean --aa?");
}
