//! Keeps passwords out of sight of other users and other processes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use experiment::plan::file::Override;
use model::experiment::keys;
use model::secret;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use toml::Value;
use wire::conninfo::{self, ENVIRONMENT_ONLY, Passwords};
use wire::{Conninfo, Secret};

use crate::guard;

/// File descriptor from which the process that replaces this one reads the passwords.
const CARRIER: &str = "PGDYNO_PASSWORD_FD";
/// Most bytes of passwords and their servers: what fits into a pipe without a reader.
const CARRIED_BYTES_MAX: usize = 4096;

static CARRIED: OnceLock<Vec<Carried>> = OnceLock::new();

/// Passwords taken out of the arguments, with the only server that may get them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Carried {
    /// The text that now stands in the arguments.
    target: String,
    passwords: Passwords,
}

/// If an argument contains a password, replaces this process by one without it: every user may read the arguments of a
/// process. The passwords pass through a pipe, so that they are not in the environment either.
pub(crate) fn hide_from_argv() -> Result<()> {
    let called = env::args_os().next().unwrap_or_default();
    let mut args: Vec<OsString> = env::args_os().skip(1).collect();
    let carried = clean(&mut args)?;
    if carried.is_empty() { Ok(()) } else { start_again(&called, &args, &carried) }
}

/// Replaces this process by one with these arguments; the passwords pass through a pipe.
fn start_again(called: &OsStr, args: &[OsString], carried: &[Carried]) -> Result<()> {
    let text = packed(carried);
    if text.len() > CARRIED_BYTES_MAX {
        bail!(
            "servers and passwords exceed {CARRIED_BYTES_MAX} bytes; put passwords into a password file \
             (~/.pgpass)"
        );
    }
    let (reader, writer) = nix::unistd::pipe().context("cannot create a pipe for the password")?;
    File::from(writer).write_all(text.as_bytes()).context("cannot pass on the password")?;
    fcntl(&reader, FcntlArg::F_SETFD(FdFlag::empty())).context("cannot pass on the password")?;
    guard::keep_inherited();
    let program = env::current_exe().context("cannot find the program of this process")?;
    let number = reader.as_raw_fd().to_string();
    Err(Command::new(program).arg0(called).args(args).env(CARRIER, number).exec())
        .context("cannot restart without the password in the arguments")
}

/// Like [`hide_from_argv`], for a program with options of its own: `args` are all arguments, `targets` those that name
/// a database. `called` stays the name of the program.
pub(crate) fn hide_targets(called: &str, mut args: Vec<String>, targets: &[String]) -> Result<()> {
    let mut carried = Vec::new();
    for target in targets {
        let Some(found) = without_password(target) else { continue };
        for arg in &mut args {
            if let Some(head) = arg.strip_suffix(target.as_str()) {
                *arg = format!("{head}{}", found.target);
            }
        }
        carried.push(found);
    }
    if carried.is_empty() {
        return Ok(());
    }
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    start_again(called.as_ref(), &args, &carried)
}

/// The passwords taken out of the arguments of a program that uses one server: the one named last.
pub(crate) fn carried() -> Option<Passwords> {
    CARRIED.get()?.last().map(|carried| carried.passwords.clone())
}

/// The passwords taken out of the text that is now `target`, and of no other.
pub(crate) fn carried_for(target: &str) -> Option<Passwords> {
    passwords_for(target, CARRIED.get()?)
}

fn passwords_for(target: &str, carried: &[Carried]) -> Option<Passwords> {
    carried.iter().find(|one| one.target == target).map(|one| one.passwords.clone())
}

/// Server, password, password of the key, each terminated by a zero byte, which libpq allows in none; one that is not
/// given is empty.
fn packed(carried: &[Carried]) -> String {
    let text =
        |secret: &Option<Secret>| secret.as_ref().map_or(String::new(), |one| one.expose().to_string());
    let all = carried.iter().map(|one| {
        format!("{}\0{}\0{}\0", one.target, text(&one.passwords.of_user), text(&one.passwords.of_key))
    });
    all.collect()
}

fn unpacked(text: &str) -> Vec<Carried> {
    let parts: Vec<&str> = text.split_terminator('\0').collect();
    let secret = |part: &str| (!part.is_empty()).then(|| Secret::from(part));
    let carried = |of: &[&str]| Carried {
        target: of[0].to_string(),
        passwords: Passwords { of_user: secret(of[1]), of_key: secret(of[2]) },
    };
    parts.chunks_exact(3).map(carried).collect()
}

/// Receives the passwords from the previous process image. Call it first, while there is only one thread.
pub(crate) fn take_carried() -> Result<()> {
    let Ok(number) = env::var(CARRIER) else { return Ok(()) };
    // SAFETY: `main` calls this before there is a second thread.
    unsafe { env::remove_var(CARRIER) };
    let number: RawFd = number.parse().with_context(|| format!("{CARRIER} is not a file descriptor"))?;
    if number <= 2 {
        bail!("{CARRIER} names a standard stream");
    }
    // SAFETY: the previous process image opened it for us, and nobody else has its number.
    let reader = unsafe { OwnedFd::from_raw_fd(number) };
    let mut text = String::new();
    File::from(reader)
        .take(CARRIED_BYTES_MAX as u64)
        .read_to_string(&mut text)
        .context("cannot read the password")?;
    // Set once: this is the only place.
    CARRIED.set(unpacked(&text)).ok();
    Ok(())
}

/// Options whose value may name a server.
const OPTIONS: [&str; 6] = ["--server", "--store", "--set", "--a", "--b", "--target"];

/// The commands that take a server as an argument without an option.
const TAKE_TARGETS: [&str; 2] = ["doctor", "push"];

/// Removes the password from each target that contains one; returns the passwords.
fn clean(args: &mut [OsString]) -> Result<Vec<Carried>> {
    let mut carried: Vec<Carried> = Vec::new();
    let mut before = String::new();
    let takes_target = args.first().is_some_and(|command| TAKE_TARGETS.iter().any(|takes| command == takes));
    for arg in args {
        let Some(text) = arg.to_str().map(str::to_string) else { continue };
        if takes_target && !OPTIONS.contains(&before.as_str()) && !text.starts_with("--") {
            if let Some(found) = without_password(&text) {
                *arg = found.target.clone().into();
                carried.push(found);
            }
            before = text;
            continue;
        }
        let (option, value) = match before.as_str() {
            option if OPTIONS.contains(&option) => (option.to_string(), Some(text.as_str())),
            _ => match text.split_once('=') {
                Some((option, value)) if OPTIONS.contains(&option) => (option.to_string(), Some(value)),
                _ => (String::new(), None),
            },
        };
        let found = match (option.as_str(), value) {
            ("--server" | "--store", Some(target)) => without_password(target),
            ("", _) => None,
            // NAME=URL
            ("--target", Some(named)) => {
                named.split_once('=').and_then(|(_, target)| without_password(target))
            }
            (option, Some(setting)) => clean_setting(option, setting)?,
            (_, None) => None,
        };
        if let Some(found) = found {
            if carried.iter().any(|other| other.target == found.target && *other != found) {
                bail!(
                    "one server was given with different passwords; put the right one into a password file (~/.pgpass)"
                );
            }
            let value = match option.as_str() {
                "--server" | "--store" => found.target.clone(),
                "--target" => {
                    let name = value.and_then(|named| named.split_once('=')).map_or("", |(name, _)| name);
                    format!("{name}={}", found.target)
                }
                _ => format!("server.url={}", Value::String(found.target.clone())),
            };
            *arg = if before == option { value } else { format!("{option}={value}") }.into();
            if !carried.contains(&found) {
                carried.push(found);
            }
        }
        before = text;
    }
    Ok(carried)
}

/// Cleans `server.url=…`, in any spacing and quoting.
fn clean_setting(option: &str, setting: &str) -> Result<Option<Carried>> {
    expect_no_password(option, setting)?;
    let Ok(change) = Override::parse(setting) else { return Ok(None) };
    if change.key != keys::server::URL.name {
        return Ok(None);
    }
    match &change.value {
        Value::String(target) => Ok(without_password(target)),
        _ => bail!("{option} {} takes one server, as a string", keys::server::URL),
    }
}

/// Rejects a password in a setting other than `server.url`: settings are shown and stored as given. The message does
/// not repeat it.
///
/// # Errors
/// Says what to do.
pub(crate) fn expect_no_password(option: &str, setting: &str) -> Result<()> {
    let change = Override::parse(setting).ok();
    let key = change.as_ref().map_or("KEY=VALUE", |change| change.key.as_str());
    if key == keys::server::URL.name {
        return Ok(());
    }
    change.as_ref().map_or(Ok(()), |change| expect_no_password_in(option, change))?;
    if has_url_with_password(setting) { contains_password(option, key) } else { Ok(()) }
}

/// The same of a setting that was read.
///
/// # Errors
/// Says what to do.
pub(crate) fn expect_no_password_in(option: &str, change: &Override) -> Result<()> {
    // Only targets follow libpq's syntax; elsewhere such a text means something else.
    let is_target = change.key.split('.').next() == Some("target");
    let is_named = is_target && names_password(&change.value);
    if is_named || holds_password(&change.key, &change.value) {
        contains_password(option, &change.key)
    } else {
        Ok(())
    }
}

fn contains_password(option: &str, key: &str) -> Result<()> {
    bail!(
        "{option} {key}: it contains a password, which everybody on this machine could read; remove it: for servers \
         use a password file (~/.pgpass), for repositories a git credential helper or ssh, for settings and variables \
         an experiment file"
    )
}

/// Whether a string in `value`, the value of `key`, holds a password.
fn holds_password(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => secret::holds_password(key, text),
        Value::Array(all) => {
            // They may be the words of a command.
            let words: Vec<String> = all.iter().filter_map(Value::as_str).map(str::to_string).collect();
            all.iter().any(|value| holds_password(key, value)) || secret::hide_words(&words).is_some()
        }
        Value::Table(table) => table.iter().any(|(key, value)| holds_password(key, value)),
        _ => false,
    }
}

/// Whether a string in `value` names a server with its password.
fn names_password(value: &Value) -> bool {
    match value {
        Value::String(text) => without_password(text).is_some(),
        Value::Array(all) => all.iter().any(names_password),
        Value::Table(table) => table.values().any(names_password),
        _ => false,
    }
}

/// Whether the text contains `scheme://user:password@…` or `…?password=…`.
fn has_url_with_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let authority = rest.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':')
            || ["?password=", "&password=", "?sslpassword=", "&sslpassword="]
                .iter()
                .any(|option| rest.contains(option))
    })
}

/// A target without its passwords, if it contains any.
fn without_password(target: &str) -> Option<Carried> {
    // Targets that cannot be parsed are rejected later, before anything is done.
    let (target, passwords) = conninfo::without_passwords(target)?;
    Some(Carried { target, passwords })
}

/// A conninfo in libpq's key=value form, without the password and without what only the environment can provide.
pub(crate) fn keyword_text(conninfo: &Conninfo) -> String {
    let mut keywords = conninfo.keywords();
    keywords.retain(|key, _| !ENVIRONMENT_ONLY.iter().any(|(name, _)| name == key));
    conninfo::keyword_text(&keywords)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libpq_can_read_the_text_of_a_conninfo() {
        let mut conninfo = Conninfo::new("h", 1, "u", "d");
        let settings = [("client_encoding", "LATIN1"), ("timezone", "UTC")];
        conninfo.session_settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let text = keyword_text(&conninfo);
        assert!(text.contains("client_encoding='LATIN1'"), "{text}");
        assert!(Conninfo::resolve_in(&text, &Default::default()).is_ok(), "{text}");
    }

    #[test]
    fn passwords_are_found_however_they_are_written() {
        let check = |args: &[&str], expected: Option<&str>| {
            let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
            let found = clean(&mut args).unwrap();
            let secret = |one: &Carried| {
                one.passwords
                    .of_user
                    .clone()
                    .or(one.passwords.of_key.clone())
                    .map(|found| found.expose().to_string())
            };
            assert_eq!(found.first().and_then(secret).as_deref(), expected, "{args:?}");
            if let Some(secret) = expected {
                let rest = format!("{args:?}");
                assert!(!rest.contains(secret) && !rest.contains("S3cret"), "{rest}");
            }
        };
        check(&["run", "--server", "postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--server", "postgres://u:p%40S3cret@h/d"], Some("p@S3cret"));
        check(&["run", "--server", "postgres://u@h/d?sslpassword=S3cret"], Some("S3cret"));
        check(&["run", "--server=host=h sslkey=k sslpassword=S3cret"], Some("S3cret"));
        check(&["push", "postgres://u:S3cret@h/d", "results"], Some("S3cret"));
        check(&["report", "x", "--store", "postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["report", "--store=postgres://u:S3cret@h/d", "x"], Some("S3cret"));
        check(&["run", "--server=host=h password='it\\'s S3cret'"], Some("it's S3cret"));
        check(&["run", "--set", "server.url=postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--set", "server.url = postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--set=server.url=\"postgres://u:S3cret@h/d\""], Some("S3cret"));
        check(
            &["compare", "--a", "server.url=postgres://u:S3cret@h/d", "--b=server.version=18"],
            Some("S3cret"),
        );
        check(&["run", "--resume", "out", "--target", "a=postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["run", "--target=a=host=h password=S3cret"], Some("S3cret"));
        check(&["compare", "--b=server.url=postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["doctor", "postgres://u:S3cret@h/d", "--json"], Some("S3cret"));
        check(&["doctor", "--host", "ssh:h", "host=h password=S3cret"], Some("S3cret"));
        check(&["doctor", "--server", "postgres://u:S3cret@h/d"], Some("S3cret"));
        check(&["doctor", "--server=host=h password=S3cret"], Some("S3cret"));
        check(&["doctor", "--apply=thp", "host=h"], None);
        check(&["run", "--server", "host=h user=u", "-c", "8"], None);
        check(&["run", "--set", "workload.scale=10"], None);
    }

    #[test]
    fn only_the_password_is_taken_out_of_a_target() {
        let target = |text: &str| without_password(text).map(|found| found.target);
        // Other options, or the environment, say where the server is.
        assert_eq!(target("dbname=d password=x").as_deref(), Some("dbname='d'"));
        assert_eq!(target("postgresql://u:x@/d?password=x").as_deref(), Some("dbname='d' user='u'"));
        assert_eq!(target("password=x").as_deref(), Some(""));
        assert_eq!(target("dbname=d password=''"), None);
        assert_eq!(target("dbname=d"), None);
    }

    #[test]
    fn a_password_goes_to_the_server_that_it_was_written_for_alone() {
        let mut args: Vec<OsString> = [
            "--a",
            "server.url=postgres://u:one@h1/d",
            "--b=server.url=postgres://u:two@h2/d",
            "--set",
            "server.url=postgres://u@h3/d",
        ]
        .map(OsString::from)
        .into();
        let carried = clean(&mut args).unwrap();
        let given = |arg: &OsString, head: &str| {
            let text = arg.to_str().unwrap().strip_prefix(head).unwrap();
            Override::parse(text).unwrap().value.as_str().unwrap().to_string()
        };
        let password = |target: &str| {
            let found = passwords_for(target, &carried)?.of_user?;
            Some(found.expose().to_string())
        };
        assert_eq!(password(&given(&args[1], "")), Some("one".to_string()));
        assert_eq!(password(&given(&args[2], "--b=")), Some("two".to_string()));
        assert_eq!(password(&given(&args[4], "")), None);
        assert_eq!(password(""), None);
        assert_eq!(unpacked(&packed(&carried)), carried);
        let of_key = without_password("host=h password=one sslpassword=two").unwrap();
        assert_eq!(of_key.passwords.of_key.as_ref().map(Secret::expose), Some("two"));
        assert_eq!(unpacked(&packed(std::slice::from_ref(&of_key))), [of_key]);
    }

    #[test]
    fn passwords_in_other_settings_are_refused_and_not_repeated() {
        let check = |setting: &str, is_refused: bool| {
            let mut args = vec![OsString::from("--set"), OsString::from(setting)];
            let refused = clean(&mut args).err().map(|error| format!("{error:#}"));
            assert_eq!(refused.is_some(), is_refused, "{setting}: {refused:?}");
            assert!(!refused.unwrap_or_default().contains("S3cret"), "{setting}");
        };
        check("target=[{name=\"a\", url=\"postgres://u:S3cret@h/d\"}]", true);
        check("target=[{name=\"a\", url=\"postgres://u@h/d?password=S3cret\"}]", true);
        check("target=[{name=\"a\", url=\"host=h password=S3cret\"}]", true);
        check("server.source=https://u:S3cret@h/x.git", true);
        check("server.source=[\"ssh://u:S3cret@h/x\"]", true);
        check("postgres://u:S3cret@h/d", true);
        check("postgres://u:S3cret@h/d?x=y", true);
        check("target=[{name=\"a\", url=\"postgres://u@h/d?sslpassword=S3cret\"}]", true);
        check("target=[{name=\"a\", url=\"postgres://u@h:5432/d\"}]", false);
        check("server.source=ssh://git@h:22/x", false);
        check("experiment.description=see http://h:80/a and mail x@y", false);
        check("workload.defines.password=S3cret", true);
        check("hooks.before_run=[\"curl\", \"-u\", \"bob:S3cret\", \"https://h\"]", true);
        check("hooks.before_run=[\"sudo\", \"-u\", \"bob\", \"psql\", \"-p\", \"5432\"]", false);
        check("server.restart=[\"sshpass\", \"-p\", \"S3cret\", \"ssh\", \"h\"]", true);
    }

    #[test]
    fn a_list_of_servers_is_refused() {
        let mut args = vec![OsString::from("--set"), OsString::from("server.url=[\"postgres://u:x@h/d\"]")];
        assert!(clean(&mut args).is_err());
        // The same server each time.
        let url =
            |side: &str, password: &str| format!("--{side}=server.url=postgres://u:{password}@h/d").into();
        assert!(clean(&mut [url("a", "x"), url("b", "x")]).is_ok());
        assert!(clean(&mut [url("a", "x"), url("b", "y")]).is_err());
    }
}
