//! The TPC-C-like workload: tables, rows, transaction profiles and checks after revision 5.11 of the specification.
//!
//! Each clause of the specification stands where it is implemented. What differs from the specification is listed in
//! METHODOLOGY: results are TPC-C-like, and are never called tpmC. Nothing here sends, waits or reads a clock; a
//! [`Terminal`] is run by a [`Emulator`](crate::Emulator) like any script.

mod checks;
mod config;
mod filling;
mod nurand;
mod parameter;
mod population;
mod programs;
mod routines;
mod rows;
mod schema;
mod statements;
mod strings;
mod terminal;
mod transaction;
mod trial;

pub use checks::CHECKS;
pub use config::{Calls, ConfigError, Think, TpccConfig};
pub use filling::{C_LOAD, fill};
pub(crate) use filling::{FILLING, facts, population, tables};
pub use nurand::Constants;
pub use population::{Population, PopulationStyle};
pub use programs::{TransactionProfile, programs};
pub use routines::create_routines;
pub use rows::TpccRows;
pub use schema::{copy_statement, create_tables, indexes, primary_keys};
pub(crate) use strings::last_name;
pub use terminal::Terminal;
pub use trial::{NewOrderInputs, OrderedItem, Trial, TrialStatement};

/// Rows of ITEM (clause 4.3.3.1).
pub const ITEMS: u64 = 100_000;
/// Rows of STOCK for each warehouse.
pub const STOCK_PER_WAREHOUSE: u64 = 100_000;
/// Districts of each warehouse.
pub const DISTRICTS: u64 = 10;
/// Customers of each district.
pub const CUSTOMERS_PER_DISTRICT: u64 = 3000;
/// Orders of each district after loading.
pub const ORDERS_PER_DISTRICT: u64 = 3000;
/// The first order of a district that loading leaves undelivered.
pub const FIRST_UNDELIVERED: u64 = 2101;
/// An item number that is never used: the last line of an order that is to be rolled back asks for it
/// (clause 2.4.1.5).
pub const UNUSED_ITEM: u32 = 100_001;
/// SQLSTATE with which the function `tpcc_new_order` undoes an order with an unused item. Classes from `I` to `Z`
/// are left to applications by the SQL standard.
pub const UNUSED_ITEM_SQLSTATE: &str = "TPC01";

/// A table (clause 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TpccTable {
    /// `item`: the same whatever the number of warehouses.
    Item,
    /// `warehouse`.
    Warehouse,
    /// `district`.
    District,
    /// `customer`.
    Customer,
    /// `history`.
    History,
    /// `stock`.
    Stock,
    /// `orders`: ORDER is a reserved word.
    Orders,
    /// `new_order`.
    NewOrder,
    /// `order_line`.
    OrderLine,
}

/// All tables, in the order of loading.
pub const TABLES: [TpccTable; 9] = [
    TpccTable::Item,
    TpccTable::Warehouse,
    TpccTable::District,
    TpccTable::Customer,
    TpccTable::History,
    TpccTable::Stock,
    TpccTable::Orders,
    TpccTable::NewOrder,
    TpccTable::OrderLine,
];

impl TpccTable {
    /// The table's name.
    pub const fn name(self) -> &'static str {
        match self {
            TpccTable::Item => "item",
            TpccTable::Warehouse => "warehouse",
            TpccTable::District => "district",
            TpccTable::Customer => "customer",
            TpccTable::History => "history",
            TpccTable::Stock => "stock",
            TpccTable::Orders => "orders",
            TpccTable::NewOrder => "new_order",
            TpccTable::OrderLine => "order_line",
        }
    }

    /// Units of rows that one warehouse has: a unit is a row, and for ORDER-LINE all lines of an order. ITEM, which
    /// belongs to no warehouse, has none.
    pub fn units_per_warehouse(self) -> u64 {
        match self {
            TpccTable::Item => 0,
            TpccTable::Warehouse => 1,
            TpccTable::District => DISTRICTS,
            TpccTable::Customer | TpccTable::History => DISTRICTS * CUSTOMERS_PER_DISTRICT,
            TpccTable::Stock => STOCK_PER_WAREHOUSE,
            TpccTable::Orders | TpccTable::OrderLine => DISTRICTS * ORDERS_PER_DISTRICT,
            TpccTable::NewOrder => DISTRICTS * (ORDERS_PER_DISTRICT + 1 - FIRST_UNDELIVERED),
        }
    }

    /// Units of rows of the whole table.
    pub fn units(self, warehouses: u32) -> u64 {
        match self {
            TpccTable::Item => ITEMS,
            _ => self.units_per_warehouse() * u64::from(warehouses),
        }
    }
}
