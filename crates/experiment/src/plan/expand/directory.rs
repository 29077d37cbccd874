//! The workload directory of a case: the scale at which its rows are made, and what its keys choose of it.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::experiment::WorkloadSection;
use model::experiment::keys::prepare::RESTORE;
use model::experiment::keys::workload as keys;
use model::text::prose::bytes;
use model::text::units::Scale;
use model::workload::DirectoryName;

use super::PlanResources;
use crate::plan::design::choice::LevelChoice;
use crate::plan::scripts::directories::chosen::{Chosen, ChosenDirectories, ChosenDirectory};
use crate::plan::scripts::directories::{DEFAULT_SCALE, replay};

/// What a case chooses of a directory.
#[derive(Clone, Copy)]
pub(super) struct DirectoryOfCase<'a> {
    pub(super) name: &'a DirectoryName,
    pub(super) section: &'a WorkloadSection,
    pub(super) directories: &'a ChosenDirectories,
}

impl DirectoryOfCase<'_> {
    /// The directory at the scale of the case.
    ///
    /// # Errors
    /// All that is wrong with it, one problem a line.
    pub(super) fn choose(
        self,
        choice: &LevelChoice,
        site: &PlanResources,
    ) -> Result<(u32, Rc<ChosenDirectory>), String> {
        let scale = match choice.get(keys::SCALE) {
            Scale::Units(units) => units,
            Scale::Fit if choice.get(RESTORE) => DEFAULT_SCALE,
            Scale::Fit => {
                let name = &self.at(choice, DEFAULT_SCALE)?.directory.name;
                site.directory_scale.get(name).copied().unwrap_or(DEFAULT_SCALE)
            }
            scale @ Scale::TimesRam(times) => {
                let memory_bytes = site.memory_bytes.ok_or_else(|| {
                    format!(
                        "workload.scale: `{scale}` needs the memory of the server's machine, which is not this one; give a number"
                    )
                })?;
                self.scale_for(choice, memory_bytes as f64 * times)?
            }
        };
        Ok((scale, self.at(choice, scale)?))
    }

    fn at(self, choice: &LevelChoice, scale: u32) -> Result<Rc<ChosenDirectory>, String> {
        let variant = self.name.variant.clone().or_else(|| choice.get(keys::VARIANT));
        let options: BTreeMap<String, String> = choice.get(keys::OPTIONS);
        let data_seed = choice.get(keys::DATA_SEED);
        let replay = replay::asked(self.section);
        self.directories.get(self.section, self.name, Chosen { variant, options, scale, data_seed, replay })
    }

    /// The least scale at which the tables take so many bytes; they grow evenly with it.
    fn scale_for(self, choice: &LevelChoice, wanted: f64) -> Result<u32, String> {
        let [one, two] = [1, 2].map(|scale| self.at(choice, scale));
        let [one, two] = [one?, two?].map(|at| at.directory.estimated_bytes() as f64);
        if two <= one {
            return Err(format!(
                "workload.scale: `{}` does not change the tables of workload directory `{}`, which take {}; give a number",
                choice.get(keys::SCALE),
                self.name.place,
                bytes(one)
            ));
        }
        let scale = 1.0 + ((wanted - one) / (two - one)).ceil().max(0.0);
        let most = Scale::UNITS_MAX;
        if scale > f64::from(most) {
            return Err(format!(
                "workload.scale: {} need more than {most} units of workload directory `{}`",
                bytes(wanted),
                self.name.place
            ));
        }
        Ok(scale as u32)
    }
}
