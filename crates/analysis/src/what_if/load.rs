//! Lifts by the load alone: its clients, threads, rate, calls and data.

use model::experiment::case::{Calls, Think};
use model::load::Pace;

use crate::summary::limiter::{Bottleneck, LockOwner};
use crate::summary::proof::ProofKind;
use crate::what_if::WhatIf;
use crate::what_if::choose::{Change, Circumstances};
use crate::what_if::settings::LARGER;

/// How much more than it used a party may need of processors of its own.
const ROOM: f64 = 1.1;
/// Part of the processors that a party may use from which on nothing of them is left.
const USED_UP: f64 = 0.85;

impl Circumstances<'_> {
    /// Whether the locks are held by what a change of the load changes. A session that is not the load's holds its lock as long as before.
    pub(super) fn expect_own_holder(&self, name: Bottleneck) -> Result<(), String> {
        if !matches!(name, Bottleneck::RowLock | Bottleneck::ClientHeldLock) {
            return Ok(());
        }
        let who = match self.limiter.holder {
            Some(LockOwner::Other) => "a session that is not the load's holds the lock",
            Some(LockOwner::Autovacuum) => "an automatic vacuum holds the lock",
            Some(LockOwner::Prepared) => "a prepared transaction holds the lock",
            Some(LockOwner::Load) | None => return Ok(()),
        };
        Err(format!("{who}, and no change of the load changes that"))
    }

    /// More of the rows that clients must share, in data of their own.
    pub(super) fn more_shared_rows(&self) -> Change {
        if self.case.workload.kind.is_own() || !self.is_own() {
            return Err(
                "a larger scale, which tests it, replaces the data: those of a server by URL are left alone"
                    .to_string(),
            );
        }
        self.more_rows()
    }

    pub(super) fn more_rows(&self) -> Change {
        self.expect_own_holder(Bottleneck::RowLock)?;
        let workload = &self.case.workload;
        if workload.kind.is_own() || !self.is_own() {
            return self.clients_of(self.n_clients() / 2, ProofKind::FewerClients);
        }
        let mut case = self.case.clone();
        case.workload.scale =
            (workload.scale * LARGER as u32 / 2).max(2 * self.n_clients()).min(20 * workload.scale);
        let change = format!("scale={}", case.workload.scale);
        Ok(self.changed(ProofKind::Lift, change, "more data to cache", case))
    }

    pub(super) fn clients_of(&self, n: u32, kind: ProofKind) -> Change {
        if self.has_think_times() {
            return Err("the specification says how many terminals a warehouse has".to_string());
        }
        if n == 0 {
            return Err("one client cannot become fewer".to_string());
        }
        let mut case = self.case.clone();
        case.workload.n_clients = n;
        case.workload.n_threads = case.workload.n_threads.min(n);
        let what_if = self.changed(kind, format!("clients={n}"), "", case);
        let predicted = match kind {
            ProofKind::FewerClients => Some(1.0),
            ProofKind::Lift if n > self.n_clients() => {
                let of_processors = self.busy().map_or(2.0, |busy| 1.0 / busy);
                Some(of_processors.min(f64::from(n) / f64::from(self.n_clients())).max(1.0))
            }
            ProofKind::Lift | ProofKind::Brake => None,
        };
        Ok(WhatIf { predicted, ..what_if })
    }

    pub(super) fn has_think_times(&self) -> bool {
        self.case.workload.tpcc.is_some_and(|tpcc| tpcc.think == Think::Spec)
    }

    /// One round trip for a transaction instead of one for each statement.
    pub(super) fn functions(&self) -> Change {
        let mut case = self.case.clone();
        match &mut case.workload.tpcc {
            Some(tpcc) if tpcc.calls == Calls::Statements => tpcc.calls = Calls::Functions,
            Some(_) => return Err("each transaction is one call already".to_string()),
            None => return Err("no transaction of this workload can be called as one function".to_string()),
        }
        Ok(self.changed(ProofKind::Lift, "calls=functions".to_string(), "the server executes PL/pgSQL", case))
    }

    pub(super) fn without_rate(&self) -> Change {
        let mut case = self.case.clone();
        case.workload.pace = Pace::Closed;
        Ok(self.changed(
            ProofKind::Lift,
            "pace=closed".to_string(),
            "latency excludes the wait for a due time",
            case,
        ))
    }

    /// The server is bound to some processors, no fewer than it used, so that the others are left to the driver.
    pub(super) fn driver_apart(&self) -> Change {
        if !self.is_own() || self.record.is_driven_from_elsewhere() {
            return Err("driver and server are on machines of their own, or pgdyno does not run the server"
                .to_string());
        }
        if self.case.os.contains_key("numa") || self.case.os.contains_key("processors") {
            return Err("os says which processors the server has".to_string());
        }
        if let Some(room) = self.run.resources.server_room.or(self.run.resources.driver_room) {
            return Err(format!("something leaves server or driver {room:.2} processors already"));
        }
        let resources = &self.run.resources;
        let known = resources.n_cpus.zip(resources.server_cpu).zip(resources.driver_cpu);
        let ((n_cpus, of_server), of_driver) =
            known.ok_or("the processors of server and driver are not known")?;
        // Neither may have fewer than it used: that would be a brake.
        let whole = |used: f64| (ROOM * used).ceil().max(1.0) as u32;
        if whole(of_server) + whole(of_driver) > n_cpus {
            return Err(format!(
                "the server used {of_server:.1} and the driver {of_driver:.1} of {n_cpus} processors: with some of its own, one of \
                 them would have fewer"
            ));
        }
        let n = n_cpus - whole(of_driver);
        let mut case = self.case.clone();
        case.os.insert("processors".to_string(), n.to_string());
        let change = format!("processors={n} (the others are left to the driver)");
        Ok(self.changed(ProofKind::Lift, change, "the server has fewer processors to choose from", case))
    }

    pub(super) fn more_threads(&self) -> Change {
        let workload = &self.case.workload;
        if !workload.drivers.is_empty() {
            return Err("each driver has the threads that the experiment gives it: add a driver, or raise workload.threads"
                .to_string());
        }
        // Threads share what there is for all of them.
        let resources = &self.run.resources;
        if let Some((room, used)) = resources.driver_room.zip(resources.driver_cpu)
            && used >= USED_UP * room
        {
            return Err(format!(
                "the driver used {used:.2} of {room:.2} processors that it may use: more threads share the same"
            ));
        }
        let n_cpus =
            self.record.driver_host.as_ref().or(self.record.host.as_ref()).map_or(1, |host| host.n_cpus);
        let n = (2 * workload.n_threads).min(n_cpus).min(workload.n_clients);
        if n <= workload.n_threads {
            return Err(
                "the driver has a thread for each processor or client; add a driver on another machine"
                    .to_string(),
            );
        }
        let mut case = self.case.clone();
        case.workload.n_threads = n;
        let is_apart = self.record.driver_host.is_some();
        let side_effect = if is_apart { "" } else { "the server has fewer processors to itself" };
        Ok(self.changed(ProofKind::Lift, format!("threads={n}"), side_effect, case))
    }
}
