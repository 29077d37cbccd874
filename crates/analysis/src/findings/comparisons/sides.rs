//! Findings about a comparison that come from findings of its runs.

use std::collections::BTreeMap;

use model::experiment::keys;
use model::experiment::topology::n_standbys;

use crate::comparison::{ComparedSide, ComparisonPurpose, Pairing, disturbed};
use crate::finding::{Finding, Severity};
use crate::findings::load::TOOK_TURNS;
use crate::findings::server::NOT_DURABLE;
use crate::findings::server::logging::{STATEMENTS_LOGGED, is_about_statements};
use crate::findings::server::route::{BEHIND_POOLER, POOLER_IDLE_POOL};
use crate::findings::server::standby::{SAME_MACHINE, STALE_READS, STANDBY_FALLS_BEHIND, WAITS_FOR_STANDBY};
use crate::findings::server::unlogged::UNLOGGED;
use crate::findings::{ComparisonContext, Rule, RuleCheck};

/// Findings that a standby brings with it, and those of a pooler.
const OF_STANDBYS: [&str; 4] =
    [SAME_MACHINE.id, STALE_READS.id, STANDBY_FALLS_BEHIND.id, WAITS_FOR_STANDBY.id];
const OF_POOLERS: [&str; 2] = [BEHIND_POOLER.id, POOLER_IDLE_POOL.id];

/// Settings that decide what a commit promises.
const PROMISES: [&str; 3] = ["fsync", "full_page_writes", "synchronous_commit"];

pub(in crate::findings) const ONE_SIDED: Rule = Rule {
    id: "one-sided",
    title: "Only one side's runs have a finding",
    severity: "When the shares of runs with a finding differ by more than one half between the sides: Void \
               when only one side is not durable; Note where the budget bounds it (the ratio's interval then \
               contains it), the comparison varies what causes it (settings of durability and logging, \
               standbys, the pooler), or its sides ask for different tables and those of one are UNLOGGED; otherwise the finding's \
               severity in the runs",
    source: "Raasveldt et al. 2018; one half is our convention",
    advice: "Read pgdyno explain for each finding, remove its cause or give it to both sides, and repeat.",
    evidence: "How many of each side's runs that count have the finding.",
    why: "It is part of the difference: a checkpoint in each run, commits that promise less.",
    tested: "On one of two servers by URL: fsync = off, log_statement = all, auto_explain, autovacuum, \
             checkpoints, other sessions, failed transactions, missed rows, a quota. On one of two that pgdyno \
             runs: WAL in memory, log_statement = all.",
    check: RuleCheck::Comparison(one_sided),
};

/// The advice where the comparison asks for the cause.
const AS_ASKED: &str = "The sides were to differ in what causes it: it is part of the answer.";

fn one_sided(context: &ComparisonContext) -> Vec<Finding> {
    let all = tallies([context.a, context.b], context.pairing);
    let one_sided = all.iter().filter(|tally| tally.is_one_sided());
    let (asked, others): (Vec<&Tally>, Vec<&Tally>) =
        one_sided.partition(|tally| is_asked_for(context, tally));
    let others = by_severity(context, &ONE_SIDED, &others, |tally| match tally.id {
        id if id == NOT_DURABLE.id => Severity::Void,
        // Each side's uncertainty contains it, and what cannot be added to the interval of the ratio does not.
        _ if tally.is_bounded && !disturbed::are_held(context.pairing) => tally.severity.max(Severity::Doubt),
        _ => tally.severity,
    });
    let asked = by_severity(context, &ONE_SIDED, &asked, |_| Severity::Note).into_iter();
    others.into_iter().chain(asked.map(|found| Finding { advice: AS_ASKED.to_string(), ..found })).collect()
}

/// The findings that only one side's runs have, and of which the uncertainty's budget bounds what they did.
pub(crate) fn bounded_on_one_side(sides: [ComparedSide; 2], pairing: Pairing) -> Vec<&'static str> {
    let found = tallies(sides, pairing).into_iter().filter(|tally| tally.is_bounded && tally.is_one_sided());
    found.map(|tally| tally.id).collect()
}

pub(in crate::findings) const DOUBTFUL_RUNS: Rule = Rule {
    id: "doubtful-runs",
    title: "The compared runs are doubtful themselves",
    severity: "Doubt when half of a side's runs or more have the same doubt; Note when fewer have it",
    source: "our rule; one half is our convention",
    advice: "Read pgdyno explain for each finding, and the findings of the runs.",
    evidence: "How many of each side's runs that count have the doubt.",
    why: "What slows both sides down also hides or dilutes their difference.",
    tested: "fsync = off on both sides of a comparison.",
    check: RuleCheck::Comparison(doubtful_runs),
};

fn doubtful_runs(context: &ComparisonContext) -> Vec<Finding> {
    let all = tallies([context.a, context.b], context.pairing);
    let shared = all.iter().filter(|tally| !tally.is_one_sided() && tally.severity >= Severity::Doubt);
    by_severity(context, &DOUBTFUL_RUNS, &shared.collect::<Vec<&Tally>>(), |tally| {
        if tally.shares().iter().any(|share| *share >= 0.5) { Severity::Doubt } else { Severity::Note }
    })
}

/// Whether the comparison itself varies settings that cause the finding, or tables whose durability does.
fn is_asked_for(context: &ComparisonContext, tally: &Tally) -> bool {
    let causes = |name: &str| match tally.id {
        id if id == NOT_DURABLE.id => PROMISES.contains(&name),
        id if id == STATEMENTS_LOGGED.id => is_about_statements(name),
        _ => false,
    };
    let [a, b] = [context.a, context.b].map(|side| side.data.plan.case(side.case));
    let (Some(a), Some(b)) = (a, b) else { return false };
    if OF_STANDBYS.contains(&tally.id) && n_standbys(a) != n_standbys(b) {
        return true;
    }
    if OF_POOLERS.contains(&tally.id) && a.get(keys::pooler::KIND) != b.get(keys::pooler::KIND) {
        return true;
    }
    let [of_a, of_b] = [a, b].map(|case| &case.server.settings);
    let mut names = of_a.keys().chain(of_b.keys());
    // Between two experiments nobody has asked for other tables.
    let is_one_experiment = std::ptr::eq(context.a.data, context.b.data);
    let [x, y] = [a, b].map(|case| (&case.workload.data, case.workload.layout));
    names.any(|name| causes(name) && of_a.get(name) != of_b.get(name))
        || (tally.is_of_unlogged_tables() && is_one_experiment && x != y)
}

/// In how many counting runs of each side a finding occurs.
struct Tally {
    id: &'static str,
    /// The highest severity that it has in a run.
    severity: Severity,
    /// Whether a run's uncertainty contains its effect, and it would be a doubt otherwise.
    is_bounded: bool,
    /// The evidence of the first run of A and of B that has it.
    evidence: [Option<String>; 2],
    /// Runs of A and of B that have it.
    n: [usize; 2],
    /// Runs of A and of B that count.
    of: [usize; 2],
}

impl Tally {
    fn shares(&self) -> [f64; 2] {
        [0, 1].map(|side| self.n[side] as f64 / self.of[side].max(1) as f64)
    }

    fn is_one_sided(&self) -> bool {
        let [a, b] = self.shares();
        (a - b).abs() > 0.5
    }

    /// Whether the interval of the ratio contains its effect.
    fn is_held(&self, pairing: Pairing) -> bool {
        self.is_bounded
            && self.severity == Severity::Note
            && self.is_one_sided()
            && disturbed::are_held(pairing)
    }

    /// Whether UNLOGGED tables alone are what is not durable: they are named last.
    fn is_of_unlogged_tables(&self) -> bool {
        let begin = format!("{}: {UNLOGGED}", NOT_DURABLE.title);
        let mut evidence = self.evidence.iter().flatten();
        self.id == NOT_DURABLE.id && evidence.all(|text| text.starts_with(&begin))
    }

    fn words(&self, purpose: ComparisonPurpose) -> String {
        let ([a, b], [of_a, of_b]) = (self.n, purpose.owners());
        let evidence = match &self.evidence {
            [Some(first), Some(second)] if first != second => format!("{of_a}: {first}; {of_b}: {second}"),
            [first, second] => first.clone().or_else(|| second.clone()).unwrap_or_default(),
        };
        format!(
            "{} in {a} of {} runs {of_a} and {b} of {} {of_b} ({evidence})",
            self.id, self.of[0], self.of[1]
        )
    }
}

/// One finding of the rule per severity.
fn by_severity(
    context: &ComparisonContext,
    rule: &Rule,
    tallies: &[&Tally],
    weigh: impl Fn(&Tally) -> Severity,
) -> Vec<Finding> {
    let mut found: BTreeMap<Severity, Vec<String>> = BTreeMap::new();
    for tally in tallies {
        let held =
            if tally.is_held(context.pairing) { ", which the interval of the ratio contains" } else { "" };
        found.entry(weigh(tally)).or_default().push(tally.words(context.purpose) + held);
    }
    found.into_iter().rev().map(|(severity, words)| rule.finds(severity, words.join(", "))).collect()
}

fn tallies(sides: [ComparedSide; 2], pairing: Pairing) -> Vec<Tally> {
    let of = sides.map(|side| side.counting().count());
    let mut tallies: Vec<Tally> = Vec::new();
    // With no run on one side there is nothing to set against the other.
    if of.contains(&0) {
        return tallies;
    }
    // A duet compares slices, whose other halves belong to the other side on purpose.
    let is_duet = pairing.is_of_duet();
    for (side, runs) in sides.into_iter().enumerate() {
        let found = runs.counting().flat_map(|run| &run.findings);
        for finding in found.filter(|finding| !(is_duet && finding.id == TOOK_TURNS.id)) {
            let i = tallies.iter().position(|tally| tally.id == finding.id).unwrap_or_else(|| {
                tallies.push(Tally {
                    id: finding.id,
                    severity: finding.severity,
                    is_bounded: false,
                    evidence: [None, None],
                    n: [0, 0],
                    of,
                });
                tallies.len() - 1
            });
            tallies[i].severity = tallies[i].severity.max(finding.severity);
            tallies[i].is_bounded |= finding.effect.is_some();
            tallies[i].evidence[side].get_or_insert_with(|| finding.evidence.clone());
            tallies[i].n[side] += 1;
        }
    }
    tallies
}
