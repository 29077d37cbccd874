//! The pooler that a case asks for in front of our own server: with which options it is started, and what sessions of a load begin
//! with.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::keys;
use model::experiment::topology::pooler::{PoolerKind, PoolerSpec};
use model::run::server::node::PoolerRecord;
use model::workload::Programs;
use server::pooler::program::Pgbouncer;
use server::{OwnPooler, PoolerOptions, PoolerStart};
use wire::Conninfo;
use workload::directories::classes::Classes;

use crate::stage::directory_data;

/// Most bytes of the user's configuration of a pooler.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Starts the pooler of a case whose load would connect to our server at `server`; `None` if it has none.
///
/// # Errors
/// When there is no such program, or it does not answer.
pub(crate) fn start(case: &Case, server: &Conninfo) -> Result<Option<OwnPooler>> {
    let Some(spec) = PoolerSpec::from_case(case) else { return Ok(None) };
    let options = PoolerOptions {
        start: how(case, &spec)?,
        mode: spec.mode,
        size: spec.size,
        n_processes: spec.n_processes,
        settings: case.get(keys::pooler::SETTINGS),
        n_clients: case.workload.n_clients,
        session_settings: session_settings(&case.workload),
    };
    OwnPooler::start(&options, server).with_context(|| format!("start {spec}")).map(Some)
}

fn how(case: &Case, spec: &PoolerSpec) -> Result<PoolerStart> {
    if spec.kind == PoolerKind::Command {
        return Ok(PoolerStart::Command(case.get(keys::pooler::COMMAND)));
    }
    let program = program(case)?;
    Ok(match case.get(keys::pooler::CONFIG) {
        None => PoolerStart::Pgbouncer(program),
        Some(path) => {
            let bytes = files::read(&path, CONFIG_BYTES_MAX)
                .with_context(|| format!("{}: read `{}`", keys::pooler::CONFIG, path.display()))?;
            PoolerStart::Configured { program, config: String::from_utf8_lossy(&bytes).into_owned() }
        }
    })
}

/// The program of a case with pgbouncer.
///
/// # Errors
/// When there is none.
pub(crate) fn program(case: &Case) -> Result<Pgbouncer> {
    Pgbouncer::find(case.get(keys::pooler::PROGRAM).as_deref())
}

/// What a run records of its pooler; `None` if it has none.
///
/// # Errors
/// When its program is gone.
pub(crate) fn record(case: &Case) -> Result<Option<PoolerRecord>> {
    let Some(spec) = PoolerSpec::from_case(case) else { return Ok(None) };
    let version = match spec.kind {
        PoolerKind::Pgbouncer => Some(program(case)?.version),
        PoolerKind::None | PoolerKind::Command => None,
    };
    let (size, n_processes) = (spec.size, spec.n_processes);
    Ok(Some(PoolerRecord { kind: spec.kind, version, mode: spec.mode, size, n_processes }))
}

/// Settings with which all sessions of a load begin.
pub(crate) fn session_settings(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    let mut settings = workload.session_settings.clone();
    match workload.kind.row().programs {
        Programs::Native(_) => {
            let isolation = workload.tpcc.map(|spec| spec.isolation.as_str().to_string());
            settings.extend(isolation.map(|level| ("default_transaction_isolation".to_string(), level)));
        }
        Programs::Own | Programs::Scripts => {
            settings.extend(directory_data::settings_of(workload));
            if workload.only_reads {
                settings.insert("default_transaction_read_only".to_string(), "on".to_string());
            }
        }
    }
    settings
}

/// Whether each transaction of a workload directory has a session of its own.
pub(crate) fn connects_each(workload: &WorkloadSpec) -> bool {
    let manifest = workload.directory.as_deref().and_then(workload::directories::manifest);
    let sessions = manifest.map_or(Vec::new(), |manifest| manifest.sessions);
    !sessions.is_empty() && sessions.iter().all(|session| session.reconnect)
}

/// A setting with which a kind of client of a workload directory begins, if one has any: these differ from one kind to another.
pub(crate) fn class_setting(workload: &WorkloadSpec) -> Option<String> {
    let directory = workload.directory.as_deref()?;
    let instance = workload::directories::at_scale(directory, workload.scale).ok()?;
    let scripts: Vec<(&str, u32)> =
        workload.scripts.iter().map(|one| (one.name.as_str(), one.weight)).collect();
    let classes = Classes::of_directory(&instance, &scripts, workload.n_clients).ok()??;
    classes.all.into_iter().flat_map(|class| class.settings).map(|(name, _)| name).next()
}
