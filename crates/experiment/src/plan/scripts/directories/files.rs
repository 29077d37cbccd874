//! Reads a workload directory from disk: regular files alone, which are texts, within bounds; nothing in it is followed elsewhere.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use generator::{PACKED_BYTES_MAX, draws_reference, is_draws_file, referenced_sha256};
use model::directory::drawn::WorkloadFiles;
use model::directory::trace::{TRACE_FILE, TRACE_PACKED_BYTES_MAX};
use model::text::mark::unmarked;

use super::captured::archive_in;

/// The file that says what the others are.
pub(super) const MANIFEST: &str = "workload.toml";
/// Most files, and the longest ones: a list of words may be longer than other files. What a directory may be as a whole, crate
/// `generator` says.
const FILES_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 1 << 20;
const LIST_BYTES_MAX: u64 = 16 << 20;
/// The directory of lists.
const LISTS: &str = "lists/";
/// What `pgdyno capture` writes for reports alone: no load depends on it, and it may be longer.
const OF_CAPTURES: [&str; 6] =
    ["capture.json", "statements.jsonl", "left-out.jsonl", "source.jsonl.zst", "stats.sql", "trace.zst"];
const OF_CAPTURES_BYTES_MAX: u64 = 64 << 20;

const _: () =
    assert!(TRACE_PACKED_BYTES_MAX == PACKED_BYTES_MAX && TRACE_PACKED_BYTES_MAX == OF_CAPTURES_BYTES_MAX);

/// The texts of the directory at `path`, by name with `/`. Files that begin with a dot or end with `~` are an editor's or a
/// version control's, and left out.
///
/// # Errors
/// All that is wrong with it, one problem a line.
pub(super) fn files_at(path: &Path) -> Result<WorkloadFiles, String> {
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
    // An archive may be there, and is no text.
    let archive = text_of(MANIFEST, &path.join(MANIFEST)).ok().and_then(|text| archive_in(&text));
    let mut problems = Vec::new();
    if let Some(name) = &archive {
        problems.extend(expect_no_link(path, name).err());
    }
    let archive = archive.as_deref().map(|name| name.trim_start_matches("./").trim_end_matches('/'));
    let mut files = Vec::new();
    collect(path, "", archive, &mut files, &mut problems)?;
    files.sort();
    let mut found = WorkloadFiles::default();
    for (name, path) in files {
        let added = if OF_CAPTURES.contains(&name.as_str()) {
            expect_bounded(&name, &path)
        } else if is_draws_file(&name) {
            add_draws(&mut found, &name, &path)
        } else {
            text_of(&name, &path).map(|text| drop(found.texts.insert(name, text)))
        };
        problems.extend(added.err());
    }
    let packed = found.draws.0.values().map(|bytes| bytes.len()).fold(0, usize::saturating_add);
    if packed as u64 > PACKED_BYTES_MAX {
        problems.push(format!(
            "`draws` has {packed} bytes; captured rows are sent to each driver, and have at most {PACKED_BYTES_MAX}"
        ));
    }
    if problems.is_empty() { Ok(found) } else { Err(problems.join("\n")) }
}

/// Captured rows that the texts of a directory refer to and that are not at hand, if its files are still where they were.
pub(super) fn find_draws(files: &mut WorkloadFiles, path: &Path) {
    let is_drawn = |name: &&String| is_draws_file(name) || *name == TRACE_FILE;
    let names: Vec<String> = files.texts.keys().filter(is_drawn).cloned().collect();
    for name in names {
        let Some(hash) = referenced_sha256(&files.texts[&name]).map(str::to_string) else { continue };
        if files.draws.0.contains_key(&hash) {
            continue;
        }
        let mut found = WorkloadFiles::default();
        if add_draws(&mut found, &name, &path.join(&name)).is_ok() {
            files.draws.0.extend(found.draws.0.into_iter().filter(|(of_found, _)| *of_found == hash));
        }
    }
}

/// Adds the trace of the directory at `path`, which only its replay needs.
///
/// # Errors
/// In words, when there is none, or none that fits.
pub(super) fn add_trace(files: &mut WorkloadFiles, path: &Path) -> Result<(), String> {
    let file = path.join(TRACE_FILE);
    if !file.exists() {
        return Err(format!(
            "`{TRACE_FILE}` is missing; capture it with `pgdyno capture log --trace`, or leave workload.replay out"
        ));
    }
    add_draws(files, TRACE_FILE, &file)?;
    let packed = files.draws.0.values().map(|bytes| bytes.len()).fold(0, usize::saturating_add);
    if packed as u64 > PACKED_BYTES_MAX {
        return Err(format!(
            "`draws` and `{TRACE_FILE}` have {packed} bytes; they are sent to the driver, and have at most {PACKED_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// Adds captured rows, for which a text stands that has their hash.
fn add_draws(found: &mut WorkloadFiles, name: &str, path: &Path) -> Result<(), String> {
    let bytes = bytes_of(name, path, PACKED_BYTES_MAX)?;
    found.texts.insert(name.to_string(), draws_reference(&bytes));
    found.draws.add(bytes);
    Ok(())
}

/// Fails for a file that is too long, or that is none.
fn expect_bounded(name: &str, path: &Path) -> Result<(), String> {
    let facts = fs::symlink_metadata(path).map_err(|error| format!("`{name}`: {error}"))?;
    if !facts.is_file() {
        return Err(format!("`{name}` is no regular file; put the file itself there"));
    }
    if facts.len() > OF_CAPTURES_BYTES_MAX {
        return Err(format!("`{name}` has {} bytes; it has at most {OF_CAPTURES_BYTES_MAX}", facts.len()));
    }
    Ok(())
}

/// Fails if the archive `name` of the directory at `path`, or a directory on the way to it, is a link: what that names may be anything that
/// the user can read. An archive that is not there is found missing later.
pub(super) fn expect_no_link(path: &Path, name: &str) -> Result<(), String> {
    let mut place = path.to_path_buf();
    for part in Path::new(name).components() {
        place.push(part);
        if fs::symlink_metadata(&place).is_ok_and(|facts| facts.is_symlink()) {
            let shown = place.strip_prefix(path).unwrap_or(&place).display();
            return Err(format!(
                "`{shown}`: the archive `{name}` is behind a symbolic link, which is not followed here; put the archive itself there, or \
                 name it with workload.restore_from"
            ));
        }
    }
    Ok(())
}

/// Adds the files of `dir`, whose names begin with `prefix`, and those of its directories, but not what is called `archive`.
fn collect(
    dir: &Path,
    prefix: &str,
    archive: Option<&str>,
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
        let name = format!("{prefix}{name}");
        if archive == Some(name.as_str()) {
            continue;
        }
        match (kind.is_dir(), prefix.is_empty()) {
            (true, true) => collect(&entry.path(), &format!("{name}/"), archive, files, problems)?,
            (true, false) => {
                problems.push(format!("`{name}` is a directory in a directory, which no workload has"));
            }
            (false, _) => files.push((name, entry.path())),
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
    let bytes = bytes_of(name, path, most)?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{name}` is not UTF-8 text"))?;
    Ok(unmarked(text))
}

fn bytes_of(name: &str, path: &Path, most: u64) -> Result<Vec<u8>, String> {
    ::files::read(path, most).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => format!("`{name}`: {error}; put the file itself there"),
        _ => format!("`{name}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
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
            let message = files_at(dir.path()).unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        refused("has no `workload.toml`");
        write("workload.toml", b"\xef\xbb\xbfformat = 1\n");
        write("transactions/a.sql", b"select 1;\n");
        write(".git/config", b"\xff");
        write("schema.sql~", b"\xff");
        let texts = files_at(dir.path()).unwrap().texts;
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
        assert!(!files_at(dir.path()).unwrap_err().contains("lists/"));
        let message = files_at(&dir.path().join("workload.toml")).unwrap_err();
        assert!(message.contains("is a file; name the directory"), "{message}");
        let message = files_at(&dir.path().join("none")).unwrap_err();
        assert!(message.contains("No such file"), "{message}");
        for n in 0..FILES_MAX {
            write(&format!("checks/{n}.sql"), b"");
        }
        refused("it has more than 256 files");
    }

    #[test]
    fn captured_rows_have_their_hash_among_the_texts_and_what_reports_read_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MANIFEST), "format = 1\n").unwrap();
        fs::create_dir(dir.path().join("draws")).unwrap();
        fs::write(dir.path().join("draws/a.zst"), b"\xff personal").unwrap();
        fs::write(dir.path().join("trace.zst"), b"\xff").unwrap();
        fs::write(dir.path().join("statements.jsonl"), vec![b'x'; 2 << 20]).unwrap();
        let found = files_at(dir.path()).unwrap();
        assert_eq!(found.texts.keys().collect::<Vec<_>>(), ["draws/a.zst", "workload.toml"]);
        assert!(found.texts["draws/a.zst"].contains("bytes 10\nsha256 "), "{found:?}");
        assert_eq!(found.draws.0.len(), 1);
        let mut again = WorkloadFiles::from(found.texts.clone());
        find_draws(&mut again, dir.path());
        assert_eq!(again.draws.0, found.draws.0);
        fs::write(dir.path().join("draws/a.zst"), b"others").unwrap();
        let mut again = WorkloadFiles::from(found.texts.clone());
        find_draws(&mut again, dir.path());
        assert!(again.draws.0.is_empty());
        let file = fs::File::create(dir.path().join("trace.zst")).unwrap();
        file.set_len((64 << 20) + 1).unwrap();
        assert!(files_at(dir.path()).unwrap_err().contains("`trace.zst` has 67108865 bytes"));
    }

    #[test]
    fn the_archive_that_a_directory_names_is_no_text_of_it() {
        let dir = tempfile::tempdir().unwrap();
        for archive in ["shop.dump", "data/shop.dump", "./shop.dir/"] {
            let manifest = format!("data = {{restore_from = \"{archive}\"}}\n");
            fs::write(dir.path().join(MANIFEST), manifest).unwrap();
            let file = if archive.ends_with('/') { "shop.dir/toc.dat" } else { archive };
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, b"\xff").unwrap();
            assert_eq!(files_at(dir.path()).unwrap().texts.len(), 1, "{archive}");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn an_archive_behind_a_link_is_refused_and_so_is_one_elsewhere() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(other.path().join("shop.dump"), b"\xff").unwrap();
        symlink(other.path().join("shop.dump"), dir.path().join("shop.dump")).unwrap();
        symlink(other.path().join("shop.dump"), dir.path().join("data/.shop.dump")).unwrap();
        symlink(other.path(), dir.path().join(".elsewhere")).unwrap();
        for (archive, link) in [
            ("shop.dump", "shop.dump"),
            ("./data/.shop.dump", "data/.shop.dump"),
            (".elsewhere/shop.dump", ".elsewhere"),
        ] {
            let manifest = format!("data = {{restore_from = \"{archive}\"}}\n");
            fs::write(dir.path().join(MANIFEST), manifest).unwrap();
            let message = files_at(dir.path()).unwrap_err();
            let expected = format!("`{link}`: the archive `{archive}` is behind a symbolic link");
            assert!(message.contains(&expected), "{message}");
        }
        for archive in ["../shop.dump", "data/../../x", "/etc/passwd"] {
            assert_eq!(archive_in(&format!("data = {{restore_from = \"{archive}\"}}\n")), None, "{archive}");
        }
    }

    #[test]
    fn a_link_to_a_directory_is_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join(MANIFEST), "").unwrap();
        fs::write(other.path().join("a.sql"), "").unwrap();
        symlink(other.path(), dir.path().join("transactions")).unwrap();
        let message = files_at(dir.path()).unwrap_err();
        assert!(message.contains("`transactions`: it is a symbolic link"), "{message}");
    }
}
