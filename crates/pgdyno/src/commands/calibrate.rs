//! `pgdyno calibrate`: measures what devices, processors, memory and the way to a server give at most, and keeps it.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ceiling::{Effort, kept};
use model::run::ceilings::{CEILINGS, Calibration};
use model::text::prose::{bytes, significant};
use server::{Cache, Workspace};

use crate::front::cli::ceilings::CalibrateArgs;
use crate::front::setup;
use crate::job::preview::duration;
use crate::{Exit, print, print_exact, say, signals};

/// Shortest and longest time of a part: a round has a third of it.
const PART_MS: std::ops::RangeInclusive<u64> = 30..=60_000;

/// Measures what `args` name, or shows what is kept of it.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<Exit> {
    ensure!(
        PART_MS.contains(&args.part.ms),
        "--part {}: a part takes between 30ms and 60s; example: --part 1s",
        args.part
    );
    let effort = Effort { part: Duration::from_millis(args.part.ms), stop: signals::stop_flag() };
    let cache = Cache::default_location()?;
    let places = places(args, &cache)?;
    let found = if args.kept { of_cache(&places, &cache)? } else { measured(&places, &cache, &effort)? };
    let is_any = !found.is_empty();
    let now = ceiling::now_unix_ns();
    if args.json {
        let all: Vec<_> = found.iter().map(|(role, made)| json_of(role, made, now)).collect();
        print_exact(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else {
        let texts: Vec<String> = found.iter().map(|(role, made)| text(role, made, now)).collect();
        print(&texts.join("\n"))?;
    }
    let is_stopped = effort.stop.load(Ordering::Relaxed);
    Ok(if is_stopped {
        say("stopped: what had been measured by then is kept");
        Exit::Partial
    } else if is_any {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// A place to measure.
enum Place {
    Machine,
    Directory(PathBuf),
    Way(Box<wire::Conninfo>),
}

/// The places with their roles; two directories on one device are one place.
fn places(args: &CalibrateArgs, cache: &Cache) -> Result<Vec<(&'static str, Place)>> {
    let mut places = vec![("machine", Place::Machine)];
    let data = match (&args.data, &args.server) {
        (Some(dir), _) => Some(dir.clone()),
        (None, None) => Some(Workspace::in_cache(cache)?.dir),
        // Whether that server's data is on this machine, and where, only the user knows.
        (None, Some(_)) => None,
    };
    let place_of = |dir: &Path| ceiling::place_of(dir);
    if let Some(data) = &data {
        place_of(data).context("--data")?;
        places.push(("data", Place::Directory(data.clone())));
    }
    if let Some(wal) = &args.wal {
        let place = place_of(wal).context("--wal")?;
        let is_same =
            data.as_deref().is_some_and(|data| place_of(data).is_ok_and(|of_data| of_data == place));
        if is_same {
            say(&format!("data and WAL are on one device ({place}), which is measured once"))
        } else {
            places.push(("wal", Place::Directory(wal.clone())))
        }
    }
    if let Some(target) = &args.server {
        places.push(("network", Place::Way(Box::new(setup::resolve_to_look(target)?))));
    }
    Ok(places)
}

type Found = Vec<(&'static str, Calibration)>;

fn measured(places: &[(&'static str, Place)], cache: &Cache, effort: &Effort) -> Result<Found> {
    let n_parts: u32 = places.iter().map(|(_, place)| n_parts(place)).sum();
    say(&format!(
        "measuring for at most {}; let nothing else work on this machine meanwhile",
        duration((effort.part * n_parts).as_secs_f64())
    ));
    let mut found = Vec::new();
    for (role, place) in places {
        let made = match place {
            Place::Machine => ceiling::machine(effort).context("processors and memory"),
            Place::Directory(dir) => {
                ceiling::disk(dir, effort).with_context(|| format!("`{}`", dir.display()))
            }
            Place::Way(conninfo) => ceiling::network(conninfo, effort).with_context(|| format!("{conninfo}")),
        };
        match made {
            Ok(made) => {
                if let Some(better) = kept::keep(&cache.dir, &made)? {
                    say(&format!(
                        "{role}: not kept, because {} ms for each part say less than the {} ms that the kept values took",
                        made.part_ms, better.part_ms
                    ));
                }
                found.push((*role, made));
            }
            Err(_) if effort.stop.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn n_parts(place: &Place) -> u32 {
    match place {
        Place::Machine => 4,
        // Filling the file takes a part as well.
        Place::Directory(_) => 13,
        Place::Way(_) => 3,
    }
}

fn of_cache(places: &[(&'static str, Place)], cache: &Cache) -> Result<Found> {
    let machine = ceiling::this_machine();
    let mut found = Vec::new();
    for (role, place) in places {
        let name = match place {
            Place::Machine => ceiling::MACHINE.to_string(),
            Place::Directory(dir) => ceiling::place_of(dir)?,
            Place::Way(conninfo) => ceiling::way_to(conninfo),
        };
        match kept::newest(&cache.dir, &machine, &name) {
            Some(made) => found.push((*role, made)),
            None => say(&format!("{role}: nothing is known about {name}; pgdyno calibrate measures it")),
        }
    }
    Ok(found)
}

fn text(role: &str, made: &Calibration, now_unix_ns: u64) -> String {
    let age = match made.age_s(now_unix_ns) {
        age_s if age_s < 60.0 => "measured now".to_string(),
        age_s => format!("measured {} ago", age(age_s)),
    };
    let old = if kept::is_old(made, now_unix_ns) { ", which is old: measure again" } else { "" };
    let mut text = format!("{role}: {}, {age}{old} ({} ms for each part)\n", made.place, made.part_ms);
    for (key, value) in in_order(made) {
        text.push_str(&format!("  {key:<28} {}\n", worded(&key, value)));
    }
    for (what, reason) in &made.unavailable {
        text.push_str(&format!("  {what:<28} not measured: {reason}\n"));
    }
    text
}

/// Values in the order of the table; instances that are numbers by size.
fn in_order(made: &Calibration) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = made.values.iter().map(|(key, value)| (key.clone(), *value)).collect();
    let row = |key: &str| CEILINGS.iter().position(|row| key.split('[').next() == Some(row.name));
    all.sort_by_key(|(key, _)| (row(key), key.len(), key.clone()));
    all
}

fn worded(key: &str, value: f64) -> String {
    let unit =
        CEILINGS.iter().find(|row| key.split('[').next() == Some(row.name)).map_or("1", |row| row.unit);
    match unit {
        "s" if value < 1e-6 => format!("{} ns", significant(value * 1e9)),
        "s" if value < 1e-3 => format!("{} µs", significant(value * 1e6)),
        "s" => format!("{} ms", significant(value * 1e3)),
        "bytes/s" => format!("{} MB/s", significant(value / 1e6)),
        "bytes" => bytes(value),
        "1/s" if value >= 1e7 => format!("{} million/s", significant(value / 1e6)),
        _ => format!("{}/s", significant(value)),
    }
}

/// `5 min`, `3 h`, `12 days`.
fn age(age_s: f64) -> String {
    match age_s {
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86400.0),
    }
}

fn json_of(role: &str, made: &Calibration, now_unix_ns: u64) -> serde_json::Value {
    serde_json::json!({
        "role": role, "age_s": made.age_s(now_unix_ns), "is_old": kept::is_old(made, now_unix_ns), "calibration": made,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn values_are_shown_in_their_order_with_units_and_age() {
        let values = [
            ("read_rate[32]", 9000.0),
            ("read_rate[4]", 5123.4),
            ("sync_rate[fsync]", 312.0),
            ("sync_time[fsync]", 0.0032),
            ("read_throughput", 1.25e8),
        ];
        let made = Calibration {
            machine: "m".to_string(),
            place: "vda ext4 at /".to_string(),
            measured_unix_ns: 0,
            part_ms: 5000,
            values: values.map(|(key, value)| (key.to_string(), value)).into(),
            unavailable: BTreeMap::from([("write_rate".to_string(), "no O_DIRECT".to_string())]),
        };
        let lines: Vec<String> = text("data", &made, 7_200_000_000_000).lines().map(String::from).collect();
        assert_eq!(lines[0], "data: vda ext4 at /, measured 2 h ago (5000 ms for each part)");
        let firsts: Vec<&str> = lines[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
        let order = [
            "sync_rate[fsync]",
            "sync_time[fsync]",
            "read_rate[4]",
            "read_rate[32]",
            "read_throughput",
            "write_rate",
        ];
        assert_eq!(firsts, order);
        assert!(lines[2].ends_with("3.20 ms") && lines[5].ends_with("125 MB/s"), "{lines:#?}");
        assert!(text("data", &made, u64::MAX).contains("measure again"));
    }
}
