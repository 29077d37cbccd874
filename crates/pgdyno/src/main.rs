//! The command line of pgdyno: parses, calls, prints, and decides the exit code.

mod acid;
mod announce;
mod check;
mod clean;
mod cli;
mod compare;
#[cfg(test)]
mod documents;
mod explain;
mod finding;
mod guard;
mod hiding;
mod history;
mod init;
mod job;
mod list;
mod output;
mod pgbench;
mod plan;
mod preview;
mod referee;
mod run;
mod screen;
mod secrets;
mod server_cmd;
mod setup;
mod shell;
mod signals;
mod spot;
mod undone;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use model::secret;

use crate::cli::{Cli, Command};
pub(crate) use crate::output::{Exit, print, print_as_pgbench, print_exact, say};

fn main() -> ExitCode {
    guard::close_memory();
    secret::set_key_source(hiding::key);
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == pgbench::DRIVE_ARGUMENT) {
        return ExitCode::from(drive() as u8);
    }
    guard::undo_on_panic();
    if let Err(error) = secrets::take_carried() {
        say(&format!("pgdyno: error: {error:#}"));
        return ExitCode::from(Exit::Failed as u8);
    }
    // Its options are not ours to parse.
    if let Some(invocation) = pgbench::arguments(&args) {
        return pgbench::run(&invocation);
    }
    if let Err(error) = secrets::hide_from_argv() {
        say(&format!("pgdyno: error: {error:#}"));
        return ExitCode::from(Exit::Failed as u8);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(with_guess(error)),
    };
    experiment::limit::on_stuck(job::end_stuck);
    if let Err(reason) = driver::raise_open_files() {
        say(&format!("pgdyno: note: {reason}"));
    }
    let exit = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Report(args) => explain::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Explain { finding } => finding::explain(finding.as_deref()),
        Command::History(args) => history::history(&args),
        Command::List(args) => list::list(&args),
        Command::Init(args) => init::init(&args),
        Command::Check(args) => check::check(&args),
        // Taken before options are parsed, above.
        Command::Pgbench { args } => return pgbench::run(&pgbench::Invocation::of(args)),
        Command::Clean(args) => clean::clean(&args),
        Command::Server(command) => server_cmd::server(&command),
        Command::Drive => Ok(drive()),
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

/// clap's own exit code for bad usage is 2; here that means partial results.
fn usage(error: clap::Error) -> ExitCode {
    // Nobody is left to tell if the terminal is gone.
    error.print().ok();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Failed as u8),
    }
}

/// Names a command that may have been meant, where clap's own measure names none or one that is hidden: it is blind to
/// swapped letters.
fn with_guess(mut error: clap::Error) -> clap::Error {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let commands = Cli::command();
    let visible: Vec<&str> =
        commands.get_subcommands().filter(|command| !command.is_hide_set()).map(|c| c.get_name()).collect();
    let is_helped = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.iter().any(|name| visible.contains(&name.as_str())),
        Some(ContextValue::String(name)) => visible.contains(&name.as_str()),
        _ => false,
    };
    if !is_helped && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) {
        let typed = sorted(typed);
        let guess = visible.iter().find(|name| sorted(name) == typed).map(ToString::to_string);
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(guess.into_iter().collect()));
    }
    error
}

fn drive() -> Exit {
    let input = std::io::BufReader::new(std::io::stdin());
    match driver::drive(input, &mut std::io::stdout().lock()) {
        Ok(true) => Exit::Done,
        Ok(false) | Err(_) => Exit::Failed,
    }
}

fn null(args: &cli::NullArgs) -> anyhow::Result<Exit> {
    let listen = null::Listen { directory: args.socket_dir.clone(), port: args.port };
    let manner =
        null::Manner { service: args.service, seed: args.seed, record: args.record.clone(), spin: args.spin };
    null::serve(&listen, &manner, signals::stop_flag())?;
    Ok(Exit::Done)
}
