//! Evaluates once what has the same value each time: expressions of constants, and of variables that nobody assigns.
//!
//! Only values, and draws from known ranges, replace expressions. An expression that fails stays as it is, so that it
//! fails when and as it does in pgbench, and nothing is drawn early.

use std::collections::BTreeMap;

use crate::random::Prng;
use crate::script::eval::{self, EvalScope};
use crate::script::expr::Expr;
use crate::script::function::Function;
use crate::script::program::{Program, ScriptCommand};
use crate::script::statement::Fetch;
use crate::script::value::Value;
use crate::script::variables::VariableTable;

/// Folds the expressions of all scripts of a run.
pub(crate) fn fold(programs: &mut [Program], names: &VariableTable, defines: &BTreeMap<String, String>) {
    let folder = Folder { names, constants: constants(programs, names, defines) };
    for step in programs.iter_mut().flat_map(|program| &mut program.commands) {
        if let ScriptCommand::Set { expr, .. }
        | ScriptCommand::If { condition: expr, .. }
        | ScriptCommand::Elif { condition: expr, .. } = &mut step.command
        {
            folder.fold(expr);
        }
    }
}

/// The values of variables that stay what the user defined, by slot.
fn constants(
    programs: &[Program],
    names: &VariableTable,
    defines: &BTreeMap<String, String>,
) -> Vec<Option<Value>> {
    let mut constants = vec![None; names.len()];
    // Which variables rows become is known when their columns are.
    if programs.iter().flat_map(|p| &p.statements).any(|statement| statement.fetch != Fetch::Discard) {
        return constants;
    }
    for (name, text) in defines {
        if let Some(id) = names.find(name) {
            constants[id.index()] = eval::value_of_text(name, text.as_bytes()).ok();
        }
    }
    for declared in programs.iter().filter_map(|program| program.declared.as_deref()) {
        declared.all().for_each(|parameter| constants[parameter.variable.index()] = None);
    }
    for step in programs.iter().flat_map(|program| &program.commands) {
        if let ScriptCommand::Set { variable, .. } | ScriptCommand::SetShell { variable, .. } = step.command {
            constants[variable.index()] = None;
        }
    }
    constants
}

struct Folder<'a> {
    names: &'a VariableTable,
    constants: Vec<Option<Value>>,
}

impl Folder<'_> {
    fn fold(&self, expr: &mut Expr) {
        let is_folded = match expr {
            Expr::Constant(_) | Expr::Draw { .. } => return,
            Expr::Variable(id) => {
                if let Some(value) = self.constants[id.index()] {
                    *expr = Expr::Constant(value);
                }
                return;
            }
            Expr::Binary(_, operands) | Expr::And(operands) | Expr::Or(operands) => {
                self.fold_all(operands.as_mut())
            }
            Expr::Not(operand) | Expr::Is(operand, _) => {
                self.fold_all(std::slice::from_mut(operand.as_mut()))
            }
            Expr::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    self.fold(condition);
                    self.fold(result);
                }
                self.fold(otherwise);
                false
            }
            Expr::Call(function, arguments) => self.fold_all(arguments) && has_one_value(*function),
        };
        if is_folded && let Some(value) = self.value(expr) {
            *expr = Expr::Constant(value);
        } else if let Some(draw) = draw(expr) {
            *expr = draw;
        }
    }

    /// Whether all arguments have become constants.
    fn fold_all(&self, operands: &mut [Expr]) -> bool {
        operands.iter_mut().for_each(|operand| self.fold(operand));
        operands.iter().all(|operand| matches!(operand, Expr::Constant(_)))
    }

    fn value(&self, expr: &Expr) -> Option<Value> {
        let mut scope = EvalScope {
            names: self.names,
            slots: &mut [],
            draws: None,
            prng: &mut Prng::seed(0),
            command: 0,
            debug: &mut Vec::new(),
        };
        eval::evaluate(expr, &mut scope).ok()
    }
}

/// Whether the same arguments give the same value, and nothing else happens.
fn has_one_value(function: Function) -> bool {
    use Function::{Debug, Random, RandomExponential, RandomGaussian, RandomZipfian};
    !matches!(function, Debug | Random | RandomExponential | RandomGaussian | RandomZipfian)
}

/// A call of `random` whose range is known and can be drawn from.
fn draw(expr: &Expr) -> Option<Expr> {
    let Expr::Call(Function::Random, arguments) = expr else { return None };
    let [Expr::Constant(lo), Expr::Constant(hi)] = arguments[..] else { return None };
    let (lo, hi) = (bound(lo)?, bound(hi)?);
    eval::check_range(lo, hi).ok().map(|()| Expr::Draw { lo, hi })
}

/// NULL makes the call NULL, and is no bound.
fn bound(value: Value) -> Option<i64> {
    value.to_int().ok()
}
