//! Runs of histories with the conditions that several have written once, as their settings are: those of one result are mostly
//! equal, and each is larger than all else of a run.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PastRun;
use super::conditions::{Conditions, Settings};

/// Writes them: for `#[serde(with = "…")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(runs: &[PastRun], to: S) -> Result<S::Ok, S::Error> {
    let (mut distinct, mut settings) = (Distinct::default(), Distinct::default());
    let numbered: Vec<(usize, &PastRun)> =
        runs.iter().map(|run| (distinct.number(&run.conditions), run)).collect();
    let found: &[&Conditions] = &distinct.found;
    let settings_of: Vec<usize> = found.iter().map(|one| settings.number(&one.settings)).collect();
    (settings.found, settings_of, distinct.found, numbered).serialize(to)
}

/// Values of which several are one.
struct Distinct<'a, T> {
    found: Vec<&'a T>,
    known: HashMap<*const T, usize>,
}

impl<T> Default for Distinct<'_, T> {
    fn default() -> Self {
        Distinct { found: Vec::new(), known: HashMap::new() }
    }
}

impl<'a, T> Distinct<'a, T> {
    fn number(&mut self, value: &'a Arc<T>) -> usize {
        *self.known.entry(Arc::as_ptr(value)).or_insert_with(|| {
            self.found.push(value);
            self.found.len() - 1
        })
    }
}

/// Settings; which of them belong to which conditions; conditions; which of them belong to which run.
type Packed = (Vec<Settings>, Vec<usize>, Vec<Conditions>, Vec<(usize, PastRun)>);

/// Reads them.
///
/// # Errors
/// When something else is read.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PastRun>, D::Error> {
    let (settings, settings_of, distinct, numbered): Packed = Deserialize::deserialize(from)?;
    let settings: Vec<Arc<Settings>> = settings.into_iter().map(Arc::new).collect();
    let with = |(mut conditions, n): (Conditions, usize)| {
        conditions.settings = settings.get(n).cloned().unwrap_or_default();
        Arc::new(conditions)
    };
    let distinct: Vec<Arc<Conditions>> = distinct.into_iter().zip(settings_of).map(with).collect();
    let with = |(number, run): (usize, PastRun)| {
        let conditions = distinct.get(number).cloned().unwrap_or_default();
        PastRun { conditions, ..run }
    };
    Ok(numbered.into_iter().map(with).collect())
}
