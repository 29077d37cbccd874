//! Findings about the server: its process, its background work, its settings.

pub(super) mod archiver;
pub(super) mod conditions;
pub(super) mod ephemeral;
pub(super) mod logging;
pub(super) mod outage;
pub(super) mod route;
pub(super) mod standby;
pub(super) mod unlogged;
mod unseen;

pub(crate) use logging::statement_records;

use model::experiment::case::{OnLostConnection, WorkloadKind};
use model::load::drive::{Done, LoadEnding};
use model::run::RunRecord;
use model::run::host::MountRecord;
use model::run::phase::Phase;
use model::telemetry::event::{Event, EventKind};
use model::text::units::Span;

use super::format::{excerpt, figure, list, moment, moment_in_tenths, percent, plural, seconds};
use super::host::FOREIGN_MEAN;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::run::marks;
use crate::run::settings::{changed_in_sessions, server_as_sessions_have_it, set_by_scripts};
use crate::run::usage::{own_queries, sum_of};
use crate::summary::TimelineMark;

/// A measurement this long includes background work as part of the load: the default `checkpoint_timeout`.
const LONG_MEASURE_S: f64 = 300.0;

pub(super) const CONNECTION_LOST: Rule = Rule {
    id: "connection-lost",
    title: "Clients lost their connection or were aborted",
    severity: "Void for any; Doubt when workload.on_disconnect asks clients to connect again and all did, \
               and for clients that do not come back from an outage (Void if they ended before it, or when \
               service was back)",
    source: "fault study",
    advice: "Read the message, and the server's log around that time; fix the script or the server and \
             repeat.",
    evidence: "Clients that ended before the load did, because of their connection or their script: the \
               driver's events and totals.",
    why: "The throughput is that of fewer clients than it says.",
    tested: "A server by URL of which a process is killed.",
    check: RuleCheck::Run(connection_lost),
};

fn connection_lost(context: &RunContext) -> Option<Finding> {
    let lost = lost_outside_of_outages(context);
    let is_void = lost.as_ref().is_some_and(|finding| finding.severity == Severity::Void);
    if is_void { lost } else { outage::clients_not_back(context).or(lost) }
}

/// Whether clients ended because of what they read, and none for another reason: `message-limit` says all.
pub(super) fn ended_by_limit(context: &RunContext) -> bool {
    let has = |kind: EventKind| events(context, kind).next().is_some();
    has(EventKind::LimitExceeded) && !has(EventKind::ConnectionLost)
}

fn lost_outside_of_outages(context: &RunContext) -> Option<Finding> {
    if ended_by_limit(context) {
        return None;
    }
    let done = context.data.record.done.as_ref();
    let events: Vec<&Event> = events(context, EventKind::ConnectionLost).collect();
    // Totals do not say when: of a run with an outage, only events outside of it count.
    let done = if context.summary.outage.is_some() { None } else { done };
    // A client that connects again may lose its connection more than once, and of losses some have an event.
    let n_clients = u64::from(context.data.record.case.workload.n_clients);
    let n_seen = done.map_or(0, |done| done.n_lost).max(events.len() as u64).min(n_clients);
    let n = u64::from(done.map_or(0, |done| done.clients_lost)).max(n_seen);
    let all = done.is_some_and(|done| done.ending == LoadEnding::ConnectionsLost);
    if n == 0 && !all {
        return None;
    }
    let who = if all { "every client".to_string() } else { plural(n, "client") };
    let first = events.first().and_then(|event| Some((context.line.place(event.t_unix_ns)?, event)));
    let first = first
        .map_or(String::new(), |(t_s, event)| format!(", first at {t_s:.0} s: {}", excerpt(&event.text)));
    let was_lost = !events.is_empty() || done.is_none_or(Done::may_have_lost_connections);
    let how = match (was_lost, n > 1 && !all) {
        (true, _) => "lost the connection",
        (false, true) => "were aborted",
        (false, false) => "was aborted",
    };
    // Errors of class 40 are retried.
    let cause = done.and_then(|done| done.messages.iter().find(|(state, _)| !state.starts_with("40")));
    let cause = cause.map(|(_, message)| message).filter(|_| first.is_empty());
    let cause = cause.map_or(String::new(), |message| format!(": {}", excerpt(message)));
    let ended = context.data.record.done.as_ref();
    let is_replaced = ended.is_some_and(|done| done.clients_lost == 0) && !all;
    if is_replaced && is_asked_to_reconnect(context) {
        // Of a run with an outage the total says nothing, and earlier versions counted none.
        let without_ns = done.map(|done| done.outage_ns_total).filter(|ns| *ns > 0.0);
        let without =
            without_ns.map_or(String::new(), |ns| format!(", {} s without a connection", seconds(ns / 1e9)));
        let lost = plural(done.map_or(0, |done| done.n_lost).max(n), "connection");
        let evidence = format!(
            "{lost} lost and made again, as asked, of {}{without}{first}",
            plural(n_clients, "client")
        );
        return Some(CONNECTION_LOST.finds(Severity::Doubt, evidence));
    }
    Some(CONNECTION_LOST.finds(Severity::Void, format!("{who} {how}{first}{cause}")))
}

/// Whether the experiment wants clients to go on after an outage, so that one is part of what is measured.
fn is_asked_to_reconnect(context: &RunContext) -> bool {
    context.data.record.case.workload.on_disconnect == OnLostConnection::Reconnect
}

/// How serious it is that the server was away.
fn of_outage(context: &RunContext) -> Severity {
    if is_asked_to_reconnect(context) { Severity::Doubt } else { Severity::Void }
}

pub(super) const PROTOCOL_BROKEN: Rule = Rule {
    id: "protocol-broken",
    title: "The server violated PostgreSQL's protocol",
    severity: "Void for any",
    source: "our rule",
    advice: "Find out what answers there: a server, a pooler or a proxy.",
    evidence: "Replies without a request, replies that lack a result, and invalid messages.",
    why: "Where replies do not match statements one to one, counting replies does not count commits.",
    tested: "Replies that a proxy falsifies in front of a server by URL.",
    check: RuleCheck::Run(protocol_broken),
};

fn protocol_broken(context: &RunContext) -> Option<Finding> {
    let events: Vec<&Event> = events(context, EventKind::ProtocolBroken).collect();
    let first = events.first()?;
    let who = plural(events.len() as u64, "client");
    Some(PROTOCOL_BROKEN.finds(Severity::Void, format!("{who} ended: {}", excerpt(&first.text))))
}

pub(super) const MESSAGE_LIMIT: Rule = Rule {
    id: "message-limit",
    title: "A row was longer than pgdyno's limit",
    severity: "Void for any",
    source: "design: a bound on memory",
    advice: "Set workload.max_message_mib above the MiB of the longest row (at most 1024), or select less.",
    evidence: "The client, its statement, the length of the message and the limit.",
    why: "A client that ends offers no more load: the rate is not that of all clients.",
    tested: "A script that selects a row of 3 MB, with a limit of 1 MiB.",
    check: RuleCheck::Run(message_limit),
};

fn message_limit(context: &RunContext) -> Option<Finding> {
    let events: Vec<&Event> = events(context, EventKind::LimitExceeded).collect();
    let first = events.first()?;
    let who = plural(events.len() as u64, "client");
    Some(MESSAGE_LIMIT.finds(Severity::Void, format!("{who} ended: {}", excerpt(&first.text))))
}

pub(super) const SERVER_RESTARTED: Rule = Rule {
    id: "server-restarted",
    title: "The server restarted during the load",
    severity: "Void for any restart or failover; Doubt if workload.on_disconnect asks clients to connect \
               again",
    source: "fault study",
    advice: "Read the server's log for the cause and repeat.",
    evidence: "The postmaster's start time, and what telemetry recorded of it.",
    why: "A crash and a recovery within the measurement disappear in the mean.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(server_restarted),
};

fn server_restarted(context: &RunContext) -> Option<Finding> {
    let event = events(context, EventKind::ServerRestarted).next()?;
    let t_s = context.line.place(event.t_unix_ns)?;
    Some(SERVER_RESTARTED.finds(of_outage(context), format!("at {t_s:.0} s: {}", excerpt(&event.text))))
}

pub(super) const SERVER_TROUBLE: Rule = Rule {
    id: "server-trouble",
    title: "The server's log reports trouble",
    severity: "Void for a PANIC or a crashed process (Doubt if workload.on_disconnect asks clients to \
               connect again); Doubt for another FATAL line during the load (not of an orderly start or \
               stop), a process that exited with an error, a full device, or a lack of memory",
    source: "PostgreSQL documentation, runtime-config-logging",
    advice: "Read the server's log around that time, remove the cause and repeat.",
    evidence: "Lines of the server's log during the load: PANIC, FATAL, and any about dead processes, full \
               devices or a lack of memory.",
    why: "A server that loses processes, space or files does other work than what is measured.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(server_trouble),
};

fn server_trouble(context: &RunContext) -> Option<Finding> {
    let lines: Vec<&Event> = events(context, EventKind::ServerTrouble).collect();
    let worst = lines.iter().find(|event| is_crash(event)).or(lines.first())?;
    let severity = if is_crash(worst) { of_outage(context) } else { Severity::Doubt };
    let level = worst.detail.get("severity").map_or(String::new(), |level| format!("{level}: "));
    let evidence = format!("{}: {level}{}", plural(lines.len(), "line"), excerpt(&worst.text));
    Some(SERVER_TROUBLE.finds(severity, evidence))
}

/// Whether a line of the log reports that server processes died (texts of postmaster.c and xlog.c).
fn is_crash(event: &Event) -> bool {
    const TEXTS: [&str; 5] = [
        "was terminated by",
        "active server processes",
        "server processes terminated",
        "crash of another server process",
        "database system was",
    ];
    event.detail.get("severity").is_some_and(|level| level == "PANIC")
        || TEXTS.iter().any(|text| event.text.contains(text))
}

pub(super) const CHECKPOINT_IN_WINDOW: Rule = Rule {
    id: "checkpoint-in-window",
    title: "A checkpoint ran during the measurement",
    severity: "For workloads that write: Doubt; Note when two or more began during the measurement",
    source: "simulation: statistics on throughput miss one checkpoint (2 %); TPC asks for whole checkpoint \
             cycles",
    advice: "Checkpoint before the run and keep the measurement shorter than checkpoint_timeout and max_wal_size allow, or \
             measure over several checkpoints.",
    evidence: "Checkpoints in the server's log and its counters, on the run's time line.",
    why: "One checkpoint takes 0 or 30 % of a short measurement, depending on luck, and throughput does not \
          show it.",
    tested: "CHECKPOINT once a second on one side of a comparison by URL.",
    check: RuleCheck::Run(checkpoint_in_window),
};

fn checkpoint_in_window(context: &RunContext) -> Option<Finding> {
    if !writes(context.data.record.case.workload.kind, &context.data.record) {
        return None;
    }
    let (from_s, to_s) = context.line.measured_span()?;
    let touching = in_window(context, marks::CHECKPOINT);
    let first = touching.first()?;
    let began = touching.iter().filter(|mark| mark.from_s >= from_s).count();
    let severity = if began >= 2 { Severity::Note } else { Severity::Doubt };
    let within = touching.iter().map(|mark| (mark.to_s.min(to_s) - mark.from_s.max(from_s)).max(0.0));
    let within_s = within.fold(0.0, |sum, s| sum + s);
    let moment = if within_s < 1.0 { moment_in_tenths } else { moment };
    let evidence = format!(
        "{} ran during {} of {:.0} measured seconds, first from {} to {}: {}",
        plural(touching.len(), "checkpoint"),
        seconds(within_s),
        to_s - from_s,
        moment(first.from_s),
        moment(first.to_s),
        excerpt(&first.text)
    );
    Some(CHECKPOINT_IN_WINDOW.finds(severity, evidence))
}

pub(super) const AUTOVACUUM_IN_WINDOW: Rule = Rule {
    id: "autovacuum-in-window",
    title: "Autovacuum ran during the measurement",
    severity: "Doubt; Note when 300 s or more were measured, or only system catalogs were analyzed",
    source: "PostgreSQL documentation, routine vacuuming; 300 s is five times the default autovacuum_naptime",
    advice: "Vacuum and analyze before each run, and measure for less than autovacuum_naptime, or long \
             enough for its usual share.",
    evidence: "Autovacuum workers in pg_stat_activity and in the log, and the server's counts of them.",
    why: "It reads and writes during the load, in some runs and not in others.",
    tested: "Autovacuum each second, on a server by URL, on one that pgdyno runs, and on one side of a comparison \
             by URL.",
    check: RuleCheck::Run(autovacuum_in_window),
};

fn autovacuum_in_window(context: &RunContext) -> Option<Finding> {
    let touching = in_window(context, marks::AUTOVACUUM);
    let first = touching.first()?;
    let is_small = touching.iter().all(|mark| marks::is_analyze_of_catalog(mark));
    let is_note = is_small || context.summary.measured_s >= LONG_MEASURE_S;
    let severity = if is_note { Severity::Note } else { Severity::Doubt };
    let mut texts: Vec<String> = touching.iter().map(|mark| excerpt(&mark.text)).collect();
    texts.dedup();
    let evidence = format!(
        "{} during the measurement, first at {}: {}",
        plural(touching.len(), "time"),
        moment(first.from_s),
        list(&texts, 3)
    );
    Some(AUTOVACUUM_IN_WINDOW.finds(severity, evidence))
}

pub(super) const NOT_DURABLE: Rule = Rule {
    id: "not-durable",
    title: "NOT DURABLE",
    severity: "Doubt when fsync or full_page_writes is off and experiment.conditions do not state it, data \
               or WAL are on a volatile file system (tmpfs, ramfs, a volatile overlay) or on one without \
               write barriers, or the load changes UNLOGGED tables; Note when only synchronous_commit is off \
               (also by a script or in sessions), experiment.conditions state fsync or full_page_writes as \
               off, workload.unlogged asks for UNLOGGED tables, or the workload does not write",
    source: "PostgreSQL documentation, runtime-config-wal and wal-reliability; mount(8), tmpfs(5), the kernel's overlayfs: volatile mount",
    advice: "Turn the setting on, use a file system that survives a crash, or make the tables durable (`SET \
             LOGGED`), unless this is the question: do not compare such numbers with durable ones.",
    evidence: "fsync, full_page_writes, synchronous_commit (also in scripts, and in the load's sessions \
               after it), file systems of data and WAL, and UNLOGGED tables in the catalog.",
    why: "Such a server skips the most expensive part of a commit; it is faster because it promises less.",
    tested: "fsync = off on one side of a comparison by URL and on both, WAL in memory (tmpfs) on one side, SET synchronous_commit = off \
             in a script and in a function, UNLOGGED tables by URL, in an SQL file and by workload.unlogged. By hand: data in memory.",
    check: RuleCheck::Run(not_durable),
};

fn not_durable(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let server = server_as_sessions_have_it(record);
    let off = |name: &&str| server.as_ref().is_some_and(|server| server.setting(name) == Some("off"));
    let is_off = |name: &str| format!("{name} = off");
    let is_stated = |name: &&str| record.case.states(name, "off");
    let (stated, unsafe_settings): (Vec<&str>, Vec<&str>) =
        ["fsync", "full_page_writes"].into_iter().filter(off).partition(is_stated);
    let grave: Vec<String> =
        unsafe_settings.into_iter().map(is_off).chain(forgetful_mounts(context)).collect();
    let unlogged = unlogged::tables(record);
    let lossy = lossy(record, off(&"synchronous_commit"));
    if grave.is_empty() && lossy.is_empty() && stated.is_empty() && unlogged.is_none() {
        return None;
    }
    let loses = match (grave.is_empty() && stated.is_empty(), &unlogged) {
        (false, _) => "a crash of the machine can destroy the data",
        (true, Some(_)) => "a crash of the server empties UNLOGGED tables",
        (true, None) => "a crash loses acknowledged transactions",
    };
    let is_unlogged_unasked = unlogged.is_some() && !record.case.workload.layout.unlogged;
    let weighs = (!grave.is_empty() || is_unlogged_unasked) && writes(record.case.workload.kind, record);
    let severity = if weighs { Severity::Doubt } else { Severity::Note };
    let stated = stated.into_iter().map(|name| format!("{name} = off, a condition of the study"));
    let all: Vec<String> = grave.into_iter().chain(stated).chain(lossy).chain(unlogged).collect();
    Some(NOT_DURABLE.finds(severity, format!("NOT DURABLE: {}: {loses}", list(&all, 4))))
}

/// In what way commits do not wait for their WAL: in a script, in the load's sessions, or on the server.
fn lossy(record: &RunRecord, is_off: bool) -> Vec<String> {
    const NAME: &str = "synchronous_commit";
    if set_by_scripts(record).iter().any(|(name, value)| name == NAME && value == "off") {
        return vec![format!("{NAME} = off in a script")];
    }
    let sessions = changed_in_sessions(record).unwrap_or_default();
    let in_sessions = sessions.get(NAME).is_some_and(|values| values.iter().any(|one| one.value == "off"));
    match (in_sessions, is_off) {
        (true, _) => vec![format!("{NAME} = off in the load's sessions")],
        (false, true) => vec![format!("{NAME} = off")],
        (false, false) => Vec::new(),
    }
}

/// The server's file systems that lose flushed data, with the reason. Only if the server was on the machine whose file
/// systems were recorded.
fn forgetful_mounts(context: &RunContext) -> Vec<String> {
    let record = &context.data.record;
    if !record.server_is_local {
        return Vec::new();
    }
    let Some(host) = record.host.as_ref() else { return Vec::new() };
    let of_role = |role: &str| {
        let mount = host.mounts.get(role)?;
        Some(format!("{role} at `{}` {}", mount.mount_point, forgetful(mount)?))
    };
    ["data", "wal"].into_iter().filter_map(of_role).collect()
}

/// Why a file system loses flushed data, if it does.
pub(crate) fn forgetful(mount: &MountRecord) -> Option<String> {
    let has = |option: &&str| mount.options.split(',').any(|present| present == *option);
    Some(match mount.fs_type.as_str() {
        fs_type @ ("tmpfs" | "ramfs") => format!("is {fs_type}, which is memory"),
        "overlay" if has(&"volatile") => "is an overlay mounted volatile".to_string(),
        _ => format!("is mounted with {}", ["nobarrier", "barrier=0"].iter().find(|o| has(o))?),
    })
}

pub(super) const DISK_NEARLY_FULL: Rule = Rule {
    id: "disk-nearly-full",
    title: "A disk is nearly full",
    severity: "Doubt when telemetry saw it",
    source: "fault study",
    advice: "Free space on the device and repeat.",
    evidence: "Free space of the file systems of data, WAL and results.",
    why: "File systems slow down when nearly full, and a full WAL disk ends the server.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(disk_nearly_full),
};

fn disk_nearly_full(context: &RunContext) -> Option<Finding> {
    // A disk that was full before the load is full during it, so every event up to the end counts.
    let mut before_end = context.data.events.iter().filter(|event| {
        event.kind == EventKind::DiskNearlyFull
            && context.line.place(event.t_unix_ns).is_none_or(|t_s| t_s <= context.line.end_s)
    });
    Some(DISK_NEARLY_FULL.finds(Severity::Doubt, excerpt(&before_end.next()?.text)))
}

/// Sessions at work that are not ours, mean over the ticks: at most a tenth of one processor, or of one disk's time. The
/// first sighting may be chance.
const FOREIGN_WORKING: f64 = 0.1;
/// Foreign transactions as a share of our own, which cost about as much, and their smallest rate: the transactions of
/// a monitoring agent are fewer.
const FOREIGN_TRANSACTIONS: f64 = 0.02;
const FOREIGN_TRANSACTIONS_PER_S_MIN: f64 = 10.0;
/// Transactions of autovacuum in each `autovacuum_naptime`, which it makes also where nothing is to be done: 14 were measured
/// with four databases.
const AUTOVACUUM_TRANSACTIONS: f64 = 20.0;
/// Transactions of pgdyno's own sessions that are reported within the load: 22 were measured in 2 s.
const OWN_TRANSACTIONS: f64 = 30.0;

pub(super) const FOREIGN_SESSIONS: Rule = Rule {
    id: "foreign-sessions",
    title: "Other sessions worked on the server",
    severity: "Doubt when client sessions that are not pgdyno's use more than 2 % of all processors on average, more than 0.1 of them are \
               at work on average (and in two ticks or more), or their transactions exceed 2 % of the load's and 10/s (more where \
               autovacuum_naptime is a few seconds)",
    source: "the threshold of foreign-cpu; the others are our convention",
    advice: "Stop other users of the server, or measure your own copy of it, and repeat.",
    evidence: "Client backends of pg_stat_activity that are not the load's, their processor time (on this \
               machine), and the transactions of all databases against those that the driver saw end (of the \
               load's own database only without parallel workers, which count as transactions). Background \
               work does not count.",
    why: "Their work takes processors, buffers, locks and disk from the load.",
    tested: "pgbench next to the load, on a server by URL, on one that pgdyno runs, and on one side of a \
             comparison by URL.",
    check: RuleCheck::Run(foreign_sessions),
};

/// Work of client sessions that are not pgdyno's, during the measurement.
struct ForeignWork {
    /// Processors, and how many there are.
    cpu: Option<(f64, f64)>,
    /// Mean number of sessions at work.
    working: Option<f64>,
    /// Transactions per second, and those of the load.
    transactions: Option<(f64, f64)>,
    /// The smallest rate of transactions that weighs.
    transactions_min: f64,
}

impl ForeignWork {
    /// `None` if sessions could not be distinguished, as behind a pooler and in older results.
    fn from_run(context: &RunContext) -> Option<ForeignWork> {
        let (from_s, to_s) = context.line.measured_span()?;
        context.usage.with_metric("server.foreign_sessions").next()?;
        let n_cpus =
            if context.data.record.server_is_local { context.summary.resources.n_cpus } else { None };
        let in_window = context
            .usage
            .with_key("server.foreign_working")
            .filter(|(tick, _)| tick.to_s > from_s && tick.to_s <= to_s + 0.5);
        let working: Vec<f64> = in_window.map(|(_, n)| n).collect();
        let is_seen_again = working.iter().filter(|n| **n > 0.0).count() >= 2;
        Some(ForeignWork {
            cpu: context.usage.rate("server.cpu.foreign", from_s, to_s).zip(n_cpus.map(f64::from)),
            working: stats::mean(&working).filter(|_| is_seen_again),
            transactions: foreign_transactions(context, from_s, to_s),
            transactions_min: FOREIGN_TRANSACTIONS_PER_S_MIN + of_autovacuum_per_s(context),
        })
    }

    /// How many times each threshold is exceeded: processors, sessions, transactions.
    fn excesses(&self) -> [Option<f64>; 3] {
        let share = |(foreign, own): (f64, f64)| {
            let threshold = (FOREIGN_TRANSACTIONS * own).max(self.transactions_min);
            foreign / threshold
        };
        [
            self.cpu.map(|(cpu, n_cpus)| cpu / (FOREIGN_MEAN * n_cpus)),
            self.working.map(|n| n / FOREIGN_WORKING),
            self.transactions.map(share),
        ]
    }
}

/// How many times the work of other sessions exceeds its threshold.
pub(super) fn foreign_sessions_excess(context: &RunContext) -> Option<f64> {
    ForeignWork::from_run(context)?.excesses().into_iter().flatten().max_by(f64::total_cmp)
}

fn foreign_sessions(context: &RunContext) -> Option<Finding> {
    let work = ForeignWork::from_run(context)?;
    let excesses = work.excesses();
    excesses.iter().flatten().any(|excess| *excess > 1.0).then_some(())?;
    let cpu =
        work.cpu.map(|(cpu, n_cpus)| format!("used {} of the {n_cpus:.0} processors", percent(cpu / n_cpus)));
    let working = work.working.map(|n| format!("; on average {} worked at a time", figure(n)));
    let transactions = if excesses[2].is_some_and(|excess| excess > 1.0) { work.transactions } else { None };
    let transactions = transactions.map(|(foreign, own)| {
        format!("made {} transactions/s next to {} of the load", figure(foreign), figure(own))
    });
    let done: Vec<String> = [cpu, transactions].into_iter().flatten().collect();
    let done = if done.is_empty() { "were there".to_string() } else { done.join(" and ") };
    let evidence = format!("other sessions {done}{}", working.unwrap_or_default());
    Some(FOREIGN_SESSIONS.finds(Severity::Doubt, evidence))
}

/// Transactions per second that autovacuum may make. Often, if it looks for work often.
fn of_autovacuum_per_s(context: &RunContext) -> f64 {
    let server = context.data.record.server.as_ref();
    let naptime = server.and_then(|server| server.setting("autovacuum_naptime")).unwrap_or("1min");
    let naptime_s = naptime.parse::<Span>().map_or(60.0, |span| span.ms as f64 / 1e3);
    AUTOVACUUM_TRANSACTIONS / naptime_s.max(1.0)
}

/// Transactions per second of others, and of the load. Sessions report theirs up to a second late, so those of the window
/// are rough, and those of the whole load do not say when: the smaller of the two is certain. In the load's own
/// database they are known only if the driver sees each of its transactions end.
pub(crate) fn foreign_transactions(context: &RunContext, from_s: f64, to_s: f64) -> Option<(f64, f64)> {
    let record = &context.data.record;
    // The other side of a duet may use another database of the same server, and other servers have ended a part of a spread load.
    if record.took_turns() || record.spread_hosts().is_some() {
        return None;
    }
    // The start of a session counts as a transaction, and no driver sees it end.
    let load = record.load.as_ref().filter(|load| !load.connect_each)?;
    let usage = context.usage;
    let in_window = |metric: &str| usage.rate(metric, from_s, to_s);
    let in_load = |metric: &str| {
        let ticks = usage.with_metric(metric);
        let sum = ticks.map(|tick| sum_of(tick, metric)).reduce(|sum, n| sum + n)?;
        Some(sum / context.line.end_s.max(1.0))
    };
    let are_seen = load.scripts.iter().all(|script| unseen::sees_each_end(&script.source))
        && !has_parallel_workers(context);
    let foreign = |rate: &dyn Fn(&str) -> Option<f64>| {
        let here = rate("database.commits")? + rate("database.rollbacks")?;
        // Samples are transactions too.
        let elsewhere = rate("server.transactions")? - here - own_queries(rate);
        Some(elsewhere + if are_seen { here - rate("driver.server_transactions")? } else { 0.0 })
    };
    // What sessions have not reported of their beginning when the observation begins.
    let n_statements = record.ready.as_ref().map_or(0, |ready| ready.statements.iter().map(Vec::len).sum());
    let of_clients = f64::from(load.n_clients) * (2 + n_statements) as f64;
    let beginning = (of_clients + OWN_TRANSACTIONS) / context.line.end_s.max(1.0);
    let least = foreign(&in_window)?.min(foreign(&in_load)? - beginning);
    Some((least.max(0.0), in_window("driver.server_transactions")?))
}

/// Whether queries had parallel workers: the start of each counts as transactions of the database (in `InitPostgres` and
/// `ParallelWorkerMain`), which no driver sees end. Samples of waits see also those between two ticks.
fn has_parallel_workers(context: &RunContext) -> bool {
    let were_seen = |metric| context.usage.with_key(metric).any(|(_, n)| n > 0.0);
    let is_worker = |name: &String| name.starts_with("parallel worker/");
    were_seen("server.load_workers")
        || were_seen("database.parallel_workers")
        || context.usage.instances("waits.processes").iter().any(is_worker)
}

pub(super) const NEVER_QUIET: Rule = Rule {
    id: "never-quiet",
    title: "The server never became quiet before the load",
    severity: "Doubt when three looks in a row, 0.25 s apart, never found the server at rest within the time to settle",
    source: "our rule",
    advice: "Stop what works on the server (see foreign-sessions and autovacuum-in-window), or let it end \
             first; a checkpoint ends by itself, within checkpoint_timeout if it was not requested.",
    evidence: "The record of the phase `settle`: other active sessions, autovacuum, a checkpoint, or new WAL.",
    why: "For an unknown part of its time, the load shares the server with other work.",
    tested: "A session that is always active, on a server by URL.",
    check: RuleCheck::Run(never_quiet),
};

fn never_quiet(context: &RunContext) -> Option<Finding> {
    let detail = &context.data.record.phase(Phase::Settle)?.detail;
    let get = |name: &str| detail.get(name).map(String::as_str);
    (get("quiet") == Some("false")).then_some(())?;
    let busy =
        get("still_busy").filter(|busy| !busy.is_empty()).or(get("waited_for")).unwrap_or("unknown work");
    let evidence = format!("still busy after {} s: {busy}", get("seconds").unwrap_or("some"));
    Some(NEVER_QUIET.finds(Severity::Doubt, evidence))
}

/// Whether a run's workload changes data. For the user's own scripts the server reported which tables they write; if it
/// could not, they may write.
pub(super) fn writes(kind: WorkloadKind, record: &RunRecord) -> bool {
    match &record.survey {
        _ if kind.row().only_reads() => false,
        Some(survey) => !(survey.written.is_empty() && survey.unchecked.is_empty()),
        None => true,
    }
}

/// Events of a kind between `go` and the end of the load; of those that an outage brings, the ones that do not belong to it.
fn events<'a>(context: &'a RunContext, kind: EventKind) -> impl Iterator<Item = &'a Event> {
    context.data.events.iter().filter(move |event| {
        let is_of_outage = |t_s: f64| OF_OUTAGES.contains(&kind) && context.is_in_outage(t_s);
        let is_loaded = |t_s: f64| (0.0..=context.line.end_s).contains(&t_s) && !is_of_outage(t_s);
        event.kind == kind && context.line.place(event.t_unix_ns).is_some_and(is_loaded)
    })
}

/// Events that an outage brings with it.
const OF_OUTAGES: [EventKind; 3] =
    [EventKind::ConnectionLost, EventKind::ServerRestarted, EventKind::ServerTrouble];

/// Marks of a kind that overlap the measurement.
fn in_window<'a>(context: &'a RunContext, kind: &str) -> Vec<&'a TimelineMark> {
    let Some(span) = context.line.measured_span() else { return Vec::new() };
    context.summary.marks.iter().filter(|mark| mark.kind == kind && marks::touches(mark, span)).collect()
}
