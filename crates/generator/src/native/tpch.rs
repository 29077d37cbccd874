//! The eight tables of TPC-H: what their columns hold (clause 1.4 of the specification), and their rows by the library `tpchgen`.

mod columns;
mod shared_text;
mod write;

use tpchgen::generators::{CustomerGenerator, OrderGenerator, PartGenerator, SupplierGenerator};

pub(super) use crate::native::tpch::shared_text::SharedText;

/// Largest scale. The library counts parts of tables, of which orders have as many as rows, with 31 bits.
pub(super) const SCALE_MAX: u32 = 100_000;
/// Units of scale of a scale factor.
const PER_SCALE_FACTOR: f64 = 100.0;

const N_REGIONS: u64 = 5;
const N_NATIONS: u64 = 25;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TpchTable {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    PartSupp,
    Orders,
    LineItem,
}

/// The scale factor of a scale.
pub(super) fn scale_factor(scale: u32) -> f64 {
    f64::from(scale) / PER_SCALE_FACTOR
}

impl TpchTable {
    /// All tables, each after those that it refers to.
    pub(super) const ALL: [TpchTable; 8] = [
        TpchTable::Region,
        TpchTable::Nation,
        TpchTable::Supplier,
        TpchTable::Customer,
        TpchTable::Part,
        TpchTable::PartSupp,
        TpchTable::Orders,
        TpchTable::LineItem,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::PartSupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::LineItem => "lineitem",
        }
    }

    /// Rows; of a table with a parent, the rows of the parent.
    pub(super) fn n_rows(self, scale: u32) -> u64 {
        let factor = scale_factor(scale);
        let n_rows = match self {
            TpchTable::Region => return N_REGIONS,
            TpchTable::Nation => return N_NATIONS,
            TpchTable::Supplier => SupplierGenerator::calculate_row_count(factor, 1, 1),
            TpchTable::Customer => CustomerGenerator::calculate_row_count(factor, 1, 1),
            TpchTable::Part | TpchTable::PartSupp => PartGenerator::calculate_row_count(factor, 1, 1),
            TpchTable::Orders | TpchTable::LineItem => OrderGenerator::calculate_row_count(factor, 1, 1),
        };
        n_rows.unsigned_abs()
    }

    /// The table for each row of which this one has lines, with their least and greatest number.
    pub(super) fn parent(self) -> Option<(&'static str, u64, u64)> {
        match self {
            TpchTable::PartSupp => Some((TpchTable::Part.name(), 4, 4)),
            TpchTable::LineItem => Some((TpchTable::Orders.name(), 1, 7)),
            _ => None,
        }
    }

    /// The greatest key of an order.
    fn last_order_key(scale: u32) -> i64 {
        let n_orders = TpchTable::Orders.n_rows(scale);
        OrderGenerator::make_order_key(n_orders as i64)
    }
}
