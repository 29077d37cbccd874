//! Series of standbys: how far each is behind at each stage, in bytes and in time, and what its processes use.

use model::telemetry::reading::key;

use super::{Draw, MIB, one};
use crate::summary::TelemetrySeries;

/// Beginning of the panel of a standby, which goes on with its name.
pub const STANDBY_PANEL: &str = "standby ";
/// The panel with the processor time of standbys' processes.
const CPU_PANEL: &str = "standby_cpu";

/// Stages by the name in the chart, of `pg_stat_replication`.
const STAGES: [(&str, &str); 3] =
    [("not written", "write"), ("not durable", "flush"), ("not replayed", "replay")];
/// The same against marks of the primary's position, which are right in a stall, too.
const MARKED: [(&str, &str); 3] = [
    ("not durable", "standby.receive_lag"),
    ("not replayed", "standby.replay_lag"),
    ("stale reads", "reads.stale"),
];

/// The series of all standbys of a run.
pub(super) fn series(draw: &Draw) -> Vec<TelemetrySeries> {
    let of_replication = draw.usage.instances("server.replication_lag_bytes");
    let mut names: Vec<String> =
        of_replication.iter().filter_map(|instance| Some(instance.rsplit_once('/')?.0.to_string())).collect();
    names.extend(draw.usage.instances("standby.replay_lag"));
    names.sort();
    names.dedup();

    let mut all: Vec<TelemetrySeries> = names.iter().flat_map(|name| of_standby(draw, name)).collect();
    all.extend(processes(draw));
    all
}

fn of_standby(draw: &Draw, name: &str) -> Vec<TelemetrySeries> {
    let panel = format!("{STANDBY_PANEL}{name}");
    let stages = |metric: &str, unit: &str, factor: f64| {
        STAGES.map(|(words, stage)| {
            let key = key(metric, &format!("{name}/{stage}"));
            one(&panel, words, unit, draw.level(&key, factor))
        })
    };
    let bytes = stages("server.replication_lag_bytes", "MiB", MIB);
    let marked = MARKED.map(|(words, metric)| one(&panel, words, "s", draw.level(&key(metric, name), 1.0)));
    // Without marks, as of a server by URL, the time that the last reply said.
    let is_marked = marked.iter().any(|series| !series.points.is_empty());
    let times: Vec<TelemetrySeries> =
        if is_marked { marked.into() } else { stages("server.replication_lag", "s", 1.0).into() };
    bytes.into_iter().chain(times).collect()
}

/// Processor time by node and kind, in percent of one processor.
fn processes(draw: &Draw) -> Vec<TelemetrySeries> {
    let instances = draw.usage.instances("standby.cpu");
    let of_instance = |instance: &String| {
        let points = draw.rate_of_key(&key("standby.cpu", instance), 100.0);
        one(CPU_PANEL, &instance.replace('/', " "), "%", points)
    };
    instances.iter().map(of_instance).collect()
}
