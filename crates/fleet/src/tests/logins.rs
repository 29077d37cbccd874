//! Logins to a real sshd of the test's own, and those that it refuses.

use std::time::{Duration, Instant};

use model::experiment::driver::DriverSpec;
use testbed::Sshd;

use super::stand_in::{error, greet, program, spec};

/// An sshd with the limits that sshd has by default, or a word that says why there is none.
fn sshd() -> Option<Sshd> {
    let sshd = Sshd::start("MaxStartups 10:30:100");
    if sshd.is_none() {
        let mut stderr = std::io::stderr();
        std::io::Write::write_all(&mut stderr, b"skipped: no sshd to log in to (Debian: openssh-server)\n")
            .ok();
    }
    sshd
}

#[test]
fn twenty_four_drivers_log_in_to_one_sshd() {
    let Some(sshd) = sshd() else { return };
    let dir = testbed::place();
    let own = program(dir.path(), "own", "this build");
    let specs: Vec<DriverSpec> = (0..24).map(|n| spec(&format!("d{n}"), &sshd.via(), &own)).collect();
    let records = greet(&specs, &own).unwrap();
    assert_eq!(records.len(), 24);
    assert!(!sshd.log().contains("MaxStartups"), "{}", sshd.log());
}

#[test]
fn logins_that_ssh_refuses_are_named_with_its_reason() {
    let Some(sshd) = sshd() else { return };
    let dir = testbed::place();
    let own = program(dir.path(), "own", "this build");
    let mut unknown = sshd.via();
    *unknown.last_mut().unwrap() = "nobody@unknown.invalid".to_string();
    let mut closed = sshd.via();
    closed.iter_mut().filter(|word| word.starts_with("-p")).for_each(|word| *word = "-p1".to_string());
    let cases = [
        (unknown, "Could not resolve hostname unknown.invalid"),
        (closed, "Connection refused"),
        (sshd.via_with("other_key", "known_hosts"), "Permission denied"),
        (sshd.via_with("key", "changed_hosts"), "a host key has just been changed"),
        (sshd.via_with("key", "nobody_hosts"), "Host key verification failed"),
    ];
    let begun = Instant::now();
    // Each waits between its tries: all at once.
    std::thread::scope(|scope| {
        for (via, expected) in cases {
            let own = &own;
            scope.spawn(move || {
                let error = error(&[spec("bad", &via, own)], own);
                assert!(error.starts_with("the command of driver `bad` (`ssh "), "{error}");
                assert!(
                    error.contains("before pgdyno answered") && error.contains(expected),
                    "{expected}: {error}"
                );
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_copy_goes_over_ssh() {
    let Some(sshd) = sshd() else { return };
    let dir = testbed::place();
    let own = program(dir.path(), "own", "this build");
    let driver = DriverSpec { upload: true, ..spec("far", &sshd.via(), "/nonexistent/pgdyno".as_ref()) };
    for _ in 0..2 {
        let records = greet(std::slice::from_ref(&driver), &own).unwrap();
        let copy = sshd.cache().join("pgdyno/drivers").join(&records[0].hello.build.sha256);
        assert_eq!(records[0].hello.host, copy.display().to_string());
    }
}
