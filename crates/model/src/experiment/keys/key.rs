//! The typed name of a key: a name that no row has does not compile, and its value is read in one place.

use std::fmt;

use crate::experiment::Experiment;
use crate::experiment::keys::value::KeyValue;

/// A key of the experiment file, with the type of its value.
pub struct Key<T: 'static> {
    /// The dotted key: `run.measure`.
    pub name: &'static str,
    /// Reads what an experiment says.
    pub(super) read: fn(&Experiment) -> &T,
    /// Whether cases carry its value as it was chosen.
    pub is_carried: bool,
}

impl<T: KeyValue> Key<T> {
    /// The value that `experiment` gives.
    pub fn of(self, experiment: &Experiment) -> &T {
        (self.read)(experiment)
    }

    /// What a combination has, given the number of the level that it has of a key that varies or could.
    pub fn chosen(self, experiment: &Experiment, level: impl Fn(&str) -> Option<usize>) -> T::Chosen {
        self.of(experiment).chosen(self.name, &level)
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> fmt::Display for Key<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.name)
    }
}
