//! A comparison that goes on in its directory, with the pairs of its plan that are missing. Only before it has a verdict: who looks at the
//! test and then adds pairs finds differences that are none (METHODOLOGY, comparisons).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};
use experiment::schedule::{replaced, resume};
use model::experiment::plan::Plan;
use model::run::RunRecord;
use store::ExperimentDir;
use wire::Conninfo;

use super::page;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::announce::announce;
use crate::front::cli::{CompareArgs, ExperimentArgs};
use crate::front::foreign::Ours;
use crate::front::{foreign, hiding};
use crate::job::{self, Job, preview};
use crate::planning;
use crate::say;

/// Takes a comparison up; returns the job, and the records of its complete pairs.
///
/// # Errors
/// When the directory has no comparison in pairs, one that has pairs enough for a verdict, or one that another pgdyno measures.
pub(super) fn take_up(path: &Path, args: &CompareArgs) -> Result<(Job, Vec<RunRecord>)> {
    store::expect_ours(path)?;
    let sealed = store::read_sealed(path)?;
    expect_unfinished(path, &sealed.plan)?;
    let text = foreign::expect_allowed(path, &sealed, args.allow_commands.as_ref(), &Ours::default())?;
    let plan = hiding::put_back(path, &sealed.plan, &ExperimentArgs::default())?;
    let servers = servers_of_sides(&text)?;
    let consent = args.consent();
    let os = job::take_os(&plan)?;
    job::undo_settings(&servers)?;
    preview::expect_changes(&plan, &servers, consent)?;
    let records = store::read_records(path)?;
    job::expect_same_servers(&plan, &records, &servers, &BTreeSet::new(), args.risks)?;
    announce(&plan, &servers, consent)?;
    preview::expect_copies(&plan, &servers)?;

    let dir = ExperimentDir::open(path)?;
    let mut standing = resume::take_up(&dir, &sealed.plan)?;
    // The runs of a pair belong together in time.
    let single = single(&plan, &standing.done);
    replaced::make_again(&dir, &records, &single, &mut standing)?;
    let earlier: Vec<RunRecord> =
        records.into_iter().filter(|record| standing.done.contains(&record.spec.run)).collect();
    say(&format!(
        "going on in {}: {} of {} pairs are done",
        path.display(),
        standing.done.len() / 2,
        plan.repeats
    ));
    job::end_in_time(format!("the results are in {}", path.display()));
    Ok((Job { plan, dir, done: standing.done, servers, os }, earlier))
}

/// Refuses what has nothing to go on with.
fn expect_unfinished(path: &Path, plan: &Plan) -> Result<()> {
    let shown = path.display();
    ensure!(plan.is_comparison, "`{shown}` is no comparison; use pgdyno run --resume {shown}");
    let request = store::read_comparison(path)?;
    let is_duet = request.is_some_and(|request| request.command.iter().any(|word| word == "--duet"));
    ensure!(
        !is_duet && store::read_duet(path)?.is_none(),
        "`{shown}` is a duet, whose rounds belong together in time; run pgdyno compare --duet again"
    );
    let explained = Explained::read(path, KeptTelemetry::No)?;
    let comparisons = page::own_comparisons(path, &explained)?;
    let n_pairs = comparisons.iter().map(|case| case.n_pairs).max().unwrap_or_default();
    ensure!(
        comparisons.iter().all(|case| case.verdict().is_none()),
        "`{shown}` has {n_pairs} pairs, enough for a verdict, which has been looked at: with more pairs in the same directory, equal \
         servers would be called different too often; measure again, with --pairs and a larger number"
    );
    Ok(())
}

/// The runs whose partner is missing.
fn single(plan: &Plan, done: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut blocks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for spec in plan.runs.iter().filter(|spec| done.contains(&spec.run)) {
        blocks.entry(spec.block).or_default().push(spec.run);
    }
    blocks.into_values().filter(|runs| runs.len() == 1).flatten().collect()
}

/// The servers by URL of both sides: B's experiment follows A's as a comment.
fn servers_of_sides(text: &str) -> Result<Vec<Conninfo>> {
    let (a, b) = text.split_once(page::SIDE_B).unwrap_or((text, ""));
    let b: Vec<&str> =
        b.lines().map(|line| line.strip_prefix("# ").unwrap_or(line.trim_start_matches('#'))).collect();
    let mut servers = planning::servers_of(a)?;
    if !b.is_empty() {
        servers.extend(planning::servers_of(&b.join("\n"))?);
    }
    Ok(servers)
}
