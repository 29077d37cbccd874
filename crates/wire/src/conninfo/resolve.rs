//! From parsed keywords to a [`Conninfo`]: precedence of sources, lists of hosts, defaults, and rejected values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keywords::{self, KEYWORDS};
use super::parse::{self, Parsed};
use super::passfile::{self, Wanted};
use super::{
    Conninfo, ConninfoError, Host, LoadBalanceHosts, PasswordSource, ProtocolVersion, RequireAuth,
    TargetSessionAttrs, TcpLimits, encryption, service,
};
use crate::secret::Secret;

const PORT_DEFAULT: u16 = 5432;

/// Session settings without a libpq keyword, only an environment variable.
pub const ENVIRONMENT_ONLY: [(&str, &str); 3] =
    [("datestyle", "PGDATESTYLE"), ("timezone", "PGTZ"), ("geqo", "PGGEQO")];

/// Keywords that change security or meaning and that this crate does not implement, with the values that have no
/// effect. Ignoring any other value would connect in a way that the user ruled out.
const NOT_SUPPORTED: [(&str, &[&str]); 7] = [
    ("gssencmode", &["disable", "prefer"]),
    ("replication", &["false", "off", "no", "0"]),
    ("requirepeer", &[]),
    ("scram_client_key", &[]),
    ("scram_server_key", &[]),
    ("sslcrldir", &[]),
    ("sslkeylogfile", &[]),
];

/// What libpq takes from outside the connection string.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// The user's home directory (password file, service file, certificates).
    pub home: Option<PathBuf>,
    /// Name of the operating system user.
    pub os_user: Option<String>,
    /// Directory of unix sockets if no host is given.
    pub socket_dir: String,
}

impl Surroundings {
    /// The surroundings of this process.
    pub fn of_process() -> Surroundings {
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(key, _)| key.starts_with("PG") || key == "HOME")
            .collect();
        let account = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        let home = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = home.or_else(|| account.as_ref().map(|account| account.dir.clone()));
        let debian_dir = "/var/run/postgresql";
        let socket_dir = if Path::new(debian_dir).is_dir() { debian_dir } else { "/tmp" };
        let os_user = account.map(|account| account.name);
        Surroundings { environment, home, os_user, socket_dir: socket_dir.to_owned() }
    }

    /// An environment variable; an empty one counts as absent.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A file below `~/.postgresql`, if it exists.
    pub(super) fn certificate(&self, name: &str) -> Option<String> {
        let file = self.home.as_ref()?.join(".postgresql").join(name);
        file.exists().then(|| file.to_string_lossy().into_owned())
    }
}

/// See [`Conninfo::resolve_in`].
pub(super) fn resolve(text: &str, around: &Surroundings) -> Result<Conninfo, ConninfoError> {
    let Parsed { given: mut settings, url } = parse::parse(text)?;
    let mut source = PasswordSource::Text { url };
    let had_password = is_set(&settings, "password");

    let service_name = settings.get("service").map(String::as_str).or_else(|| around.variable("PGSERVICE"));
    if let Some(name) = service_name.filter(|name| !name.is_empty()).map(str::to_owned) {
        for (key, value) in service::read(&name, around)? {
            if !keywords::is_known(&key) {
                let text = format!("service `{name}` sets the unknown keyword `{key}`");
                return Err(
                    ConninfoError::new(text).in_libpqs_words(format!("invalid connection option \"{key}\""))
                );
            }
            settings.entry(key).or_insert(value);
        }
        if !had_password {
            source = PasswordSource::Service(name);
        }
    }
    let known_before_environment = is_set(&settings, "password");
    for keyword in &KEYWORDS {
        if let Some(value) = keyword.variable.and_then(|name| around.environment.get(name)) {
            settings.entry(keyword.name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    if !known_before_environment {
        source = PasswordSource::Environment;
    }
    if around.variable("PGREQUIRESSL").is_some_and(|value| value.starts_with('1')) {
        settings.entry("sslmode".to_owned()).or_insert_with(|| "require".to_owned());
    }

    let mut conninfo = build(&settings, around)?;
    match conninfo.password {
        Some(_) => conninfo.password_source = source,
        None => read_passfile(&mut conninfo, &settings, around),
    }
    Ok(conninfo)
}

/// See [`Conninfo::from_keywords`].
pub(super) fn from_keywords(
    keywords: &BTreeMap<String, String>,
    password: Option<Secret>,
) -> Result<Conninfo, ConninfoError> {
    let is_known =
        |key: &str| keywords::is_known(key) || ENVIRONMENT_ONLY.iter().any(|(name, _)| *name == key);
    if let Some(key) = keywords.keys().find(|key| !is_known(key)) {
        return Err(ConninfoError::new(format!("unknown connection keyword `{key}`")));
    }
    let mut around = Surroundings::of_process();
    around.environment.clear();
    around.home = None;
    let mut conninfo = build(keywords, &around)?;
    conninfo.password = password.or(conninfo.password);
    if conninfo.password.is_some() {
        conninfo.password_source = PasswordSource::Given;
    }
    Ok(conninfo)
}

pub(super) type Settings = BTreeMap<String, String>;

/// A setting; libpq treats an empty value as absent, except for keywords with a list of values.
pub(super) fn get<'a>(settings: &'a Settings, key: &str) -> Option<&'a str> {
    settings.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn is_set(settings: &Settings, key: &str) -> bool {
    get(settings, key).is_some()
}

/// The value of a keyword with a list of values, or the default. As in libpq, an empty value is not in the list.
pub(super) fn word<T: Default>(
    settings: &Settings,
    key: &str,
    parse: impl Fn(&str) -> Result<T, ConninfoError>,
) -> Result<T, ConninfoError> {
    settings.get(key).map_or_else(|| Ok(T::default()), |value| parse(value))
}

fn build(settings: &Settings, around: &Surroundings) -> Result<Conninfo, ConninfoError> {
    refuse_unsupported(settings)?;
    let user = match get(settings, "user").or(around.os_user.as_deref()) {
        Some(user) => user.to_owned(),
        None => return Err(ConninfoError::new("no user name: set `user` or `PGUSER`".to_owned())),
    };
    let dbname = get(settings, "dbname").unwrap_or(&user).to_owned();
    let text = |key: &str| get(settings, key).map(str::to_owned);
    let mut conninfo = Conninfo::new("", PORT_DEFAULT, &user, &dbname);
    conninfo.hosts = hosts(settings, &around.socket_dir)?;
    conninfo.password = get(settings, "password").map(Secret::from);
    conninfo.options = text("options");
    // An empty name counts, because it overrides the fallback.
    conninfo.application_name = settings.get("application_name").cloned();
    conninfo.fallback_application_name = settings.get("fallback_application_name").cloned();
    conninfo.session_settings = session_settings(settings, around);
    // An empty list counts too: it allows no method at all.
    conninfo.require_auth =
        settings.get("require_auth").map(|value| RequireAuth::parse(value)).transpose()?;
    conninfo.target_session_attrs = word(settings, "target_session_attrs", TargetSessionAttrs::parse)?;
    conninfo.load_balance_hosts = word(settings, "load_balance_hosts", LoadBalanceHosts::parse)?;
    protocol_versions(&mut conninfo, settings)?;
    if let Some(seconds) = number(settings, "connect_timeout")? {
        // libpq: zero and negative values mean no limit.
        conninfo.connect_timeout = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    }
    conninfo.tcp = tcp_limits(settings)?;
    encryption::apply(&mut conninfo, settings, around)?;
    Ok(conninfo)
}

fn tcp_limits(settings: &Settings) -> Result<TcpLimits, ConninfoError> {
    // As in libpq, a negative limit counts as zero.
    let limit = |key: &str| number(settings, key).map(|n| n.map(|n| u32::try_from(n).unwrap_or(0)));
    Ok(TcpLimits {
        has_no_keepalives: number(settings, "keepalives")? == Some(0),
        keepalives_idle_s: limit("keepalives_idle")?,
        keepalives_interval_s: limit("keepalives_interval")?,
        keepalives_count: limit("keepalives_count")?,
        user_timeout_ms: limit("tcp_user_timeout")?,
    })
}

fn protocol_versions(conninfo: &mut Conninfo, settings: &Settings) -> Result<(), ConninfoError> {
    let version = |key: &str| settings.get(key).map(|value| ProtocolVersion::parse(key, value)).transpose();
    let oldest = version("min_protocol_version")?.unwrap_or_default();
    // Poolers might not be able to answer a newer version than 3.0, so request one only if required.
    let must_be_newer = oldest > ProtocolVersion::V3_0;
    let asked_by_default = if must_be_newer { ProtocolVersion::LATEST } else { ProtocolVersion::V3_0 };
    let asked = version("max_protocol_version")?.unwrap_or(asked_by_default);
    if oldest > asked {
        return Err(ConninfoError::new("`min_protocol_version` is greater than `max_protocol_version`")
            .in_libpqs_words(
                "\"min_protocol_version\" is greater than \"max_protocol_version\"".to_owned(),
            ));
    }
    (conninfo.min_protocol_version, conninfo.max_protocol_version) = (oldest, asked);
    Ok(())
}

fn session_settings(settings: &Settings, around: &Surroundings) -> BTreeMap<String, String> {
    let encoding = match get(settings, "client_encoding") {
        // libpq takes it from the locale, which is `C` in a program that sets none, such as pgbench and this one.
        Some("auto") => Some("SQL_ASCII".to_owned()),
        given => given.map(str::to_owned),
    };
    let encoding = encoding.map(|encoding| ("client_encoding".to_owned(), encoding));
    let others = ENVIRONMENT_ONLY.iter().filter_map(|(name, variable)| {
        let value = settings.get(*name).or_else(|| around.environment.get(*variable))?;
        // libpq's word for the server's default; an empty value is sent, and the server rejects it.
        (!value.eq_ignore_ascii_case("default")).then(|| (name.to_string(), value.clone()))
    });
    encoding.into_iter().chain(others).collect()
}

fn refuse_unsupported(settings: &Settings) -> Result<(), ConninfoError> {
    for (keyword, harmless) in NOT_SUPPORTED {
        if get(settings, keyword).is_some_and(|value| !harmless.contains(&value)) {
            return Err(ConninfoError::new(format!("`{keyword}` is not supported; remove it")));
        }
    }
    Ok(())
}

/// The lists `host`, `hostaddr` and `port`, combined. A single port applies to all hosts.
fn hosts(settings: &Settings, socket_dir: &str) -> Result<Vec<Host>, ConninfoError> {
    let list =
        |key: &str| get(settings, key).map(|value| value.split(',').collect::<Vec<_>>()).unwrap_or_default();
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let n = names.len().max(addresses.len()).max(1);
    let (n_names, n_addresses, n_ports) = (names.len(), addresses.len(), ports.len());
    if n_names > 0 && n_addresses > 0 && n_names != n_addresses {
        let text = format!("{n_names} hosts do not match {n_addresses} `hostaddr` values");
        let libpq_text = format!("could not match {n_names} host names to {n_addresses} hostaddr values");
        return Err(ConninfoError::new(text).in_libpqs_words(libpq_text));
    }
    if n_ports > 1 && n_ports != n {
        let libpq_text = format!("could not match {n_ports} port numbers to {n} hosts");
        return Err(
            ConninfoError::new(format!("{n_ports} ports do not match {n} hosts")).in_libpqs_words(libpq_text)
        );
    }
    (0..n)
        .map(|i| {
            let address = addresses.get(i).copied().filter(|address| !address.is_empty());
            let name = names.get(i).copied().filter(|name| !name.is_empty());
            let host = name.or(address).unwrap_or(socket_dir);
            if host.starts_with('@') {
                return Err(ConninfoError::new(format!("abstract unix socket `{host}` is not supported")));
            }
            let port = ports.get(if ports.len() == 1 { 0 } else { i }).copied().unwrap_or_default();
            let hostaddr = address.map(numeric_address).transpose()?;
            Ok(Host { host: host.to_owned(), hostaddr, port: parse_port(port)?, ..Host::default() })
        })
        .collect()
}

/// libpq resolves no names for `hostaddr`.
fn numeric_address(text: &str) -> Result<String, ConninfoError> {
    // An IPv6 address may name the interface (`fe80::1%eth0`), which the resolver can parse.
    let address = text.split('%').next().unwrap_or_default();
    if address.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let libpq_text = format!("could not parse network address \"{text}\": Name or service not known");
    Err(ConninfoError::new(format!("`hostaddr` must be an address, got `{text}`; use `host` for names"))
        .in_libpqs_words(libpq_text))
}

fn parse_port(text: &str) -> Result<u16, ConninfoError> {
    let digits = text.trim();
    if digits.is_empty() {
        return Ok(PORT_DEFAULT);
    }
    match digits.parse::<i32>().map(u16::try_from) {
        Ok(Ok(port)) if port > 0 => Ok(port),
        Ok(_) => Err(ConninfoError::new(format!("port {digits} is not in 1..65535"))
            .in_libpqs_words(format!("invalid port number: \"{text}\""))),
        Err(_) => Err(ConninfoError::new(format!("port `{digits}` is not a number"))
            .in_libpqs_words(not_an_integer("port", text))),
    }
}

fn not_an_integer(keyword: &str, value: &str) -> String {
    format!("invalid integer value \"{value}\" for connection option \"{keyword}\"")
}

fn number(settings: &Settings, key: &str) -> Result<Option<i64>, ConninfoError> {
    let Some(value) = get(settings, key) else { return Ok(None) };
    match value.trim().parse::<i32>() {
        Ok(number) => Ok(Some(i64::from(number))),
        Err(_) => {
            let text = format!("`{key}` must be a whole number, got `{value}`");
            Err(ConninfoError::new(text).in_libpqs_words(not_an_integer(key, value)))
        }
    }
}

fn read_passfile(conninfo: &mut Conninfo, settings: &Settings, around: &Surroundings) {
    let named = get(settings, "passfile").map(PathBuf::from);
    let Some(file) = named.or_else(|| around.home.as_ref().map(|home| home.join(".pgpass"))) else { return };
    let text = match passfile::read(&file) {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(warning) => {
            conninfo.passfile_warning = Some(warning);
            return;
        }
    };
    let look_up = |host: &Host| {
        let wanted =
            Wanted { host: &host.host, port: host.port, dbname: &conninfo.dbname, user: &conninfo.user };
        passfile::find(&text, &wanted)
    };
    let passwords: Vec<Option<Secret>> = conninfo.hosts.iter().map(look_up).collect();
    conninfo.password = passwords.iter().flatten().next().cloned();
    if conninfo.password.is_some() {
        conninfo.host_passwords = passwords;
        conninfo.password_source = PasswordSource::Passfile(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn around(environment: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            environment: environment
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            home: None,
            os_user: Some("os".to_owned()),
            socket_dir: "/sockets".to_owned(),
        }
    }

    #[test]
    fn sessions_begin_as_the_environment_says() {
        let check = |text: &str, environment: &[(&str, &str)], expected: &str| {
            let found = resolve(text, &around(environment)).unwrap().session_settings;
            let found: Vec<_> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(found.join(" "), expected, "{text} {environment:?}");
        };
        check("", &[], "");
        check("", &[("PGTZ", "Asia/Tokyo"), ("PGGEQO", "off")], "geqo=off timezone=Asia/Tokyo");
        check("", &[("PGDATESTYLE", "Default"), ("PGTZ", "")], "timezone=");
        check("", &[("PGCLIENTENCODING", "latin1")], "client_encoding=latin1");
        check("client_encoding=utf8", &[("PGCLIENTENCODING", "latin1")], "client_encoding=utf8");
        check("client_encoding=auto", &[], "client_encoding=SQL_ASCII");
        check("", &[("PGCLIENTENCODING", "")], "");
        let own = resolve("", &around(&[("PGCLIENTENCODING", "latin1"), ("PGTZ", "UTC")])).unwrap();
        let own = own.for_own_sessions().session_settings;
        assert_eq!(own, BTreeMap::from([("client_encoding".to_owned(), "UTF8".to_owned())]));
        let spread = resolve("host=a,b load_balance_hosts=random", &around(&[])).unwrap();
        assert!(spread.is_spread() && !spread.for_own_sessions().is_spread());
        assert!(resolve("timezone=UTC", &around(&[])).is_err(), "libpq has no such keyword");
    }

    #[test]
    fn an_empty_name_of_the_application_hides_the_fallback() {
        let names = |text: &str, environment: &[(&str, &str)]| {
            let conninfo = resolve(text, &around(environment)).unwrap();
            (conninfo.application_name, conninfo.fallback_application_name)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(names("fallback_application_name=f", &[]), (None, some("f")));
        assert_eq!(names("fallback_application_name=f", &[("PGAPPNAME", "")]), (some(""), some("f")));
        assert_eq!(names("application_name=''", &[("PGAPPNAME", "e")]), (some(""), None));
    }

    #[test]
    fn the_nearest_source_wins() {
        let check = |text: &str, environment: &[(&str, &str)], expected: &str| {
            let conninfo = resolve(text, &around(environment)).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(conninfo.to_string(), expected, "{text} {environment:?}");
        };
        check("", &[], "os@/sockets:5432/os");
        check("bench", &[], "os@/sockets:5432/bench");
        check("user=u", &[], "u@/sockets:5432/u");
        check("", &[("PGHOST", "h"), ("PGPORT", "1"), ("PGUSER", "e"), ("PGDATABASE", "d")], "e@h:1/d");
        check("", &[("PGHOST", ""), ("PGPORT", "")], "os@/sockets:5432/os");
        check("host=x dbname=y", &[("PGHOST", "h"), ("PGDATABASE", "d"), ("PGUSER", "e")], "e@x:5432/y");
        check("host='' dbname=y", &[("PGHOST", "h")], "os@/sockets:5432/y");
        check("postgres://u:secret@h1:1,[::1]:2/d", &[], "u@h1:1,[::1]:2/d");
        check("host=a,b,c port=7", &[], "os@a:7,b:7,c:7/os");
        check("host=a,b port=,8", &[], "os@a:5432,b:8/os");
        check("hostaddr=10.0.0.1", &[], "os@10.0.0.1:5432/os");
        check("host=/tmp", &[], "os@/tmp:5432/os");
    }

    #[test]
    fn bad_values_are_named() {
        let check = |text: &str, expected: &str| {
            let said =
                resolve(text, &around(&[])).map(|c| c.to_string()).unwrap_or_else(|error| error.to_string());
            assert_eq!(said, expected, "{text}");
        };
        check("postgresql://host:99999/db", "port 99999 is not in 1..65535");
        check("port=0", "port 0 is not in 1..65535");
        check("port=x", "port `x` is not a number");
        check("host=a,b port=1,2,3", "3 ports do not match 2 hosts");
        check("host=a,b hostaddr=1.1.1.1", "2 hosts do not match 1 `hostaddr` values");
        check("connect_timeout=soon", "`connect_timeout` must be a whole number, got `soon`");
        check("keepalives=yes", "`keepalives` must be a whole number, got `yes`");
        check(
            "sslmode=on",
            "`sslmode` cannot be `on`; use one of: disable, allow, prefer, require, verify-ca, verify-full",
        );
        check("sslkeylogfile=x", "`sslkeylogfile` is not supported; remove it");
        check("scram_client_key=x", "`scram_client_key` is not supported; remove it");
        check("gssencmode=require", "`gssencmode` is not supported; remove it");
        check("sslcrldir=x", "`sslcrldir` is not supported; remove it");
        check("host=@x", "abstract unix socket `@x` is not supported");
    }

    #[test]
    fn bad_values_are_also_reported_in_libpqs_words() {
        let check = |text: &str, expected: &str| {
            let error = resolve(text, &around(&[])).err().unwrap_or_else(|| panic!("{text} was accepted"));
            assert_eq!(error.libpq_text(), expected, "{text}");
        };
        check("port=x", "invalid integer value \"x\" for connection option \"port\"");
        check("port=' 5x'", "invalid integer value \" 5x\" for connection option \"port\"");
        check("port=0", "invalid port number: \"0\"");
        check("port=-1", "invalid port number: \"-1\"");
        check("host=a,b port=1,2,3", "could not match 3 port numbers to 2 hosts");
        check("host=a,b hostaddr=1.1.1.1", "could not match 2 host names to 1 hostaddr values");
        check("hostaddr=db", "could not parse network address \"db\": Name or service not known");
        check("sslmode=on", "invalid sslmode value: \"on\"");
        check("target_session_attrs=x", "invalid target_session_attrs value: \"x\"");
        check("load_balance_hosts=x", "invalid load_balance_hosts value: \"x\"");
        check("load_balance_hosts=''", "invalid load_balance_hosts value: \"\"");
        check("sslmode=''", "invalid sslmode value: \"\"");
        check("channel_binding=x", "invalid channel_binding value: \"x\"");
        check("min_protocol_version=3.1", "invalid min_protocol_version value: \"3.1\"");
        check("max_protocol_version=''", "invalid max_protocol_version value: \"\"");
        check(
            "min_protocol_version=3.2 max_protocol_version=3.0",
            "\"min_protocol_version\" is greater than \"max_protocol_version\"",
        );
        check("connect_timeout=1x", "invalid integer value \"1x\" for connection option \"connect_timeout\"");
        check("bogus=1", "invalid connection option \"bogus\"");
    }

    #[test]
    fn services_and_password_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let service_file = dir.path().join("services").display().to_string();
        std::fs::write(&service_file, "[s]\nhost=a,b\nuser=u\ndbname=d\n[p]\npassword=pw\n[bad]\nbogus=1\n")
            .unwrap();
        let passfile = dir.path().join(".pgpass");
        std::fs::write(&passfile, "b:*:*:u:of b\n").unwrap();
        std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut around = around(&[("PGSERVICEFILE", &service_file), ("PGUSER", "e"), ("PGPASSWORD", "")]);
        around.home = Some(dir.path().to_owned());

        let conninfo = resolve("service=s dbname=x", &around).unwrap();
        assert_eq!(conninfo.to_string(), "u@a:5432,b:5432/x");
        assert_eq!((conninfo.password_for(0), conninfo.password_for(1)), (None, Some(&Secret::from("of b"))));
        assert_eq!(conninfo.password_source, PasswordSource::Passfile(passfile));

        let check = |text: &str, environment: (&str, &str), expected: PasswordSource| {
            let mut around = around.clone();
            around.environment.insert(environment.0.to_owned(), environment.1.to_owned());
            let conninfo = resolve(text, &around).unwrap();
            assert_eq!(conninfo.password_source, expected, "{text}");
            assert!(!format!("{conninfo:?} {conninfo} {:?}", conninfo.keywords()).contains("pw"), "{text}");
        };
        check("", ("PGSERVICE", "p"), PasswordSource::Service("p".to_owned()));
        check("service=p password=pw", ("", ""), PasswordSource::Text { url: false });
        check("postgres://u:pw@h/", ("PGPASSWORD", "pw"), PasswordSource::Text { url: true });
        check("", ("PGPASSWORD", "pw"), PasswordSource::Environment);
        check("host=a", ("", ""), PasswordSource::Nowhere);
        let error = |text: &str| resolve(text, &around).map(|c| c.to_string()).unwrap_err().to_string();
        assert!(error("service=absent").starts_with("service `absent` is not in `"));
        assert_eq!(error("service=bad"), "service `bad` sets the unknown keyword `bogus`");
    }

    #[test]
    fn keywords_survive_a_round_trip() {
        for text in [
            "",
            "host=a,b hostaddr=10.0.0.1, port=1,2 user=u dbname=d sslmode=verify-full sslrootcert=r sslcert=c sslkey=k",
            "host=/tmp options='-c work_mem=1MB' application_name=x target_session_attrs=standby sslsni=0",
            "client_encoding=latin1 application_name='' fallback_application_name=f",
            "host=a,b load_balance_hosts=random require_auth=!md5,!none",
            "require_auth='' max_protocol_version=latest",
            "min_protocol_version=3.2 sslcertmode=disable ssl_min_protocol_version=TLSv1.3",
            "sslcertmode=require ssl_max_protocol_version=TLSv1.2",
            "keepalives=0 tcp_user_timeout=0",
            "keepalives=1 keepalives_idle=7 keepalives_interval=-1 keepalives_count=3",
            "sslmode=require sslnegotiation=direct channel_binding=require connect_timeout=3 tcp_user_timeout=5",
        ] {
            let environment = around(&[("PGTZ", "UTC"), ("PGDATESTYLE", "ISO, YMD"), ("PGGEQO", "off")]);
            let before = resolve(&format!("{text} password=pw"), &environment).unwrap();
            let keywords = before.keywords();
            assert!(
                !keywords.values().any(|value| value.contains("pw")) && !keywords.contains_key("password")
            );
            let mut after = from_keywords(&keywords, before.password.clone()).unwrap();
            assert_eq!(after.password_source, PasswordSource::Given);
            after.password_source = before.password_source.clone();
            assert_eq!(after, before, "{text}");
        }
        let unknown = BTreeMap::from([("hots".to_owned(), "x".to_owned())]);
        assert_eq!(
            from_keywords(&unknown, None).unwrap_err().to_string(),
            "unknown connection keyword `hots`"
        );
    }
}
