//! The repository's text files, read once per test.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// Path from the repository's root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Whether the whole file is for tests only.
    pub(crate) is_test: bool,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> SourceFile {
        let is_test = path.split('/').any(|part| ["tests", "examples", "benches"].contains(&part));
        SourceFile { path: path.to_string(), text: text.to_string(), is_test }
    }

    /// The text without its module of unit tests, which by custom ends the file.
    pub(crate) fn production_text(&self) -> &str {
        let end = self.text.match_indices("#[cfg(test)]\n").find_map(|(at, marker)| {
            let next = self.text[at + marker.len()..].lines().find(|line| !line.starts_with("#["))?;
            (next.starts_with("mod ") && next.ends_with('{')).then_some(at)
        });
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every text file of the repository, but for what builds and runs leave there.
pub(crate) fn all() -> Vec<SourceFile> {
    let mut files = Vec::new();
    walk(&root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 100, "only {} files found", files.len());
    mark_test_modules(&mut files);
    files
}

/// Marks the files of modules that another file declares for tests only, and those below them.
fn mark_test_modules(files: &mut [SourceFile]) {
    let declared: Vec<String> = files.iter().flat_map(test_modules).collect();
    let is_below = |path: &str| {
        declared.iter().any(|module| path.starts_with(&format!("{}/", module.trim_end_matches(".rs"))))
    };
    for file in files {
        file.is_test |= declared.contains(&file.path) || is_below(&file.path);
    }
}

/// Paths of the modules that a file declares after `#[cfg(test)]`.
fn test_modules(file: &SourceFile) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let (parent, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let directory = if ["lib", "main", "mod"].contains(&name) { parent } else { stem };
    let after = file.text.match_indices("#[cfg(test)]\n").map(|(at, marker)| &file.text[at + marker.len()..]);
    let lines = after.filter_map(|rest| rest.lines().find(|line| !line.starts_with("#[")));
    let modules = lines.filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'));
    modules.map(|module| format!("{directory}/{module}.rs")).collect()
}

/// Rust files below `crates`.
pub(crate) fn rust() -> Vec<SourceFile> {
    all().into_iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with(".rs")).collect()
}

/// One file by its path.
pub(crate) fn file(path: &str) -> SourceFile {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    SourceFile::new(path, &text)
}

fn walk(root: &Path, below: &str, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let is_left_behind = name == "target" || path == "results";
        let is_hidden = name.starts_with('.') && name != ".ci";
        if is_left_behind || is_hidden {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            // The book's sources: each file is read where it is.
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            // What is not UTF-8 is a picture.
            files.push(SourceFile::new(&path, &text));
        }
    }
}

#[test]
fn unit_tests_are_not_production_text() {
    let with_tests = SourceFile::new("crates/x/src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n b\n}\n");
    assert_eq!(with_tests.production_text(), "fn a() {}\n");
    let elsewhere = SourceFile::new("crates/x/src/lib.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n");
    assert_eq!(elsewhere.production_text(), elsewhere.text);
    let mut files = [
        SourceFile::new("crates/x/src/a.rs", "#[cfg(test)]\npub(crate) mod sample;\n"),
        SourceFile::new("crates/x/src/a/sample.rs", ""),
        SourceFile::new("crates/x/src/a/sample/part.rs", ""),
        SourceFile::new("crates/x/src/sample.rs", ""),
        SourceFile::new("crates/x/tests/b.rs", ""),
        SourceFile::new("crates/x/src/lib.rs", "#[cfg(test)]\n#[allow(dead_code)]\nmod tests;\nmod b;\n"),
        SourceFile::new("crates/x/src/tests.rs", ""),
        SourceFile::new("crates/x/src/b.rs", ""),
    ];
    mark_test_modules(&mut files);
    assert_eq!(files.map(|file| file.is_test), [false, true, true, false, true, false, true, false]);
}
