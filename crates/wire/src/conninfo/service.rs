//! The service file: named groups of connection settings (`PGSERVICE`, `service=`).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{ConninfoError, Surroundings};
use crate::conninfo::named_file;

/// Reads the settings of `service`: from `PGSERVICEFILE` or `~/.pg_service.conf`, then from the system's file.
pub(super) fn read(service: &str, around: &Surroundings) -> Result<BTreeMap<String, String>, ConninfoError> {
    let mut files = Vec::new();
    match around.variable("PGSERVICEFILE") {
        Some(file) => {
            let file = PathBuf::from(file);
            if !file.exists() {
                let libpq_text = format!("service file \"{}\" not found", file.display());
                let text = format!("service file `{}` does not exist", file.display());
                return Err(ConninfoError::new(text).in_libpqs_words(libpq_text));
            }
            files.push(file);
        }
        None => files.extend(around.home.as_ref().map(|home| home.join(".pg_service.conf"))),
    }
    let system_dir = around.variable("PGSYSCONFDIR").unwrap_or("/etc/postgresql-common");
    files.push(Path::new(system_dir).join("pg_service.conf"));

    for file in &files {
        let read =
            named_file::open(file).and_then(|(open, metadata)| match named_file::stranger(&metadata) {
                Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it {why}"))),
                None => named_file::read_open(open),
            });
        let text = match read {
            Ok(bytes) => named_file::text(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(ConninfoError::new(format!(
                    "cannot read service file `{}`: {error}",
                    file.display()
                )));
            }
        };
        let found = settings(&text, service).map_err(|line| {
            let libpq_text = format!("syntax error in service file \"{}\", line {line}", file.display());
            ConninfoError::new(format!("syntax error in service file `{}`, line {line}", file.display()))
                .in_libpqs_words(libpq_text)
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let searched: Vec<_> = files.iter().map(|f| format!("`{}`", f.display())).collect();
    Err(ConninfoError::new(format!("service `{service}` is not in {}", searched.join(" nor ")))
        .in_libpqs_words(format!("definition of service \"{service}\" not found")))
}

/// The settings of one group, or `None` if the text has no such group. The error is the number of the bad line. As in
/// libpq, the first setting of a name counts, and lines before the group are not checked.
fn settings(text: &str, service: &str) -> Result<Option<BTreeMap<String, String>>, usize> {
    let mut found: Option<BTreeMap<String, String>> = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            if name.strip_suffix(']') == Some(service) {
                found = Some(BTreeMap::new());
            }
        } else if let Some(found) = &mut found {
            let (key, value) = line.split_once('=').ok_or(i + 1)?;
            // A service that names another service, or an LDAP address, is not supported.
            if key == "service" || line.starts_with("ldap") {
                return Err(i + 1);
            }
            found.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_believes_no_service_file_of_somebody_else() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        use std::os::unix::fs::{PermissionsExt, chown};
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("services");
        std::fs::write(&file, "[a]\nhost=x\n").unwrap();
        let environment = [("PGSERVICEFILE".to_owned(), file.to_string_lossy().into_owned())];
        let around = Surroundings { environment: environment.into(), ..Surroundings::default() };
        let check = |uid: u32, mode: u32, expected: Option<&str>| {
            chown(&file, Some(uid), Some(0)).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = read("a", &around).err().map(|error| error.to_string());
            let fits = |words: &str| refused.as_ref().is_some_and(|refused| refused.ends_with(words));
            assert!(expected.map_or(refused.is_none(), fits), "{refused:?}");
        };
        check(0, 0o644, None);
        check(54_321, 0o644, Some("it belongs to user id 54321, and root uses only files of root"));
        check(0, 0o646, Some("it can be written by others, and root uses only files of root"));
    }

    #[test]
    fn groups_are_read_as_libpq_does() {
        let text = "# c\n[a]\nhost=x\n port=7 \nhost=y\n\n[b]\nnonsense\n[c]\nservice=a\n";
        let pairs = |service: &str| {
            settings(text, service).map(|found| found.map(|m| m.into_iter().collect::<Vec<_>>()))
        };
        let owned = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(pairs("a"), Ok(Some(vec![owned("host", "x"), owned("port", "7")])));
        assert_eq!(pairs("b"), Err(8));
        assert_eq!(pairs("c"), Err(10));
        assert_eq!(pairs("d"), Ok(None));
    }
}
