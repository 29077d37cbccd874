//! One terminal: its home, its deck of cards, its inputs, and the transaction that it is in.

use super::config::{Think, TpccConfig};
use super::parameter::TerminalParameter;
use super::programs::TransactionProfile;
use super::transaction::{HomeTerminal, Row, Transaction};
use super::{Calls, DISTRICTS, UNUSED_ITEM_SQLSTATE};
use crate::action::{Action, NextTransaction};
use crate::random::Prng;
use crate::script::variables::VariableId;
use crate::tpcc::transaction::delivery::DeliveryTransaction;
use crate::tpcc::transaction::new_order::NewOrder;
use crate::tpcc::transaction::order_status::OrderStatus;
use crate::tpcc::transaction::payment::Payment;
use crate::tpcc::transaction::stock_level::StockLevel;

const SECOND_NS: f64 = 1e9;
/// Cards of a deck.
const CARDS: usize = 23;

/// A terminal.
#[derive(Clone, Debug)]
pub struct Terminal {
    home: HomeTerminal,
    /// One stream per purpose, so that neither pauses nor the mix change what is ordered.
    inputs: Prng,
    pauses: Prng,
    shuffles: Prng,
    deck: [TransactionProfile; CARDS],
    /// Cards of the deck that have been played.
    n_played: usize,
    /// The transaction that is chosen and has not begun yet.
    next: Option<(TransactionProfile, u64)>,
    /// The profile that runs, or ran last.
    profile: TransactionProfile,
    /// The end of the last transaction that the terminal itself waited for.
    free_since: Option<u64>,
    /// A delivery was queued and is not executed yet (clause 2.7.2).
    is_delivery_queued: bool,
    statement: usize,
    /// Rows of its result so far.
    n_rows: u32,
    /// The transaction's only call has been made.
    is_called: bool,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: DeliveryTransaction,
    stock_level: StockLevel,
}

impl Terminal {
    /// The terminal number `id`, from 0. Terminals are spread over warehouses first, then over their districts, so that
    /// ten times as many terminals as warehouses have each pair once (clause 2.8.1.1).
    pub fn new(config: TpccConfig, mut prng: Prng, id: usize) -> Terminal {
        let warehouse = id % config.warehouses as usize;
        let district = id / config.warehouses as usize % DISTRICTS as usize;
        let home = HomeTerminal { config, w_id: warehouse as u32 + 1, d_id: district as u32 + 1 };
        let mut deck = [TransactionProfile::NewOrder; CARDS];
        let cards =
            TransactionProfile::ALL.into_iter().flat_map(|p| std::iter::repeat_n(p, p.cards() as usize));
        deck.iter_mut().zip(cards).for_each(|(place, card)| *place = card);
        let (pauses, shuffles) = (prng.derive(), prng.derive());
        Terminal {
            home,
            inputs: prng,
            pauses,
            shuffles,
            deck,
            n_played: CARDS,
            next: None,
            profile: TransactionProfile::NewOrder,
            free_since: None,
            is_delivery_queued: false,
            statement: 0,
            n_rows: 0,
            is_called: false,
            new_order: NewOrder::default(),
            payment: Payment::default(),
            order_status: OrderStatus::default(),
            delivery: DeliveryTransaction::default(),
            stock_level: StockLevel::default(),
        }
    }

    /// The next transaction, the same until it is begun. `now_ns` is the end of the last one, or the beginning.
    pub fn next(&mut self, now_ns: u64) -> NextTransaction {
        if self.home.config.think == Think::Spec && self.next.is_none() {
            self.next = Some(self.next_of_spec(now_ns));
        }
        let (profile, due_ns) = match self.next {
            Some(next) => next,
            None => {
                let card = self.draw_card();
                self.next = Some((card, now_ns));
                (card, now_ns)
            }
        };
        let due_ns = if self.home.config.think == Think::None { now_ns } else { due_ns };
        NextTransaction { program: profile as usize, due_ns }
    }

    /// A queued delivery is executed at once. Otherwise the terminal thinks about the last result, and keys in the next
    /// transaction (clause 5.2.2).
    fn next_of_spec(&mut self, now_ns: u64) -> (TransactionProfile, u64) {
        if self.is_delivery_queued {
            self.free_since = Some(now_ns);
            return (TransactionProfile::DeferredDelivery, now_ns);
        }
        let card = self.draw_card();
        let ended =
            if self.profile == TransactionProfile::DeferredDelivery { self.free_since.take() } else { None };
        // Terminals do not all start at the same moment.
        let thought = match self.profile {
            TransactionProfile::DeferredDelivery => TransactionProfile::Delivery,
            profile => profile,
        };
        let pause_s = self.think_s(thought) + keying_s(card);
        (card, ended.unwrap_or(now_ns) + (pause_s * SECOND_NS) as u64)
    }

    /// Think time (clause 5.2.5.4): negative exponential, cut at ten times its mean.
    fn think_s(&mut self, after: TransactionProfile) -> f64 {
        let mean_s = think_mean_s(after);
        let uniform = 1.0 - self.pauses.double();
        (-uniform.ln() * mean_s).min(10.0 * mean_s)
    }

    /// The next card of the deck, shuffled again when all are played (clause 5.2.4.2).
    fn draw_card(&mut self) -> TransactionProfile {
        if self.n_played == CARDS {
            for last in (1..CARDS).rev() {
                self.deck.swap(last, self.shuffles.uint64_range(0, last as u64) as usize);
            }
            self.n_played = 0;
        }
        self.n_played += 1;
        self.deck[self.n_played - 1]
    }

    /// Begins a transaction of a profile: draws its inputs.
    pub fn begin(&mut self, profile: TransactionProfile) {
        self.next = None;
        self.profile = profile;
        match profile {
            TransactionProfile::Delivery => self.is_delivery_queued = self.home.config.think == Think::Spec,
            TransactionProfile::DeferredDelivery => self.is_delivery_queued = false,
            _ => {}
        }
        // A queued delivery is executed with the carrier that was keyed in.
        if profile != TransactionProfile::DeferredDelivery {
            let home = self.home;
            let mut inputs = self.inputs.clone();
            self.running().draw(&mut inputs, &home);
            self.inputs = inputs;
        }
        self.rewind();
    }

    /// Starts the transaction over with the same inputs.
    pub fn rewind(&mut self) {
        self.statement = 0;
        self.n_rows = 0;
        self.is_called = false;
        self.running().begin();
    }

    /// The next step.
    ///
    /// # Errors
    /// The data that is missing from the database.
    #[inline]
    pub fn step(&mut self) -> Result<Action, &'static str> {
        if self.is_queueing() {
            return Ok(Action::End);
        }
        let n_rows = std::mem::take(&mut self.n_rows);
        let next = match self.home.config.calls {
            Calls::Statements => self.running().next(n_rows)?,
            Calls::Functions | Calls::Procedures => {
                (!std::mem::replace(&mut self.is_called, true)).then_some(0)
            }
        };
        let Some(statement) = next else { return Ok(Action::End) };
        self.statement = statement;
        Ok(Action::Send { statement })
    }

    /// The statement handed out last.
    pub fn statement(&self) -> usize {
        self.statement
    }

    /// Takes in a row of the statement handed out last.
    ///
    /// # Errors
    /// When the row is not what the statement returns.
    pub fn take_row<'a>(
        &mut self,
        row: &'a mut dyn Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(), &'static str> {
        self.n_rows += 1;
        let row: Row<'a> = row;
        self.running().take_row(row).ok_or("a row of the columns asked for")
    }

    /// Appends a parameter's text; `false` stands for NULL.
    #[inline]
    pub fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) -> bool {
        self.ran().parameter(&self.home, TerminalParameter::from_variable(variable), out)
    }

    /// Whether the transaction is meant to end with this error.
    pub fn expects(&self, sqlstate: &str) -> bool {
        self.profile == TransactionProfile::NewOrder
            && self.home.config.calls == Calls::Functions
            && sqlstate == UNUSED_ITEM_SQLSTATE
            && self.new_order.is_undone()
    }

    /// Adds the facts about the transaction that ended, in the order of [`TransactionProfile::facts`].
    pub fn add_facts(&self, facts: &mut [u64]) {
        if !facts.is_empty() {
            self.ran().add_facts(facts);
        }
    }

    fn is_queueing(&self) -> bool {
        self.profile == TransactionProfile::Delivery && self.home.config.think == Think::Spec
    }

    fn running(&mut self) -> &mut dyn Transaction {
        match self.profile {
            TransactionProfile::NewOrder => &mut self.new_order,
            TransactionProfile::Payment => &mut self.payment,
            TransactionProfile::OrderStatus => &mut self.order_status,
            TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => &mut self.delivery,
            TransactionProfile::StockLevel => &mut self.stock_level,
        }
    }

    fn ran(&self) -> &dyn Transaction {
        match self.profile {
            TransactionProfile::NewOrder => &self.new_order,
            TransactionProfile::Payment => &self.payment,
            TransactionProfile::OrderStatus => &self.order_status,
            TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => &self.delivery,
            TransactionProfile::StockLevel => &self.stock_level,
        }
    }
}

/// Keying times in seconds (clause 5.2.5.7).
fn keying_s(profile: TransactionProfile) -> f64 {
    match profile {
        TransactionProfile::NewOrder => 18.0,
        TransactionProfile::Payment => 3.0,
        TransactionProfile::OrderStatus | TransactionProfile::Delivery | TransactionProfile::StockLevel => {
            2.0
        }
        TransactionProfile::DeferredDelivery => 0.0,
    }
}

/// Means of think times in seconds (clause 5.2.5.7).
fn think_mean_s(profile: TransactionProfile) -> f64 {
    match profile {
        TransactionProfile::NewOrder | TransactionProfile::Payment => 12.0,
        TransactionProfile::OrderStatus => 10.0,
        TransactionProfile::Delivery | TransactionProfile::StockLevel => 5.0,
        TransactionProfile::DeferredDelivery => 0.0,
    }
}
