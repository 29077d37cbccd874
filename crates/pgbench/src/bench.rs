//! Offers the load: sends an order to a driver, follows its reports, prints the results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::{Fleet, StderrTo};
use model::load::drive::{Done, LoadEnding};
use model::load::{LoadSpec, OnDisconnect, OnError, Pace, ScriptSpec, TransactionLog, Window};
use wire::Conninfo;

use crate::command_line::options::{BenchPlan, Length};
use crate::compat::Compat;
use crate::follow::Follower;
use crate::messages::{self, Complaint, MessageLog};
use crate::output::json;
use crate::output::results::Results;
use crate::prepare::{self, StandardTables};
use crate::process::OwnProcess;
use crate::scripts::script_tag;
use crate::{DRIVE_ARGUMENT, server_text, target};

/// Longer than any load: pgbench waits indefinitely.
const FOREVER_S: u32 = u32::MAX / 4;
/// A higher rate cannot be distinguished from an unlimited one.
const RATE_MAX_PER_S: f64 = 1e8;
/// The longest message that is accepted: libpq takes what fits into memory, and PostgreSQL's fields have at most 1 GiB.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;
/// Exit code of a load in which a client aborted.
const EXIT_ABORTED: u8 = 2;

/// Offers the load and prints the results. Returns the exit code.
pub(crate) fn run(
    plan: &BenchPlan,
    conninfo: &mut Conninfo,
    compat: Compat,
    process: &OwnProcess,
    log: &mut MessageLog,
) -> Result<u8, Complaint> {
    let json_file = open_json(plan)?;
    let (tables, version) = prepare_tables(plan, conninfo, compat, process, log)?;
    let stop = (process.stop_flag)();
    let load = LoadSpec { trace: log.debug, ..load_spec(plan, conninfo, tables) };
    let mut driver = spawn(&load, conninfo)?;
    let ready = driver
        .wait_ready(Duration::from_secs(FOREVER_S.into()), stop)
        .map_err(|error| server_text::driver_error(&format!("{error:#}"), conninfo))?;
    let go_unix_ns = unix_now_ns();
    let begin_ns = go_unix_ns + u64::from(load.window.ramp_up_s) * 1_000_000_000;
    let mut follower = Follower::new(plan, log, process.print, load.window.ramp_up_s, begin_ns);
    let patience = Window { measure_s: FOREVER_S, grace_s: FOREVER_S, ..load.window };
    let conducted = fleet::conduct(&mut driver, go_unix_ns, patience, &mut |line| follower.take(line), stop);
    follower.finish();
    let mut followed = follower.close();
    let done = conducted.map_err(|error| Complaint::new(format!("{error:#}")))?;
    if plan.exit_on_abort && done.clients_lost > 0 {
        let thread = followed.aborted_client.map_or(0, |client| thread_of(client, plan));
        log.error(&format!("Run was aborted due to an error in thread {thread}"));
        return Ok(EXIT_ABORTED);
    }
    followed.totals.leave_out_backlog(done.backlog);
    let results = Results {
        compat,
        plan,
        tables,
        totals: &followed.totals,
        duration_ns: done.end_unix_ns.saturating_sub(begin_ns).max(1),
        first_connects_ns: ready.connect_ns,
    };
    if done.ending == LoadEnding::Stopped && stop.load(Ordering::Relaxed) {
        log.error("Run was interrupted; the results below are incomplete.");
        show(&results, &done, &version, json_file, &mut |text| {
            log.results(text);
            Ok(())
        })?;
        return Ok(EXIT_ABORTED);
    }
    show(&results, &done, &version, json_file, &mut |text| process.print(text))?;
    if done.clients_lost > 0 {
        log.error("Run was aborted; the above results are incomplete.");
        return Ok(EXIT_ABORTED);
    }
    Ok(0)
}

/// Prints the versions of program and server, and inspects and vacuums the tables.
fn prepare_tables(
    plan: &BenchPlan,
    conninfo: &mut Conninfo,
    compat: Compat,
    process: &OwnProcess,
    log: &mut MessageLog,
) -> Result<(StandardTables, String), Complaint> {
    let mut session = target::connect(conninfo, "setup", log)?;
    let server = session.parameter("server_version").unwrap_or("unknown").to_string();
    if plan.added.json.as_deref() != Some("-") {
        process.print(&format!("pgbench ({}, server {server})\n", compat.version()))?;
    }
    let (length, n) = match plan.length {
        Length::Transactions(n) => ("nxacts", n),
        Length::Seconds(n) => ("duration", n),
    };
    let host = session.host().clone();
    log.debug(&format!(
        "pghost: {} pgport: {} nclients: {} {length}: {n} dbName: {}",
        host.host, host.port, plan.n_clients, conninfo.dbname
    ));
    let tables = if plan.uses_builtin {
        prepare::inspect(&mut session, &conninfo.dbname, plan.scale.is_some(), compat, log)?
    } else {
        StandardTables { scale: plan.scale.unwrap_or(1), ..StandardTables::default() }
    };
    if plan.vacuums {
        prepare::vacuum(&mut session, plan.vacuums_accounts, log);
    }
    Ok((tables, server))
}

/// The order for the driver.
fn load_spec(plan: &BenchPlan, conninfo: &Conninfo, tables: StandardTables) -> LoadSpec {
    let mut defines: BTreeMap<String, String> = plan.defines.iter().cloned().collect();
    defines.entry("scale".to_string()).or_insert_with(|| tables.scale.to_string());
    let scripts = plan.scripts.iter().enumerate().map(|(number, script)| ScriptSpec {
        name: script.name.clone(),
        tag: script_tag(number),
        weight: script.weight,
        source: script.source.clone(),
    });
    let (measure_s, transactions_per_client) = match plan.length {
        Length::Seconds(n) => (n, None),
        Length::Transactions(n) => (0, Some(n.into())),
    };
    let on_error = match (plan.added.continue_on_error, plan.exit_on_abort) {
        (true, _) => OnError::Continue,
        (false, true) => OnError::EndLoad,
        (false, false) => OnError::EndClient,
    };
    let on_disconnect = match plan.added.on_disconnect {
        OnDisconnect::Reconnect => OnDisconnect::Reconnect,
        _ if plan.exit_on_abort => OnDisconnect::EndLoad,
        other => other,
    };
    LoadSpec {
        target: conninfo.keywords(),
        scripts: scripts.collect(),
        defines,
        protocol: plan.protocol,
        n_clients: plan.n_clients,
        n_threads: plan.n_threads,
        pace: plan
            .rate_per_s
            .map_or(Pace::Closed, |rate_per_s| Pace::Poisson { rate_per_s: rate_per_s.min(RATE_MAX_PER_S) }),
        window: Window {
            ramp_up_s: plan.added.ramp_up_s,
            measure_s,
            grace_s: plan.added.grace_s.unwrap_or(FOREVER_S),
        },
        seed: plan.seed,
        transactions_per_client,
        latency_limit_ns: plan.latency_limit_us.map(|us| us * 1000),
        max_tries: plan.max_tries,
        connect_each: plan.connect_each,
        on_error,
        on_disconnect,
        time_commands: plan.per_command,
        log: plan.log.as_ref().map(|log| TransactionLog {
            prefix: log.prefix.clone(),
            sampling_rate: log.sampling_rate,
            aggregate_interval_s: log.aggregate_interval_s,
            failures_detailed: plan.failures_detailed,
            pid: Some(std::process::id()),
        }),
        verbose_errors: plan.verbose_errors,
        lazy_parse: true,
        all_notices: true,
        poller: plan.added.poller,
        busy_poll_us: plan.added.busy_poll_us,
        copy: plan.added.copy,
        values_as_pgbench: true,
        due_when_connected: true,
        // Whoever sends a signal expects that a pgbench dies of it, whatever it waits for.
        cancel_on_stop: plan.added.grace_s.is_none(),
        message_bytes_max: MESSAGE_BYTES_MAX,
        ..LoadSpec::default()
    }
}

fn spawn(load: &LoadSpec, conninfo: &Conninfo) -> Result<Fleet, Complaint> {
    let program = std::env::current_exe()
        .map_err(|error| Complaint::new(format!("could not find the program of this process: {error}")))?;
    let order = fleet::drive_order(load.clone(), conninfo);
    Fleet::local(&program, [DRIVE_ARGUMENT], &order, StderrTo::Parent)
        .map_err(|error| Complaint::new(format!("{error:#}")))
}

/// The results file, created before the load, so that a bad path costs no run.
fn open_json(plan: &BenchPlan) -> Result<Option<File>, Complaint> {
    let path = plan.added.json.as_deref().filter(|path| *path != "-");
    let open = |path: &str| {
        File::create(path).map_err(|error| {
            Complaint::new(format!("could not open file \"{path}\": {}", messages::system_text(&error)))
        })
    };
    path.map(open).transpose()
}

/// Prints the results by `print`: those of an interrupted load must not reach standard output, where parsers would take
/// them for results.
fn show(
    results: &Results,
    done: &Done,
    server_version: &str,
    json_file: Option<File>,
    print: &mut dyn FnMut(&str) -> Result<(), Complaint>,
) -> Result<(), Complaint> {
    if results.plan.added.json.as_deref() == Some("-") {
        return print(&json::text(results, done, server_version));
    }
    print(&results.text())?;
    let Some(mut file) = json_file else { return Ok(()) };
    file.write_all(json::text(results, done, server_version).as_bytes()).map_err(|error| {
        Complaint::new(format!("could not write the results: {}", messages::system_text(&error)))
    })
}

/// The thread of a client: clients are dealt out in order, larger shares first.
fn thread_of(client: u32, plan: &BenchPlan) -> u32 {
    let (mut left, mut dealt) = (plan.n_clients, 0);
    for thread in 0..plan.n_threads {
        let share = left.div_ceil(plan.n_threads - thread);
        left -= share;
        dealt += share;
        if client < dealt {
            return thread;
        }
    }
    0
}

fn unix_now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
