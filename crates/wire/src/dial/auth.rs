//! The client's side of authentication: cleartext password, md5, SCRAM-SHA-256 with and without channel binding. Takes
//! requests and returns answers; sends nothing itself.

use std::sync::Arc;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding as Binding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};

use super::error::ConnectError;
use crate::conninfo::{AuthMethod, ChannelBinding, RequireAuth, Secret, SslCertMode};
use crate::message;
use crate::scan::ProtocolError;
use crate::tls::ClientCertificate;

/// The mechanism of OAuth (RFC 7628), of which we know only the name.
const OAUTHBEARER: &str = "OAUTHBEARER";

/// One authentication.
pub(super) struct Auth {
    pub(super) place: String,
    pub(super) user: String,
    pub(super) password: Option<Secret>,
    /// Why the password file was not used.
    pub(super) ignored: Option<String>,
    pub(super) channel_binding: ChannelBinding,
    /// Whether the connection uses TLS.
    pub(super) encrypted: bool,
    /// Hash of the server's certificate, if channel binding is possible.
    pub(super) end_point: Option<Vec<u8>>,
    pub(super) scram: Scram,
    pub(super) require_auth: Option<RequireAuth>,
    /// Whether a password was sent, or both sides completed SCRAM.
    pub(super) is_complete: bool,
    pub(super) sslcertmode: SslCertMode,
    /// The client's certificate, if TLS is used.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
}

/// Progress of SCRAM.
pub(super) enum Scram {
    /// Not requested.
    Unused,
    /// The server has not yet proved that it knows the password.
    Running { exchange: Box<ScramSha256>, bound: bool },
    /// The server has proved that it knows the password.
    Proved { bound: bool },
}

impl Auth {
    /// Handles the body of one authentication request; appends the answer to `out`. `true` when both the server and we
    /// are satisfied.
    pub(super) fn on_request(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<bool, ConnectError> {
        let Some((code, data)) = body.split_first_chunk::<4>() else { return Err(self.damaged()) };
        let code = i32::from_be_bytes(*code);
        if code == 0 {
            self.check_certificate()?;
        }
        self.check_method(code)?;
        if self.channel_binding == ChannelBinding::Require && matches!(code, 3 | 5) {
            return Err(self.in_both_words(
                "the server asks for a password without channel binding",
                "channel binding required but not supported by server's authentication request",
            ));
        }
        match code {
            0 => return self.on_ok(),
            3 => {
                message::password(out, self.password()?.expose());
                self.is_complete = true;
            }
            5 => {
                let salt = data.try_into().map_err(|_| self.damaged())?;
                let hash = md5_hash(self.user.as_bytes(), self.password()?.expose().as_bytes(), salt);
                message::password(out, &hash);
                self.is_complete = true;
            }
            // Repeated exchanges would only cost time.
            10 if !matches!(self.scram, Scram::Unused) => return Err(self.damaged()),
            10 => self.start_scram(data, out)?,
            11 => {
                let Scram::Running { exchange, .. } = &mut self.scram else { return Err(self.damaged()) };
                if let Err(error) = exchange.update(data) {
                    return Err(self.method(&format!("SCRAM failed: {error}")));
                }
                message::sasl_response(out, exchange.message());
            }
            12 => {
                let Scram::Running { exchange, bound } = &mut self.scram else { return Err(self.damaged()) };
                let bound = *bound;
                if let Err(error) = exchange.finish(data) {
                    return Err(self.method(&format!(
                        "the server failed to prove that it knows the password (SCRAM): {error}"
                    )));
                }
                self.scram = Scram::Proved { bound };
                self.is_complete = true;
            }
            7..=9 => return Err(self.method("the server requires Kerberos (GSSAPI), which is not supported")),
            _ => return Err(self.method(&format!("the server requires the unknown method {code}"))),
        }
        Ok(false)
    }

    /// Checks that the client's certificate was sent, if it must be.
    fn check_certificate(&self) -> Result<(), ConnectError> {
        if self.sslcertmode != SslCertMode::Require {
            return Ok(());
        }
        match &self.certificate {
            Some(certificate) if certificate.was_shown() => Ok(()),
            Some(certificate) if certificate.was_asked_for() => Err(self.in_both_words(
                "`sslcertmode=require`, but there is no client certificate: set `sslcert` and `sslkey`",
                "server accepted connection without a valid SSL certificate",
            )),
            _ => Err(self.in_both_words(
                "`sslcertmode=require`, but the server did not ask for a certificate",
                "server did not request an SSL certificate",
            )),
        }
    }

    /// Checks whether `require_auth` allows the server's request, before answering it.
    fn check_method(&self, code: i32) -> Result<(), ConnectError> {
        let Some(list) = &self.require_auth else { return Ok(()) };
        let (is_allowed, asked) = match code {
            0 => (list.allows_none() || self.is_complete, "server did not complete authentication"),
            3 => (list.allows(AuthMethod::Password), "server requested a cleartext password"),
            5 => (list.allows(AuthMethod::Md5), "server requested a hashed password"),
            7 | 8 => (list.allows(AuthMethod::Gss), "server requested GSSAPI authentication"),
            9 => (list.allows(AuthMethod::Sspi), "server requested SSPI authentication"),
            // The mechanism is checked later.
            10..=12 => (
                list.allows(AuthMethod::ScramSha256) || list.allows(AuthMethod::Oauth),
                "server requested SASL authentication",
            ),
            _ => (false, "server requested an unknown authentication type"),
        };
        if is_allowed { Ok(()) } else { Err(self.not_allowed(list, asked)) }
    }

    fn check_mechanism(&self, mechanism: &str, method: AuthMethod) -> Result<(), ConnectError> {
        match &self.require_auth {
            Some(list) if !list.allows(method) => {
                Err(self.not_allowed(list, &format!("server requested {mechanism} authentication")))
            }
            _ => Ok(()),
        }
    }

    fn on_ok(&self) -> Result<bool, ConnectError> {
        match self.scram {
            Scram::Running { .. } => Err(self.method("the server ended SCRAM before proving its identity")),
            Scram::Proved { bound: true } => Ok(true),
            _ if self.channel_binding == ChannelBinding::Require => Err(self.in_both_words(
                "`channel_binding=require`, but the server let us in without it",
                "channel binding required, but server authenticated client without channel binding",
            )),
            _ => Ok(true),
        }
    }

    fn start_scram(&mut self, mechanisms: &[u8], out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let offers = |name: &str| mechanisms.split(|&b| b == 0).any(|offered| offered == name.as_bytes());
        let wanted = self.channel_binding;
        let possible = self.encrypted && wanted != ChannelBinding::Disable;
        let end_point = if possible { self.end_point.clone() } else { None };
        let (mechanism, binding, bound) = match end_point {
            Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, Binding::tls_server_end_point(hash), true)
            }
            _ if wanted == ChannelBinding::Require && !self.encrypted => {
                return Err(self.in_both_words(
                    "`channel_binding=require` needs TLS, and this connection has none",
                    "channel binding required, but SSL not in use",
                ));
            }
            _ if wanted == ChannelBinding::Require => {
                return Err(self.in_both_words(
                    "`channel_binding=require`, but the server (or its certificate) does not support it",
                    "channel binding is required, but server did not offer an authentication method that supports \
                     channel binding",
                ));
            }
            // "y": we support binding but believe that the server does not; one that did offer it detects a man in the
            // middle.
            Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, Binding::unrequested(), false),
            None if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, Binding::unsupported(), false),
            _ if offers(OAUTHBEARER) => {
                self.check_mechanism(OAUTHBEARER, AuthMethod::Oauth)?;
                return Err(self.method("the server requires OAuth, which is not supported"));
            }
            _ => {
                return Err(self.in_both_words(
                    "the server offers no supported SASL mechanism",
                    "none of the server's SASL authentication mechanisms are supported",
                ));
            }
        };
        self.check_mechanism(mechanism, AuthMethod::ScramSha256)?;
        let exchange = Box::new(ScramSha256::new(self.password()?.expose().as_bytes(), binding));
        message::sasl_initial(out, mechanism, exchange.message());
        self.scram = Scram::Running { exchange, bound };
        Ok(())
    }

    fn password(&self) -> Result<&Secret, ConnectError> {
        self.password.as_ref().ok_or_else(|| ConnectError::NoPassword {
            place: self.place.clone(),
            user: self.user.clone(),
            ignored: self.ignored.clone(),
        })
    }

    fn not_allowed(&self, list: &RequireAuth, asked: &str) -> ConnectError {
        let list = list.as_str();
        self.in_both_words(
            &format!("{asked}, which `require_auth={list}` does not allow"),
            &format!("authentication method requirement \"{list}\" failed: {asked}"),
        )
    }

    fn method(&self, reason: &str) -> ConnectError {
        ConnectError::AuthMethod { place: self.place.clone(), reason: reason.to_owned(), libpq_reason: None }
    }

    /// An error with our message and libpq's.
    fn in_both_words(&self, reason: &str, libpq_reason: &str) -> ConnectError {
        ConnectError::AuthMethod {
            place: self.place.clone(),
            reason: reason.to_owned(),
            libpq_reason: Some(libpq_reason.to_owned()),
        }
    }

    fn damaged(&self) -> ConnectError {
        ConnectError::Protocol { place: self.place.clone(), error: ProtocolError::BadBody(b'R') }
    }
}
