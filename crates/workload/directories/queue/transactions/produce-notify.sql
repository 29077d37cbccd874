begin;
insert into job (queue, priority, payload) values (:queue, :priority, :payload);
select pg_notify('job_ready', :queue);
commit;
