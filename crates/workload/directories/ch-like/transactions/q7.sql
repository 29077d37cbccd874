select su_nationkey as supp_nation, c_nationkey as cust_nation, extract(year from o_entry_d) as l_year, sum(ol_amount) as revenue
from supplier, stock, order_line, orders, customer, nation n1, nation n2
where ol_w_id = s_w_id and ol_i_id = s_i_id and s_suppkey = su_suppkey
  and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
  and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
  and su_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
  and ((n1.n_name = :nation1 and n2.n_name = :nation2) or (n1.n_name = :nation2 and n2.n_name = :nation1))
group by su_nationkey, c_nationkey, l_year
order by su_nationkey, c_nationkey, l_year;
