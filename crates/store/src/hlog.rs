//! The text of `latency.hlog`: an HdrHistogram interval log with tags, readable by other tools.
//! The histograms themselves pass through as opaque base64.
//!
//! Format: Java `HistogramLogWriter`, log format version 1.3. That writer prints times in milliseconds; we print
//! nanoseconds, so that nothing is rounded, and readers accept any number of decimals. Starts are relative to
//! `StartTime`, which readers recognize by their small values.

use std::fmt::Write;

use anyhow::{Result, bail};
use model::load::interval::HistogramLine;
use model::run::StampedHistogram;

pub(crate) const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Lines before the first histogram. `base_unix_ns` is the start of interval 0.
pub(crate) fn header(base_unix_ns: u64) -> String {
    format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {}.{:09} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        base_unix_ns / NS_PER_S,
        base_unix_ns % NS_PER_S
    )
}

/// Appends the line of one histogram, whose interval began `start_ns` after interval 0.
pub(crate) fn write_line(
    text: &mut String,
    start_ns: u64,
    length_ns: u64,
    histogram: &HistogramLine,
) -> Result<()> {
    let HistogramLine { tag, max_ns, data } = histogram;
    let separates = |c: char| c == ',' || c.is_whitespace();
    if tag.is_empty() || tag.contains(separates) || data.is_empty() || data.contains(separates) {
        bail!("cannot write the histogram with tag `{tag}`: it has an empty field, a comma or a space");
    }
    let _infallible = writeln!(
        text,
        "Tag={tag},{}.{:09},{}.{:09},{}.{:06},{data}",
        start_ns / NS_PER_S,
        start_ns % NS_PER_S,
        length_ns / NS_PER_S,
        length_ns % NS_PER_S,
        max_ns / NS_PER_MS,
        max_ns % NS_PER_MS,
    );
    Ok(())
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HlogLine {
    /// Start of its interval after that of interval 0, nanoseconds.
    pub(crate) start_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) histogram: HistogramLine,
}

impl HlogLine {
    /// Number of its interval, or of the first one of a sum.
    pub(crate) fn t(&self) -> Result<u32, String> {
        let t = u32::try_from((self.start_ns.saturating_add(NS_PER_S / 2)) / NS_PER_S);
        t.map_err(|_| "the start is out of range".to_string())
    }

    /// The line without its length.
    pub(crate) fn stamped(self) -> Result<StampedHistogram, String> {
        Ok(StampedHistogram { t: self.t()?, line: self.histogram })
    }
}

/// The tag of a line; `None` for headers and comments.
pub(crate) fn tag_of(line: &str) -> Option<&str> {
    line.strip_prefix("Tag=")?.split_once(',').map(|(tag, _)| tag)
}

/// Parses one line; `None` for headers and comments.
pub(crate) fn parse_line(line: &str) -> Result<Option<HlogLine>, String> {
    if line.is_empty() || line.starts_with(['#', '"']) {
        return Ok(None);
    }
    let mut fields = line.split(',');
    let mut next = || fields.next();
    let (Some(tag), Some(start), Some(length), Some(max), Some(data), None) =
        (next(), next(), next(), next(), next(), next())
    else {
        return Err(format!("{} fields instead of 5", line.split(',').count()));
    };
    let tag = tag.strip_prefix("Tag=").ok_or("no tag")?;
    let start_ns = decimal(start, 9).ok_or("the start is not a number")?;
    let length_ns = decimal(length, 9).ok_or("the length is not a number")?;
    let max_ns = decimal(max, 6).ok_or("the maximum is not a number")?;
    let histogram = HistogramLine { tag: tag.to_string(), max_ns, data: data.to_string() };
    Ok(Some(HlogLine { start_ns, length_ns, histogram }))
}

/// A decimal number times 10^`digits`, exactly; `None` if it has more decimals or is not a number.
fn decimal(text: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > digits || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction_of =
        |text: &str| text.bytes().fold(0, |number: u64, digit| 10 * number + u64::from(digit - b'0'));
    let missing = 10_u64.pow((digits - fraction.len()) as u32);
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(10_u64.pow(digits as u32))?.checked_add(fraction_of(fraction) * missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn what_is_written_is_read_back_to_the_nanosecond() {
        for (start_ns, length_ns, max_ns, t) in [
            (0, NS_PER_S, 0, 0),
            (3_000_000_000, NS_PER_S, 1, 3),
            (7_000_000_001, 12, 3_600_000_000_000, 7),
            (6_999_999_999, NS_PER_S, 123_456_789, 7),
            (86_400_000_000_000, NS_PER_S, 999_999, 86_400),
        ] {
            let histogram = HistogramLine { tag: "tpcb.service".into(), max_ns, data: "HISTFAAA".into() };
            let mut text = String::new();
            write_line(&mut text, start_ns, length_ns, &histogram).unwrap();
            let line = HlogLine { start_ns, length_ns, histogram };
            assert_eq!(line.t(), Ok(t), "{text}");
            assert_eq!(parse_line(text.trim_end()), Ok(Some(line)), "{text}");
        }
    }

    #[test]
    fn tags_that_would_break_the_line_are_refused() {
        for (tag, data) in [("", "x"), ("a,b", "x"), ("a b", "x"), ("a\n", "x"), ("a", ""), ("a", "x\ny")] {
            let line = HistogramLine { tag: tag.into(), max_ns: 1, data: data.into() };
            assert!(write_line(&mut String::new(), 0, 1, &line).is_err(), "{tag:?} {data:?}");
        }
    }

    #[test]
    fn lines_of_other_programs_are_distinguished() {
        for line in ["", "#[StartTime: 1.0 (seconds since epoch)]", "\"StartTimestamp\",\"x\"", "# free"] {
            assert_eq!(parse_line(line), Ok(None), "{line}");
        }
        for line in [
            "x",
            "Tag=a,1.0,1.0,1.0",
            "a,1.0,1.0,1.0,H",
            "Tag=a,-1.0,1.0,1.0,H",
            "Tag=a,1e3,1.0,1.0,H",
            "Tag=a,99999999999999999999,1.0,1.0,H",
            "Tag=a,1.0,,1.0,H",
            "Tag=a,1.0,1.0,1.0000001,H",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
        let late = parse_line("Tag=a,5000000000,1.0,1.0,H").unwrap().unwrap();
        assert!(late.stamped().unwrap_err().contains("out of range"));
    }

    #[test]
    fn the_log_is_read_by_the_hdrhistogram_library() {
        use base64::Engine;
        use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
        let mut histogram = Histogram::<u64>::new_with_bounds(1_000, 3_600_000_000_000, 3).unwrap();
        histogram.record(2_500_000).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut text = header(1_700_000_000_123_456_789);
        let line = HistogramLine { tag: "tpcb".into(), max_ns: 2_500_000, data: data.clone() };
        write_line(&mut text, 4_000_000_000, NS_PER_S, &line).unwrap();

        let entries: Vec<LogEntry> =
            IntervalLogIterator::new(text.as_bytes()).collect::<Result<_, _>>().expect("a valid log");
        assert!(
            matches!(entries[0], LogEntry::StartTime(t) if t.as_nanos() == 1_700_000_000_123_456_789),
            "{entries:?}"
        );
        let LogEntry::Interval(interval) = &entries[1] else { panic!("{entries:?}") };
        assert_eq!(interval.tag().map(|t| t.as_str()), Some("tpcb"));
        assert_eq!(interval.start_timestamp().as_secs(), 4);
        assert_eq!(interval.duration().as_nanos(), 1_000_000_000);
        assert_eq!(interval.max(), 2.5);
        assert_eq!(interval.encoded_histogram(), data);
    }
}
