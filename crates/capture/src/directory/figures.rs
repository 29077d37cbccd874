//! What the statements did at the source, for `source.json`: a replay is judged by it.

use std::collections::BTreeMap;

use model::run::fidelity::{CountedStatement, StatementFigures, WorkloadFigures};

use super::lines::{Reproduced, shown};
use crate::reader::ReadLog;

/// Executions per second of the statements of a file of statistics, by identity; empty if there is none.
pub(super) fn exact(statistics: Option<&WorkloadFigures>) -> BTreeMap<u64, f64> {
    let Some(figures) = statistics.filter(|figures| figures.length_s > 0.0) else { return BTreeMap::new() };
    let rate = |(id, counted): (&String, &CountedStatement)| {
        let id = u64::from_str_radix(id, 16).ok()?;
        Some((id, counted.figures.calls as f64 / figures.length_s))
    };
    figures.statements.iter().filter_map(rate).collect()
}

/// The figures of the statistics, or else those that a log has: executions and their time. Each statement says whether it is replayed.
pub(super) fn figures(
    read: &ReadLog,
    reproduced: &Reproduced,
    statistics: Option<&WorkloadFigures>,
    length_s: f64,
) -> WorkloadFigures {
    let of_log = of_log(read, reproduced, length_s);
    let Some(statistics) = statistics else { return of_log };
    let mut figures = WorkloadFigures { dispersion: of_log.dispersion, ..statistics.clone() };
    if read.has_other_sessions {
        figures.statements.retain(|id, _| of_log.statements.contains_key(id));
        figures.others = StatementFigures::default();
        let why = "statements that only other sessions than the wanted ones executed are not counted";
        figures.unknown.insert("other sessions".to_string(), why.to_string());
    }
    for (id, counted) in &mut figures.statements {
        let known = of_log.statements.get(id);
        // Texts of a server still have literals where it does not normalise them; those of the log have none.
        counted.text = known.map(|known| known.text.clone()).unwrap_or_default();
        counted.is_reproduced = Some(known.and_then(|known| known.is_reproduced) == Some(true));
    }
    figures
}

fn of_log(read: &ReadLog, reproduced: &Reproduced, length_s: f64) -> WorkloadFigures {
    let mut figures =
        WorkloadFigures { length_s, dispersion: read.arrivals.dispersion(), ..WorkloadFigures::default() };
    for (number, known) in (0u32..).zip(&read.forms.all).filter(|(_, known)| known.share.calls > 0) {
        let is_reproduced = reproduced.shares.get(&number).is_some_and(|share| share.calls > 0);
        let counted = CountedStatement {
            text: shown(&read.forms, number),
            is_reproduced: is_reproduced.then_some(true),
            figures: StatementFigures {
                calls: known.share.calls,
                time_us: known.share.time_us as f64,
                ..StatementFigures::default()
            },
        };
        figures.add(format!("{:016x}", known.form.identity), counted);
    }
    for counted in figures.statements.values_mut() {
        counted.is_reproduced = Some(counted.is_reproduced == Some(true));
    }
    figures
}
