//! Loads during which the server dies or freezes: clients go to where writes are possible, and each transaction is accounted for.

use std::collections::BTreeMap;
use std::time::Duration;

use dataset::acid::tokens::{self, NodeTokens, Takeover, TokenPlace};
use model::load::execution::{Execution, ExecutionEnd};
use model::load::{LoadSpec, OnDisconnect, OnError, Protocol, Window};
use nix::sys::signal::Signal;
use testbed::TestServer;
use wire::Session;
use workload::{Schema, TpcbScript, ledger};

use crate::cluster::Cluster;
use crate::driven::{Driven, drive, load};

const LONGEST: Duration = Duration::from_secs(30);

/// An open loop as an outage needs it: 4 clients that reconnect, and each transaction is reported.
fn outage_load(cluster: &Cluster, source: &str) -> LoadSpec {
    LoadSpec {
        n_clients: 4,
        transactions_per_client: None,
        pace: "constant 200/s".parse().unwrap(),
        window: Window { ramp_up_s: 0, measure_s: 5, grace_s: 2 },
        protocol: Protocol::Prepared,
        on_error: OnError::Continue,
        on_disconnect: OnDisconnect::Reconnect,
        each_execution: true,
        ledger: true,
        reply_timeout_ms: Some(1000),
        ..load(&cluster.conninfo(), &[source], 1)
    }
}

/// How often transactions ended in each way, which is what the counts say.
fn ends(driven: &Driven) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    for one in &driven.executions {
        *ends.entry(format!("{:?}", one.end)).or_default() += 1;
    }
    let counts = driven.done.counts;
    let n = |end: ExecutionEnd| ends.get(&format!("{end:?}")).copied().unwrap_or(0);
    assert_eq!(
        [
            n(ExecutionEnd::Committed),
            n(ExecutionEnd::Failed),
            n(ExecutionEnd::Unknown),
            n(ExecutionEnd::Skipped)
        ],
        [counts.committed, counts.failed, counts.unknown, counts.skipped]
    );
    assert_eq!((driven.executions.len() as u64, counts.due), (1000, 1000), "each slot is reported");
    let mut due: Vec<u64> = driven.executions.iter().filter_map(|one| one.due_ns).collect();
    due.sort_unstable();
    assert!((0..1000).zip(&due).all(|(n, due)| due.abs_diff(n * 5_000_000) < 1000), "{due:?}");
    ends
}

fn read(server: &TestServer, node: &str) -> NodeTokens {
    tokens::read(&mut server.wait_ready(), node, &TokenPlace::History(Schema::searched()), LONGEST).unwrap()
}

/// Waits until the standby follows, and has the primary wait for it with each commit.
fn synchronize(session: &mut Session) {
    while session.query("select 1 from pg_stat_replication where state = 'streaming'").unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    session.execute("alter system set synchronous_standby_names = '*'").unwrap();
    session.execute("select pg_reload_conf()").unwrap();
    while session.query("select 1 from pg_stat_replication where sync_state = 'sync'").unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_go_to_the_promoted_standby_and_no_acknowledged_commit_is_lost() {
    let primary = Cluster::start();
    primary.pgbench(&["-i", "-q"]);
    let standby = primary.standby();
    synchronize(&mut primary.session());
    let source = ledger::in_history(TpcbScript::TpcbSimple.source());
    let mut spec = outage_load(&primary, &source);
    let hosts = format!("{},{}", primary.dir().display(), standby.dir().display());
    let target = [("host", hosts.as_str()), ("port", "5432,5432"), ("target_session_attrs", "read-write")];
    spec.target.extend(target.map(|(key, value)| (key.to_string(), value.to_string())));

    let (driven, promoted_unix_ns) = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(spec.clone()));
        std::thread::sleep(Duration::from_millis(1500));
        primary.signal_all(Signal::SIGKILL);
        std::thread::sleep(Duration::from_millis(500));
        standby.wait_ready().execute("select pg_promote()").unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        (load.join().unwrap(), now.as_nanos() as u64)
    });

    let ends = ends(&driven);
    assert!(ends["Committed"] > 600 && ends.get("Failed").is_none_or(|n| *n <= 4), "{ends:?}");
    let go = driven.intervals[0].start_unix_ns;
    let at_ns = promoted_unix_ns - go;
    let first_ns =
        driven.executions.iter().filter(|one| one.end == ExecutionEnd::Committed).map(Execution::end_ns);
    let back_ns = first_ns.filter(|end| *end > at_ns).min().unwrap() - at_ns;
    assert!(back_ns < 2_000_000_000, "the first commit came {back_ns} ns after the promotion");

    let survivor = read(&standby, "s1");
    let record = tokens::judge(&survivor, &driven.executions, None);
    assert_eq!((record.n_acknowledged, record.n_lost), (driven.done.counts.committed, 0), "{record:?}");
    assert_eq!((record.n_ghosts, record.n_doubled, record.n_foreign), (0, 0, 0), "{record:?}");
    assert_eq!(record.n_unknown_present + record.n_unknown_absent, driven.done.counts.unknown);
    assert_eq!(record.n_tokens, record.n_acknowledged + record.n_unknown_present);

    // What it had when it was killed is the beginning; it acknowledged nothing afterwards.
    primary.stop(Signal::SIGQUIT);
    primary.start_again();
    let takeover = Takeover { at_ns, tokens: &survivor };
    let record = tokens::judge(&read(&primary, "primary"), &driven.executions, Some(takeover));
    assert!(record.n_lost > 300 && record.lost_ns.unwrap().0 > at_ns - 500_000_000, "{record:?}");
    assert_eq!((record.n_of_two_primaries, record.n_doubled, record.n_foreign), (0, 0, 0), "{record:?}");
}

#[test]
fn a_server_that_freezes_holds_no_client_for_good() {
    let cluster = Cluster::start();
    tokens::create_table(&mut cluster.session()).unwrap();
    let ledger::Tokens::Written(source) = ledger::in_table("BEGIN;\nSELECT 1;\nCOMMIT;\n").unwrap() else {
        panic!("a block writes its token");
    };
    let mut spec = outage_load(&cluster, &source);
    spec.target.insert("connect_timeout".to_string(), "2".to_string());
    let driven = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(spec.clone()));
        std::thread::sleep(Duration::from_millis(1200));
        // The postmaster first: what it would start meanwhile would not be stopped.
        cluster.signal(Signal::SIGSTOP);
        cluster.signal_all(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1800));
        cluster.signal_all(Signal::SIGCONT);
        load.join().unwrap()
    });

    let ends = ends(&driven);
    let lost: Vec<_> =
        driven.executions.iter().filter(|one| one.sqlstate.as_deref() == Some("silent")).collect();
    assert_eq!(lost.len(), 4, "each client has lost one: {ends:?}");
    // Of the time that the first of them took, a part was spent before the freeze.
    assert!(lost.iter().all(|one| (1_000_000_000..1_700_000_000).contains(&one.length_ns)), "{lost:?}");
    assert!(ends["Committed"] > 800, "{ends:?}");
    let mut session = cluster.session();
    let node = tokens::read(&mut session, "primary", &TokenPlace::Table, LONGEST).unwrap();
    let record = tokens::judge(&node, &driven.executions, None);
    assert_eq!((record.n_acknowledged, record.n_lost), (driven.done.counts.committed, 0), "{record:?}");
    assert_eq!((record.n_ghosts, record.n_doubled, record.n_foreign), (0, 0, 0), "{record:?}");

    // It is emptied for the next load, unless somebody else has made it.
    tokens::create_table(&mut session).unwrap();
    assert_eq!(
        tokens::read(&mut session, "primary", &TokenPlace::Table, LONGEST).unwrap(),
        NodeTokens::new("primary", vec![], 0)
    );
    session.execute("comment on table pgdyno_ledger is null").unwrap();
    let refused = tokens::create_table(&mut session).unwrap_err().to_string();
    assert!(refused.contains("pgdyno has not created it"), "{refused}");
    session
        .execute("create schema other; create table other.pgdyno_ledger (client int, number bigint)")
        .unwrap();
    let unread = tokens::read(&mut session, "primary", &TokenPlace::Table, LONGEST).unwrap_err().to_string();
    assert!(unread.contains("other.pgdyno_ledger, public.pgdyno_ledger"), "{unread}");
}
