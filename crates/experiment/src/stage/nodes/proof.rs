//! Whether a standby is of this run: that it has the bytes of the primary's cluster, follows it, and has replayed all of its WAL.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::experiment::topology::REPLAYED_S_MAX;
use model::release::{Release, functions};
use model::run::server::node::{NodeAfter, NodeRecord};
use server::Cluster;
use wire::{Session, quote_literal};

use super::{Standby, session_of};
use crate::site::Environment;

/// Pause between two looks at what a standby has replayed.
const REPLAY_PAUSE: Duration = Duration::from_millis(10);

/// Waits until a standby, which streams from `upstream`, has replayed what the primary has written, and records it.
///
/// # Errors
/// When it does not catch up in time, is no standby, or is one of another cluster.
pub(super) fn prove(
    node: &Standby,
    primary: &mut AskedPrimary,
    mut upstream: AskedPrimary,
    environment: &Environment,
) -> Result<NodeRecord> {
    let name = &node.name;
    let mut session = session_of(node.running()?, environment)?;
    let in_recovery = session.query("select pg_catalog.pg_is_in_recovery()::text")?;
    ensure!(in_recovery.scalar() == Some("true"), "`{name}` is no standby: it takes writes");
    let identifiers =
        [primary.cluster, &node.cluster].map(|of| of.control_file().map(|file| file.system_identifier));
    let [of_primary, own] = identifiers;
    let (of_primary, own) = (of_primary?, own?);
    ensure!(
        of_primary == own,
        "standby `{name}` has the files of cluster {own}, and its primary is {of_primary}: they do not start from the same bytes"
    );

    let written = primary.written()?;
    let longest = node.patience(Duration::from_secs(REPLAYED_S_MAX));
    let is_there = replayed(&mut session, primary.release(), &written, longest)?.is_some();
    ensure!(
        is_there,
        "standby `{name}` has not replayed its primary's WAL up to {written} within {} s",
        longest.as_secs()
    );
    let sender = upstream.sender(name, &written)?;
    let sync_state =
        sender.sync_state.with_context(|| format!("standby `{name}` is not connected to its upstream"))?;
    Ok(NodeRecord {
        name: name.clone(),
        upstream: node.upstream.clone(),
        pid: node.running()?.pid(),
        system_identifier: own.to_string(),
        sync_state,
        after: None,
    })
}

/// What a standby is like after the load, and how long it takes to catch up, at most `longest`.
///
/// # Errors
/// When it or the primary cannot be asked.
pub(super) fn after(
    node: &Standby,
    upstream: &mut AskedPrimary,
    written: &str,
    longest: Duration,
    environment: &Environment,
) -> Result<NodeAfter> {
    let sender = upstream.sender(&node.name, written)?;
    let mut session = session_of(node.running()?, environment)?;
    let catch_up_s = replayed(&mut session, upstream.release(), written, longest)?;
    let (relayed_bytes, swallowed_bytes) =
        node.relay().map(|relay| (relay.forwarded_bytes(), relay.swallowed_bytes())).unzip();
    Ok(NodeAfter { catch_up_s, relayed_bytes, swallowed_bytes, ..sender })
}

/// A primary, or another upstream, that is asked about its standbys.
pub(super) struct AskedPrimary<'a> {
    pub(super) session: Session,
    pub(super) cluster: &'a Cluster,
}

impl AskedPrimary<'_> {
    fn release(&self) -> Release {
        Release::new(self.cluster.binaries.version_num)
    }

    /// The position up to which it has written WAL.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(super) fn written(&mut self) -> Result<String> {
        let function = self.release().name(functions::WAL_WRITTEN);
        let rows = self.session.query(&format!("select pg_catalog.{function}()::text"))?;
        Ok(rows.scalar().context("the primary does not say how far it has written WAL")?.to_string())
    }

    /// How far the sender for a standby is behind a position; without one, all is unknown.
    fn sender(&mut self, name: &str, written: &str) -> Result<NodeAfter> {
        let difference = self.release().name(functions::WAL_DIFFERENCE);
        let suffix = self.release().name(functions::POSITION_COLUMN);
        let behind = |stage: &str| {
            let position = quote_literal(written);
            format!("greatest(pg_catalog.{difference}({position}, {stage}_{suffix}), 0)::text as {stage}")
        };
        let stages = ["write", "flush", "replay"].map(behind).join(", ");
        let rows = self.session.query(&format!(
            "select sync_state, {stages} from pg_catalog.pg_stat_replication where application_name = {}",
            quote_literal(name)
        ))?;
        let bytes = |stage: &str| rows.get(0, stage).and_then(|text| text.parse().ok());
        Ok(NodeAfter {
            sync_state: rows.get(0, "sync_state").map(str::to_string),
            write_lag_bytes: bytes("write"),
            flush_lag_bytes: bytes("flush"),
            replay_lag_bytes: bytes("replay"),
            ..NodeAfter::default()
        })
    }
}

/// How long the standby of a session takes until it has replayed WAL to a position, seconds; `None` if it does not in time.
///
/// # Errors
/// When it cannot be asked.
pub(super) fn replayed(
    session: &mut Session,
    release: Release,
    position: &str,
    longest: Duration,
) -> Result<Option<f64>> {
    let (difference, replayed) =
        (release.name(functions::WAL_DIFFERENCE), release.name(functions::WAL_REPLAYED));
    let sql = format!(
        "select (pg_catalog.{difference}(pg_catalog.{replayed}(), {}) >= 0)::text",
        quote_literal(position)
    );
    let began = Instant::now();
    loop {
        if session.query(&sql)?.scalar() == Some("true") {
            return Ok(Some(began.elapsed().as_secs_f64()));
        }
        if began.elapsed() >= longest {
            return Ok(None);
        }
        thread::sleep(REPLAY_PAUSE);
    }
}
