//! The results as JSON: everything in the text and more, unrounded.

use model::load::drive::{Done, LoadEnding};
use model::load::histogram::HistogramSum;
use model::load::interval::Moments;
use serde_json::{Value, json};

use super::results::{PERCENTILES, Results};
use super::totals::{ScriptTotals, Sums};
use crate::command_line::options::Length;

/// Version of the format.
const FORMAT: u32 = 1;

/// The results as one line.
pub(crate) fn text(results: &Results, done: &Done, server_version: &str) -> String {
    let plan = results.plan;
    let (transactions_per_client, seconds) = match plan.length {
        Length::Transactions(n) => (Some(n), None),
        Length::Seconds(n) => (None, Some(n)),
    };
    let duration_s = results.duration_ns as f64 / 1e9;
    let all = &results.totals.all;
    let scripts: Vec<Value> = results
        .totals
        .scripts
        .iter()
        .enumerate()
        .map(|(number, totals)| script(results, number, totals, duration_s))
        .collect();
    let value = json!({
        "format": FORMAT,
        "program": concat!("pgdyno ", env!("CARGO_PKG_VERSION")),
        "server_version": server_version,
        "scale": results.tables.scale,
        "partition_method": results.tables.partition_method,
        "partitions": results.tables.n_partitions,
        "protocol": plan.protocol.as_str(),
        "clients": plan.n_clients,
        "threads": plan.n_threads,
        "max_tries": plan.max_tries,
        "transactions_per_client": transactions_per_client,
        "seconds": seconds,
        "ramp_up_s": plan.added.ramp_up_s,
        "rate_per_s": plan.rate_per_s,
        "latency_limit_ms": plan.latency_limit_us.map(|us| us as f64 / 1000.0),
        "random_seed": plan.seed,
        "is_complete": done.ending == LoadEnding::Completed && done.clients_lost == 0,
        "clients_aborted": done.clients_lost,
        "duration_s": duration_s,
        "connect_s": results.connect_ns() / 1e9,
        "tps": all.processed() as f64 / duration_s,
        "transactions": counts(all),
        "latency_ms": times(&all.latency, Some(&results.totals.latency())),
        "lag_ms": times(&all.lag, None),
        "outage_s": results.outages().map(|connects| connects.outage_ns / 1e9),
        "connections_lost": results.outages().map(|connects| connects.lost),
        "error_messages": done.messages,
        "scripts": scripts,
    });
    value.to_string() + "\n"
}

fn script(results: &Results, number: usize, totals: &ScriptTotals, duration_s: f64) -> Value {
    let script = &results.plan.scripts[number];
    let mut statement = 0;
    let commands: Vec<Value> = script
        .program
        .commands
        .iter()
        .enumerate()
        .map(|(at, step)| {
            let histogram = match step.command {
                workload::ScriptCommand::Sql { .. } => {
                    statement += 1;
                    totals.statements.get(&(statement - 1))
                }
                _ => None,
            };
            let tally = totals.commands.get(at).filter(|tally| tally.n > 0);
            json!({
                "line": step.line,
                "text": step.label,
                "average_ms": tally.map(|tally| tally.sum_ns / tally.n as f64 / 1e6),
                "failures": tally.map(|tally| tally.failed),
                "retries": tally.map(|tally| tally.retries),
                "percentiles_ms": histogram.map(|sum| percentiles(sum, f64::INFINITY)),
            })
        })
        .collect();
    json!({
        "name": script.name,
        "weight": script.weight,
        "tps": totals.sums.processed() as f64 / duration_s,
        "transactions": counts(&totals.sums),
        "latency_ms": times(&totals.sums.latency, Some(&totals.latency)),
        "commands": commands,
    })
}

fn counts(sums: &Sums) -> Value {
    let counts = &sums.counts;
    json!({
        "processed": sums.processed(),
        "failed": sums.failures(),
        "serialization_failures": sums.serialization_failures(),
        "deadlock_failures": sums.deadlock_failures(),
        "other_failures": sums.other_failures,
        "skipped": counts.skipped,
        "late": counts.late,
        "retried": counts.retried,
        "retries": counts.retries,
        "unknown": counts.unknown,
        "aborted": counts.aborted,
        "errors": sums.errors,
    })
}

fn times(moments: &Moments, histogram: Option<&HistogramSum>) -> Value {
    if moments.n == 0 {
        return Value::Null;
    }
    json!({
        "average": moments.mean() / 1e6,
        "stddev": moments.sd() / 1e6,
        "min": moments.min / 1e6,
        "max": moments.max / 1e6,
        "percentiles": histogram.map(|sum| percentiles(sum, moments.max)),
    })
}

/// Percentiles of a histogram; `max_ns` is the maximum if it is known more exactly than the histogram has it.
fn percentiles(sum: &HistogramSum, max_ns: f64) -> Value {
    let quantile = |q| sum.quantile_ns(q).map(|ns| (ns as f64).min(max_ns) / 1e6);
    PERCENTILES
        .iter()
        .map(|&(q, name)| (name.to_string(), json!(quantile(q))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
