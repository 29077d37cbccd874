//! Built-in transactions behind a [`Machine`](crate::Machine): what takes the place of the interpreter of scripts.

use std::collections::BTreeMap;

use crate::action::{Action, Next};
use crate::objects::schema::Schema;
use crate::random::Prng;
use crate::script::program::Program;
use crate::script::variables::VariableId;
use crate::tpcc::{self, ConfigError, Profile, Terminal};
use crate::tprocc::{self, User};

/// Which built-in transactions a load has, and with which parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtins {
    /// TPC-C-like.
    Tpcc(tpcc::Config),
    /// HammerDB's TPROC-C.
    TprocC(tprocc::Config),
}

impl Builtins {
    /// TPC-C with the parameters of a load.
    ///
    /// # Errors
    /// When one is missing or not understood.
    pub fn tpcc(defines: &BTreeMap<String, String>) -> Result<Builtins, ConfigError> {
        tpcc::Config::from_defines(defines).map(Builtins::Tpcc)
    }

    /// TPROC-C with the parameters of a load.
    ///
    /// # Errors
    /// When one is missing or not understood.
    pub fn tproc_c(defines: &BTreeMap<String, String>) -> Result<Builtins, ConfigError> {
        tprocc::Config::from_defines(defines).map(Builtins::TprocC)
    }

    /// The programs, each with its weight in the mix.
    pub fn programs(&self, schema: &Schema) -> Vec<(Program, u32)> {
        match self {
            Builtins::Tpcc(config) => tpcc::programs(config, schema),
            Builtins::TprocC(config) => tprocc::programs(config, schema),
        }
    }

    /// The parameters as a load's definitions.
    pub fn defines(&self) -> BTreeMap<String, String> {
        match self {
            Builtins::Tpcc(config) => config.defines(),
            Builtins::TprocC(config) => config.defines(),
        }
    }

    pub(crate) fn client(&self, prng: Prng, id: usize) -> Client {
        match self {
            Builtins::Tpcc(config) => Client::Terminal(Box::new(Terminal::new(*config, prng, id))),
            Builtins::TprocC(config) => Client::User(Box::new(User::new(*config, prng, id))),
        }
    }
}

/// One client of built-in transactions.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// Of TPC-C.
    Terminal(Box<Terminal>),
    /// Of TPROC-C.
    User(Box<User>),
}

impl Client {
    pub(crate) fn next(&mut self, now_ns: u64) -> Next {
        match self {
            Client::Terminal(terminal) => terminal.next(now_ns),
            Client::User(user) => user.next(now_ns),
        }
    }

    pub(crate) fn begin(&mut self, transaction: usize) {
        let profile = Profile::ALL[transaction];
        match self {
            Client::Terminal(terminal) => terminal.begin(profile),
            Client::User(user) => user.begin(profile),
        }
    }

    pub(crate) fn rewind(&mut self) {
        match self {
            Client::Terminal(terminal) => terminal.rewind(),
            Client::User(user) => user.rewind(),
        }
    }

    #[inline]
    pub(crate) fn step(&mut self) -> Result<Action, &'static str> {
        match self {
            Client::Terminal(terminal) => terminal.step(),
            Client::User(user) => Ok(user.step()),
        }
    }

    pub(crate) fn statement(&self) -> usize {
        match self {
            Client::Terminal(terminal) => terminal.statement(),
            Client::User(_) => 0,
        }
    }

    pub(crate) fn take_row<'a>(
        &mut self,
        row: &'a mut dyn Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(), &'static str> {
        match self {
            Client::Terminal(terminal) => terminal.take_row(row),
            Client::User(_) => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) -> bool {
        match self {
            Client::Terminal(terminal) => terminal.parameter(variable, out),
            Client::User(user) => {
                user.parameter(variable, out);
                true
            }
        }
    }

    pub(crate) fn expects(&self, sqlstate: &str) -> bool {
        match self {
            Client::Terminal(terminal) => terminal.expects(sqlstate),
            Client::User(_) => false,
        }
    }

    pub(crate) fn add_facts(&self, facts: &mut [u64]) {
        match self {
            Client::Terminal(terminal) => terminal.add_facts(facts),
            Client::User(_) => {}
        }
    }
}
