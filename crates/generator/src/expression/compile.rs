//! Names, types and intervals resolved: from what a scope holds to a generator, or to all that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::functions;
use super::make::{Frame, Generator, UsedNames};
use super::node::{Code, Facts, Node, Reach};
use super::operators;
use super::parse::{DEPTH_MAX, Expression, ExpressionError, Form, NODES_MAX, Part};
use super::references;
use super::scope::{Constant, Scope};
use crate::value::kind::{Type, power_of_ten};
use crate::value::text::{BYTES_MAX, is_special};

mod assemble;
mod names;

pub(super) use names::did_you_mean;

/// Most work of one value: parts evaluated, and an eighth of the characters made. A cell of 1 MiB is an eighth of it.
const STEPS_MAX: u64 = 1 << 20;

/// Most parts of all expressions together, `let`s written out: 1,000 tables of 100 columns with ten parts each.
const ALL_NODES_MAX: u64 = 1_000_000;

/// Longest text of a constant that is made once and kept, in bytes.
const FOLDED_MAX: u64 = 4096;

/// All sets of a scope.
pub(super) fn all(scope: &Scope) -> Result<Generator, Vec<ExpressionError>> {
    let mut compiler = Compiler::new(scope);
    let mut errors = Vec::new();
    for set in 0..compiler.states.len() {
        // What follows would fail for the same reason.
        if compiler.n_parts > ALL_NODES_MAX {
            break;
        }
        errors.extend(compiler.lines(set).err());
        for value in 0..compiler.states[set].len() {
            if compiler.n_parts > ALL_NODES_MAX {
                break;
            }
            errors.extend(compiler.value(set, value).err());
        }
    }
    errors.sort();
    errors.dedup();
    if errors.is_empty() { Ok(compiler.assembled()) } else { Err(errors) }
}

/// The value of an expression outside any table.
pub(super) fn constant(scope: &Scope, expression: &Expression) -> Result<Constant, ExpressionError> {
    let mut compiler = Compiler::new(scope);
    compiler.sites.push(Site::new(Role::Outside, 0, None));
    compiler.origin = expression.origin;
    let node = compiler.part(&expression.root)?;
    scope.used.replace(std::mem::take(&mut compiler.used));
    let found = match &node.kind {
        Type::Bool => node.constant_word().map(|word| Constant::Bool(word != 0)),
        Type::Int => node.constant_word().map(Constant::Int),
        Type::Decimal(scale) => {
            let unit = power_of_ten(*scale) as f64;
            node.constant_word().map(|word| Constant::Float(word as f64 / unit))
        }
        Type::Float => node.constant_float().map(Constant::Float),
        _ => node.constant_text().map(Constant::Text),
    };
    let message = "this has to be known when the plan is made";
    found.ok_or_else(|| compiler.problem(&expression.root, message.to_string()))
}

/// The number of rows of a table, rounded down.
pub(super) fn row_count(scope: &Scope, rows: &Expression) -> Result<u64, ExpressionError> {
    let problem = |message: String| ExpressionError {
        origin: rows.origin,
        at: rows.root.at,
        width: rows.root.width,
        message,
    };
    let n = match constant(scope, rows)? {
        Constant::Int(n) => n as f64,
        Constant::Float(n) => n.floor(),
        _ => return Err(problem("a number of rows is a number".to_string())),
    };
    // Row numbers and keys derived from them have to fit 64 bits with room; 2^53 rows are 9 PB of row headers alone.
    if (0.0..=9_007_199_254_740_992.0).contains(&n) {
        return Ok(n as u64);
    }
    Err(problem(format!("`{n}` rows: a number of rows is from 0 to 2^53")))
}

/// The state of resolving a scope.
pub(super) struct Compiler<'s> {
    pub(super) scope: &'s Scope,
    /// By set, by value; inputs come first.
    states: Vec<Vec<State>>,
    /// Numbers of lines, by set.
    lines: Vec<State>,
    /// The sets that a set reads, in the order of its frames.
    targets: Vec<Vec<usize>>,
    /// What is being resolved, outermost first.
    sites: Vec<Site>,
    /// The text that is being resolved.
    origin: usize,
    depth: u32,
    /// Parts resolved so far, over all expressions.
    n_parts: u64,
    pub(super) used: UsedNames,
    /// Centres of vectors, by dimensions and clusters: calls with the same numbers share them.
    pub(super) centres: BTreeMap<[i64; 2], Arc<Vec<f32>>>,
}

enum State {
    Waiting,
    /// It is being resolved: who reads it now reads itself.
    Busy,
    Made(Box<Made>),
    Failed(ExpressionError),
}

/// A resolved value.
pub(super) struct Made {
    pub(super) node: Node,
    /// Values of the same row that it reads itself.
    uses: BTreeSet<usize>,
    /// These, and those that they read.
    all_uses: BTreeSet<usize>,
    tables: BTreeSet<usize>,
    /// Somebody reads it.
    is_kept: bool,
}

/// The thing that an expression belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A column of a table of so many rows.
    Column { n_rows: u64 },
    /// A column of a table that has lines of each of so many parents.
    LineColumn { n_parents: u64 },
    /// The number of lines of a parent.
    LineCount { n_parents: u64 },
    /// A parameter or a fact.
    Parameter,
    /// A number of rows, a bound of braces.
    Outside,
}

/// An expression that is being resolved.
pub(super) struct Site {
    pub(super) role: Role,
    pub(super) set: usize,
    pub(super) value: Option<usize>,
    /// `let`s that are being written out, outermost first.
    pub(super) lets: Vec<String>,
    /// Depth of `list` calls, within which `item` is a name.
    pub(super) n_lists: u32,
    n_parts: u64,
    uses: BTreeSet<usize>,
    tables: BTreeSet<usize>,
}

impl Site {
    fn new(role: Role, set: usize, value: Option<usize>) -> Site {
        Site {
            role,
            set,
            value,
            lets: Vec::new(),
            n_lists: 0,
            n_parts: 0,
            uses: BTreeSet::new(),
            tables: BTreeSet::new(),
        }
    }
}

impl Site {
    /// Whether the frame at hand is at a row of the set's own.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self.role, Role::Column { .. })
    }
}

impl<'s> Compiler<'s> {
    fn new(scope: &'s Scope) -> Compiler<'s> {
        let sets = || scope.tables.iter().chain(&scope.parameters);
        let waiting = |n: usize| (0..n).map(|_| State::Waiting).collect();
        Compiler {
            scope,
            states: sets().map(|set| waiting(set.inputs().len() + set.values.len())).collect(),
            lines: waiting(sets().count()),
            targets: vec![Vec::new(); sets().count()],
            sites: Vec::new(),
            origin: 0,
            depth: 0,
            n_parts: 0,
            used: scope.used.borrow().clone(),
            centres: BTreeMap::new(),
        }
    }

    pub(super) fn problem(&self, part: &Part, message: String) -> ExpressionError {
        ExpressionError { origin: self.origin, at: part.at, width: part.width, message }
    }

    /// The value that is being resolved.
    pub(super) fn site(&mut self) -> &mut Site {
        if self.sites.is_empty() {
            self.sites.push(Site::new(Role::Outside, 0, None));
        }
        let last = self.sites.len() - 1;
        &mut self.sites[last]
    }

    /// Resolves a part.
    pub(super) fn part(&mut self, part: &Part) -> Result<Node, ExpressionError> {
        self.depth += 1;
        self.n_parts += 1;
        self.site().n_parts += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX}, with the `let`s and columns that it uses");
            return Err(self.problem(part, message));
        }
        if self.site().n_parts > NODES_MAX {
            let message = format!("more than {NODES_MAX} parts, with the `let`s that it uses");
            return Err(self.problem(part, message));
        }
        if self.n_parts > ALL_NODES_MAX {
            let message = format!(
                "all expressions together have more than {ALL_NODES_MAX} parts, with the `let`s that they use"
            );
            return Err(self.problem(part, message));
        }
        let node = match &part.form {
            Form::Int(value) => literal(&Constant::Int(*value)),
            Form::Float(value) => literal(&Constant::Float(*value)),
            Form::Bool(value) => literal(&Constant::Bool(*value)),
            Form::Text(text) => literal(&Constant::Text(text.clone())),
            Form::Name(name) => self.name(part, name)?,
            Form::Call { name, arguments } => functions::call(self, part, name, arguments)?,
            Form::Member { table, column, row } => {
                references::member(self, part, table, column, row.as_deref())?
            }
            Form::Unary { operator, operand } => {
                let node = self.part(operand)?;
                operators::unary(self, part, *operator, node)?
            }
            Form::Binary { operator, left, right } => {
                let left = self.part(left)?;
                let right = self.part(right)?;
                operators::binary(self, part, *operator, [left, right])?
            }
        };
        self.depth -= 1;
        self.within_bounds(part, &node)?;
        self.folded(part, node)
    }

    fn within_bounds(&self, part: &Part, node: &Node) -> Result<(), ExpressionError> {
        let Facts { steps, bytes, depth, .. } = node.facts;
        if bytes > BYTES_MAX {
            return Err(self.problem(part, format!("up to {bytes} bytes; a cell has at most {BYTES_MAX}")));
        }
        if depth > DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX}, through the columns that it reads");
            return Err(self.problem(part, message));
        }
        if steps > STEPS_MAX {
            return Err(
                self.problem(part, format!("up to {steps} steps for one value; {STEPS_MAX} are the most"))
            );
        }
        Ok(())
    }

    /// A constant evaluated once.
    fn folded(&self, part: &Part, node: Node) -> Result<Node, ExpressionError> {
        // A long constant is made where it is used: many of them would fill the memory.
        let is_short = node.facts.bytes <= FOLDED_MAX;
        if !node.facts.is_constant || !is_short || node.facts.n_parts == 1 {
            return Ok(node);
        }
        let Facts { n_parts, .. } = node.facts;
        let mut frame = Frame::empty();
        let nothing = Generator::empty();
        let mut folded = match node.code {
            Code::Word(code) => constant_node(node.kind, code(&nothing, &mut frame)),
            Code::Float(code) => {
                let value = code(&nothing, &mut frame);
                let reach = value.map_or(Reach::Unknown, |value| Reach::Floats(value, value));
                let facts = Facts { reach, is_nullable: value.is_none(), ..Facts::constant() };
                Node::float(facts, move |_, _| value)
            }
            Code::Text(code) => {
                let mut text = Vec::new();
                let is_there = code(&nothing, &mut frame, &mut text);
                constant_text(node.kind, text, is_there)
            }
        };
        if let Some(fault) = frame.fault {
            return Err(self.problem(part, fault.message));
        }
        folded.facts.n_parts = n_parts;
        Ok(folded)
    }
}

fn constant_node(kind: Type, word: Option<i64>) -> Node {
    let facts = Facts { is_nullable: word.is_none(), ..Facts::constant() };
    let value = i128::from(word.unwrap_or(0));
    Node::word(kind, facts.with_reach(value, value), move |_, _| word)
}

fn constant_text(kind: Type, text: Vec<u8>, is_there: bool) -> Node {
    let characters = text.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
    let has_specials = text.iter().any(|byte| is_special(*byte));
    let facts = Facts { is_nullable: !is_there, has_specials, ..Facts::constant() };
    let facts = facts.with_length(characters, text.len() as u64);
    Node::text(kind, facts, move |_, _, out| {
        out.extend_from_slice(&text);
        is_there
    })
}

/// A constant as a part.
pub(super) fn literal(value: &Constant) -> Node {
    match value {
        Constant::Int(value) => constant_node(Type::Int, Some(*value)),
        Constant::Bool(value) => constant_node(Type::Bool, Some(i64::from(*value))),
        Constant::Float(value) => {
            let value = *value;
            let facts = Facts { reach: Reach::Floats(value, value), ..Facts::constant() };
            Node::float(facts, move |_, _| Some(value))
        }
        Constant::Text(text) => constant_text(Type::Text, text.clone().into_bytes(), true),
    }
}
