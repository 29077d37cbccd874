//! The SQL of the transactions when each statement is sent by itself. `:name` is a value of `parameter.rs`, `@.` the
//! schema; the order of a list is that of the steps in the transaction's own file.

/// Clause 2.4.2.2. Rows of ITEM are read and rows of ORDER-LINE written all at once, rows of STOCK changed one by one.
pub(crate) const NEW_ORDER: [&str; 11] = [
    "begin",
    "select w_tax from @.warehouse where w_id = :w_id",
    "update @.district set d_next_o_id = d_next_o_id + 1 where d_w_id = :w_id and d_id = :d_id \
     returning d_next_o_id - 1, d_tax",
    "select c_discount, c_last, c_credit from @.customer \
     where c_w_id = :w_id and c_d_id = :d_id and c_id = :c_id",
    "insert into @.orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
     values (:o_id, :d_id, :w_id, :c_id, current_timestamp, null, :o_ol_cnt, :o_all_local)",
    "insert into @.new_order (no_o_id, no_d_id, no_w_id) values (:o_id, :d_id, :w_id)",
    "select i_id, i_price, i_name, i_data from @.item where i_id = any (:ol_i_ids::int[])",
    "update @.stock set s_quantity = case when s_quantity >= :ol_quantity + 10 then s_quantity - :ol_quantity \
     else s_quantity - :ol_quantity + 91 end, s_ytd = s_ytd + :ol_quantity, s_order_cnt = s_order_cnt + 1, \
     s_remote_cnt = s_remote_cnt + :is_remote where s_w_id = :ol_supply_w_id and s_i_id = :ol_i_id \
     returning s_quantity, s_data, case :d_id::int when 1 then s_dist_01 when 2 then s_dist_02 \
     when 3 then s_dist_03 when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 \
     when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09 else s_dist_10 end",
    "insert into @.order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, \
     ol_quantity, ol_amount, ol_dist_info) select :o_id::int, :d_id::int, :w_id::int, l.number, l.i_id, l.supply_w_id, \
     null, l.quantity, l.amount, l.dist_info from unnest(:ol_numbers::int[], :ol_i_ids::int[], \
     :ol_supply_w_ids::int[], :ol_quantities::int[], :ol_amounts::numeric[], :ol_dist_infos::text[]) \
     as l (number, i_id, supply_w_id, quantity, amount, dist_info)",
    "commit",
    "rollback",
];

/// Clause 2.5.2.2. One update of the customer serves good and bad credit. C_DATA changes only with `BC`: the payment is
/// put before as much of the old text as fits.
pub(crate) const PAYMENT: [&str; 7] = [
    "begin",
    "update @.warehouse set w_ytd = w_ytd + :h_amount where w_id = :w_id \
     returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    "update @.district set d_ytd = d_ytd + :h_amount where d_w_id = :w_id and d_id = :d_id \
     returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    "select c_id from @.customer where c_w_id = :c_w_id and c_d_id = :c_d_id and c_last = :c_last \
     order by c_first, c_id",
    "update @.customer set c_balance = c_balance - :h_amount, c_ytd_payment = c_ytd_payment + :h_amount, \
     c_payment_cnt = c_payment_cnt + 1, c_data = case when c_credit = 'BC' then left(concat_ws(' ', c_id, c_d_id, \
     c_w_id, :d_id::int, :w_id::int, :h_amount::numeric(6,2)) || ' ' || c_data, 500) else c_data end \
     where c_w_id = :c_w_id and c_d_id = :c_d_id and c_id = :c_id \
     returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, \
     c_credit_lim, c_discount, c_balance, case when c_credit = 'BC' then left(c_data, 200) end",
    "insert into @.history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
     values (:c_id, :c_d_id, :c_w_id, :d_id, :w_id, current_timestamp, :h_amount, :h_data)",
    "commit",
];

/// Clause 2.6.2.2.
pub(crate) const ORDER_STATUS: [&str; 6] = [
    "begin",
    "select c_id, c_balance, c_first, c_middle, c_last from @.customer \
     where c_w_id = :c_w_id and c_d_id = :c_d_id and c_last = :c_last order by c_first, c_id",
    "select c_balance, c_first, c_middle, c_last from @.customer \
     where c_w_id = :c_w_id and c_d_id = :c_d_id and c_id = :c_id",
    "select o_id, o_entry_d, o_carrier_id from @.orders \
     where o_w_id = :c_w_id and o_d_id = :c_d_id and o_c_id = :c_id order by o_id desc limit 1",
    "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from @.order_line \
     where ol_w_id = :c_w_id and ol_d_id = :c_d_id and ol_o_id = :o_id",
    "commit",
];

/// Clause 2.7.4.2.
pub(crate) const DELIVERY: [&str; 7] = [
    "begin",
    "select no_o_id from @.new_order where no_w_id = :w_id and no_d_id = :d_id order by no_o_id limit 1",
    "delete from @.new_order where no_w_id = :w_id and no_d_id = :d_id and no_o_id = :o_id returning no_o_id",
    "update @.orders set o_carrier_id = :o_carrier_id where o_w_id = :w_id and o_d_id = :d_id and o_id = :o_id \
     returning o_c_id",
    "update @.order_line set ol_delivery_d = current_timestamp \
     where ol_w_id = :w_id and ol_d_id = :d_id and ol_o_id = :o_id returning ol_amount",
    "update @.customer set c_balance = c_balance + :ol_amount, c_delivery_cnt = c_delivery_cnt + 1 \
     where c_w_id = :w_id and c_d_id = :d_id and c_id = :c_id",
    "commit",
];

/// Clause 2.8.2.2.
pub(crate) const STOCK_LEVEL: [&str; 4] = [
    "begin",
    "select d_next_o_id from @.district where d_w_id = :w_id and d_id = :d_id",
    "select count(distinct s_i_id) from @.order_line join @.stock on s_w_id = ol_w_id and s_i_id = ol_i_id \
     where ol_w_id = :w_id and ol_d_id = :d_id and ol_o_id < :o_id and ol_o_id >= :o_id - 20 \
     and s_quantity < :threshold",
    "commit",
];
