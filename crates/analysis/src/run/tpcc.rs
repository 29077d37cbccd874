//! TPC-C in its own terms: New-Orders per minute, response times against the limits of the specification, inputs
//! against their expected shares, and the conditions of the specification that a run does not meet.

use std::collections::BTreeMap;

use model::experiment::case::{Case, Isolation, Think};
use model::load::interval::Counts;
use model::run::RunData;
use model::workload::MainFigure;

use crate::run::scripts::ScriptSums;
use crate::run::seconds::Distributions;
use crate::summary::tpcc::{InputShare, ProfileSummary, TpccSummary};
use crate::summary::{LatencySummary, RunSummary};

const NEW_ORDER: &str = "new-order";
const DEFERRED: &str = "deferred-delivery";
/// Terminals of each warehouse (clause 4.2.2).
const TERMINALS_PER_WAREHOUSE: u32 = 10;
/// Most New-Orders per minute that keying and think times allow one warehouse (clause 4.2, note on the maximum).
const NOPM_PER_WAREHOUSE_MAX: f64 = 12.86;
/// Seconds of a measurement interval (clause 5.5, since revision 5.0).
const MEASURE_S_MIN: f64 = 7200.0;
/// Standard deviations by which a share may deviate from its expectation: exceeded by chance once in 16,000.
const SIGMAS: f64 = 4.0;
/// Share of deliveries that may be skipped (clause 2.7.4.2).
const SKIPPED_MAX: f64 = 0.01;

/// How HammerDB's TPROC-C differs from the specification: kept, because other numbers of the same name differ in the
/// same way.
const HAMMERDB_DIFFERS: [&str; 7] = [
    "items and customers are drawn uniformly, not by NURand: less contention (2.1.6)",
    "the New-Orders that should be rolled back are committed, with a line without price, and counted (2.4.1.4)",
    "C_YTD_PAYMENT, C_PAYMENT_CNT, C_DELIVERY_CNT, S_YTD, S_ORDER_CNT and S_REMOTE_CNT stay as they are",
    "balances are read without a lock before they are written: payments of one customer can be lost",
    "lines may take the amounts and district texts of other lines, and amounts have tax and discount in them",
    "each transaction is drawn by itself, without a deck; no keying or think times; deliveries are not deferred",
    "fewer clients than warehouses leave the other warehouses untouched, unless they cycle through all of them",
];
/// Additional differences with stored functions.
const HAMMERDB_FUNCTIONS_DIFFER: [&str; 2] = [
    "payments and order-statuses by last name look for the text of a placeholder and find nobody; such a payment sets \
     the balance of another customer (2.5.2.2)",
    "a deadlock ends in another error, because a function cannot roll back (2D000), and is not retried",
];
/// Additional differences with stored procedures.
const HAMMERDB_PROCEDURES_DIFFER: [&str; 2] = [
    "a last name that only one customer has finds nobody, and such a payment sets the balance of another (2.5.2.2)",
    "a procedure that rolled back for a deadlock returns as if it had succeeded: it counts as committed, not in NOPM and orders/min",
];

/// Whether a transaction that was rolled back may count as committed: HammerDB's procedures return normally after a
/// deadlock.
pub(crate) fn hides_rollbacks(case: &Case) -> bool {
    case.workload.kind.row().figure == MainFigure::HammerDb && case.workload.procedures
}

/// Counts of one kind of transaction over the whole load, and the sum of one of its facts.
pub(crate) fn over_load(data: &RunData, name: &str, fact: Option<&str>) -> (Counts, u64) {
    let scripts = data.record.load.as_ref().map(|load| load.scripts.as_slice()).unwrap_or_default();
    let mut sums = (Counts::default(), 0);
    for interval in &data.intervals {
        if scripts.get(interval.script as usize).is_some_and(|script| script.name == name) {
            sums.0 += interval.counts;
            sums.1 += fact.and_then(|fact| interval.facts.get(fact)).copied().unwrap_or(0);
        }
    }
    sums
}

/// The part of the New-Orders that count as committed which the districts counted too. It is that of the whole load, because the record
/// has their counts before and after it. All of them, where no rollback can hide or there are no such counts, or only those of one of
/// several servers.
pub(crate) fn kept_orders(data: &RunData) -> f64 {
    let rows = |counts: &BTreeMap<String, u64>| counts.get("orders").copied();
    let record = &data.record;
    let (before, after) = (rows(&record.rows_before), rows(&record.rows_after));
    if record.spread_hosts().is_some() {
        return 1.0;
    }
    match (hides_rollbacks(&record.case), before.zip(after), over_load(data, NEW_ORDER, None).0.committed) {
        (true, Some((before, after)), committed @ 1..) => {
            (after.saturating_sub(before) as f64 / committed as f64).min(1.0)
        }
        _ => 1.0,
    }
}

/// What is known of a run, or of the runs of a case, apart from the driver's counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct TpccFacts {
    pub(crate) measured_s: f64,
    /// The part of the New-Orders that count as committed which the districts counted too.
    pub(crate) kept_orders: f64,
    /// New-Orders per minute of all runs of a case together; none for a single run.
    pub(crate) nopm: Option<f64>,
    /// Empty for a single run.
    pub(crate) of_runs: Vec<Rates>,
    /// Transactions of all databases per second of a single run.
    pub(crate) server_tps: Option<f64>,
    /// CPU seconds per second.
    pub(crate) driver_cpu: Option<f64>,
    pub(crate) server_cpu: Option<f64>,
}

/// What a run is measured by, per minute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    nopm: f64,
    orders: f64,
    tpm: f64,
    server_tpm: Option<f64>,
}

impl Rates {
    fn from_summary(summary: &TpccSummary) -> Rates {
        let TpccSummary { nopm, orders_per_min, tpm, server_tpm, .. } = *summary;
        Rates { nopm, orders: orders_per_min, tpm, server_tpm }
    }

    /// Of each the median, as of throughput: one slow run moves a mean.
    fn medians(runs: &[Rates]) -> Rates {
        let median = |all: &[f64]| stats::median(all).unwrap_or_default();
        let median_of = |of: &dyn Fn(&Rates) -> f64| median(&runs.iter().map(of).collect::<Vec<f64>>());
        let server_tpm: Option<Vec<f64>> = runs.iter().map(|rates| rates.server_tpm).collect();
        Rates {
            nopm: median_of(&|rates| rates.nopm),
            orders: median_of(&|rates| rates.orders),
            tpm: median_of(&|rates| rates.tpm),
            server_tpm: server_tpm.map(|all| median(&all)),
        }
    }
}

impl TpccFacts {
    /// Combines the runs of a case: sums, and means weighted by each run's length.
    pub(crate) fn of_runs(runs: &[&RunSummary]) -> TpccFacts {
        let measured_s: f64 = runs.iter().map(|run| run.measured_s).sum();
        let mean = |of: &dyn Fn(&RunSummary) -> Option<f64>| -> Option<f64> {
            let sum: Option<f64> = runs.iter().map(|run| Some(of(run)? * run.measured_s)).sum();
            sum.filter(|_| measured_s > 0.0).map(|sum| sum / measured_s)
        };
        TpccFacts {
            measured_s,
            kept_orders: 1.0,
            nopm: mean(&|run| run.tpcc.as_ref().map(|tpcc| tpcc.nopm)),
            of_runs: runs.iter().filter_map(|run| run.tpcc.as_ref().map(Rates::from_summary)).collect(),
            server_tps: None,
            driver_cpu: mean(&|run| run.resources.driver_cpu),
            server_cpu: mean(&|run| run.resources.server_cpu),
        }
    }
}

/// The summary of a run, or of several of a case; `None` for other workloads.
pub(crate) fn summarize(case: &Case, sums: &Distributions, known: TpccFacts) -> Option<TpccSummary> {
    let figure = case.workload.kind.row().figure;
    let is_hammerdb = figure == MainFigure::HammerDb;
    let TpccFacts { measured_s, kept_orders, nopm, of_runs, server_tps, driver_cpu, server_cpu } = known;
    if figure == MainFigure::Throughput || measured_s <= 0.0 {
        return None;
    }
    let scripts = &sums.scripts;
    let per_min = |n: u64| n as f64 * 60.0 / measured_s;
    let mut profiles = profiles(scripts.values());
    if is_hammerdb {
        profiles.iter_mut().for_each(|profile| profile.p90_limit_ns = None);
    }
    let new_orders = scripts.values().find(|sums| sums.name == NEW_ORDER);
    let n_new_orders = new_orders.map_or(0, |sums| sums.counts.committed);
    let n_undone = new_orders.map_or(0, |sums| sums.fact("rolled_back"));
    let of_terminals = profiles.iter().filter(|profile| profile.name != DEFERRED);
    let together = Rates {
        nopm: nopm.unwrap_or(kept_orders * per_min(n_new_orders)),
        orders: kept_orders * per_min(n_new_orders.saturating_sub(n_undone)),
        tpm: per_min(of_terminals.map(|profile| profile.counts.committed).sum()),
        server_tpm: server_tps.filter(|_| is_hammerdb).map(|tps| tps * 60.0),
    };
    let shown = if of_runs.is_empty() { together } else { Rates::medians(&of_runs) };
    // HammerDB draws items and quantities in the server, where they are not counted.
    let inputs = if is_hammerdb { Vec::new() } else { inputs(scripts.values(), case.workload.scale) };
    let each_1000 = |cpu: Option<f64>| Some(cpu? * 60_000.0 / together.nopm).filter(|_| together.nopm > 0.0);
    let mut summary = TpccSummary {
        nopm: shown.nopm,
        nopm_runs: if of_runs.is_empty() {
            vec![shown.nopm]
        } else {
            of_runs.iter().map(|run| run.nopm).collect()
        },
        orders_per_min: shown.orders,
        tpm: shown.tpm,
        server_tpm: shown.server_tpm,
        driver_cpu_s: each_1000(driver_cpu),
        server_cpu_s: each_1000(server_cpu),
        nopm_per_warehouse: shown.nopm / f64::from(case.workload.scale.max(1)),
        profiles,
        inputs,
        unmet: Vec::new(),
    };
    summary.unmet = match case.workload.tpcc {
        Some(spec) => unmet(case, spec.think, spec.isolation, &summary),
        None => {
            let of_routines =
                if case.workload.procedures { HAMMERDB_PROCEDURES_DIFFER } else { HAMMERDB_FUNCTIONS_DIFFER };
            HAMMERDB_DIFFERS.into_iter().chain(of_routines).map(String::from).collect()
        }
    };
    Some(summary)
}

fn profiles<'a>(scripts: impl Iterator<Item = &'a ScriptSums> + Clone) -> Vec<ProfileSummary> {
    let n: u64 = scripts.clone().filter(|sums| sums.name != DEFERRED).map(|sums| sums.counts.committed).sum();
    let profile = |sums: &ScriptSums| ProfileSummary {
        name: sums.name.clone(),
        counts: sums.counts,
        share: (sums.name != DEFERRED && n > 0).then(|| sums.counts.committed as f64 / n as f64),
        latency: LatencySummary::from_histogram(&sums.latency),
        service: LatencySummary::from_histogram(&sums.service),
        p90_limit_ns: Some(p90_limit_s(&sums.name) * 1_000_000_000),
    };
    scripts.map(profile).collect()
}

/// Limits of the 90th percentile in seconds: clause 5.2.5.3; for deferred deliveries, clause 2.7.2.2.
fn p90_limit_s(profile: &str) -> u64 {
    match profile {
        "stock-level" => 20,
        DEFERRED => 80,
        _ => 5,
    }
}

fn inputs<'a>(scripts: impl Iterator<Item = &'a ScriptSums> + Clone, warehouses: u32) -> Vec<InputShare> {
    let of = |name: &str| scripts.clone().find(|sums| sums.name == name);
    let committed = |name: &str| of(name).map_or(0, |sums| sums.counts.committed);
    let fact = |name: &str, fact: &str| of(name).map_or(0, |sums| sums.fact(fact));
    let (orders, lines) = (committed(NEW_ORDER), fact(NEW_ORDER, "lines"));
    let payments = committed("payment");
    // With one warehouse there is no other.
    let away = |share: f64| if warehouses > 1 { share } else { 0.0 };
    let mut all = vec![
        share("New-Orders rolled back", fact(NEW_ORDER, "rolled_back"), orders, 0.01),
        share("lines from another warehouse", fact(NEW_ORDER, "remote_lines"), lines, away(0.01)),
        share("payments of another warehouse's customers", fact("payment", "remote"), payments, away(0.15)),
        share("payments by last name", fact("payment", "by_name"), payments, 0.60),
        share(
            "Order-Statuses by last name",
            fact("order-status", "by_name"),
            committed("order-status"),
            0.60,
        ),
    ];
    // Uniform over 5 to 15: variance 10.
    let band = SIGMAS * (10.0 / (orders.max(1)) as f64).sqrt();
    let mean = if orders == 0 { 0.0 } else { lines as f64 / orders as f64 };
    all.push(InputShare {
        what: "lines of an order".to_string(),
        n: orders,
        counted: mean,
        expected: 10.0,
        low: 10.0 - band,
        high: 10.0 + band,
    });
    let delivered = fact("delivery", "delivered") + fact(DEFERRED, "delivered");
    let skipped = fact("delivery", "skipped") + fact(DEFERRED, "skipped");
    all.push(InputShare {
        what: "districts without an order to deliver".to_string(),
        n: delivered + skipped,
        counted: ratio(skipped, delivered + skipped),
        expected: 0.0,
        low: 0.0,
        high: SKIPPED_MAX,
    });
    let n: u64 = scripts.clone().filter(|sums| sums.name != DEFERRED).map(|sums| sums.counts.committed).sum();
    // Clause 5.2.3: the minimum share of each except New-Order.
    for (name, least) in
        [("payment", 0.43), ("order-status", 0.04), ("delivery", 0.04), ("stock-level", 0.04)]
    {
        let chance = share(&format!("share of {name}"), committed(name), n, least);
        all.push(InputShare { high: 1.0, ..chance });
    }
    all
}

fn share(what: &str, k: u64, n: u64, expected: f64) -> InputShare {
    let band = SIGMAS * (expected * (1.0 - expected) / n.max(1) as f64).sqrt();
    InputShare {
        what: what.to_string(),
        n,
        counted: ratio(k, n),
        expected,
        low: expected - band,
        high: expected + band,
    }
}

fn ratio(k: u64, n: u64) -> f64 {
    if n == 0 { 0.0 } else { k as f64 / n as f64 }
}

fn unmet(case: &Case, think: Think, isolation: Isolation, summary: &TpccSummary) -> Vec<String> {
    let workload = &case.workload;
    let mut unmet = Vec::new();
    if think == Think::None {
        unmet.push(
            "terminals neither key nor think (clause 5.2.5), and deliveries are not deferred (2.7.2)"
                .to_string(),
        );
    }
    let terminals = workload.scale.saturating_mul(TERMINALS_PER_WAREHOUSE);
    if workload.n_clients != terminals {
        unmet.push(format!("{} terminals instead of ten for each warehouse (4.2.2)", workload.n_clients));
    }
    if f64::from(case.window.measure_s) < MEASURE_S_MIN {
        unmet.push(format!("{} s measured instead of two hours (5.5)", case.window.measure_s));
    }
    if summary.nopm_per_warehouse > NOPM_PER_WAREHOUSE_MAX {
        unmet.push(format!(
            "{:.0} New-Orders per minute and warehouse; terminals with think times reach {NOPM_PER_WAREHOUSE_MAX} at most (4.2)",
            summary.nopm_per_warehouse
        ));
    }
    if isolation != Isolation::Serializable {
        unmet.push(format!("isolation level {isolation}: level 3 (3.4.1) is not guaranteed"));
    }
    let late = summary.profiles.iter().filter(|profile| !profile.is_in_limit());
    unmet.extend(late.map(|profile| {
        format!("90th percentile of {} above {} s (5.2.5.3)", profile.name, p90_limit_s(&profile.name))
    }));
    let missed = summary.inputs.iter().filter(|input| !input.is_met());
    unmet.extend(
        missed.map(|input| format!("{}: {:.3}, not {:.3}", input.what, input.counted, input.expected)),
    );
    unmet.push(
        "no audit, full disclosure report, price, 60-day space, or durability test (clauses 3.5, 4.2.3, 7 to 9)"
            .to_string(),
    );
    unmet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_run_does_not_move_the_rates_of_a_case() {
        let run = |nopm: f64| Rates { nopm, orders: 0.99 * nopm, tpm: 2.0 * nopm, server_tpm: None };
        let case = Rates::medians(&[run(400.0), run(100.0), run(410.0)]);
        assert_eq!((case.nopm, case.orders, case.tpm, case.server_tpm), (400.0, 396.0, 800.0, None));
    }
}
