//! Whether and how the data of a server by URL is put back by copying a template, in place of loading it again.

use std::collections::BTreeMap;

use anyhow::{Error, Result, bail};
use model::case::WorkloadSpec;
use model::experiment::RestoreBy;
use model::plan::Plan;
use model::script::CaseData;
use server::template::{self, MAINTENANCE, Templates};
use wire::Conninfo;
use wire::session::Session;

use crate::dataset::Dataset;
use crate::session;
use crate::stage::{Site, data_key};

/// Templates of the database that was named, or why there are none.
pub(crate) enum Copies {
    /// Nobody has asked yet.
    Unknown,
    /// The server, our user, or what else is in the database does not allow it.
    Impossible(String),
    /// It is allowed.
    Possible(Box<Templates>),
}

/// What the decision depends on, besides the server.
pub(crate) struct Wish {
    pub(crate) by: RestoreBy,
    /// How many runs of the experiment begin with this data.
    pub(crate) n_runs: u32,
    pub(crate) is_pooled: bool,
}

impl Copies {
    /// Finds out, once, whether templates can be kept. `session` is in the database.
    ///
    /// # Errors
    /// When a template is wished for and cannot be.
    pub(crate) fn look(
        &mut self,
        wish: &Wish,
        session: &mut Session,
        conninfo: &Conninfo,
        site: &Site,
    ) -> Result<()> {
        if matches!(self, Copies::Unknown) {
            *self = match open(wish, session, conninfo, site) {
                Ok(templates) => Copies::Possible(Box::new(templates)),
                Err(error) => Copies::Impossible(format!("{error:#}")),
            };
        }
        match self {
            Copies::Impossible(reason) if wish.by == RestoreBy::Template => {
                bail!("prepare.restore_by = \"template\" cannot be: {reason}")
            }
            _ => Ok(()),
        }
    }

    /// The templates, if this case's data is to be put back by them.
    pub(crate) fn wanted(&mut self, wish: &Wish) -> Option<&mut Templates> {
        match (self, wish.by) {
            (Copies::Possible(templates), RestoreBy::Template) => Some(templates),
            // One run needs no copy of what was loaded for it.
            (Copies::Possible(templates), RestoreBy::Auto) if wish.n_runs > 1 => Some(templates),
            _ => None,
        }
    }

    /// After templates could not be made or copied: data is loaded again from now on.
    ///
    /// # Errors
    /// When a template is wished for: `error`.
    pub(crate) fn give_up(&mut self, wish: &Wish, error: Error) -> Result<()> {
        if wish.by == RestoreBy::Template {
            return Err(error.context("prepare.restore_by = \"template\" cannot be"));
        }
        *self = Copies::Impossible(format!("{error:#}"));
        Ok(())
    }

    /// Why data is loaded again, for the record.
    pub(crate) fn why_not(&self, wish: &Wish) -> Option<String> {
        match self {
            _ if wish.by == RestoreBy::Load => Some("prepare.restore_by is load".to_string()),
            Copies::Impossible(reason) => Some(reason.clone()),
            Copies::Possible(_) => Some("one run begins with this data".to_string()),
            Copies::Unknown => None,
        }
    }
}

fn open(wish: &Wish, session: &mut Session, conninfo: &Conninfo, site: &Site) -> Result<Templates> {
    if wish.is_pooled {
        bail!("a pooler stands between, whose connections would be in the way");
    }
    if let Some(obstacle) = template::obstacle(session)? {
        bail!(obstacle);
    }
    let maintenance = Conninfo { dbname: MAINTENANCE.to_string(), ..conninfo.clone() };
    Templates::open(session::open(&maintenance, site.stop)?, session)
}

/// Fails when the database holds what pgdyno did not load: replacing the database would replace that too.
pub(crate) fn expect_alone(session: &mut Session, data: &CaseData) -> Result<()> {
    let Some(dataset) = Dataset::of(data) else {
        bail!("files do not say which tables are theirs; prepare.restore_by = \"template\" copies them all");
    };
    match template::foreign_table(session, &dataset.tables())? {
        Some(table) => bail!("the database also holds `{table}`, which pgdyno did not load"),
        None => Ok(()),
    }
}

/// What tells the data of one workload from that of another, as a line of text.
pub fn data_name(workload: &WorkloadSpec) -> String {
    let parts = data_key(workload).into_iter().map(|(name, value)| format!("{name}={value}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// How many runs of a plan begin with the same data, by [`data_name`].
pub fn runs_by_data(plan: &Plan) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for case in plan.runs.iter().filter_map(|run| plan.case(run.case)) {
        *counts.entry(data_name(&case.workload)).or_default() += 1;
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
        let wish = |by| Wish { by, n_runs: 3, is_pooled: false };
        let refused = copies.give_up(&wish(RestoreBy::Template), anyhow!("no space")).unwrap_err();
        assert!(format!("{refused:#}").ends_with("cannot be: no space"), "{refused:#}");
        assert!(matches!(copies, Copies::Unknown));
        copies.give_up(&wish(RestoreBy::Auto), anyhow!("no space").context("copy")).unwrap();
        assert!(copies.wanted(&wish(RestoreBy::Auto)).is_none());
        assert_eq!(copies.why_not(&wish(RestoreBy::Auto)), Some("copy: no space".to_string()));
    }
}
