//! Checks the figures of an experiment: what they need must be there to be kept.

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::plan::figure::{FigureSection, Need};
use model::experiment::selector::{is_level, names};
use model::telemetry::metric;

use crate::plan::design::{self, Dimension};
use crate::plan::targets::labels::TargetLabels;

/// A need of repeats, which are no factor.
pub(crate) const REPEATS: &str = "repeats";

/// Checks the figures of `experiment`, whose keys are `dimensions`.
///
/// # Errors
/// In words, when a figure names what is neither a factor nor a label, or a level that no case has.
pub(crate) fn check(experiment: &Experiment, dimensions: &[Dimension]) -> Result<(), String> {
    experiment.figure.iter().try_for_each(|figure| check_one(figure, experiment, dimensions))
}

fn check_one(
    figure: &FigureSection,
    experiment: &Experiment,
    dimensions: &[Dimension],
) -> Result<(), String> {
    let place = format!("figure `{}`", figure.name);
    let labels = TargetLabels::from_experiment(experiment);
    let is_label = |key: &str| labels.keys().iter().any(|label| names(key, label));
    if let Some(key) = figure.within.iter().find(|key| !is_label(key)) {
        return Err(format!("{place}: within `{key}`: the targets have no such label"));
    }
    if let Some(name) = figure.reads.iter().find(|name| metric::find(name).is_none()) {
        return Err(format!("{place}: reads `{name}`: there is no such metric (docs/metrics.md)"));
    }
    for (key, need) in &figure.needs {
        if names(key, keys::workload::CLIENTS.name) || *need != Need::Curve {
            if key != REPEATS && !is_label(key) {
                design::dimension_named(&place, key, dimensions)?;
            }
            continue;
        }
        return Err(format!("{place}: only workload.clients has a curve; give `{key}` a number or `all`"));
    }
    for (key, wanted) in figure.at.levels.iter().filter(|(key, _)| !is_label(key)) {
        let n = design::dimension_named(&place, key, dimensions)?;
        let Dimension { key: whole, levels } = &dimensions[n];
        design::expect_levels(&place, key.as_str(), wanted, |wanted| {
            levels.iter().any(|level| is_level(whole, wanted, level))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::plan::{expand, file};

    #[test]
    fn a_figure_needs_what_the_experiment_has() {
        let check = |figure: &str, expected: &str| {
            let text = format!(
                "[experiment]\nname = \"x\"\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nclients = [1, 8]\n\
                 [[target]]\nname = \"one\"\nprovider = \"A\"\n[[target]]\nname = \"two\"\nprovider = \"B\"\n\
                 [[figure]]\nname = \"a\"\n{figure}\n"
            );
            let experiment = file::parse("x", &text, &[]).unwrap();
            let message = expand::check(&experiment).err().unwrap_or_default();
            assert!(message.contains(expected) && expected.is_empty() == message.is_empty(), "{message}");
        };
        check("needs = {clients = \"curve\", version = \"all\", repeats = 3}", "");
        check("at = {clients = 8}\nneeds = {version = 2}", "");
        check("needs = {version = 2}\nwithin = [\"provider\"]\nreads = [\"counters.cycles\"]", "");
        check("within = [\"region\"]", "figure `a`: within `region`: the targets have no such label");
        check("reads = [\"counters.cycle\"]", "figure `a`: reads `counters.cycle`: there is no such metric");
        check("needs = {protocols = 2}", "figure `a`: `protocols` is not a factor");
        check("needs = {version = \"curve\"}", "figure `a`: only workload.clients has a curve");
        check("at = {clients = 9}", "figure `a`: no case has clients 9");
    }
}
