//! What an order may make this process do besides loading a server.

use std::path::Path;

use model::load::LoadSpec;
use nix::unistd::{User, geteuid};
use wire::Conninfo;
use workload::{Bundle, Command};

/// How far whoever sends orders is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// As a user of this machine: scripts execute commands, and logs of transactions are written.
    OfUser,
    /// As somebody who may load servers from here, and nothing else.
    LoadOnly,
}

impl Rights {
    /// Refuses a load that needs more.
    pub(super) fn check(self, load: &LoadSpec, bundle: &Bundle, conninfo: &Conninfo) -> Result<(), String> {
        if self == Rights::OfUser {
            return Ok(());
        }
        let mut steps = bundle.programs.iter().flat_map(|program| &program.commands);
        let executes =
            |command: &Command| matches!(command, Command::Shell { .. } | Command::SetShell { .. });
        if steps.any(|step| executes(&step.command)) {
            return Err("a script has \\shell or \\setshell, and the agent of this machine executes no commands that come by \
                        message; start it with --allow-shell, or use another driver"
                .to_string());
        }
        if load.log.is_some() {
            return Err("the agent of this machine writes no logs of transactions; start it with --allow-shell, or leave out --log"
                .to_string());
        }
        expect_no_identity(conninfo)
    }
}

/// Fails if a server would be reached with what this process is on its machine, rather than with what the order brings: as its user,
/// whom a server here believes (peer authentication), or with a key in its files. As a superuser, an order would execute programs there.
fn expect_no_identity(conninfo: &Conninfo) -> Result<(), String> {
    // Where whoever sends the order has a certificate, this machine need not have one: then none is used.
    if conninfo.sslcert.as_deref().is_some_and(|file| Path::new(file).exists()) {
        return Err("the order names a client certificate of this machine (sslcert), and the agent here uses none for loads that \
                    come by message; start it with --allow-shell, or use a password"
            .to_string());
    }
    let is_own = |user: &str| User::from_uid(geteuid()).ok().flatten().is_none_or(|own| own.name == user);
    if conninfo.hosts.iter().any(wire::Host::is_unix) && is_own(&conninfo.user) {
        return Err(format!(
            "the order leads to a server here by its unix socket as `{}`, the user of the agent, whom that server may let in without a \
             password; start the agent with --allow-shell, or name another address or role",
            conninfo.user
        ));
    }
    Ok(())
}
