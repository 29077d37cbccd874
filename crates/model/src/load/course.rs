//! Which ends of a run's window are found while its load runs, and where they then were.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::load::Window;
use crate::text::units::{Span, serde_by_text};
use crate::text::word_enum::words;

/// How long the ramp-up is, as an experiment asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampUp {
    /// This long.
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

/// Which ends of a case's window are found while the load runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapt {
    /// The ramp-up ends when the load is steady; the window has the longest that it may take.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ramp_up: bool,
    /// Seconds by which the measure may grow when the load was not steady in it.
    #[serde(default)]
    pub extend_s: u32,
}

impl Adapt {
    /// Whether the window stays as it is.
    pub fn is_none(&self) -> bool {
        *self == Adapt::default()
    }

    /// The longest that a window may become.
    pub fn longest(self, window: Window) -> Window {
        Window { measure_s: window.measure_s.saturating_add(self.extend_s), ..window }
    }
}

words! {
    /// Why a ramp-up of no fixed length ended.
    RampUpEnd, "an end of a ramp-up" {
        /// The load had become steady.
        #[default]
        Steady = "steady",
        /// It had not, and waited no longer.
        Bound = "bound",
    }
}

/// The window of a load as it became, where its ends were found while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// What counted. The values by which it was judged are the intervals of the seconds before.
    pub window: Window,
    /// Why the ramp-up ended; `None` when its length was given, and when the load ended before it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up_end: Option<RampUpEnd>,
    /// Seconds by which the measure grew.
    #[serde(default)]
    pub extended_s: u32,
}
