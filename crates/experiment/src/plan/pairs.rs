//! The plan of a comparison: two cases, and pairs of their runs in random order.

pub mod what_ifs;

use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::plan::{Plan, RunOrder, RunSpec};
use workload::Prng;

use crate::plan::expand::{self, topology};
use crate::plan::question;

/// Number of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairs {
    /// Maximum number of pairs.
    pub n_max: u32,
    /// Half width of the ratio's interval, as a share, at which fewer pairs suffice; without it, all are run.
    pub precision: Option<f64>,
}

/// The factor of a comparison of a case with itself.
const SIDE: &str = "compare.side";

/// Changes of one side, by key of the experiment file; they name its case.
pub type SideValues = Vec<(String, String)>;

/// The plan that runs the one case of `a` and the one case of `b` in pairs. The order within each pair is random; the
/// two runs of a pair have the same seed, so that they offer the same load.
///
/// # Errors
/// In words, when a side has several cases, or both sides are equal although they should differ.
pub fn plan(a: (Plan, SideValues), b: (Plan, SideValues), pairs: Pairs) -> Result<Plan, String> {
    let case = |(plan, changes): &(Plan, SideValues), id: u32, name: &str| -> Result<Case, String> {
        let [case] = plan.cases.as_slice() else {
            let factors = plan.factors.join(", ");
            return Err(format!(
                "{name} has several cases ({factors}); give one level of each for a comparison"
            ));
        };
        let mut levels: std::collections::BTreeMap<String, String> = changes.iter().cloned().collect();
        if levels.is_empty() {
            levels.insert(SIDE.to_string(), name.to_string());
        }
        Ok(Case { id, levels, ..case.clone() })
    };
    if [&a, &b].iter().any(|side| side.0.servers_at_a_time.is_some()) {
        return Err(
            "run.servers_at_a_time and order = \"by-server\" are not for a comparison, whose pairs need both servers; leave them out"
                .to_string(),
        );
    }
    if [&a, &b].iter().any(|side| !side.0.lanes.is_empty()) {
        return Err(
            "run.parallel_targets is not for a comparison, whose runs take turns; leave it out".to_string()
        );
    }
    let mut cases = vec![case(&a, 1, "A")?, case(&b, 2, "B")?];
    topology::give_relays(&mut cases);
    expand::expect_effects(&cases)?;
    expect_effect(&cases, [&a.1, &b.1])?;
    expect_difference(&cases, [&a.1, &b.1])?;
    let plan = a.0;
    let mut factors: Vec<String> = cases.iter().flat_map(|case| case.levels.keys().cloned()).collect();
    factors.sort();
    factors.dedup();
    let mut plan = Plan {
        name: "compare".to_string(),
        title: format!("{} against {}", cases[1].label(), cases[0].label()),
        description: format!(
            "Two cases in pairs of runs, in random order within each pair. {}",
            plan.description
        ),
        repeats: pairs.n_max,
        spare_blocks: 0,
        // The file's order is for its own cases.
        order: RunOrder::Randomized,
        precision: pairs.precision,
        is_comparison: true,
        factors,
        runs: runs(pairs.n_max, plan.seed),
        cases,
        ..plan
    };
    if plan.factors != [SIDE] {
        plan.name.extend(question::name(&plan, true).map(|name| format!("-{name}")));
    }
    Ok(plan)
}

/// Refuses another version or build of a server by URL, which keeps its own: the report would name a side after it.
fn expect_effect(cases: &[Case], changes: [&SideValues; 2]) -> Result<(), String> {
    const OF_OURS: [&str; 4] = [
        keys::server::VERSION.name,
        keys::server::BIN_DIR.name,
        keys::server::SOURCE.name,
        keys::server::REVISION.name,
    ];
    let by_url = cases.iter().zip(changes).filter(|(case, _)| !case.server.source.is_embedded());
    let mut keys = by_url.flat_map(|(_, changes)| changes.iter().map(|(key, _)| key.as_str()));
    match keys.find(|key| OF_OURS.contains(key)) {
        Some(key) => Err(format!("{key} is for a server that pgdyno runs; one with a url has its own")),
        None => Ok(()),
    }
}

/// Refuses changes without effect: a long measurement would only show noise.
fn expect_difference(cases: &[Case], changes: [&SideValues; 2]) -> Result<(), String> {
    let plain = |case: &Case| Case { id: 0, levels: Default::default(), ..case.clone() };
    let mut asked: Vec<String> =
        changes.into_iter().flatten().map(|(key, level)| format!("{key}={level}")).collect();
    if asked.is_empty() || plain(&cases[0]) != plain(&cases[1]) {
        return Ok(());
    }
    asked.sort();
    asked.dedup();
    Err(format!(
        "A and B do not differ in anything (with {} both are the same); did you mean --aa?",
        asked.join(", ")
    ))
}

fn runs(n_pairs: u32, seed: u64) -> Vec<RunSpec> {
    let mut prng = Prng::seed(seed);
    let mut runs = Vec::new();
    for block in 1..=n_pairs {
        let order = if prng.uint64_range(0, 1) == 0 { [1, 2] } else { [2, 1] };
        let seed = prng.uint64();
        runs.extend(order.iter().zip(1..).map(|(case, place)| RunSpec {
            run: 2 * (block - 1) + place,
            block,
            case: *case,
            seed,
        }));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(text: &str, changes: &[(&str, &str)]) -> (Plan, SideValues) {
        let plan = crate::plan::sample::side(text);
        (plan, changes.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn pairs_have_both_cases_once_in_random_order_and_one_seed() {
        let a = side("[server]\nversion = \"15\"", &[("server.version", "15")]);
        let b = side("[server]\nversion = \"18\"", &[("server.version", "18")]);
        let plan = plan(a, b, Pairs { n_max: 40, precision: Some(0.01) }).unwrap();
        assert_eq!((plan.runs.len(), plan.repeats, plan.precision), (80, 40, Some(0.01)));
        assert_eq!(plan.cases.iter().map(Case::label).collect::<Vec<_>>(), ["version 15", "version 18"]);
        assert_eq!(plan.factors, ["server.version"]);
        assert_eq!(plan.name, "compare-versions-15-18");
        let mut n_a_first = 0;
        for (n, pair) in plan.runs.chunks(2).enumerate() {
            assert!(pair.iter().all(|run| run.block == n as u32 + 1));
            assert_eq!((pair[0].case + pair[1].case, pair[0].seed), (3, pair[1].seed));
            assert_eq!([pair[0].run, pair[1].run], [2 * n as u32 + 1, 2 * n as u32 + 2]);
            n_a_first += u32::from(pair[0].case == 1);
        }
        assert!((10..=30).contains(&n_a_first), "{n_a_first} of 40 begin with A");
    }

    #[test]
    fn the_order_of_the_file_is_not_that_of_the_pairs() {
        let sequential = || side("order = \"sequential\"\n", &[]);
        let plan = plan(sequential(), sequential(), Pairs { n_max: 6, precision: None }).unwrap();
        assert_eq!(plan.order, RunOrder::Randomized);
    }

    #[test]
    fn a_case_compared_with_itself_is_distinguished_by_its_side() {
        let plan = plan(side("", &[]), side("", &[]), Pairs { n_max: 6, precision: None }).unwrap();
        assert_eq!(plan.cases.iter().map(Case::label).collect::<Vec<_>>(), ["side A", "side B"]);
    }

    #[test]
    fn changes_that_change_nothing_are_refused() {
        let pairs = Pairs { n_max: 6, precision: None };
        let with = |version: &str| {
            side(&format!("[server]\nversion = \"{version}\""), &[("server.version", version)])
        };
        let error = plan(side("[server]\nversion = \"18\"", &[]), with("18"), pairs).unwrap_err();
        assert_eq!(
            error,
            "A and B do not differ in anything (with server.version=18 both are the same); did you mean --aa?"
        );
        assert!(plan(with("18"), with("18"), pairs).is_err());
        plan(with("17"), with("18"), pairs).unwrap();
    }

    #[test]
    fn what_has_an_effect_on_one_side_may_be_said_of_both() {
        let pairs = Pairs { n_max: 6, precision: None };
        let with = |standbys: &str| {
            let text = format!(
                "[topology]\nstandbys = {standbys}\nsynchronous = \"all\"\n[workload]\nclients = 1\n"
            );
            side(&text, &[("topology.standbys", standbys)])
        };
        plan(with("0"), with("1"), pairs).unwrap();
        let error = plan(with("0"), with("0"), pairs).unwrap_err();
        assert!(error.contains("topology.synchronous: no case has a standby"), "{error}");
    }

    #[test]
    fn a_side_with_lanes_is_refused() {
        let mut lanes = side("", &[]);
        lanes.0.lanes = vec![Default::default()];
        let error = plan(lanes, side("", &[]), Pairs { n_max: 6, precision: None }).unwrap_err();
        assert!(error.contains("run.parallel_targets is not for a comparison"), "{error}");
    }

    #[test]
    fn a_side_with_several_cases_is_refused() {
        let grid = side("[workload]\nclients = [1, 2]", &[]);
        let error = plan(grid, side("", &[]), Pairs { n_max: 6, precision: None }).unwrap_err();
        assert!(error.starts_with("A has several cases (workload.clients)"), "{error}");
    }
}
