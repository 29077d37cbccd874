//! The transaction that a client is in.

use crate::clock::Nanos;
use crate::tally::SqlState;

/// The client's part in a load whose clients differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientRole {
    /// Its class; 0 if there is only one.
    pub(crate) class: usize,
    /// Scripts that it runs one after the other, again and again; empty: they are chosen by weight.
    order: Box<[usize]>,
    position: usize,
}

impl ClientRole {
    /// The part of a client of a class, which has an order or none.
    pub(crate) fn new(class: usize, order: Vec<usize>) -> ClientRole {
        ClientRole { class, order: order.into(), position: 0 }
    }

    /// The script that comes next, if there is an order.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        self.order.get(self.position).copied()
    }

    /// How many scripts the order has; 0 without one.
    pub(crate) fn n_in_order(&self) -> usize {
        self.order.len()
    }

    /// The script that came next has begun.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if !self.order.is_empty() {
            self.position = (self.position + 1) % self.order.len();
        }
    }
}

/// The transaction in flight, or the last one. Where it stands is the client's [`super::State`].
pub(crate) struct CurrentTransaction {
    /// Its script, and the statement that was sent last.
    pub(crate) script: usize,
    pub(crate) statement: usize,
    /// Whether a block was open when that was sent: an error may say that none is any more.
    pub(crate) was_in_block: bool,
    /// When it was due, and when its first statement was sent.
    pub(crate) due: Nanos,
    pub(crate) started: Nanos,
    /// When the current statement, or the end of a pipeline, was sent, and when the current command began (if commands are timed).
    pub(crate) statement_sent: Nanos,
    pub(crate) command_begun: Nanos,
    /// Tries, including the current one.
    pub(crate) tries: u32,
    /// The error of the current try, while the try is rolled back.
    pub(crate) failure: Option<SqlState>,
    /// The error with which the transaction ended.
    pub(crate) ended_with: Option<SqlState>,
    /// When the statement in flight was cancelled, because the load had ended.
    pub(crate) cancelled: Option<Nanos>,
    /// What the current try has sent, with the values of parameters as literals, where that is reported.
    pub(crate) texts: Vec<String>,
}

impl Default for CurrentTransaction {
    fn default() -> CurrentTransaction {
        CurrentTransaction {
            script: 0,
            statement: 0,
            was_in_block: false,
            due: 0,
            started: 0,
            statement_sent: 0,
            command_begun: 0,
            tries: 1,
            failure: None,
            ended_with: None,
            cancelled: None,
            texts: Vec::new(),
        }
    }
}
