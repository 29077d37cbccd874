//! The environment of every stage: caches, servers, and permissions given by the user.

pub mod ceilings;
pub(crate) mod clock;
pub(crate) mod estimates;
pub(crate) mod exporter;
pub mod hands;
pub mod keys;
pub mod lanes;
pub mod pending_undo;
pub mod phase_limit;
pub mod progress;
pub mod reach;
pub mod referee;
pub(crate) mod requirements;
pub mod settings;
pub(crate) mod wal;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use dataset::clearance::LoadConsent;
use dataset::load::{LoadReport, LoadRequest};
use dataset::session::{self, STOPPED};
use dataset::{layout, loading, schema};
use host::Keeper;
use model::experiment::case::WorkloadSpec;
use model::experiment::plan::Plan;
use model::run::RunRecord;
use model::text::prose::{bytes, grouped};
use model::workload::Dataset;
use server::Cache;
use server::alter_system::AllowedChange;
use wire::Conninfo;
use wire::session::Session;

use crate::site::hands::HostAgents;
use crate::site::lanes::Seat;
use crate::site::pending_undo::PendingUndo;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::reach::trust::TrustedWorkload;
use crate::site::referee::Referee;
use crate::site::settings::ServerSettings;
use crate::spot::Spot;

/// All that stages and runs have in common. A function that needs a part takes that part.
pub struct Site<'a> {
    /// Caches, servers and memory.
    pub environment: Environment<'a>,
    /// Effects that the user has agreed to.
    pub permissions: Permissions<'a>,
    /// Changed values, which have to be restored.
    pub changes: SystemChanges<'a>,
    /// Others who decide, or wait for a notice.
    pub callbacks: Callbacks<'a>,
}

/// The surroundings of every stage.
#[derive(Clone)]
pub struct Environment<'a> {
    /// Cache for binaries and clusters.
    pub cache: &'a Cache,
    /// The plan whose runs are made, if there is one: what it needs stays in the cache.
    pub plan: Option<&'a Plan>,
    /// Number of servers that run at once and share this machine: two in a duet, otherwise one.
    pub n_servers: u64,
    /// Memory of this machine for one of them, for settings given as a share.
    pub memory_bytes: u64,
    /// Most connections that the clients of any case have, so that all cases of a server have the same `max_connections`.
    pub most_connections: u32,
    /// Servers given by URL, with passwords.
    pub servers: &'a [Conninfo],
    /// Number of runs that begin with the same data, by `data_name` of `stage::copies`.
    pub runs_by_data: BTreeMap<String, u32>,
    /// Identity of the experiment, if its servers take turns on disk: then data of its clusters is used as it is only if it has aged
    /// in this experiment.
    pub in_turn: Option<u64>,
    /// The place among lanes that are measured side by side, if this is one.
    pub seat: Option<Seat<'a>>,
    /// Set when the user wants to stop.
    pub stop: &'static AtomicBool,
    /// Current time as text, for the load marker.
    pub now: &'a (dyn Fn() -> String + Sync),
}

/// Effects on data and servers that the user has agreed to.
#[derive(Clone, Copy)]
pub struct Permissions<'a> {
    /// Tables that pgdyno did not create may be dropped.
    pub replace: bool,
    /// Databases of servers by URL that may be replaced by copies of themselves although pgdyno did not create them.
    pub replace_databases: &'a [String],
    /// What loading may cause beyond the tables.
    pub risks: Risks,
    /// Settings of servers by URL that may be changed.
    pub allowed: AllowedChange<'a>,
    /// Servers by URL that the commands of an outage may harm: names of targets, or hosts.
    pub outages: &'a [String],
}

/// Values of systems and servers that are changed for a run, and restored.
pub struct SystemChanges<'a> {
    /// Sets operating system settings, if a case asks for them.
    pub os: Option<&'a Mutex<Keeper>>,
    /// Set them on the hosts of servers by URL.
    pub hands: HostAgents,
    /// Settings of servers by URL that are changed.
    pub settings: &'static ServerSettings,
    /// What is due before the process may end.
    pub pending_undo: &'static PendingUndo,
}

/// Decisions and notices of others while an experiment is conducted.
#[derive(Clone, Copy, Default)]
pub struct Callbacks<'a> {
    /// The notice that eyes and drivers on other machines wait for.
    pub spot: Option<&'a Spot>,
    /// Called after each run: whether the runs so far suffice, so that the experiment may end before its last one.
    pub is_enough: Option<&'a (dyn Fn(&RunRecord) -> bool + Sync)>,
    /// Judges runs that have ended; without it none is repeated.
    pub referee: Option<&'a (dyn Referee + Sync)>,
}

/// Effects of loading beyond its tables that the user has agreed to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Risks {
    /// A publication publishes what is loaded.
    pub published: bool,
    /// Whoever wrote an archive gets the rights of a role that reaches beyond its databases; whoever wrote a file of SQL, its programs and files.
    pub archive_as_superuser: bool,
    /// A server may be the one that a workload was captured from: it is a copy of it.
    pub is_copy: bool,
    /// The workload directory whose SQL may run with whatever rights a role has.
    pub trusted_workload: Option<TrustedWorkload>,
}

#[cfg(test)]
impl<'a> Site<'a> {
    /// A site of its own without servers, hosts or permissions, for tests.
    pub(crate) fn bare(cache: &'a Cache) -> Site<'a> {
        Site {
            environment: Environment {
                cache,
                plan: None,
                n_servers: 1,
                memory_bytes: 1 << 30,
                most_connections: 1,
                servers: &[],
                runs_by_data: BTreeMap::new(),
                in_turn: None,
                seat: None,
                stop: Box::leak(Box::new(AtomicBool::new(false))),
                now: &String::new,
            },
            permissions: Permissions {
                replace: false,
                replace_databases: &[],
                risks: Risks::default(),
                allowed: AllowedChange::Nothing,
                outages: &[],
            },
            changes: SystemChanges {
                os: None,
                hands: HostAgents::new("/nonexistent".into()),
                settings: Box::leak(Box::new(ServerSettings::new())),
                pending_undo: Box::leak(Box::new(PendingUndo::new())),
            },
            callbacks: Callbacks::default(),
        }
    }
}

impl Permissions<'_> {
    /// What loading may replace and cause.
    pub(crate) fn consent(&self) -> LoadConsent {
        LoadConsent { replace: self.replace, published: self.risks.published }
    }
}

impl Environment<'_> {
    /// Fails if the user wants to stop.
    pub fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!(STOPPED);
        }
        Ok(())
    }

    /// The server by URL with its password: the one with the same host, port, user and database.
    pub(crate) fn conninfo(&self, keywords: &BTreeMap<String, String>) -> Result<Conninfo> {
        conninfo(self.servers, keywords)
    }
}

impl Site<'_> {
    /// Loads a case's data over `session` and additional sessions.
    pub(crate) fn load(
        &self,
        session: &mut Session,
        conninfo: &Conninfo,
        workload: &WorkloadSpec,
        watch: &mut Watch,
    ) -> Result<LoadReport> {
        let Environment { stop, now, .. } = self.environment;
        let schema = schema::find(session, workload.schema.as_deref())?;
        let request = LoadRequest {
            schema: &schema,
            scale: workload.scale,
            layout: workload.layout,
            tablespace: workload.tablespace.as_deref(),
            n_streams: workload.load_streams,
            connect: &|| session::open(conninfo, stop),
            consent: self.permissions.consent(),
            now,
            stop,
        };
        watch(ProgressEvent::Step(format!("loading {}", layout::describe(workload))));
        let mut tell = |progress| watch(ProgressEvent::Load(progress));
        let dataset = Dataset::from_case_data(&workload.data).unwrap_or_default();
        let report = loading::load(session, dataset, &request, &mut tell)?;
        watch(ProgressEvent::Step(loaded_words(&report)));
        Ok(report)
    }
}

/// What was loaded: `loaded 1,000 rows, 64.2 MiB with indexes, in 0.3 s over 2 streams`.
pub(crate) fn loaded_words(report: &LoadReport) -> String {
    let streams =
        if report.n_streams > 1 { format!(" over {} streams", report.n_streams) } else { String::new() };
    let (rows, stored) = (grouped(&report.n_rows.to_string()), stored_words(report));
    format!("loaded {rows} rows{stored} in {:.1} s{streams}", report.seconds)
}

/// The size of what was loaded, after its number of rows: `, 64.2 MiB with indexes,`.
pub fn stored_words(report: &LoadReport) -> String {
    let size = report.stored_bytes.map(|n| format!(", {} with indexes,", bytes(n as f64)));
    size.unwrap_or_default()
}

/// The server with these keywords and its password from `servers`: the one with the same host, port, user and database.
///
/// # Errors
/// When the keywords are not valid together.
pub fn conninfo(servers: &[Conninfo], keywords: &BTreeMap<String, String>) -> Result<Conninfo> {
    let place = |of: &BTreeMap<String, String>| {
        ["host", "port", "user", "dbname"].map(|key| of.get(key).cloned().unwrap_or_default())
    };
    let mut conninfo = Conninfo::from_keywords(keywords, None)?;
    if let Some(known) = servers.iter().find(|server| place(&server.keywords()) == place(keywords)) {
        conninfo.take_passwords_of(known);
    }
    Ok(conninfo)
}

#[cfg(test)]
mod tests {
    use model::load::LoadSpec;
    use wire::conninfo::PasswordSource;

    use super::*;

    #[test]
    fn each_host_is_sent_its_own_password() {
        let mut server = Conninfo::new("a", 1, "u", "d");
        server.hosts.extend(Conninfo::new("b", 2, "u", "d").hosts);
        server.password = Some("of b".into());
        server.host_passwords = vec![None, Some("of b".into())];
        server.password_source = PasswordSource::Passfile("f".into());
        let found = conninfo(std::slice::from_ref(&server), &server.keywords()).unwrap();
        assert_eq!((found.password_for(0), found.password_for(1)), (None, Some(&"of b".into())));
        let order = fleet::drive_order(LoadSpec::default(), &found);
        assert_eq!(order.host_passwords, [None, Some("of b".to_string())]);
        assert_eq!(order.password, None, "none is for all");
        assert!(!format!("{order:?}").contains("of b"));
        // One that is given for all hosts is for all.
        server.give_password("of all".into(), PasswordSource::Given);
        let order = fleet::drive_order(
            LoadSpec::default(),
            &conninfo(&[server.clone()], &server.keywords()).unwrap(),
        );
        assert_eq!((order.password.as_deref(), order.host_passwords.len()), (Some("of all"), 0));
    }
}
