//! Services that run servers for their users: settings change by their own means.

use model::text::shell::single_quoted;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedService {
    /// Amazon RDS and Aurora.
    AmazonRds,
    /// Google Cloud SQL.
    CloudSql,
    /// Azure Database for PostgreSQL.
    Azure,
    /// Any other that gives no superuser.
    Other,
}

/// Roles and settings by which a service is known.
const MARKS: [(&str, ManagedService); 6] = [
    ("rds_superuser", ManagedService::AmazonRds),
    ("rds.extensions", ManagedService::AmazonRds),
    ("cloudsqlsuperuser", ManagedService::CloudSql),
    ("azure_pg_admin", ManagedService::Azure),
    ("azure.extensions", ManagedService::Azure),
    ("neon_superuser", ManagedService::Other),
];

impl ManagedService {
    /// The service of a server with this role or setting, which each service has by its own name.
    #[must_use]
    pub fn from_mark(mark: &str) -> Option<ManagedService> {
        MARKS.into_iter().find(|(known, _)| *known == mark).map(|(_, service)| service)
    }

    /// Roles and settings by which a service is known.
    #[must_use]
    pub fn marks() -> [&'static str; 6] {
        MARKS.map(|(mark, _)| mark)
    }

    /// Words for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ManagedService::AmazonRds => "Amazon RDS or Aurora",
            ManagedService::CloudSql => "Google Cloud SQL",
            ManagedService::Azure => "Azure Database for PostgreSQL",
            ManagedService::Other => "a managed service",
        }
    }

    /// The command that sets a parameter.
    pub(super) fn set(self, name: &str, value: &str) -> String {
        let list =
            serde_json::json!([{"ParameterName": name, "ParameterValue": value, "ApplyMethod": "immediate"}]);
        match self {
            ManagedService::AmazonRds => format!(
                "aws rds modify-db-parameter-group --db-parameter-group-name GROUP --parameters {}",
                single_quoted(&list.to_string())
            ),
            ManagedService::CloudSql => {
                let flags = single_quoted(&format!("{name}={value}"));
                format!("gcloud sql instances patch INSTANCE --database-flags={flags},OTHER_FLAGS")
            }
            ManagedService::Azure => format!(
                "az postgres flexible-server parameter set --resource-group GROUP --server-name SERVER --name {name} --value {}",
                single_quoted(value)
            ),
            ManagedService::Other => format!("set {name} = {value} by the means of the service"),
        }
    }

    /// Ways to get the log, and what to mind.
    pub(super) fn notes(self) -> &'static [&'static str] {
        match self {
            ManagedService::AmazonRds => &[
                "a parameter that the group does not list cannot be set; log_destination = csvlog has all fields, stderr there has whole seconds and no transaction ids",
                "log files: aws rds describe-db-log-files, then download-db-log-file-portion --starting-token 0 --output text",
            ],
            ManagedService::CloudSql => &[
                "--database-flags replaces all flags: name those that are set already, too",
                "log: gcloud logging read 'resource.type=\"cloudsql_database\"' --order=asc --format=json > shop.json",
            ],
            ManagedService::Azure => &[
                "log: server logs for download (logfiles.download_enable = on), or a diagnostic setting with PostgreSQLLogs",
                "%v is not in its default log_line_prefix: transactions are cut at BEGIN and COMMIT",
            ],
            ManagedService::Other => {
                &["ask it whether the parameter can be set, and how the server's log is downloaded"]
            }
        }
    }
}
