//! The user's own scripts and their data, as an experiment file names them and as a plan records them. Crate
//! `experiment` reads the files.

pub mod archive;
mod either;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::experiment::case::workload::Dataset;
use crate::experiment::script::archive::Archive;
use crate::experiment::script::either::text_or_table;
use crate::text::word_enum::words;

/// Largest weight of a script, as in pgbench.
pub const WEIGHT_MAX: u32 = i32::MAX as u32;

/// Prefix of built-in scripts in the short form.
const BUILTIN_PREFIX: &str = "builtin:";

/// A script of `workload.scripts`: `"a.sql@3"`, `"builtin:select-only"`, or a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScriptEntry {
    /// Name in reports; by default the file's name as given, or the built-in's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Weight, relative to the sum of all weights; 0: never.
    pub weight: u32,
    /// Where its transactions go if the load reads from standbys; by default to those if it only reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ScriptTarget>,
    /// Where the text comes from.
    #[serde(flatten)]
    pub source: ScriptOrigin,
}

words! {
    /// Where the transactions of a script go, of a load with `workload.reads`.
    ScriptTarget, "a place for transactions" {
        /// To the primary, as those do that write.
        #[default]
        Primary = "primary",
        /// Where `workload.reads` says.
        Reads = "reads",
    }
}

/// Where a script's text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptOrigin {
    /// In a file; relative to the experiment file.
    File(PathBuf),
    /// In pgdyno, by pgbench's name or ours.
    Builtin(String),
    /// Given here.
    Text(String),
}

/// The keys of a script's table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptTable {
    name: Option<String>,
    #[serde(default = "one")]
    weight: i64,
    to: Option<ScriptTarget>,
    file: Option<PathBuf>,
    builtin: Option<String>,
    text: Option<String>,
}

fn one() -> i64 {
    1
}

impl ScriptEntry {
    /// Parses the short form, `FILE@WEIGHT` or `builtin:NAME@WEIGHT`, split at the last `@` as in pgbench.
    ///
    /// # Errors
    /// A message, if the text after `@` is not a weight, or the name is empty.
    pub fn parse(text: &str) -> Result<ScriptEntry, String> {
        let (name, weight) = match text.rsplit_once('@') {
            None => (text, 1),
            Some((name, digits)) => {
                let weight = digits.parse().ok().filter(|weight| *weight <= WEIGHT_MAX);
                let invalid = || format!("`{digits}` in `{text}` is not a weight; use 0 to {WEIGHT_MAX}");
                (name, weight.ok_or_else(invalid)?)
            }
        };
        let source = match name.strip_prefix(BUILTIN_PREFIX) {
            Some(name) => ScriptOrigin::Builtin(name.to_string()),
            None if name.is_empty() => return Err(format!("`{text}` names no script")),
            None => ScriptOrigin::File(PathBuf::from(name)),
        };
        Ok(ScriptEntry { name: None, weight, to: None, source })
    }

    fn of_table(table: ScriptTable) -> Result<ScriptEntry, String> {
        let weight = u32::try_from(table.weight).ok().filter(|weight| *weight <= WEIGHT_MAX);
        let weight = weight.ok_or_else(|| format!("weight {} is not in 0..{WEIGHT_MAX}", table.weight))?;
        let source = match (table.file, table.builtin, table.text) {
            (Some(file), None, None) => ScriptOrigin::File(file),
            (None, Some(builtin), None) => ScriptOrigin::Builtin(builtin),
            (None, None, Some(text)) if table.name.is_some() => ScriptOrigin::Text(text),
            (None, None, Some(_)) => return Err("a script given by its text needs a `name`".to_string()),
            _ => return Err("a script has one of `file`, `builtin` and `text`".to_string()),
        };
        Ok(ScriptEntry { name: table.name, weight, to: table.to, source })
    }
}

impl<'de> Deserialize<'de> for ScriptEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a script such as \"a.sql@3\" or {file = \"a.sql\", weight = 3}";
        text_or_table(deserializer, expected, ScriptEntry::parse, ScriptEntry::of_table)
    }
}

/// `workload.data`: the data that the scripts of an experiment run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataChoice {
    /// The database as it is.
    None,
    /// The TPC-B-like tables at the scale given.
    Tpcb,
    /// Created by these SQL files.
    Files(Vec<SqlEntry>),
}

/// An SQL file in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SqlEntry {
    /// Name in messages and reports.
    pub name: String,
    /// Path, relative to the experiment file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Expected SHA-256 of the contents, in hexadecimal, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The text, if given here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Keys of a data file's table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlTable {
    name: Option<String>,
    file: Option<PathBuf>,
    sha256: Option<String>,
    text: Option<String>,
}

/// Keys of `workload.data` as a table.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataTable {
    files: Vec<SqlEntry>,
}

impl SqlEntry {
    fn named(text: &str) -> Result<SqlEntry, String> {
        if text.is_empty() {
            return Err("an empty name names no file".to_string());
        }
        let (name, file) = (text.to_string(), Some(PathBuf::from(text)));
        Ok(SqlEntry { name, file, sha256: None, text: None })
    }

    fn of_table(table: SqlTable) -> Result<SqlEntry, String> {
        let name = table.name.or_else(|| table.file.as_ref().map(|file| file.display().to_string()));
        match (name, &table.file, &table.text) {
            (Some(name), Some(_), None) | (Some(name), None, Some(_)) => {
                Ok(SqlEntry { name, file: table.file, sha256: table.sha256, text: table.text })
            }
            _ => Err("data is a `file`, or a `text` with a `name`".to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for SqlEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(deserializer, FILE_WITH_SQL, SqlEntry::named, SqlEntry::of_table)
    }
}

impl Serialize for DataChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            DataChoice::None => serializer.serialize_str("none"),
            DataChoice::Tpcb => serializer.serialize_str("tpcb"),
            DataChoice::Files(files) => DataTable { files: files.clone() }.serialize(serializer),
        }
    }
}

impl DataChoice {
    fn named(text: &str) -> Result<DataChoice, String> {
        match text {
            "none" => Ok(DataChoice::None),
            "tpcb" => Ok(DataChoice::Tpcb),
            _ => Err(format!("`{text}` is no data; use \"none\", \"tpcb\", or {{files = [\"schema.sql\"]}}")),
        }
    }

    fn of_table(table: DataTable) -> Result<DataChoice, String> {
        if table.files.is_empty() {
            Err("no file is named; for the database as it is, use \"none\"".to_string())
        } else {
            Ok(DataChoice::Files(table.files))
        }
    }
}

impl<'de> Deserialize<'de> for DataChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "\"none\", \"tpcb\", or {files = [\"schema.sql\"]}";
        text_or_table(deserializer, expected, DataChoice::named, DataChoice::of_table)
    }
}

const FILE_WITH_SQL: &str = "the name of a file with SQL (all files of a list are one set of data; `pgdyno compare --a \
     'workload.data.files=[\"a.sql\"]' --b 'workload.data.files=[\"b.sql\"]'` compares two)";

/// A script of a case, with its text at the time of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct CaseScript {
    /// Name in reports, unique in the case.
    pub name: String,
    /// Weight, relative to the sum of all weights.
    pub weight: u32,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    pub source: String,
    /// See [`ScriptEntry::to`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ScriptTarget>,
}

/// The data that the workload of a case runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseData {
    /// The database as it is: not loaded, restored, vacuumed or analyzed.
    None,
    /// Created by these SQL files, in this order.
    Files(Vec<SqlFile>),
    /// Restored from an archive of `pg_dump`.
    Archive(Box<Archive>),
    /// Made by the case's workload directory.
    Directory,
    /// Tables that pgdyno loads at the case's scale.
    #[serde(untagged, with = "loaded")]
    Loaded(Dataset),
}

impl Default for CaseData {
    /// The tables that are loaded by default.
    fn default() -> CaseData {
        CaseData::Loaded(Dataset::default())
    }
}

impl CaseData {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == CaseData::default()
    }
}

/// The word of a set of tables in a plan: its name, with `_` as in the names of the other kinds of data.
mod loaded {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::experiment::case::workload::Dataset;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(dataset: &Dataset, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&dataset.name().replace('-', "_"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dataset, D::Error> {
        let word = String::deserialize(deserializer)?;
        let known = Dataset::ALL.into_iter().find(|dataset| dataset.name().replace('-', "_") == word);
        known.ok_or_else(|| D::Error::custom(format!("`{word}` names no data")))
    }
}

/// An SQL file of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlFile {
    /// Name as given.
    pub name: String,
    /// SHA-256 of the contents, in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Path, if the text is not stored here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The text, if it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What the server reported about a case's scripts before the load: the tables in their statements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptSurvey {
    /// Tables that statements name, including those behind views; tables used in functions are not visible.
    pub tables: BTreeSet<String>,
    /// Tables that statements change or lock.
    pub written: BTreeSet<String>,
    /// Statements that could not be checked before the load, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Statements of `\gset` and `\aset` whose columns the server could not name before the load, so that it was not known
    /// which variables they set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns_unknown: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_data_are_those_of_stored_plans() {
        for (data, word) in [
            (CaseData::Loaded(Dataset::Tpcb), "\"tpcb\""),
            (CaseData::Loaded(Dataset::Tpcc), "\"tpcc\""),
            (CaseData::Loaded(Dataset::TprocC), "\"tproc_c\""),
            (CaseData::None, "\"none\""),
            (CaseData::Directory, "\"directory\""),
            (CaseData::Files(Vec::new()), "{\"files\":[]}"),
        ] {
            assert_eq!(serde_json::to_string(&data).unwrap(), word);
            assert_eq!(serde_json::from_str::<CaseData>(word).unwrap(), data);
        }
        for word in ["\"tproc-c\"", "\"other\"", "{\"tpcb\":1}", "1"] {
            assert!(serde_json::from_str::<CaseData>(word).is_err(), "{word}");
        }
    }

    #[test]
    fn the_short_form_has_a_name_and_perhaps_a_weight() {
        let check =
            |text: &str, expected: Result<(&str, u32), &str>| match (ScriptEntry::parse(text), expected) {
                (Ok(entry), Ok((name, weight))) => {
                    assert_eq!(entry.weight, weight, "{text}");
                    assert_eq!(format!("{:?}", entry.source), name, "{text}");
                }
                (Err(message), Err(expected)) => assert!(message.contains(expected), "{text}: {message}"),
                (got, _) => panic!("{text}: {got:?}"),
            };
        check("a.sql", Ok(("File(\"a.sql\")", 1)));
        check("a@b.sql@0", Ok(("File(\"a@b.sql\")", 0)));
        check("builtin:select-only@2", Ok(("Builtin(\"select-only\")", 2)));
        check("a.sql@", Err("`` in `a.sql@` is not a weight"));
        check("a.sql@-1", Err("not a weight"));
        check("a.sql@2147483648", Err("use 0 to 2147483647"));
        check("@3", Err("names no script"));
    }
}
