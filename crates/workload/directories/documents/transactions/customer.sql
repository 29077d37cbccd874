select body ->> 'status' as status, count(*), max(body ->> 'placed') as latest
from document
where (body ->> 'customer')::integer = :customer::integer
group by body ->> 'status';
