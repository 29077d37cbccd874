//! Several judgements as one: of the thirds of a measurement, and of the runs of a case.

use crate::run::limiter::facts::MeasurementFacts;
use crate::run::limiter::{CANDIDATE, candidates, judge};
use crate::summary::limiter::{Bottleneck, Confidence, Limiter};

/// A part of a measurement: what limited it, and all that were near their limits in it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) limiter: Limiter,
    pub(super) near: Vec<Bottleneck>,
}

impl Part {
    pub(super) fn from_facts(facts: &MeasurementFacts) -> Part {
        let near = candidates::all(facts).into_iter().filter(|(_, score, _)| *score >= CANDIDATE);
        let near = near.map(|(name, ..)| name).chain(candidates::outside(facts).map(|(name, ..)| name));
        Part { limiter: judge(facts), near: near.collect() }
    }

    fn is_near(&self, name: Bottleneck) -> bool {
        self.near.iter().any(|near| is_of_one_resource(*near, name))
    }
}

/// Whether two names are of one resource: the same, or one behind the other. A queue for processors grows and shrinks while they are the
/// limit, others come and go on them, and what fills WAL does too.
fn is_of_one_resource(a: Bottleneck, b: Bottleneck) -> bool {
    use Bottleneck::{
        Autovacuum, Checkpoint, ClientHeldLock, DataRead, DataWrite, ForeignCpu, RowLock, Scheduling,
        ServerCpu, Steal, WalSync, WalVolume,
    };
    const RESOURCES: [&[Bottleneck]; 7] = [
        &[ServerCpu, Scheduling, ForeignCpu, Steal],
        &[WalSync, WalVolume, Checkpoint],
        &[DataWrite, Checkpoint],
        &[DataRead, Autovacuum],
        &[DataWrite, Autovacuum],
        &[ServerCpu, Autovacuum],
        &[RowLock, ClientHeldLock],
    ];
    a == b || RESOURCES.iter().any(|resource| resource.contains(&a) && resource.contains(&b))
}

/// The judgement of a whole measurement, of which `thirds` were judged apart. It is mixed if its ends are sure of different limits, and what
/// limits one end is not even near its limit at the other: between both thresholds lie two standard errors of a share of 30 samples.
pub(super) fn over(whole: Limiter, thirds: &[Part]) -> Limiter {
    let ([first, .., last], true) = (thirds, thirds.len() > 1) else { return whole };
    // The middle one has some of both where the change is in it.
    let are_clear = [first, last].iter().all(|part| part.limiter.confidence == Confidence::Medium);
    let is_one = is_of_one_resource(first.limiter.name, last.limiter.name);
    if !are_clear || is_one || first.is_near(last.limiter.name) || last.is_near(first.limiter.name) {
        return whole;
    }
    let words: Vec<&str> = thirds.iter().map(|third| third.limiter.name.as_str()).collect();
    let evidence = format!("the thirds of the measurement were limited by {}", words.join(", "));
    super::limiter((Bottleneck::Mixed, 1.0, evidence), Confidence::Medium, None)
}

/// The limiter of a case: what most of its runs name.
pub(crate) fn of_case(runs: &[&Limiter]) -> Option<Limiter> {
    let count = |limiter: &Limiter| runs.iter().filter(|run| run.name == limiter.name).count();
    let most = runs.iter().max_by_key(|limiter| (count(limiter), limiter.confidence))?;
    let n = count(most);
    if n == runs.len() {
        // As sure as the run in the middle, of two the less sure one.
        let mut runs = runs.to_vec();
        runs.sort_by_key(|run| run.confidence);
        return runs.get((n - 1) / 2).map(|run| (*run).clone());
    }
    let mut others: Vec<&str> =
        runs.iter().filter(|run| run.name != most.name).map(|run| run.name.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    // Runs that are not sure, or that name what is behind the other's limit, do not show that there are two.
    let are_clear = runs.iter().all(|run| run.confidence > Confidence::Low);
    let is_one = runs.iter().all(|run| is_of_one_resource(run.name, most.name));
    if 2 * n > runs.len() || !are_clear || is_one {
        let evidence =
            format!("{} ({n} of {} runs; the others: {})", most.evidence, runs.len(), others.join(", "));
        return Some(Limiter { confidence: Confidence::Low, evidence, ..(*most).clone() });
    }
    let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let evidence = format!("its runs were limited by {}", names.join(", "));
    let shared = runs.iter().find_map(|run| run.shared.clone());
    Some(Limiter { shared, ..super::limiter((Bottleneck::Mixed, 1.0, evidence), Confidence::Low, None) })
}
