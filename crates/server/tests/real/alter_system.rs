//! Settings of a server that is not ours: what is refused before anything is touched, and what is put back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use server::alter_system::{
    Altering, SettingsJournal, SettingsLockTaken, SettingsWish, UndoOutcome, UndoneSetting, problems,
    undo_journal, undo_left,
};
use testbed::{ClusterOptions, TestServer};
use wire::Conninfo;

fn wanted(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn entries(server: &TestServer) -> Vec<String> {
    let text = fs::read_to_string(server.path("data/postgresql.auto.conf")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// Executes `sql`, lets the server load its configuration, and waits until `is_so` is true.
#[track_caller]
fn load(server: &TestServer, sql: &str, is_so: &str) {
    server.execute("postgres", sql);
    server.execute("postgres", "select pg_reload_conf()");
    let began = Instant::now();
    while server.ask("postgres", &format!("select {is_so}")) != "t" {
        assert!(began.elapsed() < Duration::from_secs(20), "{sql}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_cannot_be_changed_or_put_back_is_refused_all_at_once() {
    let server =
        TestServer::start(&ClusterOptions { settings: &["max_connections=40"], ..ClusterOptions::default() });
    let asked = wanted(&[
        ("archive_command", "true"),
        ("max_connections", "50"),
        ("nothing_like_it", "1"),
        ("shared_buffers", "64MB"),
        ("work_mem", "much"),
    ]);
    let found = |conninfo: &Conninfo, may_restart: bool| {
        problems(conninfo, SettingsWish { cases: &[&asked], may_restart }).unwrap()
    };
    let expect = |found: &[String], expected: &[&str]| {
        let fits = found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
        assert!(found.len() == expected.len() && fits, "{found:#?}");
    };
    let admin = server.socket("postgres");
    let of_settings = [
        "archive_command is not changed on a server by URL: it is a command that the server runs",
        "max_connections: its value comes from the command line of the server",
        "max_connections: it changes at a restart: name the command",
        "nothing_like_it: the server has no such setting",
        "shared_buffers: it changes at a restart: name the command",
        "work_mem: `much` is not a number",
    ];
    expect(&found(&admin, false), &of_settings);
    assert_eq!(found(&admin, true).len(), of_settings.len() - 2);

    server.execute("postgres", "create role plain login");
    let plain = Conninfo { user: "plain".to_string(), ..admin.clone() };
    expect(&found(&plain, true), &["`plain` cannot change these settings: it needs a superuser"]);
    server.execute("postgres", "create database own owner plain");
    granted(&server, &Conninfo { dbname: "own".to_string(), ..plain.clone() });

    let asked = wanted(&[("work_mem", "8MB")]);
    let found = || problems(&admin, SettingsWish { cases: &[&asked], may_restart: true }).unwrap();
    expect(&found(), &[]);
    server.execute("postgres", "alter role postgres set work_mem = '6MB'");
    expect(&found(), &["work_mem: its value comes from ALTER ROLE ... SET of this user"]);
    server.execute("postgres", "alter role postgres reset work_mem");
    let waits = "exists (select from pg_settings where pending_restart and name = 'shared_buffers')";
    load(&server, "alter system set shared_buffers = '64MB'", waits);
    expect(&found(), &["settings of the server wait for a restart (shared_buffers)"]);
    load(&server, "alter system reset shared_buffers", &format!("not {waits}"));
    let path = server.path("data/postgresql.conf");
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{before}\nno_such_setting = 1\n")).unwrap();
    expect(&found(), &["the server's configuration files have errors"]);
    fs::write(&path, &before).unwrap();
    expect(&found(), &[]);
    not_loaded(&server, &before);
    assert_eq!(entries(&server), Vec::<String>::new());
}

/// What somebody has written into a configuration file is not loaded for our settings.
fn not_loaded(server: &TestServer, conf: &str) {
    let (admin, path) = (server.socket("postgres"), server.path("data/postgresql.conf"));
    let asked = wanted(&[("wal_compression", "on")]);
    let found = || problems(&admin, SettingsWish { cases: &[&asked], may_restart: true }).unwrap();
    // The server writes these values in another way, which is no edit.
    let other_words = "\nmaintenance_work_mem = '0.5GB'\ncheckpoint_timeout = 600\ndatestyle = 'iso,mdy'\n\
                       default_text_search_config = 'english'\nlog_min_messages = debug\n";
    fs::write(&path, format!("{conf}{other_words}")).unwrap();
    let edited: Vec<String> = found();
    for name in ["checkpoint_timeout", "log_min_messages", "maintenance_work_mem"] {
        assert!(
            edited.len() == 1 && edited[0].contains(&format!("`{name}` `{}`, line ", path.display())),
            "{edited:?}"
        );
    }
    load(server, "select", "current_setting('maintenance_work_mem') = '512MB'");
    assert_eq!(found(), Vec::<String>::new());

    let place = tempfile::tempdir().unwrap();
    let (mut altering, _) = Altering::begin(&admin, &[], place.path()).unwrap();
    altering.set(&asked).unwrap();
    fs::write(&path, format!("{conf}{other_words}work_mem = '5MB'\n")).unwrap();
    let refused = altering.set(&wanted(&[("work_mem", "8MB")])).unwrap_err().to_string();
    assert!(refused.contains("have not been loaded (`work_mem` `"), "{refused}");
    assert_eq!(server.ask("postgres", "select current_setting('work_mem')"), "4MB");
    fs::write(&path, conf).unwrap();
    let removed = altering.set(&BTreeMap::new()).unwrap_err().to_string();
    assert!(removed.contains("`maintenance_work_mem`, removed from `"), "{removed}");
    assert_eq!(altering.put_back().unwrap().len(), 1);
}

/// Since 15, a user with the rights that the refusal lists changes settings, and puts them back.
fn granted(server: &TestServer, plain: &Conninfo) {
    if server.admin("postgres").server_version_num() < 150_000 {
        return;
    }
    let asked = wanted(&[("wal_compression", "on"), ("work_mem", "8MB")]);
    let wish = SettingsWish { cases: &[&asked], may_restart: false };
    let [refusal] = &problems(plain, wish).unwrap()[..] else { panic!("one reason") };
    let grants = refusal.split_once("each of: ").unwrap().1.split_once(" (to").unwrap().0;
    assert_eq!(grants.split("; ").count(), 9, "{refusal}");
    for grant in grants.split("; ") {
        let (database, grant) =
            match grant.strip_prefix("in database `").and_then(|rest| rest.split_once("`: ")) {
                Some((database, grant)) => (database, grant),
                None => ("postgres", grant),
            };
        server.execute(database, &format!("{grant} to plain"));
    }
    assert_eq!(problems(plain, wish).unwrap(), Vec::<String>::new());
    let place = tempfile::tempdir().unwrap();
    let (mut altering, _) = Altering::begin(plain, &[], place.path()).unwrap();
    altering.set(&asked).unwrap();
    assert_eq!(entries(server).len(), 2);
    let words: Vec<String> = altering.put_back().unwrap().iter().map(UndoneSetting::words).collect();
    assert!(words[1].starts_with("put back setting `work_mem` to 4MB on plain@"), "{words:?}");
    assert_eq!(entries(server), Vec::<String>::new());
}

#[test]
fn one_pgdyno_at_a_time_changes_settings_and_leaves_alone_what_others_change() {
    let (server, place) = (TestServer::start(&ClusterOptions::default()), tempfile::tempdir().unwrap());
    let dir = place.path().join("settings");
    let admin = server.socket("postgres");
    let begin = |conninfo: &Conninfo, restart: &[&str]| {
        let restart: Vec<String> = restart.iter().map(ToString::to_string).collect();
        Altering::begin(conninfo, &restart, &dir)
    };
    let fails = ["sh", "-c", "echo no such unit; exit 5"];
    let (mut altering, undone) = begin(&admin, &fails).unwrap();
    assert_eq!(undone, []);
    let change = altering.set(&wanted(&[("Work_Mem", "8MB"), ("wal_compression", "on")])).unwrap();
    assert_eq!(change.detail["alter_system"], "wal_compression on (was off), work_mem 8MB (was 4MB)");
    assert_eq!(
        altering.set(&wanted(&[("work_mem", "8MB"), ("wal_compression", "on")])).unwrap().detail.len(),
        0
    );

    let database = server.database_of("postgres");
    let elsewhere = Conninfo { dbname: database.clone(), ..admin.clone() };
    let error = begin(&elsewhere, &[]).unwrap_err();
    assert!(
        error.downcast_ref::<SettingsLockTaken>().is_some()
            && error.to_string().contains("database `postgres`")
    );
    let asked = wanted(&[("work_mem", "8MB")]);
    let found = problems(&elsewhere, SettingsWish { cases: &[&asked], may_restart: false }).unwrap();
    assert!(found[0].starts_with("another pgdyno changes settings of this server"), "{found:?}");

    // The session that holds it keeps nobody from copying a database; where it had no other one, it is found all the same.
    altering.put_back().unwrap();
    drop(altering);
    let mut other = server.admin(&database);
    other.execute("select pg_advisory_lock(1885824121, 2)").unwrap();
    let error = begin(&admin, &[]).unwrap_err().to_string();
    assert!(error.contains(&format!("database `{database}`")), "{error}");
    drop(other);
    let (mut altering, _) = begin(&elsewhere, &fails).unwrap();
    altering.set(&wanted(&[("work_mem", "8MB")])).unwrap();
    server.execute("postgres", &format!("create database copied template {database}"));

    // A restart that fails names the line to remove, and costs nothing when all is put back.
    let before = server.ask("postgres", "select pg_postmaster_start_time()");
    let failed = format!("{:#}", altering.set(&wanted(&[("shared_buffers", "64MB")])).unwrap_err());
    for expected in [
        "remove the line from",
        "data/postgresql.auto.conf` and start it",
        "`shared_buffers = '64MB'`",
        "exit code 5; it said: no such unit",
        "pgdyno clean",
    ] {
        assert!(failed.contains(expected), "{expected}: {failed}");
    }
    let mut now = entries(&server);
    now.sort();
    assert_eq!(now, ["shared_buffers = '64MB'"], "what is not wanted any more is put back");

    altering.set(&wanted(&[("work_mem", "9MB")])).unwrap();
    server.execute("postgres", "alter system set work_mem = '7MB'");
    let foreign = altering.set(&wanted(&[("work_mem", "8MB")])).unwrap_err().to_string();
    assert!(
        foreign.contains("somebody else has changed `work_mem` in postgresql.auto.conf to 7MB"),
        "{foreign}"
    );
    assert_eq!(SettingsJournal::all(&dir).unwrap().len(), 1);
    // As if it had been killed.
    drop(altering);
    let undone = undo_left(&dir, &admin).unwrap();
    let [work_mem] = &undone[..] else { panic!("{undone:?}") };
    assert!(matches!(work_mem.fate, UndoOutcome::Foreign(_)), "{undone:?}");
    assert_eq!(entries(&server), ["work_mem = '7MB'"]);
    assert_eq!(SettingsJournal::all(&dir).unwrap(), Vec::<std::path::PathBuf>::new());
    is_kept_aside(work_mem, &dir);
    assert_eq!(server.ask("postgres", "select pg_postmaster_start_time()"), before);
    read_under_the_lock(&server, &dir);
    restarted_by_others(&server, &dir);
    of_standby(&server, &dir);
}

/// What only the journal knew is kept, and the user learns how to put it back.
#[track_caller]
fn is_kept_aside(work_mem: &UndoneSetting, dir: &Path) {
    assert!(
        work_mem.words().contains("has `7MB` for it, where pgdyno had set `9MB`"),
        "{}",
        work_mem.words()
    );
    let [kept] = &aside(dir)[..] else { panic!("one journal is kept") };
    assert_eq!(SettingsJournal::read(kept).unwrap().settings["work_mem"].entry, None);
    let by_hand = format!(
        "it had no entry before: to put that back yourself, `alter system reset \"work_mem\"`, then `select pg_reload_conf()`; `{}` \
         keeps this",
        kept.display()
    );
    assert!(work_mem.words().contains(&by_hand), "{}", work_mem.words());
    fs::remove_file(kept).unwrap();
}

/// What was set aside in a directory of journals.
fn aside(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "left")).collect()
}

#[test]
fn what_one_pgdyno_set_on_top_of_anothers_value_loses_no_original() {
    let server = TestServer::start(&ClusterOptions::default());
    let admin = server.socket("postgres");
    load(&server, "alter system set work_mem = '5MB'", "current_setting('work_mem') = '5MB'");
    let caches = tempfile::tempdir().unwrap();
    let dirs = ["one", "two"].map(|name| caches.path().join(name));
    // Each is killed before it puts anything back.
    for (dir, value) in dirs.iter().zip(["8MB", "16MB"]) {
        let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
        altering.set(&wanted(&[("work_mem", value)])).unwrap();
        drop(altering);
    }
    let first = undo_left(&dirs[0], &admin).unwrap();
    assert!(first.len() == 1 && !first[0].is_left(), "{first:?}");
    let words = first[0].words();
    for expected in [
        "has `16MB` for it, where pgdyno had set `8MB`",
        "another PGDYNO_CACHE",
        "it had `5MB` before",
        "`alter system set \"work_mem\" = '5MB'`, then `select pg_reload_conf()`",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let [kept] = &aside(&dirs[0])[..] else { panic!("one journal is kept") };
    assert!(words.contains(&kept.display().to_string()), "{words}");
    assert_eq!(SettingsJournal::read(kept).unwrap().settings["work_mem"].entry.as_deref(), Some("5MB"));
    assert_eq!(entries(&server), ["work_mem = '16MB'"]);
    // Whoever sees both says whose value comes back.
    fs::copy(kept, dirs[1].join(kept.file_name().unwrap())).unwrap();
    let second = undo_left(&dirs[1], &admin).unwrap();
    assert!(second.len() == 1 && second[0].fate == UndoOutcome::Back, "{second:?}");
    let words = second[0].words();
    assert!(words.contains("`8MB` is what another pgdyno had set; before that it had `5MB`"), "{words}");
    assert_eq!(entries(&server), ["work_mem = '8MB'"]);
    // A second one is kept next to the first.
    let (mut altering, _) = Altering::begin(&admin, &[], &dirs[0]).unwrap();
    altering.set(&wanted(&[("work_mem", "9MB")])).unwrap();
    drop(altering);
    server.execute("postgres", "alter system set work_mem = '7MB'");
    undo_left(&dirs[0], &admin).unwrap();
    assert_eq!(aside(&dirs[0]).len(), 2);
}

/// Who waits for the lock puts back what the journal says then.
fn read_under_the_lock(server: &TestServer, dir: &Path) {
    load(server, "select", "current_setting('work_mem') = '7MB'");
    let admin = server.socket("postgres");
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    altering.set(&wanted(&[("maintenance_work_mem", "8MB")])).unwrap();
    let [path] = &SettingsJournal::all(dir).unwrap()[..] else { panic!("one journal") };
    let undone = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| undo_journal(path, &admin).unwrap());
        std::thread::sleep(Duration::from_millis(500));
        altering.set(&wanted(&[("maintenance_work_mem", "9MB")])).unwrap();
        altering.set(&wanted(&[("maintenance_work_mem", "10MB")])).unwrap();
        drop(altering);
        waiting.join().unwrap()
    });
    assert!(undone.len() == 1 && undone[0].fate == UndoOutcome::Back, "{undone:?}");
    assert_eq!(entries(server), ["work_mem = '7MB'"]);
}

/// A server that has none of our entries is not restarted, and its journal goes.
fn restarted_by_others(server: &TestServer, dir: &Path) {
    let admin = server.socket("postgres");
    let called = server.path("called");
    let fails = ["sh".to_string(), "-c".to_string(), format!("echo > {}; exit 5", called.display())];
    let (mut altering, _) = Altering::begin(&admin, &fails, dir).unwrap();
    altering.set(&wanted(&[("shared_buffers", "64MB")])).unwrap_err();
    drop(altering);
    fs::remove_file(&called).unwrap();
    server.execute("postgres", "alter system reset shared_buffers");
    let path = server.path("data/postgresql.conf");
    let conf = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{conf}\nshared_buffers = '48MB'\n")).unwrap();
    server.stop(Signal::SIGINT);
    server.start_again();
    let undone = undo_left(dir, &admin).unwrap();
    let [shared_buffers] = &undone[..] else { panic!("{undone:?}") };
    assert!(matches!(shared_buffers.fate, UndoOutcome::Foreign(_)), "{undone:?}");
    assert!(!called.exists(), "the restart command was called");
    assert_eq!(SettingsJournal::all(dir).unwrap(), Vec::<std::path::PathBuf>::new());
}

/// What answers as a standby is not the primary whose settings were changed: nothing is put back there, and the journal stays.
fn not_the_same(server: &TestServer, dir: &Path) {
    let admin = server.socket("postgres");
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    altering.set(&wanted(&[("work_mem", "8MB")])).unwrap();
    server.make_standby();
    let expected = "another server than the one whose settings were changed answers at this address \
                    (role `a standby` instead of `a primary`)";
    let [path] = &SettingsJournal::all(dir).unwrap()[..] else { panic!("one journal") };
    for error in [
        altering.set(&wanted(&[("work_mem", "9MB")])).unwrap_err(),
        altering.put_back().unwrap_err(),
        {
            drop(altering);
            undo_left(dir, &admin).unwrap_err()
        },
        undo_journal(path, &admin).unwrap_err(),
    ] {
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
    assert_eq!(entries(server), ["work_mem = '8MB'"]);
    assert_eq!(SettingsJournal::all(dir).unwrap().len(), 1);
    SettingsJournal::remove(path).unwrap();
    load(server, "alter system set work_mem = '7MB'", "current_setting('work_mem') = '7MB'");
}

/// On a standby its own settings are changed, except those that have to be as on the primary.
fn of_standby(server: &TestServer, dir: &Path) {
    let admin = server.socket("postgres");
    not_the_same(server, dir);
    let asked = wanted(&[("max_worker_processes", "4"), ("work_mem", "8MB")]);
    let found = problems(&admin, SettingsWish { cases: &[&asked], may_restart: true }).unwrap();
    assert!(found.len() == 1 && found[0].contains("a standby stops if it is lower"), "{found:?}");
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    altering.set(&wanted(&[("work_mem", "8MB")])).unwrap();
    assert_eq!(entries(server), ["work_mem = '8MB'"]);
    assert_eq!(altering.put_back().unwrap().len(), 1);
    assert_eq!(entries(server), ["work_mem = '7MB'"]);
}

#[test]
fn a_file_that_postgresql_auto_conf_includes_stays_included() {
    let (server, place) = (TestServer::start(&ClusterOptions::default()), tempfile::tempdir().unwrap());
    let (admin, dir, auto) =
        (server.socket("postgres"), place.path(), server.path("data/postgresql.auto.conf"));
    let asked = wanted(&[("work_mem", "8MB")]);
    let found = |conninfo: &Conninfo| {
        problems(conninfo, SettingsWish { cases: &[&asked], may_restart: false }).unwrap()
    };
    let write = |path: &Path, text: &str| {
        fs::write(path, text).unwrap();
        load(&server, "select 1", "true");
    };
    write(&server.path("data/tuned.conf"), "work_mem = '6MB'\nvacuum_cost_limit = 300\n");
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    let including = "maintenance_work_mem = '70MB'\ninclude 'tuned.conf'\n";
    write(&auto, including);
    load(&server, "select 1", "current_setting('work_mem') = '6MB'");
    let expect = |words: &str, how: &str| {
        for expected in
            [how, "ALTER SYSTEM would write that file's settings into it", "include it in postgresql.conf"]
        {
            assert!(words.contains(expected), "{expected}: {words}");
        }
    };
    expect(&found(&admin).join("; "), "line 2: `include 'tuned.conf'`");
    // Somebody may include one after the plan was made.
    expect(&altering.set(&asked).unwrap_err().to_string(), "line 2: `include 'tuned.conf'`");
    assert_eq!(fs::read_to_string(&auto).unwrap(), including);
    assert_eq!(SettingsJournal::all(dir).unwrap().len(), 0);

    if !is_before_grants(&server) {
        // Who cannot read the file sees what is read after its first line.
        server.execute(
            "postgres",
            "create role plain login; grant alter system on parameter work_mem to plain",
        );
        server.execute(
            "postgres",
            "grant pg_read_all_settings to plain; grant select on pg_file_settings to plain",
        );
        let functions = ["pg_reload_conf()", "pg_show_all_file_settings()"];
        for function in functions {
            server.execute("postgres", &format!("grant execute on function {function} to plain"));
        }
        let plain = Conninfo { user: "plain".to_string(), ..admin.clone() };
        expect(&found(&plain).join("; "), "tuned.conf` can come in by it alone");
        write(&auto, "maintenance_work_mem = '70MB'\n");
        // The lock is held here.
        let words = found(&plain).join("; ");
        assert!(
            words.starts_with("another pgdyno changes settings") && !words.contains("includes"),
            "{words}"
        );
    }

    // What is included while settings are changed keeps them from being put back, and the journal stays.
    write(&auto, "maintenance_work_mem = '70MB'\n");
    load(&server, "select 1", "current_setting('work_mem') = '4MB'");
    altering.set(&asked).unwrap();
    let changed = fs::read_to_string(&auto).unwrap();
    fs::write(&auto, format!("{changed}include 'tuned.conf'\n")).unwrap();
    let kept = format!("{:#}", altering.put_back().unwrap_err());
    expect(&kept, "settings of the server are not put back (work_mem)");
    drop(altering);
    expect(&format!("{:#}", undo_left(dir, &admin).unwrap_err()), "includes another file");
    assert_eq!(SettingsJournal::all(dir).unwrap().len(), 1);
    assert!(fs::read_to_string(&auto).unwrap().ends_with("include 'tuned.conf'\n"));
    fs::write(&auto, changed).unwrap();
    let undone = undo_left(dir, &admin).unwrap();
    assert!(undone.len() == 1 && undone[0].fate == UndoOutcome::Back, "{undone:?}");
    assert_eq!(SettingsJournal::all(dir).unwrap().len(), 0);
}

/// Whether single parameters cannot be granted yet.
fn is_before_grants(server: &TestServer) -> bool {
    server.ask("postgres", "select current_setting('server_version_num')::int < 150000") == "t"
}

#[test]
fn what_a_role_or_database_decides_is_named_as_that() {
    let (server, place) = (TestServer::start(&ClusterOptions::default()), tempfile::tempdir().unwrap());
    let (admin, dir) = (server.socket("postgres"), place.path());
    let (mut altering, _) = Altering::begin(&admin, &[], dir).unwrap();
    server.execute("postgres", "alter database postgres set work_mem = '6MB'");
    let refused = altering.set(&wanted(&[("work_mem", "8MB")])).unwrap_err().to_string();
    let expected = "`work_mem`: its value comes from ALTER DATABASE ... SET of this database, which ALTER SYSTEM does not override; \
                    remove it there";
    assert_eq!(refused, expected);
    assert_eq!(entries(&server), Vec::<String>::new());
    server.execute("postgres", "alter database postgres reset work_mem");
    altering.set(&wanted(&[("work_mem", "8MB")])).unwrap();
    server.execute("postgres", "alter role postgres set work_mem = '7MB'");
    let undone = altering.put_back().unwrap();
    let words: Vec<String> = undone.iter().map(UndoneSetting::words).collect();
    let expected = "its entry is back, but it is 7168 instead of 4096, which comes from ALTER ROLE ... SET of this user, where";
    assert!(words.len() == 1 && words[0].contains(expected), "{words:?}");
    assert_eq!(entries(&server), Vec::<String>::new());
}

#[test]
fn lock_tables_stay_as_they_are_where_transactions_may_be_prepared() {
    let server = TestServer::start(&ClusterOptions {
        settings: &["max_prepared_transactions=2"],
        ..ClusterOptions::default()
    });
    let admin = server.socket("postgres");
    for level in ["10", "150"] {
        let asked = wanted(&[("max_locks_per_transaction", level)]);
        let found = problems(&admin, SettingsWish { cases: &[&asked], may_restart: true }).unwrap();
        let is_named = |text: &String| text.contains("prepared transactions keep the server from starting");
        assert!(found.iter().any(is_named), "{level}: {found:?}");
    }
}

/// Who else may read the WAL: for as long as that is not ruled out, nothing is changed that would reach them.
#[test]
fn what_readers_of_the_wal_would_not_survive_is_refused_unless_they_are_ruled_out() {
    let server = TestServer::start(&ClusterOptions::default());
    let admin = server.socket("postgres");
    let raised = wanted(&[("max_connections", "150")]);
    let found = |conninfo: &Conninfo, asked: &BTreeMap<String, String>| {
        problems(conninfo, SettingsWish { cases: &[asked], may_restart: true }).unwrap()
    };
    let expect = |asked: &BTreeMap<String, String>, sign: &str| {
        let found = found(&admin, asked);
        assert!(found.len() == 1 && found[0].contains(sign), "{sign}: {found:?}");
    };
    // A server without any sign of a reader, and levels that nobody has to follow.
    assert_eq!(found(&admin, &raised), Vec::<String>::new());
    server.execute("postgres", "select pg_create_physical_replication_slot('away')");
    for name in ["max_connections", "max_locks_per_transaction", "max_worker_processes"] {
        expect(&wanted(&[(name, "150")]), "it has replication slots");
    }
    assert_eq!(
        found(&admin, &wanted(&[("max_connections", "100"), ("work_mem", "8MB")])),
        Vec::<String>::new()
    );
    // Pages that a standby of another build cannot read; a method that every server has is as good as none.
    let methods = server.ask(
        "postgres",
        "select array_to_string(enumvals, ' ') from pg_settings where name = 'wal_compression'",
    );
    for method in ["lz4", "zstd"].into_iter().filter(|method| methods.contains(method)) {
        expect(&wanted(&[("wal_compression", method)]), "may lack");
    }
    assert_eq!(found(&admin, &wanted(&[("wal_compression", "on")])), Vec::<String>::new());
    // Also if it comes after the plan was made.
    let place = tempfile::tempdir().unwrap();
    let (mut altering, _) = Altering::begin(&admin, &["false".to_string()], place.path()).unwrap();
    let refused = altering.set(&raised).unwrap_err().to_string();
    assert!(refused.contains("it has replication slots"), "{refused}");
    assert_eq!(entries(&server), Vec::<String>::new());
    drop(altering);
    server.execute("postgres", "select pg_drop_replication_slot('away')");

    server.execute("postgres", "create role follower login replication");
    expect(&raised, "a role for standbys may log in (REPLICATION)");
    server.execute("postgres", "drop role follower");
    let kept = "current_setting('wal_keep_size') = '64MB'";
    load(&server, "alter system set wal_keep_size = '64MB'", kept);
    expect(&raised, "it keeps WAL for a standby (wal_keep_size)");
    load(&server, "alter system reset wal_keep_size", &format!("not {kept}"));
    // Whoever sees too little rules nothing out.
    server.execute("postgres", "create role plain login");
    for grant in [
        "alter system on parameter max_connections",
        "execute on function pg_reload_conf()",
        "execute on function pg_show_all_file_settings()",
        "select on pg_file_settings",
        "pg_read_all_settings",
    ] {
        server.execute("postgres", &format!("grant {grant} to plain"));
    }
    let plain = Conninfo { user: "plain".to_string(), ..admin.clone() };
    let unseen = found(&plain, &raised);
    assert!(unseen.len() == 1 && unseen[0].contains("grant pg_monitor"), "{unseen:?}");
    server.execute("postgres", "grant pg_monitor to plain");
    assert_eq!(found(&plain, &raised), Vec::<String>::new());
    // Nobody else is kept out, either.
    let lower = found(&admin, &wanted(&[("max_connections", "20")]));
    assert!(lower.len() == 1 && lower[0].contains("it is not lowered (it is 100)"), "{lower:?}");
    archiving_and_silent();
}

/// Without a standby: one server archives, the other writes too little WAL for anybody.
fn archiving_and_silent() {
    let raised = wanted(&[("max_connections", "150")]);
    for (settings, sign) in [
        (&["archive_mode=on", "archive_command=true"][..], Some("it archives its WAL")),
        (&["wal_level=minimal", "max_wal_senders=0", "wal_keep_size=64MB"], None),
    ] {
        let server = TestServer::start(&ClusterOptions { settings, ..ClusterOptions::default() });
        let found =
            problems(&server.socket("postgres"), SettingsWish { cases: &[&raised], may_restart: true })
                .unwrap();
        match sign {
            Some(sign) => assert!(found.len() == 1 && found[0].contains(sign), "{found:?}"),
            None => assert_eq!(found, Vec::<String>::new()),
        }
    }
}
