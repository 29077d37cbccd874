insert into truth (question_id, item_id, distance)
select question.id, nearest.id, nearest.distance
from question cross join lateral (
    select item.id, item.embedding <=> question.embedding as distance
    from item
    order by item.embedding <=> question.embedding
    limit 10) as nearest;
alter table item add primary key (id);
create index item_embedding on item using hnsw (embedding vector_cosine_ops);
alter table question add primary key (id);
alter table truth add primary key (question_id, item_id);
