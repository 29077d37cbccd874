//! The number formats of findings.

pub(crate) use model::text::prose::{percent, plural};

use model::text::prose::grouped;

/// A rate or count of any size with about three digits: `1,234`.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => grouped(&format!("{value:.0}")),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Bytes in binary units, as in reports: `1.50 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    model::text::prose::bytes(value as f64)
}

/// A duration in the largest unit of which there is at least one: `45 s`, `12 min`, `3.5 h`.
pub(crate) fn span(length_ns: u64) -> String {
    match length_ns as f64 / 1e9 {
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A moment of a run in whole seconds; it may lie before the load.
pub(crate) fn moment(t_s: f64) -> String {
    // Just before 0 is not `-0`.
    format!("{:.0} s", t_s.round() + 0.0)
}

/// A moment of a run for what took less than a second.
pub(crate) fn moment_in_tenths(t_s: f64) -> String {
    format!("{:.1} s", (10.0 * t_s).round() / 10.0 + 0.0)
}

/// A number of seconds. Of less than one, tenths: 0 would say that nothing happened.
pub(crate) fn seconds(length_s: f64) -> String {
    match length_s {
        s if s >= 0.95 => format!("{s:.0}"),
        s if s >= 0.05 => format!("{s:.1}"),
        _ => "less than 0.1".to_string(),
    }
}

/// At most `limit` items, and how many are omitted: `12, 13, 14 and 7 more`.
pub(crate) fn list(items: &[String], limit: usize) -> String {
    let shown = items.iter().take(limit).cloned().collect::<Vec<String>>().join(", ");
    match items.len().saturating_sub(limit) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}

/// `p = 0.020`, `p < 0.001`.
pub(crate) fn chance(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_string() } else { format!("p = {p:.3}") }
}

/// Text on one line, truncated to fit a table.
pub(crate) fn excerpt(text: &str) -> String {
    const LIMIT: usize = 160;
    let line = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    if line.chars().count() <= LIMIT {
        return line;
    }
    line.chars().take(LIMIT - 1).chain(['…']).collect()
}

/// Two different texts, each truncated to fit a table, but not before they differ.
pub(crate) fn excerpts(a: &str, b: &str) -> [String; 2] {
    /// Characters that are kept of their common beginning.
    const CONTEXT: usize = 20;
    let whole = [a, b].map(|text| text.split_whitespace().collect::<Vec<&str>>().join(" "));
    let n_alike = whole[0].chars().zip(whole[1].chars()).take_while(|(a, b)| a == b).count();
    let is_cut = whole.iter().any(|text| excerpt(text) != *text);
    let left_out = if is_cut { n_alike.saturating_sub(CONTEXT) } else { 0 };
    whole.map(|text| match left_out {
        0 => excerpt(&text),
        n => excerpt(&['…'].into_iter().chain(text.chars().skip(n)).collect::<String>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_never_odd() {
        assert_eq!((chance(0.0004), chance(0.02)), ("p < 0.001".to_string(), "p = 0.020".to_string()));
        assert_eq!(percent(0.0345), "3.5 %");
        assert_eq!(percent(0.345), "34 %");
        assert_eq!(figure(1234.5), "1,234");
        assert_eq!(figure(-1234567.0), "-1,234,567");
        assert_eq!(figure(999.0), "999");
        assert_eq!(figure(0.0), "0");
        assert_eq!(figure(0.123), "0.12");
        assert_eq!(bytes(1536 << 20), "1.50 GiB");
        assert_eq!([2, 90, 9000].map(|s| span(s * 1_000_000_000)), ["2 s", "2 min", "2.5 h"]);
        assert_eq!([-0.4, 0.4, -1.6].map(moment), ["0 s", "0 s", "-2 s"]);
        assert_eq!([-0.04, 1.26].map(moment_in_tenths), ["0.0 s", "1.3 s"]);
        assert_eq!([0.0, 0.3, 0.97, 4.4].map(seconds), ["less than 0.1", "0.3", "1", "4"]);
        assert_eq!(list(&["1".into(), "2".into(), "3".into()], 2), "1, 2 and 1 more");
        assert_eq!(excerpt("a\n b"), "a b");
        assert_eq!(excerpt(&"é".repeat(500)).chars().count(), 160);
    }

    #[test]
    fn differences_are_never_cut_off() {
        let long = "word ".repeat(50);
        let [a, b] = excerpts(&format!("{long}one"), &format!("{long}two"));
        assert_eq!([a.as_str(), b.as_str()], ["…word word word word one", "…word word word word two"]);
        assert_eq!(excerpts("on", "off"), ["on", "off"]);
        let [a, b] = excerpts(&format!("a{long}"), "b");
        assert_eq!((a.chars().count(), b.as_str()), (160, "b"));
    }
}
