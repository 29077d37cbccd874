//! Brakes: less of a resource, where there is no more of it to give.

use crate::summary::limiter::Bottleneck;
use crate::summary::proof::ProofKind;
use crate::what_if::WhatIf;
use crate::what_if::choose::{Change, Circumstances};
use crate::what_if::lowered::{Lowered, NOTHING_LEFT};

/// Busy share of the processors from which on none is left.
const ALL_BUSY: f64 = 0.95;
/// What the delays of a transaction add to its time, as a share: throughput falls to four fifths where that time decides.
const DELAY_SHARE: f64 = 0.25;
/// Shortest and longest delay of a reply, microseconds: wake-ups of the driver are tens of microseconds late.
const DELAY_US: std::ops::RangeInclusive<f64> = 200.0..=100_000.0;

impl Circumstances<'_> {
    /// A fifth less time of processors for the server, by the quota of a control group; the driver is not in it.
    pub(super) fn quota(&self) -> Change {
        let (n_cpus, used) = self.processors()?;
        if let Some(reason) = &self.groups.no_quota {
            return Err(reason.clone());
        }
        let limits = ["numa", "processors", "cpu_quota"];
        if let Some(key) = limits.into_iter().find(|key| self.case.os.contains_key(*key)) {
            return Err(format!("os.{key} says how much of the processors the server has"));
        }
        let busy = self.busy().ok_or("how busy the processors were is not known")?;
        let resources = &self.run.resources;
        if let (Some(room), Some(_)) = (resources.server_room, resources.driver_room) {
            return Err(format!(
                "server and driver may both use no more than {room:.2} processors, and what the driver leaves of them is not known"
            ));
        }
        // Processors that the server must not use are no room for it.
        let (idle, busy) = match resources.server_room {
            Some(room) => ((room - used).max(0.0), used / room.max(used)),
            None => ((1.0 - busy).max(0.0) * f64::from(n_cpus), busy),
        };
        let lowered = Lowered::new(used, if busy >= NOTHING_LEFT { 1.0 } else { used / (used + idle) });
        let mut case = self.case.clone();
        let quota = format!("{:.3}", lowered.limit);
        case.os.insert("cpu_quota".to_string(), quota.clone());
        let what_if = self.changed(
            ProofKind::Brake,
            format!("cpu_quota={quota} ({})", lowered.words("the server")),
            if self.record.is_driven_from_elsewhere() {
                "it stands still for a part of each 100 ms"
            } else {
                "it stands still for a part of each 100 ms, and the driver has more of the processors"
            },
            case,
        );
        Ok(WhatIf { predicted: Some(lowered.predicted), ..what_if })
    }

    /// The processors of the server's machine, and how many the server used.
    fn processors(&self) -> Result<(u32, f64), String> {
        if !self.is_own() {
            return Err("the processors of a server that pgdyno does not run are not its to take".to_string());
        }
        let known = self.run.resources.n_cpus.zip(self.run.resources.server_cpu.filter(|used| *used > 0.0));
        Ok(known.ok_or("the processor time of the server is not known")?)
    }

    pub(super) fn fewer_processors(&self) -> Change {
        let (n_cpus, used) = self.processors()?;
        let n = n_cpus / 2;
        if let Some(room) = self.run.resources.server_room {
            return Err(format!("the server may use {room:.2} of {n_cpus} processors already"));
        }
        let is_bound = self.case.os.contains_key("numa") || self.case.os.contains_key("processors");
        if is_bound {
            return Err("os says which processors the server has".to_string());
        }
        if n == 0 {
            return Err("one processor cannot become fewer".to_string());
        }
        // Those that the server leaves to others are not missed.
        if used <= 1.05 * f64::from(n) {
            return Err(format!(
                "the server used {used:.1} of {n_cpus} processors, and half of them would do"
            ));
        }
        // Fewer processors than it used cost throughput of any load: they say something only where none is left.
        if self.busy().is_none_or(|busy| busy < ALL_BUSY) {
            return Err("the processors had room".to_string());
        }
        let mut case = self.case.clone();
        case.os.insert("processors".to_string(), n.to_string());
        let is_apart = self.record.is_driven_from_elsewhere();
        let side_effect = if is_apart { "" } else { "the driver has more of the others" };
        let what_if = self.changed(ProofKind::Brake, format!("processors={n}"), side_effect, case);
        Ok(WhatIf { predicted: Some(f64::from(n) / used), ..what_if })
    }

    /// A longer way: the driver takes in each reply later. It costs its part of a transaction's time where nothing is queued for.
    pub(super) fn delayed(&self, name: Bottleneck) -> Change {
        self.expect_own_holder(name)?;
        if self.case.workload.pace.is_open() || self.has_think_times() {
            return Err(
                "clients that wait for a time of their own do not miss what a reply takes longer".to_string()
            );
        }
        let tps = self.run.tps.filter(|tps| *tps > 0.0).ok_or("the throughput is not known")?;
        let n_replies = self.replies().ok_or("how many replies a transaction waits for is not known")?;
        // The holders of a lock follow each other: their time is that between two commits.
        let n_at_once = if name == Bottleneck::Network { f64::from(self.n_clients()) } else { 1.0 };
        let time_us = 1e6 * n_at_once / tps;
        let delay_us =
            (DELAY_SHARE * time_us / n_replies).min(*DELAY_US.end()).max(*DELAY_US.start()).round();
        let mut case = self.case.clone();
        case.workload.reply_delay_us = delay_us as u32;
        let what_if = self.changed(
            ProofKind::Brake,
            format!("each reply {} ms later", delay_us / 1000.0),
            "transactions hold their locks longer",
            case,
        );
        let predicted = (name == Bottleneck::Network).then(|| time_us / (time_us + n_replies * delay_us));
        Ok(WhatIf { predicted, ..what_if })
    }

    /// Replies for which a transaction waits, on average. Those of a pipeline come together.
    fn replies(&self) -> Option<f64> {
        let is_pipelined = |source: &str| source.contains("\\startpipeline");
        if self.case.workload.scripts.iter().any(|script| is_pipelined(&script.source)) {
            return None;
        }
        let n: u64 = self.run.statements.iter().map(|statement| statement.service.n).sum();
        let committed = self.run.counts.committed;
        (n > 0 && committed > 0).then(|| (n as f64 / committed as f64).max(1.0))
    }
}
