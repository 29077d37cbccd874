//! Measurements that nothing can be said of: which evidence they lack.

use std::collections::BTreeMap;

use model::run::RunRecord;
use model::telemetry::reading::split_key;
use model::telemetry::wait;

use crate::run::limiter::facts::{COVERED_MIN, SAMPLES_MIN};
use crate::run::usage::Usage;
use crate::summary::limiter::{Bottleneck, Confidence, Limiter};

/// Shorter measurements are not meant to be judged, seconds.
const LENGTH_S_MIN: f64 = 8.0;
/// From this time on it is the sample that is slow, seconds: fifteen of them take more than the shortest measurement.
const SLOW_S: f64 = 0.5;

/// Why a measurement has no limiter; none of one that is too short for it, and where nothing was to be sampled.
pub(super) fn why(usage: &Usage, span: (f64, f64), record: &RunRecord) -> Option<Limiter> {
    let (from_s, to_s) = span;
    let length_s = to_s - from_s;
    if length_s < LENGTH_S_MIN {
        return None;
    }
    let within = usage.with_metric("waits.samples").filter(|placed| placed.share_within(from_s, to_s) > 0.5);
    let (mut n, mut took_s, mut covered_s) = (0.0, 0.0, 0.0);
    let mut sessions: BTreeMap<&str, f64> = BTreeMap::new();
    for placed in within {
        let value = |key: &str| placed.tick.values.get(key).unwrap_or(0.0);
        n += value("waits.samples");
        took_s += value("waits.time");
        covered_s += placed.length_s();
        for (key, sum) in placed.tick.values.starting_with("waits.processes[client/") {
            let what = split_key(key).1.and_then(|instance| instance.strip_prefix("client/"));
            *sessions.entry(what.unwrap_or_default()).or_default() += sum;
        }
    }
    if n <= 0.0 {
        let reason = record.telemetry_unavailable.get("waits")?;
        return Some(unknown(format!("its sessions could not be sampled: {reason}")));
    }
    let lacks = if n < SAMPLES_MIN {
        // What was quick and ended early has another cause.
        let slow =
            if took_s / n >= SLOW_S { format!(": each took {:.1} s", took_s / n) } else { String::new() };
        format!(
            "only {n:.0} samples of the server's sessions could be taken in {length_s:.0} s, and a judgement needs {SAMPLES_MIN:.0}{slow}"
        )
    } else {
        format!(
            "samples of the server's sessions cover {covered_s:.0} of {length_s:.0} s, and a judgement needs {:.0}",
            COVERED_MIN * length_s
        )
    };
    let most = sessions.iter().filter(|(what, _)| !matches!(**what, wait::IDLE | wait::HIDDEN));
    let most = most.max_by(|a, b| a.1.total_cmp(b.1)).map(|(what, sum)| (*what, sum / n));
    let seen = match most {
        Some((wait::KERNEL_LOG_WRITE, n)) => format!(
            "; in them, {n:.1} sessions wrote to the server's log, a pipe whose reader is slower, for which PostgreSQL has no wait event"
        ),
        Some((wait::CPU, n)) => format!("; in them, {n:.1} sessions ran or waited to run"),
        Some((what, n)) => format!("; in them, {n:.1} sessions were in {what}"),
        None => String::new(),
    };
    Some(unknown(format!("{lacks}{seen}")))
}

fn unknown(evidence: String) -> Limiter {
    Limiter::new(Bottleneck::Unknown, Confidence::Low, evidence)
}
