//! The distribution of a sum of independent errors (JCGM 101:2008, propagation of distributions), computed on a grid
//! instead of by sampling: the same errors always give the same interval.

use super::{student_t_cdf, student_t_quantile};
use crate::Estimate;

/// Points of the grid. With 2,048 of them the ends of intervals are exact to a thousandth of their length.
const POINTS: usize = 2048;
/// The last of them.
const LAST: usize = POINTS - 1;
/// The last of the points from zero to an end of a repetition's error.
const HALF_LAST: usize = 512;
/// Chance beyond each end of the grid: a twentieth of what a 95 % interval leaves out there.
const BEYOND: f64 = 0.001;

/// The error that repetition shows: Student's t distribution around zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepetitionError {
    /// Standard error.
    pub scale: f64,
    /// Degrees of freedom of the standard error, 1 or more.
    pub df: f64,
}

/// The distribution of a repetition's error, computed once for all sums that it is part of.
#[derive(Debug, Clone)]
pub struct RepetitionSpread {
    scale: f64,
    /// Standard errors from zero to the end of `chances`.
    reach: f64,
    /// Distribution function from zero to `reach`, on evenly spaced points; below zero it is symmetric.
    chances: Vec<f64>,
}

/// Distribution function of a sum on evenly spaced points.
struct Grid {
    from: f64,
    step: f64,
    chances: Vec<f64>,
}

impl RepetitionSpread {
    /// The distribution of an error; `None` unless its scale is finite and not negative, and its degrees of freedom are 1 or more.
    pub fn new(error: RepetitionError) -> Option<RepetitionSpread> {
        if !(error.scale.is_finite() && error.scale >= 0.0) {
            return None;
        }
        let reach = student_t_quantile(1.0 - BEYOND, error.df)?;
        let chance = |i: usize| student_t_cdf(reach * i as f64 / HALF_LAST as f64, error.df);
        let chances = (0..=HALF_LAST).map(chance).collect::<Option<Vec<f64>>>()?;
        Some(RepetitionSpread { scale: error.scale, reach, chances })
    }

    /// The interval of the sum of this error and of errors of which only bounds are known, each of which is uniform between its own
    /// (JCGM 100:2008, 4.3.7). The interval leaves out `(1 - level) / 2` at each end; its point is zero, no error.
    ///
    /// `None` unless bounds are finite and in order, and the level lies between 0 and 1.
    pub fn sum_interval(&self, bounds: &[[f64; 2]], level: f64) -> Option<Estimate> {
        let is_in_order = |[low, high]: &[f64; 2]| low.is_finite() && high.is_finite() && low <= high;
        if !(bounds.iter().all(is_in_order) && level > 0.0 && level < 1.0) {
            return None;
        }

        let mut grid = Grid::of_spread(self, bounds);
        bounds.iter().for_each(|bound| grid.add_uniform(*bound));

        let tail = 0.5 * (1.0 - level);
        Some(Estimate { point: 0.0, low: grid.quantile(tail), high: grid.quantile(1.0 - tail), level })
    }

    /// Chance that the error is at most `x`, a line between points.
    fn chance(&self, x: f64) -> f64 {
        let at = x.abs() / (self.scale * self.reach) * HALF_LAST as f64;
        let above = match at {
            // Zero over zero is an error of no width, at its place.
            at if at.is_nan() => 1.0,
            at if at >= HALF_LAST as f64 => 1.0,
            at => {
                let (i, part) = (at as usize, at.fract());
                self.chances[i] + part * (self.chances[i + 1] - self.chances[i])
            }
        };
        if x < 0.0 { 1.0 - above } else { above }
    }
}

impl Grid {
    /// That of the repetition's error alone, wide enough for all others to be added.
    fn of_spread(spread: &RepetitionSpread, bounds: &[[f64; 2]]) -> Grid {
        let reach = spread.scale * spread.reach;
        let sums = bounds.iter().fold([0.0, 0.0], |[low, high], bound| [low + bound[0], high + bound[1]]);
        // A little room at both ends, also where nothing has a width.
        let margin = 1e-9 + 0.01 * (sums[1] - sums[0] + reach);
        let (from, to) = (sums[0].min(0.0) - reach - margin, sums[1].max(0.0) + reach + margin);
        let step = (to - from) / LAST as f64;

        let chances = (0..POINTS).map(|i| spread.chance(from + i as f64 * step)).collect();
        Grid { from, step, chances }
    }

    /// The mean of the distribution function over a window as wide as the bounds: the convolution with a uniform density.
    fn add_uniform(&mut self, [low, high]: [f64; 2]) {
        let width = high - low;
        let sums = self.sums();
        let points = (0..POINTS).map(|i| self.from + i as f64 * self.step);
        self.chances = if width < 1e-3 * self.step {
            points.map(|x| self.chance(x - 0.5 * (low + high))).collect()
        } else {
            points.map(|x| (self.sum(&sums, x - low) - self.sum(&sums, x - high)) / width).collect()
        };
    }

    /// The integral of the distribution function up to each point, by the trapezoidal rule.
    fn sums(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let between = self.chances.windows(2).map(|pair| {
            sum += 0.5 * (pair[0] + pair[1]) * self.step;
            sum
        });
        std::iter::once(0.0).chain(between).collect()
    }

    /// The integral up to any value; below the grid there is nothing, above it the chance is 1.
    fn sum(&self, sums: &[f64], x: f64) -> f64 {
        let at = (x - self.from) / self.step;
        if at <= 0.0 {
            return 0.0;
        }
        if at >= LAST as f64 {
            return sums[LAST] + (at - LAST as f64) * self.step;
        }
        let (i, part) = (at as usize, at.fract());
        let middle = self.chances[i] + 0.5 * part * (self.chances[i + 1] - self.chances[i]);
        sums[i] + middle * part * self.step
    }

    fn chance(&self, x: f64) -> f64 {
        let at = (x - self.from) / self.step;
        if at <= 0.0 {
            return 0.0;
        }
        if at >= LAST as f64 {
            return 1.0;
        }
        let (i, part) = (at as usize, at.fract());
        self.chances[i] + part * (self.chances[i + 1] - self.chances[i])
    }

    /// The value that is not exceeded with this chance.
    fn quantile(&self, chance: f64) -> f64 {
        let after = self.chances.partition_point(|below| *below < chance).clamp(1, LAST);
        let (below, above) = (self.chances[after - 1], self.chances[after]);
        let part = if above > below { ((chance - below) / (above - below)).clamp(0.0, 1.0) } else { 0.0 };
        self.from + (after as f64 - 1.0 + part) * self.step
    }
}
