//! Checkpoints of a run: settings before the start, `max_wal_size` according to the WAL written during the ramp-up, and
//! an early end of the run before the WAL's device is full.

use std::collections::BTreeMap;

use model::experiment::os::WalPolicy;
use model::experiment::os::wal::{SPANS_FOR_TWO, max_wal_size_for, wal_between_checkpoints};
use model::load::Window;
use model::run::server::ServerRecord;
use model::telemetry::reading::Tick;
use model::text::prose::bytes;
use model::text::units::Span;
use server::settings::defaults::{CHECKPOINT_COMPLETION_TARGET, max_wal_bytes};

/// Minimum ramp-up for measuring a WAL rate: telemetry comes once per second.
pub(crate) const RAMP_UP_S_MIN: u32 = 5;
/// Minimum of `checkpoint_timeout` (PostgreSQL's guc tables).
const TIMEOUT_S_MIN: u32 = 30;
/// Maximum, one day (since 9.6).
const TIMEOUT_S_MAX: u32 = 86_400;
/// PostgreSQL's default.
const TIMEOUT_S_DEFAULT: u32 = 300;
/// Allows for more WAL than at the ramp-up's rate: the load may get faster when caches are warm.
const MARGIN: f64 = 1.3;
/// Two segments, the minimum of `max_wal_size`.
const MAX_WAL_BYTES_MIN: u64 = 32 << 20;
/// A run is ended when less space is free than the load may write until it stops, and at least this much.
const FREE_BYTES_MIN: f64 = server::cluster::space::RESERVE_BYTES as f64;
/// Maximum duration of a stop.
const STOP_S: f64 = 10.0;

/// Settings that determine when checkpoints occur: an experiment with a policy leaves them to the policy.
const DECIDED: [&str; 3] = ["max_wal_size", "checkpoint_timeout", "checkpoint_segments"];

/// Why a case cannot follow its policy, determined before anything starts. `transactions` is their number per client
/// where it ends the load.
pub(crate) fn contradiction(
    policy: WalPolicy,
    window: Window,
    transactions: Option<u64>,
    settings: &BTreeMap<String, String>,
    is_own: bool,
) -> Option<String> {
    if policy.is_as_is() || !is_own {
        return None;
    }
    let is_decided = |name: &&String| DECIDED.iter().any(|decided| decided.eq_ignore_ascii_case(name));
    if let Some(name) = settings.keys().find(is_decided) {
        return Some(format!("run.wal = \"{policy}\" decides server.settings.{name}; remove one of the two"));
    }
    if transactions.is_some() {
        return Some(format!(
            "run.wal = \"{policy}\" measures the WAL during the ramp-up, which a load that ends by number does not have; remove \
             run.wal or workload.transactions"
        ));
    }
    if window.ramp_up_s < RAMP_UP_S_MIN {
        return Some(format!(
            "run.wal = \"{policy}\" measures the WAL during the ramp-up; give run.ramp_up at least {RAMP_UP_S_MIN}s"
        ));
    }
    (policy == WalPolicy::NoCheckpoint && no_checkpoint_timeout_s(window) > TIMEOUT_S_MAX).then(|| {
        format!(
            "run.wal = \"no-checkpoint\": the load of {} s is longer than checkpoint_timeout may be; use two-checkpoints",
            window.load_s()
        )
    })
}

fn no_checkpoint_timeout_s(window: Window) -> u32 {
    // Connecting clients and ending the load take less than a minute.
    (window.load_s() + window.grace_s + 60).max(TIMEOUT_S_DEFAULT)
}

/// Seconds between timed checkpoints of a policy; `None` if size or the user's settings decide.
fn timeout_s(policy: WalPolicy, window: Window) -> Option<u32> {
    match policy {
        WalPolicy::AsIs => None,
        WalPolicy::NoCheckpoint => Some(no_checkpoint_timeout_s(window)),
        WalPolicy::TwoCheckpoints => {
            let timeout_s = (f64::from(window.measure_s) / SPANS_FOR_TWO) as u32;
            (timeout_s >= TIMEOUT_S_MIN).then_some(timeout_s.min(TIMEOUT_S_MAX))
        }
    }
}

/// Settings that a policy needs from the start of the server.
pub(crate) fn settings(policy: WalPolicy, window: Window) -> Vec<(String, String)> {
    let timeout = timeout_s(policy, window).map(|s| ("checkpoint_timeout".to_string(), format!("{s}s")));
    timeout.into_iter().collect()
}

/// The WAL of one tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OfTick {
    /// End of the tick, nanoseconds since the Unix epoch.
    pub(crate) end_unix_ns: u64,
    /// Length of the tick, nanoseconds.
    pub(crate) length_ns: u64,
    pub(crate) wal_bytes: f64,
}

impl OfTick {
    fn length_s(&self) -> f64 {
        self.length_ns as f64 / 1e9
    }
}

/// WAL measurements while a load runs.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) ticks: Vec<OfTick>,
    /// Why the load has to end.
    pub(crate) full: Option<String>,
}

impl Meter {
    pub(crate) fn take(&mut self, tick: &Tick) {
        if let Some(bytes) = tick.values.get("server.wal_bytes") {
            let Tick { end_unix_ns, length_ns, .. } = *tick;
            self.ticks.push(OfTick { end_unix_ns, length_ns, wal_bytes: bytes });
        }
        // Without its own device, the WAL is with the data.
        let of = |role: &str| tick.values.get(&model::telemetry::reading::key("disk.free_bytes", role));
        let Some(free_bytes) = of("wal").or_else(|| of("data")) else { return };
        let rate = |tick: &OfTick| tick.wal_bytes / tick.length_s().max(0.001);
        let recent_rate = self.ticks.iter().rev().take(5).map(rate).fold(0.0, f64::max);
        let least = FREE_BYTES_MIN.max(STOP_S * recent_rate);
        if free_bytes < least && self.full.is_none() {
            self.full = Some(format!(
                "stopped before the device of the WAL is full: {} are free, and the load writes {}/s of WAL",
                bytes(free_bytes),
                bytes(recent_rate)
            ));
        }
    }

    /// WAL bytes per second between two moments.
    pub(crate) fn rate(&self, from_unix_ns: u64, to_unix_ns: u64) -> Option<f64> {
        let within = self.ticks.iter().filter(|tick| {
            let begin = tick.end_unix_ns.saturating_sub(tick.length_ns);
            tick.end_unix_ns <= to_unix_ns && begin + 500_000_000 >= from_unix_ns
        });
        let (s, bytes) =
            within.fold((0.0, 0.0), |(s, bytes), tick| (s + tick.length_s(), bytes + tick.wal_bytes));
        (s > 0.0).then(|| bytes / s)
    }
}

/// Figures of a run's server that determine checkpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizing {
    version_num: u32,
    completion_target: f64,
    max_wal_bytes: u64,
    timeout_s: f64,
}

impl Sizing {
    /// As the server reported them; `None` if it did not.
    pub(crate) fn from_record(server: &ServerRecord) -> Option<Sizing> {
        let settings: BTreeMap<String, String> =
            server.settings.iter().map(|(name, setting)| (name.clone(), setting.value.clone())).collect();
        let default_target = CHECKPOINT_COMPLETION_TARGET.parse().unwrap_or(0.9);
        let target = server.setting("checkpoint_completion_target").and_then(|text| text.parse().ok());
        Some(Sizing {
            version_num: server.version_num,
            completion_target: target.unwrap_or(default_target),
            max_wal_bytes: max_wal_bytes(server.version_num, &settings)?,
            timeout_s: server.setting("checkpoint_timeout")?.parse::<Span>().ok()?.whole_s()?.into(),
        })
    }

    fn size_for(&self, wal_bytes: f64) -> u64 {
        max_wal_size_for(wal_bytes, self.version_num, self.completion_target)
    }

    /// The `max_wal_size` for a policy at a rate of WAL; `None` if the current one suffices.
    pub(crate) fn wanted_bytes(&self, policy: WalPolicy, window: Window, rate: f64) -> Option<u64> {
        let load_s = f64::from(window.load_s() + window.grace_s);
        let span_s = timeout_s(policy, window).map(f64::from);
        match (policy, span_s) {
            (WalPolicy::AsIs, _) => None,
            (WalPolicy::NoCheckpoint, _) => Some(self.size_for(rate * load_s * MARGIN)),
            // No requested checkpoint before the timed one.
            (WalPolicy::TwoCheckpoints, Some(span_s)) => Some(self.size_for(rate * span_s * MARGIN)),
            (WalPolicy::TwoCheckpoints, None) => {
                // The extra segment that keeps checkpoints away is not wanted here.
                let span_bytes = rate * f64::from(window.measure_s) / SPANS_FOR_TWO;
                let size = self.size_for(span_bytes) - self.size_for(0.0);
                return Some(size.max(MAX_WAL_BYTES_MIN));
            }
        }
        .filter(|wanted| *wanted > self.max_wal_bytes)
    }

    /// Consequences of the rate, for the record: the `max_wal_size` for no requested checkpoint within the load, and
    /// the duration of a measurement with two checkpoints.
    pub(crate) fn told(&self, window: Window, rate: f64) -> BTreeMap<String, String> {
        let load_bytes = rate * f64::from(window.load_s() + window.grace_s);
        let between_bytes =
            wal_between_checkpoints(self.max_wal_bytes, self.version_num, self.completion_target);
        let span_s = if rate > 0.0 { (between_bytes / rate).min(self.timeout_s) } else { self.timeout_s };
        BTreeMap::from([
            ("wal_mb_per_s".to_string(), format!("{:.3}", rate / 1e6)),
            (
                "max_wal_size_for_no_checkpoint".to_string(),
                format!("{}MB", self.size_for(load_bytes).div_ceil(1 << 20)),
            ),
            ("measure_for_two_checkpoints".to_string(), format!("{:.0}s", (SPANS_FOR_TWO * span_s).ceil())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { ramp_up_s: 10, measure_s: 60, grace_s: 10 };
    const MB: f64 = 1024.0 * 1024.0;

    fn sizing(max_wal_mb: u64) -> Sizing {
        Sizing {
            version_num: 180_006,
            completion_target: 0.9,
            max_wal_bytes: max_wal_mb << 20,
            timeout_s: 300.0,
        }
    }

    #[test]
    fn sizes_follow_the_rate_and_the_policy() {
        let wanted = |policy, window, rate_mb: f64, present_mb| {
            sizing(present_mb).wanted_bytes(policy, window, rate_mb * MB).map(|bytes| bytes >> 20)
        };
        let no = WalPolicy::NoCheckpoint;
        // 100 MB/s for 80 s and a third more, two segments, times 1.9.
        assert_eq!(wanted(no, WINDOW, 100.0, 1024), Some(19820));
        assert_eq!(wanted(no, WINDOW, 1.0, 1024), None, "it serves");
        assert_eq!(wanted(WalPolicy::AsIs, WINDOW, 100.0, 64), None);
        let two = WalPolicy::TwoCheckpoints;
        // 20 s of the measurement: shorter than the minimum of a timed checkpoint.
        assert_eq!(wanted(two, WINDOW, 10.0, 1024), Some(380));
        assert_eq!(wanted(two, WINDOW, 0.0, 1024), Some(32));
        let long = Window { measure_s: 120, ..WINDOW };
        assert_eq!(wanted(two, long, 10.0, 4096), None, "timed, and room enough");
        assert_eq!(wanted(two, long, 10.0, 512), Some(1048), "timed, and none before");
        let told = sizing(1024).told(WINDOW, 10.0 * MB);
        assert_eq!(told["max_wal_size_for_no_checkpoint"], "1581MB");
        assert_eq!(told["measure_for_two_checkpoints"], "157s");
        assert_eq!(sizing(1024).told(WINDOW, 0.0)["measure_for_two_checkpoints"], "900s");
    }

    #[test]
    fn a_policy_needs_a_ramp_up_and_settings_of_its_own() {
        let check = |policy, window, name: Option<&str>, expected: Option<&str>| {
            let settings = name.map(|name| (name.to_string(), "1GB".to_string())).into_iter().collect();
            let told = contradiction(policy, window, None, &settings, true);
            assert_eq!(told.is_some(), expected.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(expected.unwrap_or_default()));
            assert_eq!(
                contradiction(policy, window, Some(1), &settings, false),
                None,
                "a server of others is judged only"
            );
        };
        check(WalPolicy::AsIs, Window { ramp_up_s: 0, ..WINDOW }, Some("max_wal_size"), None);
        check(WalPolicy::NoCheckpoint, WINDOW, None, None);
        check(
            WalPolicy::NoCheckpoint,
            WINDOW,
            Some("Max_Wal_Size"),
            Some("decides server.settings.Max_Wal_Size"),
        );
        check(WalPolicy::TwoCheckpoints, Window { ramp_up_s: 4, ..WINDOW }, None, Some("at least 5s"));
        check(
            WalPolicy::NoCheckpoint,
            Window { measure_s: 90_000, ..WINDOW },
            None,
            Some("use two-checkpoints"),
        );
        assert_eq!(settings(WalPolicy::NoCheckpoint, WINDOW), [("checkpoint_timeout".into(), "300s".into())]);
        assert_eq!(settings(WalPolicy::TwoCheckpoints, WINDOW), []);
        let long = Window { measure_s: 120, ..WINDOW };
        assert_eq!(settings(WalPolicy::TwoCheckpoints, long), [("checkpoint_timeout".into(), "40s".into())]);
    }

    #[test]
    fn a_load_ends_before_the_device_is_full() {
        let tick = |t: u64, values: &[(&str, f64)]| Tick {
            source: model::telemetry::reading::TickSource::Server,
            end_unix_ns: t * 1_000_000_000,
            length_ns: 1_000_000_000,
            values: values.iter().map(|(key, value)| (key.to_string(), *value)).collect(),
        };
        let mut meter = Meter::default();
        for t in 1..=10 {
            meter.take(&tick(t, &[("server.wal_bytes", t as f64 * 1e6)]));
        }
        assert_eq!(meter.rate(0, 10_000_000_000), Some(5.5e6));
        assert_eq!(meter.rate(8_000_000_000, 10_000_000_000), Some(9.5e6));
        meter.take(&tick(11, &[("disk.free_bytes[data]", 1e6), ("disk.free_bytes[wal]", 300e6)]));
        assert_eq!(meter.full, None);
        meter.take(&tick(12, &[("disk.free_bytes[wal]", 260e6)]));
        assert!(meter.full.unwrap().contains("248 MiB are free, and the load writes 9.54 MiB/s"));
    }
}
