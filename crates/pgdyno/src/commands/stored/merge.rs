//! `pgdyno merge`: results of one experiment, measured in several places, become one study.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::merge::{self, Merged, MergedResults};
use model::experiment::plan::{RunState, StateLine};
use model::text::prose::plural;
use store::{Author, ExperimentDir, Reason, Sealed};

use crate::commands::report::{self, PrintForm};
use crate::commands::why::proofs::{self, Proofs};
use crate::front::cli::stored::MergeArgs;
use crate::{Exit, job, say};

/// A results directory and the name of its results.
struct Source {
    name: String,
    dir: PathBuf,
}

/// Merges the directories and prints the report of the study.
pub(crate) fn merge(args: &MergeArgs) -> Result<Exit> {
    let sources = args.dirs.iter().map(|given| source(given)).collect::<Result<Vec<_>>>()?;
    let (parts, authors): (Vec<MergedResults>, Vec<Author>) =
        sources.iter().map(read).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let now_unix_ns = jiff::Timestamp::now().as_nanosecond().max(0) as u64;
    let merged = merge::merge(parts, args.by_origin, env!("CARGO_PKG_VERSION"), now_unix_ns)?;
    let (kept, dropped) = proven(&merged, &sources)?;
    let text = store::read_experiment(&sources[0].dir)?;
    let path = args.output.clone().unwrap_or_else(|| job::default_path(&merged.plan));
    // A study is ours if all of it is.
    let create = if authors.iter().all(|author| author.is_us()) {
        ExperimentDir::create
    } else {
        ExperimentDir::create_unsealed
    };
    let dir = create(&path, &merged.plan, &text)?;
    if let Err(error) = write(&dir, &merged, &sources, &kept) {
        dir.discard();
        return Err(error);
    }
    drop(dir);
    say(&format!(
        "`{}` holds {} of {}: {}",
        path.display(),
        plural(merged.runs.len(), "run"),
        plural(sources.len(), "experiment"),
        sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ")
    ));
    dropped.iter().for_each(|words| say(words));
    report::explain(&path, PrintForm::Table, None)?;
    Ok(Exit::Done)
}

fn source(given: &str) -> Result<Source> {
    // A directory whose name contains `=` is meant if it exists.
    if let Some((name, dir)) = given.split_once('=')
        && !Path::new(given).exists()
    {
        ensure!(!name.is_empty() && !dir.is_empty(), "`{given}` is not NAME=DIR");
        return Ok(Source { name: name.to_string(), dir: dir.into() });
    }
    let dir = PathBuf::from(given);
    let real = dir.canonicalize().with_context(|| format!("cannot read `{given}`"))?;
    match real.file_name() {
        Some(name) => Ok(Source { name: name.to_string_lossy().into_owned(), dir }),
        None => bail!("`{given}` has no name; give it one: NAME={given}"),
    }
}

/// What was measured in a directory, and who wrote its plan.
fn read(source: &Source) -> Result<(MergedResults, Author)> {
    let Source { name, dir } = source;
    let (plan, author) = match store::read_sealed(dir) {
        Ok(Sealed { plan, author, .. }) => (plan, author),
        // Only the first directory needs its experiment file.
        Err(_) => (store::read_plan(dir)?, Author::Unknown(Reason::Unsealed)),
    };
    if let Some(writer) = store::writer_of(dir) {
        let process = writer.pid.map_or("another process".to_string(), |pid| format!("process {pid}"));
        bail!("`{}` is still being measured by {process}; merge it when that has ended", dir.display());
    }
    ensure!(
        store::read_duet(dir)?.is_none(),
        "`{}` is a duet, whose slices cannot be merged with those of another",
        dir.display()
    );
    let part = MergedResults {
        name: name.clone(),
        plan,
        records: store::read_all_records(dir).with_context(|| {
            format!(
                "cannot merge `{name}` without one of its runs; to leave the run out, move its directory away"
            )
        })?,
        profiled: store::profiled_cases(dir),
    };
    Ok((part, author))
}

/// What `pgdyno why` proved of cases that one directory alone measured, by their numbers in the study; and what is left out, in words.
fn proven(merged: &Merged, sources: &[Source]) -> Result<(Vec<Proofs>, Vec<String>)> {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (index, Source { name, dir }) in sources.iter().enumerate() {
        for proofs in proofs::all_of(dir)? {
            match merged.case_of_part_alone(index, proofs.case) {
                Some(case) => kept.push(Proofs { case, ..proofs }),
                None => dropped.push(format!(
                    "what `pgdyno why` proved of case {} of `{name}` is left out: in the study, the case has runs of other directories too",
                    proofs.case
                )),
            }
        }
    }
    Ok((kept, dropped))
}

/// Copies runs and profiles, and what the journals say: of each run, and whether all experiments were finished.
fn write(dir: &ExperimentDir, merged: &Merged, sources: &[Source], proven: &[Proofs]) -> Result<()> {
    for run in &merged.runs {
        dir.adopt_run(&sources[run.part].dir, run.run, &run.record)?;
    }
    for profile in &merged.profiles {
        dir.adopt_profile(&sources[profile.part].dir, profile.of, profile.case)?;
    }
    for proofs in proven {
        proofs::keep(dir.path(), proofs)?;
    }
    let journals: Vec<Vec<StateLine>> = sources.iter().map(|source| store::read_state(&source.dir)).collect();
    for (journal, origin) in journals.iter().zip(&merged.plan.origins) {
        for line in journal.iter().filter(|line| line.run > 0) {
            dir.append_state(&StateLine { run: origin.first + line.run, ..line.clone() })?;
        }
    }
    // The study is finished if all of them were; else it ends as the one that was not.
    let ends: Option<Vec<&StateLine>> =
        journals.iter().map(|journal| journal.last().filter(|line| line.run == 0)).collect();
    let Some(ends) = ends else { return Ok(()) };
    let unfinished = ends.iter().find(|line| line.state != RunState::Completed);
    unfinished.or(ends.last()).map_or(Ok(()), |line| dir.append_state(line))
}
