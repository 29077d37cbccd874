//! Whether sessions are those of a pool, or do different things: templates by application and role.

use std::collections::BTreeMap;

use crate::log::LoggedSession;
use crate::template::store::Template;

/// Least share of the transactions of a class of its own.
const SHARE_MIN: f64 = 0.05;
/// Cramér's V from which sessions are of different classes: Cohen's "medium" effect (Cohen 1988, chapter 7).
const ASSOCIATION_MIN: f64 = 0.3;
/// Most classes.
const CLASSES_MAX: usize = 16;

/// A class of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionKind {
    /// Application and role.
    pub name: String,
    /// Share of the transactions.
    pub share: f64,
    /// Transactions of each template, by its place among those that were chosen.
    pub n: Vec<u64>,
}

/// How sessions relate to templates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionKinds {
    /// Cramér's V of classes and templates: 0 if independent, 1 if the class decides.
    pub association: f64,
    /// The classes; empty if all sessions are alike.
    pub kinds: Vec<SessionKind>,
}

/// The classes of sessions.
pub fn classes(sessions: &BTreeMap<u32, LoggedSession>, templates: &[&Template]) -> SessionKinds {
    let mut by_name: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (at, template) in templates.iter().enumerate() {
        for (session, n) in &template.by_session {
            let known = sessions.get(session);
            let part = |text: Option<&String>| text.map_or(String::new(), Clone::clone);
            let application = part(known.and_then(|one| one.application.as_ref()));
            let user = part(known.and_then(|one| one.user.as_ref()));
            let name = if application.is_empty() { user } else { format!("{application} {user}") };
            by_name.entry(name).or_insert_with(|| vec![0; templates.len()])[at] += n;
        }
    }
    let total: u64 = by_name.values().flatten().sum();
    let association = cramers_v(&by_name.values().cloned().collect::<Vec<_>>());
    if association < ASSOCIATION_MIN || total == 0 {
        return SessionKinds { association, kinds: Vec::new() };
    }
    let mut kinds: Vec<SessionKind> = Vec::new();
    let mut rest = SessionKind { name: "others".to_string(), share: 0.0, n: vec![0; templates.len()] };
    for (name, n) in by_name {
        let share = n.iter().sum::<u64>() as f64 / total as f64;
        if share >= SHARE_MIN && kinds.len() + 1 < CLASSES_MAX {
            kinds.push(SessionKind { name, share, n });
        } else {
            rest.share += share;
            rest.n.iter_mut().zip(n).for_each(|(sum, n)| *sum += n);
        }
    }
    if rest.share > 0.0 {
        kinds.push(rest);
    }
    SessionKinds { association, kinds: if kinds.len() > 1 { kinds } else { Vec::new() } }
}

/// Cramér's V of a table of counts (Cramér 1946, section 21.9), corrected for its bias (Bergsma 2013).
fn cramers_v(table: &[Vec<u64>]) -> f64 {
    let rows: Vec<f64> = table.iter().map(|row| row.iter().sum::<u64>() as f64).collect();
    let n_columns = table.first().map_or(0, Vec::len);
    let columns: Vec<f64> =
        (0..n_columns).map(|at| table.iter().map(|row| row[at]).sum::<u64>() as f64).collect();
    let total: f64 = rows.iter().sum();
    let (n_rows, n_columns) = (
        rows.iter().filter(|sum| **sum > 0.0).count() as f64,
        columns.iter().filter(|sum| **sum > 0.0).count() as f64,
    );
    if n_rows < 2.0 || n_columns < 2.0 || total < 2.0 {
        return 0.0;
    }
    let mut chi = 0.0;
    for (row, sum) in table.iter().zip(&rows) {
        for (n, column) in row.iter().zip(&columns) {
            let expected = sum * column / total;
            if expected > 0.0 {
                chi += (*n as f64 - expected).powi(2) / expected;
            }
        }
    }
    let phi = (chi / total - (n_rows - 1.0) * (n_columns - 1.0) / (total - 1.0)).max(0.0);
    let corrected = |n: f64| n - (n - 1.0).powi(2) / (total - 1.0);
    let least = (corrected(n_rows) - 1.0).min(corrected(n_columns) - 1.0);
    if least > 0.0 { (phi / least).sqrt().min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn association_is_zero_for_a_pool_and_one_for_classes() {
        assert!(cramers_v(&[vec![100, 200], vec![51, 99], vec![199, 401]]) < 0.05);
        assert!(cramers_v(&[vec![100, 0], vec![0, 100]]) > 0.98);
        assert!(cramers_v(&[vec![100, 100]]).abs() < 1e-12);
        assert!(cramers_v(&[]).abs() < 1e-12);
        assert!(cramers_v(&[vec![0, 0], vec![0, 0]]).abs() < 1e-12);
    }
}
