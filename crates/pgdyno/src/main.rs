//! The command line of pgdyno: parses, calls, prints, and decides the exit code.

mod as_pgbench;
mod commands;
mod front;
mod guard;
mod hands;
mod idle;
mod job;
mod output;
mod pipe;
mod planning;
mod restore_report;
mod signals;
mod spot;
mod watch;
mod watchdog;

use std::process::ExitCode;

use clap::Parser;
use model::secret;

use crate::front::cli::{Cli, Command};
pub(crate) use crate::output::{EXITS, Exit, print, print_exact, say};

fn main() -> ExitCode {
    match begin() {
        Ok(cli) => conduct(cli.command),
        Err(code) => code,
    }
}

/// Prepares the process and parses its arguments, unless something else is asked of it, which is then done.
fn begin() -> Result<Cli, ExitCode> {
    guard::close_memory();
    guard::close_inherited();
    if hands::is_helper() {
        return Err(ExitCode::from(hands::help() as u8));
    }
    secret::set_key_source(crate::front::hiding::key);
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == pgbench::DRIVE_ARGUMENT) {
        return Err(ExitCode::from(drive(driver::SenderTrust::OfUser) as u8));
    }
    guard::undo_on_panic();
    if let Err(error) = crate::front::secrets::take_carried() {
        say(&format!("pgdyno: error: {error:#}"));
        return Err(ExitCode::from(Exit::Failed as u8));
    }
    // pgbench parses its own options.
    if let Some(invocation) = pgbench::arguments(&args) {
        return Err(as_pgbench::run(&invocation));
    }
    if let Err(error) = crate::front::secrets::hide_from_argv() {
        say(&format!("pgdyno: error: {error:#}"));
        return Err(ExitCode::from(Exit::Failed as u8));
    }
    let cli = Cli::try_parse().map_err(crate::front::usage::report)?;
    dataset::session::limit::on_stuck(job::end_stuck);
    if let Err(reason) = driver::raise_open_files() {
        say(&format!("pgdyno: note: {reason}"));
    }
    Ok(cli)
}

/// Does what a command asks for.
fn conduct(command: Command) -> ExitCode {
    let exit = match command {
        Command::Run(args) => crate::commands::run::run(&args),
        Command::Plan(args) => crate::commands::plan::plan(&args),
        Command::Report(args) => crate::commands::report::report(&args),
        Command::Merge(args) => crate::commands::stored::merge::merge(&args),
        Command::Compare(args) => crate::commands::compare::compare(&args),
        Command::Export(args) => crate::commands::stored::export::export(&args),
        Command::Pack(args) => crate::commands::stored::pack::pack(&args),
        Command::Push(args) => crate::commands::stored::shelf::push(&args),
        Command::Unpack(args) => crate::commands::stored::pack::unpack(&args),
        Command::Repeat(args) => crate::commands::stored::repeat::repeat(&args),
        Command::New { template } => crate::commands::texts::template(template),
        Command::Schema => crate::commands::texts::schema(),
        Command::Completions { shell } => crate::commands::texts::completions(shell),
        Command::Man { dir } => crate::commands::texts::man(&dir),
        Command::Version => print(concat!("pgdyno ", env!("CARGO_PKG_VERSION"), "\n")).map(|()| Exit::Done),
        Command::Why(args) => crate::commands::why::why(&args),
        Command::Explain { finding } => crate::commands::explain::explain(finding.as_deref()),
        Command::History(args) => crate::commands::stored::history::history(&args),
        Command::List(args) => crate::commands::stored::list::list(&args),
        Command::Serve(args) => crate::commands::serve::serve(&args),
        Command::Doctor(args) => crate::commands::doctor::doctor(&args),
        Command::Calibrate(args) => crate::commands::calibrate::calibrate(&args),
        Command::Init(args) => crate::commands::data::init::init(&args),
        Command::Check(args) => crate::commands::data::check::check(&args),
        Command::Workload(command) => crate::commands::data::workload::workload(&command),
        Command::Capture(command) => crate::commands::data::capture::capture(&command),
        // Taken before options are parsed, above.
        Command::Pgbench { args } => return as_pgbench::run(&pgbench::Invocation::from_args(args)),
        Command::Clean(args) => crate::commands::clean::clean(&args),
        Command::Server(command) => crate::commands::server::server(&command),
        Command::Agent(args) => crate::commands::agents::agent(&args),
        Command::Agents(args) => crate::commands::agents::agents(&args),
        Command::Dial(args) => crate::commands::agents::dial(&args),
        Command::Drive(args) => Ok(drive(args.rights())),
        Command::Watch(args) => Ok(watch::watch(args.rights())),
        Command::Wait => idle::wait(),
        Command::Host => hands::host(),
        Command::Pages => Ok(crate::commands::serve::far::pages()),
        Command::Draw => crate::commands::serve::drawn::draw(),
        Command::Undo => watchdog::undo(),
        Command::Thaw(args) => watchdog::thaw::thaw(&args),
        Command::Null(args) => null(&args),
    };
    match exit {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            say(&format!("pgdyno: error: {error:#}"));
            ExitCode::from(Exit::Failed as u8)
        }
    }
}

fn drive(rights: driver::SenderTrust) -> Exit {
    let input = std::io::BufReader::new(std::io::stdin());
    match driver::drive(input, &mut std::io::stdout(), rights, spot::poll_for_other) {
        Ok(true) => Exit::Done,
        Ok(false) | Err(_) => Exit::Failed,
    }
}

fn null(args: &crate::front::cli::NullArgs) -> anyhow::Result<Exit> {
    let listen = null::NullAddress { directory: args.socket_dir.clone(), port: args.port };
    let manner = null::Manner {
        service: args.service,
        silence: args.silence,
        seed: args.seed,
        record: args.record.clone(),
        spin: args.spin,
    };
    null::serve(&listen, &manner, signals::stop_flag())?;
    Ok(Exit::Done)
}
