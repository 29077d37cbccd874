//! Services by HTTP with the secrets that they ask for, read from where the experiment file says they are: the exporter of a
//! target, the Prometheus server of an import.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use model::experiment::target::{ExporterSection, TargetSpec};
use model::telemetry::import::Import;
use observe::http::Address;
use observe::{AskerIdentity, Exporter, Mapping, Service};

/// Longest password or token.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// The exporter of a target, if it has one.
///
/// # Errors
/// When a secret or a certificate cannot be read, or would go over a network as plain text. No error shows a secret.
pub(crate) fn for_target(target: &TargetSpec, stop: &AtomicBool) -> Result<Option<Exporter>> {
    let Some(address) = &target.telemetry else { return Ok(None) };
    let within = || format!("target `{}`: exporter", target.name);
    make(address, &target.exporter, stop).map(Some).with_context(within)
}

fn make(address: &str, section: &ExporterSection, stop: &AtomicBool) -> Result<Exporter> {
    let ExporterSection { ca, user, password_env, password_file, token_env, token_file, metrics } = section;
    let secrets = Secrets {
        ca: ca.as_deref(),
        user: user.as_deref(),
        password: (password_env.as_deref(), password_file.as_deref()),
        token: (token_env.as_deref(), token_file.as_deref()),
    };
    let mapping = Mapping::new(metrics).map_err(|error| anyhow::anyhow!("metrics: {error}"))?;
    Ok(Exporter::new(secrets.service(address, stop)?, mapping))
}

/// The Prometheus server of an import.
///
/// # Errors
/// As [`of`].
pub(crate) fn prometheus(address: &str, import: &Import, stop: &AtomicBool) -> Result<Service> {
    let secrets = Secrets {
        ca: import.ca.as_deref(),
        user: import.user.as_deref(),
        password: (import.password_env.as_deref(), import.password_file.as_deref()),
        token: (import.token_env.as_deref(), import.token_file.as_deref()),
    };
    secrets.service(address, stop)
}

/// Where the secrets for a service are: each in a variable or a file.
struct Secrets<'a> {
    ca: Option<&'a Path>,
    user: Option<&'a str>,
    password: (Option<&'a str>, Option<&'a Path>),
    token: (Option<&'a str>, Option<&'a Path>),
}

impl Secrets<'_> {
    fn service(&self, address: &str, stop: &AtomicBool) -> Result<Service> {
        let (variable, file) = self.password;
        let password = secret(SecretSource { what: "password", variable, file }, stop)?;
        let (variable, file) = self.token;
        let token = secret(SecretSource { what: "token", variable, file }, stop)?;
        let identity = match (self.user, &password, &token) {
            (None, None, None) => AskerIdentity::None,
            (Some(user), Some(password), None) => AskerIdentity::Password { user, password },
            (None, None, Some(token)) => AskerIdentity::Token(token),
            _ => bail!("give user with password_env or password_file, or token_env or token_file alone"),
        };
        Service::new(Address::parse(address)?, self.ca, &identity)
    }
}

/// Where a secret comes from: an environment variable or a file.
struct SecretSource<'a> {
    what: &'a str,
    variable: Option<&'a str>,
    file: Option<&'a Path>,
}

/// A secret without the newline at its end.
fn secret(source: SecretSource, stop: &AtomicBool) -> Result<Option<String>> {
    let SecretSource { what, variable, file } = source;
    let text = match (variable, file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => bail!("give {what}_env or {what}_file, not both"),
        (Some(name), None) => match std::env::var(name) {
            Ok(text) => text,
            Err(_) => bail!("{what}_env: the environment has no variable `{name}` with text"),
        },
        (None, Some(path)) => {
            let bytes = files::read_named(path, SECRET_BYTES_MAX, stop)
                .with_context(|| format!("{what}_file: cannot read `{}`", path.display()))?;
            // The error would show the bytes.
            String::from_utf8(bytes)
                .ok()
                .with_context(|| format!("{what}_file: `{}` is not text", path.display()))?
        }
    };
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_one_place_and_no_error_shows_them() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("good"), "s3cret\n").unwrap();
        std::fs::write(path("two"), "s3cret\r\nInjected: s3cret\n").unwrap();
        std::fs::write(path("binary"), b"s3cret\xff").unwrap();
        std::fs::write(path("empty"), "\n").unwrap();
        let check = |address: &str, section: &str, expected: Option<&str>| {
            let section: ExporterSection = toml::from_str(section).unwrap();
            let error = make(address, &section, &STOP).err().map(|error| format!("{error:#}"));
            match (&error, expected) {
                (None, None) => {}
                (Some(error), Some(expected)) => {
                    assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
                }
                _ => panic!("{section:?}: {error:?}"),
            }
        };
        let token = |name: &str| format!("token_file = {:?}", path(name));
        check("https://h/m", &token("good"), None);
        check("http://127.0.0.1/m", &token("good"), None);
        check("http://10.0.0.5/m", &token("good"), Some("over the network as plain text; use https://"));
        check("https://h/m", &token("two"), Some("characters that HTTP does not allow"));
        check("https://h/m", &token("binary"), Some("is not text"));
        check("https://h/m", &token("empty"), Some("the token is empty"));
        check("https://h/m", &token("absent"), Some("cannot read"));
        check("https://h/m", "token_env = \"PGDYNO_NO_SUCH\"", Some("no variable `PGDYNO_NO_SUCH`"));
        check("https://h/m", "user = \"u\"", Some("give user with password_env"));
        let both = format!("{}\ntoken_env = \"HOME\"", token("good"));
        check("https://h/m", &both, Some("give token_env or token_file, not both"));
        check("https://h/m", &format!("ca = {:?}", path("good")), Some("the certificates of"));
        for (metrics, expected) in [
            ("\"disk.reed\" = \"x\"", "is none of cpu.busy, cpu.user"),
            ("\"cpu.busy\" = \"x\"", "say per_second = true"),
            ("\"memory.available\" = {name = \"x\", per_second = true}", "is a level"),
            ("\"disk.reads\" = \"a b\"", "is not the name of a metric"),
        ] {
            check("https://h/m", &format!("[metrics]\n{metrics}"), Some(expected));
        }
    }
}
