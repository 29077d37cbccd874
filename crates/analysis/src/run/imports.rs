//! Series that something else measured: drawn next to our own readings, and summarized over the measurement.

use model::run::RunData;
use model::telemetry::import::{Imported, ImportedSeries};

use crate::run::timeline::Timeline;
use crate::summary::{ImportedSummary, TelemetrySeries};

/// The beginning of the panels of imports; the name of the import follows.
pub const PANEL: &str = "import ";
/// Bytes to MiB: reports have sizes in one family of units.
const MIB: f64 = 1.0 / (1 << 20) as f64;

/// The imported series on the time line of the run, within these seconds.
pub(crate) fn series(data: &RunData, line: &Timeline, from_s: f64, to_s: f64) -> Vec<TelemetrySeries> {
    let drawn = |imported: &Imported, one: &ImportedSeries| {
        let (unit, factor) = match imported.unit.as_str() {
            "B" => ("MiB", MIB),
            "B/s" => ("MiB/s", MIB),
            "" => ("1", 1.0),
            unit => (unit, 1.0),
        };
        TelemetrySeries {
            panel: format!("{PANEL}{}", imported.name),
            name: if one.name.is_empty() { imported.name.clone() } else { one.name.clone() },
            unit: unit.to_string(),
            points: placed(one, line, from_s, to_s).map(|(t_s, value)| (t_s, factor * value)).collect(),
        }
    };
    data.imports.iter().flat_map(|all| all.series.iter().map(move |one| drawn(all, one))).collect()
}

/// The imported series over the measurement; those without a sample in it are left out.
pub(crate) fn summaries(data: &RunData, line: &Timeline) -> Vec<ImportedSummary> {
    let Some((from_s, to_s)) = line.measured_span() else { return Vec::new() };
    let summary = |imported: &Imported, one: &ImportedSeries| {
        let values: Vec<f64> = placed(one, line, from_s, to_s).map(|(_, value)| value).collect();
        (!values.is_empty()).then(|| ImportedSummary {
            name: imported.name.clone(),
            series: one.name.clone(),
            unit: imported.unit.clone(),
            source: imported.source.clone(),
            n: values.len() as u64,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    };
    data.imports.iter().flat_map(|all| all.series.iter().filter_map(move |one| summary(all, one))).collect()
}

/// Points within a span, in seconds since `go`, to the millisecond.
fn placed<'a>(
    series: &'a ImportedSeries,
    line: &'a Timeline,
    from_s: f64,
    to_s: f64,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    let finite = series.points.iter().filter(|(t_s, value)| t_s.is_finite() && value.is_finite());
    let on_line = finite.filter_map(|(t_s, value)| {
        let t_s = line.place((t_s.max(0.0) * 1e9) as u64)?;
        Some(((t_s * 1e3).round() / 1e3, *value))
    });
    on_line.filter(move |(t_s, _)| (from_s..=to_s).contains(t_s))
}
