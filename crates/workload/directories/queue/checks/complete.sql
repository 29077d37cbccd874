select waiting, done, :rows_job + :committed_produce + :committed_produce_notify as produced
from (select count(*) as waiting from job) as w, (select count(*) as done from job_log) as d
where waiting + done < :rows_job + :committed_produce + :committed_produce_notify
   or waiting + done > :rows_job + :committed_produce + :committed_produce_notify + :unknown_produce + :unknown_produce_notify;
