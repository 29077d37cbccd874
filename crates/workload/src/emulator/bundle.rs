//! All scripts of a run, with the variables they share and their weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::emulator::builtins::Builtins;
use crate::objects::schema::Schema;
use crate::random::Prng;
use crate::script::fold;
use crate::script::program::{Program, ScriptError};
use crate::script::value::Dialect;
use crate::script::variables::{VariableTable, is_valid_name};

/// Most scripts of a run, as in pgbench.
pub const SCRIPTS_MAX: usize = 128;

/// Compiled scripts with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The programs, in the order given.
    pub programs: Vec<Program>,
    /// Weight of each program, relative to the sum; 0 means never.
    pub weights: Vec<u32>,
    /// Names of the variables of all programs.
    pub variables: Arc<VariableTable>,
    /// What clients send for a variable without a value.
    pub(crate) dialect: Dialect,
    weight_total: i64,
    /// The built-in transactions that clients run instead of scripts.
    pub(crate) builtins: Option<Builtins>,
}

impl Bundle {
    /// Compiles scripts given as (name, source, weight). `defines` are the variables that the user sets.
    pub fn compile(
        scripts: &[(&str, &str, u32)],
        defines: &BTreeMap<String, String>,
    ) -> Result<Bundle, ScriptError> {
        if let Some(name) = defines.keys().find(|name| !is_valid_name(name)) {
            return Err(ScriptError::whole("", format!("option: invalid variable name: \"{name}\"")));
        }
        if scripts.is_empty() {
            return Err(ScriptError::whole("", "no script is given".to_owned()));
        }
        if scripts.len() > SCRIPTS_MAX {
            return Err(ScriptError::whole("", format!("at most {SCRIPTS_MAX} SQL scripts are allowed")));
        }
        let weight_total = scripts.iter().map(|(_, _, weight)| i64::from(*weight)).sum();
        if weight_total == 0 {
            return Err(ScriptError::whole("", "total script weight must not be zero".to_owned()));
        }
        let mut variables = VariableTable::default();
        let mut programs = scripts
            .iter()
            .map(|(name, source, _)| Program::compile_with(name, source, &[], &mut variables))
            .collect::<Result<Vec<_>, _>>()?;
        fold::fold(&mut programs, &variables, defines);
        let variables = Arc::new(variables);
        for program in &mut programs {
            program.variables = Arc::clone(&variables);
        }
        let weights = scripts.iter().map(|(_, _, weight)| *weight).collect();
        Ok(Bundle { programs, weights, variables, dialect: Dialect::default(), weight_total, builtins: None })
    }

    /// The same scripts with other rules for variables without a value.
    #[must_use]
    pub fn speaking(mut self, dialect: Dialect) -> Bundle {
        self.dialect = dialect;
        self
    }

    /// Built-in transactions on the tables of a schema.
    pub fn builtin(builtins: Builtins, schema: &Schema) -> Bundle {
        let (programs, weights): (Vec<Program>, Vec<u32>) = builtins.programs(schema).into_iter().unzip();
        let weight_total = weights.iter().copied().map(i64::from).sum();
        let variables = Arc::clone(&programs[0].variables);
        let (dialect, builtins) = (Dialect::default(), Some(builtins));
        Bundle { programs, weights, variables, dialect, weight_total, builtins }
    }

    /// The index of the script to run next. A single script draws nothing.
    pub fn choose(&self, prng: &mut Prng) -> usize {
        if self.programs.len() == 1 {
            return 0;
        }
        let mut left = prng.int64_range(0, self.weight_total - 1);
        for (script, weight) in self.weights.iter().enumerate() {
            left -= i64::from(*weight);
            if left < 0 {
                return script;
            }
        }
        unreachable!("the draw is below the sum of the weights");
    }
}

/// Adds pgbench's automatic variables that the user did not set: `scale`, `random_seed`, `default_seed`.
/// (`client_id` is added by [`Interpreter::new`](crate::script::interpreter::Interpreter::new).)
pub fn insert_automatic_variables(
    defines: &mut BTreeMap<String, String>,
    scale: i64,
    random_seed: u64,
    default_seed: u64,
) {
    // Both seeds are shown as signed integers.
    for (name, value) in
        [("scale", scale), ("random_seed", random_seed as i64), ("default_seed", default_seed as i64)]
    {
        defines.entry(name.to_owned()).or_insert_with(|| value.to_string());
    }
}
