//! `sum`, `count`, `min`, `max` and `lines`: over the lines that a row has in another table.

use super::{
    Compiler, ExpressionError, Facts, Form, Node, Part, Reach, Type, column_of, n_lines, table_argument,
};
use crate::expression::make::{ChildPlace, Frame, Generator, children_value};
use crate::expression::node::Code;
use crate::expression::operators::bounds;
use crate::expression::scope::SourceForm;

/// `lines(table)`: how many lines this row has there.
pub(in crate::expression) fn line_count(
    compiler: &mut Compiler<'_>,
    argument: &Part,
) -> Result<Node, ExpressionError> {
    let table = table_argument(compiler, argument)?;
    is_parent(compiler, argument, table)?;
    let (facts, least, most) = compiler.line_facts(table)?;
    let child = compiler.frame_of(table);
    let facts = Facts { is_unique: false, is_constant: false, n_parts: 1, ..facts };
    let facts = facts.with_reach(i128::from(least), i128::from(most));
    Ok(Node::word(Type::Int, facts, move |g, f| Some(lines_of(g, f, child) as i64)))
}

fn lines_of(generator: &Generator, frame: &mut Frame, child: usize) -> u64 {
    let parent = frame.row;
    let child = frame.child(generator, child);
    let n = n_lines(generator, child, parent);
    if let Some(fault) = child.fault.take()
        && frame.fault.is_none()
    {
        frame.fault = Some(fault);
    }
    n
}

/// The table at hand must be the one whose rows have the lines.
fn is_parent(compiler: &mut Compiler<'_>, part: &Part, table: usize) -> Result<(), ExpressionError> {
    let set = compiler.site().set;
    let is_own = compiler.site().has_rows();
    let parent = match compiler.scope.tables[table].form {
        SourceForm::Lines { parent, .. } => Some(parent),
        _ => None,
    };
    if is_own && parent == Some(set) {
        return Ok(());
    }
    let name = &compiler.scope.tables[table].name;
    let message = match parent {
        None => format!("`{name}` has rows of its own; lines have a table with `each`"),
        Some(parent) => {
            format!(
                "`{name}` has lines of `{}`, and only its columns can read them",
                compiler.scope.tables[parent].name
            )
        }
    };
    Err(compiler.problem(part, message))
}

/// `sum(table.column)` and the like.
pub(in crate::expression) fn aggregate(
    compiler: &mut Compiler<'_>,
    part: &Part,
    function: &str,
    argument: &Part,
) -> Result<Node, ExpressionError> {
    let Form::Member { table, column, row: None } = &argument.form else {
        let message = format!("`{function}` is over lines: `{function}(table.column)`");
        return Err(compiler.problem(argument, message));
    };
    let (target, value) = column_of(compiler, argument, table, column)?;
    is_parent(compiler, argument, target)?;
    let (_, least, most) = compiler.line_facts(target)?;
    let made = compiler.read(argument, target, value)?;
    let kind = made.node.kind.clone();
    let of_line = made.node.facts;
    let is_text = matches!(made.node.code, Code::Text(_));
    let steps = compiler.all_steps(target, value).saturating_add(3).saturating_mul(most.max(1));
    let child = compiler.frame_of(target);
    let facts = Facts {
        is_nullable: false,
        is_unique: false,
        is_constant: false,
        reach: Reach::Unknown,
        characters: 0,
        bytes: 0,
        has_specials: false,
        steps,
        n_parts: 1,
        depth: of_line.depth.saturating_add(1),
        ..of_line
    };
    let lines = Lines { child, value };
    if function == "count" {
        let facts = facts.with_reach(0, i128::from(most));
        return Ok(count(facts, lines, kind == Type::Bool, is_text));
    }
    let is_sum = function == "sum";
    let fits = if is_sum {
        kind.is_number() || kind == Type::Interval
    } else {
        kind == Type::Float || kind.is_word()
    };
    if !fits {
        return Err(compiler.problem(argument, format!("`{function}` of {kind} is not defined")));
    }
    let facts = Facts { is_nullable: !is_sum && (least == 0 || of_line.is_nullable), ..facts };
    if kind == Type::Float {
        return Ok(of_floats(facts, lines, function, &of_line, [least, most]));
    }
    let reach = sum_reach(&of_line, [least, most], is_sum);
    if let (Reach::Words(low, high), (bottom, top)) = (reach, bounds(&kind))
        && (low < i128::from(bottom) || high > i128::from(top))
    {
        let message = format!("`{function}` over {most} lines can reach {high}, which is beyond 64 bits");
        return Err(compiler.problem(part, message));
    }
    Ok(of_words(kind, Facts { reach, ..facts }, lines, function))
}

fn sum_reach(of_line: &Facts, n_lines: [u64; 2], is_sum: bool) -> Reach {
    let Reach::Words(low, high) = of_line.reach else { return Reach::Unknown };
    if !is_sum {
        return of_line.reach;
    }
    // A line that is null adds nothing.
    let least = if of_line.is_nullable { 0 } else { i128::from(n_lines[0]) };
    let most = i128::from(n_lines[1]);
    Reach::Words((low * least).min(low * most), (high * least).max(high * most))
}

#[derive(Clone, Copy)]
struct Lines {
    child: usize,
    value: usize,
}

impl Lines {
    /// Visits the lines of the row at hand.
    fn each(self, generator: &Generator, frame: &mut Frame, mut visit: impl FnMut(&Frame, usize)) {
        let row = frame.row;
        for line in 0..lines_of(generator, frame, self.child) {
            let place = ChildPlace { child: self.child, value: self.value, row, line: Some(line) };
            visit(children_value(generator, frame, &place), self.value);
        }
    }
}

/// Lines of which a bool is true, or another value is not null.
fn count(facts: Facts, lines: Lines, is_bool: bool, is_text: bool) -> Node {
    Node::word(Type::Int, facts, move |g, f| {
        let mut n = 0;
        lines.each(g, f, |line, value| {
            let counts = if is_bool {
                line.word(value) == Some(1)
            } else if is_text {
                line.kept_text(value).is_some()
            } else {
                line.word(value).is_some()
            };
            n += i64::from(counts);
        });
        Some(n)
    })
}

fn of_words(kind: Type, facts: Facts, lines: Lines, function: &str) -> Node {
    let is_sum = function == "sum";
    let fold: fn(i64, i64) -> i64 = match function {
        "sum" => i64::saturating_add,
        "min" => i64::min,
        _ => i64::max,
    };
    Node::word(kind, facts, move |g, f| {
        let mut total = if is_sum { Some(0) } else { None };
        lines.each(g, f, |line, value| {
            if let Some(word) = line.word(value) {
                total = Some(total.map_or(word, |total| fold(total, word)));
            }
        });
        total
    })
}

fn of_floats(facts: Facts, lines: Lines, function: &str, of_line: &Facts, n_lines: [u64; 2]) -> Node {
    let is_sum = function == "sum";
    let fold: fn(f64, f64) -> f64 = match function {
        "sum" => |total, value| total + value,
        "min" => f64::min,
        _ => f64::max,
    };
    let reach = match of_line.reach {
        Reach::Floats(low, high) if is_sum => {
            let most = n_lines[1] as f64;
            Reach::Floats((low * most).min(0.0), (high * most).max(0.0))
        }
        other => other,
    };
    Node::float(Facts { reach, ..facts }, move |g, f| {
        let mut total = if is_sum { Some(0.0) } else { None };
        lines.each(g, f, |line, value| {
            if let Some(number) = line.float(value) {
                total = Some(total.map_or(number, |total| fold(total, number)));
            }
        });
        total
    })
}
