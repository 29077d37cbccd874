//! `pgdyno export`: records of stored runs as tables for one's own analysis.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Stdout, Write, stdout};

use anyhow::{Context, Result, bail, ensure};
use model::run::ExperimentData;
use report::{Export, ExportFormat, ExportTable};
use store::Stored;

use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::cli::stored::{ExportArgs, ExportedTable, FileFormat};
use crate::{Exit, print_exact, say};

/// Writes a table of all runs, or of one.
pub(crate) fn export(args: &ExportArgs) -> Result<Exit> {
    let table = match args.table {
        ExportedTable::Seconds => return seconds(args),
        ExportedTable::Intervals => ExportTable::Intervals,
        ExportedTable::Readings => ExportTable::Readings,
    };
    let stored = Stored::open(&args.dir)?;
    let indices: Vec<usize> = (0..stored.n_runs())
        .filter(|index| args.run.is_none_or(|run| stored.number(*index) == run))
        .collect();
    expect_run(args, (0..stored.n_runs()).map(|index| stored.number(index)).max(), !indices.is_empty())?;
    let format = match args.format {
        FileFormat::Csv => ExportFormat::Csv,
        FileFormat::Json => ExportFormat::Json,
        FileFormat::Parquet => ExportFormat::Parquet,
    };
    format.check()?;
    let out = Out::open(args)?;
    let mut export = Export::begin(table, format, stored.plan(), BufWriter::new(out)).context(NOT_WRITTEN)?;
    for index in indices {
        let Some(run) = stored.run(index)? else { continue };
        run.damage.iter().for_each(|damage| say(&format!("note: run {}: {damage}", run.record.spec.run)));
        export.run(&run).context(NOT_WRITTEN)?;
    }
    export.end().context(NOT_WRITTEN)?;
    Ok(Exit::Done)
}

const NOT_WRITTEN: &str = "cannot write the table";

/// The table of seconds, which is made of what the report draws.
fn seconds(args: &ExportArgs) -> Result<Exit> {
    ensure!(
        args.format == FileFormat::Csv,
        "seconds are written as CSV only; for JSON and Parquet use --table intervals or --table readings"
    );
    let Explained { study, data } = Explained::read(&args.dir, KeptTelemetry::All)?;
    let has_run = args.run.is_none_or(|run| study.runs.iter().any(|other| other.run == run));
    expect_run(args, last_run(&data), has_run)?;
    let text = report::seconds_csv(&study, args.run);
    match Out::open(args)? {
        Out::Terminal(_) => print_exact(&text)?,
        Out::File(mut file) => file.write_all(text.as_bytes()).context(NOT_WRITTEN)?,
    }
    Ok(Exit::Done)
}

fn last_run(data: &ExperimentData) -> Option<u32> {
    data.runs.iter().map(|run| run.record.spec.run).max()
}

fn expect_run(args: &ExportArgs, last: Option<u32>, has_run: bool) -> Result<()> {
    let dir = args.dir.display();
    match (args.run, last) {
        (_, _) if has_run && last.is_some() => Ok(()),
        (Some(number), Some(last)) => bail!("`{dir}` has no run {number}; its last run is {last}"),
        _ => bail!("`{dir}` has no run"),
    }
}

/// Where a table goes.
enum Out {
    Terminal(Stdout),
    File(File),
}

impl Out {
    fn open(args: &ExportArgs) -> Result<Out> {
        let Some(path) = &args.output else {
            let stdout = stdout();
            ensure!(
                args.format != FileFormat::Parquet || !stdout.is_terminal(),
                "Parquet is no text: name a file with --output, or use a pipe"
            );
            return Ok(Out::Terminal(stdout));
        };
        let file = files::create_new(path, files::PRIVATE);
        Ok(Out::File(
            file.with_context(|| format!("cannot create `{}`; it must not exist yet", path.display()))?,
        ))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Out::Terminal(out) => out.write(bytes),
            Out::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Out::Terminal(out) => out.flush(),
            Out::File(file) => file.flush(),
        }
    }
}
