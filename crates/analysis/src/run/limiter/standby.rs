//! Which part of the wait for a standby is the longest: the way to it, its disk, or its replay.
//!
//! The lags of `pg_stat_replication` are those of the last reply: exact while all goes on, and low in a full stall. There the age of the
//! WAL that is missing, from marks of the primary's position, is the longer of the two.

use model::experiment::keys;
use model::experiment::topology::Synchronous;
use model::run::RunRecord;
use model::run::server::node::is_waited_for;
use model::telemetry::reading::key;

use crate::run::limiter::facts::MeasurementFacts;
use crate::run::limiter::room;
use crate::run::usage::Usage;
use crate::summary::limiter::StandbyPart;

/// Processors of a startup process from which on it could not replay faster.
const STARTUP_BUSY: f64 = 0.9;
/// Marks come each 0.1 s: below twice that, they say nothing that a reply does not say better.
const MARKED_MIN_S: f64 = 0.2;
/// Share of the WAL that a standby lacks which it has not even written, from which on the way keeps it: a disk in a stall has what came
/// before the stall as written, and only the rest as neither. Our convention.
const ON_THE_WAY: f64 = 0.9;

/// How far a standby is behind at each stage, and what commits wait for of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StandbyStages {
    /// Name by which the primary knows it.
    pub(crate) node: String,
    /// Mean lags in seconds, each from the commit on.
    pub(crate) write_s: f64,
    pub(crate) flush_s: f64,
    pub(crate) replay_s: f64,
    /// Mean bytes that it had not yet written, flushed and replayed, if the server says so.
    pub(crate) lag_bytes: Option<[f64; 3]>,
    /// Processors that its startup process used.
    pub(crate) startup: Option<f64>,
    /// The last part that commits wait for.
    pub(crate) last: Option<StandbyPart>,
}

impl StandbyStages {
    /// The parts that commits wait for, each with its seconds, in order.
    fn parts(&self) -> Vec<(StandbyPart, f64)> {
        let all = [
            (StandbyPart::Way, self.write_s),
            (StandbyPart::Disk, (self.flush_s - self.write_s).max(0.0)),
            (StandbyPart::Replay, (self.replay_s - self.flush_s).max(0.0)),
        ];
        let last = self.last.unwrap_or(StandbyPart::Disk);
        all.into_iter().filter(|(part, _)| *part <= last).collect()
    }

    fn whole_s(&self) -> f64 {
        self.parts().into_iter().map(|(_, s)| s).sum()
    }

    /// Its lag in bytes at the stage that ends a part.
    fn behind_bytes(&self, part: StandbyPart) -> Option<f64> {
        let [write, flush, replay] = self.lag_bytes?;
        Some(match part {
            StandbyPart::Way => write,
            StandbyPart::Disk => flush,
            StandbyPart::Replay => replay,
        })
    }
}

/// The standby whose answer ends the waits, over a span; `None` if no lag is known.
pub(super) fn stages(usage: &Usage, span: (f64, f64), record: &RunRecord) -> Option<StandbyStages> {
    let mut names: Vec<String> = usage
        .instances("server.replication_lag")
        .iter()
        .filter_map(|instance| Some(instance.strip_suffix("/write")?.to_string()))
        .collect();
    let waited_for = record.nodes.iter().filter(|node| is_waited_for(&node.sync_state));
    let waited_for: Vec<&str> = waited_for.map(|node| node.name.as_str()).collect();
    names.retain(|name| waited_for.is_empty() || waited_for.contains(&name.as_str()));

    let last = last_part(record);
    let of_node = |node| Some(StandbyStages { last, ..of_node(usage, span, node)? });
    let mut found: Vec<StandbyStages> = names.into_iter().filter_map(of_node).collect();
    found.sort_by(|a, b| a.whole_s().total_cmp(&b.whole_s()));
    let n_needed = match record.case.get(keys::topology::SYNCHRONOUS) {
        Some(Synchronous::Any(n)) => (n as usize).min(found.len()),
        _ => found.len(),
    };
    found.into_iter().nth(n_needed.checked_sub(1)?)
}

fn of_node(usage: &Usage, span: (f64, f64), node: String) -> Option<StandbyStages> {
    let level = |metric: &str, instance: &str| room::level(usage, &key(metric, instance), span);
    let lag = |stage: &str| level("server.replication_lag", &format!("{node}/{stage}"));
    let bytes = |stage: &str| level("server.replication_lag_bytes", &format!("{node}/{stage}"));
    let marked = |metric: &str| level(metric, &node).filter(|s| *s >= MARKED_MIN_S);
    let received_s = marked("standby.receive_lag").unwrap_or(0.0);
    let replay_s = lag("replay").unwrap_or(0.0).max(marked("standby.replay_lag").unwrap_or(0.0));
    let startup = usage.rate_of_key(&key("standby.cpu", &format!("{node}/startup")), span.0, span.1);
    let lag_bytes = [bytes("write"), bytes("flush"), bytes("replay")];
    let lag_bytes = if let [Some(write), Some(flush), Some(replay)] = lag_bytes {
        Some([write, flush, replay])
    } else {
        None
    };
    // Marks know what is durable there, and not why the rest is not.
    let is_on_the_way = lag_bytes.is_some_and(|[write, flush, _]| flush > 0.0 && write >= ON_THE_WAY * flush);
    let write_s = lag("write")?.max(if is_on_the_way { received_s } else { 0.0 });
    let flush_s = lag("flush")?.max(received_s);
    Some(StandbyStages { node, write_s, flush_s, replay_s, lag_bytes, startup, last: None })
}

/// How far a standby must be for a commit.
fn last_part(record: &RunRecord) -> Option<StandbyPart> {
    match record.server.as_ref()?.setting("synchronous_commit")? {
        "remote_write" => Some(StandbyPart::Way),
        "remote_apply" => Some(StandbyPart::Replay),
        _ => Some(StandbyPart::Disk),
    }
}

/// The part that takes most of the wait: half of it at least, or the replay of a process that is busy all the time.
pub(super) fn part(facts: &MeasurementFacts) -> Option<StandbyPart> {
    let stages = facts.standby.as_ref()?;
    let parts = stages.parts();
    let is_replay_busy = stages.startup.is_some_and(|busy| busy >= STARTUP_BUSY);
    let waits_for_replay = parts.iter().any(|(part, s)| *part == StandbyPart::Replay && *s > 0.0);
    if is_replay_busy && waits_for_replay {
        return Some(StandbyPart::Replay);
    }
    let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 > 0.0 && most.1 >= 0.5 * stages.whole_s()).then_some(most.0)
}

/// `; of 5.6 ms until s1 had a commit, 5.1 ms were the way to it`; empty if nothing is known of its stages.
pub(super) fn words(facts: &MeasurementFacts) -> String {
    let Some(stages) = facts.standby.as_ref().filter(|stages| stages.whole_s() > 0.0) else {
        return String::new();
    };
    let ms = |s: f64| format!("{:.1} ms", 1e3 * s);
    let each: Vec<String> =
        stages.parts().into_iter().map(|(part, s)| format!("{} were {}", ms(s), part.words())).collect();
    let most = part(facts);
    let busy = match stages.startup {
        Some(busy) if most == Some(StandbyPart::Replay) => {
            format!("; its startup process, which replays alone, used {busy:.2} of a processor")
        }
        _ => String::new(),
    };
    let behind = most.and_then(|part| stages.behind_bytes(part));
    let behind = behind.map_or(String::new(), |bytes| {
        format!("; on average {} were behind there", model::text::prose::bytes(bytes))
    });
    let whole = ms(stages.whole_s());
    format!("; of {whole} until `{}` had a commit, {}{behind}{busy}", stages.node, each.join(", "))
}

/// The parts of the wait as shares, with their names.
pub(super) fn shares(facts: &MeasurementFacts) -> Vec<(&'static str, f64)> {
    let Some(stages) = &facts.standby else { return Vec::new() };
    let whole_s = stages.whole_s();
    let share = |(part, s): (StandbyPart, f64)| (whole_s > 0.0).then(|| (part.words(), s / whole_s));
    stages.parts().into_iter().filter_map(share).collect()
}
