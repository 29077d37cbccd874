//! The servers that a plan builds from source before their first runs, and how long that takes. Each build is kept, so that its time
//! belongs to no experiment: neither a plan's length nor the budget of `--fit` contains it.

use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use model::text::prose::plural;
use server::Cache;
use server::binaries::build::{self, SourceTree};

/// Seconds to configure and install a release, which one processor does, and processor seconds to compile it. Observed from 9.5 to 12 on
/// two processors, next to other work: 4 to 7 minutes each.
const SERIAL_S: f64 = 60.0;
const COMPILE_CPU_S: f64 = 480.0;

/// Servers that a plan builds.
#[derive(Debug, Clone, PartialEq)]
pub struct Builds {
    /// Sources of which no build is kept.
    pub n: usize,
    /// Seconds for all of them.
    pub length_s: f64,
}

impl Builds {
    /// The builds of `plan` on a machine with `n_cpus`; `None` if there are none.
    pub fn new(plan: &Plan, cache: &Cache, n_cpus: usize) -> Option<Builds> {
        let mut sources: Vec<SourceTree> = Vec::new();
        for case in &plan.cases {
            let ServerSource::Source { tree, revision } = &case.server.source else { continue };
            let source = SourceTree { tree, revision: revision.as_deref() };
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let n = sources.iter().filter(|source| !build::is_kept(cache, source)).count();
        let each_s = SERIAL_S + COMPILE_CPU_S / n_cpus.max(1) as f64;
        (n > 0).then_some(Builds { n, length_s: n as f64 * each_s })
    }

    /// `3 servers from source`.
    pub fn words(&self) -> String {
        format!("{} from source", plural(self.n, "server"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    #[test]
    fn each_source_of_which_no_build_is_kept_is_built_once() {
        let place = tempfile::tempdir().unwrap();
        let of = |text: &str| Builds::new(&sample::plan(text), &Cache::at(place.path()), 4);
        let released =
            of("[server]\nsource = \"/pg\"\nversion = [\"12.1\", \"11.7\"]\n[workload]\nclients = [1, 2]")
                .unwrap();
        assert_eq!(
            (released.n, released.length_s, released.words().as_str()),
            (2, 360.0, "2 servers from source")
        );
        assert_eq!(of("[server]\nsource = \"/pg\"").unwrap().words(), "1 server from source");
        assert_eq!(of("[server]\nversion = \"12\""), None);
    }
}
