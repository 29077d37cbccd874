//! Profiles of cases: whose processor time it was, as a tree of functions and by subsystem. A pure function of stacks.

pub mod subsystem;
pub mod tree;

use model::run::profile::{Stack, StoredProfile};

use crate::case::factors::{self, Counterparts};
use crate::profile::subsystem::Subsystem;
use crate::summary::{CaseSummary, Study};

/// Time of each subsystem itself, as a share of all samples, the largest first.
pub fn by_subsystem(profile: &StoredProfile) -> Vec<(Subsystem, f64)> {
    let all: u64 = profile.stacks.iter().map(|stack| stack.n).sum();
    let mut shares: Vec<(Subsystem, f64)> = Subsystem::ALL.iter().map(|one| (*one, 0.0)).collect();
    for stack in &profile.stacks {
        let of = subsystem::from_frames(&stack.frames);
        let share = shares.iter_mut().find(|(one, _)| *one == of).map(|(_, share)| share);
        share.into_iter().for_each(|share| *share += stack.n as f64 / all.max(1) as f64);
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// The profile of a case, if it has samples.
pub fn of_case(profiles: &[StoredProfile], case: u32) -> Option<&StoredProfile> {
    profiles
        .iter()
        .find(|one| one.record.case == case && one.record.reason.is_empty() && !one.stacks.is_empty())
}

/// Pairs of cases whose profiles are compared: each with the case that it is compared with against the baseline, or of two cases the
/// first with the second.
pub fn pairs<'a>(study: &'a Study, profiles: &[StoredProfile]) -> Vec<(&'a CaseSummary, &'a CaseSummary)> {
    let profiled: Vec<&CaseSummary> =
        study.cases.iter().filter(|case| of_case(profiles, case.case.id).is_some()).collect();
    if let [a, b] = profiled[..] {
        return vec![match factors::baseline(study) {
            Some(base) if base.case.id == b.case.id => (b, a),
            _ => (a, b),
        }];
    }
    let Some(baseline) = factors::baseline(study) else { return Vec::new() };
    let counterparts = Counterparts::new(study, baseline);
    let pair = |case: &&'a CaseSummary| {
        let base = counterparts.of(case)?;
        let is_another = base.case.id != case.case.id && of_case(profiles, base.case.id).is_some();
        is_another.then_some((base, *case))
    };
    profiled.iter().filter_map(pair).collect()
}

/// What calls the work of each process, under names that differ between versions and tell nothing.
const OUTER: [&str; 15] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "__libc_start_main_impl",
    "_dl_relocate_static_pie",
    "main",
    "PostmasterMain",
    "ServerLoop",
    "BackendStartup",
    "BackendRun",
    "BackendMain",
    "postmaster_child_launch",
    "postmaster_forkexec",
    "StartChildProcess",
    "[unknown]",
];

/// The stacks from the work of each process on, so that those of two versions can be compared.
pub fn of_work(stacks: &[Stack]) -> Vec<Stack> {
    let inner = |stack: &Stack| {
        let n_outer = stack.frames.iter().take_while(|name| OUTER.contains(&name.as_str())).count();
        let kept = n_outer.min(stack.frames.len().saturating_sub(1));
        Stack { frames: stack.frames[kept..].to_vec(), n: stack.n }
    };
    stacks.iter().map(inner).collect()
}

#[cfg(test)]
mod tests {
    use model::run::profile::{fold, unfold};

    use super::*;

    #[test]
    fn stacks_of_two_versions_begin_with_the_same_function() {
        let of = |stacks: &str| fold(&of_work(&unfold(stacks)));
        let before = of("_start;main;PostmasterMain;ServerLoop;PostgresMain;PortalRun 2\n");
        let after = of(
            "_start;main;PostmasterMain;ServerLoop;postmaster_child_launch;BackendMain;PostgresMain;PortalRun 2\n",
        );
        assert_eq!((before.as_str(), after), ("PostgresMain;PortalRun 2\n", before.clone()));
        assert_eq!(of("main;ServerLoop 1\n"), "ServerLoop 1\n", "something is left");
        assert_eq!(of("PostgresMain;main 1\n"), "PostgresMain;main 1\n");
    }

    #[test]
    fn shares_of_subsystems_add_up_and_the_largest_is_first() {
        let stacks = unfold("PostgresMain;XLogInsert 6\nPostgresMain;f_[k] 3\nx 1\n");
        let shares = by_subsystem(&StoredProfile { record: Default::default(), stacks });
        assert_eq!(shares.len(), Subsystem::ALL.len());
        let first = [(Subsystem::Wal, 0.6), (Subsystem::Kernel, 0.3), (Subsystem::Other, 0.1)];
        assert_eq!(shares[..3], first);
    }
}
