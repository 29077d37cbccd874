//! `pgdyno workload list`: the workloads that pgdyno has.

use std::path::Path;

use anyhow::{Result, anyhow};
use experiment::plan::scripts::directories as planned;
use generator::Manifest;
use model::workload::{WorkloadKind, directories};

use crate::commands::data::workload::cells::{self, Cell};
use crate::commands::data::workload::native;
use crate::{Exit, print, print_exact};

/// What the list says of a workload.
struct Entry {
    name: String,
    title: String,
    /// The first is the default; empty where there is no choice.
    variants: Vec<String>,
    /// Size of one unit of scale, in words.
    unit: String,
    is_directory: bool,
}

/// Most characters of the variants of one workload in a table for people; `show` has all.
const VARIANTS_SHOWN_MAX: usize = 40;

/// Prints the list.
pub(super) fn list(json: bool) -> Result<Exit> {
    let entries = entries()?;
    if json {
        for Entry { name, title, variants, unit, is_directory } in entries {
            let entry = serde_json::json!({
                "name": name, "title": title, "variants": variants, "scale_unit": unit, "directory": is_directory,
            });
            print_exact(&format!("{entry}\n"))?;
        }
    } else {
        print(&text(&entries))?;
        print("\nyour own: `pgdyno workload new DIR`, and a path with a `/` wherever a name is\n")?;
    }
    Ok(Exit::Done)
}

fn entries() -> Result<Vec<Entry>> {
    let kinds = WorkloadKind::ALL.into_iter().filter(|kind| !kind.is_own()).map(|kind| Entry {
        name: kind.to_string(),
        title: kind.row().title.to_string(),
        variants: Vec::new(),
        unit: native::unit(kind.row().data),
        is_directory: false,
    });
    kinds.map(Ok).chain(directories::BUILTIN.into_iter().map(of_directory)).collect()
}

fn of_directory(name: &str) -> Result<Entry> {
    let directory = planned::directory_at(name, Path::new("")).map_err(anyhow::Error::msg)?;
    let manifest = Manifest::read(&directory).map_err(|problems| {
        let words: Vec<String> = problems.iter().map(|problem| format!("{name}/{problem}")).collect();
        anyhow!("{}", words.join("\n"))
    })?;
    Ok(Entry {
        name: name.to_string(),
        title: manifest.title,
        variants: manifest.variants.into_iter().map(|variant| variant.name).collect(),
        unit: manifest.scale,
        is_directory: true,
    })
}

fn text(entries: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let texts = [entry.name.clone(), entry.title.clone(), shortened(&entry.variants), entry.unit.clone()];
        texts.map(Some).to_vec()
    };
    let rows: Vec<Vec<Cell>> = entries.iter().map(row).collect();
    cells::table(&["name", "what", "variants", "1 unit of scale"], &rows, usize::MAX)
}

/// The variants with commas, as many as there is room for.
fn shortened(variants: &[String]) -> String {
    let mut out = String::new();
    for (n, variant) in variants.iter().enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        if out.chars().count() + comma.len() + variant.chars().count() > VARIANTS_SHOWN_MAX {
            out.push_str(&format!(", and {} more", variants.len() - n));
            break;
        }
        out.push_str(comma);
        out.push_str(variant);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_all_kinds_and_all_directories() {
        let entries = entries().unwrap();
        let text = text(&entries);
        for name in ["tpcb", "tpcb-select", "tpcc", "tproc-c"] {
            assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{text}");
        }
        assert!(!text.contains("scripts"), "{text}");
        assert!(text.contains("1 warehouse, "), "{text}");
        for entry in entries {
            assert!(!entry.title.is_empty() && !entry.unit.is_empty(), "{}", entry.name);
        }
    }

    #[test]
    fn long_lists_of_variants_are_cut() {
        let names = |n: usize| (0..n).map(|n| format!("variant-{n}")).collect::<Vec<String>>();
        assert_eq!(shortened(&[]), "");
        assert_eq!(shortened(&names(3)), "variant-0, variant-1, variant-2");
        assert_eq!(shortened(&names(5)), "variant-0, variant-1, variant-2, and 2 more");
    }
}
