//! What is to be judged: the host that matters, as far as it is visible, and the server with the rights of our role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use analysis::doctor::{Examined, FixNames, HostOf};
use anyhow::{Context, Result};
use dataset::{schema, session};
use fleet::HostObserver;
use model::experiment::driver::DriverSpec;
use model::run::host::HostRecord;
use model::run::rights::RoleRights;
use model::run::server::ServerRecord;
use model::telemetry::watch::WatchOrder;
use model::text::prose::{bytes, plural};
use server::Cache;
use server::database::rights::{n_sessions, rights};
use server::database::target::{backend_of, data_directory, log_path, pools_transactions};
use server::database::{facts, target::Flavor, target::Target};
use wire::Conninfo;
use wire::session::{Session, quote_literal};

use super::whose;
use crate::front::cli::doctor::DoctorArgs;
use crate::front::setup;
use crate::job::own_program;
use crate::signals;
use crate::watch::ObservedServer;

/// All that was seen.
pub(super) struct SeenHere {
    pub(super) host: HostRecord,
    pub(super) host_of: HostOf,
    /// Whether that host is this machine.
    pub(super) is_here: bool,
    pub(super) server: Option<SeenServer>,
    missing: BTreeMap<String, String>,
    clock_s: Option<f64>,
    dirs: BTreeMap<String, PathBuf>,
    postmaster_pid: Option<u32>,
    rights: RoleRights,
    names: FixNames,
}

/// The server.
pub(super) struct SeenServer {
    pub(super) record: ServerRecord,
    place: String,
    n_sessions: Option<u32>,
}

impl SeenHere {
    /// Looks at what `args` name.
    ///
    /// # Errors
    /// When the server or its host cannot be reached.
    pub(super) fn look(args: &DoctorArgs) -> Result<SeenHere> {
        let mut seen = match args.target.as_ref().or(args.server.as_ref()) {
            None => SeenHere::of_machine()?,
            Some(target) => {
                let host = args.host.clone().map(|host| DriverSpec { upload: args.upload, ..host });
                SeenHere::of_server(&setup::resolve_to_look(target)?, host.as_ref())?
            }
        };
        if seen.is_here {
            seen.clock_s = Some(ceiling::clock_s());
        }
        Ok(seen)
    }

    fn of_machine() -> Result<SeenHere> {
        let clusters = Cache::default_location()?.clusters_dir();
        // Where clusters will be if there are none yet.
        let data = clusters.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
        let dirs = BTreeMap::from([("data".to_string(), data.to_path_buf())]);
        Ok(SeenHere {
            host: observe::host::facts::record(&dirs),
            host_of: HostOf::ThisMachine,
            is_here: true,
            server: None,
            missing: BTreeMap::new(),
            clock_s: None,
            dirs,
            postmaster_pid: None,
            rights: RoleRights::new(),
            names: FixNames::default(),
        })
    }

    fn of_server(conninfo: &Conninfo, host: Option<&DriverSpec>) -> Result<SeenHere> {
        let mut session = session::open(conninfo, signals::stop_flag())?;
        let target = Target::at(&mut session, conninfo.clone())?;
        if let Flavor::Other(name) = &target.flavor {
            anyhow::bail!("{conninfo} is {name}, not PostgreSQL: its settings and rights cannot be judged");
        }
        let mut record = facts::record(&mut session, None)?;
        if let Some(mode) = record.route.as_mut().and_then(|route| route.pooler.as_mut()) {
            let mut other = session::open(conninfo, signals::stop_flag())?;
            if pools_transactions(&mut session, &mut other)? {
                *mode = "transaction".to_string();
            }
        }
        let schema = schema::find(&mut session, None).ok();
        let rights = rights(&mut session, &record, schema.as_ref().map(workload::Schema::name));
        let n_sessions = n_sessions(&mut session);
        let order = order(&mut session);
        let server = Some(SeenServer { record, place: conninfo.to_string(), n_sessions });
        let names = names(&mut session, schema.as_ref());
        let seen = SeenHere { server, rights, names, ..SeenHere::of_machine()? };
        match host {
            Some(host) => seen.through_eyes(host, order),
            None => Ok(seen.with_server_here(&order)),
        }
    }

    /// The server's host is this machine if its processes are here.
    fn with_server_here(self, order: &WatchOrder) -> SeenHere {
        let place = ObservedServer::find(order, driver::SenderTrust::OfUser);
        if place.postmaster_pid.is_none() {
            return SeenHere { host_of: HostOf::Driver, ..self };
        }
        let watching = place.describe();
        SeenHere {
            host: watching.host,
            host_of: HostOf::Server,
            missing: watching.missing,
            dirs: place.dirs,
            postmaster_pid: place.postmaster_pid,
            ..self
        }
    }

    fn through_eyes(self, host: &DriverSpec, order: WatchOrder) -> Result<SeenHere> {
        let eyes = HostObserver::open(host, order, own_program()?, signals::stop_flag())
            .with_context(|| format!("cannot look at the server's host `{}`", host.name))?;
        let watching = eyes.watching.clone();
        Ok(SeenHere {
            host: watching.host,
            host_of: HostOf::Server,
            is_here: eyes.record.is_here,
            missing: watching.missing,
            ..self
        })
    }

    /// Reads the host again, after values were set.
    pub(super) fn look_again(&mut self) {
        self.host = observe::host::facts::record_with_server(&self.dirs, self.postmaster_pid);
    }

    /// Everything that is to be judged.
    pub(super) fn examined(&self) -> Examined<'_> {
        Examined {
            host: &self.host,
            host_of: self.host_of,
            missing: &self.missing,
            clock_s: self.clock_s,
            server: self.server.as_ref().map(|server| &server.record),
            rights: &self.rights,
            n_sessions: self.server.as_ref().and_then(|server| server.n_sessions),
            names: &self.names,
        }
    }

    /// Lines that name host and server.
    pub(super) fn about(&self) -> Vec<(&'static str, String)> {
        let host = &self.host;
        let machine = format!(
            "{}, {}, {}, {}",
            host.hostname,
            host.os,
            plural(host.n_cpus, "processor"),
            bytes(host.memory_bytes as f64)
        );
        let mut about = vec![("host", machine), ("", whose(self.host_of).to_string())];
        match &self.server {
            None => about.push(("server", "none was named".to_string())),
            Some(SeenServer { record, place, .. }) => {
                about.push(("server", format!("PostgreSQL {}, {place}", record.release())));
                about.extend(record.route.as_ref().map(|route| ("", format!("by {}", route.words()))));
            }
        }
        about
    }
}

/// As the server quotes them where that is necessary; what it does not say stays a placeholder.
fn names(session: &mut Session, schema: Option<&workload::Schema>) -> FixNames {
    let mut ask = |name: &str| session.quoted_if_needed(name).ok().flatten();
    FixNames {
        role: ask("current_user"),
        database: ask("pg_catalog.current_database()"),
        schema: schema.and_then(|schema| ask(&quote_literal(schema.name()))),
    }
}

fn order(session: &mut Session) -> WatchOrder {
    WatchOrder {
        format: model::FORMAT,
        data_directory: data_directory(session),
        log_path: log_path(session),
        backend: backend_of(session),
        counters: false,
        spot_notice: None,
    }
}
