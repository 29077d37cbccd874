//! What one combination has of each key.

use std::collections::BTreeMap;

use model::experiment::Experiment;
use model::experiment::case::carried::Carried;
use model::experiment::keys::key::Key;
use model::experiment::keys::row::KeyRow;
use model::experiment::keys::value::KeyValue;
use model::experiment::keys::{OUTAGE, TARGET};
use model::experiment::target::TargetSection;
use model::experiment::topology::outage::OutageLevel;

use crate::plan::design::Dimension;

/// One level of each key that varies or could, and what the experiment says of the others.
pub(crate) struct LevelChoice<'a> {
    experiment: &'a Experiment,
    /// The number and the text of each level, by key.
    levels: BTreeMap<&'a str, (usize, &'a str)>,
}

impl<'a> LevelChoice<'a> {
    /// The level of each dimension whose number is in `chosen`.
    pub(crate) fn new(
        experiment: &'a Experiment,
        dimensions: &'a [Dimension],
        chosen: &[usize],
    ) -> LevelChoice<'a> {
        let level = |(dimension, &n): (&'a Dimension, &usize)| {
            (dimension.key.as_str(), (n, dimension.levels[n].as_str()))
        };
        LevelChoice { experiment, levels: dimensions.iter().zip(chosen).map(level).collect() }
    }

    /// The value of a key, as it was read from the experiment.
    pub(crate) fn get<T: KeyValue>(&self, key: Key<T>) -> T::Chosen {
        key.chosen(self.experiment, |name| Some(self.levels.get(name)?.0))
    }

    /// What the case carries as it was chosen.
    pub(crate) fn carried(&self) -> Carried {
        Carried::from_experiment(self.experiment, &|name| Some(self.levels.get(name)?.0))
    }

    /// Whether the key varies or could.
    pub(crate) fn has<T>(&self, key: Key<T>) -> bool {
        self.levels.contains_key(key.name)
    }

    /// The target, if there are several places.
    pub(crate) fn target(&self) -> Option<&'a TargetSection> {
        self.experiment.target.get(self.levels.get(TARGET)?.0)
    }

    /// The outage: its name, its table and its fault.
    pub(crate) fn outage(&self) -> Option<OutageLevel<'a>> {
        self.experiment.outage.levels().into_iter().nth(self.levels.get(OUTAGE)?.0)
    }

    /// The levels of these keys as text, by their names in the section.
    pub(crate) fn texts(&self, rows: &[KeyRow]) -> BTreeMap<String, String> {
        let of_row = |row: &KeyRow| {
            let (_, name) = row.parts()?;
            Some((name.to_string(), self.levels.get(row.name)?.1.to_string()))
        };
        rows.iter().filter_map(of_row).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::experiment::keys;
    use model::text::units::Span;

    use super::*;
    use crate::plan::{expand, file};

    #[test]
    fn a_combination_has_the_values_that_were_read() {
        let text = "[experiment]\nname = \"x\"\n[run]\nmeasure = [\"60s\", \"2min\"]\n[server]\nbin_dir = [\"/a\", \"/b\"]\n\
                    settings.work_mem = [\"1MB\", \"2MB\"]\n[os]\nswappiness = [1, 10]\nprocessors = 2\n";
        let experiment = file::parse("x.toml", text, &[]).unwrap();
        let dimensions = expand::dimensions(&experiment);
        let last: Vec<usize> = dimensions.iter().map(|dimension| dimension.levels.len() - 1).collect();
        let choice = LevelChoice::new(&experiment, &dimensions, &last);
        assert_eq!(choice.get(keys::run::MEASURE), Span::from_s(120));
        assert_eq!(choice.get(keys::run::GRACE), Span::from_s(10));
        assert_eq!(choice.get(keys::run::EXTEND), Span::from_s(0));
        assert_eq!(choice.get(keys::server::BIN_DIR), Some(PathBuf::from("/b")));
        assert_eq!(choice.get(keys::server::VERSION), None);
        assert!(choice.has(keys::server::BIN_DIR) && !choice.has(keys::server::VERSION));
        let named = |name: &str, text: &str| BTreeMap::from([(name.to_string(), text.to_string())]);
        assert_eq!(choice.get(keys::server::SETTINGS), named("work_mem", "2MB"));
        assert_eq!(choice.get(keys::workload::DEFINES), BTreeMap::new());
        let of_os =
            [("processors".to_string(), "2".to_string()), ("swappiness".to_string(), "10".to_string())];
        assert_eq!(choice.texts(keys::os::ROWS), BTreeMap::from(of_os));
        assert!(choice.target().is_none());
    }
}
