//! Merges equal findings of many runs into one, with the runs it concerns.

use analysis::budget;
use analysis::finding::{Finding, Severity};
use analysis::findings::ROWS_ARE_SHARED;
use analysis::summary::uncertainty::PRECISION;
use analysis::summary::{CaseSummary, Study};

use crate::prose::phrases;

/// All occurrences of one entry of the catalogue in this study.
#[derive(Debug, Clone)]
pub(crate) struct FindingGroup<'a> {
    /// Identifier in the catalogue.
    pub(crate) id: &'static str,
    /// The most severe of all.
    pub(crate) severity: Severity,
    /// The occurrences, most severe and largest first.
    pub(crate) found: Vec<Occurrence<'a>>,
    /// Whether it can have changed the latency at a rate that was asked for, where latency is the result.
    pub(crate) delays: bool,
}

/// One occurrence of a finding.
#[derive(Debug, Clone)]
pub(crate) struct Occurrence<'a> {
    /// The run, case or experiment of the finding.
    pub(crate) about: About<'a>,
    pub(crate) finding: &'a Finding,
    /// Severity here.
    pub(crate) severity: Severity,
}

/// The subject of a finding.
#[derive(Debug, Clone)]
pub(crate) enum About<'a> {
    /// The experiment as a whole.
    Experiment,
    /// A case over its runs.
    Case(&'a CaseSummary),
    /// The comparison.
    Comparison,
    /// A single run: its number and the label of its case.
    Run(u32, String),
}

impl<'a> Occurrence<'a> {
    /// An occurrence with the finding's own severity.
    pub(crate) fn new(about: About<'a>, finding: &'a Finding) -> Occurrence<'a> {
        Occurrence { about, finding, severity: finding.severity }
    }
}

impl About<'_> {
    /// The subject: `run 7 (8 clients)`.
    pub(crate) fn words(&self) -> String {
        match self {
            About::Experiment => "the experiment".to_string(),
            About::Comparison => "the comparison".to_string(),
            About::Case(case) => case.label.clone(),
            About::Run(run, label) => format!("run {run} ({label})"),
        }
    }
}

/// Title of a finding: that of the catalogue, or the identifier as words.
pub(crate) fn title(id: &str) -> String {
    match analysis::findings::rule(id) {
        Some(rule) => rule.title.to_string(),
        None => phrases::capital(&phrases::of_id(id)),
    }
}

impl FindingGroup<'_> {
    /// Whether it is only a note, which reports fold away. That clients wait for each other's rows is none: it comes before what limits.
    /// Nor is what can have changed a run by more than a result is expected to be off: a reader asks which run, and by what.
    pub(crate) fn is_aside(&self) -> bool {
        self.severity == Severity::Note && !self.is_first() && !self.has_disturbed() && !self.delays
    }

    fn has_disturbed(&self) -> bool {
        let effects = self.found.iter().filter_map(|found| found.finding.effect);
        effects.map(|effect| effect.change()).any(|change| change > PRECISION)
    }

    fn is_first(&self) -> bool {
        self.id == ROWS_ARE_SHARED
    }

    /// Title of its findings.
    pub(crate) fn title(&self) -> String {
        title(self.id)
    }

    /// The occurrence that represents all: the most severe, and of those the one with the largest figure.
    pub(crate) fn example(&self) -> &Occurrence<'_> {
        &self.found[0]
    }

    /// Numbers of the runs concerned, in order.
    pub(crate) fn runs(&self) -> Vec<u32> {
        let mut runs: Vec<u32> = self
            .found
            .iter()
            .filter_map(|found| match found.about {
                About::Run(run, _) => Some(run),
                _ => None,
            })
            .collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// The scope, with the numbers of the runs unless it is all of them: `2 of 9 runs (4, 7)`.
    pub(crate) fn where_found(&self, n_runs: usize) -> String {
        let runs = self.runs();
        let scope = self.scope(n_runs);
        if runs.is_empty() || runs.len() == n_runs {
            scope
        } else {
            format!("{scope} ({})", phrases::ranges(&runs))
        }
    }

    /// The scope: `5 of 9 runs`, `2 cases`, `the experiment`.
    pub(crate) fn scope(&self, n_runs: usize) -> String {
        let runs = self.runs();
        if !runs.is_empty() {
            return match (runs.len(), n_runs) {
                (_, 1) => "the only run".to_string(),
                (n, all) if n == all => format!("all {all} runs"),
                (n, all) => format!("{n} of {all} runs"),
            };
        }
        let n_cases = self.found.iter().filter(|found| matches!(found.about, About::Case(_))).count();
        match n_cases {
            0 => self.example().about.words(),
            1 => format!("1 case ({})", self.example().about.words()),
            n => phrases::plural(n, "case"),
        }
    }
}

/// All findings of the study by identifier, the most severe and most frequent first.
pub(crate) fn findings(study: &Study) -> Vec<FindingGroup<'_>> {
    let label_of = |case: u32| {
        let of_case = study.cases.iter().find(|summary| summary.case.id == case);
        of_case.map_or_else(|| format!("case {case}"), |summary| summary.label.clone())
    };
    let whole = study.findings.iter().map(|finding| Occurrence::new(About::Experiment, finding));
    let of_cases = study.cases.iter().flat_map(|case| {
        case.findings.iter().map(move |finding| Occurrence::new(About::Case(case), finding))
    });
    let of_runs = study.runs.iter().flat_map(|run| {
        let label = label_of(run.case);
        // It does not affect the numbers: another attempt counts instead.
        let heaviest = if run.replaced_by.is_some() { Severity::Note } else { Severity::Void };
        run.findings.iter().map(move |finding| Occurrence {
            severity: finding.severity.min(heaviest),
            ..Occurrence::new(About::Run(run.run, label.clone()), finding)
        })
    });
    let mut groups: Vec<FindingGroup> = Vec::new();
    for found in whole.chain(of_cases).chain(of_runs) {
        match groups.iter_mut().find(|group| group.id == found.finding.id) {
            Some(group) => {
                group.severity = group.severity.max(found.severity);
                group.found.push(found);
            }
            None => groups.push(FindingGroup {
                id: found.finding.id,
                severity: found.severity,
                delays: has_delayed(study, found.finding.id),
                found: vec![found],
            }),
        }
    }
    for group in &mut groups {
        group.found.sort_by(|a, b| {
            let by_figure = first_figure(&b.finding.evidence).total_cmp(&first_figure(&a.finding.evidence));
            b.severity.cmp(&a.severity).then(by_figure)
        });
    }
    groups.sort_by(|a, b| {
        let by_weight = b.severity.cmp(&a.severity).then(b.found.len().cmp(&a.found.len()));
        b.is_first().cmp(&a.is_first()).then(by_weight)
    });
    groups
}

/// Whether what a finding is about can be more of the 99th percentile at a rate that was asked for than a result is expected to be off.
fn has_delayed(study: &Study, id: &str) -> bool {
    let Some(row) = budget::row_of_finding(id) else { return false };
    let tails = study
        .cases
        .iter()
        .filter(|case| case.has_given_rate())
        .filter_map(|case| case.uncertainty.as_ref()?.p99.as_ref());
    tails.flat_map(|known| &known.budget).any(|part| part.id == row.id && part.good_to() > PRECISION)
}

/// Why a case is not simply valid, in short: what casts doubt on it, most severe first, and which of its runs are left
/// out of its numbers.
pub(crate) fn reasons(study: &Study, case: &CaseSummary) -> Vec<String> {
    // Its verdict says all there is to say.
    if case.n_started == 0 {
        return Vec::new();
    }
    let of_case = || study.runs.iter().filter(|run| run.case == case.case.id);
    let counting: Vec<_> = of_case().filter(|run| run.counts()).collect();
    let mut doubts: Vec<(Severity, &'static str, usize)> = Vec::new();
    let own = case.findings.iter().map(|finding| (finding, counting.len()));
    let of_runs = counting.iter().flat_map(|run| run.findings.iter().map(|finding| (finding, 1)));
    for (finding, n) in own.chain(of_runs).filter(|(finding, _)| finding.severity > Severity::Note) {
        match doubts.iter_mut().find(|doubt| doubt.1 == finding.id) {
            Some(doubt) => {
                doubt.0 = doubt.0.max(finding.severity);
                doubt.2 += n;
            }
            None => doubts.push((finding.severity, finding.id, n)),
        }
    }
    doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.0));
    let in_words = |(_, id, n): (Severity, &str, usize)| match n {
        n if n >= counting.len() => phrases::of_id(id),
        n => format!("{} ({n} of {} runs)", phrases::of_id(id), counting.len()),
    };
    let mut reasons: Vec<String> = doubts.into_iter().map(in_words).collect();
    for run in of_case().filter(|run| !run.counts()) {
        reasons.push(match phrases::replaced(run) {
            Some(replaced) => format!("run {} {replaced}", run.run),
            None => format!("run {} left out ({})", run.run, phrases::why_not(run)),
        });
    }
    reasons
}

/// The first number in a sentence, only for choosing an example: its meaning depends on the finding.
fn first_figure(evidence: &str) -> f64 {
    let digits = evidence.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    digits
        .map(|part| part.replace(',', ""))
        .find_map(|part| part.trim_matches('.').parse::<f64>().ok())
        .unwrap_or(f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_figure_of_a_sentence_is_found() {
        for (evidence, expected) in [
            ("foreign CPU was 14.2 % of the host", 14.2),
            ("1,234 transactions failed", 1234.0),
            ("nothing was seen.", f64::NEG_INFINITY),
        ] {
            assert_eq!(first_figure(evidence), expected, "{evidence}");
        }
    }
}
