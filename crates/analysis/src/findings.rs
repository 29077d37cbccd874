//! The rules that judge a number: their catalogue, and the data that each sees.
//!
//! A rule is a row of [`CATALOGUE`] and a few lines in one of the files below. It looks at one run, one case or one
//! experiment, and either is silent or reports what it found with the measured figure.

mod builds;
mod capacity;
mod cases;
mod comparisons;
mod format;
mod host;
mod load;
pub mod pages;
mod platform;
mod records;
mod server;
mod state;
mod studies;
mod tpcc;
mod window;

use model::experiment::case::Case;
use model::run::{ExperimentData, RunData};

use crate::comparison::{Difference, Pairing, Ratio, Side};
use crate::finding::{Finding, Severity};
use crate::run::Explained;
use crate::run::seconds::Recorded;
use crate::run::timeline::Timeline;
use crate::run::usage::Usage;
use crate::summary::{CaseSummary, RunSummary};

/// One rule of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Identifier, as in findings: `checkpoint-in-window`.
    pub id: &'static str,
    /// What was found, in short.
    pub title: &'static str,
    /// When the rule fires, with its threshold, and the severity.
    pub severity: &'static str,
    /// Where rule and threshold come from.
    pub source: &'static str,
    /// What to do: one sentence.
    pub advice: &'static str,
}

impl Rule {
    /// A finding of this rule with its usual advice.
    fn finds(&self, severity: Severity, evidence: impl Into<String>) -> Finding {
        Finding { id: self.id, severity, evidence: evidence.into(), advice: self.advice.to_string() }
    }
}

/// All rules: for runs, then for cases, experiments and comparisons.
pub const CATALOGUE: &[Rule] = &[
    records::RUN_INCOMPLETE,
    records::COUNTS_BROKEN,
    records::RECORDS_DAMAGED,
    records::HISTORY_DIFFERS,
    records::CONSISTENCY_BROKEN,
    load::TOO_FEW_TRANSACTIONS,
    load::TRANSACTIONS_FAILED,
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
    capacity::TARGET_UNREACHABLE,
    capacity::TARGET_NOT_LIMITING,
    capacity::CAPACITY_UNSURE,
    server::CONNECTION_LOST,
    server::PROTOCOL_BROKEN,
    server::SERVER_RESTARTED,
    server::SERVER_TROUBLE,
    server::CHECKPOINT_IN_WINDOW,
    server::AUTOVACUUM_IN_WINDOW,
    server::NOT_DURABLE,
    builds::ASSERTIONS_ON,
    builds::BUILD_NOT_OPTIMIZED,
    server::DISK_NEARLY_FULL,
    state::WAL_POLICY,
    state::DATABASE_CHANGED,
    host::FOREIGN_CPU,
    host::STEAL,
    host::DRIVER_SATURATED,
    host::DRIVER_WAITS_FOR_CPU,
    host::DRIVER_PAUSED,
    platform::MEMORY_PRESSURE_FOUND,
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
    capacity::SEARCHES_DISAGREE,
    tpcc::TPCC_LIKE,
    studies::INCOMPLETE,
    studies::RESUMED,
    studies::MACHINE_CHANGED,
    studies::SEQUENTIAL,
    studies::SERVERS_IN_TURN,
    studies::CLOSED_LOOP,
    comparisons::UNDECLARED_DIFFERENCE,
    comparisons::NOT_INTERLEAVED,
    comparisons::TOO_FEW_PAIRS,
    comparisons::TOO_FEW_ROUNDS,
    comparisons::PAIRS_EXCLUDED,
    comparisons::TURNS_WEIGH,
    state::DATA_DIFFERS,
    builds::BUILDS_DIFFER,
];

/// The rule with this identifier.
pub fn rule(id: &str) -> Option<&'static Rule> {
    CATALOGUE.iter().find(|rule| rule.id == id)
}

/// What the rules for runs see.
pub(crate) struct RunContext<'a> {
    pub(crate) data: &'a RunData,
    pub(crate) line: &'a Timeline,
    pub(crate) usage: &'a Usage<'a>,
    /// Complete except for findings and grade.
    pub(crate) summary: &'a RunSummary,
    /// Histograms that could not be read.
    pub(crate) unreadable: &'a [String],
    /// How many times each histogram contains.
    pub(crate) recorded: &'a Recorded,
}

/// What the rules for cases see.
pub(crate) struct CaseContext<'a> {
    pub(crate) case: &'a Case,
    /// Complete except for findings and grade.
    pub(crate) summary: &'a CaseSummary,
    /// Number of planned runs of the case.
    pub(crate) n_planned: usize,
    /// Runs of the case that were started.
    pub(crate) runs: &'a [(&'a RunData, &'a Explained)],
}

/// What the rules for comparisons see.
pub(crate) struct ComparisonContext<'a> {
    pub(crate) a: Side<'a>,
    pub(crate) b: Side<'a>,
    pub(crate) pairing: Pairing,
    pub(crate) n_pairs: usize,
    /// Runs that count but lack a figure.
    pub(crate) without_figure: &'a [u32],
    pub(crate) margin: f64,
    /// For a duet: the second slices over the first.
    pub(crate) carry_over: Option<Ratio>,
    pub(crate) undeclared: &'a [Difference],
}

type RunRule = fn(&RunContext) -> Option<Finding>;
type CaseRule = fn(&CaseContext) -> Option<Finding>;

const RUN_RULES: &[RunRule] = &[
    records::run_incomplete,
    records::counts_broken,
    records::records_damaged,
    records::history_differs,
    records::consistency_broken,
    // Failures may explain why there are few.
    load::transactions_failed,
    load::too_few_transactions,
    load::outcomes_unknown,
    load::cut_off_at_end,
    load::offered_not_achieved,
    load::stall,
    load::not_steady,
    window::ramp_up_not_steady,
    window::measure_extended,
    load::too_short_to_judge,
    load::few_effective_seconds,
    load::unfair_clients,
    load::took_turns,
    capacity::target_unreachable,
    capacity::target_not_limiting,
    capacity::capacity_unsure,
    server::connection_lost,
    server::protocol_broken,
    server::server_restarted,
    server::server_trouble,
    server::checkpoint_in_window,
    server::autovacuum_in_window,
    server::not_durable,
    builds::assertions_on,
    builds::build_not_optimized,
    server::disk_nearly_full,
    state::wal_policy,
    state::database_changed,
    host::foreign_cpu,
    host::steal,
    host::driver_saturated,
    host::driver_waits_for_cpu,
    host::driver_paused,
    platform::memory_pressure,
    platform::slow_clocksource,
    platform::cpu_frequency_varies,
    host::telemetry_missing,
    tpcc::tpcc_inputs,
    tpcc::tpcc_response,
];

const CASE_RULES: &[CaseRule] = &[
    cases::nothing_counts,
    cases::runs_excluded,
    cases::runs_repeated,
    cases::spread,
    cases::spread_origin,
    cases::outlier_run,
    cases::spread_unknown,
    cases::cache_fit,
    cases::no_checkpoint,
    cases::row_contention,
    capacity::searches_disagree,
    tpcc::tpcc_like,
];

/// How many times the threshold of a rule is exceeded.
type Excess = fn(&RunContext) -> Option<f64>;

/// The rules that detect something else on the machine, for which a run is repeated. Pressure on processors, devices
/// and memory is not among them: the load itself waits for these.
pub(crate) const DISTURBANCES: &[(&str, Excess)] = &[
    (host::FOREIGN_CPU.id, host::foreign_excess),
    (host::STEAL.id, host::steal_excess),
    (host::DRIVER_PAUSED.id, host::pause_excess),
];

/// Findings of a run, most severe first.
pub(crate) fn of_run(context: &RunContext) -> Vec<Finding> {
    heaviest_first(RUN_RULES.iter().filter_map(|rule| rule(context)).collect())
}

/// Findings of a case, most severe first; those of its runs are with the runs.
pub(crate) fn of_case(context: &CaseContext) -> Vec<Finding> {
    heaviest_first(CASE_RULES.iter().filter_map(|rule| rule(context)).collect())
}

/// Findings of an experiment as a whole, most severe first.
pub(crate) fn of_study(data: &ExperimentData, partial: Option<&str>) -> Vec<Finding> {
    let found = [
        studies::incomplete(partial),
        studies::machine_changed(data),
        studies::sequential(data),
        studies::servers_in_turn(data),
        studies::resumed(data),
        studies::closed_loop(data),
        state::data_differs(data),
        builds::builds_differ(data),
    ];
    heaviest_first(found.into_iter().flatten().collect())
}

/// Findings of a comparison, most severe first.
pub(crate) fn of_comparison(context: &ComparisonContext) -> Vec<Finding> {
    let mut found = comparisons::undeclared_differences(context);
    found.extend(comparisons::not_interleaved(context));
    found.extend(comparisons::too_few_pairs(context));
    found.extend(comparisons::too_few_rounds(context));
    found.extend(comparisons::pairs_excluded(context));
    found.extend(comparisons::turns_weigh(context));
    heaviest_first(found)
}

fn heaviest_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}
