//! What a plan will do to a server by URL, in one line, and what else is there; determined before anything is done.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use dataset::clearance::is_loaded_routine;
use dataset::schema;
use dataset::session::{self, limit};
use dataset::state::{WorkloadTables, access};
use model::experiment::case::setting;
use model::experiment::case::{Case, ServerSource};
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;
use model::text::prose::plural;
use model::workload::Dataset;
use server::database::template::{self, Others, RoutineFacts};
use wire::Conninfo;
use wire::session::Session;
use workload::{Schema, Signature};

use crate::site::keys::contents_words;
use crate::site::settings;
use crate::stage::{copies, loaded_before};

/// Intention for one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// `loads 1 table into schema public of database bench on host (t), replaced before each run`.
    pub line: String,
    /// What else the database contains, if anything in it is dropped or replaced.
    pub others: Others,
    /// Settings of the server that are changed, in words.
    pub changes: Option<String>,
    /// Options with which the user agrees to that.
    pub consents: Vec<String>,
}

/// What the user has allowed to be dropped.
#[derive(Debug, Clone, Copy)]
pub struct Leave<'a> {
    /// Tables that pgdyno did not create, and data that is there: it is loaded again in any case.
    pub replace: bool,
    /// Databases that may be replaced by copies of themselves.
    pub databases: &'a [String],
}

/// Intentions for each database of a server by URL. `servers` have the passwords.
///
/// # Errors
/// When a server cannot be reached or fails.
pub fn of_plan(
    plan: &Plan,
    servers: &[Conninfo],
    leave: Leave,
    stop: &'static AtomicBool,
) -> Result<Vec<Intent>> {
    let mut seen: Vec<&ServerSource> = Vec::new();
    let mut intents = Vec::new();
    for case in &plan.cases {
        let source = &case.server.source;
        // Cases that differ in encryption alone use one database.
        if seen.iter().any(|known| known.is_alike_but_for_encryption(source)) {
            continue;
        }
        seen.push(source);
        let ServerSource::Url(keywords) = source else { continue };
        let conninfo = crate::site::conninfo(servers, keywords)?;
        let of_runs = plan.runs.iter().filter_map(|run| plan.case(run.case));
        let runs: Vec<&Case> =
            of_runs.filter(|case| case.server.source.is_alike_but_for_encryption(source)).collect();
        intents.push(limit::within(
            "examine the server",
            crate::site::phase_limit::of_questions(case),
            || {
                let mut session = session::open(&conninfo, stop)?;
                let intent = Intent::read(&mut session, &conninfo, &runs, leave)?;
                let changes = settings::intention(&mut session, &runs)?;
                Ok(Intent { changes, consents: settings::consents(&runs), ..intent })
            },
        )?);
    }
    Ok(intents)
}

/// What is done to tables all the same, and how to leave it out; or that this role cannot do it.
fn tended(session: &mut Session, runs: &[&Case]) -> Result<String> {
    let has =
        |step: fn(&Case) -> bool| runs.iter().any(|case| case.workload.data != CaseData::None && step(case));
    let done = [
        (has(|case| case.prepare.vacuum), "VACUUM", keys::prepare::VACUUM.name),
        (has(|case| case.prepare.analyze), "ANALYZE", keys::prepare::ANALYZE.name),
    ];
    let done: Vec<(&str, &str)> =
        done.into_iter().filter(|(is_done, ..)| *is_done).map(|(_, what, key)| (what, key)).collect();
    if done.is_empty() {
        return Ok(String::new());
    }
    let names: Vec<&str> = done.iter().map(|(what, _)| *what).collect();
    let names = names.join(" and ");
    let (mut n_untended, mut n_tables) = (0, 0);
    for case in distinct(runs) {
        // A schema that is not there is reported elsewhere.
        let Some(home) = WorkloadTables::find(session, &case.workload).ok().flatten() else { continue };
        let [untended, all] = access::untended(session, &home)?;
        (n_untended, n_tables) = (n_untended + untended, n_tables + all);
    }
    let role =
        if n_untended > 0 { session.query("select current_user")?.into_first_column().pop() } else { None };
    let role = role.unwrap_or_default();
    if n_untended > 0 && n_untended == n_tables {
        return Ok(format!("; not {names} of its tables either, which `{role}` cannot do"));
    }
    let options: Vec<String> = done.iter().map(|(_, key)| format!("--set {key}=false")).collect();
    let of = if n_untended > 0 {
        format!("those of its tables that `{role}` may tend")
    } else {
        "its tables".to_string()
    };
    Ok(format!("; {names} of {of} before each run ({} leaves it out)", options.join(" ")))
}

/// What happens to data that is used as it is.
fn as_it_is(session: &mut Session, place: &str, runs: &[&Case]) -> Result<String> {
    let only_reads = runs.iter().all(|case| case.workload.kind.row().only_reads());
    let stays = if only_reads { "" } else { ", and what the load writes stays" };
    Ok(format!("uses {place} as it is: nothing is loaded or restored{stays}{}", tended(session, runs)?))
}

impl Intent {
    /// The intention for the database of `conninfo`, with the cases of `runs` in their order.
    fn read(session: &mut Session, conninfo: &Conninfo, runs: &[&Case], leave: Leave) -> Result<Intent> {
        let place = place(conninfo);
        let (n_runs, may_replace) = (runs.len(), leave.databases.contains(&conninfo.dbname));
        let loading: Vec<&Case> = runs
            .iter()
            .filter(|case| case.prepare.restore && case.workload.data != CaseData::None)
            .copied()
            .collect();
        if loading.is_empty() {
            let line = as_it_is(session, &place, runs)?;
            return Ok(Intent { line, others: Others::default(), changes: None, consents: Vec::new() });
        }
        let mut homes: Vec<WorkloadTables> = Vec::new();
        for case in distinct(&loading) {
            homes.extend(WorkloadTables::find(session, &case.workload)?);
        }
        let mut tables: BTreeSet<String> = homes.iter().flat_map(WorkloadTables::tables).collect();
        let of_directories = directory_tables(session, &loading)?;
        tables.extend(of_directories.iter().flat_map(|(_, tables)| tables.clone()));
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let may_copy = loading.iter().any(|case| case.prepare.restore_by.may_copy());
        // A pooler is detected later; this line reports the most that is done.
        let is_refused =
            |session: &mut Session| !matches!(copies::refusal(session, false, may_replace), Ok(None));
        let is_archive = loading.iter().any(|case| copies::is_archive(&case.workload));
        let copies = (n_runs > 1 && may_copy || is_archive) && !is_refused(session);
        let before = match loading.first() {
            // The server does not have its settings yet.
            Some(first)
                if first.prepare.restore_by.may_copy()
                    && !leave.replace
                    && setting::made_under(first).is_empty() =>
            {
                loaded_before::find(session, &first.workload)?
            }
            _ => None,
        };
        let again = match (copies, n_runs > 1, before.is_some()) {
            (true, _, _) => "; the whole database is replaced by a copy of itself before each run",
            (false, true, true) => "; they are replaced before each later run",
            (false, true, false) => ", replaced before each run",
            (false, false, _) => "",
        };
        let what = if !of_directories.is_empty() {
            let names: BTreeSet<&str> = of_directories.iter().map(|(name, _)| name.as_str()).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let n = plural(tables.len(), "table");
            format!("loads {n} of workload {names} into {place} ({})", tables.join(", "))
        } else if tables.is_empty() || is_archive {
            let files: BTreeSet<String> = loading.iter().map(|case| contents_words(&case.workload)).collect();
            let files = files.into_iter().collect::<Vec<_>>().join(", ");
            if is_archive {
                format!("restores {files} into {place}{}", of_role(session))
            } else {
                format!("runs {files} in {place}")
            }
        } else {
            let schemas = homes.iter().map(|home| &home.schema);
            match &before {
                None => loads(&tables, schemas, &place),
                Some(marker) => format!(
                    "uses {}: pgdyno loaded the data before ({}), and it is unchanged, so that it is not loaded again",
                    tables_in(&tables, schemas, &place, "in"),
                    loaded_before::words(marker)
                ),
            }
        };
        // A server that cannot be queried is not PostgreSQL, and is refused later.
        let others = template::others(session, &tables, &is_loaded).unwrap_or_default();
        Ok(Intent { line: format!("{what}{again}"), others, changes: None, consents: Vec::new() })
    }

    /// Intention of `init`.
    pub fn to_load(conninfo: &Conninfo, dataset: Dataset, schema: &Schema) -> String {
        loads(&dataset.tables(), std::iter::once(schema), &place(conninfo))
    }
}

fn loads<'a>(tables: &[&str], schemas: impl Iterator<Item = &'a Schema>, place: &str) -> String {
    format!("loads {}", tables_in(tables, schemas, place, "into"))
}

fn tables_in<'a>(
    tables: &[&str],
    schemas: impl Iterator<Item = &'a Schema>,
    place: &str,
    preposition: &str,
) -> String {
    let schemas: BTreeSet<&str> = schemas.map(Schema::name).collect();
    let schemas = schemas.into_iter().collect::<Vec<_>>().join(", ");
    let n = plural(tables.len(), "table");
    format!("{n} {preposition} schema {schemas} of {place} ({})", tables.join(", "))
}

fn is_loaded(routine: &RoutineFacts) -> bool {
    let RoutineFacts { is_procedure, name, types, body, comment } = *routine;
    let signature = Signature { is_procedure, name: name.to_string(), types: types.to_string() };
    is_loaded_routine(&signature, body, comment)
}

/// The tables that workload directories make, by the directory's name.
fn directory_tables(session: &mut Session, cases: &[&Case]) -> Result<Vec<(String, Vec<String>)>> {
    let mut found = Vec::new();
    for workload in cases.iter().map(|case| &case.workload) {
        let Some(directory) = workload.data_directory() else {
            continue;
        };
        let schema = schema::find(session, workload.schema.as_deref())?;
        let tables: Vec<String> =
            directory.tables.iter().map(|table| schema.plain_name(&table.name)).collect();
        if !found.contains(&(directory.name.clone(), tables.clone())) {
            found.push((directory.name.clone(), tables));
        }
    }
    Ok(found)
}

/// Each case once.
fn distinct<'a>(cases: &[&'a Case]) -> Vec<&'a Case> {
    let mut seen: Vec<&Case> = Vec::new();
    for case in cases {
        if !seen.iter().any(|known| known.id == case.id) {
            seen.push(case);
        }
    }
    seen
}

/// As whom an archive is restored, and what its code can always do. A server that cannot be queried is refused later.
fn of_role(session: &mut Session) -> String {
    let rows = session.query("select session_user").ok();
    let role = rows.as_ref().and_then(|rows| rows.scalar());
    role.map_or_else(String::new, |role| {
        format!(" as role {role}, whose password and settings the code in the archive may change")
    })
}

fn place(conninfo: &Conninfo) -> String {
    let hosts: Vec<String> = conninfo.hosts.iter().map(ToString::to_string).collect();
    format!("database {} on {}", conninfo.dbname, hosts.join(","))
}
