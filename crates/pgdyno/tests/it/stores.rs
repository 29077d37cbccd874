//! A store that belongs to somebody else, or whose tables others may change: what its owner puts there runs with nobody else's rights.

use std::fs;

use testbed::{PASSWORD, Pg};
use wire::{Conninfo, Session};

use crate::tool::{PACE, Place};

const RUN: &str = "run -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --name kept --set prepare.prewarm=false \
                   --set prepare.settle=false -o results/out --server";

/// Leave a trace in the server's log if somebody else than the owner runs them, or the owner's code in somebody else's session. Statements of
/// the test itself do not count.
const TRAPS: &str = "create function public.trap(owner name) returns int language plpgsql as $f$ begin
    if (current_user <> owner or session_user <> owner) and current_setting('test.quiet', true) is null then raise warning 'sprung: % as %', session_user, current_user; end if;
    return 0; end $f$;
  create function public.fixed_trap() returns int language sql immutable as $f$ select public.trap('mallory') $f$;
  create function public.fire() returns trigger language plpgsql as $f$ begin
    perform set_config('role', 'none', true); perform public.trap(tg_argv[0]::name); return new; end $f$;
  alter function public.trap owner to mallory; alter function public.fixed_trap owner to mallory;
  alter function public.fire owner to mallory";

struct Store {
    place: Place,
    pg: Pg,
    /// A database of `bench`, with a result of `bench` in it.
    database: String,
    /// The way in of `bench`.
    own: String,
}

impl Store {
    fn new() -> Store {
        let (place, pg) = (Place::new(), Pg::start());
        let target = pg.admin_target(&pg.database());
        place.run(&RUN.split_whitespace().chain([target.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
        let database = pg.database();
        pg.execute("postgres", "create role mallory");
        pg.execute(&database, TRAPS);
        let own = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
        place.run(&["push", &own, "results/out"]).expect(0);
        Store { place, pg, database, own }
    }

    /// Executes statements as `bench`, over TCP.
    fn owner(&self, sql: &str) {
        let place = Conninfo::new("127.0.0.1", self.pg.port, "bench", &self.database);
        let mut owner = Session::connect(&Conninfo { password: Some(PASSWORD.into()), ..place }).unwrap();
        owner.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn admin(&self, sql: &str) {
        self.pg.execute(&self.database, &format!("set test.quiet = 'on'; {sql}"));
    }

    /// Gives the schema and its tables to `role`.
    fn give_to(&self, role: &str) {
        self.admin(&format!(
            "do $$ declare t text; begin execute 'alter schema pgdyno owner to {role}'; \
             for t in select c.oid::regclass from pg_class c where relnamespace = 'pgdyno'::regnamespace and relkind in ('r', 'v') \
             loop execute 'alter table ' || t || ' owner to {role}'; end loop; end $$"
        ));
    }

    /// A push and a report of a result that differs from what is stored.
    fn expect_refused(&self, store: &str, commands: &[&str], words: &str) {
        let file = self.place.path("results/out/experiment.toml");
        fs::write(&file, fs::read_to_string(&file).unwrap() + "# more\n").unwrap();
        for command in commands {
            let args = match *command {
                "push" => vec!["push", store, "results/out"],
                _ => vec!["report", "--store", store, "out"],
            };
            // Its results are new there.
            let elsewhere = Place::new();
            let place = if *command == "push" { &self.place } else { &elsewhere };
            let ended = place.run(&args);
            let log = self.pg.log();
            assert!(!log.contains("sprung: "), "{command} {words}: {ended:?}\n{log}");
            let ended = ended.expect(1);
            assert!(ended.stderr.contains(words), "{command} {words}: {}", ended.stderr);
        }
    }
}

#[test]
fn the_owner_of_a_store_does_not_become_a_superuser_by_giving_everybody_a_role() {
    let store = Store::new();
    let admin = store.pg.admin_target(&store.database);
    store.admin("alter function public.fire owner to bench");
    store.owner(&format!(
        "alter database {} set role = bench; \
         create trigger fired before insert on pgdyno.experiment for each row execute function public.fire('bench'); \
         alter table pgdyno.migration rename to kept; \
         create view pgdyno.migration as select version + public.trap('bench') as version, tool_version, applied_at from pgdyno.kept",
        store.database
    ));
    store.expect_refused(&admin, &["report"], "the role `bench` (ALTER DATABASE ... SET role)");
    store.owner("drop view pgdyno.migration; alter table pgdyno.kept rename to migration");
    store.expect_refused(&admin, &["push", "report"], "the role `bench` (ALTER DATABASE ... SET role)");
    // Nor if the superuser takes that role.
    store.owner(&format!("alter database {} reset role", store.database));
    let taken = format!("{admin} options='-c role=bench'");
    store.expect_refused(&taken, &["push", "report"], "belongs to the role `bench`");
    // Its own triggers are the owner's affair.
    store.place.run(&["push", &store.own, "results/out"]).expect(0);
}

#[test]
fn nobody_acts_as_who_reads_a_store_of_theirs() {
    let store = Store::new();
    store.give_to("mallory");
    store
        .admin("grant usage on schema pgdyno to bench; grant select on all tables in schema pgdyno to bench");
    let reader = Place::new();
    reader.run(&["report", "--store", &store.own, "out"]).expect(0);
    for (made, undone, words) in [
        (
            "alter table pgdyno.migration rename to kept; create view pgdyno.migration as \
             select version + public.trap('mallory') as version from pgdyno.kept; alter view pgdyno.migration owner to mallory; \
             grant select on pgdyno.migration to bench",
            "drop view pgdyno.migration; alter table pgdyno.kept rename to migration",
            "a view (`pgdyno.migration`, by `mallory`)",
        ),
        (
            "alter table pgdyno.experiment enable row level security; \
             create policy seen on pgdyno.experiment using (public.trap('mallory') = 0)",
            "drop policy seen on pgdyno.experiment; alter table pgdyno.experiment disable row level security",
            "row security (`pgdyno.experiment`, by `mallory`)",
        ),
        (
            "create index baited on pgdyno.experiment ((experiment_id + public.fixed_trap()))",
            "drop index pgdyno.baited",
            "an expression of index `baited` (`pgdyno.experiment`, by `mallory`)",
        ),
        (
            "alter table pgdyno.file add constraint baited check (place >= public.fixed_trap()) not valid",
            "alter table pgdyno.file drop constraint baited",
            "constraint `baited` (`pgdyno.file`, by `mallory`)",
        ),
        (
            "create table pgdyno.part () inherits (pgdyno.file); alter table pgdyno.part owner to mallory; \
             create index baited on pgdyno.part ((place + public.fixed_trap()))",
            "drop table pgdyno.part",
            "an expression of index `baited` (`pgdyno.part`, by `mallory`)",
        ),
        (
            "create domain pgdyno.words as text; alter table pgdyno.experiment alter title type pgdyno.words",
            "alter table pgdyno.experiment alter title type text; drop domain pgdyno.words",
            "the type of column `title` (`pgdyno.experiment`, by `mallory`)",
        ),
    ] {
        store.admin(made);
        store.expect_refused(&store.own, &["report"], words);
        store.admin(undone);
    }
    if store.pg.admin("postgres").server_version_num() >= 140_000 {
        store
            .admin("create statistics pgdyno.baited on (place + public.fixed_trap()), path from pgdyno.file");
        store.expect_refused(&store.own, &["report"], "an expression of statistics `baited`");
        store.admin("drop statistics pgdyno.baited");
    }
    reader.run(&["report", "--store", &store.own, "out"]).expect(0);
}

#[test]
fn nobody_acts_as_who_pushes_to_a_store_that_they_may_change() {
    let store = Store::new();
    // A member of a group has its rights, and so has every other member.
    store.give_to("mallory");
    store.admin(
        "grant mallory to bench; \
         create trigger fired before insert on pgdyno.experiment for each row execute function public.fire('mallory')",
    );
    store.expect_refused(&store.own, &["push"], "belongs to the role `mallory`");
    store.give_to("bench");
    store.expect_refused(&store.own, &["push"], "trigger `fired` (`pgdyno.experiment`, by `mallory`)");
    store.admin("drop trigger fired on pgdyno.experiment; alter table pgdyno.readings owner to mallory");
    for (made, undone, words) in [
        (
            "create rule ruled as on insert to pgdyno.readings do also select public.trap('mallory')",
            "drop rule ruled on pgdyno.readings",
            "rule `ruled` (`pgdyno.readings`, by `mallory`)",
        ),
        (
            "alter table pgdyno.readings alter instance set default public.trap('mallory')::text",
            "alter table pgdyno.readings alter instance drop default",
            "the default of column `instance` (`pgdyno.readings`, by `mallory`)",
        ),
    ] {
        store.admin(made);
        store.expect_refused(&store.own, &["push"], words);
        store.admin(undone);
    }
    store.admin("alter table pgdyno.readings owner to bench");
    store.place.run(&["push", &store.own, "results/out"]).expect(0);
}

#[test]
fn an_altered_copy_replaces_no_result_without_a_word() {
    let store = Store::new();
    let record = store.place.path("results/out/runs/0001/run.json");
    let genuine = fs::read_to_string(&record).unwrap();
    let stored = "select count(*) from pgdyno.file f where path = 'runs/0001/run.json' and sha256 = ";
    let is_stored = |text: &str| {
        let sha256 = files::sha256_of(text.as_bytes()).unwrap();
        store.pg.ask(&store.database, &format!("{stored}'{sha256}'")) == "1"
    };
    assert!(is_stored(&genuine));
    let altered = genuine.clone() + "\n";
    fs::write(&record, &altered).unwrap();
    let words =
        "has completed runs that are missing, damaged or altered here: 1; push the copy that was measured";
    store.expect_refused(&store.own, &["push"], words);
    fs::write(&record, &genuine).unwrap();
    // A file that nobody measured makes another run of it, too.
    let more = store.place.write("results/out/runs/0001/imports.jsonl", "");
    store.expect_refused(&store.own, &["push"], words);
    fs::remove_file(more).unwrap();
    assert!(is_stored(&genuine));
    fs::write(&record, &altered).unwrap();
    store.place.run(&["push", &store.own, "results/out", "--replace"]).expect(0);
    assert!(is_stored(&altered));
}

#[test]
fn a_copy_that_says_it_was_measured_later_replaces_no_result() {
    let store = Store::new();
    let copied = std::process::Command::new("cp")
        .args(["-r", "results/out", "copy"])
        .current_dir(store.place.path(""))
        .status()
        .unwrap();
    assert!(copied.success());
    let stored = "select string_agg(sha256, ' ' order by path) from pgdyno.file";
    let before = store.pg.ask(&store.database, stored);
    let expect_refused = |words: &str| {
        let refused = store.place.run(&["push", &store.own, "copy"]).expect(1);
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        assert_eq!(store.pg.ask(&store.database, stored), before);
    };
    let record = fs::read_to_string(store.place.path("copy/runs/0001/run.json")).unwrap();
    let mut later: serde_json::Value = serde_json::from_str(&record).unwrap();
    an_hour_later(&mut later);
    fs::write(store.place.path("copy/runs/0001/run.json"), later.to_string()).unwrap();
    expect_refused("has completed runs that are missing, damaged or altered here: 1");
    fs::write(store.place.path("copy/runs/0001/run.json"), record).unwrap();
    // Nor does a plan that somebody rewrote.
    let plan = fs::read_to_string(store.place.path("copy/plan.json")).unwrap();
    fs::write(store.place.path("copy/plan.json"), plan.replacen("\"title\":", "\"title\" :", 1) + "\n")
        .unwrap();
    expect_refused("has another plan.json than this copy");
    store.place.run(&["push", &store.own, "copy", "--replace"]).expect(0);
    store.place.run(&["push", &store.own, "results/out"]).expect(0);

    // Nor one that lacks what was proven since.
    fs::write(store.place.path("copy/plan.json"), plan).unwrap();
    fs::write(store.place.path("results/out/why.json"), "{\"format\": 1, \"cases\": []}\n").unwrap();
    store.place.run(&["push", &store.own, "results/out"]).expect(0);
    let refused = store.place.run(&["push", &store.own, "copy"]).expect(1);
    assert!(refused.stderr.contains("has another why.json than this copy"), "{}", refused.stderr);
}

/// Shifts all times of a record.
fn an_hour_later(record: &mut serde_json::Value) {
    match record {
        serde_json::Value::Object(keys) => {
            for (key, value) in keys {
                match value.as_u64().filter(|_| key.ends_with("_unix_ns")) {
                    Some(time) => *value = (time + 3_600_000_000_000).into(),
                    None => an_hour_later(value),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(an_hour_later),
        _ => {}
    }
}
