//! Range queries of Prometheus' HTTP API, version 1: the path to ask for, and the answer. Pure.
//!
//! Source: Prometheus, HTTP API, "Range queries" and "Range vectors".

use std::collections::{BTreeMap, BTreeSet};

use model::telemetry::import::ImportedSeries;
use serde::Deserialize;

use super::{Given, LoadSpan, POINTS_MAX, SERIES_MAX};

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    result_type: String,
    #[serde(default)]
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// The path of a query over a span, in steps of a second, or of as many as keep it below the most points.
pub(super) fn path(query: &str, span: LoadSpan) -> String {
    let length_s = (span.to_s - span.from_s).max(0.0);
    let step_s = ((length_s / (POINTS_MAX as f64 - 1.0)).ceil()).max(1.0);
    let LoadSpan { from_s, to_s } = span;
    format!("/api/v1/query_range?query={}&start={from_s:.3}&end={to_s:.3}&step={step_s:.0}", encoded(query))
}

/// Percent-encoding (RFC 3986, section 2.1).
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The series of an answer, each named by the labels in which they differ.
///
/// # Errors
/// With the server's own message, or what is wrong with the answer.
pub(super) fn read(body: &str) -> Result<Given, String> {
    let answer: Answer = serde_json::from_str(body)
        .map_err(|error| format!("it is not an answer of Prometheus' API ({error})"))?;
    if answer.status != "success" {
        return Err(answer.error);
    }
    let data = answer.data.ok_or("it has no data")?;
    if data.result_type != "matrix" {
        return Err(format!("it is a {}, not a series over time", data.result_type));
    }
    let labels: BTreeSet<&String> = data.result.iter().flat_map(|series| series.metric.keys()).collect();
    let differ = |label: &&String| {
        let values: BTreeSet<Option<&String>> =
            data.result.iter().map(|series| series.metric.get(*label)).collect();
        values.len() > 1
    };
    let telling: Vec<String> = labels.into_iter().filter(differ).cloned().collect();
    let mut series: Vec<ImportedSeries> = data
        .result
        .into_iter()
        .map(|series| {
            let values = telling.iter().filter_map(|label| series.metric.get(label));
            let points = series.values.iter().take(POINTS_MAX);
            ImportedSeries {
                name: values.cloned().collect::<Vec<_>>().join(", "),
                points: points.filter_map(|(t_s, value)| Some((*t_s, value.parse().ok()?))).collect(),
            }
        })
        .collect();
    series.sort_by(|a, b| a.name.cmp(&b.name));
    let n_left_out = series.len().saturating_sub(SERIES_MAX);
    series.truncate(SERIES_MAX);
    Ok(Given { series, n_left_out })
}
