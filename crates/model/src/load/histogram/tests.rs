//! What HdrHistogram says of the same values is the standard.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::*;

fn library(values: &[u64], low: u64, digits: u8) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(low, HISTOGRAM_MAX_NS, digits).unwrap();
    histogram.auto(true);
    values.iter().for_each(|value| histogram.record(*value).unwrap());
    histogram
}

fn line(histogram: &Histogram<u64>) -> HistogramLine {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
    HistogramLine { tag: "x".to_string(), max_ns: 0, data: STANDARD.encode(bytes) }
}

/// Values over many doublings, without order.
fn values(n: u64) -> Vec<u64> {
    (1..=n).map(|i| (i * 2_654_435_761 % 1_000_003) << (i % 23)).collect()
}

#[test]
fn sums_agree_with_the_library() {
    for n in [1, 2, 999, 20_000] {
        let all = values(n);
        let expected = library(&all, HISTOGRAM_MIN_NS, HISTOGRAM_DIGITS);
        let mut sum = HistogramSum::new();
        let mut decoder = Decoder::default();
        for part in all.chunks(700) {
            let part = line(&library(part, HISTOGRAM_MIN_NS, HISTOGRAM_DIGITS));
            sum.add_decoded(&decoder.decode(&part).unwrap());
        }
        let check = |sum: &HistogramSum| {
            assert_eq!((sum.n(), sum.largest_ns()), (expected.len(), expected.max()));
            for q in [0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                assert_eq!(sum.quantile_ns(q), Some(expected.value_at_quantile(q)), "{q} of {n}");
            }
            assert!((sum.mean_ns() / expected.mean() - 1.0).abs() < 1e-9);
            let bytes = STANDARD.decode(sum.line("x").data).unwrap();
            let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            assert_eq!(read, expected, "the library reads what we write");
            assert_eq!(HistogramSum::read(&sum.line("x")).unwrap().counts.cells(), sum.counts.cells());
        };
        check(&sum);
        sum.pack();
        check(&sum);
        let mut twice = sum.clone();
        twice.add(&sum);
        assert_eq!((twice.n(), twice.quantile_ns(0.5)), (2 * sum.n(), sum.quantile_ns(0.5)));
    }
}

#[test]
fn histograms_of_other_bounds_are_read() {
    let all = values(5000);
    for (low, digits) in [(1000, 3), (1, 2), (1, 4)] {
        let foreign = library(&all, low, digits);
        let sum = HistogramSum::read(&line(&foreign)).unwrap();
        let (found, expected) = (sum.quantile_ns(0.5).unwrap() as f64, foreign.value_at_quantile(0.5) as f64);
        assert_eq!(sum.n(), 5000);
        assert!((found / expected - 1.0).abs() < 2e-3, "{found} for {expected}");
    }
}

#[test]
fn damaged_histograms_are_refused() {
    let good = line(&library(&values(50), HISTOGRAM_MIN_NS, HISTOGRAM_DIGITS));
    for data in ["", "!", "AAAA", &good.data[..good.data.len() / 2], &good.data[4..]] {
        assert!(
            HistogramSum::read(&HistogramLine { data: data.to_string(), ..good.clone() }).is_err(),
            "{data}"
        );
    }
}

#[test]
fn a_decoder_that_met_damage_reads_on() {
    let one = line(&library(&values(50), HISTOGRAM_MIN_NS, HISTOGRAM_DIGITS));
    let other = line(&library(&values(70), HISTOGRAM_MIN_NS, 2));
    let damaged = HistogramLine { data: one.data[..40].to_string(), ..one.clone() };
    let mut decoder = Decoder::default();
    let lines = [&one, &one, &damaged, &damaged, &one, &other, &other, &damaged, &other, &one];
    let found = lines.map(|line| decoder.decode(line).ok().map(|one| one.n()));
    let (one, other) = (Some(50), Some(70));
    assert_eq!(found, [one, one, None, None, one, other, other, None, other, one]);
}

#[test]
fn several_quantiles_are_those_of_each() {
    let mut sum = HistogramSum::new();
    assert_eq!(sum.quantiles_ns([0.5]), None);
    values(3000).into_iter().for_each(|value| sum.record(value));
    let each = [0.1, 0.5, 0.5, 0.999].map(|q| sum.quantile_ns(q).unwrap());
    assert_eq!(sum.quantiles_ns([0.1, 0.5, 0.5, 0.999]), Some(each));
}
