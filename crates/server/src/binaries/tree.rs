//! The contents of a directory of binaries: recorded when pgdyno has made it, and checked before anything in it is run.
//!
//! The record lies in the directory itself, so it does not protect from somebody who can write there; that is what
//! `files::trust` is for. It finds changes made by a bad disk, a broken copy or by mistake.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use files::trust;
use serde::{Deserialize, Serialize};

/// All that is below a directory, by path from there: `dir 755`, `link TARGET`, `file 644 SHA-256`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TreeListing {
    entries: BTreeMap<String, String>,
}

impl TreeListing {
    /// The contents of `dir` except for the file `record`, which is to hold this.
    ///
    /// # Errors
    /// When something there cannot be read, is neither file, directory nor link, or could be changed by another user.
    pub(crate) fn read(dir: &Path, record: &str) -> Result<TreeListing> {
        let mut tree = TreeListing::default();
        tree.add(dir, "")?;
        tree.entries.remove(record);
        Ok(tree)
    }

    /// Whether it is missing from the record: an older pgdyno did not write it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks that `dir` is as it was recorded.
    ///
    /// # Errors
    /// As [`TreeListing::read`], and the first difference.
    pub(crate) fn verify(&self, dir: &Path, record: &str) -> Result<()> {
        let now = TreeListing::read(dir, record)?;
        let changed = self.entries.iter().find(|(path, entry)| now.entries.get(*path) != Some(entry));
        if let Some((path, entry)) = changed {
            let found =
                now.entries.get(path).map_or("is missing".to_string(), |found| format!("is now `{found}`"));
            bail!("`{path}` was `{entry}` and {found}");
        }
        let added = now.entries.keys().find(|path| !self.entries.contains_key(*path));
        ensure!(added.is_none(), "`{}` was not there", added.map_or("", |path| path));
        Ok(())
    }

    fn add(&mut self, root: &Path, below: &str) -> Result<()> {
        let dir = root.join(below);
        let words = || format!("read `{}`", dir.display());
        for entry in fs::read_dir(&dir).with_context(words)? {
            let name = entry.with_context(words)?.file_name();
            let name =
                name.to_str().with_context(|| format!("`{}` has a name that is not text", dir.display()))?;
            let path = if below.is_empty() { name.to_string() } else { format!("{below}/{name}") };
            let entry =
                describe(&root.join(&path)).with_context(|| format!("`{path}` in `{}`", root.display()))?;
            let is_dir = entry.starts_with("dir ");
            self.entries.insert(path.clone(), entry);
            if is_dir {
                self.add(root, &path)?;
            }
        }
        Ok(())
    }
}

fn describe(path: &Path) -> Result<String> {
    let facts = fs::symlink_metadata(path)?;
    if let Some(why) = trust::fault(path, &facts) {
        bail!(why);
    }
    let mode = facts.permissions().mode() & 0o7777;
    match facts.file_type() {
        kind if kind.is_dir() => Ok(format!("dir {mode:o}")),
        kind if kind.is_symlink() => Ok(format!("link {}", fs::read_link(path)?.display())),
        _ => Ok(format!("file {mode:o} {}", files::sha256_of(files::open(path)?)?)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_change_to_a_tree_is_found_and_named() {
        type Change = fn(&Path);
        let set = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let changes: [(&str, Change); 9] = [
            ("", |_| {}),
            ("", |dir| fs::write(dir.join("record"), "other").unwrap()),
            ("`bin/postgres` was `file 755", |dir| fs::write(dir.join("bin/postgres"), "b").unwrap()),
            ("`bin/postgres` was `file 755", |dir| {
                fs::set_permissions(dir.join("bin/postgres"), fs::Permissions::from_mode(0o700)).unwrap();
            }),
            ("is missing", |dir| fs::remove_file(dir.join("bin/postgres")).unwrap()),
            ("`lib.so` was `link bin/postgres`", |dir| {
                fs::remove_file(dir.join("lib.so")).unwrap();
                symlink("/tmp/evil.so", dir.join("lib.so")).unwrap();
            }),
            ("`share/new` was not there", |dir| {
                fs::write(dir.join("share/new"), "").unwrap();
                fs::set_permissions(dir.join("share/new"), fs::Permissions::from_mode(0o644)).unwrap();
            }),
            ("every user can write it", |dir| {
                fs::set_permissions(dir.join("bin/postgres"), fs::Permissions::from_mode(0o777)).unwrap();
            }),
            ("not a regular file", |dir| {
                nix::unistd::mkfifo(&dir.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
            }),
        ];
        for (expected, change) in changes {
            let outer = tempfile::tempdir().unwrap();
            let dir = outer.path();
            for name in ["bin", "share"] {
                fs::create_dir(dir.join(name)).unwrap();
                set(&dir.join(name), 0o755);
            }
            fs::write(dir.join("bin/postgres"), "a").unwrap();
            set(&dir.join("bin/postgres"), 0o755);
            symlink("bin/postgres", dir.join("lib.so")).unwrap();
            let tree = TreeListing::read(dir, "record").unwrap();
            change(dir);
            let found = tree.verify(dir, "record").map_err(|error| format!("{error:#}"));
            match expected {
                "" => found.unwrap(),
                expected => assert!(found.as_ref().is_err_and(|error| error.contains(expected)), "{found:?}"),
            }
        }
    }
}
