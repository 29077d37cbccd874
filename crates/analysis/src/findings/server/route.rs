//! Findings about what stands between the driver and the server.

use std::collections::BTreeMap;

use model::experiment::case::ServerSource;

use crate::comparison::ComparedSide;
use crate::finding::{Finding, Severity};
use crate::findings::format::{figure, list};
use crate::findings::{ComparisonContext, Rule, RuleCheck, RunContext};

pub(in crate::findings) const IN_BETWEEN: Rule = Rule {
    id: "in-between",
    title: "A pooler or a proxy answers before the server",
    severity: "Note when another process serves a session than opened it (a pooler), or the server accepted \
               the connection at another address than the one connected to (a proxy, translated addresses)",
    source: "PostgreSQL's protocol, BackendKeyData; pg_backend_pid(), inet_server_addr(), inet_server_port()",
    advice: "Connect to the server directly, or report what is in between with the number if you measure it \
             too.",
    evidence: "Address and process id of the connection as pgdyno and the server see them; the processor \
               time of what listens there, on the observed machine.",
    why: "A pooler queues, parses and forwards each message: throughput and latency are those of both.",
    tested: "A TCP proxy, and where it is installed PgBouncer in session and in transaction mode, by URL and on one side of a comparison.",
    check: RuleCheck::Run(in_between),
};

/// The pooler or proxy that answers before the server.
pub(in crate::findings) fn between(context: &RunContext) -> Option<String> {
    let route = context.data.record.server.as_ref()?.route.as_ref()?;
    match &route.pooler {
        Some(mode) => Some(format!("a pooler in {mode} mode")),
        None if route.is_forwarded() => Some("a proxy, or something that translates addresses,".to_string()),
        None => None,
    }
}

/// The processors that it used in the measurement, where it is known which process of the observed machine it is.
pub(in crate::findings) fn pooler_cpu(context: &RunContext) -> Option<f64> {
    let (from_s, to_s) = context.line.measured_span()?;
    context.usage.cpu(from_s, to_s)?.pooler
}

fn in_between(context: &RunContext) -> Option<Finding> {
    let route = context.data.record.server.as_ref()?.route.as_ref()?;
    let what = between(context)?;
    let used = pooler_cpu(context);
    let used = used.map_or(String::new(), |used| format!("; it used {} processors", figure(used)));
    let evidence =
        format!("{what} answers at {}, and the server accepts at {}{used}", route.reached, route.answered);
    Some(IN_BETWEEN.finds(Severity::Note, evidence))
}

pub(in crate::findings) const BEHIND_POOLER: Rule = Rule {
    id: "behind-pooler",
    title: "The load went through a pooler that pgdyno ran",
    severity: "Note for each run with `pooler.kind`",
    source: "PgBouncer's console (SHOW STATS): total_wait_time, total_xact_count; /proc of its processes",
    advice: "Compare poolers by transactions per second and processor, too: one process cannot use more than one.",
    evidence: "The pooler, its processors, transactions per second for each, and a transaction's mean wait \
               for a connection.",
    why: "A pooler queues, parses and forwards each message: throughput and latency are those of both.",
    tested: "PgBouncer with 5 connections and 50 clients whose transactions take 10 ms.",
    check: RuleCheck::Run(behind_pooler),
};

fn behind_pooler(context: &RunContext) -> Option<Finding> {
    let pooler = context.data.record.pooler.as_ref()?;
    let (from_s, to_s) = context.line.measured_span()?;
    let rate = |metric: &str| context.usage.rate(metric, from_s, to_s);
    let tps = rate("pooler.transactions").filter(|tps| *tps > 0.0);
    let mut evidence = pooler.words();
    if let Some(used) = pooler_cpu(context) {
        evidence.push_str(&format!("; it used {} processors", figure(used)));
        if let Some(tps) = tps
            && used > 0.0
        {
            evidence.push_str(&format!(", which makes {} tps for each", figure(tps / used)));
        }
    }
    if let Some((waited, tps)) = rate("pooler.wait").zip(tps) {
        evidence
            .push_str(&format!("; a transaction waited {} ms for a connection", figure(1e3 * waited / tps)));
    }
    Some(BEHIND_POOLER.finds(Severity::Note, evidence))
}

pub(in crate::findings) const POOLER_IDLE_POOL: Rule = Rule {
    id: "pooler-idle-pool",
    title: "The pool has a connection for each client",
    severity: "Note when the pooler that pgdyno ran had as many connections to the server as clients, or \
               more",
    source: "PgBouncer's issue 671",
    advice: "Lower pooler.size, or measure with more clients than connections.",
    evidence: "The connections of the pooler and the clients of the load.",
    why: "Such a pooler only adds its own work to each message.",
    tested: "PgBouncer with 20 connections and 4 clients.",
    check: RuleCheck::Run(pooler_idle_pool),
};

fn pooler_idle_pool(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let pooler = record.pooler.as_ref()?;
    let (n_connections, n_clients) = (pooler.n_connections(), record.case.workload.n_clients);
    let evidence =
        || format!("the pooler had up to {n_connections} connections to the server for {n_clients} clients");
    (n_connections >= n_clients).then(|| POOLER_IDLE_POOL.finds(Severity::Note, evidence()))
}

pub(in crate::findings) const SPREAD_LOAD: Rule = Rule {
    id: "spread-load",
    title: "The load went to several servers",
    severity: "Note when connections went to the URL's hosts in random order (load_balance_hosts=random), or reads elsewhere than the \
               rest (workload.reads)",
    source: "libpq, load_balance_hosts; pgdyno's own sessions try the hosts in the given order",
    advice: "Throughput and latency are those of all hosts, all about the server that of the one named; to \
             compare hosts, measure one at a time.",
    evidence: "The hosts and load_balance_hosts of the load, and the address that pgdyno's own sessions reached. Each host of a URL was prewarmed, \
               checkpointed and checked for free connections.",
    why: "One server's settings, cache, WAL, waits and rows do not explain what several did.",
    tested: "Two servers by URL, each of which gets a part of the load's rows.",
    check: RuleCheck::Run(spread_load),
};

fn spread_load(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let hosts = record.spread_hosts()?;
    let route = record.server.as_ref().and_then(|server| server.route.as_ref());
    let one = route.map_or_else(|| "the first that answered".to_string(), |route| route.reached.clone());
    let reads = record.load.as_ref().and_then(|load| load.reads.as_ref());
    let (n, hosts) = (hosts.len(), list(&hosts, 4));
    let went = match reads {
        None => format!("the load's connections went to {n} hosts in random order ({hosts})"),
        Some(reads) => {
            let scripts: Vec<String> = reads.scripts.iter().cloned().collect();
            let scripts = list(&scripts, 4);
            format!(
                "the load went to {n} hosts ({hosts}), over second connections for transactions of {scripts}"
            )
        }
    };
    let evidence = format!("{went}; observed was {one} alone");
    Some(SPREAD_LOAD.finds(Severity::Note, evidence))
}

pub(in crate::findings) const SAME_SERVER: Rule = Rule {
    id: "same-server",
    title: "The sides are one server",
    severity: "Void when the sides are one database of one cluster under two names, unless their connections \
               differ (`sslmode`); Note when they are two databases of one cluster",
    source: "pg_control_system() and pg_postmaster_start_time(): copies of a cluster share its system \
             identifier, not its start",
    advice: "Check host, port and service of both sides; use --aa to compare a server with itself.",
    evidence: "System identifier, start of the postmaster and name of the database on both sides.",
    why: "A difference between a server and itself is chance.",
    tested: "Two databases of one server by unix socket and by TCP, and two results of one database under two names.",
    check: RuleCheck::Comparison(same_server),
};

fn same_server(context: &ComparisonContext) -> Vec<Finding> {
    let both = identity(context.a).zip(identity(context.b));
    let [name_a, name_b] = context.purpose.names();
    let is_other_name = |(a, b): &(Identity, Identity)| a.cluster == b.cluster && a.place() != b.place();
    let Some((a, b)) = both.filter(is_other_name) else { return Vec::new() };
    let (severity, evidence) = if a.database == b.database {
        (Severity::Void, format!("{name_a} and {name_b} are both database `{}` of one cluster", a.database))
    } else {
        (
            Severity::Note,
            format!(
                "{name_a} and {name_b} are databases `{}` and `{}` of one cluster",
                a.database, b.database
            ),
        )
    };
    vec![SAME_SERVER.finds(severity, evidence)]
}

/// What distinguishes a server by URL from others; a server that pgdyno starts is known by its directory.
struct Identity<'a> {
    keywords: &'a BTreeMap<String, String>,
    database: &'a str,
    /// System identifier, if the user may read it, start of the postmaster, and whether it is a standby.
    cluster: (Option<&'a str>, &'a str, bool),
}

/// The keywords that name a place; the others say how to connect to it, which is a question of its own.
const PLACE: [&str; 5] = ["host", "hostaddr", "port", "dbname", "service"];

impl Identity<'_> {
    fn place(&self) -> [Option<&String>; PLACE.len()] {
        PLACE.map(|keyword| self.keywords.get(keyword))
    }
}

fn identity(side: ComparedSide) -> Option<Identity> {
    let source = &side.data.plan.case(side.case)?.server.source;
    let ServerSource::Url(keywords) = source else { return None };
    let record = &side.first()?.record;
    let server = record.server.as_ref().filter(|server| !server.postmaster_start.is_empty())?;
    Some(Identity {
        keywords,
        database: record
            .load
            .as_ref()
            .and_then(|load| load.target.get("dbname"))
            .or(keywords.get("dbname"))?,
        cluster: (server.system_identifier.as_deref(), &server.postmaster_start, server.in_recovery),
    })
}
