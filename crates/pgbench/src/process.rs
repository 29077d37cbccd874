//! What the front needs of the process that it runs in: its output, its signals, its arguments and their passwords.

use std::sync::atomic::AtomicBool;

use wire::conninfo::Passwords;

use crate::messages::Complaint;

/// The process that stands in for pgbench, by what only it can do.
#[derive(Debug, Clone, Copy)]
pub struct OwnProcess {
    /// Prints on standard output, without secrets.
    pub print: fn(&str) -> anyhow::Result<()>,
    /// Has signals raise a flag from now on; returns the flag.
    pub stop_flag: fn() -> &'static AtomicBool,
    /// If one of the last arguments, which name databases, has a password, replaces this process by one without it. The other
    /// arguments are the name of the program and all of its arguments.
    pub hide_targets: fn(&str, Vec<String>, &[String]) -> anyhow::Result<()>,
    /// The passwords that were hidden so.
    pub hidden_passwords: fn() -> Option<Passwords>,
}

impl OwnProcess {
    /// Prints on standard output.
    pub(crate) fn print(&self, text: &str) -> Result<(), Complaint> {
        (self.print)(text)
            .map_err(|error| Complaint::new(format!("could not write to standard output: {error}")))
    }
}
