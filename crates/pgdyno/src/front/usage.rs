//! Errors about wrong usage: in the style of all other errors, with tips that name what exists.

use std::process::ExitCode;

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::front::cli::Cli;
use crate::{Exit, say};

/// Options of pgbench that pgdyno's own commands write in another way, and how.
const OF_PGBENCH: &[(&[&str], &str)] = &[
    (&["-T", "--time"], "--measure 30s"),
    (&["-j", "--jobs"], "--threads 4"),
    (&["-t", "--transactions"], "--set workload.transactions=1000"),
    (&["-R", "--rate"], "--pace 2000/s"),
    (&["-b", "--builtin"], "-f builtin:select-only"),
    (&["-S", "--select-only"], "--workload tpcb-select"),
    (&["-N", "--skip-some-updates"], "--workload tpcb-simple"),
    (&["-n", "--no-vacuum"], "--set prepare.vacuum=false"),
    (&["-i", "--initialize"], "pgdyno init"),
    (
        &["-h", "--host", "-p", "--port", "-U", "--username", "-d", "--dbname"],
        "--server \"host=db1 dbname=bench\"",
    ),
    (&["--random-seed"], "--set experiment.seed=42"),
    (&["--partitions"], "--set workload.partitions=8"),
    (&["--tablespace"], "--set workload.tablespace=fast"),
    (&["--unlogged-tables"], "--set workload.unlogged=true"),
];
/// Options of pgbench for which pgdyno's own commands have none.
const ONLY_OF_PGBENCH: &[&str] =
    &["-P", "--progress", "-r", "--report-per-command", "-C", "--connect", "-l", "--log", "-F", "-I"];
/// pgbench counts transactions that are later than a limit; pgdyno reports percentiles, or searches with them.
const LATENCY_LIMIT: [&str; 2] = ["-L", "--latency-limit"];

/// Options of `run` that `compare` has under another name.
const AS_OTHERS: &[(&str, &str)] = &[("--repeats", "--pairs 10")];

/// Commands that people type and pgdyno has as options of others.
const BY_OPTION: &[(&[&str], &str)] = &[
    (&["resume", "continue"], "a stopped experiment goes on with `pgdyno run --resume DIR`"),
    (&["status", "show", "open"], "`pgdyno report DIR` shows results, also while they are measured"),
];

/// Prints what clap has to say: help to standard output, errors as errors.
pub(crate) fn report(error: clap::Error) -> ExitCode {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match error.kind() {
        // If the terminal is gone, there is nobody left to inform.
        DisplayHelp | DisplayVersion => {
            error.print().ok();
            return ExitCode::SUCCESS;
        }
        DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
        }
        _ => say(&text(error)),
    }
    // clap's own exit code for wrong usage is 2; here that means partial results.
    ExitCode::from(Exit::Failed as u8)
}

fn text(error: clap::Error) -> String {
    format!("pgdyno: {}", with_tips(error).render().to_string().trim_end())
}

fn with_tips(error: clap::Error) -> clap::Error {
    let mut error = with_command(error);
    match under_another_name(&error) {
        Some(lead) => {
            error.remove(ContextKind::SuggestedArg);
            tip(&mut error, &[lead]);
            error
        }
        None => with_option_of_pgbench(error),
    }
}

/// How `compare` writes an option that only other commands have.
fn under_another_name(error: &clap::Error) -> Option<String> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let ContextValue::String(typed) = error.get(ContextKind::InvalidArg)? else { return None };
    let option = typed.split([' ', '=']).next()?;
    let (_, ours) = AS_OTHERS.iter().find(|(theirs, _)| *theirs == option)?;
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && usage.contains("pgdyno compare");
    is_unknown.then(|| format!("compare writes `{option}` as `{ours}`"))
}

/// Suggests a command that may have been meant, if clap suggests none: its similarity measure does not see swapped letters.
/// Hidden ones are not suggested.
fn with_command(mut error: clap::Error) -> clap::Error {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let commands = Cli::command();
    let (hidden, visible): (Vec<&clap::Command>, Vec<&clap::Command>) =
        commands.get_subcommands().partition(|command| command.is_hide_set());
    let visible: Vec<&str> = visible.iter().map(|command| command.get_name()).collect();
    let mut suggested = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    suggested.retain(|name| hidden.iter().all(|command| command.get_name() != name));
    let is_helped = !suggested.is_empty();
    if is_helped {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(suggested));
    }
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) {
        let by_option = BY_OPTION.iter().find(|(typed_too, _)| typed_too.contains(&typed.as_str()));
        // What clap takes for alike may mean something else: `resume` is not `serve`.
        if is_helped && by_option.is_none() {
            return error;
        }
        let typed = sorted(typed);
        let guess = visible.iter().find(|name| sorted(name) == typed).map(ToString::to_string);
        error.remove(ContextKind::SuggestedSubcommand);
        match (by_option, guess) {
            (Some((_, instead)), _) => tip(&mut error, &[instead.to_string()]),
            (None, Some(name)) => error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(name)),
            (None, None) => tip(&mut error, &[format!("the commands are {}", visible.join(", "))]),
        };
    }
    error
}

/// Says how an option of pgbench is written here, and which command takes it as it is.
fn with_option_of_pgbench(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return error };
    let ours = OF_PGBENCH.iter().find(|(theirs, _)| theirs.contains(&typed.as_str()));
    let lead = match ours {
        Some((_, ours)) => format!("pgbench's `{typed}` is written `{ours}` here"),
        None if ONLY_OF_PGBENCH.contains(&typed.as_str()) => {
            format!("`{typed}` is an option of pgbench only")
        }
        None if LATENCY_LIMIT.contains(&typed.as_str()) => format!(
            "`{typed}` is an option of pgbench only; `--pace \"max with p99 <= 10ms\"` searches for the \
             highest rate within a limit"
        ),
        // The option that clap suggests.
        None if error.get(ContextKind::SuggestedArg).is_some() => return error,
        None => {
            // Nothing that pgdyno takes as a value begins with a dash.
            error.remove(ContextKind::Suggested);
            return error;
        }
    };
    if error.remove(ContextKind::SuggestedArg).is_some() {
        // It shows the option that clap suggests.
        error.remove(ContextKind::Usage);
    }
    let front = "pgdyno pgbench takes all options of pgbench".to_string();
    tip(&mut error, &[lead, front]);
    error
}

fn tip(error: &mut clap::Error, tips: &[String]) -> Option<ContextValue> {
    let tips = tips.iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn errors_of_usage_are_errors_like_others_with_tips_that_help() {
        let check = |args: &str, expected: &[&str]| {
            let args = std::iter::once("pgdyno").chain(args.split(' '));
            let said = text(Cli::try_parse_from(args).unwrap_err());
            assert!(said.starts_with("pgdyno: error: "), "{said}");
            for part in expected {
                assert!(said.contains(part), "{part} in {said}");
            }
            for line in said.lines().filter(|line| line.trim_start().starts_with("tip:")) {
                assert!(!line.trim_end().ends_with([':', ',']) && !line.contains("as a value"), "{said}");
            }
        };
        check("run -T 30", &["`--measure 30s` here", "pgdyno pgbench takes all options"]);
        check("run -j 4", &["`--threads 4` here", "pgdyno pgbench takes all options"]);
        check("run -P 5", &["`-P` is an option of pgbench only", "pgdyno pgbench takes all options"]);
        check("run --time 30", &["`--measure 30s` here", "pgdyno pgbench takes all options"]);
        let said = text(Cli::try_parse_from(["pgdyno", "run", "--time", "30"]).unwrap_err());
        assert!(!said.contains("--title"), "{said}");
        check("run -L 10", &["searches for the highest rate", "pgdyno pgbench takes all options"]);
        check("run --report-per-command", &["is an option of pgbench only"]);
        check("compare -j 4", &["`--threads 4` here"]);
        check("compare --aa --repeats 5", &["`--pairs 10`"]);
        check("resume results/x", &["`pgdyno run --resume DIR`"]);
        check("run --measur 30s", &["'--measure'"]);
        check("run --foo", &["unexpected argument '--foo'"]);
        check("rnu", &["'run'"]);
        check("xyz", &["the commands are run, plan, "]);
        check("lst", &["'list'"]);
        let said = text(Cli::try_parse_from(["pgdyno", "lst"]).unwrap_err());
        assert!(!said.contains("'host'"), "a hidden command: {said}");
    }
}
