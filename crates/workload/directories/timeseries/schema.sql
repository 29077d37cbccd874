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

-- With `partitions = 'day'` only, {n} is the number of a partition: of reading_part1, which takes what is later than all days, and of the
-- days from 2 on.
do $partition$
begin
    if {n} = 1 then
        alter table reading rename to reading_as_one;
        create table reading (like reading_as_one) partition by range (time);
        drop table reading_as_one;
        create table reading_part{n} partition of reading default;
    else
        create table reading_part{n} partition of reading
            for values from (timestamptz '2025-01-01 00:00+00' + ({n} - 2) * interval '24 hours')
            to (timestamptz '2025-01-01 00:00+00' + ({n} - 1) * interval '24 hours');
    end if;
end
$partition$;

-- Drops the days that end so long before the newest reading, and says how many; one client at a time.
create function drop_days(keep integer) returns integer language plpgsql as $drop$
declare
    newest timestamptz;
    day name;
    n_dropped integer := 0;
begin
    if not pg_try_advisory_xact_lock('reading'::regclass::oid::bigint) then
        return 0;
    end if;
    select max(time) into newest from reading;
    for day in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'reading'::regclass and c.relname <> 'reading_part1'
    loop
        if timestamptz '2025-01-01 00:00+00' + (substr(day, 13)::integer - 1) * interval '24 hours'
            <= newest - keep * interval '24 hours'
        then
            execute format('drop table %I', day);
            n_dropped := n_dropped + 1;
        end if;
    end loop;
    return n_dropped;
end
$drop$;
