//! A copy of a server in its place, while its settings are changed.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use server::alter_system::{Altering, SettingsJournal, undo_journal, undo_left};
use testbed::{ClusterOptions, TestServer};

/// As after a restore from a backup, or of a container: data directory, port, identifier and entries are the same.
#[test]
fn a_copy_at_the_same_path_and_address_does_not_use_up_the_journal() {
    let (server, place) = (TestServer::start(&ClusterOptions::default()), tempfile::tempdir().unwrap());
    let (admin, dir) = (server.socket("postgres"), place.path());
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    let wanted = [("work_mem".to_string(), "8MB".to_string())].into();
    altering.set(&wanted).unwrap();
    let swap = |aside: &str, into: &str| {
        fs::rename(server.path("data"), server.path(aside)).unwrap();
        fs::rename(server.path(into), server.path("data")).unwrap();
        server.start_again();
    };
    server.stop(Signal::SIGINT);
    let copied =
        Command::new("cp").arg("-a").arg(server.path("data")).arg(server.path("copy")).status().unwrap();
    assert!(copied.success());
    swap("original", "copy");

    let [path] = &SettingsJournal::all(dir).unwrap()[..] else { panic!("one journal") };
    for error in [
        altering.put_back().unwrap_err(),
        {
            drop(altering);
            undo_left(dir, &admin).unwrap_err()
        },
        undo_journal(path, &admin).unwrap_err(),
    ] {
        let words = format!("{error:#}");
        assert!(words.contains("another server than the one whose settings were changed"), "{words}");
        assert!(words.contains("(place of the data on disk `"), "{words}");
    }
    assert_eq!(server.ask("postgres", "show work_mem"), "8MB", "the copy keeps what it was made with");

    server.stop(Signal::SIGINT);
    swap("copy", "original");
    assert_eq!(undo_left(dir, &admin).unwrap().len(), 1);
    assert_eq!(server.ask("postgres", "show work_mem"), "4MB");
    assert_eq!(SettingsJournal::all(dir).unwrap(), Vec::<std::path::PathBuf>::new());
}
