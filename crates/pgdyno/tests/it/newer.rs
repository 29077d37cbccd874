//! A server that is newer than what pgdyno knows: it is measured, with a note.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use testbed::bin_dir;

use crate::tool::{PACE, Place, expect_sound};

/// Programs in `bin` that say to be PostgreSQL 19 and are those of the tests, which lack a setting of 19.
fn programs_of_19(place: &Place) -> String {
    let real = bin_dir().display().to_string();
    let dir = place.path("bin");
    fs::create_dir(&dir).unwrap();
    let postgres = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'postgres (PostgreSQL) 19.0'; exit; fi\n\
         for dir; do for file in \"$dir\"/*.conf; do\n\
         if [ -f \"$file\" ] && grep -q log_autoanalyze \"$file\"; then\n\
         grep -v log_autoanalyze \"$file\" >\"$file.15\"; cat \"$file.15\" >\"$file\"; rm \"$file.15\"; fi\ndone; done\n\
         exec '{real}/postgres' \"$@\"\n"
    );
    for (name, text) in
        [("postgres", postgres), ("initdb", format!("#!/bin/sh\nexec '{real}/initdb' \"$@\"\n"))]
    {
        let path = place.write(&format!("bin/{name}"), &text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    dir.display().to_string()
}

#[test]
fn a_server_that_is_newer_than_pgdyno_is_measured_with_a_note() {
    let place = Place::new();
    let bin = programs_of_19(&place);
    let line = "run --scale 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -o out --bin-dir";
    let args: Vec<&str> = line.split(' ').chain([bin.as_str(), PACE]).collect();
    let ended = place.run(&args).expect(0);
    let note = "PostgreSQL 19 is newer than what this pgdyno knows: it measures it like 18";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    expect_sound(&place.first_run("out"));
    place.expect_clean();
}
