//! `pgdyno clean`: puts back what a pgdyno that was killed left behind.

use anyhow::{Context, Result};
use host::{Machine, Undone};
use server::{Cache, Workspace};

use crate::{Exit, say};

/// Values of the operating system; directories of sockets and of settings that were tried; ledgers; builds and clusters that
/// were not made to the end.
pub(crate) fn clean() -> Result<Exit> {
    let undone = host::undo_left(&Machine::this()).context("put back values of the operating system")?;
    tell(&undone);
    for path in server::socket::sweep_sockets() {
        say(&format!("removed `{}`", path.display()));
    }
    for path in crate::acid::sweep_ledgers(&std::env::temp_dir()) {
        say(&format!("removed `{}`", path.display()));
    }
    let cache = Cache::default_location()?;
    for path in server::build::sweep(&cache) {
        say(&format!("removed `{}`, a build that was not made to the end", path.display()));
    }
    for name in Workspace::in_cache(&cache)?.sweep()? {
        say(&format!("removed cluster `{name}`, which was not made to the end"));
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Says what became of values of the operating system.
pub(crate) fn tell(undone: &[Undone]) {
    for value in undone {
        match experiment::os::problem(value) {
            Some(problem) => say(&format!("not put back: {problem}")),
            None => {
                say(&format!("put back `{}` to {} after a pgdyno that was killed", value.path, value.now))
            }
        }
    }
}
