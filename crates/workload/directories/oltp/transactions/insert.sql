insert into sbtest:t (k, c, pad) values (:k, :c, :pad);
