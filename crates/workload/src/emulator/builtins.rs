//! The built-in transactions of a load: the programs of TPC-C or TPROC-C, with the parameters of the load.

use std::collections::BTreeMap;

use crate::objects::schema::Schema;
use crate::script::program::Program;
use crate::tpcc::{self, ConfigError};
use crate::tprocc;

/// The built-in transactions of a load, with their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtins {
    /// TPC-C-like.
    Tpcc(tpcc::Config),
    /// HammerDB's TPROC-C.
    TprocC(tprocc::Config),
}

impl Builtins {
    /// TPC-C with the parameters of a load.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn tpcc(defines: &BTreeMap<String, String>) -> Result<Builtins, ConfigError> {
        tpcc::Config::from_defines(defines).map(Builtins::Tpcc)
    }

    /// TPROC-C with the parameters of a load.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn tproc_c(defines: &BTreeMap<String, String>) -> Result<Builtins, ConfigError> {
        tprocc::Config::from_defines(defines).map(Builtins::TprocC)
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
