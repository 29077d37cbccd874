//! The answer to the question of an experiment's factor, as sentences. It ranks nothing that may be chance.

mod ahead;

use std::collections::BTreeSet;

use analysis::case::answer::{
    AgainstBest, Decider, FactorAnswer, Group, LevelResult, LevelStanding, Settles,
};
use analysis::summary::{CaseSummary, Study};

use crate::axis;
use crate::prose::scripts::queries;
use crate::prose::variation::uncertainty;
use crate::prose::{format, phrases};
use model::experiment::keys;
use model::text::prose::shown;

/// The key whose levels are numbers of clients.
const CLIENTS: &str = keys::workload::CLIENTS.name;
/// More clauses about other groups than this are left to the table.
const CLAUSES_MAX: usize = 3;

/// The answer in one or two sentences, without a final period.
pub(crate) fn words(study: &Study, answer: &FactorAnswer) -> String {
    let group = &answer.groups[answer.lead];
    let words = Words { study, answer };
    let mut text = match group.levels.as_slice() {
        [only] => words.only(only),
        _ if group.is_of_single_runs() => words.single_runs(group),
        _ if answer.factor == CLIENTS => words.peak(group),
        [_, _] => words.two(group),
        _ => words.several(group),
    };
    if let Some(others) = words.other_groups() {
        text.push_str(&format!("; {others}"));
    }
    if !group.without_number.is_empty() {
        text.push_str(&format!("; no number for {}", words.list(&group.without_number)));
    }
    if !group.others.is_empty() {
        text = format!("at {}, {text}", words.place(group));
    }
    phrases::capital(&phrases::one_line(&text))
}

struct Words<'a> {
    study: &'a Study,
    answer: &'a FactorAnswer,
}

impl Words<'_> {
    /// The only level with a number.
    fn only(&self, level: &LevelResult) -> String {
        format!(
            "{}: {} ({})",
            self.list(std::slice::from_ref(&level.level)),
            self.value(level.median),
            of_runs(level)
        )
    }

    /// One run of each level.
    fn single_runs(&self, group: &Group) -> String {
        let best = group.best();
        let distance = |level: &&LevelResult| (level.median / best.median).ln().abs();
        let worst = group.levels.iter().max_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(best);
        let name = |level: &LevelResult| self.list(std::slice::from_ref(&level.level));
        // Two runs of different blocks are no block.
        let blocks: BTreeSet<u32> =
            self.study.runs.iter().filter(|run| run.counts()).map(|run| run.block).collect();
        let is_one_block = blocks.len() == 1;
        let standing = if is_one_block {
            ahead::of_one_block(self.answer.by, best.median / worst.median, &name(worst))
        } else {
            String::new()
        };
        format!(
            "one run each ranks nothing: {} with {}, {} with {}{}; a verdict takes {} blocks (--repeats {})",
            self.value(worst.median),
            name(worst),
            self.value(best.median),
            name(best),
            standing,
            stats::PAIRS_MIN,
            stats::PAIRS_MIN
        )
    }

    /// The number of clients with the highest throughput, and those that may be as good.
    fn peak(&self, group: &Group) -> String {
        let best = group.best();
        let plateau = group.plateau();
        let lead = match self.answer.by {
            Decider::P99 => "lowest p99",
            Decider::Rate(_) | Decider::Nopm | Decider::Throughput => "peak",
        };
        let p99 = match self.answer.by {
            Decider::P99 => String::new(),
            _ => self.case(best).and_then(p99).map_or(String::new(), |p99| format!(", {p99}")),
        };
        let found = format!(
            "{lead}: {} with {} ({}{}){p99}",
            self.value(best.median),
            self.list(std::slice::from_ref(&best.level)),
            self.ends(best),
            of_runs(best)
        );
        let behind = group.behind_so_far();
        let is_behind = |level: &LevelResult| behind.iter().any(|one| one.case == level.case);
        let others: Vec<&LevelResult> =
            plateau.iter().copied().filter(|level| level.case != best.case && !is_behind(level)).collect();
        let rest = match others.as_slice() {
            [] if !behind.is_empty() => format!("it {}", self.so_far(&behind)),
            [] if self.answer.by != Decider::P99 && is_most(group) => {
                "more clients were not measured, and may be faster".to_string()
            }
            [] => {
                let others = if self.answer.by == Decider::P99 {
                    "all others are slower"
                } else {
                    "all others are lower"
                };
                format!("{others}{}{}", self.by_blocks(group), so_far(group))
            }
            _ if plateau.len() == group.levels.len() => {
                format!("no client count can be distinguished from it here{}", self.missing(group))
            }
            others => {
                let names: Vec<String> = others.iter().map(|level| level.level.clone()).collect();
                let cannot = self.list(&names);
                let missing = self.missing(group);
                let also =
                    if behind.is_empty() { String::new() } else { format!("; it {}", self.so_far(&behind)) };
                format!("{cannot} cannot be distinguished from it here{missing}{also}")
            }
        };
        format!("{found}; {rest}")
    }

    /// Two levels.
    fn two(&self, group: &Group) -> String {
        let best = group.best();
        let other = &group.levels[1 - group.best];
        let Some(against) = other.against_best else { return self.open(group) };
        let names: Vec<String> = group.levels.iter().map(|level| level.level.clone()).collect();
        match against.standing {
            LevelStanding::Open => match group.behind_so_far().as_slice() {
                [] => self.open(group),
                behind => format!(
                    "{} {}{}{}",
                    self.list(std::slice::from_ref(&best.level)),
                    ahead::clause(self.answer.by, behind, |level| self.bare(level)),
                    self.medians(&against, best, other),
                    ahead::no_verdict(self.study, behind)
                ),
            },
            LevelStanding::Same => format!(
                "{} differ by less than 2 % ({}, {})",
                self.list(&names),
                interval(&against),
                phrases::plural(against.n_blocks, "block")
            ),
            LevelStanding::Worse | LevelStanding::ProvisionallyWorse => format!(
                "{} {}{}{}",
                self.list(std::slice::from_ref(&best.level)),
                self.ahead(&against, &other.level),
                self.medians(&against, best, other),
                self.provisional(&against)
            ),
        }
    }

    /// Three levels or more.
    fn several(&self, group: &Group) -> String {
        let plateau = group.plateau();
        let names =
            |levels: &[&LevelResult]| levels.iter().map(|level| level.level.clone()).collect::<Vec<String>>();
        if plateau.len() == group.levels.len() {
            return self.open(group);
        }
        let best = group.best();
        if let [_] = plateau.as_slice() {
            let others = group.levels.iter().filter(|level| level.case != best.case);
            let Some((next, against)) = others
                .filter_map(|level| Some((level, level.against_best?)))
                .min_by(|(_, a), (_, b)| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs()))
            else {
                return self.open(group);
            };
            return format!(
                "{} is {}{}: {}, {}{}",
                self.list(std::slice::from_ref(&best.level)),
                self.superlative(),
                self.by_blocks(group),
                self.value(best.median),
                self.difference(&against, &next.level),
                self.provisional(&against)
            );
        }
        let worse: Vec<&LevelResult> =
            group.levels.iter().filter(|level| plateau.iter().all(|one| one.case != level.case)).collect();
        let behind = group.behind_so_far();
        let plateau: Vec<&LevelResult> =
            plateau.into_iter().filter(|level| behind.iter().all(|one| one.case != level.case)).collect();
        let also = match (behind.is_empty(), plateau.as_slice()) {
            (true, _) => String::new(),
            (false, [_]) => return format!("{}; {}", self.leads(group, &behind), self.lower(&worse, group)),
            (false, _) => {
                format!("; {} {}", self.list(std::slice::from_ref(&best.level)), self.so_far(&behind))
            }
        };
        format!(
            "{} are {} and cannot be distinguished here{}; {}{also}",
            self.list(&names(&plateau)),
            self.superlative(),
            self.missing(group),
            self.lower(&worse, group)
        )
    }

    /// `PostgreSQL 13 and 14 are lower`.
    fn lower(&self, worse: &[&LevelResult], group: &Group) -> String {
        let names: Vec<String> = worse.iter().map(|level| level.level.clone()).collect();
        let are = match (worse.len(), self.answer.by) {
            (1, Decider::P99) => "is slower",
            (_, Decider::P99) => "are slower",
            (1, _) => "is lower",
            _ => "are lower",
        };
        format!("{} {are}{}", self.list(&names), self.by_blocks(group))
    }

    /// The best of levels that are all behind it so far, or lower.
    fn leads(&self, group: &Group, behind: &[&LevelResult]) -> String {
        let best = group.best();
        let list = ahead::list(self.answer.by, behind, |level| self.bare(level));
        let n_blocks = behind.iter().filter_map(|level| level.against_best).map(|one| one.n_blocks).min();
        let n_blocks = n_blocks.unwrap_or_default();
        format!(
            "{} is {} in {n_blocks} of {n_blocks} blocks: {}, {}{}",
            self.list(std::slice::from_ref(&best.level)),
            self.superlative(),
            self.value(best.median),
            list.trim_start_matches("is "),
            ahead::no_verdict(self.study, behind)
        )
    }

    /// `is 5.0 times as fast as 13 in 2 of 2 blocks; two runs each give no verdict …`.
    fn so_far(&self, behind: &[&LevelResult]) -> String {
        let is_of_clients = self.answer.factor == CLIENTS;
        let name =
            |level: &str| if is_of_clients { self.list(&[level.to_string()]) } else { self.bare(level) };
        format!("{}{}", ahead::clause(self.answer.by, behind, name), ahead::no_verdict(self.study, behind))
    }

    /// Levels none of which stands out.
    fn open(&self, group: &Group) -> String {
        let behind = group.behind_so_far();
        let is_open = |level: &&LevelResult| behind.iter().all(|one| one.case != level.case);
        let names: Vec<String> =
            group.levels.iter().filter(is_open).map(|level| level.level.clone()).collect();
        let best = &group.best().level;
        let also = match (behind.is_empty(), names.len()) {
            (true, _) => String::new(),
            (false, 1) => return self.leads(group, &behind),
            (false, _) => format!("; {} {}", self.list(std::slice::from_ref(best)), self.so_far(&behind)),
        };
        let average = ahead::on_average(self.answer.by, group, &self.bare(best));
        format!("{} cannot be distinguished here{average}{}{also}", self.list(&names), self.missing(group))
    }

    /// How much runs vary, and how many more blocks would help: of the levels that may be as good as the best one.
    fn missing(&self, group: &Group) -> String {
        let vary = group.cv_max().map(|cv| format!(" (runs vary by {})", format::percent(cv)));
        let Some(vary) = vary else { return String::new() };
        let open = group
            .plateau()
            .into_iter()
            .filter_map(|level| level.against_best)
            .filter(|against| against.standing == LevelStanding::Open);
        // The largest difference, and of equal ones the most blocks: a number that is too high for advice is above all others.
        let effort = |settles: &Settles| settles.more_blocks.unwrap_or(usize::MAX);
        let order =
            |a: &Settles, b: &Settles| a.difference.total_cmp(&b.difference).then(effort(a).cmp(&effort(b)));
        let Some(Settles { difference, more_blocks }) =
            open.filter_map(|against| against.would_settle).max_by(order)
        else {
            return vary;
        };
        let difference = format::percent(difference).replace(".0 %", " %");
        match more_blocks {
            Some(more) => format!(
                "{vary}; {} would settle a difference of {difference} (--repeats {})",
                phrases::plural(more, "more block"),
                self.study.plan.repeats as usize + more
            ),
            None => format!("{vary}, too much for more repeats to show a difference of {difference}"),
        }
    }

    /// `is 12 % faster than 13 (95 % interval +8.1 to +16 %, 6 blocks)`.
    fn ahead(&self, against: &AgainstBest, other: &str) -> String {
        let change = format::percent((against.ratio - 1.0).abs());
        let verb = match self.answer.by {
            Decider::P99 => format!("has a p99 {change} lower than"),
            _ if against.ratio >= 2.0 => {
                format!("is {} times as fast as", format::significant(against.ratio))
            }
            _ => format!("is {change} faster than"),
        };
        format!("{verb} {} ({}, {})", self.bare(other), interval(against), in_blocks(against))
    }

    /// `6.1 % above 17, the next (+3.0 to +9.1 %, 6 blocks)`.
    fn difference(&self, against: &AgainstBest, next: &str) -> String {
        let change = format::percent((against.ratio - 1.0).abs());
        let below = if self.answer.by == Decider::P99 { "below" } else { "above" };
        format!(
            "{change} {below} {}, the next ({}, {})",
            self.bare(next),
            interval(against),
            in_blocks(against)
        )
    }

    /// `: 2,369 tps against 885 tps`, or that the medians say something else than the ratio.
    fn medians(&self, against: &AgainstBest, best: &LevelResult, other: &LevelResult) -> String {
        let [a, b] = [best, other].map(|level| self.value(level.median));
        if agree(against, [best.median, other.median]) {
            format!(": {a} against {b}")
        } else {
            format!(", block by block; the medians are {a} and {b}")
        }
    }

    /// The blocks that a verdict still needs.
    fn provisional(&self, against: &AgainstBest) -> String {
        if against.standing != LevelStanding::ProvisionallyWorse {
            return String::new();
        }
        let missing = stats::PAIRS_MIN.saturating_sub(against.n_blocks);
        let more = phrases::plural(missing, "more block");
        let repeats = self.study.plan.repeats as usize + missing;
        format!("; provisional: {more} for a verdict (--repeats {repeats})")
    }

    /// Where the levels stand, if the medians say something else.
    fn by_blocks(&self, group: &Group) -> &'static str {
        let best = group.best().median;
        let is_ahead = |level: &LevelResult| match self.answer.by {
            Decider::P99 => level.median < best,
            Decider::Rate(_) | Decider::Nopm | Decider::Throughput => level.median > best,
        };
        if group.levels.iter().any(is_ahead) { " block by block" } else { "" }
    }

    fn superlative(&self) -> &'static str {
        if self.answer.by == Decider::P99 { "lowest by p99" } else { "fastest" }
    }

    /// What holds for the other groups, each outcome once.
    fn other_groups(&self) -> Option<String> {
        let lead = &self.answer.groups[self.answer.lead];
        let of_lead = self.outcome(lead);
        let mut outcomes: Vec<(String, Vec<String>)> = Vec::new();
        for group in self.answer.groups.iter().filter(|group| !std::ptr::eq(*group, lead)) {
            let outcome = self.outcome(group);
            let how_far = if outcome == of_lead { self.how_far(group) } else { String::new() };
            let place = self.place(group) + &how_far;
            match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, places)) => places.push(place),
                None => outcomes.push((outcome, vec![place])),
            }
        }
        let is_led = ahead::is_led(lead);
        let clause = |(outcome, places): &(String, Vec<String>)| {
            let places = match places.len() {
                n if n > 4 => format!("{n} others"),
                _ => listed(places),
            };
            if *outcome == of_lead {
                let same = if is_led { "the same order" } else { "the same" };
                format!("{same} at {places}")
            } else {
                format!("{outcome} at {places}")
            }
        };
        match outcomes.len() {
            0 => None,
            1..=CLAUSES_MAX => Some(outcomes.iter().map(clause).collect::<Vec<String>>().join("; ")),
            n => Some(format!("{n} different results at the others, see the table")),
        }
    }

    /// ` (9.7 times as fast)` of two levels, by their medians; empty where that is no figure of speed, or nothing is ahead.
    fn how_far(&self, group: &Group) -> String {
        let is_speed = matches!(self.answer.by, Decider::Throughput | Decider::Nopm);
        match group.levels.as_slice() {
            [a, b] if is_speed && ahead::is_led(group) => ahead::how_far([a.median, b.median]),
            _ => String::new(),
        }
    }

    /// A level without its factor, if it says what it is: a number does not.
    fn named(&self, level: &str) -> String {
        match level.parse::<f64>() {
            Ok(_) => self.list(&[level.to_string()]),
            Err(_) => self.bare(level),
        }
    }

    /// What a group shows, in short: equal texts are the same outcome.
    fn outcome(&self, group: &Group) -> String {
        if group.levels.len() < 2 {
            return "one level only".to_string();
        }
        if group.is_of_single_runs() {
            return format!("{} ahead in one run", self.named(&group.best().level));
        }
        let plateau: Vec<String> = group.plateau().iter().map(|level| level.level.clone()).collect();
        match plateau.as_slice() {
            [best] => format!("{} {}", self.named(best), self.superlative()),
            all if all.len() == 1 + group.behind_so_far().len() => {
                format!("{} {} so far", self.bare(&group.best().level), self.superlative())
            }
            all if all.len() == group.levels.len() => "not distinguished".to_string(),
            several => format!("{} {}, not distinguished", joined(several), self.superlative()),
        }
    }

    fn place(&self, group: &Group) -> String {
        let part = |(key, level): (&String, &String)| name(key, &[shown(level).to_string()]);
        group.others.iter().map(part).collect::<Vec<String>>().join(", ")
    }

    /// Levels of the factor with its name: `PostgreSQL 13 and 18`.
    fn list(&self, levels: &[String]) -> String {
        let shown: Vec<String> = levels.iter().map(|level| self.bare(level)).collect();
        name(&self.answer.factor, &shown)
    }

    /// A level without the name of the factor. A connection string is shown as a place.
    fn bare(&self, level: &str) -> String {
        if self.answer.factor != keys::server::URL.name {
            return shown(level).to_string();
        }
        let mut cases = self.study.cases.iter().map(|case| &case.case);
        let of = |case: &&model::experiment::case::Case| {
            case.levels.get(keys::server::URL.name).is_some_and(|url| url == level)
        };
        cases.find(of).map_or_else(|| level.to_string(), |case| case.server.source.to_string())
    }

    fn case(&self, level: &LevelResult) -> Option<&CaseSummary> {
        self.study.cases.iter().find(|case| case.case.id == level.case)
    }

    /// `95 % interval 4,700 to 4,924, `, or `interval ...` of a few searches; empty if it is unknown.
    fn ends(&self, level: &LevelResult) -> String {
        let number =
            |value: f64| if self.answer.by == Decider::P99 { format::ms(value) } else { format::tps(value) };
        let kind = if level.is_envelope { "interval" } else { "95 % interval" };
        // How far off it can be says more than how much its runs differ.
        let interval = if level.good_to.is_none() { level.interval } else { None };
        interval.map_or(String::new(), |(low, high)| format!("{kind} {} to {}, ", number(low), number(high)))
    }

    /// A figure with its unit.
    fn value(&self, value: f64) -> String {
        match self.answer.by {
            Decider::Throughput => format!("{} {}", format::tps(value), queries::unit_of_study(self.study)),
            Decider::Nopm => format!("{} NOPM", format::tps(value)),
            Decider::Rate(target) => format!("{}/s ({target})", format::tps(value)),
            Decider::P99 => format!("p99 {} ms", format::ms(value)),
        }
    }
}

/// Levels with the name of their factor, as people say it: `4, 8 and 16 clients`, `work_mem 4MB`.
fn name(key: &str, levels: &[String]) -> String {
    const KIND: &str = keys::workload::KIND.name;
    const PACE: &str = keys::workload::PACE.name;
    const URL: &str = keys::server::URL.name;
    const VERSION: &str = keys::server::VERSION.name;
    let list = match key {
        CLIENTS => ranges(levels),
        _ => joined(levels),
    };
    match key {
        CLIENTS => phrases::plural_of(&list, "client"),
        "" | keys::TARGET | KIND | PACE | URL | "compare.side" => list,
        VERSION => format!("PostgreSQL {list}"),
        _ => format!("{} {list}", axis::factor_words(key)),
    }
}

/// `4, 8 and 16`.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// As [`joined`], with semicolons between parts that have commas of their own.
fn listed(parts: &[String]) -> String {
    if parts.iter().any(|part| part.contains(", ")) { parts.join("; at ") } else { joined(parts) }
}

/// At most three numbers, else the range that they span. A plan may list them in any order.
fn ranges(levels: &[String]) -> String {
    let mut levels = levels.to_vec();
    levels.sort_by_key(|level| level.parse::<u64>().unwrap_or(u64::MAX));
    match levels.as_slice() {
        [first, _, _, .., last] => format!("{first} to {last}"),
        few => joined(few),
    }
}

/// Whether the best level is the highest number of its factor, so that a higher one might be better still.
fn is_most(group: &Group) -> bool {
    is_highest(&group.levels.iter().map(|level| level.level.as_str()).collect::<Vec<_>>(), group.best)
}

fn is_highest(levels: &[&str], best: usize) -> bool {
    let number = |level: &str| level.parse::<u64>().unwrap_or(0);
    levels.len() > 1 && levels.iter().all(|level| number(level) <= number(levels[best]))
}

/// ` so far (3 blocks)`; empty once there are enough blocks for a verdict.
fn so_far(group: &Group) -> String {
    let against = group.levels.iter().filter_map(|level| level.against_best);
    let provisional = against.filter(|against| against.standing == LevelStanding::ProvisionallyWorse);
    let fewest = provisional.map(|against| against.n_blocks).min();
    fewest.map_or(String::new(), |n| format!(" so far ({})", phrases::plural(n, "block")))
}

/// `median of 3 runs, good to ±5 %`.
fn of_runs(level: &LevelResult) -> String {
    let of = match level.n_runs {
        0 | 1 => "one run".to_string(),
        n => format!("median of {n} runs"),
    };
    match (level.good_to, level.cv) {
        (Some(good_to), _) => format!("{of}, good to {}", uncertainty::words(good_to, level.precision)),
        (None, Some(cv)) => format!("{of}, CV {}", format::percent(cv)),
        (None, None) => of,
    }
}

/// The interval of a ratio as a change: `+8.1 to +16.0 %`, or `2.2 to 2.4 times`.
fn interval(against: &AgainstBest) -> String {
    if against.ratio >= 2.0 {
        let [low, high] = [against.low, against.high].map(format::significant);
        return format!("95 % interval {low} to {high} times");
    }
    let [low, high] = [against.low, against.high].map(|ratio| format::signed(ratio - 1.0));
    format!("95 % interval {} to {high}", low.trim_end_matches(" %"))
}

/// Whether the ratio within blocks is that of the medians, as far as a reader would notice who divides them, and which of two numbers
/// is higher is plain to see.
fn agree(against: &AgainstBest, [best, other]: [f64; 2]) -> bool {
    let of_medians = best / other;
    (of_medians / against.ratio - 1.0).abs() <= 0.01 && (of_medians >= 1.0) == (against.ratio >= 1.0)
}

/// `in 3 of 3 blocks`; once a verdict is reached only their number matters.
fn in_blocks(against: &AgainstBest) -> String {
    match against.standing {
        LevelStanding::ProvisionallyWorse => {
            format!("in {} of {} blocks", against.n_better, against.n_blocks)
        }
        _ => phrases::plural(against.n_blocks, "block"),
    }
}

/// `p99 3.40 ms`.
fn p99(case: &CaseSummary) -> Option<String> {
    Some(format!("p99 {} ms", format::ms(case.latency?.p99_ns as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_are_named_in_order_whatever_the_plans() {
        let levels = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
        assert_eq!(name(CLIENTS, &levels(&["64", "4", "16", "128"])), "4 to 128 clients");
        assert_eq!(name(CLIENTS, &levels(&["16", "8", "4"])), "4, 8 and 16 clients");
        assert!(is_highest(&["16", "8", "4"], 0) && !is_highest(&["16", "8", "4"], 2));
        assert!(is_highest(&["4", "8", "16"], 2) && !is_highest(&["4"], 0));
    }
}
