//! Workload directories: those that are built in, and what a directory adds to its scripts. Crate `generator` reads their files.

mod builtin;
pub mod classes;
mod problems;

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Choice, Directory, Instance, Manifest};
use model::experiment::case::directory::WorkloadDirectory;

use crate::emulator::bundle::Bundle;

pub use problems::{of_transaction, problems, script_file, unsupported};

/// The files of a directory: names with `/`, and their texts.
pub type DirectoryFiles = &'static [(&'static str, &'static str)];

/// The files of the directory with this name.
pub fn builtin(name: &str) -> Option<DirectoryFiles> {
    builtin::DIRECTORIES.iter().find(|(known, _)| *known == name).map(|(_, files)| *files)
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
    let scale =
        scale.map_err(|_| format!("workload directory {}: the scale is no number", directory.name))?;
    at_scale(directory, scale)
}

impl Bundle {
    /// As [`Bundle::compile_directory`] with the directory that the scripts are of, at the scale that `defines` names, or as
    /// [`Bundle::compile`] without one.
    ///
    /// # Errors
    /// What is wrong with the directory, or with a script.
    pub fn from_scripts(
        scripts: &[(&str, &str, u32)],
        defines: &BTreeMap<String, String>,
        directory: Option<&WorkloadDirectory>,
    ) -> Result<Bundle, String> {
        if directory.is_some_and(|directory| directory.replay.is_some()) {
            return Bundle::of_trace(scripts);
        }
        let compiled = match directory {
            None => Bundle::compile(scripts, defines),
            Some(directory) => Bundle::compile_directory(scripts, defines, &instance(directory, defines)?),
        };
        compiled.map_err(|error| error.to_string())
    }
}

/// Whether every text of a directory is that of the one that pgdyno brings along, whatever a plan claims.
pub fn is_builtin(directory: &WorkloadDirectory) -> bool {
    let known = builtin(&directory.name).unwrap_or_default();
    let is_known = |(name, text): (&String, &String)| known.contains(&(name.as_str(), text.as_str()));
    !directory.texts.is_empty() && directory.texts.iter().all(is_known)
}

/// What `workload.toml` of a directory says; `None` if it is wrong.
pub fn manifest(directory: &WorkloadDirectory) -> Option<Manifest> {
    let files = Directory::new(directory.texts.clone()).ok()?;
    Manifest::read(&files).ok()
}

/// The workload directory of a case at a scale. Its texts may be somebody else's.
///
/// # Errors
/// What is wrong with it, all at once.
pub fn at_scale(directory: &WorkloadDirectory, scale: u32) -> Result<Arc<Instance>, String> {
    let choice = Choice {
        variant: directory.variant.clone(),
        options: directory.options.clone(),
        scale,
        data_seed: Some(directory.data_seed),
    };
    let made = Directory::new(directory.texts.clone())
        .and_then(|files| files.with_draws(&directory.draws.0))
        .and_then(|files| Instance::new(&files, &choice));
    made.map(Arc::new).map_err(|problems| {
        let errors = problems.iter().filter(|problem| !problem.is_warning);
        errors.map(|error| format!("{}/{error}", directory.name)).collect::<Vec<_>>().join("\n")
    })
}
