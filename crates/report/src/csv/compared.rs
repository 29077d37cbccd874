//! One row per compared figure: throughput and latency, what a transaction costs, how long each script's take.

use analysis::comparison::{
    CaseComparison, ComparisonVerdict, FamilyRatio, FamilyVerdict, FigureComparison, PlanChange,
    StatementComparison, TimePart,
};

use super::{line, number};
use crate::prose::scripts::queries;

const HEADS: [&str; 18] = [
    "a",
    "b",
    "kind",
    "name",
    "unit",
    "a_median",
    "b_median",
    "n_pairs",
    "ratio",
    "low",
    "high",
    "p",
    "p_adjusted",
    "detectable",
    "verdict",
    "share",
    "part",
    "plan",
];

/// The whole table of these comparisons.
pub(crate) fn table(cases: &[CaseComparison]) -> String {
    let mut text = String::new();
    line(&mut text, HEADS.into_iter());
    for case in cases {
        let figures = case.figures.iter().map(|figure| of_figure(case, figure));
        for row in figures.chain(of_outages(case)).chain(of_costs(case)).chain(of_scripts(case)) {
            let cells = [vec![case.a.clone(), case.b.clone()], row].concat();
            line(&mut text, cells.iter().map(String::as_str));
        }
    }
    text
}

/// Columns of a statement after A and B.
const STATEMENT_HEADS: [&str; 28] = [
    "kind",
    "script",
    "index",
    "statement",
    "verdict",
    "share",
    "executions_a",
    "executions_b",
    "calls_a",
    "calls_b",
    "mean_a_ns",
    "mean_b_ns",
    "n_pairs",
    "ratio",
    "low",
    "high",
    "p",
    "p_adjusted",
    "q",
    "detectable",
    "part_ns",
    "part_low_ns",
    "part_high_ns",
    "rows_a",
    "rows_b",
    "rows_differ",
    "failed_a",
    "failed_b",
];

/// One row per statement, and one for each other part of the sum, so that `part_ns` of each comparison adds up to that of `transaction`.
pub(crate) fn statements(cases: &[CaseComparison]) -> String {
    let mut text = String::new();
    line(&mut text, ["a", "b"].into_iter().chain(STATEMENT_HEADS));
    for case in cases {
        let parts = case.statements.sum.iter().flat_map(|sum| {
            [("calls", sum.calls), ("between", sum.between), ("transaction", sum.difference)]
        });
        let rows =
            case.statements.all.iter().map(of_statement).chain(parts.map(|(kind, part)| of_part(kind, part)));
        for row in rows {
            let cells = [vec![case.a.clone(), case.b.clone()], row].concat();
            line(&mut text, cells.iter().map(String::as_str));
        }
    }
    text
}

fn of_part(kind: &str, part: TimePart) -> Vec<String> {
    let cell = |head: &str| match head {
        "kind" => kind.to_string(),
        "part_ns" => number(Some(part.ns)),
        "part_low_ns" => number(part.low_ns),
        "part_high_ns" => number(part.high_ns),
        _ => String::new(),
    };
    STATEMENT_HEADS.into_iter().map(cell).collect()
}

fn of_statement(one: &StatementComparison) -> Vec<String> {
    let of = |value: fn(&FamilyRatio) -> Option<f64>| number(one.result.as_ref().and_then(value));
    let each = |values: [f64; 2]| values.map(|value| number(Some(value)));
    let ([calls_a, calls_b], [failed_a, failed_b]) = (each(one.calls), each(one.failed));
    let [rows_a, rows_b] = one.rows.map(number);
    let [executions_a, executions_b] = one.executions.map(|n| n.to_string());
    vec![
        "statement".to_string(),
        one.script.clone(),
        one.index.to_string(),
        one.statement.clone(),
        one.verdict.as_str().to_string(),
        number(Some(one.share)),
        executions_a,
        executions_b,
        calls_a,
        calls_b,
        number(one.a_median_ns),
        number(one.b_median_ns),
        one.n_pairs.to_string(),
        of(|ratio| Some(ratio.ratio)),
        of(|ratio| Some(ratio.low)),
        of(|ratio| Some(ratio.high)),
        of(|ratio| Some(ratio.p)),
        of(|ratio| Some(ratio.p_adjusted)),
        number(one.q),
        of(|ratio| ratio.detectable),
        number(Some(one.part.ns)),
        number(one.part.low_ns),
        number(one.part.high_ns),
        rows_a,
        rows_b,
        one.rows_differ.to_string(),
        failed_a,
        failed_b,
    ]
}

/// What a figure is, its medians and pairs, and its ratio, each in its columns.
struct ComparedCells<'a> {
    kind: &'a str,
    name: &'a str,
    unit: &'a str,
    medians: [Option<f64>; 2],
    n_pairs: usize,
    ratio: Option<FamilyRatio>,
    verdict: &'a str,
    /// Its part in the mix, and in the difference of the mean transaction; of scripts.
    parts: [Option<f64>; 2],
    /// Whether B's plan is another one; of queries.
    plan: Option<PlanChange>,
}

impl ComparedCells<'_> {
    fn row(self) -> Vec<String> {
        let of = |value: fn(&FamilyRatio) -> Option<f64>| number(self.ratio.as_ref().and_then(value));
        let [a, b] = self.medians.map(number);
        let [share, part] = self.parts.map(number);
        let texts = [self.kind, self.name, self.unit].map(str::to_string);
        let numbers = [
            a,
            b,
            self.n_pairs.to_string(),
            of(|ratio| Some(ratio.ratio)),
            of(|ratio| Some(ratio.low)),
            of(|ratio| Some(ratio.high)),
            of(|ratio| Some(ratio.p)),
            of(|ratio| Some(ratio.p_adjusted)),
            of(|ratio| ratio.detectable),
            self.verdict.to_string(),
            share,
            part,
            self.plan.map_or(String::new(), |plan| plan.as_str().to_string()),
        ];
        texts.into_iter().chain(numbers).collect()
    }
}

fn of_figure(case: &CaseComparison, figure: &FigureComparison) -> Vec<String> {
    let ratio = figure.result.map(|found| FamilyRatio {
        ratio: found.ratio,
        low: found.low,
        high: found.high,
        p: found.p,
        p_adjusted: found.p_adjusted,
        detectable: found.detectable,
    });
    let is_lead = figure.figure == case.lead;
    let verdict = if is_lead { case.verdict() } else { figure.result.map(|found| found.verdict) };
    let cells = ComparedCells {
        kind: "figure",
        name: figure.figure.as_str(),
        unit: if case.is_analytical { queries::UNIT } else { figure.figure.unit() },
        medians: [figure.a_median, figure.b_median],
        n_pairs: figure.sample.a.len().min(figure.sample.b.len()),
        ratio,
        verdict: verdict.map_or("", ComparisonVerdict::as_str),
        parts: [None; 2],
        plan: None,
    };
    cells.row()
}

fn of_outages(case: &CaseComparison) -> impl Iterator<Item = Vec<String>> {
    case.outages.iter().map(|one| {
        let cells = ComparedCells {
            kind: "outage",
            name: one.figure.as_str(),
            unit: "s",
            medians: [Some(one.a_median_s), Some(one.b_median_s)],
            n_pairs: one.n_pairs,
            ratio: one.result,
            verdict: one.verdict.map_or("", FamilyVerdict::as_str),
            parts: [None; 2],
            plan: None,
        };
        cells.row()
    })
}

fn of_costs(case: &CaseComparison) -> impl Iterator<Item = Vec<String>> {
    case.costs.iter().map(|cost| {
        let cells = ComparedCells {
            kind: "cost",
            name: cost.id,
            unit: cost.row().map_or("", |row| row.unit.as_str()),
            medians: [Some(cost.a_median), Some(cost.b_median)],
            n_pairs: cost.n_pairs,
            ratio: cost.result,
            verdict: cost.verdict.map_or("", FamilyVerdict::as_str),
            parts: [None; 2],
            plan: None,
        };
        cells.row()
    })
}

fn of_scripts(case: &CaseComparison) -> impl Iterator<Item = Vec<String>> {
    case.scripts.iter().map(|script| {
        let cells = ComparedCells {
            kind: "script",
            name: &script.name,
            unit: "ns",
            medians: [script.a_median_ns, script.b_median_ns],
            n_pairs: script.n_pairs,
            ratio: script.result,
            verdict: script.verdict.map_or("", FamilyVerdict::as_str),
            parts: [Some(script.share), Some(script.part_ns)],
            plan: script.plan,
        };
        cells.row()
    })
}
