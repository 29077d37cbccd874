//! A duet: two servers on one machine, both warm, whose loads alternate in short slices. A disturbance that lasts
//! longer than a slice affects both, and cancels in their ratio.
//!
//! Each side is an ordinary run with its own driver, telemetry and directory, except that its transactions begin only
//! in its own slices. Case 1 is A, case 2 is B. There are several rounds: the placement of processes on processors and
//! in memory lasts as long as the processes, so only a restart shows how much it matters.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::agents::is_agent;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::load::duet::{Duet, DuetRound, SlicePair, Slicing};
use model::load::{Pace, Turns, Window};
use model::run::RunRecord;
use model::text::prose::plural;
use workload::Prng;

use crate::run::duet_barrier::DuetBarrier;
use crate::run::duet_barrier::DuetSide;
use crate::run::live::OneRun;
use crate::schedule::agenda::Repeats;
use crate::schedule::conduct::{Task, make_run};
use crate::schedule::sequence::{self, Sequence};
use crate::site::Site;
use crate::site::clock::unix_now;
use crate::site::keys::key_of_twin;
use crate::site::progress::{ProgressEvent, Watch};
pub(crate) use crate::site::referee::RunFigures;
use crate::stage::disk;
use crate::stage::{ResolvedServer, Stage};
use dataset::session::STOPPED;

/// Checks that a plan can be a duet.
///
/// # Errors
/// What prevents it, and what to do.
pub fn check(plan: &Plan, slicing: Slicing) -> Result<()> {
    let [a, b] = &plan.cases[..] else {
        bail!("a duet has two cases, A and B; this plan has {}", plan.cases.len())
    };
    ensure!(plan.runs.len() == 2 * plan.repeats as usize, "each round of a duet is one run of each case");
    ensure!(a.window == b.window, "both sides of a duet have the same ramp_up, measure and grace");
    for case in [a, b] {
        ensure!(
            case.os.is_empty() && case.wal.is_as_is(),
            "both sides of a duet share the machine: leave [os] and run.wal out"
        );
        ensure!(
            case.hooks.is_empty() && case.factors.is_empty(),
            "both sides of a duet run at the same time: leave [hooks] and [factors] out"
        );
        ensure!(
            case.server.host.is_none(),
            "a duet cannot observe the servers' hosts: what a server uses in the other's turn would count as foreign CPU; \
             leave server.host (--host) and host of [[target]] out"
        );
        ensure!(
            case.adapt.is_none(),
            "the slices of a duet are drawn before it begins: give run.ramp_up a duration, and leave run.extend out"
        );
        ensure!(
            !case.workload.drivers.iter().any(is_agent),
            "the loads of a duet run at the same time, and an agent drives one at a time: leave [agents] (--agents) out, and name drivers that are reached otherwise ([[driver]], --driver)"
        );
        ensure!(
            case.workload.pace == Pace::Closed,
            "a duet needs a closed loop (workload.pace = \"closed\")"
        );
        // The slices after the end of one side would be compared as well.
        ensure!(
            case.workload.transactions.is_none(),
            "the slices of a duet need load on both sides until their end: leave workload.transactions out"
        );
    }
    if let (ServerSource::Url(a), ServerSource::Url(b)) = (&a.server.source, &b.server.source) {
        ensure!(a != b, "a duet by URL needs two servers, or two databases, with data of their own");
    }
    let Slicing { slice_ms, guard_ms } = slicing;
    ensure!(
        slice_ms >= 20 && guard_ms < slice_ms,
        "a slice of {slice_ms} ms with a guard of {guard_ms} ms: a slice has at least 20 ms, and is longer than its guard"
    );
    expect_enough_pairs(a.window, slicing)
}

/// Requires enough pairs for a verdict in each round.
fn expect_enough_pairs(window: Window, slicing: Slicing) -> Result<()> {
    let n_ramp_up = slicing.n_pairs_of_ramp_up(window);
    let n_pairs = slicing.n_pairs(window).saturating_sub(n_ramp_up);
    if n_pairs >= stats::PAIRS_MIN {
        return Ok(());
    }
    let load_ms = (stats::PAIRS_MIN + n_ramp_up) as u64 * 2 * u64::from(slicing.slice_ms);
    let least_s = load_ms.div_ceil(1000).saturating_sub(u64::from(window.ramp_up_s));
    bail!(
        "{} of slices fit into the measurement of a round ({} s), but a verdict needs at least {}: measure at least \
         {least_s}s, or give a shorter --slice",
        plural(n_pairs, "pair"),
        window.measure_s,
        stats::PAIRS_MIN
    )
}

/// Conducts a duet as planned by `order`, whose site has half of the memory: two servers share it.
///
/// # Errors
/// When a side cannot be measured completely. Everything measured so far is on disk.
pub fn conduct(order: &Task, slicing: Slicing, watch: &mut Watch) -> Result<Duet> {
    check(order.plan, slicing)?;
    let result = play(order, slicing, watch);
    if result.is_ok()
        && let Err(error) = profile(order, watch)
    {
        watch(ProgressEvent::Note(format!("a side of the duet has no profile: {error:#}")));
    }
    if order.plan.cases.iter().any(|case| case.server.source.is_embedded()) {
        disk::keep_to_budget(order.site.environment.cache, watch);
    }
    let (state, reason) = match &result {
        Ok(_) => (RunState::Completed, String::new()),
        Err(_) if order.site.environment.stop.load(Ordering::Relaxed) => {
            (RunState::Partial, STOPPED.to_string())
        }
        Err(error) => (RunState::Failed, format!("{error:#}")),
    };
    order.dir.append_state(&StateLine { t_unix_ns: unix_now(), run: 0, state, reason })?;
    result
}

/// Makes the runs for profiles, of each side alone: together, each would be recorded only in its slices, and wait in the other's.
fn profile(order: &Task, watch: &mut Watch) -> Result<()> {
    // The rounds are over.
    let done: BTreeSet<u32> = order.plan.runs.iter().map(|spec| spec.run).collect();
    let repeats = Repeats::new(order.plan, &[]);
    let order = Task { done: &done, ..*order };
    Sequence::new(order, order.plan.runs.len() as u32, &repeats).conduct_profiles(watch)
}

fn play(order: &Task, slicing: Slicing, watch: &mut Watch) -> Result<Duet> {
    let plan = order.plan;
    let (mut stages, is_alike) = set_up([&plan.cases[0], &plan.cases[1]], order.site, watch)?;
    let swaps = draw_swaps(plan.seed, plan.repeats as usize, is_alike);
    let mut duet = Duet { format: model::FORMAT, slicing, rounds: Vec::new(), pairs: Vec::new() };
    for (round, is_swapped) in (1..).zip(swaps) {
        let [one, other] = &mut stages;
        let stages = if is_swapped { [other, one] } else { [one, other] };
        duet.pairs.extend(play_round(order, slicing, (round, stages), watch)?);
        duet.rounds.push(DuetRound { round, is_swapped });
        // Earlier rounds stay comparable if a later one fails.
        order.dir.write_duet(&duet)?;
    }
    Ok(duet)
}

/// One round: starts both servers, and stops them afterwards. The stages are those of A and B.
fn play_round(
    order: &Task,
    slicing: Slicing,
    (round, [stage_a, stage_b]): (u32, [&mut Stage; 2]),
    watch: &mut Watch,
) -> Result<Vec<SlicePair>> {
    let plan = order.plan;
    let window = plan.cases[0].window;
    let spec = |case: u32| {
        let found = plan.runs.iter().find(|spec| spec.block == round && spec.case == case);
        found.context("the plan has a run of each case in each round")
    };
    let (spec_a, spec_b) = (spec(1)?, spec(2)?);
    let is_a_first = draw_order(spec_a.seed, slicing.n_pairs(window));
    let barrier = DuetBarrier::default();
    let (sender, progress) = mpsc::channel();
    let records = thread::scope(|scope| {
        let side = |spec: &'_ RunSpec, stage, is_a: bool, sender: Sender<ProgressEvent>| {
            let side = DuetSide { barrier: &barrier, turns: turns(&is_a_first, is_a, slicing) };
            let spec = spec.clone();
            let mut watch = move |progress| {
                let progress = Box::new(progress);
                sender.send(ProgressEvent::OfSide { side: usize::from(!is_a), progress }).ok();
            };
            scope.spawn(move || run_side(order, &spec, side, stage, &mut watch))
        };
        let sides = [side(spec_a, stage_a, true, sender.clone()), side(spec_b, stage_b, false, sender)];
        progress.iter().for_each(&mut *watch);
        sides.map(|side| side.join().unwrap_or_else(|_| Err(anyhow!("a side of the duet has panicked"))))
    });
    let [a_record, b_record] = records;
    let (a_counts, b_counts) = (committed(a_record?, "A")?, committed(b_record?, "B")?);
    let pairs = is_a_first.iter().enumerate().map(|(pair, &is_a_first)| {
        let (first, second) = (2 * pair, 2 * pair + 1);
        let (of_a, of_b) = if is_a_first { (first, second) } else { (second, first) };
        SlicePair { round, is_a_first, a: a_counts[of_a], b: b_counts[of_b] }
    });
    Ok(pairs.skip(slicing.n_pairs_of_ramp_up(window)).collect())
}

/// Sets up both servers with their data; also returns whether the two clusters are alike: equal keys except for the
/// side.
fn set_up(cases: [&Case; 2], site: &Site, watch: &mut Watch) -> Result<([Stage; 2], bool)> {
    let (of_a, mut of_b) = (
        ResolvedServer::resolve(cases[0], &site.environment, watch)?,
        ResolvedServer::resolve(cases[1], &site.environment, watch)?,
    );
    let mut is_alike = false;
    if let (ResolvedServer::Embedded(_, a), ResolvedServer::Embedded(_, b)) = (&of_a, &mut of_b)
        && a == b
    {
        is_alike = true;
        *b = key_of_twin(b.clone());
    }
    let a = [Stage::set_up(of_a, cases[0], site, watch)?];
    let b = Stage::set_up_next_to(&a, of_b, cases[1], site, watch)?;
    let [a] = a;
    Ok(([a, b], is_alike))
}

/// Rounds in which A gets the cluster that was B's: a random half of them, so that a location on disk affects both
/// sides equally. Clusters that are not alike are not swapped.
fn draw_swaps(seed: u64, n_rounds: usize, is_alike: bool) -> Vec<bool> {
    let mut prng = Prng::seed(seed);
    let mut swaps: Vec<bool> = (0..n_rounds).map(|n| is_alike && n % 2 == 1).collect();
    for last in (1..n_rounds).rev() {
        swaps.swap(last, prng.uint64_range(0, last as u64) as usize);
    }
    swaps
}

/// Whose slice comes first in each pair; random.
fn draw_order(seed: u64, n_pairs: usize) -> Vec<bool> {
    let mut prng = Prng::seed(seed);
    (0..n_pairs).map(|_| prng.uint64_range(0, 1) == 0).collect()
}

fn turns(is_a_first: &[bool], is_a: bool, slicing: Slicing) -> Turns {
    let of_pair = |&is_a_first: &bool| if is_a_first == is_a { "10" } else { "01" };
    Turns {
        slice_ns: u64::from(slicing.slice_ms) * 1_000_000,
        guard_ns: u64::from(slicing.guard_ms) * 1_000_000,
        slices: is_a_first.iter().map(of_pair).collect(),
    }
}

/// One side, from its restored data to the end of its server.
fn run_side(
    order: &Task,
    spec: &RunSpec,
    side: DuetSide<'_>,
    stage: &mut Stage,
    watch: &mut Watch,
) -> Result<RunRecord> {
    let Task { plan, dir, .. } = *order;
    let case = plan.case(spec.case).context("the plan has the case")?;
    let barrier = side.barrier;
    let run = OneRun { side: Some(side), ..order.one_run(spec, case, Vec::new()) };
    let (begun, n_runs) = (Instant::now(), plan.runs.len() as u32);
    watch(ProgressEvent::RunBegins { run: spec.run, n_runs, label: case.label() });
    let record = make_run(spec.run, dir, |writer| run.conduct(stage, writer, watch));
    // The other side must not wait for one that has failed.
    barrier.call_off();
    let is_well = record.as_ref().is_ok_and(|record| record.state == RunState::Completed);
    let stopped = if is_well { stage.stand_down() } else { stage.abandon() };
    let record = record?;
    let n_left = plan.repeats.saturating_sub(spec.block);
    let left_s = sequence::left_s(
        begun.elapsed().as_secs_f64(),
        n_left,
        order.site.environment.stop.load(Ordering::Relaxed),
    );
    watch(sequence::run_ends(&record, None, RunFigures::default(), n_runs, left_s));
    stopped.context("the server does not stop")?;
    Ok(record)
}

/// Commits of a side, by slice.
fn committed(record: RunRecord, side: &str) -> Result<Vec<u64>> {
    ensure!(record.state == RunState::Completed, "{side} was not measured to its end: {}", record.reason);
    let done = record.done.context("a completed run has its driver's last word")?;
    Ok(done.committed_by_slice)
}

#[cfg(test)]
mod tests {
    use model::experiment::agents::AgentsSection;
    use model::experiment::driver::DriverSpec;

    use super::*;
    use crate::plan::sample;

    #[test]
    fn every_slice_is_of_one_side() {
        let order = draw_order(7, 200);
        let slicing = Slicing::default();
        let (a, b) = (turns(&order, true, slicing), turns(&order, false, slicing));
        assert!(a.slices.bytes().zip(b.slices.bytes()).all(|(a, b)| a != b));
        assert_eq!((a.slices.len(), a.slice_ns, a.guard_ns), (400, 500_000_000, 50_000_000));
        let n_first = order.iter().filter(|is_a_first| **is_a_first).count();
        // Five standard deviations of 200 tosses.
        assert!(n_first.abs_diff(100) < 36, "{n_first}");
    }

    #[test]
    fn the_shortest_measure_that_is_suggested_suffices_and_a_shorter_one_does_not() {
        for (slice_ms, ramp_up_s) in [(500, 3), (500, 0), (250, 1), (333, 2), (20, 0), (5000, 7)] {
            let slicing = Slicing { slice_ms, guard_ms: 10 };
            let check = |measure_s| expect_enough_pairs(Window { ramp_up_s, measure_s, grace_s: 0 }, slicing);
            let error = check(0).unwrap_err().to_string();
            let (_, rest) = error.split_once("measure at least ").unwrap();
            let least_s: u32 = rest.split_once("s,").unwrap().0.parse().unwrap();
            check(least_s).unwrap();
            assert!(check(least_s - 1).is_err(), "{slice_ms} ms, {ramp_up_s} s: {error}");
        }
    }

    #[test]
    fn a_duet_with_eyes_on_a_servers_host_or_loads_that_end_by_number_is_refused() {
        let text = "repeats = 1\n[run]\nramp_up = \"3s\"\n[server]\nversion = \"18\"\n[workload]\nclients = [1, 2]\n";
        let plan = sample::plan(text);
        check(&plan, Slicing::default()).unwrap();
        let refused = |change: fn(&mut Case), words: &str| {
            let mut plan = plan.clone();
            change(&mut plan.cases[1]);
            let error = check(&plan, Slicing::default()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(|case| case.server.host = Some(DriverSpec::default()), "leave server.host (--host)");
        refused(|case| case.workload.transactions = Some(1000), "leave workload.transactions out");
    }

    #[test]
    fn a_duet_is_driven_by_drivers_that_can_drive_twice() {
        let text = "repeats = 1\n[run]\nramp_up = \"3s\"\n[server]\nversion = \"18\"\n[workload]\nclients = [1, 2]\n";
        let mut plan = sample::plan(text);
        let ssh: DriverSpec = "ssh:client1".parse().unwrap();
        plan.cases.iter_mut().for_each(|case| case.workload.drivers = vec![ssh.clone()]);
        check(&plan, Slicing::default()).unwrap();
        let agent = AgentsSection { nats: "tls://n:4222".into(), ..AgentsSection::default() }.driver("a");
        plan.cases.iter_mut().for_each(|case| case.workload.drivers.push(agent.clone()));
        let error = check(&plan, Slicing::default()).unwrap_err().to_string();
        assert!(error.contains("leave [agents] (--agents) out"), "{error}");
    }

    #[test]
    fn half_of_the_rounds_swap_clusters_that_are_alike() {
        let swaps = draw_swaps(3, 8, true);
        assert_eq!((swaps.len(), swaps.iter().filter(|is_swapped| **is_swapped).count()), (8, 4));
        assert_ne!(swaps, draw_swaps(4, 8, true));
        assert_eq!(draw_swaps(3, 8, false), [false; 8]);
    }
}
