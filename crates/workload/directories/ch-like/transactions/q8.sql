select extract(year from o_entry_d) as l_year, sum(case when n2.n_name = :nation then ol_amount else 0 end) / sum(ol_amount) as mkt_share
from item, supplier, stock, order_line, orders, customer, nation n1, nation n2, region
where i_id = s_i_id and ol_i_id = s_i_id and ol_w_id = s_w_id and s_suppkey = su_suppkey
  and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
  and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
  and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = :region
  and su_nationkey = n2.n_nationkey and i_data like '%' || :letter::text
group by l_year
order by l_year;
