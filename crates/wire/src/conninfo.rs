//! Where to connect and as whom: libpq's settings as one value, resolved as libpq resolves them. `parse` reads the
//! text; `resolve` applies environment, service file, password file and defaults. Nothing here opens a connection.

mod encryption;
mod key_value;
mod keywords;
pub(crate) mod named_file;
mod parse;
mod passfile;
mod require_auth;
mod resolve;
mod service;
mod settings;
mod tcp_limits;
mod url;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use crate::secret::{Secret, Verifier};
pub use require_auth::{AuthMethod, RequireAuth};
pub use resolve::{ENVIRONMENT_ONLY, Surroundings};
pub use tcp_limits::TcpLimits;
pub use values::{
    ChannelBinding, LoadBalanceHosts, ProtocolVersion, SslCertMode, SslMode, SslNegotiation,
    TargetSessionAttrs, TlsVersion,
};

/// How long a connection attempt may take if `connect_timeout` is not set. libpq waits forever; a server that drops
/// packets must not hang a measurement.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Everything needed to connect. The fields have the names and meanings of libpq's keywords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conninfo {
    /// Servers, tried in the order set by `load_balance_hosts`; never empty.
    pub hosts: Vec<Host>,
    /// Database.
    pub dbname: String,
    /// Role.
    pub user: String,
    /// Password for every host, or (if `host_passwords` has any) for the first host that has one there.
    pub password: Option<Secret>,
    /// Where `password` came from, for messages.
    pub password_source: PasswordSource,
    /// Why an existing password file is not used, in libpq's words.
    pub passfile_warning: Option<String>,
    /// Passwords per host, in the order of `hosts`: filled only from a password file, where each host has its own.
    pub host_passwords: Vec<Option<Secret>>,
    /// Whether to encrypt and what to verify. Unix sockets are never encrypted.
    pub sslmode: SslMode,
    /// File of trusted root certificates, or `system`.
    pub sslrootcert: Option<String>,
    /// Trusted root certificates themselves, in PEM format: these alone are trusted, whatever `sslrootcert` says. No
    /// keyword of libpq, and hence not part of [`Conninfo::keywords`].
    pub root_certificates: Option<String>,
    /// File of revoked certificates; counts only if `sslrootcert` is a file in use.
    pub sslcrl: Option<String>,
    /// File of the client's certificate chain.
    pub sslcert: Option<String>,
    /// File of the client's private key.
    pub sslkey: Option<String>,
    /// Password of the client's private key, libpq's `sslpassword`.
    pub key_password: Option<Secret>,
    /// Whether the client's certificate may or must be sent.
    pub sslcertmode: SslCertMode,
    /// The oldest acceptable TLS version.
    pub ssl_min_protocol_version: TlsVersion,
    /// The newest TLS version to offer.
    pub ssl_max_protocol_version: TlsVersion,
    /// Whether TLS starts with a request of the protocol or immediately.
    pub sslnegotiation: SslNegotiation,
    /// Whether the host name is sent in the TLS handshake.
    pub sslsni: bool,
    /// Whether the authentication must be bound to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// Methods by which the server may authenticate us; `None` leaves that to the server.
    pub require_auth: Option<RequireAuth>,
    /// The oldest acceptable protocol version.
    pub min_protocol_version: ProtocolVersion,
    /// The protocol version to request; the server may answer with an older one.
    pub max_protocol_version: ProtocolVersion,
    /// Time limit of one attempt on one address; zero: no limit.
    pub connect_timeout: Duration,
    /// When a connection over TCP counts as broken.
    pub tcp: TcpLimits,
    /// Command line options for the backend (`-c name=value`).
    pub options: Option<String>,
    /// Name shown in `pg_stat_activity`; an empty one sets no name at all.
    pub application_name: Option<String>,
    /// Name to use if `application_name` is not set.
    pub fallback_application_name: Option<String>,
    /// Settings the session starts with, by the server's names: `client_encoding`, and those that libpq takes only from
    /// the environment (`datestyle`, `timezone`, `geqo`). Database and role decide about all others.
    pub session_settings: BTreeMap<String, String>,
    /// Which kind of server is acceptable.
    pub target_session_attrs: TargetSessionAttrs,
    /// In which order to try hosts and their addresses.
    pub load_balance_hosts: LoadBalanceHosts,
}

/// One server of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Host name or address; an absolute path is the directory of a unix socket.
    pub host: String,
    /// Address to connect to instead of resolving `host`.
    pub hostaddr: Option<String>,
    /// Port, also part of the name of a unix socket.
    pub port: u16,
    /// Addresses of `host` if it was resolved beforehand ([`Conninfo::with_addresses`]); otherwise each connection asks
    /// the resolver.
    pub addresses: Vec<SocketAddr>,
}

/// Where the password came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// No password is known.
    #[default]
    Nowhere,
    /// The URL or the key=value string.
    Text {
        /// True if the text was a URL.
        url: bool,
    },
    /// `PGPASSWORD`.
    Environment,
    /// A service of the service file.
    Service(String),
    /// The password file at this path.
    Passfile(PathBuf),
    /// The calling program, see [`Conninfo::from_keywords`].
    Given,
}

impl fmt::Display for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordSource::Nowhere => f.write_str("no password was given"),
            PasswordSource::Text { url: true } => f.write_str("the password came from the URL"),
            PasswordSource::Text { url: false } => {
                f.write_str("the password came from the connection string")
            }
            PasswordSource::Environment => f.write_str("the password came from `PGPASSWORD`"),
            PasswordSource::Service(name) => write!(f, "the password came from service `{name}`"),
            PasswordSource::Passfile(path) => write!(f, "the password came from `{}`", path.display()),
            PasswordSource::Given => f.write_str("the password came from the calling program"),
        }
    }
}

/// Settings that are invalid or cannot be honoured. The text never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConninfoError {
    text: String,
    libpq_text: Option<String>,
}

impl ConninfoError {
    pub(crate) fn new(text: impl Into<String>) -> ConninfoError {
        ConninfoError { text: text.into(), libpq_text: None }
    }

    /// The same error together with libpq's message.
    fn in_libpqs_words(self, libpq_text: String) -> ConninfoError {
        ConninfoError { libpq_text: Some(libpq_text), ..self }
    }

    /// libpq's message, which scripts and people look for; ours if libpq has none.
    pub fn libpq_text(&self) -> &str {
        self.libpq_text.as_deref().unwrap_or(&self.text)
    }
}

/// The secrets that a connection string can contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// libpq's `password`.
    pub of_user: Option<Secret>,
    /// libpq's `sslpassword`.
    pub of_key: Option<Secret>,
}

/// A connection string without the passwords it contains, and these; `None` if it contains none or cannot be parsed. The
/// keywords are those of the text alone: defaults and environment still apply to the rest.
pub fn without_passwords(text: &str) -> Option<(String, Passwords)> {
    let mut given = parse::parse(text).ok()?.given;
    let mut take = |key: &str| given.remove(key).filter(|value| !value.is_empty()).map(Secret::new);
    let passwords = Passwords { of_user: take("password"), of_key: take("sslpassword") };
    (passwords != Passwords::default()).then(|| (keyword_text(&given), passwords))
}

/// Keywords in libpq's key=value format.
pub fn keyword_text(keywords: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = keywords.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    pairs.join(" ")
}

/// A value in libpq's key=value format.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

impl Conninfo {
    /// Resolves a URL, a key=value string, a bare database name, or `""` (environment only) as libpq would in this
    /// process: string first, then service file, environment, password file, defaults.
    ///
    /// # Errors
    /// Text, service file or values that libpq would reject, and settings that this crate cannot honour (GSS
    /// encryption, certificate revocation lists, ...).
    pub fn resolve(text: &str) -> Result<Conninfo, ConninfoError> {
        Conninfo::resolve_in(text, &Surroundings::of_process())
    }

    /// [`Conninfo::resolve`] with the environment as an argument.
    ///
    /// # Errors
    /// As [`Conninfo::resolve`].
    pub fn resolve_in(text: &str, surroundings: &Surroundings) -> Result<Conninfo, ConninfoError> {
        resolve::resolve(text, surroundings)
    }

    /// Plain settings for one server (a host name or a socket directory), with every default; reads no environment.
    pub fn new(host: &str, port: u16, user: &str, dbname: &str) -> Conninfo {
        Conninfo {
            hosts: vec![Host { host: host.to_owned(), port, ..Host::default() }],
            dbname: dbname.to_owned(),
            user: user.to_owned(),
            password: None,
            password_source: PasswordSource::Nowhere,
            passfile_warning: None,
            host_passwords: Vec::new(),
            sslmode: SslMode::default(),
            sslrootcert: None,
            root_certificates: None,
            sslcrl: None,
            sslcert: None,
            sslkey: None,
            key_password: None,
            sslcertmode: SslCertMode::default(),
            ssl_min_protocol_version: TlsVersion::V1_2,
            ssl_max_protocol_version: TlsVersion::V1_3,
            sslnegotiation: SslNegotiation::default(),
            sslsni: true,
            channel_binding: ChannelBinding::default(),
            require_auth: None,
            min_protocol_version: ProtocolVersion::default(),
            max_protocol_version: ProtocolVersion::default(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            tcp: TcpLimits::default(),
            options: None,
            application_name: None,
            fallback_application_name: None,
            session_settings: BTreeMap::new(),
            target_session_attrs: TargetSessionAttrs::default(),
            load_balance_hosts: LoadBalanceHosts::default(),
        }
    }

    /// The same for sessions whose text this program reads itself: in UTF-8 whatever the database's encoding, and
    /// without the user's environment settings for the format of values. All of them try the hosts in the order in which they are given, so
    /// that they reach the same one.
    pub fn for_own_sessions(&self) -> Conninfo {
        let session_settings = BTreeMap::from([("client_encoding".to_owned(), "UTF8".to_owned())]);
        Conninfo { session_settings, load_balance_hosts: LoadBalanceHosts::Disable, ..self.clone() }
    }

    /// Whether connections go to several hosts in random order.
    pub fn is_spread(&self) -> bool {
        self.load_balance_hosts == LoadBalanceHosts::Random && self.hosts.len() > 1
    }

    /// Each of the hosts to which connections go in random order; none if they all go to the first that answers.
    pub fn spread_hosts(&self) -> Vec<Conninfo> {
        let one = |host: &Host| Conninfo { hosts: vec![host.clone()], ..self.clone() };
        if self.is_spread() { self.hosts.iter().map(one).collect() } else { Vec::new() }
    }

    /// The settings as libpq keywords, without the password: what may be written to a file or to a child's input.
    /// Includes the session settings, also those without a libpq keyword.
    pub fn keywords(&self) -> BTreeMap<String, String> {
        let list = |each: &dyn Fn(&Host) -> String| self.hosts.iter().map(each).collect::<Vec<_>>().join(",");
        let mut map = BTreeMap::new();
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("host", Some(list(&|h| h.host.clone())));
        if self.hosts.iter().any(|h| h.hostaddr.is_some()) {
            put("hostaddr", Some(list(&|h| h.hostaddr.clone().unwrap_or_default())));
        }
        put("port", Some(list(&|h| h.port.to_string())));
        put("dbname", Some(self.dbname.clone()));
        put("user", Some(self.user.clone()));
        put("sslmode", Some(self.sslmode.as_str().to_owned()));
        put("sslrootcert", self.sslrootcert.clone());
        put("sslcrl", self.sslcrl.clone());
        put("sslcert", self.sslcert.clone());
        put("sslkey", self.sslkey.clone());
        put("sslnegotiation", Some(self.sslnegotiation.as_str().to_owned()));
        put("sslsni", Some(u8::from(self.sslsni).to_string()));
        put("channel_binding", Some(self.channel_binding.as_str().to_owned()));
        // libpq counts whole seconds; rounding up keeps a short limit from becoming "no limit".
        let timeout_s = self.connect_timeout.as_millis().div_ceil(1000);
        put("connect_timeout", Some(timeout_s.to_string()));
        put("tcp_user_timeout", self.tcp.user_timeout_ms.map(|ms| ms.to_string()));
        put("keepalives", self.tcp.has_no_keepalives.then(|| "0".to_owned()));
        put("keepalives_idle", self.tcp.keepalives_idle_s.map(|s| s.to_string()));
        put("keepalives_interval", self.tcp.keepalives_interval_s.map(|s| s.to_string()));
        put("keepalives_count", self.tcp.keepalives_count.map(|n| n.to_string()));
        put("options", self.options.clone());
        put("application_name", self.application_name.clone());
        put("fallback_application_name", self.fallback_application_name.clone());
        put("target_session_attrs", Some(self.target_session_attrs.as_str().to_owned()));
        map.extend(self.newer_keywords().map(|(key, value)| (key.to_owned(), value.to_owned())));
        map.extend(self.session_settings.clone());
        map
    }

    /// Keywords with other values than their defaults, of those that are rare or that libpq has only known since 16:
    /// records of connections that do not use them stay as short as before.
    fn newer_keywords(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let words = |conninfo: &Conninfo| {
            [
                ("load_balance_hosts", conninfo.load_balance_hosts.as_str()),
                ("max_protocol_version", conninfo.max_protocol_version.as_str()),
                ("min_protocol_version", conninfo.min_protocol_version.as_str()),
                ("ssl_max_protocol_version", conninfo.ssl_max_protocol_version.as_str()),
                ("ssl_min_protocol_version", conninfo.ssl_min_protocol_version.as_str()),
                ("sslcertmode", conninfo.sslcertmode.as_str()),
            ]
        };
        let default = words(&Conninfo::new("", 0, "", ""));
        let asked = words(self).into_iter().filter(move |pair| !default.contains(pair));
        asked.chain(self.require_auth.as_ref().map(|list| ("require_auth", list.as_str())))
    }

    /// The inverse of [`Conninfo::keywords`]; reads neither environment nor files.
    ///
    /// # Errors
    /// An unknown keyword, or a value that libpq would reject.
    pub fn from_keywords(
        keywords: &BTreeMap<String, String>,
        password: Option<Secret>,
    ) -> Result<Conninfo, ConninfoError> {
        resolve::from_keywords(keywords, password)
    }

    /// The password to use with `hosts[index]`.
    pub fn password_for(&self, index: usize) -> Option<&Secret> {
        if self.host_passwords.is_empty() {
            self.password.as_ref()
        } else {
            // One host's password must not be sent to another.
            self.host_passwords.get(index).and_then(Option::as_ref)
        }
    }

    /// Uses this password for every host.
    pub fn give_password(&mut self, password: Secret, source: PasswordSource) {
        (self.password, self.password_source) = (Some(password), source);
        self.host_passwords.clear();
    }

    /// Uses these passwords, the user's for every host.
    pub fn give_passwords(&mut self, passwords: Passwords, source: PasswordSource) {
        if let Some(password) = passwords.of_user {
            self.give_password(password, source);
        }
        self.key_password = passwords.of_key.or(self.key_password.take());
    }

    /// Uses the passwords of the same hosts as they are known elsewhere, or why there are none.
    pub fn take_passwords_of(&mut self, known: &Conninfo) {
        self.password.clone_from(&known.password);
        self.host_passwords.clone_from(&known.host_passwords);
        self.password_source.clone_from(&known.password_source);
        self.passfile_warning.clone_from(&known.passfile_warning);
        self.key_password.clone_from(&known.key_password);
    }
}

impl Host {
    /// Whether `host` is a directory of unix sockets.
    pub fn is_unix(&self) -> bool {
        self.hostaddr.is_none() && self.host.starts_with('/')
    }

    /// The path of the unix socket, if it is one.
    pub fn socket_path(&self) -> Option<PathBuf> {
        self.is_unix().then(|| PathBuf::from(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
}

/// `host:port`, as people write it.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nobody connects to an address in a socket directory; `hostaddr` may still be given, for password files.
        let address = if self.host.starts_with('/') { self.hostaddr.as_deref() } else { None };
        let name = address.unwrap_or(&self.host);
        if name.contains(':') {
            write!(f, "[{name}]:{}", self.port)
        } else {
            write!(f, "{name}:{}", self.port)
        }
    }
}

/// `user@host:port/dbname`, never the password.
impl fmt::Display for Conninfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.user)?;
        for (i, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if i == 0 { "" } else { "," })?;
        }
        write!(f, "/{}", self.dbname)
    }
}
