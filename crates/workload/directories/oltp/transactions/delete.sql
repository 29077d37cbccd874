delete from sbtest:t where id = :u;
