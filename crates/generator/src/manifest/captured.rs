//! What a captured directory says of the server that it comes from, and where its data is.

use std::ops::Range;
use std::path::{Component, Path};

use crate::manifest::reader::{ManifestReader, PlacedValue, Section};
use crate::manifest::sessions::CLIENTS_MAX;
use crate::native::NativeData;

/// Highest rate of a window, transactions per second.
const RATE_MAX: f64 = 1e8;

/// The server and the window that a workload was captured from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedSource {
    /// Release, as `15.4`.
    pub server: Option<String>,
    /// What `pg_control_system()` says of the cluster.
    pub system_identifier: Option<String>,
    /// Transactions per second of the window.
    pub rate_per_s: Option<f64>,
    /// Most sessions that were active at a time.
    pub n_clients: Option<u32>,
    /// When the window began.
    pub began: Option<String>,
    /// Length of the window, seconds.
    pub length_s: Option<f64>,
    /// The form of the log.
    pub log: Option<String>,
    /// How faithful the capture can be at best.
    pub grade: Option<String>,
}

/// Where the data of a directory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeclaredData {
    /// From the expressions of its tables.
    #[default]
    Tables,
    /// From a library that makes all tables.
    Native {
        /// Which data.
        data: NativeData,
        /// Where it is named.
        at: Range<usize>,
    },
    /// It is there: the tables of the database as they are.
    Existing,
    /// From an archive by `pg_dump`, relative to the directory.
    RestoredFrom {
        /// Path of the archive.
        file: String,
        /// Where it stands.
        at: Range<usize>,
    },
}

/// `source`: a text, or the table of a captured directory.
pub(super) fn source(
    reader: &mut ManifestReader<'_>,
    top: &mut Section<'_, '_>,
) -> (String, Option<CapturedSource>) {
    if !top.is_table("source") {
        return (top.line(reader, "source").unwrap_or_default(), None);
    }
    let Some(mut section) = top.section(reader, "source") else { return (String::new(), None) };
    let rate = section.number(reader, "rate");
    if let Some(rate) = rate.as_ref().filter(|rate| rate.value <= 0.0 || rate.value > RATE_MAX) {
        reader.problem(rate.at.clone(), "`rate` is a number of transactions per second, above 0");
    }
    let identifier = section.text(reader, "system_identifier");
    if let Some(identifier) = identifier.as_ref().filter(|one| one.value.parse::<u64>().is_err()) {
        let message = "`system_identifier` is the number that `pg_control_system()` shows, as a text";
        reader.problem(identifier.at.clone(), message);
    }
    let captured = CapturedSource {
        server: section.line(reader, "server"),
        system_identifier: identifier.map(|identifier| identifier.value),
        rate_per_s: rate.map(|rate| rate.value),
        n_clients: section.count(reader, "clients", 1..=CLIENTS_MAX),
        began: section.line(reader, "began"),
        length_s: section.number(reader, "length_s").map(|length| length.value),
        log: section.line(reader, "log"),
        grade: section.line(reader, "grade"),
    };
    section.finish(reader);
    let server = captured.server.as_deref().map(|server| format!("PostgreSQL {server}"));
    let words = ["captured from", server.as_deref().unwrap_or("a server")];
    (words.join(" "), Some(captured))
}

impl DeclaredData {
    /// Whether nothing makes it.
    pub fn is_there(&self) -> bool {
        matches!(self, DeclaredData::Existing | DeclaredData::RestoredFrom { .. })
    }
}

/// Whether a path names something within the directory that it is relative to, as far as its words say: links are for whoever opens it.
pub fn is_inside(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    let is_own = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    parts.clone().any(|part| matches!(part, Component::Normal(_))) && parts.all(|part| is_own(&part))
}

/// `data`: `"tables"`, `"native:NAME"`, `"existing"` or `{restore_from = "FILE"}`.
pub(super) fn data(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> DeclaredData {
    if top.is_table("data") {
        let Some(mut section) = top.section(reader, "data") else { return DeclaredData::default() };
        let PlacedValue { value: file, at } = section.required(reader, "restore_from");
        if !is_inside(&file) {
            let message = "`restore_from` is a path within the directory, without `..`; an archive elsewhere is for workload.restore_from";
            reader.problem(at.clone(), message);
        }
        section.finish(reader);
        return DeclaredData::RestoredFrom { file, at };
    }
    match top.text(reader, "data") {
        None => DeclaredData::Tables,
        Some(data) if data.value == "tables" => DeclaredData::Tables,
        Some(data) if data.value == "existing" => DeclaredData::Existing,
        Some(PlacedValue { value, at }) => match NativeData::named(&value) {
            Some(data) => DeclaredData::Native { data, at },
            None => {
                let native: Vec<String> = NativeData::ALL
                    .iter()
                    .map(|data| format!("\"{}\" ({})", data.name(), data.source()))
                    .collect();
                let message = format!(
                    "data `{value}` is not known: \"tables\" (rows come from the expressions of tables), {}, \"existing\" (the database has \
                     them), or {{restore_from = \"FILE\"}}",
                    native.join(", ")
                );
                reader.problem(at, message);
                DeclaredData::Tables
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_inside;

    #[test]
    fn an_archive_is_within_its_directory() {
        for file in ["shop.dump", "data/shop.dump", "./shop.dir/", "..shop", "a/./b"] {
            assert!(is_inside(file), "{file}");
        }
        for file in ["", ".", "./", "..", "../shop.dump", "data/../../shop.dump", "/etc/passwd", "a/.."] {
            assert!(!is_inside(file), "{file}");
        }
    }
}
