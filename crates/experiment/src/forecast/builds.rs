//! The releases that a plan builds from source before their first run, and how long that takes. Each build is kept, so that its time
//! belongs to no experiment: neither a plan's length nor the budget of `--fit` contains it.

use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use model::text::prose::plural;
use server::Cache;
use server::binaries::build::{self, Source};

/// Processor seconds to configure, compile and install a release, observed from 9.5 to 12 on two processors, next to other work:
/// 4 to 7 minutes each.
const BUILD_CPU_S: f64 = 600.0;

/// Releases that a plan builds.
#[derive(Debug, Clone, PartialEq)]
pub struct Builds {
    /// Releases that are not kept yet.
    pub n: usize,
    /// Seconds for all of them.
    pub length_s: f64,
}

impl Builds {
    /// The builds of `plan` on a machine with `n_cpus`; `None` if there are none.
    pub fn of(plan: &Plan, cache: &Cache, n_cpus: usize) -> Option<Builds> {
        let mut missing: Vec<Source> = Vec::new();
        for case in &plan.cases {
            let ServerSource::Source { tree, revision } = &case.server.source else { continue };
            let source = Source { tree, revision: revision.as_deref() };
            if !missing.contains(&source) && !build::is_kept(cache, &source) {
                missing.push(source);
            }
        }
        let n = missing.len();
        (n > 0).then(|| Builds { n, length_s: n as f64 * BUILD_CPU_S / n_cpus.max(1) as f64 })
    }

    /// `3 releases from source, which are kept`.
    pub fn words(&self) -> String {
        let kept = if self.n == 1 { "which is kept" } else { "which are kept" };
        format!("{} from source, {kept}", plural(self.n, "release"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    #[test]
    fn only_releases_that_are_not_kept_are_built() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(place.path());
        let of = |text: &str| Builds::of(&sample::plan(text), &cache, 4);
        let released =
            "[server]\nsource = \"/pg\"\nversion = [\"12.1\", \"11.7\"]\n[workload]\nclients = [1, 2]";
        let both = of(released).unwrap();
        assert_eq!(
            (both.n, both.length_s, both.words().as_str()),
            (2, 300.0, "2 releases from source, which are kept")
        );
        let kept = place.path().join("builds/REL_12_1-0123");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("pgdyno-build.json"), "{}").unwrap();
        assert_eq!(of(released).map(|builds| builds.n), Some(1));
        assert_eq!(of("[server]\nsource = \"/pg\"").map(|builds| builds.n), Some(1));
        assert_eq!(of("[server]\nversion = \"12\""), None);
    }
}
