//! From a manifest to something that makes rows and parameters: braces expanded, names given to the expressions' scope, compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::directory::{Directory, LISTS, MANIFEST};
use crate::expression::{Constant, Expression, Generator, Scope, TableSource, Type, ValueFacts, ValueSource};
use crate::instance::choice::Chosen;
use crate::instance::drawn::{DrawnSets, REUSED, REUSED_DRAWS, RowsProblem, TransactionRows};
use crate::instance::places::Places;
use crate::instance::sql::{self, BraceSet, SqlPart};
use crate::instance::table::{RowSource, Table, TableColumn};
use crate::instance::{CheckSql, DirectoryTransaction, EachParameters, Parameter, variable_name};
use crate::manifest::braces::{Braces, numbers};
use crate::manifest::captured::DeclaredData;
use crate::manifest::cross::{check_file, script_file};
use crate::manifest::tables::{DeclaredTable, NamedText, TableSize};
use crate::manifest::transactions::{DeclaredTransaction, DrawsSpec};
use crate::manifest::{Manifest, OptionValue};
use crate::native::NativeTable;
use crate::problem::{Problem, meant, sorted};
use crate::value::is_identifier;

/// Most tables, braces expanded.
const TABLES_MAX: usize = 1000;
/// Most parameters of a transaction or a loop, braces expanded.
const PARAMETERS_MAX: usize = 1000;
/// Most columns, hidden values and parameters together, braces expanded.
const VALUES_MAX: usize = 100_000;
/// Most problems that are collected.
const PROBLEMS_MAX: usize = 100;

/// The parts of an instance, built.
pub(super) struct Built {
    pub(super) tables: Vec<Table>,
    pub(super) transactions: Vec<DirectoryTransaction>,
    pub(super) schema: Vec<SqlPart>,
    pub(super) after: Vec<SqlPart>,
    pub(super) checks: Vec<CheckSql>,
    pub(super) generator: Arc<Generator>,
}

/// A directory that is being built.
pub(super) struct Build<'a> {
    manifest: &'a Manifest,
    directory: &'a Directory,
    chosen: &'a Chosen,
    places: Places<'a>,
    scope: Scope,
    problems: Vec<Problem>,
    /// Whether a `let` or a table is missing in the scope, so that what would name it cannot be judged.
    is_broken: bool,
    tables: Vec<TableDraft<'a>>,
    /// Tables whose rows a library makes.
    native: Vec<NativeTable>,
    brace_sets: Vec<BraceSet>,
    n_values: usize,
}

/// A table whose values are not compiled yet.
struct TableDraft<'a> {
    spec: &'a DeclaredTable,
    name: String,
    /// Number of the table in the scope.
    number: usize,
    n_rows: u64,
    /// Where the expression of each value stands.
    places: Vec<Range<usize>>,
}

/// A transaction whose parameters are not compiled yet.
struct TransactionDraft<'a> {
    spec: &'a DeclaredTransaction,
    set: usize,
    each: Vec<usize>,
    draws: Option<TransactionRows>,
}

/// Values that were parsed, braces expanded, with the places of their expressions.
type Values = (Vec<ValueSource>, Vec<Range<usize>>);

impl<'a> Build<'a> {
    pub(super) fn new(manifest: &'a Manifest, directory: &'a Directory, chosen: &'a Chosen) -> Build<'a> {
        let mut scope = Scope::new(chosen.data_seed, Constant::Int(chosen.scale.into()));
        for (name, value) in &chosen.options {
            scope.set_option(name, constant(value));
        }
        for (file, text) in directory.files().iter().filter(|(file, _)| file.starts_with(LISTS)) {
            scope.set_list(file, text);
        }
        Build {
            manifest,
            directory,
            chosen,
            places: Places::new(directory.manifest()),
            scope,
            problems: Vec::new(),
            is_broken: false,
            tables: Vec::new(),
            native: Vec::new(),
            brace_sets: Vec::new(),
            n_values: 0,
        }
    }

    /// Builds everything.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(super) fn finish(mut self) -> Result<Built, Vec<Problem>> {
        self.add_lets();
        let manifest = self.manifest;
        for spec in &manifest.tables {
            self.add_tables(spec);
        }
        self.add_native();
        let drafts: Vec<TransactionDraft<'a>> =
            manifest.transactions.iter().map(|spec| self.add_transaction(spec)).collect();
        let schema = self.sql("schema.sql");
        let after = self.sql("after.sql");
        let checks = self.checks();
        if self.is_broken || !self.problems.is_empty() {
            return Err(sorted(self.problems));
        }
        let Build { places, scope, tables, native, chosen, directory, .. } = self;
        let generator = scope.compile().map_err(|errors| {
            let problems = errors.iter().take(PROBLEMS_MAX).map(|error| places.problem(error));
            let mut problems = sorted(problems.collect());
            // The tables of a name with braces all have the same.
            problems.dedup_by_key(|problem| (problem.line, problem.column));
            problems
        })?;
        let transactions = drafts.iter().map(|draft| transaction(draft, directory, &generator)).collect();
        let text: Arc<str> = directory.manifest().into();
        let made = tables.into_iter().map(|draft| draft.table(&generator, chosen.scale, &text));
        let native = native.into_iter().map(|table| Table::native(table, manifest, chosen.scale, &text));
        let tables = made.chain(native).collect();
        Ok(Built { tables, transactions, schema, after, checks, generator })
    }

    fn problem(&mut self, at: &Range<usize>, message: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem::at(MANIFEST, self.places.manifest, at.clone(), message));
        }
    }

    fn parse(&mut self, text: &str, at: &Range<usize>, from: usize) -> Option<Expression> {
        match self.places.parse(text, at, from) {
            Ok(expression) => Some(expression),
            Err(problem) => {
                self.is_broken = true;
                self.problems.extend((self.problems.len() < PROBLEMS_MAX).then_some(problem));
                None
            }
        }
    }

    /// Named expressions, of which the variant replaces some.
    fn add_lets(&mut self) {
        let manifest = self.manifest;
        for one in effective_lets(manifest, self.chosen) {
            if let Some(expression) = self.parse(&one.text, &one.at, 0) {
                self.scope.set_let(&one.name, expression);
            }
        }
    }

    fn add_tables(&mut self, spec: &'a DeclaredTable) {
        let Some(names) = self.names(&spec.name, &spec.name_at) else { return };
        if let Ok(Some(braces)) = Braces::from_name(&spec.name) {
            let numbered = names.iter().map(|(number, name)| (number.unwrap_or(0), name.clone()));
            let (prefix, suffix) = (braces.prefix.to_string(), braces.suffix.to_string());
            self.brace_sets.push(BraceSet { prefix, suffix, tables: numbered.collect() });
        }
        if self.tables.len() + names.len() > TABLES_MAX {
            self.is_broken = true;
            return self.problem(&spec.name_at, format!("a workload has at most {TABLES_MAX} tables"));
        }
        let (rows, each) = match &spec.size {
            TableSize::Rows(rows) => (self.parse(&rows.text, &rows.at, 0), None),
            TableSize::Each { parent, lines, .. } => {
                let lines = self.parse(&lines.text, &lines.at, 0);
                (None, lines.map(|lines| (parent.clone(), lines)))
            }
        };
        let columns = self.values(&spec.columns, false, names.len());
        let hidden = self.values(&spec.hidden, true, names.len());
        let (Some((mut values, mut places)), Some(hidden)) = (columns, hidden) else { return };
        values.extend(hidden.0);
        places.extend(hidden.1);
        self.check_doubles(&values, &places, "value of the table");
        for (_, name) in names {
            if self.tables.iter().any(|table| table.name == name) {
                self.problem(&spec.name_at, format!("another table is called `{name}`, too"));
            }
            if self.is_broken {
                continue;
            }
            let source = TableSource {
                name: name.clone(),
                rows: rows.clone(),
                each: each.clone(),
                values: values.clone(),
            };
            match self.scope.add_table(source) {
                Ok(number) => self.add_draft(spec, name, number, places.clone()),
                Err(error) => {
                    self.is_broken = true;
                    let problem = self.places.problem(&error);
                    self.problems.push(problem);
                }
            }
        }
    }

    /// Tables that a library makes: expressions know how many rows they have, and no columns.
    fn add_native(&mut self) {
        let DeclaredData::Native { data, at } = &self.manifest.data else { return };
        if let Some(why) = data.refusal(self.chosen.scale) {
            self.is_broken = true;
            return self.problem(at, why);
        }
        for table in data.tables(self.chosen.scale) {
            let lines =
                table.parent().map(|(parent, least, most)| (parent, format!("uniform({least}, {most})")));
            let (rows, each) = match lines {
                None => (self.parse(&table.n_rows().to_string(), at, 0), None),
                Some((parent, lines)) => {
                    (None, self.parse(&lines, at, 0).map(|lines| (parent.to_string(), lines)))
                }
            };
            let source = TableSource { name: table.name().to_string(), rows, each, values: Vec::new() };
            if let Err(error) = self.scope.add_table(source) {
                self.is_broken = true;
                let problem = self.places.problem(&error);
                self.problems.push(problem);
            }
            self.native.push(table);
        }
    }

    fn add_draft(&mut self, spec: &'a DeclaredTable, name: String, number: usize, places: Vec<Range<usize>>) {
        let n_rows = self.scope.n_rows(number);
        let is_made = self.manifest.data == DeclaredData::Tables;
        if n_rows > 0 && spec.columns.is_empty() && is_made {
            self.problem(&spec.name_at, format!("`{name}` has rows, but no columns that are sent"));
        }
        self.tables.push(TableDraft { spec, name, number, n_rows, places });
    }

    /// The parsed values, each for all that its name stands for; `n_sets` such sets will be made of them.
    fn values(&mut self, texts: &[NamedText], is_hidden: bool, n_sets: usize) -> Option<Values> {
        let mut values = Vec::new();
        let mut places = Vec::new();
        for one in texts {
            let names = self.names(&one.name, &one.name_at);
            let expression = self.parse(&one.text, &one.at, 0);
            let (Some(names), Some(expression)) = (names, expression) else { continue };
            self.n_values = self.n_values.saturating_add(names.len().saturating_mul(n_sets));
            if self.n_values > VALUES_MAX {
                self.is_broken = true;
                let message = format!("a workload has at most {VALUES_MAX} columns and parameters");
                self.problem(&one.name_at, message);
                return None;
            }
            for (_, name) in names {
                places.push(one.at.clone());
                values.push(ValueSource { name, expression: expression.clone(), is_hidden });
            }
        }
        Some((values, places))
    }

    /// The names that one with braces stands for, each with its number.
    fn names(&mut self, name: &str, at: &Range<usize>) -> Option<Vec<(Option<i64>, String)>> {
        let braces = match Braces::from_name(name) {
            Ok(None) => return Some(vec![(None, name.to_string())]),
            Ok(Some(braces)) => braces,
            Err(why) => {
                self.problem(at, why);
                return None;
            }
        };
        let bounds = [braces.least.clone(), braces.most.clone()].map(|bound| {
            let expression = self.parse(&name[bound.clone()], at, bound.start)?;
            self.bound(&expression, at)
        });
        let found = match bounds {
            [Some(least), Some(most)] => numbers(least, most),
            _ => {
                self.is_broken = true;
                return None;
            }
        };
        let names = found.map(|found| found.into_iter().map(|number| (Some(number), braces.name(number))));
        let names: Result<Vec<(Option<i64>, String)>, String> = names.map(Iterator::collect);
        let long = |(_, name): &&(Option<i64>, String)| !is_identifier(name);
        let names = names.and_then(|names| match names.iter().find(long) {
            Some((_, name)) => Err(format!("`{name}` is longer than 63 characters")),
            None => Ok(names),
        });
        match names {
            Ok(names) => Some(names),
            Err(why) => {
                self.is_broken = true;
                self.problem(at, why);
                None
            }
        }
    }

    /// A bound of braces, which needs no row.
    fn bound(&mut self, expression: &Expression, at: &Range<usize>) -> Option<i64> {
        if self.is_broken {
            return None;
        }
        match self.scope.constant(expression) {
            Ok(Constant::Int(number)) => Some(number),
            Ok(_) => {
                self.problem(at, "a bound of braces is a whole number");
                None
            }
            Err(error) => {
                let problem = self.places.problem(&error);
                self.problems.push(problem);
                None
            }
        }
    }

    fn check_doubles(&mut self, values: &[ValueSource], places: &[Range<usize>], noun: &str) {
        let mut seen = BTreeSet::new();
        for (value, at) in values.iter().zip(places) {
            if !seen.insert(value.name.as_str()) {
                self.problem(at, format!("another {noun} is called `{}`, too", value.name));
            }
        }
    }

    fn add_transaction(&mut self, spec: &'a DeclaredTransaction) -> TransactionDraft<'a> {
        let draws = spec.draws.as_ref().and_then(|draws| self.rows_of(spec, draws));
        let set = self.add_parameters(&spec.params, draws.as_ref().and_then(|draws| draws.reused.clone()));
        let mut each = Vec::with_capacity(spec.each.len());
        for (n, of_loop) in spec.each.iter().enumerate() {
            let set = self.add_parameters(&of_loop.params, None);
            each.push(set);
            if let Some(draws) = &draws {
                self.scope.set_draws(set, draws.of_loop(n));
            }
        }
        if let Some(draws) = &draws {
            self.scope.set_draws(set, draws.of_transaction());
        }
        TransactionDraft { spec, set, each, draws: draws.map(|draws| draws.rows) }
    }

    /// The captured rows of a transaction and of its loops.
    fn rows_of(&mut self, spec: &DeclaredTransaction, draws: &DrawsSpec) -> Option<DrawnSets> {
        let made = TransactionRows::new(self.directory, spec, draws);
        match made {
            Ok(rows) => {
                let reused = if draws.is_once { self.parse(REUSED, &draws.at, 0) } else { None };
                let reused = reused.map(|expression| ValueSource {
                    name: REUSED_DRAWS.to_string(),
                    expression,
                    is_hidden: false,
                });
                Some(DrawnSets { rows, reused })
            }
            Err(why) => {
                self.is_broken = true;
                match why {
                    RowsProblem::OfFile(problem) => self.problems.push(problem),
                    RowsProblem::OfTransaction(message) => self.problem(&draws.at, message),
                }
                None
            }
        }
    }

    /// Number of these parameters in the scope.
    fn add_parameters(&mut self, texts: &'a [NamedText], reused: Option<ValueSource>) -> usize {
        let (mut values, places) = self.values(texts, false, 1).unwrap_or_default();
        // The last one, so that places fit.
        values.extend(reused);
        self.check_doubles(&values, &places, "parameter");
        if values.len() > PARAMETERS_MAX {
            self.problem(&places[0], format!("a transaction has at most {PARAMETERS_MAX} parameters"));
        }
        self.scope.add_parameters(&[], values)
    }

    fn sql(&mut self, file: &str) -> Vec<SqlPart> {
        let Some(text) = self.directory.file(file) else { return Vec::new() };
        // Without its tables, a place in the text would only be another problem.
        if self.is_broken { Vec::new() } else { sql::parts(file, text, &self.brace_sets, &mut self.problems) }
    }

    fn checks(&mut self) -> Vec<CheckSql> {
        let mut found = Vec::new();
        if self.is_broken {
            return found;
        }
        let manifest = self.manifest;
        for check in &manifest.checks {
            let file = check_file(&check.name);
            let Some(text) = self.directory.file(&file) else { continue };
            let queries = sql::queries(&file, text, &self.brace_sets, &mut self.problems);
            if let Some((_, sql)) = queries.first() {
                self.check_variables(&file, text, sql);
            }
            found.extend(queries.into_iter().map(|(table, sql)| CheckSql {
                name: check.name.clone(),
                title: check.title.clone(),
                sql,
                on_load: check.on_load,
                on_run: check.on_run,
                table,
            }));
        }
        found
    }

    /// Variables of a check that are none.
    fn check_variables(&mut self, file: &str, text: &str, sql: &str) {
        let names = self.tables.iter().map(|table| table.name.as_str());
        let names = names.chain(self.native.iter().map(|table| -> &str { table.name() }));
        let of_tables = names.map(|name| format!("rows_{name}"));
        let of_transactions = self.manifest.transactions.iter().flat_map(|one| {
            // A name with `-` may be written with `_`, as in pgbench's language.
            let names = [one.name.clone(), variable_name(&one.name)];
            names.into_iter().flat_map(|name| [format!("committed_{name}"), format!("unknown_{name}")])
        });
        let known: BTreeSet<String> = of_tables.chain(of_transactions).collect();
        for (at, name) in sql::variables(sql) {
            let rest = &sql[at + 1..];
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let is_known = |known: &String| {
                rest.strip_prefix(known.as_str()).is_some_and(|rest| !rest.starts_with(is_part))
            };
            // A slice has numbers: a[1:2].
            if name.starts_with(|c: char| c.is_numeric()) || known.iter().any(is_known) {
                continue;
            }
            let hint = meant(name, known.iter().map(String::as_str));
            let message = format!("nothing sets `:{name}`{hint}");
            let place = sql::variables(text).find(|(_, other)| *other == name);
            self.problems.push(match place {
                Some((at, _)) => Problem::at(file, text, at..at + 1 + name.len(), message),
                None => Problem::whole(file, message),
            });
        }
    }
}

/// The named expressions as the variant has them.
pub(super) fn effective_lets<'a>(manifest: &'a Manifest, chosen: &Chosen) -> Vec<&'a NamedText> {
    let variant = chosen.variant.map(|variant| &manifest.variants[variant]);
    let replaced: BTreeMap<&str, &NamedText> =
        variant.into_iter().flat_map(|variant| &variant.lets).map(|one| (one.name.as_str(), one)).collect();
    manifest.lets.iter().map(|one| replaced.get(one.name.as_str()).copied().unwrap_or(one)).collect()
}

fn constant(value: &OptionValue) -> Constant {
    match value {
        OptionValue::Int(value) => Constant::Int(*value),
        OptionValue::Float(value) => Constant::Float(*value),
        OptionValue::Text(value) => Constant::Text(value.clone()),
        OptionValue::Bool(value) => Constant::Bool(*value),
    }
}

impl TableDraft<'_> {
    fn table(self, generator: &Arc<Generator>, scale: u32, manifest: &Arc<str>) -> Table {
        let facts = generator.table(self.number).iter().zip(self.places).enumerate();
        let columns = facts.filter(|(_, (facts, _))| !facts.is_hidden);
        Table {
            name: self.name,
            n_rows: self.n_rows,
            columns: columns.map(|(value, (facts, at))| column(facts, value, at)).collect(),
            parent: match &self.spec.size {
                TableSize::Each { parent, .. } => Some(parent.clone()),
                TableSize::Rows(_) => None,
            },
            name_at: self.spec.name_at.clone(),
            manifest: Arc::clone(manifest),
            scale,
            source: RowSource::Expressions { generator: Arc::clone(generator), number: self.number },
        }
    }
}

fn column(facts: &ValueFacts, value: usize, at: Range<usize>) -> TableColumn {
    TableColumn {
        name: facts.name.clone(),
        kind: facts.kind.clone(),
        longest: facts.longest,
        reach: facts.reach,
        is_nullable: facts.is_nullable,
        is_unique: facts.is_unique,
        value,
        at,
    }
}

fn transaction(
    draft: &TransactionDraft<'_>,
    directory: &Directory,
    generator: &Generator,
) -> DirectoryTransaction {
    let spec = draft.spec;
    let parameters = |set: usize| generator.parameters(set).iter().map(parameter).collect();
    let each = spec.each.iter().zip(&draft.each).map(|(each, set)| EachParameters {
        name: each.name.clone(),
        parameters: parameters(*set),
        set: *set,
    });
    let facts = spec.facts.iter().map(|fact| (fact.name.clone(), fact.text.clone()));
    let is_once = spec.draws.as_ref().is_some_and(|draws| draws.is_once);
    let reused = is_once.then(|| (REUSED_DRAWS.to_string(), REUSED_DRAWS.to_string()));
    DirectoryTransaction {
        draws: draft.draws.clone(),
        name: spec.name.clone(),
        weight: 0,
        source: directory.file(&script_file(&spec.name)).unwrap_or_default().to_string(),
        parameters: parameters(draft.set),
        each: each.collect(),
        expected: spec.expected.clone(),
        retry: spec.retry.clone(),
        timeout: spec.timeout,
        think: spec.think,
        protocol: spec.protocol.clone(),
        facts: facts.chain(reused).collect(),
        limit: spec.limit.map(|limit| (limit.percentile, limit.most.as_secs_f64() * 1e3)),
        check_answer: spec.check_answer.clone(),
        set: draft.set,
    }
}

fn parameter(facts: &ValueFacts) -> Parameter {
    let whole = |(least, most): (i128, i128)| Some((i64::try_from(least).ok()?, i64::try_from(most).ok()?));
    let range = if facts.kind == Type::Int { facts.reach.and_then(whole) } else { None };
    Parameter { name: facts.name.clone(), kind: facts.kind.clone(), range, is_nullable: facts.is_nullable }
}
