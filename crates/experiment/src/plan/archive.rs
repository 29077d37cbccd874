//! Looks at the archive that `workload.restore_from` names: once when the plan is made, and again before it is restored.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use dataset::own::archive::{HEAD_BYTES_MAX, read_head};
use dataset::own::contents;
use files::trust;
use model::experiment::WorkloadSection;
use model::experiment::script::CaseData;
use model::experiment::script::archive::{Archive, ArchiveFormat, RestoreFrom};
use model::workload::Dataset;
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};

/// Bytes at each end of a file that are part of its identity. An archive of 100 GB is not read twice: its table of contents
/// is at its beginning, and has the time of the dump and the place of each table's rows.
const ENDS_BYTES: u64 = 32 << 20;
/// The table of contents in an archive that is a directory.
const CONTENTS: &str = "toc.dat";
/// Longest table of contents, which has all statements of the archive; `pg_restore` reads all of it into memory, too.
const CONTENTS_BYTES_MAX: u64 = 1 << 30;
/// Endings of compressed files, which `pg_restore` looks for where a file is missing.
const PACKED: [&str; 4] = ["gz", "lz4", "zst", "zstd"];
/// Most files of a directory: a table and a large object has one each.
const FILES_MAX: usize = 10_000_000;

/// Replaces the name of an archive by what is known about it; an archive known before must be the same.
///
/// # Errors
/// When it cannot be read, is no such archive, or has changed: with what to do.
pub(crate) fn read(entry: &mut RestoreFrom, dir: &Path) -> Result<(), String> {
    match entry {
        RestoreFrom::Named(name) => {
            let path = std::path::absolute(dir.join(&*name)).map_err(|error| error.to_string())?;
            let archive = look(&path, &name.display().to_string())?;
            *entry = RestoreFrom::Known(archive.into());
            Ok(())
        }
        RestoreFrom::Known(archive) => expect_same(archive),
    }
}

/// Fails if an archive is not the one that the plan names.
///
/// # Errors
/// As [`read`].
pub(crate) fn expect_same(known: &Archive) -> Result<(), String> {
    let found = look(&known.file, &known.name)?;
    if found.identity == known.identity {
        Ok(())
    } else {
        Err(format!(
            "`{}` has changed since the plan was made: it is now {}, and was {}",
            known.file.display(),
            found.words(),
            known.words()
        ))
    }
}

/// Data of a workload, if an archive is named. For a built-in workload, its tables must be there.
pub(crate) fn data_of(workload: &WorkloadSection, builtin: Option<Dataset>) -> Option<CaseData> {
    let Some(RestoreFrom::Known(archive)) = &workload.restore_from else { return None };
    let tables_of = builtin.map(|dataset| dataset.row().workload);
    Some(CaseData::Archive(Box::new(Archive { tables_of, ..Archive::clone(archive) })))
}

fn look(path: &Path, name: &str) -> Result<Archive, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("cannot read `{shown}`: {error}");
    // It may be a link: the user named it.
    let real = path.canonicalize().map_err(unreadable)?;
    let is_directory = real.is_dir();
    let contents = if is_directory { real.join(CONTENTS) } else { real.clone() };
    if is_directory && !contents.exists() {
        return Err(format!(
            "`{shown}` is a directory without `{CONTENTS}`; make the archive with pg_dump -Fd"
        ));
    }
    let mut file = files::open(&contents).map_err(unreadable)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES_MAX).read_to_end(&mut head).map_err(unreadable)?;
    let archive = read_head(&head).map_err(|why| format!("`{shown}` {why}"))?;
    let (bytes, list) = match (archive.format, is_directory) {
        (ArchiveFormat::Custom, false) => (file.metadata().map_err(unreadable)?.len(), String::new()),
        (ArchiveFormat::Directory, true) => {
            expect_own(path, &real)?;
            expect_inside(&real, &contents).map_err(|why| format!("`{shown}` {why}"))?;
            files_of(&real)?
        }
        _ => return Err(format!("`{shown}` is part of an archive that is a directory; name the directory")),
    };
    let mut hash = Sha256::new();
    hash.update(format!("{bytes}\n{list}"));
    hash_ends(&mut file, &mut hash).map_err(unreadable)?;
    let (name, file) = (name.to_string(), path.to_path_buf());
    Ok(Archive { name, file, bytes, identity: format!("{:x}", hash.finalize()), ..archive })
}

/// Fails if somebody else could put a link or other contents into the directory between our look at it and root's `pg_restore`.
fn expect_own(path: &Path, real: &Path) -> Result<(), String> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let shown = path.display();
    let advice = "pg_restore would read as root what they name; run pgdyno as another user, or make the directory and its files root's \
                  (chown -R root, chmod -R go-w)";
    trust::check_directory(path).map_err(|error| format!("`{shown}`: {error:#}; {advice}"))?;
    let entries = fs::read_dir(real).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    for entry in entries.flatten().take(FILES_MAX) {
        let facts =
            entry.metadata().map_err(|error| format!("cannot read `{}`: {error}", entry.path().display()))?;
        if let Some(fault) = trust::fault(&entry.path(), &facts) {
            return Err(format!("`{}`: {fault}; {advice}", entry.path().display()));
        }
    }
    Ok(())
}

/// Fails if `pg_restore` would read a file that is not in the directory: it takes the names in the table of contents, and in lists of large
/// objects, as they are, and follows links.
fn expect_inside(dir: &Path, contents: &Path) -> Result<(), String> {
    let unreadable = |path: &Path, why: String| format!("cannot be read: `{}`: {why}", path.display());
    let bytes =
        files::read(contents, CONTENTS_BYTES_MAX).map_err(|error| unreadable(contents, error.to_string()))?;
    for name in contents::lists_in(&bytes)? {
        let list = dir.join(&name);
        if let Some(packed) = PACKED.iter().find(|end| dir.join(format!("{name}.{end}")).exists()) {
            return Err(format!(
                "has a compressed list of large objects, `{name}.{packed}`, which no pg_dump writes"
            ));
        }
        if list.exists() {
            let bytes = files::read(&list, CONTENTS_BYTES_MAX)
                .map_err(|error| unreadable(&list, error.to_string()))?;
            contents::expect_list(&bytes)?;
        }
    }
    for entry in fs::read_dir(dir).map_err(|error| unreadable(dir, error.to_string()))?.flatten() {
        let (path, is_link) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        if is_link && !path.canonicalize().is_ok_and(|real| real.starts_with(dir)) {
            return Err(format!(
                "has a link `{}` that leads out of it; put the file itself there",
                entry.file_name().display()
            ));
        }
    }
    Ok(())
}

/// Size of a directory's files, and their names and sizes in a fixed order.
fn files_of(dir: &Path) -> Result<(u64, String), String> {
    let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let bytes = entry.metadata().map_err(unreadable)?.len();
        files.push((entry.file_name().to_string_lossy().into_owned(), bytes));
        if files.len() > FILES_MAX {
            return Err(format!("`{}` has more than {FILES_MAX} files", dir.display()));
        }
    }
    files.sort();
    let list = files.iter().map(|(name, bytes)| format!("{name} {bytes}\n")).collect();
    Ok((files.iter().map(|(_, bytes)| bytes).sum(), list))
}

/// Adds the first and the last bytes of a file, all of a short one.
fn hash_ends(file: &mut File, hash: &mut Sha256) -> std::io::Result<()> {
    let n_bytes = file.metadata()?.len();
    let last = n_bytes.saturating_sub(ENDS_BYTES).max(ENDS_BYTES);
    for start in [0, last].into_iter().filter(|start| *start < n_bytes.max(1)) {
        file.seek(SeekFrom::Start(start))?;
        std::io::copy(&mut file.by_ref().take(ENDS_BYTES), hash)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of an archive by `pg_dump -Fc --compress=0` or `-Fd` of PostgreSQL 15.
    fn head(format: u8) -> Vec<u8> {
        let int = |value: u32| [vec![0], value.to_le_bytes().to_vec()].concat();
        let text = |text: &str| [int(text.len() as u32), text.as_bytes().to_vec()].concat();
        let time: Vec<u8> = [5, 4, 19, 24, 10, 126, 0].into_iter().flat_map(int).collect();
        let start = [&b"PGDMP"[..], &[1, 14, 0, 4, 8, format]].concat();
        [start, int(0), time, text("shop"), text("15.1"), text("15.1")].concat()
    }

    #[test]
    fn another_archive_of_the_same_name_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.dump");
        fs::write(&path, [head(1), vec![1; 100]].concat()).unwrap();
        let mut entry = RestoreFrom::Named("a.dump".into());
        read(&mut entry, dir.path()).unwrap();
        let RestoreFrom::Known(archive) = &entry else { panic!("{entry:?}") };
        assert_eq!((archive.file.as_path(), archive.is_compressed), (path.as_path(), false));
        read(&mut entry.clone(), Path::new("/")).unwrap();
        fs::write(&path, [head(1), vec![1; 99], vec![2]].concat()).unwrap();
        let message = read(&mut entry, dir.path()).unwrap_err();
        assert!(message.contains("has changed since the plan was made"), "{message}");
    }

    #[test]
    fn a_directory_is_an_archive_with_all_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |expected: &str| {
            let message = look(dir.path(), "d").unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        refused("is a directory without `toc.dat`");
        fs::write(dir.path().join(CONTENTS), "no").unwrap();
        refused("is not an archive");
        fs::write(dir.path().join(CONTENTS), head(3)).unwrap();
        refused("table of contents that is cut off");
        // It has no entry.
        fs::write(dir.path().join(CONTENTS), [head(3), vec![0; 5]].concat()).unwrap();
        fs::write(dir.path().join("blobs.toc"), "1 ../../etc/passwd\n").unwrap();
        refused("names `../../etc/passwd` as a file of its own");
        fs::rename(dir.path().join("blobs.toc"), dir.path().join("blobs.toc.gz")).unwrap();
        refused("has a compressed list of large objects");
        fs::remove_file(dir.path().join("blobs.toc.gz")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("1.dat")).unwrap();
        refused("has a link `1.dat` that leads out of it");
        fs::remove_file(dir.path().join("1.dat")).unwrap();
        let alone = look(dir.path(), "d").unwrap();
        fs::write(dir.path().join("3375.dat.gz"), [0; 50]).unwrap();
        let with_rows = look(dir.path(), "d").unwrap();
        assert_eq!(with_rows.bytes, alone.bytes + 50);
        assert_ne!(with_rows.identity, alone.identity);
        if geteuid().is_root() {
            let rows = dir.path().join("3375.dat.gz");
            std::os::unix::fs::chown(&rows, Some(1000), None).unwrap();
            refused("pg_restore would read as root");
            std::os::unix::fs::chown(&rows, Some(0), None).unwrap();
        }
        let message = look(&dir.path().join(CONTENTS), "toc.dat").unwrap_err();
        assert!(message.contains("name the directory"), "{message}");
        let message = look(&dir.path().join("none"), "none").unwrap_err();
        assert!(message.contains("cannot read") && message.contains("No such file"), "{message}");
    }

    #[test]
    fn both_ends_of_a_long_file_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.dump");
        let of = |n_bytes: u64, at: u64, byte: u8| {
            use std::io::Write;
            let mut file = File::create(&path).unwrap();
            file.write_all(&head(1)).unwrap();
            file.set_len(n_bytes).unwrap();
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[byte]).unwrap();
            look(&path, "a").unwrap().identity
        };
        let long = 2 * ENDS_BYTES + 10;
        assert_ne!(of(long, long - 1, 1), of(long, long - 1, 2));
        assert_ne!(of(long, ENDS_BYTES - 1, 1), of(long, ENDS_BYTES - 1, 2));
        assert_eq!(of(long, ENDS_BYTES + 5, 1), of(long, ENDS_BYTES + 5, 2));
        let short = ENDS_BYTES + 10;
        assert_ne!(of(short, short - 5, 1), of(short, short - 5, 2));
    }
}
