//! Data that is restored from an archive of `pg_dump`: of both formats that can be restored in parallel, once, and then
//! from a snapshot; and archives that cannot be used, each with what to do.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use model::experiment::script::CaseData;
use model::experiment::script::archive::ArchiveFormat;
use model::run::phase::Phase;
use testbed::{PASSWORD, Pg, TestServer, bin_dir};

use crate::tool::{Ended, PACE, Place, expect_sound};

const SHOP: &str = "\
create role seller;
create extension pg_trgm;
create table items (id int primary key, name text not null, stock bigint not null);
insert into items select i, 'item ' || i, 1000 from generate_series(1, 5000) i;
create index on items using gin (name gin_trgm_ops);
create table orders (id bigserial primary key, item int references items, n int);
insert into orders (item, n) select 1 + i % 5000, i % 7 from generate_series(1, 20000) i;
alter table orders owner to seller;
grant select on items to seller;
";

pub(crate) const EXPERIMENT: &str = "\
[experiment]
name = \"shop\"
repeats = 2
seed = 5

[workload]
kind = \"scripts\"
scripts = [\"buy.sql\"]
restore_from = \"shop.dump\"
clients = 2

[run]
ramp_up = \"0s\"
measure = \"2s\"

[prepare]
settle = false
";

pub(crate) const BUY: &str = "\\set item random(1, 5000)\nINSERT INTO orders (item, n) VALUES (:item, 1);\n";

pub(crate) const TRUSTED: &str = "--allow-archive-as-superuser";

/// A place with an experiment, and what its server is to be.
pub(crate) struct Shop {
    pub(crate) place: Place,
    pub(crate) bin_dir: String,
}

impl Shop {
    pub(crate) fn new() -> Shop {
        let place = Place::new();
        place.write("shop.toml", EXPERIMENT);
        place.write("buy.sql", BUY);
        Shop { place, bin_dir: bin_dir().display().to_string() }
    }

    pub(crate) fn run(&self, options: &[&str]) -> Ended {
        self.place.run(&[&["run", "shop.toml", PACE, TRUSTED, "--bin-dir", &self.bin_dir], options].concat())
    }

    /// Dumps a database as the server's user would; returns the archive's path.
    pub(crate) fn dump(&self, pg: &TestServer, database: &str, name: &str, options: &[&str]) -> PathBuf {
        self.dump_by("pg_dump", pg, database, name, options)
    }

    /// As [`Shop::dump`], by one of the programs.
    pub(crate) fn dump_by(
        &self,
        program: &str,
        pg: &TestServer,
        database: &str,
        name: &str,
        options: &[&str],
    ) -> PathBuf {
        // The server's user may write only there.
        let there = pg.path(name);
        testbed::run(pg.client(program, database).args(options).arg("--file").arg(&there));
        let here = self.place.path(name);
        let copied = std::process::Command::new("cp").arg("-r").arg(&there).arg(&here).status().unwrap();
        assert!(copied.success());
        testbed::run(std::process::Command::new("chmod").args(["-R", "a+rX"]).arg(&here));
        here
    }
}

/// A database with a shop in it.
fn shop_of(pg: &TestServer) -> String {
    let database = pg.database_of("postgres");
    pg.execute(&database, "drop role if exists seller");
    pg.execute(&database, SHOP);
    database
}

#[test]
fn runs_begin_from_the_rows_of_an_archive_of_either_format() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let database = shop_of(&pg);
    shop.dump(&pg, &database, "shop.dump", &["-Fc"]);
    shop.dump(&pg, &database, "shop.dir", &["-Fd", "--jobs=2"]);
    let of_origin =
        |table: &str| -> u64 { pg.ask(&database, &format!("select count(*) from {table}")).parse().unwrap() };

    for command in ["plan", "run"] {
        let refused = shop.place.run(&[command, "shop.toml", "--bin-dir", &shop.bin_dir]).expect(1);
        let words = format!("{}{}", refused.stdout, refused.stderr);
        assert!(
            words.contains("an archive is code of whoever wrote it") && words.contains(TRUSTED),
            "{words}"
        );
    }
    let plan = shop.place.run(&["plan", "shop.toml", TRUSTED, "--bin-dir", &shop.bin_dir]).expect(0);
    assert!(plan.stdout.contains("restored from shop.dump (pg_dump "), "{}", plan.stdout);
    let ended = shop.run(&["-o", "custom"]).expect(0);
    assert!(ended.stderr.contains("restoring `shop.dump`"), "{}", ended.stderr);
    let other = ["--set", "workload.restore_from=shop.dir", "--repeats", "1", "-o", "directory"];
    shop.run(&other).expect(0);
    for (name, format, n_runs) in
        [("custom", ArchiveFormat::Custom, 2), ("directory", ArchiveFormat::Directory, 1)]
    {
        let results = shop.place.results(name);
        assert_eq!(results.runs.len(), n_runs);
        for run in &results.runs {
            expect_sound(run);
            // The second run, too: the first one's orders are gone.
            assert_eq!(run.record.rows_before["public.orders"], of_origin("orders"));
            let CaseData::Archive(archive) = &run.record.case.workload.data else { panic!("no archive") };
            assert_eq!((archive.format, archive.database.as_str()), (format, database.as_str()));
        }
    }
    let page = fs::read_to_string(shop.place.path("custom/report.html")).unwrap();
    assert!(page.contains("restored from shop.dump (pg_dump ") && page.contains("Identity"));

    // A plan that is repeated later insists on the same archive.
    pg.execute(&database, "delete from orders where id % 2 = 0");
    fs::remove_file(pg.path("shop.dump")).unwrap();
    fs::remove_file(shop.place.path("shop.dump")).unwrap();
    shop.dump(&pg, &database, "shop.dump", &["-Fc"]);
    let repeated = ["run", "custom/experiment.toml", TRUSTED, "--bin-dir", &shop.bin_dir, "-o", "repeated"];
    let refused = shop.place.run(&repeated);
    assert_ne!(refused.code(), Some(0));
    assert!(refused.stderr.contains("has changed since the plan was made"), "{}", refused.stderr);
    shop.place.expect_clean();
}

#[test]
fn archives_that_cannot_be_used_are_refused_with_what_to_do() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let database = shop_of(&pg);
    let refused = |options: &[&str], expected: &[&str]| {
        let ended = shop.run(&[options, &["-o", "out"]].concat());
        assert!(!matches!(ended.code(), Some(0) | None), "{options:?}\n{}", ended.stderr);
        for part in expected {
            assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
        }
        fs::remove_dir_all(shop.place.path("out")).ok();
    };
    refused(&[], &["cannot read `", "shop.dump`: No such file"]);
    shop.dump(&pg, &database, "plain.sql", &[]);
    let plain = ["--set", "workload.restore_from=plain.sql"];
    refused(&plain, &["is a plain SQL script", "workload.data = {files = [...]}"]);
    let dump = shop.dump(&pg, &database, "shop.dump", &["-Fc", "--compress=0"]);
    refused(&["--set", "workload.data=none"], &["both say where the data comes from"]);

    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, renamed(&whole, "pg_trgm", "pg_tram")).unwrap();
    refused(&[], &["needs the extension pg_tram", "install the package, or dump without it"]);
    let mut newer = whole.clone();
    newer[6] = 99;
    // The compression is named by one byte in newer archives.
    if whole[6] < 15 {
        newer.drain(12..16);
    }
    fs::write(&dump, newer).unwrap();
    refused(&[], &["cannot restore `shop.dump`", "unsupported version (1.99"]);
    fs::write(&dump, &whole).unwrap();
    if nix::unistd::geteuid().is_root() {
        fs::set_permissions(&dump, Permissions::from_mode(0o600)).unwrap();
        refused(&[], &["who runs pg_restore, cannot read `", "let that user read it"]);
        let dir = shop.dump(&pg, &database, "shop.dir", &["-Fd"]);
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        let of_dir = ["--set", "workload.restore_from=shop.dir", TRUSTED, "--bin-dir", &shop.bin_dir];
        let planned = shop.place.run(&[&["plan", "shop.toml"], &of_dir[..]].concat()).expect(1);
        assert!(planned.stdout.contains("who runs pg_restore, cannot read `"), "{}", planned.stdout);
    }
    shop.place.expect_clean();
}

#[test]
fn an_archive_is_restored_into_an_empty_database_of_a_server_by_url_and_into_no_other() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let origin = shop_of(&pg);
    shop.dump(&pg, &origin, "shop.dump", &["-Fc"]);
    let target = pg.database_of("postgres");
    let url = pg.admin_target(&target);
    let run = |options: &[&str]| {
        shop.place
            .run(&[&["run", "shop.toml", PACE, "--server", &url, TRUSTED, "-o", "out"], options].concat())
    };
    let refused = |options: &[&str], expected: &[&str]| {
        let ended = run(options).expect(1);
        for part in expected {
            assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
        }
        assert!(!shop.place.path("out").exists());
    };
    let lets = format!("--replace-database {target} lets it be replaced");
    refused(&[], &["an archive is restored once", &lets]);
    let replace = ["--replace-database", &target];
    pg.execute(&target, "create table notes (what text); insert into notes values ('mine')");
    refused(&replace, &["needs an empty database", "holds table public.notes"]);
    refused(&[&replace[..], &["--set", "prepare.restore_by=load"]].concat(), &["leave prepare.restore_by"]);
    let kinds =
        ["--set", "workload.scripts=[]", "--set", "workload.kind=[\"tpcb\",\"tpcc\"]", "--scale", "1"];
    refused(&[&replace[..], &kinds].concat(), &["give each archive, and other data, a database of its own"]);
    assert_eq!(pg.ask(&target, "select what from notes"), "mine");
    // A table of an extension is no object of the user's, but its rows may be in the archive or not.
    pg.execute(&target, "alter extension plpgsql add table notes");
    refused(&replace, &["needs an empty database", "holds tables of an extension"]);
    pg.execute(&target, "alter extension plpgsql drop table notes; drop table notes");
    let ended = run(&replace).expect(0);
    let line = format!("restores shop.dump into database {target}");
    assert!(
        ended.stderr.contains(&line) && ended.stderr.contains("restoring `shop.dump`"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.matches("with pg_restore --jobs=").count(), 1, "{}", ended.stderr);
    let results = shop.place.results("out");
    assert_eq!(results.runs.len(), 2);
    for run in &results.runs {
        expect_sound(run);
        assert_eq!(run.record.rows_before["public.orders"], 20_000, "the first run\'s orders are gone");
    }
    let detail = |n: usize| &results.runs[n].record.phase(Phase::Restore).unwrap().detail;
    assert!(detail(0)["archive"].contains("restored from shop.dump"), "{:?}", detail(0));
    assert!(detail(1)["method"].contains("create database from a template"), "{:?}", detail(1));
    // What the last run left stays, and is not taken for nothing.
    assert_ne!(pg.ask(&target, "select count(*) > 20000 from orders"), "f");
    fs::remove_dir_all(shop.place.path("out")).unwrap();
    refused(&replace, &["needs an empty database", "drop it on that server and create it again"]);
    let left = "select count(*) from pg_database where datname like \'pgdyno\\_%\'";
    assert_eq!(pg.ask("postgres", left), "0");
    shop.place.expect_clean();
}

#[test]
fn who_wrote_an_archive_does_not_get_the_server_of_who_restores_it() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let (origin, trace) = (pg.database_of("postgres"), pg.path("reached"));
    pg.execute(
        &origin,
        &format!(
            "create function reach() returns boolean language plpgsql as $f$ begin \
               if current_database() <> '{origin}' then copy (select 1) to program 'cat > {}'; end if; return true; end $f$; \
             create table items (id int check (public.reach())); insert into items values (1); \
             create table orders (item int, n int)",
            trace.display()
        ),
    );
    shop.dump(&pg, &origin, "shop.dump", &["-Fc"]);
    let target = pg.database();
    let run = |url: &str, options: &[&str]| {
        let all = ["run", "shop.toml", PACE, "--server", url, "--replace-database", &target, "-o", "out"];
        shop.place.run(&[&all[..], options].concat())
    };
    let admin = pg.admin_target(&target);
    let bench = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{target}", pg.port);
    let refused = |url: &str, why: &str| {
        for command in ["run", "plan"] {
            let ended = match command {
                "run" => run(url, &[]),
                _ => shop.place.run(&["plan", "shop.toml", "--replace-database", &target, "--server", url]),
            };
            assert!(!trace.exists(), "{ended:?}");
            let ended = ended.expect(1);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(
                said.contains(why) && said.contains("or pass --allow-archive-as-superuser"),
                "{why}\n{said}"
            );
        }
    };
    refused(&admin, "`postgres` is or may become `postgres`, a superuser");
    pg.execute("postgres", "alter role bench createdb createrole");
    refused(&bench, "`bench`, which manages roles (CREATEROLE)");
    pg.execute("postgres", "alter role bench nocreaterole; grant pg_execute_server_program to bench");
    refused(&bench, "`pg_execute_server_program`, which reaches the files and programs of the server");
    pg.execute("postgres", "revoke pg_execute_server_program from bench");
    let other = pg.database_of("postgres");
    let place_of = |statement: &str| if statement.contains("entries") { &*other } else { "postgres" };
    for (grant, revoke, why) in beyond_the_database(&other) {
        for statement in grant {
            pg.execute(place_of(&statement), &statement);
        }
        refused(&bench, &why);
        for statement in revoke {
            pg.execute(place_of(&statement), &statement);
        }
    }
    pg.execute(&target, "grant execute on function pg_rotate_logfile() to bench");
    refused(&bench, "may execute functions of the server that are not everybody's: `pg_rotate_logfile`");
    pg.execute(&target, "revoke execute on function pg_rotate_logfile() from bench");
    // As the owner of this database alone, the archive's code has no more than the owner's rights.
    let ended = run(&bench, &[]);
    assert!(!trace.exists() && ended.stderr.contains("external program"), "{ended:?}");
    expect_no_log(&shop.place);
    let shop_origin = shop_of(&pg);
    fs::remove_file(shop.place.path("shop.dump")).unwrap();
    fs::remove_file(pg.path("shop.dump")).unwrap();
    shop.dump(&pg, &shop_origin, "shop.dump", &["-Fc"]);
    pg.execute("postgres", &format!("drop database {target}"));
    pg.execute("postgres", &format!("create database {target} owner bench"));
    fs::remove_dir_all(shop.place.path("out")).ok();
    let ended = run(&bench, &["--repeats", "1"]).expect(0);
    let line = format!("into database {target} on 127.0.0.1:{} as role bench, whose password", pg.port);
    assert!(ended.stderr.contains(&line), "{line}\n{}", ended.stderr);
    shop.place.expect_clean();
}

/// What pg_restore said is in the error, and no file of it stays.
fn expect_no_log(place: &Place) {
    let is_log = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("restore");
    let cached = fs::read_dir(place.path("cache")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(cached.filter(is_log).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

/// pg_restore reads what the table of contents names, wherever that is.
#[test]
fn an_archive_that_names_files_elsewhere_is_not_restored() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let origin = pg.database_of("postgres");
    pg.execute(&origin, "create table items (name text); insert into items values ('in the archive')");
    pg.execute(&origin, "select lo_from_bytea(4711, 'large')");
    let dump = shop.dump(&pg, &origin, "shop.dump", &["-Fd", "--compress=0"]);
    shop.place.write("buy.sql", "SELECT count(*) FROM items;\n");
    let plan = ["plan", "shop.toml", TRUSTED, "--bin-dir", &shop.bin_dir];
    shop.place.run(&plan).expect(0);
    let contents = fs::read(dump.join("toc.dat")).unwrap();
    let names = fs::read_dir(&dump).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let rows =
        names.into_iter().find(|name| name.ends_with(".dat") && name.as_bytes()[0].is_ascii_digit()).unwrap();
    // A name of the same length: that of a link would do for any file.
    let elsewhere = format!("/{:x>1$}", "", rows.len() - 1);
    fs::write(dump.join("toc.dat"), renamed(&contents, &rows, &elsewhere)).unwrap();
    let refused = shop.place.run(&plan).expect(1);
    assert!(
        refused.stderr.contains(&format!("names `{elsewhere}` as a file of its own")),
        "{}",
        refused.stderr
    );
    fs::write(dump.join("toc.dat"), &contents).unwrap();
    shop.place.run(&plan).expect(0);
    let list = fs::read_to_string(dump.join("blobs.toc")).unwrap();
    fs::write(dump.join("blobs.toc"), list.replace("blob_4711.dat", "../secret.txt")).unwrap();
    let refused = shop.place.run(&plan).expect(1);
    assert!(refused.stderr.contains("names `../secret.txt` as a file of its own"), "{}", refused.stderr);
}

/// What gives `bench` more than the database that it restores into, with statements that give and take it, and the words of the refusal.
fn beyond_the_database(other: &str) -> Vec<(Vec<String>, Vec<String>, String)> {
    let row = |grant: &[String], revoke: &[String], why: &str| {
        (grant.to_vec(), revoke.to_vec(), format!("`bench` {why}"))
    };
    let one = |grant: &str, revoke: &str, why: &str| row(&[grant.into()], &[revoke.into()], why);
    let of_role = |role: &str, why: &str| {
        let (grant, revoke) = (format!("grant {role} to bench"), format!("revoke {role} from bench"));
        one(&grant, &revoke, &format!("is or may become `{role}`, {why}"))
    };
    let owned = |role: &str| format!("alter database {other} owner to {role}");
    // From 15 on, which the roles and privileges of this test need, `bench` may write checkpoints from the start.
    vec![
        one(
            "select 1",
            "revoke pg_checkpoint from bench",
            "is or may become `pg_checkpoint`, which makes the whole server write",
        ),
        of_role("pg_signal_backend", "which ends statements and sessions of others"),
        of_role("pg_write_all_data", "which reaches the tables of all databases"),
        one(&owned("bench"), &owned("postgres"), &format!("owns other databases: `{other}`")),
        row(
            &["create role team".into(), "grant team to bench".into(), owned("team")],
            &[owned("postgres"), "drop role team".into()],
            &format!("owns other databases: `{other}`"),
        ),
        row(
            &["create table entries (id int)".into(), "grant insert on entries to bench".into()],
            &["drop table entries".into()],
            &format!("owns objects or has privileges in other databases: `{other}`"),
        ),
        one(
            "grant alter system on parameter work_mem to bench",
            "revoke alter system on parameter work_mem from bench",
            "may set parameters of the server: `work_mem`",
        ),
    ]
}

/// The bytes with another name of the same length, as the table of contents has it.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty() && from.len() == to.len(), "{from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

/// HammerDB's tables have no marks; its routines may be missing, which are then created.
#[test]
fn a_built_in_workload_runs_on_an_archive_that_another_program_made() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let hammer = pg.database_of("postgres");
    let url = pg.admin_target(&hammer);
    shop.place.run(&["init", "-w", "tproc-c", "-s", "1", "--server", &url]).expect(0);
    pg.execute(&hammer, "comment on table warehouse is null; drop function slev(int, int, int)");
    shop.dump(&pg, &hammer, "hammer.dir", &["-Fd", "--jobs=2", "--compress=1"]);
    let set = ["--set", "workload.restore_from=hammer.dir", "--set", "prepare.settle=false"];
    let run = |scale: &str| {
        let options = ["run", "-w", "tproc-c", "-s", scale, TRUSTED, "--bin-dir", &shop.bin_dir, "-o", "out"];
        let spans = ["--repeats", "1", "--ramp-up", "0s", "--measure", "2s", PACE];
        shop.place.run(&[&options[..], &spans, &set].concat())
    };
    let refused = run("fit").expect(1);
    assert!(
        refused.stderr.contains("give the branches or warehouses that the archive holds"),
        "{}",
        refused.stderr
    );
    run("1").expect(0);
    let run = shop.place.first_run("out");
    expect_sound(&run);
    assert_eq!(run.record.rows_before["stock"], 100_000);
    shop.place.expect_clean();
}

/// What databases of applications have that a new cluster has not: owners, roles of policies, mappings to foreign servers.
const OF_AN_APPLICATION: &str = "\
create role \"Tenant A\"; create role importer; create role app_owner;
create table rents (id int primary key, who text);
insert into rents select i, 'x' from generate_series(1, 1000) i;
alter table rents enable row level security;
create policy own on rents for select to \"Tenant A\" using (who = 'to nobody');
create publication changes for table rents;
create subscription others connection 'dbname=nowhere' publication p with (connect = false);
create function refuse() returns event_trigger language plpgsql as $$ begin end $$;
create event trigger guard on ddl_command_end execute function refuse();
create foreign data wrapper none;
create server far foreign data wrapper none;
create user mapping for importer server far options (password 'S3cret');
grant select on rents to \"Tenant A\";
alter table rents owner to app_owner;
";

#[test]
fn a_dump_of_an_application_needs_none_of_its_roles() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let database = pg.database_of("postgres");
    pg.execute(&database, OF_AN_APPLICATION);
    shop.dump(&pg, &database, "shop.dump", &["-Fc"]);
    pg.execute(&database, "alter subscription others set (slot_name = none); drop subscription others");
    shop.place.write("buy.sql", "SELECT count(*) FROM rents;\n");
    let ended = shop.run(&["--repeats", "1", "-o", "archive"]).expect(0);
    let said = "made without login: Tenant A, importer; left out: 1 publication, 1 subscription, 1 privilege";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);

    // The same as a file of SQL, which begins as schema files do.
    let script = shop.dump(&pg, &database, "plain.sql", &["--exclude-schema=none"]);
    // What a newer pg_dump sets, and servers before 17 do not have.
    let head =
        "\\set ON_ERROR_STOP on\n\\set QUIET 1\n\\timing off\n\\echo loading\nSET transaction_timeout = 0;\n";
    let text = fs::read_to_string(&script).unwrap();
    shop.place.write("plain.sql", &format!("{head}{text}"));
    let experiment = EXPERIMENT.replace("restore_from = \"shop.dump\"", "data = {files = [\"plain.sql\"]}");
    shop.place.write("shop.toml", &experiment);
    let ended = shop.run(&["--repeats", "1", "-o", "file"]).expect(0);
    assert!(ended.stderr.contains("made without login: Tenant A, app_owner, importer"), "{}", ended.stderr);
    let is_known = pg.ask("postgres", "select count(*) from pg_settings where name = 'transaction_timeout'");
    let said = "; passed over, as this server does not have it: SET transaction_timeout";
    assert_eq!(ended.stderr.contains(said), is_known == "0", "{}", ended.stderr);
}

#[test]
fn a_schema_file_says_what_the_server_lacks_for_it() {
    let place = Place::new();
    let bin_dir = bin_dir().display().to_string();
    place.write("one.sql", "select count(*) from t;\n");
    let refused = |sql: &str| {
        place.write("schema.sql", sql);
        let words = "run -f one.sql -c 1 --measure 2s --ramp-up 0s --repeats 1 --yes -o out";
        let last = ["--set", "workload.data={files = [\"schema.sql\"]}", "--bin-dir", &bin_dir];
        let ended = place.run(&words.split_whitespace().chain(last).collect::<Vec<&str>>()).expect(1);
        fs::remove_dir_all(place.path("out")).ok();
        ended.stderr
    };
    let tablespace = "needs a tablespace that this server does not have; create it before, on the server or";
    let said = refused("create table t (n int) tablespace fast;\n");
    assert!(said.contains(&format!("schema.sql:1:1 {tablespace}")), "{said}");
    assert!(said.contains("tablespace \"fast\" does not exist"), "{said}");
    let said = refused("set default_tablespace = fast;\ncreate table t (n int);\n");
    assert!(said.contains(&format!("schema.sql:1:1 {tablespace}")), "{said}");
    let said = refused("create extension no_such_thing;\n");
    let extension = "schema.sql:1:1 needs an extension that this server's installation does not have; install its package";
    assert!(said.contains(extension), "{said}");
    place.expect_clean();
}

const GOODS: &str = "\
format = 1
name = \"goods\"
title = \"Goods\"
about = \"Goods are bought.\"
source = \"own\"
licence = \"MIT\"
data = {restore_from = \"goods.dump\"}

[[table]]
name = \"orders\"
rows = 20000

[[transaction]]
name = \"buy\"

[[check]]
name = \"orders\"
title = \"no order is lost\"
";

#[test]
fn checks_of_a_workload_directory_are_made_on_restored_rows() {
    let (pg, shop) = (Pg::start(), Shop::new());
    let database = shop_of(&pg);
    let place = &shop.place;
    for dir in ["transactions", "checks"] {
        fs::create_dir_all(place.path(&format!("goods/{dir}"))).unwrap();
    }
    let dumped = shop.dump(&pg, &database, "goods.dump", &["-Fc"]);
    fs::rename(dumped, place.path("goods/goods.dump")).unwrap();
    let check = |expected: &str| {
        format!(
            "select count(*) as found, {expected} as expected from orders having count(*) <> {expected};\n"
        )
    };
    place.write("goods/transactions/buy.sql", BUY);
    place.write("goods/checks/orders.sql", &check(":rows_orders + :committed_buy"));
    let run = |out: &str| {
        let options =
            ["--repeats", "1", "--measure", "2s", "--set", "prepare.settle=false", "-c", "2", "-o", out];
        place.run(
            &[&["run", "-w", "./goods", PACE, TRUSTED, "--bin-dir", &shop.bin_dir], &options[..]].concat(),
        )
    };
    // The archive has other rows than the directory says, which only a restore finds out.
    place.write("goods/workload.toml", &GOODS.replace("20000", "19999"));
    let refused = run("refused").expect(1);
    let words = format!("{}{}", refused.stdout, refused.stderr);
    assert!(
        words.contains("violates checks of the workload: orders (no order is lost: found=20000"),
        "{words}"
    );

    place.write("goods/workload.toml", GOODS);
    run("sound").expect(0);
    let record = place.first_run("sound").record;
    assert_eq!(record.violations_after, Default::default());

    place.write("goods/checks/orders.sql", &check(":rows_orders"));
    run("broken");
    let broken = place.first_run("broken").record.violations_after;
    assert!(broken["orders"].starts_with("no order is lost: found=20"), "{broken:?}");
}
