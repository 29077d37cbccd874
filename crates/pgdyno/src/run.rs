//! `pgdyno run`: measure, then explain.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use experiment::conduct::{self, Order, Outcome};
use experiment::stage::Site;
use experiment::{copies, resume};
use host::{Keeper, Machine};
use model::plan::Plan;
use server::Cache;
use store::ExperimentDir;
use wire::Conninfo;

use crate::cli::RunArgs;
use crate::screen::Screen;
use crate::setup::Asked;
use crate::{Exit, clean, explain, plan, print, say, setup, signals, spot};

/// Runs the experiment that `args` ask for.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    if args.list {
        for builtin in experiment::builtin::BUILTINS {
            print(&format!("{:<12} {}\n", builtin.name, builtin.about))?;
        }
        return Ok(Exit::Done);
    }
    let stop = signals::stop_flag();
    if let Some(url) = &args.spot_notice {
        spot::watch(url)?;
    }
    let job = match &args.resume {
        Some(dir) => resumed(dir)?,
        None => begun(args)?,
    };
    end_in_time(format!("go on with: pgdyno run --resume {}", job.dir.path().display()));
    let cache = Cache::default_location()?;
    let now = || jiff::Timestamp::now().to_string();
    let site = Site {
        cache: &cache,
        memory_bytes: server::defaults::memory_bytes(),
        most_clients: plan::most_clients(&job.plan),
        servers: &job.servers,
        os: job.os,
        runs_by_data: copies::runs_by_data(&job.plan),
        replace: args.replace,
        stop,
        now: &now,
        is_enough: None,
    };
    let mut screen = Screen::new(&job.plan);
    let program = std::env::current_exe().context("find the program of this process")?;
    let order = Order {
        plan: &job.plan,
        dir: &job.dir,
        site: &site,
        program: &program,
        done: &job.done,
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    let (outcome, result) = conduct::conduct(&order, &mut |progress| screen.show(progress));
    screen.close();
    finish(args, job.dir, outcome, result)
}

/// An experiment that is ready to be conducted.
struct Job {
    plan: Plan,
    dir: ExperimentDir,
    /// Runs that completed before.
    done: BTreeSet<u32>,
    /// The servers by URL, with their passwords.
    servers: Vec<Conninfo>,
    /// See [`take_os`].
    os: Option<Mutex<Keeper>>,
}

/// Sees to it that a process which was asked to stop ends within half a minute. Values of the operating system are put
/// back even then; `how_on` ends its last words.
pub(crate) fn end_in_time(how_on: String) {
    signals::end_in_time(Exit::Partial as i32, move || {
        match host::undo_own(&Machine::this()) {
            Ok(undone) => clean::tell(&undone),
            Err(error) => say(&format!("values of the operating system: {error:#}; see pgdyno clean")),
        }
        say(&format!("not done in time: ending at once; {how_on}"));
    });
}

fn begun(args: &RunArgs) -> Result<Job> {
    let asked = setup::ask(&args.experiment)?;
    expect_possible(args, &asked)?;
    // Before the directory is made: what is refused leaves none.
    let os = take_os(&asked.plan)?;
    let path = args.output.clone().unwrap_or_else(|| default_path(&asked.plan));
    let dir = ExperimentDir::create(&path, &asked.plan, &asked.experiment_toml)?;
    let Asked { plan, servers, .. } = asked;
    Ok(Job { plan, dir, done: BTreeSet::new(), servers, os })
}

/// Nothing is begun that needs consent, or that is known to fail later.
fn expect_possible(args: &RunArgs, asked: &Asked) -> Result<()> {
    let plan = &asked.plan;
    if let Some(why) = plan::outlook(plan).asks_consent(plan.runs.len()).filter(|_| !args.yes) {
        bail!("{why}; look at it with pgdyno plan, and give --yes if it is meant");
    }
    // A single server by URL is looked at when it is taken over, before anything is changed there.
    if !asked.servers.is_empty() && plan.cases.iter().all(|case| case.server.target.is_none()) {
        return Ok(());
    }
    let obstacles = plan::obstacles(plan, &asked.servers)?;
    let problems: Vec<String> = obstacles.iter().map(|obstacle| plan::words(plan, obstacle)).collect();
    ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
    Ok(())
}

/// An experiment that was cut off, with its plan, order and seeds as they were.
fn resumed(path: &Path) -> Result<Job> {
    let plan = store::read_plan(path)?;
    ensure!(
        !plan.is_comparison,
        "`{}` is a comparison, whose runs belong together in time: it cannot be resumed; run pgdyno compare again",
        path.display()
    );
    let os = take_os(&plan)?;
    let text = std::fs::read_to_string(path.join(store::names::EXPERIMENT))
        .with_context(|| format!("cannot read the experiment file of `{}`", path.display()))?;
    let servers = setup::servers_of(&text)?;
    let dir = ExperimentDir::open(path)?;
    let standing = resume::take_up(&dir, &plan)?;
    say(&format!(
        "resuming {}: {} of {} runs are done, {} cut short or failed are made again",
        path.display(),
        standing.done.len(),
        plan.runs.len(),
        standing.again.len()
    ));
    Ok(Job { plan, dir, done: standing.done, servers, os })
}

/// The right to set values of the operating system, if a case asks for one. What a pgdyno that was killed left behind
/// is put back in any case.
pub(crate) fn take_os(plan: &Plan) -> Result<Option<Mutex<Keeper>>> {
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
        Err(error) if !has_results && args.resume.is_none() => {
            dir.discard();
            return Err(error);
        }
        Err(error) => say(&format!("pgdyno: error: {error:#}")),
        Ok(()) => {}
    }
    // The lock on the directory ends here.
    drop(dir);
    let go_on = format!("go on with: pgdyno run --resume {}", path.display());
    if !has_results {
        say(&format!("stopped before the first run; {} has no results; {go_on}", path.display()));
        return Ok(Exit::Partial);
    }
    let exit = explain::explain(&path, args.json, args.strict)?;
    if outcome.incomplete + outcome.missing > 0 {
        let word = if outcome.stopped { "stopped" } else { "ended early" };
        say(&format!(
            "{word}: {} runs completed, {} cut short or failed, {} not begun; the results are partial; {go_on}",
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

/// Where the results of a plan go unless the user says otherwise.
pub(crate) fn default_path(plan: &Plan) -> PathBuf {
    let today = jiff::Zoned::now().date().to_string();
    // Different from the seed's last digits, which a repeated experiment shares.
    let random = ((plan.made_unix_ns / 1000) ^ u64::from(std::process::id())) as u16;
    store::default_path(Path::new("results"), &plan.name, &today, random)
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
