//! Names: builtin ones, values of the row, `let`s and options, and what was probably meant by another.

use super::{Compiler, Facts, Made, Node, Role, Site, State, literal};
use crate::expression::functions;
use crate::expression::make::SetForm;
use crate::expression::parse::{DEPTH_MAX, ExpressionError, Part};
use crate::expression::references;
use crate::expression::scope::{SetSource, SourceForm};

/// Names that always mean the same.
const BUILTIN: [&str; 6] = ["row", "rows", "parent", "line", "item", "scale"];
/// Furthest misspelling that is corrected.
const DISTANCE_MAX: usize = 2;

impl Compiler<'_> {
    pub(super) fn name(&mut self, part: &Part, name: &str) -> Result<Node, ExpressionError> {
        if BUILTIN.contains(&name) {
            return references::builtin(self, part, name);
        }
        let scope = self.scope;
        let own = self.own_value(name);
        let is_in_let = !self.site().lets.is_empty();
        if let (Some(value), false) = (own, is_in_let) {
            return references::same_row(self, part, value);
        }
        if scope.lets.contains_key(name) {
            return self.written_out(part, name);
        }
        if let Some(value) = scope.options.get(name) {
            self.used.options.insert(name.to_string());
            if self.site().role != Role::Parameter {
                self.used.options_of_tables.insert(name.to_string());
            }
            return Ok(literal(value));
        }
        if let Some(value) = own {
            return references::same_row(self, part, value);
        }
        let message = if name == "null" {
            "`null` is an argument of `choose`, `pick`, `pick_weighted`, `least` and `greatest` alone"
                .to_string()
        } else if scope.table_number(name).is_some() {
            format!("`{name}` is a table; write `{name}.column[row]` or `rows({name})`")
        } else {
            format!("unknown name `{name}`{}", self.meant(name))
        };
        Err(self.problem(part, message))
    }

    /// The value of the row at hand that has this name; a value's own name inside itself is that of a `let` or option.
    fn own_value(&mut self, name: &str) -> Option<usize> {
        let scope = self.scope;
        let Site { role, set, value, .. } = *self.site();
        if matches!(role, Role::Outside | Role::LineCount { .. }) {
            return None;
        }
        let found = scope.set(set).value_number(name)?;
        let is_other_thing = scope.lets.contains_key(name) || scope.options.contains_key(name);
        if value == Some(found) && is_other_thing { None } else { Some(found) }
    }

    fn written_out(&mut self, part: &Part, name: &str) -> Result<Node, ExpressionError> {
        let scope = self.scope;
        let expression = &scope.lets[name];
        self.used.lets.insert(name.to_string());
        if self.site().lets.iter().any(|outer| outer == name) {
            let message = format!("`{name}` is defined by itself: {} → {name}", self.site().lets.join(" → "));
            return Err(self.problem(part, message));
        }
        self.site().lets.push(name.to_string());
        let origin = std::mem::replace(&mut self.origin, expression.origin);
        let node = self.part(&expression.root)?;
        self.origin = origin;
        self.site().lets.pop();
        Ok(node)
    }

    fn meant(&mut self, name: &str) -> String {
        let scope = self.scope;
        let mut known: Vec<&str> = BUILTIN.to_vec();
        known.extend(scope.lets.keys().map(String::as_str));
        known.extend(scope.options.keys().map(String::as_str));
        if self.site().role != Role::Outside {
            known.extend(scope.set(self.site().set).values.iter().map(|value| value.name.as_str()));
        }
        if functions::is_function(name) {
            return format!("; the function is written `{name}(…)`");
        }
        did_you_mean(name, known)
    }

    /// The resolved value of a set; resolves it if that has not been done.
    pub(in crate::expression) fn value(&mut self, set: usize, value: usize) -> Result<(), ExpressionError> {
        match &self.states[set][value] {
            State::Made(_) => return Ok(()),
            State::Failed(error) => return Err(error.clone()),
            State::Busy | State::Waiting => {}
        }
        let scope = self.scope;
        let source = scope.set(set);
        let n_inputs = source.inputs().len();
        let Some(given) = value.checked_sub(n_inputs) else {
            self.states[set][value] = State::Made(Box::new(input()));
            return Ok(());
        };
        let role = self.role(source);
        let site = Site::new(role, set, Some(value));
        self.states[set][value] = State::Busy;
        let made = self.made(site, &source.values[given].expression);
        let result = made.as_ref().map(|_| ()).map_err(Clone::clone);
        self.states[set][value] = match made {
            Ok(made) => State::Made(Box::new(made)),
            Err(error) => State::Failed(error),
        };
        result
    }

    /// Resolves the number of lines of a table, if it has lines.
    pub(in crate::expression) fn lines(&mut self, set: usize) -> Result<(), ExpressionError> {
        let scope = self.scope;
        let SourceForm::Lines { parent, lines } = &scope.set(set).form else { return Ok(()) };
        match &self.lines[set] {
            State::Made(_) => return Ok(()),
            State::Failed(error) => return Err(error.clone()),
            State::Busy | State::Waiting => {}
        }
        let site = Site::new(Role::LineCount { n_parents: scope.n_rows(*parent) }, set, None);
        self.lines[set] = State::Busy;
        let made = self.made(site, lines).and_then(|made| {
            let bounds = references::line_bounds(&made.node);
            let problem = |message| ExpressionError {
                origin: lines.origin,
                at: lines.root.at,
                width: lines.root.width,
                message,
            };
            bounds.map(|_| made).map_err(problem)
        });
        let result = made.as_ref().map(|_| ()).map_err(Clone::clone);
        self.lines[set] = match made {
            Ok(made) => State::Made(Box::new(made)),
            Err(error) => State::Failed(error),
        };
        result
    }

    fn role(&self, source: &SetSource) -> Role {
        match &source.form {
            SourceForm::Rows(n_rows) => Role::Column { n_rows: *n_rows },
            SourceForm::Lines { parent, .. } => Role::LineColumn { n_parents: self.scope.n_rows(*parent) },
            SourceForm::Parameters { .. } => Role::Parameter,
        }
    }

    /// Resolves an expression at a site of its own. An error leaves the outer site as it was.
    fn made(
        &mut self,
        site: Site,
        expression: &crate::expression::Expression,
    ) -> Result<Made, ExpressionError> {
        let n_sites = self.sites.len();
        let origin = std::mem::replace(&mut self.origin, expression.origin);
        let depth = self.depth;
        self.sites.push(site);
        let node = self.part(&expression.root);
        let site = self.sites.swap_remove(n_sites);
        self.sites.truncate(n_sites);
        self.origin = origin;
        self.depth = depth;
        let mut all_uses = site.uses.clone();
        for value in &site.uses {
            if let State::Made(made) = &self.states[site.set][*value] {
                all_uses.extend(&made.all_uses);
            }
        }
        node.map(|node| Made { node, uses: site.uses, all_uses, tables: site.tables, is_kept: false })
    }

    /// What is known of a value that another part at this site reads; it is kept from now on.
    pub(in crate::expression) fn read(
        &mut self,
        part: &Part,
        set: usize,
        value: usize,
    ) -> Result<&Made, ExpressionError> {
        if matches!(self.states[set][value], State::Busy) {
            let message = format!("`{}` depends on itself", self.chain(set, value));
            return Err(self.problem(part, message));
        }
        if self.sites.len() > DEPTH_MAX as usize {
            return Err(self.problem(part, format!("a chain of more than {DEPTH_MAX} values")));
        }
        self.value(set, value)?;
        match &mut self.states[set][value] {
            State::Made(made) => {
                made.is_kept = true;
                Ok(made)
            }
            _ => unreachable!("`value` has made it or returned its error"),
        }
    }

    /// The way from a value back to it.
    fn chain(&self, set: usize, value: usize) -> String {
        let name = |set: usize, value: usize| {
            let source = self.scope.set(set);
            let at = value.saturating_sub(source.inputs().len());
            let value = source.values.get(at).map_or("", |value| value.name.as_str());
            if source.name.is_empty() { value.to_string() } else { format!("{}.{value}", source.name) }
        };
        let from = self.sites.iter().position(|site| site.set == set && site.value == Some(value));
        let names = self.sites[from.unwrap_or(0)..].iter();
        let mut names: Vec<String> = names.map(|site| name(site.set, site.value.unwrap_or(0))).collect();
        names.push(name(set, value));
        names.join("` → `")
    }

    /// The work of a value with the values of its row that it reads, each once.
    pub(in crate::expression) fn all_steps(&self, set: usize, value: usize) -> u64 {
        let steps = |value: usize| match &self.states[set][value] {
            State::Made(made) => made.node.facts.steps,
            _ => 0,
        };
        let State::Made(made) = &self.states[set][value] else { return 0 };
        made.all_uses.iter().map(|used| steps(*used)).fold(steps(value), u64::saturating_add)
    }

    /// Records that the site at hand reads a value of its own row.
    pub(in crate::expression) fn note_use(&mut self, value: usize) {
        self.site().uses.insert(value);
    }

    /// Records that the site at hand reads a set, and returns the number of its frame.
    pub(in crate::expression) fn frame_of(&mut self, target: usize) -> usize {
        self.site().tables.insert(target);
        let set = self.site().set;
        let targets = &mut self.targets[set];
        if let Some(at) = targets.iter().position(|known| *known == target) {
            return at;
        }
        targets.push(target);
        targets.len() - 1
    }

    /// The resolved number of lines of a table that has lines.
    pub(in crate::expression) fn line_facts(
        &mut self,
        set: usize,
    ) -> Result<(Facts, u64, u64), ExpressionError> {
        self.lines(set)?;
        match &self.lines[set] {
            State::Made(made) => {
                let (least, most) = references::line_bounds(&made.node).unwrap_or((0, 0));
                Ok((made.node.facts, least, most))
            }
            _ => Ok((Facts::constant(), 0, 0)),
        }
    }

    pub(super) fn set_form(&mut self, set: usize, key: u64) -> SetForm {
        match std::mem::replace(&mut self.lines[set], State::Waiting) {
            State::Made(made) => {
                let (least, most) = references::line_bounds(&made.node).unwrap_or((0, 0));
                let lines = super::assemble::value_code("lines".to_string(), key, *made);
                SetForm::Lines { lines, least, most }
            }
            _ => SetForm::Rows,
        }
    }
}

/// A variable that is given before each execution.
fn input() -> Made {
    let facts = Facts { is_nullable: true, ..Facts::varying() };
    let node = Node::word(crate::expression::Type::Int, facts, |_, _| None);
    Made {
        node,
        uses: Default::default(),
        all_uses: Default::default(),
        tables: Default::default(),
        is_kept: true,
    }
}

/// `; did you mean …` if a known word is near.
pub(in crate::expression) fn did_you_mean<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> String {
    // Of words this long, a comparison would cost more than it helps.
    if word.len() > 40 {
        return String::new();
    }
    let distances = known.into_iter().map(|known| (distance(word, known), known));
    let nearest = distances.filter(|(distance, known)| *distance <= DISTANCE_MAX.min(known.len() / 2)).min();
    nearest.map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

/// Levenshtein's distance, in bytes.
fn distance(left: &str, right: &str) -> usize {
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (at, byte) in left.bytes().enumerate() {
        let mut current = vec![at + 1];
        for (column, other) in right.bytes().enumerate() {
            let changed = previous[column] + usize::from(byte != other);
            current.push(changed.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[right.len()]
}
