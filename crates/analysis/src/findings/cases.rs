//! Findings about a case: how well its runs agree, and what kind of load it is.

use model::run::host::HostRecord;
use model::run::server::ServerRecord;
use model::text::units::size_bytes;

use super::format::{bytes, figure, list, percent, plural};
use super::server::writes;
use super::{CaseContext, ON_RECORDS, Rule, RuleCheck};
use crate::finding::{Finding, Severity};
use crate::run::limiter::rows;
use crate::run::marks;
use crate::summary::RunSummary;

/// With fewer runs their spread is hardly known.
const MIN_RUNS: usize = 3;
/// Coefficient of variation above which the runs do not agree.
const SPREAD_MAX: f64 = 0.02;
/// How many standard deviations two runs differ at most in 95 of 100 cases: 1.96 times the square root of 2, since the
/// difference of two has twice their variance. ISO 5725-6:1994, 4.1, calls it the critical range of two results, 2.8.
const CRITICAL_RANGE_OF_TWO: f64 = 1.96 * std::f64::consts::SQRT_2;

pub(super) const NOTHING_COUNTS: Rule = Rule {
    id: "nothing-counts",
    title: "No run of the case counts",
    severity: "Void when all runs that were started are void or incomplete",
    source: "our rule",
    advice: "See the findings of its runs, or finish the experiment.",
    evidence: "The runs of the case that completed and are not void.",
    why: "Without one there is no number.",
    tested: "The only run of a script that always fails, by URL.",
    check: RuleCheck::Case(nothing_counts),
};

fn nothing_counts(context: &CaseContext) -> Option<Finding> {
    let evidence = || match context.runs.len() {
        1 => "its only run does not count".to_string(),
        n => format!("none of its {n} runs counts"),
    };
    // A case that was not begun is not measured, which `incomplete` says once for all.
    (context.summary.n_runs == 0 && !context.runs.is_empty())
        .then(|| NOTHING_COUNTS.finds(Severity::Void, evidence()))
}

pub(super) const RUNS_EXCLUDED: Rule = Rule {
    id: "runs-excluded",
    title: "Runs were left out",
    severity: "Note when some of a case's runs do not count",
    source: "our rule",
    advice: "See the findings of these runs.",
    evidence: "Runs of the case that do not count, with the findings that void them.",
    why: "The number is that of the others: too good, unless these failed by accident.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(runs_excluded),
};

fn runs_excluded(context: &CaseContext) -> Option<Finding> {
    let excluded = context.runs.iter().map(|(_, run)| &run.summary).filter(|run| !run.is_completed());
    let excluded: Vec<String> = excluded
        .map(|run| {
            let why: Vec<&str> =
                run.findings.iter().filter(|f| f.severity == Severity::Void).map(|f| f.id).collect();
            format!("run {} ({})", run.run, why.join(", "))
        })
        .collect();
    let some = context.summary.n_runs > 0 && !excluded.is_empty();
    some.then(|| RUNS_EXCLUDED.finds(Severity::Note, format!("does not count: {}", list(&excluded, 5))))
}

pub(super) const RUNS_REPEATED: Rule = Rule {
    id: "runs-repeated",
    title: "Runs were repeated because they were disturbed",
    severity: "Note for a repeated run; which attempt counts depends on its disturbances, never on what it \
               measured",
    source: "design: foreign CPU, steal, memory pressure and pauses explain most outliers",
    advice: "Compare the attempts in runs.csv; if most runs are disturbed, stop other work on the machine or use another.",
    evidence: "Runs that repeat another, with the findings about disturbances and how far these exceeded \
               their thresholds.",
    why: "Choosing among several numbers would favour the best one; here the disturbance decides, and all are shown.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(runs_repeated),
};

fn runs_repeated(context: &CaseContext) -> Option<Finding> {
    let runs = || context.runs.iter().map(|(_, run)| &run.summary);
    let why = |run: &RunSummary| match &run.disturbance {
        Some(found) => found.rules.join(", "),
        None if run.is_completed() => "with its pair".to_string(),
        None => "it does not count".to_string(),
    };
    let told: Vec<String> = runs()
        .filter_map(|run| Some((run, run.replaced_by?)))
        .map(|(run, by)| format!("run {} ({}), for which run {by} counts", run.run, why(run)))
        .collect();
    let n = runs().filter(|run| run.repeat.is_some()).count();
    let least = runs().filter(|run| run.counts() && run.disturbance.is_some());
    let least =
        least.filter(|run| told.iter().any(|text| text.ends_with(&format!("run {} counts", run.run))));
    let planned = |run: &RunSummary| run.repeat.map_or(run.run, |repeat| repeat.of);
    let least: Vec<String> = least.map(|run| planned(run).to_string()).collect();
    let but = if least.is_empty() {
        String::new()
    } else {
        format!("; no attempt at run {} was undisturbed, so the least disturbed one counts", list(&least, 5))
    };
    // Nothing is replaced if the repeated run is not among the records.
    let told = if told.is_empty() { String::new() } else { format!(": {}", list(&told, 5)) };
    let evidence = || format!("{} repeated{told}{but}", plural(n, "run"));
    (n > 0).then(|| RUNS_REPEATED.finds(Severity::Note, evidence()))
}

pub(super) const SPREAD: Rule = Rule {
    id: "spread",
    title: "The runs do not agree",
    severity: "Note when the coefficient of variation of three or more runs exceeds 2 %, or two runs differ by more than \
               5.5 % of their mean",
    source: "A/A study: identical runs spread by 15 to 35 % on a shared machine, below 2 % on a quiet one; \
             two then differ by more than 2.8 times that in 5 of 100 cases (ISO 5725-6:1994)",
    advice: "Measure longer or repeat more often, remove what the findings name, and ignore differences \
             below the spread.",
    evidence: "The coefficient of variation of the runs' throughput; of two runs, their distance over their \
               mean.",
    why: "Differences between cases below the spread within one mean nothing.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(spread),
};

fn spread(context: &CaseContext) -> Option<Finding> {
    let tps = &context.summary.tps;
    let low = tps.iter().copied().min_by(f64::total_cmp)?;
    let high = tps.iter().copied().max_by(f64::total_cmp)?;
    let cv = context.summary.tps_cv?;
    let evidence = match context.summary.n_runs {
        2 => {
            let apart = (high - low) / ((high + low) / 2.0);
            let text = || {
                format!(
                    "the two runs differ by {} of their mean: {} and {} per second",
                    percent(apart),
                    figure(low),
                    figure(high)
                )
            };
            (apart > CRITICAL_RANGE_OF_TWO * SPREAD_MAX).then(text)
        }
        n => {
            let text = || {
                format!(
                    "the coefficient of variation of {n} runs is {}; they range from {} to {} per second",
                    percent(cv),
                    figure(low),
                    figure(high)
                )
            };
            (n >= MIN_RUNS && cv > SPREAD_MAX).then(text)
        }
    };
    Some(SPREAD.finds(Severity::Note, evidence?))
}

pub(super) const SPREAD_ORIGIN: Rule = Rule {
    id: "spread-origin",
    title: "Where the spread comes from",
    severity: "Note with `spread` of three or more runs of 20 s or more, unless slow swings within them look \
               like differences between them",
    source: "Kalibera and Jones 2013, 6.2: repeat at the level where most uncertainty arises",
    advice: "Repeat runs if most variance lies between them; measure longer if it lies within them.",
    evidence: "The variance of the runs' means against that of batch means within the runs.",
    why: "More seconds do not reduce differences between runs, and more runs are wasted if there are none.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(spread_origin),
};

fn spread_origin(context: &CaseContext) -> Option<Finding> {
    context.summary.tps_cv.filter(|cv| context.summary.n_runs >= MIN_RUNS && *cv > SPREAD_MAX)?;
    let variation = &context.summary.variation;
    let origin = variation.origin?;
    let needed = variation
        .runs_for_one_percent
        .map_or(String::new(), |n| format!("; about {} would give the mean within 1 %", plural(n, "run")));
    let restarts = origin
        .restarts
        .map_or(String::new(), |share| format!("{} of the variance lies between restarts, ", percent(share)));
    let of = if restarts.is_empty() { " of the variance lies" } else { "" };
    let evidence =
        format!("{restarts}{}{of} between runs, the rest within them{needed}", percent(origin.runs));
    Some(SPREAD_ORIGIN.finds(Severity::Note, evidence))
}

pub(super) const OUTLIER_RUN: Rule = Rule {
    id: "outlier-run",
    title: "A run lies far from the others",
    severity: "Note for a run of five or more that is further than 14.8 median absolute deviations from \
               their median",
    source: "Iglewicz and Hoaglin 1993, modified z-score; the threshold is hyperfine's (ten standard \
             deviations)",
    advice: "See its findings and marks; it counts, since it hardly affects the median.",
    evidence: "Each run's distance from the median in units of the median absolute deviation.",
    why: "One disturbed run dominates a mean; silently leaving it out would bias it too.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(outlier_run),
};

fn outlier_run(context: &CaseContext) -> Option<Finding> {
    if context.summary.n_runs < 5 {
        return None;
    }
    let median = context.summary.tps_median?;
    let mad = stats::mad(&context.summary.tps).filter(|mad| *mad > 0.0)?;
    let runs = context.runs.iter().map(|(_, run)| &run.summary).filter(|run| run.counts());
    let outliers: Vec<String> = runs
        .filter_map(|run| Some((run.run, run.tps? - median)))
        .filter(|(_, distance)| distance.abs() > 14.826 * mad)
        .map(|(run, distance)| format!("run {run} ({:+.0} %)", 100.0 * distance / median))
        .collect();
    let evidence =
        || format!("far from the median of {} runs: {}", context.summary.n_runs, list(&outliers, 3));
    (!outliers.is_empty()).then(|| OUTLIER_RUN.finds(Severity::Note, evidence()))
}

pub(super) const SPREAD_UNKNOWN: Rule = Rule {
    id: "spread-unknown",
    title: "Too few runs to know their spread",
    severity: "Note when one or two runs count, unless the two already disagree (spread)",
    source: "Kalibera and Jones 2013",
    advice: "Repeat each case three times or more.",
    evidence: "The number of runs that count.",
    why: "With one or two runs a difference cannot be distinguished from chance.",
    tested: "A single run on a server that pgdyno runs, and by hand by URL.",
    check: RuleCheck::Case(spread_unknown),
};

fn spread_unknown(context: &CaseContext) -> Option<Finding> {
    let n = context.summary.n_runs;
    let evidence = || format!("{} only", plural(n, "run"));
    (0 < n && n < MIN_RUNS && spread(context).is_none())
        .then(|| SPREAD_UNKNOWN.finds(Severity::Note, evidence()))
}

pub(super) const CACHE_FIT: Rule = Rule {
    id: "cache-fit",
    title: "Size of the data against memory",
    severity: "Note, whenever the sizes are known",
    source: "pgbench documentation, good practices",
    advice: "Choose the scale for the question: in shared buffers, in memory, or larger than memory.",
    evidence: "The size of the database against shared_buffers and the machine's memory.",
    why: "In memory you measure the processor, beyond it the disk: two benchmarks under one name.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(cache_fit),
};

fn cache_fit(context: &CaseContext) -> Option<Finding> {
    let record = |(data, _): &(&model::run::RunData, _)| {
        let server = data.record.server.clone().filter(|server| server.database_bytes > 0)?;
        let host =
            data.record.host.clone().filter(|host| data.record.server_is_local && host.memory_bytes > 0);
        Some((server, host))
    };
    let (server, host) = context.runs.iter().find_map(record)?;
    Some(CACHE_FIT.finds(Severity::Note, cache_fit_evidence(&server, host.as_ref())?))
}

fn cache_fit_evidence(server: &ServerRecord, host: Option<&HostRecord>) -> Option<String> {
    let data = server.database_bytes;
    let buffers = size_bytes(server.setting("shared_buffers")?, 8 << 10)?;
    let memory = host.map(|host| host.memory_bytes);
    let verdict = match memory {
        _ if data <= buffers => "fits in shared buffers: disk reads are not tested",
        Some(memory) if data <= memory => "fits in memory, not in shared buffers",
        Some(_) => "is larger than memory",
        None => "is larger than shared buffers",
    };
    let memory = memory.map_or(String::new(), |memory| format!(", memory {}", bytes(memory)));
    Some(format!("the data ({}) {verdict} (shared buffers {}{memory})", bytes(data), bytes(buffers)))
}

pub(super) const NO_CHECKPOINT: Rule = Rule {
    id: "no-checkpoint",
    title: "Measured without a checkpoint",
    severity: "Note for workloads that write, when no counting run saw a checkpoint within its measurement",
    source: "TPC asks for measurement intervals with checkpoints",
    advice: "For sustained throughput measure over two checkpoints or more (checkpoint_timeout, \
             max_wal_size).",
    evidence: "Checkpoints within the measurements of all counting runs.",
    why: "Between checkpoints a server defers work; sustained over hours, throughput is lower.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(no_checkpoint),
};

fn no_checkpoint(context: &CaseContext) -> Option<Finding> {
    let counting: Vec<_> = context.runs.iter().filter(|(_, run)| run.summary.counts()).collect();
    let seen = counting.iter().all(|(_, run)| run.sees_checkpoints);
    let checkpoint = |run: &crate::summary::RunSummary| {
        let from_s = run.seconds.iter().find(|s| s.measured).map_or(0.0, |s| f64::from(s.t));
        let span = (from_s, from_s + run.measured_s);
        run.marks.iter().any(|mark| mark.kind == marks::CHECKPOINT && marks::touches(mark, span))
    };
    let kind = context.case.workload.kind;
    let none = !counting.is_empty() && seen && !counting.iter().any(|(_, run)| checkpoint(&run.summary));
    let evidence = || {
        let measured_s: f64 = counting.iter().map(|(_, run)| run.summary.measured_s).sum();
        format!(
            "no checkpoint in {measured_s:.0} measured seconds: the number is a peak, not a sustained rate"
        )
    };
    (none && counting.iter().any(|(data, _)| writes(kind, &data.record)))
        .then(|| NO_CHECKPOINT.finds(Severity::Note, evidence()))
}

/// The identifier of [`ROW_CONTENTION`], which reports name first.
pub const ROWS_ARE_SHARED: &str = "row-contention";

pub(super) const ROW_CONTENTION: Rule = Rule {
    id: ROWS_ARE_SHARED,
    title: "Clients wait for each other's rows",
    severity: "Note for more clients than branches (tpcb), or than warehouses (TPC-C without think times)",
    source: "pgbench documentation, good practices",
    advice: "Raise the scale to the number of clients, unless row locks are the question.",
    evidence: "Clients against the rows that their transactions must share.",
    why: "Clients that queue for one row measure the lock manager.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(row_contention),
};

fn row_contention(context: &CaseContext) -> Option<Finding> {
    // What was seen says more than that they must.
    let seen = context.summary.limiter.as_ref().and_then(|limiter| limiter.shared.clone());
    let words = seen.or_else(|| rows::words(&context.case.workload))?;
    Some(ROW_CONTENTION.finds(Severity::Note, words))
}
