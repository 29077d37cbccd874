//! `pgdyno workload show`: what a workload is, at a scale and with values of its options.

mod directory;

use std::path::Path;

use anyhow::{Context, Result};
use model::workload::WorkloadName;

use crate::commands::data::workload::found::FoundDirectory;
use crate::commands::data::workload::{native, template, written};
use crate::front::cli::data::workloads::ShowArgs;
use crate::front::shell;
use crate::{Exit, print, print_exact};

/// Prints what the workload is, or copies its directory.
pub(super) fn show(args: &ShowArgs) -> Result<Exit> {
    if let WorkloadName::Kind(kind) = &args.chosen.workload
        && args.to.is_none()
    {
        if args.json {
            print_exact(&format!("{}\n", native::json(*kind, args.chosen.scale)))?;
        } else {
            print(&native::text(*kind, args.chosen.scale))?;
        }
        return Ok(Exit::Done);
    }
    let found = FoundDirectory::read(&args.chosen)?;
    if let Some(to) = &args.to {
        return copy(&found, to);
    }
    let instance = found.instance(&args.chosen)?;
    let shown = directory::Shown { files: &found.files, instance: &instance, scale: args.chosen.scale };
    if args.json {
        print_exact(&format!("{}\n", shown.json()))?;
    } else {
        print(&shown.text())?;
    }
    Ok(Exit::Done)
}

/// Copies the files of a directory into another one, which must be new.
fn copy(found: &FoundDirectory, to: &Path) -> Result<Exit> {
    let files = found.files.files().iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let n_files = written::write(to, files).context("--to")?;
    let path = shell::quoted(&template::path(to));
    print(&format!(
        "copied {n_files} files of `{}` to `{}`; run it by its path: pgdyno run -w {path}\n",
        found.name.place,
        to.display()
    ))?;
    Ok(Exit::Done)
}
