//! Machines that a command leads a pipe to: those of drivers (`[[driver]]`, `--driver`), and the hosts of servers (`host`,
//! `--host`).

pub mod inventory;

use core::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// As the first word of `via`: the pgdyno that conducts the experiment, wherever its file is.
pub const OWN_PROGRAM: &str = "pgdyno";
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// A driver on another machine or in a container, or the host of a server: any command that leads a pipe there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverSpec {
    /// Name in reports; by default the last word of `via` that names a machine.
    #[serde(default)]
    pub name: String,
    /// The command that starts a program elsewhere and connects its standard input and output to ours:
    /// `["ssh", "client1"]`, `["kubectl", "exec", "-i", "load-0", "--"]`, `["sh", "-c"]`.
    pub via: Vec<String>,
    /// Path of pgdyno there.
    #[serde(default = "default_program")]
    pub program: String,
    /// Whether pgdyno puts a copy of itself there if `program` is missing or another build.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upload: bool,
    /// The address from which its connections reach a server that pgdyno runs; by default the one that the driver
    /// finds. Needed where addresses are translated on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

pub(super) fn default_program() -> String {
    "pgdyno".to_string()
}

impl DriverSpec {
    /// Gives a driver without a name that of its machine.
    #[must_use]
    pub fn named(mut self) -> DriverSpec {
        if self.name.is_empty() {
            let is_name = |word: &&String| !word.starts_with('-');
            self.name = self.via.iter().rev().find(is_name).cloned().unwrap_or_default();
        }
        self
    }

    /// What `--host` and `--driver` take for this machine, if they can name it.
    pub fn as_option(&self) -> Option<String> {
        let place: Vec<&str> = match self.via.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["ssh", "--", host] | ["ssh", host] => vec![host],
            ["ssh", port, "--", host] => vec![host, port.strip_prefix("-p")?],
            _ => return None,
        };
        let program = if self.program == default_program() { "" } else { self.program.as_str() };
        let equals = if program.is_empty() { "" } else { "=" };
        let option = format!("ssh:{}{equals}{program}", place.join(":"));
        // A copy that pgdyno has put there has another path.
        (!self.upload && option.parse::<DriverSpec>().is_ok()).then_some(option)
    }

    /// Refuses what a shell or ssh could take for something else.
    ///
    /// # Errors
    /// Names the word, and says what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let is_plain = |text: &str, more: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if self.via.is_empty() {
            return Err(
                "`via` is missing: the command that leads to the machine, such as [\"ssh\", \"client1\"]"
                    .into(),
            );
        }
        if !is_plain(&self.program, "_./+-") {
            return Err(format!(
                "the path of pgdyno there may contain letters, digits and `_./+-` only, not `{}`",
                self.program
            ));
        }
        if self.name.len() > NAME_BYTES_MAX || !is_plain(&self.name, "_.:@+-") {
            return Err(format!(
                "a machine's name may contain letters, digits and `_.:@+-`, at most {NAME_BYTES_MAX} of them, not `{}`",
                self.name
            ));
        }
        Ok(())
    }
}

/// `ssh:HOST`, `ssh:USER@HOST:PORT`, either with `=PROGRAM` at its end.
impl FromStr for DriverSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<DriverSpec, String> {
        let wrong =
            || format!("`{text}` names no machine: say ssh:HOST, ssh:USER@HOST or ssh:USER@HOST:PORT");
        let rest = text.strip_prefix("ssh:").ok_or_else(wrong)?;
        let (place, program) =
            rest.split_once('=').map_or((rest, default_program()), |(p, q)| (p, q.to_string()));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| wrong())?)),
            None => (place, None),
        };
        let mut via = vec!["ssh".to_string()];
        via.extend(port.map(|port| format!("-p{port}")));
        via.extend(["--".to_string(), host.to_string()]);
        let spec = DriverSpec { name: place.to_string(), via, program, upload: false, address: None };
        spec.check().map_err(|_| wrong()).map(|()| spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_ssh_is_a_command_and_a_name() {
        let ssh: DriverSpec = "ssh:me@db1:2222=/opt/pgdyno".parse().unwrap();
        assert_eq!(ssh.via, ["ssh", "-p2222", "--", "me@db1"]);
        assert_eq!((ssh.name.as_str(), ssh.program.as_str()), ("me@db1:2222", "/opt/pgdyno"));
    }

    #[test]
    fn a_machine_is_named_as_an_option_where_an_option_can_name_it() {
        let of = |via: &[&str], program: &str, upload: bool| {
            let via = via.iter().map(|word| word.to_string()).collect();
            DriverSpec { via, program: program.into(), upload, ..DriverSpec::default() }.as_option()
        };
        for option in ["ssh:db1", "ssh:me@db1:2222", "ssh:db1=/opt/pgdyno", "ssh:db1:22=/opt/pgdyno"] {
            assert_eq!(option.parse::<DriverSpec>().unwrap().as_option().as_deref(), Some(option));
        }
        assert_eq!(of(&["ssh", "db1"], "pgdyno", false).as_deref(), Some("ssh:db1"));
        assert_eq!(of(&["ssh", "db1"], "pgdyno", true), None);
        assert_eq!(of(&["ssh", "-i", "key", "db1"], "pgdyno", false), None);
        assert_eq!(of(&["ssh", "-i", "--", "db1"], "pgdyno", false), None);
        assert_eq!(of(&["kubectl", "exec", "-i", "db1", "--"], "pgdyno", false), None);
        assert_eq!(of(&["sh", "-c"], "pgdyno", false), None);
    }

    #[test]
    fn what_a_shell_could_misunderstand_is_refused() {
        for text in ["db1", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a:port", "ssh:a=b;c", "ssh:$(x)"]
        {
            let error = text.parse::<DriverSpec>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}` names no machine")), "{error}");
        }
        let spec =
            DriverSpec { via: vec!["ssh".into(), "a".into()], program: "x y".into(), ..Default::default() };
        assert!(spec.named().check().unwrap_err().contains("not `x y`"));
    }
}
