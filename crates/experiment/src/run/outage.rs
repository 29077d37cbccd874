//! The outage of a run: injected while the load runs, proved, followed by what a manager would do, and undone.

pub(crate) mod commits;
mod harm;
mod moment;
mod script;
pub mod thaw;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use model::experiment::topology::outage::{Fault, OutageSpec, PAUSING_S_MAX, PRIMARY, Then};
use model::release::functions;
use model::run::server::outage::{OutageRecord, OutageStep, PAUSE, UNDO};
use server::OwnPooler;
use wire::conninfo::TargetSessionAttrs;
use wire::{Conninfo, Session};

use self::harm::{Harm, Seen};
use crate::run::hooks::Occasion;
use crate::site::clock::unix_now;
use crate::stage::Stage;
use crate::stage::adopted::hit_by_outage;

/// How often the moment of the outage, and the end of the load, are looked for.
const LOOK: Duration = Duration::from_millis(5);
/// How long a promoted or restarted server may take until it takes writes.
const READY_MAX: Duration = Duration::from_secs(120);
/// How long a pooler may wait for the transactions that run until it is paused.
const PAUSED_MAX: Duration = Duration::from_secs(PAUSING_S_MAX as u64);
/// One second, nanoseconds.
const SECOND_NS: f64 = 1e9;

/// An outage of a run, with all that it needs.
pub(crate) struct Injection<'a> {
    pub(crate) stage: &'a mut Stage,
    pub(crate) outage: &'a OutageSpec,
    /// The circumstances of the user's commands.
    pub(crate) occasion: Occasion<'a>,
    /// Process ids of the backends of the load's clients, as far as they are known.
    pub(crate) backend_pids: Vec<i32>,
    /// The block of the run, from 1.
    pub(crate) block: u32,
    /// When the load began, nanoseconds since the Unix epoch.
    pub(crate) go: u64,
    /// Raised when the load has ended.
    pub(crate) is_over: &'a AtomicBool,
    /// The program whose `thaw` command lets stopped processes go on if this one is killed.
    pub(crate) program: &'a Path,
}

/// Conducts a load, with an outage if there is one. Returns what conducting returns, and the record of the outage.
///
/// # Errors
/// When the outage was cut off.
pub(crate) fn during<T>(
    injection: Option<Injection<'_>>,
    is_over: &AtomicBool,
    conduct: impl FnOnce() -> T,
) -> Result<(T, Option<Box<OutageRecord>>)> {
    let (conducted, injected) = thread::scope(|scope| {
        let injector = injection.map(|injection| scope.spawn(|| injection.inject()));
        let conducted = conduct();
        is_over.store(true, Ordering::Relaxed);
        (conducted, injector.map(|injector| injector.join()))
    });
    let injected = injected.transpose().map_err(|_| anyhow!("the outage was cut off"))?;
    Ok((conducted, injected.map(Box::new)))
}

impl Injection<'_> {
    /// Waits for the moment of the outage, and takes it through all of its steps. Whatever was done is in the record, and undone.
    pub(crate) fn inject(mut self) -> OutageRecord {
        let planned_s = moment::begin_s(self.outage, self.block);
        let mut record =
            OutageRecord { fault: self.outage.fault.to_string(), planned_s, ..OutageRecord::default() };
        if !self.wait_until(self.go + (planned_s * SECOND_NS) as u64) {
            record.problem = Some("the load ended before it".to_string());
            return record;
        }

        record.wal_since_checkpoint_bytes = self.wal_since_checkpoint().ok().flatten();
        match self.take(&mut record) {
            Ok(()) => {}
            Err(error) => record.problem = Some(format!("{error:#}")),
        }
        record
    }

    /// All of an outage. Clients of a pooler wait for a switchover, and for nothing else.
    fn take(&mut self, record: &mut OutageRecord) -> Result<()> {
        self.expect_nobody_else()?;
        let began = unix_now();
        record.began_unix_ns = Some(began);
        if self.outage.fault != Fault::Switchover || self.stage.pooler().is_none() {
            return self.harm(began, record);
        }
        step(record, PAUSE.to_string(), || self.pooler()?.pause(PAUSED_MAX))?;
        let taken = self.harm(began, record);
        if let (Ok(()), Some(lasts_s)) = (&taken, self.outage.lasts_s) {
            self.wait_until(began + (lasts_s * SECOND_NS) as u64);
        }
        // Also where a step has failed: nobody waits at the pooler for good.
        let resumed = step(record, "resume the pooler".to_string(), || self.pooler()?.resume());
        taken.and(resumed)
    }

    /// The fault, what follows, and the end of the fault.
    fn harm(&mut self, began: u64, record: &mut OutageRecord) -> Result<()> {
        let harm = Harm::inflict(self.outage, self.stage, &self.occasion, self.program)?;
        record.complete_unix_ns = Some(unix_now());
        record.proof = Some(harm.proof.clone());

        let followed = self.follow(began, record);
        // Also where what follows has failed: nothing stays stopped, cut or otherwise harmed.
        let undone = self.undo(began, harm, record);
        followed.and(undone)
    }

    /// Refuses the fault of a server by URL that others use by now, or that cannot be asked whether they do.
    fn expect_nobody_else(&self) -> Result<()> {
        let Stage::Adopted(_) = self.stage else { return Ok(()) };
        let conninfo = self.stage.conninfo()?;
        let session = Session::connect(&conninfo).context("ask for the sessions of others");
        match hit_by_outage(&mut session?, &conninfo, &self.backend_pids)? {
            None => Ok(()),
            Some(why) => bail!(why),
        }
    }

    /// Steps of a manager that follow the fault.
    fn follow(&mut self, began: u64, record: &mut OutageRecord) -> Result<()> {
        if self.outage.fault == Fault::Switchover {
            return self.switch_over(record);
        }
        match self.outage.then.clone() {
            Then::Nothing => {}
            Then::Promote { node, after_s } => {
                pause_until(began + (after_s * SECOND_NS) as u64);
                self.promote(&node, record)?;
            }
            Then::Restart { after_s } => {
                pause_until(began + (after_s * SECOND_NS) as u64);
                let fault = &self.outage.fault;
                let node = if fault.ends_primary() { PRIMARY } else { fault.node().unwrap_or(PRIMARY) };
                let node = node.to_string();
                step(record, format!("restart {node}"), || self.stage.node(&node)?.start_again())?;
                if node == PRIMARY {
                    self.expect_writes(PRIMARY, record)?;
                }
            }
        }
        Ok(())
    }

    fn switch_over(&mut self, record: &mut OutageRecord) -> Result<()> {
        let stage = &mut *self.stage;
        step(record, "s1 replays all".to_string(), || stage.node("s1")?.expect_all_replayed(READY_MAX))?;
        self.promote("s1", record)
    }

    fn promote(&mut self, node: &str, record: &mut OutageRecord) -> Result<()> {
        step(record, format!("promote {node}"), || self.stage.node(node)?.promote())?;
        self.expect_writes(node, record)?;
        if self.stage.pooler().is_none() {
            return Ok(());
        }
        step(record, format!("lead the pooler to {node}"), || {
            let place = self.stage.node(node)?.conninfo();
            let host = place.hosts.first().context("the node listens nowhere")?;
            self.pooler()?.lead_to(host)
        })
    }

    fn pooler(&self) -> Result<&OwnPooler> {
        self.stage.pooler().context("there is no pooler")
    }

    /// Waits until a node takes writes: it is the primary from then on.
    fn expect_writes(&mut self, node: &str, record: &mut OutageRecord) -> Result<()> {
        let conninfo = self.stage.node(node)?.conninfo();
        let end = unix_now() + READY_MAX.as_nanos() as u64;
        while !takes_writes(&conninfo) {
            if unix_now() > end {
                bail!("`{node}` takes no writes within {} s", READY_MAX.as_secs());
            }
            thread::sleep(LOOK);
        }
        record.ready_unix_ns = Some(unix_now());
        record.survivor = Some(node.to_string());
        self.stage.survived_by(node);
        Ok(())
    }

    /// Undoes the fault at its time, or when the load has ended.
    fn undo(&mut self, began: u64, harm: Harm, record: &mut OutageRecord) -> Result<()> {
        if !harm.is_undone_later() {
            return Ok(());
        }
        match self.outage.lasts_s {
            Some(lasts_s) => drop(self.wait_until(began + (lasts_s * SECOND_NS) as u64)),
            None => drop(self.wait_until(u64::MAX)),
        }
        let mut seen = Seen::Nothing;
        let undone = step(record, UNDO.to_string(), || {
            seen = harm.undo(&self.outage.undo, self.stage, &self.occasion)?;
            Ok(())
        });
        match seen {
            Seen::Nothing => {}
            Seen::More(seen) => record.proof = record.proof.take().map(|proof| format!("{proof}; {seen}")),
            Seen::NoEffect(why) => {
                record.proof = None;
                bail!(why);
            }
        }
        undone
    }

    /// WAL since the last checkpoint, bytes; `None` where the release does not say.
    fn wal_since_checkpoint(&mut self) -> Result<Option<u64>> {
        let Some(cluster) = self.stage.cluster() else { return Ok(None) };
        let release = model::release::Release::new(cluster.binaries.version_num);
        if !release.has(functions::CONTROL_SYSTEM) {
            return Ok(None);
        }
        let (difference, written) =
            (release.name(functions::WAL_DIFFERENCE), release.name(functions::WAL_WRITTEN));
        let redo = release.name(functions::REDO_COLUMN);
        let mut session = Session::connect(&self.stage.conninfo()?)?;
        let rows = session.query(&format!(
            "select pg_catalog.{difference}(pg_catalog.{written}(), {redo})::text from pg_catalog.pg_control_checkpoint()"
        ))?;
        Ok(rows.scalar().and_then(|text| text.parse().ok()))
    }

    /// Waits until a moment, nanoseconds since the Unix epoch; false if the load has ended before.
    fn wait_until(&self, moment: u64) -> bool {
        while unix_now() < moment {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            let left = Duration::from_nanos(moment.saturating_sub(unix_now()));
            thread::sleep(left.min(LOOK));
        }
        true
    }
}

/// Waits until a moment, nanoseconds since the Unix epoch, whatever the load does.
fn pause_until(moment: u64) {
    thread::sleep(Duration::from_nanos(moment.saturating_sub(unix_now())));
}

/// Takes a step, and records when and how.
fn step(record: &mut OutageRecord, what: String, take: impl FnOnce() -> Result<()>) -> Result<()> {
    let began_unix_ns = unix_now();
    let taken = take().with_context(|| what.clone());
    record.steps.push(OutageStep {
        what,
        began_unix_ns,
        ended_unix_ns: unix_now(),
        error: taken.as_ref().err().map(|error| format!("{error:#}")),
    });
    taken
}

/// Whether a server takes connections, and is no standby.
fn takes_writes(conninfo: &Conninfo) -> bool {
    let primary = Conninfo { target_session_attrs: TargetSessionAttrs::Primary, ..conninfo.clone() };
    Session::connect(&primary).is_ok()
}
