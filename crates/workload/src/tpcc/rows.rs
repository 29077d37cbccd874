//! The rows of a fresh load as COPY text (clause 4.3.3.1).
//!
//! A row depends only on the population and on its number, never on how the range was divided, so that several loaders
//! can share a table.

use std::ops::Range;

use super::nurand::Constants;
use super::population::{OrderHead, Population, PopulationStyle, RowPlace};
use super::strings::{a_string, data_string, decimal, last_name, n_string, zip};
use super::{
    CUSTOMERS_PER_DISTRICT, FIRST_UNDELIVERED, ITEMS, ORDERS_PER_DISTRICT, STOCK_PER_WAREHOUSE, TpccTable,
};
use crate::number::write_uint;
use crate::random::Prng;

/// Longest unit: fifteen order lines of at most 110 bytes; a customer takes at most 750.
const UNIT_BYTES_MAX: usize = 2048;

/// Writes the rows of a range of a table, in order.
#[derive(Clone, Debug)]
pub struct TpccRows {
    table: TpccTable,
    population: Population,
    constants: Constants,
    left: Range<u64>,
}

impl TpccRows {
    /// The units `range`, counted from 0, of a table; see [`TpccTable::units_per_warehouse`]. Beyond the table's end there
    /// are none.
    pub fn new(table: TpccTable, population: &Population, range: Range<u64>) -> TpccRows {
        let n_units = table.units(population.warehouses);
        let left = range.start.min(n_units)..range.end.min(n_units);
        TpccRows { table, constants: population.constants(), population: population.clone(), left }
    }

    /// Appends whole units to `out`, about `max_bytes` of them, but always one if any is left. Returns the number
    /// of rows; 0 is the end.
    pub fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        let stop = out.len() + max_bytes;
        out.reserve(max_bytes + UNIT_BYTES_MAX);
        let mut n_rows = 0;
        while self.left.start < self.left.end {
            n_rows += self.write_unit(self.left.start, out);
            self.left.start += 1;
            if out.len() >= stop {
                break;
            }
        }
        n_rows
    }

    /// Number of units left.
    pub fn n_left(&self) -> u64 {
        self.left.end.saturating_sub(self.left.start)
    }

    fn write_unit(&self, unit: u64, out: &mut Vec<u8>) -> usize {
        let mut prng = self.population.stream(self.table, unit);
        let mut row = Row { out, is_first: true };
        match self.table {
            TpccTable::Item => item(&mut prng, &mut row, unit),
            TpccTable::Warehouse => self.warehouse(&mut prng, &mut row, unit),
            TpccTable::District => self.district(&mut prng, &mut row, unit),
            TpccTable::Customer => self.customer(&mut prng, &mut row, unit),
            TpccTable::History => self.history(&mut prng, &mut row, unit),
            TpccTable::Stock => stock(&mut prng, &mut row, unit),
            TpccTable::Orders => self.order(&mut row, unit),
            TpccTable::NewOrder => new_order(&mut row, unit),
            TpccTable::OrderLine => return self.order_lines(&mut prng, &mut row, unit),
        }
        row.end();
        1
    }

    fn customer(&self, prng: &mut Prng, row: &mut Row, unit: u64) {
        let RowPlace { w_id, d_id, id } = RowPlace::new(unit, CUSTOMERS_PER_DISTRICT);
        row.uint(id).uint(d_id).uint(w_id);
        // The first thousand have each name once, the others have names drawn as terminals draw them.
        let name = if id <= 1000 { id as u32 - 1 } else { self.constants.last_name(prng) };
        row.text(|out| a_string(prng, out, 8, 16)).text(|out| out.extend_from_slice(b"OE"));
        row.text(|out| last_name(name, out));
        address(prng, row);
        row.text(|out| n_string(prng, out, 16));
        row.text(|out| out.extend_from_slice(self.population.at.as_bytes()));
        let one_in = if self.is_spec() { 10 } else { 2 };
        let credit: &[u8] = if prng.uint64_range(1, one_in) == 1 { b"BC" } else { b"GC" };
        row.text(|out| out.extend_from_slice(credit));
        let discount = prng.uint64_range(0, 5000);
        // C_CREDIT_LIM, C_DISCOUNT, C_BALANCE, C_YTD_PAYMENT, C_PAYMENT_CNT, C_DELIVERY_CNT
        row.text(|out| out.extend_from_slice(b"50000.00")).text(|out| decimal(out, discount, 4));
        row.text(|out| out.extend_from_slice(b"-10.00\t10.00\t1\t0"));
        row.text(|out| a_string(prng, out, 300, 500));
    }

    fn history(&self, prng: &mut Prng, row: &mut Row, unit: u64) {
        let RowPlace { w_id, d_id, id } = RowPlace::new(unit, CUSTOMERS_PER_DISTRICT);
        row.uint(id).uint(d_id).uint(w_id).uint(d_id).uint(w_id);
        row.text(|out| out.extend_from_slice(self.population.at.as_bytes()));
        row.text(|out| out.extend_from_slice(b"10.00")).text(|out| a_string(prng, out, 12, 24));
    }

    fn order(&self, row: &mut Row, unit: u64) {
        let OrderHead { place, c_id, ol_cnt, carrier_id } = self.population.order(unit);
        row.uint(place.id).uint(place.d_id).uint(place.w_id).uint(c_id);
        row.text(|out| out.extend_from_slice(self.population.at.as_bytes()));
        match carrier_id {
            Some(carrier_id) => row.uint(carrier_id),
            None => row.null(),
        };
        row.uint(ol_cnt).uint(1);
    }

    fn order_lines(&self, prng: &mut Prng, row: &mut Row, unit: u64) -> usize {
        let head = self.population.order(unit);
        let RowPlace { w_id, d_id, id } = head.place;
        for number in 1..=head.ol_cnt {
            row.uint(id).uint(d_id).uint(w_id).uint(number);
            row.uint(prng.uint64_range(1, ITEMS)).uint(w_id);
            // Either delivered when entered, with an amount of 0, or not delivered, with a random amount.
            let amount = match head.carrier_id {
                Some(_) => {
                    row.text(|out| out.extend_from_slice(self.population.at.as_bytes()));
                    if self.is_spec() { 0 } else { prng.uint64_range(10, 10_000) }
                }
                None => {
                    row.null();
                    if self.is_spec() { prng.uint64_range(1, 999_999) } else { 0 }
                }
            };
            row.uint(5).text(|out| decimal(out, amount, 2)).text(|out| a_string(prng, out, 24, 24));
            row.end();
        }
        head.ol_cnt as usize
    }

    fn warehouse(&self, prng: &mut Prng, row: &mut Row, unit: u64) {
        row.uint(unit + 1).text(|out| a_string(prng, out, 6, 10));
        address(prng, row);
        let tax = self.tax(prng);
        row.text(|out| decimal(out, tax, 4)).text(|out| out.extend_from_slice(b"300000.00"));
    }

    fn district(&self, prng: &mut Prng, row: &mut Row, unit: u64) {
        let RowPlace { w_id, d_id, .. } = RowPlace::new(unit, 1);
        row.uint(d_id).uint(w_id).text(|out| a_string(prng, out, 6, 10));
        address(prng, row);
        let tax = self.tax(prng);
        row.text(|out| decimal(out, tax, 4)).text(|out| out.extend_from_slice(b"30000.00")).uint(3001);
    }

    /// The tax rate in ten thousandths.
    fn tax(&self, prng: &mut Prng) -> u64 {
        prng.uint64_range(if self.is_spec() { 0 } else { 1000 }, 2000)
    }

    fn is_spec(&self) -> bool {
        self.population.style == PopulationStyle::Spec
    }
}

fn item(prng: &mut Prng, row: &mut Row, unit: u64) {
    row.uint(unit + 1).uint(prng.uint64_range(1, 10_000)).text(|out| a_string(prng, out, 14, 24));
    let price = prng.uint64_range(100, 10_000);
    row.text(|out| decimal(out, price, 2)).text(|out| data_string(prng, out));
}

/// Streets, city, state and zip code.
fn address(prng: &mut Prng, row: &mut Row) {
    for _ in 0..3 {
        row.text(|out| a_string(prng, out, 10, 20));
    }
    row.text(|out| a_string(prng, out, 2, 2)).text(|out| zip(prng, out));
}

fn stock(prng: &mut Prng, row: &mut Row, unit: u64) {
    row.uint(unit % STOCK_PER_WAREHOUSE + 1).uint(unit / STOCK_PER_WAREHOUSE + 1);
    row.uint(prng.uint64_range(10, 100));
    for _ in 0..10 {
        row.text(|out| a_string(prng, out, 24, 24));
    }
    // S_YTD, S_ORDER_CNT, S_REMOTE_CNT
    row.uint(0).uint(0).uint(0).text(|out| data_string(prng, out));
}

fn new_order(row: &mut Row, unit: u64) {
    let place = RowPlace::new(unit, ORDERS_PER_DISTRICT + 1 - FIRST_UNDELIVERED);
    row.uint(place.id + FIRST_UNDELIVERED - 1).uint(place.d_id).uint(place.w_id);
}

/// A row of COPY text that is being written.
struct Row<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl Row<'_> {
    /// The next column's text, which needs no escaping.
    #[inline]
    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.push(b'\t');
        }
        write(self.out);
        self
    }

    #[inline]
    fn uint(&mut self, value: u64) -> &mut Self {
        self.text(|out| write_uint(out, value))
    }

    fn null(&mut self) -> &mut Self {
        self.text(|out| out.extend_from_slice(b"\\N"))
    }

    fn end(&mut self) {
        self.out.push(b'\n');
        self.is_first = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::TABLES;
    use super::*;

    fn population() -> Population {
        Population {
            warehouses: 2,
            seed: 42,
            style: PopulationStyle::Spec,
            at: "2026-11-21 12:00:00+00".to_owned(),
        }
    }

    fn all(table: TpccTable, ranges: &[(u64, u64)], max_bytes: usize) -> (Vec<u8>, usize) {
        let (mut out, mut n_rows) = (Vec::new(), 0);
        for &(from, to) in ranges {
            let mut rows = TpccRows::new(table, &population(), from..to);
            loop {
                let n = rows.fill(&mut out, max_bytes);
                n_rows += n;
                if n == 0 {
                    break;
                }
            }
            assert_eq!(rows.n_left(), 0);
        }
        (out, n_rows)
    }

    #[test]
    fn rows_do_not_depend_on_ranges_and_pieces() {
        for table in TABLES {
            let n = table.units(2).min(2000);
            let (whole, n_rows) = all(table, &[(0, n)], 1 << 16);
            let third = n / 3;
            let (cut, _) = all(table, &[(0, third), (third, third + 1), (third + 1, n)], 100);
            assert!(whole == cut, "{table:?}");
            assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), n_rows, "{table:?}");
            assert_eq!(all(table, &[(table.units(2), u64::MAX)], 100).1, 0, "{table:?}: beyond the end");
        }
    }

    #[test]
    fn the_population_is_what_it_was() {
        // A change of rows spoils comparisons with data loaded before, so it must be made knowingly: here.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for table in TABLES {
            let (bytes, _) = all(table, &[(0, 50)], 1 << 16);
            hash =
                bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        }
        assert_eq!(hash, 0xeb21_3842_4640_be8e, "fingerprint {hash:#x}");
    }

    #[test]
    fn every_row_has_the_columns_of_its_table() {
        let check = |table: TpccTable, n_columns: usize| {
            let (bytes, _) = all(table, &[(0, 5)], 1 << 16);
            for line in String::from_utf8(bytes).unwrap().lines() {
                assert_eq!(line.split('\t').count(), n_columns, "{table:?}: {line}");
            }
        };
        for (table, n_columns) in TABLES.into_iter().zip([5, 9, 11, 21, 8, 17, 8, 3, 10]) {
            check(table, n_columns);
        }
    }
}
