//! What an order may make this process do besides loading a server.

use std::os::unix::fs::FileTypeExt;

use model::load::LoadSpec;
use nix::unistd::{User, geteuid};
use wire::conninfo::{SslCertMode, SslMode};
use wire::{Conninfo, Host};
use workload::{Bundle, ScriptCommand};

/// How far whoever sends orders is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderTrust {
    /// As a user of this machine: scripts execute commands, and logs of transactions are written.
    OfUser,
    /// As somebody who may load servers from here, and nothing else.
    LoadOnly,
}

impl SenderTrust {
    /// Refuses a load that needs more.
    pub(super) fn check(self, load: &LoadSpec, bundle: &Bundle) -> Result<(), String> {
        if self == SenderTrust::OfUser {
            return Ok(());
        }
        let mut steps = bundle.programs.iter().flat_map(|program| &program.commands);
        let executes = |command: &ScriptCommand| {
            matches!(command, ScriptCommand::Shell { .. } | ScriptCommand::SetShell { .. })
        };
        if steps.any(|step| executes(&step.command)) {
            return Err("a script has \\shell or \\setshell, and the agent of this machine executes no commands that come by \
                        message; start it with --allow-shell, or use another driver"
                .to_string());
        }
        if load.log.is_some() {
            return Err("the agent of this machine writes no logs of transactions; start it with --allow-shell, or leave out --log"
                .to_string());
        }
        Ok(())
    }

    /// Refuses a connection that needs more, and takes out of it what it can do without.
    pub(super) fn limit(self, conninfo: &mut Conninfo) -> Result<(), String> {
        if self == SenderTrust::OfUser {
            return Ok(());
        }
        name_no_file(conninfo)?;
        let own = User::from_uid(geteuid()).ok().flatten().map(|user| user.name);
        expect_no_identity(conninfo, own.as_deref())?;
        expect_sockets(conninfo)
    }
}

/// Takes out of `conninfo` the names of files, and fails if the order asks for what they hold. Whether a file exists decides nothing: its
/// answer would say which files there are, and another file could have its name when it is read.
fn name_no_file(conninfo: &mut Conninfo) -> Result<(), String> {
    if conninfo.sslcertmode == SslCertMode::Require {
        return Err("the order demands a client certificate (sslcertmode=require), and the agent here uses none for loads that come by \
                    message; start it with --allow-shell, or use a password"
            .to_string());
    }
    conninfo.sslcert = None;
    conninfo.sslkey = None;
    conninfo.key_password = None;

    let has_own_roots = conninfo.root_certificates.is_some();
    let trusts_system = conninfo.sslrootcert.as_deref() == Some("system");
    let named = [("sslrootcert", &mut conninfo.sslrootcert), ("sslcrl", &mut conninfo.sslcrl)];
    for (keyword, file) in named {
        let Some(name) = file.take_if(|name| name != "system") else { continue };
        let is_needed = conninfo.sslmode >= SslMode::Require
            && if keyword == "sslcrl" { !trusts_system } else { !has_own_roots };
        if is_needed {
            return Err(format!(
                "the order names a file for the server's certificate (`{keyword}` is `{name}`), and the agent here reads none for loads that \
                 come by message; start it with --allow-shell, or use sslrootcert=system"
            ));
        }
    }
    Ok(())
}

/// Fails if there is no socket where the order names one. Otherwise the system's answer would say what there is in its place.
fn expect_sockets(conninfo: &Conninfo) -> Result<(), String> {
    let is_socket = |host: &Host| match host.socket_path() {
        Some(path) => std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_socket()),
        None => true,
    };
    if conninfo.hosts.iter().all(is_socket) {
        Ok(())
    } else {
        Err("no server that the agent's user can reach listens at a unix socket that the order names"
            .to_string())
    }
}

/// Fails if a server would be reached with what this process is on its machine, rather than with what the order brings: as its user,
/// `own`, whom a server here believes (peer authentication). As a superuser, an order would execute programs there.
fn expect_no_identity(conninfo: &Conninfo, own: Option<&str>) -> Result<(), String> {
    if !conninfo.hosts.iter().any(Host::is_unix) {
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
        const KEY: &str = "demands a client certificate";
        const FILE: &str = "names a file for the server's certificate";
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
            // Whether there is such a file makes no difference.
            ("host=db.example user=bench sslcert=/etc/passwd sslkey=/etc/passwd", Some("me"), None),
            ("host=db.example user=bench sslcert=/etc/none", Some("me"), None),
            ("host=db.example user=bench sslcert=/etc/none sslcertmode=require", Some("me"), Some(KEY)),
            ("host=db.example user=bench sslrootcert=/etc/passwd", Some("me"), None),
            ("host=db.example user=bench sslrootcert=/etc/passwd sslmode=require", Some("me"), Some(FILE)),
            ("host=db.example user=bench sslrootcert=/etc/none sslmode=verify-full", Some("me"), Some(FILE)),
            ("host=db.example user=bench sslrootcert=system sslmode=verify-full", Some("me"), None),
            ("host=db.example user=bench sslcrl=/etc/none sslmode=require", Some("me"), Some(FILE)),
            (
                "host=db.example user=bench sslcrl=/etc/none sslrootcert=system sslmode=verify-full",
                Some("me"),
                None,
            ),
        ] {
            let keywords = text.split(' ').filter_map(|pair| pair.split_once('='));
            let keywords = keywords.map(|(key, value)| (key.to_string(), value.to_string()));
            let mut conninfo = Conninfo::from_keywords(&keywords.collect(), None).unwrap();
            let said = name_no_file(&mut conninfo).and_then(|()| expect_no_identity(&conninfo, own)).err();
            let Conninfo { sslcert, sslkey, sslcrl, sslrootcert, .. } = &conninfo;
            let files =
                [sslcert, sslkey, sslcrl, sslrootcert].map(|file| file.as_deref().unwrap_or("system"));
            assert!(said.is_some() || files == ["system"; 4], "{text}: {files:?}");
            let fits = match (&said, refused) {
                (None, None) => true,
                (Some(said), Some(words)) => said.contains(words) && said.contains("--allow-shell"),
                _ => false,
            };
            assert!(fits, "{text} of {own:?}: {said:?}");
        }
    }

    #[test]
    fn roots_that_come_with_the_order_need_no_file() {
        let keywords = [("host", "db.example"), ("sslmode", "verify-full"), ("sslrootcert", "/etc/none")];
        let keywords = keywords.map(|(key, value)| (key.to_string(), value.to_string())).into();
        let mut conninfo = Conninfo::from_keywords(&keywords, None).unwrap();
        conninfo.root_certificates = Some(String::new());
        name_no_file(&mut conninfo).unwrap();
        assert_eq!(conninfo.sslrootcert, None);
    }
}
