//! Objects around lines of stderr: exports of Cloud Logging, Azure Monitor and CloudWatch.

use anyhow::Result;
use serde::Deserialize;

use crate::log::combine::Combiner;
use crate::log::format::assembly::{Assembly, Envelope};
use crate::log::format::json::JsonShape;
use crate::log::format::json::records::JsonText;
use crate::log::format::prefix::LinePrefix;
use crate::log::reading::SkipReason;
use crate::log::time::{self, LogTime};

/// An object of any of the exports, or several in one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExportObject<'a> {
    #[serde(borrow, rename = "textPayload")]
    text_payload: JsonText<'a>,
    #[serde(borrow, alias = "@message")]
    message: JsonText<'a>,
    #[serde(borrow, alias = "time", alias = "@timestamp")]
    timestamp: JsonText<'a>,
    #[serde(borrow, rename = "logStreamName", alias = "@logStream")]
    log_stream: JsonText<'a>,
    #[serde(borrow, rename = "resourceId", alias = "LogicalServerName")]
    resource_id: JsonText<'a>,
    #[serde(borrow)]
    resource: Option<CloudResource<'a>>,
    #[serde(borrow)]
    properties: Option<AzureProperties<'a>>,
    #[serde(borrow, alias = "events")]
    records: Vec<ExportObject<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudResource<'a> {
    #[serde(borrow)]
    labels: CloudLabels<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudLabels<'a> {
    #[serde(borrow)]
    database_id: JsonText<'a>,
}

/// Fields of Azure: a single server has the prefix apart, a flexible one in the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AzureProperties<'a> {
    #[serde(borrow)]
    prefix: JsonText<'a>,
    #[serde(borrow)]
    message: JsonText<'a>,
    #[serde(borrow)]
    detail: JsonText<'a>,
    #[serde(borrow, rename = "errorLevel")]
    error_level: JsonText<'a>,
    #[serde(borrow, rename = "processId")]
    process_id: JsonText<'a>,
}

/// Reads an object.
pub(super) fn read(
    object: &[u8],
    shape: JsonShape,
    prefix: &LinePrefix,
    line: u64,
    assembly: &mut Assembly,
    combiner: &mut Combiner,
) -> Result<()> {
    let text = combiner.decode(object);
    let Ok(object) = serde_json::from_str::<ExportObject>(&text) else {
        combiner.skip(SkipReason::NoRecord);
        return Ok(());
    };
    let all = if object.records.is_empty() { std::slice::from_ref(&object) } else { &object.records };
    for object in all {
        read_object(object, shape, prefix, line, assembly, combiner)?;
    }
    Ok(())
}

fn read_object(
    object: &ExportObject,
    shape: JsonShape,
    prefix: &LinePrefix,
    line: u64,
    assembly: &mut Assembly,
    combiner: &mut Combiner,
) -> Result<()> {
    let Some(text) = inner_text(object, shape) else {
        combiner.skip(SkipReason::OtherLog);
        return Ok(());
    };
    let server = match (&object.resource, object.log_stream.bytes()) {
        (Some(resource), _) => resource.labels.database_id.bytes(),
        (None, []) => object.resource_id.bytes(),
        (None, stream) => stream,
    };
    let pid = object.properties.as_ref().and_then(|found| time::number_u32(found.process_id.bytes()));
    let envelope = Envelope { time: envelope_time(object.timestamp.bytes()), pid, server };
    let mut session = None;
    for (n, part) in text.as_bytes().split(|byte| *byte == b'\n').enumerate() {
        match prefix.read(part) {
            Some(found) => {
                session = found.fields.session().pid().or(envelope.pid);
                assembly.prefixed(&found, envelope, line, combiner)?;
            }
            None if n == 0 => assembly.unprefixed(part, combiner)?,
            None => {
                let rest = part.strip_prefix(b"\t").unwrap_or(part);
                assembly.continued(rest, b"\n", session, combiner)?;
            }
        }
    }
    let detail =
        object.properties.as_ref().map(|found| found.detail.bytes()).filter(|detail| !detail.is_empty());
    if let Some(detail) = detail {
        assembly.detail(detail, session);
    }
    Ok(())
}

/// The text that the server has written.
fn inner_text(object: &ExportObject, shape: JsonShape) -> Option<String> {
    let text = match (shape, &object.properties) {
        (JsonShape::CloudSql, _) => object.text_payload.0.to_string(),
        (JsonShape::Azure, Some(found)) if !found.prefix.0.is_empty() => {
            format!("{}{}:  {}", found.prefix.0, found.error_level.0, found.message.0)
        }
        (JsonShape::Azure, Some(found)) => found.message.0.to_string(),
        (JsonShape::Azure, None) => return None,
        _ => object.message.0.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// ISO 8601, or milliseconds since 1970.
fn envelope_time(text: &[u8]) -> Option<LogTime> {
    if let Some(ms) = time::number(text) {
        let us = ms.checked_mul(1000)?;
        return Some(LogTime { us, is_whole: false, is_zone_unknown: false });
    }
    time::stamp(text).map(|(time, _)| time)
}

/// The first lines of the texts in objects, for finding out their prefix.
pub(crate) fn inner_lines(objects: &[Vec<u8>], shape: JsonShape) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for object in objects {
        let Ok(object) = serde_json::from_slice::<ExportObject>(object) else { continue };
        let all = if object.records.is_empty() { std::slice::from_ref(&object) } else { &object.records };
        let texts = all.iter().filter_map(|object| inner_text(object, shape));
        lines.extend(texts.map(|text| text.lines().next().unwrap_or_default().as_bytes().to_vec()));
    }
    lines
}
