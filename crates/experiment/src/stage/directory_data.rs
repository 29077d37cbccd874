//! The data of a workload directory on a stage: loaded into a server of our own by a role without rights, or by URL where nobody else's
//! objects can come to harm; proved before, and checked after each run.

pub(crate) mod existing;
pub mod proof;
pub(crate) mod restored;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use dataset::directory::bounds::LoadBounds;
use dataset::directory::checks::{self, Checked, Outcomes};
use dataset::directory::load::{self, DirectoryRequest};
use dataset::directory::marks::looks_marked;
use dataset::directory::{DirectoryData, SCHEMA_STATEMENT_MAX, extensions, guest, trial};
use dataset::load::LoadReport;
use dataset::{layout, schema, session};
use generator::Instance;
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::script::CaseData;
use server::database::template;
use wire::Conninfo;
use wire::session::Session;
use workload::Schema;

use crate::plan::scripts::sessions;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::reach::trust::{TrustedWorkload, is_builtin, is_trusted};
use crate::site::{Permissions, Risks, Site, loaded_words, requirements};
use crate::stage::connections::options_with;
use crate::stage::reach;

/// What problems begin with that are in a file of the directory.
const FILES: [&str; 5] = ["workload.toml", "schema.sql", "after.sql", "transactions/", "checks/"];

/// The directory that a case's data comes from, and the schema of its tables.
pub(crate) struct DirectoryCase {
    name: String,
    /// As the user has named it.
    place: String,
    scale: u32,
    instance: Arc<Instance>,
    schema: Schema,
}

impl DirectoryCase {
    /// The directory of a case; `None` if its data comes from elsewhere.
    ///
    /// # Errors
    /// When the directory's texts or the schema are not as they were planned, or the server fails.
    pub(crate) fn find(session: &mut Session, workload: &WorkloadSpec) -> Result<Option<DirectoryCase>> {
        let Some(directory) = workload.data_directory() else {
            return Ok(None);
        };
        let instance =
            workload::directories::at_scale(directory, workload.scale).map_err(|message| anyhow!(message))?;
        let schema = schema::find(session, workload.schema.as_deref())?;
        let (name, place) = (directory.name.clone(), directory.place_words().to_string());
        Ok(Some(DirectoryCase { name, place, scale: workload.scale, instance, schema }))
    }

    fn expected(session: &mut Session, workload: &WorkloadSpec) -> Result<DirectoryCase> {
        DirectoryCase::find(session, workload)?.context("the case has no workload directory")
    }

    fn data(&self) -> DirectoryData<'_> {
        DirectoryData { name: &self.name, scale: self.scale, instance: &self.instance, schema: &self.schema }
    }

    /// Fails unless the schema has the data of the case, complete.
    ///
    /// # Errors
    /// Says what is there instead.
    pub(crate) fn expect_whole(&self, session: &mut Session) -> Result<()> {
        self.data().expect_whole(session)
    }

    /// Checks after a run whose transactions are all since the data was restored.
    ///
    /// # Errors
    /// When a check is no query, or the server fails.
    pub(crate) fn check(
        &self,
        session: &mut Session,
        outcomes: Option<&BTreeMap<String, Outcomes>>,
    ) -> Result<Checked> {
        let rows = self.data().loaded_rows(session)?;
        self.data().enter(session)?;
        checks::after_run(session, &self.instance, &rows, outcomes, checks::RUN_CHECK_MAX)
    }

    /// All that is wrong with the directory on a server, where nothing is changed; files are named as they are seen from where the user is.
    fn try_it(&self, session: &mut Session) -> Result<Vec<String>> {
        let found = trial::problems(session, self.data(), SCHEMA_STATEMENT_MAX)?;
        Ok(found.iter().flat_map(|text| separate(text, &self.place)).collect())
    }

    /// Proves and loads the data over sessions that `connect` opens.
    fn load(
        &self,
        connect: &dyn Fn() -> Result<Session>,
        may_replace: bool,
        workload: &WorkloadSpec,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<LoadReport> {
        let data = self.data();
        watch(ProgressEvent::Step(format!(
            "proving workload directory `{}` with some rows of each table",
            self.place
        )));
        let found = self.try_it(&mut connect()?)?;
        ensure!(found.is_empty(), "{}", found.join("\n"));
        watch(ProgressEvent::Step(format!("loading {}", layout::describe(workload))));
        let request = DirectoryRequest {
            data,
            connect,
            n_streams: workload.load_streams,
            may_replace,
            schema_statement_max: SCHEMA_STATEMENT_MAX,
            now: site.environment.now,
            stop: site.environment.stop,
        };
        let report = load::load(&request, &mut |progress| watch(ProgressEvent::Load(progress)))?;
        watch(ProgressEvent::Step(loaded_words(&report)));
        Ok(report)
    }
}

/// The problems in a text, of which each begins with a file of the directory, with the place of the directory before it.
fn separate(text: &str, place: &str) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_of_file = FILES.iter().any(|file| line.starts_with(file));
        match problems.last_mut() {
            _ if is_of_file => problems.push(format!("{place}/{line}")),
            Some(last) => last.push_str(&format!("\n{line}")),
            None => problems.push(line.to_string()),
        }
    }
    problems
}

/// Loads the data of a case into our own server: as a role without rights, whoever wrote the directory.
///
/// # Errors
/// All that is wrong with the directory on this server, or when the server fails.
pub(crate) fn load_on_own_server(
    session: &mut Session,
    conninfo: &Conninfo,
    case: &Case,
    site: &Site,
    watch: &mut Watch,
) -> Result<()> {
    let workload = &case.workload;
    schema::make(session, workload.schema.as_deref())?;
    let of_case = DirectoryCase::expected(session, workload)?;
    guest::make(session, &of_case.schema)?;
    extensions::make_missing(session, &of_case.instance.manifest().needs.extensions, &of_case.schema)?;
    let as_guest = guest::conninfo(conninfo);
    let stop = site.environment.stop;
    let connect = || session::open(&as_guest, stop);
    if is_builtin(workload) {
        return of_case.load(&connect, true, workload, site, watch).map(drop);
    }
    let planned = workload.directory.as_ref().map_or(0, |directory| directory.estimated_bytes());
    let bounds = LoadBounds::from_planned(planned);
    let bounded = || -> Result<Session> {
        let mut session = connect()?;
        let ms = bounds.statement_max.as_millis();
        session.execute(&format!("set statement_timeout = {ms}"))?;
        Ok(session)
    };
    bounds.keep(session, || of_case.load(&bounded, true, workload, site, watch).map(drop))
}

/// Loads the data of a case into a server by URL. Complete data of the same workload that is not this one is replaced only with consent.
///
/// # Errors
/// When that could harm what others have there; otherwise as [`load_on_own_server`].
pub fn load_by_url(
    session: &mut Session,
    conninfo: &Conninfo,
    case: &Case,
    may_replace: bool,
    site: &Site,
    watch: &mut Watch,
) -> Result<LoadReport> {
    let workload = &case.workload;
    let of_case = DirectoryCase::expected(session, workload)?;
    if let Some(why) = of_case.refusal(session, workload, &site.permissions, &conninfo.dbname)? {
        return Err(anyhow!(why));
    }
    extensions::make_missing(session, &of_case.instance.manifest().needs.extensions, &of_case.schema)?;
    let stop = site.environment.stop;
    of_case.load(&|| session::open(conninfo, stop), may_replace, workload, site, watch)
}

/// What would keep a case's data from being loaded into a server by URL; nothing is changed there.
///
/// # Errors
/// When the server fails.
pub fn problems_by_url(conninfo: &Conninfo, case: &Case, site: &Site) -> Result<Vec<String>> {
    let workload = &case.workload;
    if workload.data != CaseData::Directory {
        return Ok(Vec::new());
    }
    // The directory's SQL may change the session, or end it.
    let session = &mut session::open(conninfo, site.environment.stop)?;
    let of_case = DirectoryCase::expected(session, workload)?;
    let data = of_case.data();
    let refusal = of_case.refusal(session, workload, &site.permissions, &conninfo.dbname)?;
    let mut found: Vec<String> = refusal.into_iter().collect();
    if !site.permissions.replace {
        found.extend(data.refusal_to_replace(session)?);
    }
    found.extend(data.in_the_way(session)?);
    found.extend(requirements::lacks_series(session.server_version_num(), workload));
    // The server may lack an extension that the load would make.
    let needed = &of_case.instance.manifest().needs.extensions;
    let are_there =
        needed.iter().map(|name| Ok(session.extension(name)?.is_some())).collect::<Result<Vec<bool>>>()?;
    if !are_there.iter().all(|is_there| *is_there) {
        found.extend(extensions::problems(session, needed)?);
    } else if found.is_empty() {
        found.extend(of_case.try_it(session)?);
    }
    Ok(found)
}

impl DirectoryCase {
    /// Why a directory that pgdyno does not bring along must not be loaded into a database by URL, if so: its SQL has the rights of
    /// the role, and functions may hide what they do. What others have in the database could come to harm, and with a role that
    /// reaches beyond it, the server.
    fn refusal(
        &self,
        session: &mut Session,
        workload: &WorkloadSpec,
        permissions: &Permissions,
        database: &str,
    ) -> Result<Option<String>> {
        if is_builtin(workload) {
            return Ok(None);
        }
        if is_trusted(workload, permissions.risks.trusted_workload) {
            return Ok(None);
        }
        if let Some(why) = beyond_rights(session, workload, permissions.risks)? {
            return Ok(Some(why));
        }
        let is_ours =
            permissions.replace_databases.iter().any(|name| name == database) || template::is_made(session)?;
        if is_ours {
            return Ok(None);
        }
        let own = self.data().own_relations(session)?;
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let others = template::others(session, &own, &|routine| looks_marked(routine.comment))?;
        // The schema that it goes into may have been made for it.
        let of_schema = format!("schema {}", self.schema.name());
        if others.n == 0 || others.n == 1 && others.first.first() == Some(&of_schema) {
            return Ok(None);
        }
        Ok(Some(format!(
            "workload directory `{}` is not one of pgdyno's own: its SQL is run in an empty database, or one that pgdyno made \
             (pgdyno init --create-database), or that may be replaced (--replace-database {database}); `{database}` holds {}",
            self.place,
            others.first.join(", ")
        )))
    }
}

/// Why SQL of somebody's directory must not run with the rights of the role that logged in, if so.
fn beyond_rights(session: &mut Session, workload: &WorkloadSpec, risks: Risks) -> Result<Option<String>> {
    let Some(directory) = workload.directory.as_deref() else { return Ok(None) };
    if is_builtin(workload) || is_trusted(workload, risks.trusted_workload) {
        return Ok(None);
    }
    let trust = TrustedWorkload::from_directory(directory);
    let trust = trust.map_or(String::new(), |hash| {
        format!(", or pass --trust-workload {hash} if you have read its SQL and trust it like your own")
    });
    Ok(reach::powerful_roles(session)?.map(|roles| {
        format!(
            "workload directory `{}` is code of whoever wrote it, and {roles}: it would run with the rights of a role that reaches \
             beyond the database; connect as a role without such rights that owns the database{trust}",
            directory.place_words()
        )
    }))
}

/// Our own server as a case's load connects: for a directory's SQL as the role without rights.
pub(super) fn conninfo_of_load(conninfo: Conninfo, workload: &WorkloadSpec) -> Conninfo {
    if workload.data == CaseData::Directory { guest::conninfo(&conninfo) } else { conninfo }
}

/// The same place for sessions that begin as those of the load do.
pub(super) fn with_settings(conninfo: Conninfo, workload: &WorkloadSpec) -> Conninfo {
    let options = options_with(conninfo.options.clone(), &sessions::settings_of(workload));
    Conninfo { options, ..conninfo }
}

/// Makes the checks that belong to the load of a case's data, which has to be there and complete.
///
/// # Errors
/// When it is not, or the server fails.
pub fn check_load(session: &mut Session, workload: &WorkloadSpec, risks: Risks) -> Result<Checked> {
    if let Some(why) = beyond_rights(session, workload, risks)? {
        bail!(why);
    }
    let of_case = DirectoryCase::expected(session, workload)?;
    of_case.expect_whole(session)?;
    let rows = of_case.data().loaded_rows(session)?;
    of_case.data().enter(session)?;
    checks::after_load(session, &of_case.instance, &rows, checks::LOAD_CHECK_MAX)
}

/// Fails for data that a run needs complete and that is not there.
///
/// # Errors
/// With what to do.
pub(crate) fn expect_there(
    session: &mut Session,
    workload: &WorkloadSpec,
    permissions: &Permissions,
) -> Result<()> {
    let Some(of_case) = DirectoryCase::find(session, workload)? else { return Ok(()) };
    if let Some(why) = beyond_rights(session, workload, permissions.risks)? {
        bail!(why);
    }
    of_case.expect_whole(session).map_err(|error| {
        anyhow!("{error:#}; load it with pgdyno init, or run without --no-restore (prepare.restore = false)")
    })
}
