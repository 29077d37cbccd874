begin;
update sbtest:t1 set k = k + 1 where id = :u1;
update sbtest:t2 set c = :c1 where id = :u2;
delete from sbtest:t3 where id = :u3;
insert into sbtest:t3 (id, k, c, pad) values (:u3, :k, :c2, :pad);
commit;
