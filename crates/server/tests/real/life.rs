//! From fetch to stop.

use std::fs;
use std::path::PathBuf;

use server::fetch;
use server::{Binaries, Cache, OwnServer, StopMode};

use crate::support::{ask, cluster, fetched, installed, place, processes_in, session, settings};

#[test]
fn fetched_binaries_are_used_without_the_network_the_second_time() {
    let place = place();
    let cache = Cache::at(place.path());
    let binaries = fetch(&cache, &"18".parse().unwrap(), &mut |_| {})
        .unwrap_or_else(|error| panic!("this test needs the network: {error}"));
    let mut progress = Vec::new();
    let again = fetch(&cache, &"18".parse().unwrap(), &mut |step| progress.push(step)).unwrap();
    assert_eq!(again, binaries);
    assert_eq!(progress, [], "something was requested or fetched");
    assert_eq!(cache.fetched(), ["18.6"]);
    let leftovers: Vec<PathBuf> =
        fs::read_dir(cache.dir.join("postgres")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(leftovers.len(), 1, "{leftovers:?}");
}

#[test]
fn a_release_that_the_source_does_not_have_is_refused_by_name() {
    let cache = place();
    let error = fetch(&Cache::at(cache.path()), &"18.99".parse().unwrap(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no server binaries for `18.99`"), "{error}");
}

fn lives_and_leaves_nothing(binaries: &Binaries) {
    let place = place();
    let cluster = cluster(binaries, &place);
    let server =
        OwnServer::start(&cluster, &settings(&[("work_mem", "5MB")])).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = session(&server.conninfo());
    for (name, expected) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("work_mem", "5MB"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
        ("log_line_prefix", "%n [%p] "),
    ] {
        assert_eq!(ask(&mut admin, &format!("show {name}")), expected, "{name}");
    }
    assert_eq!(ask(&mut admin, "select current_database() || ' ' || current_user"), "pgdyno postgres");
    assert_eq!(ask(&mut admin, "select count(*) from pg_extension where extname = 'pg_prewarm'"), "1");
    assert_eq!(cluster.running_pid(), Some(server.pid()));
    let host = server.conninfo().hosts[0].host.clone();
    drop(admin);
    let report = server.stop(StopMode::Fast).unwrap();
    assert!(report.is_clean, "{report:?}");
    assert!(!PathBuf::from(host).exists(), "the socket's directory is left");
    assert_eq!(processes_in(place.path()), Vec::<u32>::new());
    cluster.remove().unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_fetched_server_is_durable_and_leaves_nothing() {
    lives_and_leaves_nothing(&fetched("18"));
}

#[test]
fn an_installed_server_is_durable_and_leaves_nothing() {
    lives_and_leaves_nothing(&installed());
}

/// Not a test itself: fetches in a process with another environment.
#[test]
#[ignore = "run by another test, in a separate process"]
fn fetches_and_writes_down_what_came_of_it() {
    let dir = PathBuf::from(std::env::var_os("PGDYNO_TEST_ROOT").unwrap());
    let text = match fetch(&Cache::at(dir.join("cache")), &"18".parse().unwrap(), &mut |_| {}) {
        Ok(binaries) => binaries.version,
        Err(error) => error.to_string(),
    };
    fs::write(dir.join("came"), text).unwrap();
}

#[test]
fn without_network_or_certificates_a_fetch_says_so_and_cached_binaries_can_be_used() {
    let dead_proxy = [("HTTPS_PROXY", "http://127.0.0.1:9"), ("https_proxy", "http://127.0.0.1:9")];
    let no_certificates = [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/nonexistent")];
    let place = place();
    let came = |surroundings: &[(&str, &str)]| {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "life::fetches_and_writes_down_what_came_of_it"])
            .env("PGDYNO_TEST_ROOT", place.path())
            .envs(surroundings.iter().copied())
            .status()
            .unwrap();
        assert!(status.success());
        fs::read_to_string(place.path().join("came")).unwrap()
    };
    let offline = came(&dead_proxy);
    assert!(
        offline.contains("PostgreSQL 18.6 are not in `") && offline.contains("server.bin_dir"),
        "{offline}"
    );
    assert!(came(&no_certificates).contains("no certificates are installed"), "{}", came(&no_certificates));
    assert_eq!(came(&[]), "18.6");
    assert_eq!(came(&dead_proxy), "18.6");
    assert_eq!(came(&no_certificates), "18.6");
}

#[test]
fn a_crash_ends_every_process_and_loses_no_commit() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let mut admin = session(&server.conninfo());
    admin.execute("create table kept (n int); insert into kept values (7)").unwrap();
    let n_killed = server.crash().unwrap();
    assert!(n_killed > 4, "{n_killed}");
    assert_eq!(processes_in(place.path()), Vec::<u32>::new());
    assert!(admin.execute("select 1").is_err(), "the session is still connected");

    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    assert!(fs::read_to_string(server.log_path()).unwrap().contains("was not properly shut down"));
    assert_eq!(ask(&mut session(&server.conninfo()), "select n from kept"), "7");
    server.stop(StopMode::Fast).unwrap();
}
