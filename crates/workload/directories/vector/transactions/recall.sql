with found as (
    select id from item order by embedding <=> :embedding::vector limit 10)
select count(found.id) as hits, count(*) as wanted
from truth left join found on found.id = truth.item_id
where truth.question_id = :question::bigint \gset
