//! The workloads that this program knows without a directory: what their rows say.

use model::text::prose::{bytes, grouped, plural};
use model::workload::data::Count;
use model::workload::{Dataset, Programs, WorkloadKind};
use workload::catalogue;

/// What one unit of scale is: `1 warehouse, 94 MB`.
pub(super) fn unit(dataset: Dataset) -> String {
    let sharing = WorkloadKind::ALL.into_iter().map(WorkloadKind::row).filter(|row| row.data == dataset);
    let noun = sharing.filter_map(|row| row.shared.as_ref()).map(|shared| shared.nouns[0]).next();
    format!("1 {}, {}", noun.unwrap_or("unit"), bytes(dataset.row().bytes_per_unit as f64))
}

/// Its tables with the rows that they have after a load, as far as the numbers of keys say.
pub(super) fn tables(dataset: Dataset, scale: u32) -> Vec<(&'static str, Option<u64>)> {
    let of = |count: Option<(&str, Count)>| count.map(|(_, count)| count.at(scale));
    dataset.row().tables.iter().map(|table| (table.name, of(table.key))).collect()
}

/// The text that `show` prints of a kind.
pub(super) fn text(kind: WorkloadKind, scale: u32) -> String {
    let row = kind.row();
    let mut out = format!("{kind}: {}\n", row.title);
    if kind.is_own() {
        out.push_str("scripts of your own (`-f a.sql`), on data of your own (workload.data)\n");
        return out;
    }
    out.push_str(&format!("scale    {scale}, in units of {}\n", unit(row.data)));
    let size = bytes(row.data.estimated_bytes(scale) as f64);
    out.push_str(&format!("size     about {size} with indexes\n"));
    let tables: Vec<String> = row.data.tables().into_iter().map(str::to_string).collect();
    out.push_str(&format!("tables   {}\n", tables.join(", ")));
    let scripts = catalogue::scripts(kind);
    for script in scripts {
        out.push_str(&format!("script   {}\n", script.name));
        out.extend(script.text.replace("@.", "").lines().map(|line| format!("           {line}\n")));
    }
    if let Programs::Native(_) = row.programs {
        out.push_str("made by  code of pgdyno, because no script could express it\n");
    }
    let calls: Vec<&str> = row.options.calls.iter().map(|calls| calls.as_str()).collect();
    if !calls.is_empty() {
        out.push_str(&format!("calls    {} (workload.calls)\n", calls.join(", ")));
    }
    let checks = catalogue::checks(kind);
    out.push_str(&format!("checks   {}\n", plural(grouped(&checks.len().to_string()), "check")));
    for check in checks {
        out.push_str(&format!("           {:<14} {}\n", check.id, check.title));
    }
    out
}

/// The same for programs.
pub(super) fn json(kind: WorkloadKind, scale: u32) -> serde_json::Value {
    let row = kind.row();
    let tables: Vec<serde_json::Value> = tables(row.data, scale)
        .into_iter()
        .map(|(name, n_rows)| serde_json::json!({"name": name, "rows": n_rows}))
        .collect();
    let checks: Vec<serde_json::Value> = catalogue::checks(kind)
        .into_iter()
        .map(|check| serde_json::json!({"name": check.id, "title": check.title}))
        .collect();
    serde_json::json!({
        "name": kind.as_str(), "title": row.title, "directory": false, "scale": scale,
        "bytes": row.data.estimated_bytes(scale), "tables": tables, "checks": checks,
    })
}
