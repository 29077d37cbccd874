//! What the data depends on, as one hash: data with the same hash need not be loaded again.

use std::collections::BTreeSet;

use crate::directory::{Directory, Hash};
use crate::instance::build::effective_lets;
use crate::instance::choice::Chosen;
use crate::instance::table::Table;
use crate::instance::words;
use crate::manifest::captured::DeclaredData;
use crate::manifest::tables::{DeclaredTable, NamedText, TableSize};
use crate::manifest::{FORMAT, Manifest};

/// SHA-256 of the format, the seed, the scale, the tables, the named expressions, options and lists that they mention, and the SQL
/// before and after the rows.
pub(super) fn of_data(
    manifest: &Manifest,
    directory: &Directory,
    chosen: &Chosen,
    tables: &[Table],
) -> String {
    let mut hash = Hash::new("workload data");
    hash.add(&FORMAT.to_string());
    match &manifest.data {
        // It has no seed.
        DeclaredData::Native { data, .. } => hash.add(&format!("{} {}", data.name(), data.edition())),
        _ => hash.add(&chosen.data_seed.to_string()),
    }
    hash.add(&chosen.scale.to_string());
    let lets = effective_lets(manifest, chosen);
    let texts = reached(manifest, &lets);
    for text in &texts {
        hash.add(text);
    }
    // Numbers of rows and names follow from options, too.
    for table in tables {
        hash.add(&table.name);
        hash.add(&table.n_rows.to_string());
    }
    for extension in &manifest.needs.extensions {
        hash.add(extension);
    }
    let names: BTreeSet<&str> = texts.iter().copied().flat_map(words::names).collect();
    for (name, value) in chosen.options.iter().filter(|(name, _)| names.contains(name.as_str())) {
        hash.add(name);
        hash.add(&value.to_string());
    }
    let mut lists: BTreeSet<String> =
        texts.iter().copied().flat_map(words::texts).map(str::to_string).collect();
    // An option may name a list.
    lists.extend(chosen.options.values().map(ToString::to_string));
    for (name, text) in directory.files().iter().filter(|(name, _)| lists.contains(*name)) {
        hash.add(name);
        hash.add(text);
    }
    for file in ["schema.sql", "after.sql"] {
        hash.add(file);
        hash.add(directory.file(file).unwrap_or_default());
    }
    hash.finish()
}

/// Everything that the tables say, and the named expressions that they mention, also by others.
fn reached<'a>(manifest: &'a Manifest, lets: &[&'a NamedText]) -> Vec<&'a str> {
    let mut texts: Vec<&str> = manifest.tables.iter().flat_map(texts_of).collect();
    let mut n_known = 0;
    let mut left: Vec<&NamedText> = lets.to_vec();
    // Each round takes the expressions that the texts of the last one mention.
    while n_known < texts.len() {
        let new: BTreeSet<&str> = texts[n_known..].iter().copied().flat_map(words::names).collect();
        n_known = texts.len();
        left.retain(|one| {
            let is_mentioned = new.contains(one.name.as_str());
            if is_mentioned {
                texts.extend([one.name.as_str(), one.text.as_str()]);
            }
            !is_mentioned
        });
    }
    texts
}

/// All that a table says, in a fixed order.
pub(super) fn texts_of(table: &DeclaredTable) -> Vec<&str> {
    let mut texts = vec![table.name.as_str()];
    match &table.size {
        TableSize::Rows(rows) => texts.extend(["rows", &rows.text]),
        TableSize::Each { parent, lines, .. } => texts.extend(["each", parent.as_str(), &lines.text]),
    }
    for (kind, values) in [("columns", &table.columns), ("hidden", &table.hidden)] {
        texts.push(kind);
        texts.extend(values.iter().flat_map(|value| [value.name.as_str(), value.text.as_str()]));
    }
    texts
}
