//! Thins long series for the page. The full data is in the run directory.

/// One point of a series: seconds since `go`, and the value, if any.
pub(crate) type SeriesPoint = (f64, Option<f64>);

/// Reduces a series to about `limit` points and keeps every spike: the smallest and largest value of each stretch, and
/// any gap in it. Averages would hide what a reader looks for.
pub(crate) fn thin(points: &[SeriesPoint], limit: usize) -> Vec<SeriesPoint> {
    let limit = limit.max(6);
    if points.len() <= limit {
        return points.to_vec();
    }
    let per_stretch = points.len().div_ceil(limit / 3);
    points.chunks(per_stretch).flat_map(extremes).collect()
}

fn extremes(stretch: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let valued = || stretch.iter().filter(|(_, value)| value.is_some_and(f64::is_finite));
    let low = valued().min_by(|a, b| a.1.partial_cmp(&b.1).expect("finite values compare"));
    let high = valued().max_by(|a, b| a.1.partial_cmp(&b.1).expect("finite values compare"));
    let gap = stretch.iter().find(|(_, value)| value.is_none());
    let mut kept: Vec<SeriesPoint> = [low, high, gap].into_iter().flatten().copied().collect();
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    kept.dedup_by(|a, b| a.0 == b.0);
    kept
}

/// Four significant digits: more cannot be seen and only enlarge the page.
pub(crate) fn rounded(x: f64) -> Option<f64> {
    if !x.is_finite() {
        return None;
    }
    format!("{x:.3e}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_and_gaps_survive() {
        let mut points: Vec<SeriesPoint> =
            (0..36_000).map(|t| (f64::from(t), Some(100.0 + f64::from(t % 7)))).collect();
        points[17_001].1 = Some(9999.0);
        points[20_002].1 = Some(-1.0);
        points[30_003].1 = None;
        let thinned = thin(&points, 2000);
        assert!(thinned.len() <= 2000, "{}", thinned.len());
        for kept in [points[17_001], points[20_002], points[30_003]] {
            assert!(thinned.contains(&kept), "{kept:?}");
        }
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn short_series_are_left_alone() {
        let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))];
        assert_eq!(thin(&points, 2000), points);
        assert_eq!(thin(&[], 2000), []);
    }

    #[test]
    fn what_is_not_a_number_becomes_a_gap() {
        assert_eq!(rounded(1234.567), Some(1235.0));
        assert_eq!(rounded(f64::NAN), None);
    }
}
