//! Which targets are measured side by side: those of different hosts, driven from different machines.

use std::collections::BTreeMap;

use model::experiment::Experiment;
use model::experiment::case::Case;
use model::experiment::target::lane::Lane;

use crate::plan::expand::PlanResources;
use crate::site::lanes::ADVICE;
use crate::site::lanes::server_host::ServerHost;

/// The lanes of an experiment that asks for them. Without the hosts of its servers, only contradictions are found.
pub(crate) fn of_experiment(
    experiment: &Experiment,
    cases: &[Case],
    site: &PlanResources,
) -> Result<Vec<Lane>, String> {
    if !experiment.run.parallel_targets {
        return Ok(Vec::new());
    }
    if experiment.target.is_empty() {
        return Err("run.parallel_targets is for several servers; name them as [[target]]".to_string());
    }
    let changes_settings =
        |case: &Case| !case.server.source.is_embedded() && !case.server.settings.is_empty();
    if cases.iter().any(changes_settings) {
        return Err("run.parallel_targets and server.settings of a server by URL exclude each other: settings would be put back \
                    when the last lane ends; measure these targets one after the other"
            .to_string());
    }
    if cases.iter().any(|case| !case.hooks.is_empty()) {
        return Err("run.parallel_targets and [hooks] exclude each other: a command that changes something for one run would \
                    change it for those of other targets too"
            .to_string());
    }
    let host = |name: &String| {
        let target = site.targets.get(name)?;
        target.url_keywords.as_ref().map_or(Some(ServerHost::here()), |_| target.host.clone())
    };
    let hosts = experiment.target.iter().map(|target| Some((target.name.clone(), host(&target.name)?)));
    match hosts.collect::<Option<BTreeMap<String, ServerHost>>>() {
        Some(hosts) => of_cases(cases, &hosts),
        None => Ok(Vec::new()),
    }
}

/// The lanes of cases whose targets are on these hosts.
///
/// # Errors
/// When two of them share a machine that drives a load.
pub fn of_cases(cases: &[Case], hosts: &BTreeMap<String, ServerHost>) -> Result<Vec<Lane>, String> {
    let mut groups: Vec<(Vec<String>, ServerHost)> = Vec::new();
    let names = cases.iter().filter_map(|case| Some(&case.server.target.as_ref()?.name));
    for name in names {
        let (Some(host), false) = (hosts.get(name), groups.iter().any(|(known, _)| known.contains(name)))
        else {
            continue;
        };
        // A host with several names may connect groups that seemed to be apart.
        let mut merged = (vec![name.clone()], host.clone());
        let mut place = groups.len();
        for n in (0..groups.len()).rev().filter(|n| groups[*n].1.is_same(host)).collect::<Vec<_>>() {
            let (mut targets, of) = groups.remove(n);
            targets.append(&mut merged.0);
            merged.0 = targets;
            merged.1.is_here |= of.is_here;
            merged.1.addresses.extend(of.addresses);
            place = n;
        }
        groups.insert(place, merged);
    }
    let lanes: Vec<Lane> = groups
        .into_iter()
        .map(|(targets, host)| {
            let addresses = if host.is_here { Vec::new() } else { host.addresses.into_iter().collect() };
            Lane { targets, addresses }
        })
        .collect();
    expect_apart(&lanes, cases)?;
    Ok(lanes)
}

/// What is known of a driver's machine before it is asked.
#[derive(PartialEq)]
enum Place<'a> {
    /// The machine of pgdyno.
    Here,
    /// Where this command leads.
    Behind(&'a [String]),
}

/// Refuses lanes that share a machine, as far as that is known before the drivers are asked.
fn expect_apart(lanes: &[Lane], cases: &[Case]) -> Result<(), String> {
    let mut taken: Vec<(usize, Place<'_>, String)> = Vec::new();
    for (case, n) in cases.iter().filter_map(|case| Some((case, lanes.iter().position(|l| l.has(case))?))) {
        let target = case.server.target.as_ref().map_or("", |target| target.name.as_str());
        let drivers = case.workload.drivers.iter();
        let mut uses: Vec<(Place<'_>, String)> = drivers
            .map(|driver| {
                (Place::Behind(&driver.via), format!("driver `{}` drives target `{target}`", driver.name))
            })
            .collect();
        if uses.is_empty() {
            uses.push((Place::Here, format!("target `{target}` is driven from this machine")));
        }
        if lanes[n].is_here() {
            uses.push((Place::Here, format!("the server of target `{target}` is on this machine")));
        }
        for (place, what) in uses {
            if let Some((_, _, of)) = taken.iter().find(|(lane, known, _)| *lane != n && *known == place) {
                return Err(format!("run.parallel_targets: {of}, and {what}; {ADVICE}"));
            }
            taken.push((n, place, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::expand;

    const FIVE: [(&str, &[&str]); 5] = [
        ("a", &["192.0.2.1"]),
        ("b", &["192.0.2.2"]),
        ("c", &["192.0.2.1"]),
        // Connects two hosts that seemed to be apart.
        ("d", &["192.0.2.3", "192.0.2.4"]),
        ("e", &[]),
    ];

    fn host(addresses: &[&str]) -> ServerHost {
        let addresses: BTreeSet<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        ServerHost { is_here: addresses.is_empty(), addresses }
    }

    /// The lanes of these targets, each with `drivers` below it; `more` ends the file.
    fn lanes(
        targets: &[(&str, &[&str])],
        drivers: impl Fn(&str) -> String,
        more: &str,
    ) -> Result<Vec<String>, String> {
        let of = |(name, _): &(&str, &[&str])| {
            format!("[[target]]\nname = \"{name}\"\nurl = \"x\"\n{}", drivers(name))
        };
        let text: String = targets.iter().map(of).collect();
        let text = format!(
            "[experiment]\nname = \"x\"\n{text}[workload]\nscale = 1\n[run]\nparallel_targets = true\n{more}"
        );
        let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
        let resources = |(name, addresses): &(&str, &[&str])| {
            let host = Some(host(addresses));
            let url_keywords = Some(BTreeMap::new());
            (name.to_string(), PlanResources { host, url_keywords, ..PlanResources::default() })
        };
        let site =
            PlanResources { targets: targets.iter().map(resources).collect(), ..PlanResources::default() };
        let plan = expand::plan(&experiment, &site)?;
        let mut runs: Vec<u32> =
            plan.lanes.iter().flat_map(|lane| plan.of_lane(lane).runs).map(|r| r.run).collect();
        runs.sort_unstable();
        assert_eq!(runs, plan.runs.iter().map(|spec| spec.run).collect::<Vec<_>>(), "each run has one lane");
        let words = |lane: &Lane| format!("{} {}", lane.name(), lane.addresses.len());
        Ok(plan.lanes.iter().map(words).collect())
    }

    fn own(name: &str) -> String {
        format!("[[target.driver]]\nvia = [\"ssh\", \"of-{name}\"]\n")
    }

    #[test]
    fn targets_of_one_host_share_a_lane() {
        assert_eq!(lanes(&FIVE, own, "").unwrap(), ["a+c 1", "b 1", "d 2", "e 0"]);
        let connected = [FIVE[0], FIVE[1], ("f", &["192.0.2.2", "192.0.2.1"][..]), FIVE[3]];
        assert_eq!(lanes(&connected, own, "").unwrap(), ["a+b+f 2", "d 2"]);
        let one = [("a", &[][..]), ("b", &[])];
        assert_eq!(lanes(&one, |_| String::new(), "").unwrap(), ["a+b 0"], "one after the other, any driver");
    }

    #[test]
    fn lanes_keep_the_order_of_randomized_blocks() {
        let text = "repeats = 4\n[[target]]\nname = \"a\"\nurl = \"x\"\n[[target]]\nname = \"b\"\nurl = \"y\"\n\
                    [[target.driver]]\nvia = [\"ssh\", \"b\"]\n[workload]\nclients = [1, 2, 3]\n";
        let experiment = |more: &str| {
            let text = format!("[experiment]\nname = \"x\"\nseed = 5\n{text}{more}");
            crate::plan::file::parse("x.toml", &text, &[]).unwrap()
        };
        let resources = |address: &str| PlanResources {
            host: Some(host(&[address])),
            url_keywords: Some(BTreeMap::new()),
            ..PlanResources::default()
        };
        let targets = [("a", "192.0.2.1"), ("b", "192.0.2.2")].map(|(n, at)| (n.to_string(), resources(at)));
        let site = PlanResources { targets: targets.into(), ..PlanResources::default() };
        let plan = expand::plan(&experiment("[run]\nparallel_targets = true\n"), &site).unwrap();
        let usual = expand::plan(&experiment(""), &site).unwrap();
        assert_eq!((plan.lanes.len(), usual.lanes.len()), (2, 0));
        assert_eq!(plan.runs, usual.runs, "numbers, order and seeds");
        for lane in &plan.lanes {
            let runs = plan.of_lane(lane).runs;
            assert_eq!(runs.len(), 12);
            assert!(runs.is_sorted_by_key(|spec| (spec.block, spec.run)));
        }
    }

    #[test]
    fn what_lanes_cannot_be_is_refused_with_what_to_do() {
        let check =
            |targets: &[(&str, &[&str])], drivers: &dyn Fn(&str) -> String, more: &str, expected: &str| {
                let message = lanes(targets, drivers, more).unwrap_err();
                assert!(message.contains(expected), "{message}");
            };
        let two = &FIVE[..2];
        let none = |_: &str| String::new();
        check(
            two,
            &none,
            "",
            "target `a` is driven from this machine, and target `b` is driven from this machine",
        );
        check(two, &none, "", "give each target drivers of its own ([[target.driver]])");
        let shared = "[[driver]]\nvia = [\"ssh\", \"client1\"]\n";
        check(
            two,
            &none,
            shared,
            "driver `client1` drives target `a`, and driver `client1` drives target `b`",
        );
        let renamed = |name: &str| format!("[[target.driver]]\nname = \"{name}\"\nvia = [\"ssh\", \"c\"]\n");
        check(two, &renamed, "", "driver `a` drives target `a`, and driver `b` drives target `b`");
        let of_a = |name: &str| if name == "a" { own(name) } else { String::new() };
        let not_b = |name: &str| if name == "b" { String::new() } else { own(name) };
        check(
            &[FIVE[0], FIVE[4], FIVE[1]],
            &not_b,
            "",
            "the server of target `e` is on this machine, and target `b` is driven from this machine",
        );
        assert!(lanes(two, of_a, "").is_ok(), "one of them may use this machine");
        check(
            two,
            &own,
            "[server.settings]\nwork_mem = \"8MB\"\n",
            "run.parallel_targets and server.settings",
        );
        check(two, &own, "[hooks]\nbefore_run = [\"true\"]\n", "run.parallel_targets and [hooks] exclude");
        check(&[], &own, "", "name them as [[target]]");
    }
}
