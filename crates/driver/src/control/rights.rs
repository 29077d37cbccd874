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
        let own = User::from_uid(geteuid()).ok().flatten().map(|user| user.name);
        expect_no_identity(conninfo, own.as_deref())
    }
}

/// Fails if a server would be reached with what this process is on its machine, rather than with what the order brings: as its user,
/// `own`, whom a server here believes (peer authentication), or with a key in its files. As a superuser, an order would execute
/// programs there.
fn expect_no_identity(conninfo: &Conninfo, own: Option<&str>) -> Result<(), String> {
    // Where whoever sends the order has a certificate, this machine need not have one: then none is used.
    if conninfo.sslcert.as_deref().is_some_and(|file| Path::new(file).exists()) {
        return Err("the order names a client certificate of this machine (sslcert), and the agent here uses none for loads that \
                    come by message; start it with --allow-shell, or use a password"
            .to_string());
    }
    if !conninfo.hosts.iter().any(wire::Host::is_unix) {
        return Ok(());
    }
    match own {
        Some(own) if own != conninfo.user => Ok(()),
        Some(own) => Err(format!(
            "the order leads to a server here by its unix socket as `{own}`, the user of the agent, whom that server may let in without a \
             password; start the agent with --allow-shell, or name another address or role"
        )),
        // The server may know a name for it: it may run in another container.
        None => Err(format!(
            "the order leads to a server here by its unix socket, and the agent's user, number {}, has no name on this machine, so that \
             nobody can say as which role that server lets it in without a password; start the agent as a user with a name or with \
             --allow-shell, or name another address",
            geteuid()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_by_message_uses_nothing_of_what_the_agent_is_on_its_machine() {
        const OWN: &str = "by its unix socket as `me`";
        const KEY: &str = "client certificate of this machine";
        for (text, own, refused) in [
            ("host=/run user=me", Some("me"), Some(OWN)),
            ("host=/run user=bench", Some("me"), None),
            ("host=db.example,/run port=5432,5432 user=me", Some("me"), Some(OWN)),
            ("host=db.example user=me", Some("me"), None),
            ("host=/run hostaddr=127.0.0.1 user=me", Some("me"), None),
            // Without a host, it is a socket too.
            ("user=me", Some("me"), Some(OWN)),
            ("user=bench", Some("me"), None),
            ("host=/run user=bench", None, Some("has no name on this machine")),
            ("host=db.example user=bench", None, None),
            ("host=db.example user=bench sslcert=/etc/passwd", Some("me"), Some(KEY)),
            ("host=db.example user=bench sslcert=/etc/none", Some("me"), None),
            ("host=db.example user=bench sslcert=/etc/passwd sslcertmode=disable", Some("me"), None),
        ] {
            let keywords = text.split(' ').filter_map(|pair| pair.split_once('='));
            let keywords = keywords.map(|(key, value)| (key.to_string(), value.to_string()));
            let conninfo = Conninfo::from_keywords(&keywords.collect(), None).unwrap();
            let said = expect_no_identity(&conninfo, own).err();
            let fits = match (&said, refused) {
                (None, None) => true,
                (Some(said), Some(words)) => said.contains(words) && said.contains("--allow-shell"),
                _ => false,
            };
            assert!(fits, "{text} of {own:?}: {said:?}");
        }
    }
}
