//! Resolved values put together: what a generator needs to make rows, and what its user wants to know of them.

use super::{Compiler, Made, State};
use crate::expression::make::{Generator, SetCode, SetForm, ValueCode};
use crate::expression::node::Reach;
use crate::expression::scope::{SourceForm, ValueFacts};
use crate::random::column_key;

impl Compiler<'_> {
    /// The generator; every value has been resolved.
    pub(super) fn assembled(mut self) -> Generator {
        let sets = (0..self.states.len()).map(|set| self.set_code(set)).collect();
        Generator { sets, n_tables: self.scope.tables.len(), used: self.used }
    }

    fn set_code(&mut self, set: usize) -> SetCode {
        let scope = self.scope;
        let source = scope.set(set);
        let n_inputs = source.inputs().len();
        let key = |name: &str| column_key(scope.data_seed, &source.name, name);
        let form = match source.form {
            SourceForm::Parameters { .. } => SetForm::Parameters { n_inputs },
            SourceForm::Rows(_) => SetForm::Rows,
            // No column has this name, so that its cells are nobody else's.
            SourceForm::Lines { .. } => self.set_form(set, key("#lines")),
        };
        let mut values = Vec::new();
        let mut facts = Vec::new();
        let states = std::mem::take(&mut self.states[set]);
        for (at, state) in states.into_iter().enumerate() {
            let State::Made(made) = state else { continue };
            let (name, is_hidden) = match at.checked_sub(n_inputs).map(|at| &source.values[at]) {
                Some(value) => (value.name.clone(), value.is_hidden),
                None => (source.inputs()[at].clone(), true),
            };
            if at >= n_inputs {
                facts.push(value_facts(&name, is_hidden, &made, n_inputs));
            }
            let cell_key = key(&name);
            values.push(ValueCode { is_hidden, ..value_code(name, cell_key, *made) });
        }
        SetCode {
            name: source.name.clone(),
            form,
            values,
            facts,
            targets: std::mem::take(&mut self.targets[set]),
        }
    }
}

pub(super) fn value_code(name: String, key: u64, made: Made) -> ValueCode {
    ValueCode {
        key,
        name,
        is_kept: made.is_kept,
        is_hidden: false,
        has_specials: made.node.facts.has_specials,
        kind: made.node.kind,
        code: made.node.code,
    }
}

fn value_facts(name: &str, is_hidden: bool, made: &Made, n_inputs: usize) -> ValueFacts {
    let node = &made.node;
    let facts = &node.facts;
    ValueFacts {
        name: name.to_string(),
        kind: node.kind.clone(),
        is_hidden,
        is_nullable: facts.is_nullable,
        reach: match facts.reach {
            Reach::Words(low, high) => Some((low, high)),
            _ => None,
        },
        longest: Some(node.longest()),
        is_unique: facts.is_unique,
        is_constant: facts.is_constant,
        steps: facts.steps,
        uses: made.uses.iter().filter_map(|value| value.checked_sub(n_inputs)).collect(),
        tables: made.tables.clone(),
    }
}
