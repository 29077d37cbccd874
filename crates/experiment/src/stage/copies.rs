//! Whether the data of a server by URL is restored by copying a template instead of loading it again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Error, Result, bail};
use dataset::state::WorkloadTables;
use model::experiment::RestoreBy;
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;
use server::database::template::{self, Changed, Displaced, Doors, LoadedObjects, Templates};
use wire::Conninfo;
use wire::session::Session;

use crate::site::Environment;
use crate::site::keys::data_key;
use crate::site::progress::{ProgressEvent, Watch};

/// The fact of a restore that says what somebody else changed in the database since loading.
pub const DATABASE_CHANGED: &str = "database_changed";

/// Templates of the database, or why there are none.
pub(crate) enum Copies {
    /// Not examined yet.
    Unknown,
    /// The server, our user, or other contents of the database do not allow it.
    Impossible(String),
    Possible(Box<Templates>),
}

/// Inputs of the decision, besides the server.
pub(crate) struct CopyInputs {
    pub(crate) by: RestoreBy,
    /// Number of runs in the experiment that begin with this data.
    pub(crate) n_runs: u32,
    pub(crate) is_pooled: bool,
    /// The user named the database as one that may be replaced by a copy.
    pub(crate) may_replace: bool,
    /// The data comes from an archive, which is restored once: then there is no other way than copies.
    pub(crate) is_archive: bool,
}

impl CopyInputs {
    /// Whether an experiment without templates is impossible.
    fn is_strict(&self) -> bool {
        self.is_archive || self.by.must_copy()
    }
}

impl Copies {
    /// Determines once whether templates are possible. `session` is in the database.
    ///
    /// # Errors
    /// When a template is required and impossible.
    pub(crate) fn look(
        &mut self,
        wish: &CopyInputs,
        session: &mut Session,
        conninfo: &Conninfo,
        environment: &Environment,
        watch: &mut Watch,
    ) -> Result<()> {
        if matches!(self, Copies::Unknown) {
            *self = match open(wish, session, conninfo, environment) {
                Ok((templates, left)) => {
                    for (name, why) in left {
                        watch(ProgressEvent::Note(format!("database `{name}` is left: {why}")));
                    }
                    Copies::Possible(Box::new(templates))
                }
                Err(error) => Copies::Impossible(format!("{error:#}")),
            };
        }
        match self {
            Copies::Impossible(reason) if wish.is_strict() => bail!(no_template(reason, wish.is_archive)),
            _ => Ok(()),
        }
    }

    /// The templates, if they are to restore this case's data.
    pub(crate) fn wanted(&mut self, wish: &CopyInputs) -> Option<&mut Templates> {
        // A single run needs no copy of the data loaded for it.
        let is_wanted = wish.is_strict() || wish.by.may_copy() && wish.n_runs > 1;
        if is_wanted { self.kept() } else { None }
    }

    /// Existing templates, including those of other data than this case's.
    pub(crate) fn kept(&mut self) -> Option<&mut Templates> {
        match self {
            Copies::Possible(templates) => Some(templates),
            Copies::Unknown | Copies::Impossible(_) => None,
        }
    }

    /// Templates could not be made or copied: data is loaded again from now on. Returns facts for the record.
    ///
    /// # Errors
    /// When a template is required, or the database has another name: `error`.
    pub(crate) fn give_up(&mut self, wish: &CopyInputs, error: Error) -> Result<BTreeMap<String, String>> {
        if error.downcast_ref::<Displaced>().is_some() {
            return Err(error);
        }
        if wish.is_strict() {
            return Err(error.context(impossible(wish.is_archive)));
        }
        *self = Copies::Impossible(format!("{error:#}"));
        let changed = error.downcast_ref::<Changed>();
        let fact = |changed: &Changed| (DATABASE_CHANGED.to_string(), changed.difference.clone());
        Ok(changed.map(fact).into_iter().collect())
    }

    /// Why data is loaded again, for the record.
    pub(crate) fn why_not(&self, wish: &CopyInputs) -> Option<String> {
        match self {
            _ if !wish.by.may_copy() => Some(format!("prepare.restore_by is {}", wish.by)),
            Copies::Impossible(reason) => Some(reason.clone()),
            Copies::Possible(_) => Some("only one run begins with this data".to_string()),
            Copies::Unknown => None,
        }
    }
}

fn open(
    wish: &CopyInputs,
    session: &mut Session,
    conninfo: &Conninfo,
    environment: &Environment,
) -> Result<(Templates, Vec<(String, String)>)> {
    if let Some(reason) = refusal(session, wish.is_pooled, wish.may_replace)? {
        bail!(reason);
    }
    Templates::open(Doors::new(conninfo, environment.stop), session)
}

/// Message for a required template that is impossible.
pub(crate) fn no_template(reason: &str, is_archive: bool) -> String {
    format!("{}: {reason}", impossible(is_archive))
}

fn impossible(is_archive: bool) -> &'static str {
    if is_archive {
        "workload.restore_from needs a database of this server that may be replaced by a copy of itself before each run, since an \
             archive is restored once"
    } else {
        "prepare.restore_by = \"template\" is impossible"
    }
}

/// Why the database of `session` must not be replaced by a copy; `None` if it may.
///
/// # Errors
/// When the server fails.
pub(crate) fn refusal(session: &mut Session, is_pooled: bool, may_replace: bool) -> Result<Option<String>> {
    if is_pooled {
        return Ok(Some("connections of the pooler would be in the way".to_string()));
    }
    if let Some(obstacle) = template::obstacle(session)? {
        return Ok(Some(obstacle));
    }
    if may_replace || template::is_made(session)? {
        return Ok(None);
    }
    let rows = session.query("select current_database()")?;
    let name = rows.scalar().unwrap_or_default();
    Ok(Some(format!(
        "pgdyno did not create database `{name}`; --replace-database {name} lets it be replaced by a copy of itself before each \
         run, and `pgdyno init --create-database --server URL` creates one for that"
    )))
}

/// Fails if the database contains anything: an archive is restored next to nothing that it could run into, or that would go with it.
///
/// # Errors
/// Names what is there, and what to do; or when the server fails.
pub(crate) fn expect_empty(session: &mut Session) -> Result<()> {
    let others = template::others(session, &[], &|_| false)?;
    let n_others = others.n.max(template::holders(session)?.len());
    if n_others == 0 {
        return Ok(());
    }
    let rows = session.query("select current_database()")?;
    let name = rows.scalar().unwrap_or_default();
    let mut first = others.first;
    if first.is_empty() {
        first.push("tables of an extension, whose rows the archive might not have".to_string());
    } else if n_others > first.len() {
        first.push("...".to_string());
    }
    bail!(
        "workload.restore_from needs an empty database, but `{name}` holds {}; name an empty one, or if nobody needs what it holds, \
         drop it on that server and create it again",
        first.join(", ")
    )
}

/// Fails if the database contains objects that were not loaded just now: they would be replaced too. `before` is the
/// contents before loading, if only that shows what belongs to the load.
pub(crate) fn expect_alone(
    session: &mut Session,
    workload: &WorkloadSpec,
    before: &BTreeSet<u32>,
) -> Result<()> {
    // Not only the workload's tables belong to an archive.
    let home = if is_archive(workload) { None } else { WorkloadTables::find(session, workload)? };
    let tables = home.map(|home| home.tables());
    let tables: Option<Vec<&str>> = tables.as_ref().map(|all| all.iter().map(String::as_str).collect());
    let load =
        tables.as_ref().map_or(LoadedObjects::NotThereBefore(before), |tables| LoadedObjects::Tables(tables));
    match template::stranger(session, load)? {
        Some(what) => bail!("the database also holds {what}, which pgdyno did not load"),
        None => Ok(()),
    }
}

/// Whether the data comes from an archive.
pub(crate) fn is_archive(workload: &WorkloadSpec) -> bool {
    matches!(workload.data, CaseData::Archive(_))
}

/// A line of text that distinguishes the data of one case from that of another.
pub fn data_name(case: &Case) -> String {
    let parts = data_key(case).into_iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// Number of runs of a plan that begin with the same data, by [`data_name`].
pub fn runs_by_data(plan: &Plan) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for case in plan.runs.iter().filter_map(|run| plan.case(run.case)) {
        *counts.entry(data_name(case)).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn after_a_copy_that_failed_data_is_loaded_again_unless_a_template_was_asked_for() {
        let mut copies = Copies::Unknown;
        let wish = |by| CopyInputs { by, n_runs: 3, is_pooled: false, may_replace: true, is_archive: false };
        let refused = copies.give_up(&wish(RestoreBy::Template), anyhow!("no space")).unwrap_err();
        assert!(format!("{refused:#}").ends_with("is impossible: no space"), "{refused:#}");
        assert!(matches!(copies, Copies::Unknown));
        copies.give_up(&wish(RestoreBy::Auto), anyhow!("no space").context("copy")).unwrap();
        assert!(copies.wanted(&wish(RestoreBy::Auto)).is_none());
        assert_eq!(copies.why_not(&wish(RestoreBy::Auto)), Some("copy: no space".to_string()));
    }
}
