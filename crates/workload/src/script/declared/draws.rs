//! A client's draws: the values of the parameters of the transaction that it is in.

use std::sync::Arc;

use generator::{ClientParameters, Clock, Instance};

/// Which client of a load draws, and from which streams.
#[derive(Clone, Copy, Debug)]
pub struct Drawer {
    /// Number of the client in the whole load, from 0.
    pub client: u32,
    /// Clients of the whole load.
    pub n_clients: u32,
    /// Seed of the load.
    pub seed: u64,
    /// Clock that `now()` asks.
    pub clock: Clock,
}

/// Which of a transaction's parameters it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlace {
    /// The loop that draws it in each round, by its index; none: it is drawn when the transaction begins.
    pub each: Option<u16>,
    /// Index there.
    pub index: u16,
}

/// The parameters of one client.
#[derive(Clone, Debug)]
pub struct ParameterDraws(ClientParameters);

impl ParameterDraws {
    /// The draws of a client that has begun nothing.
    pub(crate) fn new(instance: &Arc<Instance>, drawer: Drawer) -> ParameterDraws {
        let client = instance.client(drawer.client, drawer.n_clients, drawer.seed);
        ParameterDraws(client.with_clock(drawer.clock))
    }

    /// Draws all parameters of a transaction, by its index in the directory.
    ///
    /// # Errors
    /// Why one has no value.
    #[inline]
    pub(crate) fn begin(&mut self, transaction: usize) -> Result<(), String> {
        self.0.begin(transaction);
        self.checked()
    }

    /// Draws the parameters of a loop's next round.
    ///
    /// # Errors
    /// Why one has no value.
    pub(crate) fn begin_round(&mut self, each: u16) -> Result<(), String> {
        self.0.begin_round(each.into());
        self.checked()
    }

    #[inline]
    fn checked(&self) -> Result<(), String> {
        self.0.fault().map_or(Ok(()), |fault| Err(fault.to_string()))
    }

    /// The transaction is tried again with the same values.
    pub(crate) fn rewind(&mut self) {
        self.0.rewind();
    }

    /// The transaction was committed: rows that it inserted exist.
    #[inline]
    pub(crate) fn committed(&mut self) {
        self.0.committed();
    }

    /// The value of a parameter of type `int`; `None` if it is NULL.
    #[inline]
    pub(crate) fn int(&self, place: ParameterPlace) -> Option<i64> {
        let index = usize::from(place.index);
        match place.each {
            None => self.0.int(index),
            Some(each) => self.0.int_of_round(each.into(), index),
        }
    }

    /// Appends the text of a parameter; `false` if it is NULL.
    #[inline]
    pub(crate) fn write(&self, place: ParameterPlace, out: &mut Vec<u8>) -> bool {
        let index = usize::from(place.index);
        match place.each {
            None => self.0.write(index, out),
            Some(each) => self.0.write_of_round(each.into(), index, out),
        }
    }
}
