//! Which level of repetition the variance comes from.

use crate::mean;

/// Variance that each level itself adds, from the outermost (restarts) to the innermost (spans of one run), given
/// values as restarts of runs of spans. A level that adds less than chance would is zero.
///
/// The nested analysis of Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", 2013, 6.2: `T[i] = S[i] -
/// S[i-1] / n[i-1]`, with the harmonic mean of the group sizes where they differ. `None` unless there are two restarts,
/// and somewhere two runs and two spans in a group.
pub fn nested_variance(restarts: &[Vec<Vec<f64>>]) -> Option<[f64; 3]> {
    let runs: Vec<&Vec<f64>> = restarts.iter().flatten().collect();
    let of_spans = pooled(&runs)?;
    let run_means: Vec<Vec<f64>> = restarts.iter().map(|runs| means(runs)).collect();
    let of_runs = pooled(&run_means.iter().collect::<Vec<_>>())?;
    let restart_means = means(&run_means);
    let of_restarts = pooled(&[&restart_means])?;
    let spans_per_run = harmonic(runs.iter().map(|run| run.len()));
    let runs_per_restart = harmonic(restarts.iter().map(Vec::len));
    let beyond = |above: f64, below: f64| (above - below).max(0.0);
    Some([
        beyond(of_restarts, of_runs / runs_per_restart),
        beyond(of_runs, of_spans / spans_per_run),
        of_spans,
    ])
}

/// Variance that runs themselves add, and that of the spans within them, given values as runs of spans: the two inner
/// levels of [`nested_variance`] where there is no outer one. `None` unless there are two runs, and somewhere two
/// spans.
pub fn variance_of_runs(runs: &[Vec<f64>]) -> Option<[f64; 2]> {
    let of_spans = pooled(&runs.iter().collect::<Vec<_>>())?;
    let of_runs = pooled(&[&means(runs)])?;
    let spans_per_run = harmonic(runs.iter().map(Vec::len));
    Some([(of_runs - of_spans / spans_per_run).max(0.0), of_spans])
}

fn means(groups: &[Vec<f64>]) -> Vec<f64> {
    groups.iter().filter_map(|group| mean(group)).collect()
}

/// Variance around the groups' own means; `None` when no group has two values.
fn pooled(groups: &[&Vec<f64>]) -> Option<f64> {
    let (mut squares, mut df) = (0.0, 0);
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let centre = mean(group)?;
        squares += group.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        df += group.len() - 1;
    }
    (df > 0).then(|| squares / df as f64)
}

fn harmonic(sizes: impl Iterator<Item = usize>) -> f64 {
    let (n, inverses) = sizes
        .filter(|size| *size > 0)
        .fold((0.0, 0.0), |(n, inverses), size| (n + 1.0, inverses + 1.0 / size as f64));
    n / inverses
}
