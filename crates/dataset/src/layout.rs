//! Layout of the tables: plain, the TPC-B-like ones partitioned, or UNLOGGED.

use std::collections::BTreeMap;

use model::experiment::case::{Layout, PartitionMethod, WorkloadSpec};
use model::release::{Release, catalogs};
use model::workload::Dataset;
use workload::Marker;
use workload::tpcb::{self, Partitioning};

use crate::state::untouched;

/// Tables and partitions that loading creates.
pub fn all_tables(dataset: Dataset, scale: u32, layout: Layout) -> Vec<String> {
    let partitions = match partitioning(layout) {
        Some(partitioning) if dataset.row().can_be_partitioned => tpcb::partitions(scale, partitioning),
        _ => Vec::new(),
    };
    let tables = dataset.tables().into_iter().map(str::to_string);
    tables.chain(partitions.into_iter().map(|partition| partition.name)).collect()
}

/// Partitioning of accounts in a layout.
pub fn partitioning(layout: Layout) -> Option<Partitioning> {
    let n = layout.partitions;
    (n > 0).then_some(match layout.partition_method {
        PartitionMethod::Range => Partitioning::Range(n),
        PartitionMethod::Hash => Partitioning::Hash(n),
    })
}

/// A layout as in a load marker and a cluster's key; empty for pgbench's plain one.
pub fn layout_facts(layout: Layout) -> BTreeMap<String, String> {
    let mut pairs = Vec::new();
    if layout.partitions > 0 {
        pairs.push(("partition_method", layout.partition_method.as_str().to_string()));
        pairs.push(("partitions", layout.partitions.to_string()));
    }
    if layout.unlogged {
        pairs.push(("unlogged", true.to_string()));
    }
    pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// What of a layout the tables of a data set have.
pub fn of_dataset(dataset: Dataset, layout: Layout) -> Layout {
    if dataset.row().can_be_partitioned {
        return layout;
    }
    Layout { unlogged: layout.unlogged, ..Layout::default() }
}

/// The CREATE TABLE statements of a layout. A partitioned table has no storage of its own, and from 18 on must not be UNLOGGED.
pub(crate) fn statements(layout: Layout, create_tables: Vec<String>) -> Vec<String> {
    const CREATE: &str = "create table ";
    let unlogged = |sql: String| match sql.strip_prefix(CREATE) {
        Some(rest) if layout.unlogged && !rest.contains(" partition by ") => {
            format!("create unlogged table {rest}")
        }
        _ => sql,
    };
    create_tables.into_iter().map(unlogged).collect()
}

/// Layout of a marker's data. A layout that only a newer version knows counts as pgbench's plain one.
pub fn layout_of(marker: &Marker) -> Layout {
    let fact = |key: &str| marker.extra.get(key);
    Layout {
        partitions: fact("partitions").and_then(|n| n.parse().ok()).unwrap_or(0),
        partition_method: fact("partition_method").and_then(|word| word.parse().ok()).unwrap_or_default(),
        unlogged: fact("unlogged").is_some_and(|word| word == "true"),
    }
}

/// The fact of a marker that names the tablespace that a load chose.
const TABLESPACE: &str = "tablespace";

/// The tablespace of a load as its marker and a key of data have it.
pub fn tablespace_fact(tablespace: Option<&str>) -> Option<(String, String)> {
    tablespace.map(|name| (TABLESPACE.to_string(), name.to_string()))
}

/// The tablespace that the load chose which wrote this marker.
pub fn tablespace_of(marker: &Marker) -> Option<&str> {
    marker.extra.get(TABLESPACE).map(String::as_str)
}

/// The marker of data that is no longer where its load put it: a restored archive.
pub(crate) fn without_tablespace(mut marker: Marker) -> Marker {
    marker.extra.remove(TABLESPACE);
    marker
}

/// Whether a marker's data is in the layout and the tablespace that a workload asks for.
pub fn is_as_wanted(marker: &Marker, dataset: Dataset, workload: &WorkloadSpec) -> bool {
    has_layout(marker, dataset, workload.layout) && tablespace_of(marker) == workload.tablespace.as_deref()
}

/// The layout and the tablespace of a marker's data in words.
pub fn describe_found(marker: &Marker) -> String {
    format!("{}{}", layout_of(marker), tablespace_words(tablespace_of(marker)))
}

fn tablespace_words(tablespace: Option<&str>) -> String {
    tablespace.map_or(String::new(), |name| format!(" in tablespace `{name}`"))
}

/// Whether a marker's data has this layout; only TPC-B-like tables can be partitioned.
pub fn has_layout(marker: &Marker, dataset: Dataset, layout: Layout) -> bool {
    let is_of_layout = |key: &str| key != TABLESPACE && !untouched::KEYS.contains(&key);
    let facts = marker.extra.iter().filter(|(key, _)| is_of_layout(key));
    if dataset.row().can_be_partitioned {
        facts.eq(&layout_facts(layout))
    } else {
        layout_of(marker).unlogged == layout.unlogged
    }
}

/// The data of a workload in words.
pub fn describe(workload: &WorkloadSpec) -> String {
    let WorkloadSpec { scale, layout, .. } = workload;
    let place = tablespace_words(workload.tablespace.as_deref());
    let layout = if layout.is_plain() { String::new() } else { format!(" in {layout}") };
    format!("scale {scale}{layout}{place}")
}

/// Why a server of this version cannot have partitioned data, and what to do.
pub fn lacks_partitions(version_num: u32) -> Option<String> {
    (!Release::new(version_num).has(catalogs::PARTITION_KEYS)).then(|| {
        format!(
            "partitions with a primary key need PostgreSQL 11; the server is version {}",
            release_name(version_num)
        )
    })
}

/// A version by its number: `9.6`, `10.23`.
pub fn release_name(version_num: u32) -> String {
    match (version_num / 10_000, version_num % 10_000) {
        (9, minor) => format!("9.{}", minor / 100),
        (major, 0) => major.to_string(),
        (major, minor) => format!("{major}.{minor}"),
    }
}
