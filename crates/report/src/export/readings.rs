//! Readings: one row per value of a metric and tick.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use model::run::RunData;
use model::telemetry::metric::{self, MetricKind};
use model::telemetry::reading::{TickSource, split_key};

use super::{Cell, Column, Kind, Row, column};

pub(super) fn columns() -> Vec<Column> {
    vec![
        column("second", Kind::Float),
        column("end_unix_ns", Kind::Int),
        column("length_ns", Kind::Int),
        column("source", Kind::Text),
        column("metric", Kind::Text),
        column("instance", Kind::Text),
        column("kind", Kind::Text),
        column("unit", Kind::Text),
        column("value", Kind::Float),
    ]
}

pub(super) fn rows(run: &RunData, push: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
    let go_unix_ns = run.record.go_unix_ns;
    // Texts are shared: a run has millions of values of some hundreds of metrics.
    let mut known: BTreeMap<&str, [Cell; 4]> = BTreeMap::new();
    for tick in &run.ticks {
        let source: Arc<str> = name(tick.source).into();
        let second = go_unix_ns.map_or(Cell::None, |go| {
            Cell::float((i128::from(tick.end_unix_ns) - i128::from(go)) as f64 / 1e9)
        });
        for (key, value) in tick.values.iter() {
            let [metric, instance, kind, unit] = known.entry(key).or_insert_with(|| described(key)).clone();
            push(vec![
                second.clone(),
                Cell::int(tick.end_unix_ns),
                Cell::int(tick.length_ns),
                Cell::Text(Arc::clone(&source)),
                metric,
                instance,
                kind,
                unit,
                Cell::float(value),
            ])?;
        }
    }
    Ok(())
}

fn name(source: TickSource) -> &'static str {
    match source {
        TickSource::Host => "host",
        TickSource::Server => "server",
        TickSource::Driver => "driver",
        TickSource::Remote => "remote",
        TickSource::DriverHost => "driver_host",
        TickSource::Standby => "standby",
        TickSource::Pooler => "pooler",
    }
}

/// Metric, instance, kind and unit of a key. A newer version's metric has neither kind nor unit.
fn described(key: &str) -> [Cell; 4] {
    let (name, instance) = split_key(key);
    let row = metric::find(name);
    let kind = row.map(|row| match row.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
    });
    let of = |text: Option<&str>| text.map_or(Cell::None, Cell::text);
    [Cell::text(name), of(instance), of(kind), of(row.map(|row| row.unit))]
}
