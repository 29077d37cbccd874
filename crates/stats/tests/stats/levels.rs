//! Several levels in randomized blocks, in the worlds of the simulation of comparisons: how often equal levels are
//! called different, and which differences are found.

use crate::simulation::{Runs, WORLDS, World};
use stats::{LevelRuns, compare_levels};

const EXPERIMENTS: u64 = 1000;

/// Runs of levels that lie `effects` above the first, each block in its own random order.
fn blocks(world: World, seed: u64, effects: &[f64], n_blocks: usize) -> Vec<LevelRuns> {
    let mut runs = Runs::new(world, seed);
    let mut levels = vec![Vec::new(); effects.len()];
    for _ in 0..n_blocks {
        let mut order: Vec<usize> = (0..effects.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, runs.random.index(i + 1));
        }
        for level in order {
            levels[level].push(Some(runs.next() + effects[level]));
        }
    }
    levels
}

/// The share of experiments in which `is_found` is true of the pairs of a single group.
fn share(
    world: World,
    effects: &[f64],
    n_blocks: usize,
    is_found: impl Fn(&[stats::LevelPair]) -> bool,
) -> f64 {
    let found = |seed: &u64| {
        let compared = compare_levels(&[blocks(world, *seed, effects, n_blocks)]);
        is_found(&compared[0])
    };
    (0..EXPERIMENTS).filter(found).count() as f64 / EXPERIMENTS as f64
}

#[test]
fn equal_levels_are_rarely_ranked_in_any_world() {
    for world in WORLDS {
        for (n_levels, n_blocks) in
            [(2, 2), (2, 3), (2, 6), (3, 2), (3, 3), (3, 6), (3, 10), (5, 3), (9, 3), (9, 6)]
        {
            let wrong =
                share(world, &vec![0.0; n_levels], n_blocks, |pairs| pairs.iter().any(|p| p.is_different()));
            assert!(wrong <= 0.065, "{}, {n_levels} levels, {n_blocks} blocks: {wrong}", world.name);
        }
    }
}

#[test]
fn one_clear_level_is_found_with_three_blocks() {
    let check = |name: &str, effects: &[f64], n_blocks: usize, least: f64| {
        let world = *WORLDS.iter().find(|world| world.name == name).unwrap();
        let last = effects.len() - 1;
        let of_last = |pairs: &[stats::LevelPair]| {
            pairs
                .iter()
                .filter(|pair| pair.b == last)
                .all(|pair| pair.is_different() && pair.log_ratio.point > 0.0)
        };
        let found = share(world, effects, n_blocks, of_last);
        assert!(found >= least, "{name}, {effects:?}, {n_blocks} blocks: {found}");
    };
    check("quiet", &[0.0, 0.05], 3, 0.9);
    check("quiet", &[0.0, 0.0, 0.05], 3, 0.9);
    check("quiet", &[-2.0, -1.0, -0.5, -0.2, -0.1, -0.05, 0.0], 3, 0.9);
    check("all", &[-2.0, -1.0, 0.0], 3, 0.8);
}

/// The share of experiments of three blocks in which equal levels with these standard deviations are called different.
fn wrongly_ranked(noises: &[f64]) -> f64 {
    let mut random = stats::random::Random::new(7);
    let mut is_wrong = |_: &u64| {
        let mut level = |noise: &f64| (0..3).map(|_| Some(noise * random.normal())).collect::<LevelRuns>();
        let levels: Vec<LevelRuns> = noises.iter().map(&mut level).collect();
        compare_levels(&[levels])[0].iter().any(|pair| pair.is_different())
    };
    (0..10 * EXPERIMENTS).filter(&mut is_wrong).count() as f64 / (10 * EXPERIMENTS) as f64
}

#[test]
fn a_noisy_level_borrows_little_of_the_quiet_of_the_others() {
    // METHODOLOGY has the figures for ten times as noisy. With the pooled variance alone they are a tenth and more.
    for (n_levels, noisy, at_most) in [
        (5, 1.0, 0.055),
        (5, 5.0, 0.08),
        (2, 10.0, 0.055),
        (3, 10.0, 0.068),
        (5, 10.0, 0.086),
        (9, 10.0, 0.1),
    ] {
        let mut noises = vec![0.01; n_levels];
        noises[n_levels - 1] *= noisy;
        let wrong = wrongly_ranked(&noises);
        assert!(wrong <= at_most, "one of {n_levels} levels {noisy} times as noisy: {wrong}");
    }
}

#[test]
fn two_levels_with_enough_blocks_are_compared_as_pairs_are() {
    let a = [7.0, 7.01, 7.02, 7.0, 7.03, 7.01, 7.02];
    let b: Vec<f64> = a.iter().zip([0.1, 0.12, 0.09, 0.11, 0.1, 0.13, 0.1]).map(|(a, d)| a + d).collect();
    let of = |values: &[f64]| values.iter().copied().map(Some).collect::<LevelRuns>();
    let pair = compare_levels(&[vec![of(&a), of(&b)]])[0][0];
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let comparison = stats::compare_pairs(&differences, 0.02, stats::Design::Fixed).unwrap();
    assert_eq!(pair.log_ratio.map(f64::exp), comparison.ratio);
    assert_eq!(Some(pair.p_adjusted), stats::signed_rank_p(&differences));
    assert_eq!((pair.n_blocks, pair.n_above), (7, 7));
    // With other pairs to correct for, seven blocks are too few for ranks.
    let c: Vec<f64> = a.iter().map(|a| a + 1.0).collect();
    let three = compare_levels(&[vec![of(&a), of(&b), of(&c)]]);
    assert!(three[0].iter().all(|pair| pair.is_different()), "{three:?}");
}

#[test]
fn missing_runs_take_their_blocks_out_of_their_pairs_only() {
    let levels = vec![
        vec![Some(1.0), Some(1.1), Some(1.05)],
        vec![Some(2.0), None, Some(2.06)],
        vec![None, None, Some(3.0)],
    ];
    let pairs = &compare_levels(&[levels])[0];
    assert_eq!(pairs.len(), 1, "one common block is no comparison: {pairs:?}");
    assert_eq!((pairs[0].a, pairs[0].b, pairs[0].n_blocks), (0, 1, 2));
    assert!(compare_levels(&[vec![vec![Some(1.0)], vec![Some(2.0)]]])[0].is_empty());
    assert!(compare_levels(&[]).is_empty());
}

#[test]
fn more_blocks_are_those_for_a_width_and_for_a_rank_test() {
    let of = |values: &[f64]| values.iter().copied().map(Some).collect::<LevelRuns>();
    let noisy = compare_levels(&[vec![of(&[0.0, 0.0, 0.0]), of(&[0.1, -0.1, 0.02])]])[0][0];
    // Half a width of 5 % from a spread of 10 % takes about (1.96 * 2)^2 blocks and a few for Student's t.
    assert!((13..20).contains(&noisy.more_blocks(0.05).unwrap()), "{noisy:?}");
    let quiet = compare_levels(&[vec![of(&[0.0, 0.0, 0.0]), of(&[0.001, -0.001, 0.0])]])[0][0];
    assert_eq!(quiet.more_blocks(0.05), Some(3));
}
