//! Our own cluster: created, filled once, and restored before each run.

mod access;

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use dataset::state::{self, DataState, WorkloadTables};
use dataset::{layout, schema, session};
use model::experiment::case::setting;
use model::experiment::case::{Case, ServerSpec, Tls};
use model::experiment::keys;
use model::experiment::script::CaseData;
use model::experiment::topology::outage::PRIMARY;
use model::text::prose::bytes;
use server::cluster::workspace::{Claim, ClusterKey};
use server::running::numa::Binding;
use server::running::restorer::Restorer;
use server::settings::effect;
use server::{Binaries, Cluster, InitOptions, ListenAddress, OwnPooler, OwnServer, StartOptions, StopMode};
use wire::Conninfo;

pub(in crate::stage) use self::access::named;
use super::{LOADED, MADE_UNDER, data_words, labels, made_under, nodes, workspace_of};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Site, SystemChanges, phase_limit, requirements, wal};
use crate::stage::archive::ArchivedWal;
use crate::stage::directory_data::DirectoryCase;
use crate::stage::disk::{self, Adding, WalNeeds};
use crate::stage::nodes::Standbys;
use crate::stage::nodes::node::NodeAccess;
use crate::stage::os::ReservedPages;
use crate::stage::own_data::{ArchiveRestore, FilesRun, UNLIKE_SOURCE, Whose};
use crate::stage::pooler::own;
use crate::stage::{directory_data, os, own_data};

/// Label of a cluster whose data was loaded completely.
pub(crate) const IS_LOADED: &str = "loaded";

/// Label with the experiment that used the cluster last, if its servers take turns on disk ([`Environment::in_turn`]).
const IN_TURN: &str = "experiment";

/// Why an archive needs a consent.
pub(crate) const TRUST_IN_ARCHIVE: &str = "an archive is code of whoever wrote it, and in a server that pgdyno runs it gets the rights of a \
     superuser, who can execute programs as the server's user; pass --allow-archive-as-superuser if you trust the archive like yourself, or \
     restore it into a server by URL as a role without such rights that owns the database";

/// By less, the page cache may shrink because of other programs of the machine.
const LOST_BYTES_MIN: u64 = 1 << 20;
/// Starts of a server whose huge pages others take.
const N_STARTS: u32 = 4;

/// Our own cluster, with a snapshot of the freshly loaded data.
pub struct Embedded {
    // Declared first, so that the pooler and standbys end before their primary, and the server before what it archived and the claim on its
    // cluster.
    pub(super) pooler: Option<OwnPooler>,
    pub(super) standbys: Standbys,
    pub(super) server: Option<OwnServer>,
    archived: ArchivedWal,
    pub(super) cluster: Cluster,
    pub(super) key: ClusterKey,
    /// How the server was started.
    options: StartOptions,
    /// The node that takes writes since the primary was lost, if another one does.
    pub(super) survivor: Option<String>,
    /// The cluster existed before this process, and its data may be as a run left it.
    pub(super) was_loaded_before: bool,
    /// The data was loaded just now, and no run has changed it.
    is_fresh: bool,
    /// What distinguishes the data from that of the user's files or archive, if anything does.
    unlike_source: Option<String>,
    /// Where it was loaded into memory, if the case that it was loaded for is placed.
    loaded_on: Option<String>,
    wal_needs: WalNeeds,
    claim: Claim,
}

impl Embedded {
    fn new(cluster: Cluster, key: ClusterKey, claim: Claim, was_loaded_before: bool) -> Embedded {
        let options = StartOptions::default();
        let unlike_source = cluster.facts.labels.get(UNLIKE_SOURCE).cloned();
        let wal_needs = WalNeeds::default();
        Embedded {
            pooler: None,
            standbys: Standbys::default(),
            server: None,
            archived: ArchivedWal::default(),
            cluster,
            key,
            options,
            survivor: None,
            was_loaded_before,
            is_fresh: false,
            unlike_source,
            loaded_on: None,
            wal_needs,
            claim,
        }
    }

    pub(super) fn set_up(
        binaries: Binaries,
        key: ClusterKey,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<Embedded> {
        // A killed pgdyno could not remove these itself.
        server::process::socket::sweep_sockets();
        let workspace = workspace_of(case, &site.environment)?;
        // A leftover that cannot be swept does not affect this cluster.
        workspace.sweep().ok();
        let claim = workspace.claim(&key)?;
        requirements::note_if_newer(binaries.version_num, watch);
        disk::make_room(case, &claim, &site.environment, watch)?;
        let mut cluster = claim.cluster(&binaries, &options(case))?;
        let made_under = cluster.facts.labels.get(MADE_UNDER);
        let is_known = made_under == Some(&setting::made_under_words(case));
        if !is_known && cluster.has_snapshot(LOADED) {
            let why = "an older pgdyno loaded the data, and did not record under which settings: it is loaded again";
            watch(ProgressEvent::Note(why.to_string()));
        }
        let is_loaded = is_known && cluster.facts.labels.contains_key(IS_LOADED);
        let has_snapshot = is_known && cluster.has_snapshot(LOADED);
        let may_have_aged =
            !case.prepare.restore && has_aged_elsewhere(&cluster.facts.labels, site.environment.in_turn);
        // Without a snapshot, runs may have changed the data.
        if has_snapshot || (is_loaded && !case.prepare.restore && !may_have_aged) {
            let differs = cluster.facts.labels.get(UNLIKE_SOURCE).map(|words| format!(" ({words})"));
            watch(ProgressEvent::Step(format!(
                "using the data of {} loaded before{}",
                data_words(case),
                differs.unwrap_or_default()
            )));
            if may_have_aged {
                cluster.restore(LOADED)?;
            }
            return Ok(Embedded::new(cluster, key, claim, true));
        }
        let is_new = cluster.control_file().is_ok_and(|control| control.is_shut_down)
            && cluster.facts.labels.is_empty();
        let mut stage = Embedded::new(cluster, key, claim, false);
        if !is_new {
            // Loading was interrupted, the loaded state cannot be restored, or only this server would begin with aged data.
            stage.make_again(case)?;
        }
        watch(ProgressEvent::Step(format!("created a cluster of PostgreSQL {}", binaries.version)));
        match stage.fill(case, site, watch) {
            Ok(()) => Ok(stage),
            Err(error) => Err(match stage.crash(&format!("{error:#}")) {
                Some(text) => anyhow!(text),
                None => error,
            }),
        }
    }

    /// The text of an error followed by what the server said when it crashed, if it did and the text does not say so.
    pub(super) fn crash(&self, error: &str) -> Option<String> {
        let lines = self.server.as_ref()?.crash_lines();
        let message = |line: &str| line.split_once(':').map_or(line, |(_, text)| text.trim()).to_string();
        let is_known = lines.iter().any(|line| error.contains(&message(line)));
        (!lines.is_empty() && !is_known).then(|| format!("{error}; the server said: {}", lines.join("; ")))
    }

    /// Replaces the cluster by an empty one.
    fn make_again(&mut self, case: &Case) -> Result<()> {
        self.claim.clear()?;
        self.cluster = self.claim.cluster(&self.cluster.binaries, &options(case))?;
        Ok(())
    }

    /// Loads the data, and takes a snapshot of it if runs are restored to one.
    fn fill(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<()> {
        self.cluster.set_labels(labels(case, &self.cluster.binaries))?;
        let mut making = case.clone();
        making.server.settings = setting::of_its_data(case).clone();
        let settings = self.settings_of(&making, &site.environment, Adding::Everything)?;
        // What is written here stays in memory, and without a snapshot the run finds it there.
        let binding = os::placement_of(case).context(keys::os::NUMA.name)?;
        self.loaded_on = binding.as_ref().map(Binding::words);
        self.start(StartOptions { settings, binding, ..StartOptions::default() })?;
        let loaded = self.load(case, site, watch);
        // Also of data that is not complete: it is removed before it is loaded again.
        let marked = self.cluster.mark_tablespaces();
        let unlike_source = loaded?;
        marked?;
        self.unlike_source = unlike_source;
        self.stop(StopMode::Fast)?;
        if disk::has_snapshot(case) {
            let report = self.cluster.snapshot(LOADED)?;
            let (size, method) = (bytes(report.bytes as f64), report.method.as_str());
            let seconds = report.seconds;
            watch(ProgressEvent::Step(format!("snapshot: {size} by {method} in {seconds:.1} s")));
        }
        self.label(case, &site.environment)?;
        self.is_fresh = true;
        Ok(())
    }

    /// Loads the data over the running server. Returns what distinguishes it from the user's files or archive.
    fn load(&self, case: &Case, site: &Site, watch: &mut Watch) -> Result<Option<String>> {
        let conninfo = self.conninfo()?;
        let mut unlike_source = None;
        let mut session = session::open(&conninfo, site.environment.stop)?;
        match &case.workload.data {
            CaseData::None => {}
            CaseData::Loaded(_) => {
                // Before hours of loading.
                self.expect_in_effect(case, &site.environment)?;
                schema::make(&mut session, case.workload.schema.as_deref())?;
                site.load(&mut session, &conninfo, &case.workload, watch)?;
            }
            CaseData::Files(files) => {
                let run = FilesRun {
                    files,
                    whose: Whose::Ours,
                    scale: case.workload.scale,
                    risks: site.permissions.risks,
                };
                let done = own_data::run_files(&mut session, &run, site.environment.stop, watch)?;
                unlike_source = done.unlike_source;
                watch(ProgressEvent::Step(done.words));
            }
            CaseData::Directory => {
                self.expect_in_effect(case, &site.environment)?;
                directory_data::load_on_own_server(&mut session, &conninfo, case, site, watch)?;
            }
            CaseData::Archive(archive) => {
                ensure!(site.permissions.risks.archive_as_superuser, "{TRUST_IN_ARCHIVE}");
                let restorer = Restorer::of_cluster(&self.cluster, self.running()?, &archive.dump_version)?;
                let restore = ArchiveRestore {
                    workload: &case.workload,
                    archive,
                    restorer: &restorer,
                    whose: Whose::Ours,
                    longest: phase_limit::for_case(case),
                };
                let done = own_data::restore_archive(&mut session, &restore, &site.environment, watch)?;
                unlike_source = done.unlike_source;
                watch(ProgressEvent::Step(done.words));
                let stop = site.environment.stop;
                directory_data::restored::expect_sound(&conninfo, &case.workload, archive, stop)?;
            }
        }
        let databases = session.query("select datname from pg_database where datallowconn")?;
        for step in [server::database::tend::tend_catalogs, server::database::tend::tend_statistics] {
            for name in (0..databases.len()).filter_map(|row| databases.get(row, "datname")) {
                let conninfo = Conninfo { dbname: name.to_string(), ..conninfo.clone() };
                step(&mut session::open(&conninfo, site.environment.stop)?)?;
            }
        }
        session.execute("checkpoint")?;
        Ok(unlike_source)
    }

    /// Records in the cluster's marker that its data is complete, and who used it last.
    fn label(&mut self, case: &Case, environment: &Environment) -> Result<()> {
        let mut labels = labels(case, &self.cluster.binaries);
        labels.insert(IS_LOADED.to_string(), "yes".to_string());
        labels.extend(self.unlike_source());
        labels.extend(environment.in_turn.map(|experiment| (IN_TURN.to_string(), experiment.to_string())));
        self.cluster.set_labels(labels)
    }

    /// The fact, and the label, that the data is not all that its source has, if so.
    fn unlike_source(&self) -> Option<(String, String)> {
        self.unlike_source.clone().map(|words| (UNLIKE_SOURCE.to_string(), words))
    }

    pub(super) fn restore(
        &mut self,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<BTreeMap<String, String>> {
        if !case.prepare.restore && self.server.is_some() {
            let method = "none: prepare.restore is off, and the server runs on";
            let method = ("method".to_string(), method.to_string());
            return Ok([method].into_iter().chain(self.unlike_source()).collect());
        }
        self.stop(StopMode::Immediate)?;
        self.survivor = None;
        let mut detail = self.put_data_back(case, site, watch)?;
        detail.extend(self.standbys.seed(case, &site.environment, &self.key, &self.cluster)?);
        detail.extend(made_under(case));
        detail.extend(self.unlike_source());
        self.label(case, &site.environment)?;
        let mut settings = self.settings_of(case, &site.environment, Adding::Growth)?;
        settings.extend(wal::settings(case.wal, case.window));
        settings.extend(nodes::settings_of_primary(case));
        nodes::expect_memory(case, &settings, site.environment.memory_bytes)?;
        settings.extend(self.archived.begin(case, &self.cluster)?);
        let applied = os::apply(case, site.changes.os, Some((&self.cluster, &mut settings)))?;
        detail.extend(applied.detail);
        self.is_fresh = false;
        let listen = listen(&case.server)?;
        let (binding, groups) = (applied.binding, applied.groups);
        let options = StartOptions { settings, binding, groups, listen, ..StartOptions::default() };
        let reserved = (applied.pages.as_ref(), applied.page_cache_lost_bytes);
        detail.extend(self.start_with_pages(case, &site.changes, &options, reserved)?);
        let server = self.server.as_ref().context("the embedded server is not running")?;
        self.standbys.start(case, server, &self.options.settings, &site.environment)?;
        self.expect_in_effect(case, &site.environment)?;
        if case.prepare.restore {
            self.expect_whole(case, &site.environment)?;
        }
        self.make_statement_statistics(case, site)?;
        let behind = named(directory_data::conninfo_of_load(self.running()?.conninfo(), &case.workload));
        self.pooler = own::start(case, &behind)?;
        Ok(detail)
    }

    /// Makes the extension without which nobody can read what a library has counted that the case preloads. Other data than that of
    /// the snapshot has it: in a schema of its own, so that nothing else is in its way.
    fn make_statement_statistics(&self, case: &Case, site: &Site) -> Result<()> {
        const NAME: &str = "pg_stat_statements";
        let mut settings = case.server.settings.iter();
        let is_preloaded = settings.any(|(name, value)| {
            name.eq_ignore_ascii_case("shared_preload_libraries") && value.contains(NAME)
        });
        if !is_preloaded {
            return Ok(());
        }
        let mut session = session::open(&self.conninfo()?, site.environment.stop)?;
        if session.extension(NAME)?.is_none() {
            let sql = format!(
                "create schema if not exists pgdyno_statements; create extension {NAME} schema pgdyno_statements"
            );
            session
                .execute(&sql)
                .with_context(|| format!("make the extension {NAME}, which is preloaded"))?;
        }
        Ok(())
    }

    /// Restores the data as the case asks: from the snapshot, or by loading it again if there is none.
    fn put_data_back(
        &mut self,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<BTreeMap<String, String>> {
        let is_placed = case.os.contains_key("numa");
        let method = |text: &str, cached: Option<&str>| {
            let cached = cached.filter(|_| is_placed).map(|cached| ("cached", cached));
            let facts = cached.into_iter().chain([("method", text)]);
            facts.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        if !case.prepare.restore {
            let before = if self.is_fresh { None } else { Some("where it was before: not placed") };
            return Ok(method("none: prepare.restore is off", before.or(self.loaded_on.as_deref())));
        }
        if self.cluster.has_snapshot(LOADED) {
            return self.restore_snapshot(case);
        }
        if self.is_fresh {
            return Ok(method("none: the data was loaded just now", self.loaded_on.as_deref()));
        }
        self.make_again(case)?;
        self.fill(case, site, watch)?;
        Ok(method("loaded again: there is no snapshot", self.loaded_on.as_deref()))
    }

    fn restore_snapshot(&mut self, case: &Case) -> Result<BTreeMap<String, String>> {
        let Some(binding) = os::placement_of(case).context(keys::os::NUMA.name)? else {
            return Ok(self.cluster.restore(LOADED)?.detail());
        };
        // The kernel puts the cached pages of a file where the process that reads or writes it first may have memory.
        let mut detail = binding.run(|| self.cluster.restore_here(LOADED))??.detail();
        detail.insert("cached".to_string(), binding.words());
        Ok(detail)
    }

    /// Restores the snapshot once more after the page cache has lost pages: a run without prewarming would otherwise read from disk what
    /// other runs of its case find in memory. Returns what the record says about it.
    fn make_up_for_lost_cache(&mut self, case: &Case, bytes: u64) -> Result<BTreeMap<String, String>> {
        let mut detail = BTreeMap::from([("page_cache_lost_bytes".to_string(), bytes.to_string())]);
        let prepare = &case.prepare;
        if prepare.restore && !prepare.prewarm && self.cluster.has_snapshot(LOADED) {
            let seconds = self.restore_snapshot(case)?.remove("seconds").unwrap_or_default();
            detail.insert("restored_again_seconds".to_string(), seconds);
        }
        Ok(detail)
    }

    /// Stops the server, and removes the cluster if this process created it; an existing one stays.
    pub(super) fn retire(mut self) -> Result<()> {
        self.stop(StopMode::Fast)?;
        if self.was_loaded_before { Ok(()) } else { self.claim.clear() }
    }

    /// Checks the settings of the case that the server took at its start without looking at its catalogs.
    fn expect_in_effect(&self, case: &Case, environment: &Environment) -> Result<()> {
        let chosen = &case.server.settings;
        if chosen.is_empty() {
            return Ok(());
        }
        let mut session = session::open(&self.conninfo()?, environment.stop)?;
        // A name without a schema is looked up as the load's sessions do.
        session.restore_for_user()?;
        effect::expect(&mut session, chosen).context(keys::server::SETTINGS.name)
    }

    /// Checks that the restored data matches its key.
    fn expect_whole(&self, case: &Case, environment: &Environment) -> Result<()> {
        let mut session = session::open(&self.conninfo()?, environment.stop)?;
        let workload = &case.workload;
        if let Some(of_case) = DirectoryCase::find(&mut session, workload)? {
            return of_case.expect_whole(&mut session).with_context(|| self.not_whole());
        }
        // Data of the user's own files has no marker.
        let Some(WorkloadTables { dataset, schema }) = WorkloadTables::find(&mut session, workload)? else {
            return Ok(());
        };
        match state::inspect(&mut session, dataset, &schema)? {
            DataState::Whole(marker)
                if marker.scale == workload.scale
                    && layout::has_layout(&marker, dataset, workload.layout) =>
            {
                Ok(())
            }
            found => bail!(
                "{}; it does not contain complete data of {}, but {found:?}",
                self.not_whole(),
                layout::describe(workload)
            ),
        }
    }

    /// What to do about a snapshot that is not what it should be.
    fn not_whole(&self) -> String {
        format!(
            "the snapshot of cluster `{}` is not what was loaded; remove the cluster with pgdyno server remove and load it again",
            self.cluster.root.display()
        )
    }

    fn settings_of(
        &mut self,
        case: &Case,
        environment: &Environment,
        adding: Adding,
    ) -> Result<BTreeMap<String, String>> {
        let version_num = self.cluster.binaries.version_num;
        let chosen = &case.server.settings;
        let mut settings = server::settings::defaults::embedded_settings(
            version_num,
            environment.memory_bytes,
            environment.most_connections,
            chosen,
        )?;
        self.wal_needs = WalNeeds::new(case, &self.cluster, adding)?;
        self.wal_needs
            .within(|room| server::cluster::space::fit_wal(&self.cluster, chosen, room, &mut settings))?;
        Ok(settings)
    }

    pub(super) fn start(&mut self, options: StartOptions) -> Result<()> {
        self.server = Some(OwnServer::start_with(&self.cluster, &options)?);
        self.options = options;
        Ok(())
    }

    /// Makes up for what reserving huge pages took from the page cache, and starts the server. Whoever takes these pages before the
    /// start makes it fail: then they are reserved again. Returns what the record says about it.
    fn start_with_pages(
        &mut self,
        case: &Case,
        changes: &SystemChanges,
        options: &StartOptions,
        (pages, mut lost_bytes): (Option<&ReservedPages>, u64),
    ) -> Result<BTreeMap<String, String>> {
        let (mut detail, mut made_up_bytes) = (BTreeMap::new(), 0);
        for n_starts in 1.. {
            if lost_bytes - made_up_bytes >= LOST_BYTES_MIN {
                detail.extend(self.make_up_for_lost_cache(case, lost_bytes)?);
                made_up_bytes = lost_bytes;
            }
            let Err(error) = self.start(options.clone()) else { break };
            let reserved = if n_starts < N_STARTS { pages } else { None };
            match reserved.map(|pages| pages.reserve_again(changes.os)).transpose()?.flatten() {
                Some(lost_again_bytes) => lost_bytes += lost_again_bytes,
                None => return Err(error),
            }
        }
        Ok(detail)
    }

    /// Changes `max_wal_size`, if the device has enough space.
    pub(super) fn resize_wal(&mut self, max_wal_bytes: u64) -> Result<String> {
        let version_num = self.cluster.binaries.version_num;
        let (name, value) = server::settings::defaults::wal_setting(version_num, max_wal_bytes);
        let before = self.options.settings.insert(name.to_string(), value.clone()).unwrap_or_default();
        let chosen = BTreeMap::from([(name.to_string(), value.clone())]);
        let settings = &mut self.options.settings;
        self.wal_needs
            .within(|room| server::cluster::space::fit_wal(&self.cluster, &chosen, room, settings))
            .context(keys::run::WAL.name)?;
        self.running()?.reconfigure(&self.cluster, &self.options.settings)?;
        Ok(format!("{name} = {value} (was {before})"))
    }

    pub(super) fn stop(&mut self, mode: StopMode) -> Result<()> {
        self.pooler.take().map_or(Ok(()), OwnPooler::stop)?;
        // A primary that is stopped waits for its standbys.
        self.standbys.stop(mode)?;
        match self.server.take() {
            Some(server) => server.stop(mode).map(drop),
            None => Ok(()),
        }
    }

    /// A node by its name.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn node(&mut self, name: &str) -> Result<NodeAccess<'_>> {
        if name != PRIMARY {
            return self.standbys.access(name, &self.cluster);
        }
        Ok(NodeAccess::primary(
            self.server.as_mut().context("the embedded server is not running")?,
            &self.cluster,
            &self.options,
        ))
    }

    pub(super) fn running(&self) -> Result<&OwnServer> {
        self.server.as_ref().context("the embedded server is not running")
    }
}

/// Whether another experiment than the one `in_turn` may have changed a cluster's data. A server whose data was loaded for the
/// experiment would be compared with one whose data has been written to for hours.
fn has_aged_elsewhere(labels: &BTreeMap<String, String>, in_turn: Option<u64>) -> bool {
    in_turn.is_some_and(|experiment| labels.get(IN_TURN) != Some(&experiment.to_string()))
}

/// Where the case's server listens besides its socket.
///
/// # Errors
/// When this machine has no such address.
pub(crate) fn listen(server: &ServerSpec) -> Result<Option<ListenAddress>> {
    let tls = server.tls == Tls::On;
    server.listen.as_deref().map(|text| ListenAddress::resolve(text, tls)).transpose()
}

/// Options for creating the case's cluster.
fn options(case: &Case) -> InitOptions {
    InitOptions {
        wal_directory: case.server.wal_directory.clone(),
        snapshot_directory: case.space.snapshot_directory.clone().filter(|_| disk::has_snapshot(case)),
        checksums: case.server.data_checksums,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_another_experiment_aged_is_not_used_as_it_is_where_servers_take_turns() {
        let used_by = |experiment: &str| BTreeMap::from([(IN_TURN.to_string(), experiment.to_string())]);
        for (labels, in_turn, expected) in [
            (used_by("7"), Some(7), false),
            (used_by("6"), Some(7), true),
            (BTreeMap::new(), Some(7), true),
            (BTreeMap::new(), None, false),
        ] {
            assert_eq!(has_aged_elsewhere(&labels, in_turn), expected, "{labels:?}, {in_turn:?}");
        }
    }
}
