//! Changes and their reasons: levels before and after, by key.

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::selector::{Selector, is_level, names};

use super::together::has_clients_of_targets;
use super::{FitChange, has_fixed_clients};
use crate::plan::design::Dimension;
use crate::plan::expand;

/// Levels of each key, as texts.
pub(super) struct LevelsBefore {
    dimensions: Vec<Dimension>,
}

impl LevelsBefore {
    /// Empty for an experiment that contradicts itself; planning will report that.
    pub(super) fn new(experiment: &Experiment) -> LevelsBefore {
        let mut dimensions = expand::dimensions(experiment);
        let mut add = |key: &str, value: String| {
            dimensions.insert(0, Dimension { key: key.to_string(), levels: vec![value] });
        };
        let run = &experiment.run;
        add(keys::run::REPEAT_DISTURBED.name, run.repeat_disturbed.to_string());
        add(keys::run::EXTEND.name, run.extend.to_string());
        add(
            keys::run::RAMP_UP_MAX.name,
            run.ramp_up_max.map_or("by default".to_string(), |span| span.to_string()),
        );
        let headroom = experiment.prepare.wal_headroom.as_deref().unwrap_or("by max_wal_size");
        add(keys::prepare::WAL_HEADROOM.name, headroom.to_string());
        add(keys::header::REPEATS.name, experiment.experiment.repeats.to_string());
        LevelsBefore { dimensions }
    }

    /// Levels of a key that is given in full or by its last part.
    fn levels(&self, key: &str) -> Option<&[String]> {
        Some(&self.dimension(key)?.levels)
    }

    fn dimension(&self, key: &str) -> Option<&Dimension> {
        self.dimensions.iter().find(|dimension| names(key, &dimension.key))
    }

    /// Whether a level of a selector's key is left; labels of targets are not looked at.
    fn has(&self, key: &str, wanted: &str) -> bool {
        self.dimension(key)
            .is_none_or(|known| known.levels.iter().any(|level| is_level(&known.key, wanted, level)))
    }

    /// Differences from `experiment`, of which those that are there already `on_machine` have its reasons, and the others that of time.
    pub(super) fn changes(
        &self,
        on_machine: &LevelsBefore,
        experiment: &Experiment,
        reasons: &MachineReasons,
    ) -> Vec<FitChange> {
        let after = LevelsBefore::new(experiment);
        let changed = self.dimensions.iter().filter_map(|before| {
            let key = &before.key;
            let levels = after.levels(key).filter(|levels| *levels != before.levels)?;
            let middle = on_machine.levels(key);
            let of_machine = middle.filter(|middle| *middle != before.levels).map(|_| reasons.why(key));
            let of_time = middle.filter(|middle| *middle != levels).map(|_| "time");
            Some(FitChange {
                key: key.clone(),
                from: before.levels.join(", "),
                to: levels.join(", "),
                why: of_machine.into_iter().chain(of_time).collect::<Vec<_>>().join(", and "),
            })
        });
        changed.collect()
    }
}

/// Why a machine, whatever the time, takes less of each key.
#[derive(Debug, Clone)]
pub(super) struct MachineReasons {
    of_clients: &'static str,
    /// Bound of the data, in words.
    pub(super) of_scale: Option<String>,
}

impl MachineReasons {
    /// Those for an experiment as it was asked for.
    pub(super) fn new(experiment: &Experiment) -> MachineReasons {
        let of_clients = if has_fixed_clients(experiment) {
            "at most 4 clients per processor, as their number does not vary"
        } else if experiment.workload.clients.all().len() == 1 || has_clients_of_targets(experiment) {
            "at most 32 clients per processor"
        } else {
            "memory that clients need"
        };
        MachineReasons { of_clients, of_scale: None }
    }

    fn why(&self, key: &str) -> &str {
        const CLIENTS: &str = keys::workload::CLIENTS.name;
        const THREADS: &str = keys::workload::THREADS.name;
        const SCALE: &str = keys::workload::SCALE.name;
        const WAL_HEADROOM: &str = keys::prepare::WAL_HEADROOM.name;
        match key {
            CLIENTS => self.of_clients,
            THREADS => "at most one thread per client",
            SCALE => self.of_scale.as_deref().unwrap_or("time to load it, disk and memory"),
            "server.settings.shared_buffers" => "memory of this machine",
            "server.settings.effective_cache_size" => {
                "memory of this machine; in the same relation to shared_buffers"
            }
            "server.settings.max_wal_size" | "server.settings.min_wal_size" | WAL_HEADROOM => "free disk",
            _ => "this machine",
        }
    }
}

/// The change that selectors were removed.
pub(super) fn dropped(key: &str, why: &str) -> FitChange {
    FitChange {
        key: key.to_string(),
        from: "given".to_string(),
        to: "none".to_string(),
        why: why.to_string(),
    }
}

/// Reason for removing selectors whose levels are gone.
pub(super) const LEVELS_LEFT_OUT: &str = "its levels were left out";

/// Removes levels that are gone from selectors, and selectors that have no others: they would be refused as mistakes.
pub(super) fn drop_selectors(experiment: &mut Experiment) -> Vec<FitChange> {
    let snapshot = LevelsBefore::new(experiment);
    let reduced = |selector: &Selector| selector.reduced(|key, wanted| snapshot.has(key, wanted));
    // Factors with different numbers of levels cannot vary together; a key that is gone is not a factor.
    let is_unlike = |keys: &Vec<String>| {
        let n_levels = |key: &String| snapshot.levels(key).map_or(0, <[String]>::len);
        keys.iter().any(|key| n_levels(key) == 0 || n_levels(key) != n_levels(&keys[0]))
    };
    let header = &mut experiment.experiment;
    let mut changes = Vec::new();
    if let Some(baseline) = header.baseline.take() {
        header.baseline = reduced(&baseline);
        if header.baseline.is_none() {
            changes.push(dropped(keys::header::BASELINE.name, LEVELS_LEFT_OUT));
        }
    }
    let n_before = header.exclude.len();
    header.exclude = header.exclude.iter().filter_map(reduced).collect();
    if header.exclude.len() < n_before {
        changes.push(dropped(keys::header::EXCLUDE.name, LEVELS_LEFT_OUT));
    }
    let n_before = header.zip.len();
    header.zip.retain(|keys| !is_unlike(keys));
    if header.zip.len() < n_before {
        changes.push(dropped(keys::header::ZIP.name, "its factors no longer have equal numbers of levels"));
    }
    changes
}
