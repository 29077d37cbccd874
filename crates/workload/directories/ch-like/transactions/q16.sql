select i_name, substr(i_data, 1, 3) as brand, i_price, count(distinct s_suppkey) as supplier_cnt
from stock, item
where i_id = s_i_id and i_data not like '%' || :letter::text
  and s_suppkey not in (select su_suppkey from supplier where su_comment like '%bad%')
group by i_name, substr(i_data, 1, 3), i_price
order by supplier_cnt desc
limit 100;
