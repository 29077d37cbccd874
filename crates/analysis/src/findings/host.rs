//! Findings about the machine and the driver: whether something else affected the measurement.

use model::release::privileges;
use model::run::RunRecord;
use model::telemetry::event::EventKind;
use model::telemetry::metric::OPTIONAL;
use model::telemetry::reading::TickSource;

use super::format::{excerpt, figure, list, moment, percent};
use super::server::route;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::run::marks;
use crate::run::usage::Usage;

/// Length of the stretches that are searched for disturbances, seconds.
const STRETCH_S: f64 = 5.0;
/// Mean foreign CPU that counts as a disturbance, as a share of all processors.
pub(super) const FOREIGN_MEAN: f64 = 0.02;
/// Foreign CPU over a stretch that counts as a disturbance, as a share of all processors.
pub(crate) const FOREIGN_STRETCH: f64 = 0.10;
/// Mean foreign CPU that is never reported, in processors: kernel threads that write pages back and serve devices for
/// the server belong to none of our processes. Measured under `tpcb` on two processors: 0.04 to 0.06, which is more
/// than 2 % of such a small machine (idle: 0.01).
pub(super) const FOREIGN_MEAN_FLOOR: f64 = 0.1;
/// Share of foreign CPU from which a process is named.
const WORTH_NAMING: f64 = 0.1;
/// Processes that are named.
const NAMED_MAX: usize = 3;
/// Steal over a stretch, as a share of all processors.
const STEAL_STRETCH: f64 = 0.01;
/// Shortest pause that the driver reports, seconds.
const PAUSE_S_MIN: f64 = 0.1;
/// A driver thread this busy limits the load.
const THREAD_BUSY: f64 = 0.85;
/// A driver thread this busy limits an open loop whose lag already shows in the latency.
const THREAD_BUSY_LAGGING: f64 = 0.80;

pub(super) const FOREIGN_CPU: Rule = Rule {
    id: "foreign-cpu",
    title: "Something else used the processors",
    severity: "Doubt when processes other than the server's and pgdyno's use more than 2 % of all processors \
               (and a tenth of one) on average, or 10 % in any 5 s",
    source: "A/A study: correlation with log throughput -0.73; below 5 % the spread falls from 28 % to 7 %",
    advice: "Stop other work on the machine, or use one that is not shared, and repeat.",
    evidence: "Processor time of all processors minus that of the server, the driver and pgdyno, each \
               second; the processes that used most.",
    why: "It explained most differences between identical runs on shared machines, while steal was almost \
          zero.",
    tested: "By hand: a compiler next to a run.",
    check: RuleCheck::Run(foreign_cpu),
};

/// A machine whose processors were observed.
struct Machine<'a> {
    usage: &'a Usage<'a>,
    n_cpus: f64,
    /// Which one it is, where that is not clear.
    whose: &'static str,
}

/// The machine with the server; where the driver's is another one that was observed too, that as well.
fn machines<'a>(context: &'a RunContext) -> Vec<Machine<'a>> {
    let record = &context.data.record;
    let whose = match (context.driver_usage, record.server_is_local) {
        (Some(_), _) => " of the server's machine",
        (None, true) => "",
        (None, false) => " of the driver's machine (the server's was not seen)",
    };
    let first = context.summary.resources.n_cpus.map(|n| (context.usage, n, whose));
    let first = first.map(|(usage, n, whose)| Machine { usage, n_cpus: f64::from(n), whose });
    [first, driver_machine(context)].into_iter().flatten().collect()
}

/// The driver's machine, where it is another one than the server's and was observed, too.
fn driver_machine<'a>(context: &'a RunContext) -> Option<Machine<'a>> {
    let host = context.summary.resources.driver_host.as_ref()?;
    let whose = " of the driver's machine";
    Some(Machine { usage: context.driver_usage?, n_cpus: f64::from(host.n_cpus), whose })
}

/// Whether the hypervisor took so much of a machine of the driver's own that `steal` reports it.
pub(crate) fn is_driver_stolen_from(context: &RunContext) -> bool {
    is_driver_over(context, |machine, span| machine.steal_excess(span))
}

/// Whether other processes used so much of a machine of the driver's own that `foreign-cpu` reports it.
pub(crate) fn is_driver_crowded(context: &RunContext) -> bool {
    is_driver_over(context, |machine, span| machine.foreign_excess(span))
}

fn is_driver_over(context: &RunContext, excess: fn(&Machine, (f64, f64)) -> Option<f64>) -> bool {
    let machine = driver_machine(context).zip(context.line.measured_span());
    machine.and_then(|(machine, span)| excess(&machine, span)).is_some_and(|excess| excess > 1.0)
}

impl Machine<'_> {
    fn mean_foreign(&self, span: (f64, f64)) -> Option<f64> {
        Some(self.usage.cpu(span.0, span.1)?.foreign?.max(0.0))
    }

    /// The worst stretch, and when it began.
    fn worst_foreign(&self, span: (f64, f64)) -> Option<(f64, f64)> {
        self.usage.worst_stretch(span, STRETCH_S, |cpu| cpu.foreign)
    }

    /// How many times foreign CPU exceeds its threshold, on average or in the worst stretch.
    fn foreign_excess(&self, span: (f64, f64)) -> Option<f64> {
        let mean = self.mean_foreign(span)? / (FOREIGN_MEAN * self.n_cpus).max(FOREIGN_MEAN_FLOOR);
        let worst =
            self.worst_foreign(span).map_or(0.0, |(foreign, _)| foreign / (FOREIGN_STRETCH * self.n_cpus));
        Some(mean.max(worst))
    }

    /// The stretch with the most steal, and when it began.
    fn worst_steal(&self, span: (f64, f64)) -> Option<(f64, f64)> {
        self.usage.worst_stretch(span, STRETCH_S, |cpu| Some(cpu.steal))
    }

    /// How many times steal exceeds its threshold.
    fn steal_excess(&self, span: (f64, f64)) -> Option<f64> {
        Some(self.worst_steal(span)?.0 / (STEAL_STRETCH * self.n_cpus))
    }
}

/// The largest value over all machines.
fn most(context: &RunContext, excess: impl Fn(&Machine, (f64, f64)) -> Option<f64>) -> Option<f64> {
    let span = context.line.measured_span()?;
    machines(context).iter().filter_map(|machine| excess(machine, span)).max_by(f64::total_cmp)
}

/// How many times foreign CPU exceeds its threshold, on any machine. What an unknown pooler or proxy uses cannot be distinguished
/// from what others do, and a repeat would have it again: with one of them in between, it is 0.
pub(super) fn foreign_excess(context: &RunContext) -> Option<f64> {
    if route::between(context).is_some() && route::pooler_cpu(context).is_none() {
        return Some(0.0);
    }
    most(context, |machine, span| machine.foreign_excess(span))
}

fn foreign_cpu(context: &RunContext) -> Option<Finding> {
    let span = context.line.measured_span()?;
    let words = |machine: &Machine| {
        machine.foreign_excess(span).filter(|excess| *excess > 1.0)?;
        let mean = machine.mean_foreign(span)?;
        // Stretches need not cover a short measurement: none may be as bad as its mean.
        let worst = machine.worst_foreign(span).filter(|(foreign, _)| *foreign > mean);
        let stretch = worst.map_or(String::new(), |(foreign, from_s)| {
            let share = percent(foreign / machine.n_cpus);
            format!(", at worst {share} from {} to {}", moment(from_s), moment(from_s + STRETCH_S))
        });
        Some(format!(
            "other processes used {} of the {:.0} processors{} on average{stretch}{}",
            percent(mean / machine.n_cpus),
            machine.n_cpus,
            machine.whose,
            names(machine, span, mean)
        ))
    };
    let found: Vec<String> = machines(context).iter().filter_map(words).collect();
    let unknown = if route::pooler_cpu(context).is_none() { route::between(context) } else { None };
    let between = unknown.map_or(String::new(), |what| format!("; {what} may be among them"));
    (!found.is_empty()).then(|| FOREIGN_CPU.finds(Severity::Doubt, found.join("; ") + &between))
}

/// Which processes used most of what is foreign, which is this many processors on average.
fn names(machine: &Machine, span: (f64, f64), foreign: f64) -> String {
    let Some(mut strangers) = machine.usage.strangers(span.0, span.1) else { return String::new() };
    strangers.retain(|(_, used)| *used >= WORTH_NAMING * foreign);
    if strangers.is_empty() {
        return "; /proc did not show which ones".to_string();
    }
    let words =
        |(name, used): &(String, f64)| format!("`{}` {}", excerpt(name), percent(used / machine.n_cpus));
    let words: Vec<String> = strangers.iter().take(NAMED_MAX).map(words).collect();
    format!("; most by {}", words.join(", "))
}

pub(super) const STEAL: Rule = Rule {
    id: "steal",
    title: "The hypervisor took processor time",
    severity: "Doubt when steal exceeds 1 % of all processors in any 5 s",
    source: "proc(5), steal; 1 % in 5 s is our convention",
    advice: "Use a machine with dedicated processors, or interleave more runs.",
    evidence: "Steal time in /proc/stat, in the worst five seconds and on average.",
    why: "Other machines ran while the server was ready: the number is that of a smaller machine.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(steal),
};

/// How many times steal exceeds its threshold, on any machine.
pub(super) fn steal_excess(context: &RunContext) -> Option<f64> {
    most(context, |machine, span| machine.steal_excess(span))
}

fn steal(context: &RunContext) -> Option<Finding> {
    let span = context.line.measured_span()?;
    let words = |machine: &Machine| {
        machine.steal_excess(span).filter(|excess| *excess > 1.0)?;
        let (worst, from_s) = machine.worst_steal(span)?;
        let worst = worst / machine.n_cpus;
        let mean = (machine.usage.cpu(span.0, span.1)?.steal / machine.n_cpus).clamp(0.0, 1.0);
        let whose = if context.driver_usage.is_some() { machine.whose } else { "" };
        // Stretches need not cover a short measurement: none may be as bad as its mean.
        Some(if worst > mean {
            format!(
                "{} of processor time{whose} was stolen from {} to {}, {} on average",
                percent(worst),
                moment(from_s),
                moment(from_s + STRETCH_S),
                percent(mean)
            )
        } else {
            format!("{} of processor time{whose} was stolen on average", percent(mean))
        })
    };
    let found: Vec<String> = machines(context).iter().filter_map(words).collect();
    (!found.is_empty()).then(|| STEAL.finds(Severity::Doubt, found.join("; ")))
}

pub(super) const DRIVER_SATURATED: Rule = Rule {
    id: "driver-saturated",
    title: "The driver was at its limit",
    severity: "Doubt when a driver thread is busy for more than 85 % of the measurement, or 80 % in an open \
               loop whose 99th percentile of lag exceeds a tenth of latency's",
    source: "wrk2; thresholds are our convention",
    advice: "Use more driver threads, or another machine for the driver: this number is not the server's.",
    evidence: "Processor time of the busiest driver thread; in an open loop, lag and latency.",
    why: "A driver at its limit measures itself.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(driver_saturated),
};

fn driver_saturated(context: &RunContext) -> Option<Finding> {
    let busiest = context.summary.resources.driver_busiest_thread?;
    let lagging = match (context.summary.lag, context.summary.latency) {
        (Some(lag), Some(latency)) => lag.p99_ns as f64 > 0.1 * latency.p99_ns as f64,
        _ => false,
    };
    if busiest <= THREAD_BUSY && !(lagging && busiest > THREAD_BUSY_LAGGING) {
        return None;
    }
    let evidence = format!("the busiest driver thread used {} of a processor", percent(busiest));
    Some(DRIVER_SATURATED.finds(Severity::Doubt, evidence))
}

pub(super) const DRIVER_WAITS_FOR_CPU: Rule = Rule {
    id: "driver-waits-for-cpu",
    title: "The driver had to wait for a processor",
    severity: "Note when its threads were ready but not running for more than 10 % of their time",
    source: "Linux schedstat, run delay; 10 % is our convention",
    advice: "Use another machine for the driver, or fewer clients: this latency includes the driver's wait.",
    evidence: "The run delay of the driver's threads (schedstat).",
    why: "The driver was ready and did not run: that time is part of each latency.",
    tested: "By hand: a compiler next to a run.",
    check: RuleCheck::Run(driver_waits_for_cpu),
};

fn driver_waits_for_cpu(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let delay = context.usage.rate("driver.run_delay", from_s, to_s)?;
    let record = &context.data.record;
    let n_threads = record.load.as_ref().map_or(record.case.workload.n_threads, |load| load.n_threads).max(1);
    let share = delay / f64::from(n_threads);
    let evidence = format!("driver threads waited for a processor {} of the time", percent(share));
    (share > 0.1).then(|| DRIVER_WAITS_FOR_CPU.finds(Severity::Note, evidence))
}

pub(super) const DRIVER_PAUSED: Rule = Rule {
    id: "driver-paused",
    title: "The driver did not run for a while",
    severity: "Doubt for a pause within the measurement",
    source: "fault study",
    advice: "Check whether the machine was suspended or is overcommitted, and repeat.",
    evidence: "Gaps in the clocks of the driver's threads; time in which several stood still counts once.",
    why: "A driver that does not run measures nothing, and a closed loop hides it.",
    tested: "A driver that stands still for a while, on a server that pgdyno runs.",
    check: RuleCheck::Run(driver_paused),
};

/// Length of the driver's pauses within the measurement, in units of the shortest reported pause.
pub(super) fn pause_excess(context: &RunContext) -> Option<f64> {
    Some(pauses(context)?.0 / PAUSE_S_MIN)
}

/// Seconds in which at least one of the driver's threads stood still, and when the first pause began.
pub(crate) fn pauses(context: &RunContext) -> Option<(f64, f64)> {
    let span = context.line.measured_span()?;
    let marks = context.summary.marks.iter();
    let mut pauses: Vec<(f64, f64)> = marks
        .filter(|mark| mark.kind == marks::PAUSE && marks::touches(mark, span))
        .map(|mark| (mark.from_s, mark.to_s))
        .collect();
    pauses.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some((union_s(&pauses), pauses.first()?.0))
}

/// Seconds that at least one span covers; spans are sorted by their starts.
fn union_s(spans: &[(f64, f64)]) -> f64 {
    let (mut total_s, mut end_s) = (0.0, f64::NEG_INFINITY);
    for &(from_s, to_s) in spans {
        total_s += (to_s - from_s.max(end_s)).max(0.0);
        end_s = to_s.max(end_s);
    }
    total_s
}

fn driver_paused(context: &RunContext) -> Option<Finding> {
    let (total_s, first_s) = pauses(context)?;
    let evidence = format!("paused for {} s in total, first at {}", figure(total_s), moment(first_s));
    Some(DRIVER_PAUSED.finds(Severity::Doubt, evidence))
}

pub(super) const TELEMETRY_MISSING: Rule = Rule {
    id: "telemetry-missing",
    title: "Some telemetry is missing",
    severity: "Note when a source was not available, was lost, or covers less than 80 % of the measurement",
    source: "our rule",
    advice: "Findings that need these figures stay silent; the reasons say what each of them needs.",
    evidence: "The sources, and why each is missing.",
    why: "Rules that need them are silent, and their silence proves nothing.",
    tested: "pgdyno stopped for a while next to a server that it runs, and eyes on a server's host that are killed.",
    check: RuleCheck::Run(telemetry_missing),
};

fn telemetry_missing(context: &RunContext) -> Option<Finding> {
    let unavailable = context.data.record.telemetry_unavailable.iter();
    let is_missed = |name: &str| !OPTIONAL.iter().any(|optional| name.starts_with(optional));
    let missed = unavailable.filter(|(name, _)| is_missed(name));
    let mut parts: Vec<String> = missed.map(|(name, reason)| format!("{name}: {reason}")).collect();
    let sessions = context.data.record.done.as_ref().and_then(|done| done.sessions.as_ref());
    let silent = sessions.and_then(|sessions| sessions.silent.as_ref());
    parts.extend(silent.map(|reason| format!("settings of the load's sessions: {}", excerpt(reason))));
    let lost = context.data.events.iter().filter(|event| {
        let t_s = context.line.place(event.t_unix_ns);
        let is_loaded = |t_s: f64| (0.0..=context.line.end_s).contains(&t_s) && !context.is_in_outage(t_s);
        let during = t_s.is_none_or(is_loaded);
        event.kind == EventKind::TelemetryLost && during
    });
    parts.extend(lost.map(|event| excerpt(&event.text)));
    if let Some((from_s, to_s)) = context.line.measured_span() {
        let sources =
            [("host", TickSource::Host), ("server", TickSource::Server), ("driver", TickSource::Driver)];
        for (what, source) in sources {
            let coverage = context.usage.coverage(source, from_s, to_s);
            if coverage < 0.8 {
                parts.push(format!("{what} telemetry covers {} of the measurement", percent(coverage)));
            }
        }
    }
    let finding = (!parts.is_empty()).then(|| TELEMETRY_MISSING.finds(Severity::Note, list(&parts, 4)))?;
    let advice = missing_advice(&context.data.record);
    Some(Finding { advice, ..finding })
}

/// How to see more on the server of a run: what nobody has to grant or to name, because pgdyno has it, is not asked for.
fn missing_advice(record: &RunRecord) -> String {
    let server = record.server.as_ref();
    let is_embedded = record.case.server.source.is_embedded();
    let is_limited = server.is_some_and(|server| server.unavailable.contains_key("all_stats"));
    let is_old = server.is_some_and(|server| !server.has(privileges::MONITORING_ROLES));
    let is_by_name = !is_embedded && is_limited;
    let is_elsewhere = !is_embedded && record.server_host().is_none();
    let right = if server.is_some_and(|server| server.in_recovery) {
        "grant pg_monitor to its role, on the primary"
    } else {
        "grant pg_monitor to its role"
    };
    let wanted: Vec<&str> = [
        (!is_embedded && is_old, "connect as a superuser"),
        (is_by_name && !is_old, right),
        (is_elsewhere, "observe the server's machine with --host"),
    ]
    .into_iter()
    .filter_map(|(is_wanted, what)| is_wanted.then_some(what))
    .collect();
    if wanted.is_empty() {
        return TELEMETRY_MISSING.advice.to_string();
    }
    format!("{} If they matter, {}.", TELEMETRY_MISSING.advice, wanted.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_several_threads_stood_still_counts_once() {
        assert_eq!(union_s(&[(1.0, 4.0), (2.0, 3.0), (3.5, 5.0), (7.0, 7.5)]), 4.5);
        assert_eq!(union_s(&[]), 0.0);
    }
}
