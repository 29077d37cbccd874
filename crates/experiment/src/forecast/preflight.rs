//! Finds what would make a run of a plan fail, before anything is begun.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use dataset::session::limit;
use model::experiment::case::{Case, REPOSITORY, ServerSource, Tls};
use model::experiment::plan::Plan;
use model::experiment::script::archive::Archive;
use model::experiment::script::{CaseData, SqlFile};
use server::alter_system::AllowedChange;
use server::binaries::build::SourceTree;
use server::binaries::{installed, is_program};
use server::cluster::workspace::Workspace;
use server::running::{archive as restore, restorer};
use server::{Account, Binaries, BinariesOrigin};
use wire::Conninfo;

use crate::forecast::commit::CommitRoom;
use crate::forecast::outlook;
use crate::site::exporter;
use crate::site::keys::clusters_dir;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::requirements;
use crate::site::settings;
use crate::site::{Environment, Site};
use crate::stage::disk::Peak;
use crate::stage::nodes::waited_for;
use crate::stage::{adopted, embedded, own_data};

/// One reason why runs would fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Numbers of the cases that it affects.
    pub cases: Vec<u32>,
    /// The problem, and what to do about it.
    pub reason: String,
}

/// A server by URL that could not be examined.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// The server.
    pub source: ServerSource,
    /// The error.
    pub reason: String,
}

/// Result of examining a plan's servers and disks.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// Obstacles to the plan, one per reason.
    pub obstacles: Vec<Obstacle>,
    /// Disk space that the plan needs for servers that pgdyno runs.
    pub peak: Option<Peak>,
    /// Versions that are not here and were not fetched, so that their settings were not checked.
    pub unfetched: Vec<String>,
}

/// What happens with binaries that have to be queried and are not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingBinaries {
    /// They are fetched, as the runs need them.
    AreFetched,
    /// They are named: nothing is going to run now.
    AreNamed,
}

/// Looks for obstacles to a plan whose results go to `results`. Fetches binaries, if that is asked for, that have to be queried if the
/// plan fits on disk; examines servers by URL without changing them, but for those that have `failed` before.
pub fn find(
    plan: &Plan,
    site: &Site,
    results: &Path,
    failed: &[Failed],
    missing: MissingBinaries,
    watch: &mut Watch,
) -> Examination {
    let mut found = Found::default();
    let mut peak = space(plan, &site.environment, results, &mut found);
    let can_fetch = found.obstacles.is_empty();
    let mut has_fetched = false;
    let mut watch = |progress: ProgressEvent| {
        has_fetched |= matches!(progress, ProgressEvent::Fetch(_));
        watch(progress);
    };
    let mut by_source: Vec<(&ServerSource, Vec<&Case>)> = Vec::new();
    for case in &plan.cases {
        match by_source.iter_mut().find(|(source, _)| *source == &case.server.source) {
            Some((_, cases)) => cases.push(case),
            None => by_source.push((&case.server.source, vec![case])),
        }
    }
    let unfetched_version = |source: &ServerSource| match source {
        ServerSource::Version(version) if missing == MissingBinaries::AreNamed => {
            (!server::binaries::fetch::is_fetched(site.environment.cache, version))
                .then(|| version.to_string())
        }
        _ => None,
    };
    let mut unfetched = Vec::new();
    for (source, cases) in &by_source {
        let version = unfetched_version(source);
        let may_ask = can_fetch && version.is_none();
        unfetched.extend(version);
        match source {
            ServerSource::Url(_) if failed.iter().any(|known| known.source == **source) => {
                let known = failed.iter().filter(|known| known.source == **source);
                found.take(cases, Ok(known.map(|known| known.reason.clone()).collect()));
            }
            ServerSource::Url(keywords) => {
                let problems = site.environment.conninfo(keywords).and_then(|conninfo| {
                    let look = || adopted::problems(&conninfo, cases, site);
                    limit::within(
                        "examine the server",
                        crate::site::phase_limit::of_questions(cases[0]),
                        look,
                    )
                });
                found.take(cases, problems);
            }
            _ => own_server(source, cases, site, may_ask, &mut watch, &mut found),
        }
    }
    if has_fetched {
        // What is here now takes no more space.
        peak = Peak::from_plan(plan, &site.environment, results).ok().or(peak);
    }
    for case in &plan.cases {
        let exporter =
            case.server.target.as_ref().map(|target| exporter::for_target(target, site.environment.stop));
        found.take(&[case], exporter.transpose().map(|_| Vec::new()));
    }
    if let Some(case) = plan.cases.first() {
        for import in &case.imports {
            let Some(address) = &import.prometheus else { continue };
            let service = exporter::prometheus(address, import, site.environment.stop);
            let service = service.with_context(|| format!("import `{}`", import.name));
            found.take(&[case], service.map(|_| Vec::new()));
        }
    }
    for case in &plan.cases {
        found.take(&[case], Ok(missing_programs(case)));
    }
    Examination { obstacles: found.obstacles, peak, unfetched }
}

/// Commands of an outage whose programs are not here: they would fail after the load has begun.
fn missing_programs(case: &Case) -> Vec<String> {
    let Some(outage) = &case.outage else { return Vec::new() };
    let programs = [&outage.run, &outage.check, &outage.undo].map(|command| command.first());
    let missing: BTreeSet<&String> =
        programs.into_iter().flatten().filter(|program| !is_program(program)).collect();
    let words = |program: &String| {
        format!("outage \"{}\": there is no program `{program}` that can be executed", outage.name)
    };
    missing.into_iter().map(words).collect()
}

/// Why settings of servers by URL cannot be changed as a plan asks.
///
/// # Errors
/// When a server cannot be reached.
pub fn changes(plan: &Plan, servers: &[Conninfo], allowed: AllowedChange) -> Result<Vec<String>> {
    let mut seen: Vec<&ServerSource> = Vec::new();
    let mut found = Vec::new();
    for case in plan.cases.iter().filter(|case| !case.server.settings.is_empty()) {
        let source = &case.server.source;
        let ServerSource::Url(keywords) = source else { continue };
        if seen.contains(&source) {
            continue;
        }
        seen.push(source);
        let cases: Vec<&Case> = plan.cases.iter().filter(|case| case.server.source == *source).collect();
        let conninfo = crate::site::conninfo(servers, keywords)?;
        found.extend(settings::problems(&conninfo, &cases, allowed)?);
    }
    Ok(found)
}

/// Disk space and memory for servers that pgdyno runs, if there are any.
fn space(plan: &Plan, environment: &Environment, results: &Path, found: &mut Found) -> Option<Peak> {
    let embedded: Vec<&Case> = plan.cases.iter().filter(|case| case.server.source.is_embedded()).collect();
    if embedded.is_empty() {
        return None;
    }
    found.take(&embedded, Account::choose().map(|_| Vec::new()));
    let room = CommitRoom::here();
    for case in &embedded {
        let is_usable = Workspace::expect_writable(&clusters_dir(case, environment.cache));
        found.take(&[case], is_usable.map(|()| Vec::new()));
        found.take(&[case], Ok(outlook::beyond_memory(case, environment.memory_bytes).into_iter().collect()));
        let unreserved = room.as_ref().and_then(|room| room.problem(case, environment.memory_bytes));
        found.take(&[case], Ok(unreserved.into_iter().collect()));
    }
    match Peak::from_plan(plan, environment, results) {
        Ok(of_plan) => {
            found.take(&embedded, Ok(of_plan.refusals()));
            Some(of_plan)
        }
        Err(error) => {
            found.take(&embedded, Err(error));
            None
        }
    }
}

#[derive(Default)]
struct Found {
    obstacles: Vec<Obstacle>,
}

impl Found {
    /// Adds the problems of `cases`, or the error that kept us from looking.
    fn take(&mut self, cases: &[&Case], problems: Result<Vec<String>>) {
        let reasons = problems.unwrap_or_else(|error| vec![format!("{error:#}")]);
        for reason in reasons {
            let numbers = cases.iter().map(|case| case.id);
            match self.obstacles.iter_mut().find(|known| known.reason == reason) {
                Some(known) => known.cases.extend(numbers),
                None => self.obstacles.push(Obstacle { cases: numbers.collect(), reason }),
            }
        }
    }
}

/// Methods of compression that PostgreSQL has only if it is built with their libraries.
const METHODS: [&str; 2] = ["lz4", "zstd"];

/// Whether a case that pgdyno runs the server of asks for one of these methods.
pub fn asks_for_method(cases: &[Case]) -> bool {
    let is_one = |value: &String| METHODS.contains(&value.to_lowercase().as_str());
    let mut own = cases.iter().filter(|case| case.server.source.is_embedded());
    own.any(|case| case.server.settings.values().any(is_one))
}

/// Checks a server that pgdyno runs: its binaries, and each different set of settings.
fn own_server(
    source: &ServerSource,
    cases: &[&Case],
    site: &Site,
    may_ask: bool,
    watch: &mut Watch,
    found: &mut Found,
) {
    let mut by_settings: Vec<(&BTreeMap<String, String>, Vec<&Case>)> = Vec::new();
    for case in cases {
        match by_settings.iter_mut().find(|(settings, _)| *settings == &case.server.settings) {
            Some((_, with)) => with.push(case),
            None => by_settings.push((&case.server.settings, vec![case])),
        }
    }
    let restores = |case: &&&Case| matches!(&case.workload.data, CaseData::Archive(_));
    let with_archive: Vec<&Case> = cases.iter().filter(restores).copied().collect();
    if !with_archive.is_empty() && !site.permissions.risks.archive_as_superuser {
        found.take(&with_archive, Ok(vec![embedded::TRUST_IN_ARCHIVE.to_string()]));
    }
    for (files, with) in by_files(cases) {
        let unasked = own_data::unasked(files, site.permissions.risks, site.environment.stop);
        found.take(&with, unasked.map(|why| why.into_iter().collect()));
    }
    let has_settings = by_settings.iter().any(|(settings, _)| !settings.is_empty());
    let must_ask = may_ask && (has_settings || !with_archive.is_empty());
    let binaries = match binaries(source, must_ask, &site.environment, watch) {
        Ok(binaries) => binaries,
        Err(error) => return found.take(cases, Err(error)),
    };
    let of_binaries = binaries.as_ref().map(|binaries| binaries.version_num);
    if let Some(version_num) = of_binaries.or_else(|| requirements::version_num(source)) {
        for case in cases {
            found.take(&[case], Ok(requirements::lacks(version_num, case).into_iter().collect()));
        }
    }
    for case in cases {
        found.take(&[case], embedded::listen(&case.server).map(|_| Vec::new()));
        found.take(&[case], Ok(waited_for::problem_of_own(case).into_iter().collect()));
    }
    let Some(binaries) = binaries else { return };
    for (archive, with) in by_archive(&with_archive) {
        let programs = restorer::programs_for(&binaries, &archive.dump_version);
        found.take(&with, programs.map(|_| Vec::new()));
        let readable =
            Account::choose().and_then(|account| restore::expect_readable(&account, &archive.file));
        found.take(&with, readable.map(|()| Vec::new()));
    }
    let with_tls: Vec<&Case> = cases.iter().copied().filter(|case| case.server.tls == Tls::On).collect();
    if !with_tls.is_empty() {
        let ssl = BTreeMap::from([("ssl".to_string(), "on".to_string())]);
        let refused = server::binaries::verify::refused_settings(&binaries, &ssl);
        let words = |why: String| format!("server.tls: PostgreSQL {}: {why}", binaries.version);
        found.take(&with_tls, refused.map(|all| all.into_iter().map(words).collect()));
    }
    for (settings, with) in &by_settings {
        found.take(with, refused(&binaries, settings, &site.environment));
    }
}

/// The cases of each list of files with data, which may be long.
fn by_files<'a>(cases: &[&'a Case]) -> Vec<(&'a [SqlFile], Vec<&'a Case>)> {
    let mut found: Vec<(&[SqlFile], Vec<&Case>)> = Vec::new();
    for case in cases {
        let CaseData::Files(files) = &case.workload.data else { continue };
        match found.iter_mut().find(|(known, _)| *known == files.as_slice()) {
            Some((_, with)) => with.push(case),
            None => found.push((files, vec![case])),
        }
    }
    found
}

/// The cases of each archive, which may have millions of files.
fn by_archive<'a>(cases: &[&'a Case]) -> Vec<(&'a Archive, Vec<&'a Case>)> {
    let mut found: BTreeMap<&Path, (&Archive, Vec<&Case>)> = BTreeMap::new();
    for case in cases {
        if let CaseData::Archive(archive) = &case.workload.data {
            found.entry(&archive.file).or_insert((archive, Vec::new())).1.push(case);
        }
    }
    found.into_values().collect()
}

/// Problems with settings: those that do not suit this machine or the clients, and those that the binaries reject.
fn refused(
    binaries: &Binaries,
    settings: &BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Vec<String>> {
    let whole = server::settings::defaults::embedded_settings(
        binaries.version_num,
        environment.memory_bytes,
        environment.most_connections,
        settings,
    );
    let mut problems: Vec<String> = whole.err().map(|error| format!("{error:#}")).into_iter().collect();
    // A meaningless share is already reported by the line above.
    let resolved = settings.iter().filter_map(|(name, value)| {
        let value = server::settings::resolve_setting(name, value, environment.memory_bytes).ok()?;
        Some((name.clone(), value))
    });
    let resolved: BTreeMap<String, String> = resolved.collect();
    for why in server::binaries::verify::refused_settings(binaries, &resolved)? {
        let advice = who_has_it(binaries, &resolved, &why).unwrap_or_default();
        problems.push(format!("PostgreSQL {}: {why}{advice}", binaries.version));
    }
    Ok(problems)
}

/// What has a method of compression that a fetched build was refused for: an installed server that takes the same setting, else the
/// packages.
fn who_has_it(binaries: &Binaries, settings: &BTreeMap<String, String>, why: &str) -> Option<String> {
    if !matches!(binaries.origin, BinariesOrigin::Fetched { .. }) {
        return None;
    }
    let is_it = |(name, value): &(&String, &String)| {
        METHODS.contains(&value.to_ascii_lowercase().as_str()) && why.contains(&format!("\"{name}\""))
    };
    let (name, value) = settings.iter().find(is_it)?;
    let alone = BTreeMap::from([(name.clone(), value.clone())]);
    let takes_it = |binaries: &&Binaries| {
        server::binaries::verify::refused_settings(binaries, &alone).is_ok_and(|refused| refused.is_empty())
    };
    let series = binaries.series();
    Some(match installed::servers().iter().find(takes_it) {
        Some(other) => format!(
            ". Fetched builds are made without {value}; PostgreSQL {} in `{}` has it (server.version = \"{}\"), and so have the packages \
             of PostgreSQL {series} (postgresql-{series} or postgresql{series}-server, from the repository of PostgreSQL, PGDG, if the distribution has none), which \
             are used once installed",
            other.series(),
            other.bin_dir.display(),
            other.series()
        ),
        None => format!(
            ". Fetched builds are made without {value}; install the package of PostgreSQL {series} (postgresql-{series} or \
             postgresql{series}-server), which has it and is used then"
        ),
    })
}

/// A release by its tag, as people write it: `PostgreSQL 9.5.21` for `REL9_5_21`.
fn release(tag: Option<&str>) -> String {
    let number = tag.unwrap_or_default().trim_start_matches("REL").trim_start_matches('_').replace('_', ".");
    format!("PostgreSQL {number}")
}

/// The binaries to query; `None` if they are not here and there is nothing to query.
fn binaries(
    source: &ServerSource,
    must_ask: bool,
    environment: &Environment,
    watch: &mut Watch,
) -> Result<Option<Binaries>> {
    match source {
        ServerSource::BinDir(dir) => Binaries::from_bin_dir(dir).map(Some),
        ServerSource::Installed(version) => installed::server(version).cloned().map(Some),
        ServerSource::Version(version) if !must_ask => {
            server::binaries::fetch::expect_known(version)?;
            Ok(None)
        }
        ServerSource::Version(version) => {
            let fetched = server::fetch(environment.cache, version, &mut |p| watch(ProgressEvent::Fetch(p)));
            fetched.map(Some).with_context(|| format!("PostgreSQL {version}"))
        }
        // A build takes minutes, and is made when it is needed.
        ServerSource::Source { tree, revision } => {
            let source = SourceTree { tree, revision: revision.as_deref() };
            server::binaries::build::lacks(environment.cache, &source).map_or(Ok(None), |why| {
                if tree == REPOSITORY {
                    bail!("{} is not published as binaries: {why}", release(revision.as_deref()))
                } else {
                    bail!("server.source: {why}")
                }
            })
        }
        ServerSource::Url(_) => Ok(None),
    }
}
