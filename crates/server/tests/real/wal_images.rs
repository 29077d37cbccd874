//! Full-page images out of the WAL are those that the server counts, where it does.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::text::units::wal_position;
use server::running::wal_images::{count, program};
use server::{OwnServer, StopMode};
use wire::Session;

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

const LONGEST: Duration = Duration::from_secs(60);

/// The position in the WAL, and the images that all sessions have counted so far.
fn seen(admin: &mut Session) -> (u64, u64) {
    ask(admin, "select pg_stat_force_next_flush()");
    let position = ask(admin, "select pg_current_wal_insert_lsn()");
    (wal_position(&position).unwrap(), ask(admin, "select wal_fpi from pg_stat_wal").parse().unwrap())
}

#[test]
fn images_in_the_wal_are_as_many_as_the_server_counts() {
    let place = place();
    let (cluster, stop) = (cluster(&installed(), &place), AtomicBool::new(false));
    let server = OwnServer::start(&cluster, &settings(&[("autovacuum", "off")])).unwrap();
    let mut admin = session(&server.conninfo());
    admin.execute("create table t (i int, x text) with (fillfactor = 50)").unwrap();
    admin.execute("insert into t select g, repeat('x', 200) from generate_series(1, 50000) g").unwrap();
    admin.execute("create index on t (i)").unwrap();
    // A vacuum sets bits that would be set, and logged with an image, while the table is read.
    admin.execute("vacuum analyze t").unwrap();
    admin.execute("checkpoint").unwrap();
    let mut all = vec![seen(&mut admin)];
    for step in [
        "update t set x = repeat('y', 200) where i % 50 = 0",
        "update t set x = repeat('z', 200) where i % 50 = 0",
        "set wal_compression = on; update t set i = i + 1000000 where i % 20 = 1",
        "create index on t (x)",
    ] {
        admin.execute(step).unwrap();
        all.push(seen(&mut admin));
    }
    let (positions, counts): (Vec<u64>, Vec<u64>) = all.into_iter().unzip();
    let expected: Vec<u64> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(expected[0] > 100 && expected[1] < 10 && expected[2] > 100 && expected[3] > 10, "{expected:?}");
    assert_eq!(count(&cluster, &positions, LONGEST, &stop).unwrap(), expected);

    let gone = count(&cluster, &[0x100, 0x200], LONGEST, &stop).unwrap_err().to_string();
    assert!(gone.starts_with("`pg_waldump`: it ended with exit code 1: pg_waldump: "), "{gone}");
    server.stop(StopMode::Fast).unwrap();
    cluster.remove().unwrap();
}

#[test]
fn fetched_binaries_have_no_program_that_reads_the_wal() {
    let binaries = fetched("12");
    let refused = program(&binaries).unwrap_err().to_string();
    assert!(refused.starts_with("`pg_waldump` is not in `"), "{refused}");
}
