//! The parts of the server that are on this machine, and the location of the tables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use dataset::state::{self, WorkloadTables};
use model::run::RunRecord;
use server::database::target::{locate, wal_of};
use wire::session::Session;
use workload::tpcc::C_LOAD;

use crate::stage::Stage;

/// The parts of the server that are on this machine, and the location of the tables.
pub(crate) struct LocalParts {
    pub(crate) postmaster_pid: Option<i32>,
    pub(crate) dirs: BTreeMap<String, PathBuf>,
    pub(crate) log_path: Option<PathBuf>,
    /// What of the server's directories is not known, and why.
    pub(crate) missing: BTreeMap<String, String>,
    /// The tables that pgdyno loads, if the workload uses them.
    pub(crate) home: Option<WorkloadTables>,
    /// C-Load of TPC-C's tables, if known.
    pub(crate) c_load: Option<u32>,
}

impl LocalParts {
    pub(crate) fn find(stage: &Stage, session: &mut Session) -> LocalParts {
        if let (Some(cluster), Some(server)) = (stage.cluster(), stage.server()) {
            let dirs = [("data", cluster.data_dir()), ("wal", cluster.wal_dir())];
            return LocalParts {
                postmaster_pid: Some(server.pid() as i32),
                dirs: dirs.map(|(role, dir)| (role.to_string(), dir)).into(),
                log_path: Some(server.log_path().to_path_buf()),
                missing: BTreeMap::new(),
                home: None,
                c_load: None,
            };
        }
        let local = locate(session);
        let (mut dirs, mut missing) = (BTreeMap::new(), BTreeMap::new());
        if let Some(data) = local.as_ref().and_then(|local| local.data_directory.clone()) {
            match wal_of(&data) {
                Ok(wal) => drop(dirs.insert("wal".to_string(), wal)),
                Err(reason) => drop(missing.insert("disk (wal)".to_string(), reason)),
            }
            dirs.insert("data".to_string(), data);
        }
        LocalParts {
            postmaster_pid: local.map(|local| local.postmaster_pid as i32),
            dirs,
            log_path: None,
            missing,
            home: None,
            c_load: None,
        }
    }
}

/// C-Load from the load marker; unknown for tables that pgdyno did not load.
pub(crate) fn c_load(session: &mut Session, home: Option<&WorkloadTables>) -> Result<Option<u32>> {
    let Some(WorkloadTables { dataset, schema }) = home.filter(|home| home.dataset.row().has_load_constants)
    else {
        return Ok(None);
    };
    let marker = state::complete_marker(session, *dataset, schema)?;
    Ok(marker.and_then(|marker| marker.extra.get(C_LOAD)?.parse().ok()))
}

/// The workload's tables (`table` or `schema.table`): those of the built-in ones, or those named by the user's scripts.
pub(crate) fn tables(home: Option<&WorkloadTables>, record: &RunRecord) -> Vec<String> {
    match (&record.survey, home) {
        (Some(survey), _) => survey.tables.iter().cloned().collect(),
        (None, Some(home)) => home.tables(),
        (None, None) => Vec::new(),
    }
}
