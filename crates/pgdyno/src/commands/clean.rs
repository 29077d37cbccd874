//! `pgdyno clean`: puts back what a pgdyno that was killed left behind.

use anyhow::{Context, Result};
use dataset::session::limit;
use host::Machine;
use server::database::template::{self, Doors, Fate};
use server::{Cache, Workspace};

use crate::front::cli::CleanArgs;
use crate::front::setup;
use crate::undone::report_undone;
use crate::{Exit, say, signals};

/// Values of the operating system; directories of sockets and of settings that were tried; ledgers; binaries, builds and
/// clusters that were not made to the end.
pub(crate) fn clean(args: &CleanArgs) -> Result<Exit> {
    if let Some(target) = &args.server {
        return clean_server(target);
    }
    let undone = host::undo_left(&Machine::this()).context("put back values of the operating system")?;
    report_undone(&undone);
    for path in server::process::socket::sweep_sockets() {
        say(&format!("removed `{}`", path.display()));
    }
    for path in crate::commands::acid::sweep_ledgers(&std::env::temp_dir()) {
        say(&format!("removed `{}`", path.display()));
    }
    let cache = Cache::default_location()?;
    for path in server::binaries::fetch::sweep(&cache) {
        say(&format!("removed `{}`, which was not unpacked to the end", path.display()));
    }
    for path in server::binaries::build::sweep(&cache) {
        say(&format!("removed `{}`, a build that was not made to the end", path.display()));
    }
    for name in Workspace::in_cache(&cache)?.sweep()? {
        say(&format!("removed cluster `{name}`, which was not made to the end"));
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Databases that pgdyno made on a server to put another one back, and left there because it was killed.
fn clean_server(target: &str) -> Result<Exit> {
    let conninfo = setup::resolve(target)?;
    let clean = || template::clean(&Doors::new(&conninfo, signals::stop_flag()));
    let fates = limit::within("clean", limit::for_bytes(0), clean)?;
    let mut is_all = true;
    for (name, fate) in &fates {
        match fate {
            Fate::Removed => say(&format!("removed database `{name}`")),
            Fate::Left(why) => {
                is_all = false;
                say(&format!("left database `{name}`: {why}"));
            }
        }
    }
    if fates.is_empty() {
        say("no databases of pgdyno are left on this server");
    }
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}
