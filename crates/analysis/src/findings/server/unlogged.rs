//! Tables that write no WAL: their rows do not survive a crash of the server, and changing them costs less.

use std::collections::BTreeMap;

use model::run::RunRecord;

use crate::findings::format::list;

/// First word about such tables.
pub(in crate::findings) const UNLOGGED: &str = "UNLOGGED";

/// The UNLOGGED tables of the load, without those of which the server counted that no row changed; `None` if there are none.
pub(super) fn tables(record: &RunRecord) -> Option<String> {
    let is_untouched = |table: &str| record.touched.get(table).is_some_and(|rows| rows.rows_changed == 0);
    let definitions = &record.fingerprint.as_ref()?.definitions;
    let of_table = |(table, objects): (&String, &BTreeMap<String, String>)| {
        let is_unlogged = objects.iter().any(|(object, definition)| is_stored_unlogged(object, definition));
        (is_unlogged && !is_untouched(table)).then(|| format!("`{table}`"))
    };
    let found: Vec<String> = definitions.iter().filter_map(of_table).collect();
    let asked = if record.case.workload.layout.unlogged { ", as workload.unlogged asks" } else { "" };
    (!found.is_empty()).then(|| format!("{UNLOGGED} tables, which write no WAL{asked} ({})", list(&found, 4)))
}

/// Whether an object is the table or a part of it, and UNLOGGED.
fn is_stored_unlogged(object: &str, definition: &str) -> bool {
    let is_storage = object == "table" || object.starts_with("part ");
    is_storage && definition.split(", ").any(|word| word == UNLOGGED)
}
