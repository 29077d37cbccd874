//! Makes one study of the results of one experiment that were measured in several places.
//!
//! Runs keep their order within their origin and get the numbers that follow those of the origin before. So do blocks: a
//! block compares cases that were measured close to each other, which runs of two origins were not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::case::Case;
use model::experiment::origin::{self, MergedFrom};
use model::experiment::plan::{Plan, RunSpec};
use model::run::RunRecord;
use serde_json::Value;

use crate::plan::title;

/// The results of one directory.
#[derive(Debug, Clone)]
pub struct MergedResults {
    /// Unique name.
    pub name: String,
    /// The plan as it was measured.
    pub plan: Plan,
    /// Of the runs that were begun.
    pub records: Vec<RunRecord>,
    /// The cases that have a profile.
    pub profiled: Vec<u32>,
}

impl MergedResults {
    /// The results without planned runs that only spare time would have made.
    fn without_unmade_spare(mut self) -> MergedResults {
        let MergedResults { plan, records, .. } = &self;
        let has_begun = |run: u32| records.iter().any(|record| record.spec.run == run);
        self.plan.runs = plan.planned(has_begun).cloned().collect();
        self
    }
}

/// A study made of parts.
#[derive(Debug, Clone)]
pub struct Merged {
    /// With the cases and planned runs of all parts.
    pub plan: Plan,
    /// Those that were begun.
    pub runs: Vec<MergedRun>,
    /// At most one of each case: that of the first part that has one.
    pub profiles: Vec<MergedProfile>,
    /// Each case of each part.
    pub cases: Vec<MergedCase>,
}

impl Merged {
    /// The case of the study that a case of a part became, unless it has runs of other parts too: what was proven of one part
    /// alone does not speak for these.
    pub fn case_of_part_alone(&self, part: usize, case: u32) -> Option<u32> {
        let id = self.cases.iter().find(|known| (known.part, known.of) == (part, case))?.case;
        let is_shared = self.cases.iter().any(|known| known.part != part && known.case == id);
        (!is_shared).then_some(id)
    }
}

/// A case of a part in the study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedCase {
    /// Index of the part.
    pub part: usize,
    /// The case there.
    pub of: u32,
    /// The case in the study.
    pub case: u32,
}

/// A run of a part in the study.
#[derive(Debug, Clone)]
pub struct MergedRun {
    /// Index of the part.
    pub part: usize,
    /// The number that it has there.
    pub run: u32,
    /// The record, with its number in the study.
    pub record: RunRecord,
}

/// A profile of a part in the study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedProfile {
    /// Index of the part.
    pub part: usize,
    /// The case there.
    pub of: u32,
    /// The case in the study.
    pub case: u32,
}

/// Merges parts. If `by_origin`, the part's name is a factor, so that its cases stay apart from those of other parts;
/// otherwise runs of cases with equal levels belong to one case. A study is a result of its own, made at `now_unix_ns`: name, seed
/// and time of a plan identify a result, and name and seed are those of the first part.
///
/// # Errors
/// When the parts are not results of one experiment, or have a run in common.
pub fn merge(
    parts: Vec<MergedResults>,
    by_origin: bool,
    tool_version: &str,
    now_unix_ns: u64,
) -> Result<Merged> {
    ensure!(parts.len() >= 2, "merging takes two results directories or more");
    let parts: Vec<MergedResults> = parts.into_iter().map(MergedResults::without_unmade_spare).collect();
    let first = &parts[0];
    let mut plan = Plan {
        tool_version: tool_version.to_string(),
        made_unix_ns: now_unix_ns,
        repeats: 0,
        spare_blocks: 0,
        // The one that spreads the runs of a case least: a doubt about one part is one about the study.
        order: parts.iter().map(|part| part.plan.order).max().unwrap_or_default(),
        servers_at_a_time: parts.iter().filter_map(|part| part.plan.servers_at_a_time).min(),
        factors: if by_origin { vec![origin::FACTOR.to_string()] } else { Vec::new() },
        baseline_factors: if by_origin {
            vec![origin::FACTOR.to_string()]
        } else {
            first.plan.baseline_factors.clone()
        },
        repeat_disturbed: parts.iter().map(|part| part.plan.repeat_disturbed).max().unwrap_or_default(),
        cases: Vec::new(),
        runs: Vec::new(),
        origins: Vec::new(),
        lanes: Vec::new(),
        ..first.plan.clone()
    };
    plan.factors.extend(first.plan.factors.iter().cloned());
    let (mut runs, mut profiles, mut merged_cases) = (Vec::new(), Vec::new(), Vec::new());
    for (index, part) in parts.iter().enumerate() {
        expect_mergeable(first, part)?;
        ensure!(
            parts[..index].iter().all(|other| other.name != part.name),
            "two of the directories are called `{}`; name them apart: NAME=DIR",
            part.name
        );
        let entry = Entry { index, part, by_origin };
        let cases = entry.cases(&mut plan)?;
        profiles.extend(entry.profiles(&cases, &profiles));
        merged_cases.extend(cases.iter().map(|(of, case)| MergedCase {
            part: index,
            of: *of,
            case: case.id,
        }));
        runs.extend(entry.runs(&mut plan, &cases)?);
    }
    expect_distinct(&parts, &runs)?;
    let n_of = |case: &Case| plan.runs.iter().filter(|run| run.case == case.id).count() as u32;
    if first.plan.title == title::title(&first.plan.cases, &first.plan.factors) {
        plan.title = title::title(&plan.cases, &plan.factors);
    }
    plan.repeats = plan.cases.iter().map(n_of).max().unwrap_or(1);
    Ok(Merged { plan, runs, profiles, cases: merged_cases })
}

fn expect_mergeable(first: &MergedResults, part: &MergedResults) -> Result<()> {
    let (plan, name) = (&part.plan, &part.name);
    ensure!(
        !plan.is_comparison,
        "`{name}` is a comparison, whose pairs cannot be merged with those of another"
    );
    ensure!(
        plan.origins.is_empty(),
        "`{name}` has itself been merged; give the directories that it was merged from"
    );
    let factors =
        |plan: &Plan| if plan.factors.is_empty() { "nothing".to_string() } else { plan.factors.join(", ") };
    ensure!(
        plan.factors == first.plan.factors,
        "these are results of two experiments: `{}` varies {}, and `{name}` varies {}",
        first.name,
        factors(&first.plan),
        factors(plan)
    );
    Ok(())
}

/// A part on its way into the study.
struct Entry<'a> {
    index: usize,
    part: &'a MergedResults,
    by_origin: bool,
}

impl Entry<'_> {
    /// Enters its cases: each by its number in the part, as it is in the study.
    fn cases(&self, plan: &mut Plan) -> Result<Vec<(u32, Case)>> {
        self.part.plan.cases.iter().map(|case| Ok((case.id, self.case_in(plan, case)?))).collect()
    }

    /// Its profiles of cases that have none yet.
    fn profiles(&self, cases: &[(u32, Case)], before: &[MergedProfile]) -> Vec<MergedProfile> {
        let is_first = |case: &Case| before.iter().all(|profile| profile.case != case.id);
        let has = |(of, case): &&(u32, Case)| is_first(case) && self.part.profiled.contains(of);
        let profile = |(of, case): &(u32, Case)| MergedProfile { part: self.index, of: *of, case: case.id };
        cases.iter().filter(has).map(profile).collect()
    }

    /// Enters its planned runs, and returns those that were begun.
    fn runs(&self, plan: &mut Plan, cases: &[(u32, Case)]) -> Result<Vec<MergedRun>> {
        let Entry { part, .. } = self;
        let runs_before = plan.origins.last().map_or(0, |origin| origin.last);
        let blocks_before = plan.runs.iter().map(|run| run.block).max().unwrap_or(0);
        let moved = |spec: &RunSpec| -> Result<(RunSpec, Case)> {
            let case = cases.iter().find(|(id, _)| *id == spec.case).map(|(_, case)| case.clone());
            let case = case.with_context(|| {
                format!(
                    "`{}` is damaged: its run {} is of case {}, which its plan lacks",
                    part.name, spec.run, spec.case
                )
            })?;
            let spec = RunSpec {
                run: runs_before + spec.run,
                block: blocks_before + spec.block,
                case: case.id,
                seed: spec.seed,
            };
            Ok((spec, case))
        };
        let mut runs = Vec::new();
        for record in &part.records {
            let (spec, case) = moved(&record.spec)?;
            let mut merged = RunRecord { spec, case, ..record.clone() };
            if let Some(repeat) = &mut merged.repeat {
                repeat.of += runs_before;
            }
            merged.concurrent.iter_mut().for_each(|other| other.run += runs_before);
            runs.push(MergedRun { part: self.index, run: record.spec.run, record: merged });
        }
        for spec in &part.plan.runs {
            plan.runs.push(moved(spec)?.0);
        }
        let numbers = part.plan.runs.iter().map(|spec| spec.run);
        let last = numbers.chain(part.records.iter().map(|record| record.spec.run)).max().unwrap_or(0);
        plan.origins.push(MergedFrom {
            name: part.name.clone(),
            first: runs_before,
            last: runs_before + last,
            tool_version: part.plan.tool_version.clone(),
            seed: part.plan.seed,
            made_unix_ns: part.plan.made_unix_ns,
        });
        Ok(runs)
    }

    /// The case of the study to which a case of the part belongs; the first of its levels is added.
    fn case_in(&self, plan: &mut Plan, case: &Case) -> Result<Case> {
        let mut case = case.clone();
        if self.by_origin {
            case.levels.insert(origin::FACTOR.to_string(), self.part.name.clone());
        }
        let known = plan.cases.iter().find(|known| known.levels == case.levels);
        case.id = known.map_or(plan.cases.len() as u32 + 1, |known| known.id);
        match known {
            None => plan.cases.push(case.clone()),
            Some(known) => {
                let differing = differing(known, &case)?;
                if let Some(first) = differing.first() {
                    bail!(
                        "case {} of `{}` is not the one of the directories before it: {first}{}. Merge with --by-origin, \
                         which keeps the cases of each directory apart",
                        case.label(),
                        self.part.name,
                        if differing.len() > 1 {
                            format!(", and {} more", differing.len() - 1)
                        } else {
                            String::new()
                        }
                    );
                }
            }
        }
        Ok(case)
    }
}

/// What differs between two cases: `window.measure_s is 60 there and 30 here`.
fn differing(there: &Case, here: &Case) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let (there, here) = (serde_json::to_value(there)?, serde_json::to_value(here)?);
    compare(&mut String::new(), Some(&there), Some(&here), &mut found);
    Ok(found)
}

fn compare(path: &mut String, there: Option<&Value>, here: Option<&Value>, found: &mut Vec<String>) {
    if there == here {
        return;
    }
    let (Some(Value::Object(a)), Some(Value::Object(b))) = (there, here) else {
        let text = |value: Option<&Value>| value.map_or("absent".to_string(), Value::to_string);
        return found.push(format!("`{path}` is {} there and {} here", text(there), text(here)));
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        compare(path, a.get(key), b.get(key), found);
        path.truncate(length);
    }
}

/// Refuses a run that is in two parts: it would count twice. Two loads with one seed do not begin in the same nanosecond.
fn expect_distinct(parts: &[MergedResults], runs: &[MergedRun]) -> Result<()> {
    let mut seen: BTreeMap<(u64, u64), &MergedRun> = BTreeMap::new();
    for run in runs {
        let Some(go_unix_ns) = run.record.go_unix_ns else { continue };
        if let Some(other) = seen.insert((go_unix_ns, run.record.spec.seed), run) {
            bail!(
                "run {} of `{}` and run {} of `{}` are the same run, which would count twice",
                other.run,
                parts[other.part].name,
                run.run,
                parts[run.part].name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::experiment::plan::{RunOrder, RunState};
    use model::experiment::repeat::Repeat;
    use model::run::concurrent::ConcurrentRun;

    const NOW: u64 = 1 << 60;
    const CLIENTS: &str = "repeats = 2\n[workload]\nscale = 1\nclients = [1, 4]\n[run]\nmeasure = \"20s\"";

    /// Results of an experiment, of which all runs but the last are done, and run 1 was repeated.
    fn part(name: &str, text: &str, begun_unix_ns: u64) -> MergedResults {
        let plan = crate::plan::sample::plan(text);
        let record = |spec: &RunSpec| RunRecord {
            state: RunState::Completed,
            go_unix_ns: Some(begun_unix_ns + u64::from(spec.run)),
            ..RunRecord::new(spec.clone(), plan.case(spec.case).unwrap().clone(), "0.1.0")
        };
        let mut records: Vec<RunRecord> = plan.runs.iter().rev().skip(1).rev().map(record).collect();
        let mut repeat = record(&RunSpec { run: 5, ..plan.runs[0].clone() });
        repeat.repeat = Some(Repeat { of: 1, attempt: 1 });
        repeat.concurrent = vec![ConcurrentRun { run: 2, target: "t".to_string() }];
        records.push(repeat);
        MergedResults { name: name.to_string(), plan, records, profiled: Vec::new() }
    }

    #[test]
    fn runs_of_equal_cases_are_joined_and_keep_order_and_origin() {
        let merged = merge(vec![part("a", CLIENTS, 10), part("b", CLIENTS, 20)], false, "9", NOW).unwrap();
        let plan = &merged.plan;
        assert_eq!((plan.cases.len(), plan.repeats, plan.tool_version.as_str()), (2, 4, "9"));
        assert_eq!(plan.factors, ["workload.clients"]);
        assert_eq!(plan.made_unix_ns, NOW, "it is none of its origins");
        let numbers: Vec<u32> = plan.runs.iter().map(|run| run.run).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 6, 7, 8, 9], "5 is the repeat of a run of `a`");
        let blocks: Vec<u32> = plan.runs.iter().map(|run| run.block).collect();
        assert_eq!(blocks, [1, 1, 2, 2, 3, 3, 4, 4]);
        let record = &merged.runs.iter().find(|run| run.part == 1 && run.run == 5).unwrap().record;
        assert_eq!((record.spec.run, record.repeat.unwrap().of, record.concurrent[0].run), (10, 6, 7));
        assert_eq!(plan.origin_of(5).unwrap().name, "a");
        assert_eq!(plan.origin_of(6).unwrap().name, "b");
        assert_eq!(plan.origin_of(11), None);
        for run in &merged.runs {
            assert_eq!(plan.case(run.record.spec.case), Some(&run.record.case));
        }
    }

    #[test]
    fn cases_that_only_one_has_are_added_and_origins_can_be_a_factor() {
        let more = CLIENTS.replace("[1, 4]", "[4, 16]");
        let merged = merge(vec![part("a", CLIENTS, 10), part("b", &more, 20)], false, "9", NOW).unwrap();
        let clients: Vec<&str> =
            merged.plan.cases.iter().map(|case| &*case.levels["workload.clients"]).collect();
        assert_eq!(clients, ["1", "4", "16"]);
        let alone = |part| [1, 2].map(|case| merged.case_of_part_alone(part, case));
        assert_eq!((alone(0), alone(1)), ([Some(1), None], [None, Some(3)]), "both measured 4 clients");
        let longer = CLIENTS.replace("20s", "30s");
        let merged = merge(vec![part("a", CLIENTS, 10), part("b", &longer, 20)], true, "9", NOW).unwrap();
        assert_eq!(merged.plan.factors, ["origin", "workload.clients"]);
        let origins: Vec<&str> = merged.plan.cases.iter().map(|case| &*case.levels["origin"]).collect();
        assert_eq!(origins, ["a", "a", "b", "b"]);
        assert_eq!([1, 2, 3].map(|case| merged.case_of_part_alone(1, case)), [Some(3), Some(4), None]);
    }

    #[test]
    fn a_run_that_only_spare_time_would_have_made_is_not_missing_from_a_study() {
        let mut spare = part("a", CLIENTS, 10);
        spare.plan.spare_blocks = 1;
        let merged = merge(vec![spare, part("b", CLIENTS, 20)], false, "9", NOW).unwrap();
        let numbers: Vec<u32> = merged.plan.runs.iter().map(|run| run.run).collect();
        assert_eq!(numbers, [1, 2, 3, 6, 7, 8, 9], "run 3 was made, and 4 was not");
        assert_eq!(merged.plan.spare_blocks, 0);
    }

    #[test]
    fn the_order_is_the_one_that_spreads_the_runs_least_whichever_part_comes_first() {
        let in_turn = CLIENTS.replace("[run]", "[run]\nservers_at_a_time = 1");
        let mut by_server = part("b", CLIENTS, 20);
        by_server.plan.order = RunOrder::ByServer;
        let mut sequential = part("c", &in_turn, 30);
        sequential.plan.order = RunOrder::Sequential;
        let of = |parts: Vec<MergedResults>| {
            let plan = merge(parts, false, "9", NOW).unwrap().plan;
            (plan.order, plan.servers_at_a_time)
        };
        let parts = vec![part("a", CLIENTS, 10), by_server, sequential];
        let reversed = parts.iter().rev().cloned().collect();
        assert_eq!(of(parts[..2].to_vec()), (RunOrder::ByServer, None));
        assert_eq!(of(parts), (RunOrder::Sequential, Some(1)));
        assert_eq!(of(reversed), (RunOrder::Sequential, Some(1)));
    }

    #[test]
    fn a_case_has_the_profile_of_the_first_part_that_has_one() {
        let of = |name: &str, begun: u64, profiled: &[u32]| MergedResults {
            profiled: profiled.to_vec(),
            ..part(name, &CLIENTS.replace("[1, 4]", if name == "a" { "[1, 4]" } else { "[4, 16]" }), begun)
        };
        let found = |by_origin: bool| -> Vec<(usize, u32, u32)> {
            let merged = merge(vec![of("a", 10, &[2]), of("b", 20, &[1, 2])], by_origin, "9", NOW).unwrap();
            merged.profiles.iter().map(|profile| (profile.part, profile.of, profile.case)).collect()
        };
        assert_eq!(found(false), [(0, 2, 2), (1, 2, 3)], "both have one with 4 clients");
        assert_eq!(found(true), [(0, 2, 2), (1, 1, 3), (1, 2, 4)]);
    }

    #[test]
    fn what_does_not_belong_together_is_refused_by_name() {
        let refused = |b: MergedResults, words: &str| {
            let error = merge(vec![part("a", CLIENTS, 10), b], false, "9", NOW).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(part("a", CLIENTS, 20), "two of the directories are called `a`");
        refused(part("b", CLIENTS, 10), "run 1 of `a` and run 1 of `b` are the same run");
        let other = CLIENTS.replace("clients = [1, 4]", "protocol = [\"simple\", \"prepared\"]");
        refused(part("b", &other, 20), "`a` varies workload.clients, and `b` varies workload.protocol");
        let longer = CLIENTS.replace("20s", "30s");
        refused(part("b", &longer, 20), "`window.measure_s` is 20 there and 30 here. Merge with --by-origin");
        let mut sides = part("b", CLIENTS, 20);
        sides.plan.is_comparison = true;
        refused(sides, "`b` is a comparison");
        let mut damaged = part("b", CLIENTS, 20);
        damaged.records[0].spec.case = 7;
        refused(damaged, "its run 1 is of case 7");
    }
}
