//! A superuser administers a database that belongs to somebody else, who has put traps where tables, types and functions of the workload
//! are: none of them runs with the superuser's rights.

use testbed::{PASSWORD, Pg};
use wire::{Conninfo, Session};

use crate::tool::{Ended, PACE, Place, wait_until};

/// Leaves a trace in the server's log if a superuser runs it: a transaction may be rolled back, or only read.
const TRAP: &str = "create function trap(what text) returns int language plpgsql as $f$ begin
  if current_setting('is_superuser') = 'on' then raise warning 'sprung: %', what; end if; return 1; end $f$;";

struct Server {
    place: Place,
    pg: Pg,
    database: String,
}

impl Server {
    /// A database of `bench`, with the trap.
    fn new() -> Server {
        let pg = Pg::start();
        let database = pg.database();
        let server = Server { place: Place::new(), pg, database };
        server.owner(TRAP);
        server
    }

    /// Executes statements as the owner of the database.
    fn owner(&self, sql: &str) {
        let place = Conninfo::new("127.0.0.1", self.pg.port, "bench", &self.database);
        let mut owner = Session::connect(&Conninfo { password: Some(PASSWORD.into()), ..place }).unwrap();
        owner.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Puts another object with the mark of a table in its place.
    fn replace(&self, table: &str, kind: &str, sql: &str) {
        let mark = self.pg.ask(
            &self.database,
            &format!("select quote_literal(obj_description('{table}'::regclass, 'pg_class'))"),
        );
        self.owner(&format!("drop table {table}; {sql}; comment on {kind} {table} is {mark}"));
    }

    /// Runs pgdyno as superuser, which may do its work or refuse.
    #[track_caller]
    fn expect_unsprung(&self, args: &str) -> Ended {
        let server = self.pg.admin_target(&self.database);
        let pace = args.starts_with("run").then_some(PACE);
        let all: Vec<&str> = args.split_whitespace().chain(pace).chain(["--server", &server]).collect();
        let ended = self.place.run(&all);
        let log = self.pg.log();
        assert!(!log.contains("sprung: "), "{args}: {ended:?}\n{log}");
        self.place.expect_clean();
        ended
    }

    /// The same, and it must refuse.
    #[track_caller]
    fn expect_refused(&self, args: &str, words: &str) {
        let ended = self.expect_unsprung(args).expect(1);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(words), "{args}: {words}\n{said}");
    }
}

const RUN: &str = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --yes --set prepare.settle=false --set run.repeat_disturbed=0";

#[test]
fn a_view_in_place_of_a_table_runs_nothing() {
    let server = Server::new();
    let view = "create view pgbench_branches as select public.trap('view') as bid, 0 as bbalance, ''::text as filler";
    server.owner(view);
    for args in ["plan -s 1", "init -s 1", RUN] {
        server.expect_refused(args, "`public.pgbench_branches` is a view");
    }
    let expected = "a view (`public.pgbench_branches` of `bench`)";
    server.expect_refused("check", expected);
    server.expect_refused(&format!("{RUN} --no-restore"), expected);
    server.owner("drop view pgbench_branches");
    server.expect_unsprung("init -s 1").expect(0);
    // During a load that does not use it: rows are counted afterwards.
    let target = server.pg.admin_target(&server.database);
    let run = format!("{RUN} {PACE} --no-restore -w tpcb-select -o out");
    let args: Vec<&str> = run.split_whitespace().chain(["--server", &target]).collect();
    let running = server.place.start(server.place.command(&args));
    server.place.wait_for_load("out", 1);
    let counted = "create view pgbench_tellers as select tid, 0 as tbalance from public.trap('count') as tid";
    server.replace("pgbench_tellers", "view", counted);
    running.wait();
    let log = server.pg.log();
    assert!(!log.contains("sprung: "), "{log}");
    server.replace("pgbench_branches", "view", view);
    server.expect_refused("check", expected);
    server.expect_refused(&format!("{RUN} --no-restore -w tpcb-select"), expected);
}

#[test]
fn types_indexes_and_constraints_of_tables_run_nothing() {
    let server = Server::new();
    server.expect_unsprung("init -s 1").expect(0);
    server.owner(
        "create type trapped as enum ('0'); \
         create function of_trapped(trapped) returns int language sql as $$ select public.trap('cast of a column') - 1 $$; \
         create cast (trapped as int) with function of_trapped(trapped) as implicit; \
         create function constant() returns int language sql immutable as $$ select public.trap('expression') $$",
    );
    let columns =
        "select n as tid, 1 as bid, 0 as tbalance, ''::char(84) as filler from generate_series(1, 10) n";
    let expect_refused = |what: &str| {
        let expected = format!("{what} (`public.pgbench_tellers` of `bench`)");
        server.expect_refused("check", &expected);
        server.expect_refused(&format!("{RUN} --no-restore -w tpcb-select"), &expected);
    };
    let of_type = columns.replace("0 as tbalance", "'0'::trapped as tbalance");
    server.replace("pgbench_tellers", "table", &format!("create table pgbench_tellers as {of_type}"));
    expect_refused("the type of column `tbalance`");
    server.replace("pgbench_tellers", "table", &format!("create table pgbench_tellers as {columns}"));
    server.owner("create index baited on pgbench_tellers ((tid + constant()))");
    expect_refused("an expression of index `baited`");
    server.owner(
        "drop index baited; alter table pgbench_tellers add constraint baited check (tid + constant() > 0)",
    );
    expect_refused("constraint `baited`");
    // In the same places, seen by `check` alone.
    let checked = |table: &str, what: &str| {
        server.expect_refused("check", &format!("{what} (`public.{table}` of `bench`)"));
    };
    server.owner(
        "alter table pgbench_tellers drop constraint baited; \
         create statistics baited on (tid + constant()), bid from pgbench_tellers",
    );
    checked("pgbench_tellers", "an expression of statistics `baited`");
    server.owner("create domain disguised as trapped");
    let of_domain = columns.replace("0 as tbalance", "'0'::disguised as tbalance");
    server.replace("pgbench_tellers", "table", &format!("create table pgbench_tellers as {of_domain}"));
    checked("pgbench_tellers", "the type of column `tbalance`");
    let keyed = "create table pgbench_tellers (tid int, bid int, tbalance int, filler char(84)) partition by range ((tid + constant()))";
    server.replace("pgbench_tellers", "table", keyed);
    checked("pgbench_tellers", "an expression of the partition key");
    server.pg.execute(
        &server.database,
        "create extension postgres_fdw; create server far foreign data wrapper postgres_fdw; grant usage on foreign server far to bench",
    );
    let far =
        "create foreign table pgbench_tellers (tid int, bid int, tbalance int, filler char(84)) server far";
    server.replace("pgbench_tellers", "foreign table", far);
    checked("pgbench_tellers", "a foreign table");
    // The owner reads what is the owner's.
    let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let checked = server.place.run(&["check", "--server", &own]);
    assert!(!checked.stderr.contains("code of another user"), "{checked:?}");
}

#[test]
fn a_role_that_the_owner_gives_to_everybody_makes_no_table_the_superusers_own() {
    let server = Server::new();
    let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    server.place.run(&["init", "-s", "1", "--server", &own]).expect(0);
    server.owner(&format!(
        "create function back() returns int language plpgsql as $$ begin set role none; return public.trap('role'); end $$; \
         create function constant() returns int language sql immutable as $$ select public.back() $$; \
         create statistics baited on (tid + constant()), bid from pgbench_tellers; alter database {} set role = bench",
        server.database
    ));
    for args in ["check", "plan -s 1", "init -s 1", RUN] {
        server.expect_refused(args, "the role `bench` (ALTER DATABASE ... SET role)");
    }
    // The server cuts the text of the setting to a name.
    let role = "r".repeat(63);
    server.pg.execute("postgres", &format!("create role {role}; grant {role} to bench"));
    server.owner(&format!("alter database {} set role = '{role}etc'", server.database));
    server.expect_refused("check", &format!("the role `{role}`"));
}

#[test]
fn a_superusers_load_fires_no_triggers_of_a_table_that_somebody_puts_in_its_way() {
    let server = Server::new();
    let target = server.pg.admin_target(&server.database);
    let args = ["init", "-s", "2", "--streams", "1", "--server", &target];
    let running = server.place.start(server.place.command(&args));
    let exists =
        || server.pg.ask(&server.database, "select to_regclass('pgbench_history') is not null") == "t";
    wait_until("the tables", exists);
    // One stream takes the accounts first, then the tellers, then the branches.
    let mut locker = server.pg.admin(&server.database);
    locker.execute("begin; lock table pgbench_tellers in share update exclusive mode").unwrap();
    server.owner("create function fire() returns trigger language plpgsql as $$ begin perform public.trap('trigger'); return new; end $$");
    let columns = "bid int not null, bbalance int, filler char(88)";
    server.replace("pgbench_branches", "table", &format!("create table pgbench_branches ({columns})"));
    server.owner(
        "create trigger emptied before truncate on pgbench_branches execute function fire(); \
         create trigger filled before insert on pgbench_branches for each row execute function fire()",
    );
    locker.execute("commit").unwrap();
    let ended = running.wait().expect(1);
    assert!(ended.stderr.contains("somebody replaced table `public.pgbench_branches`"), "{}", ended.stderr);
    let log = server.pg.log();
    assert!(!log.contains("sprung: "), "{log}");
}

#[test]
fn a_load_of_a_user_fires_no_triggers_of_who_owns_the_schema() {
    let server = Server::new();
    let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    server.pg.execute(
        &server.database,
        "create role mallory; create schema theirs authorization mallory; grant usage, create on schema theirs to bench; \
         create function theirs.fire() returns trigger language plpgsql as $$ begin \
           raise warning 'sprung: %', current_user; return new; end $$; \
         grant usage, create on schema public to mallory",
    );
    let args = ["init", "-s", "2", "--streams", "1", "--schema", "theirs", "--server", &own];
    let running = server.place.start(server.place.command(&args));
    let exists =
        || server.pg.ask(&server.database, "select to_regclass('theirs.pgbench_history') is not null") == "t";
    wait_until("the tables", exists);
    // One stream takes the accounts first, then the tellers, then the branches.
    let mut locker = server.pg.admin(&server.database);
    locker.execute("begin; lock table theirs.pgbench_tellers in share update exclusive mode").unwrap();
    let mut mallory = server.pg.admin(&server.database);
    let mark = server.pg.ask(
        &server.database,
        "select quote_literal(replace(obj_description(c.oid, 'pg_class'), c.oid::text, '%')) from pg_class c \
          where c.oid = 'theirs.pgbench_branches'::regclass",
    );
    mallory
        .execute(&format!(
            "set role mallory; drop table theirs.pgbench_branches; \
             create table theirs.pgbench_branches (bid int not null, bbalance int, filler char(88)); \
             grant all on theirs.pgbench_branches to bench; \
             do $$ begin execute format('comment on table theirs.pgbench_branches is %L', \
               replace({mark}, '%', 'theirs.pgbench_branches'::regclass::oid::text)); end $$; \
             create trigger emptied before truncate on theirs.pgbench_branches execute function theirs.fire(); \
             create trigger filled before insert on theirs.pgbench_branches for each row execute function theirs.fire()"
        ))
        .unwrap();
    locker.execute("commit").unwrap();
    let ended = running.wait().expect(1);
    let log = server.pg.log();
    assert!(!log.contains("sprung: "), "{log}");
    assert!(ended.stderr.contains("somebody replaced table `theirs.pgbench_branches`"), "{}", ended.stderr);
}

#[test]
fn functions_of_policies_do_not_run_with_the_rights_of_who_administers() {
    let server = Server::new();
    server.expect_unsprung("init -s 1").expect(0);
    server.pg.execute(
        &server.database,
        "grant select on all tables in schema public to bench; alter table pgbench_tellers enable row level security; \
         create function seen() returns boolean language plpgsql as $$ begin raise warning 'sprung: %', current_user; return true; end $$; \
         create policy all_rows on pgbench_tellers using (public.seen())",
    );
    let theirs = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let checked = server.place.run(&["check", "--server", &theirs]).expect(1);
    assert!(checked.stderr.contains("row-level security policy"), "{}", checked.stderr);
    // A load that does not read the table runs, without a count of its rows.
    let run = format!("{RUN} {PACE} --no-restore -w tpcb-select -o out --server {theirs}");
    server.place.run(&run.split_whitespace().collect::<Vec<_>>()).expect(0);
    let rows = server.place.first_run("out").record.rows_before;
    assert!(!rows.contains_key("pgbench_tellers") && rows["pgbench_branches"] == 1, "{rows:?}");
    let log = server.pg.log();
    assert!(!log.contains("sprung: "), "{log}");
    // The user's own script reads it as the user does.
    server.place.write("own.sql", "select count(*) from pgbench_tellers;\n");
    let run = format!("{RUN} {PACE} -f own.sql --set workload.data=none -o own --server {theirs}");
    server.place.run(&run.split_whitespace().collect::<Vec<_>>()).expect(0);
}

#[test]
fn complete_data_with_code_of_its_owner_is_not_replaced_by_other_data() {
    let server = Server::new();
    let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    server.place.run(&["init", "-s", "2", "--server", &own]).expect(0);
    server.owner(
        "create function constant() returns int language sql immutable as $$ select public.trap('expression') $$; \
         create index baited on pgbench_tellers ((tid + constant()))",
    );
    for args in ["plan -s 1", RUN] {
        server.expect_refused(args, "the data that was loaded before has scale 2");
    }
    assert_eq!(server.pg.ask(&server.database, "select count(*) from pgbench_branches"), "2");
}

#[test]
fn a_cast_of_rows_is_not_called_for_checksums() {
    let server = Server::new();
    server.owner(
        "create table plain (a int); insert into plain values (1); \
         create function of_plain(plain) returns text language sql as $$ select public.trap('cast of a row')::text $$; \
         create cast (plain as text) with function of_plain(plain)",
    );
    server.place.write("plain.sql", "select * from plain;\n");
    let args = format!("{RUN} -f plain.sql --set prepare.checksums=true --set workload.data=none -o out");
    server.expect_unsprung(&args).expect(0);
    let run = server.place.first_run("out");
    // As md5(t::text) gave it before there was a cast.
    let digest = "select '1:' || ('x' || substr(md5('(1)'), 1, 15))::bit(60)::bigint";
    let expected = server.pg.ask("postgres", digest);
    let recorded = format!("{:?}", run.record);
    assert!(recorded.contains(&expected), "{expected}");
}

#[test]
fn an_overloaded_function_of_an_extension_is_not_called() {
    let server = Server::new();
    server.pg.execute(&server.database, "create extension pg_prewarm schema public");
    server.owner(
        "create function pg_prewarm(regclass, text, text, int, bigint) returns bigint language sql as \
         $$ select public.trap('pg_prewarm')::bigint $$",
    );
    server.expect_unsprung(RUN).expect(0);
}
