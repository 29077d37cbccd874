//! Draws the results of the analysis: a web page, Markdown, CSV, JSON and a table for the terminal.
//!
//! All functions take values and return text. They read no file and no clock, judge no numbers, and omit nothing that
//! the analysis doubts.

mod axis;
mod comparison;
mod csv;
mod doctor;
mod escape;
mod export;
mod html;
mod markdown;
mod prose;
mod shell;
pub mod site;
mod terminal;

use std::collections::BTreeSet;

use analysis::comparison::{CaseComparison, ComparisonPurpose};
use analysis::finding::Grade;
use analysis::summary::Study;
pub use comparison::NoiseFloor;
pub use export::{Export, ExportFormat, ExportTable};
use model::run::ExperimentData;
use terminal::PrintedDetail;

/// Input of the page and the Markdown text.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The explained experiment.
    pub study: &'a Study,
    /// The records, for the disclosure: host, server, data, prepare steps.
    pub data: &'a ExperimentData,
    /// The commands that repeat this experiment, one per line.
    pub commands: &'a [String],
    /// Version of the pgdyno that draws.
    pub tool_version: &'a str,
}

/// The whole report as one self-contained HTML page: it needs no network and no other file.
pub fn html(input: &Input) -> String {
    html::page(input, html::PageDelivery::File).html
}

/// Most runs whose telemetry over time the page draws.
pub const N_DRAWN_MAX: usize = html::timeline::drawn::N_DRAWN_MAX;

/// The numbers of the runs whose telemetry over time ([`RunSummary::series`](analysis::summary::RunSummary::series)) the page
/// draws; that of others is not needed for it.
pub fn drawn(study: &Study) -> BTreeSet<u32> {
    html::timeline::drawn::drawn(study)
}

/// The short report for an issue or a chat: headline, table of cases, findings, host and server.
pub fn markdown(input: &Input) -> String {
    markdown::text(input)
}

/// One row per run with raw numbers, in the format of RFC 4180 (comma, CRLF, double quotes).
pub fn runs_csv(study: &Study) -> String {
    csv::runs(study)
}

/// One row per case with its levels, throughput in transactions per second with a 95 % interval, and latencies in
/// nanoseconds, in the format of [`runs_csv`].
pub fn cases_csv(study: &Study) -> String {
    csv::cases::table(study)
}

/// One row per case and script over all runs that count: its part in the mix, counts, times, facts, measures and limit, in the format of
/// [`runs_csv`]. `None` where scripts are not more than their case.
pub fn scripts_csv(study: &Study) -> Option<String> {
    study.cases.iter().any(prose::scripts::are_shown).then(|| csv::scripts::table(study))
}

/// One row per compared figure of each comparison: throughput, latencies, costs, and each script's time, in the format of [`runs_csv`].
pub fn comparison_csv(cases: &[CaseComparison]) -> String {
    csv::compared::table(cases)
}

/// One row per statement of each comparison, and one for each other part of the sum that they add up to, in the format of [`runs_csv`].
pub fn compared_statements_csv(cases: &[CaseComparison]) -> String {
    csv::compared::statements(cases)
}

/// One row per second of a run, or of all runs, with the series of host and server, in the format of [`runs_csv`].
pub fn seconds_csv(study: &Study, run: Option<u32>) -> String {
    csv::seconds::table(study, run)
}

/// An examination of a host and a server, at most `width` columns wide: what was examined (`about`, lines with labels), then
/// the worst first; in full with what is as it should be.
pub fn doctor(
    diagnosis: &analysis::doctor::Diagnosis,
    about: &[(&str, String)],
    width: usize,
    colour: bool,
    is_verbose: bool,
) -> String {
    doctor::text(diagnosis, about, width, colour, is_verbose)
}

/// The verdict of a comparison in a line, or what the runs show without one.
pub fn comparison_verdict(case: &analysis::comparison::CaseComparison) -> String {
    comparison::verdict(case)
}

/// A change of what a transaction costs: `blocks touched 25.3 to 28.1 per transaction (+11.1 %, p = 1.0e-4), from run 3 of results/a on`.
pub fn cost_change(change: &analysis::history::CostChange) -> String {
    prose::variation::costs::level_change(change)
}

/// What a transaction of B costs more or less of: `writes 12.4 % (±0.3) more WAL`; `None` if that is not sure.
pub fn cost_words(
    compared: &analysis::comparison::CostComparison,
    verdict: analysis::comparison::FamilyVerdict,
) -> Option<String> {
    prose::variation::costs::part(compared, verdict)
}

/// A statement with its verdict and what is wrong with it.
pub fn statement_words(
    case: &CaseComparison,
    statement: &analysis::comparison::StatementComparison,
) -> String {
    prose::statements::compared::words(case, statement)
}

/// A limiter and how sure it is: `wal-sync (medium confidence)`; after what-ifs of too few pairs, that they give no verdict.
pub fn limiter_standing(limiter: &analysis::summary::limiter::Limiter) -> String {
    format!("{} ({})", limiter.name.as_str(), prose::limiter::standing(limiter))
}

/// How faithful the replay of a captured workload is, of each case the run that is furthest from its source; empty for other workloads.
pub fn fidelity(study: &Study) -> String {
    prose::scripts::fidelity::text(study)
}

/// The same of one replay.
pub fn fidelity_of(fidelity: &analysis::fidelity::Fidelity) -> String {
    prose::scripts::fidelity::one(fidelity)
}

/// The answer in a sentence, as every form of the report begins.
pub fn headline(study: &Study) -> String {
    prose::headline::sentence(study)
}

/// The text of [`headline`] without its grade, and the grade: void if there is no number.
pub fn headline_and_grade(study: &Study) -> (String, Grade) {
    let prose::headline::Headline { text, grade } = prose::headline::from_study(study);
    (text, grade.unwrap_or(Grade::Void))
}

/// `±11 %`: how far off a figure can be whose undisturbed value lies in this range of ratios to it; empty if that is unknown.
pub fn good_to(range: Option<[f64; 2]>) -> String {
    range.map_or(String::new(), |range| {
        format!(
            "±{}",
            prose::variation::uncertainty::share(analysis::summary::uncertainty::larger_side(range))
        )
    })
}

/// The throughput of the best case and its range as ratios to it; `None` unless it is valid, and for a comparison.
pub fn best_throughput(study: &Study) -> Option<(f64, [f64; 2])> {
    let best = prose::headline::best(study).filter(|best| best.grade == Grade::Valid)?;
    let known = &best.uncertainty.as_ref()?.throughput;
    Some((best.tps_median?, [known.low, known.high]))
}

/// `8,392 ±11 %`.
pub fn throughput_words(tps: f64, range: [f64; 2]) -> String {
    format!("{} {}", prose::format::tps(tps), good_to(Some(range)))
}

/// The lines of a text at most `width` columns wide, as far as its words allow. What goes on below a line is indented as its text is,
/// after the first column if it has one: `disk    needs …`.
pub fn hanging(text: &str, width: usize) -> String {
    terminal::hanging(text, width)
}

/// Table of cases, doubts and voids, and the number of notes, at most `width` columns wide; `colour` adds ANSI colours.
pub fn terminal_table(study: &Study, width: usize, colour: bool) -> String {
    terminal::table(study, width, colour, PrintedDetail::Weighty)
}

/// [`terminal_table`] with all findings in full and where the variation comes from.
pub fn terminal_table_in_full(study: &Study, width: usize, colour: bool) -> String {
    terminal::table(study, width, colour, PrintedDetail::All)
}

/// The study as one JSON value, numbers unrounded.
pub fn json(study: &Study) -> String {
    let mut text =
        serde_json::to_string(study).expect("paths and keys came from text files, so they are text");
    text.push('\n');
    text
}

/// An experiment that is compared.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Name for people: its directory.
    pub name: &'a str,
    /// The explained experiment.
    pub study: &'a Study,
    /// The records.
    pub data: &'a ExperimentData,
    /// The commands that repeat it, if it can be repeated by itself.
    pub commands: &'a [String],
}

impl<'a> Measured<'a> {
    fn input(&self, tool_version: &'a str) -> Input<'a> {
        Input { study: self.study, data: self.data, commands: self.commands, tool_version }
    }
}

/// Input of the page of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonInput<'a> {
    /// The comparisons; several if two experiments have several cases.
    pub cases: &'a [CaseComparison],
    /// The noise floor of the host, if known.
    pub floor: Option<&'a NoiseFloor>,
    /// The experiment of both sides, or those of A and B.
    pub experiments: &'a [Measured<'a>],
    /// The commands that repeat the comparison, one per line.
    pub commands: &'a [String],
    /// Version of the pgdyno that draws.
    pub tool_version: &'a str,
}

impl ComparisonInput<'_> {
    /// Why the cases are compared: all for one reason.
    pub(crate) fn purpose(&self) -> ComparisonPurpose {
        self.cases.first().map_or(ComparisonPurpose::Change, |case| case.purpose)
    }
}

/// A comparison as one self-contained HTML page, like [`html`].
pub fn comparison_html(input: &ComparisonInput) -> String {
    html::comparison_page(input, html::PageDelivery::File).html
}

/// The verdict of a comparison in a sentence.
pub fn comparison_headline(case: &CaseComparison) -> String {
    prose::phrases::capital(&comparison::verdict(case))
}

/// Whether a case that was measured again (B) agrees with the original (A), in a sentence.
pub fn repeat_statement(case: &CaseComparison) -> String {
    comparison::repeated::statement(case)
}

/// The short report of a comparison for an issue or a chat.
pub fn comparison_markdown(input: &ComparisonInput) -> String {
    markdown::comparison::text(input)
}

/// A comparison as text for a terminal of this width, with the host's noise floor if known. Coloured if `colour`.
pub fn comparison_text(
    case: &CaseComparison,
    floor: Option<&NoiseFloor>,
    width: usize,
    colour: bool,
) -> String {
    comparison::text(case, floor, (width, colour))
}

/// The same of a comparison that is void, with the reason in place of an answer.
pub fn refused_comparison_text(case: &CaseComparison, why: &str, width: usize, colour: bool) -> String {
    comparison::refused(case, why, (width, colour))
}
