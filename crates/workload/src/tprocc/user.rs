//! One virtual user: its warehouses, its choice among 23, and its inputs.

use super::{CallParameter, TproccConfig};
use crate::action::{Action, NextTransaction};
use crate::number::write_uint;
use crate::random::Prng;
use crate::script::variables::VariableId;
use crate::tpcc::{Constants, TransactionProfile, last_name};

/// The one constant of HammerDB's NURand.
const NAMES: Constants = Constants { c_last: 123, c_id: 123, ol_i_id: 123 };

/// A virtual user.
#[derive(Clone, Debug)]
pub struct User {
    config: TproccConfig,
    prng: Prng,
    /// Number of the user among the clients, from 0.
    id: u32,
    /// The warehouse of the current transaction.
    w_id: u32,
    /// Transactions begun, to take the warehouses in turn.
    n_begun: u32,
    /// The district of its Stock-Levels.
    d_id_stock: u32,
    next: Option<TransactionProfile>,
    is_called: bool,
    profile: TransactionProfile,
    // Inputs of the current transaction.
    d_id: u32,
    c_id: u32,
    c_w_id: u32,
    c_d_id: u32,
    n_lines: u32,
    by_name: bool,
    /// The number of the last name; what follows from it is only sent to procedures.
    name: u32,
    amount: u32,
    carrier: u32,
    threshold: u32,
}

impl User {
    /// The virtual user number `id`, from 0.
    pub fn new(config: TproccConfig, mut prng: Prng, id: usize) -> User {
        let w_id = uniform(&mut prng, 1, config.warehouses);
        let d_id_stock = uniform(&mut prng, 1, 10);
        User {
            config,
            prng,
            id: id as u32,
            w_id,
            n_begun: 0,
            d_id_stock,
            next: None,
            is_called: false,
            profile: TransactionProfile::NewOrder,
            d_id: 1,
            c_id: 1,
            c_w_id: w_id,
            c_d_id: 1,
            n_lines: 5,
            by_name: false,
            name: 0,
            amount: 1,
            carrier: 1,
            threshold: 10,
        }
    }

    /// The next transaction: 10 of 23 each for New-Order and Payment, one each for the others, drawn each time.
    pub fn next(&mut self, now_ns: u64) -> NextTransaction {
        let User { next, prng, .. } = self;
        let profile = *next.get_or_insert_with(|| match uniform(prng, 1, 23) {
            1..=10 => TransactionProfile::NewOrder,
            11..=20 => TransactionProfile::Payment,
            21 => TransactionProfile::Delivery,
            22 => TransactionProfile::StockLevel,
            _ => TransactionProfile::OrderStatus,
        });
        NextTransaction { program: profile as usize, due_ns: now_ns }
    }

    /// Begins a transaction: draws its inputs.
    pub fn begin(&mut self, profile: TransactionProfile) {
        self.next = None;
        self.profile = profile;
        if self.config.all_warehouses {
            self.w_id = self.warehouse_in_turn();
        }
        self.n_begun = self.n_begun.wrapping_add(1);
        if self.config.procedures
            && matches!(profile, TransactionProfile::Payment | TransactionProfile::OrderStatus)
        {
            self.name = NAMES.last_name(&mut self.prng);
        }
        let prng = &mut self.prng;
        match profile {
            TransactionProfile::NewOrder => {
                self.d_id = uniform(prng, 1, 10);
                self.c_id = uniform(prng, 1, 3000);
                self.n_lines = uniform(prng, 5, 15);
            }
            TransactionProfile::Payment => {
                self.d_id = uniform(prng, 1, 10);
                let is_home = uniform(prng, 1, 100) <= 85;
                self.by_name = uniform(prng, 1, 100) <= 60;
                (self.c_w_id, self.c_d_id) = (self.w_id, self.d_id);
                if !is_home {
                    self.c_d_id = uniform(prng, 1, 10);
                    while self.config.warehouses > 1 && self.c_w_id == self.w_id {
                        self.c_w_id = uniform(prng, 1, self.config.warehouses);
                    }
                }
                self.c_id = uniform(prng, 1, 3000);
                self.amount = uniform(prng, 1, 5000);
            }
            TransactionProfile::OrderStatus => {
                self.d_id = uniform(prng, 1, 10);
                self.c_id = uniform(prng, 1, 3000);
                self.by_name = uniform(prng, 1, 100) <= 60;
            }
            TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => {
                self.carrier = uniform(prng, 1, 10)
            }
            TransactionProfile::StockLevel => {
                self.d_id = self.d_id_stock;
                self.threshold = uniform(prng, 10, 20);
            }
        }
        self.rewind();
    }

    /// The user's share of all warehouses, one after the other: `id + 1`, `id + 1 + clients`, and so on. A user beyond
    /// the last warehouse shares one.
    fn warehouse_in_turn(&self) -> u32 {
        let TproccConfig { warehouses, clients, .. } = self.config;
        let first = self.id % warehouses;
        let n_own = (warehouses - first).div_ceil(clients.min(warehouses)).max(1);
        first + (self.n_begun % n_own) * clients.min(warehouses) + 1
    }

    /// Starts the transaction over with the same inputs.
    pub fn rewind(&mut self) {
        self.is_called = false;
    }

    /// The next step.
    pub fn step(&mut self) -> Action {
        if std::mem::replace(&mut self.is_called, true) { Action::End } else { Action::Send { statement: 0 } }
    }

    /// Appends a parameter's text.
    #[inline]
    pub fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) {
        let value = match CallParameter::from_variable(variable) {
            CallParameter::Warehouse => self.w_id,
            CallParameter::Warehouses => self.config.warehouses,
            CallParameter::District => self.d_id,
            CallParameter::Customer => self.c_id,
            CallParameter::LastName if self.by_name => return last_name(self.name, out),
            CallParameter::LastName => return,
            CallParameter::Lines => self.n_lines,
            CallParameter::CustomerWarehouse => self.c_w_id,
            CallParameter::CustomerDistrict => self.c_d_id,
            CallParameter::ByName => u32::from(self.by_name),
            CallParameter::Amount => self.amount,
            CallParameter::Carrier => self.carrier,
            CallParameter::Threshold => self.threshold,
        };
        write_uint(out, value.into());
    }
}

fn uniform(prng: &mut Prng, min: u32, max: u32) -> u32 {
    prng.uint64_range(min.into(), max.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warehouses_of(config: TproccConfig, id: usize, n: usize) -> Vec<u32> {
        let mut user = User::new(config, Prng::seed(1), id);
        let mut next = || {
            user.begin(TransactionProfile::NewOrder);
            user.w_id
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn users_go_round_their_shares_of_all_warehouses() {
        let config = |warehouses, clients| TproccConfig {
            warehouses,
            clients,
            procedures: false,
            all_warehouses: true,
        };
        assert_eq!(warehouses_of(config(10, 4), 0, 4), [1, 5, 9, 1]);
        assert_eq!(warehouses_of(config(10, 4), 3, 3), [4, 8, 4]);
        assert_eq!(warehouses_of(config(2, 4), 3, 3), [2, 2, 2]);
        let mut all: Vec<u32> = (0..4).flat_map(|id| warehouses_of(config(10, 4), id, 3)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (1..=10).collect::<Vec<u32>>());
    }

    #[test]
    fn a_user_stays_at_its_warehouse_otherwise() {
        let seen = warehouses_of(
            TproccConfig { warehouses: 50, clients: 4, procedures: false, all_warehouses: false },
            2,
            20,
        );
        assert!(seen.iter().all(|w_id| *w_id == seen[0]), "{seen:?}");
    }

    #[test]
    fn choices_are_ten_ten_one_one_one_of_23() {
        let mut user = User::new(
            TproccConfig { warehouses: 2, clients: 1, procedures: false, all_warehouses: false },
            Prng::seed(7),
            0,
        );
        let mut counts = [0u32; 6];
        for _ in 0..23_000 {
            let next = user.next(0);
            assert_eq!(user.next(1).program, next.program, "the choice stays until it is begun");
            counts[next.program] += 1;
            user.begin(TransactionProfile::ALL[next.program]);
        }
        for (n, expected) in counts.into_iter().zip([10_000u32, 10_000, 1000, 1000, 1000, 0]) {
            assert!(n.abs_diff(expected) <= expected / 8, "{counts:?}");
        }
    }
}
