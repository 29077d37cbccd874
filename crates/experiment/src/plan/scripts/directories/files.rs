//! Reads a workload directory from disk: regular files alone, which are texts, within bounds; nothing in it is followed elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::text::mark::unmarked;

/// The file that says what the others are.
pub(super) const MANIFEST: &str = "workload.toml";
/// Most files, and the longest ones: a list of words may be longer than other files. What a directory may be as a whole, crate
/// `generator` says.
const FILES_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 1 << 20;
const LIST_BYTES_MAX: u64 = 16 << 20;
/// The directory of lists.
const LISTS: &str = "lists/";

/// The texts of the directory at `path`, by name with `/`. Files that begin with a dot or end with `~` are an editor's or a
/// version control's, and left out.
///
/// # Errors
/// All that is wrong with it, one problem a line.
pub(super) fn texts_at(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
    // It may be a link: the user named it.
    let facts = fs::metadata(path).map_err(unreadable)?;
    if !facts.is_dir() {
        return Err(format!("`{}` is a file; name the directory that it is in", path.display()));
    }
    if !path.join(MANIFEST).exists() {
        return Err(format!(
            "`{}` has no `{MANIFEST}`; `pgdyno workload new DIR` makes one to begin with",
            path.display()
        ));
    }
    let mut files = Vec::new();
    let mut problems = Vec::new();
    collect(path, "", &mut files, &mut problems)?;
    files.sort();
    let mut texts = BTreeMap::new();
    for (name, path) in files {
        match text_of(&name, &path) {
            Ok(text) => drop(texts.insert(name, text)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(texts) } else { Err(problems.join("\n")) }
}

/// Adds the files of `dir`, whose names begin with `prefix`, and those of its directories.
fn collect(
    dir: &Path,
    prefix: &str,
    files: &mut Vec<(String, PathBuf)>,
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", dir.display());
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let shown = entry.file_name().to_string_lossy().into_owned();
        if shown.starts_with('.') || shown.ends_with('~') {
            continue;
        }
        let Ok(name) = entry.file_name().into_string() else {
            problems.push(format!("`{prefix}{shown}`: the name is not UTF-8 text; rename it"));
            continue;
        };
        let kind = entry.file_type().map_err(unreadable)?;
        match (kind.is_dir(), prefix.is_empty()) {
            (true, true) => collect(&entry.path(), &format!("{name}/"), files, problems)?,
            (true, false) => {
                problems
                    .push(format!("`{prefix}{name}` is a directory in a directory, which no workload has"));
            }
            (false, _) => files.push((format!("{prefix}{name}"), entry.path())),
        }
        if files.len() > FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files"));
        }
    }
    Ok(())
}

/// The text of one file.
fn text_of(name: &str, path: &Path) -> Result<String, String> {
    let most = if name.starts_with(LISTS) { LIST_BYTES_MAX } else { FILE_BYTES_MAX };
    let bytes = ::files::read(path, most).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => format!("`{name}`: {error}; put the file itself there"),
        _ => format!("`{name}`: {error}"),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{name}` is not UTF-8 text"))?;
    Ok(unmarked(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_its_texts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        let refused = |expected: &str| {
            let message = texts_at(dir.path()).unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        refused("has no `workload.toml`");
        write("workload.toml", b"\xef\xbb\xbfformat = 1\n");
        write("transactions/a.sql", b"select 1;\n");
        write(".git/config", b"\xff");
        write("schema.sql~", b"\xff");
        let texts = texts_at(dir.path()).unwrap();
        let expected = [("transactions/a.sql", "select 1;\n"), ("workload.toml", "format = 1\n")];
        let expected = expected.map(|(name, text)| (name.to_string(), text.to_string()));
        assert_eq!(texts, BTreeMap::from(expected));

        write("transactions/more/b.sql", b"");
        write("answers/a.csv", b"\xff");
        symlink("/etc/passwd", dir.path().join("README.md")).unwrap();
        write("lists/long.txt", &vec![b'a'; 2 << 20]);
        write("long.sql", &vec![b'a'; (1 << 20) + 1]);
        for expected in [
            "`transactions/more` is a directory in a directory",
            "`answers/a.csv` is not UTF-8 text",
            "`README.md`: it is a symbolic link, which is not followed here; put the file itself there",
            "`long.sql`: it is longer than 1048576 bytes",
        ] {
            refused(expected);
        }
        assert!(!texts_at(dir.path()).unwrap_err().contains("lists/"));
        let message = texts_at(&dir.path().join("workload.toml")).unwrap_err();
        assert!(message.contains("is a file; name the directory"), "{message}");
        let message = texts_at(&dir.path().join("none")).unwrap_err();
        assert!(message.contains("No such file"), "{message}");
        for n in 0..FILES_MAX {
            write(&format!("checks/{n}.sql"), b"");
        }
        refused("it has more than 256 files");
    }

    #[test]
    fn a_link_to_a_directory_is_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join(MANIFEST), "").unwrap();
        fs::write(other.path().join("a.sql"), "").unwrap();
        symlink(other.path(), dir.path().join("transactions")).unwrap();
        let message = texts_at(dir.path()).unwrap_err();
        assert!(message.contains("`transactions`: it is a symbolic link"), "{message}");
    }
}
