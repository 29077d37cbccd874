//! Templates of experiment files, by what they ask.

/// Questions for which there is a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Template {
    /// Throughput by number of clients.
    #[default]
    Clients,
    /// Releases of PostgreSQL side by side.
    Versions,
    /// One setting at several values.
    Settings,
    /// The same load on several servers.
    Targets,
    /// Your own SQL.
    Scripts,
}

impl Template {
    /// The experiment file, with comments.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Template::Clients => include_str!("../../templates/clients.toml"),
            Template::Versions => include_str!("../../templates/versions.toml"),
            Template::Settings => include_str!("../../templates/settings.toml"),
            Template::Targets => include_str!("../../templates/targets.toml"),
            Template::Scripts => include_str!("../../templates/scripts.toml"),
        }
    }
}
