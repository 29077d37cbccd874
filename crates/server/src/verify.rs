//! Asks binaries whether they know settings and take their values, without a cluster and without starting a server.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::command::{run_logged, server_command};
use crate::process::ProcessId;
use crate::socket::OWNER_FILE;
use crate::start_error::fault_of;

/// `postgres -C` reads the configuration, prints one setting and ends.
const DEADLINE: Duration = Duration::from_secs(20);

/// What these binaries say against each of `settings`, one sentence for each that they refuse. That several settings do
/// not fit together, or not into this machine, is only found by a start.
///
/// # Errors
/// When the binaries cannot be run.
pub fn refused_settings(binaries: &Binaries, settings: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let account = Account::choose()?;
    let dir = Scratch::make(&account)?;
    let mut refused = Vec::new();
    for (name, value) in settings {
        let mut command = server_command(&binaries.program("postgres"), &account, &dir.path);
        command.args(["-C", name, "-D"]).arg(&dir.path).args(["-c", &format!("{name}={value}")]);
        let Err(error) = run_logged(command, &dir.path.join("log"), DEADLINE) else { continue };
        let said = format!("{error:#}");
        refused.push(match said.lines().find_map(|line| line.split_once("FATAL:")) {
            Some((_, words)) => format!("FATAL: {}; {}", words.trim(), fault_of(&said).advice()),
            None => said,
        });
    }
    Ok(refused)
}

/// A data directory with nothing but an empty configuration; removed when dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make(account: &Account) -> Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pgdyno-verify-{}-{n}", std::process::id()));
        let context = || format!("make `{}`", path.display());
        // What is there already is not ours.
        DirBuilder::new().mode(0o700).create(&path).with_context(context)?;
        let scratch = Scratch { path: path.clone() };
        let conf = path.join("postgresql.conf");
        fs::write(&conf, "").with_context(context)?;
        account.own(&conf)?;
        // Tells `sweep_sockets`, which knows all directories with our name, whose it is.
        fs::write(path.join(OWNER_FILE), serde_json::to_vec(&ProcessId::current())?).with_context(context)?;
        account.own(&path)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory of temporary files may outlive us.
        fs::remove_dir_all(&self.path).ok();
    }
}
