//! What a set of tables has that depends on its schema, and how much space a case's data takes.

use model::experiment::case::WorkloadSpec;
use model::experiment::script::CaseData;
use model::workload::Dataset;
use workload::objects::marker::{MarkedObject, Marker, is_part_mark};
use workload::{Schema, Signature, catalogue};

/// Whether the comment on a table is its mark: that of this table, with this OID unless an older version wrote it.
pub(crate) fn is_mark(dataset: Dataset, comment: &str, table: &str, oid: u32) -> bool {
    if table == dataset.marked_table() {
        return matches!(Marker::parse(comment), Ok(Some(marker)) if marker.workload == dataset.name() && marker.is_on(oid));
    }
    is_part_mark(comment, dataset.name(), table, MarkedObject::Oid(oid))
}

/// All tables as `schema.table`.
pub fn tables_in(dataset: Dataset, schema: &Schema) -> Vec<String> {
    dataset.tables().into_iter().map(|table| schema.plain_name(table)).collect()
}

/// Functions and procedures with the statements that create them.
pub(crate) fn routines(dataset: Dataset, schema: &Schema, version_num: u32) -> Vec<(Signature, String)> {
    (catalogue::maker(dataset).routines)(schema, version_num)
}

/// Approximate disk space of the data, bytes.
pub fn data_bytes(workload: &WorkloadSpec) -> u64 {
    match &workload.data {
        CaseData::Loaded(dataset) => dataset.estimated_bytes(workload.scale),
        CaseData::None => 0,
        CaseData::Directory => workload.directory.as_ref().map_or(0, |directory| directory.estimated_bytes()),
        // The output of a statement cannot be derived from its length; rows of COPY double with their headers and
        // indexes.
        CaseData::Files(files) => 2 * files.iter().map(|file| file.bytes).sum::<u64>(),
        CaseData::Archive(archive) if archive.tables_of.is_some() => Dataset::from_case_data(&workload.data)
            .map_or(0, |dataset| dataset.estimated_bytes(workload.scale)),
        // Rows double as above; compression by gzip, pg_dump's default, makes text a third to a tenth (our convention).
        CaseData::Archive(archive) => archive.bytes.saturating_mul(if archive.is_compressed { 8 } else { 2 }),
    }
}
