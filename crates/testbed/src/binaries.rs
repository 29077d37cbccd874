//! Where the programs of PostgreSQL are: as the system has installed them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian keeps one directory for each installed major version.
const INSTALLED: &str = "/usr/lib/postgresql";

/// Names another directory with the server's programs; the client programs that it lacks come from the installed ones.
const BIN_DIR_VARIABLE: &str = "PGDYNO_TEST_BIN_DIR";

/// The directory with the programs of the newest installed server.
///
/// # Panics
/// If no server is installed.
#[must_use]
pub fn bin_dir() -> PathBuf {
    let versions = fs::read_dir(INSTALLED).into_iter().flatten().flatten();
    let with_server =
        versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("postgres").exists());
    // By number: as texts, 9.6 comes after 18.
    with_server
        .max_by_key(|bin| version_of(bin))
        .unwrap_or_else(|| panic!("no PostgreSQL server below {INSTALLED}; `./check` installs one"))
}

fn version_of(bin: &Path) -> Vec<u32> {
    let name = bin.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    name.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// A program of PostgreSQL, with nothing of the test's environment but a short PATH.
pub(crate) fn program(name: &str) -> Command {
    let chosen = std::env::var_os(BIN_DIR_VARIABLE).map(|dir| PathBuf::from(dir).join(name));
    let path = chosen.filter(|path| path.exists()).unwrap_or_else(|| bin_dir().join(name));
    clean(&path)
}

/// A program with nothing of the test's environment but a short PATH.
pub(crate) fn clean(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/tmp");
    command
}
