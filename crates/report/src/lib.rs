//! Draws what the analysis found: a web page, Markdown, CSV, JSON and a table for the terminal.
//!
//! Everything here takes values and returns text. It reads no file and no clock, decides nothing about numbers, and
//! leaves out nothing that the analysis doubts.

mod axis;
mod comparison;
mod csv;
mod html;
mod markdown;
mod prose;
mod terminal;

use analysis::comparison::CaseComparison;
use analysis::summary::Study;
pub use comparison::NoiseFloor;
use model::run::ExperimentData;

/// What the page and the Markdown text are drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What the experiment means.
    pub study: &'a Study,
    /// What was recorded, for the disclosure: host, server, data, prepare steps.
    pub data: &'a ExperimentData,
    /// The commands that make this experiment again, one per line.
    pub commands: &'a [String],
    /// Version of pgdyno that draws.
    pub tool_version: &'a str,
}

/// The whole report as one HTML page that needs nothing else: no network, no file beside it.
pub fn html(input: &Input) -> String {
    html::page(input)
}

/// The short report for an issue or a chat: headline, table of cases, findings, host and server.
pub fn markdown(input: &Input) -> String {
    markdown::text(input)
}

/// One row for each run with raw numbers, as RFC 4180 has it (comma, CRLF, double quotes).
pub fn runs_csv(study: &Study) -> String {
    csv::runs(study)
}

/// Table of cases and condensed findings, at most `width` columns wide; `colour` adds ANSI colours.
pub fn terminal_table(study: &Study, width: usize, colour: bool) -> String {
    terminal::table(study, width, colour)
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
    /// What people call it: its directory.
    pub name: &'a str,
    /// What it means.
    pub study: &'a Study,
    /// What was recorded.
    pub data: &'a ExperimentData,
    /// The commands that make it again, if that means something by itself.
    pub commands: &'a [String],
}

impl<'a> Measured<'a> {
    fn input(&self, tool_version: &'a str) -> Input<'a> {
        Input { study: self.study, data: self.data, commands: self.commands, tool_version }
    }
}

/// What the page of a comparison is drawn from.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonInput<'a> {
    /// The comparisons; several where two experiments have several cases.
    pub cases: &'a [CaseComparison],
    /// The noise floor of the host, if it is known.
    pub floor: Option<&'a NoiseFloor>,
    /// The experiment of both sides, or that of A and that of B.
    pub experiments: &'a [Measured<'a>],
    /// The commands that make the comparison again, one per line.
    pub commands: &'a [String],
    /// Version of pgdyno that draws.
    pub tool_version: &'a str,
}

/// A comparison as one HTML page that needs nothing else, as [`html`].
pub fn comparison_html(input: &ComparisonInput) -> String {
    html::comparison_page(input)
}

/// The short report of a comparison for an issue or a chat.
pub fn comparison_markdown(input: &ComparisonInput) -> String {
    markdown::comparison::text(input)
}

/// A comparison as text for the terminal, with the host's noise floor if it is known.
pub fn comparison_text(case: &CaseComparison, floor: Option<&NoiseFloor>) -> String {
    comparison::text(case, floor)
}
