//! An experiment ready to be conducted: its plan, directory, servers, and the right to change the system.

mod companion;
mod doing;
mod ending;
mod left;
pub(crate) mod metrics;
pub(crate) mod preview;
pub(crate) mod referee;
pub(crate) mod screen;
pub(crate) mod spot;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use experiment::forecast::fit::MachineSpeed;
use experiment::forecast::preflight::Failed;
use experiment::forecast::preflight::MissingBinaries;
use experiment::schedule::conduct::{ExperimentOutcome, Task};
use experiment::schedule::replaced;
use experiment::site::ceilings;
use experiment::site::hands::HostAgents;
use experiment::site::pending_undo::PendingUndo;
use experiment::site::progress::{ProgressEvent, Watch};
use experiment::site::referee::Referee;
use experiment::site::settings;
use experiment::site::{Callbacks, Environment, Permissions, Site, SystemChanges};
use experiment::stage::copies;
use experiment::stage::os::sets_values;
use host::{Keeper, KernelFiles};
use model::experiment::plan::Plan;
use model::run::RunRecord;
use server::Cache;
use store::{Author, ExperimentDir};
use wire::Conninfo;

use crate::front::announce::AgreedSteps;
use crate::front::cli::changes::RiskArgs;
use crate::front::cli::live::LiveArgs;
use crate::front::cli::stored::RESULTS;
pub(crate) use crate::job::companion::{Companion, FAREWELL_MAX};
use crate::job::doing::Doing;
use crate::job::ending::Ending;
pub(crate) use crate::job::ending::Os;
use crate::job::left::RemainingTime;
use crate::job::metrics::Metrics;
use crate::job::screen::Screen;
use crate::restore_report::{SETTINGS, put_back_settings, report_undone};
use crate::watchdog::Watchdog;
use crate::{Exit, guard, say, signals};

/// What is due before this process may end.
pub(crate) static PENDING_UNDO: PendingUndo = PendingUndo::new();

/// What `run` and `compare` conduct.
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) dir: ExperimentDir,
    /// Runs that were completed earlier.
    pub(crate) done: BTreeSet<u32>,
    /// The servers by URL, with their passwords.
    pub(crate) servers: Vec<Conninfo>,
    /// See [`take_os`].
    pub(crate) os: Option<Os>,
}

/// Fails if another cluster answers where results were measured, unless the user allows to go on there, or has named the server of this
/// target: `moved`.
///
/// # Errors
/// Names the addresses, and says what to do.
pub(crate) fn expect_same_servers(
    plan: &Plan,
    records: &[RunRecord],
    servers: &[Conninfo],
    moved: &BTreeSet<String>,
    risks: RiskArgs,
) -> Result<()> {
    if risks.allow_another_server {
        return Ok(());
    }
    let elsewhere = replaced::elsewhere(plan, records, servers, moved, signals::stop_flag());
    ensure!(
        elsewhere.is_empty(),
        "another cluster answers at {} than the one that was measured there (its system identifier differs), and what is left would be \
         loaded and executed in its database. If that is meant, pass --allow-another-server",
        elsewhere.join(" and at ")
    );
    Ok(())
}

/// How to conduct a job.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// What the user allows on servers by URL.
    pub(crate) consent: AgreedSteps<'a>,
    /// Number of servers that share the machine's memory.
    pub(crate) n_servers: u64,
    /// See [`Callbacks::is_enough`].
    pub(crate) is_enough: Option<&'a (dyn Fn(&RunRecord) -> bool + Sync)>,
    /// Most seconds that the runs are expected to take, if the time ends them and not the plan.
    pub(crate) runs_s_max: Option<f64>,
    /// Whether to show no progress.
    pub(crate) quiet: bool,
    /// Whether to serve a page that shows what is measured.
    pub(crate) live: &'a LiveArgs,
    /// The address of `--spot-notice`.
    pub(crate) spot: Option<&'a str>,
    /// Who tells scrapers what happens, if `--metrics` asks for it.
    pub(crate) metrics: Option<&'a Metrics>,
    /// See [`Callbacks::referee`].
    pub(crate) referee: Option<&'a (dyn Referee + Sync)>,
}

impl Job {
    /// Creates the directory of a new experiment: the one that is named, or one of its own. It is sealed as ours only if its text is: of
    /// a stranger's text, only what this plan has was shown, and options could bring back the rest.
    ///
    /// # Errors
    /// When the directory cannot be created, or values of the system cannot be set. Then no directory is left.
    pub(crate) fn begin(
        plan: Plan,
        experiment_toml: &str,
        author: Author,
        servers: Vec<Conninfo>,
        output: Option<&Path>,
    ) -> Result<Job> {
        preview::expect_copies(&plan, &servers)?;
        // Before the directory is created: a rejected plan leaves none.
        let os = take_os(&plan)?;
        let path = output.map_or_else(|| default_path(&plan), Path::to_path_buf);
        let dir = match author {
            Author::Ours => ExperimentDir::create(&path, &plan, experiment_toml)?,
            Author::Unknown(_) => ExperimentDir::create_unsealed(&path, &plan, experiment_toml)?,
        };
        Ok(Job { plan, dir, done: BTreeSet::new(), servers, os })
    }

    /// Keeps how long the steps around loads took, for the next estimate. It is as good without.
    fn keep_durations(&self, cache: &Cache) {
        let records = store::read_records(self.dir.path()).unwrap_or_default();
        let now = jiff::Timestamp::now().as_nanosecond().max(0) as u64;
        let _ = MachineSpeed::keep(&cache.dir, &self.plan, &records, now);
    }

    /// Runs `conduct` on the job, with progress on the screen.
    ///
    /// # Errors
    /// When the cache or the program cannot be found; `conduct` has errors of its own.
    pub(crate) fn conduct<T>(
        &mut self,
        terms: Terms,
        conduct: impl FnOnce(&Task, &mut Watch) -> T,
    ) -> Result<Conducted<T>> {
        // Removes what a killed pgdyno left, whichever server this one measures and whether or not a run is left.
        server::process::socket::sweep_sockets();
        let os = self.os.take();
        let (cache, program) = (Cache::default_location()?, own_program()?);
        let (now, spot) = (|| jiff::Timestamp::now().to_string(), terms.spot.map(spot::elsewhere));
        let site = Site {
            environment: Environment {
                cache: &cache,
                plan: Some(&self.plan),
                n_servers: terms.n_servers,
                memory_bytes: server::settings::defaults::memory_bytes() / terms.n_servers,
                most_connections: preview::most_connections(&self.plan),
                servers: &self.servers,
                runs_by_data: copies::runs_by_data(&self.plan),
                in_turn: self.plan.servers_at_a_time.map(|_| self.plan.made_unix_ns),
                seat: None,
                stop: signals::stop_flag(),
                now: &now,
            },
            permissions: Permissions {
                replace: terms.consent.replace,
                replace_databases: terms.consent.replace_databases,
                risks: terms.consent.risks,
                allowed: terms.consent.allowed,
                outages: terms.consent.outages,
            },
            changes: SystemChanges {
                os: os.as_ref().map(|os| &os.keeper),
                hands: HostAgents::new(program.clone()),
                settings: &SETTINGS,
                pending_undo: &PENDING_UNDO,
            },
            callbacks: Callbacks { spot: spot.as_ref(), is_enough: terms.is_enough, referee: terms.referee },
        };
        let order = Task {
            plan: &self.plan,
            dir: &self.dir,
            site: &site,
            program: &program,
            done: &self.done,
            tool_version: env!("CARGO_PKG_VERSION"),
        };
        let left = || RemainingTime::of_plan(&self.plan, &self.done, terms.runs_s_max);
        let mut screen = Screen::new(&self.plan, left(), terms.quiet);
        let page = Companion::start(self.dir.path(), terms.live);
        let mut doing = Doing::new(&self.dir, left());
        // Runs are as valid without.
        if let Err(error) = ceilings::measure_missing(&self.plan, &site.environment, &mut |progress| {
            doing.show(&progress);
            screen.show(progress);
        }) {
            screen.show(ProgressEvent::Note(format!("{error:#}")));
        }
        terms.metrics.iter().for_each(|metrics| metrics.begin(&self.plan));
        let result = conduct(&order, &mut |progress| {
            if let Some(metrics) = terms.metrics {
                metrics.see(&progress);
            }
            if let ProgressEvent::PhaseBegins(phase) = progress.itself() {
                guard::panic_if_asked(phase.as_str());
            }
            doing.show(&progress);
            screen.show(progress);
        });
        self.keep_durations(&cache);
        let is_restored = Ending { doing, screen, hands: site.changes.hands, os }.finish();
        Ok(Conducted { result, is_restored, page })
    }
}

impl Job {
    /// The directory with what was measured, which nobody writes any more. One in which nothing was measured is removed.
    pub(crate) fn results(self, outcome: &ExperimentOutcome) -> Option<PathBuf> {
        if outcome.completed + outcome.incomplete == 0 && !self.dir.has_measurements() {
            self.dir.discard();
            return None;
        }
        Some(self.dir.path().to_path_buf())
    }
}

/// How an experiment ended.
pub(crate) struct Conducted<T> {
    pub(crate) result: T,
    /// Whether all values of operating systems are restored, here and on other hosts, and all settings of servers by URL;
    /// others were reported.
    pub(crate) is_restored: bool,
    /// The server of the page that shows it, to be dropped when the report is written.
    pub(crate) page: Option<Companion>,
}

/// This program's file.
pub(crate) fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find the program of this process")
}

/// Fails if the plan is known to fail later, on so many servers at once.
///
/// # Errors
/// Lists all known problems, with what to do.
pub(crate) fn expect_possible(
    plan: &Plan,
    n_servers: u64,
    servers: &[Conninfo],
    failed: &[Failed],
    consent: AgreedSteps,
    output: Option<&Path>,
) -> Result<()> {
    let results = output.unwrap_or(Path::new(RESULTS));
    let obstacles =
        preview::look(plan, n_servers, servers, failed, consent, results, MissingBinaries::AreFetched)?
            .obstacles;
    let problems: Vec<String> =
        obstacles.iter().map(|obstacle| preview::with_cases(plan, obstacle)).collect();
    ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
    Ok(())
}

/// Makes sure that a process which was asked to stop ends within half a minute, or when the user's commands that put
/// something back have had their time. Values of the operating system are restored even then; `how_on` ends the last
/// message. From here on, before the first value is changed, no terminal stops it.
pub(crate) fn end_in_time(how_on: String) {
    signals::refuse_to_pause();
    let waits = |longest: Duration| {
        say(&format!(
            "waiting for {}, {} s at most; another Ctrl-C ends pgdyno without it",
            due_words(),
            longest.as_secs()
        ));
    };
    signals::end_in_time(
        Exit::Partial as i32,
        || PENDING_UNDO.longest(),
        waits,
        move || {
            match host::undo_own(&KernelFiles::this()) {
                Ok(undone) => report_undone(&undone),
                Err(error) => say(&format!("values of the operating system: {error:#}; see pgdyno clean")),
            }
            put_back_settings();
            let uncalled = if PENDING_UNDO.all().is_empty() {
                String::new()
            } else {
                format!("not done or not ended: {}; ", due_words())
            };
            say(&format!("could not stop in time: ending at once; {uncalled}{how_on}"));
        },
    );
}

/// All that is due, in words.
fn due_words() -> String {
    let names: Vec<String> = PENDING_UNDO.all().iter().map(ToString::to_string).collect();
    names.join(" and ")
}

/// Ends this process if a step of `what` has not ended long after its limit: it hangs where no limit reaches. Our
/// servers and drivers end with it, and values of the operating system are restored.
pub(crate) fn end_stuck(what: &str) {
    if let Ok(undone) = host::undo_own(&KernelFiles::this()) {
        report_undone(&undone);
    }
    put_back_settings();
    say(&format!(
        "pgdyno: error: `{what}` is far beyond its time limit (run.phase_timeout) and cannot be interrupted: a \
         device, a file system or a name server may hang; ending at once"
    ));
    std::process::exit(Exit::Failed as i32);
}

/// The right to set values of this machine's operating system, if a case asks for one. Values that a killed pgdyno left behind are
/// restored in any case.
pub(crate) fn take_os(plan: &Plan) -> Result<Option<Os>> {
    let machine = KernelFiles::this();
    let (keeper, undone) = if plan.cases.iter().any(|case| sets_values(case) && case.server.host.is_none()) {
        let (keeper, undone) = Keeper::take(&machine).context("cannot set values of the operating system")?;
        (Some(keeper), undone)
    } else {
        (None, host::undo_left(&machine)?)
    };
    report_undone(&undone);
    let guarded = |keeper| Ok(Os { keeper: Mutex::new(keeper), watchdog: Watchdog::start()? });
    keeper.map(guarded).transpose()
}

/// Puts back settings that a killed pgdyno has left changed on these servers.
///
/// # Errors
/// When something is left, or another pgdyno changes settings there now.
pub(crate) fn undo_settings(servers: &[Conninfo]) -> Result<()> {
    // Paused half-way, it would keep the lock of the server.
    signals::refuse_to_pause();
    settings::undo_left(servers, &Cache::default_location()?, &mut |line| say(&line))
}

/// Default results directory of a plan.
pub(crate) fn default_path(plan: &Plan) -> PathBuf {
    let today = jiff::Zoned::now().date().to_string();
    // Different from the seed's last digits, which a repeated experiment shares.
    let random = ((plan.made_unix_ns / 1000) ^ u64::from(std::process::id())) as u16;
    store::default_path(Path::new(RESULTS), &plan.name, &today, random)
}
