//! What a whole plan takes: runs, time, disk space and memory, as text and as JSON.

use anyhow::{Context, Result};
use experiment::forecast::outlook::Outlook;
use experiment::stage::disk::Peak;
use model::experiment::plan::Plan;
use model::text::prose::bytes;
use serde::Serialize;
use server::cluster::space::Demand;

use crate::job::preview::duration;

/// All of it: time with everything that takes any, disk space of all file systems and servers at the peak, memory of the largest case.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Sum {
    cases: usize,
    runs: usize,
    /// Runs, or pairs of a comparison, that may be added because something disturbs others.
    repeats_max: usize,
    /// Seconds without repeats.
    time_s: f64,
    /// Seconds with all repeats.
    time_s_max: f64,
    /// `None`: not known, as a problem kept pgdyno from looking.
    disk_bytes: Option<u64>,
    /// `None`: all servers are given by URL.
    memory_bytes: Option<u64>,
}

impl Sum {
    pub(super) fn new(plan: &Plan, outlook: &Outlook, peak: Option<&Peak>) -> Sum {
        let time_s = outlook.planned_s();
        let here = peak.map(|peak| peak.demands.iter().map(Demand::needed_bytes).sum::<u64>());
        Sum {
            cases: plan.cases.len(),
            runs: outlook.n_runs,
            repeats_max: plan.repeats_max(),
            time_s,
            time_s_max: time_s + outlook.repeats_s,
            disk_bytes: here.map(|bytes| bytes + outlook.url_bytes),
            memory_bytes: outlook.memory_bytes,
        }
    }

    /// `about 8 min of time, at most 10 min with repeats; 2.17 GiB of disk; 5.89 GiB of memory`.
    pub(super) fn words(&self) -> String {
        let mut parts = vec![if self.time_s_max > self.time_s {
            format!(
                "about {} of time, at most {} with repeats",
                duration(self.time_s),
                duration(self.time_s_max)
            )
        } else {
            format!("about {} of time", duration(self.time_s))
        }];
        if let Some(disk @ 1..) = self.disk_bytes {
            parts.push(format!("{} of disk", bytes(disk as f64)));
        }
        if let Some(memory) = self.memory_bytes {
            parts.push(format!("{} of memory", bytes(memory as f64)));
        }
        parts.join("; ")
    }
}

/// The plan as in `plan.json`, with its sum as `sum`.
pub(super) fn json(plan: &Plan, outlook: &Outlook, peak: Option<&Peak>) -> Result<String> {
    let mut value = serde_json::to_value(plan)?;
    let all = value.as_object_mut().context("a plan is an object")?;
    all.insert("sum".to_string(), serde_json::to_value(Sum::new(plan, outlook, peak))?);
    Ok(serde_json::to_string_pretty(&value)?)
}
