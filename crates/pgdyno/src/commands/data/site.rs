//! What a stage needs to load or prove data, without an experiment.

use std::collections::BTreeMap;

use anyhow::Result;
use experiment::site::hands::HostAgents;
use experiment::site::{Callbacks, Environment, Permissions, Site, SystemChanges};
use server::Cache;

use crate::job::{self, own_program};
use crate::{restore_report, signals};

/// A site with a cache, where these steps are allowed.
///
/// # Errors
/// When the program does not find its own file.
pub(super) fn without_experiment<'a>(cache: &'a Cache, permissions: Permissions<'a>) -> Result<Site<'a>> {
    Ok(Site {
        environment: Environment {
            cache,
            plan: None,
            n_servers: 1,
            memory_bytes: server::settings::defaults::memory_bytes(),
            most_connections: 1,
            servers: &[],
            runs_by_data: BTreeMap::new(),
            in_turn: None,
            seat: None,
            stop: signals::stop_flag(),
            now: &now,
        },
        permissions,
        changes: SystemChanges {
            os: None,
            hands: HostAgents::new(own_program()?),
            settings: &restore_report::SETTINGS,
            pending_undo: &job::PENDING_UNDO,
        },
        callbacks: Callbacks::default(),
    })
}

/// The current time, as a load marker has it.
pub(super) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
