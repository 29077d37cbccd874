//! Takes series that something else measured into a run, after its load: from a Prometheus server, or from a file. What
//! cannot be had is noted, and never makes a run fail.

mod csv;
mod prometheus;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use model::run::RunRecord;
use model::telemetry::import::{Import, Imported, ImportedSeries};
use model::text::visible::visible;
use store::RunWriter;

use crate::site::exporter;

/// Longest answer of a server: 20 series of 11,000 points.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Longest file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most series of an import; a chart with more shows nothing.
const SERIES_MAX: usize = 20;
/// Most points of a series: Prometheus refuses queries with more.
const POINTS_MAX: usize = 11_000;
/// Longest name of a series.
const NAME_BYTES_MAX: usize = 200;
/// How long a server may take for a query; it gives up after 2 min by itself.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Characters of a server's message that are shown.
const EXCERPT_CHARS: usize = 200;
/// Prefix of the keys of missing imports in the record.
const MISSING: &str = "import.";

/// The load by our clock, seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadSpan {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

/// What a source gave: series by name, with times by its own clock, and how many more there were.
#[derive(Debug, Clone, Default, PartialEq)]
struct Given {
    series: Vec<ImportedSeries>,
    n_left_out: usize,
}

/// Takes all imports of a run into its directory; its load has begun and ended.
///
/// # Errors
/// When the run's files cannot be written.
pub(crate) fn take(record: &mut RunRecord, writer: &RunWriter, stop: &AtomicBool) -> Result<()> {
    let (Some(go), Some(done)) = (record.go_unix_ns, &record.done) else { return Ok(()) };
    // To the millisecond, as the times of queries and answers are, and within the load.
    let span = LoadSpan {
        from_s: go.div_ceil(1_000_000) as f64 / 1e3,
        to_s: (done.end_unix_ns.max(go) / 1_000_000) as f64 / 1e3,
    };
    for import in &record.case.imports {
        let mut note = |reason: String| {
            let reason: String = visible(&reason).into_owned();
            record.telemetry_unavailable.insert(format!("{MISSING}{}", import.name), reason);
        };
        match taken(import, span, stop) {
            Ok(Given { series, n_left_out }) => {
                if n_left_out > 0 {
                    note(format!(
                        "{n_left_out} series are left out, more than {SERIES_MAX}; aggregate them in the query"
                    ));
                }
                let Import { name, unit, .. } = import;
                let source = import.source();
                writer.import(&Imported { name: name.clone(), unit: unit.clone(), source, series })?;
            }
            Err(error) => note(format!("{}: {error:#}", import.source())),
        }
    }
    Ok(())
}

/// The series of an import with times by our clock.
fn taken(import: &Import, span: LoadSpan, stop: &AtomicBool) -> Result<Given> {
    let offset_s = import.clock_offset_s;
    let there = |t_s: f64| ((t_s + offset_s) * 1e3).round() / 1e3;
    let there = LoadSpan { from_s: there(span.from_s), to_s: there(span.to_s) };
    let mut given = match &import.prometheus {
        Some(address) => ask(address, import, there, stop)?,
        None => read(import, there, stop)?,
    };
    for series in &mut given.series {
        series.name.truncate(series.name.floor_char_boundary(NAME_BYTES_MAX));
        series.points.retain(|(t_s, value)| value.is_finite() && *t_s >= there.from_s && *t_s <= there.to_s);
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.points.iter_mut().for_each(|point| point.0 -= offset_s);
    }
    given.series.retain(|series| !series.points.is_empty());
    ensure!(
        !given.series.is_empty(),
        "no sample between {} and {}, by the clock of the source",
        moment(there.from_s),
        moment(there.to_s)
    );
    Ok(given)
}

fn ask(address: &str, import: &Import, span: LoadSpan, stop: &AtomicBool) -> Result<Given> {
    let service = exporter::prometheus(address, import, stop)?;
    let query = import.query.as_deref().unwrap_or_default();
    let answer = service.ask(&prometheus::path(query, span), ANSWER_MAX, ANSWER_BYTES_MAX)?;
    let hint = match answer.status {
        401 | 403 => "; it wants another user, password or token",
        404 => "; the address must be that of a Prometheus server, without /api",
        _ => "",
    };
    let said = prometheus::read(&answer.body).map_err(|why| {
        let why: String = why.chars().take(EXCERPT_CHARS).collect();
        anyhow!("the answer has status {}{hint}: {why}", answer.status)
    });
    said.and_then(|given| match answer.status {
        200 => Ok(given),
        status => Err(anyhow!("the answer has status {status}{hint}")),
    })
}

fn read(import: &Import, span: LoadSpan, stop: &AtomicBool) -> Result<Given> {
    let path = import.csv.as_deref().context("an import has a source")?;
    let bytes = files::read_named(path, FILE_BYTES_MAX, stop).context("cannot be read")?;
    let text = String::from_utf8(bytes).ok().context("is not UTF-8 text")?;
    let columns = [&import.time_column, &import.value_column].map(|name| name.as_deref().unwrap_or_default());
    let points = csv::read(&text, columns, span).map_err(|why| anyhow!(why))?;
    Ok(Given { series: vec![ImportedSeries { name: String::new(), points }], n_left_out: 0 })
}

/// A time for a message.
fn moment(t_s: f64) -> String {
    jiff::Timestamp::from_second(t_s as i64).map_or_else(|_| format!("{t_s}"), |time| time.to_string())
}

#[cfg(test)]
mod tests;
