//! The settings with which the sessions of a load begin, and how long they last.

use std::collections::BTreeMap;

use dataset::directory;
use model::experiment::case::WorkloadSpec;
use model::experiment::script::CaseData;
use model::workload::Programs;
use workload::directories::classes::Classes;

/// Settings of sessions by which they find the tables of a workload directory.
pub(crate) fn settings_of(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    match &workload.schema {
        Some(schema) if workload.data == CaseData::Directory => directory::session_settings(schema),
        _ => BTreeMap::new(),
    }
}

/// Settings with which all sessions of a load begin.
pub(crate) fn session_settings(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    let mut settings = workload.session_settings.clone();
    match workload.kind.row().programs {
        Programs::Native(_) => {
            let isolation = workload.tpcc.map(|spec| spec.isolation.as_str().to_string());
            settings.extend(isolation.map(|level| ("default_transaction_isolation".to_string(), level)));
        }
        Programs::Own | Programs::Scripts => {
            settings.extend(settings_of(workload));
            if workload.only_reads {
                settings.insert("default_transaction_read_only".to_string(), "on".to_string());
            }
        }
    }
    settings
}

/// Whether each transaction of a workload directory has a session of its own.
pub(crate) fn connects_each(workload: &WorkloadSpec) -> bool {
    let manifest = workload.directory.as_deref().and_then(workload::directories::manifest);
    let sessions = manifest.map_or(Vec::new(), |manifest| manifest.sessions);
    !sessions.is_empty() && sessions.iter().all(|session| session.reconnect)
}

/// A setting with which a kind of client of a workload directory begins, if one has any: these differ from one kind to another.
pub(crate) fn class_setting(workload: &WorkloadSpec) -> Option<String> {
    let directory = workload.directory.as_deref()?;
    let instance = workload::directories::at_scale(directory, workload.scale).ok()?;
    let scripts: Vec<(&str, u32)> =
        workload.scripts.iter().map(|one| (one.name.as_str(), one.weight)).collect();
    let classes = Classes::of_directory(&instance, &scripts, workload.n_clients).ok()??;
    classes.all.into_iter().flat_map(|class| class.settings).map(|(name, _)| name).next()
}
