//! The statements of a source, each with what it did in the replay.

use model::run::fidelity::{CountedStatement, StatementFigures, WorkloadFigures};

use super::StatementFidelity;

/// Relative difference of rows and blocks per call that is no difference.
const TOLERANCE: f64 = 0.2;
/// Standard errors of a mean of counts that chance explains.
const CHANCE: f64 = 3.0;

/// Records of WAL per call of a statement that writes. Below, a call that only reads removes dead rows from the pages that it meets, and
/// sets hint bits, as often as writers before it have left some.
const WRITES_MIN: f64 = 1.0;

/// A statement of the source.
pub(super) struct TwoSided<'a> {
    id: &'a str,
    text: &'a str,
    /// Whether the directory says that it replays it.
    pub(super) is_reproduced: Option<bool>,
    pub(super) source: StatementFigures,
    /// Without calls if the replay did not execute it.
    pub(super) replay: StatementFigures,
}

/// All of them.
pub(super) struct TwoSidedStatements<'a> {
    pub(super) all: Vec<TwoSided<'a>>,
    pub(super) source_total: StatementFigures,
    /// The replay's calls of statements that the source has.
    pub(super) n_replayed: f64,
}

impl<'a> TwoSidedStatements<'a> {
    pub(super) fn new(
        source: &'a WorkloadFigures,
        replay: Option<&WorkloadFigures>,
    ) -> TwoSidedStatements<'a> {
        let replayed = |id: &str| replay.and_then(|replay| replay.statements.get(id)).map(|one| one.figures);
        let mut all: Vec<TwoSided> = source
            .statements
            .iter()
            .map(|(id, CountedStatement { text, is_reproduced, figures })| TwoSided {
                id,
                text,
                is_reproduced: *is_reproduced,
                source: *figures,
                replay: replayed(id).unwrap_or_default(),
            })
            .collect();
        all.sort_by(|a, b| b.source.time_us.total_cmp(&a.source.time_us));
        let n_replayed = all.iter().map(|pair| pair.replay.calls as f64).sum();
        TwoSidedStatements { all, source_total: source.total(), n_replayed }
    }

    /// Those that both executed.
    pub(super) fn of_both(&self) -> impl Iterator<Item = &TwoSided<'a>> {
        self.all.iter().filter(|pair| pair.source.calls > 0 && pair.replay.calls > 0)
    }

    /// The share of the source's time in the statements, among those of which a comparison is known, where it is favourable.
    pub(super) fn time_share_within(&self, is_within: impl Fn(&TwoSided) -> Option<bool>) -> Option<f64> {
        let (mut within, mut known) = (0.0, 0.0);
        for pair in self.of_both() {
            if let Some(is_within) = is_within(pair) {
                known += pair.source.time_us;
                within += if is_within { pair.source.time_us } else { 0.0 };
            }
        }
        (known > 0.0).then(|| within / known)
    }

    /// The first ones, as they are shown.
    pub(super) fn shown(&self, n_max: usize) -> Vec<StatementFidelity> {
        self.all.iter().take(n_max).map(|pair| self.show(pair)).collect()
    }

    fn show(&self, pair: &TwoSided) -> StatementFidelity {
        let sides = [&pair.source, &pair.replay];
        let per_call = |of: fn(&StatementFigures) -> Option<u64>| sides.map(|side| per_call(side, of));
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mut fails = Vec::new();
        if pair.replay.calls == 0 && self.n_replayed > 0.0 {
            fails.push("coverage");
        }
        for (name, is_within) in [("rows", pair.has_rows()), ("work", pair.has_work())] {
            if is_within == Some(false) {
                fails.push(name);
            }
        }
        StatementFidelity {
            id: pair.id.to_string(),
            text: pair.text.to_string(),
            time_share: share(pair.source.time_us, self.source_total.time_us),
            calls_share: [
                share(pair.source.calls as f64, self.source_total.calls as f64),
                share(pair.replay.calls as f64, self.n_replayed),
            ],
            rows_per_call: per_call(|side| side.rows),
            blocks_per_call: per_call(|side| side.blocks),
            wal_records_per_call: per_call(|side| side.wal_records),
            mean_us: sides.map(|side| (side.calls > 0).then(|| side.time_us / side.calls as f64)),
            fails,
        }
    }
}

impl TwoSided<'_> {
    /// Whether it returned as many rows per call; `None` if that is unknown.
    pub(super) fn has_rows(&self) -> Option<bool> {
        self.agrees(|side| side.rows)
    }

    /// Whether it touched as many blocks per call, and a writer wrote as many records of WAL.
    pub(super) fn has_work(&self) -> Option<bool> {
        let blocks = self.agrees(|side| side.blocks);
        let wal = if self.writes() { self.agrees(|side| side.wal_records) } else { None };
        match (blocks, wal) {
            (Some(blocks), Some(wal)) => Some(blocks && wal),
            (known, None) | (None, known) => known,
        }
    }

    /// Whether it writes on one of the sides.
    fn writes(&self) -> bool {
        let records = |side: &StatementFigures| per_call(side, |figures| figures.wal_records);
        [&self.source, &self.replay].into_iter().filter_map(records).any(|n| n >= WRITES_MIN)
    }

    /// Whether the means per call differ by less than the tolerance, or by no more than counts do by chance (Poisson).
    fn agrees(&self, of: fn(&StatementFigures) -> Option<u64>) -> Option<bool> {
        let (source, replay) = (per_call(&self.source, of)?, per_call(&self.replay, of)?);
        let difference = (source - replay).abs();
        let error = (source / self.source.calls as f64 + replay / self.replay.calls as f64).sqrt();
        Some(difference <= TOLERANCE * source || difference <= CHANCE * error)
    }
}

fn per_call(figures: &StatementFigures, of: fn(&StatementFigures) -> Option<u64>) -> Option<f64> {
    (figures.calls > 0).then(|| of(figures).map(|n| n as f64 / figures.calls as f64)).flatten()
}
