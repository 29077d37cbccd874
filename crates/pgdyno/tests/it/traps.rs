//! A superuser administers a database that belongs to somebody else, who has put traps where tables, types and functions of the workload
//! are: none of them runs with the superuser's rights.

use testbed::{PASSWORD, Pg};
use wire::{Conninfo, Session};

use crate::tool::{Ended, Place};

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
        let all: Vec<&str> = args.split_whitespace().chain(["--server", &server]).collect();
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
    // The owner reads what is the owner's.
    let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let checked = server.place.run(&["check", "--server", &own]);
    assert!(!checked.stderr.contains("code of another user"), "{checked:?}");
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
