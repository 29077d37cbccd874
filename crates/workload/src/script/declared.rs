//! What a workload directory declares of a script: its parameters, the errors that are expected or tried again, and facts.

pub mod draws;
pub(crate) mod facts;
pub mod glued;
pub(crate) mod quote;

use std::collections::BTreeMap;

use generator::{DirectoryTransaction, Instance, Parameter, Type};

use crate::script::declared::draws::ParameterPlace;
use crate::script::expr::Expr;
use crate::script::program::{Program, ScriptError};
use crate::script::statement::{Fetch, Statement, TextPiece};
use crate::script::variables::{VariableId, VariableTable};

/// Most tries of a transaction that names errors to be tried again, unless the load sets a number.
pub const TRIES_MAX: u32 = 10;

/// The declarations of one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// Index of the transaction in its directory.
    pub transaction: usize,
    /// Parameters.
    pub parameters: Vec<DeclaredParameter>,
    /// Parameters of loops, by the loops' indexes.
    pub each: Vec<Vec<DeclaredParameter>>,
    /// SQLSTATEs with which the transaction may end.
    pub expected: Vec<String>,
    /// SQLSTATEs after which it is tried again.
    pub retry: Vec<String>,
    /// Sums over committed transactions, in the order of [`Program::facts`].
    pub facts: Vec<Expr>,
}

/// A parameter of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredParameter {
    /// The variable that scripts know it as.
    pub variable: VariableId,
    /// Which one it is.
    pub place: ParameterPlace,
    /// How its value is kept and sent.
    pub kind: ParameterKind,
}

/// How a parameter is kept and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Numbers that scripts compute with.
    Int,
    /// Other values that SQL writes without quotes.
    Plain,
    /// Literals.
    Literal,
}

impl ParameterKind {
    fn new(kind: &Type) -> ParameterKind {
        match kind {
            Type::Int => ParameterKind::Int,
            Type::Float | Type::Decimal(_) => ParameterKind::Plain,
            _ => ParameterKind::Literal,
        }
    }
}

impl Declared {
    /// The declarations of a transaction whose script is compiled: `program` gets them. `defines` has the variables of every
    /// client.
    ///
    /// # Errors
    /// A parameter where none can be sent, or a fact that cannot be computed.
    pub(crate) fn add(
        program: &mut Program,
        instance: &Instance,
        transaction: usize,
        defines: &BTreeMap<String, String>,
        variables: &mut VariableTable,
    ) -> Result<(), ScriptError> {
        let of: &DirectoryTransaction = &instance.transactions()[transaction];
        let mut declared = Declared {
            transaction,
            expected: of.expected.clone(),
            retry: of.retry.clone(),
            ..Declared::default()
        };
        let mut all = |parameters: &[Parameter], each: Option<u16>| -> Vec<DeclaredParameter> {
            let one = |(parameter, index): (&Parameter, u16)| DeclaredParameter {
                variable: variables.intern(&parameter.name),
                place: ParameterPlace { each, index },
                kind: ParameterKind::new(&parameter.kind),
            };
            parameters.iter().zip(0..).map(one).collect()
        };
        declared.parameters = all(&of.parameters, None);
        declared.each = of.each.iter().zip(0..).map(|(each, n)| all(&each.parameters, Some(n))).collect();
        for (name, text) in &of.facts {
            let fact = fact(text, program, defines, variables)
                .map_err(|message| ScriptError::whole(&program.name, format!("fact `{name}`: {message}")))?;
            program.facts.push(name.clone());
            declared.facts.push(fact);
        }
        check_places(program, &declared, variables)?;
        program.declared = Some(Box::new(declared));
        Ok(())
    }

    /// All parameters, those of loops included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DeclaredParameter> {
        self.parameters.iter().chain(self.each.iter().flatten())
    }

    /// The parameter that a variable is.
    pub(crate) fn parameter(&self, variable: VariableId) -> Option<&DeclaredParameter> {
        self.all().find(|parameter| parameter.variable == variable)
    }
}

/// Compiles a fact. Its names have to be known, unless rows become variables, whose names only the server knows.
fn fact(
    text: &str,
    program: &Program,
    defines: &BTreeMap<String, String>,
    variables: &mut VariableTable,
) -> Result<Expr, String> {
    let n_known = variables.len();
    let expr = facts::parse(text, variables)?;
    let fetches = program.statements.iter().any(|statement| statement.fetch != Fetch::Discard);
    let mut unknown = variables.names().skip(n_known).filter(|name| !defines.contains_key(*name));
    match unknown.next() {
        Some(name) if !fetches => Err(format!("nothing sets `{name}`")),
        _ => Ok(expr),
    }
}

/// Refuses parameters within quotes: only the simple protocol could replace them.
fn check_places(
    program: &Program,
    declared: &Declared,
    variables: &VariableTable,
) -> Result<(), ScriptError> {
    let quoted = |statement: &&Statement| {
        let mut pieces = statement.pieces.iter();
        pieces.find_map(|piece| match piece {
            TextPiece::Quoted(variable) => declared.parameter(*variable),
            TextPiece::Text(_) | TextPiece::Variable(_) => None,
        })
    };
    let Some((statement, parameter)) =
        program.statements.iter().find_map(|statement| Some((statement, quoted(&statement)?)))
    else {
        return Ok(());
    };
    let name = variables.name(parameter.variable);
    let message = format!(
        "parameter `:{name}` stands within quotes, where no value can be sent; write `:{name}` without quotes, or \
         `'...' || :{name}`"
    );
    Err(ScriptError::at_line(&program.name, statement.line, &message))
}
