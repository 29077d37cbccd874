//! The directories that are built in: every file of `crates/workload/directories`, read when the program is compiled.

use super::DirectoryFiles;

/// The files of one directory with their texts.
macro_rules! files {
    ($directory:literal: $($file:literal,)*) => {
        &[$(($file, include_str!(concat!("../../directories/", $directory, "/", $file)))),*]
    };
}

/// Each directory by its name, in the order of lists.
pub(super) const DIRECTORIES: &[(&str, DirectoryFiles)] = &[
    (
        "oltp",
        files![
            "oltp":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/rows.sql",
            "transactions/delete.sql",
            "transactions/insert.sql",
            "transactions/point-select.sql",
            "transactions/read-only.sql",
            "transactions/read-write.sql",
            "transactions/update-index.sql",
            "transactions/update-non-index.sql",
            "transactions/write-only.sql",
        ],
    ),
    (
        "ycsb",
        files![
            "ycsb":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/rows.sql",
            "transactions/insert.sql",
            "transactions/read-modify-write.sql",
            "transactions/read.sql",
            "transactions/scan.sql",
            "transactions/update.sql",
        ],
    ),
    (
        "queue",
        files![
            "queue":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/complete.sql",
            "checks/once.sql",
            "transactions/produce-notify.sql",
            "transactions/produce.sql",
            "transactions/work-listen.sql",
            "transactions/work.sql",
        ],
    ),
    (
        "tpch-like",
        files![
            "tpch-like":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/statuses.sql",
            "checks/suppliers.sql",
            "checks/totals.sql",
            "lists/colours.txt",
            "lists/modes.txt",
            "lists/nations.txt",
            "lists/regions-of-nations.txt",
            "lists/regions.txt",
            "transactions/q1.sql",
            "transactions/q2.sql",
            "transactions/q3.sql",
            "transactions/q4.sql",
            "transactions/q5.sql",
            "transactions/q6.sql",
            "transactions/q7.sql",
            "transactions/q8.sql",
            "transactions/q9.sql",
            "transactions/q10.sql",
            "transactions/q11.sql",
            "transactions/q12.sql",
            "transactions/q13.sql",
            "transactions/q14.sql",
            "transactions/q15.sql",
            "transactions/q16.sql",
            "transactions/q17.sql",
            "transactions/q18.sql",
            "transactions/q19.sql",
            "transactions/q20.sql",
            "transactions/q21.sql",
            "transactions/q22.sql",
        ],
    ),
    (
        "ch-like",
        files![
            "ch-like":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/deliveries.sql",
            "checks/lines.sql",
            "checks/numbers.sql",
            "checks/payments.sql",
            "lists/nations.txt",
            "lists/regions.txt",
            "transactions/delivery.sql",
            "transactions/new-order.sql",
            "transactions/order-status.sql",
            "transactions/payment.sql",
            "transactions/q1.sql",
            "transactions/q2.sql",
            "transactions/q3.sql",
            "transactions/q4.sql",
            "transactions/q5.sql",
            "transactions/q6.sql",
            "transactions/q7.sql",
            "transactions/q8.sql",
            "transactions/q9.sql",
            "transactions/q10.sql",
            "transactions/q11.sql",
            "transactions/q12.sql",
            "transactions/q13.sql",
            "transactions/q14.sql",
            "transactions/q15.sql",
            "transactions/q16.sql",
            "transactions/q17.sql",
            "transactions/q18.sql",
            "transactions/q19.sql",
            "transactions/q20.sql",
            "transactions/q21.sql",
            "transactions/q22.sql",
            "transactions/stock-level.sql",
        ],
    ),
    (
        "vector",
        files![
            "vector":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/truth.sql",
            "transactions/insert.sql",
            "transactions/recall.sql",
            "transactions/search.sql",
        ],
    ),
    (
        "timeseries",
        files![
            "timeseries":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/order.sql",
            "transactions/busiest.sql",
            "transactions/drop-days.sql",
            "transactions/ingest.sql",
            "transactions/last-hour.sql",
            "transactions/retention.sql",
            "transactions/roll-up.sql",
        ],
    ),
    (
        "documents",
        files![
            "documents":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/rows.sql",
            "lists/tags.txt",
            "transactions/customer.sql",
            "transactions/find-sku.sql",
            "transactions/find-tag.sql",
            "transactions/insert.sql",
            "transactions/read.sql",
            "transactions/update.sql",
        ],
    ),
    (
        "churn",
        files![
            "churn":
            "workload.toml",
            "schema.sql",
            "after.sql",
            "README.md",
            "checks/rows.sql",
            "transactions/change.sql",
            "transactions/look.sql",
            "transactions/nothing.sql",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_every_directory_is_built_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("directories");
        let mut found = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path.strip_prefix(&root).unwrap().to_str().unwrap().to_string());
                }
            }
        }
        let built_in: BTreeSet<String> = DIRECTORIES
            .iter()
            .flat_map(|(name, files)| files.iter().map(move |(file, _)| format!("{name}/{file}")))
            .collect();
        assert_eq!(built_in, found);
        for (name, files) in DIRECTORIES {
            assert!(files.iter().any(|(file, _)| *file == "README.md"), "{name} has a README.md");
        }
    }
}
