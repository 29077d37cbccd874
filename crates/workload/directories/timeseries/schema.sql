create table reading (
    time timestamptz not null,
    host_id integer not null,
    cpu_user real not null,
    cpu_system real not null,
    memory_mb integer not null
);
create table hourly (
    host_id integer not null,
    hour timestamptz not null,
    n_readings bigint not null,
    cpu_user_mean double precision not null,
    cpu_user_max real not null,
    primary key (host_id, hour)
);
