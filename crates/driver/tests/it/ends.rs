//! How a load ends: in time, cancelled, stopped, or without a parent.

use std::time::{Duration, Instant};

use model::drive::{DriveCommand, Ending};

use crate::order::{Driving, drive, load};
use crate::pg::Pg;

#[test]
fn a_statement_longer_than_the_load_is_cancelled() {
    let pg = Pg::shared();
    let database = pg.database();
    for source in ["select pg_sleep(60);", "begin;\nselect pg_sleep(60);\nend;"] {
        let mut load = load(&pg.socket(&database), source);
        load.n_clients = 3;
        let began = Instant::now();
        let story = drive(load);
        assert_eq!(story.outcomes(), (0, 0, 0, 3), "{source}");
        assert_eq!((story.done.ending, story.done.unanswered), (Ending::Completed, 0));
        // One second of load, one of grace.
        assert!((2..5).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

#[test]
fn a_statement_that_ends_within_the_grace_counts() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "select pg_sleep(1.5);");
    load.n_clients = 2;
    let story = drive(load);
    assert_eq!(story.outcomes(), (2, 0, 0, 0));
    assert_eq!(story.done.measured_by_client, [0, 0], "but not for the measure");
}

#[test]
fn a_stop_ends_the_load_at_once() {
    let pg = Pg::shared();
    for with_word in [true, false] {
        let mut load = load(&pg.socket("postgres"), "select 1;");
        (load.n_clients, load.n_threads, load.window.measure_s) = (4, 2, 60);
        let mut driving = Driving::start(load);
        driving.go();
        let first = driving.wait_for_interval();
        let began = Instant::now();
        if with_word {
            driving.command(DriveCommand::Stop);
        } else {
            // The parent died.
            driving.hang_up();
        }
        let story = driving.story(vec![first]);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!((story.done.ending, story.done.clients_lost), (Ending::Stopped, 0));
        let (committed, failed, unknown, aborted) = story.outcomes();
        assert!(committed > 100 && failed + unknown + aborted == 0, "{:?}", story.done);
    }
}

#[test]
fn a_stop_cancels_what_goes_on_after_the_grace() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "select pg_sleep(60);");
    (load.n_clients, load.window.measure_s) = (2, 60);
    let mut driving = Driving::start(load);
    driving.go();
    let first = driving.wait_for_interval();
    driving.command(DriveCommand::Stop);
    let story = driving.story(vec![first]);
    assert_eq!((story.done.ending, story.outcomes()), (Ending::Stopped, (0, 0, 0, 2)));
}

#[test]
fn a_stop_before_the_load_is_no_load() {
    let pg = Pg::shared();
    let mut driving = Driving::start(load(&pg.socket("postgres"), "select 1;"));
    driving.hang_up();
    let message = driving.failure();
    assert!(message.contains("told to stop before the load began"), "{message}");
}
