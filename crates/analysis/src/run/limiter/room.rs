//! The processors that a party may use: all of its machine, or those that an affinity, a cpuset or a quota leaves it. They are the
//! divisor of what it used.

use std::collections::BTreeSet;

use model::telemetry::reading::key;

use crate::run::usage::Usage;

/// A use of processors, out of so many that there were for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limited {
    pub(crate) used: f64,
    pub(crate) of: f64,
}

impl Limited {
    pub(crate) fn share(self) -> f64 {
        if self.of > 0.0 { self.used / self.of } else { 0.0 }
    }

    /// `0.98 of 1 processor`.
    pub(crate) fn words(self) -> String {
        let of =
            if self.of.fract().abs() < 1e-9 { format!("{:.0}", self.of) } else { format!("{:.2}", self.of) };
        let noun = if of == "1" { "processor" } else { "processors" };
        format!("{:.2} of {of} {noun}", self.used)
    }
}

/// A quota of a control group of a party.
#[derive(Debug, Clone, PartialEq)]
struct Quota {
    path: String,
    processors: f64,
}

/// The processors that a party may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Room {
    /// Processors of which its tasks may use any; `None` if that is not known.
    n: Option<f64>,
    /// Those processors, unless they are all of the machine.
    pub(crate) cpus: BTreeSet<String>,
    quotas: Vec<Quota>,
}

impl Room {
    /// That of `server`, `driver` or `pooler` over a span.
    pub(crate) fn from_usage(usage: &Usage, party: &str, span: (f64, f64)) -> Room {
        let its = |instance: &String| instance.starts_with(&format!("{party}:"));
        let n = level(usage, &key("affinity.processors", party), span);
        let n_ticks = count(usage, &key("affinity.processors", party), span);
        // It may have been bound while the load ran.
        let is_usual = |instance: &String| 2 * count(usage, &key("affinity.cpu", instance), span) > n_ticks;
        let cpu = |instance: String| instance.split_once(':').map(|(_, cpu)| cpu.to_string());
        let cpus = usage.instances("affinity.cpu").into_iter().filter(its).filter(is_usual).filter_map(cpu);
        let quota = |instance: String| {
            let processors = level(usage, &key("cgroup.quota", &instance), span)?;
            Some(Quota { path: instance.split_once(':')?.1.to_string(), processors })
        };
        let quotas = usage.instances("cgroup.quota").into_iter().filter(its).filter_map(quota).collect();
        Room { n, cpus: cpus.collect(), quotas }
    }

    /// Processors that a bound party may use; `None` where it may use all that there are.
    pub(crate) fn n_bound(&self) -> Option<f64> {
        (!self.cpus.is_empty()).then_some(self.cpus.len() as f64)
    }

    /// Whether two parties may use the same processor.
    pub(crate) fn overlaps(&self, other: &Room) -> bool {
        self.cpus.is_empty() || other.cpus.is_empty() || !self.cpus.is_disjoint(&other.cpus)
    }

    /// What it used of its tightest quota, and whether `other` is in the same group, so that its use counts as well.
    pub(crate) fn of_quota(
        &self,
        used: Option<f64>,
        other: &Room,
        used_by_other: Option<f64>,
    ) -> Option<(Limited, bool)> {
        let used = used?;
        let of = |quota: &Quota| {
            let is_shared = other.quotas.iter().any(|theirs| theirs.path == quota.path);
            let together = used + if is_shared { used_by_other.unwrap_or(0.0) } else { 0.0 };
            (Limited { used: together, of: quota.processors }, is_shared)
        };
        self.quotas.iter().map(of).max_by(|a, b| a.0.share().total_cmp(&b.0.share()))
    }

    /// What it used of all that it may use, of its own: a quota that it shares with `other` is nobody's. `None` where it may use all of a
    /// machine of `n_machine` processors.
    pub(crate) fn own(&self, used: Option<f64>, other: &Room, n_machine: Option<f64>) -> Option<Limited> {
        let own =
            self.quotas.iter().filter(|quota| other.quotas.iter().all(|theirs| theirs.path != quota.path));
        let by_quota = own.map(|quota| quota.processors).min_by(f64::total_cmp);
        let of = [self.n, by_quota].into_iter().flatten().min_by(f64::total_cmp)?;
        let is_less = n_machine.is_none_or(|n| of < n);
        if is_less { Some(Limited { used: used?, of }) } else { None }
    }
}

/// Processors in use among some of a machine, and those that a hypervisor gave to others.
pub(crate) fn use_of(usage: &Usage, cpus: &BTreeSet<String>, span: (f64, f64)) -> Option<(f64, f64)> {
    let (from_s, to_s) = span;
    let (mut busy, mut steal) = (0.0, 0.0);
    for cpu in cpus {
        let of = |metric: &str| usage.rate_of_key(&key(metric, cpu), from_s, to_s);
        busy += of("host.cpu.user")? + of("host.cpu.system")?;
        steal += of("host.cpu.steal").unwrap_or(0.0);
    }
    Some((busy, steal))
}

fn within(usage: &Usage, key: &str, span: (f64, f64)) -> Vec<f64> {
    usage.within(key, span.0, span.1).map(|(_, value)| value).collect()
}

fn count(usage: &Usage, key: &str, span: (f64, f64)) -> usize {
    within(usage, key, span).into_iter().filter(|value| *value > 0.0).count()
}

/// The mean of a level.
pub(super) fn level(usage: &Usage, key: &str, span: (f64, f64)) -> Option<f64> {
    let values = within(usage, key, span);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
