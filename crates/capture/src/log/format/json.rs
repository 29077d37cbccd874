//! Logs as JSON: the server's jsonlog, CloudNativePG's, and exports of Cloud SQL, Azure and CloudWatch, one object per line or pretty-printed.

mod envelopes;
mod objects;
mod records;

use anyhow::Result;

use crate::log::combine::Combiner;
use crate::log::format::assembly::{Assembly, Interleaving};
use crate::log::format::next_line;
use crate::log::format::prefix::LinePrefix;
use crate::log::reading::SkipReason;
use crate::log::source::LogSource;

pub(crate) use self::envelopes::inner_lines;
use self::objects::{Fed, Objects};

/// Who wrote the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonShape {
    /// The server itself, since 15.
    JsonLog,
    /// CloudNativePG, with csvlog's columns in `record`.
    CloudNativePg,
    /// Cloud Logging, with a line of stderr in `textPayload`.
    CloudSql,
    /// Azure Monitor, with a line of stderr in `properties`.
    Azure,
    /// CloudWatch, with a line of stderr in `message`.
    CloudWatch,
}

impl JsonShape {
    /// Words for people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            JsonShape::JsonLog => "jsonlog",
            JsonShape::CloudNativePg => "JSON of CloudNativePG",
            JsonShape::CloudSql => "JSON of Cloud Logging",
            JsonShape::Azure => "JSON of Azure Monitor",
            JsonShape::CloudWatch => "JSON of CloudWatch",
        }
    }

    /// The shape of objects with these keys.
    pub(crate) fn from_object(object: &[u8]) -> Option<JsonShape> {
        let has = |key: &str| memchr::memmem::find(object, key.as_bytes()).is_some();
        let is_postgres = has("\"error_severity\"");
        if is_postgres && has("\"record\"") && has("\"logger\"") {
            return Some(JsonShape::CloudNativePg);
        }
        if is_postgres {
            return Some(JsonShape::JsonLog);
        }
        if has("\"textPayload\"") {
            return Some(JsonShape::CloudSql);
        }
        if has("\"properties\"") && has("\"message\"") {
            return Some(JsonShape::Azure);
        }
        (has("\"message\"") || has("\"@message\"")).then_some(JsonShape::CloudWatch)
    }

    /// Whether the objects contain lines of stderr, which have a prefix.
    pub(crate) fn has_prefix(self) -> bool {
        matches!(self, JsonShape::CloudSql | JsonShape::Azure | JsonShape::CloudWatch)
    }
}

/// Whole objects at the beginning of a text, for finding out what they are.
pub(crate) fn sample(text: &[u8]) -> Vec<Vec<u8>> {
    let mut objects = Objects::default();
    let mut found = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Fed::Object(object) = objects.feed(line) {
            found.push(object.to_vec());
        }
    }
    found
}

/// Reads the rest of a file.
pub(crate) fn read(
    source: &mut LogSource,
    shape: JsonShape,
    prefix: Option<&LinePrefix>,
    combiner: &mut Combiner,
) -> Result<()> {
    let mut objects = Objects::default();
    let mut assembly = Assembly::new(Interleaving::Mixed);
    while let Some(range) = next_line(source, combiner)? {
        let line = source.line();
        match objects.feed(source.bytes(range)) {
            Fed::Object(object) => match (shape, prefix) {
                (JsonShape::JsonLog | JsonShape::CloudNativePg, _) => {
                    records::read(object, shape, line, combiner)?;
                }
                (_, Some(prefix)) => envelopes::read(object, shape, prefix, line, &mut assembly, combiner)?,
                (_, None) => combiner.skip(SkipReason::NoRecord),
            },
            Fed::Part => {}
            Fed::Skipped(reason) => combiner.skip(reason),
        }
        if objects.take_torn() {
            combiner.skip(SkipReason::Torn);
        }
    }
    if objects.is_open() {
        combiner.skip(SkipReason::Torn);
    }
    assembly.finish(combiner)
}
