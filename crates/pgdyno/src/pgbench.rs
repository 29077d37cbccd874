//! `pgdyno pgbench ...`, and this program called as `pgbench`: pgbench's options, output, logs and exit codes over our
//! driver, so that scripts and parsers need no change. This part only parses, prints and prepares the server; the load
//! comes from the same driver process as in `pgdyno run`.

mod bench;
pub(crate) mod command_line;
mod compat;
mod follow;
mod init;
pub(crate) mod output;
mod prepare;
mod scripts;
mod target;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use compat::Compat;
use wire::conninfo::Surroundings;

use crate::pgbench::command_line::options::Request;
use crate::pgbench::command_line::parse::Reader;
use crate::pgbench::output::log::{Complaint, Log};

/// The argument that makes this program a driver, whatever name it is called by. pgbench has no such option.
pub(crate) const DRIVE_ARGUMENT: &str = "--pgdyno-drive";

/// The name in messages when the program is called by another name.
const NAME: &str = "pgbench";

/// The arguments for pgbench, if this process should act as it: called by that name, or with that word first.
pub(crate) fn arguments(all: &[OsString]) -> Option<Invocation> {
    let called = all.first()?.to_string_lossy().into_owned();
    let name = Path::new(&called).file_name()?.to_string_lossy().into_owned();
    let text = |args: &[OsString]| args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if name.starts_with(NAME) {
        return Some(Invocation { called, progname: name, args: text(&all[1..]), is_subcommand: false });
    }
    let is_asked = all.get(1).is_some_and(|word| word == NAME);
    is_asked.then(|| Invocation::of(text(&all[2..])))
}

/// How pgbench was called.
#[derive(Debug)]
pub(crate) struct Invocation {
    called: String,
    progname: String,
    args: Vec<String>,
    is_subcommand: bool,
}

impl Invocation {
    /// The invocation as pgdyno's subcommand.
    pub(crate) fn of(args: Vec<String>) -> Invocation {
        Invocation { called: NAME.to_string(), progname: NAME.to_string(), args, is_subcommand: true }
    }
}

/// Does what `invocation` asks for.
pub(crate) fn run(invocation: &Invocation) -> ExitCode {
    let mut log = Log::to_stderr(&invocation.progname);
    match work(invocation, &mut log) {
        Ok(code) => ExitCode::from(code),
        Err(complaint) => {
            log.complain(&complaint);
            ExitCode::FAILURE
        }
    }
}

/// Removes a password from the arguments, which every user may read.
fn hide_password(invocation: &Invocation, compat: Compat) -> Result<(), Complaint> {
    let Invocation { called, args, is_subcommand, .. } = invocation;
    let mut all = args.clone();
    if *is_subcommand {
        all.insert(0, NAME.to_string());
    }
    let called = if *is_subcommand { "pgdyno" } else { called };
    crate::front::secrets::hide_targets(
        called,
        all,
        &crate::pgbench::command_line::parse::targets(compat, args),
    )
    .map_err(|error| Complaint::new(format!("{error:#}")))
}

fn work(invocation: &Invocation, log: &mut Log) -> Result<u8, Complaint> {
    let Invocation { called, progname, args, .. } = invocation;
    let environment = std::env::var(Compat::ENVIRONMENT).ok();
    let compat = crate::pgbench::command_line::parse::find_compat(args, environment.as_deref())?;
    match args.first().map(String::as_str) {
        // Only as the first argument, as in pgbench.
        Some("--help" | "-?") => {
            return bench::print(&crate::pgbench::command_line::help::usage(progname, compat)).map(|()| 0);
        }
        Some("--version" | "-V") => {
            return bench::print(&format!("pgbench (PostgreSQL) {}\n", compat.version())).map(|()| 0);
        }
        _ => {}
    }
    hide_password(invocation, compat)?;
    let surroundings = Surroundings::of_process();
    let reader = Reader {
        compat,
        called,
        environment: &surroundings.environment,
        os_user: surroundings.os_user.as_deref(),
        log,
    };
    match reader.read(args)? {
        Request::Nothing => Ok(0),
        Request::Init(target, plan) => {
            let mut conninfo = target::resolve(&target, "initialization", progname)?;
            init::run(&plan, &mut conninfo, compat, log).map(|()| 0)
        }
        Request::Bench(target, plan) => {
            let mut conninfo = target::resolve(&target, "setup", progname)?;
            bench::run(&plan, &mut conninfo, compat, log)
        }
    }
}
