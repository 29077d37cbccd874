//! Findings about several drivers, or drivers on other machines: they should do the same at the same time.

use model::run::driver::DriverRecord;
use model::text::prose::significant;

use super::super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};

/// Mean latency of the slowest driver against the fastest, above which they do not do the same.
const LATENCY_RATIO: f64 = 1.25;
/// A mean of fewer transactions varies too much.
const TRANSACTIONS_MIN: u64 = 100;

pub(in super::super) const DRIVERS_DIFFER: Rule = Rule {
    id: "drivers-differ",
    title: "One driver was slower than another",
    severity: "Doubt when one driver's mean latency exceeds 1.25 times another's, over 100 transactions or \
               more of each",
    source: "all drivers offer the same mixture to the same server; 1.25 is our convention",
    advice: "Compare the drivers' machines, their other work and their networks; `drivers` in run.json has \
             the figures.",
    evidence: "Latencies that each driver recorded over the whole load.",
    why: "The percentiles are those of the slow machine, and a closed loop makes it offer less.",
    tested: "Two drivers, of which one stands still for 50 ms again and again.",
    check: RuleCheck::Run(drivers_differ),
};

fn drivers_differ(context: &RunContext) -> Option<Finding> {
    let drivers = context.data.record.drivers.iter();
    let counted: Vec<&DriverRecord> = drivers.filter(|driver| driver.latency.n >= TRANSACTIONS_MIN).collect();
    let by_mean = |a: &&&DriverRecord, b: &&&DriverRecord| a.latency.mean().total_cmp(&b.latency.mean());
    let (fast, slow) = (counted.iter().min_by(by_mean)?, counted.iter().max_by(by_mean)?);
    let ms = |driver: &DriverRecord| significant(driver.latency.mean() / 1e6);
    let evidence = format!(
        "the mean latency was {} ms on driver `{}` and {} ms on driver `{}`",
        ms(slow),
        slow.name,
        ms(fast),
        fast.name
    );
    (slow.latency.mean() > LATENCY_RATIO * fast.latency.mean())
        .then(|| DRIVERS_DIFFER.finds(Severity::Doubt, evidence))
}

/// Uncertainty of a clock, and its change during the load, that is worth a word; nanoseconds.
const CLOCK_NS: u64 = 1_000_000;
/// A driver that begins later than this has a short first second; nanoseconds.
const LATE_NS: u64 = 100_000_000;

pub(in super::super) const DRIVERS_APART: Rule = Rule {
    id: "drivers-apart",
    title: "Drivers did not act at the same time",
    severity: "Doubt when a driver began more than 100 ms late, or its clock was set by more than 1 ms during the load; Note \
               when its clock is known to 1 ms at best, was not compared after the load, or moved by more than 1 ms beyond that",
    source: "Cristian 1989: a clock is known to half of the shortest round trip; thresholds are our \
             convention",
    advice: "Synchronize the drivers' clocks (chrony), use a shorter way to them, and leave each a free \
             processor.",
    evidence: "Pings before and after the load, the driver's wall clock against its monotonic one, and its \
               last thread's beginning.",
    why: "Seconds of drivers are added by number: a late driver shifts its share into the second before.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(drivers_apart),
};

fn drivers_apart(context: &RunContext) -> Option<Finding> {
    let drivers = &context.data.record.drivers;
    let found = |severity, evidence| Some(DRIVERS_APART.finds(severity, evidence));
    let ms = |ns: u64| significant(ns as f64 / 1e6);
    if let Some(late) = drivers.iter().filter(|driver| driver.late_ns > LATE_NS).max_by_key(|d| d.late_ns) {
        let evidence = format!("driver `{}` began {} ms late", late.name, ms(late.late_ns));
        return found(Severity::Doubt, evidence);
    }
    if let Some(set) = drivers.iter().find(|driver| driver.clock_set_ns.unsigned_abs() > CLOCK_NS) {
        let by = ms(set.clock_set_ns.unsigned_abs());
        return found(Severity::Doubt, format!("the clock of driver `{}` was set by {by} ms", set.name));
    }
    let bound = |driver: &DriverRecord| driver.clock_before.map_or(0, |clock| clock.bound_ns);
    if let Some(vague) = drivers.iter().filter(|driver| bound(driver) > CLOCK_NS).max_by_key(|d| bound(d)) {
        let evidence = format!("the clock of driver `{}` is known to {} ms", vague.name, ms(bound(vague)));
        return found(Severity::Note, evidence);
    }
    // A load that did not end has no comparison after it.
    let is_over = context.data.record.done.is_some();
    let is_unknown = |driver: &&DriverRecord| driver.clock_before.is_some() && driver.clock_after.is_none();
    if let Some(unknown) = drivers.iter().find(is_unknown)
        && is_over
    {
        let evidence =
            format!("the clock of driver `{}` was not compared with ours after the load", unknown.name);
        return found(Severity::Note, evidence);
    }
    let moved = |driver: &DriverRecord| {
        let after = driver.clock_after.map_or(0, |clock| clock.bound_ns);
        let drift = driver.drift_ns().unwrap_or(0).unsigned_abs();
        drift.saturating_sub(bound(driver).saturating_add(after))
    };
    let moving = drivers.iter().filter(|driver| moved(driver) > CLOCK_NS).max_by_key(|d| moved(d))?;
    let evidence = format!(
        "the clock of driver `{}` moved by {} ms against ours during the load",
        moving.name,
        ms(moving.drift_ns()?.unsigned_abs())
    );
    found(Severity::Note, evidence)
}
