//! What an order may make this process do besides loading a server.

use model::load::LoadSpec;
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
    pub(super) fn check(self, load: &LoadSpec, bundle: &Bundle) -> Result<(), String> {
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
        Ok(())
    }
}
