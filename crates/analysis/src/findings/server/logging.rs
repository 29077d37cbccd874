//! Findings about what the server records of each statement: logs, plans, statistics of statements.

use model::experiment::case::setting::library::{PRELOADS, libraries_in};
use model::run::server::ServerRecord;
use model::text::units::Span;

use crate::finding::{Finding, Severity};
use crate::findings::format::list;
use crate::findings::{Rule, RuleCheck, RunContext};
use crate::run::settings::server_as_sessions_have_it;

/// Statements that take longer are rare enough that logging them costs little, milliseconds.
const SLOW_MS: f64 = 10.0;

/// Libraries that work on each statement, and how much that weighs: those that write or sum up plans cost most.
const TRACERS: &[(&str, Severity)] = &[
    ("auto_explain", Severity::Doubt),
    ("pgaudit", Severity::Doubt),
    ("pg_stat_monitor", Severity::Doubt),
    ("pg_tracing", Severity::Doubt),
    ("plprofiler", Severity::Doubt),
    ("pg_show_plans", Severity::Doubt),
    ("pg_store_plans", Severity::Doubt),
    ("pg_qualstats", Severity::Doubt),
    ("pg_stat_statements", Severity::Note),
    ("pg_stat_kcache", Severity::Note),
    ("pg_wait_sampling", Severity::Note),
];

/// Switches that write text for each statement into the log.
const SWITCHES: [&str; 8] = [
    "log_duration",
    "log_parser_stats",
    "log_planner_stats",
    "log_executor_stats",
    "log_statement_stats",
    "debug_print_parse",
    "debug_print_rewritten",
    "debug_print_plan",
];

pub(in crate::findings) const STATEMENTS_LOGGED: Rule = Rule {
    id: "statements-logged",
    title: "The server records each statement",
    severity: "Doubt when statements, their durations or their plans are logged (log_statement = all or mod, \
               log_duration, log_min_duration_statement below 10 ms, samples of more than 1 %, statistics of \
               the executor, auto_explain, a library that audits or traces statements); Note for \
               pg_stat_statements and its like, auto_explain that logs no plan \
               (auto_explain.log_min_duration = -1), and settings that experiment.conditions state",
    source: "PostgreSQL documentation, runtime-config-logging and auto_explain; 10 ms and 1 % are our convention",
    advice: "Turn it off for the measurement, unless the server always works with it: then it belongs to the \
             number.",
    evidence: "Settings as a session of the load's role and database sees them, and the libraries that they \
               load.",
    why: "Each statement also writes to the log or updates a shared hash table, which slows short \
          transactions most.",
    tested: "log_statement = all by URL and on one side of comparisons; auto_explain on one side by URL and, with log_duration, on a \
             server that pgdyno runs.",
    check: RuleCheck::Run(statements_logged),
};

fn statements_logged(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let server = server_as_sessions_have_it(record)?;
    let mut found = statement_records(&server);
    for (text, severity) in &mut found {
        let name = setting_of(text);
        if server.setting(name).is_some_and(|value| record.case.states(name, value)) {
            *severity = Severity::Note;
        }
    }
    let severity = found.iter().map(|(_, severity)| *severity).max()?;
    let texts: Vec<String> = found.into_iter().map(|(text, _)| text).collect();
    Some(STATEMENTS_LOGGED.finds(severity, format!("each statement is recorded: {}", list(&texts, 5))))
}

/// The setting that makes the server record statements: of `log_duration = on`, of `pgaudit in shared_preload_libraries`.
fn setting_of(text: &str) -> &str {
    let setting = text.split_once(" in ").map_or(text, |(_, preload)| preload);
    setting.split(' ').next().unwrap_or_default()
}

/// What makes the server record statements, and how much each weighs.
pub(crate) fn statement_records(server: &ServerRecord) -> Vec<(String, Severity)> {
    let is = |name: &str, values: &[&str]| server.setting(name).is_some_and(|value| values.contains(&value));
    let mut found: Vec<(String, Severity)> = Vec::new();
    let mut doubt = |name: &str| {
        let value = server.setting(name).unwrap_or_default();
        found.push((format!("{name} = {value}"), Severity::Doubt));
    };
    if is("log_statement", &["all", "mod"]) {
        doubt("log_statement");
    }
    SWITCHES.into_iter().filter(|name| is(name, &["on"])).for_each(&mut doubt);
    if logs_faster_than(server, "log_min_duration_statement", SLOW_MS) {
        doubt("log_min_duration_statement");
    }
    if sampled(server, "log_statement_sample_rate")
        && logs_faster_than(server, "log_min_duration_sample", SLOW_MS)
    {
        doubt("log_min_duration_sample");
    }
    if sampled(server, "log_transaction_sample_rate") {
        doubt("log_transaction_sample_rate");
    }
    let weight = |library: &str, severity: Severity| {
        // Loaded, but logging no plan.
        let is_idle = library == "auto_explain" && is("auto_explain.log_min_duration", &["-1"]);
        if is_idle { Severity::Note } else { severity }
    };
    let mut named = Vec::new();
    for (preload, library) in PRELOADS.iter().flat_map(|name| libraries(server, name)) {
        if let Some((name, severity)) = TRACERS.iter().find(|(name, _)| *name == library) {
            named.push(*name);
            found.push((format!("{name} in {preload}"), weight(name, *severity)));
        }
    }
    // Each of them has settings of its own, which also a role sees from which the names of libraries are hidden.
    let is_hidden = PRELOADS.iter().any(|preload| server.hides(preload));
    let is_seen = |name: &str| is_hidden && !named.contains(&name) && server.has_loaded(name);
    for (name, severity) in TRACERS.iter().filter(|(name, _)| is_seen(name)) {
        found.push((format!("{name} (loaded by a setting that is hidden)"), weight(name, *severity)));
    }
    found
}

/// Whether a setting decides what is recorded of statements.
pub(in crate::findings) fn is_about_statements(name: &str) -> bool {
    PRELOADS.contains(&name)
        || SWITCHES.contains(&name)
        || name.starts_with("log_")
        || name.starts_with("auto_explain.")
}

/// Whether a threshold of durations is on and lower than `limit_ms`.
fn logs_faster_than(server: &ServerRecord, name: &str, limit_ms: f64) -> bool {
    server.setting(name).and_then(milliseconds).is_some_and(|ms| (0.0..limit_ms).contains(&ms))
}

/// More than 1 %.
fn sampled(server: &ServerRecord, name: &str) -> bool {
    server.setting(name).and_then(|value| value.parse::<f64>().ok()).is_some_and(|share| share > 0.01)
}

/// Milliseconds as `SHOW` prints them: `-1`, `0`, `250ms`, `2s`, `1min`.
fn milliseconds(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| Some(text.parse::<Span>().ok()?.ms as f64))
}

/// The libraries that a setting names, each with the setting.
fn libraries<'a>(server: &'a ServerRecord, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    libraries_in(server.setting(name).unwrap_or_default()).map(move |library| (name, library))
}

#[cfg(test)]
mod tests {
    use model::run::server::Setting;

    use super::*;

    #[test]
    fn a_library_is_stated_by_the_setting_that_loads_it() {
        assert_eq!(setting_of("pgaudit in shared_preload_libraries"), "shared_preload_libraries");
        assert_eq!(setting_of("log_min_duration_statement = 0"), "log_min_duration_statement");
    }

    #[test]
    fn settings_that_record_statements_are_found() {
        let check = |settings: &[(&str, &str)], expected: &[(&str, Severity)]| {
            let setting = |(name, value): &(&str, &str)| {
                (name.to_string(), Setting { value: value.to_string(), source: "database".to_string() })
            };
            let server =
                ServerRecord { settings: settings.iter().map(setting).collect(), ..ServerRecord::default() };
            let found = statement_records(&server);
            let found: Vec<(&str, Severity)> =
                found.iter().map(|(text, severity)| (text.as_str(), *severity)).collect();
            assert_eq!(found, expected, "{settings:?}");
        };
        use Severity::{Doubt, Note};
        check(&[("log_statement", "ddl"), ("log_duration", "off")], &[]);
        check(&[("log_statement", "all")], &[("log_statement = all", Doubt)]);
        check(&[("log_duration", "on")], &[("log_duration = on", Doubt)]);
        check(&[("log_min_duration_statement", "0")], &[("log_min_duration_statement = 0", Doubt)]);
        check(&[("log_min_duration_statement", "-1")], &[]);
        check(&[("log_min_duration_statement", "1s")], &[]);
        check(&[("log_min_duration_sample", "0"), ("log_statement_sample_rate", "0.001")], &[]);
        check(&[("log_transaction_sample_rate", "1")], &[("log_transaction_sample_rate = 1", Doubt)]);
        check(
            &[("shared_preload_libraries", "pg_stat_statements, \"$libdir/auto_explain.so\"")],
            &[
                ("pg_stat_statements in shared_preload_libraries", Note),
                ("auto_explain in shared_preload_libraries", Doubt),
            ],
        );
        // From a role without pg_read_all_settings, the names of libraries are hidden, and their own settings are not.
        check(
            &[("pg_stat_statements.max", "5000"), ("auto_explain.log_min_duration", "0"), ("fsync", "on")],
            &[
                ("auto_explain (loaded by a setting that is hidden)", Doubt),
                ("pg_stat_statements (loaded by a setting that is hidden)", Note),
            ],
        );
        check(&[("data_directory", "/d"), ("pg_stat_statements.max", "5000")], &[]);
        check(
            &[("session_preload_libraries", "auto_explain"), ("auto_explain.log_min_duration", "-1")],
            &[("auto_explain in session_preload_libraries", Note)],
        );
    }
}
