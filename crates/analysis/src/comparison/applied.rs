//! What `workload.apply` did on a side: its SQL, how long it took to build, and what it added to the data.

use model::run::applied::Applied;
use serde::Serialize;

use super::ComparedSide;

/// Statements that were applied to the data of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppliedSide {
    /// The SQL.
    pub sql: String,
    /// Median time of a run's statements, seconds.
    pub build_s: f64,
    /// Median growth of all relations together, bytes.
    pub growth_bytes: f64,
    /// Relations of the first run that counts, those first that changed most: name, kind and growth in bytes.
    pub relations: Vec<(String, String, f64)>,
    /// Runs behind it.
    pub n_runs: usize,
}

/// Relations that are named.
const RELATIONS_MAX: usize = 20;

impl AppliedSide {
    /// What was applied before the runs of a side that count; `None` if nothing was.
    pub(crate) fn find(side: ComparedSide) -> Option<AppliedSide> {
        let counting: Vec<u32> = side.counting().map(|run| run.run).collect();
        let runs = side.data.runs.iter().filter(|run| counting.contains(&run.record.spec.run));
        let all: Vec<&Applied> = runs.filter_map(|run| run.record.applied.as_ref()).collect();
        let first = all.first()?;
        let median =
            |of: fn(&Applied) -> f64| stats::median(&all.iter().map(|one| of(one)).collect::<Vec<f64>>());
        let relations = first.relations.iter().take(RELATIONS_MAX);
        Some(AppliedSide {
            sql: first.sql.clone(),
            build_s: median(|one| one.seconds)?,
            growth_bytes: median(Applied::growth)?,
            relations: relations.map(|one| (one.name.clone(), one.kind.clone(), one.growth())).collect(),
            n_runs: all.len(),
        })
    }
}
