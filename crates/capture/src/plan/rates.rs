//! How much a server would log.

use crate::plan::SourceFacts;

/// Bytes of a line without the text of its statement, by destination: measured on 15 with TPC-B's statements (195, 282 and 458 bytes a
/// statement of 60 bytes of text).
const LINE_BYTES: [(&str, f64); 4] =
    [("csvlog", 222.0), ("jsonlog", 398.0), ("syslog", 170.0), ("stderr", 135.0)];

/// Bytes of the values of a line with DETAIL, on average of TPC-B's statements.
const VALUE_BYTES: f64 = 50.0;

/// Lines of a statement by the extended protocol without a name: parse, bind and execute.
const LINES_EXTENDED: f64 = 3.0;

/// Assumptions where nothing counts statements: TPC-B has 7 per transaction.
const STATEMENTS_PER_TRANSACTION: f64 = 7.0;

/// The same: bytes of a text.
const TEXT_BYTES: f64 = 200.0;

/// Rates of a server while it was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SourceRates {
    /// The time of looking, in seconds.
    pub seconds: f64,
    /// Transactions per second, committed and rolled back, of all databases.
    pub transactions_per_s: Option<f64>,
    /// Statements per second, by pg_stat_statements.
    pub statements_per_s: Option<f64>,
    /// Bytes of their texts on average, with `$1` for each constant.
    pub text_bytes: Option<f64>,
}

/// Bytes of log per second: the least if all statements are simple queries, the most if all have parse, bind and execute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogVolume {
    /// Bytes if all are simple queries.
    pub least_per_s: f64,
    /// Bytes if all are of the extended protocol.
    pub most_per_s: f64,
    /// Whether statements were counted, and not assumed.
    pub is_counted: bool,
}

/// The volume of logging everything.
pub(super) fn volume(facts: &SourceFacts) -> LogVolume {
    let rates = &facts.rates;
    let per_s = rates
        .statements_per_s
        .unwrap_or(rates.transactions_per_s.unwrap_or(0.0) * STATEMENTS_PER_TRANSACTION);
    let text = rates.text_bytes.unwrap_or(TEXT_BYTES);
    let destinations = super::ways::destinations(facts);
    let line: f64 = LINE_BYTES
        .iter()
        .filter(|(name, _)| destinations.iter().any(|destination| destination == name))
        .map(|(_, bytes)| bytes + text)
        .sum();
    let n_destinations = destinations.len() as f64;
    LogVolume {
        least_per_s: per_s * line,
        most_per_s: per_s * LINES_EXTENDED * (line + VALUE_BYTES * n_destinations),
        is_counted: rates.statements_per_s.is_some(),
    }
}
