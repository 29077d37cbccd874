//! What settings (GUCs) can change of data that is made while they are in effect: the table is in [`table`], this is how it is read.
//!
//! Data that is made under one value of such a setting is no data for another value. A setting that the table does not have, such as an
//! extension's or one of a later release, counts as one that can change what is stored.

pub mod library;
mod statements;
pub mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use self::table::{ROWS, SettingRow, SettingUse};
use crate::experiment::case::{Case, WorkloadSpec};
use crate::experiment::script::CaseData;

/// What a setting can change of data that is made while it is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// Bytes of tables, indexes, or what the server keeps with them.
    Bytes,
    /// Where relations are, and what the catalogs say of them.
    Catalog,
    /// The planner's statistics.
    Statistics,
    /// Bytes, but only of data that the user's own statements make: order of rows, shape of indexes, text in values.
    OwnStatements,
    /// How long making the data takes, and what WAL it writes.
    LoadPath,
    /// Nothing.
    Nothing,
    /// pgdyno does not know.
    Unknown,
}

impl Acts {
    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Acts::Bytes => "stored bytes",
            Acts::Catalog => "catalog",
            Acts::Statistics => "statistics",
            Acts::OwnStatements => "stored bytes of own statements' data",
            Acts::LoadPath => "load path only",
            Acts::Nothing => "nothing",
            Acts::Unknown => "unknown",
        }
    }

    /// Whether data made under another value may differ. `by_statements`: statements of the user make it.
    fn may_differ(self, by_statements: bool) -> bool {
        match self {
            Acts::Bytes | Acts::Catalog | Acts::Statistics | Acts::Unknown => true,
            Acts::OwnStatements => by_statements,
            Acts::LoadPath | Acts::Nothing => false,
        }
    }
}

/// What a setting can change. Names are not case-sensitive.
pub fn acts(name: &str) -> Acts {
    row(name).map_or(Acts::Unknown, |row| row.acts)
}

/// The setting of this name among others, with its name as it is written there. Names are not case-sensitive.
pub fn find<'a, V>(settings: &'a BTreeMap<String, V>, name: &str) -> Option<(&'a String, &'a V)> {
    settings.iter().find(|(present, _)| present.eq_ignore_ascii_case(name))
}

/// Whether the table has the setting.
pub fn is_known(name: &str) -> bool {
    row(name).is_some()
}

/// Why no server takes a setting from its configuration; `None` of one that a server may take.
pub fn never_taken(name: &str) -> Option<&'static str> {
    row(name).filter(|row| row.used == SettingUse::Never).map(|row| row.why)
}

/// The rows by lower-case name, and those of names that begin alike: a plan asks for each setting of each case, many times while it is
/// fitted.
struct SettingIndex {
    named: HashMap<String, &'static SettingRow>,
    prefixed: Vec<(String, &'static SettingRow)>,
}

static INDEX: LazyLock<SettingIndex> = LazyLock::new(|| {
    let mut index = SettingIndex { named: HashMap::new(), prefixed: Vec::new() };
    for (row, word) in ROWS.iter().flat_map(|row| row.words().map(move |word| (row, word))) {
        match word.strip_suffix('*') {
            Some(prefix) => index.prefixed.push((prefix.to_ascii_lowercase(), row)),
            None => drop(index.named.entry(word.to_ascii_lowercase()).or_insert(row)),
        }
    }
    index
});

/// The row of a setting: the one that has its name, or else the one whose `prefix*` fits.
fn row(name: &str) -> Option<&'static SettingRow> {
    let name = name.to_ascii_lowercase();
    let prefixed = || INDEX.prefixed.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, row)| *row);
    INDEX.named.get(&name).copied().or_else(prefixed)
}

/// Who makes data, on whose statements the settings depend that decide what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataMaker {
    /// pgdyno loads rows into tables with B-tree indexes.
    Pgdyno,
    /// Statements of the user. `pg_restore` executes those in an archive.
    Statements,
}

impl DataMaker {
    /// Who makes the data of this workload.
    pub fn of_workload(workload: &WorkloadSpec) -> DataMaker {
        let by_statements = match &workload.data {
            CaseData::Files(_) | CaseData::Archive(_) => true,
            CaseData::Directory => {
                workload.directory.as_ref().is_none_or(|directory| statements::decide_data(&directory.texts))
            }
            CaseData::None | CaseData::Loaded(_) => false,
        };
        if by_statements { DataMaker::Statements } else { DataMaker::Pgdyno }
    }
}

/// Whether data may differ if it is made under another value of the setting.
pub fn makes_data(name: &str, maker: DataMaker) -> bool {
    acts(name).may_differ(maker == DataMaker::Statements)
}

/// The settings that are in effect while a case's data is made.
pub fn of_its_data(case: &Case) -> &BTreeMap<String, String> {
    case.data_settings.as_ref().unwrap_or(&case.server.settings)
}

/// The settings of a case that decide what its data is, in lower case. Cases with equal ones share their data.
pub fn made_under(case: &Case) -> BTreeMap<String, String> {
    let maker = DataMaker::of_workload(&case.workload);
    let of_data = |name: &String| makes_data(name, maker);
    let chosen = of_its_data(case).iter().filter(|(name, _)| of_data(name));
    chosen.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string())).collect()
}

/// The same in words: `default_toast_compression = lz4`; empty if there is none.
pub fn made_under_words(case: &Case) -> String {
    let words = |(name, value): (String, String)| format!("{name} = {value}");
    made_under(case).into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The settings of a case that act only where data is made, each with the reason: on data that is there already, they have no effect on a
/// built-in workload. Own scripts may make data themselves.
pub fn without_effect(case: &Case) -> Vec<(&str, &'static str)> {
    if case.workload.kind.is_own() { Vec::new() } else { where_data_is_made(case) }
}

/// The settings of a case that act only where data is made, each with the reason. With `prepare.analyze`, each run makes statistics.
pub fn where_data_is_made(case: &Case) -> Vec<(&str, &'static str)> {
    let is_analyzed = case.prepare.analyze && case.workload.data != CaseData::None;
    let named = |name: &str| row(name).filter(|row| row.used == SettingUse::WhereDataIsMade);
    let is_made_again = |row: &&SettingRow| row.acts == Acts::Statistics && is_analyzed;
    let of = |name: &'_ String| named(name).filter(|row| !is_made_again(row)).map(|row| row.why);
    case.server.settings.keys().filter_map(|name| Some((name.as_str(), of(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_has_one_row() {
        let mut known = BTreeSet::new();
        for word in ROWS.iter().flat_map(SettingRow::words) {
            assert!(known.insert(word.to_ascii_lowercase()), "`{word}` has two rows");
        }
        for row in ROWS {
            assert!(!row.why.is_empty() && row.words().count() > 0, "{row:?}");
            assert!(row.used != SettingUse::WhereDataIsMade || row.acts.may_differ(false), "{row:?}");
        }
    }

    #[test]
    fn a_setting_that_nobody_knows_gets_data_of_its_own() {
        let check = |name: &str, own: bool, by_statements: bool| {
            let found = (acts(name).may_differ(false), acts(name).may_differ(true));
            assert_eq!(found, (own, by_statements), "{name}: {:?}", acts(name));
        };
        check("default_toast_compression", true, true);
        check("Default_Table_Access_Method", true, true);
        check("default_statistics_target", true, true);
        check("autovacuum", true, true);
        check("autovacuum_naptime", true, true);
        check("wal_level", true, true);
        check("shared_preload_libraries", true, true);
        check("columnar.compression", true, true);
        check("a_setting_of_a_later_release", true, true);
        check("größe", true, true);
        check("work_mem", false, true);
        check("enable_hashagg", false, true);
        check("enable_of_a_later_release", false, true);
        check("shared_buffers", false, false);
        check("synchronous_commit", false, false);
        check("jit", false, false);
        check("log_min_duration_statement", false, false);
        // A row with the whole name comes before one with its beginning.
        check("log_autovacuum_min_duration", false, false);
        check("track_commit_timestamp", true, true);
        check("track_io_timing", false, false);
    }
}
