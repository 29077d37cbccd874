//! PgBouncer, where it is installed, between a load and its server: how tests start it, and a load whose pooler and then whose
//! server restarts.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{ClusterOptions, TestServer, as_server_user, unused_port};
use wire::{Conninfo, Session};

use crate::judge::Ending;
use crate::tool::{PACE, Place, expect_found, expect_identity, tell, wait_until};

/// Why a test ends early.
pub(crate) const SKIPPED: &str = "skipped: PgBouncer is not installed";

/// Where Debian installs it.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// PgBouncer in front of a server.
pub(crate) struct Pooler {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    pub(crate) port: u16,
    process: Option<Ending>,
}

impl Pooler {
    /// Starts one in this mode; `None` where none is installed.
    pub(crate) fn start(server: &TestServer, mode: &str) -> Option<Pooler> {
        Pooler::start_with(server, mode, "")
    }

    /// The same with more lines of configuration.
    fn start_with(server: &TestServer, mode: &str, more: &str) -> Option<Pooler> {
        let named = std::env::var_os("PGDYNO_PGBOUNCER").map_or_else(|| PROGRAM.into(), PathBuf::from);
        let program = Some(named).filter(|path| Path::new(path).exists())?;
        let port = unused_port();
        let [config, log] = ["ini", "log"].map(|kind| server.path(&format!("pgbouncer-{mode}.{kind}")));
        // After a failed login at the server, it refuses sessions for as long as `server_login_retry` says.
        let text = format!(
            "[databases]\nalias = host={0} port={1} user=postgres dbname=postgres\n* = host={0} port={1} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = {mode}\nlogfile = {2}\nserver_login_retry = 1\n\
             ignore_startup_parameters = extra_float_digits,options\n{more}",
            server.dir().display(),
            server.port,
            log.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut pooler = Pooler { program, config, log, port, process: None };
        pooler.launch();
        Some(pooler)
    }

    fn launch(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-q").arg(&self.config);
        as_server_user(&mut command);
        self.process = Some(Ending::of(command));
        wait_until("pgbouncer", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Kills it, and starts it again after a pause.
    fn restart(&mut self, pause: Duration) {
        self.process = None;
        std::thread::sleep(pause);
        self.launch();
    }

    /// Sessions of clients that it has let in or refused so far.
    fn n_logins(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().matches("login attempt").count()
    }
}

#[test]
fn clients_come_back_through_a_pooler_without_a_storm_of_logins() {
    const CLIENTS: usize = 8;
    /// Sessions of pgdyno itself, with those that look whether it is a pooler.
    const OWN: usize = 12;
    /// The shortest wait before a login that follows one without a commit.
    const WAIT_MIN_S: f64 = 0.025;

    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    server.execute("postgres", "create table hits (n int)");
    let Some(mut pooler) = Pooler::start(&server, "transaction") else { return tell(SKIPPED) };
    place.write("hit.sql", "insert into hits values (1);\n");
    let url = format!("postgresql://postgres@127.0.0.1:{}/postgres", pooler.port);
    let words = format!(
        "run -f hit.sql -c {CLIENTS} --protocol simple --pace 400/s --on-disconnect reconnect --measure 8s --ramp-up 0s \
         --repeats 1 --set prepare.settle=false -o out --server"
    );
    let args: Vec<&str> = words.split_whitespace().chain([url.as_str()]).collect();
    let load = place.start(place.command(&args));

    // The pooler is gone: connections are refused, which are no logins.
    place.wait_for_load("out", 1);
    let n_before = pooler.n_logins();
    pooler.restart(Duration::from_secs(1));
    place.wait_for_load("out", 3);
    let n_again = pooler.n_logins() - n_before;
    assert!((CLIENTS..=CLIENTS + OWN).contains(&n_again), "{n_again} logins at a new pooler");

    // The server is gone: the pooler lets clients in, and ends them at their first statement.
    let begun = Instant::now();
    let n_before = pooler.n_logins();
    server.restart(Duration::from_secs(1));
    server.wait_ready();
    place.wait_for_load("out", 7);
    let n_most = CLIENTS as f64 * begun.elapsed().as_secs_f64() / WAIT_MIN_S;
    let n_again = pooler.n_logins() - n_before;
    assert!(n_again as f64 <= n_most + OWN as f64, "{n_again} logins while the server was gone");
    load.wait().expect(0);

    let run = place.first_run("out");
    expect_identity(&run);
    let done = run.record.done.as_ref().unwrap();
    let (counts, n_clients) = (&done.counts, CLIENTS as u64);
    assert!(done.n_lost >= n_clients && done.clients_lost == 0, "each was lost, and came back: {done:?}");
    assert!(counts.failed + counts.unknown > 0, "{counts:?}");
    let rows: u64 = server.ask("postgres", "select count(*) from hits").parse().unwrap();
    assert!((counts.committed..=counts.committed + counts.unknown).contains(&rows), "{rows}: {counts:?}");
    let last = run
        .intervals
        .iter()
        .filter(|interval| interval.counts.committed > 0)
        .map(|interval| interval.t)
        .max();
    assert!(last >= Some(6), "clients work at the end: {last:?}");
    expect_found(&place, "out", &["connection-lost"]);
    place.expect_clean();
}

#[test]
fn a_database_is_looked_at_by_the_name_that_the_server_has_for_it() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let Some(pooler) = Pooler::start(&server, "transaction") else { return tell(SKIPPED) };
    place.write("one.sql", "select 1;\n");
    let url = format!("postgresql://postgres@127.0.0.1:{}/alias", pooler.port);
    let words = "run -f one.sql -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -o out --server";
    let args: Vec<&str> = words.split_whitespace().chain([url.as_str(), PACE]).collect();
    place.run(&args).expect(0);
    let run = place.first_run("out");
    let missing = &run.record.telemetry_unavailable;
    assert!(!missing.contains_key("database.bytes"), "{missing:?}");
    assert!(missing["statements.calls"].ends_with("is not installed in `postgres`"), "{missing:?}");

    // The pooler gives this session of the server to the next of its clients.
    let mut session =
        Session::connect(&Conninfo::new("127.0.0.1", pooler.port, "postgres", "alias")).unwrap();
    let set = "select string_agg(name, ' ') from pg_settings where source = 'session' and name like 'plan%'";
    assert_eq!(session.query(set).unwrap().scalar(), None, "settings of pgdyno's sessions");
    place.expect_clean();
}

#[test]
fn more_clients_than_a_pooler_has_sessions_for_are_refused_with_the_number_that_fits() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    place.write("one.sql", "select 1;\n");
    let command = |command: &str, pooler: &Pooler, database: &str, clients: &str| {
        let url = format!("postgresql://postgres@127.0.0.1:{}/{database}", pooler.port);
        let words = "-f one.sql --protocol simple --pace 100/s --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";
        let output = if command == "run" { &["-o", database][..] } else { &[] };
        let last = ["-c", clients, "--server", &url];
        let args: Vec<&str> = [command]
            .into_iter()
            .chain(words.split_whitespace())
            .chain(last)
            .chain(output.iter().copied())
            .collect();
        place.run(&args)
    };
    let refused = |pooler: &Pooler, words: &str| {
        for name in ["plan", "run"] {
            let ended = command(name, pooler, "postgres", "20").expect(1);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(said.contains(words), "{name}: {said}");
        }
        assert!(!place.path("postgres/runs").exists(), "no run was begun");
        std::fs::remove_dir_all(place.path("postgres")).ok();
    };
    let Some(pooler) = Pooler::start_with(&server, "session", "default_pool_size = 6\n") else {
        return tell(SKIPPED);
    };
    refused(
        &pooler,
        "20 clients need 22 sessions, 2 of them pgdyno's; the pooler, which is in session mode, has 6 at the server for them \
         (pool_size 6); at most 4 fit: lower workload.clients (--clients), or raise pool_size",
    );
    command("run", &pooler, "postgres", "4").expect(0);
    let console = command("plan", &pooler, "pgbouncer", "4").expect(1);
    let said = format!("{}{}", console.stdout, console.stderr);
    assert!(
        said.contains("is the console of PgBouncer, not a server; name a database that it leads to"),
        "{said}"
    );
    drop(pooler);
    std::fs::remove_dir_all(place.path("postgres")).unwrap();

    let pooler = Pooler::start_with(&server, "transaction", "max_client_conn = 12\n").unwrap();
    refused(&pooler, "the pooler lets in 12 (max_client_conn 12); at most 10 fit: lower workload.clients");
    command("run", &pooler, "postgres", "10").expect(0);
    drop(pooler);
    std::fs::remove_dir_all(place.path("postgres")).unwrap();

    // What the console does not show to our role is unknown: the run fails, and says why.
    let users = server.path("users.txt");
    std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
    let hidden = format!("auth_type = trust\nauth_file = {}\nmax_client_conn = 12\n", users.display());
    let pooler = Pooler::start_with(&server, "transaction", &hidden).unwrap();
    command("plan", &pooler, "postgres", "20").expect(0);
    let failed = command("run", &pooler, "postgres", "20").expect(1);
    let said = format!("{}{}", failed.stdout, failed.stderr);
    let words =
        "(max_client_conn); lower workload.clients (--clients), or raise max_client_conn of the pooler";
    assert!(said.contains(words), "{said}");
    place.expect_clean();
}
