//! Options with which a user agrees to what is done to servers by URL: changes of settings, and what loading replaces or causes.

use clap::Args;
use experiment::site::Risks;
use experiment::site::reach::trust::TrustedWorkload;
use server::alter_system::AllowedChange;

use crate::front::announce::AgreedSteps;
use crate::front::shell;

/// Consent to changes of settings of servers by URL.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeArgs {
    /// Change settings of servers by URL (server.settings) by ALTER SYSTEM, restart them with the experiment's command (server.restart),
    /// and put the settings back at the end. Covers those that only take resources. --resume needs it again.
    #[arg(long)]
    pub(crate) allow_changes: bool,
    /// Change this setting too, which concerns more than resources: what other people's statements mean, replication, logs, an extension.
    /// `pgdyno plan` lists those that need it. Repeatable.
    #[arg(long = "allow-setting", value_name = "NAME", requires = "allow_changes")]
    pub(crate) allow_settings: Vec<String>,
    /// Let the commands of an outage (outage.run) harm this server by URL: its target's name, or its first host as in the URL. --yes does
    /// not replace it. Repeatable.
    #[arg(long = "allow-outages", value_name = "NAME")]
    pub(crate) allow_outages: Vec<String>,
}

impl ChangeArgs {
    /// The options as they are typed, each with a space before it.
    pub(crate) fn words(&self) -> String {
        let changes = if self.allow_changes { " --allow-changes" } else { "" };
        let settings = self.allow_settings.iter().map(|name| format!(" --allow-setting {name}"));
        let outages =
            self.allow_outages.iter().map(|name| format!(" --allow-outages {}", shell::quoted(name)));
        changes.to_string() + &settings.chain(outages).collect::<String>()
    }

    pub(crate) fn allowed(&self) -> AllowedChange<'_> {
        if self.allow_changes { AllowedChange::Changes(&self.allow_settings) } else { AllowedChange::Nothing }
    }
}

/// Consent to replacing what pgdyno did not create.
#[derive(Debug, Clone, Args)]
pub(crate) struct LeaveArgs {
    /// Drop tables and routines of the same names in that schema that pgdyno did not create, and data of another scale.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Replace this database of a server by URL by a copy of itself before each run, though pgdyno did not create it. Repeatable.
    #[arg(long = "replace-database", value_name = "NAME")]
    pub(crate) replace_databases: Vec<String>,
    #[command(flatten)]
    pub(crate) risks: RiskArgs,
}

/// Consent to effects of loading beyond the tables.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct RiskArgs {
    /// Load where a publication publishes all tables of the database or schema: a subscriber without the workload's tables stops, and its
    /// slot keeps WAL.
    #[arg(long)]
    pub(crate) allow_published: bool,
    /// Restore an archive as a superuser (as into a server that pgdyno runs) or another role that reaches beyond its database: whoever
    /// wrote the archive gets its rights. Also run files of `workload.data` with statements that reach programs or files of the server's machine.
    #[arg(long)]
    pub(crate) allow_archive_as_superuser: bool,
    /// Run a captured workload on a server that may be its source: a physical copy has the source's system identifier.
    #[arg(long)]
    pub(crate) this_is_a_copy: bool,
    /// Run the SQL of the workload directory with this hash with whatever rights the role on a server by URL has, in whatever database. The
    /// refusal names the hash, which changes with the files.
    #[arg(long, value_name = "HASH")]
    pub(crate) trust_workload: Option<TrustedWorkload>,
    /// Go on with results on another cluster than they were measured on: what is left is loaded and executed there.
    #[arg(long)]
    pub(crate) allow_another_server: bool,
}

impl LeaveArgs {
    /// All that the user allows on servers by URL; `yes` asks nothing.
    pub(crate) fn consent<'a>(&'a self, changes: &'a ChangeArgs, yes: bool) -> AgreedSteps<'a> {
        let LeaveArgs { replace, replace_databases, risks } = self;
        AgreedSteps {
            yes,
            replace: *replace,
            replace_databases,
            risks: risks.risks(),
            allowed: changes.allowed(),
            outages: &changes.allow_outages,
        }
    }

    /// The options as they are typed, each with a space before it.
    pub(crate) fn words(&self) -> String {
        let databases =
            self.replace_databases.iter().map(|name| format!(" --replace-database {}", shell::quoted(name)));
        let given = [
            (self.replace, " --replace"),
            (self.risks.allow_published, " --allow-published"),
            (self.risks.allow_archive_as_superuser, " --allow-archive-as-superuser"),
            (self.risks.this_is_a_copy, " --this-is-a-copy"),
            (self.risks.allow_another_server, " --allow-another-server"),
        ];
        let given = given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, word)| word.to_string());
        let trust = self.risks.trust_workload.map(|hash| format!(" --trust-workload {hash}"));
        given.chain(trust).chain(databases).collect()
    }
}

impl RiskArgs {
    pub(crate) fn risks(self) -> Risks {
        Risks {
            published: self.allow_published,
            archive_as_superuser: self.allow_archive_as_superuser,
            is_copy: self.this_is_a_copy,
            trusted_workload: self.trust_workload,
        }
    }
}
