//! The page of a comparison: written with the results of one that was measured, and on request for stored ones.

use std::path::{Path, PathBuf};

use ::report::{ComparisonInput, Measured};
use analysis::comparison::{CaseComparison, MARGIN};
use analysis::explain::{compare, compare_duet};
use anyhow::{Context, Result, ensure};
use model::experiment::comparison::ComparisonRequest;
use model::run::ExperimentData;

use super::{StoredCase, floor};
use crate::commands::report;
use crate::commands::stored::explained::Explained;
use crate::front::cli::CompareArgs;
use crate::front::shell;
use crate::say;

/// The figures of a comparison as a table.
const COMPARED: &str = "compared.csv";
/// Its statements as a table, if there are several.
const COMPARED_STATEMENTS: &str = "compared_statements.csv";
/// What separates A's experiment from B's, which is a comment.
pub(super) const SIDE_B: &str = "\n# B:\n";

/// How to repeat a comparison that is about to be measured: in the order, and with the random numbers, of `seed`.
pub(super) fn request(args: &CompareArgs, seed: u64) -> ComparisonRequest {
    ComparisonRequest { format: model::FORMAT, command: again(arguments(), Some(seed)), margin: args.margin }
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned())
}

/// The arguments of this process without the results directory, which another comparison cannot reuse. Passwords are
/// gone: [`crate::front::secrets::hide_from_argv`] came first.
fn again(args: impl Iterator<Item = String>, seed: Option<u64>) -> Vec<String> {
    let mut command = vec!["pgdyno".to_string()];
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        let is_joined = arg.starts_with("--output=") || (arg.starts_with("-o") && arg.len() > 2);
        if arg == "-o" || arg == "--output" {
            args.next();
        } else if !is_joined {
            command.push(arg);
        }
    }
    let has_seed = command.iter().any(|arg| arg.contains("experiment.seed="));
    if let Some(seed) = seed
        && !has_seed
    {
        command.extend(["--set".to_string(), format!("experiment.seed={seed}")]);
    }
    command
}

/// Writes the page of a measured comparison into its directory.
pub(crate) fn write_own(dir: &Path, explained: &Explained, comparisons: &[CaseComparison]) -> Result<()> {
    let pages = with_own(dir, explained, comparisons, Pages::from_input)?;
    store::write_report(&dir.join(report::HTML), pages.html.as_bytes())?;
    store::write_report(&dir.join(report::MARKDOWN), pages.markdown.as_bytes())?;
    store::write_report(&dir.join(COMPARED), pages.csv.as_bytes())?;
    if let Some(statements) = &pages.statements_csv {
        store::write_report(&dir.join(COMPARED_STATEMENTS), statements.as_bytes())?;
    }
    Ok(())
}

/// Draws the comparison that a directory was measured for.
///
/// # Errors
/// When its request cannot be read.
pub(crate) fn with_own<T>(
    dir: &Path,
    explained: &Explained,
    comparisons: &[CaseComparison],
    draw: impl FnOnce(&ComparisonInput) -> T,
) -> Result<T> {
    let request = store::read_comparison(dir)?;
    let commands: Vec<String> = request.iter().map(|request| shell::command(&request.command)).collect();
    let source = Source { explained, dir, cases: None };
    with(comparisons, &[source], &commands, draw)
}

/// The comparison that a directory was measured for, if it is one.
///
/// # Errors
/// When its request or its slices cannot be read.
pub(crate) fn own_comparisons(dir: &Path, explained: &Explained) -> Result<Vec<CaseComparison>> {
    if !explained.data.plan.is_comparison {
        return Ok(Vec::new());
    }
    let margin = store::read_comparison(dir)?.map_or(MARGIN, |request| request.margin);
    let (a, b) = (explained.side(1), explained.side(2));
    Ok(match store::read_duet(dir)? {
        Some(duet) => vec![compare_duet(a, b, &duet, margin)],
        None => compare(&[(a, b)], margin),
    })
}

/// An experiment to be compared.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) explained: &'a Explained,
    pub(super) dir: &'a Path,
    /// The only cases that matter; `None`: all.
    pub(super) cases: Option<[u32; 2]>,
}

impl<'a> Source<'a> {
    pub(super) fn new(explained: &'a Explained, target: &'a StoredCase) -> Source<'a> {
        Source { explained, dir: &target.dir, cases: None }
    }

    /// The experiment reduced to the cases that matter.
    fn restricted(&self) -> Explained {
        let Explained { mut data, mut study } = self.explained.clone();
        if let Some(cases) = self.cases {
            study.cases.retain(|case| cases.contains(&case.case.id));
            study.runs.retain(|run| cases.contains(&run.case));
            study.plan.runs.retain(|run| cases.contains(&run.case));
            data.runs.retain(|run| cases.contains(&run.record.spec.case));
        }
        Explained { data, study }
    }

    /// The command that repeats it.
    fn command(&self) -> Result<String> {
        Ok(match store::read_comparison(self.dir)? {
            Some(request) => shell::command(&request.command),
            None => report::run_again(self.dir),
        })
    }
}

/// Writes the page of stored results to the path given with `--report`, if any.
///
/// # Errors
/// When it cannot be written, or would overwrite the report of an experiment.
pub(super) fn write_asked(
    args: &CompareArgs,
    comparisons: &[CaseComparison],
    sources: &[Source],
) -> Result<()> {
    let Some(path) = &args.report else { return Ok(()) };
    let command = shell::command(&again(arguments(), None));
    let pages = with(comparisons, sources, &[command], Pages::from_input)?;
    let write = |path: &Path, text: &str| -> Result<()> {
        expect_replaceable(path)?;
        store::write_report(path, text.as_bytes())?;
        say(&format!("report: {}", path.display()));
        Ok(())
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => return write(path, &pages.html),
        Some("md") => return write(path, &pages.markdown),
        Some("csv") => return write(path, &pages.csv),
        _ => {}
    }
    ensure!(
        !store::is_experiment_dir(path),
        "`{}` has an experiment with its own report; name another directory, or a file, with --report",
        path.display()
    );
    store::expect_ours(path)?;
    files::create_private_dir_all(path)
        .with_context(|| format!("cannot create the directory `{}`", path.display()))?;
    write(&path.join(COMPARED), &pages.csv)?;
    if let Some(statements) = &pages.statements_csv {
        write(&path.join(COMPARED_STATEMENTS), statements)?;
    }
    write(&path.join(report::MARKDOWN), &pages.markdown)?;
    write(&path.join(report::HTML), &pages.html)
}

/// What each file that pgdyno writes has: HTML and CSV at its beginning, Markdown at its end.
const SIGNS: [&str; 4] = [
    "<meta name=\"generator\" content=\"pgdyno ",
    "\nMade by pgdyno ",
    "a,b,kind,name,unit,a_median,",
    "a,b,kind,script,index,statement,",
];
/// Longest page that is looked at for them, in bytes.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// Refuses to replace a file that is no page of pgdyno's.
fn expect_replaceable(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let is_ours = files::read(path, PAGE_BYTES_MAX).is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        SIGNS.iter().any(|sign| text.contains(sign))
    });
    ensure!(
        is_ours,
        "`{}` exists and is no page of pgdyno; remove it, or name another file with --report",
        path.display()
    );
    Ok(())
}

/// Writes the page that compares results with their repetition in `dir`, and returns its path.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_repeat(
    dir: &Path,
    results: [(&Explained, &Path); 2],
    comparisons: &[CaseComparison],
) -> Result<PathBuf> {
    let sources = results.map(|(explained, dir)| Source { explained, dir, cases: None });
    let commands = [shell::command(&again(arguments(), None))];
    let pages = with(comparisons, &sources, &commands, Pages::from_input)?;
    let html = dir.join("repeat.html");
    store::write_report(&dir.join("repeat.md"), pages.markdown.as_bytes())?;
    store::write_report(&html, pages.html.as_bytes())?;
    Ok(html)
}

/// A report as HTML and as Markdown, and its figures.
struct Pages {
    html: String,
    markdown: String,
    csv: String,
    /// `None` if no comparison has several statements.
    statements_csv: Option<String>,
}

impl Pages {
    fn from_input(input: &ComparisonInput) -> Pages {
        let has_statements = input.cases.iter().any(|case| !case.statements.is_empty());
        Pages {
            html: ::report::comparison_html(input),
            markdown: ::report::comparison_markdown(input),
            csv: ::report::comparison_csv(input.cases),
            statements_csv: has_statements.then(|| ::report::compared_statements_csv(input.cases)),
        }
    }
}

/// Draws comparisons of these sources.
pub(super) fn with<T>(
    comparisons: &[CaseComparison],
    sources: &[Source],
    commands: &[String],
    draw: impl FnOnce(&ComparisonInput) -> T,
) -> Result<T> {
    let restricted: Vec<Explained> = sources.iter().map(Source::restricted).collect();
    let names: Vec<String> = sources.iter().map(|source| source.dir.display().to_string()).collect();
    // For one experiment, the compare command is all there is to repeat.
    let of_each: Vec<Vec<String>> = match sources {
        [_] => vec![Vec::new()],
        several => several.iter().map(|source| Ok(vec![source.command()?])).collect::<Result<_>>()?,
    };
    let experiments: Vec<Measured> = restricted
        .iter()
        .zip(&names)
        .zip(&of_each)
        .map(|((one, name), commands)| Measured { name, study: &one.study, data: &one.data, commands })
        .collect();
    let first: &ExperimentData = &sources[0].explained.data;
    let floor = floor::of_host(comparisons, first)?;
    let input = ComparisonInput {
        cases: comparisons,
        floor: floor.as_ref(),
        experiments: &experiments,
        commands,
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    Ok(draw(&input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_our_own_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, is_replaced: bool| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert_eq!(expect_replaceable(&path).is_ok(), is_replaced, "{name}: {text}");
        };
        check("a.md", "# My notes\n", false);
        check("a.md", "## A and B\n\nMade by pgdyno 0.1.0.\n", true);
        check("a.html", "<p>mine</p>", false);
        check("a.html", "<head><meta name=\"generator\" content=\"pgdyno 0.1.0\">", true);
        assert!(expect_replaceable(&dir.path().join("none")).is_ok());
        assert!(expect_replaceable(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn the_command_that_repeats_has_the_same_seed_and_no_directory() {
        let check = |args: &str, seed, expected: &str| {
            assert_eq!(again(args.split(' ').map(str::to_string), seed).join(" "), expected, "{args}");
        };
        let with_seed = "pgdyno compare --aa --set experiment.seed=7";
        for args in ["compare -o out --aa", "compare --output out --aa", "compare -oout --output=x --aa"] {
            check(args, Some(7), with_seed);
        }
        check("compare --aa --set experiment.seed=7", Some(9), with_seed);
        check("compare a b --margin 1%", None, "pgdyno compare a b --margin 1%");
    }
}
