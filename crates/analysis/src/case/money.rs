//! Throughput against price.

use model::experiment::target::HOURS_PER_MONTH;

use crate::summary::{CaseSummary, Study};

/// The price of a case's target, and its throughput for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Money<'a> {
    /// Price of an hour.
    pub per_hour: f64,
    /// Currency, or `unit of money`.
    pub currency: &'a str,
    /// Median throughput, per second.
    pub tps: f64,
}

impl Money<'_> {
    /// Price of a month.
    pub fn per_month(&self) -> f64 {
        self.per_hour * HOURS_PER_MONTH
    }

    /// Committed transactions per unit of money: the throughput of an hour divided by the price of an hour.
    pub fn transactions(&self) -> f64 {
        self.tps * 3600.0 / self.per_hour
    }

    /// Price of a million committed transactions; `None` if there are none.
    pub fn per_million(&self) -> Option<f64> {
        let transactions = self.transactions();
        (transactions > 0.0).then(|| 1e6 / transactions)
    }
}

/// What a case costs; `None` without a price or a throughput.
pub fn of_case(case: &CaseSummary) -> Option<Money<'_>> {
    let target = case.case.server.target.as_ref()?;
    let currency = target.currency.as_deref().unwrap_or("unit of money");
    Some(Money { per_hour: target.price_per_hour?, currency, tps: case.tps_median? })
}

/// The currency of all prices; `None` if there are several, or no price.
pub fn currency(study: &Study) -> Option<&str> {
    let mut currencies = study.cases.iter().filter_map(of_case).map(|money| money.currency);
    let first = currencies.next()?;
    currencies.all(|other| other == first).then_some(first)
}

/// Numbers of the cases on the efficient frontier, by price: no other case gives at least as much throughput for at most as much
/// money, and more or for less. Empty unless all prices are in one currency.
pub fn frontier(study: &Study) -> Vec<u32> {
    if currency(study).is_none() {
        return Vec::new();
    }
    let points: Vec<(u32, f64, f64)> = study
        .cases
        .iter()
        .filter_map(|case| of_case(case).map(|money| (case.case.id, money.per_hour, money.tps)))
        .collect();
    efficient(&points)
}

/// The efficient ones of points of name, price and gain.
fn efficient(points: &[(u32, f64, f64)]) -> Vec<u32> {
    let beats =
        |a: &(u32, f64, f64), b: &(u32, f64, f64)| a.1 <= b.1 && a.2 >= b.2 && (a.1, a.2) != (b.1, b.2);
    let mut left: Vec<&(u32, f64, f64)> =
        points.iter().filter(|point| !points.iter().any(|other| beats(other, point))).collect();
    left.sort_by(|a, b| a.1.total_cmp(&b.1));
    left.iter().map(|point| point.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_holds_what_nothing_beats() {
        let check = |points: &[(f64, f64)], expected: &[u32]| {
            let numbered: Vec<(u32, f64, f64)> =
                points.iter().zip(1..).map(|((p, t), n)| (n, *p, *t)).collect();
            assert_eq!(efficient(&numbered), expected, "{points:?}");
        };
        check(&[], &[]);
        check(&[(1.0, 5.0)], &[1]);
        check(&[(2.0, 5.0), (1.0, 5.0)], &[2]);
        check(&[(1.0, 4.0), (1.0, 5.0)], &[2]);
        check(&[(3.0, 9.0), (1.0, 2.0), (2.0, 2.0), (2.0, 6.0)], &[2, 4, 1]);
        // Equal points are both efficient: neither beats the other.
        check(&[(1.0, 5.0), (1.0, 5.0)], &[1, 2]);
        check(&[(1.0, 5.0), (2.0, 4.0), (3.0, 3.0)], &[1]);
    }

    #[test]
    fn a_million_transactions_have_a_price() {
        let money = Money { per_hour: 0.5, currency: "EUR", tps: 1000.0 };
        assert_eq!(money.transactions(), 7_200_000.0);
        assert!((money.per_million().unwrap() - 0.138_888).abs() < 1e-5);
        assert_eq!(money.per_month(), 365.0);
        assert_eq!(Money { tps: 0.0, ..money }.per_million(), None);
    }
}
