//! `pgdyno capture plan`: reads settings, rights and rates of a server, and prints what to set there. It changes nothing.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use capture::plan::{CapturePlan, LoggingWay, ManagedService, SourceFacts, SourceRates, SourceSetting};
use dataset::session::{self, limit};
use model::release::{Release, privileges};
use wire::session::{Extension, Session, quote_literal};

use crate::front::cli::data::capture::plan::CapturePlanArgs;
use crate::front::setup;
use crate::{Exit, print, print_exact, signals};

/// Settings that decide what a log has.
const SETTINGS: [&str; 14] = [
    "compute_query_id",
    "lc_messages",
    "log_destination",
    "log_disconnections",
    "log_duration",
    "log_error_verbosity",
    "log_line_prefix",
    "log_min_duration_statement",
    "log_parameter_max_length",
    "log_statement",
    "log_timezone",
    "log_transaction_sample_rate",
    "logging_collector",
    "shared_preload_libraries",
];

/// Longest time that nobody is asked whether to go on.
const NAP: Duration = Duration::from_millis(100);

/// Looks at a server, and prints the plan for it.
pub(crate) fn plan(args: &CapturePlanArgs) -> Result<Exit> {
    let conninfo = setup::resolve_to_look(&args.server)?;
    let length = Duration::from_millis(args.length.ms);
    let look = || {
        let mut session = session::open(&conninfo, signals::stop_flag())?;
        facts(&mut session, length)
    };
    let facts = limit::within("examine the server", limit::QUESTIONS + length, look)?;
    let plan = CapturePlan::new(&facts);
    if args.json {
        print_exact(&format!("{}\n", serde_json::to_string_pretty(&json(&plan, &facts))?))?;
    } else {
        print(&plan.text(&facts))?;
    }
    Ok(Exit::Done)
}

fn facts(session: &mut Session, length: Duration) -> Result<SourceFacts> {
    let version_num = session.server_version_num();
    let release = Release::new(version_num);
    let mut facts = SourceFacts { version_num, ..SourceFacts::default() };
    let role = session.query(
        "select current_user, rolsuper, pg_catalog.has_function_privilege('pg_catalog.pg_reload_conf()', 'execute') as reload \
         from pg_catalog.pg_roles where rolname = current_user",
    )?;
    facts.role = role.get(0, "current_user").unwrap_or_default().to_string();
    facts.is_superuser = role.get(0, "rolsuper") == Some("t");
    facts.may_reload = role.get(0, "reload") == Some("t");
    read_settings(session, &mut facts)?;
    if release.has(privileges::PARAMETERS) {
        let sql = format!(
            "select name from pg_catalog.pg_settings where name in ({}) and pg_catalog.has_parameter_privilege(name, 'ALTER SYSTEM')",
            names(&SETTINGS)
        );
        facts.may_alter = session.query(&sql)?.into_first_column();
    }
    facts.sees_statements = facts.is_superuser || is_member(session, "pg_read_all_stats")?;
    facts.sees_origins = facts.is_superuser || is_member(session, "pg_read_all_settings")?;
    facts.service = service(session)?;
    let statements = statements_schema(session)?;
    facts.has_statements = statements.is_some();
    facts.rates = rates(session, statements.as_deref(), length)?;
    if !facts.sees_statements {
        // The server shows `<insufficient privilege>` instead of the others' texts.
        facts.rates.text_bytes = None;
    }
    Ok(facts)
}

/// Whether the role has the rights of another, which old releases do not have.
fn is_member(session: &mut Session, role: &str) -> Result<bool> {
    let has_roles = Release::new(session.server_version_num()).has(privileges::MONITORING_ROLES);
    let sql = format!("select pg_catalog.pg_has_role({}, 'usage')", quote_literal(role));
    Ok(has_roles && session.query(&sql)?.scalar() == Some("t"))
}

fn read_settings(session: &mut Session, facts: &mut SourceFacts) -> Result<()> {
    let sql = format!(
        "select name, setting, coalesce(sourcefile like '%postgresql.auto.conf', false) as altered \
         from pg_catalog.pg_settings where name in ({})",
        names(&SETTINGS)
    );
    let rows = session.query(&sql)?;
    for row in 0..rows.len() {
        let text = |column: &str| rows.get(row, column).unwrap_or_default().to_string();
        let setting = SourceSetting { value: text("setting"), is_by_alter_system: text("altered") == "t" };
        facts.settings.insert(text("name"), setting);
    }
    Ok(())
}

fn names(all: &[&str]) -> String {
    all.iter().map(|name| quote_literal(name)).collect::<Vec<String>>().join(", ")
}

/// Whose service it is, by a role or a setting that only that service has.
fn service(session: &mut Session) -> Result<Option<ManagedService>> {
    let marks = names(&ManagedService::marks());
    let found = session.query(&format!(
        "select rolname::text from pg_catalog.pg_roles where rolname in ({marks}) \
         union all select name from pg_catalog.pg_settings where name in ({marks})"
    ))?;
    Ok(found.into_first_column().iter().find_map(|mark| ManagedService::from_mark(mark)))
}

/// The schema of pg_stat_statements, if it can be used.
fn statements_schema(session: &mut Session) -> Result<Option<String>> {
    let Some(Extension::Safe { schema, .. }) = session.extension("pg_stat_statements")? else {
        return Ok(None);
    };
    // Without the library it is there and fails.
    match session.query(&format!("select 1 from {schema}.pg_stat_statements limit 1")) {
        Ok(_) => Ok(Some(schema)),
        Err(wire::SessionError::Server(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Counters at one moment.
struct Counted {
    at: Instant,
    transactions: f64,
    calls: Option<f64>,
    text_bytes: Option<f64>,
}

fn counted(session: &mut Session, schema: Option<&str>) -> Result<Counted> {
    let sql = "select pg_catalog.sum(xact_commit + xact_rollback) from pg_catalog.pg_stat_database";
    let transactions = session.query(sql)?.scalar().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let (mut calls, mut text_bytes) = (None, None);
    if let Some(schema) = schema {
        let rows = session.query(&format!(
            "select pg_catalog.sum(calls) as calls, pg_catalog.sum(calls * pg_catalog.octet_length(query)) as bytes \
             from {schema}.pg_stat_statements"
        ))?;
        calls = rows.parse(0, "calls");
        text_bytes = rows.parse(0, "bytes");
    }
    Ok(Counted { at: Instant::now(), transactions, calls, text_bytes })
}

/// What happens on the server within some time.
fn rates(session: &mut Session, schema: Option<&str>, length: Duration) -> Result<SourceRates> {
    let first = counted(session, schema)?;
    while first.at.elapsed() < length {
        ensure!(!signals::stop_flag().load(Ordering::Relaxed), session::STOPPED);
        thread::sleep(NAP.min(length));
    }
    let last = counted(session, schema)?;
    let seconds = (last.at - first.at).as_secs_f64();
    // Less than before: somebody has reset the counters, or they have dropped rare statements.
    let grown = |first: Option<f64>, last: Option<f64>| Some(last? - first?).filter(|more| *more >= 0.0);
    let calls = grown(first.calls, last.calls);
    let bytes = grown(first.text_bytes, last.text_bytes);
    Ok(SourceRates {
        seconds,
        transactions_per_s: grown(Some(first.transactions), Some(last.transactions)).map(|n| n / seconds),
        statements_per_s: calls.map(|calls| calls / seconds),
        text_bytes: calls.zip(bytes).filter(|(calls, _)| *calls > 0.0).map(|(calls, bytes)| bytes / calls),
    })
}

/// The plan for programs.
fn json(plan: &CapturePlan, facts: &SourceFacts) -> serde_json::Value {
    let ways: Vec<serde_json::Value> = plan.ways.iter().map(way).collect();
    serde_json::json!({
        "format": model::FORMAT,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "version_num": facts.version_num,
        "role": facts.role,
        "superuser": facts.is_superuser,
        "service": facts.service.map(ManagedService::name),
        "seconds": facts.rates.seconds,
        "transactions_per_s": facts.rates.transactions_per_s,
        "statements_per_s": facts.rates.statements_per_s,
        "notes": plan.obstacles,
        "ways": ways,
    })
}

fn way(way: &LoggingWay) -> serde_json::Value {
    let changes = way.changes.iter().map(|change| {
        serde_json::json!({ "setting": change.name, "value": change.value, "before": change.before })
    });
    serde_json::json!({
        "id": way.id,
        "title": way.title,
        "bytes_per_s": way.bytes_per_s,
        "changes": changes.collect::<Vec<serde_json::Value>>(),
        "do": way.commands,
        "undo": way.undo,
        "missing": way.missing,
        "notes": way.notes,
    })
}
