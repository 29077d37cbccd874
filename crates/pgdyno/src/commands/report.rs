//! `pgdyno report`, and the end of `pgdyno run`: from stored results to pages and tables.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use analysis::comparison::CaseComparison;
use analysis::finding::Grade;
use analysis::summary::{CaseSummary, Study};
use anyhow::{Context, Result};
use model::secret;
use model::text::prose::{percent, plural};
use model::text::share::Share;
use report::Input;
use store::Writer;

use crate::commands::compare;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::stored::list::{ANSWER, ShortAnswer};
use crate::commands::stored::shelf;
use crate::front::cli::stored::{FormArgs, ReportArgs};
use crate::front::cli::trust::TrustArgs;
use crate::front::shell;
use crate::{Exit, print_exact, say};

/// The HTML page of a report.
pub(crate) const HTML: &str = "report.html";
/// The short form of a report.
pub(crate) const MARKDOWN: &str = "report.md";

/// Writes and prints the report of each directory. Results that are still being written are only printed.
pub(crate) fn report(args: &ReportArgs) -> Result<Exit> {
    let form = PrintForm::from_args(&args.form);
    let mut worst = Exit::Done;
    for dir in &shelf::fetched(args.store.as_deref(), &args.dirs)? {
        let exit = match store::writer_of(dir) {
            Some(writer) => so_far(dir, writer, args)?,
            None if args.conditions.is_empty() => {
                trust_exit(&explain(dir, form, args.precision)?, &args.trust)
            }
            None => trust_exit(&explain_some(dir, form, args)?, &args.trust),
        };
        if exit != Exit::Done {
            worst = exit;
        }
    }
    Ok(worst)
}

/// Prints the completed runs of an experiment that another pgdyno is measuring.
fn so_far(dir: &Path, writer: Writer, args: &ReportArgs) -> Result<Exit> {
    let form = PrintForm::from_args(&args.form);
    let explained = Explained::read_so_far(dir, form.series(), &args.conditions)?;
    let Explained { data, study } = explained.with_precision(args.precision);
    let of_process = writer.pid.map_or("another process".to_string(), |pid| format!("process {pid}"));
    say(&format!(
        "`{}` is still being measured by {of_process}: these are the results so far ({} of {}), and no report is written; \
         run this again when it has ended",
        dir.display(),
        data.runs.len(),
        plural(data.plan.runs.len(), "run")
    ));
    show(&study, form)?;
    Ok(Exit::Partial)
}

/// Prints the cases that `--where` asks for, and writes their report next to that of all.
fn explain_some(dir: &Path, form: PrintForm, args: &ReportArgs) -> Result<Study> {
    let conditions = &args.conditions;
    let explained = Explained::read_where(dir, form.series(), conditions)?.with_precision(args.precision);
    let Explained { data, study } = &explained;
    show(study, form)?;
    let name = |stem: &str, end: &str| dir.join(format!("{stem}-where-{}.{end}", file_name(conditions)));
    let commands = [run_again(dir)];
    let input = Input { study, data, commands: &commands, tool_version: env!("CARGO_PKG_VERSION") };
    let html = name("report", "html");
    store::write_report(&name("runs", "csv"), report::runs_csv(study).as_bytes())?;
    store::write_report(&name("cases", "csv"), report::cases_csv(study).as_bytes())?;
    if let Some(scripts) = report::scripts_csv(study) {
        store::write_report(&name("scripts", "csv"), scripts.as_bytes())?;
    }
    store::write_report(&html, report::html(&input).as_bytes())?;
    store::write_report(&name("report", "md"), report::markdown(&input).as_bytes())?;
    say(&format!("report: {}", html.display()));
    Ok(explained.study)
}

/// Conditions as a part of a file's name.
fn file_name(conditions: &[String]) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=.-,".contains(c) { c } else { '_' };
    conditions.join(",").chars().map(plain).take(100).collect()
}

/// Writes the reports of one directory; returns the path of the page.
///
/// # Errors
/// When they cannot be written, as on a full device or in an archive. The measured data is unaffected.
pub(crate) fn write_reports(dir: &Path, explained: &Explained) -> Result<PathBuf> {
    let comparisons = compare::page::own_comparisons(dir, explained);
    let written = comparisons.and_then(|comparisons| write_all(dir, explained, &comparisons));
    written.with_context(|| unwritten(dir))
}

/// That the report is missing, and what writes it.
fn unwritten(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "the results are in `{dir}`, but the report could not be written; `pgdyno report {dir}` writes it later"
    )
}

fn write_all(dir: &Path, explained: &Explained, comparisons: &[CaseComparison]) -> Result<PathBuf> {
    let Explained { data, study } = explained;
    let html = dir.join(HTML);
    store::write_report(&dir.join("runs.csv"), report::runs_csv(study).as_bytes())?;
    store::write_report(&dir.join("cases.csv"), report::cases_csv(study).as_bytes())?;
    if let Some(scripts) = report::scripts_csv(study) {
        store::write_report(&dir.join("scripts.csv"), scripts.as_bytes())?;
    }
    let answer = serde_json::to_string_pretty(&ShortAnswer::new(explained, comparisons))?;
    store::write_report(&dir.join(ANSWER), secret::hide_json(&answer).as_bytes())?;
    if data.plan.is_comparison {
        compare::page::write_own(dir, explained, comparisons)?;
        return Ok(html);
    }
    let commands = [run_again(dir)];
    let input = Input { study, data, commands: &commands, tool_version: env!("CARGO_PKG_VERSION") };
    store::write_report(&html, report::html(&input).as_bytes())?;
    store::write_report(&dir.join(MARKDOWN), report::markdown(&input).as_bytes())?;
    Ok(html)
}

/// The command that repeats the experiment of a directory.
pub(crate) fn run_again(dir: &Path) -> String {
    shell::command(&["pgdyno".into(), "run".into(), dir.join(store::names::EXPERIMENT).display().to_string()])
}

/// Prints the results of one directory, then writes its reports. In this order, because printing needs no disk space.
/// What was measured as a comparison is printed as one, its sides only with all details. The path of the page is no result: it goes to standard error.
/// `precision` is what counts as precise enough, if that is not what the experiment says.
pub(crate) fn explain(dir: &Path, form: PrintForm, precision: Option<Share>) -> Result<Study> {
    let explained = Explained::read(dir, form.series())?.with_precision(precision);
    let is_comparison = form.is_text() && explained.data.plan.is_comparison;
    if !is_comparison {
        show(&explained.study, form)?;
    }
    let comparisons = compare::page::own_comparisons(dir, &explained).with_context(|| unwritten(dir))?;
    if is_comparison {
        compare::print(&comparisons, &explained.data)?;
        if form == PrintForm::Full {
            show(&explained.study, form)?;
        }
    }
    let html = write_all(dir, &explained, &comparisons).with_context(|| unwritten(dir))?;
    say(&format!("report: {}", html.display()));
    Ok(explained.study)
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintForm {
    /// A table with what casts doubt on its numbers.
    Table,
    /// A table with all findings in full.
    Full,
    /// The whole study.
    Json,
    /// The cases.
    Csv,
}

impl PrintForm {
    /// The form that the options `--json`, `--csv` and `--verbose` ask for.
    pub(crate) fn from_args(args: &FormArgs) -> PrintForm {
        match (args.json, args.csv, args.verbose) {
            (true, _, _) => PrintForm::Json,
            (_, true, _) => PrintForm::Csv,
            (_, _, true) => PrintForm::Full,
            _ => PrintForm::Table,
        }
    }

    /// Whether people read it.
    fn is_text(self) -> bool {
        matches!(self, PrintForm::Table | PrintForm::Full)
    }

    /// The runs whose telemetry it needs.
    fn series(self) -> KeptTelemetry {
        if self == PrintForm::Json { KeptTelemetry::All } else { KeptTelemetry::Drawn }
    }
}

/// Prints a study.
fn show(study: &Study, form: PrintForm) -> Result<()> {
    print_exact(&match form {
        PrintForm::Json => report::json(study),
        PrintForm::Csv => report::cases_csv(study),
        PrintForm::Table => report::terminal_table(study, width(), colour()),
        PrintForm::Full => report::terminal_table_in_full(study, width(), colour()),
    })
}

/// The exit code of a study under `--strict` and `--max-uncertainty`.
pub(crate) fn trust_exit(study: &Study, trust: &TrustArgs) -> Exit {
    if trust.strict && study.is_void() {
        say("a finding voids a number (--strict)");
        return Exit::Void;
    }
    let Some(most) = trust.max_uncertainty else { return Exit::Done };
    let too_unsure: Vec<String> = study.cases.iter().filter_map(|case| too_unsure(case, most)).collect();
    if too_unsure.is_empty() {
        return Exit::Done;
    }
    say(&format!("--max-uncertainty {}: {}", percent(most), too_unsure.join("; ")));
    Exit::Void
}

/// Why a case's throughput does not keep to the largest uncertainty.
fn too_unsure(case: &CaseSummary, most: f64) -> Option<String> {
    let known = case.uncertainty.as_ref().map(|known| known.throughput.good_to());
    match (known, case.grade) {
        (Some(good_to), Grade::Valid) if good_to <= most => None,
        (Some(good_to), Grade::Valid) => Some(format!("{} is good to ±{}", case.label, percent(good_to))),
        _ => Some(format!("{} is {}", case.label, case.verdict())),
    }
}

/// Columns of the terminal, or 100 if there is none.
pub(crate) fn width() -> usize {
    width_of_terminal().unwrap_or(100)
}

fn width_of_terminal() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = || console::Term::stdout().size_checked().map(|(_rows, columns)| usize::from(columns));
    asked.or_else(of_terminal).filter(|&n| n >= 40)
}

/// A text with its lines wrapped to the terminal, if there is one: programs read whole lines.
pub(crate) fn for_terminal(text: &str) -> String {
    width_of_terminal().map_or_else(|| text.to_string(), |width| report::hanging(text, width))
}

/// Whether to colour: NO_COLOR and PG_COLOR decide, otherwise only terminals get colours.
pub(crate) fn colour() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match std::env::var("PG_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => !no_color && std::io::stdout().is_terminal(),
    }
}
