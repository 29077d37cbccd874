//! Judgements of parts as one.

use crate::run::limiter::mixture::{Part, over};

use super::*;

fn busy(cpu: f64) -> MeasurementFacts {
    facts(&[("CPU", 12.0)], &[], &[], cpu)
}

fn held() -> MeasurementFacts {
    facts(
        &[("Lock:tuple", 14.0), ("CPU", 0.3), ("idle in transaction", 1.0)],
        &[(WaitStage::Lock, 0.99)],
        &[("idle in transaction", 1.0)],
        0.1,
    )
}

#[test]
fn thirds_that_differ_are_mixed_and_runs_that_differ_are_said() {
    let (cpu, held) = (Part::from_facts(&busy(0.99)), Part::from_facts(&held()));
    let of = |thirds: [&Part; 3]| over(cpu.limiter.clone(), &thirds.map(Clone::clone));
    let mixed = of([&cpu, &cpu, &held]);
    assert_eq!(mixed.name, Bottleneck::Mixed);
    assert!(mixed.evidence.ends_with("by server-cpu, server-cpu, client-held-lock"));
    assert_eq!(of([&cpu, &held, &cpu]).name, Bottleneck::ServerCpu);
    // The third in which it changes is unsure.
    let unsure = Limiter::new(Bottleneck::Unknown, Confidence::Low, "");
    let unsure = Part { limiter: unsure, near: Vec::new() };
    assert_eq!(of([&cpu, &unsure, &held]).name, Bottleneck::Mixed);
    assert_eq!(of([&cpu, &held, &unsure]).name, Bottleneck::ServerCpu);
    // A load that is light throughout is near no limit, and no mixture either.
    let light = Limiter::new(Bottleneck::OfferedLoad, Confidence::Medium, "");
    let light = Part { limiter: light, near: Vec::new() };
    assert_eq!(of([&light, &light, &light]).name, Bottleneck::ServerCpu, "as the whole");
    let (cpu, held) = (cpu.limiter, held.limiter);
    assert_eq!(of_case(&[&cpu, &cpu, &held]).unwrap().confidence, Confidence::Low);
    assert_eq!(of_case(&[&cpu, &held]).unwrap().name, Bottleneck::Mixed);
    assert_eq!(of_case(&[]), None);
}

#[test]
fn what_is_still_near_its_limit_and_what_is_of_one_resource_is_no_mixture() {
    let whole = Part::from_facts(&busy(0.99));
    let of = |last: &MeasurementFacts| {
        let thirds = [whole.clone(), whole.clone(), Part::from_facts(last)];
        over(whole.limiter.clone(), &thirds).name
    };
    // Processors that are 72 % busy are near enough to have been the limit, by the noise of a third.
    let mut flushing = facts(
        &[("IO:WalSync", 1.0), ("LWLock:WALWrite", 6.0), ("CPU", 3.0)],
        &[(WaitStage::WalFlush, 0.97)],
        &[],
        0.72,
    );
    assert_eq!(judge(&flushing).name, Bottleneck::WalSync);
    assert_eq!(of(&flushing), Bottleneck::ServerCpu);
    flushing.cpu = Some(0.3);
    assert_eq!(of(&flushing), Bottleneck::Mixed);
    // Others that come to the same processors.
    assert_eq!(of(&MeasurementFacts { foreign: Some(0.5), ..busy(0.99) }), Bottleneck::ServerCpu);
    assert_eq!(of(&MeasurementFacts { is_throttled: true, ..busy(0.4) }), Bottleneck::Mixed);
}

#[test]
fn runs_that_are_unsure_or_name_cause_and_effect_are_not_two_limits() {
    let of = |name, confidence| Limiter::new(name, confidence, "evidence");
    let cpu = of(Bottleneck::ServerCpu, Confidence::Medium);
    let unsure = of(Bottleneck::Unknown, Confidence::Low);
    let found = of_case(&[&unsure, &cpu]).unwrap();
    assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Low));
    assert_eq!(found.evidence, "evidence (1 of 2 runs; the others: unknown)");
    let foreign = of(Bottleneck::ForeignCpu, Confidence::Medium);
    assert_ne!(of_case(&[&foreign, &cpu]).unwrap().name, Bottleneck::Mixed);
}
