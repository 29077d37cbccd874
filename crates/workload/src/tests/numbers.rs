//! Generators, streams, and numbers as text.

use crate::random::{self, Prng};
use crate::{Seeds, number};

#[test]
fn the_generator_is_xoroshiro_seeded_by_splitmix() {
    // splitmix64 of 0, from its authors' reference code: the two words of the state.
    let mut prng = Prng::seed(0);
    let (s0, s1) = (0xE220_A839_7B1D_CDAFu64, 0x6E78_9E6A_A1B9_65F4u64);
    let first = s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
    assert_eq!(prng.uint64(), first);
    let sx = s0 ^ s1;
    let second_s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
    assert_eq!(prng.uint64(), second_s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9));
}

#[test]
fn ranges_are_kept_even_at_their_limits() {
    let mut prng = Prng::seed(7);
    let check = |lo: u64, hi: u64, prng: &mut Prng| {
        for _ in 0..1000 {
            let drawn = prng.uint64_range(lo, hi);
            assert!((lo..=hi.max(lo)).contains(&drawn), "{lo}..={hi} gave {drawn}");
        }
    };
    for (lo, hi) in [(0, 1), (5, 5), (9, 3), (0, u64::MAX), (u64::MAX - 1, u64::MAX), (1, 100_000)] {
        check(lo, hi, &mut prng);
    }
    for _ in 0..1000 {
        assert!((i64::MIN..0).contains(&prng.int64_range(i64::MIN, -1)));
        assert!((0.0..1.0).contains(&prng.double()));
    }
}

#[test]
fn an_empty_range_draws_nothing() {
    let mut prng = Prng::seed(7);
    let before = prng.clone();
    assert_eq!(prng.uint64_range(5, 5), 5);
    assert_eq!(prng, before);
}

#[test]
fn every_distribution_stays_in_its_range() {
    let mut prng = Prng::seed(11);
    for _ in 0..20_000 {
        assert!((1..=3).contains(&random::random_exponential(&mut prng, 1, 3, 0.1)));
        assert!((-2..=2).contains(&random::random_gaussian(&mut prng, -2, 2, 2.0)));
        assert!((10..=20).contains(&random::random_zipfian(&mut prng, 10, 20, 1.01)));
    }
}

#[test]
fn a_permutation_hits_every_place_once() {
    for size in [1i64, 2, 3, 4, 5, 7, 8, 9, 100, 1024, 1025] {
        for seed in [0, 1, -1, i64::MAX] {
            let mut places: Vec<i64> = (0..size).map(|value| random::permute(value, size, seed)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>(), "size {size} seed {seed}");
        }
    }
}

#[test]
fn poisson_gaps_have_the_mean_asked_for() {
    let mut prng = Prng::seed(3);
    let n = 200_000u32;
    let mean_ns = 50_000.0;
    let sum: u64 = (0..n).map(|_| random::poisson_gap_ns(&mut prng, mean_ns)).sum();
    let mean = sum as f64 / f64::from(n);
    // The standard error of the mean is mean / sqrt(n) = 0.22 %; five of them are allowed.
    assert!((mean / mean_ns - 1.0).abs() < 0.0112, "{mean}");
}

#[test]
fn streams_come_in_the_order_of_pgbench() {
    let mut base = Prng::seed(42);
    let draws: Vec<u64> = (0..9).map(|_| base.uint64()).collect();
    let seeds = Seeds::derive(42, 2, 2);
    assert_eq!(seeds.client, [Prng::seed(draws[0]), Prng::seed(draws[1])]);
    assert_eq!(seeds.default_seed, draws[2]);
    assert_eq!(seeds.thread[0].choose, Prng::seed(draws[3]));
    assert_eq!(seeds.thread[0].throttle, Prng::seed(draws[4]));
    assert_eq!(seeds.thread[0].sample, Prng::seed(draws[5]));
    assert_eq!(seeds.thread[1].sample, Prng::seed(draws[8]));
    let given = Seeds::derive_with(42, 2, 2, Some(7));
    assert_eq!(given.default_seed, 7);
    assert_eq!(given.thread[0].choose, Prng::seed(draws[2]));
}

#[test]
fn integers_are_written_in_full() {
    let mut values = vec![0, 1, 9, 10, 99, 100, 101, 999, 1000, -1, -10, i64::MAX, i64::MIN];
    let mut prng = Prng::seed(5);
    values.extend((0..2000).map(|n| prng.uint64() as i64 >> (n % 64)));
    for value in values {
        let mut out = b"x".to_vec();
        number::write_int(&mut out, value);
        assert_eq!(out, format!("x{value}").into_bytes());
    }
}

#[test]
fn doubles_are_written_as_percent_15g() {
    let check = |value: f64, wanted: &str| assert_eq!(number::double_to_string(value), wanted);
    check(0.0, "0");
    check(-0.0, "-0");
    check(1.0, "1");
    check(-2.5, "-2.5");
    check(0.1 + 0.2, "0.3");
    check(1.0 / 3.0, "0.333333333333333");
    check(100_000.0, "100000");
    check(123_456_789_012_345.0, "123456789012345");
    check(1e14, "100000000000000");
    check(1e15, "1e+15");
    check(999_999_999_999_999.9, "1e+15");
    check(0.0001, "0.0001");
    check(0.00012345, "0.00012345");
    check(0.00001, "1e-05");
    check(-1.5e-7, "-1.5e-07");
    check(1e100, "1e+100");
    check(f64::MAX, "1.79769313486232e+308");
    check(f64::MIN_POSITIVE, "2.2250738585072e-308");
    check(f64::NAN, "NaN");
    check(f64::INFINITY, "Infinity");
    check(f64::NEG_INFINITY, "-Infinity");
}

#[test]
fn hexadecimal_numbers_are_read_as_strtod_reads_them() {
    let check = |text: &str, expected| assert_eq!(number::leading_hex(text), expected, "{text}");
    check("0x10", Some((16.0, 4)));
    check("-0X.8", Some((-0.5, 5)));
    check("+0x1.8p+3ms", Some((12.0, 9)));
    check("0xfp-1", Some((7.5, 6)));
    check("0x1p", Some((1.0, 3)));
    check("0x2p-", Some((2.0, 3)));
    check("0x1e5", Some((485.0, 5)));
    for text in ["0x", "0x.", "0xg", "10", "x10", ""] {
        check(text, None);
    }
    assert_eq!(number::parse_double(" 0x1p-1"), Some(0.5));
    for text in ["0x10g", "0x1p5000", "0x"] {
        assert_eq!(number::parse_double(text), None, "{text}");
    }
}
