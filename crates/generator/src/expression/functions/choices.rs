//! Functions that choose one of their arguments; only that one is evaluated.

use super::draws::probability;
use super::{Call, Double, Made, Node, Type, ensure};
use crate::expression::make::{Frame, Generator};
use crate::expression::node::{Code, Facts, FloatFn, Reach, TextFn, WordFn};
use crate::random;

/// The second argument if the first is true, else (also if it is null) the third.
pub(super) fn choose(call: &mut Call<'_, '_>) -> Made {
    let condition = call.bool(0)?;
    let branches = call.alike(1..3)?;
    if let Some(known) = condition.constant {
        let n_parts = branches.iter().map(|branch| branch.facts.n_parts).fold(2, u64::saturating_add);
        let chosen = if known == 0 { branches.into_iter().next_back() } else { branches.into_iter().next() };
        let Some(chosen) = chosen else { return Err(call.unknown(0)) };
        return Ok(Node { facts: Facts { n_parts, ..chosen.facts }, ..chosen });
    }
    let code = condition.code;
    let facts = condition.facts;
    one_of(call, branches, Facts { is_nullable: false, ..facts }, move |g, f| {
        Some(usize::from(code(g, f) != Some(1)))
    })
}

/// Null with a probability.
pub(super) fn nullable(call: &mut Call<'_, '_>) -> Made {
    let Double { code, facts, .. } = probability(call)?;
    let node = call.node(1)?;
    let unique = node.facts.is_unique;
    let chooser = move |g: &Generator, f: &mut Frame| {
        let probability = code(g, f)?;
        if random::unit(&mut f.draws) < probability { None } else { Some(0) }
    };
    let node = one_of(call, vec![node], Facts { is_nullable: true, ..facts.drawn() }, chooser)?;
    Ok(Node { facts: Facts { is_unique: unique, ..node.facts }, ..node })
}

/// One of the arguments, each as likely.
pub(super) fn pick(call: &mut Call<'_, '_>) -> Made {
    let nodes = call.alike(0..call.arguments.len())?;
    let n = nodes.len() as u64;
    one_of(call, nodes, Facts::varying(), move |_, f| Some(f.draws.below(n) as usize))
}

/// One of the arguments, as likely as the int behind it says.
pub(super) fn pick_weighted(call: &mut Call<'_, '_>) -> Made {
    let n = call.arguments.len();
    ensure(n.is_multiple_of(2), || {
        call.problem("each value of `pick_weighted` has a weight behind it".to_string())
    })?;
    let nodes = call.alike((0..n).step_by(2))?;
    let mut ends = Vec::new();
    let mut total = 0u64;
    for argument in (1..n).step_by(2) {
        let weight = call.constant_int(argument)?;
        // So many weights of at most this size add up to less than 2^63.
        let message = || format!("a weight is from 0 to 1,000,000,000, not {weight}");
        ensure((0..=1_000_000_000).contains(&weight), || call.problem_at(argument, message()))?;
        total += weight as u64;
        ends.push(total);
    }
    ensure(total > 0, || call.problem("all weights are 0".to_string()))?;
    one_of(call, nodes, Facts::varying(), move |_, f| {
        let drawn = f.draws.below(total);
        Some(ends.partition_point(|end| *end <= drawn))
    })
}

/// The interval that holds those of all.
fn hull(nodes: &[Node]) -> Reach {
    let reaches = nodes.iter().map(|node| node.facts.reach);
    let both = |a: Reach, b: Reach| match (a, b) {
        (Reach::Words(a, b), Reach::Words(c, d)) => Reach::Words(a.min(c), b.max(d)),
        (Reach::Floats(a, b), Reach::Floats(c, d)) => Reach::Floats(a.min(c), b.max(d)),
        _ => Reach::Unknown,
    };
    reaches.reduce(both).unwrap_or(Reach::Unknown)
}

/// The node whose number `chooser` gives; null if it gives none.
fn one_of(
    call: &Call<'_, '_>,
    nodes: Vec<Node>,
    of_chooser: Facts,
    chooser: impl Fn(&Generator, &mut Frame) -> Option<usize> + Send + Sync + 'static,
) -> Made {
    let Some(kind) = nodes.first().map(|node| node.kind.clone()) else { return Err(call.unknown(0)) };
    let all = Facts::combined(nodes.iter().map(|node| &node.facts).chain([&of_chooser]));
    let costliest = nodes.iter().map(|node| node.facts.steps).max().unwrap_or(0);
    let facts = Facts {
        steps: of_chooser.steps.saturating_add(costliest).saturating_add(1),
        reach: hull(&nodes),
        characters: nodes.iter().map(|node| node.facts.characters).max().unwrap_or(0),
        bytes: nodes.iter().map(|node| node.facts.bytes).max().unwrap_or(0),
        ..all
    };
    let mut words: Vec<WordFn> = Vec::new();
    let mut doubles: Vec<FloatFn> = Vec::new();
    let mut texts: Vec<TextFn> = Vec::new();
    for node in nodes {
        match node.code {
            Code::Word(code) => words.push(code),
            Code::Float(code) => doubles.push(code),
            Code::Text(code) => texts.push(code),
        }
    }
    if !texts.is_empty() {
        return Ok(Node::text(kind, facts, move |g, f, out| {
            chooser(g, f).is_some_and(|at| texts[at](g, f, out))
        }));
    }
    if kind == Type::Float {
        return Ok(Node::float(facts, move |g, f| chooser(g, f).and_then(|at| doubles[at](g, f))));
    }
    Ok(Node::word(kind, facts, move |g, f| chooser(g, f).and_then(|at| words[at](g, f))))
}
