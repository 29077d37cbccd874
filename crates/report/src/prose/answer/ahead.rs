//! What a few blocks that all point the same way say: a direction and a ratio, and no verdict.

use analysis::case::answer::{AgainstBest, Decider, Group, LevelResult};
use analysis::comparison::{ComparedFigure, MARGIN};
use analysis::summary::Study;

use crate::prose::format;
use crate::prose::ratio::{in_words, stands};

/// More levels than this are left to the table.
const NAMED_MAX: usize = 3;

/// `is 12 % faster than 15 and 5.0 times as fast as 13 in 2 of 2 blocks`: the best level against those that are behind it so far.
pub(crate) fn clause(by: Decider, behind: &[&LevelResult], name: impl Fn(&str) -> String) -> String {
    let n_blocks = fewest(behind);
    format!("{} in {n_blocks} of {n_blocks} blocks", list(by, behind, name))
}

/// The same without the blocks.
pub(crate) fn list(by: Decider, behind: &[&LevelResult], name: impl Fn(&str) -> String) -> String {
    let named = |level: &&&LevelResult| {
        level.against_best.map(|against| stands(figure(by), against.ratio, &name(&level.level)))
    };
    let mut parts: Vec<String> = match behind.len() {
        // The nearest and the farthest say between what the others are.
        n if n > NAMED_MAX => [&behind[0], &behind[n - 1]].iter().filter_map(&named).collect(),
        _ => behind.iter().filter_map(|level| named(&level)).collect(),
    };
    // One verb for all of them.
    for part in parts.iter_mut().skip(1) {
        *part = part.trim_start_matches("is ").to_string();
    }
    let more = behind.len() - parts.len();
    let others = if more > 0 { format!(", with {} between them", in_words(more)) } else { String::new() };
    match parts.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}{others}", first.join(", ")),
        parts => parts.concat(),
    }
}

/// `, which is 4.5 times as fast as PostgreSQL 13 in 1 of 1 block`; empty for a difference that does not matter.
pub(crate) fn of_one_block(by: Decider, ratio: f64, other: &str) -> String {
    if ratio.ln().abs() <= MARGIN.ln_1p() {
        return String::new();
    }
    format!(", which {} in 1 of 1 block", stands(figure(by), ratio, other))
}

/// Whether one level is ahead, for sure or so far.
pub(crate) fn is_led(group: &Group) -> bool {
    group.plateau().len() == 1 + group.behind_so_far().len()
}

/// ` (9.7 times as fast)` or ` (57 % faster)`, of two throughputs.
pub(crate) fn how_far([a, b]: [f64; 2]) -> String {
    let ratio = a.max(b) / a.min(b);
    match ratio {
        _ if !ratio.is_finite() => String::new(),
        2.0.. => format!(" ({} times as fast)", format::significant(ratio)),
        _ => format!(" ({} faster)", format::percent(ratio - 1.0)),
    }
}

/// `; two runs each give no verdict: it takes 4 more blocks at least (--repeats 6)`.
pub(crate) fn no_verdict(study: &Study, behind: &[&LevelResult]) -> String {
    let n = fewest(behind);
    let missing = stats::PAIRS_MIN.saturating_sub(n);
    // Blocks that were planned and not made are made first.
    let repeats = match study.plan.repeats as usize {
        planned if planned < stats::PAIRS_MIN => stats::PAIRS_MIN,
        planned => planned + missing,
    };
    format!(
        "; {} runs each give no verdict: it takes {} at least (--repeats {})",
        in_words(n),
        crate::prose::phrases::plural(missing, "more block"),
        repeats
    )
}

/// `: 18 is 2.9 times as fast in 2 of 3 blocks`, where blocks disagree about a multiple; else empty.
pub(crate) fn on_average(by: Decider, group: &Group, best: &str) -> String {
    let against = |level: &LevelResult| level.against_best.filter(is_multiple);
    match group.levels.iter().filter_map(against).collect::<Vec<AgainstBest>>().as_slice() {
        [only] if group.levels.len() == 2 => {
            let ratio = stands(figure(by), only.ratio, "");
            let ratio =
                ratio.trim_end().trim_end_matches(" as").trim_end_matches(" of").trim_end_matches(" than");
            format!(": {best} {ratio} in {} of {} blocks", only.n_better, only.n_blocks)
        }
        _ => String::new(),
    }
}

/// Whether the ratio is one that nobody calls noise at first sight.
fn is_multiple(against: &AgainstBest) -> bool {
    against.ratio.ln().abs() >= 1.5_f64.ln()
}

fn fewest(behind: &[&LevelResult]) -> usize {
    let blocks = behind.iter().filter_map(|level| level.against_best);
    blocks.map(|against| against.n_blocks).min().unwrap_or_default()
}

fn figure(by: Decider) -> ComparedFigure {
    match by {
        Decider::P99 => ComparedFigure::P99,
        Decider::Rate(_) | Decider::Nopm | Decider::Throughput => ComparedFigure::Throughput,
    }
}
