//! The universal scalability law: throughput over the number of clients.

use crate::quantile;
use crate::random::Random;
use crate::sample::bootstrap::Resampling;
use crate::{Estimate, finite, mean, median};

/// The fitted law `X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UslFit {
    /// Throughput of one client.
    pub lambda: f64,
    /// Share of the work that is done serially.
    pub sigma: f64,
    /// Cost of coherency between clients.
    pub kappa: f64,
    /// Share of the variance of throughput that the law explains; below zero when it explains less than the mean would.
    pub explained: f64,
}

impl UslFit {
    /// Throughput that the law gives for `n` clients.
    pub fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// Clients at which throughput is highest, `sqrt((1 - sigma) / kappa)`; `None` where it never falls.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// Fits the law to pairs of clients and throughput.
///
/// Gunther, "Guerrilla Capacity Planning", 2007, chapter 5. `n / X` is linear in `1/lambda`, `sigma/lambda` and
/// `kappa/lambda`, so least squares of its relative error has one answer; terms that would be below zero are left out
/// (all combinations are tried: nonnegative least squares, Lawson and Hanson 1974). `None` with fewer than three
/// different numbers of clients, or values that are not above zero.
pub fn scalability(points: &[(f64, f64)]) -> Option<UslFit> {
    let mut clients: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    if clients.len() < 3
        || points.iter().any(|(n, x)| !(*n > 0.0 && *x > 0.0 && n.is_finite() && x.is_finite()))
    {
        return None;
    }
    // Each row over its own `n / X`: the target is then 1.
    let rows: Vec<[f64; 3]> =
        points.iter().map(|(n, x)| [1.0, n - 1.0, n * (n - 1.0)].map(|term| term * x / n)).collect();
    let fits = [[true; 3], [true, true, false], [true, false, true], [true, false, false]];
    let best = fits
        .iter()
        .filter_map(|used| least_squares(&rows, *used))
        .filter(|terms| terms[0] > 0.0 && terms[1] >= 0.0 && terms[2] >= 0.0)
        .min_by(|a, b| residual(&rows, a).total_cmp(&residual(&rows, b)))?;
    let mut law = UslFit {
        lambda: finite(1.0 / best[0])?,
        sigma: finite(best[1] / best[0])?,
        kappa: finite(best[2] / best[0])?,
        explained: 0.0,
    };
    let throughput: Vec<f64> = points.iter().map(|(_, x)| *x).collect();
    let centre = mean(&throughput)?;
    let total: f64 = throughput.iter().map(|x| (x - centre).powi(2)).sum();
    let missed: f64 = points.iter().map(|(n, x)| (x - law.throughput(*n)).powi(2)).sum();
    law.explained = if total > 0.0 { 1.0 - missed / total } else { 0.0 };
    Some(law)
}

fn residual(rows: &[[f64; 3]], terms: &[f64; 3]) -> f64 {
    rows.iter().map(|row| (1.0 - row.iter().zip(terms).map(|(a, b)| a * b).sum::<f64>()).powi(2)).sum()
}

/// Solves for the used terms with targets of 1, by Gram and Schmidt on the columns, which keeps more digits than normal
/// equations do (Golub and Van Loan, "Matrix Computations", 5.2).
fn least_squares(rows: &[[f64; 3]], used: [bool; 3]) -> Option<[f64; 3]> {
    let columns: Vec<usize> = (0..3).filter(|i| used[*i]).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut triangle = [[0.0; 3]; 3];
    for (j, column) in columns.iter().enumerate() {
        let mut rest: Vec<f64> = rows.iter().map(|row| row[*column]).collect();
        for (i, unit) in basis.iter().enumerate() {
            triangle[i][j] = unit.iter().zip(&rest).map(|(a, b)| a * b).sum();
            rest.iter_mut().zip(unit).for_each(|(value, unit)| *value -= triangle[i][j] * unit);
        }
        triangle[j][j] = rest.iter().map(|value| value * value).sum::<f64>().sqrt();
        if triangle[j][j] <= 0.0 {
            return None;
        }
        basis.push(rest.iter().map(|value| value / triangle[j][j]).collect());
    }
    let mut terms = [0.0; 3];
    for j in (0..columns.len()).rev() {
        let known: f64 = (j + 1..columns.len()).map(|k| triangle[j][k] * terms[columns[k]]).sum();
        terms[columns[j]] = (basis[j].iter().sum::<f64>() - known) / triangle[j][j];
    }
    terms.iter().all(|term| term.is_finite()).then_some(terms)
}

/// Runs beyond one for each number of clients from which [`parameters_bootstrap`] resamples them.
pub const BOOTSTRAP_MIN: usize = 8;

/// Parameters of the law, as figures or as their intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters<T> {
    /// See [`UslFit::lambda`].
    pub lambda: T,
    /// See [`UslFit::sigma`].
    pub sigma: T,
    /// See [`UslFit::kappa`].
    pub kappa: T,
    /// Clients at the peak; `None` where not nearly all fits have one.
    pub peak: Option<T>,
    /// Throughput there.
    pub peak_throughput: Option<T>,
}

/// Intervals of the law's parameters from numbers of clients with the throughput of their runs.
///
/// Bootstrap of residuals: Efron and Tibshirani, "An Introduction to the Bootstrap", 9.4. Each run is drawn again
/// around its level from the relative deviations of all runs from the means of theirs, widened by `sqrt(r / (r - 1))`
/// for the mean that `r` runs gave; the law is fitted to the medians. This is the noise between runs: if the law itself
/// is wrong, no interval shows it. `None` with fewer than [`BOOTSTRAP_MIN`] runs beyond one for each level, or where
/// the fit has no answer.
pub fn parameters_bootstrap(
    levels: &[(f64, &[f64])],
    level: f64,
    how: Resampling,
) -> Option<Parameters<Estimate>> {
    let spare: usize = levels.iter().map(|(_, runs)| runs.len().saturating_sub(1)).sum();
    if spare < BOOTSTRAP_MIN || how.n == 0 {
        return None;
    }
    let centres: Vec<f64> = levels
        .iter()
        .map(|(_, runs)| mean(&runs.iter().map(|x| x.ln()).collect::<Vec<f64>>()))
        .collect::<Option<_>>()?;
    let mut deviations = Vec::new();
    for ((_, runs), centre) in levels.iter().zip(&centres).filter(|((_, runs), _)| runs.len() > 1) {
        let r = runs.len() as f64;
        deviations.extend(runs.iter().map(|x| (x.ln() - centre) * (r / (r - 1.0)).sqrt()));
    }
    let mut random = Random::new(how.seed);
    let mut fits = Vec::with_capacity(how.n);
    for _ in 0..how.n {
        let mut draw = |((n, runs), centre): (&(f64, &[f64]), &f64)| {
            let drawn: Vec<f64> =
                runs.iter().map(|_| (centre + deviations[random.index(deviations.len())]).exp()).collect();
            Some((*n, median(&drawn)?))
        };
        let points: Vec<(f64, f64)> = levels.iter().zip(&centres).map(&mut draw).collect::<Option<_>>()?;
        fits.push(scalability(&points)?);
    }
    let points: Vec<(f64, f64)> =
        levels.iter().map(|(n, runs)| Some((*n, median(runs)?))).collect::<Option<_>>()?;
    let law = scalability(&points)?;
    let tail = (1.0 - level) / 2.0;
    // Where some fits have no peak, an interval of the others would be of those that happen to have one.
    let estimate = |point: Option<f64>, of: &dyn Fn(&UslFit) -> Option<f64>| {
        let values: Vec<f64> = fits.iter().filter_map(of).collect();
        let most = values.len() as f64 >= (1.0 - tail) * fits.len() as f64;
        let (low, high) = (quantile(&values, tail)?, quantile(&values, 1.0 - tail)?);
        if most { Some(Estimate { point: point?, low, high, level }) } else { None }
    };
    let peak_throughput = |law: &UslFit| law.peak().map(|n| law.throughput(n));
    Some(Parameters {
        lambda: estimate(Some(law.lambda), &|law| Some(law.lambda))?,
        sigma: estimate(Some(law.sigma), &|law| Some(law.sigma))?,
        kappa: estimate(Some(law.kappa), &|law| Some(law.kappa))?,
        peak: estimate(law.peak(), &UslFit::peak),
        peak_throughput: estimate(peak_throughput(&law), &peak_throughput),
    })
}
