//! How much of an experiment is kept: numbers of levels, repeats, and the length of runs.

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::keys::row::{KeyRow, NAME};

use super::figures::Needs;
use super::lengths::{self, LENGTHS};
use super::{keep, thin, together};
use crate::plan::expand;

/// A part of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Share {
    /// Most levels of each axis; figures may need more of a key.
    pub(super) n: [usize; Axis::ALL.len()],
    /// Numbers of clients above this come last.
    pub(super) clients_first: u32,
    /// Place in [`LENGTHS`]; after its end, as asked for.
    pub(super) length: usize,
    /// Whether disturbed runs are repeated.
    pub(super) again: bool,
}

/// What there may be more or less of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Numbers of clients.
    Clients,
    /// Versions of the server.
    Versions,
    /// Targets.
    Targets,
    /// Levels of every other factor but settings.
    Others,
    /// Place in [`TRANSACTIONS`]: the most transactions of each client.
    Transactions,
    /// Levels of each setting.
    Settings,
    /// Repeats of each case.
    Repeats,
}

impl Axis {
    /// In the order in which spare time goes back to them.
    pub(super) const ALL: [Axis; 7] = [
        Axis::Clients,
        Axis::Versions,
        Axis::Targets,
        Axis::Others,
        Axis::Transactions,
        Axis::Settings,
        Axis::Repeats,
    ];
}

impl Axis {
    /// The most that `whole` has of it.
    pub(super) fn of(self, whole: &Experiment) -> usize {
        let (workload, server) = (&whole.workload, &whole.server);
        match self {
            Axis::Clients => workload.clients.all().len(),
            Axis::Versions => server.version.as_ref().map_or(1, |levels| levels.all().len()),
            Axis::Targets => whole.target.len(),
            Axis::Others => expand::dimensions(whole).iter().map(|d| d.levels.len()).max().unwrap_or(1),
            Axis::Transactions => workload.transactions.as_ref().map_or(1, |_| TRANSACTIONS.len()),
            Axis::Settings => server.settings.values().map(|levels| levels.all().len()).max().unwrap_or(1),
            Axis::Repeats => whole.experiment.repeats as usize,
        }
    }
}

/// Most transactions of each client.
const TRANSACTIONS: [u64; 4] = [100, 500, 1000, u64::MAX];

/// What is kept if time allows, in descending order: numbers of clients, versions, targets, levels of others, transactions, settings,
/// repeats. Fewer than three runs of a case have no spread, and one side of a comparison compares nothing: single levels are for budgets
/// that leave time for a number and nothing else.
const LEAST: [[usize; Axis::ALL.len()]; 7] = [
    [3, 2, 2, 2, 2, 2, 3],
    [3, 2, 2, 2, 1, 2, 2],
    [3, 2, 2, 2, 1, 1, 2],
    [2, 2, 2, 2, 1, 1, 2],
    [2, 2, 2, 1, 1, 1, 2],
    [1, 1, 1, 1, 1, 1, 2],
    [1, 1, 1, 1, 1, 1, 1],
];

/// As [`LEAST`], with a single run of each case: it has no spread, but what a figure shows can be seen.
pub(super) const WITHOUT_SPREAD: [usize; Axis::ALL.len()] = [3, 2, 2, 2, 1, 2, 1];

/// What stands in its middle where no figures say what the question is: every factor may be it, and one side, however often it is
/// measured, answers nothing. Two sides with a run each are a first impression, so that repeats go before the second level of a factor.
const LEAST_OF_SIDES: [[usize; Axis::ALL.len()]; 4] =
    [[2, 2, 2, 2, 1, 2, 2], [3, 2, 2, 2, 1, 2, 1], [2, 2, 2, 2, 1, 2, 1], [1, 2, 2, 2, 1, 2, 1]];

/// What is kept of an experiment if time allows, in descending order.
pub(super) fn least(has_figures: bool) -> Vec<[usize; Axis::ALL.len()]> {
    if has_figures { LEAST.to_vec() } else { [&LEAST[..2], &LEAST_OF_SIDES, &LEAST[5..]].concat() }
}

impl Share {
    /// The shortest runs of so much.
    pub(super) fn new(n: [usize; Axis::ALL.len()], clients_first: u32) -> Share {
        Share { n, clients_first, length: 0, again: false }
    }

    /// All of it.
    pub(super) fn whole() -> Share {
        let clients_first = u32::MAX;
        Share { n: [usize::MAX; Axis::ALL.len()], clients_first, length: LENGTHS.len(), again: true }
    }

    /// Gives the axes one more level each, in turn, up to their `most`, as long as the share `fits`.
    pub(super) fn grow(
        &mut self,
        axes: &[Axis],
        most: &dyn Fn(Axis) -> usize,
        fits: &dyn Fn(&Share) -> bool,
    ) {
        let mut axes = axes.to_vec();
        while !axes.is_empty() {
            axes.retain(|&axis| {
                let grown = self.grown(axis);
                let has_grown = grown.most(axis) <= most(axis) && fits(&grown);
                if has_grown {
                    *self = grown;
                }
                has_grown
            });
        }
    }

    /// One more of an axis.
    fn grown(&self, axis: Axis) -> Share {
        let mut grown = self.clone();
        let n = &mut grown.n[axis as usize];
        *n = n.saturating_add(1);
        grown
    }

    /// Most levels of an axis.
    pub(super) fn most(&self, axis: Axis) -> usize {
        self.n[axis as usize]
    }

    /// This part of `whole`, and at least what `needs` asks for.
    pub(super) fn part(&self, whole: &Experiment, needs: &Needs) -> Experiment {
        let mut part = whole.clone();
        let most = |axis: Axis, key: &str| self.most(axis).max(needs.least(key));
        let wanted = |key: &str, level: &str| needs.wants(key, level);
        if !self.again {
            part.run.repeat_disturbed = 0;
        }
        let repeats = most(Axis::Repeats, crate::plan::expand::figures::REPEATS);
        part.experiment.repeats = part.experiment.repeats.min(u32::try_from(repeats).unwrap_or(u32::MAX));
        let n_clients = most(Axis::Clients, together::CLIENTS);
        together::thin_clients(&mut part, n_clients, self.clients_first, |n| {
            wanted(together::CLIENTS, &n.to_string())
        });
        together::thin_targets(&mut part, self.most(Axis::Targets), needs);
        if let Some(versions) = &mut part.server.version {
            let key = keys::server::VERSION.name;
            thin(versions, most(Axis::Versions, key), |version| wanted(key, &version.to_string()));
        }
        for (name, levels) in &mut part.server.settings {
            let key = format!("{}.{name}", keys::server::SETTINGS);
            thin(levels, most(Axis::Settings, &key), |level| wanted(&key, &level.0));
        }
        self.thin_others(&mut part, needs);
        if let Some(&(ramp_up_s, measure_s)) = LENGTHS.get(self.length) {
            lengths::limit(&mut part, ramp_up_s, measure_s);
        }
        part
    }

    fn thin_others(&self, part: &mut Experiment, needs: &Needs) {
        if let Some(levels) = &mut part.workload.transactions {
            let most = TRANSACTIONS.get(self.most(Axis::Transactions).saturating_sub(1)).unwrap_or(&u64::MAX);
            let n_few = levels.all().iter().filter(|n| *n <= most).count();
            // Three panels of the same few transactions are no figure.
            if n_few >= needs.least(keys::workload::TRANSACTIONS.name) {
                keep(levels, |n| n <= most, *most);
            }
        }
        for row in keys::all().filter(|row| !is_apart(row)) {
            for (key, levels) in (row.dimensions)(part) {
                let Some(mut levels) = Levels::many(levels) else { continue };
                let n = self.most(Axis::Others).max(needs.least(&key));
                thin(&mut levels, n, |level| needs.wants(&key, level));
                (row.keep)(part, &|level| levels.all().iter().any(|kept| kept == level));
            }
        }
    }
}

/// Keys with an axis of their own.
const OF_AXES: [&str; 4] =
    [keys::TARGET, keys::server::VERSION.name, keys::server::SETTINGS.name, keys::workload::CLIENTS.name];

/// Whether the levels of a key are not thinned as those of others are.
fn is_apart(row: &KeyRow) -> bool {
    let key = row.name.strip_suffix(NAME).map_or(row.name, |start| start.trim_end_matches('.'));
    !row.may_vary || row.keeps_all || OF_AXES.contains(&key)
}
