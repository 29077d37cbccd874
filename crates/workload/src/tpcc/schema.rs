//! Tables, keys and indexes (clauses 1.3 and 1.4).
//!
//! Types follow clause 1.3; identifiers that fit are `int` or `smallint`, amounts are `numeric`. Primary keys are
//! those of the specification; two more indexes serve the search by last name and a customer's last order.

use super::{TABLES, TpccTable};
use crate::objects::schema::Schema;

const ADDRESS: &str = "_street_1 varchar(20) not null, {}_street_2 varchar(20) not null, {}_city varchar(20) not null, \
     {}_state char(2) not null, {}_zip char(9) not null";

fn address(prefix: &str) -> String {
    format!("{prefix}{}", ADDRESS.replace("{}", prefix))
}

/// The columns of a table, in the order in which rows are copied.
fn columns(table: TpccTable) -> String {
    match table {
        TpccTable::Item => "i_id int not null, i_im_id int not null, i_name varchar(24) not null, \
             i_price numeric(5,2) not null, i_data varchar(50) not null"
            .to_owned(),
        TpccTable::Warehouse => format!(
            "w_id int not null, w_name varchar(10) not null, {}, w_tax numeric(4,4) not null, \
             w_ytd numeric(12,2) not null",
            address("w")
        ),
        TpccTable::District => format!(
            "d_id smallint not null, d_w_id int not null, d_name varchar(10) not null, {}, \
             d_tax numeric(4,4) not null, d_ytd numeric(12,2) not null, d_next_o_id int not null",
            address("d")
        ),
        TpccTable::Customer => format!(
            "c_id int not null, c_d_id smallint not null, c_w_id int not null, c_first varchar(16) not null, \
             c_middle char(2) not null, c_last varchar(16) not null, {}, c_phone char(16) not null, \
             c_since timestamptz not null, c_credit char(2) not null, c_credit_lim numeric(12,2) not null, \
             c_discount numeric(4,4) not null, c_balance numeric(12,2) not null, \
             c_ytd_payment numeric(12,2) not null, c_payment_cnt int not null, c_delivery_cnt int not null, \
             c_data varchar(500) not null",
            address("c")
        ),
        TpccTable::History => "h_c_id int not null, h_c_d_id smallint not null, h_c_w_id int not null, \
             h_d_id smallint not null, h_w_id int not null, h_date timestamptz not null, \
             h_amount numeric(6,2) not null, h_data varchar(24) not null"
            .to_owned(),
        TpccTable::Stock => {
            let districts: String = (1..=10).map(|d| format!("s_dist_{d:02} char(24) not null, ")).collect();
            format!(
                "s_i_id int not null, s_w_id int not null, s_quantity smallint not null, {districts}\
                 s_ytd bigint not null, s_order_cnt int not null, s_remote_cnt int not null, \
                 s_data varchar(50) not null"
            )
        }
        TpccTable::Orders => {
            "o_id int not null, o_d_id smallint not null, o_w_id int not null, o_c_id int not null, \
             o_entry_d timestamptz not null, o_carrier_id smallint, o_ol_cnt smallint not null, \
             o_all_local smallint not null"
                .to_owned()
        }
        TpccTable::NewOrder => {
            "no_o_id int not null, no_d_id smallint not null, no_w_id int not null".to_owned()
        }
        TpccTable::OrderLine => "ol_o_id int not null, ol_d_id smallint not null, ol_w_id int not null, \
             ol_number smallint not null, ol_i_id int not null, ol_supply_w_id int not null, \
             ol_delivery_d timestamptz, ol_quantity smallint not null, ol_amount numeric(6,2) not null, \
             ol_dist_info char(24) not null"
            .to_owned(),
    }
}

/// The CREATE TABLE statements.
pub fn create_tables(schema: &Schema) -> Vec<String> {
    TABLES.map(|table| format!("create table {} ({})", schema.sql_name(table.name()), columns(table))).into()
}

/// The primary keys, to be created after loading. HISTORY has none (clause 1.3).
pub fn primary_keys(schema: &Schema) -> Vec<(TpccTable, String)> {
    [
        (TpccTable::Item, "i_id"),
        (TpccTable::Warehouse, "w_id"),
        (TpccTable::District, "d_w_id, d_id"),
        (TpccTable::Customer, "c_w_id, c_d_id, c_id"),
        (TpccTable::Stock, "s_w_id, s_i_id"),
        (TpccTable::Orders, "o_w_id, o_d_id, o_id"),
        (TpccTable::NewOrder, "no_w_id, no_d_id, no_o_id"),
        (TpccTable::OrderLine, "ol_w_id, ol_d_id, ol_o_id, ol_number"),
    ]
    .map(|(table, key)| {
        (table, format!("alter table {} add primary key ({key})", schema.sql_name(table.name())))
    })
    .into()
}

/// The indexes other than primary keys, created after loading. An index is in the schema of its table.
pub fn indexes(schema: &Schema) -> Vec<(TpccTable, String)> {
    [
        (TpccTable::Customer, "create index customer_name on @.customer (c_w_id, c_d_id, c_last, c_first)"),
        (TpccTable::Orders, "create unique index orders_customer on @.orders (o_w_id, o_d_id, o_c_id, o_id)"),
    ]
    .map(|(table, sql)| (table, schema.fill(sql)))
    .into()
}

/// The COPY that loads a table. `freeze` needs the table to be created or truncated in the same transaction.
pub fn copy_statement(schema: &Schema, table: TpccTable, freeze: bool) -> String {
    let options = if freeze { " with (freeze on)" } else { "" };
    format!("copy {} from stdin{options}", schema.sql_name(table.name()))
}
