//! What the five transactions have in common.

pub(crate) mod customer;
pub(crate) mod delivery;
pub(crate) mod new_order;
pub(crate) mod order_status;
pub(crate) mod payment;
pub(crate) mod stock_level;

use super::config::TpccConfig;
use super::parameter::TerminalParameter;
use crate::number::write_uint;
use crate::random::Prng;

/// A terminal's constants, the same for all its transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeTerminal {
    /// The configuration of the run.
    pub(crate) config: TpccConfig,
    /// Home warehouse.
    pub(crate) w_id: u32,
    /// The district of its Stock-Level transactions.
    pub(crate) d_id: u32,
}

/// A row of a result: its values in order, `None` for NULL.
pub(crate) type Row<'a> = &'a mut dyn Iterator<Item = Option<&'a [u8]>>;

/// One of the five transactions: its inputs, and its course from statement to statement.
///
/// `draw` is called once, `begin` before each try; then `next` returns one statement after the other, and `take_row`
/// is called in between for each row of the statement's result. Statements are numbered as in `statements.rs`. For a
/// transaction that is a single call, `next` is not called.
pub(crate) trait Transaction {
    /// Draws the inputs.
    fn draw(&mut self, prng: &mut Prng, home: &HomeTerminal);

    /// Starts a try with the inputs that were drawn.
    fn begin(&mut self);

    /// The next statement, given the number of rows of the last one, or `None` at the end; the error says what the
    /// last one should have returned.
    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str>;

    /// Takes in a row of the statement handed out last; `None` if it cannot be one.
    fn take_row(&mut self, row: Row) -> Option<()>;

    /// Appends a parameter's text; `false` stands for NULL.
    fn parameter(&self, home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool;

    /// Adds the facts about the transaction that has just ended, in the order of [`super::TransactionProfile::facts`].
    fn add_facts(&self, facts: &mut [u64]);
}

/// The next value, as a number.
pub(crate) fn number<T: std::str::FromStr>(row: &mut Row) -> Option<T> {
    std::str::from_utf8(row.next()??).ok()?.parse().ok()
}

/// A warehouse other than `home`, if there is one.
pub(crate) fn other_warehouse(prng: &mut Prng, home: &HomeTerminal) -> Option<u32> {
    let n = u64::from(home.config.warehouses);
    let other = (n > 1).then(|| prng.uint64_range(1, n - 1) as u32)?;
    Some(if other >= home.w_id { other + 1 } else { other })
}

/// Appends an array of numbers as the server reads it.
pub(crate) fn array(out: &mut Vec<u8>, values: impl Iterator<Item = u32>) {
    array_with(out, values, |value, out| write_uint(out, value.into()));
}

/// Appends an array as the server reads it.
pub(crate) fn array_with<T>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'{');
    for (n, value) in values.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(value, out);
    }
    out.push(b'}');
}

/// Appends an array's element in quotes.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
