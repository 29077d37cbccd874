//! Parameters of transactions for one client.
//!
//! All of a transaction are drawn when it begins and kept until the next one begins, so that a try after an error sends the same
//! values. Those of a loop are drawn in each round; the client goes back to the draws of the first round when it tries again.

use std::fmt;

use crate::expression::{CellFault, ClientStream, ParameterMaker};
use crate::instance::Instance;

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
    each: Vec<ParameterMaker>,
}

impl fmt::Debug for ClientParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientParameters").field("current", &self.current).finish_non_exhaustive()
    }
}

impl ClientParameters {
    pub(super) fn new(
        instance: &Instance,
        client: u32,
        n_clients: u32,
        stream_seed: u64,
    ) -> ClientParameters {
        let maker = |set: usize| instance.generator.parameters_maker(set);
        let makers = instance.transactions.iter().map(|transaction| TransactionMakers {
            own: maker(transaction.set),
            each: transaction.each.iter().map(|each| maker(each.set)).collect(),
        });
        let stream = ClientStream::new(stream_seed, client.into(), n_clients.into());
        ClientParameters {
            makers: makers.collect(),
            before_loops: stream.clone(),
            stream,
            current: 0,
            fault: None,
        }
    }

    /// Draws all parameters of a transaction, by its index.
    #[inline]
    pub fn begin(&mut self, transaction: usize) {
        self.current = transaction;
        self.stream.begin();
        let makers = &mut self.makers[transaction];
        self.fault = makers.own.draw(&mut self.stream).err();
        if !makers.each.is_empty() {
            self.before_loops.clone_from(&self.stream);
        }
    }

    /// Draws the parameters of the next round of a loop, by its index in the transaction.
    pub fn begin_round(&mut self, each: usize) {
        let drawn = self.makers[self.current].each[each].draw(&mut self.stream);
        if let Err(fault) = drawn {
            self.fault.get_or_insert(fault);
        }
    }

    /// The transaction is tried again: its parameters stay, and loops draw what they drew.
    pub fn rewind(&mut self) {
        if !self.makers[self.current].each.is_empty() {
            self.stream.clone_from(&self.before_loops);
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
        self.makers[self.current].each[each].write(parameter, out)
    }

    /// As [`ClientParameters::int`], for a parameter of a loop.
    pub fn int_of_round(&self, each: usize, parameter: usize) -> Option<i64> {
        self.makers[self.current].each[each].int(parameter)
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
