with oldest as (
    select no_d_id as d_id, min(no_o_id) as o_id
    from new_order
    where no_w_id = :w::integer
    group by no_d_id
), taken as (
    delete from new_order using oldest
    where no_w_id = :w::integer and no_d_id = oldest.d_id and no_o_id = oldest.o_id
    returning no_d_id as d_id, no_o_id as o_id
), carried as (
    update orders set o_carrier_id = :carrier::integer from taken
    where o_w_id = :w::integer and o_d_id = taken.d_id and orders.o_id = taken.o_id
    returning taken.d_id, taken.o_id, o_c_id as c_id
), delivered as (
    update order_line set ol_delivery_d = now() from carried
    where ol_w_id = :w::integer and ol_d_id = carried.d_id and ol_o_id = carried.o_id
    returning carried.d_id, carried.c_id, ol_amount
), owed as (
    select d_id, c_id, sum(ol_amount) as amount from delivered group by d_id, c_id
)
update customer set c_balance = c_balance + owed.amount, c_delivery_cnt = c_delivery_cnt + 1
from owed
where c_w_id = :w::integer and c_d_id = owed.d_id and customer.c_id = owed.c_id;
