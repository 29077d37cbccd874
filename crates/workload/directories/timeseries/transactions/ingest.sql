insert into reading (time, host_id, cpu_user, cpu_system, memory_mb)
select * from unnest(:times::timestamptz[], :host_ids::integer[], :users::real[], :systems::real[], :memories::integer[]);
