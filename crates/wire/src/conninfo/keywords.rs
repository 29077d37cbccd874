//! The keywords of libpq 18, which are more than this crate honours.

/// A keyword of connection strings, URLs and service files.
pub(super) struct Keyword {
    pub(super) name: &'static str,
    /// The environment variable that stands for it.
    pub(super) variable: Option<&'static str>,
}

const fn row(name: &'static str, variable: &'static str) -> Keyword {
    Keyword { name, variable: Some(variable) }
}

const fn bare(name: &'static str) -> Keyword {
    Keyword { name, variable: None }
}

/// All of them; what each one does is decided in `resolve`.
pub(super) const KEYWORDS: [Keyword; 50] = [
    row("service", "PGSERVICE"),
    row("user", "PGUSER"),
    row("password", "PGPASSWORD"),
    row("passfile", "PGPASSFILE"),
    row("channel_binding", "PGCHANNELBINDING"),
    row("connect_timeout", "PGCONNECT_TIMEOUT"),
    row("dbname", "PGDATABASE"),
    row("host", "PGHOST"),
    row("hostaddr", "PGHOSTADDR"),
    row("port", "PGPORT"),
    row("client_encoding", "PGCLIENTENCODING"),
    row("options", "PGOPTIONS"),
    row("application_name", "PGAPPNAME"),
    bare("fallback_application_name"),
    bare("keepalives"),
    bare("keepalives_idle"),
    bare("keepalives_interval"),
    bare("keepalives_count"),
    bare("tcp_user_timeout"),
    row("sslmode", "PGSSLMODE"),
    row("sslnegotiation", "PGSSLNEGOTIATION"),
    row("sslcompression", "PGSSLCOMPRESSION"),
    row("sslcert", "PGSSLCERT"),
    row("sslkey", "PGSSLKEY"),
    row("sslcertmode", "PGSSLCERTMODE"),
    bare("sslpassword"),
    row("sslrootcert", "PGSSLROOTCERT"),
    row("sslcrl", "PGSSLCRL"),
    row("sslcrldir", "PGSSLCRLDIR"),
    row("sslsni", "PGSSLSNI"),
    row("requirepeer", "PGREQUIREPEER"),
    row("require_auth", "PGREQUIREAUTH"),
    row("min_protocol_version", "PGMINPROTOCOLVERSION"),
    row("max_protocol_version", "PGMAXPROTOCOLVERSION"),
    row("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    row("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    row("gssencmode", "PGGSSENCMODE"),
    row("krbsrvname", "PGKRBSRVNAME"),
    row("gsslib", "PGGSSLIB"),
    row("gssdelegation", "PGGSSDELEGATION"),
    bare("replication"),
    row("target_session_attrs", "PGTARGETSESSIONATTRS"),
    row("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    bare("scram_client_key"),
    bare("scram_server_key"),
    bare("oauth_issuer"),
    bare("oauth_client_id"),
    bare("oauth_client_secret"),
    bare("oauth_scope"),
    bare("sslkeylogfile"),
];

/// Whether libpq knows the keyword.
pub(super) fn is_known(name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.name == name)
}
