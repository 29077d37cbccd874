//! What a measured what-if proves.

use model::load::sessions::SessionSettings;
use model::run::ExperimentData;

use crate::summary::limiter::{Bottleneck, Confidence, Limiter};
use crate::summary::proof::{MUCH, PAIRS_MIN, Proof, ProofKind, ProofOutcome, QUEUE_MIN, has_fallen};
use crate::summary::{CaseSummary, RunSummary, Study};
use crate::what_if::WhatIf;

/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// A lift must give more than this beyond chance.
const LIFT_MIN: f64 = 1.1;
/// A brake must take more than this beyond chance.
const BRAKE_MAX: f64 = 0.95;

/// Judges a what-if whose runs are case `with` of the study, paired by block with those of case `without`.
pub fn judge(data: &ExperimentData, study: &Study, without: u32, with: u32, what_if: &WhatIf) -> Proof {
    let log_ratios = log_ratios(study, without, with);
    let estimate = stats::mean_interval(&log_ratios, LEVEL).map(|estimate| estimate.map(f64::exp));
    let of = |id: u32| study.cases.iter().find(|case| case.case.id == id);
    let share = of(without).and_then(|before| share(before, of(with), what_if.limiter));
    let next = of(with).and_then(|case| case.limiter.as_ref()).map(|limiter| limiter.name);
    let fell = share.as_ref().and_then(has_fallen);
    let outcome = estimate.map_or(ProofOutcome::Undecided, |estimate| {
        outcome(what_if.kind, what_if.predicted, estimate.point, [estimate.low, estimate.high], fell)
    });
    let is_silent = (what_if.is_partial && outcome == ProofOutcome::Refuted)
        || (what_if.is_forced && outcome == ProofOutcome::Proven);
    let overruled = overruled(data, with);
    let is_short = log_ratios.len() < PAIRS_MIN;
    let outcome =
        if is_silent || is_short || overruled.is_some() { ProofOutcome::Undecided } else { outcome };
    Proof {
        limiter: what_if.limiter,
        kind: what_if.kind,
        change: what_if.change.clone(),
        side_effect: what_if.side_effect.to_string(),
        predicted: what_if.predicted,
        bound: what_if.bound.clone(),
        ratio: estimate.map(|estimate| estimate.point),
        elasticity: estimate.and_then(|estimate| elasticity(what_if, estimate.point)),
        interval: estimate.map(|estimate| [estimate.low, estimate.high]),
        server_cpu_us: server_cpu_us(study, without).zip(server_cpu_us(study, with)).map(<[f64; 2]>::from),
        n_pairs: log_ratios.len(),
        share,
        outcome,
        overruled,
        next,
        measured_in: None,
    }
}

/// A setting that the sessions of a case were to have, and had otherwise: something after their start, or in front of the server,
/// decided. `None` also where no session has answered.
fn overruled(data: &ExperimentData, case: u32) -> Option<String> {
    let asked = &data.plan.case(case)?.workload.session_settings;
    let of_case = data.runs.iter().map(|run| &run.record).filter(|record| record.spec.case == case);
    let answers = of_case.filter_map(|record| record.done.as_ref()?.sessions.as_ref());
    let one = |sessions: &SessionSettings| {
        let is_in_effect = |name: &&String| {
            let mut values = sessions.values(name).peekable();
            values.peek().is_some() && values.all(|value| value.source == "client")
        };
        let name = asked.keys().find(|name| !is_in_effect(name))?;
        let had = sessions.values(name).find(|value| value.source != "client");
        let had =
            had.map_or("the server's".to_string(), |value| format!("{} by {}", value.value, value.source));
        Some(format!("{name} was {had} in its sessions"))
    };
    answers.filter(|sessions| sessions.n_answered > 0).find_map(one)
}

/// The part of what the limiter would lose that a brake takes, on the scale of logarithms: 1 for what limits alone, 0 for what is not missed.
fn elasticity(what_if: &WhatIf, ratio: f64) -> Option<f64> {
    let predicted = what_if.predicted.filter(|ratio| what_if.kind == ProofKind::Brake && *ratio < 1.0)?;
    Some(ratio.ln() / predicted.ln())
}

fn log_ratios(study: &Study, without: u32, with: u32) -> Vec<f64> {
    let counts = |run: &&RunSummary| run.counts();
    let tps = |case: u32, block: u32| {
        let mut runs = study.runs.iter().filter(counts).filter(|run| run.case == case && run.block == block);
        runs.find_map(|run| run.tps).filter(|tps| *tps > 0.0)
    };
    let mut blocks: Vec<u32> = study.runs.iter().map(|run| run.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.iter().filter_map(|block| Some((tps(with, *block)? / tps(without, *block)?).ln())).collect()
}

/// The mean over a case's runs that count.
fn server_cpu_us(study: &Study, case: u32) -> Option<f64> {
    let of_case = study.runs.iter().filter(|run| run.case == case && run.counts());
    let all: Vec<f64> = of_case.filter_map(|run| run.resources.server_cpu_us_per_transaction).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// The limiter's first figure, without and with the change.
fn share(
    before: &CaseSummary,
    after: Option<&CaseSummary>,
    limiter: Bottleneck,
) -> Option<(String, f64, Option<f64>)> {
    let figures = &before.limiter.as_ref()?.figures;
    let figure = figures.iter().find(|figure| figure.speaks_for == Some(limiter))?;
    let after = after.and_then(|after| after.limiter.as_ref()).and_then(|limiter| {
        let mut all = limiter.figures.iter().chain(&limiter.firsts);
        let same = all.find(|other| (&other.label, other.of) == (&figure.label, figure.of));
        same.map(|figure| figure.share)
    });
    Some((format!("{} ({})", figure.label, figure.of), figure.share, after))
}

/// The thresholds: a lift proves if it surely gives more than a tenth, at least half of what was predicted or surely twice
/// as much, and what limited is less occupied: where most of the time was held up, a prediction is as uncertain as the
/// little that is left. Where it is not known whether what limited is less occupied (`fell`), only what surely gives twice as
/// much proves. A brake proves if at least half of the predicted loss is there. Fewer clients that do as much queue for
/// something, which proves no name.
fn outcome(
    kind: ProofKind,
    predicted: Option<f64>,
    ratio: f64,
    [low, high]: [f64; 2],
    fell: Option<bool>,
) -> ProofOutcome {
    match kind {
        ProofKind::Lift => {
            let half = predicted.map_or(LIFT_MIN, |most| 1.0 + 0.5 * (most - 1.0));
            let is_enough = match fell {
                Some(true) => ratio >= half || low >= MUCH,
                Some(false) => false,
                None => low >= MUCH,
            };
            match () {
                () if low > LIFT_MIN && is_enough => ProofOutcome::Proven,
                () if high < half.min(MUCH) => ProofOutcome::Refuted,
                () => ProofOutcome::Undecided,
            }
        }
        ProofKind::Brake => {
            let half = predicted.map_or(BRAKE_MAX, |least| 1.0 - 0.5 * (1.0 - least));
            match () {
                () if high < BRAKE_MAX && ratio <= half => ProofOutcome::Proven,
                () if low > half => ProofOutcome::Refuted,
                () => ProofOutcome::Undecided,
            }
        }
        ProofKind::FewerClients if high < QUEUE_MIN => ProofOutcome::Refuted,
        ProofKind::FewerClients => ProofOutcome::Undecided,
    }
}

/// Gives the limiter of the case with this number its proofs. One that is proven has high confidence, if what was measured agrees with what
/// was predicted, or it is seen why not. If one is refuted, what was second takes its place, unless that is refuted, too: then nothing is
/// known. Rows that clients share, which are named first, are the limiter if that alone is proven, or if it gave more.
pub fn confirm(study: &mut Study, case: u32, proofs: &[Proof]) {
    let of_case = study.cases.iter_mut().filter(|summary| summary.case.id == case);
    for limiter in of_case.filter_map(|summary| summary.limiter.as_mut()) {
        confirm_one(limiter, proofs);
        limiter.proofs = proofs.to_vec();
    }
}

fn confirm_one(limiter: &mut Limiter, proofs: &[Proof]) {
    let of = |name: Bottleneck| proofs.iter().find(|proof| proof.limiter == name).map(Proof::verdict);
    let is = |name, outcome| of(name) == Some(outcome);
    match limiter.shared.clone() {
        Some(shared)
            if is(Bottleneck::RowLock, ProofOutcome::Proven)
                && (!is(limiter.name, ProofOutcome::Proven)
                    || gave(proofs, Bottleneck::RowLock) > gave(proofs, limiter.name)) =>
        {
            let second = (limiter.name, limiter.evidence.clone());
            replace(limiter, (Bottleneck::RowLock, shared), Some(second));
            limiter.shared = None;
        }
        Some(_) if is(Bottleneck::RowLock, ProofOutcome::Refuted) => limiter.shared = None,
        _ => {}
    }
    if is(limiter.name, ProofOutcome::Refuted) {
        limiter.confidence = Confidence::Low;
        let refuted = format!("refuted by a what-if, although {}", limiter.evidence);
        let second = limiter.runner_up.take_if(|(name, _)| !is(*name, ProofOutcome::Refuted));
        let first = (limiter.name, refuted);
        match second {
            Some(second) => replace(limiter, second, Some(first)),
            None => {
                let evidence = format!("{} was {}", first.0.as_str(), first.1);
                replace(limiter, (Bottleneck::Unknown, evidence), None);
            }
        }
    }
    if let Some(proof) = proofs.iter().find(|proof| proof.limiter == limiter.name)
        && proof.verdict() == ProofOutcome::Proven
    {
        limiter.confidence = if proof.is_explained() { Confidence::High } else { Confidence::Medium };
    }
}

/// How many times the throughput was when this limit was lifted; `None` if it was tested otherwise, which is less than any number.
fn gave(proofs: &[Proof], name: Bottleneck) -> Option<f64> {
    proofs.iter().find(|proof| proof.limiter == name && proof.kind == ProofKind::Lift)?.ratio
}

fn replace(limiter: &mut Limiter, first: (Bottleneck, String), second: Option<(Bottleneck, String)>) {
    limiter.next = first.0.advice();
    (limiter.name, limiter.evidence) = first;
    limiter.runner_up = second;
    limiter.charged = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifts_prove_by_what_they_give_and_brakes_by_what_they_take() {
        let check = |kind, predicted, ratio: f64, interval, expected| {
            assert_eq!(outcome(kind, predicted, ratio, interval, Some(true)), expected, "{kind:?} {ratio}");
        };
        // The WAL device with 200 writes a second, and the hot row that is held by its client.
        check(ProofKind::Lift, Some(6.0), 8.9, [8.1, 9.6], ProofOutcome::Proven);
        check(ProofKind::Lift, Some(3.0), 1.12, [1.05, 1.2], ProofOutcome::Refuted);
        check(ProofKind::Lift, Some(25.0), 6.1, [5.4, 6.9], ProofOutcome::Proven);
        check(ProofKind::Lift, Some(25.0), 1.4, [1.2, 1.7], ProofOutcome::Refuted);
        check(ProofKind::Lift, Some(3.0), 1.9, [0.9, 4.0], ProofOutcome::Undecided);
        check(ProofKind::Lift, None, 1.3, [1.2, 1.4], ProofOutcome::Proven);
        check(ProofKind::Lift, None, 1.0, [0.97, 1.03], ProofOutcome::Refuted);
        check(ProofKind::Brake, Some(0.6), 0.62, [0.58, 0.66], ProofOutcome::Proven);
        check(ProofKind::Brake, Some(0.6), 0.98, [0.95, 1.01], ProofOutcome::Refuted);
        check(ProofKind::Brake, Some(0.6), 0.8, [0.6, 1.1], ProofOutcome::Undecided);
        check(ProofKind::FewerClients, Some(1.0), 1.01, [0.93, 1.1], ProofOutcome::Undecided);
        check(ProofKind::FewerClients, Some(1.0), 0.55, [0.5, 0.6], ProofOutcome::Refuted);
        let of = |fell, interval| outcome(ProofKind::Lift, Some(2.0), 1.8, interval, fell);
        assert_eq!(of(Some(true), [1.7, 1.9]), ProofOutcome::Proven);
        assert_eq!(
            of(Some(false), [1.7, 1.9]),
            ProofOutcome::Undecided,
            "what limits is as occupied as before"
        );
        assert_eq!(of(None, [1.7, 1.9]), ProofOutcome::Undecided, "how occupied it is now is not known");
        assert_eq!(of(None, [2.1, 2.4]), ProofOutcome::Proven, "twice as much needs no other witness");
    }

    /// A proof of six pairs.
    fn of_wal_sync() -> Proof {
        Proof {
            limiter: Bottleneck::WalSync,
            kind: ProofKind::Lift,
            change: "synchronous_commit=off".to_string(),
            side_effect: String::new(),
            predicted: Some(6.0),
            bound: Some("the processors".to_string()),
            ratio: Some(8.9),
            interval: Some([8.1, 9.6]),
            elasticity: None,
            server_cpu_us: Some([395.0, 110.0]),
            n_pairs: 6,
            share: None,
            outcome: ProofOutcome::Proven,
            overruled: None,
            next: Some(Bottleneck::RowLock),
            measured_in: None,
        }
    }

    #[test]
    fn a_proof_says_what_it_shows_and_what_comes_next() {
        let proof = of_wal_sync();
        assert_eq!(
            proof.sentence(),
            "synchronous_commit=off gives 8.90x (8.10x to 9.60x), more than the predicted 6.00x (limited by the processors at the use \
             per transaction without it) because the server's CPU time per transaction fell from 395 to 110 µs: wal-sync limits it. \
             With it, row-lock limits next."
        );
        let unseen = Proof { server_cpu_us: None, ..proof.clone() };
        assert!(unseen.sentence().contains("more than the predicted 6.00x (limited by the processors at the use per transaction without it): wal"));
        let costlier = Proof { server_cpu_us: Some([395.0, 410.0]), ..proof.clone() };
        assert_eq!(costlier.sentence(), unseen.sentence(), "what rose is no reason");
        let near = Proof { interval: Some([5.8, 9.6]), bound: None, ..proof.clone() };
        assert!(near.sentence().contains("(5.80x to 9.60x), predicted 6.00x: wal-sync"), "not surely more");
        let refuted = Proof { outcome: ProofOutcome::Refuted, ..proof };
        assert!(refuted.sentence().ends_with(": wal-sync does not limit it."));
    }

    #[test]
    fn fewer_pairs_than_a_verdict_needs_decide_nothing() {
        for (n_pairs, expected) in [
            (1, ProofOutcome::Undecided),
            (2, ProofOutcome::Undecided),
            (3, ProofOutcome::Undecided),
            (4, ProofOutcome::Proven),
        ] {
            let proof = Proof { n_pairs, ..of_wal_sync() };
            assert_eq!(proof.verdict(), expected, "{n_pairs} pairs");
            let said = crate::summary::proof::no_verdict(std::slice::from_ref(&proof));
            assert_eq!(said.is_some(), n_pairs < 4, "{said:?}");
            assert_eq!(proof.sentence().contains("no verdict"), n_pairs < 4, "{}", proof.sentence());
        }
        let two = Proof { n_pairs: 2, ..of_wal_sync() };
        assert_eq!(crate::summary::proof::no_verdict(&[two]).as_deref(), Some("2 pairs give no verdict"));
        assert_eq!(crate::summary::proof::no_verdict(&[]), None);
    }
}
