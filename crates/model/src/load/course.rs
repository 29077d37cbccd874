//! Which ends of a run's window are determined while its load runs, and the resulting window.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::load::Window;
use crate::text::units::{Span, serde_by_text};
use crate::text::word_enum::words;

/// Length of the ramp-up, as an experiment file gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampUp {
    /// A fixed time.
    For(Span),
    /// Until the load is steady.
    Auto,
}

impl FromStr for RampUp {
    type Err = String;

    fn from_str(text: &str) -> Result<RampUp, String> {
        match text.trim() {
            "auto" => Ok(RampUp::Auto),
            text => Ok(RampUp::For(text.parse().map_err(|e: String| format!("{e}; or \"auto\""))?)),
        }
    }
}

impl fmt::Display for RampUp {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RampUp::For(span) => span.fmt(f),
            RampUp::Auto => f.write_str("auto"),
        }
    }
}

serde_by_text!(
    RampUp,
    "a span of time such as \"30s\", or \"auto\"",
    |n| Err(format!("{n} needs a unit: write \"{n}s\" or \"{n}min\"")),
    |x| Err(format!("{x} needs a unit: write \"{x}s\"")),
    |_| Err("expected a span of time such as \"30s\", or \"auto\"".into())
);
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// Which ends of a case's window are determined while the load runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapt {
    /// The ramp-up ends when the load is steady; the window has its longest permitted length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ramp_up: bool,
    /// Seconds by which the measurement window may grow if the load in it was not steady.
    #[serde(default)]
    pub extend_s: u32,
}

impl Adapt {
    /// Whether the window is fixed.
    pub fn is_none(&self) -> bool {
        *self == Adapt::default()
    }

    /// The longest possible window.
    pub fn longest(self, window: Window) -> Window {
        Window { measure_s: window.measure_s.saturating_add(self.extend_s), ..window }
    }
}

words! {
    /// Why a ramp-up of variable length ended.
    RampUpEnd, "an end of a ramp-up" {
        /// The load had become steady.
        #[default]
        Steady = "steady",
        /// The load was not steady at the longest permitted length.
        Bound = "bound",
    }
}

/// The resulting window of a load whose ends were determined while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadCourse {
    /// The resulting window. It was judged by the intervals of the seconds before.
    pub window: Window,
    /// Why the ramp-up ended; `None` if its length was fixed, or if the load ended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up_end: Option<RampUpEnd>,
    /// Seconds by which the measurement window grew.
    #[serde(default)]
    pub extended_s: u32,
}
