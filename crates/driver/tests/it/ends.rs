//! How a load ends: in time, cancelled, stopped, or without a parent.

use std::time::{Duration, Instant};

use model::load::Window;
use model::load::drive::{DriveCommand, LoadEnding};
use testbed::Pg;

use crate::order::{Driving, drive, load};

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
        assert_eq!((story.done.ending, story.done.unanswered), (LoadEnding::Completed, 0));
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
        assert_eq!((story.done.ending, story.done.clients_lost), (LoadEnding::Stopped, 0));
        let (committed, failed, unknown, aborted) = story.outcomes();
        assert!(committed > 100 && failed + unknown + aborted == 0, "{:?}", story.done);
    }
}

#[test]
fn a_stop_cancels_what_goes_on_after_the_grace() {
    let pg = Pg::shared();
    for source in ["select pg_sleep(60);", "\\sleep 60 s\nselect 1;"] {
        for (grace_s, cancel_on_stop) in [(1, false), (60, true)] {
            let mut load = load(&pg.socket("postgres"), source);
            (load.n_clients, load.window.measure_s) = (2, 60);
            (load.window.grace_s, load.cancel_on_stop) = (grace_s, cancel_on_stop);
            let mut driving = Driving::start(load);
            driving.go();
            let first = driving.wait_for_interval();
            let began = Instant::now();
            driving.command(DriveCommand::Stop);
            let story = driving.story(vec![first]);
            assert_eq!((story.done.ending, story.outcomes()), (LoadEnding::Stopped, (0, 0, 0, 2)));
            assert!(began.elapsed() < Duration::from_secs(10), "{source}, grace {grace_s} s");
        }
    }
}

#[test]
fn a_stop_before_the_load_prevents_it() {
    let pg = Pg::shared();
    let mut driving = Driving::start(load(&pg.socket("postgres"), "select 1;"));
    driving.hang_up();
    let message = driving.failure();
    assert!(message.contains("stopped before the load began"), "{message}");
}

#[test]
fn a_window_can_be_moved_while_the_load_runs_but_not_what_has_passed() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "select 1;");
    (load.n_clients, load.n_threads) = (4, 2);
    load.pace = "constant 500/s".parse().unwrap();
    load.window = Window { ramp_up_s: 60, measure_s: 60, grace_s: 1 };
    let mut driving = Driving::start(load);
    driving.go();
    let first = driving.wait_for_interval();
    // The first of these has passed: it is ignored in silence.
    for ramp_up_s in [1, 3] {
        driving.command(DriveCommand::Window(Window { ramp_up_s, measure_s: 2, grace_s: 1 }));
    }
    let (window, mut intervals) = driving.wait_for_window();
    assert_eq!((window.ramp_up_s, window.measure_s), (3, 2));
    intervals.insert(0, first);
    let story = driving.story(intervals);
    assert_eq!(story.done.ending, LoadEnding::Completed);
    assert_eq!(story.done.counts.due, 2500, "five seconds of the schedule, and no slot more");
    let of_measure = story.intervals.iter().filter(|interval| window.measures(interval.t));
    let committed: u64 = of_measure.map(|interval| interval.counts.committed).sum();
    assert_eq!(story.done.measured_by_client.iter().sum::<u64>(), committed);
    assert!(committed.abs_diff(1000) < 200, "{committed} in two seconds");
}
