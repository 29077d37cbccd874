//! A database that is restored by copies of itself: what somebody else creates in it is never dropped with it.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use server::OwnServer;
use server::database::template::{self, Changed, Doors, LeftoverOutcome, LoadedObjects, Templates};
use wire::{Conninfo, Session};

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

static STOP: AtomicBool = AtomicBool::new(false);

/// What another session may do to a database between two runs, the name of the difference, and a query whether it is
/// still there.
const DEEDS: &[(&str, &str, &str)] = &[
    ("create table diary (t text)", "table public.diary is new", "select to_regclass('diary') is not null"),
    (
        "create unlogged table scratch ()",
        "table public.scratch is new",
        "select to_regclass('scratch') is not null",
    ),
    (
        "create sequence numbers",
        "sequence public.numbers is new",
        "select to_regclass('numbers') is not null",
    ),
    (
        "create view seen as select 1 as a",
        "view public.seen is new",
        "select to_regclass('seen') is not null",
    ),
    (
        "create materialized view kept as select 1 as a",
        "materialized view public.kept is new",
        "select to_regclass('kept') is not null",
    ),
    (
        "create index one_more on load (x)",
        "index public.one_more is new",
        "select to_regclass('one_more') is not null",
    ),
    ("create type mood as enum ('a')", "type public.mood", "select to_regtype('mood') is not null"),
    (
        "alter type mood_of_old add value 'c'",
        "pg_enum has changed",
        "select count(*) = 3 from pg_enum where enumtypid = 'mood_of_old'::regtype",
    ),
    ("create domain age as int", "type public.age", "select to_regtype('age') is not null"),
    (
        "create function f() returns int language sql as 'select 1'",
        "function public.f() is new",
        "select to_regproc('f') is not null",
    ),
    (
        "create or replace function of_old() returns int language sql as 'select 2'",
        "function public.of_old() has changed",
        "select of_old() = 2",
    ),
    ("create schema app", "schema app is new", "select to_regnamespace('app') is not null"),
    (
        "create extension pg_trgm",
        "extension pg_trgm is new",
        "select count(*) = 1 from pg_extension where extname = 'pg_trgm'",
    ),
    ("select lo_from_bytea(77, 'x')", "large object 77 is new", "select lo_get(77) = 'x'"),
    (
        "grant select on load to public",
        "table public.load has changed",
        "select has_table_privilege('reader', 'load', 'select')",
    ),
    (
        "grant create on schema public to reader",
        "schema public has changed",
        "select has_schema_privilege('reader', 'public', 'create')",
    ),
    (
        "grant execute on function pg_ls_logdir() to reader",
        "pg_proc has changed",
        "select has_function_privilege('reader', 'pg_ls_logdir()', 'execute')",
    ),
    (
        "alter default privileges grant select on tables to reader",
        "default privileges",
        "select count(*) = 1 from pg_default_acl",
    ),
    (
        "comment on table load is 'mine'",
        "comment on table public.load",
        "select obj_description('load'::regclass) = 'mine'",
    ),
    (
        "comment on database bench is 'mine'",
        "the database has a comment",
        "select shobj_description(oid, 'pg_database') = 'mine' from pg_database where datname = 'bench'",
    ),
    (
        "alter database bench set work_mem = '8MB'",
        "settings of the database",
        "select count(*) = 1 from pg_db_role_setting",
    ),
    (
        "alter role reader in database bench set work_mem = '8MB'",
        "settings of the database",
        "select count(*) = 1 from pg_db_role_setting",
    ),
    (
        "grant create on database bench to reader",
        "privileges on the database",
        "select has_database_privilege('reader', 'bench', 'create')",
    ),
    (
        "alter database bench connection limit 50",
        "a connection limit",
        "select datconnlimit = 50 from pg_database where datname = 'bench'",
    ),
    (
        "alter database bench owner to reader",
        "the owner or another property of the database has changed",
        "select datdba = 'reader'::regrole from pg_database where datname = 'bench'",
    ),
    ("create publication p", "publication p is new", "select count(*) = 1 from pg_publication"),
    (
        "create subscription s connection 'dbname=no' publication p with (connect = false, slot_name = none)",
        "a subscription belongs to the database",
        "select count(*) = 1 from pg_subscription",
    ),
    (
        "create event trigger e on ddl_command_end execute function fires()",
        "event trigger e is new",
        "select count(*) = 1 from pg_event_trigger",
    ),
    (
        "create trigger t before update on load for each row execute function triggers()",
        "trigger t on table public.load is new",
        "select count(*) = 1 from pg_trigger where tgname = 't'",
    ),
    (
        "create policy rows on load",
        "policy rows on table public.load is new",
        "select count(*) = 1 from pg_policy",
    ),
    (
        "create rule r as on delete to load do nothing",
        "rule r on table public.load is new",
        "select count(*) = 1 from pg_rules where rulename = 'r'",
    ),
    (
        "create cast (text as mood_of_old) with inout",
        "cast from text to public.mood_of_old is new",
        "select count(*) = 1 from pg_cast where casttarget = 'mood_of_old'::regtype",
    ),
    (
        "create operator === (leftarg = int, rightarg = int, function = int4eq)",
        "operator public.===(integer,integer) is new",
        "select count(*) = 1 from pg_operator where oprname = '==='",
    ),
    (
        "create collation c from \"C\"",
        "collation public.c is new",
        "select count(*) = 1 from pg_collation where collname = 'c'",
    ),
    (
        "create text search configuration w (copy = simple)",
        "text search configuration public.w is new",
        "select count(*) = 1 from pg_ts_config where cfgname = 'w'",
    ),
    (
        "create foreign data wrapper far",
        "foreign-data wrapper far is new",
        "select count(*) = 1 from pg_foreign_data_wrapper where fdwname = 'far'",
    ),
    (
        "create server there foreign data wrapper away",
        "server there is new",
        "select count(*) = 1 from pg_foreign_server where srvname = 'there'",
    ),
    (
        "create user mapping for reader server here options (a 'b')",
        "user mapping for reader on server here is new",
        "select count(*) = 1 from pg_user_mappings where usename = 'reader'",
    ),
    (
        "create foreign table away_t (a int) server here",
        "foreign table public.away_t is new",
        "select to_regclass('away_t') is not null",
    ),
    (
        "create trusted language l handler plpgsql_call_handler",
        "language l is new",
        "select count(*) = 1 from pg_language where lanname = 'l'",
    ),
    (
        "create statistics stats on i, x from load",
        "statistics object public.stats is new",
        "select count(*) = 1 from pg_statistic_ext",
    ),
    (
        "alter table load add column note text",
        "table public.load has changed",
        "select count(*) = 1 from pg_attribute where attname = 'note' and attrelid = 'load'::regclass",
    ),
    (
        "alter table load set (fillfactor = 50)",
        "table public.load has changed",
        "select reloptions is not null from pg_class where oid = 'load'::regclass",
    ),
    ("drop view of_the_user", "view public.of_the_user is gone", "select to_regclass('of_the_user') is null"),
];

/// Objects that exist before any template is made.
const FIRST: &str = "create table load (i int primary key, x int); insert into load select g, g from generate_series(1, 1000) g;
    create view of_the_user as select 1 as a; create type mood_of_old as enum ('a', 'b');
    create function of_old() returns int language sql as 'select 1';
    create function triggers() returns trigger language plpgsql as 'begin return new; end';
    create foreign data wrapper away; create server here foreign data wrapper away";
const EVENT_FUNCTION: &str = "create function fires() returns event_trigger language plpgsql as 'begin end'";

/// A server with a database `bench`, and how to connect to it.
struct Bench {
    server: OwnServer,
    _place: testbed::Apart,
}

impl Bench {
    fn on(binaries: &server::Binaries) -> Bench {
        let place = place();
        let cluster = cluster(binaries, &place);
        let server = OwnServer::start(&cluster, &settings(&[("fsync", "off")]))
            .unwrap_or_else(|error| panic!("{error}"));
        let bench = Bench { server, _place: place };
        let mut admin = bench.session("postgres");
        admin.execute("create role reader").unwrap();
        admin.execute("create database bench").unwrap();
        for sql in FIRST.split(";\n").chain([EVENT_FUNCTION]) {
            bench.session("bench").execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        bench
    }

    fn conninfo(&self, database: &str) -> Conninfo {
        Conninfo { dbname: database.to_string(), ..self.server.conninfo() }
    }

    fn session(&self, database: &str) -> Session {
        session(&self.conninfo(database))
    }

    fn ask(&self, sql: &str) -> String {
        ask(&mut self.session("bench"), sql)
    }

    /// Templates, with one of the database as it is.
    fn templates(&self, options: Option<&str>) -> Templates {
        let conninfo = Conninfo { options: options.map(str::to_string), ..self.conninfo("bench") };
        let (mut templates, _) =
            Templates::open(Doors::new(&conninfo, &STOP), &mut self.session("bench")).unwrap();
        templates.take_stock().unwrap();
        templates.make("key").unwrap();
        templates
    }

    fn ours(&self) -> String {
        ask(
            &mut self.session("postgres"),
            "select coalesce(string_agg(datname, ' '), '') from pg_database where datname like 'pgdyno\\_%'",
        )
    }

    fn end(self) {
        assert_eq!(self.ours(), "", "no template is left");
        self.server.stop(server::StopMode::Fast).unwrap();
    }
}

/// The error of a refused restore.
fn changed(templates: &mut Templates) -> String {
    let error = templates.restore("key").unwrap_err();
    assert!(error.downcast_ref::<Changed>().is_some(), "{error:#}");
    format!("{error:#}")
}

#[test]
fn whatever_another_session_creates_is_found_and_kept() {
    let bench = Bench::on(&installed());
    // If only rows have changed, the database is restored.
    let mut templates = bench.templates(None);
    for _ in 0..2 {
        for sql in
            ["update load set x = 0", "delete from load where i > 10", "vacuum analyze", "truncate load"]
        {
            bench.session("bench").execute(sql).unwrap();
        }
        templates.restore("key").unwrap().kept.unwrap();
        assert_eq!(bench.ask("select count(*) || ' ' || sum(x) from load"), "1000 500500");
    }
    drop(templates);
    let mut wrong: Vec<String> = Vec::new();
    for (deed, words, is_so) in DEEDS {
        let mut templates = bench.templates(None);
        bench.session("bench").execute(deed).unwrap_or_else(|error| panic!("{deed}: {error}"));
        let told = changed(&mut templates);
        if !told.contains(words) {
            wrong.push(format!("{deed}: {told}"));
        }
        assert_eq!(bench.ask(is_so), "t", "{deed}: what was made is still there");
        drop(templates);
        // The database as it was, for the next change.
        let mut admin = bench.session("postgres");
        admin.execute("drop owned by reader").unwrap();
        if deed.starts_with("create subscription") {
            bench.session("bench").execute("drop subscription s").unwrap();
        }
        admin.execute("drop database bench").unwrap();
        admin.execute("create database bench").unwrap();
        for sql in FIRST.split(";\n").chain([EVENT_FUNCTION]) {
            bench.session("bench").execute(sql).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    bench.end();
}

/// Runs `deed` in a database as soon as `is_time` says so.
fn as_soon_as(
    conninfo: &Conninfo,
    sql: &'static str,
    deed: impl Fn(&str, &Conninfo) + Send + 'static,
) -> thread::JoinHandle<()> {
    let conninfo = conninfo.clone();
    thread::spawn(move || {
        let mut watch = session(&conninfo);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Some(name) = watch.query(sql).unwrap().scalar() {
                return deed(name, &Conninfo { dbname: name.to_string(), ..conninfo });
            }
        }
        panic!("timed out waiting for {sql}");
    })
}

const REPLACED: &str = "select datname from pg_database where datname like 'pgdyno\\_%' and datallowconn \
                        and shobj_description(oid, 'pg_database') like '%replaced%'";

#[test]
fn a_session_that_is_quicker_than_the_change_of_names_loses_nothing() {
    let bench = Bench::on(&installed());
    // Each of our sessions takes a second to begin, so that another session gets in first.
    let mut templates = bench.templates(Some("-c post_auth_delay=1"));
    let other = as_soon_as(&bench.conninfo("postgres"), REPLACED, |_, conninfo| {
        session(conninfo).execute("create table sneaked (a int)").unwrap();
    });
    let told = changed(&mut templates);
    other.join().unwrap();
    assert!(told.contains("table public.sneaked is new"), "{told}");
    assert_eq!(bench.ask("select to_regclass('sneaked') is not null"), "t");
    assert_eq!(bench.ask("select count(*) from load"), "1000");
    drop(templates);
    bench.end();
}

#[test]
fn a_session_that_stays_in_the_replaced_database_keeps_it() {
    let bench = Bench::on(&installed());
    let mut templates = bench.templates(Some("-c post_auth_delay=1"));
    let oid = "select oid from pg_database where datname = 'bench'";
    let before = bench.ask(oid);
    let other = as_soon_as(&bench.conninfo("postgres"), REPLACED, |_, conninfo| {
        let mut session = session(conninfo);
        thread::sleep(Duration::from_secs(8));
        session.execute("create table late (a int)").unwrap();
    });
    let refused = templates.restore("key").unwrap_err();
    assert!(format!("{refused:#}").contains("is connected to database"), "{refused:#}");
    other.join().unwrap();
    // Its session prevented the names from being changed back, and the error says so; or they were changed back.
    if refused.downcast_ref::<template::Displaced>().is_some() {
        let old = bench.ours();
        assert!(old.split(' ').any(|name| format!("{refused:#}").contains(name)), "{refused:#}: {old}");
        drop(templates);
        let late = bench.ours();
        assert_eq!(ask(&mut bench.session(&late), "select to_regclass('late') is not null"), "t");
        let fates = template::clean(&Doors::new(&bench.conninfo("bench"), &STOP)).unwrap();
        let [(name, LeftoverOutcome::Left(why))] = fates.as_slice() else { panic!("{fates:?}") };
        assert!(why.contains("pgdyno did not make"), "{why}");
        let mut admin = bench.session("postgres");
        admin.execute(&format!("drop database \"{name}\"")).unwrap();
    } else {
        assert_eq!(bench.ask(oid), before);
        assert_eq!(bench.ask("select to_regclass('late') is not null"), "t");
        drop(templates);
    }
    bench.end();
}

#[test]
fn only_databases_that_pgdyno_made_are_removed() {
    let bench = Bench::on(&installed());
    let mut admin = bench.session("postgres");
    let prefix = {
        let templates = bench.templates(None);
        let name = bench.ours();
        drop(templates);
        name.rsplit_once('_').unwrap().0.to_string()
    };
    assert_eq!(bench.ours(), "");
    // Names, comments and properties like those of pgdyno, each with something missing.
    let mine = [
        format!("create database {prefix}_aaaaaaaaaaaa"),
        format!("create database {prefix}_bbbbbbbbbbbb connection limit 1885824122"),
        format!("create database {prefix}_cccccccccccc allow_connections false"),
        "create database pgdyno_mine".to_string(),
        "create database pgdyno_lonely allow_connections false connection limit 1885824122".to_string(),
    ];
    mine.iter().for_each(|sql| admin.execute(sql).unwrap());
    let comment = r#"pgdyno {"kind":"template","of":"bench","oid":1}"#;
    admin.execute(&format!("comment on database pgdyno_mine is '{comment}'")).unwrap();
    // A copy that was interrupted before it got its comment.
    admin
        .execute(&format!(
            "create database {prefix}_dddddddddddd template bench allow_connections false connection limit 1885824122"
        ))
        .unwrap();
    let templates = bench.templates(None);
    assert!(!bench.ours().contains("dddddddddddd"), "{}", bench.ours());
    let fates = template::clean(&Doors::new(&bench.conninfo("bench"), &STOP)).unwrap();
    assert!(fates.iter().all(|(_, fate)| matches!(fate, LeftoverOutcome::Left(_))), "{fates:?}");
    assert_eq!(fates.len(), 6, "those of a running pgdyno too: {fates:?}");
    drop(templates);
    let fates = template::clean(&Doors::new(&bench.conninfo("bench"), &STOP)).unwrap();
    assert_eq!(fates.len(), 5, "{fates:?}");
    for (name, fate) in fates {
        let LeftoverOutcome::Left(why) = fate else { panic!("{name} is gone") };
        let expected = if name == "pgdyno_lonely" { "may be all that is left" } else { "no mark of pgdyno" };
        assert!(why.contains(expected), "{name}: {why}");
        admin.execute(&format!("drop database {name}")).unwrap();
    }
    bench.end();
}

#[test]
fn a_database_that_pgdyno_made_is_recognized_by_its_mark_and_keeps_it() {
    let bench = Bench::on(&installed());
    let mut admin = bench.session("postgres");
    let refused = template::create_database(&mut admin, "bench").unwrap_err();
    assert!(refused.to_string().contains("pgdyno did not create it"), "{refused:#}");
    assert!(template::create_database(&mut admin, "own").unwrap());
    assert!(!template::create_database(&mut admin, "own").unwrap(), "it is there already");
    let is_made = |name: &str| template::is_made(&mut bench.session(name)).unwrap();
    assert!(is_made("own") && !is_made("bench"));
    let (mut templates, _) =
        Templates::open(Doors::new(&bench.conninfo("own"), &STOP), &mut bench.session("own")).unwrap();
    templates.take_stock().unwrap();
    templates.make("key").unwrap();
    templates.restore("key").unwrap().kept.unwrap();
    drop(templates);
    assert!(is_made("own"), "the copy has the mark too");
    // A renamed database is no longer pgdyno's.
    admin.execute("alter database own rename to renamed").unwrap();
    assert!(!is_made("renamed"));
    bench.end();
}

#[test]
fn other_tables_and_sequences_and_large_objects_are_strangers() {
    let bench = Bench::on(&installed());
    let mut inside = bench.session("bench");
    let mut stranger =
        |tables: &[&str]| template::stranger(&mut inside, LoadedObjects::Tables(tables)).unwrap();
    assert_eq!(stranger(&["load"]), None);
    assert_eq!(stranger(&[]).as_deref(), Some("table load"));
    let before = template::holders(&mut bench.session("bench")).unwrap();
    for (make, expected, undo) in [
        ("create sequence s", "sequence s", "drop sequence s"),
        ("create materialized view m as select 1 as a", "materialized view m", "drop materialized view m"),
        ("create table heir (note text) inherits (load)", "table heir", "drop table heir"),
        ("create table a_diary (i serial)", "sequence a_diary_i_seq", "drop table a_diary"),
        ("select lo_from_bytea(77, 'x')", "large object 77", "select lo_unlink(77)"),
    ] {
        bench.session("bench").execute(make).unwrap();
        assert_eq!(stranger(&["load"]).as_deref(), Some(expected), "{make}");
        let mut inside = bench.session("bench");
        assert_eq!(
            template::stranger(&mut inside, LoadedObjects::NotThereBefore(&before)).unwrap().as_deref(),
            Some("table load")
        );
        bench.session("bench").execute(undo).unwrap();
    }
    bench.session("bench").execute("alter table load add column n serial; create temp table t ()").unwrap();
    assert_eq!(stranger(&["load"]), None, "a column's sequence belongs to its table");
    bench.end();
}

/// All release series, because their catalogs differ.
#[test]
fn the_oldest_and_the_newest_release_are_compared_too() {
    for series in ["9.6", "18"] {
        let bench = Bench::on(&fetched(series));
        let mut templates = bench.templates(None);
        bench.session("bench").execute("update load set x = 0").unwrap();
        bench.session("bench").execute("vacuum analyze").unwrap();
        templates.restore("key").unwrap().kept.unwrap();
        assert_eq!(bench.ask("select sum(x) from load"), "500500");
        bench.session("bench").execute("create table diary (t text); create schema app").unwrap();
        let told = changed(&mut templates);
        assert!(told.contains("table public.diary is new"), "{series}: {told}");
        drop(templates);
        bench.end();
    }
}
