//! One run: from its records to its summary.

use model::experiment::case::Think;
use model::load::drive::Done;
use model::run::{RunData, RunRecord};
use model::telemetry::event::EventKind;

use crate::budget;
use crate::cost;
use crate::explain::disturbance;
use crate::finding::{Finding, Grade};
use crate::findings::{self, RunContext};
use crate::run::ExplainedRun;
use crate::run::analytical;
use crate::run::capacity;
use crate::run::counters;
use crate::run::imports;
use crate::run::limiter::{self, Conditions, ConnectTime};
use crate::run::marks;
use crate::run::resources;
use crate::run::scripts::replayed;
use crate::run::seconds::{self, Distributions};
use crate::run::series;
use crate::run::timeline::{Timeline, outage};
use crate::run::top_statements;
use crate::run::tpcc;
use crate::run::usage::{Parties, Usage};
use crate::summary::capacity::Capacity;
use crate::summary::limiter::Limiter;
use crate::summary::uncertainty::DisturbanceBounds;
use crate::summary::{
    Disturbance, ErrorSummary, LatencySummary, ResourceUsage, RunSummary, TelemetrySeries, TopStatement,
};

/// Explains one run; its telemetry over time, which takes most of the memory, only if it is wanted. `partner` is the other side of a duet ([`partner_of`](super::study::partner_of)).
pub fn explain(data: &RunData, partner: Option<&RunData>, wants_series: bool) -> ExplainedRun {
    let line = Timeline::from_run(data);
    let usage = usage_of(data, partner, &line);
    let driver_usage = usage.of_driver_host();
    let counted = seconds::count(data, &line);
    let measured_s = line.measured_s();
    let record = &data.record;
    let resources = resources::resources(data, &line, &usage, driver_usage.as_ref(), counted.measured);
    let capacity = capacity::of_run(data);
    let analytical = analytical::of_run(data);
    let tps = match &analytical {
        Some(queries) => queries.rate_per_s(),
        None => tps(capacity.as_ref(), counted.measured.committed, measured_s),
    };
    let mut summary = RunSummary {
        run: record.spec.run,
        block: record.spec.block,
        case: record.spec.case,
        repeat: record.repeat,
        disturbance: None,
        replaced_by: None,
        state: record.state,
        reason: record.reason.clone(),
        course: record.course,
        go_unix_ns: record.go_unix_ns,
        measured_s,
        counts: counted.measured,
        total: counted.total,
        errors: errors(data),
        tps,
        latency: latency_of(&counted.distributions, analytical.is_some()),
        analytical,
        outage: outage::of_run(data).map(Box::new),
        capacity,
        service: LatencySummary::from_histogram(&counted.distributions.service),
        lag: LatencySummary::from_histogram(&counted.distributions.lag),
        scripts: counted.distributions.script_summaries(measured_s),
        measures: counted.distributions.measure_summaries(),
        statements: counted.distributions.statement_summaries(),
        executions: counted.distributions.executions(&record.plans),
        tpcc: tpcc::summarize(&record.case, &counted.distributions, known(data, &line, &usage, &resources)),
        resources,
        costs: cost::of_run(data, partner, &line, &usage, counted.measured),
        counters: counters::of_run(data, &line, &usage, counted.measured),
        work: cost::work_done(data, &line, &usage, &counted.seconds),
        series: series_of(data, &line, &usage, driver_usage.as_ref(), wants_series),
        imported: imports::summaries(data, &line),
        marks: marks::marks(data, &line),
        seconds: counted.seconds,
        phases: phases(data),
        limiter: None,
        top_statements: top_statements_of(record, &line, &usage),
        fidelity: None,
        fairness: fairness_of(record),
        bounds: Vec::new(),
        findings: Vec::new(),
        grade: Grade::Valid,
    };
    summary.fidelity = replayed::of_run(record, &summary.seconds);
    summary.limiter = limiter_of(data, &line, &usage, &summary);
    let context = RunContext {
        data,
        line: &line,
        usage: &usage,
        driver_usage: driver_usage.as_ref(),
        summary: &summary,
        unreadable: &counted.unreadable,
        recorded: &counted.recorded,
    };
    judge(&context).enter(&mut summary);
    ExplainedRun { summary, distributions: counted.distributions, sees_checkpoints: sees_checkpoints(data) }
}

/// What host and server used, as each party's share.
fn usage_of<'a>(data: &'a RunData, partner: Option<&'a RunData>, line: &Timeline) -> Usage<'a> {
    let usage = Usage::new(line.place_ticks(&data.ticks), Parties::from_record(&data.record));
    if data.record.took_turns() {
        usage.with_partner(partner.map(|partner| line.place_ticks(&partner.ticks)))
    } else {
        usage
    }
}

fn top_statements_of(record: &RunRecord, line: &Timeline, usage: &Usage) -> Vec<TopStatement> {
    let Some(span) = line.measured_span() else { return Vec::new() };
    top_statements::of_run(usage, span, &record.statements, &record.telemetry_unavailable)
}

/// The latency of transactions, of which an analytical workload has too few to be a distribution.
fn latency_of(distributions: &Distributions, is_analytical: bool) -> Option<LatencySummary> {
    if is_analytical { None } else { LatencySummary::from_histogram(&distributions.latency) }
}

/// See [`RunSummary::tps`].
fn tps(capacity: Option<&Capacity>, n_committed: u64, measured_s: f64) -> Option<f64> {
    match capacity {
        Some(capacity) => capacity.rate.map(|rate| rate.point),
        None => (measured_s > 0.0).then(|| n_committed as f64 / measured_s),
    }
}

/// What the rules and the budget say of a run.
struct RunJudgement {
    findings: Vec<Finding>,
    disturbance: Option<Disturbance>,
    bounds: Vec<DisturbanceBounds>,
}

impl RunJudgement {
    fn enter(self, summary: &mut RunSummary) {
        summary.disturbance = self.disturbance;
        summary.bounds = self.bounds;
        summary.grade = Grade::from_findings(&self.findings);
        summary.findings = self.findings;
    }
}

fn judge(context: &RunContext) -> RunJudgement {
    let mut findings = findings::of_run(context);
    let disturbance = disturbance::find(context, &findings);
    let bounds = budget::of_run(context);
    budget::bound_findings(&mut findings, &bounds);
    RunJudgement { findings, disturbance, bounds }
}

fn series_of(
    data: &RunData,
    line: &Timeline,
    usage: &Usage,
    driver_usage: Option<&Usage>,
    are_wanted: bool,
) -> Vec<TelemetrySeries> {
    if are_wanted { series::series(data, line, usage, driver_usage) } else { Vec::new() }
}

/// Whether a checkpoint would have been seen: without the server's statistics or log the absence of one says nothing.
fn sees_checkpoints(data: &RunData) -> bool {
    let counted = |key: &str| key.starts_with("server.checkpoints");
    data.ticks.iter().any(|tick| tick.values.keys().any(counted))
        || data.events.iter().any(|event| event.kind == EventKind::ServerLog)
}

/// What figures of TPC-C need of a run.
fn known(data: &RunData, line: &Timeline, usage: &Usage, resources: &ResourceUsage) -> tpcc::TpccFacts {
    // One of several servers had a part of the New-Orders.
    let is_spread = data.record.spread_hosts().is_some();
    let span = if is_spread { None } else { line.measured_span() };
    tpcc::TpccFacts {
        measured_s: line.measured_s(),
        kept_orders: tpcc::kept_orders(data),
        nopm: None,
        of_runs: Vec::new(),
        server_tps: span.and_then(|(from_s, to_s)| usage.server_transactions(from_s, to_s)),
        driver_cpu: resources.driver_cpu,
        server_cpu: resources.server_cpu.filter(|_| !is_spread),
    }
}

/// What limited a run over its measurement. A search has no load of its own that could be limited, and a side of a duet
/// shares its time with the other one.
fn limiter_of(data: &RunData, line: &Timeline, usage: &Usage, summary: &RunSummary) -> Option<Limiter> {
    let record = &data.record;
    if summary.capacity.is_some() || record.took_turns() {
        return None;
    }
    let (from_s, to_s) = line.measured_span()?;
    let conditions = Conditions {
        n_clients: record.case.workload.n_clients,
        met_its_rate: met_its_rate(data, summary),
        has_pauses: has_pauses(record),
        tps: summary.tps,
        service_s: summary.service.map(|service| service.mean_ns / 1e9),
        connecting: connecting(data, summary),
        is_local: record.server_is_local
            && record.driver_is_on_host()
            && record.drivers.iter().all(|driver| driver.is_here),
    };
    limiter::of_run(usage, from_s, to_s, &summary.resources, &conditions, record)
}

/// How long transactions take to connect, if each does. At a rate, latency also has the wait for a free client.
fn connecting(data: &RunData, summary: &RunSummary) -> Option<ConnectTime> {
    data.record.load.as_ref().filter(|load| load.connect_each)?;
    let connects = || data.intervals.iter().map(|interval| interval.connects);
    let n: u64 = connects().map(|connects| connects.opened).sum();
    let sum_ns: f64 = connects().map(|connects| connects.sum_ns).sum();
    let connect_s = (n > 0).then(|| sum_ns / n as f64 / 1e9)?;
    Some(ConnectTime { connect_s, latency_s: summary.latency?.mean_ns / 1e9 })
}

/// Whether clients pause on purpose: in a script, or between transactions.
fn has_pauses(record: &RunRecord) -> bool {
    let load = record.load.as_ref();
    let sleeps = load.is_some_and(|load| load.scripts.iter().any(|script| script.source.contains("\\sleep")));
    sleeps || record.case.workload.tpcc.is_some_and(|tpcc| tpcc.think == Think::Spec)
}

/// Whether transactions were due at times of their own, all but what chance explains of them ended, and none had to queue.
fn met_its_rate(data: &RunData, summary: &RunSummary) -> bool {
    summary.sustains_its_rate(&data.record) && summary.queued_ns().is_none()
}

/// Errors of the whole load: the driver's totals, or the sum of the intervals if it never reported any.
fn errors(data: &RunData) -> Vec<ErrorSummary> {
    let done = data.record.done.as_ref();
    let mut by_sqlstate = done.map(|done| done.errors.clone()).unwrap_or_default();
    if done.is_none() {
        for (sqlstate, n) in data.intervals.iter().flat_map(|interval| &interval.errors) {
            *by_sqlstate.entry(sqlstate.clone()).or_default() += n;
        }
    }
    // The driver keeps `ERROR 22012: division by zero`, whose beginning is stored separately here.
    let message = |sqlstate: &str| {
        let told = done?.messages.get(sqlstate)?;
        let parts = told.split_once(&format!(" {sqlstate}: "));
        let beyond = parts.filter(|(severity, _)| !severity.contains(' ')).map(|(_, text)| text);
        Some(beyond.unwrap_or(told).to_string())
    };
    let mut errors: Vec<ErrorSummary> = by_sqlstate
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(sqlstate, n)| ErrorSummary { message: message(&sqlstate).unwrap_or_default(), sqlstate, n })
        .collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.n));
    errors
}

fn phases(data: &RunData) -> Vec<(String, f64)> {
    data.record.phases.iter().map(|record| (record.phase.as_str().to_string(), record.length_s())).collect()
}

/// How even the clients' shares were; `None` with an outage, of which the driver's totals are a part.
fn fairness_of(record: &RunRecord) -> Option<f64> {
    if record.outage.is_some() { None } else { record.done.as_ref().and_then(fairness) }
}

/// Jain's index; `None` for a single client, for which it means nothing.
fn fairness(done: &Done) -> Option<f64> {
    let shares: Vec<f64> = done.measured_by_client.iter().map(|n| *n as f64).collect();
    if shares.len() < 2 { None } else { stats::jain(&shares) }
}
