//! Calibrations that are kept for later runs, in one file of the cache: the newest of a machine and a place counts.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::run::ceilings::Calibration;

/// Many times the size that years of calibrations reach.
const BYTES_MAX: u64 = 64 << 20;

/// Days after which a calibration is made again when a run asks for one: disks fill and wear, clouds move machines. Our
/// convention.
pub const DAYS_MAX: u64 = 30;

/// Milliseconds of each part below which a calibration does not spare a run its own: caches of devices absorb what is shorter, and
/// one wake-up of a neighbour decides. Our convention.
pub const PART_MS_MIN: u64 = 300;

/// File with one JSON object per line, the newest last.
fn path(cache: &Path) -> PathBuf {
    cache.join("ceilings.jsonl")
}

/// Appends a calibration to those in the directory `cache`, unless one of the same place took more time for each part and is not
/// old: then nothing is changed, and that one is returned.
///
/// # Errors
/// When somebody else could change the directory, or it cannot be written.
pub fn keep(cache: &Path, calibration: &Calibration) -> Result<Option<Calibration>> {
    let known = newest(cache, &calibration.machine, &calibration.place);
    let is_better = |known: &Calibration| {
        known.part_ms > calibration.part_ms && !is_old(known, calibration.measured_unix_ns)
    };
    if let Some(better) = known.filter(is_better) {
        return Ok(Some(better));
    }
    let path = path(cache);
    let context = || format!("cannot keep ceilings in `{}`", path.display());
    files::trust::make_directory(cache).with_context(context)?;
    let mut options = OpenOptions::new();
    let mut file =
        files::open_with(&path, options.create(true).append(true).mode(0o644)).with_context(context)?;
    writeln!(file, "{}", serde_json::to_string(calibration)?).with_context(context)?;
    Ok(None)
}

/// The newest calibration of a machine and a place; `None` also if the file cannot be read, or not be trusted.
pub fn newest(cache: &Path, machine: &str, place: &str) -> Option<Calibration> {
    let cache = files::trust::check_directory(cache).ok()?;
    let text = String::from_utf8(files::trust::read(&path(&cache), BYTES_MAX).ok()?).ok()?;
    // A later version may have written a line that we cannot read.
    let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Calibration>(line).ok());
    lines.into_iter().find(|kept| kept.machine == machine && kept.place == place)
}

/// Whether a calibration is too old to be relied on without measuring again.
pub fn is_old(calibration: &Calibration, now_unix_ns: u64) -> bool {
    calibration.age_s(now_unix_ns) > (DAYS_MAX * 24 * 3600) as f64
}

/// Whether a run that asks for a calibration need not make it.
pub fn spares_another(calibration: &Calibration, now_unix_ns: u64) -> bool {
    calibration.part_ms >= PART_MS_MIN && !is_old(calibration, now_unix_ns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    #[test]
    fn the_newest_of_a_machine_and_a_place_is_found_among_others() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(newest(cache.path(), "m", "p"), None);
        let made = |machine: &str, place: &str, measured_unix_ns| Calibration {
            machine: machine.to_string(),
            place: place.to_string(),
            measured_unix_ns,
            part_ms: 100,
            values: BTreeMap::from([("sync_rate[fsync]".to_string(), 1.5)]),
            unavailable: BTreeMap::new(),
        };
        for calibration in [made("m", "p", 1), made("m", "p", 2), made("m", "q", 3), made("n", "p", 4)] {
            keep(cache.path(), &calibration).unwrap();
        }
        let file = cache.path().join("ceilings.jsonl");
        let torn = fs::read_to_string(&file).unwrap() + "{\"machine\":\"m\",\"pla";
        fs::write(&file, torn).unwrap();
        assert_eq!(newest(cache.path(), "m", "p"), Some(made("m", "p", 2)));
        assert_eq!(newest(cache.path(), "n", "q"), None);
        let day_ns = 24 * 3600 * 1_000_000_000_u64;
        let kept = made("m", "p", 2 * day_ns);
        assert!(!is_old(&kept, (DAYS_MAX + 1) * day_ns) && is_old(&kept, (DAYS_MAX + 3) * day_ns));
        let longer = Calibration { part_ms: PART_MS_MIN, ..kept.clone() };
        let spares = |made: &Calibration, day: u64| spares_another(made, day * day_ns);
        assert_eq!(
            (spares(&longer, 3), spares(&longer, DAYS_MAX + 3), spares(&kept, 3)),
            (true, false, false)
        );
    }

    #[test]
    fn a_short_calibration_replaces_a_longer_one_only_when_that_is_old() {
        let cache = tempfile::tempdir().unwrap();
        let day_ns = 24 * 3600 * 1_000_000_000_u64;
        let made = |day: u64, part_ms| Calibration {
            machine: "m".to_string(),
            place: "p".to_string(),
            measured_unix_ns: day * day_ns,
            part_ms,
            values: BTreeMap::new(),
            unavailable: BTreeMap::new(),
        };
        let check = |day, part_ms, better: Option<(u64, u64)>, counts: (u64, u64)| {
            let found = keep(cache.path(), &made(day, part_ms)).unwrap();
            assert_eq!(found, better.map(|(day, part_ms)| made(day, part_ms)), "day {day}");
            assert_eq!(newest(cache.path(), "m", "p"), Some(made(counts.0, counts.1)), "day {day}");
        };
        check(1, 300, None, (1, 300));
        check(2, 5000, None, (2, 5000));
        check(3, 300, Some((2, 5000)), (2, 5000));
        check(4, 5000, None, (4, 5000));
        check(40, 300, None, (40, 300));
    }
}
