//! Marks on the time line: checkpoints, autovacuum, trouble and pauses, from the events of a run.

use model::run::RunData;
use model::telemetry::event::{Event, EventKind};

use crate::run::timeline::Timeline;
use crate::summary::TimelineMark;

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

/// Most marks of one table and tick: a table is vacuumed at most once per `autovacuum_naptime`, at least 1 s.
const COUNTED_MAX: f64 = 10.0;

/// The marks of a run in order of their start.
pub(crate) fn marks(data: &RunData, line: &Timeline) -> Vec<TimelineMark> {
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
pub(crate) fn touches(mark: &TimelineMark, span: (f64, f64)) -> bool {
    mark.from_s < span.1 && mark.to_s > span.0 || (span.0..span.1).contains(&mark.from_s)
}

/// Whether a mark of autovacuum is an analyze of a system catalog, which reads a sample of at most 30,000 of its rows
/// (300 for each of `default_statistics_target`). The server names tables as `database.schema.table`, without quotes, and as
/// `schema.table` in the list of sessions.
pub(crate) fn is_analyze_of_catalog(mark: &TimelineMark) -> bool {
    is_of_catalog(&mark.text)
}

fn is_of_catalog(text: &str) -> bool {
    let parts = |head: &str| text.strip_prefix(head).map(|table| table.split('.').collect::<Vec<&str>>());
    let is_logged =
        parts("autoanalyze of ").is_some_and(|parts| parts.len() == 3 && parts[1] == "pg_catalog");
    let is_seen = parts("ANALYZE ").is_some_and(|parts| parts.len() == 2 && parts[0] == "pg_catalog");
    is_logged || is_seen
}

/// Checkpoints from the log, start to end; if the log was not visible, from the statistics.
fn checkpoints(events: &[(f64, &Event)], end_s: f64) -> Vec<TimelineMark> {
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

fn checkpoint(from_s: f64, to_s: f64, start: &Event, end: Option<&Event>) -> TimelineMark {
    let cause = start.detail.get("cause").map_or(String::new(), |cause| format!(" ({cause})"));
    let buffers = end.and_then(|end| end.number("buffers"));
    let text = match (buffers, end) {
        (Some(buffers), _) => format!("checkpoint{cause}, {buffers:.0} buffers in {:.1} s", to_s - from_s),
        (None, Some(_)) => format!("checkpoint{cause}, {:.1} s", to_s - from_s),
        (None, None) => format!("checkpoint{cause}, end not seen"),
    };
    mark(CHECKPOINT, from_s, to_s, text)
}

/// Autovacuum from the log, or else from the statistics, and sightings that neither explains.
fn autovacuums(events: &[(f64, &Event)]) -> Vec<TimelineMark> {
    let logged = events
        .iter()
        .filter(|(_, event)| matches!(event.kind, EventKind::AutovacuumEnd | EventKind::AutoanalyzeEnd));
    let logged: Vec<TimelineMark> = logged
        .map(|(t_s, event)| {
            mark(AUTOVACUUM, t_s - length_s(event, "elapsed_s"), *t_s, autovacuum_text(event))
        })
        .collect();
    let mut seen = sightings(events, &logged);
    let counted = counted_autovacuums(events, &mut seen);
    logged.into_iter().chain(counted).chain(seen.into_iter().map(|sighting| sighting.mark)).collect()
}

/// A worker at work, or several one after the other.
struct Sighting<'a> {
    mark: TimelineMark,
    /// Of the first.
    table: Option<&'a String>,
}

/// Workers that were seen and are not in the log.
fn sightings<'a>(events: &[(f64, &'a Event)], logged: &[TimelineMark]) -> Vec<Sighting<'a>> {
    let mut seen: Vec<Sighting> = Vec::new();
    // The last one of anything, and of an analyze of a catalog, which weighs less and must not hide what follows it.
    let mut last: [Option<usize>; 2] = [None, None];
    for (t_s, event) in events.iter().filter(|(_, event)| event.kind == EventKind::AutovacuumSeen) {
        let explained = |mark: &TimelineMark| (mark.from_s - 1.0..=mark.to_s + 1.0).contains(t_s);
        if logged.iter().any(explained) {
            continue;
        }
        let last = &mut last[usize::from(is_of_catalog(&event.text))];
        match *last {
            Some(n) if t_s - seen[n].mark.to_s <= MERGE_S => seen[n].mark.to_s = *t_s,
            _ => {
                *last = Some(seen.len());
                let mark = mark(AUTOVACUUM, *t_s, *t_s, event.text.clone());
                seen.push(Sighting { mark, table: event.detail.get("table") });
            }
        }
    }
    seen
}

/// Vacuums and analyzes that the statistics counted, one mark for each: somewhere between the reading before and the one that
/// counted it, or where it was seen.
fn counted_autovacuums(events: &[(f64, &Event)], seen: &mut Vec<Sighting>) -> Vec<TimelineMark> {
    let mut marks = Vec::new();
    for (t_s, event) in events.iter().filter(|(_, event)| event.kind == EventKind::AutovacuumCounted) {
        let table = event.detail.get("table");
        // Earlier runs do not say when the previous reading was: usually a second before.
        let span_s = Some(length_s(event, "span_s")).filter(|s| *s > 0.0).unwrap_or(1.0);
        let what = event.detail.get("what").map_or("autovacuum", String::as_str);
        let text = table.map_or(event.text.clone(), |table| format!("{what} of {table}"));
        let n = event.number("n").unwrap_or(1.0).clamp(1.0, COUNTED_MAX) as usize;
        for _ in 0..n {
            let (from_s, to_s) = when(take_sighting(seen, *t_s, table), *t_s - span_s, *t_s);
            marks.push(mark(AUTOVACUUM, from_s, to_s, text.clone()));
        }
    }
    marks
}

/// The sighting of a worker that was counted then: one of the same table, or one just before.
fn take_sighting(seen: &mut Vec<Sighting>, t_s: f64, table: Option<&String>) -> Option<TimelineMark> {
    let before = |sighting: &Sighting| sighting.mark.from_s <= t_s;
    let of_table = |sighting: &Sighting| before(sighting) && table.is_some() && sighting.table == table;
    let just_before = |sighting: &Sighting| before(sighting) && sighting.mark.to_s >= t_s - 1.0 - MERGE_S;
    let found = seen.iter().position(of_table).or_else(|| seen.iter().position(just_before));
    found.map(|found| seen.remove(found).mark)
}

/// Start and end of what was counted between two readings. A worker that is no longer seen has ended.
fn when(sighting: Option<TimelineMark>, since_s: f64, counted_s: f64) -> (f64, f64) {
    let Some(sighting) = sighting else { return (since_s, counted_s) };
    let gone_s = sighting.to_s + MERGE_S;
    let to_s = if gone_s >= since_s { gone_s.min(counted_s) } else { counted_s };
    (sighting.from_s.min(to_s - 1.0), to_s)
}

fn autovacuum_text(event: &Event) -> String {
    let what = if event.kind == EventKind::AutoanalyzeEnd { "autoanalyze" } else { "autovacuum" };
    match event.detail.get("table") {
        Some(table) => format!("{what} of {table}"),
        None => event.text.clone(),
    }
}

fn moment(t_s: f64, event: &Event) -> Option<TimelineMark> {
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

fn lost_connections(events: &[(f64, &Event)]) -> Vec<TimelineMark> {
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

fn mark(kind: &str, from_s: f64, to_s: f64, text: String) -> TimelineMark {
    TimelineMark { from_s, to_s, kind: kind.to_string(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_began_after_the_reading_before_or_when_it_was_seen() {
        let t = "db.public.t";
        let counted = |span_s: Option<f64>, n: u32| {
            let event = Event::new(0, EventKind::AutovacuumCounted, "counted").with("table", t).with("n", n);
            span_s.into_iter().fold(event, |event, s| event.with("span_s", s))
        };
        let seen_of = |table: &str| Event::new(0, EventKind::AutovacuumSeen, "VACUUM").with("table", table);
        let check = |seen: &[(f64, Event)], counted: Event, expected: &[(f64, f64)]| {
            let counted = (50.0, counted);
            let events: Vec<(f64, &Event)> =
                seen.iter().chain([&counted]).map(|(t_s, event)| (*t_s, event)).collect();
            let spans: Vec<(f64, f64)> =
                autovacuums(&events).iter().map(|mark| (mark.from_s, mark.to_s)).collect();
            assert_eq!(spans, expected);
        };
        check(&[], counted(None, 1), &[(49.0, 50.0)]);
        check(&[], counted(Some(40.0), 2), &[(10.0, 50.0), (10.0, 50.0)]);
        let of_t = [(20.0, seen_of(t)), (21.0, seen_of(t))];
        check(&of_t, counted(Some(40.0), 1), &[(20.0, 23.5)]);
        check(&of_t, counted(Some(40.0), 2), &[(20.0, 23.5), (10.0, 50.0)]);
        check(&of_t, counted(Some(1.0), 1), &[(20.0, 50.0)]);
        let of_other = [(20.0, seen_of("db.public.other"))];
        check(&of_other, counted(Some(40.0), 1), &[(10.0, 50.0), (20.0, 20.0)]);
        check(&[(49.0, seen_of("db.public.other"))], counted(None, 1), &[(49.0, 50.0)]);
    }

    #[test]
    fn an_analyze_of_a_catalog_does_not_hide_what_follows_it() {
        let (catalog, table) = ("ANALYZE pg_catalog.pg_class", "VACUUM public.t");
        let seen = [(20.0, catalog), (21.0, table), (22.0, catalog), (22.5, table)];
        let seen = seen.map(|(t_s, what)| (t_s, Event::new(0, EventKind::AutovacuumSeen, what)));
        let events: Vec<(f64, &Event)> = seen.iter().map(|(t_s, event)| (*t_s, event)).collect();
        let marks = autovacuums(&events);
        let found: Vec<(f64, f64, bool)> =
            marks.iter().map(|mark| (mark.from_s, mark.to_s, is_analyze_of_catalog(mark))).collect();
        assert_eq!(found, [(20.0, 22.0, true), (21.0, 22.5, false)]);
    }
}
