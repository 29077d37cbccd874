//! Keeps passwords out of what other users of the machine, and other processes, can see.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use experiment::file::Override;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use toml::Value;
use wire::conninfo::PasswordSource;
use wire::{Conninfo, Secret};

/// Number of the descriptor from which the process that takes this one's place reads the password.
const CARRIER: &str = "PGDYNO_PASSWORD_FD";
/// Longest password: what a pipe takes without a reader.
const PASSWORD_BYTES_MAX: usize = 4096;

static CARRIED: OnceLock<Secret> = OnceLock::new();

/// If an argument has a password, this process is replaced by one without it: everybody may read the arguments of a
/// process. The password goes through a pipe, so that it is in no environment either.
pub(crate) fn hide_from_argv() -> Result<()> {
    let called = env::args_os().next().unwrap_or_default();
    let mut args: Vec<OsString> = env::args_os().skip(1).collect();
    match clean(&mut args)? {
        Some(password) => start_again(&called, &args, &password),
        None => Ok(()),
    }
}

/// This process becomes one with these arguments; the password goes to it through a pipe.
fn start_again(called: &OsStr, args: &[OsString], password: &Secret) -> Result<()> {
    if password.expose().len() > PASSWORD_BYTES_MAX {
        bail!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
    }
    let (reader, writer) = nix::unistd::pipe().context("make a pipe for the password")?;
    File::from(writer).write_all(password.expose().as_bytes()).context("hand over the password")?;
    fcntl(&reader, FcntlArg::F_SETFD(FdFlag::empty())).context("hand over the password")?;
    let program = env::current_exe().context("find the program of this process")?;
    let number = reader.as_raw_fd().to_string();
    Err(Command::new(program).arg0(called).args(args).env(CARRIER, number).exec())
        .context("start again without the password in the arguments")
}

/// As [`hide_from_argv`] for a program with options of its own: `args` are all arguments, `targets` those texts that
/// name a database. `called` stays the name of the program.
pub(crate) fn hide_targets(called: &str, mut args: Vec<String>, targets: &[String]) -> Result<()> {
    let mut password = None;
    for target in targets {
        let Some((clean, secret)) = without_password(target) else { continue };
        for arg in &mut args {
            if let Some(head) = arg.strip_suffix(target.as_str()) {
                *arg = format!("{head}{clean}");
            }
        }
        password = Some(secret);
    }
    let Some(password) = password else { return Ok(()) };
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    start_again(called.as_ref(), &args, &password)
}

/// The password that was taken out of the arguments.
pub(crate) fn carried() -> Option<Secret> {
    CARRIED.get().cloned()
}

/// Takes over what the process before this one handed on. Call it first, while there is one thread only.
pub(crate) fn take_carried() -> Result<()> {
    let Ok(number) = env::var(CARRIER) else { return Ok(()) };
    // SAFETY: `main` calls this before there is a second thread.
    unsafe { env::remove_var(CARRIER) };
    let number: RawFd =
        number.parse().with_context(|| format!("{CARRIER} is not the number of a descriptor"))?;
    if number <= 2 {
        bail!("{CARRIER} names a standard stream");
    }
    // SAFETY: the process before this one opened it for us, and nobody else has its number.
    let reader = unsafe { OwnedFd::from_raw_fd(number) };
    let mut password = String::new();
    File::from(reader)
        .take(PASSWORD_BYTES_MAX as u64)
        .read_to_string(&mut password)
        .context("take the password over")?;
    // Set once: this is the only place.
    CARRIED.set(Secret::new(password)).ok();
    Ok(())
}

/// Options whose value may name a server.
const OPTIONS: [&str; 4] = ["--server", "--set", "--a", "--b"];

/// Replaces each target that has a password written in it by one that has none; gives the password.
fn clean(args: &mut [OsString]) -> Result<Option<Secret>> {
    let mut password = None;
    let mut before = String::new();
    for arg in args {
        let Some(text) = arg.to_str().map(str::to_string) else { continue };
        let (option, value) = match before.as_str() {
            option if OPTIONS.contains(&option) => (option.to_string(), Some(text.as_str())),
            _ => match text.split_once('=') {
                Some((option, value)) if OPTIONS.contains(&option) => (option.to_string(), Some(value)),
                _ => (String::new(), None),
            },
        };
        let cleaned = match (option.as_str(), value) {
            ("--server", Some(target)) => without_password(target),
            ("", _) => None,
            (_, Some(setting)) => clean_setting(setting)?,
            (_, None) => None,
        };
        if let Some((value, secret)) = cleaned {
            if password.as_ref().is_some_and(|other: &Secret| other.expose() != secret.expose()) {
                bail!(
                    "two servers with different passwords were given; put them into a password file (~/.pgpass)"
                );
            }
            *arg = if before == option { value } else { format!("{option}={value}") }.into();
            password = Some(secret);
        }
        before = text;
    }
    Ok(password)
}

/// `server.url=…`, however it is spaced and quoted.
fn clean_setting(setting: &str) -> Result<Option<(String, Secret)>> {
    let Ok(change) = Override::parse(setting) else { return Ok(None) };
    match (change.key.as_str(), &change.value) {
        ("server.url", Value::String(target)) => Ok(without_password(target)
            .map(|(clean, secret)| (format!("server.url={}", Value::String(clean)), secret))),
        ("server.url", _) => bail!("--set server.url takes one server, as text"),
        _ => Ok(None),
    }
}

/// A target without its password, if it has one written in it.
fn without_password(target: &str) -> Option<(String, Secret)> {
    // What is not understood is refused later, before anything is done.
    let conninfo = Conninfo::resolve(target).ok()?;
    match (&conninfo.password_source, &conninfo.password) {
        (PasswordSource::Text { .. }, Some(secret)) => Some((keyword_text(&conninfo), secret.clone())),
        _ => None,
    }
}

/// A conninfo in libpq's key=value form, without the password.
pub(crate) fn keyword_text(conninfo: &Conninfo) -> String {
    let quote = |value: &str| format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"));
    let pairs: Vec<String> =
        conninfo.keywords().iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_however_they_are_written() {
        let check = |args: &[&str], expected: Option<&str>| {
            let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
            let found = clean(&mut args).unwrap();
            assert_eq!(found.as_ref().map(Secret::expose), expected, "{args:?}");
            if let Some(secret) = expected {
                let rest = format!("{args:?}");
                assert!(!rest.contains(secret) && !rest.contains("S3cret"), "{rest}");
            }
        };
        check(&["run", "--server", "postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--server", "postgres://u:p%40S3cret@h/d"], Some("p@S3cret"));
        check(&["run", "--server=host=h password='it\\'s S3cret'"], Some("it's S3cret"));
        check(&["run", "--set", "server.url=postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--set", "server.url = postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--set=server.url=\"postgres://u:S3cret@h/d\""], Some("S3cret"));
        check(
            &["compare", "--a", "server.url=postgres://u:S3cret@h/d", "--b=server.version=18"],
            Some("S3cret"),
        );
        check(&["compare", "--b=server.url=postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--server", "host=h user=u", "-c", "8"], None);
        check(&["run", "--set", "workload.scale=10"], None);
    }

    #[test]
    fn a_list_of_servers_is_refused() {
        let mut args = vec![OsString::from("--set"), OsString::from("server.url=[\"postgres://u:x@h/d\"]")];
        assert!(clean(&mut args).is_err());
        let url =
            |side: &str, password: &str| format!("--{side}=server.url=postgres://u:{password}@h/d").into();
        assert!(clean(&mut [url("a", "x"), url("b", "x")]).is_ok());
        assert!(clean(&mut [url("a", "x"), url("b", "y")]).is_err());
    }
}
