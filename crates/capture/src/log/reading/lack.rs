//! What a log lacks: which setting would add it, and what can be made without it.

use super::{LogReading, SkipReason, TimeResolution};

/// Something that a log lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The missing thing, with its extent.
    pub what: String,
    /// The setting that adds it.
    pub setting: &'static str,
    /// Results that are possible without it.
    pub still: &'static str,
}

impl Lack {
    fn new(what: impl Into<String>, setting: &'static str, still: &'static str) -> Lack {
        Lack { what: what.into(), setting, still }
    }
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: set {}; {}", self.what, self.setting, self.still)
    }
}

pub(super) fn lacks(reading: &LogReading) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let n = reading.statements;
    if reading.timed == 0 {
        lacks.push(Lack::new(
            "no durations",
            "log_min_duration_statement = 0",
            "without them, mix, order and rates can be made, but no share of time",
        ));
    } else if reading.timed + reading.failed + reading.batched < n {
        lacks.push(Lack::new(
            format!("{} of {n} statements have no duration", n - reading.timed - reading.batched),
            "log_min_duration_statement = 0",
            "their time counts as unknown",
        ));
    }
    if !reading.has_processes {
        lacks.push(Lack::new(
            "no session or process in any line",
            "log_line_prefix = '%m [%p] %c %v %q%u@%d '",
            "without it, statements alone can be made, without transactions",
        ));
    } else if reading.guessed_sessions > 0 {
        lacks.push(Lack::new(
            "sessions are known by process id alone",
            "log_line_prefix with %c",
            "a process that was silent for 10 minutes counts as another session",
        ));
    }
    if reading.with_transaction == 0 {
        lacks.push(Lack::new(
            "no virtual transaction ids",
            "log_line_prefix with %v, or csvlog",
            "transactions are cut at BEGIN and COMMIT alone",
        ));
    }
    if reading.parameterized > reading.with_values {
        lacks.push(Lack::new(
            format!(
                "{} of {} statements with parameters have no values",
                reading.parameterized - reading.with_values,
                reading.parameterized
            ),
            "log_parameter_max_length = -1 and log_error_verbosity = default",
            "their values come from statistics",
        ));
    }
    if reading.resolution == TimeResolution::Second {
        lacks.push(Lack::new(
            "times in whole seconds",
            "log_line_prefix with %m instead of %t",
            "a model can be made, but no trace",
        ));
    }
    if reading.with_query_id == 0 {
        lacks.push(Lack::new(
            "no query ids",
            "compute_query_id = on (14 or later), with csvlog or %Q",
            "statements are joined with pg_stat_statements by their texts",
        ));
    }
    let without_text = reading.skipped(SkipReason::DurationWithoutText);
    if without_text > 0 {
        lacks.push(Lack::new(
            format!("{without_text} durations have no text"),
            "log_min_duration_statement = 0 instead of log_duration",
            "their statements are left out",
        ));
    }
    lacks
}
