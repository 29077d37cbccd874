//! Lifts by the load alone: its clients, threads, rate, calls and data.

use model::experiment::case::{Calls, Think, WorkloadKind};
use model::load::Pace;

use crate::summary::proof::Kind;
use crate::what_if::WhatIf;
use crate::what_if::choose::{Change, Circumstances};
use crate::what_if::settings::LARGER;

impl Circumstances<'_> {
    pub(super) fn more_rows(&self) -> Change {
        let workload = &self.case.workload;
        if workload.kind == WorkloadKind::Scripts || !self.is_own() {
            return self.clients_of(self.n_clients() / 2, Kind::FewerClients);
        }
        let mut case = self.case.clone();
        case.workload.scale =
            (workload.scale * LARGER as u32 / 2).max(2 * self.n_clients()).min(20 * workload.scale);
        let change = format!("scale={}", case.workload.scale);
        Ok(self.changed(Kind::Lift, change, "more data to cache", case))
    }

    pub(super) fn clients_of(&self, n: u32, kind: Kind) -> Change {
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
            Kind::FewerClients => Some(1.0),
            Kind::Lift if n > self.n_clients() => {
                let of_processors = self.busy().map_or(2.0, |busy| 1.0 / busy);
                Some(of_processors.clamp(1.0, f64::from(n) / f64::from(self.n_clients())))
            }
            Kind::Lift | Kind::Brake => None,
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
            _ => return Err("no transaction of this workload can be called as one function".to_string()),
        }
        Ok(self.changed(Kind::Lift, "calls=functions".to_string(), "the server executes PL/pgSQL", case))
    }

    pub(super) fn without_rate(&self) -> Change {
        let mut case = self.case.clone();
        case.workload.pace = Pace::Closed;
        Ok(self.changed(
            Kind::Lift,
            "pace=closed".to_string(),
            "latency excludes the wait for a due time",
            case,
        ))
    }

    pub(super) fn more_threads(&self) -> Change {
        let workload = &self.case.workload;
        let n_cpus =
            self.record.driver_host.as_ref().or(self.record.host.as_ref()).map_or(1, |host| host.n_cpus);
        let n = (2 * workload.n_threads).min(n_cpus).min(workload.n_clients);
        if n <= workload.n_threads || !workload.drivers.is_empty() {
            return Err(
                "the driver has a thread for each processor or client; add a driver on another machine"
                    .to_string(),
            );
        }
        let mut case = self.case.clone();
        case.workload.n_threads = n;
        Ok(self.changed(
            Kind::Lift,
            format!("threads={n}"),
            "the server has fewer processors to itself",
            case,
        ))
    }
}
