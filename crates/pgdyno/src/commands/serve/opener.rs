//! Opens a page in the user's browser. A token is not among the arguments of a program, which everybody on the machine can read: the
//! browser reads it from a file that only its user can.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::say;

/// Programs that open an address, if `BROWSER` names none.
const OPENERS: [&str; 3] = ["xdg-open", "sensible-browser", "open"];

/// What the file begins with that the browser reads; by this and by its lock a later process knows it.
const HEAD: &str = "<!doctype html>\n<meta charset=\"utf-8\">\n<title>pgdyno</title>\n<a";
const NAME_BEGIN: &str = "pgdyno-";
const NAME_END: &str = ".html";

/// The file that the browser reads; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    /// With its lock, which says that its server is running.
    file: Option<(PathBuf, File)>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens an address of the server; that no browser can be started is said.
pub(super) fn open(address: &str, token: Option<&str>) -> Opened {
    let mut opened = Opened { file: None };
    if let Err(error) = try_open(address, token, &mut opened) {
        say(&format!("note: no browser was opened: {error:#}"));
    }
    opened
}

fn try_open(address: &str, token: Option<&str>, opened: &mut Opened) -> Result<()> {
    let what = match token {
        None => address.to_string(),
        Some(token) => {
            let file = write_link(address, token)?;
            let name = format!("file://{}", file.0.display());
            opened.file = Some(file);
            name
        }
    };
    let named =
        std::env::var("BROWSER").ok().filter(|name| !name.is_empty() && !name.contains([':', ' ', '%']));
    let programs: Vec<&str> = named.iter().map(String::as_str).chain(OPENERS).collect();
    for program in programs {
        let mut command = Command::new(program);
        command.arg(&what).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // Whoever has ended is to be waited for.
            std::thread::spawn(move || child.wait());
            return Ok(());
        }
    }
    anyhow::bail!("none of {} can be started; BROWSER can name another program", OPENERS.join(", "))
}

/// A page that leads to the server's, with the token, at once.
fn write_link(address: &str, token: &str) -> Result<(PathBuf, File)> {
    let base = address.split('/').take(3).collect::<Vec<&str>>().join("/");
    let path = directory().join(format!("{NAME_BEGIN}{}{NAME_END}", files::random_hex(8)?));
    let text = format!(
        "{HEAD} href=\"{base}/login#{token}\">Open pgdyno</a>\n<script>location.replace(document.links[0].href)</script>\n"
    );
    let context = |path: &Path| format!("cannot write `{}`", path.display());
    let mut file = files::create_new(&path, files::PRIVATE).with_context(|| context(&path))?;
    file.lock().with_context(|| context(&path))?;
    file.write_all(text.as_bytes()).with_context(|| context(&path))?;
    Ok((path, file))
}

fn directory() -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// Removes the files of servers that were killed; returns their paths.
pub(crate) fn sweep() -> Vec<PathBuf> {
    sweep_in(&directory())
}

fn sweep_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let has_name = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(NAME_BEGIN) && name.ends_with(NAME_END)
    };
    let found = entries.map(|entry| entry.path()).filter(has_name);
    found.filter(|path| is_abandoned(path) && std::fs::remove_file(path).is_ok()).collect()
}

/// Anyone can make a file of such a name in `/tmp`: what is in it decides, and nobody may hold its lock.
fn is_abandoned(path: &Path) -> bool {
    let Ok(mut file) = files::open(path) else { return false };
    let is_ours = file.metadata().is_ok_and(|facts| facts.uid() == nix::unistd::geteuid().as_raw());
    let mut head = vec![0; HEAD.len()];
    is_ours && file.read_exact(&mut head).is_ok() && head == HEAD.as_bytes() && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_is_in_a_file_of_its_user_alone_and_goes_away_with_it() {
        let (file, lock) = write_link("http://10.0.0.5:8437/live/x", "abc").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("href=\"http://10.0.0.5:8437/login#abc\""), "{text}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(Opened { file: Some((file.clone(), lock)) });
        assert!(!file.exists());
    }

    #[test]
    fn only_our_file_whose_server_was_killed_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let left = write("pgdyno-00.html", &format!("{HEAD} href"));
        let used = write("pgdyno-01.html", &format!("{HEAD} href"));
        let mine = write("pgdyno-report.html", "<!doctype html>\nmine");
        let lock = File::open(&used).unwrap();
        lock.lock().unwrap();
        assert_eq!(sweep_in(place.path()), [left]);
        assert!(used.exists() && mine.exists());
    }
}
