//! Generalised iterative scaling (Darroch and Ratcliff 1972): of all rates that meet the counts, those nearest to the sample's.
//!
//! It minimises `sum_t r_t ln(r_t / r0_t) - r_t + r0_t` subject to `sum_t n_ts r_t = c_s`. Where the counts contradict each other, it
//! comes as near as one scale for all constraints allows, and `deviation` says how near.

use std::collections::BTreeMap;

/// Rounds of scaling at most.
const ROUNDS_MAX: usize = 20_000;
/// Relative deviation that is as good as none.
const DEVIATION_MAX: f64 = 1e-6;

/// A template before scaling.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighed {
    /// Rate in the sample.
    pub rate: f64,
    /// How often it executes each statement, by identity.
    pub calls: BTreeMap<u64, f64>,
}

/// Rates after scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// The rates, in the order of the templates.
    pub rates: Vec<f64>,
    /// What all rates of the sample were multiplied by before: the inverse of the share that was sampled.
    pub factor: f64,
    /// Largest relative deviation from the counts.
    pub deviation: f64,
    /// Statements with counts that no template executes.
    pub unseen: Vec<u64>,
}

/// Scales rates to `counts` of statements per unit of time.
pub fn scale(templates: &[Weighed], counts: &BTreeMap<u64, f64>) -> Scaled {
    let is_known =
        |statement: &u64| templates.iter().any(|one| one.rate > 0.0 && one.calls.contains_key(statement));
    let (known, unseen): (Vec<u64>, Vec<u64>) = counts.keys().copied().partition(is_known);
    let columns: Vec<Vec<f64>> = known
        .iter()
        .map(|statement| {
            templates.iter().map(|one| one.calls.get(statement).copied().unwrap_or(0.0)).collect()
        })
        .collect();
    // A sample of transactions has all of them in the same share, also those that no count is about.
    let executed = |statement: &u64| {
        templates.iter().map(|one| one.rate * one.calls.get(statement).copied().unwrap_or(0.0)).sum::<f64>()
    };
    let wanted: f64 = known.iter().map(|statement| counts[statement]).sum();
    let implied: f64 = known.iter().map(executed).sum();
    let factor = if wanted > 0.0 && implied > 0.0 { wanted / implied } else { 1.0 };
    let mut rates: Vec<f64> = templates.iter().map(|one| factor * one.rate.max(0.0)).collect();
    let most = |at: usize| columns.iter().map(|column| column[at]).sum::<f64>();
    let step = (0..templates.len()).map(most).fold(1.0, f64::max);
    let mut deviation = 0.0;
    for _ in 0..ROUNDS_MAX {
        let mut logs = vec![0.0; rates.len()];
        deviation = 0.0f64;
        for (statement, column) in known.iter().zip(&columns) {
            let implied: f64 = column.iter().zip(&rates).map(|(n, rate)| n * rate).sum();
            let wanted = counts[statement].max(f64::MIN_POSITIVE);
            let ratio = if implied > 0.0 { wanted / implied } else { 1.0 };
            deviation = deviation.max((ratio - 1.0).abs());
            // A count of 0 takes its templates away in steps, without leaving the numbers.
            let log = ratio.ln().max(-20.0);
            logs.iter_mut().zip(column).for_each(|(sum, n)| *sum += n * log / step);
        }
        if deviation < DEVIATION_MAX {
            break;
        }
        rates.iter_mut().zip(logs).for_each(|(rate, log)| *rate *= log.exp());
    }
    Scaled { rates, factor, deviation, unseen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(rate: f64, calls: &[(u64, f64)]) -> Weighed {
        Weighed { rate, calls: calls.iter().copied().collect() }
    }

    #[test]
    fn rates_meet_the_counts() {
        // Templates a: s1, s2; b: s2 three times; c: s3.
        let templates =
            [template(10.0, &[(1, 1.0), (2, 1.0)]), template(10.0, &[(2, 3.0)]), template(1.0, &[(3, 1.0)])];
        let counts = BTreeMap::from([(1, 40.0), (2, 100.0), (9, 5.0)]);
        let found = scale(&templates, &counts);
        assert!((found.rates[0] - 40.0).abs() < 1e-3, "{found:?}");
        assert!((found.rates[1] - 20.0).abs() < 1e-3, "{found:?}");
        // 140 executions in place of 50: nothing says more about the third.
        assert!((found.rates[2] - 2.8).abs() < 1e-9, "{found:?}");
        assert_eq!(found.unseen, [9]);
        assert!(found.deviation < 1e-5);
    }

    #[test]
    fn the_nearest_of_many_solutions_is_taken() {
        // One count for two templates: both grow by the same factor.
        let templates = [template(1.0, &[(1, 1.0)]), template(3.0, &[(1, 1.0)])];
        let found = scale(&templates, &BTreeMap::from([(1, 8.0)]));
        assert!((found.rates[0] - 2.0).abs() < 1e-5 && (found.rates[1] - 6.0).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn a_sample_of_one_percent_is_scaled_to_all() {
        let templates =
            [template(1.0, &[(1, 1.0), (2, 5.0)]), template(0.5, &[(1, 1.0)]), template(0.01, &[(3, 1.0)])];
        let found = scale(&templates, &BTreeMap::from([(1, 155.0), (2, 520.0)]));
        assert!((found.rates[0] - 104.0).abs() < 1e-2 && (found.rates[1] - 51.0).abs() < 1e-2, "{found:?}");
        assert!((0.9..1.2).contains(&found.rates[2]), "{found:?}");
    }

    #[test]
    fn contradictions_are_reported() {
        let templates = [template(1.0, &[(1, 1.0), (2, 1.0)])];
        let found = scale(&templates, &BTreeMap::from([(1, 4.0), (2, 1.0)]));
        assert!((found.rates[0] - 2.0).abs() < 1e-3 && found.deviation > 0.5, "{found:?}");
        let found = scale(&[], &BTreeMap::from([(1, 0.0)]));
        assert_eq!(found.unseen, [1]);
        let found = scale(&[template(5.0, &[(1, 1.0)])], &BTreeMap::from([(1, 0.0)]));
        assert!(found.rates[0] < 1e-9 && found.rates[0].is_finite(), "{found:?}");
    }
}
