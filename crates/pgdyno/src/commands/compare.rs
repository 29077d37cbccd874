//! `pgdyno compare`: two cases that were measured before, or are measured now.

pub(crate) mod duet;
pub(crate) mod ending;
mod failing;
mod floor;
mod gauge;
mod measure;
mod next;
pub(crate) mod page;
mod resumed;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analysis::comparison::{CaseComparison, ComparedSide, MARGIN};
use analysis::finding::{Grade, Severity};
use anyhow::{Context, Result, bail};
use model::experiment::case::Case;
use model::run::ExperimentData;
use model::text::visible::visible;
use report::site::{BarLink, Page};
use serde_json::{Value, json};

use crate::commands::report::{colour, width};
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::stored::shelf;
use crate::front::cli::CompareArgs;
use crate::front::cli::compare::failing::FailTerms;
use crate::front::shell;
use crate::{Exit, print_exact, say};

/// Runs the form of the command that `args` ask for.
pub(crate) fn compare(args: &CompareArgs) -> Result<Exit> {
    if args.changes.allow_changes && (args.duet || !args.results.is_empty()) {
        bail!(
            "--allow-changes is for sides that are measured in pairs: {}; leave it out",
            if args.duet { "both sides of a duet run at once" } else { "stored results change nothing" }
        );
    }
    match args.results.as_slice() {
        [] if args.plan => measure::show(args),
        [] if args.duet => duet::compare(args),
        [] => measure::compare(args),
        results => stored(results, args),
    }
}

impl Explained {
    pub(crate) fn side(&self, case: u32) -> ComparedSide<'_> {
        ComparedSide { data: &self.data, study: &self.study, case }
    }
}

/// Compares stored results.
fn stored(results: &[String], args: &CompareArgs) -> Result<Exit> {
    let target = |text: &String| match &args.store {
        Some(store) => StoredCase::fetch(store, text),
        None => StoredCase::parse(text),
    };
    let targets: Vec<StoredCase> = results.iter().map(target).collect::<Result<_>>()?;
    let first = Explained::read(&targets[0].dir, KeptTelemetry::Drawn)?;
    if let ([only], Some(duet)) = (&targets[..], store::read_duet(&targets[0].dir)?) {
        let (a, b) = of_one(&first, only)?;
        let comparisons = [analysis::explain::compare_duet(a, b, &duet, args.margin)];
        page::write_asked(args, &comparisons, &[page::Source::new(&first, only)])?;
        return finish(&comparisons, &first.data, args.into());
    }
    let is_same = |target: &StoredCase| target.dir.canonicalize().ok() == targets[0].dir.canonicalize().ok();
    let of_first = page::Source::new(&first, &targets[0]);
    let sides = match targets.get(1) {
        None => of_one(&first, &targets[0])?,
        Some(second) if is_same(second) => {
            let [a, b] = [&targets[0], second].map(|target| target.case_of(&first.data));
            (first.side(a?), first.side(b?))
        }
        Some(second) => {
            let other = Explained::read(&second.dir, KeptTelemetry::Drawn)?;
            let mut comparisons = compare_sides(&of_two(&first, &targets[0], &other, second)?, args);
            page::write_asked(args, &comparisons, &[of_first, page::Source::new(&other, second)])?;
            if !args.json {
                comparisons.iter_mut().for_each(|case| name_results(case, [&targets[0], second]));
            }
            return finish(&comparisons, &first.data, args.into());
        }
    };
    let comparisons = compare_sides(&[sides], args);
    let cases = [sides.0.case, sides.1.case];
    page::write_asked(args, &comparisons, &[page::Source { cases: Some(cases), ..of_first }])?;
    finish(&comparisons, &first.data, args.into())
}

fn compare_sides(sides: &[(ComparedSide, ComparedSide)], args: &CompareArgs) -> Vec<CaseComparison> {
    analysis::explain::compare(sides, args.margin)
}

/// How a comparison is printed, and what makes it fail.
#[derive(Debug, Clone)]
pub(crate) struct CompareEndTerms {
    pub(crate) json: bool,
    pub(crate) force: bool,
    pub(crate) fail_on: Option<FailTerms>,
}

impl From<&CompareArgs> for CompareEndTerms {
    fn from(args: &CompareArgs) -> CompareEndTerms {
        CompareEndTerms { json: args.json, force: args.force, fail_on: args.fail_on.clone() }
    }
}

/// Prints comparisons and decides the exit code. `data` says which host's noise floor matters.
pub(crate) fn finish(
    comparisons: &[CaseComparison],
    data: &ExperimentData,
    args: CompareEndTerms,
) -> Result<Exit> {
    if args.json {
        let floor = floor::of_host(comparisons, data)?;
        let cases = comparisons.iter().map(with_verdict).collect::<serde_json::Result<Vec<Value>>>()?;
        let value = json!({ "comparisons": cases, "noise_floor": floor });
        print_exact(&format!("{}\n", serde_json::to_string_pretty(&value)?))?;
    } else if is_void(comparisons) && !args.force {
        print_refused(comparisons)?;
    } else {
        print(comparisons, data)?;
    }
    if is_void(comparisons) {
        if !args.force {
            bail!("{}, so they cannot be compared. Use --force to compare anyway.", voided(comparisons));
        }
        say("compared because of --force: a difference that was not asked for voids the comparison");
    }
    Ok(args.fail_on.map_or(Exit::Done, |terms| failing::judged(comparisons, &terms)))
}

fn is_void(comparisons: &[CaseComparison]) -> bool {
    comparisons.iter().any(|case| case.grade == Grade::Void)
}

/// Prints the figures of comparisons, and why they have no answer: one that is refused afterwards has been read.
fn print_refused(comparisons: &[CaseComparison]) -> Result<()> {
    let (width, colour) = (width(), colour());
    let text = |case: &CaseComparison| {
        let why = voided(std::slice::from_ref(case));
        let why = if why.is_empty() { voided(comparisons) } else { why };
        report::refused_comparison_text(case, &why, width, colour)
    };
    print_exact(&comparisons.iter().map(text).collect::<Vec<String>>().join("\n"))
}

/// Prints comparisons, with the noise floor of the host that `data` was measured on.
pub(crate) fn print(comparisons: &[CaseComparison], data: &ExperimentData) -> Result<()> {
    let floor = floor::of_host(comparisons, data)?;
    let (width, colour) = (width(), colour());
    let text = |case| report::comparison_text(case, floor.as_ref(), width, colour);
    print_exact(&comparisons.iter().map(text).collect::<Vec<String>>().join("\n"))
}

/// A comparison with the verdict that counts: of several cases, that of a figure alone may be chance.
fn with_verdict(case: &CaseComparison) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(case)?;
    value["verdict"] = serde_json::to_value(case.verdict())?;
    Ok(value)
}

/// Cases of two experiments often have one name: the directories distinguish them.
fn name_results(case: &mut CaseComparison, targets: [&StoredCase; 2]) {
    for (name, target) in [&mut case.a, &mut case.b].into_iter().zip(targets) {
        *name = format!("{name}, in {}", target.dir.display());
    }
}

/// What voids the comparisons, in the words of their findings.
fn voided(comparisons: &[CaseComparison]) -> String {
    let findings = comparisons.iter().flat_map(|case| &case.findings);
    let mut words: Vec<&str> = findings
        .filter(|finding| finding.severity == Severity::Void)
        .map(|finding| finding.evidence.as_str())
        .collect();
    words.dedup();
    words.join("; ")
}

/// Results as the user names them: a directory, and optionally the number of a case.
#[derive(Debug, PartialEq)]
pub(crate) struct StoredCase {
    pub(crate) dir: PathBuf,
    pub(crate) case: Option<u32>,
}

impl StoredCase {
    pub(crate) fn parse(text: &str) -> Result<StoredCase> {
        let whole = PathBuf::from(text);
        let named =
            text.rsplit_once(':').and_then(|(dir, case)| Some((PathBuf::from(dir), case.parse().ok()?)));
        match named {
            Some((dir, case)) if !whole.exists() => Ok(StoredCase { dir, case: Some(case) }),
            _ if whole.is_dir() => Ok(StoredCase { dir: whole, case: None }),
            _ => bail!("no results in `{text}`: name a results directory, or one of its cases as DIR:CASE"),
        }
    }

    /// A result in a store, which is fetched.
    fn fetch(store: &str, text: &str) -> Result<StoredCase> {
        let named = text.rsplit_once(':').and_then(|(name, case)| Some((name, Some(case.parse().ok()?))));
        let (name, case) = named.unwrap_or((text, None));
        let mut dirs = shelf::fetched(Some(store), &[PathBuf::from(name)])?;
        Ok(StoredCase { dir: dirs.pop().context("one name is one directory")?, case })
    }

    /// The number of the case.
    fn case_of(&self, data: &ExperimentData) -> Result<u32> {
        match (self.case, data.plan.cases.as_slice()) {
            (Some(case), _) if data.plan.case(case).is_some() => Ok(case),
            (None, [only]) => Ok(only.id),
            (Some(case), _) => {
                bail!("`{}` has no case {case}; it has\n{}", self.dir.display(), cases(data))
            }
            _ => bail!("`{}` has these cases; name one as DIR:CASE\n{}", self.dir.display(), cases(data)),
        }
    }
}

fn cases(data: &ExperimentData) -> String {
    let lines: Vec<String> =
        data.plan.cases.iter().map(|case| format!("  {}  {}", case.id, case.label())).collect();
    lines.join("\n")
}

/// Two cases of one experiment.
fn of_one<'a>(first: &'a Explained, target: &StoredCase) -> Result<(ComparedSide<'a>, ComparedSide<'a>)> {
    match (target.case, first.data.plan.cases.as_slice()) {
        (None, [a, b]) => Ok((first.side(a.id), first.side(b.id))),
        (None, [_]) => {
            let dir = target.dir.display();
            bail!("`{dir}` has one case; name a second directory, as in: pgdyno compare {dir} DIR")
        }
        _ => {
            let dir = target.dir.display();
            bail!("name two of these cases, as in: pgdyno compare {dir}:1 {dir}:2\n{}", cases(&first.data))
        }
    }
}

/// The comparison of two results as a page of a server: of their only cases, or of those with the same levels.
///
/// # Errors
/// When they cannot be read, or have no case in common.
pub(crate) fn page_of(dirs: [&Path; 2], back: &[BarLink]) -> Result<Page> {
    let [a, b] = dirs.map(|dir| StoredCase { dir: dir.to_path_buf(), case: None });
    let (first, second) =
        (Explained::read_for_page(&a.dir, false)?, Explained::read_for_page(&b.dir, false)?);
    let sides = of_two(&first, &a, &second, &b)?;
    let comparisons = analysis::explain::compare(&sides, MARGIN);
    let command = shell::command(&["pgdyno".to_string(), "compare".to_string(), path(&a), path(&b)]);
    let sources = [page::Source::new(&first, &a), page::Source::new(&second, &b)];
    page::with(&comparisons, &sources, &[command], |input| report::site::comparison(input, back))
}

fn path(case: &StoredCase) -> String {
    case.dir.display().to_string()
}

/// Cases of two experiments: the named ones, else those with the same levels.
fn of_two<'a>(
    a: &'a Explained,
    a_target: &StoredCase,
    b: &'a Explained,
    b_target: &StoredCase,
) -> Result<Vec<(ComparedSide<'a>, ComparedSide<'a>)>> {
    let n_cases = a.data.plan.cases.len().max(b.data.plan.cases.len());
    if a_target.case.is_some() || b_target.case.is_some() || n_cases == 1 {
        return Ok(vec![(a.side(a_target.case_of(&a.data)?), b.side(b_target.case_of(&b.data)?))]);
    }
    let mut sides = Vec::new();
    for case in &a.data.plan.cases {
        match b.data.plan.cases.iter().find(|other| other.levels == case.levels) {
            Some(other) => sides.push((a.side(case.id), b.side(other.id))),
            None => say(&lacking(b_target, case, &b.data.plan.cases)),
        }
    }
    (!sides.is_empty())
        .then_some(sides)
        .context("no case of A has the same levels as a case of B; name them as DIR:CASE")
}

/// That these results have no such case, and in which levels (theirs, its) the nearest differs.
fn lacking(results: &StoredCase, case: &Case, others: &[Case]) -> String {
    let has_none = format!("`{}` has no case `{}`", results.dir.display(), case.label());
    let differing = |other: &Case| -> Vec<String> {
        let keys: BTreeSet<&String> = case.levels.keys().chain(other.levels.keys()).collect();
        let level = |of: &Case, key: &str| {
            of.levels.get(key).map_or("not a factor".to_string(), |text| visible(text).into_owned())
        };
        let differ = keys.into_iter().filter(|key| case.levels.get(*key) != other.levels.get(*key));
        differ.map(|key| format!("{key} ({} and {})", level(case, key), level(other, key))).collect()
    };
    let nearest = others.iter().map(|other| (other, differing(other))).min_by_key(|(_, levels)| levels.len());
    match nearest {
        Some((other, levels)) if levels.len() < case.levels.len().max(2) => {
            format!("{has_none}; its `{}` differs in {}", other.label(), levels.join(", "))
        }
        _ => has_none,
    }
}

#[cfg(test)]
mod tests {
    use analysis::comparison::{
        ComparedFigure, ComparisonVerdict, FigureComparison, FigureSample, Pairing, Ratio,
    };
    use model::experiment::case::{ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::load::Window;

    use super::*;

    /// A comparison of so many pairs by throughput, with a verdict and the pairs that would settle it, if there is one.
    pub(super) fn case_of(
        n_pairs: usize,
        ratio: Option<(ComparisonVerdict, Option<usize>)>,
    ) -> CaseComparison {
        let result = ratio.map(|(verdict, more_pairs)| Ratio {
            ratio: 1.1,
            low: 0.9,
            high: 1.3,
            level: 0.95,
            verdict,
            p: 0.1,
            p_adjusted: 0.01,
            detectable: None,
            more_pairs,
        });
        let sample = FigureSample { ratios: vec![1.1; n_pairs], ..FigureSample::default() };
        CaseComparison {
            a: "A".to_string(),
            b: "B".to_string(),
            purpose: analysis::comparison::ComparisonPurpose::Change,
            pairing: Pairing::Blocks,
            n_pairs,
            margin: MARGIN,
            is_analytical: false,
            lead: ComparedFigure::Throughput,
            more_with: "--pairs",
            figures: vec![FigureComparison::new(
                ComparedFigure::Throughput,
                None,
                None,
                result,
                sample,
                Pairing::Blocks,
            )],
            scripts: Vec::new(),
            statements: Default::default(),
            applied: [None, None],
            costs: Vec::new(),
            outages: Vec::new(),
            carry_over: None,
            supplement: Default::default(),
            declared: Vec::new(),
            defaults: Vec::new(),
            undeclared: Vec::new(),
            disturbed: Vec::new(),
            findings: Vec::new(),
            grade: Grade::Valid,
        }
    }

    #[test]
    fn a_case_that_is_lacking_names_the_levels_in_which_the_nearest_differs() {
        let results = StoredCase { dir: PathBuf::from("b"), case: None };
        let case = |levels: &[(&str, &str)]| {
            let levels = levels.iter().map(|(key, level)| (key.to_string(), level.to_string())).collect();
            let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
            let workload = WorkloadSpec::new(WorkloadKind::Tpcb, 1);
            let window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 };
            Case { levels, ..Case::new(server, workload, window) }
        };
        let of = |clients, scale| case(&[("workload.clients", clients), ("workload.scale", scale)]);
        assert_eq!(
            lacking(&results, &of("4", "32"), &[of("1", "20"), of("4", "20")]),
            "`b` has no case `4 clients, scale 32`; its `4 clients, scale 20` differs in workload.scale (32 and 20)"
        );
        assert_eq!(
            lacking(&results, &of("4", "32"), &[of("1", "20")]),
            "`b` has no case `4 clients, scale 32`"
        );
    }

    #[test]
    fn results_are_named_with_or_without_a_case() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a:b");
        std::fs::create_dir(&dir).unwrap();
        let text = dir.display().to_string();
        assert_eq!(StoredCase::parse(&text).unwrap(), StoredCase { dir: dir.clone(), case: None });
        assert_eq!(StoredCase::parse(&format!("{text}:12")).unwrap(), StoredCase { dir, case: Some(12) });
        assert!(StoredCase::parse("/nowhere/at/all").is_err());
    }
}
