//! Which files of an experiment an archive may hold: what is not in this list is neither packed nor unpacked.

use std::path::Path;

use anyhow::Result;

use super::PackExtent;
use crate::load::run_dirs;
use crate::names;
use crate::profiles::recorded_cases;

/// Files of the experiment. The plan is the last one, because its presence marks a complete directory.
const OF_EXPERIMENT: [&str; 5] =
    [names::EXPERIMENT, names::STATE, names::COMPARISON, names::DUET, names::PROOFS];
/// Files of a run that a report is made from.
const OF_RUN: [&str; 10] = [
    names::RUN,
    names::INTERVALS,
    names::LATENCY,
    names::LATENCY_ZST,
    names::READINGS,
    names::READINGS_ZST,
    names::EVENTS,
    names::IMPORTS,
    names::EXECUTIONS,
    names::PLANS,
];
/// Files of a run that no report needs.
const BESIDE: [&str; 5] =
    [names::STATEMENTS_ZST, names::REMOTE, names::REMOTE_ZST, names::SERVER_LOG, names::POOLER_LOG];
const OF_PROFILE: [&str; 2] = [names::PROFILE, names::STACKS];
/// Most digits of a run's number in the name of its directory.
const DIGITS_MAX: usize = 10;

/// The files in `dir` that belong to an archive, in its order.
pub(super) fn found(dir: &Path, extent: PackExtent) -> Result<Vec<String>> {
    let mut paths: Vec<String> = OF_EXPERIMENT.iter().map(ToString::to_string).collect();
    let more: &[&str] = if extent == PackExtent::All { &BESIDE } else { &[] };
    for (_, run) in run_dirs(dir)? {
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_run = OF_RUN.iter().chain(more);
        paths.extend(of_run.map(|file| format!("{}/{name}/{file}", names::RUNS)));
    }
    for case in recorded_cases(dir) {
        let name = names::run_dir(case);
        paths.extend(OF_PROFILE.iter().map(|file| format!("{}/{name}/{file}", names::PROFILES)));
    }
    paths.push(names::PLAN.to_string());
    paths.retain(|path| dir.join(path).symlink_metadata().is_ok());
    Ok(paths)
}

/// Whether an archive may hold a file of this path.
pub(super) fn is_known(path: &str) -> bool {
    let is_number =
        |name: &str| (1..=DIGITS_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_digit());
    match path.split('/').collect::<Vec<&str>>()[..] {
        [file] => file == names::PLAN || OF_EXPERIMENT.contains(&file),
        [names::RUNS, run, file] => {
            is_number(run) && OF_RUN.iter().chain(&BESIDE).any(|known| *known == file)
        }
        [names::PROFILES, case, file] => is_number(case) && OF_PROFILE.contains(&file),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_what_an_experiment_has_and_nothing_else() {
        let known = "plan.json experiment.toml state.jsonl why.json runs/0001/run.json runs/12345/server.log \
                     profiles/0002/stacks.folded";
        for path in known.split_whitespace() {
            assert!(is_known(path), "{path}");
        }
        let unknown = "../plan.json /plan.json ./plan.json runs//run.json runs/../plan.json runs/0001/../run.json \
                       runs/0001.cut-1/run.json runs/0001/authorized_keys runs/00000000001/run.json lock report.html \
                       profiles/0001/run.json runs runs/0001 plan.json/ RUNS/0001/run.json runs/\u{661}/run.json";
        for path in unknown.split_whitespace().chain([""]) {
            assert!(!is_known(path), "{path}");
        }
    }
}
