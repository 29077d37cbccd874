//! Which combinations of levels become cases, and the order of their runs.

pub(crate) mod choice;

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::plan::{Design, RunOrder, RunSpec};
use model::experiment::selector::{Selector, is_level, names};
use model::text::units::SettingValue;
use workload::Prng;

/// A key of the experiment file with its levels as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) key: String,
    pub(crate) levels: Vec<String>,
}

/// One combination: the level number for each dimension.
pub(crate) type Combination = Vec<usize>;

impl Dimension {
    pub(crate) fn is_factor(&self) -> bool {
        self.levels.len() > 1
    }
}

/// More runs than this are a mistake: at two seconds each they would take almost a month.
pub(crate) const RUNS_MAX: usize = 1_000_000;

/// How an experiment combines its factors.
pub(crate) struct Combine<'a> {
    pub(crate) design: Design,
    pub(crate) zip: &'a [Vec<String>],
    pub(crate) exclude: &'a [Selector],
}

impl Combine<'_> {
    /// The combinations in grid order: the last key varies fastest.
    ///
    /// # Errors
    /// When a key is not a factor, zipped factors differ in length, or no combination is left.
    pub(crate) fn combinations(&self, dimensions: &[Dimension]) -> Result<Vec<Combination>, String> {
        let bundles = bundles(dimensions, self.zip)?;
        bundles.iter().try_for_each(|bundle| expect_distinct(bundle, dimensions))?;
        let n_levels: Vec<usize> = bundles.iter().map(|bundle| dimensions[bundle[0]].levels.len()).collect();
        let n_all = n_levels.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
        let chosen = match self.design {
            Design::Grid if n_all.is_none_or(|n| n > RUNS_MAX) => {
                return Err(format!(
                    "the levels have more than {RUNS_MAX} combinations; leave out levels, or use experiment.zip or \
                     design = \"one-factor\""
                ));
            }
            Design::Grid => grid(&n_levels),
            Design::OneFactor => one_factor(&n_levels),
        };
        let mut combinations: Vec<Combination> =
            chosen.iter().map(|levels| spread(&bundles, levels, dimensions.len())).collect();
        for selector in self.exclude {
            check_levels(keys::header::EXCLUDE.name, selector, dimensions)?;
            let before = combinations.len();
            combinations.retain(|combination| !selector.selects(&levels_of(dimensions, combination)));
            if combinations.len() == before {
                return Err(format!(
                    "experiment.exclude: no case has {}; correct or remove it",
                    words_of(selector)
                ));
            }
        }
        if combinations.is_empty() {
            Err("experiment.exclude leaves no case".to_string())
        } else {
            Ok(combinations)
        }
    }
}

/// Levels of a combination by key.
pub(crate) fn levels_of(dimensions: &[Dimension], combination: &Combination) -> BTreeMap<String, String> {
    let level = |(dimension, &n): (&Dimension, &usize)| (dimension.key.clone(), dimension.levels[n].clone());
    dimensions.iter().zip(combination).map(level).collect()
}

/// Refuses a key that names no factor, and a level that no case has: they would select nothing without notice.
fn check_levels(place: &str, selector: &Selector, dimensions: &[Dimension]) -> Result<(), String> {
    for (key, wanted) in &selector.levels {
        let Dimension { key: whole, levels } = &dimensions[dimension_named(place, key, dimensions)?];
        expect_levels(place, key.as_str(), wanted, |wanted| {
            levels.iter().any(|level| is_level(whole, wanted, level))
        })?;
    }
    Ok(())
}

/// Refuses levels of a selector's key for which `is_there` returns false.
pub(crate) fn expect_levels(
    place: &str,
    key: &str,
    wanted: &Levels<SettingValue>,
    is_there: impl Fn(&str) -> bool,
) -> Result<(), String> {
    match wanted.all().iter().find(|level| !is_there(&level.0)) {
        Some(level) => Err(format!("{place}: no case has {key} {level}; correct or remove it")),
        None => Ok(()),
    }
}

fn words_of(selector: &Selector) -> String {
    let levels = |levels: &Levels<SettingValue>| {
        levels.all().iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    };
    selector.levels.iter().map(|(key, of)| format!("{key} {}", levels(of))).collect::<Vec<_>>().join(" and ")
}

pub(crate) fn dimension_named(place: &str, key: &str, dimensions: &[Dimension]) -> Result<usize, String> {
    let found: Vec<usize> = (0..dimensions.len()).filter(|&n| names(key, &dimensions[n].key)).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let factors: Vec<&str> =
                dimensions.iter().filter(|d| d.is_factor()).map(|d| d.key.as_str()).collect();
            Err(format!(
                "{place}: `{key}` is not a factor of this experiment; its factors: {}",
                factors.join(", ")
            ))
        }
        _ => Err(format!("{place}: `{key}` may be several factors; write the whole key")),
    }
}

/// Dimensions that vary together, each bundle at the place of its first member; most are alone.
fn bundles(dimensions: &[Dimension], zip: &[Vec<String>]) -> Result<Vec<Vec<usize>>, String> {
    let mut bundle_of: Vec<usize> = (0..dimensions.len()).collect();
    let mut is_zipped = vec![false; dimensions.len()];
    for keys in zip {
        let members: Result<Vec<usize>, String> =
            keys.iter().map(|key| dimension_named(keys::header::ZIP.name, key, dimensions)).collect();
        let members = members?;
        let first = members.iter().copied().min().ok_or("experiment.zip: an empty list")?;
        for &member in &members {
            let (a, b) = (&dimensions[first], &dimensions[member]);
            if a.levels.len() != b.levels.len() {
                return Err(format!(
                    "experiment.zip: {} has {} levels and {} has {}; zipped factors need equal numbers of levels",
                    a.key,
                    a.levels.len(),
                    b.key,
                    b.levels.len()
                ));
            }
            if std::mem::replace(&mut is_zipped[member], true) {
                return Err(format!("experiment.zip: {} is zipped twice", b.key));
            }
            bundle_of[member] = first;
        }
    }
    let of = |first: usize| (0..dimensions.len()).filter(|&n| bundle_of[n] == first).collect::<Vec<_>>();
    Ok((0..dimensions.len()).map(of).filter(|bundle| !bundle.is_empty()).collect())
}

/// Refuses levels of a bundle that are given twice, which would make two indistinguishable cases.
fn expect_distinct(bundle: &[usize], dimensions: &[Dimension]) -> Result<(), String> {
    let row =
        |n: usize| -> Vec<&str> { bundle.iter().map(|&at| dimensions[at].levels[n].as_str()).collect() };
    let mut seen = BTreeSet::new();
    let mut rows = (0..dimensions[bundle[0]].levels.len()).map(row);
    let Some(repeated) = rows.find(|row| !seen.insert(row.clone())) else { return Ok(()) };
    let levels = || {
        let words = |(&at, level): (&usize, &&str)| format!("{} {level}", dimensions[at].key);
        bundle.iter().zip(&repeated).map(words).collect::<Vec<_>>().join(" with ")
    };
    Err(match bundle {
        [one] => format!("{}: level {} is given twice", dimensions[*one].key, repeated[0]),
        _ => format!("experiment.zip: {} is given twice", levels()),
    })
}

/// Every combination.
fn grid(n_levels: &[usize]) -> Vec<Vec<usize>> {
    let mut combinations = vec![Vec::new()];
    for &n in n_levels {
        combinations = combinations
            .into_iter()
            .flat_map(|begun: Vec<usize>| {
                (0..n).map(move |level| {
                    let mut longer = begun.clone();
                    longer.push(level);
                    longer
                })
            })
            .collect();
    }
    combinations
}

/// The first level of everything, then each other level of one factor with the first level of the others.
fn one_factor(n_levels: &[usize]) -> Vec<Vec<usize>> {
    let first = vec![0; n_levels.len()];
    let mut combinations = vec![first.clone()];
    for (place, &n) in n_levels.iter().enumerate() {
        combinations.extend((1..n).map(|level| {
            let mut changed = first.clone();
            changed[place] = level;
            changed
        }));
    }
    combinations
}

/// Few combinations that together have every level, to check levels although they cannot be combined as asked for.
pub(crate) fn every_level(dimensions: &[Dimension]) -> Vec<Combination> {
    one_factor(&dimensions.iter().map(|dimension| dimension.levels.len()).collect::<Vec<_>>())
}

/// Expands the levels of bundles to levels of all dimensions.
fn spread(bundles: &[Vec<usize>], levels: &[usize], n_dimensions: usize) -> Combination {
    let mut combination = vec![0; n_dimensions];
    for (bundle, &level) in bundles.iter().zip(levels) {
        bundle.iter().for_each(|&member| combination[member] = level);
    }
    combination
}

/// The runs of `n_cases` cases in their order. Seeds follow the block order, so that a case's random streams do not
/// depend on when it is run.
pub(crate) fn runs(n_cases: u32, repeats: u32, seed: u64, order: RunOrder) -> Vec<RunSpec> {
    let mut runs = blocks(n_cases, repeats, seed);
    if order == RunOrder::Sequential {
        runs.sort_by_key(|run| (run.case, run.block));
        for (n, run) in runs.iter_mut().enumerate() {
            run.run = n as u32 + 1;
        }
    }
    runs
}

/// Groups runs, with the groups in order of their first run; the order within a group stays.
pub(crate) fn grouped(mut runs: Vec<RunSpec>, group_of: impl Fn(u32) -> usize) -> Vec<RunSpec> {
    let mut order: Vec<usize> = Vec::new();
    for group in runs.iter().map(|run| group_of(run.case)) {
        if !order.contains(&group) {
            order.push(group);
        }
    }
    runs.sort_by_key(|run| order.iter().position(|group| *group == group_of(run.case)));
    for (n, run) in runs.iter_mut().enumerate() {
        run.run = n as u32 + 1;
    }
    runs
}

/// Every case once per block, each block in its own random order (Fisher and Yates).
fn blocks(n_cases: u32, repeats: u32, seed: u64) -> Vec<RunSpec> {
    let mut prng = Prng::seed(seed);
    let mut runs = Vec::new();
    for block in 1..=repeats {
        let mut order: Vec<u32> = (1..=n_cases).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, prng.uint64_range(0, i as u64) as usize);
        }
        for case in order {
            runs.push(RunSpec { run: runs.len() as u32 + 1, block, case, seed: prng.uint64() });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimensions(texts: &[(&str, &str)]) -> Vec<Dimension> {
        let levels = |text: &str| text.split(' ').map(str::to_string).collect();
        texts.iter().map(|(key, text)| Dimension { key: key.to_string(), levels: levels(text) }).collect()
    }

    fn combined(design: Design, zip: &[&[&str]], exclude: &[&str]) -> Result<Vec<String>, String> {
        let dimensions = dimensions(&[("a.v", "1 2"), ("a.x", "off on"), ("b.c", "7 8 9"), ("b.one", "u")]);
        let zip: Vec<Vec<String>> =
            zip.iter().map(|keys| keys.iter().map(ToString::to_string).collect()).collect();
        let exclude: Vec<Selector> = exclude.iter().map(|text| toml::from_str(text).unwrap()).collect();
        let combine = Combine { design, zip: &zip, exclude: &exclude };
        let text = |c: Combination| {
            dimensions.iter().zip(c).map(|(d, n)| d.levels[n].clone()).collect::<Vec<_>>().join(" ")
        };
        Ok(combine.combinations(&dimensions)?.into_iter().map(text).collect())
    }

    #[test]
    fn factors_are_crossed_zipped_excluded_and_varied_alone() {
        let grid = combined(Design::Grid, &[], &[]).unwrap();
        assert_eq!((grid.len(), grid[1].as_str(), grid[11].as_str()), (12, "1 off 8 u", "2 on 9 u"));
        let zipped = combined(Design::Grid, &[&["v", "a.x"]], &[]).unwrap();
        assert_eq!(zipped, ["1 off 7 u", "1 off 8 u", "1 off 9 u", "2 on 7 u", "2 on 8 u", "2 on 9 u"]);
        let alone = combined(Design::OneFactor, &[], &[]).unwrap();
        assert_eq!(alone, ["1 off 7 u", "2 off 7 u", "1 on 7 u", "1 off 8 u", "1 off 9 u"]);
        let without = combined(Design::Grid, &[], &["a.v = 1\na.x = 'on'", "c = [8, 9]"]).unwrap();
        assert_eq!(without, ["1 off 7 u", "2 off 7 u", "2 on 7 u"]);
    }

    #[test]
    fn selections_that_are_empty_or_do_not_fit_are_refused() {
        let check = |zip: &[&[&str]], exclude: &[&str], expected: &str| {
            let message = combined(Design::Grid, zip, exclude).unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        check(&[&["v", "c"]], &[], "a.v has 2 levels and b.c has 3");
        check(
            &[&["v", "w"]],
            &[],
            "experiment.zip: `w` is not a factor of this experiment; its factors: a.v, a.x, b.c",
        );
        check(&[&["v", "x"], &["x", "v"]], &[], "a.x is zipped twice");
        check(&[&["x", "v"], &["v", "x"]], &[], "a.v is zipped twice");
        check(&[&["v", "v"]], &[], "a.v is zipped twice");
        check(&[], &["clients = 8"], "experiment.exclude: `clients` is not a factor");
        check(&[], &["c = [7, 70]"], "experiment.exclude: no case has c 70; correct or remove it");
        check(&[], &["c = 7", "c = 7\na.v = 1"], "no case has a.v 1 and c 7");
        check(&[], &["one = 'u'"], "leaves no case");
    }

    #[test]
    fn levels_that_are_zipped_are_distinct_together() {
        let dimensions = dimensions(&[("a.v", "1 1 2 2"), ("b.c", "7 8 7 7")]);
        let refused = |dimensions: &[Dimension], keys: &[&str]| {
            let zip = [keys.iter().map(ToString::to_string).collect()];
            let combine = Combine { design: Design::Grid, zip: &zip, exclude: &[] };
            combine.combinations(dimensions).unwrap_err()
        };
        assert_eq!(refused(&dimensions, &["v", "c"]), "experiment.zip: a.v 2 with b.c 7 is given twice");
        assert_eq!(refused(&dimensions[..1], &["v"]), "a.v: level 1 is given twice");
    }

    #[test]
    fn in_sequence_a_case_has_the_seeds_that_it_has_in_blocks() {
        let blocks = runs(3, 2, 5, RunOrder::Randomized);
        let sequence = runs(3, 2, 5, RunOrder::Sequential);
        let cases: Vec<u32> = sequence.iter().map(|run| run.case).collect();
        assert_eq!(cases, [1, 1, 2, 2, 3, 3]);
        assert!(sequence.iter().enumerate().all(|(n, run)| run.run == n as u32 + 1));
        for run in &sequence {
            let same = |other: &&RunSpec| (other.case, other.block) == (run.case, run.block);
            assert_eq!(blocks.iter().find(same).unwrap().seed, run.seed);
        }
    }
}
