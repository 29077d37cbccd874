//! Effects of factors on throughput, as rows of text: cases in per cent of a baseline, and cost of transactions.

use analysis::case::factors::{self, Counterparts};
use analysis::case::money as prices;
use analysis::summary::{CaseSummary, Study};
use model::experiment::keys;
use model::experiment::target::LABEL;
use model::text::prose::shown;

use crate::axis;
use crate::prose::{counters, format};

/// A row about one case.
pub(crate) struct CaseRow<'a, const N: usize> {
    pub(crate) case: &'a CaseSummary,
    /// The cells after the case's name, as plain text.
    pub(crate) cells: [String; N],
}

/// Cases against a baseline.
pub(crate) struct AgainstBaseline<'a> {
    /// What is compared: NOPM, or median transactions per second.
    pub(crate) what: &'static str,
    /// Description of the baseline.
    pub(crate) of: String,
    /// For each case: the score, per cent of the baseline, the difference, and the name of the baseline.
    pub(crate) rows: Vec<CaseRow<'a, 4>>,
    /// For each case its instructions per cycle, and these in per cent of the baseline's; empty where no case has any.
    pub(crate) ipc: Vec<[String; 2]>,
}

/// Heads of [`money`], after that of the case.
pub(crate) const MONEY_HEADS: [&str; 6] = [
    "Price of an hour",
    "Price of a month",
    "Median tps",
    "Transactions per unit of money",
    "Cost of a million",
    "Target",
];

/// Each case against the baseline; `None` without one.
pub(crate) fn against(study: &Study) -> Option<AgainstBaseline<'_>> {
    let baseline = factors::baseline(study)?;
    let is_tpcc = study.cases.iter().any(|case| case.tpcc.is_some());
    let counterparts = Counterparts::new(study, baseline);
    let row = |case| {
        let score = factors::score(case).map_or("-".to_string(), format::tps);
        let base = counterparts.of(case);
        let percent = base.and_then(|base| factors::percent_of(case, base));
        let difference = match percent {
            _ if base.is_some_and(|base| case.case.id == base.case.id) => "baseline".to_string(),
            Some(percent) => signed(percent - 100.0),
            None => "-".to_string(),
        };
        let percent = percent.map_or("-".to_string(), |percent| format!("{percent:.1} %"));
        let name = base.map_or("-".to_string(), |base| base.label.clone());
        CaseRow { case, cells: [score, percent, difference, name] }
    };
    let keys = factors::chosen(study);
    let words =
        |key: &String| Some(format!("{} {}", axis::factor_words(key), shown(baseline.case.level(key)?)));
    let chosen: Vec<String> = keys.iter().filter_map(words).collect();
    let why = match study.plan.baseline {
        0 => ", because the experiment names no baseline",
        _ => "",
    };
    let of = match chosen.as_slice() {
        [] => baseline.label.clone(),
        chosen if is_by_label(study) => {
            format!("the case with {} that shares most of the other levels and labels", chosen.join(", "))
        }
        chosen => format!("the case with {} and otherwise the same levels{why}", chosen.join(", ")),
    };
    let what = if is_tpcc { "NOPM" } else { "Median tps" };
    Some(AgainstBaseline { what, of, rows: study.cases.iter().map(row).collect(), ipc: ipc(study, baseline) })
}

/// Factors in which the cases differ.
pub(crate) fn columns(study: &Study) -> Vec<String> {
    let differ = |key: &&String| {
        let mut levels = study.cases.iter().map(|case| case.case.level(key));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    study.plan.factors.iter().filter(differ).cloned().collect()
}

/// Whether labels of targets chose the baseline, so that it is not obvious which case another is compared with.
pub(crate) fn is_by_label(study: &Study) -> bool {
    study.plan.baseline != 0 && factors::chosen(study).iter().any(|key| key.starts_with(LABEL))
}

/// Heads of the columns of [`AgainstBaseline::ipc`].
pub(crate) const IPC_HEADS: [&str; 2] = ["IPC", "IPC of baseline"];

fn ipc(study: &Study, baseline: &CaseSummary) -> Vec<[String; 2]> {
    if !counters::have_ipc(study) {
        return Vec::new();
    }
    let counterparts = Counterparts::new(study, baseline);
    let row = |case: &CaseSummary| {
        let own = counters::ipc(case);
        let base = counterparts.of(case).and_then(counters::ipc);
        let percent = own.zip(base).filter(|(_, base)| *base > 0.0).map(|(own, base)| 100.0 * own / base);
        [
            own.map_or("-".to_string(), format::ratio),
            percent.map_or("-".to_string(), |percent| format!("{percent:.1} %")),
        ]
    };
    study.cases.iter().map(row).collect()
}

/// Why there is no column of instructions per cycle next to New-Orders by placement of memory, where one would be looked for.
pub(crate) fn about_cycles(study: &Study) -> Option<String> {
    let is_about_memory = columns(study)
        .iter()
        .any(|key| [keys::os::NUMA.name, keys::os::HUGE_PAGES.name].contains(&key.as_str()));
    let is_asked_for = study.cases.iter().any(|case| case.case.get(keys::run::COUNTERS));
    if counters::have_ipc(study) || is_asked_for || !is_about_memory {
        return None;
    }
    Some("There is no column of instructions per cycle: `run.counters = true` records them.".to_string())
}

fn signed(percent: f64) -> String {
    format!("{}{:.1} %", if percent < 0.0 { "\u{2212}" } else { "+" }, percent.abs())
}

/// Throughput against price, if prices are given.
pub(crate) fn money(study: &Study) -> Vec<CaseRow<'_, 6>> {
    let frontier = prices::frontier(study);
    let row = |case: &'_ CaseSummary| -> Option<[String; 6]> {
        let money = prices::of_case(case)?;
        let target = case.case.server.target.as_ref()?;
        let of = |amount: f64| format!("{} {}", format::price(amount), money.currency);
        let mark = if frontier.contains(&case.case.id) && frontier.len() < study.cases.len() {
            "efficient; "
        } else {
            ""
        };
        let labels: Vec<String> =
            target.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
        Some([
            of(money.per_hour),
            of(money.per_month()),
            format::tps(money.tps),
            format::tps(money.transactions()),
            money.per_million().map_or("-".to_string(), of),
            format!("{mark}{}", labels.join(", ")),
        ])
    };
    study.cases.iter().filter_map(|case| Some(CaseRow { case, cells: row(case)? })).collect()
}
