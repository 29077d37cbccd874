//! Findings about the machine's configuration: clocks, frequencies, quotas, memory.

pub(super) mod allowance;

use model::telemetry::reading::key;

use super::format::percent;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::run::usage::Usage;

/// Clock sources that can be read without leaving user mode.
pub(crate) const FAST_CLOCKS: &[&str] =
    &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// Governors under which the frequency does not follow the load.
pub(crate) const STEADY_GOVERNORS: &[&str] = &["performance", "userspace"];
/// Share of time in which some task waits for memory, above which there is a doubt.
const MEMORY_PRESSURE: f64 = 0.05;

pub(super) const MEMORY_PRESSURE_FOUND: Rule = Rule {
    id: "memory-pressure",
    title: "Memory was short",
    severity: "Doubt when some task waited for memory in more than 5 % of the measurement (PSI)",
    source: "kernel documentation, PSI; 5 % is our convention",
    advice: "Lower shared_buffers, work_mem or the number of clients, or stop other users of memory, and \
             repeat.",
    evidence: "Pressure stall information of memory, mean over the measurement.",
    why: "Latency then depends on what else occupies memory.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(memory_pressure),
};

fn memory_share(context: &RunContext) -> Option<f64> {
    let (from_s, to_s) = context.line.measured_span()?;
    context.usage.rate("host.psi.memory.some", from_s, to_s)
}

fn memory_pressure(context: &RunContext) -> Option<Finding> {
    let share = memory_share(context)?;
    let evidence = format!("tasks waited for memory in {} of the measurement", percent(share));
    (share > MEMORY_PRESSURE).then(|| MEMORY_PRESSURE_FOUND.finds(Severity::Doubt, evidence))
}

pub(super) const CPU_QUOTA: Rule = Rule {
    id: "cpu-quota",
    title: "A CPU quota applies",
    severity: "Doubt when a control group of the server or the driver was throttled in more than 1 % of its \
               periods, unless the case asks for its quota; Note for any quota",
    source: "the kernel's sched-bwc documentation; at 1 % of the periods, pauses reach the 99th percentile",
    advice: "Raise or remove the quota (cpu.max, cpu.cfs_quota_us, CPUQuota=, --cpus), or state it with the number.",
    evidence: "cpu.stat and cpu.max or cpu.cfs_quota_us of the control groups of server and driver and those \
               above, each second; groups above a container are invisible.",
    why: "Processors look idle while the server cannot use them: the number is the quota's.",
    tested: "Control groups of version 1: a tenth of a processor for a server by URL, half of one for pgdyno with its server. Version 2 \
             with made-up files.",
    check: RuleCheck::Run(cpu_quota),
};

/// Throttled periods, as a share, above which the quota affects the number.
const THROTTLED: f64 = 0.01;

/// A control group with a quota during the measurement.
struct Group {
    instance: String,
    processors: Option<f64>,
    periods: f64,
    throttled: f64,
    throttled_s: f64,
}

impl Group {
    fn new(context: &RunContext, instance: String) -> Option<Group> {
        let (from_s, to_s) = context.line.measured_span()?;
        let sum = |metric: &str| {
            Some(context.usage.rate_of_key(&key(metric, &instance), from_s, to_s)? * (to_s - from_s))
        };
        let processors = context.usage.with_key(&key("cgroup.quota", &instance)).last().map(|(_, n)| n);
        let (periods, throttled) = (sum("cgroup.periods")?, sum("cgroup.throttled_periods")?);
        Some(Group { processors, periods, throttled, throttled_s: sum("cgroup.throttled_time")?, instance })
    }

    fn share(&self) -> f64 {
        if self.periods > 0.0 { self.throttled / self.periods } else { 0.0 }
    }
}

fn cpu_quota(context: &RunContext) -> Option<Finding> {
    let instances = context.usage.instances("cgroup.periods").into_iter();
    let groups = instances.filter_map(|instance| Group::new(context, instance));
    // The server's before the driver's, where both are in one group.
    let mut groups: Vec<Group> = groups.collect();
    groups.sort_by(|a, b| b.share().total_cmp(&a.share()).then(b.instance.cmp(&a.instance)));
    // A group of pgdyno's own has the quota that the case asks for. It may be throttled, and so may another one.
    let asks = context.data.record.case.os.contains_key("cpu_quota");
    let is_doubt =
        |group: &&Group| group.share() > THROTTLED && !(asks && group.instance.contains("/pgdyno-"));
    let (worst, severity) = match groups.iter().find(is_doubt) {
        Some(group) => (group, Severity::Doubt),
        None => (groups.first()?, Severity::Note),
    };
    let (party, path) = worst.instance.split_once(':').unwrap_or(("server", &worst.instance));
    let limit = worst.processors.map_or("has a quota".to_string(), |processors| {
        format!("may use {} of a processor's time", percent(processors))
    });
    let evidence = format!(
        "the {party}'s control group {path} {limit}, and was throttled in {:.0} of {:.0} periods, for {:.1} s",
        worst.throttled, worst.periods, worst.throttled_s
    );
    Some(CPU_QUOTA.finds(severity, evidence))
}

pub(super) const CLOCK_CHANGED: Rule = Rule {
    id: "clock-changed",
    title: "A clock was set or ran differently",
    severity: "Doubt when the server's clock gained or lost more than 0.1 s plus 0.1 % of the load against the driver's monotonic clock, \
               beyond the error of comparing them; Note when only the driver's wall clock was set, by more than 0.1 s",
    source: "adjtimex(2): a synchronized clock is corrected by at most 0.05 %; 0.1 s is our convention",
    advice: "Synchronize the clocks before the run and let the daemon correct only their rate; if the rates \
             differ, throughput is off by as much: find the wrong clock.",
    evidence: "clock_timestamp() of the server against the driver's monotonic clock, and that against the wall clock, each \
               second.",
    why: "A step moves what follows the wall clock, such as checkpoints and autovacuum; a wrong rate makes \
          the number wrong.",
    tested: "The wall clock of pgdyno, set back by an hour, next to a server that it runs. By hand: the server's, by URL.",
    check: RuleCheck::Run(clock_changed),
};

/// Change of a clock that counts, seconds, and as a share of the load.
const CLOCK_STEP_S: f64 = 0.1;
const CLOCK_RATE: f64 = 0.001;

fn clock_changed(context: &RunContext) -> Option<Finding> {
    let threshold_s = CLOCK_STEP_S + CLOCK_RATE * context.line.end_s;
    let during = |at_s: f64| (0.0..=context.line.end_s + 1.0).contains(&at_s);
    let gauge = |usage: &Usage, name: &str| -> Vec<(f64, f64)> {
        let ticks = usage.with_key(name).filter(|(tick, _)| during(tick.to_s));
        ticks.map(|(tick, value)| (tick.to_s, value)).collect()
    };
    let offsets = gauge(context.usage, "server.clock_offset");
    let errors = gauge(context.usage, "server.clock_error");
    let bounds = offsets.iter().zip(&errors).map(|((at_s, offset), (_, error))| Bounds {
        at_s: *at_s,
        low: offset - error,
        high: offset + error,
    });
    if let Some((change_s, at_s)) =
        largest_change(bounds.collect()).filter(|(change_s, _)| change_s.abs() > threshold_s)
    {
        let evidence = format!(
            "the server's clock moved by {change_s:+.3} s against the driver's, most of it by {at_s:.0} s"
        );
        return Some(CLOCK_CHANGED.finds(Severity::Doubt, evidence));
    }
    // With eyes on another machine, only the driver's own ticks are of the driver's clock.
    let here =
        if context.data.record.driver_is_on_host() { Some(context.usage) } else { context.driver_usage };
    let wall = gauge(here?, "host.clock_offset").into_iter();
    let wall = wall.map(|(at_s, offset)| Bounds { at_s, low: offset, high: offset }).collect();
    let (change_s, at_s) = largest_change(wall).filter(|(change_s, _)| change_s.abs() > CLOCK_STEP_S)?;
    let evidence =
        format!("the wall clock of the driver's machine was set by {change_s:+.3} s by {at_s:.0} s");
    Some(CLOCK_CHANGED.finds(Severity::Note, evidence))
}

/// The difference between two clocks at a moment lies between these.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    at_s: f64,
    low: f64,
    high: f64,
}

/// The largest change that is certain, and when it was first complete.
fn largest_change(bounds: Vec<Bounds>) -> Option<(f64, f64)> {
    let mut largest: Option<(f64, f64)> = None;
    let (mut lowest_high, mut highest_low) = (f64::INFINITY, f64::NEG_INFINITY);
    for Bounds { at_s, low, high } in bounds {
        let (gained_s, lost_s) = ((low - lowest_high).max(0.0), (highest_low - high).max(0.0));
        let change_s = if gained_s > lost_s { gained_s } else { -lost_s };
        if change_s.abs() > largest.map_or(0.0, |(most_s, _)| most_s.abs()) {
            largest = Some((change_s, at_s));
        }
        lowest_high = lowest_high.min(high);
        highest_low = highest_low.max(low);
    }
    largest
}

pub(super) const SLOW_CLOCKSOURCE: Rule = Rule {
    id: "slow-clocksource",
    title: "Reading the clock is slow",
    severity: "Note when the kernel's clock source needs a system call or the hypervisor (hpet, acpi_pm, xen, jiffies)",
    source: "vdso(7); PostgreSQL documentation, pg_test_timing: such clocks take 0.5 us and more",
    advice: "Use tsc or the hypervisor's own fast clock: with this one, timing adds to latency.",
    evidence: "The kernel's clock source on the machines of server and driver, where observed.",
    why: "Each timestamp costs a system call or an exit to the hypervisor, in driver and server.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(slow_clocksource),
};

fn slow_clocksource(context: &RunContext) -> Option<Finding> {
    let clocks = facts(context, "clocksource", FAST_CLOCKS)?;
    Some(SLOW_CLOCKSOURCE.finds(Severity::Note, format!("the clock source is {clocks}")))
}

pub(super) const CPU_FREQUENCY_VARIES: Rule = Rule {
    id: "cpu-frequency-varies",
    title: "The processors' frequency follows the load",
    severity: "Note when the frequency governor is neither performance nor userspace",
    source: "kernel documentation, CPU performance scaling; Gregg, Systems Performance, 6.4.1",
    advice: "Set the governor to performance during the experiment.",
    evidence: "The governor of the first processor on the machines of server and driver, where observed.",
    why: "The same work takes longer on a processor that was idle: low loads look slower than they are.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(cpu_frequency_varies),
};

fn cpu_frequency_varies(context: &RunContext) -> Option<Finding> {
    let governors = facts(context, "cpu_governor", STEADY_GOVERNORS)?;
    Some(CPU_FREQUENCY_VARIES.finds(Severity::Note, format!("the governor is {governors}")))
}

/// A fact of the machines of the run where it is none of `good`, each with its machine if there are two.
fn facts(context: &RunContext, name: &str, good: &[&str]) -> Option<String> {
    let record = &context.data.record;
    let machines = match &record.driver_host {
        None => [(record.host.as_ref(), ""), (None, "")],
        Some(here) => {
            [(record.host.as_ref(), " on the server's machine"), (Some(here), " on the driver's machine")]
        }
    };
    let found = machines.into_iter().filter_map(|(host, whose)| {
        let value = host?.facts.get(name).filter(|value| !good.contains(&value.as_str()))?;
        Some(format!("{value}{whose}"))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| found.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_beyond_the_errors_is_certain() {
        let check = |offsets: &[(f64, f64)], expected: Option<(f64, f64)>| {
            let at = |(n, (offset, error)): (usize, &(f64, f64))| Bounds {
                at_s: n as f64,
                low: offset - error,
                high: offset + error,
            };
            let found = largest_change(offsets.iter().enumerate().map(at).collect());
            let is_close = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < 1e-9 && a.1 == b.1;
            let is_equal = found.zip(expected).is_some_and(|(a, b)| is_close(a, b)) || found == expected;
            assert!(is_equal, "{offsets:?}: {found:?}");
        };
        check(&[], None);
        check(&[(5.0, 0.25)], None);
        // A slow answer is no step.
        check(&[(0.0, 0.0), (0.25, 0.5), (0.0, 0.0)], None);
        check(&[(0.0, 0.0), (2.0, 0.5), (2.0, 0.25), (0.0, 0.0)], Some((1.75, 2.0)));
        check(&[(10.0, 0.0), (-3590.0, 0.0), (-3590.0, 0.0)], Some((-3600.0, 1.0)));
        // A drift adds up.
        check(&[(0.0, 0.125), (0.5, 0.125), (1.0, 0.125)], Some((0.75, 2.0)));
    }
}
