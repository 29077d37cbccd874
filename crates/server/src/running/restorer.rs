//! Which `pg_restore` and `vacuumdb` restore an archive, as whom they run, and how they reach the database.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use files::trust;
use model::release::Release;
use model::release::programs::reads_archives;
use wire::conninfo::keyword_text;
use wire::{Conninfo, Host, Secret};

use crate::binaries::{Binaries, installed, series, version_num};
use crate::cluster::damaged::RESTORE_LIST;
use crate::cluster::{Cluster, DATABASE, RESTORE_LOG, SUPERUSER};
use crate::process::command::server_command;
use crate::process::spawn::output_of;
use crate::running::launch::OwnServer;
use crate::user::account::Account;

/// The programs that restoring calls.
const PROGRAMS: [&str; 2] = ["pg_restore", "vacuumdb"];

/// Programs that restore, and the database that they restore into.
#[derive(Debug)]
pub struct Restorer {
    /// Where the programs are.
    pub bin_dir: PathBuf,
    /// Their version: `15.18 (Debian 15.18-1)`.
    pub version: String,
    /// Their version as `server_version_num`: 150018.
    pub version_num: u32,
    /// Who runs them.
    pub(crate) account: Account,
    /// The database, in libpq's key=value format.
    dbname: String,
    password: Option<Secret>,
    /// Where their output goes until it is read.
    pub(crate) log: PathBuf,
    /// Where the list of what they restore is while they do.
    pub(crate) list: PathBuf,
}

impl Restorer {
    /// The programs of a cluster's own binaries, or those of this machine that are as new, for an archive of this version of `pg_dump` and
    /// the database of its running server.
    ///
    /// # Errors
    /// When there are none.
    pub fn of_cluster(cluster: &Cluster, server: &OwnServer, dump_version: &str) -> Result<Restorer> {
        let socket_dir = server.socket_dir().display().to_string();
        let conninfo = Conninfo::new(&socket_dir, server.port(), SUPERUSER, DATABASE);
        let mut restorer = Restorer {
            bin_dir: programs_for(&cluster.binaries, dump_version)?,
            version: String::new(),
            version_num: 0,
            account: cluster.account.clone(),
            dbname: dbname_of(&conninfo),
            password: None,
            log: cluster.root.join(RESTORE_LOG),
            list: cluster.root.join(RESTORE_LIST),
        };
        restorer.ask_version()?;
        Ok(restorer)
    }

    /// The programs of this machine that read an archive of this version of `pg_dump` and fit a server of version `server_num`, which
    /// `conninfo` leads to: those of an installed package of its series, else those on the path. They run as this process's user, whose rights reach the server; their output
    /// goes into `scratch`.
    ///
    /// # Errors
    /// When they are not here, or somebody else could change them: with what to do.
    pub fn of_url(
        conninfo: &Conninfo,
        server_num: u32,
        dump_version: &str,
        scratch: &Path,
    ) -> Result<Restorer> {
        ensure!(
            conninfo.hosts.len() <= 1,
            "workload.restore_from needs a URL with one host, so that the archive gets into the database that was examined"
        );
        // libpq takes the password of a key from the connection string alone, and every user can read a program's arguments.
        ensure!(
            conninfo.key_password.is_none(),
            "pg_restore cannot be given `sslpassword` without showing it; name a key without a password in `sslkey` \
             (openssl pkey -in KEY -out NEW)"
        );
        let series = series(server_num);
        let installed = ["/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin"]
            .map(|dir| PathBuf::from(dir.replace("{}", &series)));
        let path = env::var_os("PATH").unwrap_or_default();
        let account = Account::ourselves();
        let dirs = installed.into_iter().chain(env::split_paths(&path));
        let bin_dir = first_that_reads(dirs, dump_version, &account)?.with_context(|| {
            format!(
                "workload.restore_from needs the programs `pg_restore` and `vacuumdb`, which are not on this machine; install the \
                 client programs of PostgreSQL {series} (package postgresql-client-{series} or postgresql{series})"
            )
        })?;
        let mut restorer = Restorer {
            bin_dir,
            version: String::new(),
            version_num: 0,
            account,
            dbname: dbname_of(conninfo),
            password: password_of(conninfo),
            log: scratch.join(format!("restore-{}.log", std::process::id())),
            list: scratch.join(format!("restore-{}.list", std::process::id())),
        };
        restorer.ask_version()?;
        Ok(restorer)
    }

    fn ask_version(&mut self) -> Result<()> {
        let mut command = self.program("pg_restore")?;
        command.arg("--version");
        let output = output_of(command).context("cannot run `pg_restore`")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.trim().trim_start_matches("pg_restore (PostgreSQL) ");
        let shown = self.bin_dir.join("pg_restore");
        self.version_num = version_num(version).with_context(|| {
            format!("`{} --version` says `{}`, which is no version", shown.display(), said.trim())
        })?;
        self.version = version.to_string();
        Ok(())
    }

    /// One of the programs.
    pub(crate) fn program(&self, name: &str) -> Result<Command> {
        let path = self.bin_dir.join(name);
        ensure!(
            path.exists(),
            "`{}` has no `{name}`, which workload.restore_from needs; install the client programs of PostgreSQL {} there",
            self.bin_dir.display(),
            self.version
        );
        Ok(server_command(&path, &self.account, Path::new("/")))
    }

    /// One of the programs, connected to the database. A password is in its environment, which only the user who runs it can read.
    pub(crate) fn connected(&self, name: &str) -> Result<Command> {
        let mut command = self.program(name)?;
        command.arg(format!("--dbname={}", self.dbname)).arg("--no-password");
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password.expose());
        }
        Ok(command)
    }
}

/// Where the programs are that restore an archive of this version of `pg_dump` into a server of these binaries: with them, or installed,
/// of its series if there are some. Fetched builds have none.
///
/// # Errors
/// When there are none, or none that reads the archive: with what to install.
pub fn programs_for(binaries: &Binaries, dump_version: &str) -> Result<PathBuf> {
    let has_own = PROGRAMS.iter().all(|name| binaries.program(name).is_file());
    if has_own && reads_archive(Release::new(binaries.version_num), dump_version) {
        return Ok(binaries.bin_dir.clone());
    }
    let suits = |release: Release| reads_archive(release, dump_version);
    if let Some(dir) = installed::clients(&PROGRAMS, binaries.version_num, &suits) {
        return Ok(dir);
    }
    let has_others = || installed::clients(&PROGRAMS, binaries.version_num, &|_| true).is_some();
    ensure!(!has_own && !has_others(), "{}", no_reader(dump_version));
    let series = binaries.series();
    Err(anyhow!(
        "workload.restore_from needs `pg_restore` and `vacuumdb`: `{}` does not have them, and this machine has none; install the \
             client programs (package postgresql-client-{series} or postgresql{series}), or measure a server that has them \
             (server.bin_dir, or a version that is installed)",
        binaries.bin_dir.display()
    ))
}

/// Whether programs of a release read an archive of this version of `pg_dump`. What is no version is tried.
fn reads_archive(programs: Release, dump_version: &str) -> bool {
    version_num(dump_version).is_none_or(|num| reads_archives(programs, Release::new(num)))
}

/// The first directory whose programs read such an archive; none if none has the programs. As root, only programs that nobody but root
/// could have changed are asked for their version.
fn first_that_reads(
    dirs: impl Iterator<Item = PathBuf>,
    dump_version: &str,
    account: &Account,
) -> Result<Option<PathBuf>> {
    let has_all = |dir: &PathBuf| PROGRAMS.iter().all(|name| dir.join(name).is_file());
    let mut has_older = false;
    for dir in dirs.filter(has_all) {
        if account.uid == 0 {
            PROGRAMS.iter().try_for_each(|name| trust::check_program(&dir.join(name), account.uid))?;
        }
        if reads(&dir, dump_version) {
            return Ok(Some(dir));
        }
        has_older = true;
    }
    ensure!(!has_older, "{}", no_reader(dump_version));
    Ok(None)
}

/// The same for the programs in a directory. Those that do not say what they are are tried, and fail by name.
fn reads(bin_dir: &Path, dump_version: &str) -> bool {
    let version = installed::version_of(&bin_dir.join(PROGRAMS[0]));
    version.is_none_or(|num| reads_archive(Release::new(num), dump_version))
}

fn no_reader(dump_version: &str) -> String {
    let series = version_num(dump_version).map_or(dump_version.to_string(), series);
    format!(
        "workload.restore_from: pg_dump {dump_version} made the archive, and no `pg_restore` on this machine is new enough to read it; install \
         the client programs of PostgreSQL {series} (package postgresql-client-{series} or postgresql{series}), or dump again with an older pg_dump"
    )
}

/// The connection in words of libpq's. What has its default is left out: an older libpq might not know the keyword. So are settings
/// of our sessions, which libpq has no keywords for.
fn dbname_of(conninfo: &Conninfo) -> String {
    let given = Conninfo { session_settings: BTreeMap::new(), ..conninfo.clone() };
    let Host { host, port, .. } = given.hosts.first().cloned().unwrap_or_default();
    let plain = Conninfo::new(&host, port, &given.user, &given.dbname).keywords();
    let always = ["host", "port", "user", "dbname"];
    let mut keywords = given.keywords();
    keywords.retain(|key, value| always.contains(&key.as_str()) || plain.get(key) != Some(value));
    keyword_text(&keywords)
}

/// The password for the one host.
fn password_of(conninfo: &Conninfo) -> Option<Secret> {
    let of_hosts = conninfo.host_passwords.iter().flatten().next();
    conninfo.password.as_ref().or(of_hosts).cloned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_archive_that_is_too_new_is_named_with_what_reads_it() {
        let of_15 = Release::new(150_018);
        assert!(!reads_archive(of_15, "18.1 (Debian 18.1-1)"));
        assert!(reads_archive(of_15, "15.20") && reads_archive(of_15, "a fork of mine"));
        let why = no_reader("18.1 (Debian 18.1-1)");
        assert!(
            why.contains("pg_dump 18.1 (Debian 18.1-1)") && why.contains("postgresql-client-18 or"),
            "{why}"
        );
    }

    #[test]
    fn only_what_differs_from_libpqs_defaults_is_said_and_no_password() {
        let mut conninfo = Conninfo::new("db.example", 5433, "bench", "it's");
        conninfo.password = Some(Secret::new("S3cret"));
        conninfo.session_settings.insert("timezone".to_string(), "UTC".to_string());
        let plain = "dbname='it\\'s' host='db.example' port='5433' user='bench'";
        assert_eq!(dbname_of(&conninfo), plain);
        conninfo.sslrootcert = Some("/etc/ca.pem".to_string());
        assert_eq!(dbname_of(&conninfo), plain.replace(" user=", " sslrootcert='/etc/ca.pem' user="));
        assert_eq!(password_of(&conninfo).unwrap().expose(), "S3cret");
    }

    #[test]
    fn programs_that_are_too_old_are_passed_over_and_named_if_there_are_no_others() {
        let account = Account::ourselves();
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let of = |version: &str| {
            let dir = place.path().join(version);
            std::fs::create_dir(&dir).unwrap();
            for name in PROGRAMS {
                let script = format!("#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n");
                std::fs::write(dir.join(name), script).unwrap();
                std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            dir
        };
        let (old, new, none) = (of("15.18"), of("18.1"), place.path().join("none"));
        let chosen = |dirs: &[&PathBuf]| {
            first_that_reads(dirs.iter().map(|dir| (*dir).clone()), "17.2 (Debian 17.2-1)", &account)
        };
        assert_eq!(chosen(&[&none, &old, &new]).unwrap(), Some(new));
        let refused = chosen(&[&old]).unwrap_err().to_string();
        assert!(refused.contains("postgresql-client-17"), "{refused}");
        assert_eq!(chosen(&[&none]).unwrap(), None);
    }

    /// libpq would send the first host's password to all of them.
    #[test]
    fn a_url_of_several_hosts_gets_no_archive() {
        let mut conninfo = Conninfo::new("one.example", 5432, "bench", "shop");
        conninfo.hosts.push(Host { host: "other.example".to_string(), ..conninfo.hosts[0].clone() });
        let refused = Restorer::of_url(&conninfo, 160_000, "16.1", Path::new("/nowhere")).unwrap_err();
        assert!(refused.to_string().contains("needs a URL with one host"), "{refused:#}");
    }
}
