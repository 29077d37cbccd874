//! Processor time that others took: the hypervisor, other processes, other sessions of the server, quotas.

use super::{BudgetRow, RowBound, RowBounds, WAIT_MAX};
use crate::findings::format::percent;
use crate::findings::{
    RunContext, foreign_transactions, is_driver_crowded, is_driver_stolen_from, n_clients,
};
use crate::run::usage::CpuSplit;

/// Idle processors, as a share of all, below which processors limit.
const IDLE_LIMIT: f64 = 0.05;
/// How much slower a server is per share of the processors that others use, because they share caches and memory with it: our convention.
const SHARED_CACHES: f64 = 0.2;
/// How many times the processor time that others take is lost, as sessions wait behind one that was kept from its processor while it held a
/// lock or wrote WAL: 1.1 to 1.9 times in eight trials with two processors (bench/uncertainty.py).
const BEHIND: f64 = 2.0;
/// Standard errors of a slope that its bound is away from it.
const ERRORS: f64 = 2.0;
/// Seconds that a slope needs.
const SLOPE_SECONDS_MIN: usize = 8;
/// The largest effect on a percentile that a slope is believed.
const SLOPE_MAX: f64 = 1.5;

pub(super) const STEAL: BudgetRow = BudgetRow {
    id: "steal",
    title: "steal",
    formula: "0 to ln((b + s) / b) for stolen s and busy b processors where less than 5 % are idle; otherwise 0 to ln(1 + c s / b), where c \
              is the share of a transaction's time that server and driver spend on processors",
    source: "proc(5): a processor that is stolen does nothing while its task is ready",
    remedy: "a machine with dedicated processors",
    findings: &["steal"],
    bound: RowBound::Run(steal),
};

/// What a machine's processors did in the measurement.
struct Processors {
    n: f64,
    split: CpuSplit,
}

impl Processors {
    fn of_run(context: &RunContext) -> Option<Processors> {
        let (from_s, to_s) = context.line.measured_span()?;
        let n = f64::from(context.summary.resources.n_cpus?);
        Some(Processors { n, split: context.usage.cpu(from_s, to_s)? })
    }

    fn idle(&self) -> f64 {
        (self.n - self.split.busy - self.split.steal).max(0.0)
    }

    fn are_the_limit(&self) -> bool {
        self.idle() < IDLE_LIMIT * self.n
    }

    /// Server and driver, as far as they are on this machine.
    fn own(&self) -> f64 {
        self.split.server.unwrap_or(0.0) + self.split.driver.unwrap_or(0.0)
    }

    /// The share of a transaction's time that is spent on processors, by Little's law: those in use over the clients that are served.
    fn share_of_time(&self, context: &RunContext) -> f64 {
        let clients = clients_at_work(context);
        if clients > 0.0 { (self.own() / clients).clamp(0.0, 1.0) } else { 1.0 }
    }
}

/// Clients that have a transaction under way, on average: all of a closed loop, and those of an open one by Little's law.
pub(super) fn clients_at_work(context: &RunContext) -> f64 {
    let n = f64::from(n_clients(context));
    let by_service = context.summary.tps.zip(context.summary.service.as_ref());
    by_service.map_or(n, |(tps, service)| (tps * service.mean_ns / 1e9).min(n).max(0.01))
}

fn steal(context: &RunContext) -> Option<RowBounds> {
    // Nothing shows what the server would have done while a driver elsewhere stood still.
    if is_driver_stolen_from(context) {
        return None;
    }
    let processors = Processors::of_run(context)?;
    let (stolen, busy) = (processors.split.steal, processors.split.busy);
    if stolen <= 0.0 || busy <= 0.0 {
        return None;
    }
    let share = if processors.are_the_limit() { 1.0 } else { processors.share_of_time(context) };
    let slower = share * stolen / busy;
    let evidence = format!("{} of the processors' time was stolen", percent(stolen / processors.n));
    let bounds = RowBounds::of_waiting(context, slower / (1.0 + slower), evidence);
    Some(bounds.with_tail(tail(context, |cpu| Some(cpu.steal))))
}

pub(super) const FOREIGN_CPU: BudgetRow = BudgetRow {
    id: "foreign-cpu",
    title: "other processes",
    formula: "0 to twice the larger of ln((o + max(0, f - i)) / o) and -ln(1 - d), plus 0.2 f / n: server and driver use o of n processors, others f, \
              i are idle; d is the share of a transaction's time in which its server process was ready and another process ran (schedstat)",
    source: "the processor time that is missing, and Linux schedstat, run delay; twice, for what waits behind a process that was kept from its processor, comes from our trials, and 0.2 for shared caches is our convention",
    remedy: "a machine on which nothing else runs",
    findings: &["foreign-cpu"],
    bound: RowBound::Run(foreign_cpu),
};

fn foreign_cpu(context: &RunContext) -> Option<RowBounds> {
    if is_driver_crowded(context) {
        return None;
    }
    let processors = Processors::of_run(context)?;
    let foreign = processors.split.foreign?.max(0.0);
    let own = processors.own();
    if own <= 0.0 || foreign <= 0.0 {
        return None;
    }
    let missing = ((own + (foreign - processors.idle()).max(0.0)) / own).ln();
    let delayed = -(1.0 - delayed_share(context, &processors, foreign).min(WAIT_MAX)).ln();
    let gain = BEHIND * missing.max(delayed) + SHARED_CACHES * foreign / processors.n;
    let evidence = format!("other processes used {} of the processors", percent(foreign / processors.n));
    let bounds = RowBounds::of_waiting(context, 1.0 - (-gain).exp(), evidence);
    Some(bounds.with_tail(tail(context, |cpu| Some(cpu.foreign?.max(0.0)))))
}

/// The share of a transaction's time in which it waited for a processor that another process had. Without run delays, the share of its time
/// on processors that others would have slowed down if they had run instead of it.
fn delayed_share(context: &RunContext, processors: &Processors, foreign: f64) -> f64 {
    let span = context.line.measured_span();
    let delay = span.and_then(|(from_s, to_s)| context.usage.rate("server.run_delay", from_s, to_s));
    let by_others = foreign / processors.split.busy.max(foreign);
    match delay {
        Some(delay) => (delay * by_others / clients_at_work(context)).clamp(0.0, 1.0),
        None => processors.share_of_time(context) * by_others,
    }
}

pub(super) const FOREIGN_SESSIONS: BudgetRow = BudgetRow {
    id: "foreign-sessions",
    title: "other sessions",
    formula: "0 to -ln(1 - w), where w is the largest of their shares of the server's processor time, of the sessions at work, and of its \
              transactions",
    source: "what they use is missing; all three are measured (pg_stat_activity, pg_stat_database, /proc)",
    remedy: "a server that nobody else uses",
    findings: &["foreign-sessions"],
    bound: RowBound::Run(foreign_sessions),
};

fn foreign_sessions(context: &RunContext) -> Option<RowBounds> {
    let (from_s, to_s) = context.line.measured_span()?;
    let mean = |metric: &str| {
        let ticks =
            context.usage.with_key(metric).filter(|(tick, _)| tick.to_s > from_s && tick.to_s <= to_s + 0.5);
        stats::mean(&ticks.map(|(_, value)| value).collect::<Vec<f64>>())
    };
    let by_sessions =
        mean("server.foreign_working").map(|working| working / (working + clients_at_work(context)));
    let server = Processors::of_run(context).and_then(|processors| processors.split.server);
    let by_cpu = context.usage.rate("server.cpu.foreign", from_s, to_s).zip(server);
    let by_cpu = by_cpu.map(|(cpu, server)| if cpu > 0.0 { cpu / server.max(cpu) } else { 0.0 });
    let by_transactions =
        foreign_transactions(context, from_s, to_s).map(|(foreign, own)| foreign / (foreign + own));
    let shares = [by_sessions, by_cpu, by_transactions].into_iter().flatten();
    let share = shares.filter(|share| share.is_finite()).max_by(f64::total_cmp)?;
    let evidence = format!("other sessions had up to {} of the server", percent(share));
    (share > 0.0).then(|| RowBounds::of_waiting(context, share, evidence))
}

pub(super) const QUOTA: BudgetRow = BudgetRow {
    id: "cpu-quota",
    title: "a CPU quota",
    formula: "0 to -ln(1 - t), where t is the share of the measurement in which the group stood still",
    source: "the kernel's sched-bwc documentation: cpu.stat counts the time in which a group was throttled",
    remedy: "a higher quota, or none",
    findings: &["cpu-quota"],
    bound: RowBound::Run(quota),
};

fn quota(context: &RunContext) -> Option<RowBounds> {
    let (from_s, to_s) = context.line.measured_span()?;
    let asks = context.data.record.case.os.contains_key("cpu_quota");
    let throttled = |instance: String| {
        let key = model::telemetry::reading::key("cgroup.throttled_time", &instance);
        let is_asked_for = asks && instance.contains("/pgdyno-");
        if is_asked_for { None } else { context.usage.rate_of_key(&key, from_s, to_s) }
    };
    let groups = context.usage.instances("cgroup.throttled_time").into_iter();
    let share = groups.filter_map(throttled).max_by(f64::total_cmp)?.min(1.0);
    let evidence = format!("a control group stood still for {} of the measurement", percent(share));
    (share > 0.0).then(|| RowBounds::of_waiting(context, share, evidence))
}

/// What the 99th percentile of the seconds says about a disturbance: the slope of its logarithm over the disturbance, carried on to none.
fn tail(context: &RunContext, of: impl Fn(&CpuSplit) -> Option<f64>) -> [f64; 2] {
    let measured = context.summary.seconds.iter().filter(|second| second.measured);
    let points = measured.filter_map(|second| {
        let t = f64::from(second.t);
        let disturbance = of(&context.usage.cpu(t, t + 1.0)?)?;
        Some((disturbance, (second.p99_ns? as f64).ln()))
    });
    let points: Vec<(f64, f64)> = points.collect();
    [-carried_to_zero(&points).unwrap_or(0.0).min(SLOPE_MAX), 0.0]
}

/// How far a line through the points falls from their mean to zero, at most: the slope and two of its standard errors.
fn carried_to_zero(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < SLOPE_SECONDS_MIN {
        return None;
    }
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let sxx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let sxy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = sxy / sxx;
    let residuals: f64 = points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    let error = (residuals / (n - 2.0) / sxx).sqrt();
    Some(((slope + ERRORS * error) * mean_x).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_rises_with_steal_is_carried_to_none() {
        let points: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i % 5) * 0.1, 1.0 + 0.2 * f64::from(i % 5))).collect();
        let fall = carried_to_zero(&points).expect("a slope");
        assert!((fall - 0.4).abs() < 1e-9, "{fall}");
        let flat: Vec<(f64, f64)> = points.iter().map(|(x, _)| (*x, 1.0)).collect();
        assert_eq!(carried_to_zero(&flat), Some(0.0));
        assert_eq!(carried_to_zero(&points[..7]), None);
    }
}
