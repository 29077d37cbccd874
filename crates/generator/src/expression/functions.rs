//! The functions, each with its arguments; what each means is in the table of the workloads' documentation.

mod captured;
mod choices;
mod documents;
mod draws;
mod embeddings;
mod numbers;
mod texts;
mod times;
mod words;

use super::compile::{Compiler, did_you_mean};
use super::node::{Code, Facts, FloatFn, Node, TextFn, WordFn};
use super::operators;
use super::parse::{ExpressionError, Form, Part};
use super::references;
use super::scope::WordList;
use crate::value::kind::Type;

type Made = Result<Node, ExpressionError>;

/// A function: its name, how it is called, and what it makes of its arguments.
struct Function {
    name: &'static str,
    usage: &'static str,
    least: usize,
    most: usize,
    make: fn(&mut Call<'_, '_>) -> Made,
}

const fn function(
    usage: &'static str,
    least: usize,
    most: usize,
    make: fn(&mut Call<'_, '_>) -> Made,
) -> Function {
    let mut length = 0;
    while usage.as_bytes()[length] != b'(' {
        length += 1;
    }
    let (name, _) = usage.split_at(length);
    Function { name, usage, least, most, make }
}

/// As many arguments as an expression can have.
const MANY: usize = usize::MAX;

const FUNCTIONS: &[Function] = &[
    function("uniform(least, most)", 2, 2, draws::uniform),
    function("normal(mean, deviation, least, most)", 4, 4, draws::normal),
    function("exponential(mean)", 1, 1, draws::exponential),
    function("zipf(n, exponent)", 2, 2, draws::zipf),
    function("zipf_ycsb(n)", 1, 1, draws::zipf_ycsb),
    function("special(least, most)", 2, 2, draws::special),
    function("hot(n, items, requests)", 3, 3, draws::hot),
    function("chance(probability)", 1, 1, draws::chance),
    function("latest(table, exponent)", 2, 2, draws::latest),
    function("fresh(table)", 1, 1, draws::fresh),
    function("near(x, least, most)", 3, 3, captured::near),
    function("now()", 0, 0, captured::now),
    function("permute(i, n, seed)", 2, 3, numbers::permute),
    function("hash(x, y)", 1, 2, numbers::hash),
    function("fnv64(x)", 1, 1, numbers::fnv64),
    function("int(x)", 1, 1, numbers::int),
    function("float(x)", 1, 1, numbers::float),
    function("decimal(i, digits)", 2, 2, numbers::decimal),
    function("round(x, digits)", 1, 2, numbers::round),
    function("floor(x)", 1, 1, numbers::floor),
    function("abs(x)", 1, 1, numbers::abs),
    function("least(a, b, …)", 2, MANY, numbers::least),
    function("greatest(a, b, …)", 2, MANY, numbers::greatest),
    function("choose(condition, a, b)", 3, 3, choices::choose),
    function("nullable(probability, x)", 2, 2, choices::nullable),
    function("pick(a, b, …)", 1, MANY, choices::pick),
    function("pick_weighted(a, weight, b, weight, …)", 2, MANY, choices::pick_weighted),
    function("ascii(n)", 1, 2, texts::ascii),
    function("letters(least, most)", 1, 2, texts::letters),
    function("alnum(least, most)", 1, 2, texts::alnum),
    function("pattern('##-??')", 1, 1, texts::pattern),
    function("compressible(n, ratio)", 2, 2, texts::compressible),
    function("words('lists/FILE', least, most)", 3, 3, words::words),
    function("prose('lists/FILE', least, most)", 3, 3, words::prose),
    function("line_of('lists/FILE', i)", 2, 2, words::line_of),
    function("concat(a, b, …)", 1, MANY, texts::concat),
    function("zeros(i, width)", 2, 2, texts::zeros),
    function("substr(text, from, length)", 3, 3, texts::substr),
    function("upper(text)", 1, 1, texts::upper),
    function("length(text)", 1, 1, texts::length),
    function("bytes(text)", 1, 1, texts::bytes),
    function("date(year, month, day)", 1, 3, times::date),
    function("timestamp('2024-01-31 12:00')", 1, 1, times::timestamp),
    function("days(x)", 1, 1, times::days),
    function("seconds(x)", 1, 1, times::seconds),
    function("year(date)", 1, 1, times::year),
    function("json('key', value, …)", 2, MANY, documents::json),
    function("list(n, x)", 2, 2, documents::list),
    function("uuid()", 0, 0, documents::uuid),
    function("uuid7(timestamp)", 1, 1, documents::uuid7),
    function("vector(dimensions, clusters, spread)", 3, 3, embeddings::vector),
    function("rows(table)", 1, 1, |call| references::row_number(call.compiler, &call.arguments[0])),
    function("lines(table)", 1, 1, |call| references::line_count(call.compiler, &call.arguments[0])),
    function("sum(table.column)", 1, 1, aggregate),
    function("count(table.column)", 1, 1, aggregate),
    function("min(table.column)", 1, 1, aggregate),
    function("max(table.column)", 1, 1, aggregate),
];

fn aggregate(call: &mut Call<'_, '_>) -> Made {
    references::aggregate(call.compiler, call.part, call.name, &call.arguments[0])
}

/// How each function is called, in the order of the documentation.
pub fn usages() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.usage)
}

/// Whether a function has this name.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

/// A call of a function.
pub(super) fn call(compiler: &mut Compiler<'_>, part: &Part, name: &str, arguments: &[Part]) -> Made {
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        let meant = did_you_mean(name, FUNCTIONS.iter().map(|function| function.name));
        return Err(compiler.problem(part, format!("unknown function `{name}`{meant}")));
    };
    if arguments.len() < function.least || arguments.len() > function.most {
        let message = format!("`{}`: {} arguments are given", function.usage, arguments.len());
        return Err(compiler.problem(part, message));
    }
    (function.make)(&mut Call { compiler, part, name: function.name, arguments })
}

/// A call whose arguments are being resolved.
struct Call<'c, 's> {
    compiler: &'c mut Compiler<'s>,
    part: &'c Part,
    name: &'static str,
    arguments: &'c [Part],
}

/// An argument of 64 bits.
struct Word {
    code: WordFn,
    facts: Facts,
    constant: Option<i64>,
}

/// An argument that is a double.
struct Double {
    code: FloatFn,
    facts: Facts,
    constant: Option<f64>,
}

/// An argument that is a text.
struct Characters {
    code: TextFn,
    facts: Facts,
}

impl Call<'_, '_> {
    fn node(&mut self, argument: usize) -> Made {
        self.compiler.part(&self.arguments[argument])
    }

    fn problem(&self, message: String) -> ExpressionError {
        self.compiler.problem(self.part, message)
    }

    fn problem_at(&self, argument: usize, message: String) -> ExpressionError {
        self.compiler.problem(&self.arguments[argument], message)
    }

    fn unfit(&self, argument: usize, wanted: &str, found: &Type) -> ExpressionError {
        self.problem_at(argument, format!("`{}` takes {wanted} here, not {found}", self.name))
    }

    fn int(&mut self, argument: usize) -> Result<Word, ExpressionError> {
        let node = self.node(argument)?;
        self.as_int(argument, node)
    }

    fn as_int(&self, argument: usize, node: Node) -> Result<Word, ExpressionError> {
        let constant = node.constant_word();
        match (node.kind, node.code) {
            (Type::Int, Code::Word(code)) => Ok(Word { code, facts: node.facts, constant }),
            (kind, _) => Err(self.unfit(argument, "an int", &kind)),
        }
    }

    fn bool(&mut self, argument: usize) -> Result<Word, ExpressionError> {
        let node = self.node(argument)?;
        let constant = node.constant_word();
        match (node.kind, node.code) {
            (Type::Bool, Code::Word(code)) => Ok(Word { code, facts: node.facts, constant }),
            (kind, _) => Err(self.unfit(argument, "a bool", &kind)),
        }
    }

    /// A float, or an int as one.
    fn float(&mut self, argument: usize) -> Result<Double, ExpressionError> {
        let node = self.node(argument)?;
        if !matches!(node.kind, Type::Int | Type::Float) {
            return Err(self.unfit(argument, "a float", &node.kind));
        }
        let constant = node.constant_float().or_else(|| node.constant_word().map(|word| word as f64));
        let (code, facts) = operators::to_float(self.compiler, &self.arguments[argument], node)?;
        Ok(Double { code, facts, constant })
    }

    /// Any value as text.
    fn any_text(&mut self, argument: usize) -> Result<Characters, ExpressionError> {
        let node = self.node(argument)?;
        let facts = Facts { characters: node.longest(), bytes: node.bytes(), ..node.facts };
        Ok(Characters { code: node.into_text(), facts })
    }

    fn text(&mut self, argument: usize) -> Result<Characters, ExpressionError> {
        let node = self.node(argument)?;
        if node.kind != Type::Text {
            return Err(self.unfit(argument, "a text", &node.kind));
        }
        let facts = node.facts;
        Ok(Characters { code: node.into_text(), facts })
    }

    fn constant_int(&mut self, argument: usize) -> Result<i64, ExpressionError> {
        let found = self.int(argument)?;
        found.constant.ok_or_else(|| self.unknown(argument))
    }

    fn constant_float(&mut self, argument: usize) -> Result<f64, ExpressionError> {
        let found = self.float(argument)?;
        found.constant.ok_or_else(|| self.unknown(argument))
    }

    fn constant_text(&mut self, argument: usize) -> Result<String, ExpressionError> {
        let node = self.node(argument)?;
        if node.kind != Type::Text {
            return Err(self.unfit(argument, "a text", &node.kind));
        }
        node.constant_text().ok_or_else(|| self.unknown(argument))
    }

    fn unknown(&self, argument: usize) -> ExpressionError {
        let message = format!("`{}` needs a value here that is known when the plan is made", self.name);
        self.problem_at(argument, message)
    }

    /// The words of a list that has some.
    fn list(&mut self, argument: usize) -> Result<std::sync::Arc<WordList>, ExpressionError> {
        // What the data depends on is known by the names of lists, so they are not put together.
        if !matches!(&self.arguments[argument].form, Form::Text(_) | Form::Name(_)) {
            return Err(self
                .problem_at(argument, "expected the name of a list, such as 'lists/words.txt'".to_string()));
        }
        let file = self.constant_text(argument)?;
        let scope = self.compiler.scope;
        let Some(list) = scope.lists.get(&file) else {
            let meant = did_you_mean(&file, scope.lists.keys().map(String::as_str));
            return Err(self.problem_at(argument, format!("there is no list `{file}`{meant}")));
        };
        if list.words.is_empty() {
            return Err(self.problem_at(argument, format!("`{file}` is empty")));
        }
        self.compiler.used.lists.insert(file);
        Ok(std::sync::Arc::clone(list))
    }

    /// All arguments, as one type; `null` is of that of the others.
    fn alike(&mut self, arguments: impl Iterator<Item = usize>) -> Result<Vec<Node>, ExpressionError> {
        let mut nodes = Vec::new();
        let mut nulls = Vec::new();
        for (at, argument) in arguments.enumerate() {
            if matches!(&self.arguments[argument].form, Form::Name(name) if name == "null") {
                nulls.push(at);
            } else {
                nodes.push(self.node(argument)?);
            }
        }
        let mut nodes = operators::alike(self.compiler, self.part, nodes)?;
        for at in nulls {
            let Some(null) = nodes.first().map(null_of) else {
                return Err(self.problem(format!("nothing but `null` for `{}`", self.name)));
            };
            nodes.insert(at, null);
        }
        Ok(nodes)
    }

    /// Whether an argument is a call of this function.
    fn is_call(&self, argument: usize, function: &str) -> bool {
        matches!(&self.arguments[argument].form, Form::Call { name, .. } if name == function)
    }
}

/// Null as a value of the type of another, with whose interval it has none of its own.
fn null_of(other: &Node) -> Node {
    let kind = other.kind.clone();
    let facts = Facts { is_nullable: true, reach: other.facts.reach, ..Facts::constant() };
    match other.code {
        Code::Word(_) => Node::word(kind, facts, |_, _| None),
        Code::Float(_) => Node::float(facts, |_, _| None),
        Code::Text(_) => Node::text(kind, facts, |_, _, _| false),
    }
}

/// A problem unless something is right.
fn ensure(is_right: bool, problem: impl FnOnce() -> ExpressionError) -> Result<(), ExpressionError> {
    if is_right { Ok(()) } else { Err(problem()) }
}
