update sbtest:t set c = :c where id = :u;
