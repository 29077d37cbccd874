select id, body ->> 'placed' as placed
from document
where body @> :wanted::jsonb
limit 20;
