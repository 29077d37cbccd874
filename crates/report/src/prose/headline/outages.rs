//! Outages in words: the answer of a case, its loss of commits, and the rows of tables.

use analysis::comparison::{CaseComparison, FamilyVerdict, OutageComparison};
use analysis::summary::{
    CaseOutages, CaseSummary, CommitCounts, LossOfCommits, OutageFigure, OutageLength, OutageSummary,
    RunSummary, Study,
};

use crate::prose::{format, phrases, ratio};

/// Most cases whose outages the first sentence names.
const CASES_MAX: usize = 4;
/// Words of a cell of which nothing is known, and of one that does not apply.
const UNKNOWN: &str = "unknown";
const NONE: &str = "-";

/// Heads of the table of all outages.
pub(crate) const HEADS: [&str; 16] = [
    "run",
    "at s",
    "WAL since checkpoint",
    "write outage s",
    "lost service s",
    "longest gap s",
    "lost commits",
    "before the fault s",
    "detection s",
    "recovery s",
    "first commit s",
    "90 % of clients s",
    "after-effects s",
    "ghosts",
    "doubled",
    "unknown (present, absent)",
];

/// What the lengths of a table are, for below it.
pub(crate) const NOTE: &str = "From the fault (of a command with check, from the first transaction due after it that was not served) until the first instant \
                               from which 99 % of the transactions due in the next 5 s were served. Recovery counts from the first step that followed the fault, what clients take from when a server took writes again. ≥: the load ended before";

/// The answer of a study with outages: that of its only case, or of each; `None` without any.
pub(crate) fn answer(study: &Study) -> Option<String> {
    let cases: Vec<(&CaseSummary, &CaseOutages)> =
        study.cases.iter().filter_map(|case| Some((case, case.outages.as_ref()?))).collect();
    let sentence = |(case, outages): &(&CaseSummary, &CaseOutages)| {
        let words = sentence(outages);
        let own = phrases::one_line(&case.label);
        if study.cases.len() == 1 { phrases::capital(&words) } else { format!("{own}: {words}") }
    };
    let sentences: Vec<String> = cases.iter().take(CASES_MAX).map(sentence).collect();
    let more = match cases.len().saturating_sub(CASES_MAX) {
        0 => String::new(),
        n => format!(". And {} more", phrases::plural(n, "case")),
    };
    (!sentences.is_empty()).then(|| sentences.join(". ") + &more)
}

/// `no writes for 3.1 s (median of 6, 2.4 to 3.6 s); 2.9 s of service lost; no commit lost in 6 outages (so …)`.
fn sentence(outages: &CaseOutages) -> String {
    let out = &outages.write_outage;
    let spread = match out.values.len() {
        1 => "one outage".to_string(),
        n => format!("median of {n}, {} to {}", number(out.min), seconds(out.max)),
    };
    let written = if out.max.s == 0.0 && !out.max.is_at_least {
        format!("writes went on in {}", phrases::plural(outages.n, "outage"))
    } else {
        format!("no writes for {} ({spread})", words(out.median))
    };
    format!(
        "{written}; {} of service lost; {}",
        words(outages.lost_service.median),
        loss(&outages.loss, outages.n)
    )
}

/// `no commit lost in 6 outages (so, with 95 % confidence, at most 40 % of such outages lose any)`.
fn loss(loss: &LossOfCommits, n_outages: usize) -> String {
    let known = phrases::plural(loss.n_known, "outage");
    let unknown = match n_outages - loss.n_known.min(n_outages) {
        0 => String::new(),
        n => format!(", unknown in {n}"),
    };
    if loss.n_known == 0 {
        return "whether commits were lost is unknown".to_string();
    }
    if loss.lost.is_empty() {
        let bound = loss.chance_below.map_or(String::new(), |share| {
            // A bound is rounded up.
            let share = (share * 100.0).ceil() / 100.0;
            format!(
                " (so, with 95 % confidence, at most {} of such outages lose any)",
                format::percent(share)
            )
        });
        return format!("no commit lost in {known}{bound}{unknown}");
    }
    let each: Vec<String> = loss.lost.iter().take(10).map(|n| format::count(*n)).collect();
    format!("commits lost in {} of {known} ({}){unknown}", loss.lost.len(), each.join(", "))
}

/// A length in words: `at least 20.1 s`.
fn words(length: OutageLength) -> String {
    let at_least = if length.is_at_least { "at least " } else { "" };
    format!("{at_least}{} s", format::significant(length.s))
}

/// The same in a table: `≥ 20.1`.
fn number(length: OutageLength) -> String {
    let at_least = if length.is_at_least { "≥ " } else { "" };
    format!("{at_least}{}", format::significant(length.s))
}

fn seconds(length: OutageLength) -> String {
    format!("{} s", number(length))
}

/// The medians of a case's outages, without units.
pub(crate) fn tiles(case: &CaseSummary) -> [Option<String>; 2] {
    let of = |figure: fn(&CaseOutages) -> &OutageFigure| Some(number(figure(case.outages.as_ref()?).median));
    [of(|outages| &outages.write_outage), of(|outages| &outages.lost_service)]
}

/// A figure of a case: `3.10 (2.40 to 3.60)`.
fn figure(figure: &OutageFigure) -> String {
    match figure.values.len() {
        0 | 1 => number(figure.median),
        _ => format!("{} ({} to {})", number(figure.median), number(figure.min), number(figure.max)),
    }
}

/// Heads of the table of cases.
pub(crate) const CASE_HEADS: [&str; 6] =
    ["case", "outages", "write outage s", "lost service s", "longest gap s", "commits"];

/// A row of each case: median, and lowest to highest.
pub(crate) fn case_rows(study: &Study) -> Vec<(&CaseSummary, [String; 5])> {
    study.cases.iter().filter_map(|case| Some((case, case_cells(case.outages.as_ref()?)))).collect()
}

fn case_cells(outages: &CaseOutages) -> [String; 5] {
    [
        outages.n.to_string(),
        figure(&outages.write_outage),
        figure(&outages.lost_service),
        figure(&outages.gap),
        loss(&outages.loss, outages.n),
    ]
}

/// A row of each outage: the cells of [`HEADS`].
pub(crate) fn rows(study: &Study) -> Vec<[String; 16]> {
    study.runs.iter().filter_map(|run| Some(cells(run, run.outage.as_deref()?))).collect()
}

/// The number of a run: `7`, `8 (does not count)`.
fn number_of(run: &RunSummary) -> String {
    let does_count = if run.counts() { "" } else { " (does not count)" };
    format!("{}{does_count}", run.run)
}

fn cells(run: &RunSummary, outage: &OutageSummary) -> [String; 16] {
    let part = |s: Option<f64>| s.map_or(NONE.to_string(), format::significant);
    let parts = &outage.parts;
    let [lost, before, ghosts, doubled, unknown] = of_commits(outage.commits.counted.as_ref());
    [
        number_of(run),
        format::seconds(outage.at_s),
        outage.wal_since_checkpoint_bytes.map_or(UNKNOWN.to_string(), |n| format::bytes(n as f64)),
        number(outage.write_outage),
        number(outage.lost_service()),
        number(outage.gap),
        lost,
        before,
        part(parts.detection_s),
        part(parts.recovery_s),
        part(parts.first_commit_s),
        part(parts.clients_s),
        outage.after_effects.map_or(NONE.to_string(), number),
        ghosts,
        doubled,
        unknown,
    ]
}

/// Lost, when they were acknowledged, ghosts, doubled, and what is unknown to the client.
fn of_commits(counted: Option<&CommitCounts>) -> [String; 5] {
    let Some(counted) = counted else {
        return [UNKNOWN, NONE, UNKNOWN, UNKNOWN, UNKNOWN].map(str::to_string);
    };
    let before = counted.lost_before_s.map_or(NONE.to_string(), |[first, last]| {
        format!("{} to {}", format::significant(first), format::significant(last))
    });
    [
        format!("{} of {}", format::count(counted.lost), format::count(counted.acknowledged)),
        before,
        format::count(counted.ghosts),
        format::count(counted.doubled),
        format!("{}, {}", format::count(counted.unknown_present), format::count(counted.unknown_absent)),
    ]
}

/// A line for each outage of a study for a terminal.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    study.runs.iter().filter_map(|run| Some(line(run, run.outage.as_deref()?))).collect()
}

fn line(run: &RunSummary, outage: &OutageSummary) -> String {
    let parts = &outage.parts;
    let named = [
        ("detection", parts.detection_s),
        ("recovery", parts.recovery_s),
        ("first commit", parts.first_commit_s),
        ("90 % of clients", parts.clients_s),
    ];
    let parts: Vec<String> =
        named.iter().filter_map(|(name, s)| Some(format!("{name} {}", format::significant((*s)?)))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({} s)", parts.join(", ")) };
    let wal = outage
        .wal_since_checkpoint_bytes
        .map_or(String::new(), |n| format!(", {} of WAL after a checkpoint", format::bytes(n as f64)));
    let onset =
        outage.onset_s.map_or(String::new(), |s| format!(" from {} s after it on", format::significant(s)));
    format!(
        "run {}, at {} s{wal}: no writes for {}{onset}{parts}; {} of service lost; {}",
        number_of(run),
        format::seconds(outage.at_s),
        words(outage.write_outage),
        words(outage.lost_service()),
        commits_in_words(outage.commits.counted.as_ref())
    )
}

fn commits_in_words(counted: Option<&CommitCounts>) -> String {
    let Some(counted) = counted else { return "commits unknown".to_string() };
    let more = [
        ("ghosts", counted.ghosts),
        ("doubled", counted.doubled),
        ("unknown and present", counted.unknown_present),
        ("unknown and absent", counted.unknown_absent),
        ("on a second primary alone", counted.of_two_primaries.unwrap_or(0)),
    ];
    let unread = if counted.of_two_primaries.is_none() { ", on a second primary alone unknown" } else { "" };
    let more = more.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {} {what}", format::count(*n)));
    let lost =
        format!("{} of {} commits lost", format::count(counted.lost), format::count(counted.acknowledged));
    lost + &more.collect::<String>() + unread
}

/// Rows of a comparison's table: title, A's and B's median, change, and a verdict in a word.
pub(crate) fn table_of(case: &CaseComparison) -> Vec<[String; 5]> {
    case.outages.iter().map(compared).collect()
}

fn compared(one: &OutageComparison) -> [String; 5] {
    let [a, b] = [one.a_median_s, one.b_median_s].map(|s| format!("{} s", format::significant(s)));
    let change = one.result.as_ref().map_or(NONE.to_string(), ratio::of_family);
    let word = match one.verdict {
        _ if one.has_bounds => "no verdict: an outage outlasted its load".to_string(),
        Some(FamilyVerdict::More) => "longer".to_string(),
        Some(FamilyVerdict::Less) => "shorter".to_string(),
        other => ratio::undecided(other, one.margin),
    };
    [one.figure.title().to_string(), a, b, change, word]
}

/// `the write outage of B is 31.0 % (±4.0) shorter`; `None` if none differs for sure.
pub(crate) fn compared_sentence(case: &CaseComparison) -> Option<String> {
    let [_, b] = case.purpose.owners();
    let part = |one: &OutageComparison| {
        let word = match one.verdict? {
            FamilyVerdict::More => "longer",
            FamilyVerdict::Less => "shorter",
            FamilyVerdict::Same | FamilyVerdict::Unsure => return None,
        };
        Some(format!("the {} {b} is {} {word}", one.figure.title(), ratio::size(one.result.as_ref()?)))
    };
    let parts: Vec<String> = case.outages.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}
