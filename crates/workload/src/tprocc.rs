//! TPROC-C: the workload of HammerDB, for numbers that can be compared with its NOPM.
//!
//! Tables, the interface of functions and procedures, mix and inputs are those of HammerDB 6.0, its defects
//! included where they change the number (METHODOLOGY lists them). Rows and bodies are our own. Either
//! program drives what the other has loaded. Terms are the specification's, not HammerDB's: a virtual user is a client.

mod routines;
mod schema;
mod user;

pub use routines::create_routines;
pub use schema::{copy_statement, create_tables, indexes, primary_keys};
pub use user::User;

use crate::objects::filling::{ByTable, TableLoad};
use crate::objects::schema::Schema;
use crate::script::program::{Program, ScriptCommand, ScriptStep};
use crate::script::statement::{Fetch, Statement};
use crate::script::variables::{VariableId, VariableTable};
use crate::tpcc::{self, Calls, ConfigError, Population, PopulationStyle, TransactionProfile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables of HammerDB, with those rows.
pub(crate) const FILLING: ByTable = ByTable {
    create_tables,
    fill: |schema, batch| fill(schema, &tpcc::population(batch, PopulationStyle::HammerDb)),
    facts: |batch| tpcc::facts(&tpcc::population(batch, PopulationStyle::HammerDb)),
    ..tpcc::FILLING
};

/// The conditions of TPC-C that HammerDB's transactions preserve.
pub const KEPT: &[&str] = &[
    "row-counts",
    "3.3.2.1",
    "3.3.2.2",
    "3.3.2.3",
    "3.3.2.4",
    "3.3.2.5",
    "3.3.2.6",
    "3.3.2.7",
    "3.3.2.8",
    "3.3.2.9",
    "3.3.2.11",
    "lines",
];

/// The tables with their rows and keys.
pub fn fill(schema: &Schema, population: &Population) -> Vec<TableLoad> {
    let keys = [primary_keys(schema), indexes(schema)].concat();
    tpcc::tables(population, |table| copy_statement(schema, table), &keys)
}

/// The configuration of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TproccConfig {
    /// Warehouses in the database.
    pub warehouses: u32,
    /// Clients of the load.
    pub clients: u32,
    /// Whether transactions call procedures instead of functions.
    pub procedures: bool,
    /// Each client takes its share of all warehouses in turn, instead of one drawn at the beginning.
    pub all_warehouses: bool,
}

impl TproccConfig {
    /// Reads the parameters from a load's definitions.
    ///
    /// # Errors
    /// When one is missing or invalid.
    pub fn from_defines(defines: &BTreeMap<String, String>) -> Result<TproccConfig, ConfigError> {
        fn read<T: std::str::FromStr>(
            defines: &BTreeMap<String, String>,
            key: &'static str,
        ) -> Result<T, ConfigError> {
            let value = defines.get(key).ok_or(ConfigError::Missing(key))?;
            value.parse().map_err(|_| ConfigError::Unknown { key, value: value.clone() })
        }
        Ok(TproccConfig {
            warehouses: std::cmp::max(1, read(defines, "scale")?),
            clients: std::cmp::max(1, read(defines, "clients")?),
            procedures: match read(defines, "calls")? {
                Calls::Functions => false,
                Calls::Procedures => true,
                Calls::Statements => {
                    let value = Calls::Statements.to_string();
                    return Err(ConfigError::Unknown { key: "calls", value });
                }
            },
            all_warehouses: read(defines, "all_warehouses")?,
        })
    }

    /// The configuration as definitions of variables.
    pub fn defines(&self) -> BTreeMap<String, String> {
        [
            ("scale", self.warehouses.to_string()),
            ("clients", self.clients.to_string()),
            ("calls", if self.procedures { Calls::Procedures } else { Calls::Functions }.to_string()),
            ("all_warehouses", self.all_warehouses.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}

/// Values that the calls take, at the places of their names in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallParameter {
    Warehouse,
    Warehouses,
    District,
    Customer,
    LastName,
    Lines,
    CustomerWarehouse,
    CustomerDistrict,
    ByName,
    Amount,
    Carrier,
    Threshold,
}

const NAMES: [(&str, CallParameter); 12] = [
    ("w_id", CallParameter::Warehouse),
    ("w_id_max", CallParameter::Warehouses),
    ("d_id", CallParameter::District),
    ("c_id", CallParameter::Customer),
    ("c_last", CallParameter::LastName),
    ("ol_cnt", CallParameter::Lines),
    ("c_w_id", CallParameter::CustomerWarehouse),
    ("c_d_id", CallParameter::CustomerDistrict),
    ("by_name", CallParameter::ByName),
    ("amount", CallParameter::Amount),
    ("carrier", CallParameter::Carrier),
    ("threshold", CallParameter::Threshold),
];

impl CallParameter {
    #[inline]
    pub(crate) fn from_variable(variable: VariableId) -> CallParameter {
        NAMES[variable.index()].1
    }
}

/// The one call of each transaction. Last names reach the functions as the text of a placeholder, as in HammerDB's
/// prepared statements: nobody is found by name.
fn function_call(profile: TransactionProfile) -> &'static str {
    match profile {
        TransactionProfile::NewOrder => "select @.neword(:w_id, :w_id_max, :d_id, :c_id, :ol_cnt, 0)",
        TransactionProfile::Payment => {
            "select @.payment(:w_id, :d_id, :c_w_id, :c_d_id, :c_id, :by_name, :amount, '$8', '0', 0)"
        }
        TransactionProfile::OrderStatus => {
            "select * from @.ostat(:w_id, :d_id, :c_id, :by_name, '$5') as (ol_i_id int, ol_supply_w_id int, \
             ol_quantity smallint, ol_amount numeric, ol_delivery_d timestamptz, c_id int, c_last varchar, \
             c_first varchar, c_middle varchar, c_balance numeric, o_id int, o_entry_d timestamp, o_carrier_id int)"
        }
        TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => {
            "select @.delivery(:w_id, :carrier)"
        }
        TransactionProfile::StockLevel => "select @.slev(:w_id, :d_id, :threshold)",
    }
}

/// The same as CALL, with a value for each result. Here last names are real: HammerDB writes them into the text.
fn procedure_call(profile: TransactionProfile) -> &'static str {
    match profile {
        TransactionProfile::NewOrder => {
            "call @.neword(:w_id, :w_id_max, :d_id, :c_id, :ol_cnt, 0.0, '', '', 0.0, 0.0, 0, localtimestamp)"
        }
        TransactionProfile::Payment => {
            "call @.payment(:w_id, :d_id, :c_w_id, :c_d_id, :by_name, :amount, '0', :c_last, :c_id, '', '', '', '', '', \
             '', '', '', '', '', '', '', '', '', '', '', '', '', localtimestamp, 0.0, 0.0, 0.0, '', localtimestamp)"
        }
        TransactionProfile::OrderStatus => {
            "call @.ostat(:w_id, :d_id, :c_id, :by_name, :c_last, '', '', 0.0, 0, localtimestamp, 0, '')"
        }
        TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => {
            "call @.delivery(:w_id, :carrier, localtimestamp)"
        }
        TransactionProfile::StockLevel => "call @.slev(:w_id, :d_id, :threshold, 0)",
    }
}

/// The programs of a run, each with its weight in the mix.
pub fn programs(config: &TproccConfig, schema: &Schema) -> Vec<(Program, u32)> {
    let mut variables = VariableTable::default();
    for (name, _) in NAMES {
        variables.intern(name);
    }
    let mut programs: Vec<(Program, u32)> = TransactionProfile::ALL[..5]
        .iter()
        .map(|profile| (program(*profile, config, schema, &mut variables), profile.cards()))
        .collect();
    debug_assert_eq!(variables.len(), NAMES.len(), "calls name values that no user has");
    let variables = Arc::new(variables);
    for (program, _) in &mut programs {
        program.variables = Arc::clone(&variables);
    }
    programs
}

fn program(
    profile: TransactionProfile,
    config: &TproccConfig,
    schema: &Schema,
    variables: &mut VariableTable,
) -> Program {
    let call = if config.procedures { procedure_call(profile) } else { function_call(profile) };
    let statement = Statement { fetch: Fetch::Discard, ..Statement::new(&schema.fill(call), 1, variables) };
    let step =
        ScriptStep { command: ScriptCommand::Sql { statement: 0 }, line: 1, label: statement.label.clone() };
    Program {
        name: profile.name().to_owned(),
        commands: vec![step],
        statements: vec![statement],
        variables: Arc::default(),
        transaction: Some(profile as usize),
        facts: Vec::new(),
        declared: None,
    }
}
