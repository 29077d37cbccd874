delete from reading
where ctid = any (array(select ctid from reading order by time limit 1000 for update skip locked));
