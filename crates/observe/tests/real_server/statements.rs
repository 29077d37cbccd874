//! Statements: in which ones sessions are, and what the extension pg_stat_statements counts.

use std::thread::sleep;
use std::time::Duration;

use model::telemetry::reading::TickSource;
use observe::Observation;
use testbed::{ClusterOptions, TestServer};

use crate::{OPTIONS, Seen, check_keys, spec, sum};

/// The sum of a metric over ticks and the identifiers of the statement with this text, with this state.
fn sum_of_statement(seen: &Seen, metric: &str, state: &str) -> f64 {
    let ids: Vec<String> = seen
        .0
        .lock()
        .unwrap()
        .iter()
        .filter_map(|sample| match sample {
            Observation::Statement { id, text } if text == "select length(?), pg_sleep(?)" => {
                Some(id.clone())
            }
            _ => None,
        })
        .collect();
    let keys = ids.iter().map(|id| format!("statements.{metric}[{id}{state}]"));
    let ticks = seen.ticks(TickSource::Server);
    keys.flat_map(|key| ticks.iter().filter_map(move |tick| tick.values.get(&key)).collect::<Vec<f64>>())
        .sum()
}

/// Observes three executions of a statement with literals, for 2.7 s.
fn observe_statements(server: &TestServer) -> Seen {
    let seen = Seen::default();
    let observer = seen.observe(spec(server));
    seen.wait_for_tick();
    for _ in 0..3 {
        server.execute("postgres", "select length('geheim'), pg_sleep(0.9)");
    }
    sleep(Duration::from_millis(1200));
    observer.stop();
    check_keys(&seen.ticks(TickSource::Server));
    assert!(!format!("{:?}", seen.0.lock().unwrap()).contains("geheim"));
    seen
}

#[test]
fn statements_that_sessions_are_in_are_sampled_without_their_literals() {
    let seen = observe_statements(&TestServer::start(&OPTIONS));
    let samples = sum(&seen.ticks(TickSource::Server), "statements.samples");
    // 9.6 does not know why it sleeps.
    let sleeping = ["/Timeout:PgSleep", "/CPU"].map(|state| sum_of_statement(&seen, "sessions", state));
    let sleeping = sleeping[0] + sleeping[1];
    assert!(samples >= 5.0 && sleeping >= 0.4 * samples, "{sleeping} of {samples}");
    assert!(seen.unavailable()["statements.calls"].contains("is not installed in `postgres`"));
}

#[test]
fn the_extension_says_how_often_each_statement_ran_and_for_how_long() {
    let mut settings = OPTIONS.settings.to_vec();
    settings.push("shared_preload_libraries=pg_stat_statements");
    let server = TestServer::start(&ClusterOptions { settings: settings.leak(), ..OPTIONS });
    server.execute("postgres", "create schema \"Odd One\"");
    server.execute("postgres", "create extension pg_stat_statements schema \"Odd One\"");
    server.execute("postgres", "select length('geheim'), pg_sleep(0)");
    let seen = observe_statements(&server);
    assert_eq!(sum_of_statement(&seen, "calls", ""), 3.0, "{:?}", seen.ticks(TickSource::Server));
    let time_s = sum_of_statement(&seen, "time", "");
    assert!((2.7..3.5).contains(&time_s), "{time_s}");
    assert!(sum(&seen.ticks(TickSource::Server), "statements.span") > 2.0);
    assert!(!seen.unavailable().contains_key("statements.calls"));
}

/// Whoever owns the schema of an extension can put a function of their own in its place at any moment.
#[test]
fn functions_that_the_owner_of_a_schema_could_replace_are_not_called() {
    let mut settings = OPTIONS.settings.to_vec();
    settings.push("shared_preload_libraries=pg_stat_statements");
    let server = TestServer::start(&ClusterOptions { settings: settings.leak(), ..OPTIONS });
    for sql in [
        "create role bob",
        "create schema bobs authorization bob",
        "create extension pg_stat_statements schema bobs",
        "grant create on database postgres to bob",
    ] {
        server.execute("postgres", sql);
    }
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    seen.wait_for_tick();
    let function = "create function bobs.pg_stat_statements(showtext boolean, out queryid bigint, out dbid oid, out toplevel boolean) \
                    returns setof record language plpgsql as $$begin alter role bob superuser; return; end$$";
    for sql in ["alter schema bobs rename to aside", "create schema bobs", function] {
        server.execute("postgres", &format!("set role bob; {sql}"));
    }
    sleep(Duration::from_millis(2500));
    observer.stop();
    assert_eq!(server.ask("postgres", "select rolsuper from pg_roles where rolname = 'bob'"), "f");
    let reason = &seen.unavailable()["statements.calls"];
    assert!(
        reason.contains("role `bob` owns their schema `bobs` and could put others in their place"),
        "{reason}"
    );
}
