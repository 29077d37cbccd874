//! How long the transactions of each script take, B against A, in words: those that differ first.

use analysis::comparison::{CaseComparison, ComparisonPurpose, FamilyVerdict, PlanChange, ScriptComparison};
use model::text::prose::joined;

use crate::prose::{format, phrases, ratio};

/// What the times are, for above a table.
pub(crate) fn what(case: &CaseComparison) -> &'static str {
    if case.is_analytical { OF_QUERIES } else { OF_SCRIPTS }
}

const OF_QUERIES: &str = "mean time of each query over its streams and passes; those that differ come first";
const OF_SCRIPTS: &str = "mean service time of each script's transactions, from the first statement sent to the last answer; \
                               those that differ come first";
/// Most scripts that a terminal and a short report show.
pub(crate) const ROWS_MAX: usize = 12;
/// Most scripts that the sentence names.
const NAMED_MAX: usize = 3;
/// Less of the mean transaction's time is no part of it, nanoseconds.
const PART_NS_MIN: f64 = 500.0;

/// Column heads of pages, with what the medians and the ratio are called.
pub(crate) fn heads(case: &CaseComparison, [median_a, median_b]: &[String; 2], ratio: &str) -> [String; 7] {
    let of_mean = format!("Of the mean {}", if case.is_analytical { "query" } else { "transaction" });
    let [noun, _] = nouns(case);
    let [script, verdict, share, part] =
        [phrases::capital(noun), "Verdict".to_string(), "Share".to_string(), of_mean];
    [script, median_a.clone(), median_b.clone(), ratio.to_string(), verdict, share, part]
}

/// Nouns for one of them, and for several.
fn nouns(case: &CaseComparison) -> [&'static str; 2] {
    if case.is_analytical { ["query", "queries"] } else { ["script", "scripts"] }
}

/// The first rows of a comparison's table: name, A's and B's median, change, verdict, share, part in the mean
/// transaction's time.
pub(crate) fn table_of(case: &CaseComparison, n_max: usize) -> Vec<[String; 7]> {
    case.scripts.iter().take(n_max).map(cells).collect()
}

/// What a table of so many rows leaves out.
pub(crate) fn left_out(case: &CaseComparison, n_max: usize) -> Option<String> {
    let rest = case.scripts.get(n_max..).filter(|rest| !rest.is_empty())?;
    let n_different = rest.iter().filter(|script| script.is_different()).count();
    let different = match n_different {
        0 => "none of which differs for sure".to_string(),
        n => format!("{n} of which {}", if n == 1 { "differs" } else { "differ" }),
    };
    let [one, several] = nouns(case);
    let noun = if rest.len() == 1 { one } else { several };
    Some(format!("{} more {noun}, {different}", rest.len()))
}

fn cells(script: &ScriptComparison) -> [String; 7] {
    let [a, b] = [script.a_median_ns, script.b_median_ns]
        .map(|ns| ns.map_or_else(|| "-".to_string(), |ns| format!("{} ms", format::ms(ns))));
    let change = script.result.as_ref().map_or_else(|| "-".to_string(), ratio::of_family);
    let part = of_part(script.part_ns);
    let name = phrases::one_line(&script.name);
    [name, a, b, change, verdict(script), format::percent(script.share), part]
}

/// A part of a difference: `+133 µs`, `-1.20 ms`.
pub(crate) fn of_part(ns: f64) -> String {
    match ns {
        ns if ns.abs() < PART_NS_MIN => "0 µs".to_string(),
        ns if ns > 0.0 => format!("+{}", of_time(ns)),
        ns => format!("-{}", of_time(-ns)),
    }
}

/// `133 µs`, `1.20 ms`.
pub(crate) fn of_time(ns: f64) -> String {
    if ns < 1e6 { format!("{} µs", format::significant(ns / 1e3)) } else { format!("{} ms", format::ms(ns)) }
}

/// `slower`, with how often it fails where that differs.
fn verdict(script: &ScriptComparison) -> String {
    let words = match script.verdict {
        Some(FamilyVerdict::More) => "slower".to_string(),
        Some(FamilyVerdict::Less) => "faster".to_string(),
        Some(FamilyVerdict::Same) => format!("same within {}", ratio::percent(script.margin)),
        other => ratio::undecided(other, script.margin),
    };
    let words = with_plan(script, words);
    match failures(script) {
        Some(failures) => format!("{failures}; {words}"),
        None => words,
    }
}

/// `slower with another plan`, `another plan, no difference larger than 2 %`.
fn with_plan(script: &ScriptComparison, words: String) -> String {
    match (script.plan, script.is_different()) {
        (None, _) => words,
        (Some(PlanChange::Same), true) => format!("{words} with the same plan"),
        (Some(PlanChange::Other), true) => format!("{words} with another plan"),
        (Some(PlanChange::Varies), true) => format!("{words}; plans vary"),
        (Some(PlanChange::Same), false) => words,
        (Some(PlanChange::Other), false) => format!("another plan, {words}"),
        (Some(PlanChange::Varies), false) => format!("plans vary, {words}"),
    }
}

/// `fails in 3.1 % instead of 0 %`, where that differs.
fn failures(script: &ScriptComparison) -> Option<String> {
    let [a, b] = [script.a_failed, script.b_failed].map(format::percent);
    script.fails_differently().then(|| format!("fails in {b} instead of {a}"))
}

/// `of 4 scripts, with B: pay takes 12.4 % (±0.3) more time`; `None` if none differs for sure.
pub(crate) fn sentence(case: &CaseComparison) -> Option<String> {
    let where_b = match case.purpose {
        ComparisonPurpose::Change => "with B",
        ComparisonPurpose::Repeat => "here",
    };
    let mut parts: Vec<String> = case.scripts.iter().filter_map(part).collect();
    let n_more = parts.len().saturating_sub(NAMED_MAX);
    parts.truncate(NAMED_MAX);
    if n_more > 0 {
        parts.push(format!("{n_more} more differ"));
    }
    let n = case.scripts.len();
    let [_, what] = nouns(case);
    (!parts.is_empty()).then(|| format!("of {n} {what}, {where_b}: {}", joined(&parts)))
}

/// `pay takes 12.4 % (±0.3) more time`; `None` if it does not differ for sure.
fn part(script: &ScriptComparison) -> Option<String> {
    let (name, failures) = (phrases::one_line(&script.name), failures(script));
    let different = if script.is_different() { script.result } else { None };
    let time = different.map(|found| {
        let direction = if found.ratio > 1.0 { "more" } else { "less" };
        let plan = match script.plan {
            Some(PlanChange::Same) => " with the same plan",
            Some(PlanChange::Other) => " with another plan",
            Some(PlanChange::Varies) | None => "",
        };
        format!("takes {} {direction} time{plan}", ratio::size(&found))
    });
    let words: Vec<String> = failures.into_iter().chain(time).collect();
    (!words.is_empty()).then(|| format!("{name} {}", words.join(" and ")))
}
