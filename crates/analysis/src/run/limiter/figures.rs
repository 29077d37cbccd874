//! The figures behind a judgement, as shares: what a report draws as bars next to the sentence.

use model::telemetry::wait::WaitStage;

use crate::run::limiter::facts::MeasurementFacts;
use crate::run::limiter::standby;
use crate::run::limiter::utilisation::ResourceUse;
use crate::summary::limiter::{Bottleneck, LimiterFigure};

/// The figures of what limits, then those of what was second, then those that complete the picture. A figure stands once.
pub(super) fn from_facts(
    facts: &MeasurementFacts,
    first: Bottleneck,
    second: Option<Bottleneck>,
) -> Vec<LimiterFigure> {
    let mut all = behind(facts, first);
    all.extend(second.into_iter().flat_map(|second| behind(facts, second)));
    all.extend(context(facts));
    let mut kept: Vec<LimiterFigure> = Vec::new();
    for figure in all {
        if !kept.iter().any(|one| (&one.label, one.of) == (&figure.label, figure.of)) {
            kept.push(figure);
        }
    }
    kept
}

/// The first figure of each thing that may limit, whatever does: what a lift of it is to lower.
pub(super) fn firsts(facts: &MeasurementFacts) -> Vec<LimiterFigure> {
    const THINGS: [Bottleneck; 10] = [
        Bottleneck::WalSync,
        Bottleneck::WalVolume,
        Bottleneck::Checkpoint,
        Bottleneck::Standby,
        Bottleneck::DataRead,
        Bottleneck::DataWrite,
        Bottleneck::Memory,
        Bottleneck::RowLock,
        Bottleneck::Driver,
        Bottleneck::OfferedLoad,
    ];
    THINGS.into_iter().filter_map(|name| behind(facts, name).into_iter().next()).collect()
}

fn figure(label: impl Into<String>, share: f64, of: &'static str) -> LimiterFigure {
    LimiterFigure { label: label.into(), share: share.clamp(0.0, 1.0), of, speaks_for: None }
}

/// The queue of our own pooler.
fn queue(facts: &MeasurementFacts) -> Vec<LimiterFigure> {
    let Some(queue) = facts.queue else { return Vec::new() };
    let of = |n: f64, whole: f64| if whole > 0.0 { n / whole } else { 0.0 };
    vec![
        figure("waiting for a connection of the pooler", of(queue.waiting, facts.n_clients), "clients"),
        figure("in use", of(queue.active, queue.n_connections), "connections of the pooler"),
    ]
}

/// The figures that speak for one of them.
fn behind(facts: &MeasurementFacts, name: Bottleneck) -> Vec<LimiterFigure> {
    let of_processors = |label, share: Option<f64>| share.map(|share| figure(label, share, "processors"));
    let figures: Vec<LimiterFigure> = match name {
        Bottleneck::Quota => {
            let stopped = |share| figure("a quota stopped the server", share, "periods of the quota");
            facts.throttled.map(stopped).into_iter().collect()
        }
        Bottleneck::Steal => of_processors("taken by the hypervisor", facts.steal).into_iter().collect(),
        Bottleneck::ForeignCpu => {
            of_processors("used by other processes", facts.foreign).into_iter().chain(cpu(facts)).collect()
        }
        Bottleneck::Driver => driver(facts).into_iter().chain([for_client(facts)]).collect(),
        Bottleneck::WalSync => stage(facts, WaitStage::WalFlush, "writing or syncing WAL"),
        Bottleneck::WalVolume => stage(facts, WaitStage::WalInit, "creating a segment of WAL"),
        Bottleneck::Standby => {
            let of_wait = |(words, share)| figure(words, share, "the wait for a standby");
            let parts = standby::shares(facts).into_iter().map(of_wait);
            stage(facts, WaitStage::Standby, "waiting for a standby").into_iter().chain(parts).collect()
        }
        Bottleneck::DataRead => stage(facts, WaitStage::DataRead, "reading data"),
        Bottleneck::DataWrite => stage(facts, WaitStage::DataWrite, "writing data in a session"),
        Bottleneck::Memory => stage(facts, WaitStage::Spill, "using a temporary file"),
        Bottleneck::Checkpoint => {
            let pages = |share| figure("full pages", share, "WAL");
            facts
                .full_pages
                .map(pages)
                .into_iter()
                .chain(stage(facts, WaitStage::WalFlush, "writing or syncing WAL"))
                .collect()
        }
        Bottleneck::Autovacuum => {
            cpu(facts).into_iter().chain(stage(facts, WaitStage::DataRead, "reading data")).collect()
        }
        Bottleneck::ServerCpu | Bottleneck::Scheduling => {
            cpu(facts).into_iter().chain([running(facts)]).chain(queued(facts)).collect()
        }
        Bottleneck::RowLock => locks(facts, "held at work", facts.roots_at_work()),
        Bottleneck::ClientHeldLock => locks(facts, "held while the client pauses", facts.roots_at_client()),
        Bottleneck::Lwlock => lwlock(facts).into_iter().collect(),
        Bottleneck::Network | Bottleneck::OfferedLoad => vec![for_client(facts), working(facts)],
        Bottleneck::PoolerCpu | Bottleneck::PoolerSize => queue(facts),
        Bottleneck::Mixed | Bottleneck::Unknown => Vec::new(),
    };
    let figures =
        figures.into_iter().chain(ceilings(facts).filter(|(of, _)| *of == name).map(|(_, figure)| figure));
    figures.map(|figure| LimiterFigure { speaks_for: Some(name), ..figure }).collect()
}

/// The processors, the sessions at work, the driver, and the resource that is nearest to its ceiling, which complete every picture.
fn context(facts: &MeasurementFacts) -> Vec<LimiterFigure> {
    let nearest = ceilings(facts).map(|(_, figure)| figure).max_by(|a, b| a.share.total_cmp(&b.share));
    cpu(facts).into_iter().chain([working(facts)]).chain(driver(facts)).chain(nearest).collect()
}

/// How much of its ceiling each resource used, with the limiter that it would be.
fn ceilings(facts: &MeasurementFacts) -> impl Iterator<Item = (Bottleneck, LimiterFigure)> {
    let of = |used: &ResourceUse| Some((used.name, figure(used.words(), used.share()?, "the ceiling")));
    facts.used.iter().filter_map(of)
}

fn stage(facts: &MeasurementFacts, stage: WaitStage, words: &str) -> Vec<LimiterFigure> {
    if !facts.sees(stage) {
        return Vec::new();
    }
    let roots = facts.roots_in(stage);
    let mut figures = vec![
        figure(format!("somebody {words}"), facts.occupied(stage), "instants"),
        figure(words, facts.share_in(stage), "sessions at work"),
    ];
    if roots > 0.0 {
        figures.push(figure(format!("behind one {words}"), roots, "waits for locks"));
    }
    figures
}

fn locks(facts: &MeasurementFacts, words: &str, roots: f64) -> Vec<LimiterFigure> {
    vec![
        figure("somebody waiting for a lock", facts.occupied(WaitStage::Lock), "instants"),
        figure("waiting for a lock", facts.share_in(WaitStage::Lock), "sessions at work"),
        figure(words, roots, "waits for locks"),
    ]
}

/// The lightweight lock that most sessions wait for, other than that of WAL's flush.
fn lwlock(facts: &MeasurementFacts) -> Option<LimiterFigure> {
    let most =
        facts.sessions.iter().filter(|(what, _)| facts.is_lwlock(what)).max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(what, n)| figure(format!("waiting for {what}"), part(*n, facts.working()), "sessions at work"))
}

fn cpu(facts: &MeasurementFacts) -> Option<LimiterFigure> {
    facts.cpu.map(|busy| figure("busy", busy, "processors"))
}

fn running(facts: &MeasurementFacts) -> LimiterFigure {
    let n = facts.runnable();
    figure("running, or waiting to run", part(n, facts.working_or_ready()), "sessions at work")
}

/// Those of the running ones that only wait for a processor, as the kernel counted them.
fn queued(facts: &MeasurementFacts) -> Option<LimiterFigure> {
    let n = facts.server_delay?.min(facts.runnable());
    Some(figure("waiting for a processor", part(n, facts.working_or_ready()), "sessions at work"))
}

fn working(facts: &MeasurementFacts) -> LimiterFigure {
    figure("in a statement", part(facts.working(), facts.n_clients), "clients")
}

fn for_client(facts: &MeasurementFacts) -> LimiterFigure {
    figure("waiting for the driver", part(facts.waiting(), facts.n_clients), "clients")
}

fn driver(facts: &MeasurementFacts) -> Option<LimiterFigure> {
    facts.driver.map(|busy| figure("the driver's busiest thread at work", busy, "time"))
}

fn part(n: f64, whole: f64) -> f64 {
    if whole > 0.0 { n / whole } else { 0.0 }
}
