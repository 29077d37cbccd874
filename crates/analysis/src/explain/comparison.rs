//! Compares two cases, with their other differences and the findings of the rules.

use stats::Design;

use crate::budget;
use crate::comparison::{
    AppliedSide, CaseComparison, ComparedFigure, ComparedSide, ComparisonPurpose, CostComparison, Criteria,
    FigureComparison, OneSided, OutageComparison, Pairing, Ratio, Samples, ScriptComparison,
    StatementCriteria, StatementsCompared, Supplement, costs, differences, disturbed, figures_of, outages,
    scripts, statements, supplement,
};
use crate::finding::Grade;
use crate::findings::comparisons::sides;
use crate::findings::{self, ComparisonContext};

/// Compares each A with its B; `margin` is a share ([`MARGIN`]).
pub fn compare(sides: &[(ComparedSide, ComparedSide)], margin: f64) -> Vec<CaseComparison> {
    compare_for(ComparisonPurpose::Change, sides, margin)
}

/// Compares each case with its repetition elsewhere.
pub fn compare_repeat(sides: &[(ComparedSide, ComparedSide)], margin: f64) -> Vec<CaseComparison> {
    compare_for(ComparisonPurpose::Repeat, sides, margin)
}

fn compare_for(
    purpose: ComparisonPurpose,
    sides: &[(ComparedSide, ComparedSide)],
    margin: f64,
) -> Vec<CaseComparison> {
    let mut comparisons: Vec<CaseComparison> =
        sides.iter().map(|(a, b)| compare_case(*a, *b, purpose, margin)).collect();
    let p: Vec<f64> = comparisons.iter().map(|case| case.leading().map_or(1.0, |ratio| ratio.p)).collect();
    for (case, adjusted) in comparisons.iter_mut().zip(stats::holm(&p)) {
        let lead = case.lead;
        let leading = case.figures.iter_mut().find(|figure| figure.figure == lead);
        if let Some(ratio) = leading.and_then(|figure| figure.result.as_mut()) {
            ratio.p_adjusted = adjusted;
        }
    }
    costs::judge(comparisons.iter_mut().flat_map(|case| &mut case.costs));
    outages::judge(comparisons.iter_mut().flat_map(|case| &mut case.outages));
    scripts::judge(comparisons.iter_mut().map(|case| &mut case.scripts));
    statements::judge(comparisons.iter_mut().map(|case| &mut case.statements));
    comparisons
}

fn compare_case(a: ComparedSide, b: ComparedSide, purpose: ComparisonPurpose, margin: f64) -> CaseComparison {
    let is_one_experiment = std::ptr::eq(a.data, b.data);
    let pairing = if is_one_experiment { Pairing::Blocks } else { Pairing::None };
    let samples = if pairing.is_paired() {
        Samples::paired(a, b)
    } else {
        Samples { a: a.counting().collect(), b: b.counting().collect() }
    };
    let design = match a.data.plan.precision {
        Some(_) => Design::Sequential,
        None => Design::Fixed,
    };
    let one_sided = one_sided(a, b, pairing);
    let criteria = Criteria { design, margin, one_sided: &one_sided };
    let wanted = samples.a.first().map_or(&ComparedFigure::ALL[..], |run| figures_of(run));
    let figures = wanted.iter().map(|figure| samples.compare(*figure, pairing, criteria)).collect();
    let lead = lead(a);
    let (of_a, of_b) = samples.logs(lead, pairing);
    let n = [of_a.len(), of_b.len()];
    let supplement = match pairing {
        Pairing::Blocks => supplement::supplement(&samples.a, &samples.b, design),
        _ => Supplement::default(),
    };
    let without_figure = samples.without_figure();
    let costs = costs::compare(&samples, pairing, design);
    let outages = outages::compare(&samples, pairing, design);
    let scripts = scripts::compare(&samples, pairing, design, margin);
    let statements = statements::compare(&samples, StatementCriteria { pairing, design, margin });
    let pairs = Pairs {
        purpose,
        pairing,
        n,
        lead,
        without_figure,
        margin,
        carry_over: None,
        supplement,
        costs,
        outages,
        scripts,
        statements,
    };
    assemble(a, b, pairs, figures)
}

/// What the uncertainty's budgets bound of the findings that only one side's runs have.
pub(super) fn one_sided<'a>(a: ComparedSide<'a>, b: ComparedSide<'a>, pairing: Pairing) -> OneSided<'a> {
    if !disturbed::are_held(pairing) {
        return OneSided::default();
    }
    let found = sides::bounded_on_one_side([a, b], pairing);
    let mut rows: Vec<&str> =
        found.into_iter().filter_map(budget::row_of_finding).map(|row| row.id).collect();
    rows.sort_unstable();
    rows.dedup();
    OneSided::new(rows, [a, b])
}

/// The deciding figure: see [`CaseComparison::lead`].
pub(super) fn lead(a: ComparedSide) -> ComparedFigure {
    let pace = a.data.plan.case(a.case).map(|case| case.workload.pace);
    // The result of a search is a rate.
    if pace.is_some_and(|pace| pace.is_open() && pace.target().is_none()) {
        ComparedFigure::P99
    } else {
        ComparedFigure::Throughput
    }
}

/// See [`CaseComparison::more_with`].
fn more_with(a: ComparedSide, pairing: Pairing) -> &'static str {
    match pairing {
        Pairing::Slices | Pairing::Rounds | Pairing::RoundsApart => "--rounds",
        Pairing::Blocks if a.data.plan.is_comparison => "--pairs",
        Pairing::Blocks | Pairing::None => "--repeats",
    }
}

/// The pairs of a comparison, and how they were formed.
pub(super) struct Pairs {
    pub(super) purpose: ComparisonPurpose,
    pub(super) pairing: Pairing,
    /// Pairs with the deciding figure, twice; runs of A and of B that have it, if they are not paired.
    pub(super) n: [usize; 2],
    /// See [`CaseComparison::lead`].
    pub(super) lead: ComparedFigure,
    /// Runs that count but lack a figure.
    pub(super) without_figure: Vec<u32>,
    pub(super) margin: f64,
    /// See [`CaseComparison::carry_over`].
    pub(super) carry_over: Option<Ratio>,
    pub(super) supplement: Supplement,
    pub(super) costs: Vec<CostComparison>,
    pub(super) outages: Vec<OutageComparison>,
    pub(super) scripts: Vec<ScriptComparison>,
    pub(super) statements: StatementsCompared,
}

/// A comparison of these figures, with other differences and findings.
pub(super) fn assemble(
    a: ComparedSide,
    b: ComparedSide,
    pairs: Pairs,
    figures: Vec<FigureComparison>,
) -> CaseComparison {
    let Pairs {
        purpose,
        pairing,
        n,
        lead,
        without_figure,
        margin,
        carry_over,
        supplement,
        costs,
        outages,
        scripts,
        statements,
    } = pairs;
    let differences::Differences { declared, defaults, undeclared } = differences::between(a, b, purpose);
    let context = ComparisonContext {
        a,
        b,
        purpose,
        pairing,
        n,
        without_figure: &without_figure,
        margin,
        carry_over,
        undeclared: &undeclared,
    };
    let findings = findings::of_comparison(&context);
    CaseComparison {
        purpose,
        a: a.label(),
        b: b.label(),
        pairing,
        n_pairs: n[0].min(n[1]),
        margin,
        is_analytical: a.counting().chain(b.counting()).any(|run| run.analytical.is_some()),
        lead,
        more_with: more_with(a, pairing),
        figures,
        costs,
        outages,
        scripts,
        statements,
        applied: [a, b].map(AppliedSide::find),
        carry_over,
        supplement,
        declared,
        defaults,
        undeclared,
        disturbed: disturbed::of_sides([a, b]),
        grade: Grade::from_findings(&findings),
        findings,
    }
}
