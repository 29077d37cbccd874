//! Keeps passwords out of what other users of the machine can see.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use wire::{Conninfo, Secret};

/// Carries a password from the process that got it as an argument to the one that takes its place.
const CARRIER: &str = "PGDYNO_TARGET_PASSWORD";

/// If an argument has a password, this process is replaced by one without it: everybody may read the
/// arguments of a process, only its user may read its environment.
pub(crate) fn hide_from_argv() -> Result<()> {
    let mut args: Vec<OsString> = env::args_os().skip(1).collect();
    let mut password = None;
    let mut names_target = false;
    for arg in &mut args {
        let Some(text) = arg.to_str().map(str::to_string) else { continue };
        if let Some((head, target)) = target_of(&text, names_target)
            && let Some((clean, secret)) = without_password(target)
        {
            *arg = format!("{head}{clean}").into();
            password = Some(secret);
        }
        names_target = text == "--server" || text == "--set";
    }
    let Some(password) = password else { return Ok(()) };
    let program = env::current_exe().context("find the program of this process")?;
    Err(Command::new(program).args(args).env(CARRIER, password.expose()).exec())
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
    let program = env::current_exe().context("find the program of this process")?;
    let mut command = Command::new(program);
    Err(command.arg0(called).args(args).env(CARRIER, password.expose()).exec())
        .context("start again without the password in the arguments")
}

/// The password that the process before this one carried here.
pub(crate) fn carried() -> Option<Secret> {
    env::var(CARRIER).ok().map(Secret::new)
}

/// Splits an argument into what comes before a target and the target.
fn target_of(arg: &str, names_target: bool) -> Option<(&str, &str)> {
    for head in ["--server=", "--set=server.url=", "server.url="] {
        if let Some(target) = arg.strip_prefix(head) {
            return Some((head, target));
        }
    }
    names_target.then_some(("", arg))
}

/// The target without its password, if it has one written in it.
fn without_password(target: &str) -> Option<(String, Secret)> {
    if !target.contains("://") && !target.contains("password") {
        return None;
    }
    let conninfo = Conninfo::resolve(target).ok()?;
    let secret = conninfo.password.clone()?;
    // A password from .pgpass or the environment was never in the arguments.
    target.contains(secret.expose()).then_some(())?;
    Some((keyword_text(&conninfo), secret))
}

/// A conninfo in libpq's key=value form, without the password.
pub(crate) fn keyword_text(conninfo: &Conninfo) -> String {
    let quote = |value: &str| format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"));
    let pairs: Vec<String> =
        conninfo.keywords().iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    pairs.join(" ")
}
