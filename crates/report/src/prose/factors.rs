//! Effects of factors on throughput, as rows of text: cases in per cent of a baseline, and cost of transactions.

use analysis::case::factors;
use analysis::summary::{CaseSummary, Study};

use crate::axis;
use crate::prose::format;

/// A row about one case.
pub(crate) struct Row<'a, const N: usize> {
    pub(crate) case: &'a CaseSummary,
    /// The cells after the case's name, as plain text.
    pub(crate) cells: [String; N],
}

/// Cases against a baseline.
pub(crate) struct Against<'a> {
    /// What is compared: NOPM, or median transactions per second.
    pub(crate) what: &'static str,
    /// Description of the baseline.
    pub(crate) of: String,
    /// For each case: the score, per cent of the baseline, and the difference.
    pub(crate) rows: Vec<Row<'a, 3>>,
}

/// Heads of [`money`], after that of the case.
pub(crate) const MONEY_HEADS: [&str; 3] = ["Price of an hour", "Transactions per unit of money", "Target"];

/// Each case against the baseline; `None` without one.
pub(crate) fn against(study: &Study) -> Option<Against<'_>> {
    let baseline = factors::baseline(study)?;
    let is_tpcc = study.cases.iter().any(|case| case.tpcc.is_some());
    let row = |case| {
        let score = factors::score(case).map_or("-".to_string(), format::tps);
        let base = factors::counterpart(study, baseline, case);
        let percent = base.and_then(|base| factors::percent_of(case, base));
        let difference = match percent {
            _ if base.is_some_and(|base| case.case.id == base.case.id) => "baseline".to_string(),
            Some(percent) => signed(percent - 100.0),
            None => "-".to_string(),
        };
        let percent = percent.map_or("-".to_string(), |percent| format!("{percent:.1} %"));
        Row { case, cells: [score, percent, difference] }
    };
    let chosen = factors::chosen(study)
        .iter()
        .filter_map(|key| Some(format!("{} {}", axis::factor_words(key), baseline.case.levels.get(key)?)));
    let chosen: Vec<String> = chosen.collect();
    let why = match study.plan.baseline {
        0 => ", because the experiment names no baseline",
        _ => "",
    };
    let of = match chosen.as_slice() {
        [] => baseline.label.clone(),
        chosen => format!("the case with {} and otherwise the same levels{why}", chosen.join(", ")),
    };
    let what = if is_tpcc { "NOPM" } else { "Median tps" };
    Some(Against { what, of, rows: study.cases.iter().map(row).collect() })
}

fn signed(percent: f64) -> String {
    format!("{}{:.1} %", if percent < 0.0 { "\u{2212}" } else { "+" }, percent.abs())
}

/// Transactions per unit of money, if prices are given.
pub(crate) fn money(study: &Study) -> Vec<Row<'_, 3>> {
    let row = |case| {
        let (transactions, currency) = factors::per_money(case)?;
        let target = case.case.server.target.as_ref()?;
        let price = format!("{} {currency}", target.price_per_hour?);
        let labels: Vec<String> =
            target.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
        Some(Row { case, cells: [price, format::tps(transactions), labels.join(", ")] })
    };
    study.cases.iter().filter_map(row).collect()
}
