//! All scripts of a run, with the variables they share and their weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Instance, OptionValue};

use crate::emulator::builtins::Builtins;
use crate::emulator::traced::TracedLoad;
use crate::objects::schema::Schema;
use crate::random::{Prng, by_weight};
use crate::script::declared::Declared;
use crate::script::declared::glued::{GlueRange, STATEMENTS_MAX};
use crate::script::expr::fold;
use crate::script::program::{Language, Program, ScriptCommand, ScriptError};
use crate::script::value::Dialect;
use crate::script::variables::{VariableId, VariableTable, is_valid_name};

/// Most scripts of a run, as in pgbench.
pub const SCRIPTS_MAX: usize = 128;

/// Backslash commands that the scripts of workload directories lack: a directory runs nothing on the client's machine.
const NOT_IN_DIRECTORIES: [&str; 2] = ["shell", "setshell"];

/// The first line of a script that has `\repeat`, which pgbench does not know.
const EXTENDED: &str = "-- pgdyno: extended";

/// Compiled scripts with weights.
#[derive(Clone, Debug)]
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
    /// The workload directory whose transactions the scripts are.
    pub(crate) instance: Option<Arc<Instance>>,
    /// Variables whose texts are literals.
    pub(crate) texts: Vec<VariableId>,
    /// The trace that clients replay instead of choosing scripts.
    pub(crate) traced: Option<Arc<TracedLoad>>,
}

impl Bundle {
    /// Compiles scripts given as (name, source, weight). `defines` are the variables that the user sets.
    pub fn compile(
        scripts: &[(&str, &str, u32)],
        defines: &BTreeMap<String, String>,
    ) -> Result<Bundle, ScriptError> {
        Bundle::compile_with(scripts, defines, None)
    }

    /// As [`Bundle::compile`], but the scripts are transactions of a workload directory, by their names: they have parameters,
    /// and glued names. `defines` has the directory's options.
    pub fn compile_directory(
        scripts: &[(&str, &str, u32)],
        defines: &BTreeMap<String, String>,
        instance: &Arc<Instance>,
    ) -> Result<Bundle, ScriptError> {
        Bundle::compile_with(scripts, defines, Some(instance))
    }

    fn compile_with(
        scripts: &[(&str, &str, u32)],
        defines: &BTreeMap<String, String>,
        instance: Option<&Arc<Instance>>,
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
            .map(|(name, source, _)| match instance {
                None => Program::compile_with(name, source, Language::default(), &mut variables),
                Some(instance) => transaction(name, source, instance, defines, &mut variables),
            })
            .collect::<Result<Vec<_>, _>>()?;
        check_n_statements(&programs)?;
        let texts = instance.map_or(Vec::new(), |instance| texts(instance, &variables));
        fold::fold(&mut programs, &variables, defines);
        let variables = Arc::new(variables);
        for program in &mut programs {
            program.variables = Arc::clone(&variables);
        }
        let weights = scripts.iter().map(|(_, _, weight)| *weight).collect();
        let dialect = Dialect::default();
        let instance = instance.cloned();
        let (builtins, traced) = (None, None);
        Ok(Bundle { programs, weights, variables, dialect, weight_total, builtins, instance, texts, traced })
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
        let (instance, texts, traced) = (None, Vec::new(), None);
        Bundle { programs, weights, variables, dialect, weight_total, builtins, instance, texts, traced }
    }

    /// The workload directory whose transactions the scripts are.
    pub fn instance(&self) -> Option<&Arc<Instance>> {
        self.instance.as_ref()
    }

    /// The index of the script to run next. A single script draws nothing.
    pub fn choose(&self, prng: &mut Prng) -> usize {
        if self.programs.len() == 1 {
            return 0;
        }
        by_weight(prng, &self.weights, self.weight_total)
    }
}

/// Compiles a transaction of a workload directory.
fn transaction(
    name: &str,
    source: &str,
    instance: &Arc<Instance>,
    defines: &BTreeMap<String, String>,
    variables: &mut VariableTable,
) -> Result<Program, ScriptError> {
    let found = instance.transactions().iter().position(|of| of.name == name);
    let Some(index) = found else {
        return Err(ScriptError::whole(name, format!("the workload directory has no transaction `{name}`")));
    };
    let of = &instance.transactions()[index];
    let range_of = |variable: &str| {
        let mut parameters = of.parameters.iter().chain(of.each.iter().flat_map(|each| &each.parameters));
        let parameter = parameters.find(|parameter| parameter.name == variable);
        match parameter.map(|parameter| parameter.range) {
            Some(Some(range)) => Ok(range),
            Some(None) => Err(format!("`:{variable}` is a part of a name, and its range is not known")),
            None => {
                let constant = defines.get(variable).and_then(|text| text.parse::<i64>().ok());
                constant.map(|value| (value, value)).ok_or_else(|| {
                    format!("`:{variable}` is a part of a name, and neither a parameter nor an option that is a number")
                })
            }
        }
    };
    let glue: &GlueRange<'_> = &range_of;
    let loops: Vec<&str> = of.each.iter().map(|each| each.name.as_str()).collect();
    let is_extended = source.lines().next().is_some_and(|line| line.trim() == EXTENDED);
    let loops = is_extended.then_some(loops.as_slice());
    let language = Language { without: &NOT_IN_DIRECTORIES, glue: Some(glue), loops };
    let mut program = Program::compile_with(name, source, language, variables)?;
    Declared::add(&mut program, instance, index, defines, variables)?;
    check_assignments(&program, variables)?;
    Ok(program)
}

/// Refuses assignments to glued variables: what is sent was compiled for their declared ranges.
fn check_assignments(program: &Program, variables: &VariableTable) -> Result<(), ScriptError> {
    let glued = || program.statements.iter().filter_map(|statement| statement.glued.as_deref());
    let is_glued = |id: VariableId| glued().any(|glued| glued.names.iter().any(|name| name.variable == id));
    for step in &program.commands {
        if let ScriptCommand::Set { variable, .. } = &step.command
            && is_glued(*variable)
        {
            let name = variables.name(*variable);
            let message = format!("`:{name}` is a part of a name, and cannot be set");
            return Err(ScriptError::at_line(&program.name, step.line, &message));
        }
    }
    Ok(())
}

/// Bounds the statements that glued names make.
fn check_n_statements(programs: &[Program]) -> Result<(), ScriptError> {
    let statements = programs.iter().flat_map(|program| &program.statements);
    let n: usize = statements.filter_map(|of| of.glued.as_ref()).map(|glued| glued.variants.len()).sum();
    if n > STATEMENTS_MAX {
        let message = format!("glued names make {n} statements; at most {STATEMENTS_MAX} are possible");
        return Err(ScriptError::whole("", message));
    }
    Ok(())
}

/// The options of a workload directory that are texts, of those that scripts mention.
fn texts(instance: &Instance, variables: &VariableTable) -> Vec<VariableId> {
    let options = instance.manifest().options.iter();
    let texts = options.filter(|option| matches!(option.default, OptionValue::Text(_)));
    texts.filter_map(|option| variables.find(&option.name)).collect()
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
