//! Facts and tending on every release series.

use std::collections::BTreeMap;
use std::time::Duration;

use model::run::server::ServerRecord;
use server::database::prewarm::prewarm;
use server::database::residency::residency;
use server::database::target::{pools_transactions, rewrites_statement_names};
use server::database::tend::{analyze, checkpoint, settle, tend_catalogs, tend_statistics, vacuum};
use server::{Binaries, LocalFacts, OwnServer, StopMode, Target, record};

use wire::Session;

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

const FILL: &str = "create table \"T\" (i int primary key, x text); insert into \"T\" select g, repeat('x', 100) from generate_series(1, 20000) g";

fn check_record(record: &ServerRecord, binaries: &Binaries) {
    assert!(record.version.starts_with("PostgreSQL "), "{}", record.version);
    assert_eq!(record.version_num, binaries.version_num);
    assert_eq!(record.data_checksums, record.version_num >= 180_000);
    assert_eq!(record.executable_sha256.as_ref().map(String::len), Some(64));
    assert_eq!(record.setting("fsync"), Some("on"));
    assert_eq!(record.setting("shared_buffers"), Some("32MB"));
    assert_eq!(record.settings["shared_buffers"].source, "configuration file");
    assert!(record.build.contains_key("CFLAGS"), "{:?}", record.build);
    assert!(record.system_identifier.as_ref().is_some_and(|id| id.len() > 10));
    assert!(record.database_bytes > 1 << 20);
    let lacking: Vec<&str> = record.unavailable.keys().map(String::as_str).collect();
    let expected: &[&str] =
        if record.version_num < 100_000 { &["backend_type", "pg_ls_waldir"] } else { &[] };
    assert_eq!(lacking, expected);
}

/// What a session that administers has set for itself is not taken for the server's.
fn own_settings_are_no_facts(server: &OwnServer, plain: &ServerRecord) {
    let mut administering = session(&server.conninfo());
    administering.administer().unwrap();
    assert_eq!(ask(&mut administering, "show lock_timeout"), "30s");
    let seen = record(&mut administering, None).unwrap();
    for name in ["lock_timeout", "row_security", "statement_timeout"] {
        assert_eq!(seen.settings[name], plain.settings[name], "{name}");
    }
    administering.execute("set statement_timeout = '5min'").unwrap();
    assert_eq!(record(&mut administering, None).unwrap().setting("statement_timeout"), Some("0"));
}

/// Whoever owns the schema of an extension can put a function of their own in its place at any moment.
fn only_extensions_that_nobody_could_replace_are_called(admin: &mut Session) {
    let kept = ask(admin, "select extnamespace::regnamespace from pg_extension where extname = 'pg_prewarm'");
    for (statement, what) in [
        (
            "create role bob; create schema bobs authorization bob; alter extension pg_prewarm set schema bobs",
            "their schema `bobs`",
        ),
        (
            "alter schema bobs owner to current_user; alter function bobs.pg_prewarm owner to bob",
            "the extension, or functions or views of it",
        ),
    ] {
        // Before 10, a function is named with its arguments.
        let statement =
            statement.replace("pg_prewarm owner", "pg_prewarm(regclass, text, text, bigint, bigint) owner");
        admin.execute(&statement).unwrap();
        let warmed = prewarm(admin, &["T"]).unwrap();
        let expected = format!(
            "scans (the functions of extension pg_prewarm are not called, because role `bob` owns {what} and could"
        );
        assert!(warmed["method"].starts_with(&expected), "{warmed:?}");
    }
    let arguments = "regclass, text, text, bigint, bigint";
    admin.execute(&format!("alter function bobs.pg_prewarm({arguments}) owner to current_user")).unwrap();
    assert_eq!(prewarm(admin, &["T"]).unwrap()["method"], "pg_prewarm, mode buffer");
    admin
        .execute(&format!("alter extension pg_prewarm set schema {kept}; drop schema bobs; drop role bob"))
        .unwrap();
}

/// Tables that autovacuum would process, by the formulas of the manual's chapter on routine vacuuming.
const DUE: &str = "select count(*) from pg_stat_sys_tables s join pg_class c on c.oid = s.relid
    where n_dead_tup > 50 + 0.2 * greatest(reltuples, 0)
    or n_mod_since_analyze > 50 + 0.1 * greatest(reltuples, 0) and c.relname <> 'pg_statistic'";

/// Catalogs of a new cluster are due for autovacuum; after tending, none is.
fn catalogs_are_tended(server: &OwnServer) {
    let count = || ask(&mut session(&server.conninfo()), DUE).parse::<u32>().unwrap();
    tend_catalogs(&mut session(&server.conninfo())).unwrap();
    tend_statistics(&mut session(&server.conninfo())).unwrap();
    // Statistics are updated in the background.
    let is_done = || {
        (0..50).any(|_| {
            count() == 0 || {
                std::thread::sleep(Duration::from_millis(100));
                false
            }
        })
    };
    assert!(is_done(), "{} catalogs are due", count());
}

/// Nearly all bytes of this table are in its TOAST table.
fn toast_is_read_and_counted(admin: &mut Session, method: &str) {
    let fill = "drop table if exists wide; create table wide (i int primary key, x text); \
         alter table wide alter x set storage external; \
         insert into wide select g, repeat('x', 4000) from generate_series(1, 200) g";
    admin.execute(fill).unwrap();
    let warmed = prewarm(admin, &["wide"]).unwrap();
    let sizes = (warmed["relations"].as_str(), &warmed["read_bytes"]);
    assert_eq!((warmed["method"].as_str(), sizes), (method, ("4", &warmed["bytes"])));
    let all = "select pg_total_relation_size('wide') - pg_relation_size('wide', 'fsm') - pg_relation_size('wide', 'vm') - \
         pg_relation_size(reltoastrelid, 'fsm') - pg_relation_size(reltoastrelid, 'vm') from pg_class where relname = 'wide'";
    let expected = ask(admin, all);
    assert!(
        expected.parse::<u64>().unwrap() > 800_000 && warmed["bytes"] == expected,
        "{warmed:?}, {expected}"
    );
    assert_eq!(residency(admin, &["wide"], None, false).unwrap().total_bytes.to_string(), expected);
    let has_extension = "select count(*) from pg_available_extensions where name = 'pg_buffercache'";
    let has_extension = ask(admin, has_extension) == "1";
    let in_buffers = residency(admin, &["wide"], None, true).unwrap().buffers_bytes;
    assert_eq!(in_buffers.is_some_and(|bytes| bytes > 0), has_extension, "{in_buffers:?}");
}

fn works_on(binaries: &Binaries) {
    let place = place();
    let cluster = cluster(binaries, &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    let mut admin = session(&server.conninfo());
    admin.execute(FILL).unwrap();
    let record = record(&mut admin, Some(&LocalFacts::read(binaries))).unwrap();
    check_record(&record, binaries);
    own_settings_are_no_facts(&server, &record);
    assert_eq!(record.system_identifier, Some(cluster.control_file().unwrap().system_identifier.to_string()));

    catalogs_are_tended(&server);
    let vacuumed = vacuum(&mut admin, &["T"]).unwrap();
    assert!(vacuumed.contains_key("T_s") && !vacuumed.contains_key("T_warning"), "{vacuumed:?}");
    analyze(&mut admin, &["public.T"]).unwrap();
    let warmed = prewarm(&mut admin, &["T"]).unwrap();
    assert_eq!(warmed["method"], "pg_prewarm, mode buffer");
    assert_eq!((warmed["relations"].as_str(), &warmed["read_bytes"]), ("4", &warmed["bytes"]));
    toast_is_read_and_counted(&mut admin, "pg_prewarm, mode buffer");
    only_extensions_that_nobody_could_replace_are_called(&mut admin);
    admin.execute("drop extension pg_prewarm").unwrap();
    let scanned = prewarm(&mut admin, &["T"]).unwrap();
    assert!(scanned["method"].starts_with("scans"), "{scanned:?}");
    toast_is_read_and_counted(&mut admin, "scans (the extension pg_prewarm is not installed)");
    assert!(checkpoint(&mut admin).unwrap().contains_key("seconds"));
    let settled = settle(&mut admin, Duration::from_secs(20)).unwrap();
    assert_eq!(settled["quiet"], "true", "{settled:?}");

    let target = Target::new(server.conninfo()).unwrap();
    assert!(target.is_superuser && !target.is_pooled && !target.in_recovery);
    // There is no pooler here: the detection must say so on every release, and leave nothing behind.
    assert!(!pools_transactions(&mut admin, &mut target.session().unwrap()).unwrap());
    assert!(!rewrites_statement_names(&mut admin).unwrap());
    assert_eq!(ask(&mut admin, "select count(*) from pg_prepared_statements"), "0");
    assert_eq!(target.local.map(|local| local.postmaster_pid), Some(server.pid()));
    drop(admin);
    assert!(server.stop(StopMode::Fast).unwrap().is_clean);
}

/// One test for each release series.
macro_rules! series {
    ($($name:ident: $version:literal),+ $(,)?) => {
        $(#[test] fn $name() { works_on(&fetched($version)); })+
    };
}
series!(
    all_works_on_9_6: "9.6",
    all_works_on_10: "10",
    all_works_on_11: "11",
    all_works_on_12: "12",
    all_works_on_13: "13",
    all_works_on_14: "14",
    all_works_on_15: "15",
    all_works_on_16: "16",
    all_works_on_17: "17",
    all_works_on_18: "18",
);

#[test]
fn all_works_on_the_installed_server() {
    works_on(&installed());
}

#[test]
fn for_a_user_without_privileges_the_record_says_what_is_missing_and_nothing_fails() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server =
        OwnServer::start(&cluster, &settings(&[("primary_conninfo", "host=x password=S3cretPw")])).unwrap();
    let mut admin = session(&server.conninfo());
    admin.execute("create role plain login; grant all on schema public to plain").unwrap();
    let mut conninfo = server.conninfo();
    conninfo.user = "plain".to_string();
    let mut plain = session(&conninfo);
    plain.execute(FILL).unwrap();
    let facts = record(&mut plain, None).unwrap();
    let lacking: Vec<&str> = facts.unavailable.keys().map(String::as_str).collect();
    assert_eq!(lacking, ["all_stats", "alter_system", "build", "checkpoint", "pg_ls_waldir"]);
    assert!(facts.data_directory.is_none());
    assert!(checkpoint(&mut plain).unwrap()["skipped"].contains("pg_checkpoint"));
    let settled = settle(&mut plain, Duration::from_secs(20)).unwrap();
    assert_eq!(
        (&*settled["quiet"], &*settled["unseen"]),
        ("unknown", "background processes, sessions of other roles")
    );
    assert!(vacuum(&mut plain, &["T"]).unwrap().contains_key("T_s"));
    admin.execute("create table a (i int)").unwrap();
    let vacuumed = vacuum(&mut plain, &["a"]).unwrap();
    assert!(vacuumed["a_warning"].contains("skipping"), "{vacuumed:?}");
    admin.execute("grant pg_checkpoint to plain").unwrap();
    assert!(checkpoint(&mut plain).unwrap().contains_key("seconds"));
    let all = record(&mut admin, None).unwrap();
    assert_eq!(all.setting("primary_conninfo"), Some("(hidden)"));
}

#[test]
fn a_busy_server_is_reported_as_busy_at_the_deadline() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let mut admin = session(&server.conninfo());
    // Another pgdyno counts too.
    let mut other = session(&server.conninfo());
    other.execute("set application_name = 'pgdyno'").unwrap();
    let sleeper = std::thread::spawn(move || other.execute("select pg_sleep(3)"));
    std::thread::sleep(Duration::from_millis(300));
    let settled: BTreeMap<String, String> = settle(&mut admin, Duration::from_secs(1)).unwrap();
    assert_eq!(
        (settled["quiet"].as_str(), settled["still_busy"].as_str()),
        ("false", "sessions"),
        "{settled:?}"
    );
    assert_eq!(settle(&mut admin, Duration::from_secs(20)).unwrap()["waited_for"], "sessions");
    sleeper.join().unwrap().unwrap();
}

#[test]
fn whether_a_server_is_quiet_is_unknown_while_it_does_not_track_what_sessions_do() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[("track_activities", "off")])).unwrap();
    let mut admin = session(&server.conninfo());
    let mut other = session(&server.conninfo());
    let sleeper = std::thread::spawn(move || other.execute("select pg_sleep(3)"));
    std::thread::sleep(Duration::from_millis(300));
    let settled = settle(&mut admin, Duration::from_secs(20)).unwrap();
    let found = (&*settled["quiet"], settled.get("unseen").map(String::as_str));
    assert_eq!(found, ("unknown", Some("sessions without track_activities")), "{settled:?}");
    sleeper.join().unwrap().unwrap();
}

#[test]
fn the_huge_pages_of_a_server_are_enough_for_its_shared_memory() {
    const PAGE_BYTES: u64 = 2 << 20;
    for binaries in [fetched("12"), installed()] {
        let place = place();
        let cluster = cluster(&binaries, &place);
        let of = |buffers: &str| {
            let settings = settings(&[("shared_buffers", buffers)]);
            server::running::huge_pages::needed(&cluster, &settings, PAGE_BYTES).unwrap()
        };
        let (small, large) = (of("64MB"), of("128MB"));
        assert!((33..=400).contains(&small), "{}: {small}", binaries.version);
        assert!((30..=40).contains(&(large - small)), "{}: {small} {large}", binaries.version);
        assert_eq!(cluster.running_pid(), None);
    }
}
