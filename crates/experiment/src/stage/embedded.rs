//! A cluster of our own: made, filled once, and put back before each run.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use model::case::Case;
use model::script::CaseData;
use server::numa::Binding;
use server::workspace::{Claim, ClusterKey, Workspace};
use server::{Binaries, Cluster, InitOptions, Server, StartOptions, StopMode};
use wire::Conninfo;

use super::{LOADED, Site, data_bytes, data_words, directory, labels};
use crate::data::{self, DataState, Home};
use crate::progress::{Progress, Watch};
use crate::{load, os, own_data, schema, session, wal};

/// A cluster of our own, with a snapshot of the freshly loaded data.
pub struct Embedded {
    // Declared first: the server ends before the claim on its cluster does.
    pub(super) server: Option<Server>,
    pub(super) cluster: Cluster,
    pub(super) key: ClusterKey,
    /// Those that the server was started with.
    settings: BTreeMap<String, String>,
    /// Its data may be as a run left it.
    pub(super) was_loaded_before: bool,
    _claim: Claim,
}

impl Embedded {
    fn of(cluster: Cluster, key: ClusterKey, claim: Claim, was_loaded_before: bool) -> Embedded {
        let settings = BTreeMap::new();
        Embedded { server: None, cluster, key, settings, was_loaded_before, _claim: claim }
    }

    pub(super) fn set_up(
        binaries: Binaries,
        key: ClusterKey,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<Embedded> {
        // What a pgdyno that was killed could not remove itself.
        server::socket::sweep_sockets();
        let workspace = match directory(case) {
            Some(directory) => Workspace::open(&directory.join("clusters")),
            None => Workspace::in_cache(site.cache),
        }?;
        // One that cannot be swept is not in the way of this one.
        workspace.sweep().ok();
        let claim = workspace.claim(&key)?;
        let options = InitOptions {
            wal_directory: case.server.wal_directory.clone(),
            checksums: case.server.data_checksums,
        };
        // Data, its snapshot, and WAL while loading.
        let needed_bytes = 3 * data_bytes(&case.workload) + (2 << 30);
        let mut cluster = claim.cluster(&binaries, &options, needed_bytes)?;
        if cluster.has_snapshot(LOADED) {
            watch(Progress::Step(format!("using the data of {} loaded before", data_words(&case.workload))));
            return Ok(Embedded::of(cluster, key, claim, true));
        }
        if cluster.control_file().is_ok_and(|control| !control.is_shut_down)
            || !cluster.facts.labels.is_empty()
        {
            // Loading was cut off: what is there is of no use.
            claim.clear()?;
            cluster = claim.cluster(&binaries, &options, needed_bytes)?;
        }
        watch(Progress::Step(format!("made a cluster of PostgreSQL {}", binaries.version)));
        cluster.set_labels(labels(case, &binaries))?;
        let mut stage = Embedded::of(cluster, key, claim, false);
        stage.fill(case, site, watch)?;
        Ok(stage)
    }

    /// Loads the data and keeps a snapshot of it.
    fn fill(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<()> {
        let settings = self.settings_of(case, site)?;
        self.start(settings, None)?;
        let conninfo = self.conninfo()?;
        let mut session = session::open(&conninfo, site.stop)?;
        match &case.workload.data {
            CaseData::None => {}
            CaseData::Tpcb | CaseData::Tpcc | CaseData::TprocC => {
                schema::make(&mut session, case.workload.schema.as_deref())?;
                site.load(&mut session, &conninfo, &case.workload, watch)?;
            }
            CaseData::Files(files) => {
                let scale = case.workload.scale;
                let done = own_data::run_files(&mut session, files, scale, site.stop, watch)?;
                watch(Progress::Step(done));
            }
        }
        let databases = session.query("select datname from pg_database where datallowconn")?;
        for step in [server::tend::tend_catalogs, server::tend::tend_statistics] {
            for name in (0..databases.len()).filter_map(|row| databases.get(row, "datname")) {
                let conninfo = Conninfo { dbname: name.to_string(), ..conninfo.clone() };
                step(&mut session::open(&conninfo, site.stop)?)?;
            }
        }
        session.execute("checkpoint")?;
        drop(session);
        self.stop(StopMode::Fast)?;
        let report = self.cluster.snapshot(LOADED)?;
        let (megabytes, method) = (report.bytes as f64 / 1e6, report.method.as_str());
        watch(Progress::Step(format!("snapshot: {megabytes:.0} MB by {method} in {:.1} s", report.seconds)));
        Ok(())
    }

    pub(super) fn restore(&mut self, case: &Case, site: &Site) -> Result<BTreeMap<String, String>> {
        let mut detail = BTreeMap::new();
        if !case.prepare.restore && self.server.is_some() {
            let method = "none: prepare.restore is off, and the server runs on";
            return Ok(BTreeMap::from([("method".to_string(), method.to_string())]));
        }
        self.stop(StopMode::Immediate)?;
        if case.prepare.restore {
            detail = self.cluster.restore(LOADED)?.detail();
        } else {
            detail.insert("method".to_string(), "none: prepare.restore is off".to_string());
        }
        self.cluster.set_labels(labels(case, &self.cluster.binaries))?;
        let mut settings = self.settings_of(case, site)?;
        settings.extend(wal::settings(case.wal, case.window));
        let applied = os::apply(case, site.os.as_ref(), Some((&self.cluster, &mut settings)))?;
        detail.extend(applied.detail);
        self.start(settings, applied.binding)?;
        if case.prepare.restore {
            self.expect_whole(case, site)?;
        }
        Ok(detail)
    }

    /// What was copied must be what its name says.
    fn expect_whole(&self, case: &Case, site: &Site) -> Result<()> {
        let mut session = session::open(&self.conninfo()?, site.stop)?;
        let workload = &case.workload;
        // What the user's own files make has no marker.
        let Some(Home { dataset, schema }) = Home::of(&mut session, workload)? else { return Ok(()) };
        match data::inspect(&mut session, dataset, &schema)? {
            DataState::Whole(marker)
                if marker.scale == workload.scale && load::has_layout(&marker, dataset, workload.layout) =>
            {
                Ok(())
            }
            found => bail!(
                "the snapshot of cluster `{}` does not hold whole data of {}, but {found:?}; remove the cluster with \
                 pgdyno server remove and load it again",
                self.cluster.root.display(),
                load::words(workload)
            ),
        }
    }

    fn settings_of(&self, case: &Case, site: &Site) -> Result<BTreeMap<String, String>> {
        let version_num = self.cluster.binaries.version_num;
        let chosen = &case.server.settings;
        let mut settings =
            server::defaults::embedded_settings(version_num, site.memory_bytes, site.most_clients, chosen)?;
        server::space::fit_wal(&self.cluster, chosen, &mut settings)?;
        Ok(settings)
    }

    pub(super) fn start(
        &mut self,
        settings: BTreeMap<String, String>,
        binding: Option<Binding>,
    ) -> Result<()> {
        let options = StartOptions { settings: settings.clone(), binding, ..StartOptions::default() };
        self.server = Some(Server::start_with(&self.cluster, &options)?);
        self.settings = settings;
        Ok(())
    }

    /// Lets the WAL grow to another size between checkpoints, if its device has room for it.
    pub(super) fn resize_wal(&mut self, max_wal_bytes: u64) -> Result<String> {
        let version_num = self.cluster.binaries.version_num;
        let (name, value) = server::defaults::wal_setting(version_num, max_wal_bytes);
        let before = self.settings.insert(name.to_string(), value.clone()).unwrap_or_default();
        server::space::fit_wal(
            &self.cluster,
            &BTreeMap::from([(name.to_string(), value.clone())]),
            &mut self.settings,
        )
        .context("run.wal")?;
        self.running()?.reconfigure(&self.cluster, &self.settings)?;
        Ok(format!("{name} = {value} (was {before})"))
    }

    pub(super) fn stop(&mut self, mode: StopMode) -> Result<()> {
        match self.server.take() {
            Some(server) => server.stop(mode).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn conninfo(&self) -> Result<Conninfo> {
        Ok(Conninfo { application_name: Some("pgdyno".to_string()), ..self.running()?.conninfo() })
    }

    fn running(&self) -> Result<&Server> {
        self.server.as_ref().context("the embedded server is not running")
    }
}
