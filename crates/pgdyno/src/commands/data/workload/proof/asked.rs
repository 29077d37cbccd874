//! What a server says of a workload directory: the one that is named, or one of our own that exists for this alone.

use std::collections::BTreeMap;

use anyhow::Result;
use experiment::site::hands::HostAgents;
use experiment::site::{Callbacks, Environment, Permissions, Risks, Site, SystemChanges};
use experiment::stage::directory_data::proof;
use generator::Instance;
use model::experiment::case::Layout;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::script::CaseData;
use server::Cache;
use server::alter_system::AllowedChange;

use crate::commands::data::check::embedded_case;
use crate::commands::data::workload::found::FoundDirectory;
use crate::front::cli::data::workloads::ProofArgs;
use crate::front::setup;
use crate::job::{self, own_program, screen::Screen};
use crate::{restore_report, signals};

/// What the server says, and which one it is.
///
/// # Errors
/// When it does not answer, or there is none.
pub(super) fn problems(
    found: &FoundDirectory,
    instance: &Instance,
    args: &ProofArgs,
) -> Result<(Vec<String>, String)> {
    let cache = Cache::default_location()?;
    let site = Site {
        environment: Environment {
            cache: &cache,
            plan: None,
            n_servers: 1,
            memory_bytes: server::settings::defaults::memory_bytes(),
            most_clients: 1,
            servers: &[],
            runs_by_data: BTreeMap::new(),
            in_turn: None,
            seat: None,
            stop: signals::stop_flag(),
            now: &|| jiff::Timestamp::now().to_string(),
        },
        permissions: Permissions {
            replace: false,
            replace_databases: &args.replace_databases,
            risks: Risks { published: false, archive_as_superuser: args.allow_archive_as_superuser },
            allowed: AllowedChange::Nothing,
        },
        changes: SystemChanges {
            os: None,
            hands: HostAgents::new(own_program()?),
            settings: &restore_report::SETTINGS,
            pending_undo: &job::PENDING_UNDO,
        },
        callbacks: Callbacks::default(),
    };
    let mut case =
        embedded_case(&args.server, args.chosen.workload.kind(), args.chosen.scale, Layout::default(), None)?;
    case.workload.data = CaseData::Directory;
    case.workload.schema = args.schema.clone();
    case.workload.directory = Some(Box::new(directory(found, instance)));
    if let Some(target) = &args.server.server {
        let conninfo = setup::resolve_to_change(target)?;
        return Ok((proof::by_url(&conninfo, &case, &site)?, format!("asked: {conninfo}")));
    }
    let mut screen = Screen::of_one();
    let said = proof::on_own_server(&case, &site, &mut |progress| screen.show(progress));
    screen.close();
    Ok((said?, format!("asked: {}", case.server.source)))
}

/// The directory as a plan has it.
fn directory(found: &FoundDirectory, instance: &Instance) -> WorkloadDirectory {
    let manifest = instance.manifest();
    WorkloadDirectory {
        name: manifest.name.clone(),
        title: manifest.title.clone(),
        notice: manifest.notice.clone(),
        variant: instance.variant().map(|variant| variant.name.clone()),
        options: instance.options().clone(),
        data_seed: instance.data_seed(),
        identity: found.files.identity(),
        data_identity: instance.data_identity(),
        is_builtin: found.name.is_builtin(),
        tables: Vec::new(),
        measures: Vec::new(),
        limits: Vec::new(),
        has_classes: false,
        texts: found.files.files().clone(),
    }
}
