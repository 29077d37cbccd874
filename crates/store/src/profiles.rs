//! Profiles of cases: `profiles/0001` is the directory of an extra run, with what was sampled next to it.

use std::path::Path;

use model::run::profile::{ProfileRecord, StoredProfile, unfold};

use crate::{names, parse};

/// Largest file that is read: stacks are bounded when they are written.
const BYTES_MAX: u64 = 256 << 20;

/// Numbers of the cases with a profile that has samples.
pub fn profiled_cases(path: &Path) -> Vec<u32> {
    let records = records(path).into_iter().filter(|record| record.reason.is_empty());
    records.map(|record| record.case).collect()
}

/// Numbers of the cases with a profile, or with the reason why there is none, which a report shows.
pub(crate) fn recorded_cases(path: &Path) -> Vec<u32> {
    records(path).into_iter().map(|record| record.case).collect()
}

/// All profiles, by case. What cannot be read is left out: it is no result.
pub fn read_profiles(path: &Path) -> Vec<StoredProfile> {
    let profile = |record: ProfileRecord| {
        let file = path.join(names::PROFILES).join(names::run_dir(record.case)).join(names::STACKS);
        let bytes = files::read(&file, BYTES_MAX).unwrap_or_default();
        StoredProfile { stacks: unfold(&String::from_utf8_lossy(&bytes)), record }
    };
    records(path).into_iter().map(profile).collect()
}

/// How the profile of a case was made, if that can be read.
pub(crate) fn record_of(path: &Path, case: u32) -> Option<ProfileRecord> {
    let file = path.join(names::PROFILES).join(names::run_dir(case)).join(names::PROFILE);
    let record: ProfileRecord = parse::record(&files::read(&file, BYTES_MAX).ok()?).ok()?;
    (record.case == case && record.format <= model::FORMAT).then_some(record)
}

fn records(path: &Path) -> Vec<ProfileRecord> {
    let dirs = std::fs::read_dir(path.join(names::PROFILES)).into_iter().flatten().flatten();
    let record = |dir: std::fs::DirEntry| record_of(path, dir.file_name().to_str()?.parse().ok()?);
    let mut records: Vec<ProfileRecord> = dirs.filter_map(record).collect();
    records.sort_by_key(|record| record.case);
    records.dedup();
    records
}

#[cfg(test)]
mod tests {
    use model::run::profile::Stack;

    use super::*;
    use crate::ExperimentDir;

    #[test]
    fn profiles_come_back_and_are_not_among_the_runs() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let dir = ExperimentDir::create(&path, &crate::sample::plan(), "").unwrap();
        let stacks = vec![Stack { frames: vec!["main".to_string(), "f".to_string()], n: 3 }];
        for (case, reason) in [(2, ""), (1, "no perf")] {
            let record =
                ProfileRecord { format: 1, case, reason: reason.to_string(), ..ProfileRecord::default() };
            let writer = dir.begin_profile(case).unwrap();
            let kept = if reason.is_empty() { &stacks[..] } else { &[] };
            writer.keep_profile(&record, kept).unwrap();
        }
        std::fs::create_dir(path.join("profiles/other")).unwrap();
        std::fs::create_dir(path.join("profiles/0003")).unwrap();
        assert_eq!((profiled_cases(&path), recorded_cases(&path)), (vec![2], vec![1, 2]));
        let profiles = read_profiles(&path);
        assert_eq!(profiles.iter().map(|profile| profile.record.case).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(profiles[1].stacks, stacks);
        let data = crate::load_experiment(&path).unwrap();
        assert!(data.runs.is_empty());
        assert_eq!(data.profiles, profiles);
        let merged = place.path().join("merged");
        let merged_dir = ExperimentDir::create(&merged, &crate::sample::plan(), "").unwrap();
        merged_dir.adopt_profile(&path, 2, 7).unwrap();
        assert!(merged_dir.adopt_profile(&path, 3, 8).unwrap_err().to_string().contains("profiles/0003"));
        assert_eq!(profiled_cases(&merged), [7]);
        assert_eq!(read_profiles(&merged)[0].stacks, stacks);
        dir.begin_profile(2).unwrap();
        assert_eq!(profiled_cases(&path), [] as [u32; 0], "begun again");
    }
}
