//! The rules that judge a number: their catalogue, and the data that each sees.
//!
//! A rule is one row in one of the files below, listed in [`CATALOGUE`], next to the function that judges. It looks at
//! one run, case, experiment or comparison, and either is silent or reports what it found with the measured figure.

mod builds;
mod capacity;
mod cases;
pub(crate) mod comparisons;
pub(crate) mod format;
mod host;
mod load;
mod platform;
mod records;
mod scripts;
mod server;
mod state;
mod studies;
mod tpcc;
mod window;

pub(crate) use crate::comparison::build::level;
pub use cases::ROWS_ARE_SHARED;
pub(crate) use host::{FOREIGN_STRETCH, is_driver_crowded, is_driver_stolen_from, pauses as driver_pauses};
pub(crate) use load::n_clients;
pub(crate) use platform::{FAST_CLOCKS, STEADY_GOVERNORS};
pub(crate) use server::{foreign_transactions, forgetful, statement_records};

use model::experiment::case::Case;
use model::run::{ExperimentData, RunData};

use crate::comparison::{ComparedSide, ComparisonPurpose, Difference, Pairing, Ratio};
use crate::finding::{Finding, Severity};
use crate::run::ExplainedRun;
use crate::run::seconds::Recorded;
use crate::run::timeline::Timeline;
use crate::run::usage::Usage;
use crate::summary::{CaseSummary, RunSummary};

/// One rule: what it is called, what it says, why, and the function that judges.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Identifier, as in findings: `checkpoint-in-window`.
    pub id: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// When the rule fires, with its threshold, and the severity.
    pub severity: &'static str,
    /// Where rule and threshold come from.
    pub source: &'static str,
    /// Advice: one sentence.
    pub advice: &'static str,
    /// The records and statistics behind the evidence.
    pub evidence: &'static str,
    /// What is wrong with a number if the finding is ignored.
    pub why: &'static str,
    /// The situation in which a test saw the rule fire, or that no test builds it on a real server.
    pub tested: &'static str,
    pub(crate) check: RuleCheck,
}

/// What [`Rule::tested`] says of a rule whose situation no test builds on a real server.
pub(crate) const ON_RECORDS: &str = "Made-up records; no test builds the situation on a real server.";

/// The function of a rule, by what it looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RuleCheck {
    Run(fn(&RunContext) -> Option<Finding>),
    Case(fn(&CaseContext) -> Option<Finding>),
    Study(fn(&StudyContext) -> Option<Finding>),
    /// Several findings where parts of what was found differ in severity.
    Comparison(fn(&ComparisonContext) -> Vec<Finding>),
}

impl Rule {
    /// The whole text about the rule, ending with a newline.
    pub fn page(&self) -> String {
        let mut text = format!("{}: {}\n", self.id, self.title);
        let sections = [
            ("when", self.severity),
            ("evidence", self.evidence),
            ("why", self.why),
            ("advice", self.advice),
            ("source", self.source),
            ("tested with", self.tested),
            ("before a run", &self.rows().unwrap_or_default()),
        ];
        for (name, content) in sections.into_iter().filter(|(_, content)| !content.is_empty()) {
            text.push_str(&format!("\n{name}\n    {content}\n"));
        }
        text
    }

    /// A finding of this rule with its usual advice, and where to see before a run whether it is to be expected.
    fn finds(&self, severity: Severity, evidence: impl Into<String>) -> Finding {
        let advice = match self.rows() {
            Some(rows) => format!("{} {rows}", self.advice),
            None => self.advice.to_string(),
        };
        Finding { id: self.id, severity, evidence: evidence.into(), advice, effect: None }
    }

    /// Which rows of `pgdyno doctor` judge before a run what this rule finds after it.
    fn rows(&self) -> Option<String> {
        let rows = DOCTOR_ROWS.iter().filter(|(finding, _)| *finding == self.id);
        let rows: Vec<&str> = rows.map(|(_, row)| *row).collect();
        (!rows.is_empty()).then(|| {
            format!("For a server by URL, `pgdyno doctor URL` shows it before a run ({}).", rows.join(", "))
        })
    }
}

/// Findings and the rows of `analysis::doctor` that show before a run what leads to them.
pub const DOCTOR_ROWS: &[(&str, &str)] = &[
    (server::NOT_DURABLE.id, "fsync"),
    (server::NOT_DURABLE.id, "full-page-writes"),
    (server::NOT_DURABLE.id, "synchronous-commit"),
    (server::NOT_DURABLE.id, "file-system"),
    (server::NOT_DURABLE.id, "barriers"),
    (server::CHECKPOINT_IN_WINDOW.id, "max-wal-size"),
    (server::CHECKPOINT_IN_WINDOW.id, "checkpoint-timeout"),
    (server::AUTOVACUUM_IN_WINDOW.id, "autovacuum-naptime"),
    (server::DISK_NEARLY_FULL.id, "disk-space"),
    (server::logging::STATEMENTS_LOGGED.id, "statement-logging"),
    (server::route::IN_BETWEEN.id, "route"),
    (state::WAL_POLICY.id, "max-wal-size"),
    (builds::ASSERTIONS_ON.id, "assertions"),
    (builds::BUILD_NOT_OPTIMIZED.id, "build"),
    (builds::BUILDS_DIFFER.id, "build"),
    (host::FOREIGN_CPU.id, "quiet"),
    (platform::CPU_QUOTA.id, "cpu-quota"),
    (platform::MEMORY_PRESSURE_FOUND.id, "memory-limit"),
    (platform::SLOW_CLOCKSOURCE.id, "clock"),
    (platform::CPU_FREQUENCY_VARIES.id, "cpu-governor"),
];

/// All rules: for runs, then for cases, experiments and comparisons. Findings of equal severity come in this order.
pub const CATALOGUE: &[Rule] = &[
    records::RUN_INCOMPLETE,
    records::COUNTS_BROKEN,
    records::RECORDS_DAMAGED,
    records::HISTORY_DIFFERS,
    records::CONSISTENCY_BROKEN,
    // Failures may explain why there are few.
    load::TRANSACTIONS_FAILED,
    load::TOO_FEW_TRANSACTIONS,
    scripts::NO_STATEMENTS,
    scripts::ROWS_MISSED,
    scripts::fidelity::NOT_YOUR_WORKLOAD,
    scripts::pages::FEW_PAGES,
    scripts::captured::NEW_ERRORS,
    scripts::captured::DRAWS_REUSED,
    scripts::traced::TRACE_DIVERGED,
    scripts::traced::TRACE_PACE,
    scripts::captured::LEFT_OUT_BY_READING,
    scripts::SCRIPTS_SET,
    scripts::COLUMNS_UNKNOWN,
    scripts::queries::QUERY_FAILED,
    scripts::queries::QUERY_STOPPED,
    scripts::queries::ANSWER_WRONG,
    load::OUTCOMES_UNKNOWN,
    load::CUT_OFF_AT_END,
    load::OFFERED_NOT_ACHIEVED,
    load::STALL,
    load::NOT_STEADY,
    window::RAMP_UP_NOT_STEADY,
    window::MEASURE_EXTENDED,
    load::TOO_SHORT_TO_JUDGE,
    load::FEW_EFFECTIVE_SECONDS,
    load::UNFAIR_CLIENTS,
    load::TOOK_TURNS,
    load::drivers::DRIVERS_DIFFER,
    load::drivers::DRIVERS_APART,
    load::concurrent::SIDE_BY_SIDE,
    capacity::TARGET_UNREACHABLE,
    capacity::TARGET_NOT_LIMITING,
    capacity::CAPACITY_UNSURE,
    server::outage::OUTAGE_NOT_PROVED,
    server::outage::OUTAGE_STEP_FAILED,
    server::outage::LOST_IN_SPITE_OF_SYNC,
    server::outage::COMMITS_LOST,
    server::outage::TWO_PRIMARIES,
    server::outage::OUTAGE_OUTLASTS_LOAD,
    server::outage::SERVICE_NOT_LOST,
    server::outage::LOSS_UNKNOWN,
    server::CONNECTION_LOST,
    server::PROTOCOL_BROKEN,
    server::MESSAGE_LIMIT,
    server::SERVER_RESTARTED,
    server::SERVER_TROUBLE,
    server::CHECKPOINT_IN_WINDOW,
    server::AUTOVACUUM_IN_WINDOW,
    server::archiver::ARCHIVING_FAILED,
    server::archiver::ARCHIVER_BEHIND,
    server::standby::WAITS_FOR_STANDBY,
    server::standby::NOT_SYNCHRONOUS,
    server::standby::STANDBY_FALLS_BEHIND,
    server::standby::STALE_READS,
    server::standby::SAME_MACHINE,
    server::standby::REPLAY_STALLED,
    server::FOREIGN_SESSIONS,
    server::NEVER_QUIET,
    server::NOT_DURABLE,
    server::ephemeral::LOST_WITH_MACHINE,
    server::logging::STATEMENTS_LOGGED,
    server::conditions::CONDITION_UNMET,
    server::route::IN_BETWEEN,
    server::route::BEHIND_POOLER,
    server::route::POOLER_IDLE_POOL,
    server::route::SPREAD_LOAD,
    builds::ASSERTIONS_ON,
    builds::BUILD_NOT_OPTIMIZED,
    builds::DRIVER_NOT_OPTIMIZED,
    server::DISK_NEARLY_FULL,
    state::WAL_POLICY,
    state::DATABASE_CHANGED,
    state::unlike_source::UNLIKE_SOURCE,
    state::PAGE_CACHE_LOST,
    state::tables::TABLES_ALTERED,
    host::FOREIGN_CPU,
    host::STEAL,
    host::DRIVER_SATURATED,
    host::DRIVER_WAITS_FOR_CPU,
    host::DRIVER_PAUSED,
    platform::CPU_QUOTA,
    platform::allowance::ALLOWANCE_EXCEEDED,
    platform::MEMORY_PRESSURE_FOUND,
    platform::CLOCK_CHANGED,
    platform::SLOW_CLOCKSOURCE,
    platform::CPU_FREQUENCY_VARIES,
    host::TELEMETRY_MISSING,
    tpcc::TPCC_INPUTS,
    tpcc::TPCC_RESPONSE,
    cases::NOTHING_COUNTS,
    cases::RUNS_EXCLUDED,
    cases::RUNS_REPEATED,
    cases::SPREAD,
    cases::SPREAD_ORIGIN,
    cases::OUTLIER_RUN,
    cases::SPREAD_UNKNOWN,
    cases::CACHE_FIT,
    cases::NO_CHECKPOINT,
    cases::ROW_CONTENTION,
    scripts::queries::PLANS_VARY,
    capacity::SEARCHES_DISAGREE,
    tpcc::TPCC_LIKE,
    studies::INCOMPLETE,
    studies::MACHINE_CHANGED,
    studies::SERVER_REPLACED,
    studies::SEQUENTIAL,
    studies::SERVERS_IN_TURN,
    studies::RESUMED,
    studies::MERGED,
    studies::CLOSED_LOOP,
    state::DATA_DIFFERS,
    state::made_under::DATA_OF_ITS_OWN,
    builds::BUILDS_DIFFER,
    comparisons::UNDECLARED_DIFFERENCE,
    server::route::SAME_SERVER,
    comparisons::sides::ONE_SIDED,
    comparisons::sides::DOUBTFUL_RUNS,
    comparisons::NOT_INTERLEAVED,
    comparisons::TOO_FEW_PAIRS,
    comparisons::TOO_FEW_ROUNDS,
    comparisons::PAIRS_EXCLUDED,
    comparisons::TURNS_WEIGH,
];

/// The rule with this identifier.
pub fn rule(id: &str) -> Option<&'static Rule> {
    CATALOGUE.iter().find(|rule| rule.id == id)
}

/// The input of the rules for runs.
pub(crate) struct RunContext<'a> {
    pub(crate) data: &'a RunData,
    pub(crate) line: &'a Timeline,
    pub(crate) usage: &'a Usage<'a>,
    /// The machine of the driver, if the one of `usage` is another one.
    pub(crate) driver_usage: Option<&'a Usage<'a>>,
    /// Complete except for findings and grade.
    pub(crate) summary: &'a RunSummary,
    /// Histograms that could not be read.
    pub(crate) unreadable: &'a [String],
    /// How many times each histogram contains.
    pub(crate) recorded: &'a Recorded,
}

impl RunContext<'_> {
    /// Whether a moment, seconds since `go`, belongs to an outage that was asked for: what happens then is what is measured.
    pub(crate) fn is_in_outage(&self, t_s: f64) -> bool {
        self.summary.outage.as_ref().is_some_and(|outage| outage.covers(t_s))
    }
}

/// The input of the rules for cases.
pub(crate) struct CaseContext<'a> {
    pub(crate) case: &'a Case,
    /// Complete except for findings and grade.
    pub(crate) summary: &'a CaseSummary,
    /// Runs of the case that were started.
    pub(crate) runs: &'a [(&'a RunData, &'a ExplainedRun)],
}

/// What the rules for experiments see.
pub(crate) struct StudyContext<'a> {
    pub(crate) data: &'a ExperimentData,
    /// Why the experiment is incomplete.
    pub(crate) partial: Option<&'a str>,
}

/// What the rules for comparisons see.
pub(crate) struct ComparisonContext<'a> {
    pub(crate) a: ComparedSide<'a>,
    pub(crate) b: ComparedSide<'a>,
    /// The reason for the comparison, which decides the names of the sides.
    pub(crate) purpose: ComparisonPurpose,
    pub(crate) pairing: Pairing,
    /// Pairs with the deciding figure, twice; runs of A and of B that have it, if they are not paired.
    pub(crate) n: [usize; 2],
    /// Runs that count but lack a figure.
    pub(crate) without_figure: &'a [u32],
    pub(crate) margin: f64,
    /// For a duet: the second slices over the first.
    pub(crate) carry_over: Option<Ratio>,
    pub(crate) undeclared: &'a [Difference],
}

/// How many times the threshold of a rule is exceeded.
type Excess = fn(&RunContext) -> Option<f64>;

/// The rules that detect something else on the machine or in the server, for which a run is repeated. Pressure on
/// processors, devices and memory is not among them: the load itself waits for these.
pub(crate) const DISTURBANCES: &[(&str, Excess)] = &[
    (host::FOREIGN_CPU.id, host::foreign_excess),
    (host::STEAL.id, host::steal_excess),
    (host::DRIVER_PAUSED.id, host::pause_excess),
    (server::FOREIGN_SESSIONS.id, server::foreign_sessions_excess),
];

/// The rules that say something while the load still runs, by its latest minutes. Others need its end, all of it, or other runs.
pub const JUDGED_SO_FAR: &[&str] = &[
    load::TRANSACTIONS_FAILED.id,
    scripts::NO_STATEMENTS.id,
    scripts::ROWS_MISSED.id,
    load::OFFERED_NOT_ACHIEVED.id,
    load::STALL.id,
    server::CONNECTION_LOST.id,
    server::PROTOCOL_BROKEN.id,
    server::MESSAGE_LIMIT.id,
    server::SERVER_RESTARTED.id,
    server::SERVER_TROUBLE.id,
    server::CHECKPOINT_IN_WINDOW.id,
    server::AUTOVACUUM_IN_WINDOW.id,
    server::archiver::ARCHIVING_FAILED.id,
    server::standby::WAITS_FOR_STANDBY.id,
    server::standby::REPLAY_STALLED.id,
    server::FOREIGN_SESSIONS.id,
    server::NEVER_QUIET.id,
    server::NOT_DURABLE.id,
    server::logging::STATEMENTS_LOGGED.id,
    server::conditions::CONDITION_UNMET.id,
    server::route::IN_BETWEEN.id,
    server::route::BEHIND_POOLER.id,
    server::route::POOLER_IDLE_POOL.id,
    server::route::SPREAD_LOAD.id,
    builds::ASSERTIONS_ON.id,
    builds::BUILD_NOT_OPTIMIZED.id,
    builds::DRIVER_NOT_OPTIMIZED.id,
    server::DISK_NEARLY_FULL.id,
    host::FOREIGN_CPU.id,
    host::STEAL.id,
    host::DRIVER_SATURATED.id,
    host::DRIVER_WAITS_FOR_CPU.id,
    host::DRIVER_PAUSED.id,
    platform::CPU_QUOTA.id,
    platform::allowance::ALLOWANCE_EXCEEDED.id,
    platform::MEMORY_PRESSURE_FOUND.id,
    platform::CLOCK_CHANGED.id,
    platform::SLOW_CLOCKSOURCE.id,
    platform::CPU_FREQUENCY_VARIES.id,
];

/// Findings of a run, most severe first.
pub(crate) fn of_run(context: &RunContext) -> Vec<Finding> {
    heaviest_first(|check| match check {
        RuleCheck::Run(check) => check(context).into_iter().collect(),
        _ => Vec::new(),
    })
}

/// Findings of a case, most severe first; those of its runs are with the runs.
pub(crate) fn of_case(context: &CaseContext) -> Vec<Finding> {
    heaviest_first(|check| match check {
        RuleCheck::Case(check) => check(context).into_iter().collect(),
        _ => Vec::new(),
    })
}

/// Findings of an experiment as a whole, most severe first.
pub(crate) fn of_study(context: &StudyContext) -> Vec<Finding> {
    heaviest_first(|check| match check {
        RuleCheck::Study(check) => check(context).into_iter().collect(),
        _ => Vec::new(),
    })
}

/// Findings of a comparison, most severe first.
pub(crate) fn of_comparison(context: &ComparisonContext) -> Vec<Finding> {
    heaviest_first(|check| match check {
        RuleCheck::Comparison(check) => check(context),
        _ => Vec::new(),
    })
}

/// What the rules of the catalogue find.
fn heaviest_first(judge: impl Fn(RuleCheck) -> Vec<Finding>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CATALOGUE.iter().flat_map(|rule| judge(rule.check)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}
