//! Marks on the time line: checkpoints, autovacuum, trouble and pauses, from the events of a run.

use model::run::RunData;
use model::telemetry::event::{Event, EventKind};

use crate::run::timeline::Timeline;
use crate::summary::Mark;

/// Kind of a mark: a checkpoint.
pub const CHECKPOINT: &str = "checkpoint";
/// Kind of a mark: autovacuum or autoanalyze at work.
pub const AUTOVACUUM: &str = "autovacuum";
/// Kind of a mark: lost connections, restarts, trouble reported in the server log.
pub const TROUBLE: &str = "trouble";
/// Kind of a mark: the driver did not run.
pub const PAUSE: &str = "pause";

/// How far before `go` a mark may begin, or after the load it may end, seconds.
const MARGIN_S: f64 = 10.0;
/// Sightings and losses no further apart than this are merged into one mark, seconds.
const MERGE_S: f64 = 2.5;

/// The marks of a run in order of their start.
pub(crate) fn marks(data: &RunData, line: &Timeline) -> Vec<Mark> {
    let mut events: Vec<(f64, &Event)> =
        data.events.iter().filter_map(|event| Some((line.place(event.t_unix_ns)?, event))).collect();
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut marks = checkpoints(&events, line.end_s);
    marks.extend(autovacuums(&events));
    marks.extend(events.iter().filter_map(|(t_s, event)| moment(*t_s, event)));
    marks.extend(lost_connections(&events));
    marks.retain(|mark| mark.to_s >= -MARGIN_S && mark.from_s <= line.end_s + MARGIN_S);
    marks.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    marks
}

/// Whether a mark overlaps a span.
pub(crate) fn touches(mark: &Mark, span: (f64, f64)) -> bool {
    mark.from_s < span.1 && mark.to_s > span.0 || (span.0..span.1).contains(&mark.from_s)
}

/// Checkpoints from the log, start to end; if the log was not visible, from the statistics.
fn checkpoints(events: &[(f64, &Event)], end_s: f64) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut begun: Option<(f64, &Event)> = None;
    for (t_s, event) in events {
        match event.kind {
            EventKind::CheckpointStart => {
                marks.extend(
                    begun.replace((*t_s, event)).map(|(from_s, start)| checkpoint(from_s, *t_s, start, None)),
                );
            }
            EventKind::CheckpointEnd => {
                let (from_s, start) =
                    begun.take().unwrap_or_else(|| (t_s - length_s(event, "total_s"), *event));
                marks.push(checkpoint(from_s, *t_s, start, Some(event)));
            }
            _ => {}
        }
    }
    marks.extend(begun.map(|(from_s, start)| checkpoint(from_s, end_s.max(from_s), start, None)));
    if marks.is_empty() {
        let counted = events.iter().filter(|(_, event)| event.kind == EventKind::CheckpointCounted);
        // The counter grew some time during the tick that ended then.
        marks.extend(counted.map(|(t_s, event)| mark(CHECKPOINT, t_s - 1.0, *t_s, event.text.clone())));
    }
    marks
}

fn checkpoint(from_s: f64, to_s: f64, start: &Event, end: Option<&Event>) -> Mark {
    let cause = start.detail.get("cause").map_or(String::new(), |cause| format!(" ({cause})"));
    let buffers = end.and_then(|end| end.number("buffers"));
    let text = match (buffers, end) {
        (Some(buffers), _) => format!("checkpoint{cause}, {buffers:.0} buffers in {:.1} s", to_s - from_s),
        (None, Some(_)) => format!("checkpoint{cause}, {:.1} s", to_s - from_s),
        (None, None) => format!("checkpoint{cause}, end not seen"),
    };
    mark(CHECKPOINT, from_s, to_s, text)
}

/// Autovacuum from the log, and sightings without a line in the log.
fn autovacuums(events: &[(f64, &Event)]) -> Vec<Mark> {
    let logged = events
        .iter()
        .filter(|(_, event)| matches!(event.kind, EventKind::AutovacuumEnd | EventKind::AutoanalyzeEnd));
    let logged: Vec<Mark> = logged
        .map(|(t_s, event)| {
            mark(AUTOVACUUM, t_s - length_s(event, "elapsed_s"), *t_s, autovacuum_text(event))
        })
        .collect();
    let mut seen: Vec<Mark> = Vec::new();
    for (t_s, event) in events.iter().filter(|(_, event)| event.kind == EventKind::AutovacuumSeen) {
        let explained = |mark: &Mark| (mark.from_s - 1.0..=mark.to_s + 1.0).contains(t_s);
        match seen.last_mut() {
            _ if logged.iter().any(explained) => {}
            Some(last) if t_s - last.to_s <= MERGE_S => last.to_s = *t_s,
            _ => seen.push(mark(AUTOVACUUM, *t_s, *t_s, event.text.clone())),
        }
    }
    logged.into_iter().chain(seen).collect()
}

fn autovacuum_text(event: &Event) -> String {
    let what = if event.kind == EventKind::AutoanalyzeEnd { "autoanalyze" } else { "autovacuum" };
    match event.detail.get("table") {
        Some(table) => format!("{what} of {table}"),
        None => event.text.clone(),
    }
}

fn moment(t_s: f64, event: &Event) -> Option<Mark> {
    match event.kind {
        EventKind::ServerTrouble | EventKind::ServerRestarted | EventKind::DiskNearlyFull => {
            Some(mark(TROUBLE, t_s, t_s, event.text.clone()))
        }
        EventKind::DriverPaused => {
            Some(mark(PAUSE, t_s - length_s(event, "pause_s"), t_s, event.text.clone()))
        }
        _ => None,
    }
}

fn lost_connections(events: &[(f64, &Event)]) -> Vec<Mark> {
    let mut groups: Vec<(f64, f64, u32)> = Vec::new();
    for (t_s, _) in events.iter().filter(|(_, event)| event.kind == EventKind::ConnectionLost) {
        match groups.last_mut() {
            Some((_, to_s, n)) if t_s - *to_s <= MERGE_S => (*to_s, *n) = (*t_s, *n + 1),
            _ => groups.push((*t_s, *t_s, 1)),
        }
    }
    let words =
        |n: u32| if n == 1 { "1 connection lost".to_string() } else { format!("{n} connections lost") };
    groups.into_iter().map(|(from_s, to_s, n)| mark(TROUBLE, from_s, to_s, words(n))).collect()
}

/// A duration from an event; 0 if it has none, or an invalid one.
fn length_s(event: &Event, name: &str) -> f64 {
    event.number(name).filter(|s| s.is_finite() && *s > 0.0).unwrap_or(0.0)
}

fn mark(kind: &str, from_s: f64, to_s: f64, text: String) -> Mark {
    Mark { from_s, to_s, kind: kind.to_string(), text }
}
