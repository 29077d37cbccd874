//! The statements of a comparison: a table, and the sum of what they add to the mean transaction as a waterfall.

use analysis::comparison::{CaseComparison, StatementComparison, TimePart};
use model::text::prose::brief_hash;

use super::FoldedTable;
use crate::comparison;
use crate::html::escape::escape_html;
use crate::prose::phrases;
use crate::prose::statements::compared as prose;

/// The table, of which all but the first rows are folded, and the waterfall; empty if there are not several statements.
pub(crate) fn compared(case: &CaseComparison) -> String {
    if case.statements.is_empty() {
        return String::new();
    }
    let rows = FoldedTable {
        what: prose::WHAT,
        heads: prose::heads(&comparison::medians(case.purpose), &comparison::ratio_head(case.purpose)),
        rows: prose::table_of(case, usize::MAX),
        n_open: prose::ROWS_MAX,
        folded: prose::left_out(case, prose::ROWS_MAX),
    };
    rows.html() + &waterfall(case) + &plans(case)
}

/// Plans that differ, side by side.
fn plans(case: &CaseComparison) -> String {
    let names = case.purpose.names();
    let of_one = |one: &StatementComparison| {
        let plans = one.plans.as_ref().filter(|plans| !plans.are_same())?;
        let side = |name: &str, hash: &str, lines: &[String]| {
            let lines = lines.iter().map(|line| escape_html(line)).collect::<Vec<String>>().join("\n");
            format!(
                "<div><h4>{name} <code>{}</code></h4><pre>{lines}</pre></div>",
                escape_html(brief_hash(hash))
            )
        };
        Some(format!(
            "<details class=\"fold\"><summary>Plans of {}</summary><div class=\"plans\">{}{}</div></details>\n",
            escape_html(&prose::name(one, prose::has_scripts(case))),
            side(names[0], &plans.a_hash, &plans.a),
            side(names[1], &plans.b_hash, &plans.b)
        ))
    };
    case.statements.all.iter().filter_map(of_one).take(PLANS_MAX).collect()
}

/// Most statements whose plans are shown.
const PLANS_MAX: usize = 50;

/// The sum, a bar for each part that begins where the one above it ends.
fn waterfall(case: &CaseComparison) -> String {
    let (steps, Some(whole)) = (prose::steps(case), prose::whole(case)) else { return String::new() };
    let mut at = 0.0;
    let bars: Vec<Bar> = steps
        .iter()
        .map(|step| {
            let from = if step.is_sum { 0.0 } else { at };
            at = from + step.part.ns;
            Bar { from, part: step.part }
        })
        .collect();
    let scale = Scale::around(&bars);
    let row = |(step, bar): (&prose::Step, &Bar)| {
        format!(
            "<tr{}><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
            if step.is_sum { " class=\"sum\"" } else { "" },
            escape_html(&step.name),
            scale.bar(bar),
            escape_html(&prose::with_interval(&step.part))
        )
    };
    let rows: String = steps.iter().zip(&bars).map(row).collect();
    format!(
        "<figure class=\"waterfall\"><figcaption><strong>What each statement adds</strong> {}</figcaption><table class=\"bars\" aria-label=\"{}\"><colgroup>\
         <col class=\"name\"><col><col class=\"part\"></colgroup><tbody>\n{rows}</tbody></table></figure>\n",
        escape_html(&format!("{}; {}", phrases::capital(&whole), prose::SUM)),
        escape_html(prose::SUM),
    )
}

/// A part that begins at `from`, nanoseconds.
struct Bar {
    from: f64,
    part: TimePart,
}

impl Bar {
    /// All places that are drawn.
    fn places(&self) -> impl Iterator<Item = f64> {
        let ends = [self.part.low_ns, self.part.high_ns].into_iter().flatten();
        let ends: Vec<f64> = ends.map(|end| self.from + end).collect();
        [self.from, self.from + self.part.ns].into_iter().chain(ends)
    }
}

/// From nanoseconds to per cent of the width.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(bars: &[Bar]) -> Scale {
        let places = || bars.iter().flat_map(Bar::places).chain([0.0]);
        let (low, high) = (places().fold(0.0, f64::min), places().fold(0.0, f64::max));
        let room = 0.02 * (high - low).max(1.0);
        Scale { low: low - room, high: high + room }
    }

    fn x(&self, ns: f64) -> f64 {
        (100.0 * (ns - self.low) / (self.high - self.low)).clamp(0.0, 100.0)
    }

    fn bar(&self, bar: &Bar) -> String {
        let [from, to, zero] = [bar.from, bar.from + bar.part.ns, 0.0].map(|ns| self.x(ns));
        let class = if bar.part.ns > 0.0 { "more" } else { "less" };
        let interval = match (bar.part.low_ns, bar.part.high_ns) {
            (Some(low), Some(high)) => {
                let [low, high] = [low, high].map(|end| self.x(bar.from + end));
                format!("<line x1=\"{low:.2}\" x2=\"{high:.2}\" y1=\"5\" y2=\"5\"/>")
            }
            _ => String::new(),
        };
        format!(
            "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"{class}\" \
             x=\"{:.2}\" width=\"{:.2}\" height=\"10\"/><line class=\"zero\" x1=\"{zero:.2}\" x2=\"{zero:.2}\" y1=\"0\" y2=\"10\"/>{interval}</svg>",
            from.min(to),
            (to - from).abs().max(0.15)
        )
    }
}
