//! The built-in transactions of a load: the programs of TPC-C or TPROC-C, with the parameters of the load.

use std::collections::BTreeMap;

use model::experiment::case::WorkloadSpec;
use model::load::Profiles;

use crate::objects::schema::Schema;
use crate::script::program::Program;
use crate::tpcc::{self, ConfigError, Constants};
use crate::tprocc;

/// The built-in transactions of a load, with their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtins {
    /// TPC-C-like.
    Tpcc(tpcc::TpccConfig),
    /// HammerDB's TPROC-C.
    TprocC(tprocc::TproccConfig),
}

impl Builtins {
    /// The transactions of a case, with constants that go with those of a load if these are known.
    pub fn of_case(profiles: Profiles, workload: &WorkloadSpec, c_load: Option<u32>, seed: u64) -> Builtins {
        match profiles {
            Profiles::Tpcc => {
                let spec = workload.tpcc.unwrap_or_default();
                let constants = c_load
                    .map_or_else(|| Constants::for_load(seed), |c_load| Constants::for_run(seed, c_load));
                let warehouses = workload.scale;
                Builtins::Tpcc(tpcc::TpccConfig {
                    warehouses,
                    calls: spec.calls,
                    think: spec.think,
                    constants,
                })
            }
            Profiles::TprocC => Builtins::TprocC(tprocc::TproccConfig {
                warehouses: workload.scale,
                clients: workload.n_clients,
                procedures: workload.procedures,
                all_warehouses: workload.all_warehouses,
            }),
        }
    }

    /// The transactions with the parameters of a load.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn from_defines(
        profiles: Profiles,
        defines: &BTreeMap<String, String>,
    ) -> Result<Builtins, ConfigError> {
        match profiles {
            Profiles::Tpcc => tpcc::TpccConfig::from_defines(defines).map(Builtins::Tpcc),
            Profiles::TprocC => tprocc::TproccConfig::from_defines(defines).map(Builtins::TprocC),
        }
    }

    /// The programs, each with its weight in the mix.
    pub fn programs(&self, schema: &Schema) -> Vec<(Program, u32)> {
        match self {
            Builtins::Tpcc(config) => tpcc::programs(config, schema),
            Builtins::TprocC(config) => tprocc::programs(config, schema),
        }
    }

    /// The parameters as a load's definitions.
    pub fn defines(&self) -> BTreeMap<String, String> {
        match self {
            Builtins::Tpcc(config) => config.defines(),
            Builtins::TprocC(config) => config.defines(),
        }
    }
}
