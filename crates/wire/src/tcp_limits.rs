//! When a connection over TCP counts as broken.

use std::net::TcpStream;

use nix::sys::socket::{setsockopt, sockopt};

/// A TCP connection breaks after this time of unacknowledged data or silence of its peer if `tcp_user_timeout` is not
/// set: long enough to see and report a stall, short enough to notice a dead host.
const USER_TIMEOUT_MS_DEFAULT: u32 = 30_000;
/// Idle time before the first keepalive probe, and the time between probes.
const KEEPALIVE_IDLE_S_DEFAULT: u32 = 15;
const KEEPALIVE_INTERVAL_S_DEFAULT: u32 = 5;

/// When a connection over TCP counts as broken, by libpq's keywords. Zero leaves a limit to the kernel, as in libpq; without
/// a value, one of this crate applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpLimits {
    /// `keepalives=0`: an idle connection is not probed.
    pub has_no_keepalives: bool,
    /// Idle time before the first probe (`keepalives_idle`).
    pub keepalives_idle_s: Option<u32>,
    /// Time between probes (`keepalives_interval`).
    pub keepalives_interval_s: Option<u32>,
    /// Probes without an answer that break the connection (`keepalives_count`); the kernel's without a value.
    pub keepalives_count: Option<u32>,
    /// Time of unacknowledged data that breaks it (`tcp_user_timeout`).
    pub user_timeout_ms: Option<u32>,
}

impl TcpLimits {
    /// The same with libpq's defaults: limits without a value are the kernel's.
    #[must_use]
    pub fn or_of_kernel(self) -> TcpLimits {
        let or_of_kernel = |limit: Option<u32>| limit.or(Some(0));
        TcpLimits {
            keepalives_idle_s: or_of_kernel(self.keepalives_idle_s),
            keepalives_interval_s: or_of_kernel(self.keepalives_interval_s),
            user_timeout_ms: or_of_kernel(self.user_timeout_ms),
            ..self
        }
    }

    pub(crate) fn apply(&self, stream: &TcpStream) -> nix::Result<()> {
        let limit = |given: Option<u32>, default| Some(given.unwrap_or(default)).filter(|limit| *limit > 0);
        if let Some(ms) = limit(self.user_timeout_ms, USER_TIMEOUT_MS_DEFAULT) {
            setsockopt(stream, sockopt::TcpUserTimeout, &ms)?;
        }
        if self.has_no_keepalives {
            return Ok(());
        }
        setsockopt(stream, sockopt::KeepAlive, &true)?;
        if let Some(s) = limit(self.keepalives_idle_s, KEEPALIVE_IDLE_S_DEFAULT) {
            setsockopt(stream, sockopt::TcpKeepIdle, &s)?;
        }
        if let Some(s) = limit(self.keepalives_interval_s, KEEPALIVE_INTERVAL_S_DEFAULT) {
            setsockopt(stream, sockopt::TcpKeepInterval, &s)?;
        }
        if let Some(n) = limit(self.keepalives_count, 0) {
            setsockopt(stream, sockopt::TcpKeepCount, &n)?;
        }
        Ok(())
    }
}
