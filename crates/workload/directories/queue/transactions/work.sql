\set job_id 0
\set age_ms 0
\set taken 0
begin;
select id as job_id, (extract(epoch from now() - run_at) * 1000)::bigint as age_ms
from job
where run_at <= now()
order by priority desc, run_at
limit 1
for update skip locked \aset
\if :job_id > 0
\set taken 1
\sleep :hold ms
delete from job where id = :job_id;
insert into job_log (job_id) values (:job_id);
\endif
commit;
