//! The sum that adds up: by how much each statement makes B's mean transaction longer, and what is left.
//!
//! With `n` executions per transaction and the mean time `m` of each statement, and the mean transaction `T = Σ n m + r`, of which `r` is
//! the client's time between statements, a pair's difference is
//! `T_B - T_A = Σ ½(n_A + n_B)(m_B - m_A) + Σ ½(m_A + m_B)(n_B - n_A) + (r_B - r_A)` (Kitagawa, "Components of a Difference Between Two
//! Rates", 1955). The parts of a comparison are means over pairs, so that they add up as those of each pair do.

use serde::Serialize;

use super::key::StatementKey;
use crate::comparison::{Pairing, Samples};
use crate::summary::RunSummary;

/// Level of the intervals.
const LEVEL: f64 = 0.95;

/// A part of a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TimePart {
    /// Nanoseconds per transaction.
    pub ns: f64,
    /// Lower end of the 95 % interval of the mean over pairs (Student's t); `None` with too few pairs.
    pub low_ns: Option<f64>,
    /// Upper end.
    pub high_ns: Option<f64>,
}

/// What the mean transaction of B takes longer than that of A, apart from the statements' times. All parts add up to `difference`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransactionSum {
    /// Mean service time of A's transactions, nanoseconds: mean over pairs.
    pub a_ns: f64,
    /// The same of B's.
    pub b_ns: f64,
    /// B's less A's.
    pub difference: TimePart,
    /// What comes from other numbers of executions per transaction.
    pub calls: TimePart,
    /// What comes from the client's time between statements, and from transactions that failed.
    pub between: TimePart,
}

/// Differences of all pairs, split.
pub(super) struct Parts {
    /// Sums by statement, then by pair.
    statements: Vec<Vec<f64>>,
    calls: Vec<f64>,
    between: Vec<f64>,
    /// Mean transactions of A and of B by pair.
    whole: [Vec<f64>; 2],
}

/// A side of a pair, per transaction: the mean transaction, and executions and mean time of each statement.
struct SideMeans {
    whole_ns: f64,
    statements: Vec<(f64, Option<f64>)>,
}

impl SideMeans {
    fn of_run(run: &RunSummary, keys: &[StatementKey]) -> Option<SideMeans> {
        let service = run.service.filter(|service| service.n > 0)?;
        let of = |key: &StatementKey| {
            let found = key.find(run);
            let n = found.map_or(0.0, |found| found.n as f64);
            (n / service.n as f64, found.and_then(|found| found.mean_ns()))
        };
        Some(SideMeans { whole_ns: service.mean_ns, statements: keys.iter().map(of).collect() })
    }

    /// The mean of runs that have no partners.
    fn of_runs(runs: &[&RunSummary], keys: &[StatementKey]) -> Option<SideMeans> {
        let sides: Vec<SideMeans> = runs.iter().filter_map(|run| SideMeans::of_run(run, keys)).collect();
        let n_runs = sides.len() as f64;
        let of = |at: usize| {
            let n: f64 = sides.iter().map(|side| side.statements[at].0).sum();
            let time = |side: &SideMeans| side.statements[at].0 * side.statements[at].1.unwrap_or(0.0);
            let times: f64 = sides.iter().map(time).sum();
            (n / n_runs, (n > 0.0).then(|| times / n))
        };
        let whole_ns = sides.iter().map(|side| side.whole_ns).sum::<f64>() / n_runs;
        (!sides.is_empty()).then(|| SideMeans { whole_ns, statements: (0..keys.len()).map(of).collect() })
    }

    fn between_ns(&self) -> f64 {
        let in_statements: f64 = self.statements.iter().map(|(n, mean_ns)| n * mean_ns.unwrap_or(0.0)).sum();
        self.whole_ns - in_statements
    }
}

impl Parts {
    pub(super) fn new(samples: &Samples, keys: &[StatementKey], pairing: Pairing) -> Parts {
        let mut parts = Parts {
            statements: vec![Vec::new(); keys.len()],
            calls: Vec::new(),
            between: Vec::new(),
            whole: [Vec::new(), Vec::new()],
        };
        if pairing.is_paired() {
            for (a, b) in samples.a.iter().zip(&samples.b) {
                parts.add(SideMeans::of_run(a, keys).zip(SideMeans::of_run(b, keys)));
            }
        } else {
            parts.add(SideMeans::of_runs(&samples.a, keys).zip(SideMeans::of_runs(&samples.b, keys)));
        }
        parts
    }

    fn add(&mut self, pair: Option<(SideMeans, SideMeans)>) {
        let Some((a, b)) = pair else { return };
        let mut of_calls = 0.0;
        for (at, (of_a, of_b)) in a.statements.iter().zip(&b.statements).enumerate() {
            let (n_a, n_b) = (of_a.0, of_b.0);
            // What only one side executes takes as long as there.
            let mean_a = of_a.1.or(of_b.1).unwrap_or(0.0);
            let mean_b = of_b.1.or(of_a.1).unwrap_or(0.0);
            self.statements[at].push(0.5 * (n_a + n_b) * (mean_b - mean_a));
            of_calls += 0.5 * (mean_a + mean_b) * (n_b - n_a);
        }
        self.calls.push(of_calls);
        self.between.push(b.between_ns() - a.between_ns());
        self.whole[0].push(a.whole_ns);
        self.whole[1].push(b.whole_ns);
    }

    /// The part of a statement by its number.
    pub(super) fn of_statement(&self, at: usize) -> TimePart {
        part(&self.statements[at])
    }

    pub(super) fn sum(&self) -> Option<TransactionSum> {
        let [a, b] = &self.whole;
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        Some(TransactionSum {
            a_ns: stats::mean(a)?,
            b_ns: stats::mean(b)?,
            difference: part(&differences),
            calls: part(&self.calls),
            between: part(&self.between),
        })
    }
}

fn part(of_pairs: &[f64]) -> TimePart {
    let enough = Some(of_pairs).filter(|values| values.len() >= stats::PAIRS_MIN);
    let interval = enough.and_then(|values| stats::mean_interval(values, LEVEL));
    TimePart {
        ns: stats::mean(of_pairs).unwrap_or(0.0),
        low_ns: interval.map(|interval| interval.low),
        high_ns: interval.map(|interval| interval.high),
    }
}
