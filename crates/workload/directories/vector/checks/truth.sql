select question_id, count(*) as neighbours
from truth
group by question_id
having count(*) <> 10
limit 100;
