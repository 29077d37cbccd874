//! A workload directory in a variant, at a scale, with values of its options: everything resolved, typed and compiled.

mod build;
mod choice;
mod drawn;
mod identity;
pub(crate) mod parameters;
mod places;
mod sql;
pub(crate) mod table;
mod unused;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::directory::Directory;
use crate::expression::{ClientStream, Generator, Type};
use crate::instance::build::Build;
pub use crate::instance::choice::Choice;
use crate::instance::choice::Chosen;
use crate::instance::parameters::ClientParameters;
pub use crate::instance::sql::{SqlPart, variables as sql_variables};
use crate::instance::table::Table;
use crate::manifest::Manifest;
use crate::manifest::sessions::{Order, SessionSpec, Variant, option_in_braces};
use crate::manifest::transactions::Think;
use crate::problem::Problem;

/// A workload directory with everything chosen.
pub struct Instance {
    manifest: Manifest,
    variant: Option<usize>,
    options: BTreeMap<String, String>,
    data_seed: u64,
    data_identity: String,
    tables: Vec<Table>,
    schema: Vec<SqlPart>,
    after: Vec<SqlPart>,
    transactions: Vec<DirectoryTransaction>,
    sessions: Vec<SessionClass>,
    checks: Vec<CheckSql>,
    warnings: Vec<Problem>,
    generator: Arc<Generator>,
}

/// A transaction with what its script needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryTransaction {
    /// Name.
    pub name: String,
    /// Weight in the variant; 0 if it leaves it out.
    pub weight: u32,
    /// Its script, in pgbench's language.
    pub source: String,
    /// Parameters, braces expanded.
    pub parameters: Vec<Parameter>,
    /// Parameters of loops.
    pub each: Vec<EachParameters>,
    /// SQLSTATEs with which it may end.
    pub expected: Vec<String>,
    /// SQLSTATEs after which it is tried again.
    pub retry: Vec<String>,
    /// Longest time of an execution.
    pub timeout: Option<Duration>,
    /// Pause after it.
    pub think: Option<Think>,
    /// How its statements are sent: `simple`, `extended` or `prepared`.
    pub protocol: Option<String>,
    /// Sums over its executions: name and expression over the script's variables.
    pub facts: Vec<(String, String)>,
    /// The latency that it is judged by: a percentile in percent, and milliseconds.
    pub limit: Option<(f64, f64)>,
    /// File with the expected rows of its first execution.
    pub check_answer: Option<String>,
    /// Captured rows that its parameters are drawn from.
    draws: Option<drawn::TransactionRows>,
    /// Number of its parameters in the generator.
    set: usize,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the variable.
    pub name: String,
    /// Type of its values.
    pub kind: Type,
    /// Least and greatest value of a whole number, as far as known: for names that it is glued to.
    pub range: Option<(i64, i64)>,
    /// Whether it can be NULL.
    pub is_nullable: bool,
}

/// Parameters of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EachParameters {
    /// Name of the loop.
    pub name: String,
    /// Parameters, drawn in each round.
    pub parameters: Vec<Parameter>,
    /// Number of the parameters in the generator.
    set: usize,
}

/// A class of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionClass {
    /// Name; empty if the directory names none.
    pub name: String,
    /// So many clients.
    pub clients: Option<u32>,
    /// This part of the clients; 1 if the directory names no classes.
    pub share: Option<f64>,
    /// Weight of each transaction.
    pub weights: Vec<u32>,
    /// Pause after each transaction.
    pub think: Option<Think>,
    /// Transactions per second of the whole class.
    pub pace_per_s: Option<f64>,
    /// Order of transactions.
    pub order: Option<Order>,
    /// Whether it connects again for each transaction.
    pub reconnect: bool,
    /// Settings of its sessions.
    pub settings: Vec<(String, String)>,
}

/// A check's query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSql {
    /// Name.
    pub name: String,
    /// The statement that is true where it holds.
    pub title: String,
    /// The query, with variables `:rows_TABLE`, `:committed_NAME` and `:unknown_NAME`.
    pub sql: String,
    /// Whether it is tried after a load.
    pub on_load: bool,
    /// Whether it is tried after a run.
    pub on_run: bool,
    /// The table that it was made for, if it was made for one.
    pub table: Option<String>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Instance");
        shown.field("name", &self.manifest.name).field("variant", &self.variant().map(|one| &one.name));
        shown.field("options", &self.options).finish_non_exhaustive()
    }
}

impl Instance {
    /// What `choice` makes of a directory.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn new(directory: &Directory, choice: &Choice) -> Result<Instance, Vec<Problem>> {
        let manifest = Manifest::read(directory)?;
        let chosen = Chosen::new(&manifest, choice)?;
        let built = Build::new(&manifest, directory, &chosen).finish()?;
        let data_identity = identity::of_data(&manifest, directory, &chosen, &built.tables);
        let mut warnings = manifest.warnings.clone();
        warnings.extend(unused::warnings(&manifest, directory, &chosen));
        let variant = chosen.variant.map(|variant| &manifest.variants[variant]);
        let weights = weights(&manifest, variant);
        let options: BTreeMap<String, String> =
            chosen.options.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let sessions = sessions(&manifest, variant, &weights, &options);
        let mut transactions = built.transactions;
        transactions.iter_mut().zip(&weights).for_each(|(transaction, weight)| transaction.weight = *weight);
        Ok(Instance {
            variant: chosen.variant,
            options,
            data_seed: chosen.data_seed,
            data_identity,
            tables: built.tables,
            schema: built.schema,
            after: built.after,
            transactions,
            sessions,
            checks: built.checks,
            warnings: crate::problem::sorted(warnings),
            generator: built.generator,
            manifest,
        })
    }

    /// What `workload.toml` says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The variant, if there are variants.
    pub fn variant(&self) -> Option<&Variant> {
        self.variant.map(|variant| &self.manifest.variants[variant])
    }

    /// How often each client goes through its transactions, if it ends then.
    pub fn passes(&self) -> Option<u32> {
        let given = self.variant().and_then(|variant| variant.passes.as_ref());
        let passes = given.and_then(|passes| passes.value(&self.options));
        passes.or_else(|| self.manifest.defaults.is_analytical.then_some(1))
    }

    /// How often it does so before that, without being counted.
    pub fn warm_passes(&self) -> u32 {
        let given = self.variant().and_then(|variant| variant.warm_passes.as_ref());
        given.and_then(|passes| passes.value(&self.options)).unwrap_or(0)
    }

    /// Whether plans are recorded after the window.
    pub fn explains(&self) -> bool {
        let option = self.manifest.defaults.explain_option.as_ref();
        self.manifest.defaults.explain
            || option.and_then(|name| self.options.get(name)).is_some_and(|value| value == "true")
    }

    /// The values of all options.
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    /// The seed of the data.
    pub fn data_seed(&self) -> u64 {
        self.data_seed
    }

    /// What should be changed, but need not be.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// SHA-256 of what the data depends on, in hexadecimal.
    pub fn data_identity(&self) -> &str {
        &self.data_identity
    }

    /// The tables in load order, braces expanded.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The SQL that creates the tables: the whole file, or if it has places for tables of a name with braces, its statements.
    pub fn schema_sql(&self) -> &[SqlPart] {
        &self.schema
    }

    /// The SQL that follows the rows, as [`Instance::schema_sql`].
    pub fn after_sql(&self) -> &[SqlPart] {
        &self.after
    }

    /// All transactions of the directory.
    pub fn transactions(&self) -> &[DirectoryTransaction] {
        &self.transactions
    }

    /// Classes of clients; one if the directory names none.
    pub fn sessions(&self) -> &[SessionClass] {
        &self.sessions
    }

    /// The checks, braces expanded.
    pub fn checks(&self) -> &[CheckSql] {
        &self.checks
    }

    /// The parameters of a client, by its number from 0 among `n_clients` of the whole load.
    pub fn client(self: &Arc<Self>, client: u32, n_clients: u32, stream_seed: u64) -> ClientParameters {
        ClientParameters::new(self, ClientStream::new(stream_seed, client.into(), n_clients.into()))
    }
}

/// The name of a transaction or table as a part of a variable's name: other characters become `_`.
pub fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The weight of each transaction in a variant. Where nothing weighs them, all are alike, or those that its order names.
fn weights(manifest: &Manifest, variant: Option<&Variant>) -> Vec<u32> {
    let given = variant.and_then(|variant| variant.weights.as_ref());
    let order = variant.and_then(|variant| variant.order.as_ref());
    let weight = |name: &String| match (given, order) {
        (Some(weights), _) => {
            weights.iter().find(|(other, _)| other == name).map_or(0, |(_, weight)| *weight)
        }
        (None, Some(Order::Fixed(names))) => u32::from(names.contains(name)),
        (None, _) => 1,
    };
    manifest.transactions.iter().map(|transaction| weight(&transaction.name)).collect()
}

fn sessions(
    manifest: &Manifest,
    variant: Option<&Variant>,
    weights: &[u32],
    options: &BTreeMap<String, String>,
) -> Vec<SessionClass> {
    // A stream of queries runs each of them.
    let whole = manifest.defaults.is_analytical.then_some(Order::Permuted);
    let order = variant.and_then(|variant| variant.order.clone()).or(whole);
    if manifest.sessions.is_empty() {
        return vec![SessionClass {
            name: String::new(),
            clients: None,
            share: Some(1.0),
            weights: weights.to_vec(),
            think: None,
            pace_per_s: None,
            order,
            reconnect: false,
            settings: Vec::new(),
        }];
    }
    let class = |session: &SessionSpec| {
        let own = session.weights.as_ref();
        let weight = |name: &String| {
            let weights = own.into_iter().flatten();
            weights.filter(|(other, _)| other == name).map(|(_, weight)| *weight).sum()
        };
        let of_all = manifest.transactions.iter().map(|transaction| weight(&transaction.name));
        SessionClass {
            name: session.name.clone(),
            clients: session
                .clients_option
                .as_ref()
                .map_or(session.clients, |name| options.get(name)?.parse().ok()),
            share: session.share,
            weights: if own.is_some() { of_all.collect() } else { weights.to_vec() },
            think: session.think,
            pace_per_s: session.pace_per_s,
            order: session.order.clone().or_else(|| order.clone()),
            reconnect: session.reconnect,
            settings: session
                .settings
                .iter()
                .map(|(name, text)| (name.clone(), setting(text, options)))
                .collect(),
        }
    };
    manifest.sessions.iter().map(class).collect()
}

/// The value of a setting: a text that is `{OPTION}` stands for the option's value.
fn setting(text: &str, options: &BTreeMap<String, String>) -> String {
    option_in_braces(text).and_then(|name| options.get(name)).cloned().unwrap_or_else(|| text.to_string())
}
