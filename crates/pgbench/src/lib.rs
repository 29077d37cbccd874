//! `pgdyno pgbench ...`, and the program called as `pgbench`: pgbench's options, output, logs and exit codes over our
//! driver, so that scripts and parsers need no change. This crate only parses, prints and prepares the server; the load
//! comes from the same driver process as in `pgdyno run`. Signals, standard output and the process's arguments are the
//! caller's: [`OwnProcess`].

mod bench;
mod cnum;
mod command_line;
mod compat;
mod follow;
mod init;
mod messages;
mod output;
mod prepare;
mod process;
mod scripts;
mod server_text;
mod target;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use compat::Compat;
use wire::conninfo::Surroundings;

use crate::command_line::options::Request;
use crate::command_line::parse::Reader;
use crate::messages::{Complaint, MessageLog};
pub use crate::process::OwnProcess;

/// The argument that makes this program a driver, whatever name it is called by. pgbench has no such option.
pub const DRIVE_ARGUMENT: &str = "--pgdyno-drive";

/// The name in messages when the program is called by another name.
const NAME: &str = "pgbench";

/// The arguments for pgbench, if this process should act as it: called by that name, or with that word first.
pub fn arguments(all: &[OsString]) -> Option<Invocation> {
    let called = all.first()?.to_string_lossy().into_owned();
    let name = Path::new(&called).file_name()?.to_string_lossy().into_owned();
    let text = |args: &[OsString]| args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if name.starts_with(NAME) {
        return Some(Invocation { called, progname: name, args: text(&all[1..]), is_subcommand: false });
    }
    let is_asked = all.get(1).is_some_and(|word| word == NAME);
    is_asked.then(|| Invocation::from_args(text(&all[2..])))
}

/// How pgbench was called.
#[derive(Debug)]
pub struct Invocation {
    called: String,
    progname: String,
    args: Vec<String>,
    is_subcommand: bool,
}

impl Invocation {
    /// The invocation as pgdyno's subcommand.
    pub fn from_args(args: Vec<String>) -> Invocation {
        Invocation { called: NAME.to_string(), progname: NAME.to_string(), args, is_subcommand: true }
    }
}

/// How pgbench ended.
#[derive(Debug, Clone, Copy)]
pub struct PgbenchEnd {
    /// Its exit code, unless a signal has come that it would have died of.
    pub code: ExitCode,
    /// Whether pgbench handles Ctrl-C itself, as it does while it loads tables: it cancels the statement and exits.
    pub handles_interrupt: bool,
}

/// Does what `invocation` asks for.
pub fn run(invocation: &Invocation, process: &OwnProcess) -> PgbenchEnd {
    let mut log = MessageLog::to_stderr(&invocation.progname);
    let Ended { result, handles_interrupt } = work(invocation, process, &mut log);
    let code = match result {
        Ok(code) => ExitCode::from(code),
        Err(complaint) => {
            log.complain(&complaint);
            ExitCode::FAILURE
        }
    };
    PgbenchEnd { code, handles_interrupt }
}

/// Removes a password from the arguments, which every user may read.
fn hide_password(invocation: &Invocation, process: &OwnProcess, compat: Compat) -> Result<(), Complaint> {
    let Invocation { called, args, is_subcommand, .. } = invocation;
    let mut all = args.clone();
    if *is_subcommand {
        all.insert(0, NAME.to_string());
    }
    let called = if *is_subcommand { "pgdyno" } else { called };
    (process.hide_targets)(called, all, &command_line::parse::targets(compat, args))
        .map_err(|error| Complaint::new(format!("{error:#}")))
}

/// How the work ended.
struct Ended {
    /// The exit code.
    result: Result<u8, Complaint>,
    /// As in [`PgbenchEnd`].
    handles_interrupt: bool,
}

impl Ended {
    fn load(result: Result<u8, Complaint>) -> Ended {
        Ended { result, handles_interrupt: false }
    }
}

fn work(invocation: &Invocation, process: &OwnProcess, log: &mut MessageLog) -> Ended {
    let request = match read(invocation, process, log) {
        Ok(request) => request,
        Err(complaint) => return Ended::load(Err(complaint)),
    };
    let progname = &invocation.progname;
    match request {
        (_, Request::Nothing) => Ended::load(Ok(0)),
        (compat, Request::Init(target, plan)) => {
            let result = target::resolve(&target, "initialization", progname, process)
                .and_then(|mut conninfo| init::run(&plan, &mut conninfo, compat, process, log));
            Ended { result: result.map(|()| 0), handles_interrupt: true }
        }
        (compat, Request::Bench(target, plan)) => Ended::load(
            target::resolve(&target, "setup", progname, process)
                .and_then(|mut conninfo| bench::run(&plan, &mut conninfo, compat, process, log)),
        ),
    }
}

/// The release to imitate, and what the arguments ask for. Help and version are printed at once.
fn read(
    invocation: &Invocation,
    process: &OwnProcess,
    log: &mut MessageLog,
) -> Result<(Compat, Request), Complaint> {
    let Invocation { called, progname, args, .. } = invocation;
    let environment = std::env::var(Compat::ENVIRONMENT).ok();
    let compat = command_line::parse::find_compat(args, environment.as_deref())?;
    match args.first().map(String::as_str) {
        // Only as the first argument, as in pgbench.
        Some("--help" | "-?") => {
            process.print(&command_line::help::usage(progname, compat))?;
            return Ok((compat, Request::Nothing));
        }
        Some("--version" | "-V") => {
            process.print(&format!("pgbench (PostgreSQL) {}\n", compat.version()))?;
            return Ok((compat, Request::Nothing));
        }
        _ => {}
    }
    hide_password(invocation, process, compat)?;
    let surroundings = Surroundings::of_process();
    let reader = Reader {
        compat,
        called,
        environment: &surroundings.environment,
        os_user: surroundings.os_user.as_deref(),
        log,
    };
    Ok((compat, reader.read(args)?))
}
