//! `pgdyno report`, and the end of `pgdyno run`: from stored results to pages and tables.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use analysis::finding::Grade;
use analysis::summary::Study;
use anyhow::Result;
use model::run::ExperimentData;
use report::Input;

use crate::cli::ReportArgs;
use crate::compare::{self, Explained};
use crate::{Exit, print, say, shell};

/// The page of a report.
pub(crate) const HTML: &str = "report.html";
/// Its short form.
pub(crate) const MARKDOWN: &str = "report.md";

/// Explains each directory.
pub(crate) fn report(args: &ReportArgs) -> Result<Exit> {
    let mut worst = Exit::Done;
    for dir in &args.dirs {
        let exit = explain(dir, args.json, args.strict)?;
        if exit != Exit::Done {
            worst = exit;
        }
    }
    Ok(worst)
}

/// Writes the reports of one directory; gives what they were drawn from, and where the page is.
pub(crate) fn write_reports(dir: &Path) -> Result<(ExperimentData, Study, PathBuf)> {
    let data = store::load_experiment(dir)?;
    let study = analysis::study(&data);
    let html = dir.join(HTML);
    store::write_whole(&dir.join("runs.csv"), report::runs_csv(&study).as_bytes())?;
    if data.plan.is_comparison {
        let explained = Explained { data, study };
        compare::page::write_own(dir, &explained)?;
        return Ok((explained.data, explained.study, html));
    }
    let commands = [run_again(dir)];
    let input =
        Input { study: &study, data: &data, commands: &commands, tool_version: env!("CARGO_PKG_VERSION") };
    store::write_whole(&html, report::html(&input).as_bytes())?;
    store::write_whole(&dir.join(MARKDOWN), report::markdown(&input).as_bytes())?;
    Ok((data, study, html))
}

/// The command that makes the experiment of a directory again.
pub(crate) fn run_again(dir: &Path) -> String {
    shell::command(&["pgdyno".into(), "run".into(), dir.join(store::names::EXPERIMENT).display().to_string()])
}

/// Writes the report of one directory and prints its table, or its study as JSON.
pub(crate) fn explain(dir: &Path, json: bool, strict: bool) -> Result<Exit> {
    let (_, study, html) = write_reports(dir)?;
    if json {
        print(&report::json(&study))?;
    } else {
        print(&report::terminal_table(&study, width(), colour()))?;
        print(&format!("\nreport: {}\n", html.display()))?;
    }
    let is_void = study.runs.iter().any(|run| run.grade == Grade::Void)
        || study.cases.iter().any(|case| case.grade == Grade::Void);
    if strict && is_void {
        say("a finding voids a number (--strict)");
        return Ok(Exit::Void);
    }
    Ok(Exit::Done)
}

/// Columns of the terminal, or 100 where there is none.
fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = || console::Term::stdout().size_checked().map(|(_rows, columns)| usize::from(columns));
    asked.or_else(of_terminal).filter(|&n| n >= 40).unwrap_or(100)
}

/// NO_COLOR and PG_COLOR rule; otherwise a terminal gets colours.
fn colour() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match std::env::var("PG_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => !no_color && std::io::stdout().is_terminal(),
    }
}
