select sum(ol_amount) as revenue
from order_line, item
where (ol_i_id = i_id and i_data like '%' || :letter::text and ol_quantity between 1 and 5 and i_price between 1 and 40 and ol_w_id = :w::integer)
   or (ol_i_id = i_id and i_data like :letter::text || '%' and ol_quantity between 1 and 10 and i_price between 1 and 60)
   or (ol_i_id = i_id and i_data like 'pr%' and ol_quantity between 4 and 10 and i_price between 40 and 100 and ol_w_id = :w::integer);
