//! `--fit`: scales an experiment to this machine, and says what was changed, what is left of its figures and how long it takes.

use anyhow::Result;
use experiment::forecast::fit::{CommitRoom, FigureRow, FitChange, Fitted, Limits, MachineSpeed};
use experiment::forecast::present::Present;
use experiment::stage::origin;
use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::text::prose::{duration, plural};
use model::text::units::{PgVersion, Span};

use crate::planning::say_more;
use crate::say;

/// Scales the experiment to this machine, and reports how: here, and in its description, which reports show. Returns how many of its blocks,
/// the last ones, are made only while there is time.
pub(crate) fn fit(experiment: &mut Experiment, budget: &str, n_cpus: u32) -> Result<u32> {
    let budget = self::budget(budget)?;
    let cache = server::Cache::default_location()?;
    let wal_directories = experiment.server.wal_directory.iter().flat_map(Levels::all);
    let of_wal = wal_directories.map(|dir| server::cluster::space::free_bytes(dir));
    let limits = Limits {
        n_cpus,
        memory_bytes: server::settings::defaults::memory_bytes(),
        commit: CommitRoom::here(),
        free_bytes: server::cluster::space::free_bytes(&cache.clusters_dir())?,
        wal_free_bytes: of_wal.collect::<Result<Vec<u64>>>()?.into_iter().min(),
        budget_s: budget.ms as f64 / 1000.0,
        speed: MachineSpeed::known(&cache.dir),
        present: Present::with(&cache),
        versions: origin::versions(experiment)?,
        here: cache.fetched().iter().map(|release| series(release)).collect(),
    };
    let fitted = experiment::forecast::fit::fit(experiment, &limits);
    let too_long = too_long(&fitted, &limits);
    // First, because it is what the user has to decide about.
    too_long.iter().for_each(|line| say(&format!("fit: {line}")));
    let is_of_repeats = |change: &&FitChange| change.key == keys::header::REPEATS.name;
    let changes: Vec<&FitChange> = fitted.changes.iter().filter(|change| !is_of_repeats(change)).collect();
    let told: Vec<String> = changes.iter().map(|c| format!("{} {} -> {}", c.key, c.from, c.to)).collect();
    for (change, told) in changes.iter().zip(&told) {
        say(&format!("fit: {told} ({})", change.why));
    }
    if !told.is_empty() {
        let scaled = format!("Scaled to the machine and {budget}:\n- {}", told.join("\n- "));
        say_more(&mut experiment.experiment.description, &scaled);
    }
    let figures = figures(&fitted);
    if !figures.is_empty() {
        say("fit: figures of the study, and how many levels are left of what each needs:");
        figures.iter().for_each(|line| say(&format!("fit:   {line}")));
        say_more(&mut experiment.experiment.description, &format!("Figures:\n- {}", figures.join("\n- ")));
    }
    if too_long.is_none() {
        say(&format!("fit: {}", length(&fitted, &limits)));
    }
    Ok(fitted.spare_blocks)
}

/// Share of the time below which it is said how to use the rest. Our convention.
const MUCH_LEFT: f64 = 0.7;

/// The time of `--fit`.
pub(crate) fn budget(text: &str) -> Result<Span> {
    text.parse().map_err(|message| anyhow::anyhow!("--fit: {message}"))
}

/// The table of figures.
fn figures(fitted: &Fitted) -> Vec<String> {
    let line = |row: &FigureRow| format!("{:<8}  {}: {}", row.fate.word(), row.figure, row.left.join("; "));
    fitted.figures.iter().map(line).collect()
}

/// That even the least takes longer than was asked for, and how long; `None` if it does not.
fn too_long(fitted: &Fitted, limits: &Limits) -> Option<String> {
    let outlook = fitted.outlook.as_ref()?;
    let is_too_long = outlook.planned_s() + fitted.fetch_s > limits.budget_s;
    is_too_long.then(|| {
        format!(
            "the least that is left of this experiment takes {}{}, not {}",
            outlook.words(),
            fetching(fitted),
            duration(limits.budget_s)
        )
    })
}

/// How long the fitted experiment takes, against what was asked for.
fn length(fitted: &Fitted, limits: &Limits) -> String {
    let Some(outlook) = &fitted.outlook else { return "it contradicts itself".to_string() };
    let asked = duration(limits.budget_s);
    let spare = match fitted.spare_blocks {
        0 => String::new(),
        n => format!("; up to {} while there is time", plural(n, "more block")),
    };
    let needed_s = outlook.planned_s() + outlook.repeats_s + fitted.fetch_s;
    let is_whole =
        fitted.spare_blocks == 0 && fitted.changes.iter().all(|change| !change.why.ends_with("time"));
    let rest = if is_whole && needed_s < MUCH_LEFT * limits.budget_s {
        "; that is all that was asked for: --repeats or --measure would use the rest"
    } else {
        ""
    };
    format!("takes {}{}{spare}; asked for were {asked}{rest}", outlook.words(), fetching(fitted))
}

fn fetching(fitted: &Fitted) -> String {
    if fitted.fetch_s >= 0.5 {
        format!(", after {} to fetch servers", duration(fitted.fetch_s))
    } else {
        String::new()
    }
}

/// `15` of `15.4`, `9.6` of `9.6.24`.
fn series(version: &str) -> String {
    version.parse().map_or_else(|_| version.to_string(), |version: PgVersion| version.series())
}
