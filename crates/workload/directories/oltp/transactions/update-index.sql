update sbtest:t set k = k + 1 where id = :u;
