//! Objects with a column per field: jsonlog, and CloudNativePG's records.

use std::borrow::Cow;
use std::fmt;

use anyhow::Result;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::log::combine::Combiner;
use crate::log::format::json::JsonShape;
use crate::log::format::record::{
    LogRecord, MessageLevel, SessionKey, level, signed, sql_state, virtual_transaction,
};
use crate::log::reading::SkipReason;
use crate::log::time;

/// A text, or a number as text; null is empty.
#[derive(Debug, Default)]
pub(super) struct JsonText<'a>(pub(super) Cow<'a, str>);

impl JsonText<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonText<'a>, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = JsonText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(text.to_string())))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(number.to_string())))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(number.to_string())))
            }

            fn visit_unit<E: Error>(self) -> Result<JsonText<'de>, E> {
                Ok(JsonText::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Fields of both, which name them differently.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonRecord<'a> {
    #[serde(borrow, alias = "log_time")]
    timestamp: JsonText<'a>,
    #[serde(borrow, alias = "user_name")]
    user: JsonText<'a>,
    #[serde(borrow, alias = "database_name")]
    dbname: JsonText<'a>,
    #[serde(borrow, alias = "process_id")]
    pid: JsonText<'a>,
    #[serde(borrow)]
    session_id: JsonText<'a>,
    #[serde(borrow, alias = "command_tag")]
    ps: JsonText<'a>,
    #[serde(borrow, alias = "session_start_time")]
    session_start: JsonText<'a>,
    #[serde(borrow, alias = "virtual_transaction_id")]
    vxid: JsonText<'a>,
    #[serde(borrow, alias = "transaction_id")]
    txid: JsonText<'a>,
    #[serde(borrow)]
    error_severity: JsonText<'a>,
    #[serde(borrow, alias = "sql_state_code")]
    state_code: JsonText<'a>,
    #[serde(borrow)]
    message: JsonText<'a>,
    #[serde(borrow)]
    detail: JsonText<'a>,
    #[serde(borrow)]
    context: JsonText<'a>,
    #[serde(borrow, alias = "query")]
    statement: JsonText<'a>,
    #[serde(borrow)]
    application_name: JsonText<'a>,
    #[serde(borrow)]
    backend_type: JsonText<'a>,
    #[serde(borrow)]
    leader_pid: JsonText<'a>,
    #[serde(borrow)]
    query_id: JsonText<'a>,
}

/// An object of CloudNativePG, of PostgreSQL or of the operator's own programs.
#[derive(Debug, Deserialize)]
struct CloudNativePgObject<'a> {
    #[serde(borrow, default)]
    record: Option<JsonRecord<'a>>,
    #[serde(borrow, default)]
    logging_pod: JsonText<'a>,
}

/// Reads an object.
pub(super) fn read(object: &[u8], shape: JsonShape, line: u64, combiner: &mut Combiner) -> Result<()> {
    let text = combiner.decode(object);
    if !read_text(&text, shape, line, combiner)? {
        combiner.skip(SkipReason::NoRecord);
    }
    Ok(())
}

/// Whether the object could be read.
fn read_text(text: &str, shape: JsonShape, line: u64, combiner: &mut Combiner) -> Result<bool> {
    if shape == JsonShape::JsonLog {
        let Ok(record) = serde_json::from_str::<JsonRecord>(text) else { return Ok(false) };
        return take(&record, b"", line, combiner);
    }
    let Ok(object) = serde_json::from_str::<CloudNativePgObject>(text) else { return Ok(false) };
    match &object.record {
        Some(record) if !record.error_severity.0.is_empty() => {
            take(record, object.logging_pod.bytes(), line, combiner)
        }
        _ => {
            combiner.skip(SkipReason::OtherLog);
            Ok(true)
        }
    }
}

fn take(record: &JsonRecord, server: &[u8], line: u64, combiner: &mut Combiner) -> Result<bool> {
    let Some((stamp, _)) = time::stamp(record.timestamp.bytes()) else { return Ok(false) };
    let started = time::stamp(record.session_start.bytes()).map(|(time, _)| time);
    let id = SessionKey::from_id(record.session_id.bytes());
    let session = SessionKey::best(id, time::number_u32(record.pid.bytes()), started);
    combiner.record(&LogRecord {
        line,
        time: Some(stamp),
        started,
        session,
        user: record.user.bytes(),
        database: record.dbname.bytes(),
        application: record.application_name.bytes(),
        transaction: virtual_transaction(record.vxid.bytes()),
        xid: signed(record.txid.bytes()).unsigned_abs(),
        query_id: signed(record.query_id.bytes()),
        tag: record.ps.bytes(),
        process_kind: record.backend_type.bytes(),
        is_worker: !matches!(record.leader_pid.bytes(), b"" | b"0"),
        level: level(record.error_severity.bytes()).unwrap_or(MessageLevel::Foreign),
        state: sql_state(record.state_code.bytes()),
        message: Cow::Borrowed(record.message.bytes()),
        detail: Cow::Borrowed(record.detail.bytes()),
        context: Cow::Borrowed(record.context.bytes()),
        statement: Cow::Borrowed(record.statement.bytes()),
        server,
    })?;
    Ok(true)
}
