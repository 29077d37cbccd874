//! Keywords with a fixed list of values, and libpq's names for them.

use super::ConninfoError;

/// libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// Only if the server rejects a plain connection.
    Allow,
    /// If the server offers it.
    #[default]
    Prefer,
    /// Always; the certificate is verified only if a root file exists.
    Require,
    /// Always, with a trusted certificate.
    VerifyCa,
    /// Always, with a trusted certificate for this host name.
    VerifyFull,
}

/// libpq's `sslnegotiation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslNegotiation {
    /// Ask with an SSLRequest message first.
    #[default]
    Postgres,
    /// Start TLS at once (PostgreSQL 17 and later).
    Direct,
}

/// libpq's `sslcertmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslCertMode {
    /// Never send the client's certificate.
    Disable,
    /// Send it if the server asks for it.
    #[default]
    Allow,
    /// The server must ask for it, and it must exist.
    Require,
}

/// A version of TLS, as `ssl_min_protocol_version` and `ssl_max_protocol_version` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl TlsVersion {
    /// The version as libpq spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            TlsVersion::V1_2 => "TLSv1.2",
            TlsVersion::V1_3 => "TLSv1.3",
        }
    }
}

/// libpq's `channel_binding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Do not use it.
    Disable,
    /// Use it if the server supports it.
    #[default]
    Prefer,
    /// Reject any authentication without it.
    Require,
}

/// libpq's `target_session_attrs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    /// Any server.
    #[default]
    Any,
    /// Sessions can write by default.
    ReadWrite,
    /// Sessions cannot write by default.
    ReadOnly,
    /// The server is not in recovery.
    Primary,
    /// The server is in recovery.
    Standby,
    /// A server in recovery if the list has one, otherwise any.
    PreferStandby,
}

/// libpq's `load_balance_hosts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBalanceHosts {
    /// Try hosts, and the addresses of each, in their order.
    #[default]
    Disable,
    /// Each connection tries the hosts, and the addresses of each, in a random order.
    Random,
}

/// A version of the protocol, as libpq's `min_protocol_version` and `max_protocol_version` name it. There is no 3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// Supported by every server.
    #[default]
    V3_0,
    /// With longer cancel keys (PostgreSQL 18 and later).
    V3_2,
}

impl ProtocolVersion {
    /// The version that `latest` means.
    pub const LATEST: ProtocolVersion = ProtocolVersion::V3_2;

    /// The version as libpq spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolVersion::V3_0 => "3.0",
            ProtocolVersion::V3_2 => "3.2",
        }
    }

    /// The number in messages: the major version in the upper half, the minor one in the lower.
    pub fn number(self) -> i32 {
        match self {
            ProtocolVersion::V3_0 => 3 << 16,
            ProtocolVersion::V3_2 => 3 << 16 | 2,
        }
    }

    /// The value of `keyword`.
    pub(super) fn parse(keyword: &str, text: &str) -> Result<ProtocolVersion, ConninfoError> {
        match text {
            "3.0" => Ok(ProtocolVersion::V3_0),
            "3.2" => Ok(ProtocolVersion::V3_2),
            "latest" => Ok(ProtocolVersion::LATEST),
            _ => {
                let said = format!("`{keyword}` cannot be `{text}`; use one of: 3.0, 3.2, latest");
                let libpq_text = format!("invalid {keyword} value: \"{text}\"");
                Err(ConninfoError::new(said).in_libpqs_words(libpq_text))
            }
        }
    }
}

/// Gives an enum of keyword values its two conversions from one table.
macro_rules! keyword_values {
    ($type:ident, $keyword:literal, $($text:literal => $variant:ident),+) => {
        impl $type {
            /// The value as libpq spells it.
            pub fn as_str(self) -> &'static str {
                match self { $($type::$variant => $text),+ }
            }

            pub(super) fn parse(text: &str) -> Result<$type, ConninfoError> {
                match text {
                    $($text => Ok($type::$variant),)+
                    _ => Err(ConninfoError::new(format!(
                        concat!("`", $keyword, "` cannot be `{}`; use one of: {}"),
                        text, [$($text),+].join(", ")
                    ))
                    .in_libpqs_words(format!(concat!("invalid ", $keyword, " value: \"{}\""), text))),
                }
            }
        }
    };
}
keyword_values!(SslMode, "sslmode", "disable" => Disable, "allow" => Allow, "prefer" => Prefer,
    "require" => Require, "verify-ca" => VerifyCa, "verify-full" => VerifyFull);
keyword_values!(SslNegotiation, "sslnegotiation", "postgres" => Postgres, "direct" => Direct);
keyword_values!(SslCertMode, "sslcertmode", "disable" => Disable, "allow" => Allow, "require" => Require);
keyword_values!(ChannelBinding, "channel_binding", "disable" => Disable, "prefer" => Prefer, "require" => Require);
keyword_values!(TargetSessionAttrs, "target_session_attrs", "any" => Any, "read-write" => ReadWrite,
    "read-only" => ReadOnly, "primary" => Primary, "standby" => Standby, "prefer-standby" => PreferStandby);
keyword_values!(LoadBalanceHosts, "load_balance_hosts", "disable" => Disable, "random" => Random);
