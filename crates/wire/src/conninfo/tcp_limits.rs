//! When a connection over TCP counts as broken.

/// When a connection over TCP counts as broken, by libpq's keywords. Zero leaves a limit to the kernel, as in libpq; without
/// a value, a default of this crate applies.
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
}
