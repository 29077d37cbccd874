//! Golden values, which other programs can be held against, and distributions by chi-square and Kolmogorov-Smirnov.

use super::*;

/// Draws that do not depend on anything else.
fn draws() -> Draws {
    Draws { state: 20_260_101 }
}

/// Standard deviations by which chi-square exceeds its mean.
fn excess(counts: &[u64], shares: &[f64]) -> f64 {
    let n: u64 = counts.iter().sum();
    let terms = counts.iter().zip(shares).map(|(count, share)| {
        let expected = share * n as f64;
        (*count as f64 - expected).powi(2) / expected
    });
    let freedom = counts.len() as f64 - 1.0;
    (terms.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

fn assert_distributed(counts: &[u64], shares: &[f64], what: &str) {
    let excess = excess(counts, shares);
    assert!(excess.abs() < 4.0, "{what}: {excess:.1} standard deviations; {counts:?}");
}

/// The largest distance between the empirical distribution and `cumulative`, times the root of n.
fn kolmogorov(mut values: Vec<f64>, cumulative: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = |(at, value): (usize, &f64)| {
        let expected = cumulative(*value);
        (expected - at as f64 / n).abs().max((expected - (at + 1) as f64 / n).abs())
    };
    values.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

fn zipf_shares(n: u64, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-exponent)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

#[test]
fn golden_values_are_those_of_another_implementation() {
    assert_eq!([mix(0), mix(1), mix(1 << 63)], [0, 0x5692_161d_100b_05e5, 0x25c2_6ea5_79ce_a98a]);
    let key = column_key(1, "t", "a");
    assert_eq!(key, 0x6420_6cbd_41aa_7036);
    let cells = [0, 1, 1 << 40].map(|row| cell_state(key, row, None));
    assert_eq!(cells, [0xbcb1_573f_21d8_e07f, 0xdb2e_e231_7e71_5277, 0x22c8_5235_5f74_305e]);
    assert_eq!(cell_state(key, 5, Some(0)), 0x4166_b431_1fd4_3787);
    assert_eq!(cell_state(key, 5, Some(3)), 0x1c02_1d00_147a_1d60);
    assert_eq!(ycsb_fnv64(0), 6_284_781_860_667_377_211);
    assert_eq!(ycsb_fnv64(1), 8_517_097_267_634_966_620);
}

#[test]
fn permutations_are_bijections_of_any_size() {
    for size in [1, 2, 3, 7, 8, 1000, 1023, 1024, 1025] {
        let permutation = Permutation::new(size, 42);
        let mut places: Vec<i64> = (0..size).map(|value| permutation.apply(value)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..size).collect::<Vec<i64>>(), "{size}");
    }
    // From PostgreSQL's own tests of pgbench: all of 0..N, in an order that the seed chooses.
    let small: Vec<i64> = (0..8).map(|value| permute(value, 8, 1)).collect();
    assert_ne!(small, (0..8).collect::<Vec<i64>>());
}

#[test]
fn integers_below_any_number_are_uniform() {
    for n in [2u64, 3, 10, 97] {
        let mut draws = draws();
        let mut counts = vec![0; n as usize];
        (0..100_000).for_each(|_| counts[draws.below(n) as usize] += 1);
        assert_distributed(&counts, &vec![1.0 / n as f64; n as usize], &format!("below {n}"));
    }
    let mut draws = draws();
    let mut counts = [0; 8];
    (0..100_000)
        .for_each(|_| counts[((draws.between(-(1 << 60), (1 << 60) - 1) + (1 << 60)) >> 58) as usize] += 1);
    assert_distributed(&counts, &[0.125; 8], "a large range");
    assert_eq!(draws.between(5, 5), 5);
    draws.between(i64::MIN, i64::MAX);
}

#[test]
fn zipf_is_exact_for_every_exponent() {
    for (n, exponent) in [(10, 0.5), (100, 0.99), (100, 1.0), (50, 2.0), (3, 20.0), (1, 1.0), (2, 0.1)] {
        let zipf = Zipf::new(n, exponent);
        let mut draws = draws();
        let mut counts = vec![0u64; n as usize];
        (0..200_000).for_each(|_| counts[zipf.draw(&mut draws) as usize] += 1);
        // Rare ranks are counted together: chi-square needs some of each.
        let shares = zipf_shares(n, exponent);
        let n_common = shares.iter().filter(|share| **share > 1e-4).count();
        let counts: Vec<u64> =
            counts[..n_common].iter().copied().chain([counts[n_common..].iter().sum()]).collect();
        let shares: Vec<f64> = shares[..n_common]
            .iter()
            .copied()
            .chain([shares[n_common..].iter().sum::<f64>().max(1e-9)])
            .collect();
        if n > 1 && n_common > 1 {
            assert_distributed(&counts, &shares, &format!("zipf({n}, {exponent})"));
        }
    }
}

#[test]
fn zipf_of_many_ranks_has_the_head_it_should() {
    for n in [1u64 << 40, Zipf::N_MAX] {
        let zipf = Zipf::new(n, 0.99);
        let mut draws = draws();
        let n_draws = 100_000;
        let n_first = (0..n_draws).map(|_| zipf.draw(&mut draws)).filter(|rank| *rank == 0).count() as f64;
        // Euler-Maclaurin of the sum of k^-0.99 over 1..=n.
        let total = ((n as f64).powf(0.01) - 1.0) / 0.01 + 0.5772;
        let expected = f64::from(n_draws) / total;
        assert!((n_first - expected).abs() < 4.5 * expected.sqrt(), "{n}: {n_first} instead of {expected}");
    }
    let steep = Zipf::new(1000, 1000.0);
    let mut draws = draws();
    assert!((0..1000).all(|_| steep.draw(&mut draws) == 0));
}

#[test]
fn ycsb_has_its_hottest_records() {
    let zipf = YcsbZipf::new();
    let mut draws = draws();
    let items: Vec<i64> = (0..200_000).map(|_| zipf.item(&mut draws)).collect();
    let share = |item: i64| items.iter().filter(|found| **found == item).count() as f64 / items.len() as f64;
    // 1/ZETAN, and 0.5^0.99 of it.
    assert!((share(0) - 0.037_78).abs() < 0.0015, "{}", share(0));
    assert!((share(1) - 0.037_78 * 0.5035).abs() < 0.0015, "{}", share(1));
    assert!(items.iter().all(|item| (0..=10_000_000_000_000_001).contains(item)));
    assert!((0..1000).all(|_| (0..1000).contains(&zipf.draw(&mut draws, 1000))));
}

#[test]
fn real_numbers_have_their_distributions() {
    let mut draws = draws();
    let values: Vec<f64> = (0..20_000).map(|_| unit(&mut draws)).collect();
    // 1.95 is exceeded once in a thousand.
    assert!(kolmogorov(values, |x| x) < 1.95);
    let values: Vec<f64> = (0..20_000).map(|_| exponential(&mut draws, 3.0)).collect();
    assert!(kolmogorov(values, |x| 1.0 - (-x / 3.0).exp()) < 1.95);
    let normal_cumulative = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    let shape = Normal { mean: 10.0, deviation: 2.0, low: 8.0, high: 14.0 };
    let values: Vec<f64> = (0..20_000).filter_map(|_| normal(&mut draws, &shape)).collect();
    assert_eq!(values.len(), 20_000);
    let low = normal_cumulative(-1.0);
    let all = normal_cumulative(2.0) - low;
    assert!(kolmogorov(values, |x| (normal_cumulative((x - 10.0) / 2.0) - low) / all) < 1.95);
    let values: Vec<f64> = (0..20_000).map(|_| normal_pair(&mut draws).1).collect();
    assert!(kolmogorov(values, normal_cumulative) < 1.95);
    assert_eq!(normal(&mut draws, &Normal { mean: 0.0, deviation: 1.0, low: 50.0, high: 60.0 }), None);
}

#[test]
fn special_hits_the_middle_with_three_of_four_draws_as_sysbench_does() {
    let mut draws = draws();
    // The first and the last value that sysbench 1.0.20 hits often, and how often compared with those between.
    let counted = [
        (400, (199, 0.25), (203, 0.5)),
        (1000, (498, 0.75), (506, 0.5)),
        (10_000, (4975, 0.25), (5051, 0.5)),
    ];
    for (n, first, last) in counted {
        let values: Vec<i64> = (0..400_000).map(|_| special(&mut draws, 1, n)).collect();
        assert!(values.iter().all(|value| (1..=n).contains(value)));
        let count = |value: i64| values.iter().filter(|one| **one == value).count() as f64 / 400_000.0;
        // Of the other quarter, with a deviation of 1/12 of the range, some are there, too.
        let others = 0.25 * 12.0 / (n as f64 * 2.506_6);
        let full = 0.75 / (0.75 * (n as f64 / 100.0 + 1.0));
        for (value, share) in
            [first, last, (first.0 + 1, 1.0), (last.0 - 1, 1.0), (first.0 - 1, 0.0), (last.0 + 1, 0.0)]
        {
            let found = (count(value) - others) / full;
            assert!((found - share).abs() < 0.1, "{n}: {value} {found} {share}");
        }
    }
    assert_eq!(special(&mut draws, 7, 7), 7);
    assert!((1..=3).contains(&special(&mut draws, 1, 3)));
}

#[test]
fn cells_of_neighbouring_rows_columns_and_seeds_are_independent() {
    let first = column_key(1, "t", "a");
    let pairs: [(&str, u64, u64, u64); 4] = [
        ("rows", first, first, 1),
        ("columns", first, column_key(1, "t", "b"), 0),
        ("seeds", first, column_key(2, "t", "a"), 0),
        ("tables", first, column_key(1, "t2", "a"), 0),
    ];
    for (what, left, right, step) in pairs {
        let mut counts = [0u64; 64];
        for row in 0..50_000 {
            let a = Draws { state: cell_state(left, row, None) }.below(8);
            let b = Draws { state: cell_state(right, row + step, None) }.below(8);
            counts[(a * 8 + b) as usize] += 1;
        }
        assert_distributed(&counts, &[1.0 / 64.0; 64], what);
    }
    let mut counts = [0u64; 64];
    for row in 0..50_000 {
        let line = |line: u64| Draws { state: cell_state(first, row, Some(line)) }.below(8);
        counts[(line(0) * 8 + line(1)) as usize] += 1;
    }
    assert_distributed(&counts, &[1.0 / 64.0; 64], "lines");
}
