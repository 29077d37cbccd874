//! Where a script uses a variable that may have no value: every way through its conditions is followed, from the first
//! transaction of a client, which has what it was given and nothing of other scripts.
//!
//! Whether a condition can hold is not asked, and a `\aset` counts as if its queries had rows: what then has no value
//! is found when it is used.

use std::collections::HashMap;

use crate::script::expr::Expr;
use crate::script::program::{Delay, Program, ScriptCommand, ShellWord};
use crate::script::statement::{Fetch, Statement, TextPiece};
use crate::script::variables::VariableId;

/// Longest name of a column in bytes (PostgreSQL's NAMEDATALEN).
const COLUMN_BYTES_MAX: usize = 63;

/// The columns of what a statement fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// The names of all of them.
    Known(Vec<String>),
    /// Only the running statement shows them: any name with the right prefix may be set.
    Unknown,
}

/// The first use of a variable that has no value on some way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsetUse {
    /// The variable.
    pub variable: VariableId,
    /// Index of the command that uses it.
    pub command: usize,
}

/// The variables that `program` may use before they are set; `given` are those that every client begins with, and `columns`
/// has an entry for each statement.
pub fn unset_uses(program: &Program, given: &[VariableId], columns: &[Columns]) -> Vec<UnsetUse> {
    let declared = program.declared.iter().flat_map(|declared| &declared.parameters);
    let parameters = declared.map(|parameter| parameter.variable);
    let mut flow = Flow::new(program, columns);
    given.iter().copied().chain(parameters).for_each(|id| flow.set(id.index()));
    for at in 0..program.commands.len() {
        flow.pass(at);
    }
    flow.found
}

/// The first command of `program` that can set the variable.
pub fn setter(program: &Program, variable: VariableId, columns: &[Columns]) -> Option<usize> {
    let name = program.variables.name(variable);
    let sets = |statement: &Statement, columns: &Columns| {
        let column = prefix(&statement.fetch).and_then(|prefix| name.strip_prefix(prefix));
        match (column, columns) {
            (None, _) => false,
            (Some(_), Columns::Unknown) => true,
            (Some(column), Columns::Known(names)) => names.iter().any(|name| name == column),
        }
    };
    program.commands.iter().position(|step| match &step.command {
        ScriptCommand::Set { variable: set, .. } | ScriptCommand::SetShell { variable: set, .. } => {
            *set == variable
        }
        ScriptCommand::Sql { statement } => sets(&program.statements[*statement], &columns[*statement]),
        _ => false,
    })
}

/// The variables that begin with each prefix, of prefixes that few begin with: a script of others may have very many branches.
fn possible_columns<'a>(
    program: &Program,
    prefixes: &HashMap<&'a str, usize>,
) -> HashMap<&'a str, Vec<usize>> {
    const N_MAX: usize = 100;
    let mut found: HashMap<&'a str, Vec<usize>> = HashMap::new();
    for index in 0..program.variables.len() {
        let id = VariableId(u32::try_from(index).expect("scripts are far smaller than 4 GiB"));
        let name = program.variables.name(id);
        for len in name.len().saturating_sub(COLUMN_BYTES_MAX)..=name.len() {
            let known = name.get(..len).and_then(|prefix| prefixes.get_key_value(prefix));
            if let Some((prefix, _)) = known {
                found.entry(*prefix).or_default().push(index);
            }
        }
    }
    found.retain(|_, variables| variables.len() <= N_MAX);
    found
}

/// The prefix of the variables that a statement's columns become.
fn prefix(fetch: &Fetch) -> Option<&str> {
    match fetch {
        Fetch::Gset { prefix } | Fetch::Aset { prefix } => Some(prefix),
        Fetch::Discard | Fetch::Rows => None,
    }
}

/// What is set at some place of a script.
struct Flow<'a> {
    program: &'a Program,
    columns: &'a [Columns],
    /// Variables by their slots, and behind them the prefixes whose columns are unknown.
    is_set: Vec<bool>,
    prefixes: HashMap<&'a str, usize>,
    /// Of each such prefix, the variables that may be its columns, if they are few: branches may set a variable in different ways.
    with_prefix: HashMap<&'a str, Vec<usize>>,
    /// What is set, in order, so that the end of a branch can take it back.
    log: Vec<usize>,
    /// The conditions that are open here.
    open: Vec<Branches>,
    is_found: Vec<bool>,
    found: Vec<UnsetUse>,
}

/// The branches of one `\if`.
struct Branches {
    /// Length of the log where the branch begins.
    start: usize,
    /// In how many of the branches before something was set.
    n_setting: HashMap<usize, usize>,
    n: usize,
    has_else: bool,
}

impl<'a> Flow<'a> {
    fn new(program: &'a Program, columns: &'a [Columns]) -> Flow<'a> {
        let n_variables = program.variables.len();
        let mut prefixes = HashMap::new();
        for (statement, columns) in program.statements.iter().zip(columns) {
            if let (Some(prefix), Columns::Unknown) = (prefix(&statement.fetch), columns) {
                let next = n_variables + prefixes.len();
                prefixes.entry(prefix).or_insert(next);
            }
        }
        let with_prefix = possible_columns(program, &prefixes);
        Flow {
            program,
            columns,
            with_prefix,
            is_set: vec![false; n_variables + prefixes.len()],
            prefixes,
            log: Vec::new(),
            open: Vec::new(),
            is_found: vec![false; n_variables],
            found: Vec::new(),
        }
    }

    /// Takes the command's uses, then what it sets.
    fn pass(&mut self, at: usize) {
        let program = self.program;
        match &program.commands[at].command {
            ScriptCommand::Sql { statement } => {
                let statement_of = &program.statements[*statement];
                let pieces = statement_of.pieces.iter().chain(statement_of.copy_data.iter().flatten());
                pieces.filter_map(TextPiece::variable).for_each(|id| self.take(id, at));
                self.fetch(*statement);
            }
            ScriptCommand::Set { variable, expr, .. } => {
                self.take_all(expr, at);
                self.set(variable.index());
            }
            ScriptCommand::Sleep(Delay::Variable { variable, .. }) => self.take(*variable, at),
            ScriptCommand::If { condition, .. } => {
                self.take_all(condition, at);
                let (start, n_setting) = (self.log.len(), HashMap::new());
                self.open.push(Branches { start, n_setting, n: 0, has_else: false });
            }
            ScriptCommand::Elif { condition, .. } => {
                self.end_branch();
                self.take_all(condition, at);
            }
            ScriptCommand::Else { .. } => {
                self.end_branch();
                self.open.last_mut().into_iter().for_each(|branches| branches.has_else = true);
            }
            ScriptCommand::Endif | ScriptCommand::EndRepeat { .. } => self.join(),
            ScriptCommand::Repeat { each, count, .. } => {
                self.take(*count, at);
                let (start, n_setting) = (self.log.len(), HashMap::new());
                self.open.push(Branches { start, n_setting, n: 0, has_else: false });
                let declared = program.declared.as_ref();
                let drawn = declared.and_then(|declared| declared.each.get(usize::from(*each)));
                drawn.into_iter().flatten().for_each(|drawn| self.set(drawn.variable.index()));
            }
            ScriptCommand::Shell { words } => self.take_words(words, at),
            ScriptCommand::SetShell { variable, words } => {
                self.take_words(words, at);
                self.set(variable.index());
            }
            ScriptCommand::Sleep(Delay::Fixed { .. })
            | ScriptCommand::StartPipeline
            | ScriptCommand::SyncPipeline
            | ScriptCommand::EndPipeline => {}
        }
    }

    fn set(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.is_set[slot], true) {
            self.log.push(slot);
        }
    }

    /// What the rows of a statement set.
    fn fetch(&mut self, statement: usize) {
        let program = self.program;
        let Some(prefix) = prefix(&program.statements[statement].fetch) else { return };
        match &self.columns[statement] {
            Columns::Unknown => {
                let slot = self.prefixes[prefix];
                if !self.is_set[slot] {
                    self.set(slot);
                    let variables = self.with_prefix.remove(prefix).unwrap_or_default();
                    variables.iter().for_each(|variable| self.set(*variable));
                    self.with_prefix.insert(prefix, variables);
                }
            }
            Columns::Known(names) => {
                let ids = names.iter().filter_map(|name| program.variables.find(&format!("{prefix}{name}")));
                ids.for_each(|id| self.set(id.index()));
            }
        }
    }

    /// Back to what was set before the `\if`.
    fn end_branch(&mut self) {
        let Some(branches) = self.open.last_mut() else { return };
        for slot in self.log.drain(branches.start..) {
            self.is_set[slot] = false;
            *branches.n_setting.entry(slot).or_insert(0) += 1;
        }
        branches.n += 1;
    }

    /// After an `\endif`, what each of its branches sets is set, if one of them is always taken.
    fn join(&mut self) {
        self.end_branch();
        let Some(Branches { n_setting, n, has_else: true, .. }) = self.open.pop() else { return };
        let in_all = n_setting.into_iter().filter(|(_, n_branches)| *n_branches == n);
        in_all.for_each(|(slot, _)| self.set(slot));
    }

    fn take(&mut self, variable: VariableId, command: usize) {
        let slot = variable.index();
        if self.is_set[slot] || self.is_found[slot] || self.may_be_a_column(variable) {
            return;
        }
        self.is_found[slot] = true;
        self.found.push(UnsetUse { variable, command });
    }

    /// Whether it has the prefix of columns that are unknown, and their rows have come.
    fn may_be_a_column(&self, variable: VariableId) -> bool {
        let name = self.program.variables.name(variable);
        let begin = name.len().saturating_sub(COLUMN_BYTES_MAX);
        let mut prefixes = (begin..=name.len()).filter_map(|len| self.prefixes.get(name.get(..len)?));
        prefixes.any(|slot| self.is_set[*slot])
    }

    fn take_words(&mut self, words: &[ShellWord], at: usize) {
        for word in words {
            if let ShellWord::Variable(variable) = word {
                self.take(*variable, at);
            }
        }
    }

    fn take_all(&mut self, expr: &Expr, at: usize) {
        match expr {
            Expr::Constant(_) | Expr::Draw { .. } => {}
            Expr::Variable(variable) => self.take(*variable, at),
            Expr::Binary(_, operands) | Expr::And(operands) | Expr::Or(operands) => {
                operands.iter().for_each(|operand| self.take_all(operand, at));
            }
            Expr::Not(operand) | Expr::Is(operand, _) => self.take_all(operand, at),
            Expr::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    self.take_all(condition, at);
                    self.take_all(result, at);
                }
                self.take_all(otherwise, at);
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|argument| self.take_all(argument, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses that are found, as `LINE NAME`; `given` is set, and the columns of statements are those after `--`.
    fn found(source: &str, given: &[&str]) -> Vec<String> {
        let program = Program::compile("s", source).unwrap();
        let ids: Vec<VariableId> = given.iter().filter_map(|name| program.variables.find(name)).collect();
        let columns = |statement: &Statement| match statement.text.split_once("as ") {
            _ if statement.text.contains("unknown") => Columns::Unknown,
            Some((_, names)) => Columns::Known(names.trim().split(',').map(str::to_owned).collect()),
            None => Columns::Known(Vec::new()),
        };
        let columns: Vec<Columns> = program.statements.iter().map(columns).collect();
        let place = |found: UnsetUse| {
            format!("{} {}", program.commands[found.command].line, program.variables.name(found.variable))
        };
        unset_uses(&program, &ids, &columns).into_iter().map(place).collect()
    }

    #[test]
    fn every_way_through_a_script_is_followed() {
        for (source, expected) in [
            ("select :x;", &["1 x"][..]),
            ("\\set x 1\nselect :x, :x;", &[]),
            ("select :x, :y, :x;\nselect :y, :z;", &["1 x", "1 y", "2 z"]),
            ("select :x;\n\\set x 1", &["1 x"]),
            ("\\set x :x + 1", &["1 x"]),
            ("select :given;", &[]),
            ("\\set y case when :given = 1 then :x else abs(-:z) end", &["1 x", "1 z"]),
            ("\\set y :given = 1 and :x is null or not :z", &["1 x", "1 z"]),
            ("\\sleep :x ms\n\\shell echo :y ::z\n\\setshell x echo :u", &["1 x", "2 y", "3 u"]),
            ("\\setshell x echo 1\nselect :x;", &[]),
            // One branch of several.
            ("\\if :x\n\\endif", &["1 x"]),
            ("\\if :given\n\\set x 1\n\\endif\nselect :x;", &["4 x"]),
            ("\\if :given\n\\set x 1\n\\else\n\\set x 2\n\\endif\nselect :x;", &[]),
            ("\\if :given\n\\set x 1\n\\elif 1\n\\set x 2\n\\endif\nselect :x;", &["6 x"]),
            (
                "\\if 0\n\\set x 1\n\\elif 1\n\\set y 1\n\\else\n\\set x 2\n\\endif\nselect :x, :y;",
                &["8 x", "8 y"],
            ),
            ("\\if :given\n\\set x 1\n\\elif :x\n\\set x 2\n\\endif", &["3 x"]),
            ("\\if 1\n\\set x 1\nselect :x;\n\\else\nselect :x;\n\\endif\nselect :x;", &["5 x"]),
            ("\\set x 1\n\\if 1\n\\set x 2\n\\endif\nselect :x;", &[]),
            (
                "\\if 1\n\\if 1\n\\set x 1\n\\else\n\\set x 2\n\\endif\n\\else\n\\set x 3\n\\endif\nselect :x;",
                &[],
            ),
            ("\\if 1\n\\if 1\n\\set x 1\n\\endif\n\\else\n\\set x 3\n\\endif\nselect :x;", &["8 x"]),
            // Columns.
            ("select as q,r \\gset\nselect :q, :r, :s;", &["2 s"]),
            ("select as q \\gset p_\nselect :p_q, :q;", &["2 q"]),
            ("select as q \\aset p_\nselect :p_q, :p_r;", &["2 p_r"]),
            ("select :q \\gset\n", &["1 q"]),
            ("delete from t \\gset\nselect :q;", &["2 q"]),
            ("select unknown \\gset p_\nselect :p_q, :p_, :q, :p;", &["2 q", "2 p"]),
            ("select unknown \\gset\nselect :p_q, :q;", &[]),
            ("select :q;\nselect unknown \\gset", &["1 q"]),
            ("\\if :given\nselect unknown \\gset p_\n\\endif\nselect :p_q;", &["4 p_q"]),
            (
                "\\if 1\nselect unknown \\gset p_\n\\else\nselect unknown \\gset p_\n\\endif\nselect :p_q;",
                &[],
            ),
            // Branches that set it in different ways.
            ("\\if 1\nselect unknown \\gset\n\\else\n\\set q 0\n\\endif\nselect :q, :r;", &["6 r"]),
            (
                "\\if 1\nselect unknown \\gset a_\n\\else\nselect unknown \\gset\n\\endif\nselect :a_x, :x;",
                &["6 x"],
            ),
            // What is no variable, and what is one although it looks like text.
            ("select 1::int, '10:30', a[1:2], b := 1;", &[]),
            ("select a[1:n], 'HH24:MI';", &["1 n", "1 MI"]),
            ("copy t from stdin;\n\\copydata\n:x\t1\n\\.\n", &["1 x"]),
            ("select 1 \\; select :x;", &["1 x"]),
        ] {
            assert_eq!(found(source, &["given"]), expected, "{source}");
        }
    }

    #[test]
    fn the_command_that_sets_a_variable_is_known() {
        let program =
            Program::compile("s", "select :x;\n\\set x 1\nselect 1 \\gset p_\nselect :p_y;").unwrap();
        let columns = |second| vec![Columns::Known(Vec::new()), second, Columns::Known(Vec::new())];
        let setter = |name, second| setter(&program, program.variables.find(name).unwrap(), &columns(second));
        assert_eq!(setter("x", Columns::Unknown), Some(1));
        assert_eq!(setter("p_y", Columns::Unknown), Some(2));
        assert_eq!(setter("p_y", Columns::Known(vec!["y".into()])), Some(2));
        assert_eq!(setter("p_y", Columns::Known(vec!["z".into()])), None);
    }

    #[test]
    fn long_scripts_with_many_conditions_take_little_time() {
        let n = 100_000;
        let mut source = String::new();
        for i in 0..n {
            source += &format!("\\if 1\n\\set v{i} 1\n\\endif\nselect unknown \\gset p{i}_\n");
        }
        source += "select :v7, :p8_x, :q;";
        let begun = std::time::Instant::now();
        assert_eq!(found(&source, &[]).len(), 2);
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }
}
