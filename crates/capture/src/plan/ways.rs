//! The ways to a captured workload, in the order in which to prefer them.

use model::release::{Release, privileges, settings};

use crate::plan::{LogVolume, SAMPLE_BYTES_PER_S, SourceFacts};

/// The prefix for servers without csvlog: time in ms, process, session, transaction, user and database.
pub(crate) const PREFIX: &str = "%m [%p] %c %v %x %q%u@%d ";

/// The same with the query id.
pub(crate) const PREFIX_WITH_ID: &str = "%m [%p] %c %v %x %Q %q%u@%d ";

/// Escapes without which a prefix is not good enough.
const ESCAPES_WANTED: [&str; 3] = ["%c", "%v", "%u"];

/// Minutes in which everything is logged.
const FULL_MINUTES: f64 = 10.0;

/// Transactions below which a server seems to be at rest. Autovacuum and our own questions are some.
const BUSY_MIN: f64 = 20.0;

/// A setting to change, and what it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting.
    pub name: String,
    /// The value that it should have, without quotes.
    pub value: String,
    /// The value that it has.
    pub before: String,
    /// Whether undoing means to set it again by ALTER SYSTEM.
    pub is_set_before: bool,
}

/// A way to a captured workload.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggingWay {
    /// A short name: `sample`, `full`, `statistics`.
    pub id: &'static str,
    /// A title.
    pub title: String,
    /// Settings to change; none if they are as they should be.
    pub changes: Vec<SettingChange>,
    /// Commands to do it.
    pub commands: Vec<String>,
    /// Commands to undo it.
    pub undo: Vec<String>,
    /// Bytes of log per second, the least and the most; `None` for no log.
    pub bytes_per_s: Option<[f64; 2]>,
    /// Reasons why it cannot be done with this server or role.
    pub missing: Vec<String>,
    /// Other things to know.
    pub notes: Vec<String>,
}

pub(super) fn ways(facts: &SourceFacts, whole: &LogVolume) -> Vec<LoggingWay> {
    vec![sample(facts, whole), full(facts, whole), statistics(facts)]
}

/// The destinations of the log.
pub(super) fn destinations(facts: &SourceFacts) -> Vec<String> {
    let now = facts.value("log_destination");
    let mut all: Vec<String> =
        now.split(',').map(|one| one.trim().to_string()).filter(|one| !one.is_empty()).collect();
    if all.is_empty() {
        all.push("stderr".to_string());
    }
    let has_fields = all.iter().any(|one| one == "csvlog" || one == "jsonlog");
    if facts.value("logging_collector") == "on" && !has_fields {
        all.push("csvlog".to_string());
    }
    all
}

/// Whole transactions at random.
fn sample(facts: &SourceFacts, whole: &LogVolume) -> LoggingWay {
    let rate = sample_rate(whole.most_per_s);
    let mut changes = fields(facts);
    change(facts, &mut changes, "log_transaction_sample_rate", &format!("{rate}"));
    let mut missing = Vec::new();
    if !Release::new(facts.version_num).has(settings::SAMPLED_TRANSACTIONS) {
        missing.push(format!(
            "PostgreSQL {} has no log_transaction_sample_rate; it came with 12",
            Release::new(facts.version_num).series()
        ));
    }
    let mut notes = vec![
        "whole transactions are logged, from BEGIN to COMMIT, with their values; the others leave nothing"
            .to_string(),
    ];
    if !whole.is_counted {
        notes.push(uncounted(facts));
    }
    way(
        facts,
        LoggingWay {
            id: "sample",
            title: format!("log {}% of all transactions", percent(rate)),
            changes,
            commands: Vec::new(),
            undo: Vec::new(),
            bytes_per_s: Some([rate * whole.least_per_s, rate * whole.most_per_s]),
            missing,
            notes,
        },
    )
}

/// Everything for minutes.
fn full(facts: &SourceFacts, whole: &LogVolume) -> LoggingWay {
    let mut changes = fields(facts);
    change(facts, &mut changes, "log_min_duration_statement", "0");
    let mut notes = vec![
        format!(
            "{FULL_MINUTES:.0} minutes write up to {}; sessions wait while the log cannot be written as fast",
            bytes(whole.most_per_s * FULL_MINUTES * 60.0)
        ),
        "the order of transactions and the pauses between them are in it: a trace can be made".to_string(),
    ];
    if !whole.is_counted {
        notes.push(uncounted(facts));
    }
    way(
        facts,
        LoggingWay {
            id: "full",
            title: format!("log everything for {FULL_MINUTES:.0} minutes"),
            changes,
            commands: Vec::new(),
            undo: Vec::new(),
            bytes_per_s: Some([whole.least_per_s, whole.most_per_s]),
            missing: Vec::new(),
            notes,
        },
    )
}

/// No log at all.
fn statistics(facts: &SourceFacts) -> LoggingWay {
    let mut missing = Vec::new();
    if !facts.has_statements {
        missing.push(
            "the database has no pg_stat_statements: shared_preload_libraries = 'pg_stat_statements' (restart), \
             then create extension pg_stat_statements"
                .to_string(),
        );
    }
    if !facts.sees_statements {
        missing.push(format!(
            "role {} does not see the statements of others: grant pg_read_all_stats to {0}",
            facts.role
        ));
    }
    LoggingWay {
        id: "statistics",
        title: "log nothing, read statistics alone".to_string(),
        changes: Vec::new(),
        commands: vec!["pgdyno capture stats --server TARGET --for 1h".to_string()],
        undo: Vec::new(),
        bytes_per_s: None,
        missing,
        notes: vec![
            "values come from pg_stats and transactions are unknown: at best an approximate workload"
                .to_string(),
            "with one of the other ways it gives the exact counts: run it over the same time".to_string(),
        ],
    }
}

/// Settings that both ways by log need, so that lines have their fields and values.
fn fields(facts: &SourceFacts) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    let release = Release::new(facts.version_num);
    change(facts, &mut changes, "log_destination", &destinations(facts).join(","));
    let has_ids = release.has(settings::QUERY_ID_SETTING);
    if has_ids && !(facts.has_statements && facts.value("compute_query_id") == "auto") {
        change(facts, &mut changes, "compute_query_id", "on");
    }
    let has_fields = destinations(facts).iter().any(|one| one == "csvlog" || one == "jsonlog");
    let prefix = facts.value("log_line_prefix");
    let is_good = ESCAPES_WANTED.iter().all(|escape| prefix.contains(escape))
        && ["%m", "%n"].iter().any(|escape| prefix.contains(escape));
    if !has_fields && !is_good {
        change(facts, &mut changes, "log_line_prefix", if has_ids { PREFIX_WITH_ID } else { PREFIX });
    }
    if release.has(settings::LOGGED_VALUES_LENGTH) {
        change(facts, &mut changes, "log_parameter_max_length", "-1");
    }
    if facts.value("log_error_verbosity") == "terse" {
        change(facts, &mut changes, "log_error_verbosity", "default");
    }
    if is_foreign(facts.value("lc_messages")) {
        change(facts, &mut changes, "lc_messages", "C");
    }
    changes
}

/// Adds a change, unless the setting is so already.
fn change(facts: &SourceFacts, changes: &mut Vec<SettingChange>, name: &str, value: &str) {
    let now = facts.settings.get(name).cloned().unwrap_or_default();
    // The server writes a list with blanks, and a file may have none.
    let is_same = now.value == value || (name == "log_destination" && now.value.replace(' ', "") == value);
    if !is_same {
        let name = name.to_string();
        let value = value.to_string();
        changes.push(SettingChange { name, value, before: now.value, is_set_before: now.is_by_alter_system });
    }
}

/// Writes the commands of a way, and the rights that they need.
fn way(facts: &SourceFacts, mut way: LoggingWay) -> LoggingWay {
    if let Some(service) = facts.service
        && !facts.is_superuser
    {
        way.commands = way.changes.iter().map(|change| service.set(&change.name, &change.value)).collect();
        let undo = way.changes.iter().map(|change| service.set(&change.name, &change.before));
        way.undo = undo.collect();
        way.notes.extend(service.notes().iter().map(|note| (*note).to_string()));
        return way;
    }
    let set = |name: &str, value: &str| format!("alter system set {name} = {};", quoted(name, value));
    way.commands = way.changes.iter().map(|change| set(&change.name, &change.value)).collect();
    way.undo = way
        .changes
        .iter()
        .map(|change| {
            if change.is_set_before {
                set(&change.name, &change.before)
            } else {
                format!("alter system reset {};", change.name)
            }
        })
        .collect();
    if !way.changes.is_empty() {
        for commands in [&mut way.commands, &mut way.undo] {
            commands.push("select pg_reload_conf();".to_string());
        }
        way.missing.extend(rights(facts, &way.changes));
        if !facts.sees_origins {
            way.notes.push(format!(
                "role {0} does not see what ALTER SYSTEM has set before, which a reset would lose: \
                 grant pg_read_all_settings to {0}, and plan again",
                facts.role
            ));
        }
    }
    way
}

/// Rights that the role lacks for changes.
fn rights(facts: &SourceFacts, changes: &[SettingChange]) -> Vec<String> {
    if facts.is_superuser {
        return Vec::new();
    }
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    let lacks: Vec<&str> =
        names.into_iter().filter(|name| !facts.may_alter.iter().any(|may| may == name)).collect();
    let mut missing = Vec::new();
    if !lacks.is_empty() {
        let role = &facts.role;
        missing.push(if Release::new(facts.version_num).has(privileges::PARAMETERS) {
            format!(
                "role {role} must not change them: grant alter system on parameter {} to {role}",
                lacks.join(", ")
            )
        } else {
            format!("role {role} is no superuser: only one may change {}", lacks.join(", "))
        });
    }
    if !facts.may_reload {
        missing.push(format!(
            "role {0} must not reload: grant execute on function pg_reload_conf() to {0}",
            facts.role
        ));
    }
    missing
}

/// Things that make a log worse in whatever way.
pub(super) fn obstacles(facts: &SourceFacts) -> Vec<String> {
    let mut obstacles = Vec::new();
    let on = |name: &str| facts.value(name) == "on";
    let ended = facts.rates.transactions_per_s.map(|rate| (rate * facts.rates.seconds).round());
    if let Some(few) = ended.filter(|n| *n < BUSY_MIN) {
        obstacles.push(format!(
            "only {few} transactions ended within {:.0} s: look again, and capture, while the application works",
            facts.rates.seconds
        ));
    }
    if facts.value("logging_collector") == "off" {
        obstacles.push(
            "logging_collector is off: there is no csvlog (it needs a restart), and the log is wherever the server's stderr or syslog goes"
                .to_string(),
        );
    }
    if matches!(facts.value("log_statement"), "all" | "mod" | "ddl") {
        obstacles.push(format!(
            "log_statement is {}: such statements are logged twice, before and after execution",
            facts.value("log_statement")
        ));
    }
    if on("log_duration") {
        obstacles.push("log_duration is on: each statement writes another line".to_string());
    }
    if facts.value("log_min_duration_statement") == "0" {
        obstacles.push(
            "log_min_duration_statement is 0: everything is logged already, and a sample adds nothing"
                .to_string(),
        );
    }
    if !on("log_disconnections") {
        obstacles.push("log_disconnections is off: when sessions end is unknown; only the number of clients depends on it".to_string());
    }
    obstacles
}

/// Messages in another language than English are not read.
fn is_foreign(locale: &str) -> bool {
    let is_english = |locale: &str| {
        ["C", "POSIX"].contains(&locale) || locale.starts_with("C.") || locale.starts_with("en")
    };
    !locale.is_empty() && !is_english(locale)
}

/// The share that writes at most `SAMPLE_BYTES_PER_S`: one digit, rounded down.
fn sample_rate(most_per_s: f64) -> f64 {
    let share = SAMPLE_BYTES_PER_S / most_per_s;
    if share.is_nan() || share >= 1.0 {
        return 1.0;
    }
    [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002]
        .into_iter()
        .find(|rate| *rate <= share)
        .unwrap_or(0.0001)
}

fn uncounted(facts: &SourceFacts) -> String {
    let reason = if facts.has_statements {
        "its counts were reset meanwhile"
    } else {
        "the database has no pg_stat_statements"
    };
    format!("statements were not counted ({reason}): 7 of 200 bytes per transaction are assumed")
}

fn percent(rate: f64) -> String {
    let text = format!("{:.2}", rate * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A value as SQL; numbers and words need no quotes, but lists do.
fn quoted(name: &str, value: &str) -> String {
    if name == "log_destination" {
        // Each element of a list on its own: quotes around all of them would make one of it.
        return value
            .split(',')
            .map(|one| format!("'{}'", one.trim().replace('\'', "''")))
            .collect::<Vec<String>>()
            .join(", ");
    }
    format!("'{}'", value.replace('\'', "''"))
}

/// Bytes for people.
pub(super) fn bytes(n: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(unit, _)| n >= *unit) {
        Some((unit, name)) if n / unit < 10.0 => format!("{:.1} {name}", n / unit),
        Some((unit, name)) => format!("{:.0} {name}", n / unit),
        None => format!("{n:.0} B"),
    }
}
