//! What to set on a server so that its log can be captured: the ways in order, their text to do and undo, what they write per second, and
//! which rights are missing. A pure function of what was read from the server.

mod rates;
mod service;
mod text;
pub(crate) mod ways;

use std::collections::BTreeMap;

pub use self::rates::{LogVolume, SourceRates};
pub use self::service::ManagedService;
pub use self::ways::{LoggingWay, SettingChange};

/// Most bytes of log per second that a sample should add.
pub const SAMPLE_BYTES_PER_S: f64 = 1e6;

/// A setting of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceSetting {
    /// The value.
    pub value: String,
    /// Whether ALTER SYSTEM has set it, as far as the role sees that.
    pub is_by_alter_system: bool,
}

/// Facts that were read from the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceFacts {
    /// `server_version_num`.
    pub version_num: u32,
    /// The role.
    pub role: String,
    /// Whether it is a superuser.
    pub is_superuser: bool,
    /// Settings that it may change by ALTER SYSTEM although it is none.
    pub may_alter: Vec<String>,
    /// Whether it may call `pg_reload_conf()`.
    pub may_reload: bool,
    /// Whether it sees in which file a setting was set.
    pub sees_origins: bool,
    /// Whether it may read others' texts in statistics.
    pub sees_statements: bool,
    /// Settings that have to do with logging.
    pub settings: BTreeMap<String, SourceSetting>,
    /// The service that runs it, if it looks like one.
    pub service: Option<ManagedService>,
    /// Whether the database has pg_stat_statements.
    pub has_statements: bool,
    /// What happened within the time of looking.
    pub rates: SourceRates,
}

impl SourceFacts {
    /// The value of a setting, empty if it is not known.
    fn value(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", |setting| setting.value.as_str())
    }
}

/// The plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturePlan {
    /// Ways, the recommended one first.
    pub ways: Vec<LoggingWay>,
    /// What is missing or wrong on the server whatever the way: language, terse messages.
    pub obstacles: Vec<String>,
    /// Bytes per second of a log with all statements.
    pub whole: LogVolume,
}

impl CapturePlan {
    /// The plan for a server.
    #[must_use]
    pub fn new(facts: &SourceFacts) -> CapturePlan {
        let whole = rates::volume(facts);
        CapturePlan { ways: ways::ways(facts, &whole), obstacles: ways::obstacles(facts), whole }
    }

    /// The plan as text for a terminal.
    #[must_use]
    pub fn text(&self, facts: &SourceFacts) -> String {
        text::text(self, facts)
    }
}

#[cfg(test)]
mod tests;
