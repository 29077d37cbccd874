//! Server binaries: where they are and which version they are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// Oldest version that pgdyno runs: 9.4 brought `pg_stat_activity.backend_xmin`, `ALTER SYSTEM` and replication slots.
/// Before 9.6 what runs is written from the documentation: there are no binaries of it to try.
const VERSION_NUM_MIN: u32 = 90_400;

/// Where binaries come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
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
    pub origin: Origin,
}

impl Binaries {
    /// The user's binaries in `bin_dir`: `postgres` and `initdb` must be there and run.
    pub fn from_bin_dir(bin_dir: &Path) -> Result<Binaries> {
        let bin_dir = bin_dir.canonicalize().with_context(|| {
            format!(
                "cannot enter directory `{}`; give the directory that holds `postgres`",
                bin_dir.display()
            )
        })?;
        for name in ["postgres", "initdb"] {
            check_executable(&bin_dir, name)?;
        }
        let postgres = bin_dir.join("postgres");
        let output = Command::new(&postgres)
            .arg("--version")
            .env("LC_ALL", "C")
            .output()
            .with_context(|| format!("cannot run `{}`", postgres.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "`{} --version` failed: {}; the binaries do not fit this machine",
            postgres.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let version = said.trim().trim_start_matches("postgres (PostgreSQL) ").to_string();
        let Some(version_num) = version_num(&version) else {
            bail!("`{} --version` says `{}`, which is not PostgreSQL", postgres.display(), said.trim());
        };
        ensure!(
            version_num >= VERSION_NUM_MIN,
            "`{}` is PostgreSQL {version}, older than 9.4, the oldest that can be run",
            postgres.display()
        );
        Ok(Binaries { bin_dir, version, version_num, origin: Origin::Given })
    }

    /// Path of one program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Major version: 18, 10, or 9 for 9.6.
    pub fn major(&self) -> u32 {
        self.version_num / 10_000
    }

    /// Series as people write it: `18`, `9.6`.
    pub fn series(&self) -> String {
        match self.major() {
            9 => format!("9.{}", self.version_num / 100 % 100),
            major => major.to_string(),
        }
    }

    /// SHA-256 of the `postgres` executable, hexadecimal.
    pub fn executable_sha256(&self) -> Result<String> {
        let path = self.program("postgres");
        let mut file = fs::File::open(&path).with_context(|| format!("read `{}`", path.display()))?;
        let mut hash = Sha256::new();
        std::io::copy(&mut file, &mut hash).with_context(|| format!("read `{}`", path.display()))?;
        Ok(format!("{:x}", hash.finalize()))
    }
}

fn check_executable(bin_dir: &Path, name: &str) -> Result<()> {
    let path = bin_dir.join(name);
    let Ok(facts) = fs::metadata(&path) else {
        bail!(
            "`{}` has no `{name}`; give the directory that holds `postgres` and `initdb`",
            bin_dir.display()
        );
    };
    ensure!(
        facts.is_file() && facts.permissions().mode() & 0o111 != 0,
        "`{}` is not executable",
        path.display()
    );
    Ok(())
}

/// `18.6` to 180006, `9.6.24` to 90624, `19beta1` to 190000.
fn version_num(version: &str) -> Option<u32> {
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
        for name in ["postgres", "initdb"] {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(error(dir.path()).contains("which is not PostgreSQL"));
        fs::write(dir.path().join("postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 9.3.25'\n").unwrap();
        assert!(error(dir.path()).contains("older than 9.4"));
        fs::write(dir.path().join("postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 9.5.25'\n").unwrap();
        assert_eq!(Binaries::from_bin_dir(dir.path()).unwrap().series(), "9.5");
    }
}
