//! Waits that are not the server's, and what is lost at the ends of the measurement.

use super::processors::clients_at_work;
use super::{BudgetRow, RowBound, RowBounds};
use crate::findings::format::{figure, percent};
use crate::findings::{RunContext, driver_pauses};

pub(super) const DRIVER_PAUSED: BudgetRow = BudgetRow {
    id: "driver-paused",
    title: "pauses of the driver",
    formula: "0 to -ln(1 - p), where p is the share of the measurement in which a thread of the driver stood still; 0 for the median latency",
    source: "gaps in the driver's clocks",
    remedy: "a machine that is not suspended or overcommitted",
    findings: &["driver-paused"],
    bound: RowBound::Run(driver_paused),
};

fn driver_paused(context: &RunContext) -> Option<RowBounds> {
    let (paused_s, _) = driver_pauses(context)?;
    let share = paused_s / context.line.measured_s().max(paused_s);
    let evidence = format!("the driver stood still for {} of the measurement", percent(share));
    let bounds = RowBounds::of_waiting(context, share, evidence);
    Some(RowBounds { p50: [0.0, 0.0], ..bounds })
}

pub(super) const MEMORY: BudgetRow = BudgetRow {
    id: "memory-pressure",
    title: "short memory",
    formula: "0 to -ln(1 - m), where m is the share of the measurement in which some task waited for memory (PSI)",
    source: "kernel documentation, PSI: no transaction waited for longer than some task did",
    remedy: "more memory, or less in use",
    findings: &["memory-pressure"],
    bound: RowBound::Run(memory),
};

fn memory(context: &RunContext) -> Option<RowBounds> {
    let (from_s, to_s) = context.line.measured_span()?;
    let share = context.usage.rate("host.psi.memory.some", from_s, to_s)?.min(1.0);
    let evidence = format!("tasks waited for memory in {} of the measurement", percent(share));
    (share > 0.0).then(|| RowBounds::of_waiting(context, share, evidence))
}

pub(super) const EDGES: BudgetRow = BudgetRow {
    id: "edges",
    title: "the ends of the measurement",
    formula: "plus or minus c / n, for c transactions under way on average (Little's law) and n committed ones: each may have one more or less within the measurement",
    source: "counting between two moments",
    remedy: "a longer measurement",
    findings: &[],
    bound: RowBound::Run(edges),
};

fn edges(context: &RunContext) -> Option<RowBounds> {
    let clients = clients_at_work(context);
    let committed = context.summary.counts.committed as f64;
    // An analytical run begins with its first query and ends with its last.
    if committed <= 0.0 || context.summary.analytical.is_some() {
        return None;
    }
    let share = (clients / committed).min(1.0);
    let evidence = format!("{} transactions under way at each end, of {committed:.0}", figure(clients));
    let nothing = [0.0, 0.0];
    Some(RowBounds { throughput: [-share, share], p50: nothing, p99: nothing, evidence })
}
