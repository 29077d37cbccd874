//! Runs of histories with the conditions that several have written once: those of one result are mostly equal, and each is larger
//! than all else of a run.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PastRun;
use super::conditions::Conditions;

/// Writes them: for `#[serde(with = "…")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(runs: &[PastRun], to: S) -> Result<S::Ok, S::Error> {
    let mut distinct: Vec<&Conditions> = Vec::new();
    let mut known: HashMap<*const Conditions, usize> = HashMap::new();
    let mut numbered: Vec<(usize, &PastRun)> = Vec::new();
    for run in runs {
        let number = *known.entry(Arc::as_ptr(&run.conditions)).or_insert_with(|| {
            distinct.push(&run.conditions);
            distinct.len() - 1
        });
        numbered.push((number, run));
    }
    (distinct, numbered).serialize(to)
}

/// Reads them.
///
/// # Errors
/// When something else is read.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PastRun>, D::Error> {
    let (distinct, numbered): (Vec<Conditions>, Vec<(usize, PastRun)>) = Deserialize::deserialize(from)?;
    let distinct: Vec<Arc<Conditions>> = distinct.into_iter().map(Arc::new).collect();
    let with = |(number, run): (usize, PastRun)| {
        let conditions = distinct.get(number).cloned().unwrap_or_default();
        PastRun { conditions, ..run }
    };
    Ok(numbered.into_iter().map(with).collect())
}
