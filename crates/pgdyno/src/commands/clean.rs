//! `pgdyno clean`: removes what a killed pgdyno left behind.

use std::time::Duration;

use anyhow::{Context, Result};
use dataset::session::limit;
use experiment::site::hands::{self, HostHands};
use host::Machine;
use model::experiment::driver::DriverSpec;
use server::database::template::{self, Doors, Fate};
use server::{Cache, Workspace};

use crate::front::cli::CleanArgs;
use crate::front::setup;
use crate::job::own_program;
use crate::undone::report_undone;
use crate::{Exit, say, signals};

/// Restores values of the operating system; removes directories of sockets and of settings that were tried, ledgers,
/// and incomplete binaries, builds and clusters.
pub(crate) fn clean(args: &CleanArgs) -> Result<Exit> {
    if let Some(target) = &args.server {
        return clean_server(target, Duration::from_millis(args.timeout.ms));
    }
    if let Some(host) = &args.host {
        return clean_host(host);
    }
    let undone =
        host::undo_left(&Machine::this()).context("cannot restore values of the operating system")?;
    report_undone(&undone);
    let mut n_removed = 0;
    let mut told = |line: String| {
        n_removed += 1;
        say(&line);
    };
    for path in server::process::socket::sweep_sockets() {
        told(format!("removed `{}`", path.display()));
    }
    for path in crate::commands::data::sweep_ledgers(&std::env::temp_dir()) {
        told(format!("removed `{}`", path.display()));
    }
    let cache = Cache::default_location()?;
    for path in server::binaries::fetch::sweep(&cache) {
        told(format!("removed `{}`, which was not completely unpacked", path.display()));
    }
    for path in server::binaries::build::sweep(&cache) {
        told(format!("removed `{}`, an incomplete build", path.display()));
    }
    for name in Workspace::in_cache(&cache)?.sweep()? {
        told(format!("removed cluster `{name}`, which was incomplete"));
    }
    if n_removed == 0 && undone.is_empty() {
        say(&format!(
            "nothing was left behind: no values of the operating system, no sockets or ledgers in `{}`, no incomplete \
             binaries or clusters in `{}`",
            std::env::temp_dir().display(),
            cache.dir.display()
        ));
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Restores values of the operating system that a killed pgdyno left on a host.
fn clean_host(host: &DriverSpec) -> Result<Exit> {
    let undone = HostHands::new(own_program()?).clean(host, signals::stop_flag())?;
    undone.iter().for_each(|value| say(&hands::words(host, value)));
    if undone.is_empty() {
        say(&format!("no values of the operating system were left behind on `{}`", host.name));
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Removes databases that a killed pgdyno left on a server: copies that it made to restore another database.
fn clean_server(target: &str, longest: Duration) -> Result<Exit> {
    let conninfo = setup::resolve(target)?;
    let clean = || template::clean(&Doors::new(&conninfo, signals::stop_flag()));
    let fates = limit::within_option("clean", longest, "--timeout", clean)?;
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
        say("this server has no databases left behind by pgdyno");
    }
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}
