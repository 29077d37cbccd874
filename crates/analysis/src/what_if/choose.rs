//! Which change tests which limiter.

use std::collections::BTreeSet;

use model::experiment::case::Case;
use model::run::RunRecord;
use model::text::units::size_bytes;

use crate::summary::limiter::{Bottleneck, Limiter};
use crate::summary::proof::{PROCESSORS, Proof, ProofKind, ProofOutcome};
use crate::summary::{RunSummary, Study};
use crate::what_if::WhatIf;

/// A load whose limiter is to be tested.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The case as it was measured.
    pub case: &'a Case,
    /// What is said to have limited it.
    pub limiter: &'a Limiter,
    /// A run of it that counts.
    pub record: &'a RunRecord,
    /// The same run, explained.
    pub run: &'a RunSummary,
    /// Whether settings of a server by URL may be changed.
    pub allow_changes: bool,
    /// Those of [`crate::what_if::OF_SESSIONS`] that the role may set in a session of its own on a server by URL.
    pub settable: &'a BTreeSet<String>,
    /// What control groups can do on this machine.
    pub groups: &'a GroupAbilities,
}

/// What control groups can do on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupAbilities {
    /// Why none can limit processors.
    pub no_quota: Option<String>,
    /// Why none can limit reads and writes of devices.
    pub no_throttle: Option<String>,
    /// Whether writes that the kernel does later are outside of all groups.
    pub is_writeback_free: bool,
}

/// A change, or why it cannot be made.
pub(super) type Change = Result<WhatIf, String>;

/// The run of a case whose resources say most about its limiter: of those that count and have one, the first of the best grade.
pub fn telling_run(study: &Study, case: u32) -> Option<&RunSummary> {
    let tells = |run: &&RunSummary| run.case == case && run.counts() && run.limiter.is_some();
    study.runs.iter().filter(tells).min_by_key(|run| run.grade)
}

/// The changes that test what limited a load and what was second, most telling first, and for each of these two that nothing can
/// test here the reason.
pub fn what_ifs(of: Circumstances) -> (Vec<WhatIf>, Vec<(Bottleneck, String)>) {
    let names = std::iter::once(of.limiter.name).chain(of.limiter.runner_up.iter().map(|(name, _)| *name));
    let (mut all, mut untested): (Vec<WhatIf>, Vec<(Bottleneck, String)>) = (Vec::new(), Vec::new());
    // What is named first is tested first.
    let is_first = of.limiter.shared.is_some() && of.limiter.name != Bottleneck::RowLock;
    if is_first {
        match of.more_shared_rows() {
            Ok(what_if) => all.push(WhatIf { limiter: Bottleneck::RowLock, ..what_if }),
            Err(reason) => untested.push((Bottleneck::RowLock, reason)),
        }
    }
    let names = names.filter(|name| !(is_first && *name == Bottleneck::RowLock));
    for name in names {
        match of.what_if(name) {
            // One change may test both: then the first says it.
            Ok(what_if) if all.iter().any(|known| known.change == what_if.change) => {
                untested
                    .push((name, format!("{} tests {} already", what_if.change, of.limiter.name.as_str())));
            }
            Ok(what_if) => all.push(what_if),
            Err(reason) => untested.push((name, reason)),
        }
    }
    (all, untested)
}

impl Circumstances<'_> {
    fn what_if(&self, name: Bottleneck) -> Change {
        let is_refuted = |what_if: &WhatIf| {
            let of = |proof: &&Proof| (proof.limiter, &proof.change) == (name, &what_if.change);
            self.limiter.proofs.iter().find(of).is_some_and(|proof| proof.outcome == ProofOutcome::Refuted)
        };
        let what_if = first(self.changes(name), is_refuted)?;
        let what_if = WhatIf { limiter: name, ..what_if };
        Ok(match self.gain(name, what_if.kind).filter(|_| what_if.predicted.is_none()) {
            Some((most, bound)) => WhatIf { predicted: Some(most), bound, ..what_if },
            None => what_if,
        })
    }

    /// The changes that test a limiter, the most telling one first.
    fn changes(&self, name: Bottleneck) -> Vec<Change> {
        let cannot = |reason: &str| vec![Err(reason.to_string())];
        match name {
            Bottleneck::WalSync => {
                vec![self.without_waiting_for_wal(), self.without_fsync(), self.throttled(name)]
            }
            Bottleneck::Standby => vec![self.without_waiting_for_standbys()],
            Bottleneck::WalVolume => {
                vec![self.without_full_pages(), self.compressed_wal(), self.throttled(name)]
            }
            Bottleneck::Checkpoint => vec![self.fewer_checkpoints()],
            Bottleneck::DataRead | Bottleneck::DataWrite => vec![self.more_buffers(), self.throttled(name)],
            Bottleneck::Memory => vec![self.more_work_mem()],
            Bottleneck::Autovacuum => vec![self.without_autovacuum()],
            Bottleneck::RowLock => vec![self.more_rows()],
            Bottleneck::ServerCpu => vec![self.quota(), self.fewer_processors(), self.huge_pages()],
            Bottleneck::Scheduling => {
                vec![
                    self.clients_of(self.n_clients() / 4, ProofKind::Lift),
                    self.driver_apart(),
                    self.quota(),
                ]
            }
            Bottleneck::ClientHeldLock => {
                if let Err(reason) = self.expect_own_holder(name) {
                    return vec![Err(reason)];
                }
                vec![
                    self.functions(),
                    self.delayed(name),
                    self.clients_of(self.n_clients() / 2, ProofKind::FewerClients),
                ]
            }
            Bottleneck::Lwlock => vec![self.clients_of(self.n_clients() / 2, ProofKind::FewerClients)],
            Bottleneck::OfferedLoad if self.case.workload.pace.is_open() => vec![self.without_rate()],
            Bottleneck::OfferedLoad => vec![self.clients_of(2 * self.n_clients(), ProofKind::Lift)],
            Bottleneck::Network => {
                vec![
                    self.functions(),
                    self.delayed(name),
                    self.clients_of(2 * self.n_clients(), ProofKind::Lift),
                ]
            }
            Bottleneck::Driver => vec![self.more_threads(), self.driver_apart()],
            Bottleneck::Quota => cannot("raise the quota, and measure again"),
            Bottleneck::PoolerCpu => cannot("raise pooler.processes, and measure again"),
            Bottleneck::PoolerSize => cannot("raise pooler.size, and measure again"),
            Bottleneck::Steal => cannot("nothing here can give back what the hypervisor took"),
            Bottleneck::ForeignCpu => cannot("stop what else runs there, and measure again"),
            Bottleneck::Mixed => cannot("its parts have limits of their own"),
            Bottleneck::Unknown => cannot("nothing is near a limit"),
        }
    }

    /// What lifting a limit gives if the rest of the clients' time remains, and no other resource, which each transaction
    /// needs as much of as before, is used beyond all of it. If one of these comes first, with its name.
    fn gain(&self, name: Bottleneck, kind: ProofKind) -> Option<(f64, Option<String>)> {
        if kind != ProofKind::Lift || name != self.limiter.name {
            return None;
        }
        let charged = self.limiter.charged?;
        let of_time = 1.0 / (1.0 - charged.min(0.99));
        let processors = self.busy().map(|busy| (busy, PROCESSORS.to_string()));
        let others = self.limiter.figures.iter().filter(|figure| figure.speaks_for != Some(name));
        let others = others.filter_map(|figure| match figure.of {
            "the ceiling" => Some((figure.share, figure.label.clone())),
            "time" => Some((figure.share, "the driver's busiest thread".to_string())),
            _ => None,
        });
        let next = processors.into_iter().chain(others).max_by(|a, b| a.0.total_cmp(&b.0));
        let (most, bound) = match next.filter(|(used, _)| 1.0 / used < of_time) {
            Some((used, what)) => (1.0 / used, Some(what)),
            None => (of_time, None),
        };
        (most > 1.0).then_some((most, bound))
    }

    pub(super) fn is_own(&self) -> bool {
        self.case.server.source.is_embedded()
    }

    pub(super) fn n_clients(&self) -> u32 {
        self.case.workload.n_clients
    }

    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.record.server_host().map(|host| host.memory_bytes)
    }

    /// Busy share of the server's machine, if it was observed.
    pub(super) fn busy(&self) -> Option<f64> {
        self.record.server_host()?;
        self.run.resources.host_busy.filter(|busy| *busy > 0.0)
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        Some(self.record.server.as_ref()?.settings.get(name)?.value.as_str())
    }

    /// Bytes of a setting, whose number alone would be pages.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        size_bytes(self.setting(name)?, 8 << 10)
    }

    pub(super) fn changed(
        &self,
        kind: ProofKind,
        change: String,
        side_effect: &'static str,
        case: Case,
    ) -> WhatIf {
        // `what_if` sets the limiter that it tests.
        WhatIf {
            limiter: self.limiter.name,
            kind,
            change,
            predicted: None,
            bound: None,
            is_partial: false,
            is_forced: false,
            side_effect,
            case,
        }
    }
}

/// The first change that can be made and that no earlier what-if has refuted; if there is none, one that was; if none can
/// be made, all reasons.
fn first(changes: Vec<Change>, is_refuted: impl Fn(&WhatIf) -> bool) -> Change {
    let (mut reasons, mut refuted): (Vec<String>, Option<WhatIf>) = (Vec::new(), None);
    for change in changes {
        match change {
            Ok(what_if) if is_refuted(&what_if) => refuted = refuted.or(Some(what_if)),
            Ok(what_if) => return Ok(what_if),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    refuted.ok_or_else(|| reasons.join("; "))
}
