//! Values as `SHOW` prints them.

use model::text::units::{Span, size_bytes};

/// Bytes of `128MB`, `16kB`, `0`.
pub(super) fn bytes(text: &str) -> Option<f64> {
    size_bytes(text, 1).map(|bytes| bytes as f64).or_else(|| text.parse().ok())
}

/// Seconds of `5min`, `200ms`, `30`; the last without a unit is in seconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| Some(text.parse::<Span>().ok()?.ms as f64 / 1e3))
}

/// A size for `ALTER SYSTEM`: whole GB or MB.
pub(super) fn size(bytes: f64) -> String {
    const GB: f64 = 1_073_741_824.0;
    if bytes >= 8.0 * GB { format!("{:.0}GB", bytes / GB) } else { format!("{:.0}MB", bytes / 1_048_576.0) }
}

/// What sets a setting that is read again without a restart.
pub(super) fn reload(name: &str, value: &str) -> String {
    format!("alter system set {name} = '{value}'; select pg_reload_conf();")
}

/// What sets a setting that needs a restart.
pub(super) fn restart(name: &str, value: &str) -> String {
    format!("alter system set {name} = '{value}'; and restart the server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_server_prints_them() {
        for (text, expected) in
            [("128MB", Some(134_217_728.0)), ("16kB", Some(16_384.0)), ("-1", Some(-1.0)), ("on", None)]
        {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for (text, expected) in [("5min", Some(300.0)), ("200ms", Some(0.2)), ("0", Some(0.0)), ("off", None)]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!([size(1.5e9), size(17_179_869_184.0)], ["1431MB", "16GB"]);
    }
}
