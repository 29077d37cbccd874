//! The table of contents of an archive that is a directory: the names of files in it, which `pg_restore` appends to the directory without
//! looking at them. Bytes in, names out; crate `experiment` reads the files.

use super::archive::split_head;

/// Newest minor version of the format that is known (`K_VERS_1_16`, PostgreSQL 17 and 18).
const MINOR_MAX: u8 = 16;
/// Since then an entry has its table's access method (`K_VERS_1_14`, PostgreSQL 12).
const MINOR_ACCESS_METHOD: u8 = 14;
/// Since then an entry has the kind of its relation (`K_VERS_1_16`, PostgreSQL 17).
const MINOR_KIND: u8 = 16;
/// Place of the size of integers in the head, after `PGDMP` and the version.
const INT_BYTES_AT: usize = 8;
/// An entry of large objects, whose file lists files.
const LARGE_OBJECTS: &[u8] = b"BLOBS";
/// The list of large objects, whatever the entry says, before 17.
const LIST: &str = "blobs.toc";

/// Fails if a name of a file leads out of the directory, or cannot be looked at. Returns the names of lists of large objects; see
/// [`expect_list`].
///
/// # Errors
/// In words that follow the name of the archive.
pub fn lists_in(bytes: &[u8]) -> Result<Vec<String>, String> {
    let (_, minor, rest) = split_head(bytes)?;
    if minor > MINOR_MAX || bytes.get(INT_BYTES_AT) != Some(&4) {
        return Err(format!(
            "has the archive format 1.{minor}, in which pgdyno cannot see the names of its files; dump again with -Fc"
        ));
    }
    let mut contents = Contents { rest };
    let mut lists = vec![LIST.to_string()];
    for _ in 0..contents.int()? {
        let (kind, file) = contents.entry(minor)?;
        let Some(file) = file else { continue };
        let name = String::from_utf8_lossy(file).into_owned();
        let is_list = kind == Some(LARGE_OBJECTS);
        // A list with another ending may be compressed.
        if file.contains(&b'/') || is_list && !name.ends_with(".toc") {
            return Err(leads_out(&name));
        }
        if is_list && !lists.contains(&name) {
            lists.push(name);
        }
    }
    Ok(lists)
}

/// Fails if a part of a list of large objects, `NUMBER NAME` on each line, has a name that leads out of the directory.
///
/// # Errors
/// As [`lists_in`].
pub fn expect_list(bytes: &[u8]) -> Result<(), String> {
    let Some(at) = bytes.iter().position(|byte| *byte == b'/') else { return Ok(()) };
    let is_end = |byte: &u8| byte.is_ascii_whitespace();
    let begin = bytes[..at].iter().rposition(is_end).map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(is_end).map_or(bytes.len(), |length| at + length);
    Err(leads_out(&String::from_utf8_lossy(&bytes[begin..end])))
}

fn leads_out(name: &str) -> String {
    let shown: String = name.chars().take(80).collect();
    format!(
        "names `{}` as a file of its own, which pg_restore would read from elsewhere; no pg_dump wrote that",
        shown.escape_debug()
    )
}

/// A text of the file, which may be absent.
type Text<'a> = Option<&'a [u8]>;

/// What is not read yet, as `ReadToc` in PostgreSQL's `pg_backup_archiver.c` reads it.
struct Contents<'a> {
    rest: &'a [u8],
}

impl<'a> Contents<'a> {
    /// Kind and file of the next entry.
    fn entry(&mut self, minor: u8) -> Result<(Text<'a>, Text<'a>), String> {
        // Its number, and whether it has rows.
        self.int()?;
        self.int()?;
        // Two OIDs and its name.
        self.texts(3)?;
        let kind = self.text()?;
        // The section; the statements that create, drop and copy; schema and tablespace.
        self.int()?;
        self.texts(5)?;
        if minor >= MINOR_ACCESS_METHOD {
            self.text()?;
        }
        if minor >= MINOR_KIND {
            self.int()?;
        }
        // The owner, and whether rows have OIDs; then what it depends on, up to a text that is none.
        self.texts(2)?;
        while self.text()?.is_some() {}
        Ok((kind, self.text()?.filter(|file| !file.is_empty())))
    }

    fn texts(&mut self, n: usize) -> Result<(), String> {
        (0..n).try_for_each(|_| self.text().map(drop))
    }

    fn text(&mut self) -> Result<Text<'a>, String> {
        match usize::try_from(self.int()?) {
            // pg_restore would read such a text up to there.
            Ok(n_bytes) => match self.take(n_bytes)? {
                text if text.contains(&0) => {
                    Err("has texts that do not end where they say; no pg_dump wrote that".to_string())
                }
                text => Ok(Some(text)),
            },
            Err(_) => Ok(None),
        }
    }

    /// With 32 bits, as there.
    fn int(&mut self) -> Result<i32, String> {
        let [sign, bytes @ ..] = *self.take(5)?.first_chunk::<5>().expect("as many were taken");
        let value = i32::from_le_bytes(bytes);
        Ok(if sign == 0 { value } else { value.wrapping_neg() })
    }

    fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.rest.split_at_checked(n_bytes).ok_or("has a table of contents that is cut off")?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i32) -> Vec<u8> {
        [vec![u8::from(value < 0)], value.unsigned_abs().to_le_bytes().to_vec()].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        [int(text.len() as i32), text.as_bytes().to_vec()].concat()
    }

    fn contents(minor: u8, entries: &[(&str, &str)]) -> Vec<u8> {
        let compression = if minor >= 15 { vec![1] } else { int(-1) };
        let head = [b"PGDMP".to_vec(), vec![1, minor, 0, 4, 8, 3], compression, int(1).repeat(7)].concat();
        let mut all = [head, text("shop"), text("15.1"), text("15.1"), int(entries.len() as i32)].concat();
        for (kind, file) in entries {
            all.extend([int(3), int(1), text("1259"), text("16400"), text("t"), text(kind), int(4)].concat());
            all.extend([text("create"), text("drop"), text("copy"), text("public"), int(-1)].concat());
            all.extend(if minor >= 14 { text("heap") } else { Vec::new() });
            all.extend(if minor >= 16 { int(114) } else { Vec::new() });
            all.extend([text("owner"), text("false"), text("7"), text("8"), int(-1), text(file)].concat());
        }
        all
    }

    #[test]
    fn a_name_that_leads_out_of_the_directory_is_refused() {
        for minor in [12, 13, 14, 15, 16] {
            let fine = contents(minor, &[("TABLE", ""), ("TABLE DATA", "3.dat"), ("BLOBS", "blobs_4.toc")]);
            assert_eq!(lists_in(&fine).unwrap(), ["blobs.toc", "blobs_4.toc"], "{minor}");
            for (kind, file) in [
                ("TABLE DATA", "../../root/.pgpass"),
                ("BLOBS", "/etc/shadow"),
                ("BLOBS", "3.dat"),
                ("TABLE DATA", "a\0b"),
                ("BLOBS\0", "evil.toc"),
            ] {
                let refused = lists_in(&contents(minor, &[("TABLE", ""), (kind, file)])).unwrap_err();
                assert!(refused.contains("no pg_dump wrote that"), "{minor} {file}: {refused}");
            }
        }
        for n_bytes in 0..200 {
            assert!(lists_in(&contents(16, &[("TABLE DATA", "3.dat")])[..n_bytes]).is_err(), "{n_bytes}");
        }
        let newer = lists_in(&contents(17, &[])).unwrap_err();
        assert!(newer.contains("archive format 1.17") && newer.contains("-Fc"), "{newer}");
    }

    #[test]
    fn a_list_of_large_objects_names_files_of_the_directory() {
        expect_list(b"16400 blob_16400.dat\n16401 blob_16401.dat\n").unwrap();
        let refused = expect_list(b"16400 blob_16400.dat\n16401 ../x/y\n").unwrap_err();
        assert!(refused.starts_with("names `../x/y` as a file"), "{refused}");
    }
}
