//! Which customer a Payment or an Order-Status is about: by number, or by last name (clauses 2.5.1.2 and 2.6.1.2).

use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::strings::last_name;
use crate::tpcc::transaction::{HomeTerminal, Row, number};

/// A customer to look up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sought {
    pub(crate) w_id: u32,
    pub(crate) d_id: u32,
    /// The number of the last name, if the lookup is by name.
    pub(crate) by_name: Option<u32>,
    /// The customer's number, once it is known.
    pub(crate) c_id: Option<u32>,
    /// All customers with the name, ordered by first name.
    namesakes: Vec<u32>,
}

impl Sought {
    /// A lookup by number.
    pub(crate) fn given(w_id: u32, d_id: u32, c_id: u32) -> Sought {
        Sought { w_id, d_id, c_id: Some(c_id), ..Sought::default() }
    }

    /// Draws a customer: 60 % by last name, 40 % by number.
    pub(crate) fn draw(&mut self, prng: &mut Prng, home: &HomeTerminal) {
        let constants = &home.config.constants;
        self.by_name = (prng.uint64_range(1, 100) <= 60).then(|| constants.last_name(prng));
        self.c_id = self.by_name.is_none().then(|| constants.customer(prng));
    }

    /// Starts the lookup.
    pub(crate) fn begin(&mut self) {
        self.namesakes.clear();
        if self.by_name.is_some() {
            self.c_id = None;
        }
    }

    /// Takes in a customer with the name; they come ordered by first name.
    pub(crate) fn take(&mut self, row: &mut Row) -> Option<()> {
        self.namesakes.push(number(row)?);
        Some(())
    }

    /// Chooses the one in the middle, position n/2 rounded up (clause 2.5.2.2).
    pub(crate) fn choose(&mut self) -> Result<(), &'static str> {
        let n = self.namesakes.len();
        let middle = self.namesakes.get(n.wrapping_sub(1) / 2);
        self.c_id = Some(*middle.ok_or("a customer of the last name")?);
        Ok(())
    }

    /// Appends one of the customer's parameters.
    pub(crate) fn parameter(&self, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        match parameter {
            TerminalParameter::CWId => write_uint(out, self.w_id.into()),
            TerminalParameter::CDId => write_uint(out, self.d_id.into()),
            TerminalParameter::CId => match self.c_id {
                Some(c_id) => write_uint(out, c_id.into()),
                None => return false,
            },
            TerminalParameter::CLast => match self.by_name {
                Some(name) => last_name(name, out),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_of_namesakes_is_chosen() {
        for (n, expected) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            let mut sought = Sought { by_name: Some(0), namesakes: (1..=n).collect(), ..Sought::default() };
            sought.choose().unwrap();
            assert_eq!(sought.c_id, Some(expected), "of {n}");
        }
        assert!(Sought { by_name: Some(0), ..Sought::default() }.choose().is_err());
    }
}
