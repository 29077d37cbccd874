//! Stored results with their explanation. Runs are read, explained and dropped one by one, on all processors: the measurements of
//! a thousand runs take gigabytes, their summaries do not.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use analysis::case::labels::{self, WhereCondition};
use analysis::explain::{explain_run, partner_of, study_after};
use analysis::run::ExplainedRun;
use analysis::summary::Study;
use anyhow::{Result, anyhow, bail};
use model::experiment::keys::run::PRECISION;
use model::experiment::plan::RunState;
use model::run::{ExperimentData, RunData, RunRecord};
use model::text::share::Share;
use store::{LoadError, Stored};

use super::earlier;
use crate::commands::why::proofs;

/// Most cases on a page of a server. The time that a page takes grows with their square.
const CASES_DRAWN_MAX: usize = 500;
/// More threads than this wait for the disk and need memory.
const THREADS_MAX: usize = 8;

/// An experiment with its explanation. Of its runs, `data` has the records and the damage, no measurements.
#[derive(Clone)]
pub(crate) struct Explained {
    pub(crate) data: ExperimentData,
    pub(crate) study: Study,
}

/// Which runs keep their telemetry over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptTelemetry {
    /// Those that a page draws.
    Drawn,
    /// All, as for JSON and CSV.
    All,
    /// None.
    No,
}

impl Explained {
    /// Reads and explains the results in a directory.
    pub(crate) fn read(dir: &Path, series: KeptTelemetry) -> Result<Explained> {
        Explained::read_where(dir, series, &[])
    }

    /// [`Explained::read`] of the cases alone that meet conditions (`provider=aws`).
    pub(crate) fn read_where(dir: &Path, series: KeptTelemetry, conditions: &[String]) -> Result<Explained> {
        let part = match conditions {
            [] => Part::Whole,
            conditions => Part::Where(conditions),
        };
        Explained::read_part(dir, series, part)
    }

    /// [`Explained::read_where`] of an experiment that is being measured, of the runs alone that have ended: one under way would be
    /// reported as cut off, with advice to repeat it.
    pub(crate) fn read_so_far(dir: &Path, series: KeptTelemetry, conditions: &[String]) -> Result<Explained> {
        Explained::read_part(dir, series, Part::Ended(conditions))
    }

    /// [`Explained::read`], or [`Explained::read_so_far`] of what is being measured, for a page of a server: of more cases than a page
    /// shows, the first ones of the plan, and then the study says so.
    pub(crate) fn read_for_page(dir: &Path, is_under_way: bool) -> Result<Explained> {
        let part = if is_under_way { Part::Ended(&[]) } else { Part::Whole };
        Explained::read_cut(dir, KeptTelemetry::Drawn, part, CASES_DRAWN_MAX)
    }

    /// [`Explained::read_for_page`] of a result that is one of several on a page, of which only figures are shown.
    pub(crate) fn read_for_figures(dir: &Path) -> Result<Explained> {
        Explained::read_cut(dir, KeptTelemetry::No, Part::Whole, CASES_DRAWN_MAX)
    }

    /// [`Explained::read`] of the runs alone that were measured at one origin of a merged study.
    pub(crate) fn read_origin(dir: &Path, series: KeptTelemetry, origin: &str) -> Result<Explained> {
        Explained::read_part(dir, series, Part::Origin(origin))
    }

    /// The same with another precision than the one that the experiment asked for.
    pub(crate) fn with_precision(mut self, precision: Option<Share>) -> Explained {
        if precision.is_some() {
            self.study.cases.iter_mut().for_each(|case| case.case.set(PRECISION, precision));
        }
        self
    }

    fn read_part(dir: &Path, series: KeptTelemetry, part: Part) -> Result<Explained> {
        Explained::read_cut(dir, series, part, usize::MAX)
    }

    fn read_cut(dir: &Path, series: KeptTelemetry, part: Part, n_cases_max: usize) -> Result<Explained> {
        let results = Results::open(dir)?;
        let mut experiment = results.stored.experiment();
        part.select(&mut experiment)?;
        let left_out = cut(&mut experiment, n_cases_max);
        let is_small = results.stored.n_runs() <= report::N_DRAWN_MAX;
        let keeps_all = series == KeptTelemetry::All || (series == KeptTelemetry::Drawn && is_small);
        let explained = each(results.stored.n_runs(), |index| {
            let is_left_out = |record: RunRecord| {
                !part.has(&record, &experiment) || experiment.plan.case(record.spec.case).is_none()
            };
            let is_part = left_out.is_some() || !matches!(part, Part::Whole);
            if is_part && results.stored.record(index)?.is_some_and(is_left_out) {
                return Ok(None);
            }
            let Some((data, run)) = results.explain(index, keeps_all)? else { return Ok(None) };
            Ok(Some((data.without_measurements(), run.packed())))
        })?;
        let (runs, summaries): (Vec<RunData>, Vec<ExplainedRun>) = explained.into_iter().flatten().unzip();
        let data = ExperimentData { runs, ..experiment };
        let mut study = study_after(&data, summaries, earlier::runs(dir, &data).as_ref());
        if series == KeptTelemetry::Drawn && !is_small {
            results.read_series(&mut study)?;
        }
        proofs::confirm(dir, &mut study)?;
        study.partial =
            left_out.into_iter().chain(study.partial.take()).reduce(|all, more| all + " " + &more);
        Ok(Explained { data, study })
    }
}

/// Which runs are read.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Whole,
    /// Of the cases that meet conditions.
    Where(&'a [String]),
    /// Those of them that have ended; no conditions mean all cases.
    Ended(&'a [String]),
    /// Of an origin of a merged study.
    Origin(&'a str),
}

impl Part<'_> {
    /// Leaves this part of the plan.
    fn select(self, data: &mut ExperimentData) -> Result<()> {
        match self {
            Part::Whole => {}
            Part::Where(conditions) | Part::Ended(conditions) => select(data, conditions)?,
            Part::Origin(name) => {
                let plan = &mut data.plan;
                plan.origins.retain(|origin| origin.name == name);
                let origins = &plan.origins;
                plan.runs.retain(|spec| origins.iter().any(|origin| origin.has(spec.run)));
                let runs = &plan.runs;
                plan.cases.retain(|case| runs.iter().any(|spec| spec.case == case.id));
            }
        }
        Ok(())
    }

    /// Whether a run belongs to it, of an experiment of which this part is left.
    fn has(self, record: &RunRecord, data: &ExperimentData) -> bool {
        match self {
            Part::Whole => true,
            Part::Where(_) => data.plan.case(record.spec.case).is_some(),
            Part::Ended(_) => record.state != RunState::Started && data.plan.case(record.spec.case).is_some(),
            Part::Origin(_) => data.plan.origin_of(record.spec.run).is_some(),
        }
    }
}

/// Leaves so many cases, the first ones, and their runs; what that leaves out, in a sentence.
fn cut(data: &mut ExperimentData, n_cases_max: usize) -> Option<String> {
    let plan = &mut data.plan;
    let n_cases = plan.cases.len();
    if n_cases <= n_cases_max {
        return None;
    }
    plan.cases.truncate(n_cases_max);
    let kept: BTreeSet<u32> = plan.cases.iter().map(|case| case.id).collect();
    plan.runs.retain(|spec| kept.contains(&spec.case));
    Some(format!(
        "The plan has {n_cases} cases, and this page shows the first {n_cases_max} of them. `pgdyno report --where FACTOR=LEVEL` shows \
         those that you name, `pgdyno export` all."
    ))
}

/// Leaves the cases that `--where` asks for, and their runs.
fn select(data: &mut ExperimentData, conditions: &[String]) -> Result<()> {
    if conditions.is_empty() {
        return Ok(());
    }
    if data.plan.is_comparison {
        bail!("--where: a comparison needs both of its sides");
    }
    let parsed: Result<Vec<WhereCondition>, String> =
        conditions.iter().map(|text| WhereCondition::parse(text, &data.plan)).collect();
    parsed
        .and_then(|conditions| labels::select(data, &conditions))
        .map_err(|error| anyhow!("--where: {error}"))
}

/// A directory, and the records of its runs if one run explains another.
struct Results {
    stored: Stored,
    /// Of a comparison, whose sides may have taken turns; otherwise none.
    records: Vec<RunRecord>,
    /// The indices of these.
    at: Vec<usize>,
}

impl Results {
    fn open(dir: &Path) -> Result<Results, LoadError> {
        let stored = Stored::open(dir)?;
        let n_needed = if stored.plan().is_comparison { stored.n_runs() } else { 0 };
        let (mut records, mut at) = (Vec::new(), Vec::new());
        for index in 0..n_needed {
            if let Some(record) = stored.record(index)? {
                records.push(record);
                at.push(index);
            }
        }
        Ok(Results { stored, records, at })
    }

    /// Reads one run and explains it; `None` if it was never begun.
    fn explain(
        &self,
        index: usize,
        wants_series: bool,
    ) -> Result<Option<(RunData, ExplainedRun)>, LoadError> {
        let Some(data) = self.stored.run(index)? else { return Ok(None) };
        let partner = match self.partner_of(index) {
            Some(partner) => self.stored.run(partner)?,
            None => None,
        };
        let run = explain_run(&data, partner.as_ref(), wants_series);
        Ok(Some((data, run)))
    }

    fn partner_of(&self, index: usize) -> Option<usize> {
        let place = self.at.binary_search(&index).ok()?;
        let records: Vec<&RunRecord> = self.records.iter().collect();
        partner_of(place, &records).map(|partner| self.at[partner])
    }

    /// Reads the telemetry over time of those runs that the page draws in full.
    fn read_series(&self, study: &mut Study) -> Result<(), LoadError> {
        let drawn = report::drawn(study);
        let indices: Vec<usize> =
            (0..self.stored.n_runs()).filter(|index| drawn.contains(&self.stored.number(*index))).collect();
        let explained = each(indices.len(), |nth| {
            Ok(self.explain(indices[nth], true)?.map(|(data, run)| (data.record.spec.run, run.into_series())))
        })?;
        for (number, series) in explained.into_iter().flatten() {
            if let Some(run) = study.runs.iter_mut().find(|run| run.run == number) {
                run.series = series;
            }
        }
        Ok(())
    }
}

/// Does something for each index on several threads, and returns what came of it in order, or the error of the first index that has
/// one.
fn each<T: Send>(
    n: usize,
    of: impl Fn(usize) -> Result<Option<T>, LoadError> + Sync,
) -> Result<Vec<Option<T>>, LoadError> {
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(n);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(n)));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n {
                return;
            }
            let one = of(index);
            done.lock().expect("no thread panics while it holds the lock").push((index, one));
        }
    };
    thread::scope(|scope| {
        for _ in 1..n_threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().expect("no thread panics while it holds the lock");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, one)| one).collect()
}
