//! The standbys of our own server: seeded from the snapshot of its data, started after it, stopped before it, and removed at the end.

pub(crate) mod node;
mod proof;
pub(crate) mod waited_for;
mod way;
mod whereabouts;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataset::session;
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::outage::PRIMARY;
use model::experiment::topology::{SYNCHRONOUS_NAMES, direct_standbys, n_standbys, standby_name};
use model::experiment::topology::{synchronous, upstream_of};
use model::release::{Release, functions};
use model::run::server::node::{NodeRecord, is_waited_for};
use model::text::prose::bytes;
use model::text::units::size_bytes;
use server::cluster::workspace::{Claim, ClusterKey, Workspace};
use server::running::upstream::Upstream;
use server::{Cluster, OwnServer, StartOptions, StopMode};
use wan::Relay;
use wire::session::Limit;
use wire::{Session, quote_literal};

use self::node::NodeAccess;
use self::proof::AskedPrimary;
use self::way::RelayedWay;
use super::{LOADED, workspace_of};
use crate::site::Environment;

/// How long standbys may take until they stream: they begin where the primary's snapshot ends.
const STREAMING_MAX: Duration = Duration::from_secs(60);
/// Time for questions about a standby that does not stream.
const ASKING: Duration = Duration::from_secs(2);
/// WAL that passes before a standby has caught up: it asks for that of a segment from its beginning, and that of our preparations
/// follows.
const FIRST_WAL_BYTES: f64 = (32 << 20) as f64;
/// Pause between two looks at them.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The standbys of a case's server.
#[derive(Default)]
pub struct Standbys {
    nodes: Vec<Standby>,
}

/// A standby on this machine.
pub struct Standby {
    // Declared first, so that the server ends before its cluster is removed.
    server: Option<OwnServer>,
    way: Option<RelayedWay>,
    cluster: Cluster,
    name: String,
    /// Name of the standby that it streams from; `None`: the primary.
    upstream: Option<String>,
    /// How its server was started.
    options: StartOptions,
    claim: Claim,
}

impl Drop for Standby {
    fn drop(&mut self) {
        drop(self.server.take());
        // What stays is swept by the next pgdyno.
        self.claim.clear().ok();
    }
}

impl Standby {
    /// Name: `s1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the server that it streams from: `primary`, `s1`.
    pub fn upstream(&self) -> &str {
        self.upstream.as_deref().unwrap_or(PRIMARY)
    }

    /// The server, if it runs.
    pub fn server(&self) -> Option<&OwnServer> {
        self.server.as_ref()
    }

    /// The relay between it and its upstream, while its server runs and if the case has one: it can be cut, and counts bytes.
    pub fn relay(&self) -> Option<&Relay> {
        self.way.as_ref().map(|way| &way.relay)
    }

    /// How long it may take for the WAL before the load, given how long that takes without a limited way.
    fn patience(&self, usual: Duration) -> Duration {
        let rate = self.relay().and_then(|relay| relay.way().rate);
        usual
            + rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(FIRST_WAL_BYTES / rate.get() as f64))
    }

    fn running(&self) -> Result<&OwnServer> {
        self.server.as_ref().with_context(|| format!("standby `{}` is not running", self.name))
    }
}

/// The settings that the primary of a case gets for its standbys.
pub(crate) fn settings_of_primary(case: &Case) -> Option<(String, String)> {
    let names = synchronous(case).names(&direct_standbys(case));
    (!names.is_empty()).then(|| (SYNCHRONOUS_NAMES.to_string(), names))
}

impl Standbys {
    /// All of them, `s1` first.
    pub fn all(&self) -> &[Standby] {
        &self.nodes
    }

    /// The one of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Standby> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The one of this name, for an outage; `primary` is the cluster that it follows.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn access(&mut self, name: &str, primary: &Cluster) -> Result<NodeAccess<'_>> {
        let node = self.nodes.iter_mut().find(|node| node.name == name);
        let node = node.with_context(|| format!("there is no standby `{name}`"))?;
        let control = primary.control_file().ok().filter(|control| control.is_shut_down);
        Ok(NodeAccess {
            name: name.to_string(),
            server: node.server.as_mut().with_context(|| format!("standby `{name}` is not running"))?,
            cluster: &node.cluster,
            options: &node.options,
            end_of_primary: control.map(|control| control.checkpoint),
        })
    }

    /// Stops their servers.
    ///
    /// # Errors
    /// When one does not stop.
    pub(crate) fn stop(&mut self, mode: StopMode) -> Result<()> {
        // Those of standbys before the standbys that they stream from.
        for node in self.nodes.iter_mut().rev() {
            node.server.take().map_or(Ok(()), |server| server.stop(mode).map(drop))?;
            node.way = None;
        }
        Ok(())
    }

    /// Gives the standbys of a case the bytes that the primary starts from. All servers must be stopped. Returns what the record says
    /// about it.
    ///
    /// # Errors
    /// When their clusters cannot be made, or files cannot be written.
    pub(crate) fn seed(
        &mut self,
        case: &Case,
        environment: &Environment,
        key: &ClusterKey,
        primary: &Cluster,
    ) -> Result<BTreeMap<String, String>> {
        let n = n_standbys(case) as usize;
        self.nodes.truncate(n);
        if n == 0 {
            return Ok(BTreeMap::new());
        }
        let workspace = workspace_of(case, environment)?;
        for number in self.nodes.len()..n {
            self.nodes.push(Standby::claim(number as u32 + 1, &workspace, key, primary)?);
        }

        let mut seconds = 0.0;
        for node in &mut self.nodes {
            let report = node.cluster.seed(primary, LOADED);
            seconds += report.with_context(|| format!("seed standby `{}`", node.name))?.seconds;
        }
        Ok(BTreeMap::from([
            ("standbys".to_string(), n.to_string()),
            ("standbys_seconds".to_string(), format!("{seconds:.3}")),
        ]))
    }

    /// Starts the standbys of a case's running primary, which has these settings, and waits until all stream.
    ///
    /// # Errors
    /// When one does not start, or does not stream in time; says what its log says.
    pub(crate) fn start(
        &mut self,
        case: &Case,
        primary: &OwnServer,
        settings: &BTreeMap<String, String>,
        environment: &Environment,
    ) -> Result<()> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        let has_slots = case.get(keys::topology::SLOTS);
        let settings = settings_of_standby(case, settings);
        for index in 0..self.nodes.len() {
            let (before, rest) = self.nodes.split_at_mut(index);
            let Some(node) = rest.first_mut() else { break };
            node.upstream = Some(upstream_of(case, &node.name)).filter(|name| name != PRIMARY);
            let from = upstream(node.upstream.as_deref(), before, primary)?;
            let slot = has_slots.then(|| node.name.clone());
            if let Some(slot) = &slot {
                make_slot(&mut session_of(from, environment)?, slot, &node.cluster)?;
            }
            node.way = RelayedWay::open(case, from, &node.cluster)
                .with_context(|| format!("make the way of standby `{}`", node.name))?;
            let upstream = match &node.way {
                Some(way) => way.upstream(&node.name, slot),
                None => from.upstream(&node.name, slot),
            };
            node.start(upstream, &settings)?;
        }
        (0..self.nodes.len()).try_for_each(|index| self.wait_until_streaming(index, primary, environment))
    }

    /// Words about the WAL that slots of their primary keep; `None` if they keep none, or it does not say.
    pub(crate) fn kept_by_slots(&self, primary: &OwnServer, environment: &Environment) -> Option<String> {
        let release = Release::new(self.nodes.first()?.cluster.binaries.version_num);
        let mut session = session_of(primary, environment).ok()?;
        whereabouts::kept_by_slots(&mut session, release).ok()?
    }

    /// The server that a standby streams from.
    fn upstream_of<'a>(&'a self, node: &Standby, primary: &'a OwnServer) -> Result<&'a OwnServer> {
        upstream(node.upstream.as_deref(), &self.nodes, primary)
    }

    /// Waits until each standby has replayed all that the primary has written, and proves that it is of this run and waited for as
    /// the case asks.
    ///
    /// # Errors
    /// When one does not catch up in time or follows another server, or commits wait for fewer than the case asks for.
    pub(crate) fn prove(
        &self,
        case: &Case,
        primary: &OwnServer,
        cluster: &Cluster,
        environment: &Environment,
    ) -> Result<Vec<NodeRecord>> {
        let mut asked = AskedPrimary { session: session_of(primary, environment)?, cluster };
        let proved = self.nodes.iter().map(|node| {
            let session = session_of(self.upstream_of(node, primary)?, environment)?;
            proof::prove(node, &mut asked, AskedPrimary { session, cluster }, environment)
        });
        let records = proved.collect::<Result<Vec<NodeRecord>>>()?;

        let n_needed = synchronous(case).n_needed(direct_standbys(case).len() as u32) as usize;
        let n_waited_for = records.iter().filter(|node| is_waited_for(&node.sync_state)).count();
        ensure!(
            n_waited_for >= n_needed,
            "commits wait for {n_waited_for} of {n_needed} standbys: {}",
            records
                .iter()
                .map(|node| format!("{} is {}", node.name, node.sync_state))
                .collect::<Vec<_>>()
                .join(", ")
        );
        Ok(records)
    }

    /// What the standbys are like after the load, and how long each takes to catch up, at most `longest`.
    ///
    /// # Errors
    /// When the primary cannot be asked. A standby that cannot be asked stays as it was recorded.
    pub(crate) fn after(
        &self,
        records: &mut [NodeRecord],
        primary: &OwnServer,
        cluster: &Cluster,
        longest: Duration,
        environment: &Environment,
    ) -> Result<()> {
        let written = AskedPrimary { session: session_of(primary, environment)?, cluster }.written()?;
        let after = |node: &Standby| {
            let session = session_of(self.upstream_of(node, primary)?, environment)?;
            let mut upstream = AskedPrimary { session, cluster };
            proof::after(node, &mut upstream, &written, longest, environment)
        };
        for (node, record) in self.nodes.iter().zip(records) {
            record.after = after(node).ok();
        }
        Ok(())
    }

    /// Waits until a standby streams from its upstream.
    fn wait_until_streaming(
        &mut self,
        index: usize,
        primary: &OwnServer,
        environment: &Environment,
    ) -> Result<()> {
        let (before, rest) = self.nodes.split_at_mut(index);
        let Some(node) = rest.first_mut() else { return Ok(()) };
        let mut session = session_of(upstream(node.upstream.as_deref(), before, primary)?, environment)?;
        let longest = node.patience(STREAMING_MAX);
        // Time to ask both servers why remains.
        let phase_end = Limit::current().until.and_then(|until| until.checked_sub(ASKING));
        let end = Instant::now() + longest;
        let end = phase_end.map_or(end, |phase_end| phase_end.min(end));
        let began = Instant::now();
        let sql = format!(
            "select state from pg_catalog.pg_stat_replication where application_name = {}",
            quote_literal(&node.name)
        );
        while session.query(&sql)?.scalar() != Some("streaming") {
            if let Some(Err(ending)) = node.server.as_mut().map(OwnServer::check_running) {
                ensure!(false, "standby `{}` has ended: {ending}; {}", node.name, node.last_words());
            }
            if Instant::now() >= end {
                let (seconds, from) = (began.elapsed().as_secs(), node.upstream());
                let places = whereabouts::words(node, &mut session, environment);
                let (name, said) = (&node.name, node.last_words());
                ensure!(
                    false,
                    "standby `{name}` does not stream from `{from}` within {seconds} s; {places}; {said}"
                );
            }
            thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }
}

/// The server of an upstream, which is the primary without a name.
fn upstream<'a>(name: Option<&str>, all: &'a [Standby], primary: &'a OwnServer) -> Result<&'a OwnServer> {
    let Some(name) = name else { return Ok(primary) };
    let node = all.iter().find(|node| node.name == name);
    node.with_context(|| format!("there is no standby `{name}`"))?.running()
}

impl Standby {
    fn claim(number: u32, workspace: &Workspace, key: &ClusterKey, primary: &Cluster) -> Result<Standby> {
        let name = standby_name(number);
        let mut key = key.clone();
        key.parts.insert("standby".to_string(), name.clone());
        let claim = workspace.claim(&key)?;
        let cluster = claim.standby(primary).with_context(|| format!("make standby `{name}`"))?;
        let (options, upstream) = (StartOptions::default(), None);
        Ok(Standby { server: None, way: None, cluster, name, upstream, options, claim })
    }

    fn start(&mut self, upstream: Upstream, settings: &BTreeMap<String, String>) -> Result<()> {
        let options =
            StartOptions { settings: settings.clone(), upstream: Some(upstream), ..StartOptions::default() };
        let server = OwnServer::start_with(&self.cluster, &options)
            .with_context(|| format!("start standby `{}`", self.name))?;
        (self.server, self.options) = (Some(server), options);
        Ok(())
    }

    /// The end of its log, for a message.
    fn last_words(&self) -> String {
        self.server.as_ref().map_or_else(|| "its log says nothing".to_string(), OwnServer::last_words)
    }
}

/// Refuses servers that share this machine's memory and would have more of it than there is.
///
/// # Errors
/// Says how much they would have, and what to do.
pub(crate) fn expect_memory(
    case: &Case,
    settings: &BTreeMap<String, String>,
    memory_bytes: u64,
) -> Result<()> {
    let (n, name) = (u64::from(n_standbys(case)), "shared_buffers");
    let Some(each) = settings.get(name).and_then(|value| size_bytes(value, 8 << 10)) else { return Ok(()) };
    let all = each.saturating_mul(n + 1);
    ensure!(
        n == 0 || all <= memory_bytes / 4 * 3,
        "{name} = {} on each of {} servers are {}, more than three quarters of the memory here; lower it (server.settings.{name}), or \
         {}",
        settings[name],
        n + 1,
        bytes(all as f64),
        keys::topology::STANDBYS
    );
    Ok(())
}

/// The primary's settings without those that concern its standbys, and with those of standbys alone.
fn settings_of_standby(case: &Case, of_primary: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut settings = of_primary.clone();
    settings.retain(|name, _| !name.eq_ignore_ascii_case(SYNCHRONOUS_NAMES));
    // Huge pages are reserved for the primary, which has them already.
    settings.entry("huge_pages".to_string()).and_modify(|value| {
        if value == "on" {
            *value = "try".to_string();
        }
    });
    for (name, value) in case.get(keys::topology::STANDBY_SETTINGS) {
        settings.retain(|known, _| !known.eq_ignore_ascii_case(&name));
        settings.insert(name, value);
    }
    settings
}

/// A slot that keeps WAL from now on, before the standby asks for any.
fn make_slot(session: &mut Session, slot: &str, standby: &Cluster) -> Result<()> {
    let reserves = Release::new(standby.binaries.version_num).has(functions::RESERVING_SLOTS);
    let more = if reserves { ", true" } else { "" };
    let sql = format!("select pg_catalog.pg_create_physical_replication_slot({}{more})", quote_literal(slot));
    session.query(&sql).with_context(|| format!("make the replication slot of standby `{slot}`"))?;
    Ok(())
}

/// A session whose commits wait for no standby.
fn session_of(server: &OwnServer, environment: &Environment) -> Result<Session> {
    let mut session = session::open(&server.conninfo(), environment.stop)?;
    session.execute("set synchronous_commit = local")?;
    Ok(session)
}
