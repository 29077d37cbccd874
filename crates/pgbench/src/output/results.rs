//! The results as pgbench prints them at the end: a pure function of plan and totals.

use std::fmt::Write;

use model::load::OnDisconnect;
use model::load::histogram::HistogramSum;
use model::load::interval::{CommandTally, Connects, Moments};
use model::release::pgbench;

use super::totals::{ScriptTotals, Sums, Totals};
use crate::command_line::options::{BenchPlan, Length};
use crate::compat::Compat;
use crate::prepare::StandardTables;

/// Quantiles of `--percentiles` and their names.
pub(crate) const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "50"), (0.9, "90"), (0.95, "95"), (0.99, "99"), (0.999, "99.9"), (1.0, "100")];

/// All that is printed at the end.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    /// The release whose format is used.
    pub(crate) compat: Compat,
    /// The load that the user asked for.
    pub(crate) plan: &'a BenchPlan,
    /// The tables the load ran on.
    pub(crate) tables: StandardTables,
    /// Counts and times of all transactions.
    pub(crate) totals: &'a Totals,
    /// From the beginning to the end of the last transaction, nanoseconds.
    pub(crate) duration_ns: u64,
    /// Time taken to connect all clients before the load, nanoseconds.
    pub(crate) first_connects_ns: u64,
}

/// A number in the format of PostgreSQL's `printf`: Rust writes infinity and NaN differently.
pub(crate) fn decimal(value: f64, digits: usize) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_string(),
        _ if value.is_infinite() => format!("{}Infinity", if value < 0.0 { "-" } else { "" }),
        _ => format!("{value:.digits$}"),
    }
}

fn percent(part: u64, whole: u64, digits: usize) -> String {
    decimal(100.0 * part as f64 / whole as f64, digits)
}

fn ms(ns: f64) -> String {
    decimal(ns / 1e6, 3)
}

impl Results<'_> {
    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut out = Out(String::new());
        self.conditions(&mut out);
        if self.figures(&mut out) {
            self.each_script(&mut out);
        }
        out.0
    }

    fn duration_s(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    /// Time spent connecting: before the load, or with `-C` in total, nanoseconds.
    pub(crate) fn connect_ns(&self) -> f64 {
        if self.plan.connect_each { self.totals.all.connects.sum_ns } else { self.first_connects_ns as f64 }
    }

    /// Connections that were lost, if they are made again.
    pub(crate) fn outages(&self) -> Option<Connects> {
        let reconnects = self.plan.added.on_disconnect == OnDisconnect::Reconnect;
        reconnects.then_some(self.totals.all.connects)
    }

    fn shows_skipped(&self) -> bool {
        self.plan.rate_per_s.is_some() && self.plan.latency_limit_us.is_some()
    }

    /// Prints what the load was.
    fn conditions(&self, out: &mut Out) {
        let plan = self.plan;
        let name = match &plan.scripts[..] {
            [script] => script.name.as_str(),
            _ => "multiple scripts",
        };
        out.line(format_args!("transaction type: {name}"));
        out.line(format_args!("scaling factor: {}", self.tables.scale));
        if let Some(method) = self.tables.partition_method {
            out.line(format_args!("partition method: {method}"));
            out.line(format_args!("partitions: {}", self.tables.n_partitions));
        }
        out.line(format_args!("query mode: {}", plan.protocol.as_str()));
        out.line(format_args!("number of clients: {}", plan.n_clients));
        out.line(format_args!("number of threads: {}", plan.n_threads));
        if plan.max_tries > 0 {
            out.line(format_args!("maximum number of tries: {}", plan.max_tries));
        }
        let processed = self.totals.all.processed();
        match plan.length {
            Length::Transactions(n) => {
                let asked = u64::from(n) * u64::from(plan.n_clients);
                out.line(format_args!("number of transactions per client: {n}"));
                out.line(format_args!("number of transactions actually processed: {processed}/{asked}"));
            }
            Length::Seconds(n) => {
                out.line(format_args!("duration: {n} s"));
                out.line(format_args!("number of transactions actually processed: {processed}"));
            }
        }
        if plan.added.grace_s.is_some() {
            let n = self.totals.all.counts.aborted;
            out.line(format_args!("number of transactions cancelled after the end: {n}"));
        }
    }

    /// Prints the figures. Returns whether to print results of single scripts.
    fn figures(&self, out: &mut Out) -> bool {
        let (plan, all) = (self.plan, &self.totals.all);
        // Since 18, failures are printed even if nothing else happened, but not if nothing at all did.
        if self.compat.has(pgbench::COUNTS_ALL_PER_SCRIPT) && all.total() == 0 {
            return false;
        }
        out.failures("", all, plan);
        if !self.compat.has(pgbench::COUNTS_ALL_PER_SCRIPT) && all.processed() + all.counts.skipped == 0 {
            return false;
        }
        if self.shows_skipped() {
            out.skipped("", all);
        }
        if let Some(limit_us) = plan.latency_limit_us {
            let late = all.counts.late;
            let share = if all.processed() > 0 { 100.0 * late as f64 / all.processed() as f64 } else { 0.0 };
            out.line(format_args!(
                "number of transactions above the {} ms latency limit: {late}/{} ({}%)",
                decimal(limit_us as f64 / 1000.0, 1),
                all.processed(),
                decimal(share, 3)
            ));
        }
        let measures = plan.rate_per_s.is_some() || plan.progress_s > 0 || plan.latency_limit_us.is_some();
        // Percentiles go with the measured mean.
        if measures || plan.added.percentiles {
            out.moments("latency", &all.latency);
        } else {
            // pgbench measured nothing here: the mean follows from the number of transactions.
            let mean_ns = self.duration_ns as f64 * f64::from(plan.n_clients) / all.total() as f64;
            let remark = if all.failures() > 0 { " (including failures)" } else { "" };
            out.line(format_args!("latency average = {} ms{remark}", ms(mean_ns)));
        }
        if plan.added.percentiles {
            out.percentiles("latency", &self.totals.latency(), &all.latency);
        }
        if plan.rate_per_s.is_some() {
            // pgbench divides by their number even if it is 0.
            let (mean, max) = (ms(all.lag.sum / all.processed() as f64), ms(all.lag.max));
            out.line(format_args!("rate limit schedule lag: avg {mean} (max {max}) ms"));
        }
        if let Some(Connects { lost, failed, outage_ns, .. }) = self.outages() {
            out.line(format_args!("number of connections lost: {lost}"));
            let outage_s = decimal(outage_ns / 1e9, 3);
            out.line(format_args!("time without connection, all clients = {outage_s} s"));
            out.line(format_args!("number of transactions failed with their connection: {failed}"));
            out.line(format_args!("number of transactions of unknown outcome: {}", all.counts.unknown));
        }
        self.connections_and_tps(out);
        true
    }

    fn connections_and_tps(&self, out: &mut Out) {
        let all = &self.totals.all;
        let tps = decimal(all.processed() as f64 / self.duration_s(), 6);
        if self.plan.connect_each {
            let mean_ns = self.connect_ns() / (all.processed() + all.failures()) as f64;
            out.line(format_args!("average connection time = {} ms", ms(mean_ns)));
            out.line(format_args!("tps = {tps} (including reconnection times)"));
        } else {
            out.line(format_args!("initial connection time = {} ms", ms(self.connect_ns())));
            out.line(format_args!("tps = {tps} (without initial connection time)"));
        }
    }

    fn each_script(&self, out: &mut Out) {
        let is_one_of_several = self.plan.scripts.len() > 1;
        if !is_one_of_several && !self.plan.per_command && !self.plan.added.percentiles {
            return;
        }
        for (number, totals) in self.totals.scripts.iter().enumerate() {
            if is_one_of_several {
                self.script(out, number, totals);
            }
            if self.plan.per_command {
                self.commands(out, number, totals);
            }
            if self.plan.added.percentiles {
                self.statement_percentiles(out, number, totals);
            }
        }
    }

    fn script(&self, out: &mut Out, number: usize, totals: &ScriptTotals) {
        let (plan, sums) = (self.plan, &totals.sums);
        let script = &plan.scripts[number];
        let weights: u64 = plan.scripts.iter().map(|script| u64::from(script.weight)).sum();
        let share = percent(script.weight.into(), weights, 1);
        out.line(format_args!("SQL script {}: {}", number + 1, script.name));
        out.line(format_args!(" - weight: {} (targets {share}% of total)", script.weight));
        let tps = decimal(sums.processed() as f64 / self.duration_s(), 6);
        let shows_rest = if self.compat.has(pgbench::COUNTS_ALL_PER_SCRIPT) {
            let (part, whole) = (sums.total(), self.totals.all.total());
            out.line(format_args!(" - {part} transactions ({}% of total)", percent(part, whole, 1)));
            if part > 0 {
                let processed = sums.processed();
                out.line(format_args!(
                    " - number of transactions actually processed: {processed} (tps = {tps})"
                ));
            }
            part > 0
        } else {
            let (part, whole) = (sums.processed(), self.totals.all.processed());
            let share = percent(part, whole, 1);
            out.line(format_args!(" - {part} transactions ({share}% of total, tps = {tps})"));
            true
        };
        if shows_rest {
            out.failures(" - ", sums, plan);
            if self.shows_skipped() && sums.total() > 0 {
                out.skipped(" - ", sums);
            }
        }
        out.moments(" - latency", &sums.latency);
        if plan.added.percentiles {
            out.percentiles(" - latency", &totals.latency, &sums.latency);
        }
    }

    fn commands(&self, out: &mut Out, number: usize, totals: &ScriptTotals) {
        let plan = self.plan;
        let prefix = if plan.scripts.len() > 1 { " - " } else { "" };
        let retries = plan.max_tries != 1;
        let what = if retries { ", failures and retries" } else { " and failures" };
        out.line(format_args!("{prefix}statement latencies in milliseconds{what}:"));
        // Two spaces before 18.
        let gap = if self.compat.has(pgbench::COUNTS_ALL_PER_SCRIPT) { " " } else { "  " };
        for (at, step) in plan.scripts[number].program.commands.iter().enumerate() {
            let tally = totals.commands.get(at).copied().unwrap_or_default();
            let CommandTally { n, sum_ns, failed, retries: n_retries } = tally;
            let mean_ms = if n > 0 { sum_ns / n as f64 / 1e6 } else { 0.0 };
            let retried = if retries { format!("{gap}{n_retries:>10}") } else { String::new() };
            let mean = decimal(mean_ms, 3);
            out.line(format_args!("   {mean:>11}  {failed:>10}{retried}{gap}{}", step.label));
        }
    }

    fn statement_percentiles(&self, out: &mut Out, number: usize, totals: &ScriptTotals) {
        let prefix = if self.plan.scripts.len() > 1 { " - " } else { "" };
        let names: Vec<&str> = PERCENTILES.iter().map(|(_, name)| *name).collect();
        out.line(format_args!("{prefix}statement percentiles ({}) in milliseconds:", names.join(", ")));
        let statements = &self.plan.scripts[number].program.statements;
        for (at, statement) in statements.iter().enumerate() {
            let columns: String = PERCENTILES
                .iter()
                .map(|(q, _)| {
                    let ns = totals.statements.get(&at).and_then(|sum| sum.quantile_ns(*q)).unwrap_or(0);
                    format!(" {:>11}", ms(ns as f64))
                })
                .collect();
            out.line(format_args!("  {columns}  {}", statement.label));
        }
    }
}

/// The text, and the lines that several parts share.
struct Out(String);

impl Out {
    fn line(&mut self, text: std::fmt::Arguments) {
        writeln!(self.0, "{text}").expect("writing to a string succeeds");
    }

    fn failures(&mut self, prefix: &str, sums: &Sums, plan: &BenchPlan) {
        let total = sums.total();
        let mut share = |what: &str, n: u64| {
            self.line(format_args!("{prefix}number of {what}: {n} ({}%)", percent(n, total, 3)));
        };
        share("failed transactions", sums.failures());
        if plan.failures_detailed {
            share("serialization failures", sums.serialization_failures());
            share("deadlock failures", sums.deadlock_failures());
            if plan.added.continue_on_error {
                share("other failures", sums.other_failures);
            }
        }
        if plan.max_tries != 1 {
            share("transactions retried", sums.counts.retried);
            self.line(format_args!("{prefix}total number of retries: {}", sums.counts.retries));
        }
    }

    fn skipped(&mut self, prefix: &str, sums: &Sums) {
        let (n, share) = (sums.counts.skipped, percent(sums.counts.skipped, sums.total(), 3));
        self.line(format_args!("{prefix}number of transactions skipped: {n} ({share}%)"));
    }

    fn moments(&mut self, what: &str, moments: &Moments) {
        if moments.n > 0 {
            self.line(format_args!("{what} average = {} ms", ms(moments.mean())));
            self.line(format_args!("{what} stddev = {} ms", ms(moments.sd())));
        }
    }

    /// `moments` has the exact maximum; the histogram rounds.
    fn percentiles(&mut self, what: &str, sum: &HistogramSum, moments: &Moments) {
        for (q, name) in PERCENTILES {
            if let Some(ns) = sum.quantile_ns(q) {
                let ns = (ns as f64).min(moments.max);
                self.line(format_args!("{what} percentile {name} = {} ms", ms(ns)));
            }
        }
    }
}
