//! The program of a pooler: where it is, and what its release can do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use files::trust;
use nix::unistd::geteuid;

use crate::process::spawn::output_of;

const NAME: &str = "pgbouncer";

/// Directories that PATH often lacks.
const ELSEWHERE: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The first release that keeps prepared statements of clients in transaction mode (`max_prepared_statements`).
const KEEPS_PREPARED: (u32, u32) = (1, 21);

/// PgBouncer on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgbouncer {
    /// The program.
    pub path: PathBuf,
    /// Its release: `1.18.0`.
    pub version: String,
}

impl Pgbouncer {
    /// The one at a path, or the first of PATH and of the directories for administrators.
    ///
    /// # Errors
    /// When there is none, it does not say its release, or as root another user could replace it.
    pub fn find(given: Option<&Path>) -> Result<Pgbouncer> {
        let path = match given {
            Some(path) => path.to_path_buf(),
            None => candidates().find(|path| path.is_file()).with_context(|| {
                format!(
                    "`{NAME}` is neither in PATH nor in {}; install it (apt install pgbouncer), or give pooler.program",
                    ELSEWHERE.join(" or ")
                )
            })?,
        };
        let context = || format!("pooler.program: `{}`", path.display());
        if geteuid().is_root() {
            trust::check_program(&path, 0).with_context(context)?;
        }
        let mut command = Command::new(&path);
        command.arg("--version");
        let output = output_of(command).with_context(context)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some(version) = version_of(&text) else {
            bail!(
                "pooler.program: `{}` --version does not say that it is PgBouncer; for another pooler, use \
                 pooler.kind = \"command\"",
                path.display()
            );
        };
        ensure!(number(&version).is_some(), "pooler.program: `{version}` is no release of PgBouncer");
        Ok(Pgbouncer { path, version })
    }

    /// Whether it can keep prepared statements of clients that share connections.
    pub fn can_keep_prepared(&self) -> bool {
        number(&self.version).is_some_and(|number| number >= KEEPS_PREPARED)
    }
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    dirs.into_iter().chain(ELSEWHERE.map(PathBuf::from)).map(|dir| dir.join(NAME))
}

/// The release in the first line: `PgBouncer 1.18.0`.
fn version_of(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    let is_it = words.next()?.eq_ignore_ascii_case(NAME);
    if is_it { words.next().map(str::to_string) } else { None }
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_keep_prepared_statements_are_known() {
        for (text, version, keeps) in [
            ("PgBouncer 1.18.0\nlibevent 2.1.12-stable\n", "1.18.0", false),
            ("PgBouncer 1.20.1", "1.20.1", false),
            ("PgBouncer 1.21.0", "1.21.0", true),
            ("pgbouncer 1.25rc1", "1.25rc1", true),
            ("PgBouncer 2.0", "2.0", true),
        ] {
            let found = version_of(text).unwrap();
            assert_eq!(found, version);
            let pgbouncer = Pgbouncer { path: PathBuf::new(), version: found };
            assert_eq!(pgbouncer.can_keep_prepared(), keeps, "{text}");
        }
        assert_eq!(version_of("odyssey 1.3"), None);
        assert_eq!(version_of(""), None);
    }

    #[test]
    fn another_program_is_refused() {
        let error = format!("{:#}", Pgbouncer::find(Some(Path::new("/bin/true"))).unwrap_err());
        assert!(error.contains("does not say that it is PgBouncer"), "{error}");
        assert!(Pgbouncer::find(Some(Path::new("/nonexistent/pgbouncer"))).is_err());
    }
}
