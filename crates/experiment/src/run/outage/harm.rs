//! The fault itself: what is done to a server, and what shows that it was done.

use std::num::NonZeroU64;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::topology::outage::{Fault, OutageSpec, PRIMARY};
use server::StopMode;
use server::running::processes::{Frozen, ServerProcess};
use wan::{OneWay, Passed, Relay};
use wire::Session;

use super::script::RunningScript;
use super::thaw::Thaw;
use crate::run::hooks::Occasion;
use crate::stage::nodes::node::NodeAccess;
use crate::stage::{Stage, Standby};

/// How long it may take until the kernel shows all processes as stopped: one that waits for a device stops after it.
const STOPPED_MAX: Duration = Duration::from_secs(5);
/// How long it may take until something is sent on a way: a walsender says something each 10 s at least.
const SWALLOWED_MAX: Duration = Duration::from_secs(15);
/// How long a rate must have held up what came, one piece after another, to have limited anything: as long as two of the relay's pieces
/// take. Our convention.
const LIMITED_MIN: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(1);

/// A fault that was done.
pub(super) struct Harm {
    /// Evidence that it was done.
    pub(super) proof: String,
    lasting: Lasting,
}

/// What lasts of a fault until it is undone.
enum Lasting {
    /// Nothing: the next restore undoes it.
    Nothing,
    /// Nothing either. Who stood by while the postmaster was stopped is let go later: its end takes no time of the fault.
    Killed { _thaw: Thaw },
    /// Processes that are stopped; somebody else lets them go on if this process is killed.
    Stopped(Frozen, Thaw),
    /// The way to this standby, which swallows everything.
    Way(String),
    /// The way to this standby, which was another one before.
    Changed(String, OneWay),
    /// The same of a way with a lower rate, which nothing need have reached.
    Throttled(String, OneWay),
    /// SQL that a session runs.
    Script(RunningScript),
    /// What the user's command has done.
    Command,
}

impl Harm {
    /// Does what an outage says.
    ///
    /// # Errors
    /// When it cannot be done, or nothing shows that it was done.
    pub(super) fn inflict(
        outage: &OutageSpec,
        stage: &mut Stage,
        occasion: &Occasion,
        program: &Path,
    ) -> Result<Harm> {
        let node = outage.fault.node().unwrap_or(PRIMARY);
        match &outage.fault {
            Fault::KillPrimary | Fault::KillStandby(_) => kill(&mut stage.node(node)?, program),
            Fault::StopPrimary { is_immediate } => {
                let mode = if *is_immediate { StopMode::Immediate } else { StopMode::Fast };
                stop(&mut stage.node(node)?, mode)
            }
            Fault::Switchover => stop(&mut stage.node(node)?, StopMode::Fast),
            Fault::Freeze { process, .. } => freeze(&stage.node(node)?, process.as_deref(), program),
            Fault::Cut(_) => cut(stage, node),
            Fault::CutAndKill { after_ms, .. } => {
                cut_and_kill(stage, node, Duration::from_millis(*after_ms), program)
            }
            Fault::Slow { added, .. } => slow(stage, node, added.duration()),
            Fault::Throttle { rate, .. } => throttle(stage, node, rate.bytes_per_s()),
            Fault::Load { file, .. } => load(&stage.node(node)?, file, outage),
            Fault::Hook => by_command(outage, occasion),
        }
    }

    /// Whether something lasts that must be undone.
    pub(super) fn is_undone_later(&self) -> bool {
        !matches!(self.lasting, Lasting::Nothing | Lasting::Killed { .. })
    }

    /// Undoes it, the user's command by `words`. Returns what more was seen of it until its end.
    ///
    /// # Errors
    /// When that command fails, or the standby is gone.
    pub(super) fn undo(self, words: &[String], stage: &Stage, occasion: &Occasion) -> Result<Seen> {
        match self.lasting {
            Lasting::Nothing | Lasting::Killed { .. } => Ok(Seen::Nothing),
            Lasting::Stopped(frozen, thaw) => {
                drop(frozen);
                drop(thaw);
                Ok(Seen::Nothing)
            }
            Lasting::Way(node) => {
                way_to(stage, &node)?.pass();
                Ok(Seen::Nothing)
            }
            Lasting::Changed(node, before) => {
                Ok(Seen::More(passed_words(change_back(way_to(stage, &node)?, before))))
            }
            Lasting::Throttled(node, before) => {
                let relay = way_to(stage, &node)?;
                let rate = relay.way().rate;
                let passed = change_back(relay, before);
                Ok(seen_of_rate(passed_words(passed), passed.busy, rate))
            }
            Lasting::Script(script) => script.end().map(Seen::More),
            Lasting::Command => undo_command(words, occasion).map(|()| Seen::Nothing),
        }
    }
}

/// What was seen of a fault until it was undone.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// Nothing more than its proof.
    Nothing,
    /// More, in words.
    More(String),
    /// That it changed nothing: its proof is none.
    NoEffect(String),
}

fn change_back(relay: &Relay, before: OneWay) -> Passed {
    let passed = relay.passed();
    relay.set_way(before);
    passed
}

fn passed_words(passed: Passed) -> String {
    format!("{} bytes in {:.3} s until it was undone", passed.bytes, passed.span.as_secs_f64())
}

/// Whether as much came as a rate lets pass, for so long without a pause: the rate limits nothing else.
fn seen_of_rate(words: String, busy: Duration, rate: Option<NonZeroU64>) -> Seen {
    if busy >= LIMITED_MIN {
        return Seen::More(words);
    }
    let most = rate.map_or(0, NonZeroU64::get);
    Seen::NoEffect(format!("it limited nothing: {words}, never as many as {most} per second"))
}

fn kill(node: &mut NodeAccess, program: &Path) -> Result<Harm> {
    let conninfo = node.conninfo();
    // Its postmaster is stopped for a moment before it is killed.
    let thaw = Thaw::start(program, node.pid())?;
    let n = node.server().kill()?;
    let refused = match Session::connect(&conninfo) {
        Ok(_) => bail!("`{}` was killed, and still takes connections", node.name()),
        Err(error) => error.to_string(),
    };
    let proof = format!("{n} processes of `{}` were killed; a new connection: {refused}", node.name());
    Ok(Harm { proof, lasting: Lasting::Killed { _thaw: thaw } })
}

fn stop(node: &mut NodeAccess, mode: StopMode) -> Result<Harm> {
    let report = node.server().halt(mode)?;
    let is_as_asked = mode == StopMode::Immediate || report.is_clean;
    ensure!(is_as_asked, "`{}` did not stop as asked: {}", node.name(), report.ending);
    let proof = format!("`{}` stopped after {:.3} s: {}", node.name(), report.seconds, report.ending);
    Ok(Harm { proof, lasting: Lasting::Nothing })
}

fn freeze(node: &NodeAccess, kind: Option<&str>, program: &Path) -> Result<Harm> {
    let chosen = || -> Result<Vec<ServerProcess>> {
        let all = node.processes()?;
        Ok(all.into_iter().filter(|process| kind.is_none_or(|kind| process.is_kind(kind))).collect())
    };
    ensure!(!chosen()?.is_empty(), "`{}` has no process `{}`", node.name(), kind.unwrap_or_default());
    // Before the first one is stopped: a stopped server does not hear that we have ended.
    let thaw = Thaw::start(program, node.pid())?;
    let frozen = Frozen::stop(chosen, STOPPED_MAX).with_context(|| format!("freeze `{}`", node.name()))?;
    let proof = format!("{} of the processes of `{}` are stopped (state T)", frozen.n(), node.name());
    Ok(Harm { proof, lasting: Lasting::Stopped(frozen, thaw) })
}

/// Cuts the way between a standby and its upstream.
fn cut(stage: &Stage, node: &str) -> Result<Harm> {
    let relay = way_to(stage, node)?;
    let before = relay.swallowed_bytes();
    relay.cut();
    if !has_come(|| relay.swallowed_bytes() > before) {
        relay.pass();
        bail!("the way to `{node}` was cut, and nothing came that could be swallowed");
    }
    let proof = format!("the way to `{node}` swallows what `{}` sends", standby(stage, node)?.upstream());
    Ok(Harm { proof, lasting: Lasting::Way(node.to_string()) })
}

/// Cuts the way to a standby, and kills the primary so long after. The way passes again, for whom it leads to is gone.
fn cut_and_kill(stage: &mut Stage, node: &str, after: Duration, program: &Path) -> Result<Harm> {
    let began = Instant::now();
    let cut = cut(stage, node)?;
    thread::sleep(after.saturating_sub(began.elapsed()));
    let killed = kill(&mut stage.node(PRIMARY)?, program);
    way_to(stage, node)?.pass();
    let killed = killed?;
    Ok(Harm { proof: format!("{}; {}", cut.proof, killed.proof), ..killed })
}

/// Makes the way between a standby and its upstream longer by a round trip.
fn slow(stage: &Stage, node: &str, added: Duration) -> Result<Harm> {
    let (before, from) = (way_to(stage, node)?.way(), standby(stage, node)?.upstream());
    let slower = OneWay { delay: before.delay + added / 2, ..before };
    change(stage, node, slower, Lasting::Changed, |passed| {
        let least = passed.least.unwrap_or_default();
        ensure!(least >= slower.delay, "the way to `{node}` was made slow, and took {least:?}");
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(format!(
            "{} bytes from `{from}` took {:.1} ms or more to `{node}`; the way takes {:.1} ms each way",
            passed.bytes,
            ms(least),
            ms(slower.delay)
        ))
    })
}

/// Lets no more than so many bytes per second pass between a standby and its upstream.
fn throttle(stage: &Stage, node: &str, bytes_per_s: u64) -> Result<Harm> {
    let (before, from) = (way_to(stage, node)?.way(), standby(stage, node)?.upstream());
    let rate = NonZeroU64::new(bytes_per_s).map(|rate| before.rate.map_or(rate, |own| own.min(rate)));
    change(stage, node, OneWay { rate, ..before }, Lasting::Throttled, |passed| {
        let seconds = passed.span.as_secs_f64();
        let per_s = passed.bytes as f64 / seconds;
        let most = rate.map_or(f64::INFINITY, |rate| rate.get() as f64);
        ensure!(per_s <= most, "the way to `{node}` was limited, and {per_s:.0} bytes per second passed");
        Ok(format!(
            "{} bytes from `{from}` took {:.1} ms to `{node}`; no more than {most:.0} pass each second",
            passed.bytes,
            seconds * 1e3
        ))
    })
}

/// Changes the way between a standby and its upstream, and waits until something has come that way. It is as before where nothing shows
/// that it has changed.
fn change(
    stage: &Stage,
    node: &str,
    way: OneWay,
    lasting: fn(String, OneWay) -> Lasting,
    proof: impl Fn(Passed) -> Result<String>,
) -> Result<Harm> {
    let relay = way_to(stage, node)?;
    let before = relay.way();
    relay.set_way(way);
    let proved = if has_come(|| relay.passed().bytes > 0) {
        proof(relay.passed())
    } else {
        Err(anyhow!("the way to `{node}` was changed, and nothing came that could show it"))
    };
    match proved {
        Ok(proof) => Ok(Harm { proof, lasting: lasting(node.to_string(), before) }),
        Err(error) => {
            relay.set_way(before);
            Err(error)
        }
    }
}

/// Waits until something has come on a way, which shows what was done to it; false if nothing does.
fn has_come(has: impl Fn() -> bool) -> bool {
    let end = Instant::now() + SWALLOWED_MAX;
    while !has() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Runs the user's SQL on a node.
fn load(node: &NodeAccess, file: &str, outage: &OutageSpec) -> Result<Harm> {
    let text = outage.script.as_deref().with_context(|| format!("the plan has no text of `{file}`"))?;
    let (script, proof) = RunningScript::start(&node.conninfo(), file, text)
        .with_context(|| format!("run `{file}` on `{}`", node.name()))?;
    Ok(Harm { proof: format!("on `{}`, {proof}", node.name()), lasting: Lasting::Script(script) })
}

fn way_to<'a>(stage: &'a Stage, node: &str) -> Result<&'a Relay> {
    standby(stage, node)?.relay().with_context(|| format!("the way to `{node}` has no relay"))
}

fn standby<'a>(stage: &'a Stage, node: &str) -> Result<&'a Standby> {
    let found = stage.standbys().iter().find(|standby| standby.name() == node);
    found.with_context(|| format!("there is no standby `{node}`"))
}

/// Calls the user's commands. One that failed may have done something all the same, and is undone at once.
fn by_command(outage: &OutageSpec, occasion: &Occasion) -> Result<Harm> {
    occasion.owes_undo();
    let done = occasion.order("outage", &outage.run).and_then(|()| seen(outage, occasion));
    match done {
        Ok(proof) => Ok(Harm { proof, lasting: Lasting::Command }),
        Err(error) => match undo_command(&outage.undo, occasion) {
            Ok(()) => Err(error),
            Err(second) => Err(error.context(format!("what it did is not undone ({second:#})"))),
        },
    }
}

/// Calls the command that undoes an outage, if there is one.
fn undo_command(words: &[String], occasion: &Occasion) -> Result<()> {
    let undone = if words.is_empty() { Ok(()) } else { occasion.order("undo", words) };
    occasion.has_undone();
    undone
}

/// What shows that the user's command has done it.
fn seen(outage: &OutageSpec, occasion: &Occasion) -> Result<String> {
    if outage.check.is_empty() {
        return Ok("the command ended without an error".to_string());
    }
    occasion.order("check", &outage.check).context("nothing shows that it happened")?;
    Ok("the command of check ended without an error".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_nothing_reached_is_no_fault() {
        let seen = |busy_ms: u64| {
            let busy = Duration::from_millis(busy_ms);
            seen_of_rate("700 bytes in 2 s".to_string(), busy, NonZeroU64::new(1_000_000))
        };
        assert_eq!(seen(10), Seen::More("700 bytes in 2 s".to_string()));
        let none = "it limited nothing: 700 bytes in 2 s, never as many as 1000000 per second";
        assert_eq!(seen(9), Seen::NoEffect(none.to_string()));
    }
}
