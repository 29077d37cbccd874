//! Intervals: one row per script and second, with percentiles of that second.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use model::load::histogram::HistogramSum;
use model::load::interval::{Counts, Interval};
use model::run::RunData;

use super::{Cell, Column, Kind, Row, column};

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
/// What has histograms of its own, by the end of its tag.
const TIMES: [(&str, &str); 2] = [("latency", ""), ("service", ".service")];

pub(super) fn columns() -> Vec<Column> {
    let mut columns = vec![
        column("second", Kind::Int),
        column("measured", Kind::Int),
        column("script", Kind::Text),
        column("start_unix_ns", Kind::Int),
        column("length_ns", Kind::Int),
    ];
    columns.extend(Counts::default().named().map(|(name, _)| column(name, Kind::Int)));
    columns.push(column("errors", Kind::Text));
    for (time, _) in TIMES {
        columns.push(column(&format!("{time}_mean_ns"), Kind::Float));
        columns.extend(SHARES.map(|(share, _)| column(&format!("{time}_{share}_ns"), Kind::Int)));
        columns.push(column(&format!("{time}_max_ns"), Kind::Int));
    }
    columns
}

pub(super) fn rows(run: &RunData, push: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
    let window = run.record.window();
    let measured = window.ramp_up_s..window.ramp_up_s + window.measure_s;
    let none = Vec::new();
    let scripts = run.record.load.as_ref().map_or(&none, |load| &load.scripts);
    let names: Vec<Arc<str>> = scripts.iter().map(|script| script.name.as_str().into()).collect();
    // Sorted by second: only the histograms of one second are decoded at a time.
    let mut lines: BTreeMap<(u32, &str), Vec<usize>> = BTreeMap::new();
    for (at, stamped) in run.histograms.iter().enumerate() {
        lines.entry((stamped.t, stamped.line.tag.as_str())).or_default().push(at);
    }
    for interval in &run.intervals {
        let script = interval.script as usize;
        let mut row = vec![
            Cell::int(interval.t),
            Cell::Int(i64::from(measured.contains(&interval.t))),
            names.get(script).map_or(Cell::None, |name| Cell::Text(Arc::clone(name))),
            Cell::int(interval.start_unix_ns),
            Cell::int(interval.length_ns),
        ];
        row.extend(interval.counts.named().map(|(_, n)| Cell::int(n)));
        row.push(errors(interval));
        for (_, end) in TIMES {
            let tag = scripts.get(script).map(|script| format!("{}{end}", script.tag));
            let found = tag.as_ref().and_then(|tag| lines.get(&(interval.t, tag.as_str())));
            row.extend(times(run, found));
        }
        push(row)?;
    }
    Ok(())
}

/// `40001:3 lost:1`.
fn errors(interval: &Interval) -> Cell {
    if interval.errors.is_empty() {
        return Cell::None;
    }
    let words: Vec<String> = interval.errors.iter().map(|(state, n)| format!("{state}:{n}")).collect();
    Cell::text(&words.join(" "))
}

/// Mean, percentiles and maximum of the histograms at these places.
fn times(run: &RunData, found: Option<&Vec<usize>>) -> Vec<Cell> {
    let mut sum = HistogramSum::new();
    for at in found.into_iter().flatten() {
        // What cannot be read is a finding of the run's report.
        if let Ok(one) = HistogramSum::read(&run.histograms[*at].line) {
            sum.add(&one);
        }
    }
    if sum.n() == 0 {
        return vec![Cell::None; SHARES.len() + 2];
    }
    let mut cells = vec![Cell::float(sum.mean_ns())];
    cells.extend(SHARES.map(|(_, share)| sum.quantile_ns(share).map_or(Cell::None, Cell::int)));
    cells.push(Cell::int(sum.largest_ns()));
    cells
}
