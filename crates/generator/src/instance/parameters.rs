//! Parameters of transactions for one client.
//!
//! All of a transaction are drawn when it begins and kept until the next one begins, so that a try after an error sends the same
//! values. Those of a loop are drawn in each round; the client goes back to the draws of the first round when it tries again.

use std::fmt;
use std::ops::Range;

use crate::expression::captured::DrawnRow;
use crate::expression::{CellFault, ClientStream, Clock, ParameterMaker};
use crate::instance::Instance;
use crate::instance::drawn::TransactionRows;

/// The parameters of one client.
#[derive(Clone)]
pub struct ClientParameters {
    makers: Vec<TransactionMakers>,
    stream: ClientStream,
    /// The stream when the loops of the transaction begin.
    before_loops: ClientStream,
    /// The transaction that has begun.
    current: usize,
    fault: Option<CellFault>,
}

#[derive(Clone)]
struct TransactionMakers {
    own: ParameterMaker,
    each: Vec<EachMaker>,
    /// Captured rows, and those of the execution at hand.
    rows: Option<TransactionRows>,
    drawn: DrawnRow,
}

#[derive(Clone)]
struct EachMaker {
    maker: ParameterMaker,
    /// The captured rows of the rounds to come, if the loop has such rows.
    rounds: Option<Range<u32>>,
}

impl TransactionMakers {
    /// Draws the captured row of an execution.
    #[inline]
    fn draw_row(&mut self, transaction: usize, stream: &mut ClientStream) {
        let Some(rows) = &self.rows else { return };
        self.drawn = rows.draw(transaction, stream);
        self.own.set_drawn(self.drawn);
        for each in &mut self.each {
            each.maker.set_drawn(self.drawn);
        }
        self.begin_loops();
    }

    /// The rounds of all loops begin.
    #[inline]
    fn begin_loops(&mut self) {
        let Some(rows) = &self.rows else { return };
        for (n, each) in self.each.iter_mut().enumerate() {
            each.rounds = rows.rounds(n, self.drawn.own);
        }
    }

    /// Takes the row of a loop's next round, or says why there is none.
    fn next_round(&mut self, each: usize) -> Result<(), CellFault> {
        let EachMaker { maker, rounds } = &mut self.each[each];
        let Some(rounds) = rounds else { return Ok(()) };
        match (rounds.next(), &self.rows) {
            (Some(row), _) => maker.set_round(row),
            (None, Some(rows)) => {
                let message = rows.exhausted(each, self.drawn.own);
                return Err(CellFault { column: "draw".to_string(), message, ..CellFault::default() });
            }
            (None, None) => {}
        }
        Ok(())
    }
}

impl fmt::Debug for ClientParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientParameters").field("current", &self.current).finish_non_exhaustive()
    }
}

impl ClientParameters {
    pub(super) fn new(instance: &Instance, stream: ClientStream) -> ClientParameters {
        let maker = |set: usize| instance.generator.parameters_maker(set);
        let makers = instance.transactions.iter().map(|transaction| TransactionMakers {
            own: maker(transaction.set),
            each: transaction
                .each
                .iter()
                .map(|each| EachMaker { maker: maker(each.set), rounds: None })
                .collect(),
            rows: transaction.draws.clone(),
            drawn: DrawnRow::default(),
        });
        ClientParameters {
            makers: makers.collect(),
            before_loops: stream.clone(),
            stream,
            current: 0,
            fault: None,
        }
    }

    /// The same client with a clock for `now()`, which stands still otherwise.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> ClientParameters {
        ClientParameters { stream: self.stream.with_clock(clock), ..self }
    }

    /// Draws all parameters of a transaction, by its index.
    #[inline]
    pub fn begin(&mut self, transaction: usize) {
        self.current = transaction;
        self.stream.begin();
        let makers = &mut self.makers[transaction];
        makers.draw_row(transaction, &mut self.stream);
        self.fault = makers.own.draw(&mut self.stream).err();
        if !makers.each.is_empty() {
            self.before_loops.copy_drawn(&self.stream);
        }
    }

    /// Draws the parameters of the next round of a loop, by its index in the transaction.
    pub fn begin_round(&mut self, each: usize) {
        let makers = &mut self.makers[self.current];
        let drawn = makers.next_round(each).and_then(|()| makers.each[each].maker.draw(&mut self.stream));
        if let Err(fault) = drawn {
            self.fault.get_or_insert(fault);
        }
    }

    /// The transaction is tried again: its parameters stay, and loops draw what they drew.
    pub fn rewind(&mut self) {
        let makers = &mut self.makers[self.current];
        if !makers.each.is_empty() {
            self.stream.copy_drawn(&self.before_loops);
            makers.begin_loops();
        }
    }

    /// Appends the text of a parameter; `false` if it is NULL.
    #[inline]
    pub fn write(&self, parameter: usize, out: &mut Vec<u8>) -> bool {
        self.makers[self.current].own.write(parameter, out)
    }

    /// The value of a parameter that is a whole number; `None` if it is NULL or no such number.
    #[inline]
    pub fn int(&self, parameter: usize) -> Option<i64> {
        self.makers[self.current].own.int(parameter)
    }

    /// As [`ClientParameters::write`], for a parameter of a loop.
    pub fn write_of_round(&self, each: usize, parameter: usize, out: &mut Vec<u8>) -> bool {
        self.makers[self.current].each[each].maker.write(parameter, out)
    }

    /// As [`ClientParameters::int`], for a parameter of a loop.
    pub fn int_of_round(&self, each: usize, parameter: usize) -> Option<i64> {
        self.makers[self.current].each[each].maker.int(parameter)
    }

    /// The transaction was committed: rows that its `fresh()` named exist, and others are named next.
    #[inline]
    pub fn committed(&mut self) {
        self.stream.committed();
    }

    /// Why a parameter of the transaction could not be made, if so; the transaction must not be sent then.
    #[inline]
    pub fn fault(&self) -> Option<&CellFault> {
        self.fault.as_ref()
    }
}
