//! Findings about the machine's configuration: clocks, frequencies, memory.

use super::format::percent;
use super::{Check, ON_RECORDS, Rule, RunContext};
use crate::finding::{Finding, Severity};

/// Clock sources that can be read without leaving user mode.
const FAST_CLOCKS: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// Governors under which the frequency does not follow the load.
const STEADY_GOVERNORS: &[&str] = &["performance", "userspace"];
/// Share of time in which some task waits for memory, above which there is a doubt.
const MEMORY_PRESSURE: f64 = 0.05;

pub(super) const MEMORY_PRESSURE_FOUND: Rule = Rule {
    id: "memory-pressure",
    title: "Memory was short",
    severity: "Doubt when some task waited for memory in more than 5 % of the measurement (PSI)",
    source: "kernel documentation, PSI: pressure stall information; 5 % is our convention",
    advice: "Lower shared_buffers, work_mem or the number of clients, or stop what else uses memory, and repeat.",
    evidence: "Pressure stall information of memory, mean over the measurement.",
    why: "Tasks that wait for pages to be freed or read back make latency depend on what else occupies memory.",
    tested: ON_RECORDS,
    check: Check::Run(memory_pressure),
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

pub(super) const SLOW_CLOCKSOURCE: Rule = Rule {
    id: "slow-clocksource",
    title: "Reading the clock is slow",
    severity: "Note when the kernel's clock source needs a system call or the hypervisor (hpet, acpi_pm, xen, jiffies)",
    source: "vdso(7); PostgreSQL documentation, pg_test_timing: such clocks take 0.5 us and more",
    advice: "Use tsc or the hypervisor's own fast clock; with this one, timing costs processor time and adds to latency.",
    evidence: "The kernel's current clock source.",
    why: "Each timestamp then costs a system call or an exit to the hypervisor, in the driver and in the server.",
    tested: ON_RECORDS,
    check: Check::Run(slow_clocksource),
};

fn slow_clocksource(context: &RunContext) -> Option<Finding> {
    let clock = fact(context, "clocksource").filter(|clock| !FAST_CLOCKS.contains(clock))?;
    Some(SLOW_CLOCKSOURCE.finds(Severity::Note, format!("the clock source is {clock}")))
}

pub(super) const CPU_FREQUENCY_VARIES: Rule = Rule {
    id: "cpu-frequency-varies",
    title: "The processors' frequency follows the load",
    severity: "Note when the frequency governor is neither performance nor userspace",
    source: "kernel documentation, CPU performance scaling; Gregg, Systems Performance, 6.4.1",
    advice: "Set the governor to performance during the experiment.",
    evidence: "The frequency governor of the first processor.",
    why: "The same work takes longer if the processor was idle before: low loads look slower than they are.",
    tested: ON_RECORDS,
    check: Check::Run(cpu_frequency_varies),
};

fn cpu_frequency_varies(context: &RunContext) -> Option<Finding> {
    let governor = fact(context, "cpu_governor").filter(|name| !STEADY_GOVERNORS.contains(name))?;
    Some(CPU_FREQUENCY_VARIES.finds(Severity::Note, format!("the governor is {governor}")))
}

fn fact<'a>(context: &RunContext<'a>, name: &str) -> Option<&'a str> {
    context.data.record.host.as_ref()?.facts.get(name).map(String::as_str)
}
