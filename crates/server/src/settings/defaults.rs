//! The settings of our own servers unless the experiment says otherwise: as a careful administrator would set a
//! production server of this machine's size, the same for every version.
//!
//! Settings that make a server durable are never touched: `fsync`, `full_page_writes`, `synchronous_commit`,
//! `wal_sync_method` and checksums keep PostgreSQL's defaults.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use model::experiment::case::setting;
use model::release::Release;
use model::release::settings::{
    EMBEDDED_SETTINGS, MAX_WAL_SIZE, MAX_WAL_SIZE_IN_MB, NUMERIC_LOG_TIME, VACUUM_LOGGING, WAL_LEVEL,
};
use model::text::units::size_bytes;

use crate::settings::{MB, check_settings, resolve_setting, size_text};

/// Prefix of every line of `server.log`: seconds since the Unix epoch with milliseconds, and the process id.
/// `observe` reads times from it.
pub const LOG_LINE_PREFIX: &str = "%n [%p] ";

/// The same before 9.6, which lacks `%n`: date and time with milliseconds, in `log_timezone`.
pub const LOG_LINE_PREFIX_95: &str = "%m [%p] ";

/// Share of memory for `shared_buffers`: "a reasonable starting value is 25% of the memory"
/// (PostgreSQL documentation, Resource Consumption).
pub const SHARED_BUFFERS_SHARE: f64 = 0.25;

/// Share of memory for `effective_cache_size`: what the planner may expect to be cached, mostly by the kernel.
pub const EFFECTIVE_CACHE_SHARE: f64 = 0.75;

/// `maintenance_work_mem`: a twentieth of memory, between PostgreSQL's default and 1 GB.
pub const MAINTENANCE_WORK_MEM_SHARE: f64 = 0.05;

/// `max_wal_size`. With PostgreSQL's 1 GB a write load forces checkpoints every few seconds on a fast disk, and
/// measures little else. Halved until it fits the device (`space.rs`).
pub const MAX_WAL_SIZE_BYTES: u64 = 8 << 30;

/// Bytes of a WAL segment, the unit of versions before 10. Later ones may have other sizes, which we do not use.
const WAL_SEGMENT_BYTES: u64 = 16 * MB;

/// `checkpoint_completion_target`: the default since 14, given to older versions too so that versions compare.
pub const CHECKPOINT_COMPLETION_TARGET: &str = "0.9";

/// Connections in addition to those of the clients: telemetry, tending, and reserved ones.
pub const CONNECTIONS_EXTRA: u32 = 20;

/// Connections required in addition to those of the clients: one that watches, one that tends, three reserved for
/// the superuser.
const CONNECTIONS_NEEDED: u32 = 5;

/// PostgreSQL's own default of `max_connections`.
const MAX_CONNECTIONS_DEFAULT: u32 = 100;

/// The setting with which a server at `wal_level = minimal` does not start unless it is 0.
const MAX_WAL_SENDERS: &str = "max_wal_senders";

/// What a server at `wal_level = minimal` has to be without, with the values that are (`PostmasterMain`, and the check of
/// `summarize_wal`).
const NEEDS_MORE_WAL: [(&str, &[&str]); 3] =
    [(MAX_WAL_SENDERS, &["0"]), ("archive_mode", OFF), ("summarize_wal", OFF)];

/// How a setting that is a boolean is switched off.
const OFF: &[&str] = &["off", "false", "no", "0"];

/// Settings for a server of version `version_num` on a machine with `ram_bytes`, used by `n_clients` clients.
pub fn embedded_defaults(version_num: u32, ram_bytes: u64, n_clients: u32) -> BTreeMap<String, String> {
    let release = Release::new(version_num);
    let share = |share: f64| (ram_bytes as f64 * share) as u64;
    let maintenance_bytes = share(MAINTENANCE_WORK_MEM_SHARE).clamp(64 * MB, 1024 * MB);
    let max_connections = MAX_CONNECTIONS_DEFAULT.max(n_clients.saturating_add(CONNECTIONS_EXTRA));
    let mut settings: BTreeMap<String, String> = [
        ("shared_buffers", size_text(share(SHARED_BUFFERS_SHARE).max(16 * MB))),
        ("effective_cache_size", size_text(share(EFFECTIVE_CACHE_SHARE).max(16 * MB))),
        ("maintenance_work_mem", size_text(maintenance_bytes)),
        ("checkpoint_completion_target", CHECKPOINT_COMPLETION_TARGET.to_string()),
        ("max_connections", max_connections.to_string()),
        // Production is backed up or replicated; up to 9.6 `minimal` is the default, later `replica`, which was
        // called `hot_standby` before 9.6.
        ("wal_level", release.name(WAL_LEVEL).to_string()),
        ("log_checkpoints", "on".to_string()),
        ("log_timezone", "UTC".to_string()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    let logged = release.of(&VACUUM_LOGGING).into_iter();
    settings.extend(logged.map(|name| (name.to_string(), "0".to_string())));
    let (name, value) = wal_setting(version_num, MAX_WAL_SIZE_BYTES);
    settings.insert(name.to_string(), value);
    let of_release = release.of(&EMBEDDED_SETTINGS).into_iter();
    settings.extend(of_release.map(|(name, value)| (name.to_string(), value.to_string())));
    settings
}

/// The settings of an embedded server: the defaults, overridden by those of the experiment, shares of memory resolved.
///
/// # Errors
/// As [`resolve_setting`] and [`check_settings`].
pub fn embedded_settings(
    version_num: u32,
    ram_bytes: u64,
    n_clients: u32,
    chosen: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    check_settings(chosen)?;
    let mut settings = embedded_defaults(version_num, ram_bytes, n_clients);
    for (name, value) in chosen {
        // Names of settings are not case-sensitive: the file must not have both.
        settings.retain(|present, _| !present.eq_ignore_ascii_case(name));
        settings.insert(name.clone(), resolve_setting(name, value, ram_bytes)?);
    }
    if is_minimal(&settings) && setting::find(chosen, MAX_WAL_SENDERS).is_none() {
        settings.insert(MAX_WAL_SENDERS.to_string(), "0".to_string());
    }

    check_fit(&settings, ram_bytes, n_clients)?;
    Ok(settings)
}

/// Whether the server writes only the WAL that recovery after a crash needs. It starts only without what needs more, and most releases
/// have senders by default.
fn is_minimal(settings: &BTreeMap<String, String>) -> bool {
    setting::find(settings, "wal_level")
        .is_some_and(|(_, level)| level.trim().eq_ignore_ascii_case("minimal"))
}

/// `log_line_prefix` for a version.
pub fn log_line_prefix(version_num: u32) -> &'static str {
    if Release::new(version_num).has(NUMERIC_LOG_TIME) { LOG_LINE_PREFIX } else { LOG_LINE_PREFIX_95 }
}

/// The setting that lets WAL grow to `bytes` between checkpoints: `checkpoint_segments` before 9.5, whose WAL has
/// (2 + `checkpoint_completion_target`) * `checkpoint_segments` + 1 segments (documentation of 9.4, WAL Configuration).
pub fn wal_setting(version_num: u32, bytes: u64) -> (&'static str, String) {
    if !Release::new(version_num).has(MAX_WAL_SIZE) {
        let segments = (bytes / WAL_SEGMENT_BYTES).saturating_sub(1) as f64 / SEGMENTS_PER_CHECKPOINT;
        return ("checkpoint_segments", format!("{}", (segments as u64).max(3)));
    }
    ("max_wal_size", size_text(bytes))
}

/// 2 + [`CHECKPOINT_COMPLETION_TARGET`].
const SEGMENTS_PER_CHECKPOINT: f64 = 2.9;

/// How large the WAL grows between checkpoints with these settings, bytes; `None` if the value cannot be read.
pub fn max_wal_bytes(version_num: u32, settings: &BTreeMap<String, String>) -> Option<u64> {
    let of = |name: &str| setting::find(settings, name).map(|(_, value)| value);
    if !Release::new(version_num).has(MAX_WAL_SIZE) {
        let segments: u64 = of("checkpoint_segments")?.trim().parse().ok()?;
        let segments = (segments as f64 * SEGMENTS_PER_CHECKPOINT) as u64 + 1;
        return segments.checked_mul(WAL_SEGMENT_BYTES);
    }
    // A bare number is in megabytes since 10, in segments before.
    let is_in_mb = Release::new(version_num).has(MAX_WAL_SIZE_IN_MB);
    size_bytes(of("max_wal_size")?, if is_in_mb { MB } else { WAL_SEGMENT_BYTES })
}

/// Problems that the server would not notice at its start: Linux promises more memory than it has, and a connection is
/// only missed when it is needed.
fn check_fit(settings: &BTreeMap<String, String>, ram_bytes: u64, n_clients: u32) -> Result<()> {
    let mut problems = Vec::new();
    if let Some((name, value)) = setting::find(settings, "shared_buffers")
        && size_bytes(value, 8 << 10).is_some_and(|bytes| bytes > ram_bytes)
    {
        let gib = ram_bytes as f64 / (1u64 << 30) as f64;
        problems.push(format!("{name} = {value} is more than the {gib:.1} GiB of memory here; lower it"));
    }
    let needed = n_clients.saturating_add(CONNECTIONS_NEEDED);
    if let Some((name, value)) = setting::find(settings, "max_connections")
        && value.trim().parse::<u32>().is_ok_and(|n| n < needed)
    {
        let n: u32 = value.trim().parse().unwrap_or(0);
        let fitting = match n.saturating_sub(CONNECTIONS_NEEDED) {
            0 => "no client fits: raise it".to_string(),
            most => format!("at most {most} fit: lower workload.clients (--clients), or raise it"),
        };
        problems.push(format!(
            "{name} = {value} is not enough: {n_clients} clients and {CONNECTIONS_NEEDED} connections for pgdyno and \
             the superuser need {needed}; {fitting}"
        ));
    }
    if is_minimal(settings) {
        problems.extend(needs_more_wal(settings));
    }
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(())
}

/// What a server at `wal_level = minimal` does not start with.
fn needs_more_wal(settings: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    NEEDS_MORE_WAL.iter().filter_map(|(name, without)| {
        let (name, value) = setting::find(settings, name)?;
        let is_without = without.iter().any(|word| word.eq_ignore_ascii_case(value.trim()));
        let problem =
            || format!("{name} = {value} needs more WAL than wal_level = minimal writes; leave it out");
        (!is_without).then(problem)
    })
}

/// Memory that a server on this machine may use: the machine's, or less where a control group limits it.
pub fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_bytes(&text, "MemTotal"));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = memory_limit_bytes(&groups, Path::new("/sys/fs/cgroup"));
    // Without /proc the size is unknown; 1 GB gives a small server that starts anywhere.
    let machine = machine.unwrap_or(1 << 30);
    limit.map_or(machine, |limit| machine.min(limit))
}

/// The smallest limit of our control groups and those above them: each applies to all below it. `groups` is
/// `/proc/self/cgroup` (cgroups(7)): `0::/PATH` for version 2, `N:memory:/PATH` for version 1.
fn memory_limit_bytes(groups: &str, mounts: &Path) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => (mounts.to_path_buf(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mounts.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Within a container the mount may begin further down than the path; a missing file sets no limit.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let text = fs::read_to_string(mount.join(group).join(file));
            limits.extend(text.ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.into_iter().min()
}

/// A size in the text of `/proc/meminfo`, bytes; `None` if it is not there.
pub fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_do_not_fit_are_refused_before_the_start() {
        let check = |name: &str, value: &str, expected: Option<&str>| {
            let chosen = BTreeMap::from([(name.to_string(), value.to_string())]);
            let text = embedded_settings(180_006, 16 << 30, 64, &chosen).err().map(|error| error.to_string());
            match (text, expected) {
                (None, None) => {}
                (Some(text), Some(expected)) => assert!(text.contains(expected), "{text}"),
                (text, _) => panic!("{name} = {value}: {text:?}"),
            }
        };
        check("shared_buffers", "16GB", None);
        check("shared_buffers", "100%", None);
        check(
            "shared_buffers",
            "64GB",
            Some("shared_buffers = 64GB is more than the 16.0 GiB of memory here"),
        );
        check("Shared_Buffers", "20000 MB", Some("more than the 16.0 GiB"));
        check("shared_buffers", "4000000", Some("more than the 16.0 GiB"));
        check("shared_buffers", "18446744073709551615TB", None);
        check("shared_buffers", "many", None);
        check("max_connections", "69", None);
        check("max_connections", "50", Some("64 clients and 5 connections"));
    }

    #[test]
    fn a_server_that_writes_little_wal_is_without_what_needs_more() {
        let check = |version_num: u32, others: &[(&str, &str)], expected: Result<Option<&str>, &str>| {
            let chosen = [("WAL_level", "Minimal")].iter().chain(others);
            let chosen = chosen.map(|(name, value)| (name.to_string(), value.to_string())).collect();
            match (embedded_settings(version_num, 16 << 30, 64, &chosen), expected) {
                (Ok(settings), Ok(senders)) => {
                    assert_eq!(setting::find(&settings, MAX_WAL_SENDERS).map(|(_, n)| n.as_str()), senders);
                }
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{others:?}: {found:?}"),
            }
        };
        check(180_006, &[], Ok(Some("0")));
        check(90_426, &[], Ok(Some("0")));
        check(180_006, &[("max_wal_senders", "0"), ("archive_mode", "off")], Ok(Some("0")));
        check(180_006, &[("Max_Wal_Senders", "5")], Err("Max_Wal_Senders = 5 needs more WAL"));
        check(180_006, &[("archive_mode", "always")], Err("archive_mode = always needs more WAL"));
        check(180_006, &[("summarize_wal", "on")], Err("summarize_wal = on needs more WAL"));
        let replica = embedded_settings(180_006, 16 << 30, 64, &BTreeMap::new()).unwrap();
        assert!(setting::find(&replica, MAX_WAL_SENDERS).is_none());
    }

    #[test]
    fn defaults_follow_the_machine_and_the_clients() {
        let settings = embedded_defaults(180_006, 16 << 30, 500);
        assert_eq!(settings["shared_buffers"], "4096MB");
        assert_eq!(settings["effective_cache_size"], "12288MB");
        assert_eq!(settings["maintenance_work_mem"], "819MB");
        assert_eq!(settings["max_connections"], "520");
        assert!(!settings.contains_key("max_wal_senders"));
        let small = embedded_defaults(90_624, 1 << 30, 1);
        assert_eq!(small["maintenance_work_mem"], "64MB");
        assert_eq!(small["max_connections"], "100");
        assert_eq!(small["max_wal_senders"], "10");
    }

    #[test]
    fn each_version_gets_only_settings_that_it_knows() {
        // Version, then name and value; an empty value means that the setting is absent.
        for (version_num, name, expected) in [
            (180_006, "wal_level", "replica"),
            (90_624, "wal_level", "replica"),
            (90_525, "wal_level", "hot_standby"),
            (90_426, "wal_level", "hot_standby"),
            (90_525, "max_wal_size", "8192MB"),
            (90_525, "checkpoint_segments", ""),
            (90_426, "max_wal_size", ""),
            (90_426, "checkpoint_segments", "176"),
            (90_426, "log_autovacuum_min_duration", "0"),
            (180_006, "log_autoanalyze_min_duration", ""),
            (190_000, "log_autoanalyze_min_duration", "0"),
            (90_426, "max_replication_slots", "10"),
        ] {
            let settings = embedded_defaults(version_num, 16 << 30, 1);
            let value = settings.get(name).map_or("", String::as_str);
            assert_eq!(value, expected, "{version_num} {name}");
        }
        assert_eq!((log_line_prefix(90_525), log_line_prefix(90_624)), ("%m [%p] ", "%n [%p] "));
    }

    #[test]
    fn the_size_of_the_wal_is_read_as_each_version_means_it() {
        let check = |version_num: u32, name: &str, value: &str, expected: Option<u64>| {
            let settings = BTreeMap::from([(name.to_string(), value.to_string())]);
            assert_eq!(max_wal_bytes(version_num, &settings), expected, "{version_num} {name} = {value}");
        };
        check(180_006, "Max_Wal_Size", "8GB", Some(8 << 30));
        check(180_006, "max_wal_size", "1024", Some(1 << 30));
        check(90_624, "max_wal_size", "64", Some(1 << 30));
        check(90_426, "checkpoint_segments", "176", Some(511 * 16 * MB));
        check(90_426, "max_wal_size", "8GB", None);
        check(180_006, "max_wal_size", "much", None);
    }

    #[test]
    fn a_limit_of_any_group_above_ours_applies() {
        let dir = tempfile::tempdir().unwrap();
        let limit = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        limit("a/b/memory.max", "max\n");
        limit("a/memory.max", "2000000\n");
        limit("memory/c/d/memory.limit_in_bytes", "9223372036854771712\n");
        limit("memory/c/memory.limit_in_bytes", "3000000\n");
        for (groups, expected) in [
            ("0::/a/b\n", Some(2_000_000)),
            ("0::/a/b/gone\n", Some(2_000_000)),
            ("0::/x\n", None),
            ("5:cpu:/\n4:memory:/c/d\n0::/\n", Some(3_000_000)),
            ("4:hugetlb,memory:/c/d\n0::/a\n", Some(2_000_000)),
            ("rubbish\n", None),
            ("", None),
        ] {
            assert_eq!(memory_limit_bytes(groups, dir.path()), expected, "{groups}");
        }
    }

    #[test]
    fn the_experiment_overrides_the_defaults() {
        let chosen = [("Shared_Buffers", "10%"), ("jit", "off")].map(|(k, v)| (k.to_string(), v.to_string()));
        let settings = embedded_settings(180_006, 10 << 30, 1, &chosen.into()).unwrap();
        assert_eq!((settings["Shared_Buffers"].as_str(), settings["jit"].as_str()), ("1024MB", "off"));
        assert!(!settings.contains_key("shared_buffers"));
        assert_eq!(settings["max_wal_size"], "8192MB");
        let port = BTreeMap::from([("port".to_string(), "1".to_string())]);
        assert!(embedded_settings(180_006, 10 << 30, 1, &port).is_err());
    }

    #[test]
    fn nothing_that_makes_a_server_durable_is_touched() {
        let settings = embedded_defaults(180_006, 16 << 30, 1);
        for name in ["fsync", "full_page_writes", "synchronous_commit", "wal_sync_method", "data_checksums"] {
            assert!(!settings.contains_key(name), "{name}");
        }
    }

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(
            meminfo_bytes("MemFree: 1 kB\nMemTotal:       24619108 kB\n", "MemTotal"),
            Some(25_209_966_592)
        );
        assert_eq!(meminfo_bytes("rubbish", "MemTotal"), None);
        assert!(memory_bytes() > 64 << 20);
    }
}
