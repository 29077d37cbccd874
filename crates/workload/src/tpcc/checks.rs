//! Queries that find violations of what must hold after any run of the workload: the twelve consistency conditions of clause 3.3.2,
//! and nine more that the transactions imply.
//!
//! All queries belong in one repeatable-read snapshot. Groups are combined by full joins and
//! compared NULL-safe, so that a missing group is a violation.

use super::{
    CUSTOMERS_PER_DISTRICT, DISTRICTS, ITEMS, ORDERS_PER_DISTRICT, STOCK_PER_WAREHOUSE, TABLES, Table,
};
use crate::objects::check::Check;
use crate::objects::schema::Schema;

/// Most offending rows that a check returns.
const ROWS_MAX: u32 = 100;

/// What must hold after loading and after any number of transactions.
pub fn checks(schema: &Schema, warehouses: u32) -> Vec<Check> {
    let mut checks = vec![Check {
        id: "row-counts",
        title: "items, warehouses, districts, customers and stock are as many as the scale has (clause 1.2)",
        sql: schema.fill(&row_counts(warehouses)),
    }];
    checks.extend(CONDITIONS.iter().map(|(id, title, sql)| Check {
        id,
        title,
        sql: schema.fill(&format!("{sql} limit {ROWS_MAX}")),
    }));
    checks
}

/// Those [`checks`] that read no large table: they can be made before and after each run.
pub const QUICK: [&str; 5] = ["3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.8", "3.3.2.9"];

/// Conditions: names, what they say, and the query that finds violations, with `@.` for the schema.
const CONDITIONS: &[(&str, &str, &str)] = &[
    (
        "3.3.2.1",
        "W_YTD is the sum of D_YTD",
        "select coalesce(w_id, d_w_id) as w_id, w_ytd, sum_d_ytd from @.warehouse \
         full join (select d_w_id, sum(d_ytd) as sum_d_ytd from @.district group by 1) d on d_w_id = w_id \
         where w_ytd is distinct from sum_d_ytd",
    ),
    (
        "3.3.2.2",
        "D_NEXT_O_ID - 1 is the largest O_ID, and the largest NO_O_ID where there is one",
        "select coalesce(d_w_id, o_w_id, no_w_id) as w_id, coalesce(d_id, o_d_id, no_d_id) as d_id, d_next_o_id, \
         max_o_id, max_no_o_id from @.district \
         full join (select o_w_id, o_d_id, max(o_id) as max_o_id from @.orders group by 1, 2) o \
           on o_w_id = d_w_id and o_d_id = d_id \
         full join (select no_w_id, no_d_id, max(no_o_id) as max_no_o_id from @.new_order group by 1, 2) n \
           on no_w_id = d_w_id and no_d_id = d_id \
         where d_next_o_id - 1 is distinct from max_o_id or max_no_o_id <> d_next_o_id - 1 \
           or (d_next_o_id is null and max_no_o_id is not null)",
    ),
    (
        "3.3.2.3",
        "a district's rows of NEW-ORDER have numbers without a gap",
        "select no_w_id as w_id, no_d_id as d_id, min(no_o_id) as lowest, max(no_o_id) as highest, count(*) as n_rows \
         from @.new_order group by 1, 2 having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    (
        "3.3.2.4",
        "the sum of O_OL_CNT is the number of a district's order lines",
        "select coalesce(o_w_id, ol_w_id) as w_id, coalesce(o_d_id, ol_d_id) as d_id, sum_ol_cnt, n_lines \
         from (select o_w_id, o_d_id, sum(o_ol_cnt) as sum_ol_cnt from @.orders group by 1, 2) o \
         full join (select ol_w_id, ol_d_id, count(*) as n_lines from @.order_line group by 1, 2) l \
           on ol_w_id = o_w_id and ol_d_id = o_d_id where sum_ol_cnt is distinct from n_lines",
    ),
    (
        "3.3.2.5",
        "an order has no carrier if and only if it has a row of NEW-ORDER",
        "select coalesce(o_w_id, no_w_id) as w_id, coalesce(o_d_id, no_d_id) as d_id, o_id, o_carrier_id, no_o_id \
         from @.orders full join @.new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
         where o_id is null or (o_carrier_id is null) is distinct from (no_o_id is not null)",
    ),
    (
        "3.3.2.6",
        "O_OL_CNT is the number of the order's lines",
        "select coalesce(o_w_id, ol_w_id) as w_id, coalesce(o_d_id, ol_d_id) as d_id, coalesce(o_id, ol_o_id) as o_id, \
         o_ol_cnt, n_lines from @.orders \
         full join (select ol_w_id, ol_d_id, ol_o_id, count(*) as n_lines from @.order_line group by 1, 2, 3) l \
           on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
         where o_ol_cnt is distinct from n_lines",
    ),
    (
        "3.3.2.7",
        "a line has no delivery date if and only if its order has no carrier",
        "select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, ol_number, ol_delivery_d, o_carrier_id \
         from @.order_line left join @.orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id \
         where o_id is null or (ol_delivery_d is null) <> (o_carrier_id is null)",
    ),
    (
        "3.3.2.8",
        "W_YTD is the sum of the warehouse's H_AMOUNT",
        "select coalesce(w_id, h_w_id) as w_id, w_ytd, sum_h_amount from @.warehouse \
         full join (select h_w_id, sum(h_amount) as sum_h_amount from @.history group by 1) h on h_w_id = w_id \
         where w_ytd is distinct from sum_h_amount",
    ),
    (
        "3.3.2.9",
        "D_YTD is the sum of the district's H_AMOUNT",
        "select coalesce(d_w_id, h_w_id) as w_id, coalesce(d_id, h_d_id) as d_id, d_ytd, sum_h_amount from @.district \
         full join (select h_w_id, h_d_id, sum(h_amount) as sum_h_amount from @.history group by 1, 2) h \
           on h_w_id = d_w_id and h_d_id = d_id where d_ytd is distinct from sum_h_amount",
    ),
    (
        "3.3.2.10",
        "C_BALANCE is what was delivered less what was paid",
        "select coalesce(c_w_id, o_w_id, h_c_w_id) as w_id, coalesce(c_d_id, o_d_id, h_c_d_id) as d_id, \
         coalesce(c_id, o_c_id, h_c_id) as c_id, c_balance, delivered, paid from @.customer \
         full join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from @.orders \
             join @.order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
             where ol_delivery_d is not null group by 1, 2, 3) o \
           on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
         full join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from @.history group by 1, 2, 3) h \
           on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id \
         where c_balance is distinct from coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        "3.3.2.11",
        "a district's orders less its rows of NEW-ORDER are its delivered orders (2100 after loading)",
        "select coalesce(o_w_id, no_w_id) as w_id, coalesce(o_d_id, no_d_id) as d_id, n_orders, n_new, n_delivered \
         from (select o_w_id, o_d_id, count(*) as n_orders, count(o_carrier_id) as n_delivered from @.orders \
             group by 1, 2) o \
         full join (select no_w_id, no_d_id, count(*) as n_new from @.new_order group by 1, 2) n \
           on no_w_id = o_w_id and no_d_id = o_d_id \
         where coalesce(n_orders, 0) - coalesce(n_new, 0) <> coalesce(n_delivered, 0)",
    ),
    (
        "3.3.2.12",
        "C_BALANCE and C_YTD_PAYMENT together are what was delivered",
        "select coalesce(c_w_id, o_w_id) as w_id, coalesce(c_d_id, o_d_id) as d_id, coalesce(c_id, o_c_id) as c_id, \
         c_balance, c_ytd_payment, delivered from @.customer \
         full join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from @.orders \
             join @.order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
             where ol_delivery_d is not null group by 1, 2, 3) o \
           on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
         where c_balance + c_ytd_payment is distinct from coalesce(delivered, 0)",
    ),
    (
        "payments",
        "C_PAYMENT_CNT is the number of the customer's rows of HISTORY",
        "select coalesce(c_w_id, h_c_w_id) as w_id, coalesce(c_d_id, h_c_d_id) as d_id, \
         coalesce(c_id, h_c_id) as c_id, c_payment_cnt, n_rows from @.customer \
         full join (select h_c_w_id, h_c_d_id, h_c_id, count(*) as n_rows from @.history group by 1, 2, 3) h \
           on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id \
         where c_payment_cnt is distinct from coalesce(n_rows, 0)",
    ),
    (
        "stock",
        "S_YTD, S_ORDER_CNT and S_REMOTE_CNT are those of the lines that the warehouse supplied",
        "select coalesce(s_w_id, ol_supply_w_id) as w_id, coalesce(s_i_id, ol_i_id) as i_id, s_ytd, sum_quantity, \
         s_order_cnt, n_lines, s_remote_cnt, n_remote from @.stock \
         full join (select ol_supply_w_id, ol_i_id, sum(ol_quantity) as sum_quantity, count(*) as n_lines, \
             sum((ol_supply_w_id <> ol_w_id)::int) as n_remote \
             from @.order_line where ol_o_id > 3000 group by 1, 2) l \
           on ol_supply_w_id = s_w_id and ol_i_id = s_i_id \
         where (s_ytd, s_order_cnt::bigint, s_remote_cnt::bigint) is distinct from \
           (coalesce(sum_quantity, 0), coalesce(n_lines, 0), coalesce(n_remote, 0))",
    ),
    (
        "all-local",
        "O_ALL_LOCAL is 1 if and only if no line comes from another warehouse",
        "select o_w_id as w_id, o_d_id as d_id, o_id, o_all_local, n_remote from @.orders \
         left join (select ol_w_id, ol_d_id, ol_o_id, sum((ol_supply_w_id <> ol_w_id)::int) as n_remote \
             from @.order_line group by 1, 2, 3) l \
           on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
         where (o_all_local = 1) is distinct from (coalesce(n_remote, 0) = 0)",
    ),
    (
        "deliveries",
        "C_DELIVERY_CNT is the number of the customer's orders delivered since loading",
        "select coalesce(c_w_id, o_w_id) as w_id, coalesce(c_d_id, o_d_id) as d_id, coalesce(c_id, o_c_id) as c_id, \
         c_delivery_cnt, n_orders from @.customer \
         full join (select o_w_id, o_d_id, o_c_id, count(*) as n_orders from @.orders \
             where o_id > 2100 and o_carrier_id is not null group by 1, 2, 3) o \
           on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id \
         where c_delivery_cnt is distinct from coalesce(n_orders, 0)",
    ),
    (
        "amounts",
        "OL_AMOUNT of lines ordered since loading is OL_QUANTITY times I_PRICE",
        "select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, ol_number, ol_amount, ol_quantity, i_price \
         from @.order_line left join @.item on i_id = ol_i_id \
         where ol_o_id > 3000 and ol_amount is distinct from ol_quantity * i_price",
    ),
    (
        "lines",
        "an order has 5 to 15 lines, numbered from 1",
        "select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, count(*) as n_lines, min(ol_number) as lowest, \
         max(ol_number) as highest from @.order_line group by 1, 2, 3 \
         having count(*) not between 5 and 15 or min(ol_number) <> 1 or max(ol_number) <> count(*)",
    ),
    (
        "quantities",
        "S_QUANTITY is 10 to 100, and OL_QUANTITY 1 to 10",
        "select 'stock' as table_name, s_w_id as w_id, s_i_id as id, s_quantity as quantity from @.stock \
         where s_quantity not between 10 and 100 \
         union all select 'order_line', ol_w_id, ol_o_id, ol_quantity from @.order_line \
         where ol_quantity not between 1 and 10",
    ),
    (
        "customers",
        "every order and payment is of a customer, and every line of an item in stock",
        "select 'orders' as table_name, o_w_id as w_id, o_d_id as d_id, o_id as id from @.orders \
         left join @.customer on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id where c_id is null \
         union all select 'history', h_c_w_id, h_c_d_id, h_c_id from @.history \
         left join @.customer on c_w_id = h_c_w_id and c_d_id = h_c_d_id and c_id = h_c_id where c_id is null \
         union all select 'order_line', ol_w_id, ol_d_id, ol_o_id from @.order_line \
         left join @.stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id where s_i_id is null",
    ),
];

/// A query that returns no rows if no transaction has run since loading.
pub fn is_fresh(schema: &Schema) -> String {
    schema.fill(FRESH)
}

const FRESH: &str = "select 1 from @.district where d_next_o_id <> 3001 union all select 1 from @.customer where c_payment_cnt <> 1 \
     union all (select 1 from @.orders where o_id = 2101 and o_carrier_id is not null) limit 1";

/// What must hold before the first transaction (clause 4.3.3.1): cardinalities, and shares within four standard
/// deviations of their expectations.
pub fn fresh_checks(schema: &Schema, warehouses: u32) -> Vec<Check> {
    let w = u64::from(warehouses);
    let customers = w * DISTRICTS * CUSTOMERS_PER_DISTRICT;
    let orders = w * DISTRICTS * ORDERS_PER_DISTRICT;
    let shares = [
        share("item", "i_data like '%ORIGINAL%'", ITEMS),
        share("stock", "s_data like '%ORIGINAL%'", w * STOCK_PER_WAREHOUSE),
        share("customer", "c_credit = 'BC'", customers),
    ];
    let lines = (orders * 10) as f64;
    // Line counts are uniform over 5..15: variance 10 for each order.
    let lines_band = 4.0 * (orders as f64 * 10.0).sqrt();
    let mut checks = vec![
        Check {
            id: "4.3.3.1-rows",
            title: "history, orders, new orders and lines are as many as loading makes",
            sql: format!(
                "select * from (values ('history', (select count(*) from @.history), {customers}::bigint, 0::float8), \
                 ('orders', (select count(*) from @.orders), {orders}, 0), \
                 ('new_order', (select count(*) from @.new_order), {}, 0), \
                 ('order_line', (select count(*) from @.order_line), {lines}, {lines_band})) \
                 t (table_name, counted, expected, band) where abs(counted - expected) > band",
                Table::NewOrder.units(warehouses)
            ),
        },
        Check {
            id: "4.3.3.1-shares",
            title: "a tenth of items, stock and customers is ORIGINAL or has bad credit",
            sql: format!(
                "select * from ({}) t where abs(counted - expected) > band",
                shares.join(" union all ")
            ),
        },
        Check {
            id: "4.3.3.1-orders",
            title: "each customer has one order, and each district 2100 delivered ones",
            sql: format!(
                "select o_w_id as w_id, o_d_id as d_id, count(distinct o_c_id) as n_customers, \
                 count(o_carrier_id) as n_delivered from @.orders group by 1, 2 \
                 having count(distinct o_c_id) <> {CUSTOMERS_PER_DISTRICT} or count(o_carrier_id) <> 2100 \
                 limit {ROWS_MAX}"
            ),
        },
        Check {
            id: "4.3.3.1-values",
            title: "sums, balances and counters have their first values",
            sql: format!(
                "select 'warehouse' as table_name, w_id, w_id as id from @.warehouse where w_ytd <> 300000 \
                 union all select 'district', d_w_id, d_id from @.district where d_ytd <> 30000 \
                 union all select 'customer', c_w_id, c_id from @.customer \
                 where (c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt) <> (-10, 10, 1, 0) \
                 union all select 'stock', s_w_id, s_i_id from @.stock \
                 where (s_ytd, s_order_cnt, s_remote_cnt) <> (0, 0, 0) \
                 union all select 'order_line', ol_w_id, ol_o_id from @.order_line \
                 where (ol_o_id < 2101) <> (ol_amount = 0) or ol_quantity <> 5 limit {ROWS_MAX}"
            ),
        },
    ];
    checks.iter_mut().for_each(|check| check.sql = schema.fill(&check.sql));
    checks
}

/// A tenth of the rows, within four standard deviations.
fn share(table: &str, condition: &str, n: u64) -> String {
    let (expected, band) = (n as f64 * 0.1, 4.0 * (n as f64 * 0.1 * 0.9).sqrt());
    format!(
        "select '{table}' as table_name, count(*) as counted, {expected}::float8 as expected, {band}::float8 as band \
         from @.{table} where {condition}"
    )
}

fn row_counts(warehouses: u32) -> String {
    let fixed = TABLES.into_iter().filter(|table| {
        matches!(table, Table::Item | Table::Warehouse | Table::District | Table::Customer | Table::Stock)
    });
    let counts: Vec<String> = fixed
        .map(|table| {
            let (name, n) = (table.name(), table.units(warehouses));
            format!(
                "select '{name}' as table_name, {n}::bigint as expected, count(*) as counted from @.{name}"
            )
        })
        .collect();
    format!("select * from ({}) t where counted <> expected", counts.join(" union all "))
}
