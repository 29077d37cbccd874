//! Workload directories: those that are built in, and what a directory adds to its scripts. Crate `generator` reads their files.

mod builtin;
pub mod classes;
mod problems;

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Choice, Directory, Instance};
use model::experiment::case::directory::WorkloadDirectory;
use model::load::LoadSpec;

pub use problems::{problems, unsupported};

/// The files of a directory: names with `/`, and their texts.
pub type DirectoryFiles = &'static [(&'static str, &'static str)];

/// The files of the directory with this name.
pub fn builtin(name: &str) -> Option<DirectoryFiles> {
    builtin::DIRECTORIES.iter().find(|(known, _)| *known == name).map(|(_, files)| *files)
}

/// The variables that a load's workload directory gives to every client: its options.
pub fn options(load: &LoadSpec) -> BTreeMap<String, String> {
    load.directory.as_ref().map_or_else(BTreeMap::new, |directory| directory.options.clone())
}

/// The workload directory of a case or a load, at the scale that its variables name.
///
/// # Errors
/// What is wrong with it, all at once.
pub fn instance(
    directory: &WorkloadDirectory,
    defines: &BTreeMap<String, String>,
) -> Result<Arc<Instance>, String> {
    let scale = defines.get("scale").map_or(Ok(1), |scale| scale.parse());
    let choice = Choice {
        variant: directory.variant.clone(),
        options: directory.options.clone(),
        scale: scale.map_err(|_| format!("workload directory {}: the scale is no number", directory.name))?,
        data_seed: Some(directory.data_seed),
    };
    let made = Directory::new(directory.texts.clone()).and_then(|files| Instance::new(&files, &choice));
    made.map(Arc::new).map_err(|problems| {
        let errors = problems.iter().filter(|problem| !problem.is_warning);
        errors.map(ToString::to_string).collect::<Vec<_>>().join("\n")
    })
}
