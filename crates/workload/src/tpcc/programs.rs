//! The transactions as programs of a bundle: their names, statements, and counts.

use std::sync::Arc;

use super::config::{Calls, Think, TpccConfig};
use super::{parameter, routines, statements};
use crate::objects::schema::Schema;
use crate::script::program::{Program, ScriptCommand, ScriptStep};
use crate::script::statement::{Fetch, Statement};
use crate::script::variables::VariableTable;

/// A kind of transaction that the driver counts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionProfile {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7. With think times, this is what the terminal waits for: that the delivery is queued.
    Delivery,
    /// Clause 2.8.
    StockLevel,
    /// A queued delivery's execution (clause 2.7.2), while the terminal goes on.
    DeferredDelivery,
}

impl TransactionProfile {
    /// All of them, in the order of [`programs`].
    pub const ALL: [TransactionProfile; 6] = [
        TransactionProfile::NewOrder,
        TransactionProfile::Payment,
        TransactionProfile::OrderStatus,
        TransactionProfile::Delivery,
        TransactionProfile::StockLevel,
        TransactionProfile::DeferredDelivery,
    ];

    /// Name for people and for files.
    pub fn name(self) -> &'static str {
        match self {
            TransactionProfile::NewOrder => "new-order",
            TransactionProfile::Payment => "payment",
            TransactionProfile::OrderStatus => "order-status",
            TransactionProfile::Delivery => "delivery",
            TransactionProfile::StockLevel => "stock-level",
            TransactionProfile::DeferredDelivery => "deferred-delivery",
        }
    }

    /// Cards of a deck (clause 5.2.4.2).
    pub fn cards(self) -> u32 {
        match self {
            TransactionProfile::NewOrder | TransactionProfile::Payment => 10,
            TransactionProfile::OrderStatus
            | TransactionProfile::Delivery
            | TransactionProfile::StockLevel => 1,
            TransactionProfile::DeferredDelivery => 0,
        }
    }

    /// Counts of successful transactions in addition to their number.
    pub fn facts(self, think: Think) -> &'static [&'static str] {
        match self {
            TransactionProfile::NewOrder => &["rolled_back", "lines", "remote_lines"],
            TransactionProfile::Payment => &["remote", "by_name"],
            TransactionProfile::OrderStatus => &["by_name"],
            TransactionProfile::Delivery if think == Think::Spec => &[],
            TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => &["delivered", "skipped"],
            TransactionProfile::StockLevel => &[],
        }
    }

    /// The SQL that the profile sends, with `:name` for values.
    fn sources(self, config: &TpccConfig, schema: &Schema) -> Vec<String> {
        let is_queued = config.think == Think::Spec && self == TransactionProfile::Delivery;
        if is_queued {
            return Vec::new();
        }
        if config.calls != Calls::Statements {
            return vec![schema.fill(&routines::call(self, config.calls))];
        }
        let statements: &[&str] = match self {
            TransactionProfile::NewOrder => &statements::NEW_ORDER,
            TransactionProfile::Payment => &statements::PAYMENT,
            TransactionProfile::OrderStatus => &statements::ORDER_STATUS,
            TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => &statements::DELIVERY,
            TransactionProfile::StockLevel => &statements::STOCK_LEVEL,
        };
        statements.iter().map(|statement| schema.fill(statement)).collect()
    }
}

/// The programs of a run, in the order of [`TransactionProfile::ALL`], each with its weight in the mix.
pub fn programs(config: &TpccConfig, schema: &Schema) -> Vec<(Program, u32)> {
    let profiles = match config.think {
        Think::None => &TransactionProfile::ALL[..5],
        Think::Spec => &TransactionProfile::ALL[..],
    };
    let mut variables = parameter::table();
    let mut programs: Vec<(Program, u32)> = profiles
        .iter()
        .map(|profile| (program(*profile, config, schema, &mut variables), profile.cards()))
        .collect();
    debug_assert_eq!(variables.len(), parameter::count(), "statements name values that no terminal has");
    let variables = Arc::new(variables);
    for (program, _) in &mut programs {
        program.variables = Arc::clone(&variables);
    }
    programs
}

/// A profile's statements, whose rows all go to the terminal.
pub(crate) fn statements_of(
    profile: TransactionProfile,
    config: &TpccConfig,
    schema: &Schema,
    variables: &mut VariableTable,
) -> Vec<Statement> {
    let sources = profile.sources(config, schema);
    let statement = |(source, line): (&String, usize)| Statement {
        fetch: Fetch::Rows,
        ..Statement::new(source, line, variables)
    };
    sources.iter().zip(1..).map(statement).collect()
}

fn program(
    profile: TransactionProfile,
    config: &TpccConfig,
    schema: &Schema,
    variables: &mut VariableTable,
) -> Program {
    let statements = statements_of(profile, config, schema, variables);
    let step = |(statement, s): (usize, &Statement)| ScriptStep {
        command: ScriptCommand::Sql { statement },
        line: s.line,
        label: s.label.clone(),
    };
    Program {
        name: profile.name().to_owned(),
        commands: statements.iter().enumerate().map(step).collect(),
        statements,
        variables: Arc::default(),
        transaction: Some(profile as usize),
        facts: profile.facts(config.think).iter().map(|name| (*name).to_owned()).collect(),
        declared: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Constants;
    use super::*;

    #[test]
    fn statements_name_only_values_that_terminals_have() {
        for calls in Calls::ALL {
            for think in Think::ALL {
                let config = TpccConfig { warehouses: 1, calls, think, constants: Constants::for_load(1) };
                let programs = programs(&config, &Schema::named("a:w_id"));
                assert_eq!(programs[0].0.variables.len(), parameter::count(), "{calls} {think}");
                assert_eq!(programs.iter().map(|(_, weight)| weight).sum::<u32>(), 23);
            }
        }
    }
}
