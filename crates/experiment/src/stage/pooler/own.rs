//! The pooler that a case asks for in front of our own server: with which options it is started, and what sessions of a load begin
//! with.

use anyhow::{Context, Result};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::pooler::{PoolerKind, PoolerSpec};
use model::run::server::node::PoolerRecord;
use server::pooler::program::Pgbouncer;
use server::{OwnPooler, PoolerOptions, PoolerStart};
use wire::Conninfo;

use crate::plan::scripts::sessions;

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
        session_settings: sessions::session_settings(&case.workload),
        is_asked: spec.is_asked,
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

/// What a run records of its pooler, which is running; `None` if it has none.
pub(crate) fn record(case: &Case, running: Option<&OwnPooler>) -> Option<PoolerRecord> {
    let PoolerSpec { kind, mode, size, n_processes, .. } = PoolerSpec::from_case(case)?;
    let version = running.and_then(OwnPooler::version).map(str::to_string);
    Some(PoolerRecord { kind, version, mode, size, n_processes })
}
