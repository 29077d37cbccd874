//! The head of an archive that `pg_dump` wrote: which format, of which database, by which version. Bytes in, facts out;
//! crate `experiment` reads the files.

use model::experiment::script::archive::{Archive, ArchiveFormat};
use model::text::prose::plural;

/// More than the head of any archive: its texts are a database's name and two versions.
pub const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Longest text in a head.
const TEXT_BYTES_MAX: usize = 1024;
/// First minor version of the format that supported servers' `pg_dump` writes (`K_VERS_1_12`, PostgreSQL 9.0).
const MINOR_MIN: u8 = 12;
/// Since then the head names the compression instead of its level (`K_VERS_1_15`, PostgreSQL 16).
const MINOR_COMPRESSION_NAMED: u8 = 15;

/// The facts in an archive's head; name, place, size and identity are the caller's. The layout is that of `ReadHead` in PostgreSQL's `pg_backup_archiver.c`.
///
/// # Errors
/// When it is something else or cannot be used: in words that follow the name of the file, with what to do.
pub fn read_head(bytes: &[u8]) -> Result<Archive, String> {
    split_head(bytes).map(|(archive, ..)| archive)
}

/// As [`read_head`], with the minor version of the format and what follows the head.
pub(super) fn split_head(bytes: &[u8]) -> Result<(Archive, u8, &[u8]), String> {
    let Some(rest) = bytes.strip_prefix(b"PGDMP") else { return Err(other_kind(bytes)) };
    let mut head = Head { rest, int_bytes: 4 };
    let (major, minor, _revision) = (head.byte()?, head.byte()?, head.byte()?);
    if major != 1 || minor < MINOR_MIN {
        return Err(format!(
            "has the archive format {major}.{minor}; dump again with a pg_dump of 9.4 or newer"
        ));
    }
    head.int_bytes = usize::from(head.byte()?);
    let _offset_bytes = head.byte()?;
    let format = match head.byte()? {
        1 => ArchiveFormat::Custom,
        // That of a directory calls itself a tar file, which begins differently (`_CloseArchive` in pg_backup_directory.c).
        3 | 5 => ArchiveFormat::Directory,
        _ => return Err(format!("is an archive {ONLY_TWO}")),
    };
    let compression = if minor >= MINOR_COMPRESSION_NAMED { i64::from(head.byte()?) } else { head.int()? };
    let mut time = [0; 7];
    for part in &mut time {
        *part = head.int()?;
    }
    let [second, minute, hour, day, month, year, _] = time;
    let archive = Archive {
        name: String::new(),
        file: Default::default(),
        format,
        bytes: 0,
        is_compressed: compression != 0,
        identity: String::new(),
        database: head.text()?,
        server_version: head.text()?,
        dump_version: head.text()?,
        made: format!(
            "{:04}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02}",
            year.saturating_add(1900),
            month.saturating_add(1)
        ),
        tables_of: None,
    };
    Ok((archive, minor, head.rest))
}

const ONLY_TWO: &str = "that pg_restore cannot restore in parallel; make it with pg_dump -Fc or -Fd";

/// Advice about a file that does not begin as an archive.
fn other_kind(bytes: &[u8]) -> String {
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let is_sql = ["--", "SET ", "CREATE ", "\\restrict", "BEGIN"]
        .iter()
        .any(|word| start.trim_start().starts_with(word));
    let is_packed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh"]
        .iter()
        .any(|magic| bytes.starts_with(magic));
    match (is_tar, is_packed, is_sql) {
        (true, ..) => format!("is a tar file {ONLY_TWO}"),
        (_, true, _) => {
            "is compressed as a whole; unpack it first: pg_dump -Fc compresses by itself".to_string()
        }
        (_, _, true) => {
            "is a plain SQL script, not an archive; name it in workload.data = {files = [...]}, or dump \
                         again with pg_dump -Fc or -Fd"
                .to_string()
        }
        _ => "is not an archive of pg_dump; make one with pg_dump -Fc or -Fd".to_string(),
    }
}

/// The bytes of a head that are not read yet.
struct Head<'a> {
    rest: &'a [u8],
    int_bytes: usize,
}

impl Head<'_> {
    fn take(&mut self, n_bytes: usize) -> Result<&[u8], String> {
        let (taken, rest) =
            self.rest.split_at_checked(n_bytes).ok_or("is an archive that ends within its head")?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A number: its sign, then its bytes, the least significant first.
    fn int(&mut self) -> Result<i64, String> {
        if !(1..=7).contains(&self.int_bytes) {
            return Err(format!("is an archive with integers of {} bytes, which is damaged", self.int_bytes));
        }
        let is_negative = self.byte()? != 0;
        let bytes = self.take(self.int_bytes)?;
        let value = bytes.iter().rev().fold(0_i64, |value, byte| (value << 8) | i64::from(*byte));
        Ok(if is_negative { -value } else { value })
    }

    /// A text with its length before it; without one, the length is negative.
    fn text(&mut self) -> Result<String, String> {
        let n_bytes = self.int()?;
        if n_bytes < 0 {
            return Ok(String::new());
        }
        let n_bytes = usize::try_from(n_bytes).ok().filter(|n_bytes| *n_bytes <= TEXT_BYTES_MAX);
        let bytes = self.take(n_bytes.ok_or("is an archive whose head is damaged")?)?;
        let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        Ok(String::from_utf8_lossy(bytes).chars().map(visible).collect())
    }
}

/// Extensions that an archive creates, from the output of `pg_restore --list`.
pub fn extensions(list: &str) -> Vec<String> {
    // `3; 3079 16389 EXTENSION - pg_trgm `: after the numbers the kind, the schema, the name and the owner.
    let name = |line: &str| {
        let (_, entry) = line.split_once(';')?;
        let mut words = entry.split_ascii_whitespace().skip(2);
        let is_one = words.next() == Some("EXTENSION") && words.next() == Some("-");
        is_one.then(|| words.next().map(str::to_string)).flatten()
    };
    list.lines().filter(|line| !line.starts_with(';')).filter_map(name).collect()
}

/// Kinds of entries that are never restored, by the word after which an entry of `pg_restore --list` is named.
const LEFT_OUT: [(&str, &str); 5] = [
    ("PUBLICATION", "publication"),
    ("SUBSCRIPTION", "subscription"),
    ("SECURITY LABEL", "security label"),
    ("ACL", "privilege"),
    ("DEFAULT ACL", "default privilege"),
];

/// What an archive has and a restored database lacks, from the output of `pg_restore --list`: `2 publications`.
pub fn left_out(list: &str) -> Vec<String> {
    let count = |kind: &str| {
        let is_one = |line: &&str| {
            of_kind(line).is_some_and(|rest| {
                rest.starts_with(&format!("{kind} ")) && !rest.starts_with("PUBLICATION TABLE")
            })
        };
        list.lines().filter(is_one).count()
    };
    let counted = LEFT_OUT.iter().map(|(kind, word)| (count(kind), word)).filter(|(n, _)| *n > 0);
    counted.map(|(n, word)| plural(n, word)).collect()
}

/// The list of an archive without the schema `public` and its comment, as `pg_restore --use-list` reads it; `None` if it has none, as an archive
/// by `pg_dump --schema=public` has.
pub fn without_schema_public(list: &str) -> Option<String> {
    let is_public = |line: &str| {
        of_kind(line).is_some_and(|rest| {
            rest.starts_with("SCHEMA - public ") || rest.starts_with("COMMENT - SCHEMA public ")
        })
    };
    let (public, kept): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| is_public(line));
    let has_schema = public.iter().any(|line| line.contains("SCHEMA - public "));
    has_schema.then(|| kept.iter().map(|line| format!("{line}\n")).collect())
}

/// Whether statements of the archive name roles that must exist: those of policies and of mappings to foreign servers.
pub fn names_roles(list: &str) -> bool {
    let kinds = ["POLICY ", "USER MAPPING "];
    list.lines().filter_map(of_kind).any(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// What follows the numbers of an entry: its kind, its schema and so on.
fn of_kind(line: &str) -> Option<&str> {
    let (number, entry) = line.split_once("; ")?;
    number.parse::<u64>().ok()?;
    let (_, rest) = entry.split_once(' ')?;
    rest.split_once(' ').map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i32) -> Vec<u8> {
        let mut bytes = vec![u8::from(value < 0)];
        bytes.extend(value.unsigned_abs().to_le_bytes());
        bytes
    }

    fn text(text: &str) -> Vec<u8> {
        [int(text.len() as i32), text.as_bytes().to_vec()].concat()
    }

    /// A head as `pg_dump` writes it.
    fn head(minor: u8, format: u8) -> Vec<u8> {
        let compression = if minor >= MINOR_COMPRESSION_NAMED { vec![1] } else { int(-1) };
        let time: Vec<u8> = [5, 4, 19, 24, 10, 126, 0].into_iter().flat_map(int).collect();
        let texts = [text("shop"), text("15.18"), text("17.2")].concat();
        [b"PGDMP".to_vec(), vec![1, minor, 0, 4, 8, format], compression, time, texts, vec![7; 9]].concat()
    }

    #[test]
    fn the_head_of_an_archive_says_what_it_is() {
        for (minor, format, expected) in [
            (14, 1, ArchiveFormat::Custom),
            (16, 1, ArchiveFormat::Custom),
            (15, 3, ArchiveFormat::Directory),
        ] {
            let archive = read_head(&head(minor, format)).unwrap();
            assert_eq!((archive.format, archive.is_compressed), (expected, true));
            assert_eq!((archive.database.as_str(), archive.server_version.as_str()), ("shop", "15.18"));
            let words = Archive { name: "a.dump".to_string(), ..archive }.words();
            assert_eq!(
                words,
                "restored from a.dump (pg_dump 17.2 of database shop, made 2026-11-24 19:04:05)"
            );
        }
    }

    #[test]
    fn what_is_no_archive_is_named_with_what_to_do() {
        let check = |bytes: &[u8], expected: &str| {
            let message = read_head(bytes).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        check(b"--\n-- PostgreSQL database dump\n--\n", "name it in workload.data = {files");
        check(b"\x1f\x8b\x08", "is compressed as a whole");
        check(b"", "is not an archive of pg_dump");
        check(b"hello", "is not an archive of pg_dump");
        check(&[&[b't'; 257][..], b"ustar"].concat(), "is a tar file");
        check(&head(16, 4), "cannot restore in parallel");
        check(&head(10, 1), "dump again");
        let whole = head(16, 1);
        for n_bytes in 6..whole.len() - 9 {
            check(&whole[..n_bytes], "ends within its head");
        }
        let long = [&whole[..whole.len() - 17], &int(i32::MAX), b"x"].concat();
        check(&long, "damaged");
    }

    #[test]
    fn what_is_left_out_is_counted_and_roles_are_noticed() {
        let list = "; Archive\n3; 6104 16400 PUBLICATION - p app\n4; 6100 16401 SUBSCRIPTION - s app\n\
                    5; 0 0 ACL public TABLE t app\n6; 0 0 ACL public TABLE u app\n7; 1259 1 TABLE public POLICY app\n\
                    8; 6106 1 PUBLICATION TABLE public p t app\n";
        assert_eq!(left_out(list), ["1 publication", "1 subscription", "2 privileges"]);
        assert!(!names_roles(list));
        assert!(names_roles("9; 3256 16412 POLICY public t p app\n"));
        assert!(names_roles("9; 1418 16412 USER MAPPING - USER MAPPING app SERVER s app\n"));
    }

    #[test]
    fn the_schema_public_is_taken_out_of_a_list() {
        let list = "; Archive\n4; 2615 2200 SCHEMA - public pg_database_owner\n\
                    3348; 0 0 COMMENT - SCHEMA public pg_database_owner\n5; 2615 9 SCHEMA - public2 app\n\
                    214; 1259 16387 TABLE public SCHEMA - public app\n";
        let kept =
            "; Archive\n5; 2615 9 SCHEMA - public2 app\n214; 1259 16387 TABLE public SCHEMA - public app\n";
        assert_eq!(without_schema_public(list).as_deref(), Some(kept));
        assert_eq!(without_schema_public("3348; 0 0 COMMENT - SCHEMA public app\n"), None);
    }

    #[test]
    fn extensions_are_found_in_a_list() {
        let list = "; Archive created at 2026-11-24\n;     Format: CUSTOM\n2; 3079 16389 EXTENSION - pg_trgm \n\
                    3375; 0 0 COMMENT - EXTENSION pg_trgm \n217; 1259 16470 TABLE public EXTENSION postgres\n";
        assert_eq!(extensions(list), ["pg_trgm"]);
        assert_eq!(extensions(""), Vec::<String>::new());
    }
}
