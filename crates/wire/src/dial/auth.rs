//! The client's side of authentication: clear password, md5, SCRAM-SHA-256 with and without channel binding.
//! Takes requests and gives answers; sends nothing itself.

use super::error::ConnectError;
use crate::conninfo::{ChannelBinding, Secret};
use crate::message;
use crate::scan::ProtocolError;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding as Binding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};

/// One authentication.
pub(super) struct Auth {
    pub(super) place: String,
    pub(super) user: String,
    pub(super) password: Option<Secret>,
    pub(super) channel_binding: ChannelBinding,
    /// True inside TLS.
    pub(super) encrypted: bool,
    /// Hash of the server's certificate, if it can be bound to.
    pub(super) end_point: Option<Vec<u8>>,
    pub(super) scram: Scram,
}

/// How far SCRAM is.
pub(super) enum Scram {
    /// Not asked for.
    Unused,
    /// The server has not proved yet that it knows the password.
    Running { exchange: Box<ScramSha256>, bound: bool },
    /// It has.
    Proved { bound: bool },
}

impl Auth {
    /// Handles the body of one authentication request; appends the answer to `out`. `true` when the server is
    /// satisfied, and so are we.
    pub(super) fn on_request(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<bool, ConnectError> {
        let Some((code, data)) = body.split_first_chunk::<4>() else { return Err(self.damaged()) };
        let code = i32::from_be_bytes(*code);
        if self.channel_binding == ChannelBinding::Require && matches!(code, 3 | 5) {
            return Err(self.method("the server asks for a password that is not bound to the TLS channel"));
        }
        match code {
            0 => return self.on_ok(),
            3 => message::password(out, self.password()?.expose()),
            5 => {
                let salt = data.try_into().map_err(|_| self.damaged())?;
                let hash = md5_hash(self.user.as_bytes(), self.password()?.expose().as_bytes(), salt);
                message::password(out, &hash);
            }
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
                    return Err(
                        self.method(&format!("the server does not know the password either: {error}"))
                    );
                }
                self.scram = Scram::Proved { bound };
            }
            7..=9 => return Err(self.method("the server asks for Kerberos (GSSAPI), which is not supported")),
            _ => return Err(self.method(&format!("the server asks for the unknown method {code}"))),
        }
        Ok(false)
    }

    fn on_ok(&self) -> Result<bool, ConnectError> {
        match self.scram {
            Scram::Running { .. } => Err(self.method("the server ended SCRAM before it proved itself")),
            Scram::Proved { bound: true } => Ok(true),
            _ if self.channel_binding == ChannelBinding::Require => {
                Err(self.method("`channel_binding=require`, but the server let us in without it"))
            }
            _ => Ok(true),
        }
    }

    fn start_scram(&mut self, mechanisms: &[u8], out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let offers = |name: &str| mechanisms.split(|&b| b == 0).any(|offered| offered == name.as_bytes());
        let wanted = self.channel_binding;
        let possible = self.encrypted && wanted != ChannelBinding::Disable;
        let end_point = self.end_point.clone().filter(|_| possible);
        let (mechanism, binding, bound) = match end_point {
            Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, Binding::tls_server_end_point(hash), true)
            }
            _ if wanted == ChannelBinding::Require && !self.encrypted => {
                return Err(self.method("`channel_binding=require` needs TLS, and this connection has none"));
            }
            _ if wanted == ChannelBinding::Require => {
                return Err(
                    self.method("`channel_binding=require`, but the server (or its certificate) cannot")
                );
            }
            // "y": we could bind, you seem not to: a server that did offer it knows of a man in the middle.
            Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, Binding::unrequested(), false),
            None if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, Binding::unsupported(), false),
            _ => return Err(self.method("the server offers no SASL mechanism that is known here")),
        };
        let exchange = Box::new(ScramSha256::new(self.password()?.expose().as_bytes(), binding));
        message::sasl_initial(out, mechanism, exchange.message());
        self.scram = Scram::Running { exchange, bound };
        Ok(())
    }

    fn password(&self) -> Result<&Secret, ConnectError> {
        self.password
            .as_ref()
            .ok_or_else(|| ConnectError::NoPassword { place: self.place.clone(), user: self.user.clone() })
    }

    fn method(&self, reason: &str) -> ConnectError {
        ConnectError::AuthMethod { place: self.place.clone(), reason: reason.to_owned() }
    }

    fn damaged(&self) -> ConnectError {
        ConnectError::Protocol { place: self.place.clone(), error: ProtocolError::BadBody(b'R') }
    }
}
