//! Roles without rights on a server by URL: `plan` and `run` name all that is missing at once, each command says it in the words of
//! whom it concerns, and nothing in the database changes.

use model::run::phase::Phase;
use model::telemetry::reading::TickSource;
use testbed::{PASSWORD, Pg, run};

use crate::tool::{Ended, PACE, Place, expect_sound, wait_until};

const CANNOT_CREATE: &str = "`bench` cannot create tables in schema `public` of database";
const CANNOT_REPLACE: &str = "`bench` cannot replace table `public.pgbench_accounts`";

/// A server whose role `bench` has the rights that a test gives it.
struct Server {
    place: Place,
    pg: Pg,
    database: String,
}

impl Server {
    /// A database of `owner`.
    fn new(owner: &str) -> Server {
        let pg = Pg::start();
        let database = pg.database_of(owner);
        pg.execute("postgres", "revoke pg_checkpoint from bench");
        Server { place: Place::new(), pg, database }
    }

    /// Loads scale 1 as superuser.
    fn load(&self) {
        let server = self.pg.admin_target(&self.database);
        self.place.run(&["init", "-s", "1", "--server", &server]).expect(0);
    }

    fn execute(&self, sql: &str) {
        self.pg.execute(&self.database, &sql.replace("DATABASE", &self.database));
    }

    /// Everything in the database.
    fn dump(&self) -> String {
        let mut dump = self.pg.client("pg_dump", &self.database);
        let text = run(dump.arg("--create"));
        // Newer releases protect a dump from being fed to psql by a random word.
        text.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
    }

    /// A command as `bench`.
    fn pgdyno(&self, command: &str) -> Ended {
        let server = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", self.pg.port, self.database);
        let options = match command {
            "plan" | "run" => "-s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false",
            "init" | "check" => "-s 1",
            _ => "",
        };
        let mut args: Vec<&str> = [command].into_iter().chain(options.split_whitespace()).collect();
        if command == "run" {
            args.extend([PACE, "--yes", "-o", "out"]);
        }
        args.extend(["--server", &server]);
        self.place.run(&args)
    }

    /// Each of the commands must end like this, and leave the database as it is.
    #[track_caller]
    fn expect(&self, commands: &[&str], code: i32, words: &[&str]) {
        let before = self.dump();
        for command in commands {
            let ended = self.pgdyno(command).expect(code);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            for words in words {
                assert!(said.contains(words), "{command}: {words}\n{said}");
            }
            assert!(!said.contains("loads 4 tables"), "{command} announces what it cannot do\n{said}");
            assert!(!said.contains(PASSWORD), "{command}\n{said}");
            assert!(!self.place.path("out").exists(), "{command}");
        }
        assert!(self.dump() == before, "{commands:?} changed the database");
        self.place.expect_clean();
    }
}

#[test]
fn what_a_role_lacks_is_reported_at_once_and_nothing_changes() {
    let server = Server::new("postgres");
    server.expect(&["plan", "run", "init"], 1, &[CANNOT_CREATE, "grant create on it"]);
    server.expect(&["check"], 1, &["schema `public` has no TPC-B-like tables"]);

    server.load();
    server.expect(&["plan", "run", "init"], 1, &[CANNOT_CREATE, CANNOT_REPLACE, "belong to `postgres`"]);
    server.expect(&["check"], 1, &["permission denied for table pgbench_"]);
    server.execute("grant select on all tables in schema public to bench");
    server.expect(
        &["plan", "run", "init"],
        1,
        &[CANNOT_CREATE, CANNOT_REPLACE, "-w tpcb-select --no-restore"],
    );
    let way = "add --no-restore (prepare.restore = false): the tables of TPC-B-like are there";
    let target = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let plan = "plan -w tpcb-select -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --server";
    let args: Vec<&str> = plan.split_whitespace().chain([target.as_str()]).collect();
    let said = server.place.run(&args).expect(1).stdout;
    assert!(said.contains(way) && said.contains(CANNOT_CREATE) && !said.contains("grant create"), "{said}");
    server.expect(&["check"], 0, &["each table has the rows of its scale"]);
    server.expect(&["clean"], 0, &["no databases left behind"]);

    let new = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/new", server.pg.port);
    let said = server.place.run(&["init", "--create-database", "-s", "1", "--server", &new]).expect(1).stderr;
    assert!(
        said.contains(
            "create database `new` needs a role that may: alter role bench createdb, as a superuser"
        ),
        "{said}"
    );

    server.execute("revoke all on schema public from public");
    let none = "none of the schemas in the search path of `bench`";
    server.expect(&["plan", "run", "init", "check"], 1, &[none]);
    server.execute("revoke connect on database DATABASE from public");
    server.expect(&["plan", "run", "init", "check"], 1, &["permission denied for database"]);
    server.execute("alter role bench nologin");
    let refused = "refused user `bench` (28000): role \"bench\" is not permitted to log in";
    server.expect(&["plan", "run", "init", "check", "clean"], 1, &[refused]);
}

#[test]
fn what_a_role_cannot_do_to_tables_that_are_measured_as_they_are_is_not_announced() {
    let server = Server::new("postgres");
    server.load();
    server.execute("grant select on all tables in schema public to bench");
    let plan = "plan -c 1 --measure 2s --ramp-up 0s --repeats 1 --no-restore -w select-only --server";
    let target = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let expect = |words: &str| {
        let args: Vec<&str> = plan.split_whitespace().chain([target.as_str()]).collect();
        let said = server.place.run(&args).expect(0).stdout;
        assert!(said.contains("nothing is loaded or restored; ") && said.contains(words), "{words}\n{said}");
        assert!(!said.contains("to load data that is missing"), "{said}");
    };
    expect("; not VACUUM and ANALYZE of its tables either, which `bench` cannot do");
    server.execute("alter table pgbench_accounts owner to bench");
    expect("; VACUUM and ANALYZE of those of its tables that `bench` may tend before each run (");
    server.execute("alter database DATABASE owner to bench");
    expect("; VACUUM and ANALYZE of its tables before each run (");
    server.place.expect_clean();
}

#[test]
fn an_owner_without_pg_monitor_and_pg_checkpoint_measures_and_the_report_says_what_is_missing() {
    let server = Server::new("bench");
    server.pgdyno("run").expect(0);
    let run = server.place.first_run("out");
    expect_sound(&run);
    let unavailable = &run.record.telemetry_unavailable;
    let (_, missing) = unavailable.iter().find(|(what, _)| what.starts_with("server.waiting of")).unwrap();
    assert!(missing.contains("grant it pg_read_all_stats"), "{missing}");
    let checkpoint = format!("{:?}", run.record.phase(Phase::Checkpoint).unwrap().detail);
    assert!(
        checkpoint.contains("neither superuser nor, since 15, in the role pg_checkpoint"),
        "{checkpoint}"
    );
    server.place.expect_clean();
}

/// Docs name eight services that give such a role.
#[test]
fn a_role_as_services_give_it_measures_sees_all_sessions_and_changes_no_settings() {
    let server = Server::new("bench");
    let rights = "alter role bench createdb createrole; grant pg_monitor, pg_signal_backend to bench";
    server.pg.execute("postgres", rights);
    server.pgdyno("run").expect(0);
    let run = server.place.first_run("out");
    expect_sound(&run);
    let unavailable = &run.record.telemetry_unavailable;
    assert!(!unavailable.keys().any(|what| what.starts_with("server.waiting of")), "{unavailable:?}");
    let checkpoint = format!("{:?}", run.record.phase(Phase::Checkpoint).unwrap().detail);
    assert!(checkpoint.contains("pg_checkpoint"), "{checkpoint}");

    let target = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let changes =
        ["plan", "-c", "1", "--server", &target, "--set", "server.settings.work_mem=[\"4MB\",\"8MB\"]"];
    let said = server.place.run(&[&changes[..], &["--allow-changes"]].concat()).expect(1).stdout;
    assert!(said.contains("`bench` cannot change these settings: it needs a superuser"), "{said}");
    let doctor = server.place.run(&["doctor", &target]);
    assert!(doctor.stdout.contains("pg_checkpoint"), "{}", doctor.stdout);
    server.place.expect_clean();
}

#[test]
fn more_clients_than_a_role_or_a_database_may_have_are_refused_with_the_number_that_fits() {
    let server = Server::new("bench");
    let target = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let run = |clients: &str| {
        let options =
            "run -s 1 --measure 2s --ramp-up 0s --repeats 1 --yes -o out --set prepare.settle=false";
        let last = ["-c", clients, "--server", &target, PACE];
        server.place.run(&options.split_whitespace().chain(last).collect::<Vec<&str>>())
    };
    let refused = |whose: &str| {
        let said = run("12").expect(1).stderr;
        let name = whose.split(' ').next().unwrap();
        // A session of the command before may still be about to end.
        for words in [
            format!("12 clients need 14 connections; {whose} has "),
            " free (connection limit 8, ".to_string(),
            format!(" fit: lower workload.clients (--clients), or raise its limit (alter {name} "),
        ] {
            assert!(said.contains(&words), "{words}\n{said}");
        }
        assert!(!server.place.path("out/runs").exists(), "no run was begun");
        std::fs::remove_dir_all(server.place.path("out")).ok();
    };
    server.execute("alter role bench connection limit 8");
    refused("role bench");
    server.execute("alter role bench connection limit 20; alter database DATABASE connection limit 8");
    refused(&format!("database {}", server.database));
    // The number that a plan says does fit, and one more does not.
    let plan = || {
        let options = "plan -s 1 --measure 2s --ramp-up 0s --repeats 1 -c 7 --server";
        let last = [target.as_str()];
        server.place.run(&options.split_whitespace().chain(last).collect::<Vec<&str>>()).expect(1)
    };
    wait_until("the end of the last command's sessions", || {
        let ended = plan();
        format!("{}{}", ended.stdout, ended.stderr).contains("at most 6 fit")
    });
    run("6").expect(0);
    assert!(server.place.first_run("out").record.done.unwrap().counts.committed > 0);
    server.place.expect_clean();
}

/// What a run, and all that reads it, says of other people's work, which a superuser sees and the role of the load cannot.
#[test]
fn what_is_hidden_from_the_role_of_a_run_is_absent_and_not_zero() {
    let server = Server::new("bench");
    let busy = "do $$ begin while clock_timestamp() < now() + '60 s' loop null; end loop; end $$";
    let mut other = server.pg.admin("postgres");
    let pid = other.backend_pid();
    let busy = std::thread::spawn(move || other.execute(busy));
    let target = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{}", server.pg.port, server.database);
    let run = "run -s 1 -c 2 --measure 4s --ramp-up 0s --repeats 1 --yes -o out --server";
    let args: Vec<&str> = run.split_whitespace().chain([target.as_str(), PACE]).collect();
    server.place.run(&args).expect(0);
    server.pg.execute("postgres", &format!("select pg_terminate_backend({pid})"));
    assert!(busy.join().unwrap().is_err());

    let data = server.place.first_run("out");
    let settled = &data.record.phase(Phase::Settle).unwrap().detail;
    assert_eq!(settled["quiet"], "unknown", "{settled:?}");
    assert!(settled["unseen"].contains("sessions of other roles"), "{settled:?}");
    let ticks = || data.ticks.iter().filter(|tick| tick.source == TickSource::Server);
    let has = |key: &str| ticks().any(|tick| tick.values.contains_key(key));
    for key in ["server.on_cpu", "server.foreign_working", "server.wal_directory_bytes", "database.read_time"]
    {
        assert!(!has(key), "{key}");
    }
    for key in ["server.foreign_sessions", "server.connections[hidden]", "waits.processes[client/hidden]"] {
        assert!(has(key), "{key}");
    }
    let csv = std::fs::read_to_string(server.place.path("out").join("runs.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let unknown = names.iter().position(|name| name.starts_with("wal_directory_bytes")).unwrap();
    assert_eq!(values[unknown], "", "{csv}");

    let said = server.place.run(&["report", "out", "--verbose"]).expect(0).stdout;
    for claim in ["insufficient privilege", "no other session"] {
        assert!(!said.contains(claim), "{said}");
    }
    assert!(said.contains("they matter, grant pg_monitor to its role."), "{said}");
    server.place.expect_clean();
}
