//! The password file (`~/.pgpass`), for which libpq exports no reader.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::conninfo::named_file;
use crate::secret::Secret;

/// Socket directories that count as `localhost`: the defaults of PostgreSQL builds in use.
const DEFAULT_SOCKET_DIRS: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// What to look up a password for.
pub(super) struct Wanted<'a> {
    /// Host name, address or socket directory.
    pub(super) host: &'a str,
    /// Port.
    pub(super) port: u16,
    /// Database.
    pub(super) dbname: &'a str,
    /// Role.
    pub(super) user: &'a str,
}

/// The text of a password file, `None` if there is none.
///
/// # Errors
/// The message, libpq's where it has one, about a file that is ignored: not a plain file, readable by others, too long, or, for root, somebody
/// else's.
pub(super) fn read(file: &Path) -> Result<Option<String>, String> {
    let ignored = |why: &str| Err(format!("password file \"{}\" {why}", file.display()));
    let (open, metadata) = match named_file::open(file) {
        Ok((open, metadata)) if metadata.is_file() => (open, metadata),
        // As in libpq, one that cannot be opened counts as absent.
        Err(error) if error.kind() != ErrorKind::InvalidInput => return Ok(None),
        _ => return ignored("is not a plain file"),
    };
    if let Some(why) = named_file::stranger(&metadata) {
        return ignored(&why);
    }
    if metadata.mode() & 0o077 != 0 {
        return ignored("has group or world access; permissions should be u=rw (0600) or less");
    }
    match named_file::read_open(open) {
        Ok(bytes) => Ok(Some(named_file::text(&bytes))),
        Err(error) => ignored(&format!("cannot be read: {error}")),
    }
}

/// The password of the first line that matches `wanted`.
pub(super) fn find(text: &str, wanted: &Wanted<'_>) -> Option<Secret> {
    let host = if DEFAULT_SOCKET_DIRS.contains(&wanted.host) { "localhost" } else { wanted.host };
    let port = wanted.port.to_string();
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut rest = line.strip_suffix('\r').unwrap_or(line);
        for value in [host, &port, wanted.dbname, wanted.user] {
            let (field, after) = split_field(rest);
            rest = after?;
            if field != "*" && unescape(field) != value {
                return None;
            }
        }
        let (password, _) = split_field(rest);
        Some(Secret::new(unescape(password)))
    })
}

/// Splits at the first colon that is not escaped; without a colon, the rest is `None`.
fn split_field(text: &str) -> (&str, Option<&str>) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ':' => return (&text[..at], Some(&text[at + 1..])),
            _ => {}
        }
    }
    (text, None)
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_match_as_in_libpq() {
        let wanted = Wanted { host: "h", port: 5432, dbname: "d", user: "u" };
        let check = |text: &str, wanted: &Wanted<'_>, expected: Option<&str>| {
            assert_eq!(find(text, wanted).as_ref().map(Secret::expose), expected, "{text}");
        };
        check("h:5432:d:u:pw", &wanted, Some("pw"));
        check("h:5432:d:u:pw\r\n", &wanted, Some("pw"));
        check(&named_file::text(b"\xef\xbb\xbfh:5432:d:u:pw\n"), &wanted, Some("pw"));
        check("*:*:*:*:pw\n", &wanted, Some("pw"));
        check("x:*:*:*:no\n*:*:*:u:yes", &wanted, Some("yes"));
        check("*:*:*:*:first\nh:5432:d:u:second", &wanted, Some("first"));
        check("#h:5432:d:u:pw", &wanted, None);
        check("h:5433:d:u:pw", &wanted, None);
        check("h:5432:d:u", &wanted, None);
        check("h:5432:d:u:", &wanted, Some(""));
        check(r"h:5432:d:u:a\:b\\c", &wanted, Some(r"a:b\c"));
        check("h:5432:d:u:a:b", &wanted, Some("a"));
        let odd = Wanted { host: "::1", port: 1, dbname: "a:b", user: r"c\d" };
        check(r"\:\:1:1:a\:b:c\\d:pw", &odd, Some("pw"));
        let star = Wanted { host: "h", port: 5432, dbname: "*", user: "u" };
        check(r"h:5432:\*:u:pw", &star, Some("pw"));
        check(r"h:5432:\*:u:pw", &wanted, None);
        let socket = Wanted { host: "/var/run/postgresql", port: 5432, dbname: "d", user: "u" };
        check("localhost:*:*:*:pw", &socket, Some("pw"));
        let own_socket = Wanted { host: "/srv/sock", port: 5432, dbname: "d", user: "u" };
        check("localhost:*:*:*:no\n/srv/sock:*:*:*:pw", &own_socket, Some("pw"));
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        fs::write(&file, "*:*:*:*:pw\n").unwrap();
        let open = format!(
            "password file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
            file.display()
        );
        for (mode, expected) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let found = read(&file);
            assert_eq!(found, if expected { Ok(Some("*:*:*:*:pw\n".into())) } else { Err(open.clone()) });
        }
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(54_321), None).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let words = "belongs to user id 54321, and root uses only files of root";
            assert!(read(&file).is_err_and(|warning| warning.ends_with(words)));
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        assert_eq!(read(&dir.path().join("absent")), Ok(None));
        let no_file = format!("password file \"{}\" is not a plain file", dir.path().display());
        assert_eq!(read(dir.path()), Err(no_file));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for no_file in [&pipe, Path::new("/dev/null")] {
            assert!(read(no_file).is_err_and(|warning| warning.ends_with("is not a plain file")));
        }
        fs::File::create(&file).unwrap().set_len((64 << 20) + 1).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&file).is_err_and(|warning| warning.contains("longer than 64 MiB")));
    }
}
