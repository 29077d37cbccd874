//! Findings about replayed traces: how late statements were, and how many did not end as at the source.

use model::load::replayed::ReplayedTrace;

use crate::finding::{Finding, Severity};
use crate::findings::format::{list, percent, plural, span};
use crate::findings::{Rule, RuleCheck, RunContext};

/// Most statements of a trace that may end in another way than at the source. That of the grade *approximate* for errors.
const DIVERGED_MAX: f64 = 0.01;
/// A lag of half of the statements beyond which the pace is not that of the source, microseconds. Our convention.
const LAG_US_MAX: u64 = 100_000;

pub(in crate::findings) const TRACE_DIVERGED: Rule = Rule {
    id: "trace-diverged",
    title: "The replay diverged from its trace",
    severity: "Doubt when more than 1 % of the statements ended differently than at the source, or were not \
               sent, Note for any",
    source: "our rule; the bound is that of the grade approximate",
    advice: "Restore the data as of the log's beginning; sequences may give other numbers, which only \
             `modelled` replaces.",
    evidence: "Statements that failed only here, only at the source, or with another SQLSTATE, and those not \
               sent (after a failed one, of a lost client, at the end of the load).",
    why: "What follows in the trace expects what the source had.",
    tested: "A trace of pgbench on a table that takes no rows, by URL.",
    check: RuleCheck::Run(diverged),
};

fn replayed<'a>(context: &'a RunContext) -> Option<&'a ReplayedTrace> {
    context.data.record.done.as_ref()?.replayed.as_ref()
}

fn diverged(context: &RunContext) -> Option<Finding> {
    let trace = replayed(context)?;
    let counts = [
        (trace.n_new_errors, "failed here alone"),
        (trace.n_missing_errors, "failed at the source alone"),
        (trace.n_other_errors, "failed in another way"),
        (trace.n_lost(), "were not sent"),
    ];
    let words = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let words: Vec<String> = words.collect();
    let all = trace.n_statements + trace.n_cut_off;
    let share = trace.n_diverged() as f64 / all.max(1) as f64;
    let states: Vec<String> =
        trace.new_errors.iter().map(|(state, n)| format!("{state} {n} times")).collect();
    let by_state = if states.is_empty() { String::new() } else { format!("; {}", list(&states, 4)) };
    let evidence =
        || format!("{} of the {}: {}{by_state}", percent(share), plural(all, "statement"), list(&words, 4));
    let severity = if share > DIVERGED_MAX { Severity::Doubt } else { Severity::Note };
    (!words.is_empty()).then(|| TRACE_DIVERGED.finds(severity, evidence()))
}

pub(in crate::findings) const TRACE_PACE: Rule = Rule {
    id: "trace-pace",
    title: "How the replay kept the pace of its trace",
    severity: "Doubt when half of the statements were more than 100 ms late, else Note",
    source: "100 ms is our convention",
    advice: "Lower workload.speed, or see what kept the server busy: it falls behind more and more.",
    evidence: "How late each statement was sent, by the trace's speed; writes that waited for the writer \
               before them.",
    why: "Fewer sessions wait for each other than at the source, or more.",
    tested: "A trace of pgbench, by URL.",
    check: RuleCheck::Run(pace),
};

fn pace(context: &RunContext) -> Option<Finding> {
    let trace = replayed(context)?;
    // Most lags are far below a second, of which spans are made.
    let time = |us: u64| {
        if us < 100_000 { format!("{:.1} ms", us as f64 / 1e3) } else { span(us.saturating_mul(1000)) }
    };
    let severity = if trace.lag_us_median > LAG_US_MAX { Severity::Doubt } else { Severity::Note };
    let mut text = format!(
        "{} were sent {} late (median), 99 % of them at most {}, the latest {}",
        plural(trace.n_statements, "statement"),
        time(trace.lag_us_median),
        time(trace.lag_us_p99),
        time(trace.lag_us_max)
    );
    if trace.n_waits > 0 {
        text.push_str(&format!(
            "; {} waited for the writer before it, {} together",
            plural(trace.n_waits, "write"),
            time(trace.waits_us)
        ));
    }
    if trace.n_waits_given_up > 0 {
        text.push_str(&format!(", {} of them in vain", trace.n_waits_given_up));
    }
    Some(TRACE_PACE.finds(severity, text))
}
