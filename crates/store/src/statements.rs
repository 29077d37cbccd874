//! The histograms of statements. There are more of them than of anything else, and a report needs no more than their sum over the
//! measurement: of a completed run, each second's are kept in a file of their own, and the log has the sums.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use model::experiment::plan::RunState;
use model::load::histogram::{Decoder, HistogramSum};
use model::load::interval::{MEASURED, is_of_statement};
use model::run::RunRecord;

use crate::hlog::{self, HlogLine};
use crate::{names, records};

/// A statement over the measurement.
#[derive(Default)]
struct Sum {
    histogram: HistogramSum,
    /// Start of the first second that counts and end of the last one after the start of interval 0, nanoseconds; `None` if the
    /// statement ran only outside the measurement.
    span_ns: Option<(u64, u64)>,
}

/// Replaces `latency.hlog` in the directory of a completed run by the two compressed files, one of which is complete at any time.
/// Returns `false`, and changes nothing, if the run did not complete, has no statements, or searched for a rate, whose seconds only
/// the analysis selects.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn split(dir: &Path, record: &RunRecord) -> io::Result<bool> {
    let log = dir.join(names::LATENCY);
    if record.state != RunState::Completed || record.search.is_some() {
        return Ok(false);
    }
    // What cannot be added up stays as it is.
    let Ok(sums) = add_up(&log, record)? else { return Ok(false) };
    if sums.is_empty() {
        return Ok(false);
    }
    let copy = |packed: &mut dyn Write, is_statements: bool| {
        each_line(&log, &mut |line| match hlog::tag_of(line) {
            Some(tag) if is_of_statement(tag) != is_statements => Ok(()),
            _ => writeln!(packed, "{line}"),
        })
    };
    records::write_compressed(&dir.join(names::STATEMENTS_ZST), |packed| copy(packed, true))?;
    records::write_compressed(&dir.join(names::LATENCY_ZST), |packed| {
        copy(packed, false)?;
        packed.write_all(lines_of(&sums)?.as_bytes())
    })?;
    fs::remove_file(&log)?;
    Ok(true)
}

/// The sum of each statement over the seconds that count, by tag; the reason if a histogram is unreadable.
fn add_up(log: &Path, record: &RunRecord) -> io::Result<Result<BTreeMap<String, Sum>, String>> {
    let (mut sums, mut decoder) = (BTreeMap::<String, Sum>::new(), Decoder::default());
    let mut unreadable = None;
    each_line(log, &mut |text| {
        if !hlog::tag_of(text).is_some_and(is_of_statement) {
            return Ok(());
        }
        let Ok(Some(line)) = hlog::parse_line(text) else { return Ok(()) };
        let HlogLine { start_ns, length_ns, histogram } = &line;
        // Each statement that ran has a sum, also an empty one: the report takes what has none for lost.
        let sum = sums.entry(histogram.tag.clone()).or_default();
        if !line.t().is_ok_and(|t| record.measures(t, *length_ns)) {
            return Ok(());
        }
        match decoder.decode(histogram) {
            Ok(decoded) => {
                sum.histogram.add_decoded(&decoded);
                let (from_ns, to_ns) = sum.span_ns.unwrap_or((*start_ns, 0));
                sum.span_ns = Some((from_ns.min(*start_ns), to_ns.max(start_ns.saturating_add(*length_ns))));
            }
            Err(reason) => unreadable = Some(reason),
        }
        Ok(())
    })?;
    Ok(unreadable.map_or(Ok(sums), Err))
}

fn lines_of(sums: &BTreeMap<String, Sum>) -> io::Result<String> {
    let mut text = String::new();
    for (tag, sum) in sums {
        let histogram = sum.histogram.line(&format!("{tag}{MEASURED}"));
        let (from_ns, to_ns) = sum.span_ns.unwrap_or_default();
        hlog::write_line(&mut text, from_ns, to_ns - from_ns, &histogram).map_err(io::Error::other)?;
    }
    Ok(text)
}

/// Passes each line of a log, which pgdyno wrote.
fn each_line(log: &Path, with: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    for line in BufReader::new(files::open(log)?).lines() {
        with(&line?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use model::load::Window;
    use model::load::capacity::SearchRecord;
    use model::load::interval::HistogramLine;

    use super::*;
    use crate::{ExperimentDir, load_experiment, sample};

    fn unpacked(path: &Path) -> String {
        let mut text = String::new();
        zstd::Decoder::new(fs::File::open(path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn line(tag: &str, values_ns: &[u64]) -> HistogramLine {
        let mut sum = HistogramSum::new();
        values_ns.iter().for_each(|ns| sum.record(*ns));
        HistogramLine { max_ns: values_ns.iter().copied().max().unwrap_or(0), ..sum.line(tag) }
    }

    /// A run of five seconds, the second to the fourth of which count, in an experiment.
    fn run_of(change: impl Fn(&mut RunRecord), second: impl Fn(u32) -> HistogramLine) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let dir = ExperimentDir::create(&place.path().join("out"), &sample::plan(), "").unwrap();
        let writer = dir.begin_run(1).unwrap();
        let mut record = sample::record(1);
        record.case.window = Window { ramp_up_s: 1, measure_s: 3, grace_s: 1 };
        change(&mut record);
        for t in 0..5 {
            let interval = sample::interval(t);
            let lines = [line("tpcb", &[7, 9]), second(t), line("tpcb.lag", &[1])];
            writer.histograms(t, interval.start_unix_ns, interval.length_ns, &lines).unwrap();
        }
        writer.finish(&record).unwrap();
        writer.write_record(&record).unwrap();
        place
    }

    #[test]
    fn a_log_has_the_sums_of_statements_and_another_one_their_seconds() {
        let place = run_of(|_| {}, |t| line("tpcb.12", &[u64::from(t) * 1000 + 1, 5]));
        let dir = place.path().join("out/runs/0001");
        let (log, statements) =
            (unpacked(&dir.join(names::LATENCY_ZST)), unpacked(&dir.join(names::STATEMENTS_ZST)));
        assert!(!dir.join(names::LATENCY).exists());
        for text in [&log, &statements] {
            assert!(text.starts_with("#[Histogram log format version 1.3]\n#[StartTime"), "{text}");
        }
        assert_eq!(log.matches("Tag=tpcb,").count(), 5);
        assert_eq!(log.matches("Tag=tpcb.12,").count(), 0);
        assert_eq!(statements.matches("Tag=tpcb.12,").count(), 5);
        assert_eq!(statements.matches("Tag=").count(), 5);
        assert!(log.contains("Tag=tpcb.12.measured,1.000000000,3.000000000,0.003001,"), "{log}");

        let run = &load_experiment(&place.path().join("out")).unwrap().runs[0];
        let found = run.histograms.iter().find(|one| one.line.tag == "tpcb.12.measured").unwrap();
        let sum = HistogramSum::read(&found.line).unwrap();
        assert_eq!((found.t, sum.n(), sum.largest_ns()), (1, 6, 3001));
        assert_eq!(sum.quantile_ns(0.5), Some(5));
        assert_eq!(run.histograms.len(), 11);
        assert_eq!(run.damage, Vec::<String>::new());
    }

    #[test]
    fn a_statement_outside_the_measurement_has_an_empty_sum() {
        let place = run_of(|_| {}, |t| line(if t == 0 { "tpcb.1" } else { "tpcb.0" }, &[3]));
        let run = &load_experiment(&place.path().join("out")).unwrap().runs[0];
        let sum_of = |tag: &str| {
            let found = run.histograms.iter().find(|one| one.line.tag == tag).unwrap();
            HistogramSum::read(&found.line).unwrap().n()
        };
        assert_eq!((sum_of("tpcb.0.measured"), sum_of("tpcb.1.measured")), (3, 0));
    }

    fn search() -> SearchRecord {
        SearchRecord {
            target: "p99 <= 10ms".parse().unwrap(),
            ceiling_per_s: 1.0,
            probe_s: 1,
            probes: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_cannot_be_added_up_keeps_one_log() {
        let statement = |_| line("tpcb.0", &[3]);
        let damaged = |_| HistogramLine { data: "HISTFAAA".into(), ..line("tpcb.0", &[3]) };
        let none = |_| line("tpcb.service", &[3]);
        let places = [
            run_of(|record| record.state = RunState::Partial, statement),
            run_of(|record| record.search = Some(search()), statement),
            run_of(|_| {}, damaged),
            run_of(|_| {}, none),
        ];
        for place in places {
            let dir = place.path().join("out/runs/0001");
            assert!(!dir.join(names::STATEMENTS_ZST).exists());
            assert_eq!(unpacked(&dir.join(names::LATENCY_ZST)).matches("Tag=").count(), 15);
        }
    }
}
