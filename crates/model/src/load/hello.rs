//! How a driver on another machine introduces itself, and how its clock is compared with ours.
//!
//! Whoever starts a driver through a remote shell cannot know what arrives first: login scripts print banners. The
//! parent therefore sends a [`Greeting`] before the order, and takes everything before the [`Hello`] with the same nonce
//! for noise. Afterwards both sides write something at least every second; silence means that the other is gone.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// The first line to a driver on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// A word that nobody else can have printed; the driver repeats it.
    pub nonce: String,
    /// After this many seconds without a line of the parent, the driver cancels its statements and ends.
    pub silence_s: u32,
    /// The server of the load, if its address is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
}

/// The driver's answer to a [`Greeting`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Hello {
    pub nonce: String,
    pub build: Build,
    /// The kernel's name of the machine (uname).
    pub host: String,
    /// Processors that the driver may use.
    pub processors: u32,
    /// The kernel's random number of this boot; equal for processes that share a kernel, and hence a clock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    pub pid: u32,
    /// The kernel's name of the namespace in which `pid` counts (/proc/self/ns/pid): containers of one kernel have others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pid_namespace: String,
    pub clock: ClockState,
    /// The address from which its connections to the server come, if it has a route to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// Which program it is. Drivers of one load are of the same build as their parent: two builds may offer different loads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of pgdyno.
    pub version: String,
    /// SHA-256 of the program's file, hexadecimal.
    pub sha256: String,
    /// Processor architecture, as Rust names it.
    pub architecture: String,
}

/// What the kernel says about its wall clock (adjtimex(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// Whether the clock is synchronised (STA_UNSYNC is not set).
    pub is_synchronised: bool,
    /// Largest error that the kernel assumes, microseconds (maxerror).
    pub error_max_us: u64,
}

/// The driver's answer to a ping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The number of the ping.
    pub id: u64,
    /// When the ping arrived, on the time line of the driver's reports, nanoseconds since the Unix epoch. The driver
    /// reads its wall clock once, when it starts; this time line is then monotonic.
    pub unix_ns: u64,
    /// The driver's wall clock at that moment, nanoseconds since the Unix epoch: it differs if the clock was set.
    pub wall_unix_ns: u64,
}
