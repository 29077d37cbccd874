//! `pgdyno run`: measure, then explain.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use experiment::schedule::conduct::{self, ExperimentOutcome};
use experiment::schedule::{replaced, resume};
use model::experiment::plan::Plan;
use model::text::prose::plural;
use store::{ExperimentDir, Sealed};

use crate::commands::compare::StoredCase;
use crate::commands::report::{self, PrintForm};
use crate::commands::why;
use crate::front::announce::{AgreedSteps, announce};
use crate::front::cli::RunArgs;
use crate::front::cli::why::WhyArgs;
use crate::front::{foreign, hiding, moved, shell};
use crate::job::metrics::Metrics;
use crate::job::referee::{ByBudget, InTime};
use crate::job::{self, Conducted, Job, Terms};
use crate::job::{preview, spot};
use crate::planning;
use crate::{Exit, print, say, signals};

/// Runs the experiment that `args` ask for, and proves what limited it if they ask for that.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let (exit, dir) = measured(args)?;
    match dir.filter(|_| args.why && exit == Exit::Done) {
        Some(dir) => why::prove(&StoredCase { dir, case: None }, &WhyArgs::after(args)),
        None => Ok(exit),
    }
}

/// How to go on with results that are not complete, with the consents that a resumption needs again.
fn go_on(dir: &Path, args: &RunArgs) -> String {
    format!(
        "continue with: pgdyno run --resume {}{}{}",
        shell::quoted(&dir.display().to_string()),
        args.leave.words(),
        args.changes.words()
    )
}

/// Runs the experiment that `args` ask for. Returns the directory of its results, if it has one.
pub(crate) fn measured(args: &RunArgs) -> Result<(Exit, Option<PathBuf>)> {
    if args.list {
        return Ok((list()?, None));
    }
    // From here on a signal asks for an orderly stop.
    signals::stop_flag();
    if let Some(url) = &args.spot_notice {
        spot::watch(url)?;
    }
    let budget = args.experiment.fit.as_deref().map(planning::fitting::budget).transpose()?;
    let in_time = budget.map(|budget| InTime::from_now(Duration::from_millis(budget.ms)));
    let referee = ByBudget::default();
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let mut job = match &args.resume {
        Some(dir) => resumed(dir, args, consent(args))?,
        None => begun(args)?,
    };
    job::end_in_time(go_on(job.dir.path(), args));
    let terms = Terms {
        consent: consent(args),
        n_servers: 1,
        is_enough: None,
        runs_s_max: None,
        quiet: args.quiet,
        live: &args.live,
        spot: args.spot_notice.as_deref(),
        metrics: metrics.as_ref(),
        referee: Some(in_time.as_ref().map_or(&referee, |in_time| in_time as _)),
    };
    let Conducted { result: (outcome, result), is_restored, page } = job.conduct(terms, conduct::conduct)?;
    let kept = kept_by_targets(&job.plan);
    let path = job.dir.path().to_path_buf();
    let exit = finish(args, job.dir, outcome, result)?;
    if let Some((took_s, asked_s)) = in_time.map(|in_time| in_time.spent_s()) {
        say(&format!(
            "fit: took {}; asked for were {}",
            preview::duration(took_s),
            preview::duration(asked_s)
        ));
    }
    // Its readers get the report that was just written.
    drop(page);
    if !kept.is_empty() {
        say(&format!(
            "clusters are kept in {} for the next time; remove those you do not need",
            kept.join(", ")
        ));
    }
    Ok((exit.unless_values_are_left(is_restored), Some(path)))
}

/// Prints the built-in experiments.
pub(crate) fn list() -> Result<Exit> {
    for builtin in experiment::plan::builtin::BUILTINS {
        print(&format!("{:<12} {}\n", builtin.name, builtin.about))?;
    }
    Ok(Exit::Done)
}

/// Fails if an experiment is in this directory, which is to take the results of another one.
pub(crate) fn expect_new(output: Option<&Path>) -> Result<()> {
    let Some(dir) = output.filter(|dir| store::is_experiment_dir(dir)) else { return Ok(()) };
    let command = if store::read_plan(dir).is_ok_and(|plan| plan.is_comparison) { "compare" } else { "run" };
    let dir = dir.display();
    bail!(
        "`{dir}` already contains an experiment; go on with it by `pgdyno {command} --resume {dir}`, or choose a new or \
         empty directory for another one"
    );
}

/// Directories that targets name and `pgdyno server list` does not list: they may be in memory (tmpfs).
fn kept_by_targets(plan: &Plan) -> Vec<String> {
    let directories = plan.cases.iter().filter_map(|case| case.server.target.as_ref()?.directory.as_ref());
    let distinct: BTreeSet<_> = directories.collect();
    distinct.into_iter().map(|directory| format!("`{}`", directory.display())).collect()
}

fn consent(args: &RunArgs) -> AgreedSteps<'_> {
    args.leave.consent(&args.changes, args.yes)
}

fn begun(args: &RunArgs) -> Result<Job> {
    expect_new(args.output.as_deref())?;
    let asked = planning::ask(&args.experiment)?;
    let consent = consent(args);
    // What an earlier one has left is not taken for the servers' own.
    job::undo_settings(&asked.servers)?;
    // Impossible plans are refused first, before anybody is asked for consent.
    job::expect_possible(&asked.plan, 1, &asked.servers, &asked.failed, consent, args.output.as_deref())?;
    if let Some(why) = preview::outlook(&asked.plan).asks_consent()
        && !args.yes
    {
        bail!("{why}. Check with `pgdyno plan`, confirm with --yes.");
    }
    announce(&asked.plan, &asked.servers, consent)?;
    asked.notes.iter().for_each(|note| say(note));
    Job::begin(asked.plan, &asked.experiment_toml, asked.author, asked.servers, args.output.as_deref())
}

/// An interrupted experiment, with its plan, order and seeds as they were. Hidden values are put back into the plan.
fn resumed(path: &Path, args: &RunArgs, consent: AgreedSteps) -> Result<Job> {
    // This executes the stored plan and sends passwords to the servers it names.
    store::expect_ours(path)?;
    let (stored, text, moved) = accepted(path, args)?;
    let plan = hiding::put_back(path, &stored, &args.experiment)?;
    let records = store::read_records(path)?;
    let is_all_done = args.moved.is_empty() && resume::is_all_done(path, &plan, &records);
    let os = job::take_os(&plan)?;
    let servers = planning::servers_of(&text)?;
    job::undo_settings(&servers)?;
    preview::expect_changes(&plan, &servers, consent)?;
    // Otherwise nothing will be done to the servers.
    if !is_all_done {
        job::expect_same_servers(&plan, &records, &servers, &moved, args.leave.risks)?;
        announce(&plan, &servers, consent)?;
    }
    preview::expect_copies(&plan, &servers)?;
    let replaced = replaced::find(&plan, &records, &servers, &moved, signals::stop_flag())?;
    let dir = ExperimentDir::open(path)?;
    let mut standing = resume::take_up(&dir, &stored)?;
    // Nobody limits the time of what is taken up.
    let plan = Plan { spare_blocks: 0, ..plan };
    let is_planned = |run: &&u32| plan.runs.iter().any(|spec| spec.run == **run);
    let n_interrupted = standing.again.iter().filter(is_planned).count();
    let n_repeats = standing.again.len() - n_interrupted;
    let begun_again = replaced::begin_again(&dir, &plan, &records, &replaced, &mut standing)?;
    // Last: once the new address is stored, it no longer shows which runs are of the old server.
    if !moved.is_empty() {
        dir.amend_plan(&stored, &text)?;
    }
    say(&taken_up(path, &plan, standing.done.len(), [n_interrupted, n_repeats]));
    say_replaced(&replaced, &begun_again);
    Ok(Job { plan, dir, done: standing.done, servers, os })
}

/// How much of an experiment is done, and how many planned runs and how many repeats are made again.
fn taken_up(path: &Path, plan: &Plan, n_done: usize, [n_interrupted, n_repeats]: [usize; 2]) -> String {
    let (path, n) = (path.display(), plan.runs.len());
    let done =
        if n_done == n { format!("all {n} runs are done") } else { format!("{n_done} of {n} runs are done") };
    let interrupted = if n_done == n {
        String::new()
    } else {
        format!(", {n_interrupted} interrupted or failed will be repeated")
    };
    let repeats = match n_repeats {
        0 => String::new(),
        1 => ", 1 repeat that was interrupted will be made again".to_string(),
        n => format!(", {n} repeats that were interrupted will be made again"),
    };
    format!("resuming {path}: {done}{interrupted}{repeats}")
}

/// The stored plan and the text of an experiment that may be resumed, with the new addresses of the targets that have moved, whose
/// names are returned too. What is not ours is executed only if the user allows it.
fn accepted(path: &Path, args: &RunArgs) -> Result<(Plan, String, BTreeSet<String>)> {
    let mut sealed = store::read_sealed(path)?;
    let plan = &sealed.plan;
    ensure!(!plan.is_comparison, "`{}` is a comparison; use pgdyno compare --resume {0}", path.display());
    ensure!(
        plan.origins.is_empty(),
        "`{}` was merged from {}; resume those",
        path.display(),
        plan.origins.iter().map(|origin| origin.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    let (ours, moved) = moved::apply(&mut sealed.plan, &mut sealed.experiment_toml, &args.moved)?;
    foreign::expect_allowed(path, &sealed, args.experiment.allow_commands.as_ref(), &ours)?;
    let Sealed { mut plan, experiment_toml, .. } = sealed;
    if !plan.lanes.is_empty() {
        plan.lanes = planning::lanes_of(&plan, &experiment_toml)?;
    }
    Ok((plan, experiment_toml, moved))
}

/// Reports servers that are no longer the ones of earlier runs.
fn say_replaced(targets: &BTreeSet<String>, runs: &BTreeSet<u32>) {
    for target in targets {
        let name = if target.is_empty() { "the server".to_string() } else { format!("target `{target}`") };
        say(&format!(
            "{name} is not the server of its earlier runs: blocks that it completed stay as they are"
        ));
    }
    if !runs.is_empty() {
        let runs: Vec<String> = runs.iter().map(u32::to_string).collect();
        say(&format!("made again, so that their block has one server: run {}", runs.join(", ")));
    }
}

/// In place of how to go on, where the same would happen again.
const UNTIL_LIMIT: &str = "message-limit says what to change before it is measured again";

/// Reports the results, also when the experiment ended early.
fn finish(
    args: &RunArgs,
    dir: ExperimentDir,
    outcome: ExperimentOutcome,
    result: Result<()>,
) -> Result<Exit> {
    let path = dir.path().to_path_buf();
    let has_results = outcome.completed + outcome.incomplete > 0 || dir.has_measurements();
    let is_failed = result.is_err();
    match result {
        // Bad input leaves nothing behind, so that the next attempt may use the same directory.
        Err(error) if !has_results && args.resume.is_none() => {
            dir.discard();
            return Err(error);
        }
        Err(error) => say(&format!("pgdyno: error: {error:#}")),
        Ok(()) => {}
    }
    // This releases the lock on the directory.
    drop(dir);
    let go_on = go_on(&path, args);
    if !has_results {
        let word = if outcome.stopped { "stopped" } else { "ended" };
        say(&format!("{word} before the first run; {} has no results; {go_on}", path.display()));
        return Ok(if outcome.stopped { Exit::Partial } else { Exit::Failed });
    }
    let study = report::explain(&path, PrintForm::from_args(&args.form), None)?;
    let is_limited = study.runs.iter().flat_map(|run| &run.findings).any(|found| found.id == "message-limit");
    let go_on = if is_limited { UNTIL_LIMIT.to_string() } else { go_on };
    let explained = report::trust_exit(&study, &args.trust);
    // Blocks for which there was to be time only perhaps are no loss.
    let is_short = outcome.is_enough && outcome.incomplete == 0 && !outcome.stopped;
    if is_short && outcome.missing > 0 {
        let n = plural(outcome.missing, "further run");
        say(&format!("fit: no time for {n}; {go_on}"));
    }
    let is_partial = outcome.incomplete + outcome.missing > 0 && !is_short;
    if is_partial {
        let word = if outcome.stopped { "stopped" } else { "ended early" };
        say(&format!(
            "{word}: {} completed, {} interrupted or failed, {} not started; the results are partial; {go_on}",
            plural(outcome.completed, "run"),
            outcome.incomplete,
            outcome.missing
        ));
    }
    let has_result = study.has_result();
    // A user who stopped it knows why there is no number.
    let is_expected = has_result || (is_partial && outcome.stopped);
    if !is_expected {
        say("no case has a number that counts");
    }
    Ok(Ending { has_result, is_partial, is_failed, is_stopped: outcome.stopped }.exit(explained))
}

/// What decides the exit code of a measured experiment.
#[derive(Debug, Clone, Copy)]
struct Ending {
    /// Whether a case has a number that counts.
    has_result: bool,
    /// Whether runs of the plan are missing or incomplete.
    is_partial: bool,
    /// Whether an error ended it.
    is_failed: bool,
    /// Whether the user stopped it.
    is_stopped: bool,
}

impl Ending {
    /// The exit code: `explained`, but never success after an error or without a number. A stopped experiment is
    /// partial, since it can be resumed; one that ended by itself without a number has failed.
    fn exit(self, explained: Exit) -> Exit {
        let Ending { has_result, is_partial, is_failed, is_stopped } = self;
        match explained {
            _ if is_partial && (has_result || is_stopped) => Exit::Partial,
            Exit::Done if !has_result => Exit::Failed,
            Exit::Done if is_failed => Exit::Partial,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_success_or_a_number_the_exit_code_is_not_that_of_success() {
        let check = |explained: Exit, ending: &str, expected: Exit| {
            let is = |word: &str| ending.split(' ').any(|part| part == word);
            let of = Ending {
                has_result: is("number"),
                is_partial: is("partial"),
                is_failed: is("failed"),
                is_stopped: is("stopped"),
            };
            assert_eq!(of.exit(explained), expected, "{explained:?} {ending}");
        };
        check(Exit::Done, "number", Exit::Done);
        check(Exit::Done, "number failed", Exit::Partial);
        check(Exit::Done, "number partial", Exit::Partial);
        check(Exit::Done, "number partial failed", Exit::Partial);
        check(Exit::Done, "number partial stopped", Exit::Partial);
        check(Exit::Done, "partial stopped", Exit::Partial);
        check(Exit::Done, "partial", Exit::Failed);
        check(Exit::Done, "partial failed", Exit::Failed);
        check(Exit::Done, "", Exit::Failed);
        check(Exit::Done, "stopped", Exit::Failed);
        check(Exit::Void, "number failed", Exit::Void);
        check(Exit::Void, "", Exit::Void);
        check(Exit::Void, "partial", Exit::Void);
        check(Exit::Void, "partial stopped", Exit::Partial);
    }
}
