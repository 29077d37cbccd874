//! The replay of a directory's trace: its statements are the only script, its sessions the clients, and it ends when all is done.

use model::directory::{Replay, TraceReplay};
use model::experiment::WorkloadSection;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::keys::workload as keys;
use model::experiment::script::CaseScript;
use model::load::Pace;
use workload::emulator::traced::{TRACE_SCRIPT, outline_of, script_of};

use crate::plan::scripts::directories::AskedLoad;
use crate::plan::scripts::directories::chosen::ChosenDirectory;
use crate::plan::scripts::sha256;

/// The time that a trace has beyond its length before it is cut off: as long again, and a minute.
const PATIENCE: (f64, f64) = (2.0, 60.0);

/// A speed, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplaySpeed(u32);

/// The speed of the trace, if a section asks for its replay.
pub(crate) fn asked(section: &WorkloadSection) -> Option<ReplaySpeed> {
    let times = section.speed.unwrap_or_default().times();
    (section.replay == Some(Replay::Trace)).then_some(ReplaySpeed((1000.0 * times).round() as u32))
}

/// The directory with its trace in place of its transactions.
///
/// # Errors
/// What is wrong with the trace, with file and line.
pub(super) fn of_trace(made: ChosenDirectory, speed: ReplaySpeed) -> Result<ChosenDirectory, String> {
    let trace = outline_of(&made.directory)?;
    let source = script_of(&trace);
    let sha256 = sha256(&source);
    let script = CaseScript { name: TRACE_SCRIPT.to_string(), weight: 1, sha256, source, to: None };
    let replay = TraceReplay {
        speed: f64::from(speed.0) / 1000.0,
        n_sessions: trace.head.n_sessions,
        n_transactions: trace.head.n_transactions.into(),
        n_statements: trace.head.n_statements,
        length_us: trace.head.length_us,
    };
    let directory =
        WorkloadDirectory { replay: Some(replay), has_classes: false, limits: Vec::new(), ..made.directory };
    Ok(ChosenDirectory {
        directory,
        scripts: vec![script],
        transactions: Some(trace.head.n_each_max.into()),
        n_clients: Some(trace.head.n_clients),
        ..made
    })
}

/// The load that a trace asks for.
pub(super) fn asked_load(made: &ChosenDirectory) -> Option<AskedLoad> {
    let replay = made.directory.replay.as_ref()?;
    let (times, more_s) = PATIENCE;
    Some(AskedLoad {
        n_clients: made.n_clients,
        is_counted: true,
        is_captured: false,
        replay_s: Some((times * replay.length_s() + more_s).ceil() as u32),
    })
}

/// Fails unless a load has the clients of the trace.
///
/// # Errors
/// In words.
pub(super) fn expect_clients(
    replay: &TraceReplay,
    wanted: Option<u32>,
    n_clients: u32,
) -> Result<(), String> {
    match wanted {
        Some(wanted) if wanted != n_clients => Err(format!(
            "{}: the trace has {} sessions, of which {wanted} are open at a time: it needs {wanted} clients, not {n_clients}; leave the key out",
            keys::CLIENTS,
            replay.n_sessions
        )),
        _ => Ok(()),
    }
}

/// Keys that a trace does not follow, and the replay that others cannot have.
///
/// # Errors
/// In words.
pub(crate) fn expect_fitting(
    section: &WorkloadSection,
    directory: Option<&WorkloadDirectory>,
    n_drivers: usize,
    pace: Pace,
) -> Result<(), String> {
    let is_traced = section.replay == Some(Replay::Trace);
    if section.speed.is_some() && !is_traced {
        return Err(format!(
            "{} is for {} = \"trace\"; for others, see {}",
            keys::SPEED,
            keys::REPLAY,
            keys::PACE
        ));
    }
    if section.replay.is_some() && directory.is_none_or(|directory| directory.captured.is_none()) {
        return Err(format!(
            "{} is for captured workloads: `pgdyno capture log` makes one of a log",
            keys::REPLAY
        ));
    }
    if !is_traced {
        return Ok(());
    }
    if pace != Pace::Closed {
        return Err(format!(
            "{}: a trace has its own pace; {} makes it faster or slower",
            keys::PACE,
            keys::SPEED
        ));
    }
    if section.transactions.is_some() {
        return Err(format!("{}: a trace has its own; capture a shorter window", keys::TRANSACTIONS));
    }
    if section.max_tries.is_some_and(|n| n != 1) {
        return Err(format!("{}: what the source tried again is in the trace", keys::MAX_TRIES));
    }
    if n_drivers > 1 {
        return Err(format!(
            "{}: a trace has one driver: its writes wait for each other there",
            keys::DRIVERS
        ));
    }
    Ok(())
}
