//! Proof of a workload directory without a run: what a server says of its tables, of some rows of each, and of its checks. Nothing that it
//! makes stays.

use anyhow::{Result, bail};
use dataset::directory::{extensions, guest};
use dataset::{schema, session};
use model::experiment::case::Case;
use model::experiment::script::CaseData;
use server::StartOptions;

use super::DirectoryCase;
use crate::site::progress::Watch;
use crate::site::{Site, requirements};
use crate::stage::ResolvedServer;
use crate::stage::embedded::Embedded;

/// What distinguishes a cluster that exists for a proof alone.
const PURPOSE: (&str, &str) = ("purpose", "proof");
/// A proof has a thousand rows of each table.
const SHARED_BUFFERS: (&str, &str) = ("shared_buffers", "32MB");

/// What a new server of our own says of a case's directory; it is removed afterwards.
///
/// # Errors
/// When there are no binaries, or the server fails.
pub fn on_own_server(case: &Case, site: &Site, watch: &mut Watch) -> Result<Vec<String>> {
    let mut empty = case.clone();
    empty.workload.data = CaseData::None;
    empty.workload.directory = None;
    empty.prepare.restore = false;
    let (name, value) = SHARED_BUFFERS;
    empty.server.settings.insert(name.to_string(), value.to_string());
    let ResolvedServer::Embedded(binaries, mut key) =
        ResolvedServer::resolve(&empty, &site.environment, watch)?
    else {
        bail!("a server by URL is none of our own");
    };
    let (name, value) = PURPOSE;
    key.parts.insert(name.to_string(), value.to_string());
    let mut stage = Embedded::set_up(binaries, key, &empty, site, watch)?;
    let found = ask(&mut stage, case, &empty, site);
    stage.retire()?;
    found
}

fn ask(stage: &mut Embedded, case: &Case, empty: &Case, site: &Site) -> Result<Vec<String>> {
    let settings = server::settings::defaults::embedded_settings(
        stage.cluster.binaries.version_num,
        site.environment.memory_bytes,
        1,
        &empty.server.settings,
    )?;
    stage.start(StartOptions { settings, ..StartOptions::default() })?;
    let conninfo = stage.conninfo()?;
    let session = &mut session::open(&conninfo, site.environment.stop)?;
    schema::make(session, case.workload.schema.as_deref())?;
    let of_case = DirectoryCase::expected(session, &case.workload)?;
    let needed = &of_case.instance.manifest().needs.extensions;
    let mut lacking = extensions::problems(session, needed)?;
    lacking.extend(requirements::lacks_series(session.server_version_num(), &case.workload));
    if !lacking.is_empty() {
        return Ok(lacking);
    }
    guest::make(session, &of_case.schema)?;
    extensions::make_missing(session, needed, &of_case.schema)?;
    let as_guest = &mut session::open(&guest::conninfo(&conninfo), site.environment.stop)?;
    of_case.try_it(as_guest)
}
