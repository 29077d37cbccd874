//! Connects as the options say: `-h`, `-p`, `-U` and a database that may be a whole connection string.

use std::fs::OpenOptions;

use wire::conninfo::{PasswordSource, Surroundings, quoted};
use wire::session::Session;
use wire::{ConnectError, Conninfo, Secret};

use crate::command_line::options::ConnectionOptions;
use crate::messages::{Complaint, MessageKind, MessageLog};
use crate::process::OwnProcess;
use crate::server_text;

/// The connection settings of a target. A connection string wins over the options, as in libpq. `purpose` is for the
/// message.
pub(crate) fn resolve(
    target: &ConnectionOptions,
    purpose: &str,
    progname: &str,
    process: &OwnProcess,
) -> Result<Conninfo, Complaint> {
    let mut surroundings = Surroundings::of_process();
    let given = [("PGHOST", &target.host), ("PGPORT", &target.port), ("PGUSER", &target.user)];
    // As libpq, and unlike our own experiments, it waits for a server however long that takes.
    let timeout = surroundings.environment.entry("PGCONNECT_TIMEOUT".to_string()).or_default();
    if timeout.is_empty() {
        "0".clone_into(timeout);
    }
    let name = &target.dbname;
    let is_url = name.starts_with("postgresql://") || name.starts_with("postgres://");
    let text = if is_url {
        // The environment completes a URL.
        for (variable, value) in given {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                surroundings.environment.insert(variable.to_string(), value.clone());
            }
        }
        name.clone()
    } else {
        let mut text = String::new();
        for (variable, value) in given {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                let keyword = variable["PG".len()..].to_lowercase();
                text += &format!("{keyword}={} ", quoted(value));
            }
        }
        if name.contains('=') { text + name } else { text + &named(name) }
    };
    let mut conninfo = Conninfo::resolve_in(&text, &surroundings).map_err(|error| {
        Complaint::new(error.libpq_text()).and(MessageKind::Error, not_connected(purpose))
    })?;
    // It was hidden from the arguments.
    if let Some(passwords) = (process.hidden_passwords)() {
        conninfo.give_passwords(passwords, PasswordSource::Given);
    }
    conninfo.tcp = conninfo.tcp.or_of_kernel();
    // pgbench's own setting comes after the connection string, and wins.
    conninfo.fallback_application_name = Some(progname.to_string());
    Ok(conninfo)
}

/// A connection string for the database of this name; an empty name means the default of environment and user.
fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("dbname={}", quoted(name)) }
}

/// Connects, and asks for the password if the server requires one that is not known. `purpose` is for the message.
pub(crate) fn connect(
    conninfo: &mut Conninfo,
    purpose: &str,
    log: &mut MessageLog,
) -> Result<Session, Complaint> {
    if let Some(warning) = &conninfo.passfile_warning {
        log.write(&format!("WARNING: {warning}\n"));
    }
    let mut result = Session::connect_as_libpq(conninfo);
    if matches!(result, Err(ConnectError::NoPassword { .. }))
        && let Some(password) = ask_password(log)
    {
        conninfo.give_password(password, PasswordSource::Given);
        result = Session::connect_as_libpq(conninfo);
    }
    result.map_err(|error| {
        log.error(&server_text::connect_error(&error, conninfo));
        Complaint::new(not_connected(purpose))
    })
}

fn not_connected(purpose: &str) -> String {
    format!("could not create connection for {purpose}")
}

/// Asks the user on the terminal, wherever the standard streams lead. Without a terminal, the question is a message,
/// and the answer a line of standard input.
fn ask_password(log: &mut MessageLog) -> Option<Secret> {
    let tty = || OpenOptions::new().read(true).write(true).open("/dev/tty");
    let answer = match tty().and_then(|reader| Ok((reader, tty()?))) {
        Ok((reader, writer)) => {
            let terminal = console::Term::read_write_pair(reader, writer);
            terminal.write_str("Password: ").ok()?;
            terminal.read_secure_line().ok()?
        }
        Err(_) => {
            let mut line = String::new();
            log.write("Password: ");
            std::io::stdin().read_line(&mut line).ok()?;
            log.write("\n");
            line.trim_end_matches(['\r', '\n']).to_string()
        }
    };
    Some(answer).filter(|answer| !answer.is_empty()).map(Secret::new)
}
