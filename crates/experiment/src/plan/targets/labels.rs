//! Labels of targets and factors of an experiment: a baseline names either.

use std::collections::BTreeMap;

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::selector::{Selector, is_level, names};
use model::experiment::target::LABEL;

use crate::plan::design::{self, Combination, Dimension};

/// The key in messages.
const PLACE: &str = keys::header::BASELINE.name;

/// The labels of all targets.
pub(crate) struct TargetLabels {
    /// By name of the target: values by key, `target.provider`.
    of_target: BTreeMap<String, BTreeMap<String, String>>,
}

impl TargetLabels {
    pub(crate) fn from_experiment(experiment: &Experiment) -> TargetLabels {
        let of_target = experiment.target.iter().map(|target| {
            let labels = target.all_labels().into_iter();
            (target.name.clone(), labels.map(|(name, value)| (format!("{LABEL}{name}"), value)).collect())
        });
        TargetLabels { of_target: of_target.collect() }
    }

    /// All labels, as keys of factors.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> =
            self.of_target.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Levels of a combination, with the labels of its target.
    fn levels_of(&self, dimensions: &[Dimension], combination: &Combination) -> BTreeMap<String, String> {
        let mut levels = design::levels_of(dimensions, combination);
        let labels = levels.get("target").and_then(|name| self.of_target.get(name)).cloned();
        levels.extend(labels.unwrap_or_default());
        levels
    }

    /// Number of the first case that a baseline's selector matches, from 1; 0 without a selector.
    ///
    /// # Errors
    /// When it names neither a factor nor a label, or matches nothing.
    pub(crate) fn baseline(
        &self,
        selector: Option<&Selector>,
        dimensions: &[Dimension],
        combinations: &[Combination],
    ) -> Result<u32, String> {
        let Some(selector) = selector else { return Ok(0) };
        let labels = self.keys();
        for (key, wanted) in &selector.levels {
            let is_label = labels.iter().any(|label| names(key, label));
            // A key that does not vary is meant only where no label is.
            let is_factor = dimensions
                .iter()
                .any(|dimension| names(key, &dimension.key) && (dimension.is_factor() || !is_label));
            match (is_label, is_factor) {
                (true, true) => {
                    return Err(format!(
                        "{PLACE}: `{key}` is a label of the targets and a factor; write the whole key"
                    ));
                }
                (true, false) => {}
                (false, _) => {
                    design::dimension_named(PLACE, key, dimensions).map_err(|error| {
                        match labels.as_slice() {
                            [] => error,
                            labels => format!("{error}; labels of its targets: {}", labels.join(", ")),
                        }
                    })?;
                }
            }
            design::expect_levels(PLACE, key.as_str(), wanted, |wanted| self.has(dimensions, key, wanted))?;
        }
        combinations
            .iter()
            .position(|combination| selector.selects(&self.levels_of(dimensions, combination)))
            .map(|n| n as u32 + 1)
            .ok_or_else(|| format!("{PLACE}: no case has these levels together"))
    }

    /// Whether a factor or a label that `key` names has a level that somebody may write as `wanted`.
    fn has(&self, dimensions: &[Dimension], key: &str, wanted: &str) -> bool {
        let of_factors = dimensions.iter().map(|dimension| (&dimension.key, dimension.levels.as_slice()));
        let of_labels = self.of_target.values().flatten();
        let all = of_factors.chain(of_labels.map(|(label, value)| (label, std::slice::from_ref(value))));
        all.filter(|(whole, _)| names(key, whole))
            .any(|(whole, levels)| levels.iter().any(|level| is_level(whole, wanted, level)))
    }

    /// Factors, and labels in which targets differ, that a baseline's selector names.
    pub(crate) fn baseline_factors(
        &self,
        selector: Option<&Selector>,
        dimensions: &[Dimension],
    ) -> Vec<String> {
        let Some(selector) = selector else { return Vec::new() };
        let is_named = |key: &str| selector.levels.keys().any(|named| names(named, key));
        let factors = dimensions.iter().filter(|d| d.is_factor()).map(|d| d.key.as_str());
        let differ = |key: &&str| {
            let mut values = self.of_target.values().map(|labels| labels.get(*key));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let labels = self.keys().into_iter().filter(differ);
        factors.chain(labels).filter(|key| is_named(key)).map(str::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_a_case_and_the_factors_that_chose_it() {
        let file = "baseline = {version = \"18\"}\nzip = [[\"jit\", \"clients\"]]\n[server]\nversion = [\"12\", \"18\"]\n\
                    settings.jit = [\"on\", \"off\"]\n[workload]\nclients = [1, 8]\n";
        let plan = crate::plan::sample::plan(file);
        assert_eq!((plan.cases.len(), plan.baseline), (4, 3));
        assert_eq!(plan.baseline_factors, ["server.version"]);
        assert_eq!(plan.cases[3].label(), "jit off, version 18, 8 clients");
        let dimensions = [Dimension {
            key: "server.version".to_string(),
            levels: ["12", "18"].map(str::to_string).to_vec(),
        }];
        let none = TargetLabels { of_target: BTreeMap::new() };
        let gone: Selector = toml::from_str("version = '9.6'").unwrap();
        let message = none.baseline(Some(&gone), &dimensions, &[vec![0], vec![1]]).unwrap_err();
        assert_eq!(message, "experiment.baseline: no case has version 9.6; correct or remove it");
        let apart: Selector = toml::from_str("version = ['12', '18']").unwrap();
        assert_eq!(none.baseline(Some(&apart), &dimensions, &[vec![1]]), Ok(1));
    }

    #[test]
    fn a_baseline_may_name_labels_of_targets() {
        let target = |name: &str, more: &str| {
            format!("[[target]]\nname = \"{name}\"\ndirectory = \"/t/{name}\"\n{more}\n")
        };
        let targets = [
            target("a", "provider = \"x\"\nsize = \"small\"\nlabels.country = \"uk\""),
            target("b", "provider = \"y\"\nsize = \"small\""),
            target("c", "provider = \"y\"\nsize = \"large\""),
        ]
        .concat();
        let plan = |baseline: &str| {
            let text = format!(
                "[experiment]\nname = \"x\"\nbaseline = {{{baseline}}}\n{targets}[workload]\nclients = [1, 8]\n"
            );
            let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
            let site = crate::plan::expand::PlanResources { n_cpus: 1, ..Default::default() };
            crate::plan::expand::plan(&experiment, &site)
        };
        let check = |baseline: &str, case: u32, factors: &[&str]| {
            let plan = plan(baseline).unwrap();
            assert_eq!(
                (plan.baseline, plan.baseline_factors),
                (case, factors.iter().map(ToString::to_string).collect())
            );
        };
        check("provider = \"y\"", 3, &["target.provider"]);
        check(
            "provider = \"y\", size = \"large\", clients = 8",
            6,
            &["workload.clients", "target.provider", "target.size"],
        );
        check("target.country = \"uk\"", 1, &["target.country"]);
        let message = plan("colour = 1").unwrap_err();
        assert!(
            message.ends_with("its factors: target, workload.clients; labels of its targets: target.country, target.provider, target.size"),
            "{message}"
        );
        let message = plan("provider = \"z\"").unwrap_err();
        assert_eq!(message, "experiment.baseline: no case has provider z; correct or remove it");
        let message = plan("provider = \"x\", size = \"large\"").unwrap_err();
        assert_eq!(message, "experiment.baseline: no case has these levels together");
    }
}
