//! `pgdyno run`: measure, then explain.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, Result};
use experiment::conduct::{self, Outcome};
use experiment::copies;
use experiment::stage::Site;
use host::{Keeper, Machine};
use model::plan::Plan;
use server::Cache;
use store::ExperimentDir;

use crate::cli::RunArgs;
use crate::screen::Screen;
use crate::setup::{self, Asked};
use crate::{Exit, clean, explain, print, say, signals};

/// Runs the experiment that `args` ask for.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    if args.list {
        for builtin in experiment::builtin::BUILTINS {
            print(&format!("{:<12} {}\n", builtin.name, builtin.about))?;
        }
        return Ok(Exit::Done);
    }
    let stop = signals::stop_flag();
    let asked = setup::ask(&args.experiment)?;
    let path = args.output.clone().unwrap_or_else(|| default_path(&asked));
    let dir = ExperimentDir::create(&path, &asked.plan, &asked.experiment_toml)?;
    let cache = Cache::default_location()?;
    let most_clients = asked.plan.cases.iter().map(|case| case.workload.n_clients).max().unwrap_or(1);
    let os = take_os(&asked.plan)?;
    let now = || jiff::Timestamp::now().to_string();
    let site = Site {
        cache: &cache,
        memory_bytes: server::defaults::memory_bytes(),
        most_clients,
        password: asked.password.clone(),
        password_source: asked.password_source.clone(),
        os,
        runs_by_data: copies::runs_by_data(&asked.plan),
        replace: args.replace,
        stop,
        now: &now,
    };
    let mut screen = Screen::new(&asked.plan);
    let program = std::env::current_exe().context("find the program of this process")?;
    let (outcome, result) =
        conduct::conduct(&asked.plan, &dir, &site, &program, &mut |progress| screen.show(progress));
    screen.close();
    finish(args, dir, outcome, result)
}

/// The right to set values of the operating system, if a case asks for one. What a pgdyno that was killed left behind
/// is put back in any case.
fn take_os(plan: &Plan) -> Result<Option<Mutex<Keeper>>> {
    let machine = Machine::this();
    let (keeper, undone) = if plan.cases.iter().any(|case| !case.os.is_empty()) {
        let (keeper, undone) = Keeper::take(&machine).context("set values of the operating system")?;
        (Some(Mutex::new(keeper)), undone)
    } else {
        (None, host::undo_left(&machine)?)
    };
    clean::tell(&undone);
    Ok(keeper)
}

/// Explains what there is, also when the experiment ended early.
fn finish(args: &RunArgs, dir: ExperimentDir, outcome: Outcome, result: Result<()>) -> Result<Exit> {
    let path = dir.path().to_path_buf();
    let has_results = outcome.completed + outcome.incomplete > 0;
    let is_failed = result.is_err();
    match result {
        // Bad input leaves nothing behind: the next attempt may name the same directory.
        Err(error) if !has_results => {
            dir.discard();
            return Err(error);
        }
        Err(error) => say(&format!("pgdyno: error: {error:#}")),
        Ok(()) => {}
    }
    // The lock on the directory ends here.
    drop(dir);
    if !has_results {
        say(&format!("stopped before the first run; {} has no results", path.display()));
        return Ok(Exit::Partial);
    }
    let exit = explain::explain(&path, args.json, args.strict)?;
    if outcome.incomplete + outcome.missing > 0 {
        let word = if outcome.stopped { "stopped" } else { "ended early" };
        say(&format!(
            "{word}: {} runs completed, {} cut short or failed, {} not begun; the results are partial",
            outcome.completed, outcome.incomplete, outcome.missing
        ));
        return Ok(Exit::Partial);
    }
    Ok(exit_of(exit, is_failed))
}

/// The exit code of an experiment whose runs are all there: `explained`, but never that of success after an error.
fn exit_of(explained: Exit, is_failed: bool) -> Exit {
    if is_failed && explained == Exit::Done { Exit::Partial } else { explained }
}

fn default_path(asked: &Asked) -> PathBuf {
    let today = jiff::Zoned::now().date().to_string();
    // Different from the seed's last digits, which a repeated experiment shares.
    let random = ((asked.plan.made_unix_ns / 1000) ^ u64::from(std::process::id())) as u16;
    store::default_path(std::path::Path::new("results"), &asked.plan.name, &today, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_the_exit_code_is_not_that_of_success() {
        assert_eq!(exit_of(Exit::Done, false), Exit::Done);
        assert_eq!(exit_of(Exit::Done, true), Exit::Partial);
        assert_eq!(exit_of(Exit::Void, true), Exit::Void);
    }
}
