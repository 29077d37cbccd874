//! Unpacks a tar into an empty directory: that of a fetched archive (a zip with one xz-compressed tar in it), or
//! that of a commit.
//!
//! The archive is not trusted: nothing is written, and no link leads, outside of the directory; nothing but files,
//! directories and links is made; set-uid bits are dropped; memory, bytes and the number of entries are bounded.
//!
//! Links are made last, so that no file is ever written through one, and only in real directories. A link in a
//! directory that is itself reached by a link would count its `..` from where that leads.

use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use tar::EntryType;

/// Largest compressed tar accepted; the published ones have 6 to 20 MB.
const TAR_XZ_BYTES_MAX: u64 = 256 << 20;
/// Memory of the xz decoder. It needs little more than the dictionary that the archive asks for, which is 64 MiB with
/// `xz -9` and could be 4 GiB (xz(1)).
const XZ_MEMORY_BYTES_MAX: u64 = 128 << 20;
/// Of a fetched archive: the published ones have 40 to 80 MB in 1,000 to 2,500 entries.
const FETCHED: Bounds = Bounds { bytes_max: 512 << 20, entries_max: 50_000 };
/// Of a commit: PostgreSQL's have 200 MB in 8,000 entries.
pub(crate) const COMMIT: Bounds = Bounds { bytes_max: 4 << 30, entries_max: 200_000 };

/// How much an archive may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of the tar, and so of all files together.
    pub(crate) bytes_max: u64,
    /// Files, links and directories, including those that only paths name.
    pub(crate) entries_max: usize,
}

impl Bounds {
    /// Subtracts one entry of so many bytes from the allowance.
    pub(crate) fn take(&mut self, size_bytes: u64) -> Result<()> {
        let left = self.bytes_max.checked_sub(size_bytes).zip(self.entries_max.checked_sub(1));
        let (bytes_max, entries_max) =
            left.context("it has more than a source tree of PostgreSQL can have")?;
        *self = Bounds { bytes_max, entries_max };
        Ok(())
    }
}

/// A link that is made after all files.
struct Link {
    relative: PathBuf,
    target: PathBuf,
    is_hard: bool,
}

/// Unpacks `archive` into the existing, empty directory `into`; returns the bytes of all files.
pub(crate) fn unpack(archive: &[u8], into: &Path) -> Result<u64> {
    unpack_within(archive, into, FETCHED)
}

fn unpack_within(archive: &[u8], into: &Path, bounds: Bounds) -> Result<u64> {
    let tar_xz = inner_tar_xz(archive)?;
    let xz = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, 0).context("prepare the xz decoder")?;
    unpack_tar(XzDecoder::new_stream(BufReader::new(Cursor::new(tar_xz)), xz), into, bounds)
}

/// Unpacks a tar into the existing, empty directory `into`; returns the bytes of all files.
pub(crate) fn unpack_tar(tar: impl Read, into: &Path, bounds: Bounds) -> Result<u64> {
    let mut tar = tar::Archive::new(Bounded { from: tar, left: bounds.bytes_max, bounds });
    let mut place = EntryPlace { into, bounds, n_made: 0 };
    let mut links = Vec::new();
    let mut total_bytes = 0;
    for entry in tar.entries().context("archive has no readable tar")? {
        let mut entry = entry.context("archive is damaged or too large")?;
        let name = entry.path().context("archive has an unreadable path")?.into_owned();
        let Some(relative) = inside(&name)? else { continue };
        match entry.header().entry_type() {
            EntryType::Directory => place.make_directories(&relative)?,
            EntryType::Regular | EntryType::Continuous => {
                let facts = Facts::from_header(entry.header());
                total_bytes += place.write_file(&mut entry, &relative, facts)?;
            }
            kind @ (EntryType::Symlink | EntryType::Link) => {
                place.count()?;
                let target = entry.link_name().ok().flatten().context("archive has a link without target")?;
                links.push(checked_link(&relative, &target, kind == EntryType::Link)?);
            }
            EntryType::XGlobalHeader => {}
            kind => {
                bail!("archive has `{}`, which is neither file, directory nor link: {kind:?}", name.display())
            }
        }
    }
    ensure!(total_bytes > 0, "archive is empty");
    for link in &links {
        make_link(into, link)?;
    }
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

/// Reads a tar up to its bound, which includes what only headers and long names hold.
struct Bounded<R> {
    from: R,
    left: u64,
    bounds: Bounds,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.from.read(buffer)?;
        let left = self.left.checked_sub(n_bytes as u64);
        let too_large = || {
            let words = format!("it has more than {} bytes when unpacked", self.bounds.bytes_max);
            io::Error::new(io::ErrorKind::FileTooLarge, words)
        };
        self.left = left.ok_or_else(too_large)?;
        Ok(n_bytes)
    }
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

/// A link whose target lies inside if its own directory is a real one. `..` may only come first: after a name it could
/// step out of a directory that is itself reached by a link.
fn checked_link(relative: &Path, target: &Path, is_hard: bool) -> Result<Link> {
    let leads_out =
        || format!("archive has a link `{}` to `{}`, outside", relative.display(), target.display());
    let relative = relative.to_path_buf();
    if is_hard {
        let target = inside(target).with_context(leads_out)?.with_context(leads_out)?;
        return Ok(Link { relative, target, is_hard });
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
    Ok(Link { relative, target: target.to_path_buf(), is_hard })
}

fn make_link(into: &Path, link: &Link) -> Result<()> {
    let words = || format!("archive has a link `{}` to `{}`", link.relative.display(), link.target.display());
    expect_real_parent(into, &link.relative).with_context(words)?;
    let path = into.join(&link.relative);
    let made = if link.is_hard {
        expect_real_parent(into, &link.target).with_context(words)?;
        let target = into.join(&link.target);
        // A hard link to a symbolic link would resolve its `..` from another directory.
        let is_file = fs::symlink_metadata(&target).is_ok_and(|facts| facts.is_file());
        ensure!(is_file, "{}, which is not a file of the archive", words());
        fs::hard_link(target, path)
    } else {
        std::os::unix::fs::symlink(&link.target, path)
    };
    made.with_context(words)
}

/// Checks that all directories above `relative` are real ones.
fn expect_real_parent(into: &Path, relative: &Path) -> Result<()> {
    for dir in relative.ancestors().skip(1) {
        let is_real = fs::symlink_metadata(into.join(dir)).is_ok_and(|facts| facts.is_dir());
        ensure!(is_real, "`{}` is not a directory of the archive", dir.display());
    }
    Ok(())
}

/// The attributes of a file that are kept.
struct Facts {
    is_executable: bool,
    /// `make` compares the times of files.
    modified_unix_s: u64,
}

impl Facts {
    fn from_header(header: &tar::Header) -> Facts {
        Facts {
            is_executable: header.mode().unwrap_or(0o644) & 0o111 != 0,
            modified_unix_s: header.mtime().unwrap_or(0),
        }
    }
}

/// Where an archive is unpacked, and how much of it so far.
struct EntryPlace<'a> {
    into: &'a Path,
    bounds: Bounds,
    n_made: usize,
}

impl EntryPlace<'_> {
    fn count(&mut self) -> Result<()> {
        self.n_made += 1;
        let entries_max = self.bounds.entries_max;
        ensure!(self.n_made <= entries_max, "archive has more than {entries_max} entries");
        Ok(())
    }

    fn make_directories(&mut self, relative: &Path) -> Result<()> {
        let mut path = self.into.to_path_buf();
        for part in relative.components() {
            path.push(part);
            match fs::create_dir(&path) {
                Ok(()) => {
                    self.count()?;
                    fs::set_permissions(&path, Permissions::from_mode(0o755))
                        .with_context(|| format!("set permissions of `{}`", path.display()))?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => return Err(error).with_context(|| format!("create `{}`", path.display())),
            }
        }
        Ok(())
    }

    fn write_file(&mut self, from: &mut impl Read, relative: &Path, facts: Facts) -> Result<u64> {
        self.count()?;
        if let Some(parent) = relative.parent() {
            self.make_directories(parent)?;
        }
        let path = self.into.join(relative);
        let mut file: File =
            files::create_new(&path, 0o600).with_context(|| format!("create `{}`", path.display()))?;
        let n_bytes = io::copy(from, &mut file).with_context(|| format!("write `{}`", path.display()))?;
        // Everyone may read and, where anyone could, execute: the server may run as another user.
        let mode = if facts.is_executable { 0o755 } else { 0o644 };
        file.set_permissions(Permissions::from_mode(mode))
            .with_context(|| format!("set permissions of `{}`", path.display()))?;
        if let Some(at) = UNIX_EPOCH.checked_add(Duration::from_secs(facts.modified_unix_s)) {
            // Nothing depends on a time that the file system cannot hold.
            file.set_modified(at).ok();
        }
        Ok(n_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// One entry of a hostile tar: type, path, link target, mode.
    struct Row(EntryType, &'static str, &'static str, u32);

    fn archive(rows: &[Row]) -> Vec<u8> {
        zip_of(&xz_of(&tar_of(rows)))
    }

    fn tar_of(rows: &[Row]) -> Vec<u8> {
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
        builder.into_inner().unwrap()
    }

    fn xz_of(tar: &[u8]) -> Vec<u8> {
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(tar).unwrap();
        xz.finish().unwrap()
    }

    fn zip_of(tar_xz: &[u8]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("postgres.txz", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(tar_xz).unwrap();
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
            (Row(EntryType::Block, "disk", "", 0o666), "neither file"),
            (Row(FILE, "bin/postgres", "", 0o644), "create"),
        ] {
            let path = row.1;
            let error = refused(&[Row(fine.0, fine.1, fine.2, fine.3), row]);
            assert!(error.contains(expected), "{path}: {error}");
        }
    }

    /// Why the archive is refused; fails the test if anything is made outside.
    fn refused(rows: &[Row]) -> String {
        let outer = tempfile::tempdir().unwrap();
        let into = outer.path().join("into");
        fs::create_dir(&into).unwrap();
        fs::write(outer.path().join("victim"), "mine").unwrap();
        let refused = unpack(&archive(rows), &into);
        let mut left: Vec<_> = fs::read_dir(outer.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["into", "victim"], "{refused:?}");
        format!("{:#}", refused.expect_err("the archive was unpacked"))
    }

    #[test]
    fn links_that_lead_out_in_a_chain_are_refused() {
        let file = || Row(FILE, "d/e/file", "", 0o644);
        for (rows, expected) in [
            // By the first link the second lies at the root, where its `..` lead out.
            (
                vec![file(), Row(SYM, "d/e/f", "../..", 0o777), Row(SYM, "d/e/f/x", "..", 0o777)],
                "d/e/f` is not",
            ),
            (
                vec![file(), Row(SYM, "up", "d/e", 0o777), Row(SYM, "up/x", "..", 0o777)],
                "up` is not a directory",
            ),
            (vec![file(), Row(SYM, "none/x", "y", 0o777)], "none` is not a directory"),
            // A hard link to a link, or by way of one, reaches what the link names from another place.
            (vec![file(), Row(SYM, "d/e/f", "../../x", 0o777), Row(HARD, "f", "d/e/f", 0o777)], "not a file"),
            (
                vec![file(), Row(SYM, "d/e/f", "../..", 0o777), Row(HARD, "h", "d/e/f/d/e/file", 0o777)],
                "d/e/f` is not",
            ),
            (
                vec![file(), Row(SYM, "l", "d", 0o777), Row(HARD, "l/h", "d/e/file", 0o777)],
                "`l` is not a directory",
            ),
        ] {
            let error = refused(&rows);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn no_hard_link_lands_outside() {
        let rows = [
            Row(FILE, "d/e/file", "", 0o644),
            Row(SYM, "d/e/f", "../..", 0o777),
            Row(SYM, "d/e/f/g", "..", 0o777),
            Row(HARD, "g/planted", "d/e/file", 0o644),
        ];
        let error = refused(&rows);
        assert!(error.contains("is not a directory of the archive"), "{error}");
    }

    #[test]
    fn bytes_and_entries_are_bounded() {
        let unpacked = |rows: &[Row], bounds| {
            let into = tempfile::tempdir().unwrap();
            unpack_tar(&tar_of(rows)[..], into.path(), bounds).map_err(|error| format!("{error:#}"))
        };
        let rows = [Row(FILE, "a/b/c/d", "", 0o644), Row(FILE, "a/b/e", "", 0o644)];
        let bounds = Bounds { bytes_max: 4096, entries_max: 5 };
        assert_eq!(unpacked(&rows, bounds).unwrap(), 8);
        let error = unpacked(&rows, Bounds { entries_max: 4, ..bounds }).unwrap_err();
        assert!(error.contains("more than 4 entries"), "{error}");
        let error = unpacked(&rows, Bounds { bytes_max: 1500, ..bounds }).unwrap_err();
        assert!(error.contains("more than 1500 bytes when unpacked"), "{error}");
    }

    #[test]
    fn an_archive_that_grows_beyond_all_measure_is_refused() {
        const N_BYTES: u64 = 8 << 20;
        // A long name is read into memory before it is known to be one.
        for kind in [FILE, EntryType::GNULongName] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_path("bin/postgres").unwrap();
            header.set_size(N_BYTES);
            header.set_cksum();
            let mut tar = header.as_bytes().to_vec();
            tar.resize(512 + N_BYTES as usize, b'a');
            let into = tempfile::tempdir().unwrap();
            let bounds = Bounds { bytes_max: N_BYTES / 2, ..FETCHED };
            let refused = unpack_within(&zip_of(&xz_of(&tar)), into.path(), bounds).unwrap_err();
            assert!(format!("{refused:#}").contains("bytes when unpacked"), "{refused:#}");
        }
    }

    #[test]
    fn an_archive_cannot_ask_for_gigabytes_of_memory() {
        let mut tar_xz = xz_of(&tar_of(&[Row(FILE, "bin/postgres", "", 0o755)]));
        // The header of the first block, behind that of the stream (section 3.1 of the xz file format): its size,
        // flags, LZMA2 with one byte of properties, which is the size of the dictionary, padding, and a CRC32.
        assert_eq!(tar_xz[12..16], [2, 0, 0x21, 1]);
        tar_xz[16] = 40;
        let crc = crc32(&tar_xz[12..20]);
        tar_xz[20..24].copy_from_slice(&crc.to_le_bytes());
        let into = tempfile::tempdir().unwrap();
        let error = format!("{:#}", unpack(&zip_of(&tar_xz), into.path()).unwrap_err());
        assert!(error.contains("memory"), "{error}");
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
    }

    #[test]
    fn a_file_cannot_be_written_through_a_link() {
        let into = tempfile::tempdir().unwrap();
        let rows = [Row(SYM, "a", "bin", 0o777), Row(FILE, "bin/x", "", 0o644), Row(FILE, "a/y", "", 0o644)];
        let error = unpack(&archive(&rows), into.path()).unwrap_err();
        assert!(format!("{error:#}").contains("link `a`"), "{error:#}");
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
    fn a_file_that_is_no_archive_is_refused_as_such() {
        let into = tempfile::tempdir().unwrap();
        let error = unpack(b"<html>not found</html>", into.path()).unwrap_err();
        assert!(format!("{error:#}").contains("not a readable zip"), "{error:#}");
    }
}
