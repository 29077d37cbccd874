//! The configuration of a run of the workload.

use std::collections::BTreeMap;
use std::str::FromStr;

pub use model::experiment::case::{Calls, Think};

use super::Constants;

/// A run of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpccConfig {
    /// Warehouses in the database.
    pub warehouses: u32,
    /// How SQL is sent.
    pub calls: Calls,
    /// Whether terminals wait.
    pub think: Think,
    /// C-Run.
    pub constants: Constants,
}

/// A parameter of a run that is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The variable is missing.
    #[error("the load of tpcc has no `{0}`")]
    Missing(&'static str),
    /// The variable's value is invalid.
    #[error("the load of tpcc has `{key}={value}`, which is not understood")]
    Unknown {
        /// Name of the variable.
        key: &'static str,
        /// The invalid value.
        value: String,
    },
}

impl TpccConfig {
    /// Reads the parameters from a load's definitions.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn from_defines(defines: &BTreeMap<String, String>) -> Result<TpccConfig, ConfigError> {
        fn read<T: FromStr>(defines: &BTreeMap<String, String>, key: &'static str) -> Result<T, ConfigError> {
            let value = defines.get(key).ok_or(ConfigError::Missing(key))?;
            value.parse().map_err(|_| ConfigError::Unknown { key, value: value.clone() })
        }
        let constants = Constants {
            c_last: read(defines, "c_last")?,
            c_id: read(defines, "c_id")?,
            ol_i_id: read(defines, "ol_i_id")?,
        };
        let warehouses: u32 = read(defines, "scale")?;
        if warehouses == 0 {
            return Err(ConfigError::Unknown { key: "scale", value: "0".to_owned() });
        }
        Ok(TpccConfig {
            warehouses,
            calls: read(defines, "calls")?,
            think: read(defines, "think")?,
            constants,
        })
    }

    /// The configuration as definitions of variables.
    pub fn defines(&self) -> BTreeMap<String, String> {
        [
            ("scale", self.warehouses.to_string()),
            ("calls", self.calls.to_string()),
            ("think", self.think.to_string()),
            ("c_last", self.constants.c_last.to_string()),
            ("c_id", self.constants.c_id.to_string()),
            ("ol_i_id", self.constants.ol_i_id.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_give_the_configuration_back() {
        for calls in Calls::ALL {
            for think in Think::ALL {
                let config = TpccConfig { warehouses: 7, calls, think, constants: Constants::for_load(1) };
                assert_eq!(TpccConfig::from_defines(&config.defines()), Ok(config));
            }
        }
    }

    #[test]
    fn missing_and_wrong_keys_are_named() {
        let config = TpccConfig {
            warehouses: 7,
            calls: Calls::Statements,
            think: Think::None,
            constants: Constants::for_load(1),
        };
        let mut defines = config.defines();
        defines.insert("calls".to_owned(), "letters".to_owned());
        let message = TpccConfig::from_defines(&defines).unwrap_err().to_string();
        assert!(message.contains("`calls=letters`"), "{message}");
        defines.remove("c_id");
        assert_eq!(TpccConfig::from_defines(&defines), Err(ConfigError::Missing("c_id")));
    }
}
