//! Built-in experiments.

/// A built-in experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinExperiment {
    /// The name for `pgdyno run`.
    pub name: &'static str,
    /// The question that the experiment answers, in one line.
    pub about: &'static str,
}

/// All of them; `pgdyno run` without a name runs the first.
pub const BUILTINS: &[BuiltinExperiment] = &[
    BuiltinExperiment {
        name: "quick",
        about: "TPC-B-like read-write at three client counts on an embedded PostgreSQL, in 3 minutes",
    },
    BuiltinExperiment {
        name: SCRIPTS,
        about: "pgbench scripts of your own (-f FILE@WEIGHT) at three client counts",
    },
    BuiltinExperiment {
        name: "versions",
        about: "our own study: releases 9.6 to 18 by 1 to 512 clients, WAL compression off and on",
    },
    BuiltinExperiment {
        name: "standby-cost",
        about: "our own study: levels of synchronous_commit with a synchronous standby, by number of clients",
    },
    BuiltinExperiment {
        name: "pooler",
        about: "our own study: PgBouncer or direct connections at 8 to 500 clients, kept open or made for each transaction",
    },
    BuiltinExperiment {
        name: "failover",
        about: "our own study: the primary dies six times each with an asynchronous and a synchronous standby",
    },
    BuiltinExperiment {
        name: "m5-metal",
        about: "published study: releases 9.5.21 to 12.1 by 1 to 512 clients",
    },
    BuiltinExperiment {
        name: "piops",
        about: "published study: two servers by 16 to 96 clients and 100 to 1000 transactions each",
    },
    BuiltinExperiment {
        name: "five-clouds",
        about: "published study: 24 servers in five clouds, data three times as large as memory",
    },
    BuiltinExperiment {
        name: "low-variation",
        about: "published study: TPROC-C five times back to back, set for the least variation",
    },
    BuiltinExperiment {
        name: "numa-hugepages",
        about: "published study: TPROC-C with huge pages and without, memory near and far",
    },
];

/// Studies: files that may be copied and changed.
const STUDIES: [(&str, &str); 9] = [
    ("versions", include_str!("../../../../experiments/versions.toml")),
    ("standby-cost", include_str!("../../../../experiments/standby-cost.toml")),
    ("pooler", include_str!("../../../../experiments/pooler.toml")),
    ("failover", include_str!("../../../../experiments/failover.toml")),
    ("m5-metal", include_str!("../../../../experiments/m5-metal.toml")),
    ("piops", include_str!("../../../../experiments/piops.toml")),
    ("five-clouds", include_str!("../../../../experiments/five-clouds.toml")),
    ("low-variation", include_str!("../../../../experiments/low-variation.toml")),
    ("numa-hugepages", include_str!("../../../../experiments/numa-hugepages.toml")),
];

/// The experiment for scripts that are given without an experiment.
pub const SCRIPTS: &str = "scripts";

/// The experiment file of a built-in, adapted to a machine with `n_cpus` processors.
pub fn text(name: &str, n_cpus: u32) -> Option<String> {
    match name {
        "quick" => Some(quick(n_cpus)),
        SCRIPTS => Some(scripts(n_cpus)),
        _ => STUDIES.iter().find(|(study, _)| *study == name).map(|(_, text)| text.to_string()),
    }
}

/// So many clients keep the processors of a machine busy.
pub fn busy_clients(n_cpus: u32) -> u32 {
    (2 * n_cpus).clamp(4, 64)
}

/// One client, enough to keep the processors busy, and four times that.
fn three_loads(n_cpus: u32) -> String {
    let busy = busy_clients(n_cpus);
    format!("[1, {busy}, {}]", 4 * busy)
}

fn scripts(n_cpus: u32) -> String {
    let clients = three_loads(n_cpus);
    format!(
        r#"[experiment]
name = "scripts"
description = "Scripts of the user's own, chosen by weight for each transaction."
repeats = 4

[workload]
kind = "scripts"
scale = "fit"
clients = {clients}

[run]
ramp_up = "2s"
measure = "8s"
"#
    )
}

fn quick(n_cpus: u32) -> String {
    let clients = three_loads(n_cpus);
    format!(
        r#"[experiment]
name = "quick"
description = "Throughput and latency, each case once in every randomized block."
repeats = 4

[workload]
kind = "tpcb"
scale = "fit"
clients = {clients}

[run]
ramp_up = "2s"
measure = "8s"
"#
    )
}

#[cfg(test)]
mod papers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_is_a_valid_experiment_on_any_machine() {
        for builtin in BUILTINS {
            for n_cpus in [1, 2, 64, 4096] {
                let text = text(builtin.name, n_cpus).unwrap();
                let experiment = crate::plan::file::parse(builtin.name, &text, &[]).unwrap();
                assert_eq!(experiment.experiment.name, builtin.name);
            }
        }
    }

    #[test]
    fn the_study_of_versions_says_how_many_cases_and_runs_it_has() {
        let text = text("versions", 2).unwrap();
        let experiment = crate::plan::file::parse("versions", &text, &[]).unwrap();
        let site = crate::plan::expand::PlanResources {
            memory_bytes: Some(24 << 30),
            n_cpus: 2,
            ..Default::default()
        };
        let plan = crate::plan::expand::plan(&experiment, &site).unwrap();
        let words = format!(" {} cases, {} runs.", plan.cases.len(), plan.runs.len());
        assert!(text.contains(&words), "{words}");
    }
}
