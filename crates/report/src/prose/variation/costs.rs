//! What a transaction costs, in words: `212 µs ±1 %`, `B writes 12.4 % (±0.3) more WAL`.

use analysis::comparison::{CaseComparison, CostComparison, FamilyVerdict};
use analysis::cost::{self, CostRow, CostUnit};
use analysis::history::CostChange;
use analysis::summary::cost::CaseCost;
use analysis::summary::{CaseSummary, Study};
use model::experiment::keys;
use model::text::prose::joined;

use crate::prose::variation::uncertainty;
use crate::prose::{format, ratio};

/// What all of them are blind to, for below a table.
pub(crate) const BLIND: &str =
    "per committed transaction; costs say nothing of waiting, contention and the time of reads and writes";
/// The same of a comparison.
pub(crate) const BLIND_COMPARED: &str = "per committed transaction, WAL and images over equally many of them; costs say nothing of waiting, \
                                         contention and the time of reads and writes";
/// With more cases than this, only the page shows what transactions cost.
const CASES_MAX: usize = 8;

/// A cost with its unit: `212 µs`, `1.24 KiB`, `0.123`.
fn value(row: &CostRow, value: f64) -> String {
    match row.unit {
        CostUnit::Microseconds => format!("{} µs", format::significant(value)),
        CostUnit::Bytes if value < 1024.0 => format!("{} B", format::significant(value)),
        CostUnit::Bytes => format::bytes(value),
        CostUnit::Count => format::significant(value),
    }
}

/// The costs that any case has to a degree that somebody asks for, in the order of tables.
pub(crate) fn rows(study: &Study) -> Vec<&'static CostRow> {
    let is_known = |row: &&CostRow| {
        let of_row = |case: &CaseSummary| case.costs.iter().any(|c| c.id == row.id && c.median >= row.least);
        study.cases.iter().any(of_row)
    };
    cost::COSTS.iter().filter(is_known).collect()
}

/// A cost of a case with its range: `212 µs ±1 %`; a dash if it is unknown.
pub(crate) fn cell(row: &CostRow, case: &CaseSummary) -> String {
    let of_case = case.costs.iter().find(|known| known.id == row.id);
    of_case.map_or_else(|| "-".to_string(), |known| with_range(row, known))
}

fn with_range(row: &CostRow, known: &CaseCost) -> String {
    let shown = value(row, known.median);
    match known.good_to() {
        Some(share) if known.median >= row.least => format!("{shown} {}", uncertainty::plus_minus(share)),
        _ => shown,
    }
}

/// One line per case for a terminal: `16 clients: 212 µs ±1 % processor time, …`; none of many cases.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    if study.cases.len() > CASES_MAX {
        return Vec::new();
    }
    let of_case = |case: &CaseSummary| {
        let known = case.costs.iter().filter_map(|known| Some((cost::row(known.id)?, known)));
        let asked = known.filter(|(row, known)| known.median >= row.least);
        let parts: Vec<String> =
            asked.map(|(row, known)| format!("{} {}", row.title, with_range(row, known))).collect();
        (!parts.is_empty())
            .then(|| format!("{}: {}", super::phrases::one_line(&case.label), parts.join(", ")))
    };
    study.cases.iter().filter_map(of_case).collect()
}

/// Whether the cases are few, and one costs so much more than another that no noise explains it: beyond both ranges, and by a tenth.
pub(crate) fn differ(study: &Study) -> bool {
    let ends = |case: &CaseSummary, id: &str| {
        let known = case.costs.iter().find(|known| known.id == id)?;
        let row = cost::row(known.id)?;
        let good_to = known.good_to()?;
        let ends = [known.median / (1.0 + good_to), known.median * (1.0 + good_to)];
        // Next to nothing counts as the least that somebody asks for.
        Some(if known.median >= row.least { ends } else { [row.least; 2] })
    };
    let is_apart = |row: &cost::CostRow| {
        let all: Vec<[f64; 2]> = study.cases.iter().filter_map(|case| ends(case, row.id)).collect();
        let lowest = all.iter().map(|[_, high]| *high).fold(f64::INFINITY, f64::min);
        let highest = all.iter().map(|[low, _]| *low).fold(0.0, f64::max);
        highest > 1.1 * lowest
    };
    // More clients share flushes and images: nobody asks for that.
    const OF_THE_LOAD: [&str; 2] = [keys::workload::CLIENTS.name, keys::workload::PACE.name];
    let asks = study.plan.factors.iter().any(|key| !OF_THE_LOAD.contains(&key.as_str()));
    asks && study.cases.len() <= CASES_MAX && cost::COSTS.iter().any(is_apart)
}

/// The costs of a comparison that somebody asks for.
fn shown(case: &CaseComparison) -> impl Iterator<Item = &CostComparison> {
    case.costs.iter().filter(|compared| !compared.is_negligible())
}

/// Rows of a comparison's table.
pub(crate) fn table_of(case: &CaseComparison) -> Vec<[String; 5]> {
    shown(case).filter_map(cells).collect()
}

/// A row of a comparison's table: title, A's and B's median, change, and a verdict in a word.
fn cells(compared: &CostComparison) -> Option<[String; 5]> {
    let row = compared.row()?;
    let [a, b] = [compared.a_median, compared.b_median].map(|median| value(row, median));
    let [change, verdict] = change(compared);
    Some([row.title.to_string(), a, b, change, verdict])
}

/// `+12.4 % (+12.1 to +12.7 %)`, and a verdict in a word.
fn change(compared: &CostComparison) -> [String; 2] {
    let Some(found) = &compared.result else { return ["-".to_string(), "no verdict".to_string()] };
    let word = match compared.verdict {
        Some(FamilyVerdict::More) => "more".to_string(),
        Some(FamilyVerdict::Less) => "less".to_string(),
        other => ratio::undecided(other, compared.margin),
    };
    // A multiple of next to nothing is no figure.
    if let Some(row) = compared.row()
        && compared.a_median.min(compared.b_median) < row.least
    {
        let words = if compared.a_median < row.least { "from next to nothing" } else { "to next to nothing" };
        return [words.to_string(), word];
    }
    [ratio::of_family(found), word]
}

/// See [`crate::cost_change`].
pub(crate) fn level_change(change: &CostChange) -> String {
    let Some(row) = change.row() else { return String::new() };
    let [before, after] = [change.before, change.after].map(|level| value(row, level));
    let size = match change.before {
        before if before > 0.0 => format::signed(change.after / before - 1.0),
        _ => "none before".to_string(),
    };
    let first = &change.first_after;
    format!(
        "{} {before} to {after} per transaction ({size}, p = {:.1e}), from run {} of {} on",
        row.title, change.p, first.run, first.experiment
    )
}

/// `per transaction, B needs 3.1 % (±0.4) more processor time and writes 12.4 % (±0.3) more WAL`; `None` if no cost differs for sure.
pub(crate) fn sentence(case: &CaseComparison) -> Option<String> {
    let [_, b] = case.purpose.names();
    let parts: Vec<String> = shown(case).filter_map(|compared| part(compared, compared.verdict?)).collect();
    (!parts.is_empty()).then(|| format!("per transaction, {b} {}", joined(&parts)))
}

/// `writes 12.4 % (±0.3) more WAL`; `None` if it does not differ for sure.
pub(crate) fn part(compared: &CostComparison, verdict: FamilyVerdict) -> Option<String> {
    let direction = match verdict {
        FamilyVerdict::More => "more",
        FamilyVerdict::Less => "less",
        FamilyVerdict::Same | FamilyVerdict::Unsure => return None,
    };
    let (row, found) = compared.row().zip(compared.result)?;
    if compared.a_median < row.least {
        let b = value(row, compared.b_median);
        return Some(format!("{} {} where there was next to none ({b})", row.verb, row.noun));
    }
    if compared.b_median < row.least {
        let a = value(row, compared.a_median);
        return Some(format!("{} next to no {} where there was some ({a})", row.verb, row.noun));
    }
    let direction = match (direction, row.is_counted()) {
        ("less", true) => "fewer",
        (word, _) => word,
    };
    Some(format!("{} {} {direction} {}", row.verb, ratio::size(&found), row.noun))
}
