insert into hourly (host_id, hour, n_readings, cpu_user_mean, cpu_user_max)
select host_id, date_trunc('hour', time), count(*), avg(cpu_user), max(cpu_user)
from reading
where host_id = :host and time >= date_trunc('hour', (select max(time) from reading))
group by host_id, date_trunc('hour', time)
on conflict (host_id, hour) do update
set n_readings = excluded.n_readings, cpu_user_mean = excluded.cpu_user_mean, cpu_user_max = excluded.cpu_user_max;
