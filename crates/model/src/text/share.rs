//! A share of a whole, as people write it: `1%`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::text::units::serde_by_text;

/// A share above 0, up to 1 (100 %).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// One per cent.
    pub const PERCENT: Share = Share(0.01);

    /// The share as a number from 0 to 1.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    /// Reads `1%`, `0.5 %` or `0.01`.
    fn from_str(text: &str) -> Result<Share, String> {
        let number = text.trim();
        let (digits, unit) = number.strip_suffix('%').map_or((number, 1.0), |rest| (rest.trim(), 100.0));
        match digits.parse::<f64>().map(|value| value / unit) {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(Share(share)),
            _ => Err(format!("`{text}` is not a share above 0 and up to 100 % (example: \"1%\")")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // What multiplying by 100 adds to the last digits is not part of the share.
        let percent = (self.0 * 1e10).round() / 1e8;
        write!(f, "{percent}%")
    }
}

serde_by_text!(Share, "a share such as \"1%\"", |n| n.to_string().parse(), |x| x.to_string().parse(), |_| {
    Err("expected a share such as \"1%\"".into())
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_are_written() {
        for (text, value, written) in
            [("1%", 0.01, "1%"), ("0.5 %", 0.005, "0.5%"), ("0.07", 0.07, "7%"), ("100%", 1.0, "100%")]
        {
            let share: Share = text.parse().unwrap();
            assert_eq!((share.value(), share.to_string().as_str()), (value, written), "{text}");
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        for text in ["", "0", "0%", "101%", "-1%", "2", "NaN", "one"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
