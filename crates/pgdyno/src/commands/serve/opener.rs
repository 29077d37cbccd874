//! Opens a page in the user's browser. A token is not among the arguments of a program, which everybody on the machine can read: the
//! browser reads it from a file that only its user can.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::say;

/// Programs that open an address, if `BROWSER` names none.
const OPENERS: [&str; 3] = ["xdg-open", "sensible-browser", "open"];

/// The file that the browser reads; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    file: Option<PathBuf>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
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
            let file = write_form(address, token)?;
            let name = format!("file://{}", file.display());
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

/// A page that sends the token to the server at once.
fn write_form(address: &str, token: &str) -> Result<PathBuf> {
    let base = address.split('/').take(3).collect::<Vec<&str>>().join("/");
    let directory = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("pgdyno-{}.html", files::random_hex(8)?));
    let text = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>pgdyno</title>\n\
         <form method=\"post\" action=\"{base}/login\"><input type=\"hidden\" name=\"token\" value=\"{token}\">\
         <button>Open pgdyno</button></form>\n<script>document.forms[0].submit()</script>\n"
    );
    let context = |path: &Path| format!("cannot write `{}`", path.display());
    let mut file = files::create_new(&path, files::PRIVATE).with_context(|| context(&path))?;
    file.write_all(text.as_bytes()).with_context(|| context(&path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_is_in_a_file_of_its_user_alone_and_goes_away_with_it() {
        let file = write_form("http://10.0.0.5:8437/live/x", "abc").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("action=\"http://10.0.0.5:8437/login\"") && text.contains("value=\"abc\""),
            "{text}"
        );
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(Opened { file: Some(file.clone()) });
        assert!(!file.exists());
    }
}
