//! What-ifs that were stopped, and go on where they were: the same cases of the same experiment, in the same directory.

use std::path::{Path, PathBuf};

use anyhow::Result;
use experiment::schedule::resume;
use model::experiment::plan::Plan;
use store::ExperimentDir;
use wire::Conninfo;

use super::proofs::{self, Proofs};
use crate::front::cli::ExperimentArgs;
use crate::front::hiding;
use crate::job::{self, Job};
use crate::say;

/// The directory of stopped what-ifs of this case that have the cases of `planned`, and their plan.
///
/// # Errors
/// When what was proven of `dir` cannot be read.
pub(super) fn find(
    dir: &Path,
    case: u32,
    planned: &Plan,
    output: Option<&Path>,
) -> Result<Option<(PathBuf, Plan)>> {
    let of_case = proofs::all_of(dir)?.into_iter().filter(|kept| kept.case == case);
    let places = of_case.flat_map(|kept: Proofs| {
        let of_each = kept.proofs.into_iter().filter_map(|proof| proof.measured_in);
        std::iter::once(kept.measured_in).chain(of_each).collect::<Vec<String>>()
    });
    let is_wanted = |place: &PathBuf| output.is_none_or(|output| output == place);
    Ok(places
        .map(PathBuf::from)
        .filter(is_wanted)
        .find_map(|place| Some((place.clone(), begun(&place, planned)?))))
}

/// The plan of what-ifs in a directory, if they are ours, have runs left, and ask for the same as `planned`. Their number of blocks is
/// their own.
fn begun(place: &Path, planned: &Plan) -> Option<Plan> {
    store::expect_ours(place).ok()?;
    let sealed = store::read_sealed(place).ok().filter(|sealed| sealed.author.is_us())?;
    let plan = hiding::put_back(place, &sealed.plan, &ExperimentArgs::default()).ok()?;
    let is_same = (&plan.cases, plan.seed, &plan.name) == (&planned.cases, planned.seed, &planned.name);
    let records = store::read_records(place).ok()?;
    (is_same && !resume::is_all_done(place, &plan, &records)).then_some(plan)
}

/// Takes the what-ifs up where they were stopped.
///
/// # Errors
/// When another pgdyno measures them, or the directory is damaged.
pub(super) fn take_up(place: &Path, plan: Plan, servers: Vec<Conninfo>) -> Result<Job> {
    let os = job::take_os(&plan)?;
    let dir = ExperimentDir::open(place)?;
    let stored = store::read_sealed(place)?.plan;
    let standing = resume::take_up(&dir, &stored)?;
    say(&format!(
        "going on in {}: {} of {} runs are done",
        place.display(),
        standing.done.len(),
        plan.runs.len()
    ));
    Ok(Job { plan, dir, done: standing.done, servers, os })
}
