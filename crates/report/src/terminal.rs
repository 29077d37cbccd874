//! The report for a terminal: headline, table of cases, condensed findings.

mod scripts;

use analysis::finding::{Finding, Grade, Severity};
use analysis::summary::uncertainty::Quality;
use analysis::summary::{CaseSummary, Study};
use model::text::columns;
use model::text::visible::visible;

use crate::prose::condense::{self, FindingGroup};
use crate::prose::variation::uncertainty;
use crate::prose::{self, capacity, conditions, format, headline, limiter, phrases, statements, variation};

/// Below this width the terminal wraps lines itself.
pub(crate) const MIN_WIDTH: usize = 60;
/// Widest column of names; longer ones take several lines.
const MAX_LABEL: usize = 40;
/// With more cases than this, only the page shows their variation.
const MAX_SPREADS: usize = 8;
/// Most further occurrences of a finding that are printed.
const OTHERS_MAX: usize = 30;
/// Space between columns.
const GAP: &str = "  ";
/// Indentation of all lines of a name but the first.
const NAME_INDENT: &str = "  ";
/// Column heads before the remarks; all but the first are right-aligned.
const HEADS: [&str; 7] = ["case", "runs", "median tps", "good to", "p50 ms", "p99 ms", "good to"];
const LIMITER: &str = "limiter";
const REMARKS: &str = "mostly from";

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintedDetail {
    /// Doubts and voids in full, notes by their identifiers.
    Weighty,
    /// All findings in full, and where the variation of the runs comes from.
    All,
}

/// The whole text, ending with a newline: the answer, the figures, what spoiled them, and the rest.
pub(crate) fn table(study: &Study, width: usize, colour: bool, detail: PrintedDetail) -> String {
    let width = width.max(MIN_WIDTH);
    let paint = Paint { colour };
    let mut text = String::new();
    push_wrapped(&mut text, &paint, TerminalStyle::Bold, &headline::title(study), "", width);
    push_wrapped(&mut text, &paint, TerminalStyle::Plain, &headline::sentence(study), "", width);
    for line in study.fetched.iter().chain(&study.encryption) {
        push_wrapped(&mut text, &paint, TerminalStyle::Plain, line, "", width);
    }
    if let Some(line) = conditions::line(&study.plan) {
        push_wrapped(&mut text, &paint, TerminalStyle::Plain, &line, "", width);
    }
    if let Some(why) = &study.partial {
        let banner = format!("partial: {}", phrases::one_line(why));
        push_wrapped(&mut text, &paint, TerminalStyle::Amber, &banner, "", width);
    }
    text.push('\n');
    cases(&mut text, study, width, &paint);
    outages(&mut text, study, width, &paint);
    for line in prose::scripts::queries::lines(study) {
        push_wrapped(&mut text, &paint, TerminalStyle::Plain, &line, "", width);
    }
    let below =
        prose::scripts::measures(study).into_iter().chain(tpcc(study)).chain(capacity::below_table(study));
    for line in below.chain(capacity::offered::below_table(study)) {
        push_wrapped(&mut text, &paint, TerminalStyle::Plain, &line, "", width);
    }
    rates(&mut text, study);
    let costs = variation::costs::lines(study);
    if !costs.is_empty() && (detail == PrintedDetail::All || variation::costs::differ(study)) {
        text.push_str(&format!("\n{}\n", paint.on("costs", TerminalStyle::Bold)));
        costs.iter().for_each(|line| push_wrapped(&mut text, &paint, TerminalStyle::Plain, line, "", width));
        push_wrapped(&mut text, &paint, TerminalStyle::Dim, variation::costs::BLIND, "", width);
    }
    let limits = limiter::lines(study);
    if !limits.is_empty() {
        text.push_str(&format!("\n{}\n", paint.on("limited by", TerminalStyle::Bold)));
        limits.iter().for_each(|line| push_wrapped(&mut text, &paint, TerminalStyle::Plain, line, "", width));
    }
    if let Some(statements) = statements::from_study(study) {
        text.push_str(&format!(
            "\n{}\n",
            paint.on(&statements.title.replacen('T', "t", 1), TerminalStyle::Bold)
        ));
        let lines = statements.lines.iter().map(ToString::to_string);
        lines.for_each(|line| push_wrapped(&mut text, &paint, TerminalStyle::Plain, &line, "", width));
    }
    findings(&mut text, study, width, &paint, detail);
    let scalability = crate::prose::scalability::lines(study);
    if !scalability.is_empty() {
        text.push('\n');
        scalability
            .iter()
            .for_each(|line| push_wrapped(&mut text, &paint, TerminalStyle::Plain, line, "", width));
    }
    let spreads = variation::lines(&study.cases);
    if detail == PrintedDetail::All && (1..=MAX_SPREADS).contains(&spreads.len()) {
        text.push_str(&format!("\n{}\n", paint.on("variation", TerminalStyle::Bold)));
        spreads
            .iter()
            .for_each(|line| push_wrapped(&mut text, &paint, TerminalStyle::Plain, line, "", width));
    }
    if let Some(case) = prose::scripts::of_best(study) {
        text.push('\n');
        scripts::rows(&mut text, case, study.cases.len() > 1, width, &paint);
    }
    text
}

/// A line for each outage.
fn outages(text: &mut String, study: &Study, width: usize, paint: &Paint) {
    let lines = headline::outages::lines(study);
    if !lines.is_empty() {
        text.push_str(&format!("\n{}\n", paint.on("outages", TerminalStyle::Bold)));
        lines.iter().for_each(|line| push_wrapped(text, paint, TerminalStyle::Plain, line, "", width));
    }
}

/// Doubts and voids in full, then the notes: in full too, or in a line with their identifiers, which `explain` takes.
fn findings(text: &mut String, study: &Study, width: usize, paint: &Paint, detail: PrintedDetail) {
    let groups = condense::findings(study);
    if groups.is_empty() {
        return;
    }
    text.push_str(&format!("\n{}\n", paint.on("findings", TerminalStyle::Bold)));
    let (notes, weighty): (Vec<&FindingGroup>, Vec<&FindingGroup>) =
        groups.iter().partition(|group| group.is_aside());
    let is_all = detail == PrintedDetail::All;
    let in_full: &[&FindingGroup] = if is_all { &notes } else { &[] };
    for group in weighty.iter().chain(in_full) {
        finding(text, group, study.runs.len(), width, paint);
        if is_all {
            others(text, group, width, paint);
        }
    }
    if !is_all && !notes.is_empty() {
        let ids: Vec<&str> = notes.iter().map(|group| group.id).collect();
        let line = format!(
            "{}: {} (--verbose shows them, pgdyno explain NAME explains one)",
            phrases::plural(notes.len(), "note"),
            ids.join(", ")
        );
        push_wrapped(text, paint, TerminalStyle::Dim, &line, "", width);
    }
}

fn cases(text: &mut String, study: &Study, width: usize, paint: &Paint) {
    let rows: Vec<[String; 7]> = study.cases.iter().map(|case| cells(study, case)).collect();
    let mut head: [String; 7] = std::array::from_fn(|i| HEADS[i].to_string());
    head[2] = format!("median {}", prose::scripts::queries::unit_of_study(study));
    let widths = widths(std::iter::once(&head).chain(&rows), MAX_LABEL);
    let numbers: usize = widths.iter().map(|w| w + GAP.len()).sum();
    let limiters =
        limiter_width(study).filter(|limiters| numbers + limiters + GAP.len() + REMARKS.len() <= width);
    let left = numbers + limiters.map_or(0, |limiters| limiters + GAP.len());
    let limiter = |name: &str| limiters.map_or(String::new(), |width| columns::left(name, width) + GAP);
    let heads = format!("{}{}{REMARKS}", aligned(&head, &widths), limiter(LIMITER));
    text.push_str(&format!("{}\n", paint.on(&heads, TerminalStyle::Dim)));
    for (row, case) in rows.iter().zip(&study.cases) {
        let remarks = uncertainty::remarks(study, case);
        let line = format!("{}{}", aligned(row, &widths), limiter(limiter_name(case)));
        if left + remarks.chars().count() <= width {
            text.push_str(&format!("{line}{}\n", paint.on(&remarks, TerminalStyle::of_case(case))));
        } else {
            text.push_str(&format!("{}\n", line.trim_end()));
            push_wrapped(text, paint, TerminalStyle::of_case(case), &remarks, "    ", width);
        }
    }
    if let Some(line) = uncertainty::undisturbed(study) {
        push_wrapped(text, paint, TerminalStyle::Plain, &line, "", width);
    }
}

/// Width of the column of limiters; none if no case has one. The lines below the table name them, too, so the column is the
/// first thing that a narrow terminal does without.
fn limiter_width(study: &Study) -> Option<usize> {
    let names = study.cases.iter().filter(|case| case.limiter.is_some()).map(|case| limiter_name(case).len());
    names.max().map(|width| width.max(LIMITER.len()))
}

/// What limited a case, for a table.
pub(crate) fn limiter_name(case: &CaseSummary) -> &'static str {
    case.limiter.as_ref().map_or("-", |limiter| limiter.name.as_str())
}

/// The results specific to TPC-C: throughput in its own terms, and response times against their limits.
pub(crate) fn tpcc(study: &Study) -> Vec<String> {
    let of_case = |case: &CaseSummary| {
        let tpcc = case.tpcc.as_ref()?;
        let p90 = tpcc.profiles.iter().filter_map(|profile| {
            let late = if profile.is_in_limit() { "" } else { " (above its limit)" };
            Some(format!("{} {}{late}", profile.name, format::ms(profile.latency?.p90_ns as f64)))
        });
        Some(format!(
            "{}: {} NOPM (New-Order transactions a minute), {} orders/min in the database, {} TPM; p90 ms: {}",
            phrases::one_line(&case.label),
            format::tps(tpcc.nopm),
            format::tps(tpcc.orders_per_min),
            format::tps(tpcc.server_tpm.unwrap_or(tpcc.tpm)),
            p90.collect::<Vec<_>>().join(", ")
        ))
    };
    study.cases.iter().filter_map(of_case).collect()
}

/// The rates that searches tried, a table for each run.
fn rates(text: &mut String, study: &Study) {
    let line = |[offered, achieved, latency, verdict]: &[String; 4]| {
        format!("{offered:>12}{achieved:>12}{latency:>12}  {verdict}\n")
    };
    for tried in capacity::tried(study) {
        text.push_str(&format!("\n{}\n{}", tried.title, line(&tried.heads)));
        tried.rows.iter().for_each(|row| text.push_str(&line(row)));
    }
    if let Some(more) = capacity::not_shown(study) {
        text.push_str(&format!("{more}\n"));
    }
}

/// The columns of numbers, after the case's name.
pub(crate) fn cells(study: &Study, case: &CaseSummary) -> [String; 7] {
    let dash = || "-".to_string();
    let ms = |of: fn(&analysis::summary::LatencySummary) -> u64| {
        case.latency.as_ref().map_or_else(dash, |latency| format::ms(of(latency) as f64))
    };
    let known = case.uncertainty.as_ref();
    [
        phrases::one_line(&case.label),
        case.n_runs.to_string(),
        prose::scripts::queries::median_in_unit(study, case).map_or_else(dash, format::tps),
        uncertainty::good_to(known.map(|known| &known.throughput), case.precision()),
        ms(|latency| latency.p50_ns),
        ms(|latency| latency.p99_ns),
        uncertainty::good_to(known.and_then(|known| known.p99.as_ref()), case.precision()),
    ]
}

/// Width of each column; the first one, of names, has a maximum.
fn widths<'a, R: AsRef<[String]> + 'a>(
    rows: impl IntoIterator<Item = &'a R>,
    name_width_max: usize,
) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        let row: &[String] = row.as_ref();
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    if let Some(first) = widths.first_mut() {
        *first = name_width_max.min(*first);
    }
    widths
}

/// A row whose first cell is a name; the others are right-aligned. A name wider than its column is never truncated,
/// since names differ at their ends: it takes several lines, and the last one carries the numbers.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let name = wrap(&row[0], widths[0].saturating_sub(NAME_INDENT.len()));
    let mut lines = if row[0].chars().count() <= widths[0] {
        vec![row[0].clone()]
    } else {
        name.iter().enumerate().map(|(n, line)| indented(n, line)).collect()
    };
    // A word without a space to break at.
    if lines.last().is_some_and(|line| line.chars().count() > widths[0]) {
        lines.push(String::new());
    }
    let last = lines.pop().unwrap_or_default();
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&(columns::left(&last, widths[0]) + GAP));
    for (cell, width) in row.iter().zip(widths).skip(1) {
        text.push_str(&(columns::right(cell, *width) + GAP));
    }
    text
}

fn indented(n: usize, line: &str) -> String {
    if n == 0 { line.to_string() } else { format!("{NAME_INDENT}{line}") }
}

fn finding(text: &mut String, group: &FindingGroup, n_runs: usize, width: usize, paint: &Paint) {
    let lead = format!("{} [{}], in {}", group.title(), group.id, group.where_found(n_runs));
    let said = [lead, evidence(group), phrases::one_line(&group.example().finding.advice)];
    entry(text, group.severity, &said, width, paint);
}

/// What was found in the other runs, a line for each.
fn others(text: &mut String, group: &FindingGroup, width: usize, paint: &Paint) {
    for other in group.found.iter().skip(1).take(OTHERS_MAX) {
        let line = format!(
            "{}: {}",
            phrases::one_line(&other.about.words()),
            phrases::one_line(&other.finding.evidence)
        );
        push_wrapped(text, paint, TerminalStyle::Dim, &line, &" ".repeat(8), width);
    }
    if let n @ 1.. = group.found.len().saturating_sub(1 + OTHERS_MAX) {
        text.push_str(&format!("{}and {n} more\n", " ".repeat(8)));
    }
}

/// The findings of a comparison, as those of runs are shown.
pub(crate) fn of_comparison(findings: &[Finding], width: usize, colour: bool) -> String {
    let (mut text, paint) = (String::new(), Paint { colour });
    if !findings.is_empty() {
        text.push_str(&format!("\n{}\n", paint.on("findings", TerminalStyle::Bold)));
    }
    for finding in findings {
        let lead = format!("{} [{}]", condense::title(finding.id), finding.id);
        let said = [lead, phrases::one_line(&finding.evidence), phrases::one_line(&finding.advice)];
        entry(&mut text, finding.severity, &said, width.max(MIN_WIDTH), &paint);
    }
    text
}

/// A finding: its title, its evidence and what to do about it.
fn entry(text: &mut String, severity: Severity, said: &[String; 3], width: usize, paint: &Paint) {
    let [lead, evidence, advice] = said;
    let indent = " ".repeat(8);
    let mut lines = wrap(lead, width - indent.len()).into_iter();
    let first = lines.next().unwrap_or_default();
    let word = format!("{:<8}", severity_word(severity));
    text.push_str(&format!("{}{first}\n", paint.on(&word, TerminalStyle::of_severity(severity))));
    for line in lines {
        text.push_str(&format!("{indent}{line}\n"));
    }
    push_wrapped(text, paint, TerminalStyle::Plain, evidence, &indent, width);
    push_wrapped(text, paint, TerminalStyle::Dim, advice, &indent, width);
}

/// The evidence of the example, with its subject if there are several.
pub(crate) fn evidence(group: &FindingGroup) -> String {
    let example = group.example();
    let evidence = phrases::one_line(&example.finding.evidence) + &uncertainty::effect(example.finding);
    match group.found.len() {
        1 => evidence,
        _ => format!("{}: {evidence}", phrases::one_line(&example.about.words())),
    }
}

/// The word for a severity.
pub(crate) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Doubt => "doubt",
        Severity::Void => "void",
    }
}

pub(crate) fn push_wrapped(
    text: &mut String,
    paint: &Paint,
    style: TerminalStyle,
    words: &str,
    indent: &str,
    width: usize,
) {
    for line in wrap(words, width.saturating_sub(indent.len()).max(20)) {
        text.push_str(&format!("{indent}{}\n", paint.on(&line, style)));
    }
}

/// Units that stay on the line of their number.
const UNITS: [&str; 9] = ["%", "s", "ms", "min", "tps", "kB", "MiB", "GiB", "x"];

/// The words of a text; a number and its unit are one.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
        match words.last_mut().filter(|last| is_unit && last.ends_with(|c: char| c.is_ascii_digit())) {
            Some(number) => {
                number.push(' ');
                number.push_str(word);
            }
            None => words.push(word.to_string()),
        }
    }
    words
}

/// Wraps text at spaces; a word longer than a line stays whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in unbroken(&visible(text)) {
        let word = word.as_str();
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

/// Widest first column that what goes on below a line stays clear of.
const FIRST_COLUMN_MAX: usize = 16;

/// See [`crate::hanging`].
pub(crate) fn hanging(text: &str, width: usize) -> String {
    let of_line = |line: &str| {
        if line.chars().count() <= width {
            return format!("{line}\n");
        }
        let indent = line.len() - line.trim_start().len();
        let column = line[indent..].find("  ").map(|at| {
            let rest = &line[indent + at..];
            indent + at + rest.len() - rest.trim_start().len()
        });
        let at = column.filter(|at| *at <= FIRST_COLUMN_MAX).unwrap_or(indent);
        let (head, rest) = line.split_at(at);
        let lines = wrap(rest, width.saturating_sub(at).max(20));
        let below = lines.iter().skip(1).map(|line| format!("{}{line}\n", columns::left("", at)));
        format!("{head}{}\n{}", lines[0], below.collect::<String>())
    };
    text.lines().map(of_line).collect()
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum TerminalStyle {
    Plain,
    Bold,
    Dim,
    Green,
    Amber,
    Red,
}

impl TerminalStyle {
    fn of_case(case: &CaseSummary) -> TerminalStyle {
        let quality = case.uncertainty.as_ref().map(|known| known.throughput.quality(case.precision()));
        match (case.grade, quality) {
            (Grade::Void, _) => TerminalStyle::Red,
            (Grade::Doubtful, _) => TerminalStyle::Amber,
            (Grade::Valid, None | Some(Quality::Precise)) => TerminalStyle::Green,
            (Grade::Valid, Some(Quality::Fair)) => TerminalStyle::Amber,
            (Grade::Valid, Some(Quality::Rough)) => TerminalStyle::Red,
        }
    }

    fn of_severity(severity: Severity) -> TerminalStyle {
        match severity {
            Severity::Note => TerminalStyle::Dim,
            Severity::Doubt => TerminalStyle::Amber,
            Severity::Void => TerminalStyle::Red,
        }
    }
}

pub(crate) struct Paint {
    pub(crate) colour: bool,
}

impl Paint {
    fn on(&self, text: &str, style: TerminalStyle) -> String {
        let text = visible(text);
        let code = match style {
            TerminalStyle::Bold => "1",
            TerminalStyle::Dim => "2",
            TerminalStyle::Green => "32",
            TerminalStyle::Amber => "33",
            TerminalStyle::Red => "31",
            TerminalStyle::Plain => return text.into_owned(),
        };
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable words", 4), ["unbreakable", "words"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("used 82 % of it", 7), ["used", "82 % of", "it"]);
        assert_eq!(wrap("after 30 s, twice", 9), ["after", "30 s,", "twice"]);
    }

    #[test]
    fn what_goes_on_below_a_line_is_indented_as_its_text() {
        assert_eq!(hanging("short\n", 80), "short\n");
        let text = "disk    needs 3 GiB at the peak\n    a page of text\n";
        let wrapped = "disk    needs 3 GiB at the\n        peak\n    a page of text\n";
        assert_eq!(hanging(text, 28), wrapped);
        assert_eq!(hanging("    one two three four five six", 24), "    one two three four\n    five six\n");
    }

    #[test]
    fn a_name_that_is_wider_than_its_column_takes_several_lines() {
        for (name, expected) in [
            ("8 clients", "8 clients         12  "),
            ("work_mem 4MB, 8 clients", "work_mem 4MB,\n  8 clients       12  "),
            ("/a/path/without/a/space.sql", "/a/path/without/a/space.sql\n                  12  "),
        ] {
            let row = [name.to_string(), "12".to_string()];
            assert_eq!(aligned(&row, &[16, 2]), expected, "{name}");
        }
    }
}
