alter table reading add primary key (host_id, time);
create index reading_time on reading (time);
