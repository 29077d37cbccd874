//! The results that are repeated: a directory, or a file that is unpacked for the time being, and of a merged study one origin.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::part::{self, StudyPart};
use model::experiment::origin::MergedFrom;
use model::experiment::plan::Plan;
use model::run::RunRecord;
use model::text::prose::plural;
use server::swept::Swept;
use server::{Cache, Temporary};
use store::{Author, Sealed};

use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::cli::packed::RepeatArgs;
use crate::front::cli::stored::RESULTS;
use crate::front::shell;

/// Directory of the original results next to those of their repetition.
const ORIGINAL: &str = "original";

/// How the names of directories begin in which results are unpacked for the time being.
const UNPACKED: &str = ".unpacked-";

/// Removes what a repetition that was killed has unpacked in `place`; returns the directories.
pub(crate) fn sweep(place: &Path) -> Vec<Swept> {
    server::temporary::sweep(place, |name| name.starts_with(UNPACKED))
}

/// Where the original results are.
pub(super) struct Original {
    dir: PathBuf,
    /// What it was unpacked into, which is removed with it unless it is kept.
    unpacked: Option<Temporary>,
    /// Directories above it that were made for it, the innermost first; they go with it unless something else is in them.
    above: Vec<PathBuf>,
    /// The origin of a merged study.
    origin: Option<String>,
}

/// The experiment that is repeated.
pub(super) struct Stored {
    /// All of the plan, or what one origin measured.
    pub(super) part: StudyPart,
    pub(super) experiment_toml: String,
    pub(super) author: Author,
}

impl Original {
    /// Finds or unpacks the results.
    ///
    /// # Errors
    /// When they are neither a directory nor a packed file.
    pub(super) fn find(args: &RepeatArgs) -> Result<Original> {
        let origin = args.origin.clone();
        if args.results.is_dir() {
            return Ok(Original { dir: args.results.clone(), unpacked: None, above: Vec::new(), origin });
        }
        // Below the place of the new results, to which it moves later.
        let place = match &args.output {
            Some(output) => output.parent().filter(|parent| !parent.as_os_str().is_empty()),
            None => Some(Path::new(RESULTS)),
        };
        let place = place.unwrap_or(Path::new("."));
        sweep(place);
        store::expect_ours(place)?;
        let missing = place.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        let above = missing.map(Path::to_path_buf).collect();
        files::create_private_dir_all(place)
            .with_context(|| format!("cannot create directory `{}`", place.display()))?;
        let name = format!("{UNPACKED}{}", files::random_hex(8).context("cannot name a directory")?);
        let unpacked = Temporary::make_noted(&Cache::default_location()?.dir, &place.join(name))?;
        let dir = unpacked.path().join("results");
        let original = Original { dir, unpacked: Some(unpacked), above, origin };
        store::unpack(&args.results, &original.dir, args.limit.of(&args.results))?;
        Ok(original)
    }

    /// The directory of the results.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether they were unpacked for the time being.
    pub(super) fn is_unpacked(&self) -> bool {
        self.unpacked.is_some()
    }

    /// What is repeated, and who wrote it.
    ///
    /// # Errors
    /// When an origin has to be named, or is named and not there, or its hosts were measured side by side.
    pub(super) fn stored(&self) -> Result<Stored> {
        let Sealed { plan, experiment_toml, author } = store::read_sealed(&self.dir)?;
        Ok(Stored { part: self.part_of(plan)?, experiment_toml, author })
    }

    fn part_of(&self, plan: Plan) -> Result<StudyPart> {
        let dir = self.dir.display();
        match &self.origin {
            None if plan.origins.is_empty() => {
                let cases = plan.cases.iter().map(|case| case.id).collect();
                Ok(StudyPart { plan, cases })
            }
            None => bail!(
                "`{dir}` was merged from what {} measured, and is repeated a part at a time: {}",
                plural(plan.origins.len(), "origin"),
                plan.origins.iter().map(of_origin).collect::<Vec<String>>().join(", or ")
            ),
            Some(name) => {
                ensure!(!plan.origins.is_empty(), "`{dir}` was not merged; leave --origin {name} out");
                let part = part::study_part(&plan, name)
                    .with_context(|| format!("cannot repeat a part of `{dir}`"))?;
                ensure!(
                    self.records()?.iter().all(|record| record.concurrent.is_empty()),
                    "the hosts of `{name}` were measured side by side, which a merged study does not plan; repeat the results that \
                     it was merged from"
                );
                Ok(part)
            }
        }
    }

    /// The records of the runs that are repeated.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn records(&self) -> Result<Vec<RunRecord>> {
        let mut records = store::read_records(&self.dir)?;
        if let Some(name) = &self.origin {
            let plan = store::read_plan(&self.dir)?;
            records
                .retain(|record| plan.origin_of(record.spec.run).is_some_and(|origin| origin.name == *name));
        }
        Ok(records)
    }

    /// The results that are repeated, explained.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn explained(&self) -> Result<Explained> {
        match &self.origin {
            Some(name) => Explained::read_origin(&self.dir, KeptTelemetry::Drawn, name),
            None => Explained::read(&self.dir, KeptTelemetry::Drawn),
        }
    }

    /// The name of the origin, if one is repeated.
    pub(super) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Keeps unpacked results within those of their repetition.
    ///
    /// # Errors
    /// When they cannot be moved.
    pub(super) fn keep_in(&mut self, dir: &Path) -> Result<()> {
        if self.unpacked.is_some() {
            let kept = dir.join(ORIGINAL);
            let moved = match std::fs::rename(&self.dir, &kept) {
                // The new results are a directory where another file system begins.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                    copy(&self.dir, &kept).and_then(|()| std::fs::remove_dir_all(&self.dir))
                }
                other => other,
            };
            moved.with_context(|| format!("cannot create `{}`", kept.display()))?;
            (self.dir, self.unpacked) = (kept, None);
        }
        Ok(())
    }
}

/// Copies what was unpacked: directories and regular files, nothing else.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

/// How an origin is asked for, and when it was measured.
fn of_origin(origin: &MergedFrom) -> String {
    let made = jiff::Timestamp::from_nanosecond(origin.made_unix_ns.into()).unwrap_or_default();
    format!("--origin {} ({})", shell::quoted(&origin.name), made.strftime("%Y-%m-%d"))
}

impl Drop for Original {
    fn drop(&mut self) {
        self.unpacked = None;
        for dir in &self.above {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unpacked_is_kept_on_another_file_system_too() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let unpacked = Temporary::make(&here.path().join(".unpacked-1"), 0o700).unwrap();
        let (outer, dir) = (unpacked.path().to_path_buf(), unpacked.path().join("results"));
        std::fs::create_dir_all(dir.join("runs/0001")).unwrap();
        std::fs::write(dir.join("runs/0001/run.json"), "{}").unwrap();
        let mut original = Original { dir, unpacked: Some(unpacked), above: Vec::new(), origin: None };
        original.keep_in(there.path()).unwrap();
        assert!(!outer.exists());
        let kept = there.path().join(ORIGINAL);
        assert_eq!(std::fs::read_to_string(kept.join("runs/0001/run.json")).unwrap(), "{}");
        drop(original);
        assert!(kept.exists(), "it stays with the new results");
    }
}
