//! The files of a workload directory as texts, within bounds. Where they come from is not known here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::draws::{self, DrawsContents, DrawsTable};
use crate::problem::Problem;

/// Most files of a directory.
pub const FILES_MAX: usize = 256;
/// Longest file, bytes, but for lists.
const FILE_BYTES_MAX: usize = 1 << 20;
/// All lists together, bytes.
const LISTS_BYTES_MAX: usize = 16 << 20;
/// Longest name of a file, bytes.
const NAME_BYTES_MAX: usize = 255;
/// The file that says what the others are.
pub(crate) const MANIFEST: &str = "workload.toml";
/// The directory of lists of words.
pub(crate) const LISTS: &str = "lists/";

/// The texts of a workload directory.
#[derive(Clone)]
pub struct Directory {
    files: BTreeMap<String, String>,
    /// The captured rows whose contents are known, by file.
    draws: BTreeMap<String, Arc<DrawsTable>>,
    contents: DrawsContents,
}

impl fmt::Debug for Directory {
    /// Names alone: captured rows may be personal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("files", &self.files.keys()).finish_non_exhaustive()
    }
}

impl Directory {
    /// A directory with these files: texts by name with `/`.
    ///
    /// # Errors
    /// All files that are beyond the bounds of such directories.
    pub fn new(files: BTreeMap<String, String>) -> Result<Directory, Vec<Problem>> {
        let mut problems: Vec<Problem> = files.keys().filter_map(|name| misnamed(name)).collect();
        if files.len() > FILES_MAX {
            let message =
                format!("the directory has {} files; a workload has at most {FILES_MAX}", files.len());
            problems.push(Problem::whole(MANIFEST, message));
        }
        if !files.contains_key(MANIFEST) {
            problems.push(Problem::whole(MANIFEST, "is missing; it says what the directory is"));
        }
        let (lists, others): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| name.starts_with(LISTS));
        let lists_bytes = lists.iter().map(|(_, text)| text.len()).fold(0, usize::saturating_add);
        if lists_bytes > LISTS_BYTES_MAX {
            let message = format!(
                "the lists have {lists_bytes} bytes together; a workload has at most {LISTS_BYTES_MAX}"
            );
            problems.push(Problem::whole(LISTS, message));
        }
        let long = others.into_iter().filter(|(_, text)| text.len() > FILE_BYTES_MAX);
        problems.extend(long.map(|(name, text)| {
            let message = format!("has {} bytes; a file has at most {FILE_BYTES_MAX}", text.len());
            Problem::whole(name, message)
        }));
        if problems.is_empty() {
            Ok(Directory { files, draws: BTreeMap::new(), contents: DrawsContents::new() })
        } else {
            Err(problems)
        }
    }

    /// The same with the captured rows that its files refer to by their hash.
    ///
    /// # Errors
    /// All files of captured rows that cannot be read.
    pub fn with_draws(self, contents: &DrawsContents) -> Result<Directory, Vec<Problem>> {
        let draws = draws::tables(&self.files, contents)?;
        Ok(Directory { draws, contents: contents.clone(), ..self })
    }

    /// The contents of files of captured rows, as far as they are known.
    pub fn contents(&self) -> &DrawsContents {
        &self.contents
    }

    /// The captured rows of a file.
    pub(crate) fn draws(&self, file: &str) -> Option<&Arc<DrawsTable>> {
        self.draws.get(file)
    }

    /// The text of a file.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// All files by name.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// SHA-256 of all names and texts, in hexadecimal.
    pub fn identity(&self) -> String {
        let mut hash = Hash::new("workload directory");
        for (name, text) in &self.files {
            hash.add(name);
            hash.add(text);
        }
        hash.finish()
    }

    /// The text of `workload.toml`.
    pub(crate) fn manifest(&self) -> &str {
        self.file(MANIFEST).expect("`new` refuses directories without it")
    }
}

/// Why a name is none that a directory's file can have.
fn misnamed(name: &str) -> Option<Problem> {
    let has_part = |part: &str| name.split('/').any(|one| one == part);
    let why = if name.is_empty() || has_part("") {
        "has a name that is not complete"
    } else if has_part("..") || has_part(".") {
        "has a name that leads elsewhere"
    } else if name.contains('\\') || name.chars().any(char::is_control) {
        "has a backslash or a control character in its name"
    } else if name.len() > NAME_BYTES_MAX {
        "has a very long name"
    } else {
        return None;
    };
    let shown: String = name.chars().take(NAME_BYTES_MAX).flat_map(char::escape_debug).collect();
    Some(Problem::whole(&shown, why))
}

/// SHA-256 of a sequence of texts, each with its length, so that none can be a part of its neighbour.
pub(crate) struct Hash(Sha256);

impl Hash {
    /// The hash of nothing yet, for a purpose.
    pub(crate) fn new(purpose: &str) -> Hash {
        let mut hash = Hash(Sha256::new());
        hash.add(purpose);
        hash
    }

    pub(crate) fn add(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    /// The hash in hexadecimal.
    pub(crate) fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<Directory, Vec<Problem>> {
        Directory::new(files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect())
    }

    #[test]
    fn files_beyond_the_bounds_are_refused_all_at_once() {
        let long = "x".repeat(FILE_BYTES_MAX + 1);
        let problems = of(&[
            ("../a", ""),
            ("/etc/passwd", ""),
            ("a/./b", ""),
            ("a\\b", ""),
            ("a\nb", ""),
            ("long.sql", &long),
            ("lists/long.txt", &long),
            (&"y".repeat(256), ""),
        ])
        .unwrap_err();
        let found: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            found[..5],
            [
                "../a: has a name that leads elsewhere",
                "/etc/passwd: has a name that is not complete",
                "a\\nb: has a backslash or a control character in its name",
                "a/./b: has a name that leads elsewhere",
                "a\\\\b: has a backslash or a control character in its name",
            ]
        );
        assert!(found[5].ends_with("has a very long name"));
        assert_eq!(
            found[6..],
            [
                "workload.toml: is missing; it says what the directory is",
                "long.sql: has 1048577 bytes; a file has at most 1048576",
            ]
        );
        let many: BTreeMap<String, String> = (0..300).map(|n| (format!("{n}.md"), String::new())).collect();
        assert!(Directory::new(many).unwrap_err()[0].message.contains("300 files"));
        let lists = "x".repeat(LISTS_BYTES_MAX);
        let problems = of(&[("workload.toml", ""), ("lists/a", &lists), ("lists/b", "x")]).unwrap_err();
        assert!(problems[0].message.contains("together"));
    }

    #[test]
    fn the_identity_is_of_all_names_and_texts() {
        let identity = |files: &[(&str, &str)]| of(files).unwrap().identity();
        let one = identity(&[("workload.toml", "a"), ("x", "bc")]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, identity(&[("x", "bc"), ("workload.toml", "a")]));
        assert_ne!(one, identity(&[("workload.toml", "a"), ("xb", "c")]));
        assert_ne!(one, identity(&[("workload.toml", "ab"), ("x", "c")]));
    }
}
