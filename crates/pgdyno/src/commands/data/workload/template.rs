//! `pgdyno workload new`: a small workload with comments, to be changed until it is the user's.

use std::path::Path;

use anyhow::Result;

use crate::commands::data::workload::written;
use crate::front::shell;
use crate::{Exit, print};

/// What stands in the files for the name of the workload.
const PLACE: &str = "@WORKLOAD@";

/// The files.
const FILES: [(&str, &str); 9] = [
    ("workload.toml", include_str!("../../../../templates/workload/workload.toml")),
    ("schema.sql", include_str!("../../../../templates/workload/schema.sql")),
    ("after.sql", include_str!("../../../../templates/workload/after.sql")),
    ("transactions/browse.sql", include_str!("../../../../templates/workload/transactions/browse.sql")),
    ("transactions/buy.sql", include_str!("../../../../templates/workload/transactions/buy.sql")),
    ("checks/purchases.sql", include_str!("../../../../templates/workload/checks/purchases.sql")),
    ("checks/totals.sql", include_str!("../../../../templates/workload/checks/totals.sql")),
    ("lists/words.txt", include_str!("../../../../templates/workload/lists/words.txt")),
    ("README.md", include_str!("../../../../templates/workload/README.md")),
];

/// Name of a workload whose directory has none that could be one.
const DEFAULT_NAME: &str = "shop";

/// Writes the template into a new directory, and says what to do with it.
pub(super) fn write(dir: &Path) -> Result<Exit> {
    let name = name(dir);
    let texts = FILES.map(|(file, text)| (file, text.replace(PLACE, &name)));
    let n_files = written::write(dir, texts.iter().map(|(file, text)| (*file, text.as_str())))?;
    let path = shell::quoted(&path(dir));
    print(&format!(
        "wrote {n_files} files to `{}`; begin with its workload.toml, and then\n  \
         pgdyno workload check {path}\n  \
         pgdyno workload rows {path} purchase\n  \
         pgdyno run -w {path} -s 10 -c 1,16\n",
        dir.display()
    ))?;
    Ok(Exit::Done)
}

/// The directory as `-w` takes it: with a `/`.
pub(super) fn path(dir: &Path) -> String {
    let text = dir.display().to_string();
    if text.contains('/') { text } else { format!("./{text}") }
}

/// A name made from that of the directory: lower-case letters, digits and hyphens.
fn name(dir: &Path) -> String {
    let absolute = std::path::absolute(dir).unwrap_or_default();
    let last = absolute.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.to_string()
    } else {
        DEFAULT_NAME.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_called_like_its_directory() {
        for (dir, expected) in [
            ("shop", "shop"),
            ("a/My Shop.workload", "my-shop-workload"),
            ("./x/", "x"),
            ("/", DEFAULT_NAME),
            ("7", DEFAULT_NAME),
            ("_é_", DEFAULT_NAME),
        ] {
            assert_eq!(name(Path::new(dir)), expected, "{dir}");
        }
        assert_eq!((path(Path::new("shop")).as_str(), path(Path::new("a/b")).as_str()), ("./shop", "a/b"));
    }

    #[test]
    fn every_file_of_the_template_is_written() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/workload");
        let mut found = Vec::new();
        let mut open = vec![dir.clone()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else {
                    found.push(entry.path().strip_prefix(&dir).unwrap().display().to_string());
                }
            }
        }
        let mut written = FILES.map(|(name, _)| name.to_string());
        found.sort();
        written.sort();
        assert_eq!(found, written);
    }
}
