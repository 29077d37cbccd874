select host_id, avg(cpu_user) as cpu_user, max(cpu_user) as cpu_user_max
from reading
where time > (select max(time) from reading) - interval '1 hour'
group by host_id
order by cpu_user desc
limit 10;
