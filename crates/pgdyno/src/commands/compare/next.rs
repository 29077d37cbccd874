//! How to go on with a comparison that was measured and has no verdict: in its directory, with more pairs, or as a duet.

use std::path::Path;

use analysis::comparison::{CaseComparison, ComparisonVerdict};

use crate::front::shell;

/// Most pairs that `--pairs` takes.
const PAIRS_MAX: usize = 500;

/// The ways on that a comparison has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways {
    /// The plan has pairs that were not measured.
    pub(super) has_pairs_left: bool,
    /// The same cases could be a duet.
    pub(super) may_be_duet: bool,
}

/// What to do now; `None` where there is a verdict.
pub(super) fn words(case: &CaseComparison, dir: &Path, ways: Ways) -> Option<String> {
    match case.verdict() {
        None if case.n_pairs == 0 => Some(
            "no verdict: no pair counts, for the reasons that the findings give; where a side has too few transactions, use a longer --measure"
                .to_string(),
        ),
        None if ways.has_pairs_left => Some(too_few(case, dir, ways.may_be_duet)),
        None => Some(format!(
            "no verdict, although all pairs were measured: too few of them count; remove what voids them, and measure again with \
             --pairs {} or more",
            2 * stats::PAIRS_MIN
        )),
        Some(ComparisonVerdict::Unsure) => Some(undecided(case, ways.may_be_duet)),
        Some(_) => None,
    }
}

fn too_few(case: &CaseComparison, dir: &Path, may_be_duet: bool) -> String {
    let n_missing = stats::PAIRS_MIN.saturating_sub(case.n_pairs).max(1);
    let words = ["pgdyno", "compare", "--resume"].map(str::to_string);
    let command = shell::command(&[&words[..], &[dir.display().to_string()]].concat());
    format!(
        "no verdict: {} missing; to go on in the same directory: {command} (or begin again with --pairs {}{})",
        match n_missing {
            1 => "1 pair is".to_string(),
            n => format!("{n} pairs are"),
        },
        stats::PAIRS_MIN,
        if may_be_duet { ", or with --duet, which needs less time where others disturb" } else { "" }
    )
}

/// More pairs in the same directory would test twice, which finds differences that are none.
fn undecided(case: &CaseComparison, may_be_duet: bool) -> String {
    let wanted = case.leading().and_then(|ratio| ratio.more_pairs).map(|more| case.n_pairs + more);
    let duet = if may_be_duet { "; or --duet cancels what disturbs both sides" } else { "" };
    match wanted {
        Some(n) if n <= PAIRS_MAX => format!(
            "undecided: by its spread, about {n} pairs would settle it: the same command with --pairs {n}, in another directory because the \
             verdict was looked at{duet}"
        ),
        _ => format!(
            "undecided: by their spread, more than {PAIRS_MAX} pairs would be needed: use a longer --measure{duet}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        n_pairs: usize,
        ratio: Option<(ComparisonVerdict, Option<usize>)>,
        has_pairs_left: bool,
    ) -> Option<String> {
        let case = super::super::tests::case_of(n_pairs, ratio);
        words(&case, Path::new("results/a b"), Ways { has_pairs_left, may_be_duet: true })
    }

    #[test]
    fn without_a_verdict_the_way_to_one_is_said() {
        assert!(said(0, None, true).unwrap().contains("a longer --measure"));
        let few = said(2, None, true).unwrap();
        let expected = "no verdict: 4 pairs are missing; to go on in the same directory: pgdyno compare --resume 'results/a b'";
        assert!(few.starts_with(expected) && few.contains("--pairs 6") && few.contains("--duet"), "{few}");
        assert!(said(5, None, true).unwrap().starts_with("no verdict: 1 pair is missing;"));
        let void = said(2, None, false).unwrap();
        assert!(void.contains("too few of them count") && void.contains("--pairs 12"), "{void}");
        let undecided = said(12, Some((ComparisonVerdict::Unsure, Some(24))), false).unwrap();
        assert!(
            undecided.contains("about 36 pairs would settle it") && undecided.contains("--pairs 36"),
            "{undecided}"
        );
        for more in [Some(4000), None] {
            let hopeless = said(12, Some((ComparisonVerdict::Unsure, more)), false).unwrap();
            assert!(hopeless.contains("more than 500 pairs") && hopeless.contains("--measure"), "{hopeless}");
        }
        let case = super::super::tests::case_of(12, Some((ComparisonVerdict::Unsure, Some(24))));
        let alone = words(&case, Path::new("x"), Ways { has_pairs_left: false, may_be_duet: false }).unwrap();
        assert!(alone.contains("--pairs 36") && !alone.contains("--duet"), "{alone}");
        for verdict in [ComparisonVerdict::Faster, ComparisonVerdict::Slower, ComparisonVerdict::Same] {
            assert_eq!(said(12, Some((verdict, None)), true), None);
        }
    }
}
