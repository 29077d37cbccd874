//! Fits the operating system settings: removes those that a machine refuses, and the selectors that name them.

use std::path::PathBuf;

use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::keys;
use model::experiment::selector::names;
use model::load::Window;

use super::FitChange;
use crate::forecast::fit::changes::{LEVELS_LEFT_OUT, dropped};
use crate::stage::os::{self, OsRefusal, ServerPlace};

/// Whether servers of the experiment are somebody's, here or on another machine.
pub(super) fn has_urls(experiment: &Experiment) -> bool {
    experiment.server.url.is_some() || experiment.target.iter().any(|target| target.url.is_some())
}

/// Operating system settings that this machine refuses, as before a plan is run. A server by URL may be on this machine
/// or on another one, which refuses more: then the plan is refused with the reason.
pub(super) fn refused_here(experiment: &Experiment) -> Vec<OsRefusal> {
    let Ok(cache) = server::Cache::default_location() else { return Vec::new() };
    let by_url = has_urls(experiment);
    let has_hands =
        experiment.server.host.is_some() || experiment.target.iter().any(|target| target.host.is_some());
    let place = match (by_url, has_hands) {
        (_, true) => ServerPlace::There,
        (true, false) => ServerPlace::Here,
        (false, false) => ServerPlace::Own,
    };
    os::refusals(&cases_with_each_value(experiment), place, &cache.clusters_dir())
}

/// One case per level of `[os]` and WAL directory, otherwise equal: the rest of a plan might not be possible yet.
fn cases_with_each_value(experiment: &Experiment) -> Vec<Case> {
    let dirs: Vec<Option<PathBuf>> = match &experiment.server.wal_directory {
        Some(levels) => levels.all().iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let mut cases = Vec::new();
    for (key, levels) in keys::os::levels(experiment) {
        for (level, dir) in levels.iter().flat_map(|level| dirs.iter().map(move |dir| (level, dir))) {
            let server = ServerSpec {
                wal_directory: dir.clone(),
                ..ServerSpec::new(ServerSource::BinDir(PathBuf::new()))
            };
            let window = Window { ramp_up_s: 0, measure_s: 0, grace_s: 0 };
            cases.push(Case {
                os: [(key.to_string(), level.clone())].into(),
                ..Case::new(server, WorkloadSpec::new(WorkloadKind::default(), 1), window)
            });
        }
    }
    cases
}

/// Removes settings that are refused; a key without any other level is left at the system's value.
pub(super) fn drop_refused(experiment: &mut Experiment, refused: &[OsRefusal]) -> Vec<FitChange> {
    let before = keys::os::levels(experiment);
    keep_os(experiment, &|key, level| {
        !refused.iter().any(|refusal| is_of(refusal, key) && refusal.level == level)
    });
    let after = keys::os::levels(experiment);
    let mut changes = Vec::new();
    for (key, levels) in before {
        let kept = after.iter().find(|(known, _)| *known == key).map(|(_, levels)| levels.join(", "));
        let from = levels.join(", ");
        if kept.as_ref() == Some(&from) {
            continue;
        }
        let mut reasons: Vec<&str> = refused
            .iter()
            .filter(|refusal| is_of(refusal, key))
            .map(|refusal| refusal.reason.as_str())
            .collect();
        reasons.dedup();
        let (whole, is_gone) = (format!("os.{key}"), kept.is_none());
        let to = kept.unwrap_or_else(|| "as it is".to_string());
        changes.push(FitChange { key: whole.clone(), from, to, why: reasons.join("; ") });
        if is_gone {
            changes.extend(forget_key(experiment, &whole));
        }
    }
    changes
}

fn is_of(refusal: &OsRefusal, key: &str) -> bool {
    refusal.key.strip_prefix("os.") == Some(key)
}

/// Removes a key that is gone from the baseline, from `zip` and from `exclude`.
fn forget_key(experiment: &mut Experiment, whole: &str) -> Vec<FitChange> {
    let header = &mut experiment.experiment;
    let n_before = header.exclude.len();
    header.exclude.retain(|selector| !selector.levels.keys().any(|key| names(key, whole)));
    let mut changes = Vec::new();
    if header.exclude.len() < n_before {
        changes.push(dropped(keys::header::EXCLUDE.name, LEVELS_LEFT_OUT));
    }
    let n_before = header.zip.len();
    header.zip.retain(|keys| !keys.iter().any(|key| names(key, whole)));
    if header.zip.len() < n_before {
        changes.push(dropped(keys::header::ZIP.name, LEVELS_LEFT_OUT));
    }
    if let Some(baseline) = &mut header.baseline {
        baseline.levels.retain(|key, _| !names(key, whole));
    }
    if header.baseline.as_ref().is_some_and(|baseline| baseline.levels.is_empty()) {
        header.baseline = None;
        changes.push(dropped(keys::header::BASELINE.name, LEVELS_LEFT_OUT));
    }
    changes
}

/// Keeps the levels of each `[os]` key for which `is_kept` returns true, by key and text; removes keys without any.
fn keep_os(experiment: &mut Experiment, is_kept: &dyn Fn(&str, &str) -> bool) {
    for row in keys::os::ROWS {
        if let Some((_, name)) = row.parts() {
            (row.keep)(experiment, &|level| is_kept(name, level));
        }
    }
}

/// The refusal of a machine with one NUMA node.
#[cfg(test)]
pub(super) fn one_node() -> Vec<OsRefusal> {
    let refusal = |level: &str| OsRefusal {
        key: keys::os::NUMA.name.to_string(),
        level: level.to_string(),
        reason: "this machine has one NUMA node".to_string(),
    };
    ["local", "remote"].map(refusal).into()
}

#[cfg(test)]
mod tests {
    use super::super::fit_without;
    use super::super::tests::here;
    use super::*;

    /// What a machine with one NUMA node refuses, and a level that no machine takes.
    fn one_node_and_swappiness() -> Vec<OsRefusal> {
        let swappiness = OsRefusal {
            key: "os.swappiness".to_string(),
            level: "201".to_string(),
            reason: "201 is not in 0..200".to_string(),
        };
        one_node().into_iter().chain([swappiness]).collect()
    }

    #[test]
    fn selections_of_refused_levels_are_dropped_with_them() {
        let text = "[experiment]\nname = \"x\"\nbaseline = {numa = \"local\"}\nexclude = [{numa = \"remote\", \
                    swappiness = 1}, {swappiness = 201}]\n[workload]\nscale = 10\n[run]\nmeasure = \"10s\"\n\
                    [os]\nnuma = [\"local\", \"remote\"]\nswappiness = [1, 10, 201]\n";
        let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
        let refused = one_node_and_swappiness();
        let changes = fit_without(&mut experiment, &here(), &refused);
        let told: Vec<String> = changes.iter().map(|c| format!("{}: {} ({})", c.key, c.to, c.why)).collect();
        let expected = [
            "os.swappiness: 1, 10 (201 is not in 0..200)",
            "os.numa: as it is (this machine has one NUMA node)",
            "experiment.exclude: none (its levels were left out)",
            "experiment.baseline: none (its levels were left out)",
            "experiment.exclude: none (its levels were left out)",
        ];
        assert_eq!(told, expected);
        assert_eq!((experiment.experiment.exclude.len(), keys::os::levels(&experiment).len()), (0, 1));
    }

    #[test]
    fn factors_that_vary_with_a_refused_one_vary_alone() {
        let text = "[experiment]\nname = \"x\"\nzip = [[\"os.numa\", \"workload.clients\"], [\"scale\", \"protocol\"], \
                    [\"swappiness\", \"jit\"]]\n[server]\nsettings.jit = [\"on\", \"off\"]\n[workload]\nscale = [1, 2]\n\
                    clients = [1, 8]\nprotocol = [\"simple\", \"prepared\"]\n[run]\nmeasure = \"5s\"\n[os]\nnuma = \
                    [\"local\", \"remote\"]\nswappiness = [10, 201]\n";
        let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
        let refused = one_node_and_swappiness();
        let changes = fit_without(&mut experiment, &here(), &refused);
        let zips: Vec<&FitChange> = changes.iter().filter(|change| change.key == "experiment.zip").collect();
        assert_eq!(zips.len(), 2, "{changes:?}");
        assert_eq!(experiment.experiment.zip, [["scale", "protocol"]]);
        crate::plan::expand::plan(&experiment, &crate::plan::expand::PlanResources::default()).unwrap();
    }

    #[test]
    fn every_value_of_the_system_is_asked_for_with_each_directory() {
        let text = "[experiment]\nname = \"x\"\n[server]\nwal_directory = [\"/a\", \"/b\"]\n[os]\nhuge_pages = \
                    [\"off\", \"on\"]\nio_scheduler = \"none\"\n";
        let cases = cases_with_each_value(&crate::plan::file::parse("x", text, &[]).unwrap());
        let asked: Vec<String> =
            cases.iter().map(|case| format!("{:?} {:?}", case.os, case.server.wal_directory)).collect();
        assert_eq!(asked.len(), 6);
        assert_eq!(asked[1], "{\"huge_pages\": \"off\"} Some(\"/b\")");
        // No machine accepts this value.
        let text = "[experiment]\nname = \"x\"\n[os]\nswappiness = [1000]\n";
        let refused = refused_here(&crate::plan::file::parse("x", text, &[]).unwrap());
        assert_eq!(refused[0].reason, "1000 is not in 0..200");
    }
}
