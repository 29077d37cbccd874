//! Server binaries: where they are and which version they are.

pub mod build;
pub mod fetch;
pub mod installed;
pub mod pins;
pub(crate) mod tree;
pub(crate) mod unpack;
pub mod verify;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use anyhow::{Context, Result, bail, ensure};
use model::release::Release;

use crate::process::command::server_command;
use crate::process::spawn::output_of;
use crate::user::account::Account;

/// How long a program may stay open for writing before it is refused. A child holds it open between its fork and
/// its exec, milliseconds on a machine that is not starved.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Where binaries come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinariesOrigin {
    /// Fetched by pgdyno.
    Fetched {
        /// Release: `18.6`.
        release: String,
        /// SHA-256 of the archive, hexadecimal.
        sha256: String,
    },
    /// The user's own.
    Given,
}

/// The binaries of one PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// Directory with `postgres` and `initdb`, as an absolute path without links.
    pub bin_dir: PathBuf,
    /// Version as `postgres --version` names it: `18.6`, `15.18 (Debian 15.18-1)`, `19beta1`.
    pub version: String,
    /// Version as `server_version_num`: 180006, 90624.
    pub version_num: u32,
    /// Where they come from.
    pub origin: BinariesOrigin,
}

impl Binaries {
    /// The user's binaries in the directory `given`, which must include a working `postgres` and `initdb`. They run as the server's
    /// user, as the server will: whoever can change them gets no more rights by that.
    pub fn from_bin_dir(given: &Path) -> Result<Binaries> {
        let bin_dir = given.canonicalize().with_context(|| {
            format!("cannot enter directory `{}`; give the directory that holds `postgres`", given.display())
        })?;
        for name in ["postgres", "initdb"] {
            check_executable(&bin_dir, name)?;
        }
        let postgres = bin_dir.join("postgres");
        let account = Account::choose()?;
        account.check_reach(&postgres)?;
        // On the way that was given: it may have links of somebody else.
        check_owners(given, &account)?;
        let (version, version_num) = version_of(&postgres, &account)?;
        ensure!(
            Release::new(version_num).is_supported(),
            "`{}` is PostgreSQL {version}, older than 9.4, the oldest that can be run",
            postgres.display()
        );
        Ok(Binaries { bin_dir, version, version_num, origin: BinariesOrigin::Given })
    }

    /// Path of one program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Series: `18`, `9.6`.
    pub fn series(&self) -> String {
        series(self.version_num)
    }

    /// SHA-256 of the `postgres` executable, hexadecimal.
    pub fn executable_sha256(&self) -> Result<String> {
        let path = self.program("postgres");
        let hash = || -> io::Result<String> {
            // It may be a link, and then to a file that the server's user can read.
            files::sha256_of(
                Account::choose().map_err(io::Error::other)?.act(|| files::open(&path.canonicalize()?))?,
            )
        };
        hash().with_context(|| format!("read `{}`", path.display()))
    }
}

/// What tells whether a program is still the one that was asked: its place, device, inode, size and times of change, and who ran it.
type Asked = (PathBuf, [u64; 3], [i64; 4], u32);

/// Answers of programs that this process has asked for their version: a plan asks for the same one again and again.
static ANSWERS: Mutex<Vec<(Asked, (String, u32))>> = Mutex::new(Vec::new());

/// Version of a `postgres`, as it says and as a number.
fn version_of(postgres: &Path, account: &Account) -> Result<(String, u32)> {
    let facts = fs::metadata(postgres).with_context(|| format!("look at `{}`", postgres.display()))?;
    let times = [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()];
    let asked = (postgres.to_path_buf(), [facts.dev(), facts.ino(), facts.size()], times, account.uid);
    let answers = || ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = answers().iter().find(|(known, _)| *known == asked) {
        return Ok(answer.clone());
    }
    let output = output_once_closed(|| {
        let mut command = server_command(postgres, account, Path::new("/"));
        command.arg("--version");
        command
    })
    .with_context(|| format!("cannot run `{}`", postgres.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "`{} --version` failed: {}; the binaries do not run on this machine",
        postgres.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let version = said.trim().trim_start_matches("postgres (PostgreSQL) ").to_string();
    let Some(version_num) = version_num(&version) else {
        bail!("`{} --version` says `{}`, which is not PostgreSQL", postgres.display(), said.trim());
    };
    answers().push((asked, (version.clone(), version_num)));
    Ok((version, version_num))
}

/// Runs a program that may have been unpacked a moment ago. A file cannot be executed while a process has it open for
/// writing, and a child that another thread forked during the unpacking keeps what was open then until its own exec
/// (`ETXTBSY`, execve(2)).
fn output_once_closed(command: impl Fn() -> Command) -> io::Result<Output> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match output_of(command()) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

fn check_executable(bin_dir: &Path, name: &str) -> Result<()> {
    let path = bin_dir.join(name);
    if fs::metadata(&path).is_err() {
        bail!(
            "`{}` has no `{name}`; give the directory that holds `postgres` and `initdb`",
            bin_dir.display()
        );
    }
    ensure!(is_executable(&path), "`{}` is not executable", path.display());
    Ok(())
}

/// Whether a program is here: by its path, or below a directory of PATH.
pub fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return is_executable(Path::new(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| is_executable(&dir.join(name)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// As root, refuses programs that a third user could change: that user would gain the rights of the server's user, who
/// may own other clusters.
fn check_owners(bin_dir: &Path, account: &Account) -> Result<()> {
    if !account.is_switched {
        return Ok(());
    }
    for name in ["postgres", "initdb"] {
        files::trust::check_program(&bin_dir.join(name), account.uid).with_context(|| {
            format!(
                "the binaries in `{}` would run as user `{}`; run pgdyno as the user who owns them, or name that user in \
                 PGDYNO_SERVER_USER",
                bin_dir.display(),
                account.name
            )
        })?;
    }
    Ok(())
}

/// `180006` to `18`, `90624` to `9.6`.
pub(crate) fn series(version_num: u32) -> String {
    Release::new(version_num).series()
}

/// `18.6` to 180006, `9.6.24` to 90624, `19beta1` and `19` to 190000.
pub fn version_num(version: &str) -> Option<u32> {
    let digits: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let parts: Vec<u32> = digits.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    match parts.as_slice() {
        [major, rest @ ..] if (10..1000).contains(major) => {
            Some(major * 10_000 + rest.first().copied().unwrap_or(0))
        }
        [major, minor, rest @ ..] if *major > 0 && *major < 10 => {
            Some(major * 10_000 + minor * 100 + rest.first().copied().unwrap_or(0))
        }
        _ => None,
    }
}

/// Writes a file that can be executed at once. Another process writes it: a file that this one has open for
/// writing is open in the children that other tests start meanwhile, and cannot be executed until they are gone.
#[cfg(test)]
pub(crate) fn write_program(path: &Path, text: &str) {
    let write = "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"";
    let done =
        Command::new("sh").args(["-c", write, "sh", text]).arg(path).status().expect("a shell is there");
    assert!(done.success(), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers_as_the_server_counts_them() {
        for (version, expected) in [
            ("18.6", Some(180_006)),
            ("15.18 (Debian 15.18-0+deb12u1)", Some(150_018)),
            ("9.6.24", Some(90_624)),
            ("9.4.26", Some(90_426)),
            ("10.23", Some(100_023)),
            ("19beta1", Some(190_000)),
            ("9.6", Some(90_600)),
            ("", None),
            ("hello", None),
        ] {
            assert_eq!(version_num(version), expected, "{version}");
        }
    }

    #[test]
    fn a_directory_without_a_server_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| format!("{:#}", Binaries::from_bin_dir(path).unwrap_err());
        assert!(error(&dir.path().join("none")).contains("cannot enter directory"));
        assert!(error(dir.path()).contains("has no `postgres`"));
        for name in ["postgres", "initdb"] {
            fs::write(dir.path().join(name), "#!/bin/sh\necho 'hello 1'\n").unwrap();
        }
        assert!(error(dir.path()).contains("is not executable"));
        let says = |name: &str, version: &str| {
            write_program(&dir.path().join(name), &format!("#!/bin/sh\necho '{version}'\n"));
        };
        says("initdb", "hello 1");
        says("postgres", "hello 1");
        assert!(error(dir.path()).contains("which is not PostgreSQL"));
        says("postgres", "postgres (PostgreSQL) 9.3.25");
        assert!(error(dir.path()).contains("older than 9.4"));
        says("postgres", "postgres (PostgreSQL) 9.5.25");
        assert_eq!(Binaries::from_bin_dir(dir.path()).unwrap().series(), "9.5");
    }

    #[test]
    fn a_program_is_asked_for_its_version_once_as_long_as_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(dir.path(), 0o755);
        // The server's user writes it.
        let asked = dir.path().join("asked");
        fs::write(&asked, "").unwrap();
        open(&asked, 0o666);
        let says = |version: &str| {
            let text = format!(
                "#!/bin/sh\necho asked >>'{}'\necho 'postgres (PostgreSQL) {version}'\n",
                asked.display()
            );
            ["initdb", "postgres"].into_iter().for_each(|name| write_program(&dir.path().join(name), &text));
        };
        let expect = |version: &str, n_asked: usize| {
            assert_eq!(Binaries::from_bin_dir(dir.path()).unwrap().version, version);
            assert_eq!(fs::read_to_string(&asked).unwrap().lines().count(), n_asked);
        };
        says("14.24");
        expect("14.24", 1);
        expect("14.24", 1);
        says("15.18");
        expect("15.18", 2);
    }

    #[test]
    fn a_program_that_is_still_open_for_writing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["initdb", "postgres"] {
            let says = "#!/bin/sh\necho 'postgres (PostgreSQL) 14.24'\n";
            write_program(&dir.path().join(name), says);
        }
        let held = fs::File::options().append(true).open(dir.path().join("postgres")).unwrap();
        let refused = Command::new(dir.path().join("postgres")).output().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ExecutableFileBusy);
        let closing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        assert_eq!(Binaries::from_bin_dir(dir.path()).unwrap().version, "14.24");
        closing.join().unwrap();
    }

    #[test]
    fn as_root_programs_that_a_third_user_can_change_are_not_run() {
        let account = Account::choose().unwrap();
        if !account.is_switched {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&bin).unwrap();
        set(dir.path(), 0o755);
        set(&bin, 0o755);
        for name in ["initdb", "postgres"] {
            write_program(&bin.join(name), "#!/bin/sh\necho 'postgres (PostgreSQL) 14.24'\n");
        }
        Binaries::from_bin_dir(&bin).unwrap();
        let own = |uid| std::os::unix::fs::chown(&bin, Some(uid), None).unwrap();
        own(account.uid);
        Binaries::from_bin_dir(&bin).unwrap();
        own(54_321);
        let refused = format!("{:#}", Binaries::from_bin_dir(&bin).unwrap_err());
        assert!(refused.contains("user id 54321") && refused.contains("PGDYNO_SERVER_USER"), "{refused}");
        own(0);
        set(&bin, 0o777);
        let refused = format!("{:#}", Binaries::from_bin_dir(&bin).unwrap_err());
        assert!(refused.contains("can be written by every user"), "{refused}");
        set(&bin, 0o755);
        // Who owns a link on the way could turn it to other binaries.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&bin, &link).unwrap();
        Binaries::from_bin_dir(&link).unwrap();
        std::os::unix::fs::lchown(&link, Some(54_321), None).unwrap();
        let refused = format!("{:#}", Binaries::from_bin_dir(&link).unwrap_err());
        assert!(refused.contains("who could redirect it"), "{refused}");
    }

    #[test]
    fn programs_are_found_by_their_path_or_below_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plain");
        fs::write(&file, "").unwrap();
        for (name, is_found) in [
            ("sh", true),
            ("/bin/sh", true),
            ("no-such-program-of-pgdyno", false),
            ("./no-such-program-of-pgdyno", false),
            (dir.path().to_str().unwrap(), false),
            (file.to_str().unwrap(), false),
        ] {
            assert_eq!(is_program(name), is_found, "{name}");
        }
    }
}
