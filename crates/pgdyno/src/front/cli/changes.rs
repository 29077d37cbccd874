//! Options with which a user agrees to changes of settings of servers by URL.

use clap::Args;
use server::alter_system::Allowed;

/// Consent to changes of settings of servers by URL.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeArgs {
    /// Change settings of servers by URL (server.settings) by ALTER SYSTEM, restart them with the command that the
    /// experiment names (server.restart), and put the settings back at the end. Covers those that only take resources.
    /// --resume needs it again.
    #[arg(long)]
    pub(crate) allow_changes: bool,
    /// Change this setting too, which concerns more than resources: what other people's statements mean, replication, logs,
    /// an extension. `pgdyno plan` says which need it, and why. Repeatable.
    #[arg(long = "allow-setting", value_name = "NAME", requires = "allow_changes")]
    pub(crate) allow_settings: Vec<String>,
}

impl ChangeArgs {
    /// The options as they are typed, each with a space before it.
    pub(crate) fn words(&self) -> String {
        let changes = if self.allow_changes { " --allow-changes" } else { "" };
        let settings = self.allow_settings.iter().map(|name| format!(" --allow-setting {name}"));
        changes.to_string() + &settings.collect::<String>()
    }

    pub(crate) fn allowed(&self) -> Allowed<'_> {
        if self.allow_changes { Allowed::Changes(&self.allow_settings) } else { Allowed::Nothing }
    }
}
