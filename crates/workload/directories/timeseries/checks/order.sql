select time, previous
from (select time, lag(time) over (order by tableoid, ctid) as previous from reading) as r
where time < previous
limit 100;
