//! Tables, keys and indexes as HammerDB makes them: column by column the same types and names, so that its own programs
//! run on them. Keys are made after loading, under the names that HammerDB gives them before.

use crate::objects::schema::Schema;
use crate::tpcc::{TABLES, TpccTable};

/// Columns in HammerDB's order.
fn columns(table: TpccTable) -> &'static str {
    match table {
        TpccTable::Item => {
            "i_id int not null, i_im_id int not null, i_name varchar(24) not null, i_price numeric(5,2) not null, \
             i_data varchar(50) not null"
        }
        TpccTable::Warehouse => {
            "w_id int not null, w_name varchar(10) not null, w_street_1 varchar(20) not null, \
             w_street_2 varchar(20) not null, w_city varchar(20) not null, w_state char(2) not null, \
             w_zip char(9) not null, w_tax numeric(4,4) not null, w_ytd numeric(16,2) not null"
        }
        TpccTable::District => {
            "d_w_id int not null, d_next_o_id int not null, d_id smallint not null, d_ytd numeric(12,2) not null, \
             d_tax numeric(4,4) not null, d_name varchar(10) not null, d_street_1 varchar(20) not null, \
             d_street_2 varchar(20) not null, d_city varchar(20) not null, d_state char(2) not null, \
             d_zip char(9) not null"
        }
        TpccTable::Customer => {
            "c_since timestamptz not null, c_id int not null, c_w_id int not null, c_d_id smallint not null, \
             c_payment_cnt smallint not null, c_delivery_cnt smallint not null, c_first varchar(16) not null, \
             c_middle char(2) not null, c_last varchar(16) not null, c_street_1 varchar(20) not null, \
             c_street_2 varchar(20) not null, c_city varchar(20) not null, c_state char(2) not null, \
             c_zip char(9) not null, c_phone char(16) not null, c_credit char(2) not null, \
             c_credit_lim numeric(12,2) not null, c_discount numeric(4,4) not null, c_balance numeric(12,2) not null, \
             c_ytd_payment numeric(12,2) not null, c_data varchar(500) not null"
        }
        TpccTable::History => {
            "h_date timestamptz not null, h_c_id int, h_c_w_id int not null, h_w_id int not null, \
             h_c_d_id smallint not null, h_d_id smallint not null, h_amount numeric(6,2) not null, \
             h_data varchar(24) not null"
        }
        TpccTable::Stock => {
            "s_i_id int not null, s_w_id int not null, s_ytd int not null, s_quantity smallint not null, \
             s_order_cnt smallint not null, s_remote_cnt smallint not null, s_dist_01 char(24) not null, \
             s_dist_02 char(24) not null, s_dist_03 char(24) not null, s_dist_04 char(24) not null, \
             s_dist_05 char(24) not null, s_dist_06 char(24) not null, s_dist_07 char(24) not null, \
             s_dist_08 char(24) not null, s_dist_09 char(24) not null, s_dist_10 char(24) not null, \
             s_data varchar(50) not null"
        }
        TpccTable::Orders => {
            "o_entry_d timestamptz not null, o_id int not null, o_w_id int not null, o_c_id int not null, \
             o_d_id smallint not null, o_carrier_id smallint, o_ol_cnt smallint not null, \
             o_all_local smallint not null"
        }
        TpccTable::NewOrder => "no_w_id int not null, no_o_id int not null, no_d_id smallint not null",
        TpccTable::OrderLine => {
            "ol_delivery_d timestamptz, ol_o_id int not null, ol_w_id int not null, ol_i_id int not null, \
             ol_supply_w_id int not null, ol_d_id smallint not null, ol_number smallint not null, \
             ol_quantity smallint not null, ol_amount numeric(6,2), ol_dist_info char(24)"
        }
    }
}

/// The CREATE TABLE statements.
pub fn create_tables(schema: &Schema) -> Vec<String> {
    TABLES.map(|table| format!("create table {} ({})", schema.sql_name(table.name()), columns(table))).into()
}

/// The primary keys, by HammerDB's names; that of stock begins with the item.
pub fn primary_keys(schema: &Schema) -> Vec<(TpccTable, String)> {
    [
        (TpccTable::Item, "i_id"),
        (TpccTable::Warehouse, "w_id"),
        (TpccTable::District, "d_w_id, d_id"),
        (TpccTable::Customer, "c_w_id, c_d_id, c_id"),
        (TpccTable::Stock, "s_i_id, s_w_id"),
        (TpccTable::Orders, "o_w_id, o_d_id, o_id"),
        (TpccTable::NewOrder, "no_w_id, no_d_id, no_o_id"),
        (TpccTable::OrderLine, "ol_w_id, ol_d_id, ol_o_id, ol_number"),
    ]
    .map(|(table, key)| {
        let name = table.name();
        (table, schema.fill(&format!("alter table @.{name} add constraint {name}_i1 primary key ({key})")))
    })
    .into()
}

/// The indexes other than primary keys. An index is in the schema of its table.
pub fn indexes(schema: &Schema) -> Vec<(TpccTable, String)> {
    [
        (
            TpccTable::Customer,
            "create unique index customer_i2 on @.customer (c_w_id, c_d_id, c_last, c_first, c_id)",
        ),
        (TpccTable::Orders, "create unique index orders_i2 on @.orders (o_w_id, o_d_id, o_c_id, o_id)"),
    ]
    .map(|(table, sql)| (table, schema.fill(sql)))
    .into()
}

/// The COPY of rows in the order in which [`crate::tpcc::TpccRows`] has their columns.
pub fn copy_statement(schema: &Schema, table: TpccTable) -> String {
    let columns = match table {
        TpccTable::Item => "i_id, i_im_id, i_name, i_price, i_data",
        TpccTable::Warehouse => "w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd",
        TpccTable::District => {
            "d_id, d_w_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd, d_next_o_id"
        }
        TpccTable::Customer => {
            "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
             c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, \
             c_data"
        }
        TpccTable::History => "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data",
        TpccTable::Stock => {
            "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, \
             s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data"
        }
        TpccTable::Orders => "o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local",
        TpccTable::NewOrder => "no_o_id, no_d_id, no_w_id",
        TpccTable::OrderLine => {
            "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, \
             ol_dist_info"
        }
    };
    format!("copy {} ({columns}) from stdin with (freeze on)", schema.sql_name(table.name()))
}
