select date_trunc('minute', time) as minute, avg(cpu_user) as cpu_user, max(cpu_system) as cpu_system, min(memory_mb) as memory_mb
from reading
where host_id = :host and time > (select max(time) from reading) - interval '1 hour'
group by minute
order by minute;
