//! Every way to name a server and its password; afterwards the password is nowhere to be found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testbed::{PASSWORD, Pg};

use crate::tool::{Ended, PACE, Place, all_pids, expect_sound};

const RUN: &str = "run -c 2 --scale 1 --measure 2s --ramp-up 0s --repeats 1 \
                   --set prepare.prewarm=false --set prepare.settle=false -o out";

#[test]
fn a_password_in_a_url_is_used_and_never_seen() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let url = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{database}?sslmode=require", pg.port);
    let mut args: Vec<&str> = RUN.split_whitespace().collect();
    args.extend([PACE, "--server", &url]);
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    for pid in all_pids() {
        // Between fork and exec, a child has the arguments of the test process.
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&command_line);
        assert!(!text.contains(PASSWORD), "process {pid}: {text}");
    }
    assert!(running.descendants().len() == 1, "the driver");
    let ended = running.wait().expect(0);
    expect_silent(&ended);
    expect_absent(place.path("").as_path());
    let run = place.first_run("out");
    expect_sound(&run);
    let ready = run.record.ready.unwrap();
    assert!(ready.tls.as_deref().is_some_and(|tls| tls.contains("TLS")), "{:?}", ready.tls);
    assert!(run.record.server_is_local, "it runs on this machine");

    let again = place.run(&["check", "--json", "--server", &url]).expect(0);
    expect_silent(&again);
    place.expect_clean();
}

#[test]
fn a_password_comes_from_every_place_that_libpq_looks_at() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let port = pg.port.to_string();
    let keywords = format!("host=127.0.0.1 port={port} dbname={database} user=bench");
    place.run(&["init", "--server", &pg.admin_target(&database), "--scale", "1"]).expect(0);
    pg.admin(&database).execute("grant select on all tables in schema public to bench").unwrap();
    let check = |target: &str, environment: &[(&str, &str)]| -> Ended {
        let mut command: Command = place.command(&["check", "--server", target]);
        command.envs(environment.iter().copied());
        let ended = place.start(command).wait();
        expect_silent(&ended);
        ended
    };
    let refused = check(&keywords, &[]).expect(1);
    assert!(refused.stderr.contains("password"), "{}", refused.stderr);
    check(&format!("{keywords} password={PASSWORD} sslmode=disable"), &[]).expect(0);
    check(&format!("{keywords} password = '{PASSWORD}' sslmode=require"), &[]).expect(0);
    check(&keywords, &[("PGPASSWORD", PASSWORD)]).expect(0);
    let all = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", port.as_str()),
        ("PGUSER", "bench"),
        ("PGDATABASE", database.as_str()),
    ];
    check("", &[&all[..], &[("PGPASSWORD", PASSWORD), ("PGSSLMODE", "require")]].concat()).expect(0);

    let passfile = place.write("home/.pgpass", &format!("127.0.0.1:{port}:*:bench:{PASSWORD}\n"));
    fs::set_permissions(&passfile, fs::Permissions::from_mode(0o600)).unwrap();
    check("", &all).expect(0);
    check(&keywords, &[]).expect(0);
    let service = format!("[lab]\nhost=127.0.0.1\nport={port}\ndbname={database}\nuser=bench\n");
    let service_file = place.write("service.conf", &service);
    check("service=lab", &[("PGSERVICEFILE", service_file.to_str().unwrap())]).expect(0);
    fs::set_permissions(&passfile, fs::Permissions::from_mode(0o644)).unwrap();
    check(&keywords, &[]).expect(1);
    let mut args: Vec<&str> = RUN.split_whitespace().collect();
    args.extend(["--server", &keywords]);
    let mut command = place.command(&args);
    command.env("HOME", place.path("home"));
    let refused = place.start(command).wait().expect(1);
    assert!(refused.stderr.contains(".pgpass\" has group or world access"), "{}", refused.stderr);
    place.expect_clean();
}

#[test]
fn a_run_takes_its_server_from_the_environment() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let mut args: Vec<&str> = RUN.split_whitespace().collect();
    args.extend(["--server", "", "-M", "extended"]);
    let mut command = place.command(&args);
    command.env("PGHOST", "127.0.0.1").env("PGPORT", pg.port.to_string()).env("PGUSER", "bench");
    command.env("PGDATABASE", &database).env("PGPASSWORD", PASSWORD);
    let ended = place.start(command).wait().expect(0);
    expect_silent(&ended);
    expect_absent(place.path("").as_path());
    expect_sound(&place.first_run("out"));
    place.expect_clean();
}

fn expect_silent(ended: &Ended) {
    assert!(!ended.stdout.contains(PASSWORD) && !ended.stderr.contains(PASSWORD), "{ended:?}");
}

/// No file in or below `dir` has the password.
fn expect_absent(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expect_absent(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            let has =
                |bytes: &[u8]| bytes.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes());
            assert!(!has(&bytes), "{}", path.display());
            if path.extension().is_some_and(|extension| extension == "zst") {
                assert!(!has(&zstd_text(&path)), "{}", path.display());
            }
        }
    }
}

/// Read by the store, which knows the format of readings.
fn zstd_text(path: &Path) -> Vec<u8> {
    let experiment = path.ancestors().nth(3).unwrap();
    format!("{:?}", store::load_experiment(experiment).unwrap()).into_bytes()
}
