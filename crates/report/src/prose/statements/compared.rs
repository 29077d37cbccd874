//! Which statements changed, B against A, in words: those that fail or return other rows first, then those that differ.

use analysis::comparison::{
    CaseComparison, ComparisonPurpose, StatementComparison, StatementVerdict, TimePart, TransactionSum,
};
use model::text::prose::joined;

use super::short;
use crate::prose::scripts::compared::{of_part, of_time};
use crate::prose::{format, phrases, ratio};

/// What the times are, for above a table.
pub(crate) const WHAT: &str = "mean time of each statement, from sending it to its last answer; what fails or returns other rows comes \
                               first, then what differs. A candidate is no verdict: of such ones, one in twenty is wrong on average";
/// Above the sum.
pub(crate) const SUM: &str =
    "what the statements add to the mean transaction; the parts add up to the difference";
/// Most statements that a terminal and a short report show.
pub(crate) const ROWS_MAX: usize = 12;
/// Most statements that the sentence names.
const NAMED_MAX: usize = 3;
/// Most parts of the sum that have a line of their own.
const STEPS_MAX: usize = 10;
/// Smallest part of the largest one that has a line.
const STEP_MIN: f64 = 0.005;
/// From here on a longer time is said as a multiple.
const TIMES_MIN: f64 = 2.0;
/// Characters of a statement.
const CHARS: usize = 72;
/// SQLSTATEs of statements that took too long: of a statement, of a lock, of a transaction.
const TIMEOUTS: [&str; 3] = ["57014", "55P03", "25P04"];

/// Column heads of pages, with what the medians and the ratio are called.
pub(crate) fn heads([median_a, median_b]: &[String; 2], ratio: &str) -> [String; 7] {
    let [statement, verdict, share, part] =
        ["Statement", "Verdict", "Share of time", "Adds to a transaction"].map(str::to_string);
    [statement, median_a.clone(), median_b.clone(), ratio.to_string(), verdict, share, part]
}

/// The first rows of a comparison's table: statement, A's and B's median, change, verdict, share of time, what it adds.
pub(crate) fn table_of(case: &CaseComparison, n_max: usize) -> Vec<[String; 7]> {
    let has_scripts = has_scripts(case);
    case.statements.all.iter().take(n_max).map(|one| cells(one, case, has_scripts)).collect()
}

/// What a table of so many rows leaves out.
pub(crate) fn left_out(case: &CaseComparison, n_max: usize) -> Option<String> {
    let rest = case.statements.all.get(n_max..).filter(|rest| !rest.is_empty())?;
    let n_different = rest.iter().filter(|one| one.is_different() || one.is_wrong()).count();
    let different = match n_different {
        0 => "none of which differs for sure".to_string(),
        n => format!("{n} of which {}", if n == 1 { "differs" } else { "differ" }),
    };
    Some(format!("{}, {different}", phrases::plural(rest.len(), "more statement")))
}

pub(crate) fn has_scripts(case: &CaseComparison) -> bool {
    case.statements.all.iter().any(|one| one.script != case.statements.all[0].script)
}

/// `UPDATE t SET ...`, with its script where there are several.
pub(crate) fn name(one: &StatementComparison, has_scripts: bool) -> String {
    let text = short(&phrases::one_line(&one.statement), CHARS);
    if has_scripts { format!("{}: {text}", phrases::one_line(&one.script)) } else { text }
}

fn cells(one: &StatementComparison, case: &CaseComparison, has_scripts: bool) -> [String; 7] {
    let [a, b] = [one.a_median_ns, one.b_median_ns].map(|ns| ns.map_or_else(|| "-".to_string(), of_time));
    let change = one.result.as_ref().map_or_else(|| "-".to_string(), ratio::of_family);
    let share = format::percent(one.share);
    [name(one, has_scripts), a, b, change, verdict(one, case), share, of_part(one.part.ns)]
}

/// The verdict in words, with what is wrong before it.
pub(crate) fn verdict(one: &StatementComparison, case: &CaseComparison) -> String {
    let [a, b] = case.purpose.names();
    let words = match one.verdict {
        StatementVerdict::Slower => "slower".to_string(),
        StatementVerdict::Faster => "faster".to_string(),
        StatementVerdict::Same => format!("same within {}", ratio::percent(one.margin)),
        StatementVerdict::MaybeSlower => "candidate: slower".to_string(),
        StatementVerdict::MaybeFaster => "candidate: faster".to_string(),
        StatementVerdict::Unsure => "undecided".to_string(),
        StatementVerdict::FewExecutions => {
            format!("cannot judge: {} and {} executions", one.executions[0], one.executions[1])
        }
        StatementVerdict::FewPairs => {
            format!("cannot judge: {}", phrases::plural(one.n_pairs, case.pairing.noun()))
        }
        StatementVerdict::OnlyA => format!("only {a} completed it"),
        StatementVerdict::OnlyB => format!("only {b} completed it"),
    };
    let words = words + with_plan(one);
    wrong(one).into_iter().chain([words]).collect::<Vec<String>>().join("; ")
}

/// Whether a difference comes with another plan, and whether another plan makes none.
fn with_plan(one: &StatementComparison) -> &'static str {
    let Some(plans) = &one.plans else { return "" };
    match (one.is_different() || one.is_candidate(), plans.are_same()) {
        (true, true) => ", with the same plan",
        (true, false) => ", with another plan",
        (false, true) => "",
        (false, false) if one.verdict == StatementVerdict::Same => ", though with another plan",
        (false, false) => ", with another plan",
    }
}

/// What is worse than slow: `fails in 3.1 % instead of 0 % (23505)`, `rows 0 instead of 1.00`.
pub(crate) fn wrong(one: &StatementComparison) -> Vec<String> {
    let mut words = Vec::new();
    if one.fails_differently() {
        let [a, b] = one.failed.map(format::percent);
        let kinds: Vec<String> = if one.new_errors.is_empty() {
            one.errors.iter().filter(|(_, [a, b])| a != b).map(|(sqlstate, _)| kind(sqlstate)).collect()
        } else {
            one.new_errors.iter().map(|sqlstate| format!("new: {}", kind(sqlstate))).collect()
        };
        words.push(format!("fails in {b} instead of {a} ({})", joined(&kinds)));
    }
    if let ([Some(a), Some(b)], true) = (one.rows, one.rows_differ) {
        words.push(format!("{} instead of {} rows", of_rows(b), of_rows(a)));
    }
    words
}

fn kind(sqlstate: &str) -> String {
    let sqlstate = phrases::one_line(sqlstate);
    if TIMEOUTS.contains(&sqlstate.as_str()) { format!("{sqlstate}, a timeout") } else { sqlstate }
}

fn of_rows(rows: f64) -> String {
    if rows == 0.0 { "0".to_string() } else { format::significant(rows) }
}

/// `of 7 statements, with B: UPDATE t ... takes 52 % (±3) more time`; `None` if none differs for sure.
pub(crate) fn sentence(case: &CaseComparison) -> Option<String> {
    let where_b = match case.purpose {
        ComparisonPurpose::Change => "with B",
        ComparisonPurpose::Repeat => "here",
    };
    let has_scripts = has_scripts(case);
    let mut parts: Vec<String> =
        case.statements.all.iter().filter_map(|one| part(one, has_scripts)).collect();
    let n_more = parts.len().saturating_sub(NAMED_MAX);
    parts.truncate(NAMED_MAX);
    if n_more > 0 {
        parts.push(format!("{n_more} more differ"));
    }
    let n = case.statements.all.len();
    (!parts.is_empty()).then(|| format!("of {n} statements, {where_b}: {}", joined(&parts)))
}

/// `UPDATE t ... takes 12.4 % (±0.3) more time`; `None` if it does not differ for sure.
fn part(one: &StatementComparison, has_scripts: bool) -> Option<String> {
    let different = if one.is_different() { one.result } else { None };
    let time = different.map(|found| {
        if found.ratio >= TIMES_MIN {
            return format!("takes {:.1} times as long ({:.1} to {:.1})", found.ratio, found.low, found.high);
        }
        let direction = if found.ratio > 1.0 { "more" } else { "less" };
        format!("takes {} {direction} time", ratio::size(&found))
    });
    let words: Vec<String> = wrong(one).into_iter().chain(time).collect();
    (!words.is_empty()).then(|| format!("`{}` {}", name(one, has_scripts), words.join(" and ")))
}

/// A statement with its verdict: ``UPDATE t SET ...`: slower, +52.1 % (+49.0 to +55.3 %)`.
pub(crate) fn words(case: &CaseComparison, one: &StatementComparison) -> String {
    let change =
        one.result.as_ref().map_or_else(String::new, |found| format!(", {}", ratio::of_family(found)));
    format!("`{}`: {}{change}", name(one, has_scripts(case)), verdict(one, case))
}

/// A part of the sum.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) part: TimePart,
    /// The sum itself.
    pub(crate) is_sum: bool,
}

/// The parts of the sum, the largest first, then what is left, and the sum. Those without a line of their own are one.
pub(crate) fn steps(case: &CaseComparison) -> Vec<Step> {
    let Some(sum) = &case.statements.sum else { return Vec::new() };
    let has_scripts = has_scripts(case);
    let mut all: Vec<&StatementComparison> = case.statements.all.iter().collect();
    all.sort_by(|one, other| other.part.ns.abs().total_cmp(&one.part.ns.abs()));
    let largest = all.iter().map(|one| one.part.ns.abs()).fold(sum.difference.ns.abs(), f64::max);
    let n_shown = all.iter().take(STEPS_MAX).filter(|one| one.part.ns.abs() >= STEP_MIN * largest).count();
    let rest = all.split_off(n_shown);
    let step = |name: String, part: TimePart| Step { name, part, is_sum: false };
    let mut steps: Vec<Step> = all.iter().map(|one| step(name(one, has_scripts), one.part)).collect();
    if !rest.is_empty() {
        let ns = rest.iter().map(|one| one.part.ns).sum();
        let part = TimePart { ns, low_ns: None, high_ns: None };
        steps.push(step(phrases::plural(rest.len(), "more statement"), part));
    }
    let TransactionSum { difference, calls, between, .. } = *sum;
    steps.push(step("other numbers of executions".to_string(), calls));
    steps.push(step("client between statements, and failed transactions".to_string(), between));
    steps.push(Step { name: "mean transaction".to_string(), part: difference, is_sum: true });
    steps
}

/// `the mean transaction takes 1.20 ms with A and 1.45 ms with B`.
pub(crate) fn whole(case: &CaseComparison) -> Option<String> {
    let sum = case.statements.sum?;
    let [a, b] = case.purpose.names();
    Some(format!(
        "the mean transaction takes {} with {a} and {} with {b}",
        of_time(sum.a_ns),
        of_time(sum.b_ns)
    ))
}

/// `+133 µs (+120 to +146 µs)`.
pub(crate) fn with_interval(part: &TimePart) -> String {
    let interval = part.low_ns.zip(part.high_ns);
    let interval = interval.map(|(low, high)| format!(" ({} to {})", of_part(low), of_part(high)));
    of_part(part.ns) + &interval.unwrap_or_default()
}
