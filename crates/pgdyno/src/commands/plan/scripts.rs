//! The scripts of a plan and the data that they run on, on the terminal: the user's own, and those of workload directories.

use std::fmt::Write;

use anyhow::Result;
use experiment::site::keys::contents_words;
use model::experiment::case::WorkloadSpec;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::plan::Plan;
use model::experiment::script::{CaseData, CaseScript};
use model::text::columns;
use model::text::prose::{brief_hash, bytes, grouped, plural};
use workload::Program;

/// Most tables that are listed.
const TABLES_MAX: usize = 20;

/// Own scripts, which are the same in all cases that have any, and each directory with what is chosen of it.
pub(super) fn describe(out: &mut String, plan: &Plan) -> Result<()> {
    let with_scripts = || plan.cases.iter().map(|case| &case.workload).filter(|w| !w.scripts.is_empty());
    if let Some(own) = with_scripts().find(|workload| workload.directory.is_none()) {
        writeln!(out)?;
        scripts(out, &own.scripts.iter().collect::<Vec<_>>(), true)?;
        writeln!(out, "data    {}", data(own))?;
    }
    let mut seen: Vec<(&WorkloadDirectory, u32)> = Vec::new();
    for workload in with_scripts() {
        let Some(directory) = workload.directory.as_deref() else { continue };
        let key = (directory, workload.scale);
        if !seen.contains(&key) {
            seen.push(key);
            of_directory(out, workload, directory)?;
        }
    }
    Ok(())
}

/// A line for each script, with its weight unless classes of clients have weights of their own.
fn scripts(out: &mut String, scripts: &[&CaseScript], are_weighed: bool) -> Result<()> {
    let total: f64 = scripts.iter().map(|script| f64::from(script.weight)).sum();
    let width = scripts.iter().map(|script| script.name.chars().count()).max().unwrap_or(0);
    for script in scripts {
        let share = 100.0 * f64::from(script.weight) / total.max(1.0);
        let weight =
            if are_weighed { format!("weight {} ({share:.1} %), ", script.weight) } else { String::new() };
        let n = Program::compile(&script.name, &script.source).map(|program| program.statements.len());
        let statements = n.map_or(String::new(), |n| format!("{}, ", plural(n as u64, "statement")));
        writeln!(
            out,
            "script  {}  {weight}{statements}SHA-256 {}",
            columns::left(&script.name, width),
            brief_hash(&script.sha256),
        )?;
    }
    Ok(())
}

fn of_directory(out: &mut String, workload: &WorkloadSpec, directory: &WorkloadDirectory) -> Result<()> {
    let whose = if workload::directories::is_builtin(directory) { "built in" } else { "of the user" };
    writeln!(out)?;
    writeln!(
        out,
        "load    {}: {}, {whose}, identity {}",
        directory.label(),
        directory.title,
        brief_hash(&directory.identity)
    )?;
    let is_used = |script: &&CaseScript| script.weight > 0 || directory.has_classes;
    scripts(out, &workload.scripts.iter().filter(is_used).collect::<Vec<_>>(), !directory.has_classes)?;
    writeln!(out, "data    {}, identity {}", data(workload), brief_hash(&directory.data_identity))?;
    let width = directory.tables.iter().map(|table| table.name.chars().count()).max().unwrap_or(0);
    for table in directory.tables.iter().take(TABLES_MAX) {
        writeln!(
            out,
            "table   {}  {} rows, about {} without indexes",
            columns::left(&table.name, width),
            grouped(&table.n_rows.to_string()),
            bytes(table.bytes as f64)
        )?;
    }
    let others = directory.tables.len().saturating_sub(TABLES_MAX);
    if others > 0 {
        let rows = directory.tables[TABLES_MAX..].iter().map(|table| table.n_rows).sum::<u64>();
        writeln!(out, "table   and {} more with {} rows", others, grouped(&rows.to_string()))?;
    }
    Ok(())
}

/// The data that scripts run on, and how pgdyno treats it.
fn data(workload: &WorkloadSpec) -> String {
    match &workload.data {
        CaseData::Loaded(dataset) => format!("{}, loaded by pgdyno", dataset.row().words),
        CaseData::None => "the database as it is: not loaded, restored, vacuumed or analyzed".to_string(),
        CaseData::Files(_) => format!("created by these files: {}", contents_words(workload)),
        CaseData::Archive(archive) => archive.words(),
        CaseData::Directory => contents_words(workload),
    }
}
