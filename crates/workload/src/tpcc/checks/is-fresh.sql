-- No row if no transaction has run since the tables were loaded.
select 1 from @.district where d_next_o_id <> 3001
union all select 1 from @.customer where c_payment_cnt <> 1
union all (select 1 from @.orders where o_id = 2101 and o_carrier_id is not null)
limit 1
