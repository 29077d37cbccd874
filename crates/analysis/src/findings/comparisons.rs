//! Findings about a comparison of two cases.

pub(crate) mod sides;

use model::text::prose::plural;
use stats::{PAIRS_MIN, UNPAIRED_MIN};

use super::format::{excerpt, excerpts, list, span};
use super::{ComparisonContext, ON_RECORDS, Rule, RuleCheck};
use crate::comparison::{ComparedSide, ComparisonPurpose, Difference, Pairing};
use crate::finding::{Finding, Severity};
use crate::summary::RunSummary;

pub(super) const UNDECLARED_DIFFERENCE: Rule = Rule {
    id: "undeclared-difference",
    title: "The sides differ in more than was asked for",
    severity: "Void for the load, the scale, durability (also of a table), unique indexes, checksums on one \
               server, assertions, the machine, or a standby on one side; Doubt for checksums of different \
               servers, lengths of a run, preparation, driver threads, polling, other settings (defaults \
               included), other table definitions, the size of data on one server, builds, releases, \
               kernels, devices and the way to the server; Note for the size on different servers",
    source: "Raasveldt et al. 2018; what voids is our convention",
    advice: "Make the sides equal but for what you compare, or make it a factor (server.settings.NAME, \
             server.data_checksums); --force compares anyway.",
    evidence: "Load, settings, builds, data, tables, durability, checksums and machine of both sides, from \
               plan.json and run.json.",
    why: "If two things differ, a difference in speed belongs to neither.",
    tested: "Settings, also of sessions, tables, indexes, row security, a publication and a receiver of WAL of one of two servers by URL, \
             and TLS on one side. By hand: an asynchronous standby.",
    check: RuleCheck::Comparison(undeclared_differences),
};

/// One finding per severity.
fn undeclared_differences(context: &ComparisonContext) -> Vec<Finding> {
    let [name_a, name_b] = context.purpose.names();
    let of = |severity: Severity| {
        let words = |d: &Difference| {
            let [a, b] =
                excerpts(&d.a, &d.b).map(|text| if text.is_empty() { "''".to_string() } else { text });
            format!("{} ({a} and {b})", d.what)
        };
        let found: Vec<String> =
            context.undeclared.iter().filter(|d| d.severity == severity).map(words).collect();
        let evidence = || format!("{name_a} and {name_b} differ in {}", list(&found, 6));
        (!found.is_empty()).then(|| UNDECLARED_DIFFERENCE.finds(severity, evidence()))
    };
    [Severity::Void, Severity::Doubt, Severity::Note].into_iter().filter_map(of).collect()
}

pub(super) const NOT_INTERLEAVED: Rule = Rule {
    id: "not-interleaved",
    title: "The sides were not measured in turns",
    severity: "Doubt when the sides are of two experiments, or were measured one after the other within one",
    source: "A/A study and simulation: blocks of identical runs, one after the other, differ in 8 to 92 % of cases",
    advice: "Measure both in one experiment, in pairs: pgdyno compare --a KEY=VALUE --b KEY=VALUE.",
    evidence: "Experiments, order and first runs of both sides.",
    why: "Machines change from hour to hour by more than most differences.",
    tested: "A result and its copy, by URL.",
    check: RuleCheck::Comparison(not_interleaved),
};

fn not_interleaved(context: &ComparisonContext) -> Vec<Finding> {
    let moment = |side: ComparedSide| side.first().and_then(|run| run.record.go_unix_ns);
    let apart = match (moment(context.a), moment(context.b)) {
        (Some(a), Some(b)) => format!("their first runs are {} apart", span(a.abs_diff(b))),
        _ => "the time between them is unknown".to_string(),
    };
    let evidence = format!("{apart}: whatever changed in between is part of the difference");
    let found = || NOT_INTERLEAVED.finds(Severity::Doubt, evidence);
    let advised = || match context.purpose {
        ComparisonPurpose::Change => found(),
        // What was measured elsewhere, or before, takes no turns with what is measured now.
        ComparisonPurpose::Repeat => Finding { advice: REPEAT_TWICE.to_string(), ..found() },
    };
    (!context.pairing.is_paired() || are_in_sequence(context)).then(advised).into_iter().collect()
}

/// What shows how much of a difference from an original is time alone.
const REPEAT_TWICE: &str =
    "Repeat it a second time: what differs between both repetitions is no difference from the original.";

/// Whether one experiment measured all runs of one side before those of the other, as `order = "sequential"` and `"by-server"` do. Their
/// blocks have equal numbers and nothing else in common.
fn are_in_sequence(context: &ComparisonContext) -> bool {
    let places = |side: ComparedSide| -> Option<(usize, usize)> {
        let mut places = side.data.plan.runs.iter().enumerate().filter(|(_, run)| run.case == side.case);
        let (first, _) = places.next()?;
        // Two single runs have no order to be in.
        Some((first, places.next_back()?.0))
    };
    match (places(context.a), places(context.b)) {
        (Some(a), Some(b)) => context.pairing == Pairing::Blocks && (a.1 < b.0 || b.1 < a.0),
        _ => false,
    }
}

pub(super) const TOO_FEW_PAIRS: Rule = Rule {
    id: "too-few-pairs",
    title: "Too few pairs for a verdict",
    severity: "Doubt below six pairs; where runs or rounds are not paired, below four on each side",
    source: "signed rank test: five pairs reach no chance below 6 %; rank sum test: three and three, none \
             below 10 %",
    advice: "Go on with compare --resume DIR (without --pairs), or measure again with --pairs 6, --repeats \
             or --rounds.",
    evidence: "Pairs of which both runs count.",
    why: "With five pairs even five wins are chance in one case of sixteen.",
    tested: "One pair of two settings of a server that pgdyno runs.",
    check: RuleCheck::Comparison(too_few_pairs),
};

fn too_few_pairs(context: &ComparisonContext) -> Vec<Finding> {
    let least = if context.pairing.is_paired() { PAIRS_MIN } else { UNPAIRED_MIN };
    let noun = context.pairing.noun();
    let [a, b] = context.n;
    let [of_a, of_b] = context.purpose.owners();
    let evidence = if a == b {
        format!("only {a} of {least} {noun}s")
    } else {
        format!("{} {of_a} and {b} {of_b} count, and a verdict needs {least} of each", plural(a, noun))
    };
    let found = || TOO_FEW_PAIRS.finds(Severity::Doubt, evidence);
    let advised = || Finding { advice: more(context), ..found() };
    (a.min(b) < least).then(advised).into_iter().collect()
}

/// How to measure more pairs, runs or rounds where these results are.
fn more(context: &ComparisonContext) -> String {
    match (context.pairing, context.purpose) {
        (Pairing::Blocks, _) if context.a.data.plan.is_comparison => {
            "Go on in the same directory (compare --resume DIR), or use --pairs 6 or more, or a longer --time."
        }
        (Pairing::Blocks, _) => "Measure the experiment again with --repeats 6 or more.",
        (Pairing::Slices | Pairing::Rounds, _) => "Measure six or more rounds (--rounds), which may be shorter.",
        (Pairing::None, ComparisonPurpose::Change) => "Measure both sides again with --repeats 4 or more, or, better, in pairs by pgdyno compare.",
        (Pairing::None, ComparisonPurpose::Repeat) => "Measure the original with --repeats 4 or more, and repeat that.",
        (Pairing::RoundsApart, _) => "Measure both duets with --rounds 4 or more.",
    }
    .to_string()
}

pub(super) const TOO_FEW_ROUNDS: Rule = Rule {
    id: "too-few-rounds",
    title: "Too few rounds to know the effect of a server start",
    severity: "Doubt for a duet of fewer than six rounds",
    source: "duets of a server with itself; Kalibera and Jones 2013, 6: the interval comes from the highest level that varies",
    advice: "Measure six or more rounds (--rounds), which may be shorter.",
    evidence: "Rounds of a duet, each with servers restarted and clients connected again.",
    why: "Placement of processes and memory is decided at the start, and favours one side until the next.",
    tested: "A duet of two rounds on servers that pgdyno runs.",
    check: RuleCheck::Comparison(too_few_rounds),
};

fn too_few_rounds(context: &ComparisonContext) -> Vec<Finding> {
    let evidence = || {
        format!(
            "fewer than {PAIRS_MIN} rounds, so slices are compared: the interval ignores effects that are fixed when servers start \
             and clients connect"
        )
    };
    (context.pairing == Pairing::Slices)
        .then(|| TOO_FEW_ROUNDS.finds(Severity::Doubt, evidence()))
        .into_iter()
        .collect()
}

pub(super) const PAIRS_EXCLUDED: Rule = Rule {
    id: "pairs-excluded",
    title: "Pairs were left out",
    severity: "Note when a started run does not count, nor its pair or its round of a duet; Doubt for a run \
               that counts without a throughput or a latency; Void in a duet of too few rounds, when a \
               search found no rate, or when no started run of a side counts",
    source: "our rule",
    advice: "See the findings of these runs.",
    evidence: "Runs that do not count, with what voids them, or that lack a figure, and their pairs or \
               rounds.",
    why: "If one side fails more often than the other, that is a result too.",
    tested: "A script without statements on one side of a comparison by URL.",
    check: RuleCheck::Comparison(pairs_excluded),
};

fn pairs_excluded(context: &ComparisonContext) -> Vec<Finding> {
    let [of_a, of_b] = context.purpose.owners();
    let sides = [(of_a, context.a), (of_b, context.b)];
    let mut evidence: Vec<String> = sides.iter().filter_map(|(of, side)| left_out(of, *side)).collect();
    let without: Vec<String> = context.without_figure.iter().map(u32::to_string).collect();
    if !without.is_empty() {
        let which = match &without[..] {
            [run] => format!("run {run} counts but has no throughput or no latency, and is"),
            runs => format!("runs {} count but have no throughput or no latency, and are", list(runs, 8)),
        };
        evidence.push(format!("{which} left out of that figure"));
    }
    let mut begun = sides.iter().flat_map(|(_, side)| side.runs()).filter(|run| run.replaced_by.is_none());
    let by_result = begun.any(RunSummary::is_censored);
    let is_one_empty = sides.iter().any(|(_, side)| side.runs().next().is_some() && side.first().is_none());
    let severity = match context.pairing {
        _ if by_result || is_one_empty => Severity::Void,
        // Too few rounds are left to know the effect of each.
        Pairing::Slices => Severity::Void,
        _ if without.is_empty() => Severity::Note,
        _ => Severity::Doubt,
    };
    if by_result {
        evidence.push(
            "in some of them no rate met the target: the remaining runs were chosen by their result"
                .to_string(),
        );
    }
    (!evidence.is_empty()).then(|| PAIRS_EXCLUDED.finds(severity, evidence.join("; "))).into_iter().collect()
}

/// The runs of a side that were started and do not count, and why not.
fn left_out(of: &str, side: ComparedSide) -> Option<String> {
    let lost: Vec<&RunSummary> =
        side.runs().filter(|run| run.replaced_by.is_none() && !run.counts()).collect();
    let runs: Vec<String> = lost.iter().map(|run| run.run.to_string()).collect();
    let mut causes: Vec<(&str, &str)> = Vec::new();
    for finding in lost.iter().flat_map(|run| &run.findings).filter(|one| one.severity == Severity::Void) {
        if !causes.iter().any(|(id, _)| *id == finding.id) {
            causes.push((finding.id, &finding.evidence));
        }
    }
    let causes: Vec<String> = causes.iter().map(|(id, what)| format!("{id}: {}", excerpt(what))).collect();
    let why = if causes.is_empty() { String::new() } else { format!(" ({})", list(&causes, 3)) };
    let which = match side.first() {
        None => format!("no run {of} counts"),
        Some(_) if runs.len() == 1 => format!("run {} {of} does not count", runs[0]),
        Some(_) => format!("runs {} {of} do not count", list(&runs, 8)),
    };
    (!lost.is_empty()).then(|| format!("{which}{why}"))
}

pub(super) const TURNS_WEIGH: Rule = Rule {
    id: "turns-weigh",
    title: "A slice affects the next one",
    severity: "Note when second slices of a duet differ from first ones beyond chance (interval of 95 %), \
               Doubt when the whole interval lies beyond the margin",
    source: "Grizzle 1965, cross-over designs",
    advice: "Use longer slices or a longer guard; if background work of one server (checkpoints, vacuum) \
             disturbs the other, compare whole runs.",
    evidence: "The second slices of all pairs against the first ones, by the signed rank test.",
    why: "The other side's slice pays for what one leaves behind: dirty pages, WAL, busy processors.",
    tested: ON_RECORDS,
    check: RuleCheck::Comparison(turns_weigh),
};

fn turns_weigh(context: &ComparisonContext) -> Vec<Finding> {
    let Some(ratio) = context.carry_over else { return Vec::new() };
    let is_beyond = |margin: f64| ratio.low > 1.0 + margin || ratio.high < 1.0 / (1.0 + margin);
    let severity = if is_beyond(context.margin) { Severity::Doubt } else { Severity::Note };
    let change = |of: f64| 100.0 * (of - 1.0);
    let evidence = format!(
        "the second slice of a pair commits {:.2} % {} than the first (95 % interval {:+.2} to {:+.2} %)",
        change(ratio.ratio).abs(),
        if ratio.ratio < 1.0 { "less" } else { "more" },
        change(ratio.low),
        change(ratio.high)
    );
    is_beyond(0.0).then(|| TURNS_WEIGH.finds(severity, evidence)).into_iter().collect()
}
