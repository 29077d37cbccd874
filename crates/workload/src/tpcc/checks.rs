//! What must hold in the tables: the twelve consistency conditions of clause 3.3.2, nine more that the transactions imply, and
//! what holds until the first of them.
//!
//! Groups are combined by full joins and compared NULL-safe, so that a missing group is a violation.

use crate::objects::check::{Checks, InitialState, Invariant, checks};

/// The conditions.
pub const CHECKS: Checks = Checks {
    always: ALWAYS,
    fresh: Some(InitialState { is_changed: include_str!("checks/is-fresh.sql"), checks: FRESH }),
    // They read no large table.
    quick: &["3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.8", "3.3.2.9"],
    quick_reads: &["history", "orders"],
    hint: None,
};

const ALWAYS: &[Invariant] = checks! { "checks/":
    "row-counts", "items, warehouses, districts, customers and stock are as many as the scale has (clause 1.2)";
    "3.3.2.1", "W_YTD is the sum of D_YTD";
    "3.3.2.2", "D_NEXT_O_ID - 1 is the largest O_ID, and the largest NO_O_ID where there is one";
    "3.3.2.3", "a district's rows of NEW-ORDER have numbers without a gap";
    "3.3.2.4", "the sum of O_OL_CNT is the number of a district's order lines";
    "3.3.2.5", "an order has no carrier if and only if it has a row of NEW-ORDER";
    "3.3.2.6", "O_OL_CNT is the number of the order's lines";
    "3.3.2.7", "a line has no delivery date if and only if its order has no carrier";
    "3.3.2.8", "W_YTD is the sum of the warehouse's H_AMOUNT";
    "3.3.2.9", "D_YTD is the sum of the district's H_AMOUNT";
    "3.3.2.10", "C_BALANCE is what was delivered less what was paid";
    "3.3.2.11", "a district's orders less its rows of NEW-ORDER are its delivered orders (2100 after loading)";
    "3.3.2.12", "C_BALANCE and C_YTD_PAYMENT together are what was delivered";
    "payments", "C_PAYMENT_CNT is the number of the customer's rows of HISTORY";
    "stock", "S_YTD, S_ORDER_CNT and S_REMOTE_CNT are those of the lines that the warehouse supplied";
    "all-local", "O_ALL_LOCAL is 1 if and only if no line comes from another warehouse";
    "deliveries", "C_DELIVERY_CNT is the number of the customer's orders delivered since loading";
    "amounts", "OL_AMOUNT of lines ordered since loading is OL_QUANTITY times I_PRICE";
    "lines", "an order has 5 to 15 lines, numbered from 1";
    "quantities", "S_QUANTITY is 10 to 100, and OL_QUANTITY 1 to 10";
    "customers", "every order and payment is of a customer, and every line of an item in stock";
};

/// Clause 4.3.3.1: cardinalities, and shares within four standard deviations of their expectations.
const FRESH: &[Invariant] = checks! { "checks/":
    "4.3.3.1-rows", "history, orders, new orders and lines are as many as loading makes";
    "4.3.3.1-shares", "a tenth of items, stock and customers is ORIGINAL or has bad credit";
    "4.3.3.1-orders", "each customer has one order, and each district 2100 delivered ones";
    "4.3.3.1-values", "sums, balances and counters have their first values";
};
