//! The workload directory that a command names: read from disk or built in, and made to what the options choose of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::scripts::directories;
use generator::{Choice, Directory, Instance, Problem};
use model::workload::{DirectoryName, WorkloadName};

use crate::front::cli::data::workloads::ChosenArgs;

/// A workload directory that was read.
pub(super) struct FoundDirectory {
    pub(super) name: DirectoryName,
    pub(super) files: Directory,
}

impl FoundDirectory {
    /// Reads the directory that `args` name.
    ///
    /// # Errors
    /// When it is none, cannot be read, or is beyond the bounds of such directories.
    pub(super) fn read(args: &ChosenArgs) -> Result<FoundDirectory> {
        match &args.workload {
            WorkloadName::Directory(name) => {
                let files = directories::directory_at(&name.place, Path::new(""));
                Ok(FoundDirectory { name: name.clone(), files: files.map_err(anyhow::Error::msg)? })
            }
            WorkloadName::Kind(kind) => bail!(
                "workload `{kind}` is no directory: pgdyno makes its tables and transactions by code; `pgdyno workload show {kind}` says what it is"
            ),
        }
    }

    /// The directory as the options choose it.
    ///
    /// # Errors
    /// All that is wrong with it, one problem after the other.
    pub(super) fn instance(&self, args: &ChosenArgs) -> Result<Arc<Instance>> {
        let chosen = Instance::new(&self.files, &self.choice(args)?);
        chosen.map(Arc::new).map_err(|problems| anyhow::anyhow!("{}", self.words(&problems)))
    }

    /// The choice that the options make.
    ///
    /// # Errors
    /// When an option is no `NAME=VALUE`, or is given twice.
    pub(super) fn choice(&self, args: &ChosenArgs) -> Result<Choice> {
        let mut options = BTreeMap::new();
        for text in &args.options {
            let (name, value) =
                text.split_once('=').with_context(|| format!("--option {text}: expected NAME=VALUE"))?;
            let before = options.insert(name.to_string(), value.to_string());
            ensure!(before.is_none(), "--option {text}: `{name}` is given twice");
        }
        let ChosenArgs { scale, data_seed, .. } = args;
        Ok(Choice { variant: self.name.variant.clone(), options, scale: *scale, data_seed: *data_seed })
    }

    /// Problems in words, with the files as they are seen from where the user is.
    pub(super) fn words(&self, problems: &[Problem]) -> String {
        directories::words(&self.name.place, problems)
    }
}
