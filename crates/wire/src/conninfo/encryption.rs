//! Keywords about TLS. Files are only named here; `tls` reads them.

use std::io;
use std::path::Path;

use super::named_file;
use super::resolve::{Settings, Surroundings, get, word};
use super::{ChannelBinding, Conninfo, ConninfoError, SslCertMode, SslMode, SslNegotiation, TlsVersion};
use crate::secret::Secret;

/// Versions by libpq's names, oldest first; the two oldest are not supported here.
const TLS_VERSIONS: [(&str, Option<TlsVersion>); 4] = [
    ("TLSv1", None),
    ("TLSv1.1", None),
    ("TLSv1.2", Some(TlsVersion::V1_2)),
    ("TLSv1.3", Some(TlsVersion::V1_3)),
];

impl Conninfo {
    /// The trusted root certificates themselves: those given, else what the file `sslrootcert` holds. None if there is no such file, if the
    /// system's are trusted, or if a list of revoked certificates belongs to the file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn roots(&self) -> io::Result<Option<String>> {
        let file = self.sslrootcert.as_deref().filter(|file| *file != "system" && self.sslcrl.is_none());
        match file.map(Path::new).filter(|file| self.root_certificates.is_none() && file.exists()) {
            Some(file) => Ok(Some(named_file::text(&named_file::read(file)?))),
            None => Ok(self.root_certificates.clone()),
        }
    }
}

/// Applies all keywords about TLS.
pub(super) fn apply(
    conninfo: &mut Conninfo,
    settings: &Settings,
    around: &Surroundings,
) -> Result<(), ConninfoError> {
    let text = |key: &str| get(settings, key).map(str::to_owned);
    conninfo.channel_binding = word(settings, "channel_binding", ChannelBinding::parse)?;
    let mode = settings.get("sslmode").map(|value| SslMode::parse(value)).transpose()?;
    conninfo.sslnegotiation = word(settings, "sslnegotiation", SslNegotiation::parse)?;
    conninfo.sslsni = get(settings, "sslsni") != Some("0");
    conninfo.sslrootcert = text("sslrootcert").or_else(|| around.certificate("root.crt"));
    conninfo.sslcrl = text("sslcrl").or_else(|| around.certificate("root.crl"));
    let system_roots = conninfo.sslrootcert.as_deref() == Some("system");
    conninfo.sslmode = mode.unwrap_or(if system_roots { SslMode::VerifyFull } else { SslMode::Prefer });
    if conninfo.sslnegotiation == SslNegotiation::Direct && conninfo.sslmode < SslMode::Require {
        let strong = "(use \"require\", \"verify-ca\", or \"verify-full\")";
        return Err(weak(conninfo.sslmode, "sslnegotiation=direct", "require` or stronger", strong));
    }
    if system_roots && conninfo.sslmode != SslMode::VerifyFull {
        return Err(weak(conninfo.sslmode, "sslrootcert=system", "verify-full`", "(use \"verify-full\")"));
    }
    tls_versions(conninfo, settings)?;
    conninfo.sslcertmode = word(settings, "sslcertmode", SslCertMode::parse)?;
    if conninfo.sslcertmode != SslCertMode::Disable {
        conninfo.sslcert = text("sslcert").or_else(|| around.certificate("postgresql.crt"));
        conninfo.key_password = get(settings, "sslpassword").map(Secret::from);
        conninfo.sslkey = text("sslkey").or_else(|| around.certificate("postgresql.key"));
    }
    Ok(())
}

fn weak(mode: SslMode, setting: &str, needed: &str, libpq_hint: &str) -> ConninfoError {
    let mode = mode.as_str();
    ConninfoError::new(format!("`{setting}` needs `sslmode={needed}"))
        .in_libpqs_words(format!("weak sslmode \"{mode}\" may not be used with {setting} {libpq_hint}"))
}

fn tls_versions(conninfo: &mut Conninfo, settings: &Settings) -> Result<(), ConninfoError> {
    let index = |key: &str, default: &str| {
        let name = get(settings, key).unwrap_or(default);
        TLS_VERSIONS.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let known = TLS_VERSIONS.map(|(known, _)| known).join(", ");
            ConninfoError::new(format!("`{key}` cannot be `{name}`; use one of: {known}"))
                .in_libpqs_words(format!("invalid \"{key}\" value: \"{name}\""))
        })
    };
    let oldest = index("ssl_min_protocol_version", "TLSv1.2")?;
    let newest = index("ssl_max_protocol_version", "TLSv1.3")?;
    if oldest > newest {
        let text = "`ssl_min_protocol_version` is greater than `ssl_max_protocol_version`";
        return Err(ConninfoError::new(text).in_libpqs_words("invalid SSL protocol version range".to_owned()));
    }
    conninfo.ssl_max_protocol_version = TLS_VERSIONS[newest].1.ok_or_else(|| {
        ConninfoError::new("`ssl_max_protocol_version` before TLSv1.2 is not supported; remove it")
    })?;
    // An older minimum is acceptable, but an older version is never offered.
    conninfo.ssl_min_protocol_version = TLS_VERSIONS[oldest].1.unwrap_or(TlsVersion::V1_2);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::CONNECT_TIMEOUT_DEFAULT;
    use super::*;
    use std::time::Duration;

    fn resolve(text: &str, environment: &[(&str, &str)]) -> Result<Conninfo, ConninfoError> {
        let environment = environment.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let os_user = Some("os".to_owned());
        let around = Surroundings { environment: environment.collect(), os_user, ..Surroundings::default() };
        Conninfo::resolve_in(text, &around)
    }

    #[test]
    fn encryption_settings_follow_libpq() {
        let mode = |text: &str, environment: &[(&str, &str)]| {
            resolve(text, environment).map(|conninfo| conninfo.sslmode).map_err(|error| error.to_string())
        };
        assert_eq!(mode("", &[]), Ok(SslMode::Prefer));
        assert_eq!(mode("", &[("PGSSLMODE", "verify-ca")]), Ok(SslMode::VerifyCa));
        assert_eq!(mode("", &[("PGREQUIRESSL", "1")]), Ok(SslMode::Require));
        assert_eq!(mode("postgres://h/?ssl=true", &[]), Ok(SslMode::Require));
        assert_eq!(mode("sslrootcert=system", &[]), Ok(SslMode::VerifyFull));
        assert!(mode("sslrootcert=system sslmode=require", &[]).is_err());
        assert!(mode("sslnegotiation=direct", &[]).is_err());
        assert_eq!(mode("sslnegotiation=direct sslmode=require", &[]), Ok(SslMode::Require));
        let conninfo = resolve("", &[]).unwrap();
        assert_eq!(conninfo.channel_binding, ChannelBinding::Prefer);
        assert_eq!(conninfo.connect_timeout, CONNECT_TIMEOUT_DEFAULT);
        let forever = resolve("connect_timeout=0", &[]).unwrap();
        assert_eq!(forever.connect_timeout, Duration::ZERO);
    }

    #[test]
    fn versions_of_tls_are_a_range() {
        use TlsVersion::{V1_2, V1_3};
        let check = |text: &str, expected: Result<(TlsVersion, TlsVersion), &str>| {
            let range = resolve(text, &[]).map(|c| (c.ssl_min_protocol_version, c.ssl_max_protocol_version));
            assert_eq!(
                range.as_ref().map_err(|error| error.libpq_text()),
                expected.as_ref().map_err(|e| *e),
                "{text}"
            );
        };
        check("", Ok((V1_2, V1_3)));
        check("ssl_min_protocol_version=''", Ok((V1_2, V1_3)));
        check("ssl_min_protocol_version=tlsv1.3", Ok((V1_3, V1_3)));
        check("ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.2", Ok((V1_2, V1_2)));
        let range = "invalid SSL protocol version range";
        check("ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", Err(range));
        check("ssl_max_protocol_version=TLSv1.1", Err(range));
        let refused = "`ssl_max_protocol_version` before TLSv1.2 is not supported; remove it";
        check("ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1", Err(refused));
        check(
            "ssl_min_protocol_version=TLS1.2",
            Err("invalid \"ssl_min_protocol_version\" value: \"TLS1.2\""),
        );
    }

    #[test]
    fn weak_modes_are_refused_in_libpqs_words() {
        let check = |text: &str, expected: &str| {
            assert_eq!(resolve(text, &[]).map(drop).unwrap_err().libpq_text(), expected, "{text}");
        };
        check(
            "sslnegotiation=direct",
            "weak sslmode \"prefer\" may not be used with sslnegotiation=direct (use \"require\", \"verify-ca\", or \"verify-full\")",
        );
        check(
            "sslrootcert=system sslmode=require",
            "weak sslmode \"require\" may not be used with sslrootcert=system (use \"verify-full\")",
        );
    }

    #[test]
    fn a_certificate_is_shown_unless_that_is_ruled_out() {
        let files = |mode: &str| {
            let conninfo = resolve(&format!("sslcert=c sslkey=k {mode}"), &[]).unwrap();
            (conninfo.sslcertmode, conninfo.sslcert.is_some(), conninfo.sslkey.is_some())
        };
        assert_eq!(files(""), (SslCertMode::Allow, true, true));
        assert_eq!(files("sslcertmode=require"), (SslCertMode::Require, true, true));
        assert_eq!(files("sslcertmode=disable"), (SslCertMode::Disable, false, false));
    }
}
