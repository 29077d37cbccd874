//! A server that somebody else runs, adopted by its connection settings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::telemetry::watch::Backend;
use wire::{Conninfo, Session};

use crate::database::facts::{ask, in_recovery, is_superuser, version_num};

/// A running server that is measured as it is.
#[derive(Debug, Clone)]
pub struct Target {
    /// How to connect.
    pub conninfo: Conninfo,
    /// PostgreSQL, or something that speaks its protocol.
    pub flavor: Flavor,
    /// `server_version_num`.
    pub version_num: u32,
    /// Whether our user is a superuser.
    pub is_superuser: bool,
    /// Whether it is a standby, which takes no writes.
    pub in_recovery: bool,
    /// Whether a connection pooler stands between.
    pub is_pooled: bool,
    /// Processes, if the server runs on this machine and they are visible.
    pub local: Option<LocalServer>,
}

/// The software of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flavor {
    /// PostgreSQL, also as a managed service.
    Postgres,
    /// Something that speaks PostgreSQL's protocol.
    Other(String),
}

/// The processes of a server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// Process id of the postmaster.
    pub postmaster_pid: u32,
    /// Data directory, if it may be known.
    pub data_directory: Option<PathBuf>,
}

impl Target {
    /// Adopts the server that `text` names in libpq's notation: URL, key=value, or empty for the PG* environment.
    pub fn adopt(text: &str) -> Result<Target> {
        Target::new(Conninfo::resolve(text)?)
    }

    /// Adopts the server behind these connection settings.
    pub fn new(conninfo: Conninfo) -> Result<Target> {
        let mut session = Session::connect(&conninfo)?;
        session.empty_search_path()?;
        Target::at(&mut session, conninfo)
    }

    /// Adopts the server that `session` was connected to by these settings.
    pub fn at(session: &mut Session, conninfo: Conninfo) -> Result<Target> {
        let version =
            ask(session, "select pg_catalog.version()").context("ask the server for its version")?;
        let version_num = version_num(session)?;
        let pid = ask(session, "select pg_catalog.pg_backend_pid()").unwrap_or_default();
        Ok(Target {
            flavor: flavor_of(&version),
            version_num,
            is_superuser: is_superuser(session),
            in_recovery: in_recovery(session),
            // A pooler answers the start of a session itself, with a process id that it makes up.
            is_pooled: pid.parse() != Ok(session.backend_pid()),
            local: locate(session),
            conninfo,
        })
    }

    /// A new session.
    pub fn session(&self) -> Result<Session> {
        Ok(Session::connect(&self.conninfo)?)
    }
}

/// Whether a pooler assigns server connections for one transaction at a time: then two connected sessions
/// have the same server process, or one has had two.
///
/// # Errors
/// When the server fails.
pub fn pools_transactions(first: &mut Session, second: &mut Session) -> Result<bool> {
    const PID: &str = "select pg_catalog.pg_backend_pid()";
    let before = ask(first, PID)?;
    second.execute("begin")?;
    // The second has its own now. If it is the one that the first had, there may be no other.
    let is_shared = ask(second, PID)? == before || ask(first, PID)? != before;
    second.execute("rollback")?;
    Ok(is_shared)
}

/// Whether a pooler renames prepared statements, and so keeps those of different clients apart
/// (PgBouncer since 1.21 with `max_prepared_statements`).
///
/// # Errors
/// When the server fails.
pub fn rewrites_statement_names(session: &mut Session) -> Result<bool> {
    const NAME: &str = "pgdyno_probe";
    session.execute("begin")?;
    session.prepare(NAME, "select 1")?;
    let kept = ask(
        session,
        &format!("select pg_catalog.count(*) from pg_catalog.pg_prepared_statements where name = '{NAME}'"),
    )?;
    if kept != "0" {
        session.execute(&format!("deallocate {NAME}"))?;
    }
    session.execute("rollback")?;
    Ok(kept == "0")
}

/// The processes of the session's server, if they run on this machine: the backend of the session must be a
/// local process of PostgreSQL that started when the server says that the session did.
pub fn locate(session: &mut Session) -> Option<LocalServer> {
    let postmaster_pid = postmaster_of(backend_of(session)?).ok()?;
    Some(LocalServer { postmaster_pid, data_directory: data_directory(session) })
}

/// The server process of a session, also behind a pooler. Names are qualified: what stands in somebody's search path may
/// not decide which process is taken for the server.
pub fn backend_of(session: &mut Session) -> Option<Backend> {
    let pid: u32 = ask(session, "select pg_catalog.pg_backend_pid()").ok()?.parse().ok()?;
    let age = "select extract(epoch from pg_catalog.clock_timestamp() - backend_start)::float8 \
               from pg_catalog.pg_stat_activity where pid = pg_catalog.pg_backend_pid()";
    let age_s: f64 = ask(session, age).ok()?.parse().ok()?;
    Some(Backend { pid, age_s })
}

/// The server's data directory, if our user may know it.
pub fn data_directory(session: &mut Session) -> Option<PathBuf> {
    ask(session, "show data_directory").ok().map(PathBuf::from)
}

/// The WAL directory of a data directory on this machine, wherever a link there leads. Releases before 10 call it `pg_xlog`.
///
/// # Errors
/// Why it was not found, for people.
pub fn wal_of(data: &Path) -> Result<PathBuf, String> {
    let places = ["pg_wal", "pg_xlog"].map(|name| data.join(name));
    let is_hidden = |path: &PathBuf| {
        fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let Some(path) = places.iter().find(|path| path.exists()) else {
        return Err(if places.iter().any(is_hidden) {
            format!(
                "`{}` is closed to this user; run pgdyno as the server's user or as root to see its WAL directory",
                data.display()
            )
        } else {
            format!("`{}` has neither `pg_wal` nor `pg_xlog`", data.display())
        });
    };
    path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()))
}

/// Where the server's log collector writes now, if there is one and our user may know it.
pub fn log_path(session: &mut Session) -> Option<PathBuf> {
    let path = ask(session, "select pg_catalog.pg_current_logfile('stderr')")
        .ok()
        .filter(|path| !path.is_empty())?;
    // Relative to the data directory.
    Some(data_directory(session)?.join(path))
}

/// The postmaster of a server process, if it runs on this machine: a process of PostgreSQL with this id must have started
/// when the server says that the session did.
///
/// # Errors
/// Why it was not found, for people.
pub fn postmaster_of(backend: Backend) -> Result<u32, String> {
    let Backend { pid, age_s } = backend;
    let found = ProcessFacts::read(pid)
        .ok_or(format!("no process with the id {pid} of a server process is visible"))?;
    let is_it = found.is_postgres() && found.age_s().is_some_and(|age| (age - age_s).abs() <= 2.0);
    if !is_it {
        return Err(format!(
            "the process {pid} is not the server process of that id, which is on another machine or in a container"
        ));
    }
    let postmaster = ProcessFacts::read(found.parent_pid).filter(ProcessFacts::is_postgres);
    postmaster
        .map(|_| found.parent_pid)
        .ok_or(format!("the parent of the server process {pid} is not visible"))
}

struct ProcessFacts {
    name: String,
    parent_pid: u32,
    start_ticks: u64,
}

impl ProcessFacts {
    fn read(pid: u32) -> Option<ProcessFacts> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (begin, end) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text[end + 1..].split_whitespace().collect();
        Some(ProcessFacts {
            name: text[begin + 1..end].to_string(),
            parent_pid: fields.get(1)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    fn is_postgres(&self) -> bool {
        self.name.starts_with("postgres") || self.name == "postmaster"
    }

    fn age_s(&self) -> Option<f64> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let ticks_per_s =
            nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().filter(|n| *n > 0)?;
        Some(uptime_s - self.start_ticks as f64 / ticks_per_s as f64)
    }
}

/// The software by its `version()`. Derivatives keep PostgreSQL's name and add theirs.
fn flavor_of(version: &str) -> Flavor {
    const MARKS: [(&str, &str); 5] = [
        ("-YB-", "YugabyteDB"),
        ("Redshift", "Redshift"),
        ("Greenplum", "Greenplum"),
        ("Materialize", "Materialize"),
        ("Cockroach", "CockroachDB"),
    ];
    if let Some((_, name)) = MARKS.iter().find(|(mark, _)| version.contains(mark)) {
        return Flavor::Other((*name).to_string());
    }
    if version.starts_with("PostgreSQL ") || version.starts_with("EnterpriseDB ") {
        return Flavor::Postgres;
    }
    Flavor::Other(version.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_distinguished_from_postgres() {
        let other = |name: &str| Flavor::Other(name.to_string());
        for (version, expected) in [
            ("PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu", Flavor::Postgres),
            ("PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu", other("YugabyteDB")),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc, Redshift 1.0.1", other("Redshift")),
            ("CockroachDB CCL v23.1.0 (x86_64-pc-linux-gnu)", other("CockroachDB")),
            ("Something 1.0 that speaks", other("Something 1.0")),
            ("", other("")),
        ] {
            assert_eq!(flavor_of(version), expected, "{version}");
        }
    }

    #[test]
    fn the_wal_is_found_by_its_name_of_old_and_new_releases() {
        let place = tempfile::tempdir().unwrap();
        let check = |name: &str, make: &dyn Fn(&Path), expected: Result<PathBuf, &str>| {
            let data = place.path().join(name);
            fs::create_dir(&data).unwrap();
            make(&data);
            match (wal_of(&data), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected.canonicalize().unwrap()),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                other => panic!("{name}: {other:?}"),
            }
        };
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let link = |path: PathBuf| std::os::unix::fs::symlink(&elsewhere, path).unwrap();
        check("18", &|data| link(data.join("pg_wal")), Ok(elsewhere.clone()));
        check("9.6", &|data| link(data.join("pg_xlog")), Ok(elsewhere.clone()));
        let own = place.path().join("9.5/pg_xlog");
        check("9.5", &|data| fs::create_dir(data.join("pg_xlog")).unwrap(), Ok(own));
        check("none", &|_| (), Err("has neither `pg_wal` nor `pg_xlog`"));
    }

    #[test]
    fn this_process_has_an_age_and_is_not_postgres() {
        let me = ProcessFacts::read(std::process::id()).unwrap();
        assert!((0.0..3600.0).contains(&me.age_s().unwrap()));
        assert!(!me.is_postgres());
        let refused = postmaster_of(Backend { pid: std::process::id(), age_s: me.age_s().unwrap() });
        assert!(refused.unwrap_err().contains("on another machine or in a container"));
    }
}
