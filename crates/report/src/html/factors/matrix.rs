//! Two numeric factors: a matrix with a figure in each cell, bars grouped by one, and progressions along the other.

use analysis::summary::Study;
use model::text::prose::shown;
use serde::Serialize;

use super::super::escape::escape_html;
use super::super::{ChartFigure, thinning};
use crate::axis::colour::{self, Colour};
use crate::axis::pair::{self, Cell, Pair};
use crate::prose::{format, phrases};

/// Steps of a cell's colour.
pub(crate) const HEAT_STEPS: usize = 9;
/// More combinations of the other factors than this are in the table of cases only.
const OTHERS_MAX: usize = 6;
/// More small charts than this give no overview.
const PANELS_MAX: usize = 16;

/// A pair of factors for its charts.
#[derive(Debug, Serialize)]
pub(in crate::html) struct PairData {
    across: NumericData,
    along: NumericData,
    /// Names and colours of the combinations of all other factors.
    others: Vec<(String, String)>,
    cells: Vec<CellData>,
}

#[derive(Debug, Serialize)]
struct NumericData {
    title: String,
    levels: Vec<String>,
    /// Colours of the levels.
    colours: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CellData {
    case: u32,
    across: usize,
    along: usize,
    other: usize,
    tps: f64,
}

/// The data of the charts.
pub(in crate::html) fn data(study: &Study) -> Option<PairData> {
    let Pair { across, along, others, cells } = pair::from_study(study)?;
    let classes =
        |n: usize, is_ordered: bool| colour::of_levels(n, is_ordered).into_iter().map(Colour::class);
    let numeric = |factor: pair::Numeric| NumericData {
        colours: classes(factor.levels.len(), true).collect(),
        title: factor.title,
        levels: factor.levels,
    };
    let colours = classes(others.len(), false);
    let cell = |cell: &Cell| CellData {
        case: cell.case,
        across: cell.across,
        along: cell.along,
        other: cell.other,
        tps: thinning::rounded(cell.tps).unwrap_or(cell.tps),
    };
    Some(PairData {
        across: numeric(across),
        along: numeric(along),
        cells: cells.iter().map(cell).collect(),
        others: others.into_iter().zip(colours).collect(),
    })
}

/// The matrices and the places of the charts.
pub(super) fn section(pair: &Pair) -> String {
    let (across, along) = (&pair.across, &pair.along);
    let mut html = format!(
        "<h3>{} and {}</h3>",
        escape_html(&phrases::capital(&across.title)),
        escape_html(&along.title)
    );
    if pair.others.len() <= OTHERS_MAX {
        let scale = Scale::from_cells(&pair.cells);
        html.push_str("<div class=\"pairs\">");
        (0..pair.others.len()).for_each(|other| html.push_str(&matrix(pair, other, &scale)));
        html.push_str("</div>\n");
        for (other, name) in pair.others.iter().enumerate() {
            let title = format!("Throughput by {} and {}", across.title, along.title);
            let note = format!("tps, one bar for each level of {}{}", along.title, after_comma(name));
            let id = format!("pairbars-{other}");
            html.push_str(
                &ChartFigure { id: &id, title: &title, note: &note, height: "mid", table: "" }.html(),
            );
        }
    }
    if across.levels.len() <= PANELS_MAX && along.levels.len() > 2 {
        html.push_str("<div class=\"trio\">");
        for (n, level) in across.levels.iter().enumerate() {
            let (id, title) = (format!("progress-{n}"), level_words(&across.title, level));
            let note = format!("tps by {}", along.title);
            html.push_str(
                &ChartFigure { id: &id, title: &title, note: &note, height: "mid", table: "" }.html(),
            );
        }
        html.push_str("</div>\n");
    }
    html
}

/// A level as a title: `1 client`, `scale 10`.
fn level_words(title: &str, level: &str) -> String {
    match title {
        "clients" => phrases::plural(level, "client"),
        title => format!("{title} {}", shown(level)),
    }
}

fn after_comma(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {name}") }
}

/// From the lowest to the highest figure of all matrices.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn from_cells(cells: &[Cell]) -> Scale {
        let tps = || cells.iter().map(|cell| cell.tps);
        Scale { low: tps().fold(f64::INFINITY, f64::min), high: tps().fold(0.0, f64::max) }
    }

    /// The step of a figure's colour.
    fn step(&self, tps: f64) -> usize {
        let share = if self.high > self.low { (tps - self.low) / (self.high - self.low) } else { 0.0 };
        ((share * HEAT_STEPS as f64) as usize).min(HEAT_STEPS - 1)
    }
}

/// A table that is a heat map; the factor with more levels goes down, which fits narrow screens.
fn matrix(pair: &Pair, other: usize, scale: &Scale) -> String {
    let turned = pair.along.levels.len() >= pair.across.levels.len();
    let (down, right) = if turned { (&pair.along, &pair.across) } else { (&pair.across, &pair.along) };
    let cell_at = |row: usize, column: usize| {
        pair.cells.iter().find(|cell| {
            let place = if turned { (cell.along, cell.across) } else { (cell.across, cell.along) };
            cell.other == other && place == (row, column)
        })
    };
    let heads: String =
        right.levels.iter().map(|level| format!("<th scope=\"col\">{}</th>", escape_html(level))).collect();
    let mut rows = String::new();
    for (row, level) in down.levels.iter().enumerate() {
        rows.push_str(&format!("<tr><th scope=\"row\">{}</th>", escape_html(level)));
        for column in 0..right.levels.len() {
            match cell_at(row, column) {
                None => rows.push_str("<td class=\"none\">-</td>"),
                Some(Cell { tps, .. }) => {
                    let class =
                        format!("h{}{}", scale.step(*tps), if *tps >= scale.high { " most" } else { "" });
                    rows.push_str(&format!("<td class=\"{class}\">{}</td>", format::tps(*tps)));
                }
            }
        }
        rows.push_str("</tr>\n");
    }
    let name = &pair.others[other];
    let title = if name.is_empty() { "Median throughput" } else { name };
    format!(
        "<figure><figcaption><strong>{0}</strong> <span class=\"note\">tps; down: {1}, right: {2}; the stronger the colour, the more; bold: \
         the most</span></figcaption><div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><table aria-label=\"{0}\" class=\"matrix\">\
         <thead><tr><th scope=\"col\">{1}</th>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div></figure>\n",
        escape_html(title),
        escape_html(&down.title),
        escape_html(&right.title),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_coloured_by_its_share_of_the_scale() {
        let cells = [100.0, 550.0, 1000.0].map(|tps| Cell { case: 1, across: 0, along: 0, other: 0, tps });
        let scale = Scale::from_cells(&cells);
        let steps: Vec<usize> =
            [100.0, 199.0, 201.0, 550.0, 999.0, 1000.0].map(|tps| scale.step(tps)).to_vec();
        assert_eq!(steps, [0, 0, 1, 4, 8, 8]);
        assert_eq!(Scale::from_cells(&cells[..1]).step(100.0), 0, "equal figures have one colour");
    }
}
