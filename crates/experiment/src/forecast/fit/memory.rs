//! Fits shared buffers, and what the planner believes of caching, to the memory of a machine and to what its kernel lets programs reserve.

use model::experiment::Experiment;
use model::experiment::keys::levels::Levels;
use model::text::prose::bytes;
use model::text::units::{SettingValue, size_bytes};

use super::system::has_urls;
use super::{FitChange, keep, replace};
use crate::forecast::commit::{CommitRoom, STRICT};

pub(super) const BUFFERS: &str = "shared_buffers";
pub(super) const CACHE: &str = "effective_cache_size";
/// Shared buffers that do not fit become this share of memory, per cent.
const BUFFERS_SHARE: f64 = 25.0;
/// An `effective_cache_size` above memory becomes this share, per cent: what page cache and buffers have on a server that does nothing else.
const CACHE_SHARE_MAX: f64 = 75.0;
/// Share of what all programs may reserve that shared buffers may have. The rest is for the server's processes, the driver, and whatever
/// else runs: what that has reserved just now decides nothing. As much as of memory; our convention.
const RESERVED_SHARE: f64 = 0.25;

/// Settings of memory that are sizes; a share already refers to this machine.
pub(super) fn fit(experiment: &mut Experiment, memory_bytes: u64) {
    let of_study = buffers_bytes(experiment);
    // The buffers of the study, if a share of this machine's memory takes their place.
    let mut replaced_bytes = None;
    if let Some(levels) = experiment.server.settings.get_mut(BUFFERS) {
        let fits = |value: &SettingValue| bytes_of(value).is_none_or(|bytes| bytes <= memory_bytes / 4);
        let share = SettingValue(format!("{BUFFERS_SHARE}%"));
        keep(levels, fits, share.clone());
        replaced_bytes = of_study.filter(|_| levels.all() == [share]);
    }
    let Some(levels) = experiment.server.settings.get_mut(CACHE) else { return };
    match replaced_bytes {
        Some(buffers) => scale(levels, |cache| {
            let share = (BUFFERS_SHARE * cache as f64 / buffers as f64).round();
            format!("{}%", share.clamp(1.0, CACHE_SHARE_MAX))
        }),
        None => {
            let fits = |value: &SettingValue| bytes_of(value).is_none_or(|bytes| bytes <= memory_bytes);
            keep(levels, fits, SettingValue(format!("{CACHE_SHARE_MAX}%")));
        }
    }
}

/// Lowers shared buffers where the kernel refuses what goes beyond its limit, be it by the machine's own value or by the study's.
pub(super) fn keep_to_reserve(
    experiment: &mut Experiment,
    room: Option<&CommitRoom>,
    memory_bytes: u64,
) -> Vec<FitChange> {
    let Some(room) = room.filter(|room| is_strict(experiment, room)) else { return Vec::new() };
    let most = (room.limit_bytes() as f64 * RESERVED_SHARE) as u64;
    let share_of = |value: &SettingValue| value.0.trim().strip_suffix('%')?.trim().parse::<f64>().ok();
    let resolved = |value: &SettingValue| {
        let share = share_of(value).map(|share| (share / 100.0 * memory_bytes as f64) as u64);
        share.or_else(|| bytes_of(value))
    };
    let settings = &mut experiment.server.settings;
    let before = settings.get(BUFFERS).cloned();
    let default = (memory_bytes as f64 * server::settings::defaults::SHARED_BUFFERS_SHARE) as u64;
    let sizes: Vec<u64> = match &before {
        Some(levels) => levels.all().iter().filter_map(resolved).collect(),
        None => vec![default],
    };
    let Some(largest) = sizes.iter().copied().max().filter(|largest| *largest > most) else {
        return Vec::new();
    };
    let chosen = SettingValue(megabytes(most));
    let levels = settings.entry(BUFFERS.to_string()).or_insert_with(|| Levels::one(chosen.clone()));
    keep(levels, |value| resolved(value).is_none_or(|bytes| bytes <= most), chosen.clone());
    let why = format!(
        "vm.overcommit_memory = {STRICT}: a quarter of the {} that all programs may reserve (CommitLimit)",
        bytes(room.limit_bytes() as f64)
    );
    let words = |levels: &Levels<SettingValue>| {
        levels.all().iter().map(|level| level.0.clone()).collect::<Vec<_>>().join(", ")
    };
    let change = |name: &str, from: Option<&Levels<SettingValue>>, to: &Levels<SettingValue>, why: String| {
        let from = from.map_or("25%, by default".to_string(), words);
        FitChange { key: format!("server.settings.{name}"), from, to: words(to), why }
    };
    let mut changes = vec![change(BUFFERS, before.as_ref(), levels, why)];
    // Several sizes have no one relation to it.
    let is_one = levels.all() == [chosen];
    if let Some(levels) = settings.get_mut(CACHE)
        && is_one
    {
        let before = levels.clone();
        let times = most as f64 / largest as f64;
        scale(levels, |cache| megabytes((cache as f64 * times) as u64));
        if *levels != before {
            let why = "in the same relation to shared_buffers".to_string();
            changes.push(change(CACHE, Some(&before), levels, why));
        }
    }
    changes
}

/// Whether a server of the experiment takes its shared buffers from what the kernel counts: huge pages are not.
fn is_strict(experiment: &Experiment, room: &CommitRoom) -> bool {
    let os = &experiment.os;
    let is_strict = match &os.overcommit_memory {
        Some(levels) => levels.all().iter().any(|mode| mode.to_string() == STRICT),
        None => room.mode() == STRICT,
    };
    let of_os = os
        .huge_pages
        .as_ref()
        .is_some_and(|levels| levels.all().iter().all(|level| level.to_string() == "on"));
    let of_setting = experiment.server.settings.get("huge_pages");
    let of_setting =
        of_setting.is_some_and(|levels| levels.all().iter().all(|level| level.0.eq_ignore_ascii_case("on")));
    is_strict && !has_urls(experiment) && !of_os && !of_setting
}

fn bytes_of(value: &SettingValue) -> Option<u64> {
    size_bytes(&value.0, 8 << 10)
}

/// The first size of shared buffers.
fn buffers_bytes(experiment: &Experiment) -> Option<u64> {
    let levels = experiment.server.settings.get(BUFFERS)?;
    bytes_of(&levels.all()[0]).filter(|bytes| *bytes > 0)
}

fn megabytes(bytes: u64) -> String {
    format!("{}MB", (bytes >> 20).max(1))
}

/// What the planner believes of caching is a multiple of shared buffers, as in the study, for each level that is a size.
fn scale(levels: &mut Levels<SettingValue>, scaled: impl Fn(u64) -> String) {
    let mut distinct: Vec<SettingValue> = Vec::new();
    for level in levels.all() {
        let level = bytes_of(level).map_or(level.clone(), |cache| SettingValue(scaled(cache)));
        if !distinct.contains(&level) {
            distinct.push(level);
        }
    }
    replace(levels, distinct);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{here, study};
    use super::super::{Limits, fit_without};
    use super::*;

    /// What a machine with 24 GB has by default, 6.6 GB of which are reserved, and 12 of 12 GB.
    fn room(mode: &str, reserved_kb: u64) -> CommitRoom {
        let meminfo = format!("CommitLimit:    12342040 kB\nCommitted_AS: {reserved_kb} kB\n");
        CommitRoom::from_files(mode, &meminfo).unwrap()
    }

    #[test]
    fn what_others_have_reserved_decides_no_shared_buffers() {
        let told = |name: &str, mode: &str, reserved_kb: u64| {
            let mut experiment = study(name);
            super::super::places::bring_here(&mut experiment, &super::super::places::Lacks::default());
            let limits = Limits { commit: Some(room(mode, reserved_kb)), ..here() };
            let changes = fit_without(&mut experiment, &limits, &[]);
            let of_memory =
                changes.iter().filter(|change| change.key.starts_with("server.settings.shared_buffers"));
            let why: Vec<String> =
                of_memory.map(|change| format!("{} -> {}: {}", change.from, change.to, change.why)).collect();
            let of = |name: &str| experiment.server.settings[name].all()[0].0.clone();
            (why, [of(BUFFERS), of(CACHE)])
        };
        let expected = "8GB -> 3013MB: vm.overcommit_memory = 2: a quarter of the 11.8 GiB that all programs may reserve (CommitLimit)";
        for reserved_kb in [300_000, 6_600_000, 12_000_000] {
            let (why, settings) = told("piops", "0", reserved_kb);
            assert_eq!(why, [expected]);
            assert_eq!(settings, ["3013MB", "8092MB"], "22000MB for 8GB");
        }
        // Without the study's own value, and without the machine's, memory alone counts.
        assert_eq!(told("low-variation", "0", 300_000).1, ["25%", "50%"]);
        assert_eq!(told("low-variation", "2", 300_000).1, ["3013MB", "6026MB"]);
    }

    #[test]
    fn shared_buffers_that_nobody_gave_are_lowered_too_but_not_those_in_huge_pages() {
        let settings = |text: &str| {
            let text = format!("[experiment]\nname = \"x\"\n[workload]\nscale = 1\n{text}");
            let mut experiment = crate::plan::file::parse("x", &text, &[]).unwrap();
            let changes = keep_to_reserve(&mut experiment, Some(&room("2", 1)), 24 << 30);
            changes
                .iter()
                .map(|change| format!("{} {} -> {}", change.key, change.from, change.to))
                .collect::<Vec<_>>()
        };
        assert_eq!(settings(""), ["server.settings.shared_buffers 25%, by default -> 3013MB"]);
        assert_eq!(settings("[os]\novercommit_memory = 0\n"), [""; 0]);
        assert_eq!(settings("[server]\nsettings.huge_pages = \"on\"\n"), [""; 0]);
        assert_eq!(settings("[server]\nsettings.shared_buffers = \"1GB\"\n"), [""; 0]);
        let two = settings(
            "[server]\nsettings.shared_buffers = [\"1GB\", \"5GB\"]\nsettings.effective_cache_size = \"9GB\"\n",
        );
        assert_eq!(two, ["server.settings.shared_buffers 1GB, 5GB -> 1GB"]);
    }
}
