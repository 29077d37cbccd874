create table region (r_regionkey integer not null, r_name char(25) not null);
create table nation (n_nationkey integer not null, n_name char(25) not null, n_regionkey integer not null);
create table supplier (
    su_suppkey integer not null, su_name char(25) not null, su_nationkey integer not null, su_phone char(15) not null,
    su_acctbal numeric(12,2) not null, su_comment varchar(101) not null);
create table warehouse (w_id integer not null, w_name varchar(10) not null, w_tax numeric(4,4) not null, w_ytd numeric(14,2) not null);
create table district (
    d_id integer not null, d_w_id integer not null, d_name varchar(10) not null, d_tax numeric(4,4) not null,
    d_ytd numeric(14,2) not null, d_next_o_id integer not null);
create table item (i_id integer not null, i_name varchar(24) not null, i_price numeric(5,2) not null, i_data varchar(50) not null);
create table stock (
    s_i_id integer not null, s_w_id integer not null, s_suppkey integer not null, s_quantity integer not null, s_dist char(24) not null,
    s_ytd integer not null, s_order_cnt integer not null, s_data varchar(50) not null);
create table customer (
    c_id integer not null, c_d_id integer not null, c_w_id integer not null, c_nationkey integer not null, c_last varchar(16) not null,
    c_city varchar(20) not null, c_phone char(16) not null, c_since timestamptz not null, c_credit char(2) not null,
    c_discount numeric(4,4) not null, c_balance numeric(12,2) not null, c_ytd_payment numeric(14,2) not null,
    c_payment_cnt integer not null, c_delivery_cnt integer not null, c_data varchar(500) not null);
create table history (
    h_c_id integer not null, h_c_d_id integer not null, h_c_w_id integer not null, h_date timestamptz not null, h_amount numeric(6,2) not null);
create table orders (
    o_id integer not null, o_d_id integer not null, o_w_id integer not null, o_c_id integer not null, o_entry_d timestamptz not null,
    o_carrier_id integer, o_ol_cnt integer not null);
create table order_line (
    ol_o_id integer not null, ol_d_id integer not null, ol_w_id integer not null, ol_number integer not null, ol_i_id integer not null,
    ol_delivery_d timestamptz, ol_quantity integer not null, ol_amount numeric(8,2) not null);
create table new_order (no_o_id integer not null, no_d_id integer not null, no_w_id integer not null);
