select w_id, w_ytd, sum(d_ytd) as of_districts
from warehouse join district on d_w_id = w_id
group by w_id, w_ytd
having w_ytd <> sum(d_ytd)
limit 100;
