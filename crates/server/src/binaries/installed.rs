//! Which PostgreSQL this machine has installed: servers, and programs that restore archives. They are found where
//! distributions and PGDG put them, and where `pg_config` says that they are. Nothing is installed or changed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use files::trust;
use model::release::Release;
use model::text::units::PgVersion;

use crate::binaries::{Binaries, series, version_num};
use crate::process::command::server_command;
use crate::process::spawn::output_of;
use crate::user::account::Account;

/// Where packages put one directory for each series: what stands before and after the series in its name.
const PLACES: [(&str, &str); 5] = [
    // Debian and Ubuntu, and PGDG's packages for them.
    ("/usr/lib/postgresql/", "/bin"),
    // PGDG's packages for Red Hat's family and SUSE.
    ("/usr/pgsql-", "/bin"),
    // SUSE's own.
    ("/usr/lib/postgresql", "/bin"),
    // Gentoo's.
    ("/usr/lib64/postgresql-", "/bin"),
    // Alpine's.
    ("/usr/libexec/postgresql", ""),
];
/// Where a distribution with one series puts it, and PostgreSQL's own `make install`.
const SINGLE: [&str; 2] = ["/usr/bin", "/usr/local/pgsql/bin"];
/// The program that says where the others are.
const PG_CONFIG: &str = "pg_config";
/// Programs that a server needs.
const SERVER: [&str; 2] = ["postgres", "initdb"];

/// The installed servers that run here, newest first. As root, only those that nobody but root could have changed. They are
/// looked for once per process.
pub fn servers() -> &'static [Binaries] {
    static FOUND: OnceLock<Vec<Binaries>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let has_server = |dir: &PathBuf| SERVER.iter().all(|name| dir.join(name).is_file());
        let dirs = directories().into_iter().filter(has_server);
        newest_first(
            dirs.filter(|dir| is_trusted(dir, &SERVER)).filter_map(|dir| Binaries::from_bin_dir(&dir).ok()),
        )
    })
}

fn newest_first(all: impl Iterator<Item = Binaries>) -> Vec<Binaries> {
    let mut found: Vec<Binaries> = Vec::new();
    for binaries in all {
        if !found.iter().any(|known| known.bin_dir == binaries.bin_dir) {
            found.push(binaries);
        }
    }
    // The sort is stable: of equal versions, the one of the first place.
    found.sort_by_key(|binaries| std::cmp::Reverse(binaries.version_num));
    found
}

/// The installed server of a series (`15`: its newest) or of an exact release (`15.20`).
///
/// # Errors
/// When there is none: with what is installed, and what to do.
pub fn server(version: &PgVersion) -> Result<&'static Binaries> {
    let is_meant = |binaries: &&Binaries| is_of(binaries, version);
    servers().iter().find(is_meant).with_context(|| {
        format!(
            "PostgreSQL {version} is not installed here ({}); install it, or let pgdyno fetch it (server.build = \"fetched\")",
            words(servers())
        )
    })
}

/// Whether the binaries are of this series or release. A beta is no release of its series.
fn is_of(binaries: &Binaries, version: &PgVersion) -> bool {
    if !is_release(binaries) {
        return false;
    }
    if version.as_str() == version.series() {
        binaries.series() == version.as_str()
    } else {
        version_num(version.as_str()) == Some(binaries.version_num)
    }
}

/// Whether it is a release: `15.20 (Debian 15.20-1)`, and neither `19beta1` nor `19devel`.
fn is_release(binaries: &Binaries) -> bool {
    let number = binaries.version.split_whitespace().next().unwrap_or_default();
    number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// The series of the newest installed server, if one is installed.
pub fn newest() -> Option<PgVersion> {
    servers().iter().find(|binaries| is_release(binaries))?.series().parse().ok()
}

/// Installed servers in words: ``15.20 is, in `/usr/lib/postgresql/15/bin` ``.
pub fn words(all: &[Binaries]) -> String {
    let each = |binaries: &Binaries| {
        let number = binaries.version.split_whitespace().next().unwrap_or_default();
        format!("{number} in `{}`", binaries.bin_dir.display())
    };
    match all {
        [] => "no server is".to_string(),
        all => format!("found {}", all.iter().map(each).collect::<Vec<_>>().join(", ")),
    }
}

/// The directory with all of `programs` whose series is that of a server of version `server_num`, else the oldest one that is newer: it
/// knows all that the server has. Else the newest one that is older: a newer server takes what an older `pg_dump` has written. Only those
/// of a version that `suits`; as root, only where nobody but root could have changed them.
pub(crate) fn clients(
    programs: &[&str],
    server_num: u32,
    suits: &dyn Fn(Release) -> bool,
) -> Option<PathBuf> {
    let has_all = |dir: &PathBuf| programs.iter().all(|name| dir.join(name).is_file());
    let dirs = directories().into_iter().filter(|dir| has_all(dir) && is_trusted(dir, programs));
    let with_version = dirs
        .filter_map(|dir| Some((version_of(&dir.join(programs[0]))?, dir)))
        .filter(|(num, _)| suits(Release::new(*num)));
    let major = |num: u32| num / 10_000;
    let rank = |num: u32| match num {
        _ if series(num) == series(server_num) => (0, i64::from(num)),
        _ if num > server_num && major(num) >= major(server_num) => (1, i64::from(num)),
        _ => (2, -i64::from(num)),
    };
    with_version.min_by_key(|(num, _)| rank(*num)).map(|(_, dir)| dir)
}

/// `pg_restore (PostgreSQL) 15.20 (Debian 15.20-1)` to 150020.
pub(crate) fn version_of(program: &Path) -> Option<u32> {
    let mut command = server_command(program, &Account::choose().ok()?, Path::new("/"));
    command.arg("--version");
    let output = output_of(command).ok()?;
    version_num(String::from_utf8_lossy(&output.stdout).split_once(") ")?.1.trim())
}

/// Directories that may hold programs of PostgreSQL, without repetition.
fn directories() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = PLACES.iter().flat_map(|(before, after)| of_series(before, after)).collect();
    all.extend(of_pg_config());
    all.extend(SINGLE.map(PathBuf::from));
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in all.iter().filter_map(|dir| dir.canonicalize().ok()) {
        if !found.contains(&dir) {
            found.push(dir);
        }
    }
    found
}

/// The directories of one kind of package, by the names that are there.
fn of_series(before: &str, after: &str) -> Vec<PathBuf> {
    let (parent, start) = before.rsplit_once('/').unwrap_or(("", before));
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let named = fs::read_dir(parent).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_one = name.strip_prefix(start).is_some_and(is_number);
        is_one.then(|| PathBuf::from(format!("{parent}/{name}{after}")))
    });
    let mut all: Vec<PathBuf> = named.collect();
    all.sort();
    all
}

/// Where the first `pg_config` of the path says that the programs of its installation are. As root, only if nobody but root could
/// have changed it; it runs as the server's user anyway.
fn of_pg_config() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(PG_CONFIG));
    let program = program.into_iter().find(|program| program.is_file())?;
    if !is_trusted(program.parent()?, &[PG_CONFIG]) {
        return None;
    }
    let mut command = server_command(&program, &Account::choose().ok()?, Path::new("/"));
    command.arg("--bindir");
    let output = output_of(command).ok().filter(|output| output.status.success())?;
    let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    dir.is_absolute().then_some(dir)
}

/// Whether root may run the programs in `dir` without having been asked: root trusts only what root owns. Other users run what is
/// installed, as their shells do.
fn is_trusted(dir: &Path, programs: &[&str]) -> bool {
    !nix::unistd::geteuid().is_root()
        || programs.iter().all(|name| trust::check_program(&dir.join(name), 0).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::BinariesOrigin;

    fn binaries(version: &str, dir: &str) -> Binaries {
        Binaries {
            bin_dir: PathBuf::from(dir),
            version: version.to_string(),
            version_num: version_num(version).unwrap(),
            origin: BinariesOrigin::Given,
        }
    }

    #[test]
    fn a_series_means_any_of_its_releases_and_a_release_itself() {
        for (installed, asked, expected) in [
            ("15.20 (Debian 15.20-0+deb12u1)", "15", true),
            ("15.20 (Debian 15.20-0+deb12u1)", "15.20", true),
            ("15.20", "15.19", false),
            ("15.20", "1.5", false),
            ("9.6.24", "9.6", true),
            ("9.5.21", "9.6", false),
            ("19beta1", "19", false),
            ("18devel", "18", false),
        ] {
            let Ok(asked) = asked.parse() else { continue };
            assert_eq!(is_of(&binaries(installed, "/x"), &asked), expected, "{installed} {asked}");
        }
    }

    #[test]
    fn servers_are_listed_newest_first_by_number_and_each_directory_once() {
        let all = [("9.6.24", "/a"), ("18.1", "/b"), ("10.23", "/c"), ("18.1", "/b"), ("18.1", "/d")];
        let found = newest_first(all.iter().map(|(version, dir)| binaries(version, dir)));
        let dirs: Vec<_> = found.iter().map(|binaries| binaries.bin_dir.to_str().unwrap()).collect();
        assert_eq!(dirs, ["/b", "/d", "/c", "/a"]);
    }

    #[test]
    fn only_directories_named_after_a_series_are_looked_into() {
        let place = tempfile::tempdir().unwrap();
        for name in ["15", "9.6", "common", "15.old"] {
            fs::create_dir_all(place.path().join(name).join("bin")).unwrap();
        }
        let before = format!("{}/", place.path().display());
        let found = of_series(&before, "/bin");
        assert_eq!(found, ["15", "9.6"].map(|name| place.path().join(name).join("bin")));
    }

    #[test]
    fn the_installed_server_of_the_tests_is_found() {
        let bin_dir = testbed::bin_dir().canonicalize().unwrap();
        let there = servers().iter().find(|binaries| binaries.bin_dir == bin_dir);
        let there = there.expect("the newest installed server");
        let series: PgVersion = there.series().parse().unwrap();
        assert_eq!(server(&series).unwrap().version_num, there.version_num);
        assert!(newest().is_some());
        let why = server(&"9.4".parse().unwrap()).unwrap_err().to_string();
        assert!(why.contains("is not installed here") && why.contains("server.build"), "{why}");
        let dir = clients(&["pg_restore", "vacuumdb"], there.version_num, &|_| true).unwrap();
        assert_eq!(dir, bin_dir);
        let newest = clients(&["pg_restore", "vacuumdb"], 990_000, &|_| true).expect("an older one will do");
        assert_eq!(Some(&newest), servers().first().map(|binaries| &binaries.bin_dir), "the newest of them");
        assert_eq!(clients(&["pg_restore", "no_program"], 150_000, &|_| true), None);
        assert_eq!(clients(&["pg_restore", "vacuumdb"], 150_000, &|_| false), None);
    }

    /// As root.
    #[test]
    fn root_runs_no_installed_program_of_somebody_else() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let place = testbed::place();
        let program = place.path().join(PG_CONFIG);
        crate::binaries::write_program(&program, "#!/bin/sh\necho /tmp\n");
        assert!(is_trusted(place.path(), &[PG_CONFIG]));
        std::os::unix::fs::chown(&program, Some(54_321), None).unwrap();
        assert!(!is_trusted(place.path(), &[PG_CONFIG]));
    }
}
