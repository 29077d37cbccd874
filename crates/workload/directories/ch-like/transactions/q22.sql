select substr(c_phone, 1, 1) as country, count(*) as numcust, sum(c_balance) as totacctbal
from customer
where substr(c_phone, 1, 1) in (:code1, :code2, :code3)
  and c_balance > (select avg(c_balance) from customer where c_balance > 0.00 and substr(c_phone, 1, 1) in (:code1, :code2, :code3))
  and not exists (select * from orders where o_c_id = c_id and o_w_id = c_w_id and o_d_id = c_d_id and o_entry_d >= date '2024-07-01')
group by substr(c_phone, 1, 1)
order by country;
