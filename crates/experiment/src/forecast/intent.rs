//! What a plan will do to a server by URL, in one line, and what else is there; determined before anything is done.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use dataset::kind::Dataset;
use dataset::session::{self, limit};
use dataset::state::Home;
use model::experiment::RestoreBy;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;
use model::text::prose::plural;
use server::database::template::{self, Others};
use wire::Conninfo;
use wire::session::Session;
use workload::Schema;

use crate::site::keys::data_words;
use crate::stage::copies;

/// Intention for one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// `loads 4 tables into schema public of database bench on host, replaced before each run`.
    pub line: String,
    /// What else the database contains, if anything in it is dropped or replaced.
    pub others: Others,
}

/// Intentions for each database of a server by URL. `servers` have the passwords.
///
/// # Errors
/// When a server cannot be reached or fails.
pub fn of_plan(
    plan: &Plan,
    servers: &[Conninfo],
    replace_databases: &[String],
    stop: &'static AtomicBool,
) -> Result<Vec<Intent>> {
    let mut seen: Vec<&ServerSource> = Vec::new();
    let mut intents = Vec::new();
    for case in &plan.cases {
        let source = &case.server.source;
        if seen.contains(&source) {
            continue;
        }
        seen.push(source);
        let ServerSource::Url(keywords) = source else { continue };
        let conninfo = crate::site::conninfo(servers, keywords)?;
        let cases: Vec<&Case> = plan.cases.iter().filter(|case| case.server.source == *source).collect();
        let is_here = |id: u32| cases.iter().any(|case| case.id == id);
        let n_runs = plan.runs.iter().filter(|run| is_here(run.case)).count();
        let may_replace = replace_databases.contains(&conninfo.dbname);
        intents.push(limit::within(
            "examine the server",
            crate::site::phase_limit::of_questions(case),
            || {
                let mut session = session::open(&conninfo, stop)?;
                Intent::of(&mut session, &conninfo, &cases, n_runs, may_replace)
            },
        )?);
    }
    Ok(intents)
}

impl Intent {
    fn of(
        session: &mut Session,
        conninfo: &Conninfo,
        cases: &[&Case],
        n_runs: usize,
        may_replace: bool,
    ) -> Result<Intent> {
        let place = place(conninfo);
        let loading: Vec<&Case> = cases
            .iter()
            .filter(|case| case.prepare.restore && case.workload.data != CaseData::None)
            .copied()
            .collect();
        if loading.is_empty() {
            let line = format!("uses {place} as it is: nothing is loaded or restored");
            return Ok(Intent { line, others: Others::default() });
        }
        let mut homes: Vec<Home> = Vec::new();
        for case in &loading {
            homes.extend(Home::of(session, &case.workload)?);
        }
        let tables: BTreeSet<String> = homes.iter().flat_map(Home::tables).collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let may_copy = loading.iter().any(|case| case.prepare.restore_by != RestoreBy::Load);
        // A pooler is detected later; this line reports the most that is done.
        let is_refused =
            |session: &mut Session| !matches!(copies::refusal(session, false, may_replace), Ok(None));
        let copies = n_runs > 1 && may_copy && !is_refused(session);
        let again = match (copies, n_runs > 1) {
            (true, _) => "; the whole database is replaced by a copy of itself before each run",
            (false, true) => ", replaced before each run",
            (false, false) => "",
        };
        let what = match tables.is_empty() {
            true => {
                let files: BTreeSet<String> = loading.iter().map(|case| data_words(&case.workload)).collect();
                format!("runs {} in {place}", files.into_iter().collect::<Vec<_>>().join(", "))
            }
            false => loads(&tables, homes.iter().map(|home| &home.schema), &place),
        };
        // A server that cannot be queried is not PostgreSQL, and is refused later.
        let others = template::others(session, &tables).unwrap_or_default();
        Ok(Intent { line: format!("{what}{again}"), others })
    }

    /// Intention of `init`.
    pub fn to_load(conninfo: &Conninfo, dataset: Dataset, schema: &Schema) -> String {
        loads(&dataset.tables(), std::iter::once(schema), &place(conninfo))
    }
}

fn loads<'a>(tables: &[&str], schemas: impl Iterator<Item = &'a Schema>, place: &str) -> String {
    let schemas: BTreeSet<&str> = schemas.map(Schema::name).collect();
    let schemas = schemas.into_iter().collect::<Vec<_>>().join(", ");
    format!("loads {} into schema {schemas} of {place}", plural(tables.len(), "table"))
}

fn place(conninfo: &Conninfo) -> String {
    let hosts: Vec<String> = conninfo.hosts.iter().map(ToString::to_string).collect();
    format!("database {} on {}", conninfo.dbname, hosts.join(","))
}
