//! What a plan needs to know about the machine with the data, before it is made, and what cannot be done there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use experiment::plan::expand::PlanResources;
use experiment::stage::adopted::{self, Glance};
use experiment::stage::kept_clusters;
use experiment::stage::os::{self, ServerPlace};
use model::experiment::Experiment;
use model::experiment::plan::Plan;
use model::text::units::Scale;
use model::workload::Dataset;
use wire::Conninfo;

use crate::signals;

/// What a plan needs to know about where the data will be: this machine, or a server by URL.
pub(crate) fn place(
    experiment: &Experiment,
    target: Option<&str>,
    conninfo: Option<&Conninfo>,
) -> Result<PlanResources> {
    let glance = conninfo.map(|conninfo| look(experiment, conninfo)).transpose()?.flatten();
    let is_here = glance.as_ref().is_none_or(|glance| glance.is_local);
    Ok(PlanResources {
        memory_bytes: is_here.then(server::settings::defaults::memory_bytes),
        kept_scale: kept_scale(experiment, target, conninfo)?,
        foreign_scale: glance.as_ref().map(|glance| glance.foreign_scale.clone()).unwrap_or_default(),
        directory_scale: glance.as_ref().map(|glance| glance.directory_scale.clone()).unwrap_or_default(),
        data_scale: glance.map(|glance| glance.data_scale).unwrap_or_default(),
        url_keywords: conninfo.map(Conninfo::keywords),
        ..PlanResources::default()
    })
}

/// Scales of the data that our own servers have kept, if a case measures it is.
fn kept_scale(
    experiment: &Experiment,
    target: Option<&str>,
    conninfo: Option<&Conninfo>,
) -> Result<BTreeMap<Dataset, u32>> {
    let is_as_it_is = experiment.prepare.restore.all().contains(&false);
    if conninfo.is_some() || !is_as_it_is || !experiment.workload.scale.all().contains(&Scale::Fit) {
        return Ok(BTreeMap::new());
    }
    kept_clusters::scales(&server::Cache::default_location()?, experiment, target)
}

/// The label `memory` of a target in bytes.
pub(crate) fn memory_of(text: &str) -> Result<u64> {
    let bytes = model::text::units::size_bytes(text, 1 << 20).filter(|bytes| *bytes > 0);
    bytes.with_context(|| format!("memory: `{text}` is not a size; example: 64GB"))
}

/// Inspects the server by URL, if the scale of the data or values of its system depend on it.
fn look(experiment: &Experiment, conninfo: &Conninfo) -> Result<Option<Glance>> {
    let is_rule = |scale: &Scale| !matches!(scale, Scale::Units(_));
    if !experiment.workload.scale.all().iter().any(is_rule) && experiment.os.is_empty() {
        return Ok(None);
    }
    adopted::glance(conninfo, experiment.workload.schema.as_deref(), signals::stop_flag()).map(Some)
}

/// Fails if a case asks for values of the operating system that cannot be set here; lists them all.
pub(crate) fn refuse_os(plan: &Plan, place: ServerPlace) -> Result<()> {
    let clusters = server::Cache::default_location()?.clusters_dir();
    let refused = os::refusals(&plan.cases, place, &clusters);
    let lines: Vec<String> = refused
        .iter()
        .map(|refusal| format!("{} = {}: {}", refusal.key, refusal.level, refusal.reason))
        .collect();
    ensure!(lines.is_empty(), "this cannot be set here, so remove it: {}", lines.join("; "));
    Ok(())
}

/// Refuses hosts of a built-in study that the user has not replaced.
pub(crate) fn expect_machines(name: &str, experiment: &Experiment) -> Result<()> {
    let placeholders = experiment::forecast::fit::placeholders(experiment);
    ensure!(
        placeholders.is_empty(),
        "{name}: {} {} no machine; put your hosts into a copy of the file, or add --fit, which runs all of it on this machine",
        placeholders.join(", "),
        if placeholders.len() == 1 { "names" } else { "name" }
    );
    Ok(())
}
