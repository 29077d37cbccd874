//! Unpack a fetched archive (a zip with one xz-compressed tar in it) into an empty directory of ours.
//!
//! The archive is not trusted: no path and no link may lead out of the directory, nothing but files,
//! directories and links is made, set-uid bits are dropped, and sizes are bounded. Links are made last,
//! so that nothing is ever written through one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use liblzma::bufread::XzDecoder;
use tar::EntryType;

/// Largest compressed tar accepted; the published ones have 6 to 20 MB.
const TAR_XZ_BYTES_MAX: u64 = 256 << 20;
/// Largest unpacked size accepted; the published ones have 40 to 80 MB.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// Most entries accepted; the published ones have 1,000 to 2,500.
const ENTRIES_MAX: usize = 50_000;

/// A link that is made after all files.
struct Link {
    path: PathBuf,
    target: PathBuf,
    is_hard: bool,
}

/// Unpacks `archive` into the existing, empty directory `into`; returns the bytes of all files.
pub(crate) fn unpack(archive: &[u8], into: &Path) -> Result<u64> {
    let tar_xz = inner_tar_xz(archive)?;
    let mut tar = tar::Archive::new(XzDecoder::new(BufReader::new(Cursor::new(tar_xz))));
    let mut links = Vec::new();
    let mut total_bytes = 0;
    for (count, entry) in tar.entries().context("archive has no readable tar")?.enumerate() {
        let mut entry = entry.context("archive is damaged")?;
        ensure!(count < ENTRIES_MAX, "archive has more than {ENTRIES_MAX} entries");
        let name = entry.path().context("archive has an unreadable path")?.into_owned();
        let Some(relative) = inside(&name)? else { continue };
        let path = into.join(&relative);
        match entry.header().entry_type() {
            EntryType::Directory => make_directories(into, &relative)?,
            EntryType::Regular | EntryType::Continuous => {
                if let Some(parent) = relative.parent() {
                    make_directories(into, parent)?;
                }
                let mode = entry.header().mode().unwrap_or(0o644);
                total_bytes += write_file(&mut entry, &path, mode, UNPACKED_BYTES_MAX - total_bytes)?;
            }
            kind @ (EntryType::Symlink | EntryType::Link) => {
                let target = entry.link_name().ok().flatten().context("archive has a link without target")?;
                let is_hard = kind == EntryType::Link;
                links.push(checked_link(into, &relative, &target, is_hard)?);
            }
            EntryType::XGlobalHeader => {}
            kind => {
                bail!("archive has `{}`, which is neither file, directory nor link: {kind:?}", name.display())
            }
        }
    }
    ensure!(total_bytes > 0, "archive is empty");
    make_links(&links)?;
    Ok(total_bytes)
}

fn inner_tar_xz(archive: &[u8]) -> Result<Vec<u8>> {
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).context("archive is not a readable zip")?;
    for i in 0..zip.len() {
        let file = zip.by_index(i).context("archive is damaged")?;
        if !file.name().is_ok_and(|name| name.ends_with(".txz")) {
            continue;
        }
        let mut bytes = Vec::new();
        let n_bytes =
            file.take(TAR_XZ_BYTES_MAX + 1).read_to_end(&mut bytes).context("archive is damaged")?;
        ensure!(n_bytes as u64 <= TAR_XZ_BYTES_MAX, "archive is larger than {TAR_XZ_BYTES_MAX} bytes");
        return Ok(bytes);
    }
    bail!("archive has no `.txz` in it")
}

/// The path relative to the root, `None` for the root itself; an error if it leads out.
fn inside(name: &Path) -> Result<Option<PathBuf>> {
    let mut relative = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => relative.push(part),
            Component::CurDir => {}
            _ => bail!("archive has the path `{}`, which leads out of its directory", name.display()),
        }
    }
    Ok(if relative.as_os_str().is_empty() { None } else { Some(relative) })
}

/// A link whose target lies inside. `..` may only come first: after a name it could step out of a directory
/// that is itself reached by a link.
fn checked_link(into: &Path, relative: &Path, target: &Path, is_hard: bool) -> Result<Link> {
    let leads_out =
        || format!("archive has a link `{}` to `{}`, outside", relative.display(), target.display());
    if is_hard {
        let target = inside(target).with_context(leads_out)?.with_context(leads_out)?;
        return Ok(Link { path: into.join(relative), target: into.join(target), is_hard });
    }
    let mut depth = relative.components().count().saturating_sub(1);
    let mut names_began = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => names_began = true,
            Component::CurDir => {}
            Component::ParentDir if !names_began && depth > 0 => depth -= 1,
            _ => bail!(leads_out()),
        }
    }
    Ok(Link { path: into.join(relative), target: target.to_path_buf(), is_hard })
}

fn make_directories(into: &Path, relative: &Path) -> Result<()> {
    let mut path = into.to_path_buf();
    for part in relative.components() {
        path.push(part);
        match fs::create_dir(&path) {
            Ok(()) => fs::set_permissions(&path, Permissions::from_mode(0o755))
                .with_context(|| format!("set permissions of `{}`", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(error).with_context(|| format!("create `{}`", path.display())),
        }
    }
    Ok(())
}

fn write_file(from: &mut impl Read, path: &Path, mode: u32, bytes_max: u64) -> Result<u64> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("create `{}`", path.display()))?;
    let n_bytes = io::copy(&mut from.take(bytes_max + 1), &mut file)
        .with_context(|| format!("write `{}`", path.display()))?;
    ensure!(n_bytes <= bytes_max, "archive is larger than {UNPACKED_BYTES_MAX} bytes when unpacked");
    // Everyone may read and, where anyone could, execute: the server may run as another user.
    let executable = if mode & 0o111 != 0 { 0o111 } else { 0 };
    file.set_permissions(Permissions::from_mode(0o644 | executable))
        .with_context(|| format!("set permissions of `{}`", path.display()))?;
    Ok(n_bytes)
}

fn make_links(links: &[Link]) -> Result<()> {
    for link in links {
        let made = if link.is_hard {
            fs::hard_link(&link.target, &link.path)
        } else {
            std::os::unix::fs::symlink(&link.target, &link.path)
        };
        made.with_context(|| format!("link `{}` to `{}`", link.path.display(), link.target.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// One entry of a hostile tar: type, path, link target, mode.
    struct Row(EntryType, &'static str, &'static str, u32);

    fn archive(rows: &[Row]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for Row(kind, path, target, mode) in rows {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            // Written by hand: the library refuses to write hostile names.
            let old = header.as_old_mut();
            old.name[..path.len()].copy_from_slice(path.as_bytes());
            old.linkname[..target.len()].copy_from_slice(target.as_bytes());
            let data: &[u8] = if *kind == EntryType::Regular { b"data" } else { b"" };
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data).unwrap();
        }
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&builder.into_inner().unwrap()).unwrap();
        let xz = xz.finish().unwrap();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("postgres.txz", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&xz).unwrap();
        zip.finish().unwrap().into_inner()
    }

    const FILE: EntryType = EntryType::Regular;
    const SYM: EntryType = EntryType::Symlink;
    const HARD: EntryType = EntryType::Link;

    #[test]
    fn hostile_archives_are_refused_and_write_nothing_outside() {
        let fine = Row(FILE, "bin/postgres", "", 0o755);
        for (row, expected) in [
            (Row(FILE, "/abs", "", 0o644), "leads out"),
            (Row(FILE, "../up", "", 0o644), "leads out"),
            (Row(FILE, "a/../../up", "", 0o644), "leads out"),
            (Row(SYM, "l", "/etc/passwd", 0o777), "outside"),
            (Row(SYM, "l", "../x", 0o777), "outside"),
            (Row(SYM, "lib/l", "../../x", 0o777), "outside"),
            (Row(SYM, "lib/l", "sub/../../x", 0o777), "outside"),
            (Row(HARD, "l", "/etc/passwd", 0o644), "outside"),
            (Row(HARD, "l", "../x", 0o644), "outside"),
            (Row(EntryType::Char, "dev", "", 0o666), "neither file"),
            (Row(EntryType::Fifo, "pipe", "", 0o666), "neither file"),
            (Row(FILE, "bin/postgres", "", 0o644), "create"),
        ] {
            let outer = tempfile::tempdir().unwrap();
            let into = outer.path().join("into");
            fs::create_dir(&into).unwrap();
            let path = row.1;
            let error = unpack(&archive(&[Row(fine.0, fine.1, fine.2, fine.3), row]), &into).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{path}: {error:#}");
            assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1, "{path}");
        }
    }

    #[test]
    fn a_file_cannot_be_written_through_a_link() {
        let into = tempfile::tempdir().unwrap();
        let rows = [Row(SYM, "a", "bin", 0o777), Row(FILE, "bin/x", "", 0o644), Row(FILE, "a/y", "", 0o644)];
        let error = unpack(&archive(&rows), into.path()).unwrap_err();
        assert!(format!("{error:#}").contains("link `"), "{error:#}");
        assert!(!into.path().join("bin/y").exists());
    }

    #[test]
    fn links_inside_and_modes_are_kept_without_set_uid() {
        let into = tempfile::tempdir().unwrap();
        let rows = [
            Row(FILE, "./bin/postgres", "", 0o4755),
            Row(FILE, "lib/libpq.so.5.1", "", 0o600),
            Row(SYM, "lib/libpq.so.5", "libpq.so.5.1", 0o777),
            Row(SYM, "share/lib", "../lib/libpq.so.5", 0o777),
            Row(HARD, "bin/postmaster", "bin/postgres", 0o755),
        ];
        fs::create_dir(into.path().join("share")).unwrap();
        assert_eq!(unpack(&archive(&rows), into.path()).unwrap(), 8);
        let mode = |path: &str| fs::metadata(into.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("bin/postgres"), 0o755);
        assert_eq!(mode("bin/postmaster"), 0o755);
        assert_eq!(mode("lib/libpq.so.5.1"), 0o644);
        assert_eq!(fs::read_to_string(into.path().join("share/lib")).unwrap(), "data");
    }

    #[test]
    fn rubbish_is_named_as_such() {
        let into = tempfile::tempdir().unwrap();
        let error = unpack(b"<html>not found</html>", into.path()).unwrap_err();
        assert!(format!("{error:#}").contains("not a readable zip"), "{error:#}");
    }
}
