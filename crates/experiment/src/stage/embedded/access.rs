//! How clients and pgdyno itself connect to a server that pgdyno runs, and to its standbys.

use anyhow::Result;
use model::experiment::case::{Case, OnLostConnection};
use model::experiment::keys;
use model::experiment::topology::Reads;
use wire::conninfo::{LoadBalanceHosts, TargetSessionAttrs};
use wire::{Conninfo, Host};

use crate::plan::scripts::reads;
use crate::stage::embedded::Embedded;
use crate::stage::nodes::Standby;

impl Embedded {
    pub(in crate::stage) fn conninfo(&self) -> Result<Conninfo> {
        let standby = self.survivor.as_ref().and_then(|name| self.standbys.find(name)?.server());
        Ok(named(standby.map_or_else(|| self.running(), Ok)?.conninfo()))
    }

    /// Where the clients of a case connect over sockets: to the primary; to whichever node takes writes, if they go on when the
    /// primary is lost; or to those that the case reads from, if it writes nothing.
    pub(in crate::stage) fn conninfo_of_clients(&self, case: &Case) -> Result<Conninfo> {
        let reads = case.get(keys::workload::READS);
        match reads::over_second_connection(case) {
            Some(_) => self.conninfo_of(Reads::Primary, case),
            None => self.conninfo_of(reads, case),
        }
    }

    /// Where each client of a case has a second connection, to read from.
    pub(in crate::stage) fn conninfo_of_reads(&self, case: &Case) -> Result<Conninfo> {
        self.conninfo_of(case.get(keys::workload::READS), case)
    }

    fn conninfo_of(&self, reads: Reads, case: &Case) -> Result<Conninfo> {
        let primary = self.conninfo()?;
        let standbys = self.standbys.all().iter().filter_map(Standby::server);
        let standbys: Vec<Host> = standbys.flat_map(|server| server.conninfo().hosts).collect();
        let goes_on = case.workload.on_disconnect == OnLostConnection::Reconnect;
        let of_all = || [&primary.hosts[..], &standbys].concat();
        let by_chance = |hosts: Vec<Host>| Conninfo {
            hosts,
            load_balance_hosts: LoadBalanceHosts::Random,
            ..primary.clone()
        };
        Ok(match reads {
            _ if standbys.is_empty() => primary,
            Reads::Primary if goes_on => {
                Conninfo { hosts: of_all(), target_session_attrs: TargetSessionAttrs::ReadWrite, ..primary }
            }
            Reads::Primary => primary,
            Reads::Standbys => by_chance(standbys),
            Reads::All => by_chance(of_all()),
        })
    }

    /// How the load connects, if not as pgdyno itself does.
    pub(in crate::stage) fn load_conninfo(&self) -> Result<Option<Conninfo>> {
        let through = self.pooler.as_ref().map(|pooler| pooler.conninfo().clone());
        Ok(through.or(self.running()?.load_conninfo()).map(named))
    }
}

/// pgdyno's own sessions say so.
pub(in crate::stage) fn named(conninfo: Conninfo) -> Conninfo {
    Conninfo { application_name: Some("pgdyno".to_string()), ..conninfo }
}
